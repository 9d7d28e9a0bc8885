"""What a column of a table means: numbers, categories, dates, texts, or nothing that can be used, and why."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssl.data.cells import (
    CLOCK,
    COMMA,
    DATE_FORMS,
    PARTS,
    POINT,
    UNITS,
    Written,
    are_codes,
    date_forms,
    dates,
    feature_cells,
    parts_covered,
    truth,
)
from dssl.data.tables import Table
from dssl.data.texts import Vocabulary, is_text
from dssl.errors import DataError
from dssl.logic.language.variables import listed, nearest, shown

OTHERS = "(other)"  # the input of rare and new categories
_MOSTLY = 0.9  # share of numbers above which other entries look like mistakes
_RARE = 0.01  # share of rows below which a category gets no input of its own: it would be far from its mean
_COMMON = 0.2  # share of rows that frequent categories must have among many rare ones
_TABLE = 30  # rows from which a category that occurs once is rare
_MANY = 50  # whole numbers, all different, from which they may be identifiers
_SKEWED, _PEAKED = 4.0, 30.0  # skewness and kurtosis of a long tail: an exponential distribution has 2 and 9
_LARGEST = 1e70  # numbers whose powers are numbers too
_VALUES = 10  # different numbers of a column, at least, that can have a long tail
_SURPRISING = 3.0  # expected pairs of equal numbers from which having none is no accident
_WRITTEN_AS = {
    "day first, dots": "%d.%m.%Y", "day first": "%d/%m/%Y", "month first": "%m/%d/%Y", "month's name": "%d %b %Y",
    "month's name first": "%b %d, %Y", "year and month": "%Y-%m", "month and year": "%m/%Y",
    CLOCK: "%H:%M",
}  # fmt: skip
_KEY = re.compile(r"(?i)(^|[\W_])(id|ids|key|uuid|guid|index|idx|nr|no|number|rowid|row)$|Id$|ID$")


@dataclass(frozen=True)
class Column:
    """A column of a table, and what becomes of it.

    `kind`: "numeric", "boolean", "categorical", "date", "text", "embedded", or "left out" with `why`. `fill` replaces
    missing entries: the mean, the most frequent value, or a date. With `flagged`, a further input says where entries
    were missing. For numbers and dates, `form` is how they are written, and `bounds` are the least and the largest; for
    numbers, `unit` follows or precedes them, and those with a `tail` (c, u) become arsinh((x − c) / u). `values`:
    categories, or parts of a date; `rare`: categories without an input of their own; they share one if `others`. For
    texts, `vocabulary` has the words that count, and `weight` how much they count beside other columns. If inputs are
    scaled, `scales` has the mean and spread of each. Inputs of an `embedding`, `width` of them, come from an object of
    that name.
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


def find_columns(
    table: Table, names: Sequence[str], categorical: Collection[str] = (), text: Collection[str] = ()
) -> list[Column]:
    """The columns of these names, each with its kind found from all rows of the table.

    >>> from pathlib import Path
    >>> frame = pl.DataFrame({"price": ["1.200,50 €", "80 €", "n/a"], "open": ["yes", "no", "yes"]})
    >>> for column in find_columns(Table(Path("d.csv"), "CSV", frame), ["price", "open"]):
    ...     print(column.name, column.kind, column.inputs)
    price numeric ('price', 'price is missing')
    open boolean ('open',)
    """
    finder = _Finder(table)
    return [finder.column(name, name in categorical, name in text) for name in names]


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


_MOST, _WIDEST = 1 << 53, 1 << 20  # rows that can be counted, numbers of an embedding


def unfit(columns: Sequence[Column]) -> str:
    """Which column cannot be used, or nothing."""
    odd = next((column for column in columns if not _fits(column)), None)
    return "" if odd is None else f"the column {shown(repr(odd.name))} has entries that do not fit"


def _fits(c: Column) -> bool:
    if not (isinstance(c.name, str) and isinstance(c.flagged, bool) and isinstance(c.others, bool)):
        return False
    if not all(isinstance(each, tuple) for each in (c.values, c.rare, c.scales)):
        return False
    if not all(isinstance(word, str) for word in (c.kind, c.form, c.unit, c.shown)):
        return False
    if not all(type(count) is int and 0 <= count <= _MOST for count in (c.width, c.missing)):
        return False
    texts = all(isinstance(text, str) for text in (*c.values, *c.rare))
    own: dict[str, Callable[[], bool]] = {
        "numeric": lambda: _filled_by_number(c) and c.form in ("", POINT, COMMA) and c.unit in ("", *UNITS),
        "boolean": lambda: _filled_by_number(c),
        "categorical": lambda: c.fill is None or isinstance(c.fill, str),
        "date": lambda: (
            c.form in ("", *DATE_FORMS) and c.bounds is not None and set(c.values) <= set(PARTS) and _dated(c)
        ),
        "text": lambda: isinstance(c.vocabulary, Vocabulary) and c.vocabulary.sound(),
        "embedded": lambda: 0 < c.width <= _WIDEST and isinstance(c.embedding, str),
        "left out": lambda: True,
    }
    return texts and c.kind in own and own[c.kind]() and _numbers_fit(c)


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


# ---- kinds ----


class _Finder:
    """Finds what columns of a table mean; columns tell each other whether the file has decimal commas."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def column(self, name: str, categorical: bool, text: bool) -> Column:
        """One column, of the kind that was asked for, if any."""
        series = feature_cells(self.table.frame[name])
        missing, known = series.null_count(), series.drop_nulls()
        out: Any = {"name": name, "missing": missing, "flagged": missing > 0}
        if not known.len():
            return _left_out(out, "empty", "no cell has a value")
        if series.dtype.is_nested():
            return _left_out(out, str(series.dtype), "lists and records are not used")
        if known.n_unique() == 1 and not missing:
            return _left_out(out, f"always {shown(known[0])}", "it is the same in every row")
        if text:
            return _texts_of_words(known.cast(pl.String), out)
        if categorical:
            return _categories(known.cast(pl.String), out, asked=True)
        answers = truth(series)
        if answers is not None:
            share = float(answers.drop_nulls().to_numpy().mean())
            return Column(kind="boolean", fill=share, shown=f"{share:.0%} true", **out)
        return self._numbers_or_dates(series, out) or _texts(known.cast(pl.String), out)

    def _numbers_or_dates(self, series: pl.Series, out: dict[str, Any]) -> Column | None:
        if series.dtype in (pl.Duration, pl.Time):
            series = series.cast(pl.Duration("us")).dt.total_microseconds() / 1e6  # in seconds
        if series.dtype.is_numeric():
            return _numeric(self._finite(out["name"], series.cast(pl.Float64)), out)
        if series.dtype.is_temporal():
            return _date(dates(series, ""), "", out)
        texts = series.cast(pl.String)
        if are_codes(texts.drop_nulls()):
            return None
        plain = texts.cast(pl.Float64, strict=False)
        if plain.null_count() == texts.null_count() and not self._grouped(texts):
            return _numeric(self._finite(out["name"], plain), out)
        return self._dates(texts, out) or self._written(texts, plain, out)

    # ---- dates ----

    def _dates(self, texts: pl.Series, out: dict[str, Any]) -> Column | None:
        known = texts.drop_nulls()
        forms = date_forms(known)
        if len(forms) == 1:
            return _date(dates(texts, forms[0]), forms[0], out)
        if forms:
            why = (
                f"it is not clear whether '{shown(known[0])}' begins with the day or the month: "
                "write dates as 2020-12-31"
            )
            return _left_out(out, "dates", why)
        fits = {form: dates(texts, form) for form in DATE_FORMS}
        any_form = pl.DataFrame(fits).select(pl.coalesce(pl.all())).to_series()
        if any_form.null_count() == texts.null_count():
            first = known[0]
            other = next(text for text in known if not set(date_forms(pl.Series([first, text]))))
            why = f"its dates have several forms, such as '{shown(first)}' and '{shown(other)}': write them in one"
            return _left_out(out, "dates", why)
        form = min(fits, key=lambda form: fits[form].null_count())
        self._refuse_few(out["name"], "dates", texts, fits[form])
        return None

    # ---- numbers ----

    @cached_property
    def decimal(self) -> str:
        """What separates decimals where a column leaves it open: as in other columns, or as usual in such files."""
        frame = self.table.frame
        told = [
            _told(Written.of(feature_cells(frame[name]))) for name in frame.columns if frame[name].dtype == pl.String
        ]
        if COMMA in told or POINT in told:
            return POINT if POINT in told and (COMMA not in told or self.table.separator != ";") else COMMA
        return COMMA if self.table.separator == ";" else POINT

    def _grouped(self, texts: pl.Series) -> bool:
        """Whether numbers such as 1.234 have points between thousands, judging by the rest of the file."""
        known = texts.drop_nulls()
        grouped = known.str.contains(r"^-?[1-9][0-9]{0,2}(\.[0-9]{3})+$")
        whole = known.str.contains(r"^-?[0-9]+$")
        return bool(grouped.any()) and bool((grouped | whole).all()) and self.decimal == COMMA

    def _written(self, texts: pl.Series, plain: pl.Series, out: dict[str, Any]) -> Column | None:
        """A column of numbers with marks and units, or None; a few other texts among many numbers are an error."""
        name, written = out["name"], Written.of(texts)
        point, comma = written.forms()
        form = (self.decimal if comma else POINT) if point else COMMA
        numbers = written.read(form)
        if numbers.null_count() > plain.null_count():
            numbers, form = plain, POINT
        self._refuse_few(name, "numbers", texts, numbers)
        if numbers.null_count() > texts.null_count():
            return None
        units = written.unit.drop_nulls().unique(maintain_order=True).to_list()
        if len(units) > 1:
            first, second = ((written.unit == unit).arg_max() or 0 for unit in units[:2])
            raise DataError(
                f"'{self.table.path}': column '{name}' has numbers in {listed(units)}: '{texts[first]}' in "
                f"{self.table.place(first)}, '{texts[second]}' in {self.table.place(second)}\n"
                f'Give all of them in one unit, or --categorical "{name}" or --ignore "{name}".'
            )
        found = _numeric(self._finite(name, numbers), out)
        if found.kind == "left out":
            return found
        said = [found.shown, *units, *(["decimal commas"] if form == COMMA else [])]
        return replace(found, form=form, unit=units[0] if units else "", shown=", ".join(said))

    def _refuse_few(self, name: str, what: str, texts: pl.Series, read: pl.Series) -> None:
        """An error if nearly all texts, but not all, were read."""
        odd = read.is_null() & texts.is_not_null()
        count, known = int(odd.sum()), texts.len() - texts.null_count()
        if not count or count > (1 - _MOSTLY) * known:
            return
        rows = [row for row, strange in enumerate(odd) if strange][:10]
        more = f", and {count - 1} more like it" if count > 1 else ""
        where = "" if count == 1 else "".join(f"\n  {self.table.place(r)}: '{shown(texts[r])}'" for r in rows)
        where += f"\n  … {count} in all" if count > len(rows) else ""
        raise DataError(
            f"'{self.table.path}', {self.table.place(rows[0])}: column '{name}' holds {what}, but here "
            f"'{shown(texts[rows[0]])}'{more}{where}\n"
            f'Correct it, leave the cell empty if it is unknown, or give --categorical "{name}" or --ignore "{name}".'
        )

    def _finite(self, name: str, numbers: pl.Series) -> pl.Series:
        numbers = numbers.fill_nan(None)
        infinite = numbers.is_infinite().fill_null(False)
        if infinite.any():
            row = infinite.arg_max() or 0
            raise DataError(
                f"'{self.table.path}', {self.table.place(row)}: column '{name}' holds {numbers[row]}\n"
                "Give a finite number, or leave the cell empty if it is unknown."
            )
        return numbers


def _told(written: Written) -> str:
    """The decimal mark, if a column's numbers leave no doubt about it."""
    known = written.body.len() - written.body.null_count()
    if not known or known < _MOSTLY * written.body.len():
        return ""
    point, comma = written.forms()
    return "" if point == comma else POINT if point else COMMA


def _left_out(out: dict[str, Any], holds: str, why: str) -> Column:
    return Column(out["name"], "left out", why=why, shown=holds, missing=out["missing"])


def _numeric(numbers: pl.Series, out: dict[str, Any]) -> Column:
    known = numbers.drop_nulls()
    if not known.len():
        return _left_out(out, "empty", "no cell has a value")
    least, most = float(known.min()), float(known.max())  # type: ignore[arg-type]
    if not out["missing"] and (why := _identifier(out["name"], known, least, most)):
        return _left_out(out, f"{known[0]:g}, {known[1]:g}, …", why)
    tail = _tail(known.to_numpy())
    middle = float(known.mean() if tail is None else known.median())  # type: ignore[arg-type]
    holds = f"{least:.4g} … {most:.4g}" + (", long tail" if tail else "")
    return Column(kind="numeric", fill=middle, shown=holds, bounds=(least, most), tail=tail, **out)


def _tail(x: NDArray[np.float64]) -> tuple[float, float] | None:
    """Where numbers are that span many sizes, and from which size on they count by it: on a scale of their own, a few
    large ones would leave all others at one place. None for other numbers.

    >>> _tail(np.arange(100.0)), _tail(2.0 ** np.arange(-10, 31))
    (None, (0.0, 0.00390625))
    """
    if np.abs(x).max() > _LARGEST or len(np.unique(x)) < _VALUES:
        return None
    z = x - x.mean()
    spread = float(np.sqrt(np.mean(z**2))) or 1.0
    z /= spread
    if abs(np.mean(z**3)) < _SKEWED and np.mean(z**4) < _PEAKED:
        return None
    centre = 0.0 if x.min() >= 0 else float(np.median(x))
    far = np.abs(x - centre)
    unit = float(np.quantile(far[far > 0], 0.05 if x.min() >= 0 else 0.5))
    return (centre, unit) if unit > 0 else None


def _identifier(name: str, known: pl.Series, least: float, most: float) -> str:
    """Why these numbers only name rows, or nothing."""
    n = known.len()
    if n > 2 and (known.diff().drop_nulls() == 1).all():
        return "it numbers the rows"
    if n < _MANY or (known != known.round()).any() or known.n_unique() < n:
        return ""
    if most - least + 1 == n:
        return "it numbers the rows, in another order"
    pairs = n * (n - 1) / 2 / (most - least + 1)  # that would be equal by chance
    if pairs >= _SURPRISING or _KEY.search(name):
        return "every row has a different whole number, like an identifier"
    return ""


def _date(moments: pl.Series, form: str, out: dict[str, Any]) -> Column:
    known = moments.drop_nulls()
    if known.n_unique() == 1 and not out["missing"]:
        return _left_out(out, f"always {known[0]}", "it is the same in every row")
    first, last = known.sort()[0], known.sort()[-1]
    middle = known.sort()[known.len() // 2]
    bounds = (_days(first), _days(last))
    written = "%H:%M" if form == CLOCK else "%Y-%m-%d"
    holds = f"{first:{written}} … {last:{written}}"
    parts = parts_covered(known, form)
    return Column(kind="date", values=parts, fill=str(middle), form=form, bounds=bounds, shown=holds, **out)


def _days(moment: Any) -> float:
    return float(pl.Series([moment]).dt.epoch("s")[0] / 86400)


# ---- texts ----


def _texts(known: pl.Series, out: dict[str, Any]) -> Column:
    if is_text(known):
        return _texts_of_words(known, out)
    count = known.n_unique()
    if count == known.len():
        return _left_out(out, f"{count} different texts", "every row has a different text, like a name")
    return _categories(known, out)


def _texts_of_words(known: pl.Series, out: dict[str, Any]) -> Column:
    found = Vocabulary.of(known.to_list())
    if not found.words:
        return _left_out(out, f"{known.n_unique()} different texts", "no word occurs in two rows")
    also = f" and {len(found.pieces):,} pieces" if found.pieces else ""
    holds = f"{len(found.words):,} words{also}"
    # an empty text has no word, which says enough
    return Column(**{**out, "flagged": False}, kind="text", vocabulary=found, fill="", shown=holds)


def _categories(known: pl.Series, out: dict[str, Any], asked: bool = False) -> Column:
    counts = known.value_counts(sort=True)
    n, highest = known.len() + out["missing"], int(counts["count"].to_numpy().max())
    least = 1 if n < _TABLE else min(2, highest) if asked else max(2, math.ceil(_RARE * n))
    kept = counts.filter(pl.col("count") >= least)
    rare = counts.filter(pl.col("count") < least)
    if not asked and kept["count"].sum() < _COMMON * known.len():
        why = f"{counts.height} different texts are too many for categories: give --categorical to use them anyway"
        return _left_out(out, f"{counts.height} different texts", why)
    values = tuple(sorted(kept[known.name].to_list()))
    others = bool(rare.height) and rare["count"].sum() >= max(least, _RARE * n)
    top = counts.filter(pl.col("count") == highest)[known.name].sort()[0]
    return Column(
        kind="categorical", values=values, fill=top, rare=tuple(sorted(rare[known.name].to_list())), others=others,
        shown=listed(values, 4) + (f", {rare.height} rare" if rare.height else ""), **out,
    )  # fmt: skip
