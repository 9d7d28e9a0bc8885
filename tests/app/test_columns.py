"""What columns mean: every kind, and what is left out and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.app.columns import Column, cells, find_columns, require
from dssl.app.tables import Table
from dssl.errors import DataError


def table(**columns: Any) -> Table:
    return Table(Path("d.csv"), "CSV", pl.DataFrame(columns, strict=False), first=2)


def found(values: Any, categorical: bool = False) -> Column:
    return find_columns(table(c=values), ["c"], ["c"] if categorical else [])[0]


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
    ],
)
def test_kinds(values: list[Any], kind: str, inputs: list[str]) -> None:
    column = found(values)
    assert (column.kind, list(column.inputs)) == (kind, inputs)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (["a", "a", "a"], "constant"),
        ([None, "", "NA"], "no entry is known"),
        (["2020-01-02", "2021-01-02 10:00", None], "dates are not learnt from"),
        (["1.2.2020", "13.12.1999", "1.2.2020"], "dates are not learnt from"),
        (pl.Series([1, 2, 3]).cast(pl.Date), "dates are not learnt from"),
        (["anna", "bert", "cleo"], "every row has another text"),
        ([f"name {i // 2}" for i in range(402)], "201 different texts are many"),
        (["4", "5", "6", "7"], "it numbers the rows"),
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
    with pytest.raises(DataError, match=r"line 7: column 'c' holds numbers, but here 'x', and 1 more such"):
        found([*"12345", "x", *"6" * 30, "y"])
    assert found([*"1234", "x", "y", "x"]).kind == "categorical"
    with pytest.raises(DataError, match=r"line 3: column 'c' holds -inf"):
        found(["1", "-inf", "2"])


def test_missing_columns_are_named_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"'d.csv' has no column 'leg' \(--label\)\nDid you mean 'legs'\?"):
        require(table(legs=["1"]), ["leg"], "--label")
    require(table(legs=["1"]), ["legs"], "--label")


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=3, max_size=20))
def test_numbers_are_numbers_as_text_too(values: list[float | None]) -> None:
    as_numbers = found(pl.Series(values, dtype=pl.Float64))
    as_text = found([None if v is None else repr(v) for v in values])
    assert as_numbers.kind == as_text.kind
    assert as_numbers.fill == as_text.fill
    assert as_numbers.inputs == as_text.inputs


def test_cells_are_trimmed() -> None:
    assert cells(pl.Series([" a ", "", " NA", None])).to_list() == ["a", None, None, None]
