"""Labels as users have them ⇄ columns.

Columns are a float32 matrix (n, width): 1 true, 0 false, NaN unknown; a categorical variable has one column per value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dssl.errors import DataError
from dssl.logic.language.variables import Variable, canonical, listed, nearest, shown

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace

Columns = NDArray[np.float32]
_TRUTH = {"true": 1, "false": 0, "1": 1, "0": 0}
_FORMS = ("records", "values", "indices", "pandas", "polars")


# ---- encode ----


def encode(space: LabelSpace, y: Any) -> Columns:
    """Labels in any of the users' forms as columns."""
    frame = by_name(y)
    if frame is not None:
        return _encode_named(space, frame) if frame else np.full((len(y), space.width), np.nan, dtype=np.float32)
    array = _array(y)
    if array.ndim == 1 and len(space.variables) == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] not in (len(space.variables), space.width):
        raise DataError(
            f"labels of shape {array.shape} do not fit a space of {len(space.variables)} variables "
            f"and {space.width} columns\nGive records, a data frame, or a matrix with one column per variable "
            f"({listed(v.name for v in space.variables)}) or one per column of the space."
        )
    if array.shape[1] == len(space.variables) and not _is_columns(space, array):
        return _one_hot(space, [_positions(v, array[:, i]) for i, v in enumerate(space.variables)])
    return _checked_columns(space, array)


def _is_columns(space: LabelSpace, array: NDArray[Any]) -> bool:
    """Whether a matrix that could hold values or columns, since every variable has one column, holds columns.

    It does if it is what `encode` gives: 1 in the only column of a variable with one value, NaN where it is unknown.
    For a variable over the integer 1, and for binary ones, both readings are the same.
    """
    if array.shape[1] != space.width or array.dtype.kind not in "biuf":
        return False
    single = [i for i, v in enumerate(space.variables) if not v.binary]
    block = array[:, single]
    return bool(single) and bool(((block == 1) | (block != block)).all())


def by_name(y: Any) -> dict[str, Any] | None:
    """Labels held by name, as arrays: from a data frame, a mapping of columns, or records. None for arrays."""
    if hasattr(y, "columns") and hasattr(y, "__getitem__"):
        return {canonical(str(name)): y[name].to_numpy() for name in y.columns}
    if isinstance(y, Mapping):
        scalar = all(isinstance(v, str) or not hasattr(v, "__len__") for v in y.values())
        return {canonical(str(k)): _array([v] if scalar else v) for k, v in y.items()}
    if isinstance(y, Sequence) and not isinstance(y, str) and y and all(isinstance(row, Mapping) for row in y):
        named = [{canonical(str(name)): value for name, value in row.items()} for row in y]
        names = dict.fromkeys(name for row in named for name in row)
        return {name: _array([row.get(name) for row in named]) for name in names}
    return None


def _array(y: Any) -> NDArray[Any]:
    if hasattr(y, "detach"):  # a tensor
        y = y.detach().cpu().numpy()
    if hasattr(y, "to_numpy"):  # a series
        y = y.to_numpy()
    if isinstance(y, np.ndarray):
        return y
    if not hasattr(y, "__len__"):
        raise DataError(f"labels cannot be read from {type(y).__name__}\nGive a list, an array or a data frame.")
    try:
        plain = np.asarray(y)
    except ValueError:
        raise DataError("the rows of the labels differ in length\nGive every row the same number of entries.") from None
    return plain if plain.dtype.kind in "biuf" else np.asarray(y, dtype=object)


def _encode_named(space: LabelSpace, frame: dict[str, Any]) -> Columns:
    rows = _checked_rows(space, frame)
    if all(v.name in frame or not any(c in frame for c in v.columns) for v in space.variables):
        unknown = np.full(rows, -1, dtype=np.int64)
        return _one_hot(space, [_positions(v, frame[v.name]) if v.name in frame else unknown for v in space.variables])
    matrix = np.full((rows, space.width), np.nan)
    for i, name in enumerate(space.columns):
        if name in frame:
            column = _positions(Variable(name), frame[name])
            matrix[:, i] = np.where(column < 0, np.nan, column)
    for v, (start, stop) in zip(space.variables, space.spans):
        if v.name in frame and not v.binary:
            matrix[:, start:stop] = _block(_positions(v, frame[v.name]), stop - start)
    return _checked_columns(space, matrix)


def _checked_rows(space: LabelSpace, frame: dict[str, Any]) -> int:
    """How many rows columns by name have; an error if they differ in length, or are not of the space."""
    for name, column in frame.items():
        if column.ndim != 1:
            raise DataError(
                f"the column '{shown(name)}' of the labels has shape {column.shape}\n"
                "Give one entry per row, and every column once."
            )
    lengths = {len(column) for column in frame.values()}
    if len(lengths) > 1:
        raise DataError(f"columns of different lengths: {sorted(lengths)}\nGive every column the same number of rows.")
    rows = lengths.pop() if lengths else 0
    known = {v.name for v in space.variables} | set(space.columns)
    for name in frame:
        if name not in known:
            raise DataError(
                f"the labels have a column '{shown(name)}' that the space does not declare\n"
                f"{nearest(name, known)}Drop or rename it. Declared: {listed(v.name for v in space.variables)}."
            )
    return rows


def _positions(variable: Variable, column: Any) -> NDArray[np.int64]:
    """The value index of each entry, −1 where unknown."""
    array = np.asarray(column)
    mixed = variable.kind == "categorical" and any(isinstance(value, int) for value in variable.values)
    if array.dtype.kind in "biuf" and not mixed:  # beside names, a number is a value rather than an index
        return _numeric_positions(variable, array)
    out = np.empty(len(array), dtype=np.int64)
    for row, entry in enumerate(array.tolist()):
        found = _position(variable, entry)
        if found is None:
            _refuse(variable, row, entry)
        out[row] = found
    return out


def _numeric_positions(variable: Variable, array: NDArray[Any]) -> NDArray[np.int64]:
    unknown = np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), dtype=bool)
    numbers = np.where(unknown, -1, array)
    with np.errstate(invalid="ignore"):  # infinite and huge numbers are refused below
        out = numbers.astype(np.int64)
    whole = out == numbers
    if variable.kind == "integer":
        values = np.array([int(v) for v in variable.values], dtype=np.int64)
        order = np.argsort(values)
        place = np.searchsorted(values, out, sorter=order).clip(max=len(values) - 1)
        found = order[place]
        good = values[found] == out
        unknown |= (out == -1) & ~good
        out, whole = np.where(good, found, out), whole & good
    else:
        if len(variable.values) == 1:
            out[out == 1] = 0  # a column matrix holds 1 where an index would be 0
        unknown |= out == -1
        whole &= (out >= 0) & (out < len(variable.values))
    bad = ~whole & ~unknown
    if bad.any():
        row = int(np.argmax(bad))
        _refuse(variable, row, array[row].item())
    return np.where(unknown, -1, out)


def _position(variable: Variable, entry: Any) -> int | None:
    """The value index of one entry, −1 where unknown, None if it fits no value."""
    if entry is None or type(entry).__name__ == "NAType" or (isinstance(entry, float) and math.isnan(entry)):
        return -1
    if isinstance(entry, str):
        entry = canonical(entry)
        if entry in variable.positions:
            return variable.positions[entry]
        text = entry.strip().lower()
        if not text:
            return -1
        if variable.binary:
            return _TRUTH.get(text)
        if variable.kind == "integer" and re.fullmatch("-?[0-9]{1,18}", text):
            return variable.positions.get(int(text))
        return next((i for i, value in enumerate(variable.values) if str(value) == entry), None)
    if isinstance(entry, int | float | np.integer | np.floating | np.bool_):
        if variable.kind == "categorical" and entry in variable.positions:
            return variable.positions[entry]  # type: ignore[index]
        try:
            return int(_numeric_positions(variable, np.array([entry]))[0])
        except (DataError, OverflowError):  # Python's whole numbers have any size
            return None
    return None


def _refuse(variable: Variable, row: int, entry: Any) -> NoReturn:
    allowed = {
        "binary": "0, 1, true, false",
        "categorical": listed(variable.values),
        "integer": listed(variable.values),
    }
    hint = nearest(entry, map(str, variable.values)) if isinstance(entry, str) and not variable.binary else ""
    raise DataError(
        f"row {row}: '{variable.name}' cannot be {shown(repr(entry))}\n"
        f"{hint}Allowed: {allowed[variable.kind]}; None, NaN or -1 for unknown."
    )


def _block(positions: NDArray[np.int64], size: int) -> Columns:
    """One-hot columns (n, size), NaN in the rows that are unknown."""
    out = np.zeros((len(positions), size), dtype=np.float32)
    known = positions >= 0
    out[known, positions[known]] = 1
    out[~known] = np.nan
    return out


def _one_hot(space: LabelSpace, positions: list[NDArray[np.int64]]) -> Columns:
    rows = len(positions[0]) if positions else 0
    out = np.empty((rows, space.width), dtype=np.float32)
    for variable, position, (start, stop) in zip(space.variables, positions, space.spans):
        if variable.binary:
            out[:, start] = np.where(position < 0, np.nan, position)
        else:
            out[:, start:stop] = _block(position, stop - start)
    return out


def _checked_columns(space: LabelSpace, array: NDArray[Any]) -> Columns:
    """A column matrix with entries and categorical blocks checked, and what a block forces filled in."""
    try:
        out = array.astype(np.float32)
    except (TypeError, ValueError):
        raise DataError(
            "a column matrix holds 0, 1 and NaN only\nGive one column per variable to use names and values."
        ) from None
    out[out == -1] = np.nan
    bad = ~(np.isnan(out) | (out == 0) | (out == 1))
    if bad.any():
        row, column = (int(i[0]) for i in np.nonzero(bad))
        raise DataError(
            f"row {row}: column '{space.columns[column]}' holds {out[row, column]:g}\n"
            "Labels are 0, 1 or NaN for unknown; for probabilities take the most probable label first."
        )
    for variable, (start, stop) in zip(space.variables, space.spans):
        if not variable.binary:
            _fill_block(variable, out[:, start:stop])
    return out


def _fill_block(variable: Variable, block: Columns) -> None:
    ones = (block == 1).sum(axis=1)
    zeros = (block == 0).sum(axis=1)
    for bad, what in ((ones > 1, "several values"), (zeros == block.shape[1], "no value left")):
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(
                f"row {row}: '{variable.name}' has {what} in its columns\n"
                "A categorical variable has exactly one: leave columns NaN where it is unknown."
            )
    block[(ones == 1)[:, None] & np.isnan(block)] = 0
    if block.shape[1] > 1:  # the only value of a variable is never inferred from the absence of others
        block[((ones == 0) & (zeros == block.shape[1] - 1))[:, None] & np.isnan(block)] = 1


# ---- decode ----


def decode(space: LabelSpace, columns: Any, form: str = "records") -> Any:
    """Columns in one of the users' forms: None (or −1 in "indices") where unknown."""
    if form not in _FORMS:
        raise DataError(f"there is no form '{form}' of labels\nChoose one of {', '.join(_FORMS)}.")
    matrix = _array(columns)
    matrix = matrix[None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2 or matrix.shape[1] != space.width:
        raise DataError(f"columns of shape {matrix.shape} do not fit\nGive a matrix (n, {space.width}).")
    positions = indices(space, _checked_columns(space, matrix))
    if form == "indices":
        return positions
    values = np.empty(positions.shape, dtype=object)
    for i, variable in enumerate(space.variables):
        choices = np.array([*variable.values, None], dtype=object)
        values[:, i] = choices[positions[:, i]]
    if form == "values":
        return values
    names = [variable.name for variable in space.variables]
    if form == "records":
        return [dict(zip(names, row)) for row in values.tolist()]
    columns_by_name = {name: values[:, i].tolist() for i, name in enumerate(names)}
    for v in space.variables:
        if len({type(value) for value in v.values}) > 1:  # frames hold one type per column
            columns_by_name[v.name] = [None if x is None else str(x) for x in columns_by_name[v.name]]
    if form == "pandas":
        import pandas

        return pandas.DataFrame(columns_by_name)
    import polars

    return polars.DataFrame(columns_by_name)


def indices(space: LabelSpace, columns: Columns) -> NDArray[np.int64]:
    """The value index of each variable (n, variables), −1 where it is not known."""
    out = np.empty((len(columns), len(space.variables)), dtype=np.int64)
    for i, (variable, (start, stop)) in enumerate(zip(space.variables, space.spans)):
        block = columns[:, start:stop]
        if variable.binary:
            out[:, i] = np.where(np.isnan(block[:, 0]), -1, block[:, 0])
        else:
            chosen = block == 1
            out[:, i] = np.where(chosen.any(axis=1), chosen.argmax(axis=1), -1)
    return out
