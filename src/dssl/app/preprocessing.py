"""Preprocessing: raw columns of a file → the numbers a network is given, the same for training and for new files.

It is kept beside the model as JSON: nothing in it is executed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssl.app.columns import Column, cells, truth
from dssl.app.tables import Table
from dssl.errors import DataError
from dssl.files import write_whole
from dssl.logic.variables import listed, shown

_FORMAT, _VERSION = "dssl preprocessing", 1
_KINDS = ("numeric", "boolean", "categorical", "left out")
_INTACT = "Fetch an intact copy of the run, or fit anew."


@dataclass
class Findings:
    """What was put right while rows were read: counts by sentence, over all parts of a file."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, what: str, count: int, example: str = "") -> None:
        if count:
            self.counts[what] = self.counts.get(what, 0) + count
            self.examples.setdefault(what, example)

    def sentences(self) -> list[str]:
        return [f"{count:,} {what}{self.examples[what]}" for what, count in self.counts.items()]


@dataclass(frozen=True)
class Preprocessing:
    """How a table becomes x: columns as numbers (n, inputs), or images (n, channels, height, width).

    `image`: channels, height and width of images, for which there are no columns. `labels` and `id` are the names of
    the label columns and of the column that names rows, `label_names` what the label space calls the former.
    """

    columns: tuple[Column, ...] = ()
    image: tuple[int, int, int] | None = None
    labels: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    id: str | None = None

    @property
    def inputs(self) -> list[str]:
        """Names of the features."""
        return [name for column in self.columns for name in column.inputs]

    @property
    def used(self) -> list[Column]:
        return [column for column in self.columns if column.kind != "left out"]

    def __call__(self, table: Table, findings: Findings | None = None) -> NDArray[Any]:
        """x of a table's rows. What had to be put right goes to `findings`; what cannot be is an error."""
        if self.image is not None:
            return self._pixels(table)
        absent = [column.name for column in self.used if column.name not in table.names]
        if absent:
            raise DataError(
                f"'{table.path}' lacks the column{'s' if len(absent) > 1 else ''} {listed(absent)} that the model "
                f"learnt from\nIts columns: {listed(table.names, 12)}. Add what is missing; cells may be empty."
            )
        parts = [_numbers(column, table, findings or Findings()) for column in self.used]
        return np.column_stack(parts).astype(np.float32) if parts else np.zeros((len(table), 0), np.float32)

    def _pixels(self, table: Table) -> NDArray[Any]:
        if table.images is None:
            raise DataError(f"'{table.path}' holds no images, which the model learnt from\nGive a folder of images.")
        if table.images.shape[1:] != self.image:
            raise DataError(
                f"'{table.path}' has images of shape {table.images.shape[1:]}, the model learnt from {self.image}\n"
                "Bring them to the same size."
            )
        return table.images

    # ---- files ----

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        state = {"format": _FORMAT, "version": _VERSION, **asdict(self)}
        write_whole(path, json.dumps(state, indent=1, ensure_ascii=False).encode())

    @classmethod
    def load(cls, path: Path) -> Preprocessing:
        """Read what `save` wrote."""
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            if state["format"] != _FORMAT or state["version"] > _VERSION:
                raise DataError(f"'{path}' was written by another or a newer dssl\nUpgrade dssl, or fit anew.")
            columns = tuple(Column(**{**c, "values": tuple(c["values"])}) for c in state["columns"])
            image = tuple(state["image"]) if state["image"] else None
            read = cls(columns, image, tuple(state["labels"]), tuple(state["label_names"]), state["id"])
        except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"'{path}' is damaged: {shown(str(error))}\n{_INTACT}") from None
        if fault := read._fault():
            raise DataError(f"'{path}' is damaged: {fault}\n{_INTACT}")
        return read

    def _fault(self) -> str:
        """Which entry is of no use, or nothing: a file may have been edited."""
        odd = next((column for column in self.columns if not _fits(column)), None)
        if odd is not None:
            return f"the column {shown(repr(odd.name))} has entries that do not fit"
        names = (*self.labels, *self.label_names, *(() if self.id is None else (self.id,)))
        if not all(isinstance(name, str) for name in names):
            return "names of labels, or of rows, are no texts"
        if self.image is not None and (len(self.image) != 3 or not all(type(n) is int and n > 0 for n in self.image)):
            return f"images have no shape {shown(repr(self.image))}"
        return ""

    @classmethod
    def of_names(cls, features: Sequence[str], labels: Sequence[str]) -> Preprocessing:
        """For a model saved from Python: its features are columns of numbers, its label columns called as in it."""
        columns = tuple(Column(str(name), "numeric", fill=None) for name in features)
        return cls(columns, labels=tuple(labels), label_names=tuple(labels))


def _fits(column: Column) -> bool:
    if not isinstance(column.name, str) or not isinstance(column.flagged, bool):
        return False
    filled = column.fill is None or type(column.fill) in ((str,) if column.kind == "categorical" else (int, float))
    return filled and column.kind in _KINDS and all(isinstance(value, str) for value in column.values)


def _numbers(column: Column, table: Table, findings: Findings) -> NDArray[np.float32]:
    """The inputs of one column (n, k)."""
    series = cells(table.frame[column.name])
    gaps = series.is_null()
    if gaps.any() and column.fill is None:
        row = gaps.arg_max() or 0
        raise DataError(f"'{table.path}', {table.place(row)}: '{column.name}' is empty\nFill it in.")
    if gaps.any() and not column.flagged:
        fill = column.fill if isinstance(column.fill, str) else f"{column.fill:.4g}"
        findings.add(
            f"empty cells of '{column.name}', which had none in training, were filled with {fill}", int(gaps.sum())
        )
    if column.kind == "categorical":
        parts = _one_hot(column, series, table, findings)
    else:
        values = truth(series) if column.kind == "boolean" else None
        values = _cast(column, series, table) if values is None else values
        parts = (values if column.fill is None else values.fill_null(column.fill)).to_numpy()[:, None]
    flags = gaps.to_numpy()[:, None] if column.flagged else np.zeros((len(table), 0))
    return np.hstack([parts, flags]).astype(np.float32)


def _cast(column: Column, series: pl.Series, table: Table) -> pl.Series:
    if series.dtype == pl.String:
        numbers = series.cast(pl.Float64, strict=False)
    elif series.dtype.is_numeric() or series.dtype == pl.Boolean:
        numbers = series.cast(pl.Float64)
    else:
        numbers = pl.Series([None] * series.len(), dtype=pl.Float64)
    odd = (numbers.is_null() & series.is_not_null()) | numbers.is_infinite().fill_null(False)
    if odd.any():
        row = odd.arg_max() or 0
        kind = "true or false" if column.kind == "boolean" else "numbers"
        raise DataError(
            f"'{table.path}', {table.place(row)}: column '{column.name}' held {kind} in training, but here "
            f"'{series[row]}'\nMend it, or leave the cell empty if it is not known."
        )
    return numbers


def _one_hot(column: Column, series: pl.Series, table: Table, findings: Findings) -> NDArray[np.float32]:
    texts = series.cast(pl.String).fill_null(str(column.fill))
    place = texts.replace_strict({v: i for i, v in enumerate(column.values)}, default=-1, return_dtype=pl.Int64)
    index = place.to_numpy()
    strange = index < 0
    if strange.any():
        row = int(np.argmax(strange))
        findings.add(
            f"cells of '{column.name}' hold a value that training never saw, and count as none of its values",
            int(strange.sum()),
            f"; first '{texts[row]}' in {table.place(row)}",
        )
    out = np.zeros((len(table), len(column.values)), np.float32)
    out[np.flatnonzero(~strange), index[~strange]] = 1
    return out
