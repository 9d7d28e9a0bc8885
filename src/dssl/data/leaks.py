"""Leaks: columns that give the label away because they were made from it, not because they predict it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssl.data.cells import feature_cells
from dssl.data.labelling import Labelling
from dssl.data.tables import Table
from dssl.logic.labels import Columns
from dssl.logic.language.variables import Variable

_FEW = 5  # rows of a kind below which a pattern may be chance
_SURE = 20  # labelled rows in which a column tells the label, from which that is no accident
_FILLED = 0.95  # share of labelled rows in which a column that follows the label has a value


def leaking(
    table: Table, names: Sequence[str], labelling: Labelling, known: Columns, asked: Collection[str] = ()
) -> dict[str, str]:
    """Columns to leave out, each with the reason; columns that were `asked` for by name stay.

    >>> from pathlib import Path
    >>> from dssl import LabelSpace
    >>> table = Table(Path("d.csv"), "CSV", pl.DataFrame({"Item ": ["a", "b"], "item": ["a", "b"], "x": [1, 2]}))
    >>> labelling = Labelling(("item",), ("item",), LabelSpace("item: {a, b}"))
    >>> leaking(table, ["Item ", "x"], labelling, labelling.encode(table))
    {'Item ': "it has the name of the label 'item'; rename it if it is a feature"}
    """
    labels = {_bare(name): name for name in _called(labelling)}
    labelled = np.asarray((~np.isnan(known)).any(axis=1))
    out = {}
    for name in names:
        if name in asked:
            continue
        if _bare(name) in labels:
            out[name] = f"it has the name of the label '{labels[_bare(name)]}'; rename it if it is a feature"
        elif _follows(feature_cells(table.frame[name]), labelled):
            out[name] = (
                "it is empty in every unlabelled row and filled in the labelled ones, so it seems to be known only "
                "with the label"
            )
    return out


def copies(table: Table, names: Sequence[str], labelling: Labelling, known: Columns) -> dict[str, str]:
    """Columns that determine a label in all labelled rows and hold names of the same rules, with that label.

    Such a column is another one of the labels, or a copy. A column of other values may predict perfectly.

    >>> from pathlib import Path
    >>> from dssl import LabelSpace
    >>> kind = ["cat", "dog"] * 10
    >>> frame = pl.DataFrame({"kind": kind, "again": kind, "sound": ["meow", "bark"] * 10})
    >>> labelling = Labelling(("kind",), ("kind",), LabelSpace("kind: {cat, dog}"))
    >>> table = Table(Path("d.csv"), "CSV", frame)
    >>> known = labelling.encode(table)
    >>> copies(table, ["again", "sound"], labelling, known), perfect(table, ["sound"], labelling, known)
    ({'again': 'kind'}, {'sound': 'kind'})
    """
    told = {_said(name) for name in _values_of(labelling)}
    out: dict[str, str] = {}
    for name, label, cells, values in _determined(table, names, labelling, known):
        if _names_only(cells, told) or _equal(cells, values):
            out.setdefault(name, label)
    return out


def perfect(table: Table, names: Sequence[str], labelling: Labelling, known: Columns) -> dict[str, str]:
    """Columns of as many values as a label that tell it in every labelled row, with that label: worth a look."""
    out: dict[str, str] = {}
    for name, label, cells, values in _determined(table, names, labelling, known):
        if cells.n_unique() == len(set(values)):
            out.setdefault(name, label)
    return out


def _determined(
    table: Table, names: Sequence[str], labelling: Labelling, known: Columns
) -> Iterator[tuple[str, str, pl.Series, list[str]]]:
    """Columns whose value gives that of a label in all labelled rows: the label, the cells, and what it is there."""
    for variable, values in _values(labelling, known):
        rows = np.flatnonzero(values >= 0)
        told = [_said(str(variable.values[i])) for i in values[rows]]
        if len(rows) < _SURE or len(set(told)) < 2:
            continue
        for name in names:
            cells = feature_cells(table.frame[name])[rows.tolist()]
            if not cells.null_count() and _gives(cells, told):
                yield name, variable.name, cells.cast(pl.String, strict=False), told


def _gives(cells: pl.Series, told: list[str]) -> bool:
    """Whether there is one label for each value, and values recur: of a different one in each row nothing follows."""
    different = cells.n_unique() if not cells.dtype.is_nested() else cells.len()
    if different > cells.len() / 2:
        return False
    return pl.DataFrame({"cell": cells, "label": told}).n_unique() == different


def _said(text: str) -> str:
    return " ".join(text.split()).casefold()


def _values_of(labelling: Labelling) -> Iterator[str]:
    """Names in which the rules speak: of values, and of variables that hold or not."""
    for variable in labelling.space.variables:
        yield from (variable.name,) if variable.binary else (v for v in variable.values if isinstance(v, str))


def _names_only(cells: pl.Series, told: Collection[str]) -> bool:
    return all(_said(cell) in told for cell in cells.unique())


def _equal(cells: pl.Series, told: list[str]) -> bool:
    """Whether cells are the label itself; of two values, such as 0 and 1, a feature may well be."""
    return len(set(told)) > 2 and [_said(cell) for cell in cells] == told


def _bare(name: str) -> str:
    """A name without capitals, spaces and marks, with which people are careless."""
    return re.sub(r"[\W_]+", "", name.casefold()) or name


def _called(labelling: Labelling) -> list[str]:
    own = [] if labelling.separator is not None else [v.name for v in labelling.space.variables]
    return [*own, *labelling.space.columns, *labelling.columns]


def _follows(cells: pl.Series, labelled: NDArray[np.bool_]) -> bool:
    """Whether a column is empty just where the label is."""
    if labelled.sum() < _FEW or (~labelled).sum() < _FEW:
        return False
    filled = cells.is_not_null().to_numpy()
    return not filled[~labelled].any() and float(filled[labelled].mean()) >= _FILLED


def _values(labelling: Labelling, known: Columns) -> Iterator[tuple[Variable, NDArray[np.int64]]]:
    """The place of each variable's value in each row, −1 where it is unknown."""
    for variable, (start, stop) in zip(labelling.space.variables, labelling.space.spans):
        block = known[:, start:stop]
        value = block[:, 0] if variable.binary else block.argmax(axis=1)
        yield variable, np.where(np.isnan(block).any(axis=1), -1, np.nan_to_num(value)).astype(np.int64)


# ---- rows that belong together ----


def groups(table: Table, name: str | None) -> NDArray[np.int64]:
    """The number of each row's group; a row whose group is unknown has one of its own."""
    alone = np.arange(len(table))
    if name is None:
        return alone
    codes = feature_cells(table.frame[name]).rank("dense").cast(pl.Int64).to_numpy()
    return np.where(np.isnan(codes), len(table) + alone, codes).astype(np.int64)
