"""Which columns of a table are labels, what space they live in, and the labels themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssl.app.columns import cells, require
from dssl.app.tables import Table
from dssl.app.terminal import in_file
from dssl.errors import DataError, RuleError
from dssl.logic.labels import Columns
from dssl.logic.sources import read_text
from dssl.logic.space import LabelSpace
from dssl.logic.validity import Violations
from dssl.logic.variables import Variable, listed

_UNKNOWN = "-1"  # besides an empty cell
_WHOLE = r"^(-?[1-9][0-9]{0,14}|0)(\.0*)?$"  # numbers without leading zeros, which make names: 007


@dataclass(frozen=True)
class Labelling:
    """Label columns of files ⇄ labels of an estimator.

    `columns` are the names in the file, `names` those in the space, in the same order.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    space: LabelSpace

    def read(self, table: Table) -> pl.DataFrame:
        """Labels as `DSSLClassifier` takes them, by the space's names; null where unknown."""
        minus_one = {v.name for v in self.space.variables if -1 in v.values}
        texts = {name: _texts(table, column, name in minus_one) for column, name in zip(self.columns, self.names)}
        return pl.DataFrame(texts)

    def encode(self, table: Table) -> Columns:
        """Labels as columns (n, width) of the space; an error says where an entry fits none of its values."""
        space, texts = self.space, self.read(table)
        for name, series, column in zip(self.names, texts, self.columns):
            variable = next((v for v in space.variables if v.name == name), Variable(name))
            for value in series.unique(maintain_order=True).drop_nulls().to_list():
                try:
                    LabelSpace.of([variable]).encode([{name: value}])
                except DataError as error:
                    row = (series == value).arg_max() or 0
                    reason = str(error).removeprefix("row 0: ").replace("; None, NaN or -1 for", "; empty for")
                    raise DataError(f"'{table.path}', {table.place(row)}, column '{column}': {reason}") from None
        return space.encode(texts)


def _texts(table: Table, column: str, minus_one: bool = False) -> pl.Series:
    """A label column as texts, whole numbers without a point, null where unknown; `minus_one` is a value, or not."""
    if column not in table.names:
        return pl.Series([None] * len(table), dtype=pl.String)
    series = cells(table.frame[column])
    if series.dtype == pl.Boolean:
        series = series.cast(pl.Int8)
    texts = series.cast(pl.String)
    if texts.drop_nulls().str.contains(_WHOLE).all():
        texts = texts.cast(pl.Float64).cast(pl.Int64).cast(pl.String)
    return texts if minus_one else texts.set(texts == _UNKNOWN, None)


def _classes(texts: pl.Series) -> NDArray[Any]:
    """Classes as whole numbers if all are, else as names; None where unknown."""
    numbers = texts.cast(pl.Int64, strict=False)
    whole = bool((numbers.cast(pl.String) == texts).drop_nulls().all()) and numbers.null_count() == texts.null_count()
    return np.array((numbers if whole else texts).to_list(), dtype=object)


# ---- finding them ----


def find_labels(table: Table, label: Sequence[str] | None, rules: Path | None) -> Labelling:
    """The label columns: those named, those that the rules speak of, or those that the format knows."""
    require(table, label or (), "--label")
    if rules is None:
        return _without_rules(table, label)
    text = read_text(rules)
    try:
        return _with_rules(table, label, text, rules)
    except RuleError as error:
        raise in_file(error, rules) from None


def _without_rules(table: Table, label: Sequence[str] | None) -> Labelling:
    columns = tuple(label or table.labels)
    if not columns:
        raise DataError(
            f"nothing says which column of '{table.path}' is the label\n"
            f"Give --label COLUMN, or --rules FILE with variables called as columns. Its columns: "
            f"{listed(table.names, 12)}."
        )
    one = len(columns) == 1
    space = LabelSpace.of(_variable(name, _texts(table, name), choice=one) for name in columns)
    if one and space.width == 1:
        raise DataError(
            f"'{table.path}': every label in column '{columns[0]}' is {space.variables[0].values[0]}\n"
            "Label rows of at least two classes."
        )
    return Labelling(columns, columns, space)


def _variable(name: str, texts: pl.Series, choice: bool = False) -> Variable:
    """The variable that a column describes: binary where all entries are 0 and 1, unless a choice is wanted."""
    values = texts.drop_nulls().unique().sort().to_list()
    if not values:
        raise DataError(f"the label column '{name}' is empty\nLabel some rows, or leave it out of --label.")
    if not choice and {value.lower() for value in values} <= {"0", "1", "true", "false"}:
        return Variable(name)
    found = _classes(pl.Series(values))
    return Variable.choice(name, sorted(found.tolist()))


def _with_rules(table: Table, label: Sequence[str] | None, text: str, rules: Path) -> Labelling:
    if label:
        declared = [_variable(name, _texts(table, name)) for name in label]
        space = _space(text, declared)
    else:
        space = LabelSpace(text)
    names = [v.name for v in space.variables]
    if label and len(label) == len(names) == 1:
        return Labelling(tuple(label), tuple(names), space)
    if not label and len(table.labels) == len(names) and not set(names) <= set(table.names):
        return Labelling(table.labels, tuple(names), space)  # arrays have no names: they follow the rules' order
    known = {*names, *space.columns}
    columns = tuple(label or (name for name in table.names if name in known))
    strange = [name for name in columns if name not in known]
    if strange or not columns:
        raise DataError(
            f"'{rules}' speaks of {listed(names, 12)}, and "
            + (f"not of the label column '{strange[0]}'" if strange else f"'{table.path}' has no such column")
            + f"\nCall them alike, or name the labels: --label COLUMN. Columns: {listed(table.names, 12)}."
        )
    return Labelling(columns, columns, space)


def _space(text: str, declared: list[Variable]) -> LabelSpace:
    """A space from rule text that declares its variables, or leaves that to the label columns."""
    try:
        return LabelSpace(text)
    except RuleError as error:
        if "not declared" not in error.reason:
            raise
        try:
            return LabelSpace.of(declared).where(text)
        except RuleError:
            raise error from None


# ---- labels that break rules ----


def broken(found: Violations, table: Table, rows: NDArray[np.int64]) -> str:
    """Which rows of a file break which rules; `rows` are the places in the file of the rows that were checked."""
    lines = [f"'{table.path}': the labels of {len(found):,} of {len(found.invalid):,} rows break the rules"]
    bad = found.broken | found.jointly
    for i, rule in enumerate(found.rules):
        where = [table.place(int(rows[row])) for row in np.flatnonzero(bad[:, i])]
        if where:
            lines.append(f"  {rule}\n    {listed(where, 6)}")
    return "\n".join(lines)


def label_frame(table: Table, columns: Sequence[str]) -> pl.DataFrame:
    """Label columns as they are meant: whole numbers or texts, null where unknown."""
    out = {}
    for name in columns:
        texts = _texts(table, name)
        values = _classes(texts)
        out[name] = pl.Series(name, values.tolist(), None if any(v is not None for v in values) else pl.Int64)
    return pl.DataFrame(out)
