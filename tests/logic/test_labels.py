"""Labels in every form users hold ⇄ columns, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.errors import DataError
from dssl.logic.language.variables import Variable
from dssl.logic.space import LabelSpace
from logic.messages import BadCall, calls_about, check_call
from logic.strategies import variable_lists

NAN = float("nan")
space = LabelSpace("pet: {cat, dog, cow}\nlegs, fins\nage: 3..5")
COLUMNS = np.array(
    [[0, 1, 0, 1, 0, 0, 1, 0], [NAN, NAN, NAN, NAN, 1, NAN, NAN, NAN], [1, 0, 0, 0, 1, 1, 0, 0]], np.float32
)
RECORDS = [
    {"pet": "dog", "legs": True, "fins": False, "age": 4},
    {"pet": None, "legs": None, "fins": True, "age": None},
    {"pet": "cat", "legs": False, "fins": True, "age": 3},
]
FRAME = {
    "pet": ["dog", None, "cat"], "legs": [True, None, False], "fins": [False, True, True], "age": [4, None, 3],
}  # fmt: skip

FORMS = {
    "records": RECORDS,
    "records without the unknown": [{k: v for k, v in row.items() if v is not None} for row in RECORDS],
    "records as a tuple": tuple(RECORDS),
    "records of 0 and 1": [{k: int(v) if isinstance(v, bool) else v for k, v in row.items()} for row in RECORDS],
    "records of numpy scalars": [
        {"pet": "dog", "legs": np.True_, "fins": np.int8(0), "age": np.float32(4)}, *RECORDS[1:]
    ],
    "mapping": FRAME,
    "mapping of arrays": {k: np.array(v, dtype=object) for k, v in FRAME.items()},
    "rows": [list(row.values()) for row in RECORDS],
    "rows of names": [["dog", "true", "False", "4"], ["", " ", "1", ""], ["cat", "0", "TRUE", "3"]],
    "array of objects": np.array([list(row.values()) for row in RECORDS], dtype=object),
    "indices": [[1, 1, 0, 4], [-1, -1, 1, -1], [0, 0, 1, 3]],
    "indices as int8": np.array([[1, 1, 0, 4], [-1, -1, 1, -1], [0, 0, 1, 3]], dtype=np.int8),
    "indices and NaN": np.array([[1, 1, 0, 4], [NAN, NAN, 1, NAN], [0, 0, 1, 3]]),
    "columns": COLUMNS,
    "columns as lists": COLUMNS.tolist(),
    "columns with -1": np.nan_to_num(COLUMNS, nan=-1).astype(int),
    "columns with what a block forces left out": np.where(
        [[0, 0, 1, 0, 0, 0, 0, 1], [0] * 8, [0, 1, 1, 0, 0, 0, 0, 0]], NAN, COLUMNS
    ),
    "tensor": torch.from_numpy(COLUMNS).requires_grad_(),
    "tensor of indices": torch.tensor([[1, 1, 0, 4], [-1, -1, 1, -1], [0, 0, 1, 3]]),
    "pandas": pd.DataFrame(FRAME),
    "pandas, columns in another order": pd.DataFrame(FRAME)[["age", "fins", "pet", "legs"]],
    "pandas with its own missing values": pd.DataFrame(FRAME).convert_dtypes(),
    "pandas categories": pd.DataFrame(FRAME).astype({"pet": "category"}),
    "pandas columns of the space": pd.DataFrame(COLUMNS, columns=space.columns),
    "polars": pl.DataFrame(FRAME),
    "polars categories": pl.DataFrame(FRAME, schema_overrides={"pet": pl.Categorical}),
    "polars columns of the space": pl.DataFrame(COLUMNS, schema=list(space.columns)),
    "mapping of values and columns": {
        "pet": ["dog", None, "cat"], "legs": [1, None, 0], "fins": [0, 1, 1],
        "age=3": [0, None, 1], "age=4": [1, None, 0],
    },
}  # fmt: skip


@pytest.mark.parametrize("y", FORMS.values(), ids=FORMS.keys())
def test_every_form_encodes_alike(y: Any) -> None:
    columns = space.encode(y)
    assert columns.dtype == np.float32
    assert np.array_equal(columns, COLUMNS, equal_nan=True)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (["dog", "cat", None], [1, 0, -1]),
        ([1, 0, -1], [1, 0, -1]),
        (np.array([1, 0, 2], dtype=np.uint8), [1, 0, 2]),
        (np.array([1.0, NAN]), [1, -1]),
        (torch.tensor([2, -1]), [2, -1]),
        (pd.Series(["dog", None]), [1, -1]),
        (pl.Series(["dog", None]), [1, -1]),
        ([["dog"], ["cat"]], [1, 0]),
        ({"pet": "dog"}, [1]),
        ({"pet": ["dog", "cow"]}, [1, 2]),
        (np.array(["dog", "cat"]), [1, 0]),
        ([], []),
    ],
)
def test_a_single_variable_takes_a_vector(y: Any, expected: list[int]) -> None:
    classes = LabelSpace.classes(["cat", "dog", "cow"], name="pet")
    assert classes.decode(classes.encode(y), "indices")[:, 0].tolist() == expected


@pytest.mark.parametrize(
    ("entry", "value"),
    [(-1, -1), (NAN, None), (None, None), ("-1", -1), (0, 0), ("1", 1), (1.0, 1), (True, 1), ("", None)],
)
def test_minus_one_is_a_value_where_it_is_declared(entry: Any, value: int | None) -> None:
    signed = LabelSpace("n: -1..1\nb")
    assert signed.decode(signed.encode([{"n": entry}]))[0]["n"] == value


def test_numbers_among_names_are_values() -> None:
    mixed_space = LabelSpace("m: {a, 7, 0}\nb")
    rows = [{"m": 7}, {"m": "a"}, {"m": 0}, {"m": None}]
    assert [row["m"] for row in mixed_space.decode(mixed_space.encode(rows))] == [7, "a", 0, None]


def test_numbers_among_names_are_values_in_any_company() -> None:
    mixed_space = LabelSpace("m: {a, 7, 0}\nb")
    assert [row["m"] for row in mixed_space.decode(mixed_space.encode([{"m": 0}]))] == [0]
    assert [row["m"] for row in mixed_space.decode(mixed_space.encode(np.array([[7, 1], [NAN, 0]])))] == [7, None]


def test_names_and_numbers_in_a_polars_frame() -> None:
    mixed_space = LabelSpace("m: {a, 7}\nb")
    assert len(mixed_space.decode(mixed_space.encode([{"m": 7}, {"m": "a"}]), "polars")) == 2


def test_missing_columns_are_unknown() -> None:
    assert np.isnan(space.encode([{"fins": 1}])[0]).tolist() == [True] * 4 + [False] + [True] * 3
    assert np.isnan(space.encode([{}, {}])).tolist() == [[True] * 8] * 2


# ---- round trips ----


def mixed(variable: Variable) -> bool:
    """Whether a variable has both names and numbers as values."""
    return len({type(value) for value in variable.values}) > 1


@settings(deadline=None, max_examples=50)
@given(variable_lists(), st.data())
def test_encode_and_decode_are_inverse(variables: tuple[Variable, ...], data: st.DataObject) -> None:
    drawn = LabelSpace.of(variables)
    single = {v.name: v.values[0] for v in variables if len(v.values) == 1}  # known, said or not
    rows = data.draw(st.lists(st.sampled_from(oracle.records(variables)), min_size=1, max_size=5))
    rows = [{k: v if data.draw(st.integers(0, 3)) else single.get(k) for k, v in row.items()} for row in rows]
    columns = drawn.encode(rows)
    assert drawn.decode(columns) == rows
    for form in ("values", "pandas") if any(map(mixed, variables)) else ("values", "pandas", "polars"):
        assert np.array_equal(drawn.encode(drawn.decode(columns, form)), columns, equal_nan=True), form
    indices = drawn.decode(columns, "indices")
    expected = [[-1 if row[v.name] is None else v.values.index(row[v.name]) for v in variables] for row in rows]
    assert indices.tolist() == expected
    if drawn.width != len(variables):
        assert np.array_equal(drawn.encode(columns), columns, equal_nan=True)
    if all(v.kind == "binary" for v in variables):
        assert np.array_equal(drawn.encode(indices), columns, equal_nan=True)


def test_decoded_forms() -> None:
    assert space.decode(COLUMNS) == RECORDS
    assert space.decode(COLUMNS, "values").tolist() == [list(row.values()) for row in RECORDS]
    assert space.decode(COLUMNS, "indices").tolist() == [[1, 1, 0, 1], [-1, -1, 1, -1], [0, 0, 1, 0]]
    assert space.decode(COLUMNS, "polars").to_dicts() == RECORDS
    assert space.decode(COLUMNS, "pandas")["pet"].isna().tolist() == [False, True, False]
    assert space.decode(COLUMNS[0]) == RECORDS[:1]
    assert space.decode(torch.from_numpy(COLUMNS[:1])) == RECORDS[:1]


def test_excluded_values_stay_excluded() -> None:
    """Not cat leaves dog and cow open; not cat and not dog is cow."""
    y = np.full((2, 8), NAN)
    y[:, 0] = 0
    y[1, 1] = 0
    assert np.array_equal(space.encode(y)[:, :3], [[0, NAN, NAN], [0, 0, 1]], equal_nan=True)


def test_labels_are_not_written_to() -> None:
    y = COLUMNS.copy()
    y[0, 2] = NAN
    before = y.copy()
    space.encode(y)[:] = 7
    space.complete(y)
    assert np.array_equal(y, before, equal_nan=True)


@pytest.mark.parametrize("case", calls_about("labels"), ids=lambda case: case.reason[:40])
def test_errors(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)


def test_columns_of_a_variable_with_one_value() -> None:
    single = LabelSpace("c: {only}\nb")
    columns = single.encode([{"c": "only", "b": True}])
    assert np.array_equal(single.encode(columns), columns)


# ---- columns are recognised ----


@settings(deadline=None, max_examples=100)
@given(st.data(), variable_lists(most=3))
def test_what_encode_gives_is_encoded_as_it_is(data: st.DataObject, variables: tuple[Variable, ...]) -> None:
    """Also where every variable has one column, so that a matrix of columns has the shape of a matrix of values."""
    space = LabelSpace.of(variables)
    rows = [
        {v.name: data.draw(st.sampled_from([None, *v.values])) for v in variables}
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    columns = space.encode(rows)
    np.testing.assert_array_equal(space.encode(columns), columns)
    np.testing.assert_array_equal(space.encode(columns.astype(np.float64)), columns)
    assert not space.check(columns)


@pytest.mark.parametrize("text", ["a\nn: {2}", "n: {2}", "a\nn: {1}", "n: {0}\na", "k: {x}\na", "n: {-1}\nm: {5}"])
def test_variables_with_one_value_by_value_and_by_column(text: str) -> None:
    space = LabelSpace(text)
    (label,) = space.decode(np.ones((1, space.width)))
    columns = space.encode([label])
    assert columns.tolist() == [[1] * space.width] == space.encode([list(label.values())]).tolist()
    np.testing.assert_array_equal(space.encode(columns), columns)
    np.testing.assert_array_equal(space.encode(np.full((2, space.width), np.nan)), np.full((2, space.width), np.nan))


# ---- numbers of any size ----


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 2**70, -(10**30)])
@pytest.mark.parametrize("name", ["legs", "age", "species", "size"])
def test_a_whole_number_of_any_size_is_refused_like_any_other(name: str, number: int) -> None:
    space = LabelSpace("legs\nage: 0..9\nspecies: {cat, dog}\nsize: {2, large}")
    with pytest.raises(DataError, match=rf"row 1: '{name}' cannot be {number}\n"):
        space.encode([{}, {name: number}])
    with pytest.raises(DataError, match=rf"row 1: '{name}' cannot be {number}\n"):
        space.encode([[None] * 4, [number if v.name == name else None for v in space.variables]])
