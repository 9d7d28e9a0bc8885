"""What a column of a table is made of: its kind, the inputs that come from it, and what they need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dssl.data.cells import (
    CLOCK,
    COMMA,
    COMPACT,
    DATE_FORMS,
    PARTS,
    POINT,
    UNITS,
)
from dssl.data.tables import Table
from dssl.data.texts import Vocabulary
from dssl.errors import DataError
from dssl.logic.language.variables import listed, nearest, shown

OTHERS = "(other)"  # the input of rare and new categories
_WRITTEN_AS = {
    "day first, dots": "%d.%m.%Y", "day first": "%d/%m/%Y", "month first": "%m/%d/%Y", "month's name": "%d %b %Y",
    "month's name first": "%b %d, %Y", "year and month": "%Y-%m", "month and year": "%m/%Y",
    "month's name and year": "%b %Y", COMPACT: "%Y%m%d", CLOCK: "%H:%M",
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column of a table, and what becomes of it.

    `kind`: "numeric", "boolean", "categorical", "several", "date", "text", "embedded", or "left out" with `why`. `fill`
    replaces missing entries: the mean, the most frequent value, or a date. With `flagged`, a further input says where
    entries were missing; `gaps` are what else stands for "not known" in this column. For numbers and dates, `form` is
    how they are written, and `bounds` are the least and the largest; for numbers, `unit` follows or precedes them, and
    those with a `tail` (c, u) become arsinh((x − c) / u). `values`: categories, parts of a date, or names of which a
    cell may hold several, with `form` between them; `rare`: categories without an input of their own; they share one if
    `others`. For texts, `vocabulary` has the words that count, and `weight` how much they count beside other columns.
    If inputs are scaled, `scales` has the mean and spread of each. Inputs of an `embedding`, `width` of them, come from
    an object of that name.
    """

    name: str
    kind: str
    values: tuple[str, ...] = ()
    fill: float | str | None = None
    flagged: bool = False
    why: str = ""
    shown: str = ""  # a few words on what is in it
    missing: int = 0
    form: str = ""
    unit: str = ""
    bounds: tuple[float, float] | None = None
    tail: tuple[float, float] | None = None
    rare: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    others: bool = False
    vocabulary: Vocabulary | None = None
    weight: float = 1.0
    scales: tuple[tuple[float, float], ...] = ()
    embedding: str = ""
    width: int = 0

    @property
    def own(self) -> tuple[str, ...]:
        """Names of the inputs that hold its content, without the one that flags missing entries."""
        if self.kind == "categorical":
            return tuple(f"{self.name}={value}" for value in (*self.values, *([OTHERS] if self.others else [])))
        words = self.vocabulary.names if self.vocabulary is not None else ()
        many = {
            "date": self.values,
            "several": self.values,
            "text": words,
            "embedded": tuple(map(str, range(self.width))) if self.kind == "embedded" else (),
            "left out": (),
        }
        return tuple(f"{self.name}: {part}" for part in many[self.kind]) if self.kind in many else (self.name,)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the network's inputs that are made from it."""
        return (*self.own, f"{self.name} is missing") if self.flagged else self.own

    @property
    def example(self) -> str:
        """What a cell could hold, written as the column's cells are: the mean, the most frequent value, a date.

        >>> Column("price", "numeric", fill=2.5, form="comma", unit="€").example, Column("name", "left out").example
        ('2,5', '')
        """
        if self.kind == "date" and self.fill is not None:
            return f"{datetime.fromisoformat(str(self.fill)):{_WRITTEN_AS.get(self.form, '%Y-%m-%d')}}"
        number = f"{self.fill:.4g}" if isinstance(self.fill, float) else str(self.fill or "")
        return number.replace(".", ",") if self.form == COMMA else number

    @classmethod
    def read(cls, state: Mapping[str, Any]) -> Column:
        """A column from JSON, also in version 1 of the format, which had fewer entries."""
        words = state.get("vocabulary") if isinstance(state, Mapping) else state
        if not isinstance(state, Mapping) or not (words is None or isinstance(words, Mapping)):
            raise TypeError(f"a column, or its vocabulary, is {shown(repr(words))}")
        given: dict[str, Any] = {n: tuple(map(_frozen, v)) if isinstance(v, list) else v for n, v in state.items()}
        if words is not None:
            given["vocabulary"] = Vocabulary(**{name: tuple(v) for name, v in words.items()})
        return cls(**given)


def require(table: Table, names: Sequence[str], flag: str) -> None:
    """An error that names the first of these columns that a table does not have."""
    for name in names:
        if name not in table.names:
            raise DataError(
                f"'{table.path}' has no column '{name}' ({flag})\n"
                f"{nearest(name, table.names)}Its columns: {listed(table.names, 12)}."
            )


# ---- columns out of a file that may have been edited ----


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_MOST, _WIDEST, _LONGEST = 1 << 53, 1 << 20, 15  # rows that can be counted, numbers of an embedding, letters of a unit


def unfit(columns: Sequence[Column]) -> str:
    """Which column cannot be used, or nothing."""
    odd = next((column for column in columns if not _fits(column)), None)
    return "" if odd is None else f"the column {shown(repr(odd.name))} has entries that do not fit"


def _fits(c: Column) -> bool:
    if not (isinstance(c.name, str) and isinstance(c.flagged, bool) and isinstance(c.others, bool)):
        return False
    if not all(isinstance(each, tuple) for each in (c.values, c.rare, c.gaps, c.scales)):
        return False
    if not all(isinstance(word, str) for word in (c.kind, c.form, c.unit, c.shown)):
        return False
    if not all(type(count) is int and 0 <= count <= _MOST for count in (c.width, c.missing)):
        return False
    texts = all(isinstance(text, str) for text in (*c.values, *c.rare, *c.gaps))
    own: dict[str, Callable[[], bool]] = {
        "numeric": lambda: _filled_by_number(c) and c.form in ("", POINT, COMMA) and _is_unit(c.unit),
        "boolean": lambda: _filled_by_number(c),
        "categorical": lambda: c.fill is None or isinstance(c.fill, str),
        "date": lambda: (
            c.form in ("", *DATE_FORMS) and c.bounds is not None and set(c.values) <= set(PARTS) and _dated(c)
        ),
        "several": lambda: bool(c.form) and bool(c.values) and c.fill == "",
        "text": lambda: isinstance(c.vocabulary, Vocabulary) and c.vocabulary.sound(),
        "embedded": lambda: 0 < c.width <= _WIDEST and isinstance(c.embedding, str),
        "left out": lambda: True,
    }
    return texts and c.kind in own and own[c.kind]() and _numbers_fit(c)


def _is_unit(unit: str) -> bool:
    return unit in ("", *UNITS) or (unit.isalpha() and 2 <= len(unit) <= _LONGEST)


def _filled_by_number(c: Column) -> bool:
    return c.fill is None or _finite(c.fill)


def _dated(c: Column) -> bool:
    try:
        datetime.fromisoformat(str(c.fill))
        return all(datetime(1, 1, 1) < datetime(1970, 1, 1) + timedelta(days=day) for day in c.bounds or ())
    except (ValueError, OverflowError, TypeError):
        return False


def _numbers_fit(c: Column) -> bool:
    pairs = (*c.scales, *(pair for pair in (c.bounds, c.tail) if pair is not None))
    if not all(isinstance(pair, tuple) and len(pair) == 2 and all(map(_finite, pair)) for pair in pairs):
        return False
    units = [unit for _, unit in (*c.scales, *([] if c.tail is None else [c.tail]))]
    return 0 not in units and len(c.scales) in (0, len(c.own)) and _finite(c.weight)


def _finite(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]
