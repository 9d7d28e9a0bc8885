"""What columns mean, found from their cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.data import TableTransformer
from dssl.data.columns import Column
from dssl.data.meaning import find_columns
from dssl.data.tables import Table
from dssl.errors import DataError


def table(**columns: Any) -> Table:
    return Table(Path("d.csv"), "CSV", pl.DataFrame(columns, strict=False), first=2)


def found(values: Any, categorical: bool = False) -> Column:
    return find_columns(table(c=values), ["c"], ["c"] if categorical else [])[0]


WEEKDAY = ["c: weekday, sine", "c: weekday, cosine"]
HOUR = ["c: hour", "c: hour, sine", "c: hour, cosine"]


@pytest.mark.parametrize(
    ("values", "kind", "inputs"),
    [
        (["1", "2.5", "1"], "numeric", ["c"]),
        (["1", "", "3"], "numeric", ["c", "c is missing"]),
        (["1", "NA", "?"], "numeric", ["c", "c is missing"]),
        ([1.0, float("nan"), 2.0], "numeric", ["c", "c is missing"]),
        (["yes", "No", "yes"], "boolean", ["c"]),
        ([True, None, False], "boolean", ["c", "c is missing"]),
        (["red", "blue", "red"], "categorical", ["c=blue", "c=red"]),
        (["red", None, "blue", "red"], "categorical", ["c=blue", "c=red", "c is missing"]),
        (["1", "a", "1", "a"], "categorical", ["c=1", "c=a"]),
        (["Y", "n", "y"], "boolean", ["c"]),
        (["ja", "nein", "-"], "boolean", ["c", "c is missing"]),
        (["1,5", "2,25", "3"], "numeric", ["c"]),
        (["1.234,5", "2.000", "12"], "numeric", ["c"]),
        (["€ 5", "€ 7,50", "n.a."], "numeric", ["c", "c is missing"]),
        (["12 kg", "13 kg", "12.5 kg"], "numeric", ["c"]),
        (["01069", "10115", "01069", "10115"], "categorical", ["c=01069", "c=10115"]),
        (
            ["2020-01-02", "2022-03-04", "2022-03-05"],
            "date",
            ["c: age in days", "c: month, sine", "c: month, cosine", "c: day", "c: weekend", *WEEKDAY],
        ),
        (["1.2.2020", "1.2.2021", None], "date", ["c: age in days", "c: weekend", *WEEKDAY, "c is missing"]),
        (["26-FEB-1987 15:01:01.79", "28-FEB-1987 16:02:00.00"], "date", ["c: age in days", *HOUR]),
        (pl.Series([1, 2, 30]).cast(pl.Date), "date", ["c: age in days", "c: weekend", *WEEKDAY]),
        (["18:45", "9:05", "n/a"], "date", [*HOUR, "c is missing"]),
        (["6:45 pm", "9:05:30 AM", "12:00 am"], "date", HOUR),
        (["A-0012", "A-0013", "A-0012"], "categorical", ["c=A-0012", "c=A-0013"]),
        (pl.Series([1, 2, 2]).cast(pl.Duration("us")), "numeric", ["c"]),
    ],
)
def test_kinds(values: list[Any], kind: str, inputs: list[str]) -> None:
    column = found(values)
    assert (column.kind, list(column.inputs)) == (kind, inputs)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (["a", "a", "a"], "same in every row"),
        ([None, "", "NA"], "no cell has a value"),
        (["1/2/2020", "3/4/2020"], "it is not clear whether '1/2/2020' begins with the day or the month"),
        (["anna", "bert", "cleo"], "every row has a different text"),
        ([f"name {i // 2}" for i in range(402)], "201 different texts are too many"),
        (["4", "5", "6", "7"], "it numbers the rows"),
        ([*range(60, 1, -1)], "it numbers the rows, in another order"),
        ([str(7 * i % 1009) for i in range(200)], "like an identifier"),
        ([f"{i:05}" for i in range(7, 90)], "every row has a different text"),
        ([[1], [2]], "lists and records"),
    ],
)
def test_what_is_left_out_has_a_reason(values: Any, why: str) -> None:
    column = found(values)
    assert (column.kind, column.inputs) == ("left out", ())
    assert why in column.why


def test_fillers_are_the_mean_and_the_most_frequent() -> None:
    assert found(["1", "", "4"]).fill == 2.5
    assert found(["b", "a", "b", ""]).fill == "b"
    assert found(["b", "a", "b", "a", ""]).fill == "a"  # of equals, the first by name
    assert found([True, False, True, True]).fill == 0.75


def test_categories_can_be_asked_for() -> None:
    column = found(["4", "5", "6", "4"], categorical=True)
    assert (column.kind, column.values) == ("categorical", ("4", "5", "6"))
    assert found(["anna", "bert"], categorical=True).kind == "categorical"


def test_a_slip_among_numbers_is_an_error_with_its_place() -> None:
    with pytest.raises(DataError, match=r"line 7: column 'c' holds numbers, but here 'x', and 1 more like it"):
        found([*"12345", "x", *"6" * 30, "y"])
    assert found([*"1234", "x", "y", "x"]).kind == "categorical"
    with pytest.raises(DataError, match=r"line 3: column 'c' holds -inf"):
        found(["1", "-inf", "2"])

    with pytest.raises(DataError, match=r"holds dates, but here '2020-02-31'"):
        found([*(f"2020-01-{d:02}" for d in range(1, 30)), "2020-02-31"])


def test_all_slips_are_listed_up_to_ten() -> None:
    with pytest.raises(DataError) as caught:
        found([*"12345" * 40, *(f"x{i}" for i in range(12))])
    said = str(caught.value).splitlines()
    assert [line.strip() for line in said[1:11]] == [f"line {202 + i}: 'x{i}'" for i in range(10)]
    assert said[11].strip() == "… 12 in all"


def test_numbers_in_two_units_are_refused_and_one_unit_is_not() -> None:
    with pytest.raises(DataError, match=r"numbers in kg, g: '1 kg' in line 2, '300 g' in line 3\nGive all of them in"):
        found(["1 kg", "300 g", "2 kg"])
    assert found(["1 kg", "300 kg", "2"]).unit == "kg"
    assert found(["1a", "300b", "2c", "1a"]).kind == "categorical"  # letters that are no units


@pytest.mark.parametrize(
    ("cells", "beside", "separator", "form", "largest"),
    [
        (["1,234", "5,678"], ["x", "y"], ",", "point", 5678),  # as in English
        (["1,234", "5,678"], ["x", "y"], ";", "comma", 5.678),  # semicolons come with decimal commas
        (["1,234", "5,678"], ["1,5", "2,25"], ",", "comma", 5.678),  # another column tells
        (["1,234", "0,678"], ["x", "y"], ",", "comma", 1.234),  # no thousands begin with 0
        (["1,234", "5,678,000"], ["x", "y"], ";", "point", 5678000),
        (["1.234", "5.678"], ["x", "y"], ",", "", 5.678),
        (["1.234", "5.678"], ["1,5", "2,25"], ";", "comma", 5678),  # points between thousands
        (["1.234", "5.67"], ["1,5", "2,25"], ";", "", 5.67),
    ],
)
def test_commas_and_points(cells: list[str], beside: list[str], separator: str, form: str, largest: float) -> None:
    frame = pl.DataFrame({"c": cells, "d": beside})
    column = find_columns(Table(Path("d.csv"), "CSV", frame, separator=separator), ["c"])[0]
    assert (column.kind, column.form) == ("numeric", form)
    assert column.bounds is not None
    assert column.bounds[1] == largest


def test_unique_numbers_may_be_chance() -> None:
    random = np.random.default_rng(0)
    incomes = pl.Series(random.choice(10**7, 60, replace=False))
    assert found(incomes).kind == "numeric"
    assert find_columns(table(customer_id=incomes), ["customer_id"])[0].kind == "left out"
    assert found(pl.Series(random.normal(size=100))).kind == "numeric"  # no whole numbers


def test_rare_categories_share_an_input_or_have_none() -> None:
    values = ["a"] * 600 + ["b"] * 380 + [f"r{i}" for i in range(20)]
    column = found(values)
    assert column.inputs == ("c=a", "c=b", "c=(other)")
    assert len(column.rare) == 20
    few = found([*values[:980], *["r"] * 3])
    assert (few.inputs, few.rare) == (("c=a", "c=b"), ("r",))  # 3 of 983: 18 standard deviations from the mean
    assert found([*"abab", "r"]).inputs == ("c=a", "c=b", "c=r")  # a handful of rows


def test_many_texts_are_categories_where_some_are_frequent() -> None:
    column = found(["home"] * 300 + [f"place {i}" for i in range(300)])
    assert column.inputs == ("c=home", "c=(other)")


def test_texts_are_told_from_names_and_can_be_asked_for() -> None:
    sentences = [f"the {a} door is {b}" for a in ("red", "old", "new") for b in ("open", "shut", "gone")]
    column = found(sentences)
    assert column.kind == "text"
    assert column.vocabulary is not None
    assert "door" in column.vocabulary.words
    assert found(sentences * 50).kind == "categorical"  # nine texts, again and again
    assert find_columns(table(c=["Anna Smith", "Bert Smith"]), ["c"], text=["c"])[0].kind == "text"


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=3, max_size=20))
def test_numbers_are_numbers_as_text_too(values: list[float | None]) -> None:
    as_numbers = found(pl.Series(values, dtype=pl.Float64))
    as_text = found([None if v is None else repr(v) for v in values])
    assert as_numbers.kind == as_text.kind
    assert as_numbers.fill == as_text.fill
    assert as_numbers.inputs == as_text.inputs


def test_dates_of_several_forms_are_left_out() -> None:
    column = found(["2020-01-02", "2020-01-03", "4.5.2020", None])
    assert column.why == "its dates have several forms, such as '2020-01-02' and '4.5.2020': write them in one"
    assert found(["2020-01", "2020-02", "2022-03"]).form == "year and month"


DIFFERENT = [str(i * 1.5) for i in range(30)]


@pytest.mark.parametrize("word", ["pending", "not measured"])
def test_a_word_that_recurs_among_numbers_says_that_they_are_unknown(word: str) -> None:
    """Few of them were an error, and with many the numbers were taken for categories."""
    for times in (2, 20):
        column = found([*DIFFERENT, *[word] * times])
        assert (column.kind, column.gaps, column.missing) == ("numeric", (word,), times)
        assert column.bounds == (0, 43.5)
    days = [f"2020-01-{day:02}" for day in range(1, 31)]
    assert found([*days, word, word]).gaps == (word,)
    assert found([*DIFFERENT[:5], word, word]).kind == "categorical"  # too few numbers
    assert found([*DIFFERENT * 2, *"ABCD" * 10]).kind == "categorical"  # too many words
    with pytest.raises(DataError, match=f"but here '{word}'"):
        found([*DIFFERENT, word])


def test_what_stands_for_unknown_is_filled_and_flagged() -> None:
    fitted = TableTransformer().fit({"c": [*DIFFERENT, "late", "late"]})
    mean = np.float32(np.mean([float(v) for v in DIFFERENT]))
    assert fitted.transform({"c": ["3", "Late", ""]}).tolist() == [[3, 0], [mean, 1], [mean, 1]]
    nines = TableTransformer().fit({"c": [float(i % 20) for i in range(40)] + [-999.0] * 3})
    expected = [[3, 0], [9.5, 1], [9.5, 1]]
    assert nines.transform({"c": [3.0, -999.0, None]}).tolist() == expected
    assert nines.transform({"c": ["3", "-999", ""]}).tolist() == expected


@pytest.mark.parametrize(
    ("numbers", "gaps"),
    [
        ([*range(40), -999, -999], ("-999",)),
        ([1, 2, 3, 4, 5, 5, 99, 99], ("99",)),
        ([*range(40), *range(40), -999, 999, -999, 999], ("999", "-999")),
        ([*range(40), -999], ()),  # once may be a mistake, or true
        ([*range(60, 110), 99, 99], ()),  # among the others
        ([0, 0, 99, 99], ()),
        ([5, 6, 7, 8, 8, 1000, 1000], ()),
    ],
)
def test_repeated_nines_far_from_all_other_numbers_say_unknown(numbers: list[int], gaps: tuple[str, ...]) -> None:
    column = found(numbers)
    assert set(column.gaps) == set(gaps)
    assert column.flagged == bool(gaps)


@pytest.mark.parametrize(
    ("values", "kind", "inputs"),
    [
        (["1.5k", "900", "2k"], "numeric", ["c"]),
        (["<5", "5", "7", "9"], "numeric", ["c"]),
        (["<=50K", ">50K", ">50K"], "categorical", ["c=<=50K", "c=>50K"]),
        (["3 rooms", "1 room", "2 rooms"], "numeric", ["c"]),
        (["Jan-19", "Feb-20", "Feb-20"], "date", ["c: age in days"]),
        ([20200101 + i for i in range(12)], "date", ["c: age in days"]),
        ([20200101, 20200102, 20200101], "numeric", ["c"]),
        ([20200101 + i for i in range(40)], "left out", []),
        (["wifi, pool", "pool", "wifi", "pool, wifi", "a, wifi", "a, pool"], "several", ["c: a", "c: pool", "c: wifi"]),
        (["['a', 'b']", "['b', 'c']", "[]", "['a', 'c']", "['a', 'b', 'c']"], "several", ["c: a", "c: b", "c: c"]),
        (["Smith, Anna", "Jones, Bert", "Brown, Cleo"], "left out", []),
        (pl.Series(["1", "2", "1"], dtype=pl.Categorical), "categorical", ["c=1", "c=2"]),
        (["950", "1.250", "12.300"], "numeric", ["c"]),
        (["+49 30 1234", "+49 30 1235", "+49 40 1236"], "left out", []),
    ],
)  # fmt: skip
def test_kinds_of_careless_columns(values: Any, kind: str, inputs: list[str]) -> None:
    column = found(values)
    assert (column.kind, list(column.inputs)[:3]) == (kind, inputs)


def test_points_before_three_digits_and_a_nought_are_thousands() -> None:
    """A program that writes 1.250 for a decimal number writes 950.000 for another."""
    assert found(["950", "1.250", "12.300"]).bounds == (950, 12300)
    assert found(["950", "1.255", "12.3"]).bounds == (1.255, 950)
    assert found(["1950", "1.250"]).bounds == (1.25, 1950)


def test_short_texts_are_read_if_their_words_recur() -> None:
    """Names of two words, such as those of people, mostly do not."""
    random = np.random.default_rng(0)
    things = [f"{a} {b}" for a, b in zip(random.choice("red old new big".split(), 300),
                                         random.permutation([*"abcdefghijklmnopqrstuvwxyz"] * 12))]  # fmt: skip
    titles = [f"{thing}{thing[-1]} {i % 7}st" for i, thing in enumerate(things)]
    assert found(titles).kind == "text"
    people = [f"{a} {''.join(b)}" for a, b in zip(random.choice("Anna Bert Cleo".split(), 300),
                                                 random.choice([*"abcdefghij"], (300, 5)))]  # fmt: skip
    assert found(people).kind == "left out"


def test_whole_numbers_that_are_called_codes_are_categories() -> None:
    codes = pl.DataFrame({name: [i % 4 for i in range(60)] for name in ("store_id", "zip", "rooms", "paid")})
    kinds = [column.kind for column in find_columns(Table(Path("X"), "frame", codes), codes.columns)]
    assert kinds == ["categorical", "categorical", "numeric", "numeric"]
    fitted = TableTransformer().fit(codes)
    floats = codes.with_columns(pl.col("store_id").cast(pl.Float64))
    np.testing.assert_array_equal(fitted.transform(floats), fitted.transform(codes))


def test_lists_of_names_are_several_names() -> None:
    lists = pl.Series([["a", "b"], ["b"], ["a", "c"], None, ["a"], ["a", "b", "c", None]])
    frame = pl.DataFrame({"c": lists})
    fitted = TableTransformer().fit(frame)
    assert fitted.columns_[0].kind == "several"
    assert fitted.transform(frame)[5].tolist() == fitted.transform(pl.DataFrame({"c": ["a|b|c"]}))[0].tolist()
