"""Cells as people write them: unknown, yes or no, numbers and dates, against Python's own reading."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.data.cells import (
    COMMA,
    DATE_FORMS,
    POINT,
    Written,
    are_codes,
    cells,
    date_forms,
    dates,
    feature_cells,
    mostly_beyond,
    own_unit,
    truth,
)


def test_cells_are_trimmed() -> None:
    assert cells(pl.Series([" a ", "", " NA", None])).to_list() == ["a", None, None, None]


@pytest.mark.parametrize("text", ["", "N/A", "n/a", "-", "#N/A", "None", "NULL", " nan ", "k.A.", "#DIV/0!", "unknown"])
def test_what_stands_for_unknown_among_features(text: str) -> None:
    assert feature_cells(pl.Series([text, "a"])).to_list() == [None, "a"]


def test_invisible_characters_are_dropped() -> None:
    assert feature_cells(pl.Series(["27-MAR-1987 00:03:35.68\x05\x05F", "\ufeff5\x00"])).to_list() == [
        "27-MAR-1987 00:03:35.68F",
        "5",
    ]


def test_labels_may_be_called_none() -> None:
    assert cells(pl.Series(["none", "unknown", "-"])).to_list() == ["none", "unknown", "-"]


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["yes", "No", "YES", None], [1, 0, 1, None]),
        (["y", "n"], [1, 0]),
        (["ja", "nein"], [1, 0]),
        (["oui", "non"], [1, 0]),
        (["on", "OFF"], [1, 0]),
    ],
)
def test_truth(texts: list[str | None], values: list[float | None]) -> None:
    found = truth(pl.Series(texts))
    assert found is not None
    assert found.to_list() == values


def test_other_words_are_no_truth() -> None:
    assert truth(pl.Series(["yes", "maybe"])) is None
    assert truth(pl.Series([1, 0])) is None


@pytest.mark.parametrize(
    ("text", "point", "comma", "unit"),
    [
        ("1234", 1234, 1234, None),
        ("1,234.50", 1234.5, None, None),
        ("1.234,50", None, 1234.5, None),
        ("1 234 567,8", None, 1234567.8, None),
        ("1\u202f234", 1234, 1234, None),
        ("1'234.5", 1234.5, None, None),
        ("$1,234", 1234, 1.234, "$"),
        ("12,5 €", None, 12.5, "€"),
        ("EUR 12", 12, 12, "EUR"),
        ("(1,234)", -1234, -1.234, None),
        ("−5 kg", -5, -5, "kg"),
        ("- 5", -5, -5, None),
        ("12%", 12, 12, "%"),
        ("0,123", None, 0.123, None),
        (".5", 0.5, None, None),
        ("1e-3", 0.001, 0.001, None),
        ("1,5e3", None, 1500, None),
        ("1.2.3.4", None, None, None),
        ("12,34,56", None, None, None),
        ("12 34", None, None, None),
        ("--5", None, None, None),
        ("(5", None, None, None),
        ("5)", None, None, None),
        ("5 kgs", None, None, None),
        ("five", None, None, None),
    ],
)
def test_numbers(text: str, point: float | None, comma: float | None, unit: str | None) -> None:
    written = Written.of(pl.Series([text]))
    assert written.read(POINT).to_list() == [point]
    assert written.read(COMMA).to_list() == [comma]
    if point is not None or comma is not None:
        assert written.unit.to_list() == [unit]


@settings(deadline=None)
@given(st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=1, max_size=20))
def test_numbers_written_in_both_ways_are_read_back(values: list[object]) -> None:
    english = [f"{value:,}" for value in values]
    swapped = [text.translate(str.maketrans(",.", ".,")) for text in english]
    expected = [float(str(value)) for value in values]
    assert Written.of(pl.Series(english)).read(POINT).to_list() == expected
    assert Written.of(pl.Series(swapped)).read(COMMA).to_list() == expected


def test_codes_begin_with_zeros() -> None:
    assert are_codes(pl.Series(["01069", "10115"]))
    assert not are_codes(pl.Series(["0", "10115"]))
    assert not are_codes(pl.Series(["0.5", "01"]))


WAYS = {
    "year first": ("%Y-%m-%d", "%Y/%m/%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%SZ"),
    "day first, dots": ("%d.%m.%Y", "%d.%m.%Y %H:%M:%S"),
    "day first": ("%d/%m/%Y", "%d-%m-%Y %H:%M:%S"),
    "month first": ("%m/%d/%Y", "%m/%d/%Y %I:%M:%S %p"),
    "month's name": ("%d-%b-%Y %H:%M:%S", "%d-%b-%Y %H:%M:%S.79RM", "%d %B %Y", "%a, %d %b %Y %H:%M:%S GMT"),
    "month's name first": ("%B %d, %Y", "%b %d %Y %H:%M:%S"),
    "year and month": ("%Y-%m", "%Y/%m"),
    "month and year": ("%m/%Y", "%m-%Y"),
    "month's name and year": ("%b-%Y", "%B %Y"),
    "digits": ("%Y%m%d",),
    "time of day": ("%H:%M:%S", "%I:%M:%S %p"),
}


@settings(deadline=None, max_examples=40)
@given(st.datetimes(datetime(1000, 1, 1), datetime(2999, 12, 31)).map(lambda t: t.replace(microsecond=0)))
def test_dates_are_read_as_python_writes_them(moment: datetime) -> None:
    assert set(WAYS) == set(DATE_FORMS)
    for form, ways in WAYS.items():
        for way in ways:
            moment = moment.replace(year=1900 + moment.year % 200) if form == "digits" else moment
            expected = moment if "%S" in way else moment.replace(hour=0, minute=0, second=0)
            expected = expected if "%d" in way else expected.replace(day=1)
            expected = expected if "%Y" in way else expected.replace(year=1970, month=1)
            text = expected.strftime(way)
            assert dates(pl.Series([text]), form).to_list() == [expected], text


@pytest.mark.parametrize(
    "text", ["2020-02-30", "32.1.2020", "2020-13-01", "1.2.3.4", "hello", "2020", "2020-13", "0/2020", "24:10", "7:5"]
)
def test_what_is_no_date(text: str) -> None:
    assert date_forms(pl.Series([text])) == []


def test_days_and_months_that_cannot_be_told_apart() -> None:
    assert date_forms(pl.Series(["1/2/2020", "3/4/2020"])) == ["day first", "month first"]
    assert date_forms(pl.Series(["1/2/2020", "13/4/2020"])) == ["day first"]
    assert date_forms(pl.Series(["1/2/2020", "3/14/2020"])) == ["month first"]
    assert date_forms(pl.Series(["1/2/20"])) == ["day first", "month first"]


def test_two_digits_of_a_year() -> None:
    found = dates(pl.Series(["1.2.69", "1.2.70"]), "day first, dots")
    assert [moment.year for moment in found] == [2069, 1970]


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("1.5k", 1500, None), ("$3.2M", 3.2e6, "$"), ("1.5 Mio €", 1.5e6, "€"), ("2 bn", 2e9, None), ("5 km", 5, "km"),
        ("5 kB", 5, "kB"), ("<5", 5, None), ("≥ 3", 3, None), ("90+", 90, None), ("~4 kg", 4, "kg"), ("ca. 7", 7, None),
        ("1 year", 1, "years"), ("k", None, None), ("<", None, None), ("5kk", None, None),
    ],
)  # fmt: skip
def test_numbers_with_sizes_and_bounds(text: str, number: float | None, unit: str | None) -> None:
    written = Written.of(pl.Series([text]))
    assert written.read(POINT).to_list() == [number]
    assert number is None or written.unit.to_list() == [unit]


def test_a_unit_of_the_columns_own() -> None:
    rooms = pl.Series(["3 rooms", "1 Room", "2 rooms.", "4 doors"])
    assert own_unit(rooms[:3]) == "room"
    assert own_unit(rooms) == own_unit(pl.Series(["3 days", "1 day"])) == own_unit(pl.Series(["red", "3"])) == ""
    written = Written.of(rooms, "room")
    assert (written.read(POINT).to_list(), written.unit.to_list()) == ([3, 1, 2, None], ["room"] * 3 + [None])


def test_cells_that_only_bound_a_number_are_categories() -> None:
    assert mostly_beyond(pl.Series(["<=50K", ">50K"]))
    assert not mostly_beyond(pl.Series(["<5", "5", "7"]))


def test_months_by_name_are_whole_words() -> None:
    assert date_forms(pl.Series(["Jan-19", "March 2020", "août 2021"])) == ["month's name and year"]
    assert date_forms(pl.Series(["Mark 10", "Decker 2020"])) == []
    assert dates(pl.Series([20200131, None, 20201301]), "digits").to_list() == [datetime(2020, 1, 31), None, None]
