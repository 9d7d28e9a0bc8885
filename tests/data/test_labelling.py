"""Label columns: found by name, by rules or by the format; read, encoded, and refused with their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dssl import LabelSpace
from dssl.data.labelling import Labelling, broken, find_labels, find_separator, label_frame, split
from dssl.data.tables import Table
from dssl.data.transformer import Notes
from dssl.errors import DataError, RuleError


def table(labels: tuple[str, ...] = (), **columns: Any) -> Table:
    return Table(Path("d.csv"), "CSV", pl.DataFrame(columns), labels=labels, first=2)


def rules(folder: Path, text: str) -> Path:
    path = folder / "a.rules"
    path.write_text(text)
    return path


ANIMALS = {"weight": ["1", "2", "3"], "legs": ["1", "0", None], "fins": ["0", "1.0", ""]}


def test_one_column_holds_classes() -> None:
    found = find_labels(table(kind=["cat", "dog", None]), ["kind"], None)
    assert found.space.columns == ("kind=cat", "kind=dog")
    np.testing.assert_array_equal(found.encode(table(kind=["dog", None])), [[0, 1], [np.nan, np.nan]])
    numbers = find_labels(table(digit=["3", "10", "-1", None]), ["digit"], None)
    assert numbers.space.variables[0].values == (3, 10)  # −1 is unknown, as empty cells are
    floats = find_labels(table(digit=[3.0, 10.0, None]), ["digit"], None)
    assert floats.space == numbers.space
    names = find_labels(table(code=["007", "7"]), ["code"], None)
    assert names.space.variables[0].values == ("007", "7")


def test_several_columns_are_variables() -> None:
    found = find_labels(table(**ANIMALS, kind=["cat", "dog", "cat"]), ["legs", "fins", "kind"], None)
    assert str(found.space) == "legs, fins\nkind: {cat, dog}\n"
    assert found.encode(table(**ANIMALS))[1].tolist()[:2] == [0, 1]


def test_rules_find_their_columns(tmp_path: Path) -> None:
    file = rules(tmp_path, "legs, fins, wings\nlegs -> !fins\n")
    found = find_labels(table(**ANIMALS), None, file)
    assert (found.columns, found.space.count()) == (("legs", "fins"), 6)
    unlabelled = found.encode(table(weight=["1"]))
    assert np.isnan(unlabelled).all()


def test_rules_may_leave_declaring_to_the_columns(tmp_path: Path) -> None:
    file = rules(tmp_path, "legs -> !fins\n")
    assert find_labels(table(**ANIMALS), ["legs", "fins"], file).space.count() == 3
    with pytest.raises(RuleError, match=r"a\.rules', line 1, column 1: 'legs' is not declared"):
        find_labels(table(**ANIMALS), None, file)


def test_one_label_may_be_called_otherwise(tmp_path: Path) -> None:
    file = rules(tmp_path, "species: {cat, dog}\nspecies != dog\n")
    found = find_labels(table(kind=["cat", None]), ["kind"], file)
    assert (found.columns, found.names) == (("kind",), ("species",))
    assert found.read(table(kind=["cat"])).to_dicts() == [{"species": "cat"}]


def test_arrays_follow_the_order_of_the_rules(tmp_path: Path) -> None:
    file = rules(tmp_path, "legs, fins\nlegs -> !fins\n")
    found = find_labels(table(("y0", "y1"), x0=[1.0], y0=[1], y1=[0]), None, file)
    assert (found.columns, found.names) == (("y0", "y1"), ("legs", "fins"))


def test_minus_one_is_a_value_where_it_is_declared() -> None:
    found = Labelling(("shift",), ("shift",), LabelSpace("shift: -1..1"))
    np.testing.assert_array_equal(found.encode(table(shift=["-1", "0"])), [[1, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (None, "it is not clear which column of 'd.csv' is the label"),
        (["leg"], r"has no column 'leg' \(--label\)\nDid you mean 'legs'\?"),
        (["same"], "every label in column 'same' is 1"),
        (["none"], "the label column 'none' is empty"),
    ],
)
def test_labels_that_cannot_be(label: list[str] | None, said: str) -> None:
    with pytest.raises(DataError, match=said):
        find_labels(table(**ANIMALS, same=["1"] * 3, none=pl.Series([None] * 3, dtype=pl.String)), label, None)


def test_rules_about_something_else(tmp_path: Path) -> None:
    file = rules(tmp_path, "paws, claws\n")
    with pytest.raises(DataError, match=r"is about paws, claws, and 'd.csv' has no such column"):
        find_labels(table(**ANIMALS), None, file)
    with pytest.raises(DataError, match=r"and not about the label column 'legs'"):
        find_labels(table(**ANIMALS), ["legs", "fins"], file)


def test_an_entry_that_fits_no_value_is_named_with_its_place() -> None:
    found = Labelling(("kind",), ("kind",), LabelSpace("kind: {cat, dog}"))
    with pytest.raises(DataError) as caught:
        found.encode(table(kind=["cat", None, "dgo"]))
    assert str(caught.value) == (
        "'d.csv', line 4, column 'kind': 'kind' cannot be 'dgo'\n"
        "Did you mean 'dog'? Allowed: cat, dog; empty for unknown."
    )


def test_broken_rules_are_told_by_lines_of_the_file() -> None:
    space = LabelSpace("legs, fins\nlegs -> !fins")
    found = space.check([[0, 1], [1, 1], [1, 1]])
    assert broken(found, table(**ANIMALS), np.array([5, 7, 9])) == (
        "'d.csv': the labels of 2 of 3 rows break the rules\n  line 2: legs -> !fins\n    line 9, line 11"
    )


def test_label_frames_are_typed() -> None:
    frame = label_frame(table(a=["1", "0", None], b=["x", None, "y"], c=["1.0", "2.0", "3"]), ["a", "b", "c"])
    assert frame.to_dict(as_series=False) == {"a": [1, 0, None], "b": ["x", None, "y"], "c": [1, 2, 3]}


# ---- several names in a cell ----

TOPICS = ["wheat corn", "corn", "wheat", "oil", None, "corn oil", "[]", "oil wheat"]


def test_cells_may_hold_several_names() -> None:
    found = find_labels(table(topics=TOPICS), ["topics"], None)
    assert (found.separator, found.columns, found.names) == (" ", ("topics",), ("corn", "oil", "wheat"))
    none = [np.nan] * 3
    rows = [[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0], none, [1, 1, 0], [0, 0, 0], [0, 1, 1]]
    np.testing.assert_array_equal(found.encode(table(topics=TOPICS)), rows)
    frame = found.read(table(topics=TOPICS))
    assert frame.row(0) == (1, 0, 1)
    assert frame.row(4) == (None, None, None)
    np.testing.assert_array_equal(found.space.encode(frame), rows)


@pytest.mark.parametrize("separator", [";", ",", " "])
def test_separators_are_found(separator: str) -> None:
    cells = [separator.join(names.split()) if names and names != "[]" else names for names in TOPICS]
    assert find_separator(pl.Series(cells)) == separator
    assert split(f"a{separator} b{separator}", separator) == ["a", "b"]


def test_names_with_spaces_are_names() -> None:
    assert find_separator(pl.Series(["New York", "Berlin", "New Delhi", "San Jose"])) is None
    assert find_separator(pl.Series(["dark red", "red", "dark"])) is None  # one cell proves nothing
    asked = find_labels(table(topics=TOPICS), ["topics"], None, "")
    assert asked.separator is None
    assert len(asked.space.variables[0].values) == 7
    given = find_labels(table(topics=["a/b", "b/c", "c/a"]), ["topics"], None, "/")
    assert given.names == ("a", "b", "c")
    with pytest.raises(DataError, match="--label-separator is for one label column, and there are 2"):
        find_labels(table(**ANIMALS), ["legs", "fins"], None, ";")


def test_rules_about_names_in_cells(tmp_path: Path) -> None:
    found = find_labels(table(topics=TOPICS), ["topics"], rules(tmp_path, "wheat -> corn"))
    assert found.space.count() == 6
    declared = rules(tmp_path, "corn, grain, oil, wheat\nwheat -> grain\n")
    assert find_labels(table(topics=TOPICS), ["topics"], declared).names == ("corn", "grain", "oil", "wheat")
    single = find_labels(table(topics=["corn", "oil", None]), ["topics"], declared)
    np.testing.assert_array_equal(single.encode(table(topics=["corn"])), [[1, 0, 0, 0]])


def test_a_name_that_is_not_known_is_listed_with_its_place() -> None:
    found = find_labels(table(topics=TOPICS), ["topics"], None)
    with pytest.raises(DataError, match=r"line 3, column 'topics': 'topics' cannot be 'whaet'\nDid you mean 'wheat'\?"):
        found.encode(table(topics=["oil", "corn whaet"]))


def test_rules_are_learned_from_names_in_cells() -> None:
    assert label_frame(table(topics=TOPICS), ["topics"]).columns == ["corn", "oil", "wheat"]


# ---- names, values and slips ----


def test_columns_are_found_despite_spaces_and_capitals(tmp_path: Path) -> None:
    file = rules(tmp_path, "item: {a, b}\nprice: {low, high}\n")
    given = table(**{"Item ": ["a", "b"], "PRICE": ["low", "high"], "x": ["1", "2"]})
    found = find_labels(given, None, file)
    assert (found.columns, found.names) == (("Item ", "PRICE"), ("item", "price"))
    assert find_labels(given, ["item"], None).columns == ("Item ",)
    with pytest.raises(DataError, match=r"several columns named like 'item' of .*: 'Item ', 'ITEM'\nRename one"):
        find_labels(table(**{"Item ": ["a"], "ITEM": ["b"]}), None, file)
    with pytest.raises(DataError, match=r"several columns named like 'item': 'Item ', 'ITEM'\nName one of them"):
        find_labels(table(**{"Item ": ["a"], "ITEM": ["b"]}), ["item"], None)


def test_all_bad_cells_are_listed_up_to_ten() -> None:
    found = Labelling(("kind",), ("kind",), LabelSpace("kind: {cat, dog}"))
    with pytest.raises(DataError) as caught:
        found.encode(table(kind=["cat", *["dgo", "cta"] * 6]))
    said = str(caught.value).splitlines()
    assert said[0] == "'d.csv', column 'kind': 12 cells hold no value of 'kind'"
    assert said[1:3] == ["  line 3: 'dgo'", "  line 4: 'cta'"]
    assert said[11:] == ["  … 12 in all", "Did you mean 'dog'? Allowed: cat, dog; empty for unknown."]


def test_yes_and_no_are_labels() -> None:
    found = find_labels(table(legs=["yes", "No", None], fins=["n", "y", "n"]), ["legs", "fins"], None)
    assert str(found.space) == "legs, fins\n"
    np.testing.assert_array_equal(found.encode(table(legs=["yes"], fins=["N"])), [[1, 0]])
    one = find_labels(table(ill=["yes", "no"]), ["ill"], None)
    assert one.space.variables[0].values == ("no", "yes")  # of one column, the words are the classes
    with pytest.raises(DataError, match="'legs' cannot be 'maybe'\nAllowed: 0, 1, true, false, yes, no"):
        found.encode(table(legs=["maybe"], fins=["0"]))


def test_answers_are_two_classes_however_they_are_spelt() -> None:
    given = table(kind=["Yes", "no", "yes", "yes", "ja", "NO", None])
    found = find_labels(given, ["kind"], None)
    assert found.space.variables[0].values == ("NO", "yes")  # as most cells have them, or the first of equals
    assert found.read(given)["kind"].to_list() == ["yes", "NO", "yes", "yes", "yes", "NO", None]
    others = find_labels(table(kind=["Yes", "no", "yes", "perhaps"]), ["kind"], None)
    assert others.space.variables[0].values == ("Yes", "no", "perhaps", "yes")


def test_what_is_not_the_case_and_what_is_one_of_several() -> None:
    found = find_labels(table(kind=["cat", "dog", "fish", "!cat", "cat|dog", "!cat|dog", None]), ["kind"], None)
    assert found.space.variables[0].values == ("cat", "dog", "fish")
    nan = np.nan
    rows = [[1, 0, 0], [0, nan, nan], [nan, nan, 0], [0, 0, 1], [nan] * 3]
    cells = table(kind=["cat", "!cat", "cat | dog", "!cat|dog", None])
    np.testing.assert_array_equal(found.encode(cells), rows)
    np.testing.assert_array_equal(found.space.encode(found.read(cells)), rows)
    for odd in ("!bird", "cat|bird", "!", "|", "cat|", "!cat|dog|fish"):
        with pytest.raises(DataError, match="cannot be"):
            found.encode(table(kind=[odd]))
    literal = find_labels(table(kind=["a|b", "!c", "d"]), ["kind"], None)
    assert literal.space.variables[0].values == ("!c", "a|b", "d")  # nothing else is called a, b or c


def test_amounts_are_asked_about() -> None:
    with pytest.raises(
        DataError, match=r"'price' holds 40 different numbers in 40 labelled rows, such as .*amounts, not"
    ):
        find_labels(table(price=[f"{i}.5" for i in range(40)]), ["price"], None)
    assert find_labels(table(digit=[str(i % 40) for i in range(400)]), ["digit"], None).space.width == 40


def test_lists_in_a_label_column_are_refused() -> None:
    with pytest.raises(DataError, match=r"'kind' holds lists or records .*\nWrite one column per label"):
        find_labels(table(kind=[["a"], ["b"]]), ["kind"], None)


# ---- names that only rows to measure on have, and cells that are never empty ----


def topics(*cells: str | None) -> Table:
    return table(topics=list(cells))


def test_names_that_training_rows_lack_are_missed_and_not_refused() -> None:
    labelling = find_labels(topics("wheat corn", "corn", None), ["topics"], None, " ")
    asked, notes = topics("corn rye", "oats rye", "wheat", None), Notes()
    with pytest.raises(DataError, match="2 cells hold no value of 'topics'"):
        labelling.encode(asked)
    known = labelling.encode(asked, measured=True)
    np.testing.assert_array_equal(known, [[1, 0], [0, 0], [0, 1], [np.nan, np.nan]])
    assert labelling.missed(asked, notes).tolist() == [1, 2, 0, 0]
    assert notes.sentences() == [
        "3 labels in 'topics' have names that training rows do not have, and count as missed: oats, rye"
    ]
    assert labelling.read(asked, measured=True).rows() == [(1, 0), (0, 0), (0, 1), (None, None)]
    one = find_labels(table(kind=["cat", "dog"]), ["kind"], None)
    assert one.missed(table(kind=["cat"]), notes).tolist() == [0]


NAMES = [f"t{i:02}" for i in range(20)]


def test_cells_of_many_names_of_which_none_is_empty_teach_a_rule() -> None:
    given = topics(*NAMES, f"{NAMES[0]} {NAMES[1]}", None)
    plain = find_labels(given, ["topics"], None, " ")
    found = plain.never_empty(given)
    assert (found.columns, found.names, found.separator) == (plain.columns, plain.names, " ")
    assert found.space.count() == 2**20 - 1
    assert found.space.rules[0].why == "learned: each of 21 labelled rows has a name"
    assert LabelSpace(str(found.space)) == found.space  # as a saved model has it


@pytest.mark.parametrize("cells", [[*NAMES, "[]"], NAMES[:19] * 2, [" ".join(NAMES)] * 19], ids=["none", "few", "rows"])
def test_other_cells_teach_none(cells: list[str]) -> None:
    plain = find_labels(topics(*cells), ["topics"], None, " ")
    assert plain.never_empty(topics(*cells)) is plain
    classes = find_labels(table(kind=NAMES * 2), ["kind"], None, "")
    assert classes.never_empty(table(kind=NAMES * 2)) is classes
