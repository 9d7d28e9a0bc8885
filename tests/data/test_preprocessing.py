"""Columns as numbers: equal to the obvious, the same after a round trip, and frank about what does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.data.columns import Column
from dssl.data.meaning import find_columns
from dssl.data.preprocessing import Preprocessing
from dssl.data.tables import Table
from dssl.data.transformer import Notes
from dssl.errors import DataError


def table(**columns: Any) -> Table:
    return Table(Path("d.csv"), "CSV", pl.DataFrame(columns), first=2)


TRAINING = table(
    size=["1.0", "", "4.0", "1.0"], colour=["red", "blue", "red", None], wild=["yes", "no", "no", "yes"],
    day=["2020-01-01"] * 4,
)  # fmt: skip
FITTED = Preprocessing(tuple(find_columns(TRAINING, TRAINING.names)), labels=("legs",), label_names=("legs",))


def test_numbers_flags_and_one_hot() -> None:
    assert FITTED.inputs == ["size", "size is missing", "colour=blue", "colour=red", "colour is missing", "wild"]
    np.testing.assert_array_equal(
        FITTED(TRAINING),
        np.array([[1, 0, 0, 1, 0, 1], [2, 1, 1, 0, 0, 0], [4, 0, 0, 1, 0, 0], [1, 0, 0, 1, 1, 1]], np.float32),
    )


def test_new_rows_may_hold_new_things_which_is_said() -> None:
    notes = Notes()
    new = table(size=["2"], colour=["green"], wild=[None], more=["1"])
    np.testing.assert_array_equal(FITTED(new, notes), [[2, 0, 0, 0, 0, 0.5]])
    FITTED(new, notes)
    assert notes.sentences() == [
        "2 cells of 'colour' hold a value that was not in the training data, and count as none of the known values; "
        "first 'green' in line 2",
        "2 empty cells of 'wild', which had none in training, were filled with 0.5",
    ]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"size": ["2"], "wild": ["yes"]}, "has no column colour, which the model was trained on"),
        ({"size": ["2"]}, "has no columns colour, wild"),
        ({"size": ["2", "big"], "colour": ["red"] * 2, "wild": ["no"] * 2}, "line 3: column 'size' held numbers"),
        ({"size": ["2"], "colour": ["red"], "wild": ["maybe"]}, "line 2: column 'wild' held true or false"),
        ({"size": ["inf"], "colour": ["red"], "wild": ["no"]}, "line 2: column 'size' held numbers in training"),
    ],
)
def test_what_cannot_be_put_right_is_an_error(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        FITTED(table(**columns))


def test_it_is_kept_as_json(tmp_path: Path) -> None:
    path = tmp_path / "preprocessing.json"
    FITTED.save(path)
    assert Preprocessing.load(path) == FITTED
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "version": 99}))
    with pytest.raises(DataError, match="newer dssl"):
        Preprocessing.load(path)
    for damaged in ("{", "{}", json.dumps({**state, "columns": [{"odd": 1}]})):
        path.write_text(damaged)
        with pytest.raises(DataError, match="is damaged"):
            Preprocessing.load(path)


# as dssl 0.1.0 wrote it
VERSION_1 = """{"format": "dssl preprocessing", "version": 1, "columns": [
{"name": "weight", "kind": "numeric", "values": [], "fill": 2.5, "flagged": true, "why": "", "shown": "1 … 4",
 "missing": 1},
{"name": "home", "kind": "categorical", "values": ["sea", "wood"], "fill": "sea", "flagged": false, "why": "",
 "shown": "sea, wood", "missing": 0},
{"name": "wild", "kind": "boolean", "values": [], "fill": 0.5, "flagged": false, "why": "", "shown": "50% true",
 "missing": 0},
{"name": "name", "kind": "left out", "values": [], "fill": null, "flagged": false, "why": "every row has another text",
 "shown": "24 different texts", "missing": 0}],
"image": null, "labels": ["legs"], "label_names": ["legs"], "id": null}"""


def test_what_version_1_kept_is_read_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "preprocessing.json"
    path.write_text(VERSION_1)
    old = Preprocessing.load(path)
    assert old.inputs == ["weight", "weight is missing", "home=sea", "home=wood", "wild"]
    new = table(weight=["3", "", "900"], home=["wood", "moon", "sea"], wild=["yes", "no", "1"])
    np.testing.assert_array_equal(old(new), [[3, 0, 0, 1, 1], [2.5, 1, 0, 0, 0], [900, 0, 1, 0, 1]])
    old.save(path)
    assert Preprocessing.load(path) == old


CELLS = st.one_of(st.none(), st.sampled_from(["red", "blue", "7", "yes", "1.5"]))


@settings(deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=12))
def test_any_table_becomes_finite_numbers_and_again_the_same(rows: list[tuple[str | None, str | None]]) -> None:
    given_table = table(**{name: pl.Series([row[i] for row in rows], dtype=pl.String) for i, name in enumerate("ab")})
    columns = find_columns(given_table, ["a", "b"], ["a", "b"])
    fitted = Preprocessing(tuple(columns))
    x = fitted(given_table)
    assert x.shape == (len(rows), len(fitted.inputs))
    assert np.isfinite(x).all()
    one_by_one = [fitted(Table(Path("d.csv"), "CSV", given_table.frame[i : i + 1])) for i in range(len(rows))]
    np.testing.assert_array_equal(np.concatenate(one_by_one), x)


def test_images_pass_through_if_they_fit() -> None:
    images = np.zeros((2, 1, 3, 3), np.uint8)
    fitted = Preprocessing(image=(1, 3, 3))
    frame = pl.DataFrame({"file": ["a", "b"]})
    assert fitted(Table(Path("d"), "images", frame, images)) is images
    with pytest.raises(DataError, match="has no images"):
        fitted(Table(Path("d"), "CSV", frame))
    with pytest.raises(DataError, match=r"images of shape \(1, 2, 2\), and the model was trained on \(1, 3, 3\)"):
        fitted(Table(Path("d"), "images", frame, images[:, :, :2, :2]))


def test_models_from_python_read_columns_of_numbers() -> None:
    fitted = Preprocessing.of_names(["a", "b"], ["y"])
    np.testing.assert_array_equal(fitted(table(a=["1"], b=["2"])), [[1, 2]])
    with pytest.raises(DataError, match="'b' is empty"):
        fitted(table(a=["1"], b=pl.Series([None], dtype=pl.String)))


def test_inputs_are_found_by_the_column_they_are_made_of() -> None:
    columns = (
        Column("size", "numeric", fill=1.0, flagged=True),
        Column("name", "left out", why="all differ"),
        Column("colour", "categorical", values=("red", "blue", "green")),
    )
    saved = Preprocessing(columns)
    assert saved.inputs_of == {"size": [0, 1], "colour": [2, 3, 4]}
    assert [saved.inputs[i] for i in saved.inputs_of["colour"]] == list(columns[2].inputs)
