"""What a column of a table means: numbers, categories, or nothing that can be learnt from, and why."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from dssl.app.tables import Table
from dssl.errors import DataError
from dssl.logic.variables import listed, nearest

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")  # cells that stand for "not known"
_TRUTH = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ]\d.*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_MOST_VALUES = 200  # of a column of categories, unless it is asked for
_MOSTLY = 0.9  # share of numbers above which other entries look like mistakes


@dataclass(frozen=True)
class Column:
    """A column and what becomes of it.

    `kind`: "numeric", "boolean", "categorical", or "left out" with `why`. `fill` replaces missing entries: the mean, or
    the most frequent value. With `flagged`, a further input says where entries were missing. `values`: categories.
    """

    name: str
    kind: str
    values: tuple[str, ...] = ()
    fill: float | str | None = None
    flagged: bool = False
    why: str = ""
    shown: str = ""  # a few words on what is in it
    missing: int = 0

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the network's inputs that it becomes."""
        if self.kind == "left out":
            return ()
        own = tuple(f"{self.name}={value}" for value in self.values) if self.kind == "categorical" else (self.name,)
        return (*own, f"{self.name} is missing") if self.flagged else own


def find_columns(table: Table, names: Sequence[str], categorical: Collection[str] = ()) -> list[Column]:
    """The columns of these names, each with its kind found from all its rows."""
    return [_column(table, name, name in categorical) for name in names]


def cells(series: pl.Series) -> pl.Series:
    """A column as it was meant: texts trimmed, and null for what stands for "not known"."""
    if series.dtype == pl.String:
        series = series.str.strip_chars()
        return series.set(series.is_in(MISSING), None)
    return series.fill_nan(None) if series.dtype.is_float() else series


def require(table: Table, names: Sequence[str], flag: str) -> None:
    """An error that names the first of some columns that a table has not."""
    for name in names:
        if name not in table.names:
            raise DataError(
                f"'{table.path}' has no column '{name}' ({flag})\n"
                f"{nearest(name, table.names)}Its columns: {listed(table.names, 12)}."
            )


# ---- kinds ----


def _column(table: Table, name: str, categorical: bool) -> Column:
    series = cells(table.frame[name])
    missing = series.null_count()
    known = series.drop_nulls()
    out: Any = {"name": name, "missing": missing, "flagged": missing > 0}
    if not known.len():
        return _left_out(name, missing, "empty", "no entry is known")
    if series.dtype.is_temporal() or (series.dtype == pl.String and _all_dates(known)):
        return _left_out(
            name, missing, "dates", "dates are not learnt from: if they matter, add numbers such as the year"
        )
    if series.dtype.is_nested():
        return _left_out(name, missing, str(series.dtype), "lists and records are not learnt from")
    if known.n_unique() == 1 and not missing:
        return _left_out(name, missing, f"always {known[0]}", "constant: it tells rows from each other in nothing")
    if categorical:
        return _categories(known.cast(pl.String), out)
    answers = truth(series)
    if answers is not None:
        share = float(answers.drop_nulls().to_numpy().mean())
        return Column(kind="boolean", fill=share, shown=f"{share:.0%} true", **out)
    numbers = _numbers(table, name, series)
    if numbers is not None:
        return _numeric(numbers, out)
    return _texts(known.cast(pl.String), table, out)


def _left_out(name: str, missing: int, shown: str, why: str) -> Column:
    return Column(name, "left out", why=why, shown=shown, missing=missing)


def _all_dates(known: pl.Series) -> bool:
    return all(_DATE.fullmatch(text) for text in known.unique().to_list())


def truth(series: pl.Series) -> pl.Series | None:
    """Truth values as 1 and 0, or None for other columns."""
    if series.dtype == pl.Boolean:
        return series.cast(pl.Float64)
    if series.dtype != pl.String:
        return None
    texts = series.str.to_lowercase()
    if not texts.drop_nulls().is_in(list(_TRUTH)).all():
        return None
    return texts.replace_strict(_TRUTH, default=None, return_dtype=pl.Float64)


def _numbers(table: Table, name: str, series: pl.Series) -> pl.Series | None:
    """Numbers, or None for a column of something else; a few other entries among numbers are an error."""
    if series.dtype.is_numeric():
        return _finite(table, name, series.cast(pl.Float64))
    numbers = series.cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
    odd = numbers.is_null() & series.is_not_null()
    count = int(odd.sum())
    if not count:
        return _finite(table, name, numbers)
    if count > (1 - _MOSTLY) * (series.len() - series.null_count()):
        return None
    row = odd.arg_max() or 0
    raise DataError(
        f"'{table.path}', {table.place(row)}: column '{name}' holds numbers, but here '{series[row]}'"
        + (f", and {count - 1} more such" if count > 1 else "")
        + f'\nMend it, leave the cell empty if it is not known, or say --categorical "{name}" or --ignore "{name}".'
    )


def _finite(table: Table, name: str, numbers: pl.Series) -> pl.Series:
    numbers = numbers.fill_nan(None)
    infinite = numbers.is_infinite().fill_null(False)
    if infinite.any():
        row = infinite.arg_max() or 0
        raise DataError(
            f"'{table.path}', {table.place(row)}: column '{name}' holds {numbers[row]}\n"
            "Give a finite number, or leave the cell empty if it is not known."
        )
    return numbers


def _numeric(numbers: pl.Series, out: dict[str, Any]) -> Column:
    known = numbers.drop_nulls()
    least, most = float(known.min()), float(known.max())  # type: ignore[arg-type]
    steps = known.diff().drop_nulls()
    if known.len() > 2 and not out["missing"] and (steps == 1).all():
        return _left_out(out["name"], 0, f"{least:g}, {least + 1:g}, …", "it numbers the rows")
    return Column(kind="numeric", fill=float(known.mean()), shown=f"{least:.4g} … {most:.4g}", **out)  # type: ignore[arg-type]


def _texts(known: pl.Series, table: Table, out: dict[str, Any]) -> Column:
    count = known.n_unique()
    if count == known.len():
        return _left_out(out["name"], out["missing"], f"{count} different texts", "every row has another text: names")
    if count > _MOST_VALUES:
        why = f"{count} different texts are many for categories: say --categorical to use them all the same"
        return _left_out(out["name"], out["missing"], f"{count} different texts", why)
    return _categories(known, out)


def _categories(known: pl.Series, out: dict[str, Any]) -> Column:
    counts = known.value_counts(sort=True)
    values = tuple(sorted(known.unique().to_list()))
    top = counts.filter(pl.col("count") == counts["count"].max())[known.name].sort()[0]
    return Column(kind="categorical", values=values, fill=top, shown=listed(values, 4), **out)
