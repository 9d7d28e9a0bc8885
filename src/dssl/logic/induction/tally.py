"""Tally: labels as 0, 1 and −1 for unknown, and how often literals meet in a row.

A *literal* is a column that is true or false: literal 2·c + s says that column c is s. A *cell* is a set of literals; a
rule "these literals never meet" fails in the rows of its cell. A row counts for a cell where its columns are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.errors import DataError
from dssl.logic.inferred import column_names, known_values
from dssl.logic.labels import by_name
from dssl.logic.language.formula import Assignments
from dssl.logic.language.variables import Variable, listed, shown
from dssl.logic.sources import variable_of
from dssl.logic.space import LabelSpace

Codes = NDArray[np.int8]
Counts = NDArray[np.float64]
MOST_VALUES = 64  # of a column that is read without a space
_ROWS = 8192  # at a time, so that memory stays small


@dataclass(frozen=True)
class Tally:
    """Labels of a space as columns of 0, 1 and −1 (n, width)."""

    space: LabelSpace
    codes: Codes

    @property
    def rows(self) -> int:
        return len(self.codes)

    @property
    def width(self) -> int:
        return self.codes.shape[1]

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """The variable of each column (width,)."""
        return np.repeat(np.arange(len(self.space.variables)), [stop - start for start, stop in self.space.spans])

    @cached_property
    def assignments(self) -> Assignments:
        """The labels as formulas are evaluated on them."""
        indices: dict[str, NDArray[np.integer]] = {}
        for variable, (start, stop) in zip(self.space.variables, self.space.spans):
            block = self.codes[:, start:stop]
            if variable.binary:
                indices[variable.name] = block[:, 0]
            else:
                chosen = block == 1
                indices[variable.name] = np.where(chosen.any(axis=1), chosen.argmax(axis=1), -1)
        return Assignments(indices, {v.name: v.values for v in self.space.variables}, self.rows)

    @cached_property
    def pairs(self) -> Counts:
        """Rows in which two literals meet (2·width, 2·width)."""
        return meetings(self.codes)

    def meeting(self, cells: NDArray[np.int64]) -> Counts:
        """Rows in which all literals of a cell (m, k) meet each literal (m, 2·width)."""
        out = np.zeros((len(cells), 2 * self.width))
        for start in range(0, self.rows, _ROWS):
            block = literals(self.codes[start : start + _ROWS])
            inside = np.multiply.reduce([block[:, cells[:, i]] for i in range(cells.shape[1])])
            out += inside.T @ block
        return out

    def meeting_rows(self, mask: NDArray[np.bool_]) -> Counts:
        """Of some rows, those in which each literal holds (2·width,)."""
        part = self.codes[mask]
        return np.stack([(part == 0).sum(axis=0), (part == 1).sum(axis=0)], axis=1).ravel().astype(np.float64)

    def joint(self, cell: Sequence[int]) -> Codes:
        """Where all literals of a cell hold: 1, 0 or −1 for unknown (n,)."""
        places = np.asarray(cell, dtype=np.int64)
        block, signs = self.codes[:, places // 2], places % 2
        failed, held = (block == 1 - signs).any(axis=1), (block == signs).all(axis=1)
        return np.where(failed, 0, np.where(held, 1, -1)).astype(np.int8)

    def triples(self, columns: Sequence[int]) -> Iterator[tuple[int, Counts]]:
        """For each place i in `columns`: rows in which its literals and two of later columns meet (2, 2·m, 2·m)."""
        chosen = np.asarray(columns, dtype=np.int64)
        part = np.ascontiguousarray(self.codes[:, chosen])
        places = np.repeat(2 * chosen, 2) + np.tile([0, 1], len(chosen))
        both = self.pairs[np.ix_(places, places)]
        for i in range(len(columns) - 2):
            true = meetings(part[part[:, i] == 1, i + 1 :])
            known = not (part[:, i] < 0).any()
            false = both[2 * i + 2 :, 2 * i + 2 :] - true if known else meetings(part[part[:, i] == 0, i + 1 :])
            yield i, np.stack([false, true])


def meetings(codes: Codes) -> Counts:
    """Rows in which two literals meet (2·width, 2·width)."""
    width = codes.shape[1]
    out = np.zeros((2 * width, 2 * width))
    if not (codes < 0).any():  # four times less work: the other cells follow
        true, single = np.zeros((width, width)), codes.sum(axis=0, dtype=np.float64)
        for start in range(0, len(codes), _ROWS):
            block = codes[start : start + _ROWS].astype(np.float32)
            true += block.T @ block
        out[1::2, 1::2] = true
        out[1::2, 0::2] = single[:, None] - true
        out[0::2, 1::2] = single[None, :] - true
        out[0::2, 0::2] = len(codes) - single[:, None] - single[None, :] + true
        return out
    for start in range(0, len(codes), _ROWS):
        block = literals(codes[start : start + _ROWS])
        out += block.T @ block
    return out


def literals(codes: Codes) -> NDArray[np.float32]:
    """Which literals hold in each row (n, 2·width); neither of a column that is unknown."""
    out = np.empty((len(codes), 2 * codes.shape[1]), dtype=np.float32)
    out[:, 0::2] = codes == 0
    out[:, 1::2] = codes == 1
    return out


# ---- reading labels ----


def read(y: Any, names: Sequence[str] | None = None, space: LabelSpace | None = None) -> Tally:
    """Labels in any of the users' forms; without a space, each column becomes the variable that its values ask for."""
    if hasattr(y, "tocsr"):
        y = _dense(y)
    if space is not None:
        columns = space.encode(y)
        return _tally(space, np.where(np.isnan(columns), -1, columns).astype(np.int8))
    frame = by_name(y)
    if frame is None:
        matrix = y if isinstance(y, np.ndarray) else np.asarray(y if not hasattr(y, "detach") else y.detach().cpu())
        if matrix.ndim != 2:
            raise DataError(
                f"labels of shape {matrix.shape}\nGive a matrix with one row per label and one column per variable."
            )
        given = column_names(matrix.shape[1]) if names is None else list(map(str, names))
        _fitting(given, matrix.shape[1])
        codes = _plain_codes(matrix)
        if codes is not None:
            return _tally(LabelSpace.attributes(given), codes)
        frame = {name: matrix[:, i] for i, name in enumerate(given)}
        if len(frame) < len(given):
            LabelSpace.attributes(given)  # says which name is there twice
    elif names is not None:
        _fitting(list(names), len(frame))
        frame = dict(zip(map(str, names), frame.values()))
    space = LabelSpace.of(_variable(name, column) for name, column in frame.items())
    columns = space.encode({name: np.asarray(column) for name, column in frame.items()})
    return _tally(space, np.where(np.isnan(columns), -1, columns).astype(np.int8))


def _tally(space: LabelSpace, codes: Codes) -> Tally:
    if not len(codes):
        raise DataError("there are no rows to learn rules from\nGive at least one labelled row.")
    return Tally(space, codes)


def _fitting(names: Sequence[str], columns: int) -> None:
    if len(names) != columns:
        raise DataError(f"{len(names)} names for {columns} columns\nGive one name per column.")


def _dense(y: Any) -> Codes:
    """A sparse matrix of 0 and 1 as bytes."""
    y = y.tocsr()
    odd = [value for value in np.unique(y.data).tolist() if value not in (0, 1)]
    if odd:
        raise DataError(
            f"a sparse matrix of labels holds {odd[0]!r}\nUse 0 and 1, or a dense matrix with NaN for unknown."
        )
    return np.asarray(y.astype(np.int8).toarray())


def _plain_codes(matrix: NDArray[Any]) -> Codes | None:
    """A matrix of 0, 1, NaN and −1 as codes; None if it holds anything else."""
    if matrix.dtype.kind not in "biuf":
        return None
    out = np.empty(matrix.shape, dtype=np.int8)
    for start in range(0, len(matrix), _ROWS):
        block = matrix[start : start + _ROWS]
        known = block == 1
        unknown = (block != block) | (block == -1) if matrix.dtype.kind in "if" else np.zeros_like(known)
        if not (known | unknown | (block == 0)).all():
            return None
        out[start : start + _ROWS] = known
        out[start : start + _ROWS][unknown] = -1
    return out


def _variable(name: str, column: Any) -> Variable:
    """The variable that a column describes, unless it has too many values for rules about them."""
    values = known_values(column, unlabelled=None)
    if len(values) > MOST_VALUES:
        raise DataError(
            f"the column '{shown(name)}' has {len(values):,} different values, more than {MOST_VALUES}: "
            f"{listed(values, 4)}\nDrop it, bin it, or declare it in a space."
        )
    return variable_of(name, values)
