"""Columns: what a file may say of them, and what they say."""

from __future__ import annotations

import contextlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dssl.data import TableTransformer
from dssl.data.columns import Column, require
from dssl.data.meaning import find_columns
from dssl.data.preprocessing import Preprocessing
from dssl.data.tables import Table, read
from dssl.errors import DataError


def table(**columns: Any) -> Table:
    return Table(Path("d.csv"), "CSV", pl.DataFrame(columns, strict=False), first=2)


def found(values: Any, categorical: bool = False) -> Column:
    return find_columns(table(c=values), ["c"], ["c"] if categorical else [])[0]


def test_missing_columns_are_named_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"'d.csv' has no column 'leg' \(--label\)\nDid you mean 'legs'\?"):
        require(table(legs=["1"]), ["leg"], "--label")
    require(table(legs=["1"]), ["legs"], "--label")


@pytest.mark.parametrize(
    "values",
    [["1,5", "2,5", "2,25"], ["01.02.2020", "13.12.1999", "01.02.2020"], ["12/31/2020", "1/2/2020"], ["26-FEB-1987",
     "1-MAR-1987"], ["2020-01-02", "2020-01-03"], ["Feb 3, 1999", "Mar 4, 1999"], ["a", "b", "a"], ["yes", "no"]],
)  # fmt: skip
def test_an_example_can_be_read_as_the_column_is(values: list[str]) -> None:
    fitted = TableTransformer().fit({"c": values})
    assert np.isfinite(fitted.transform({"c": [fitted.columns_[0].example]})).all()


@pytest.mark.parametrize("value", [float("nan"), 1.5, -1, True, None, "x", [], ["x"], {}], ids=repr)
@pytest.mark.parametrize("name", [field.name for field in fields(Column)])
def test_an_entry_of_another_type_is_refused_or_fits(tmp_path: Path, name: str, value: Any) -> None:
    """Whatever an edited file says of a column: it is refused in words, or the column works."""
    path = tmp_path / "preprocessing.json"
    columns = (Column("x", "numeric", fill=0.5), Column("h", "categorical", ("a", "b"), "a"))
    Preprocessing(columns, None, ("y",)).save(path)
    state = json.loads(path.read_text())
    state["columns"][0][name] = value
    path.write_text(json.dumps(state))
    try:
        loaded = Preprocessing.load(path)
    except DataError:
        return
    table = tmp_path / "table.csv"
    table.write_text("x,h,y\n1,a,0\n2,b,1\n")
    with contextlib.suppress(DataError):
        loaded(read(table))
