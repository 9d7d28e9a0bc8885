"""What a column of a table means, found from its cells: numbers, categories, dates, texts, or nothing, and why."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssl.data.cells import (
    CLOCK,
    COMMA,
    COMPACT,
    DATE_FORMS,
    POINT,
    Written,
    are_codes,
    date_forms,
    dates,
    feature_cells,
    mostly_beyond,
    own_unit,
    parts_covered,
    truth,
)
from dssl.data.columns import Column
from dssl.data.tables import Table
from dssl.data.texts import Vocabulary, between_names, is_text, names_in
from dssl.errors import DataError
from dssl.logic.language.variables import listed, shown

_MOSTLY = 0.9  # share of numbers above which other entries look like mistakes
_RARE = 0.01  # share of rows below which a category gets no input of its own: it would be far from its mean
_COMMON = 0.2  # share of rows that frequent categories must have among many rare ones
_TABLE = 30  # rows from which a category that occurs once is rare
_MANY = 50  # whole numbers, all different, from which they may be identifiers
_SKEWED, _PEAKED = 4.0, 30.0  # skewness and kurtosis of a long tail: an exponential distribution has 2 and 9
_LARGEST = 1e70  # numbers whose powers are numbers too
_VALUES = 10  # different numbers of a column, at least, that can have a long tail
_DIFFERENT = 10  # different numbers, or dates, from which a column holds nothing else by accident
_FEW_WORDS, _MOST_WORDS = 3, 0.6  # words that may stand for "not known" beside numbers, and the share of their rows
_NINES = frozenset(sign * number for number in (99.0, 999.0, 9999.0, 99999.0, 999999.0) for sign in (1, -1))
_FAR = 2.0  # spans of all other numbers between them and a number that stands for "not known"
_SURPRISING = 3.0  # expected pairs of equal numbers from which having none is no accident
_NAMING = re.compile(r"(?i:(^|[\W_])(id|code|zip|zip_?code|postcode|plz)$)|(Id|ID|Code)$")
_KEY = re.compile(
    r"(?i:(^|[\W_])(id|ids|key|uuid|guid|index|idx|nr|no|number|rowid|row|phone|isbn|iban|ean|ssn)$|nummer$|^id[\W_])"
    r"|(Id|ID|Nr|No|Number|Key)$"
)


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
        if series.dtype in (pl.Categorical, pl.Enum):  # someone has said so
            return _categories(known.cast(pl.String), out)
        answers = truth(series)
        if answers is not None:
            share = float(answers.drop_nulls().to_numpy().mean())
            return Column(kind="boolean", fill=share, shown=f"{share:.0%} true", **out)
        return self._numbers_or_dates(series, out) or _texts(known.cast(pl.String), out)

    def _numbers_or_dates(self, series: pl.Series, out: dict[str, Any]) -> Column | None:
        if series.dtype in (pl.Duration, pl.Time):
            series = series.cast(pl.Duration("us")).dt.total_microseconds() / 1e6  # in seconds
        if series.dtype.is_numeric():
            numbers = self._finite(out["name"], series.cast(pl.Float64))
            return _compact(numbers, out) or _codes(numbers, out) or _numeric(numbers, out)
        if series.dtype.is_temporal():
            return _date(dates(series, ""), "", out)
        texts = series.cast(pl.String)
        if are_codes(texts.drop_nulls()):
            return None
        plain = texts.cast(pl.Float64, strict=False)
        if plain.null_count() == texts.null_count() and not self._grouped(texts):
            numbers = self._finite(out["name"], plain)
            return _compact(numbers, out) or _codes(numbers, out) or _numeric(numbers, out)
        gaps = _words_among_others(texts)
        found = self._numbers_or_dates(*_without(texts, gaps, out)) if gaps else None
        if found is not None and found.kind in ("numeric", "date"):
            return replace(found, gaps=(*found.gaps, *gaps), shown=f"{found.shown}, {listed(gaps)} for unknown")
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
        if not (bool(grouped.any()) and bool((grouped | whole).all())):
            return False
        # a program that writes 1.250 for a decimal number does not write 950 for another
        small = known.filter(whole & ~grouped)
        padded = bool(known.filter(grouped).str.ends_with("0").any()) and small.len() > 0
        return self.decimal == COMMA or (padded and bool((small.str.len_chars() <= 3).all()))

    def _written(self, texts: pl.Series, plain: pl.Series, out: dict[str, Any]) -> Column | None:
        """A column of numbers with marks and units, or None; a few other texts among many numbers are an error."""
        if mostly_beyond(texts.drop_nulls()):
            return None
        name, own = out["name"], own_unit(texts.drop_nulls())
        written = Written.of(texts, own)
        point, comma = written.forms()
        form = (self.decimal if comma else POINT) if point and not self._grouped(texts) else COMMA
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


def _words_among_others(texts: pl.Series) -> tuple[str, ...]:
    """A few words that recur among many different cells with digits: they say why there is no number, or no date."""
    counts = texts.drop_nulls().rename("text").value_counts(sort=True)
    words = counts.filter(~counts["text"].str.contains("[0-9]"))
    rest = counts.height - words.height
    if not 1 <= words.height <= _FEW_WORDS or rest < _DIFFERENT or int(words["count"].min()) < 2:  # type: ignore[arg-type]
        return ()
    return tuple(words["text"].sort()) if words["count"].sum() <= _MOST_WORDS * texts.len() else ()


def _without(cells: pl.Series, gaps: Sequence[str], out: dict[str, Any]) -> tuple[pl.Series, dict[str, Any]]:
    """Cells that are empty where they hold one of `gaps`, and what is known of their column then."""
    left = cells.set(cells.is_in(list(gaps)), None)
    return left, {**out, "missing": left.null_count(), "flagged": True}


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
    if (stand_in := _stand_in(known)) is not None:
        left = numbers.set(numbers == stand_in, None)
        found = _numeric(left, {**out, "missing": left.null_count(), "flagged": True})
        said = f"{found.shown}, {stand_in:g} for unknown"
        return replace(found, gaps=(*found.gaps, f"{stand_in:g}"), shown=said)
    least, most = float(known.min()), float(known.max())  # type: ignore[arg-type]
    if not out["missing"] and (why := _identifier(out["name"], known, least, most)):
        return _left_out(out, f"{known[0]:g}, {known[1]:g}, …", why)
    tail = _tail(known.to_numpy())
    middle = float(known.mean() if tail is None else known.median())  # type: ignore[arg-type]
    holds = f"{least:.4g} … {most:.4g}" + (", long tail" if tail else "")
    return Column(kind="numeric", fill=middle, shown=holds, bounds=(least, most), tail=tail, **out)


def _stand_in(known: pl.Series) -> float | None:
    """A number that says "not known", if there is one: made of nines, repeated, and far from all others."""
    for end in (known.min(), known.max()):
        number, count = float(end), int((known == end).sum())  # type: ignore[arg-type]
        if number not in _NINES or count < 2:
            continue
        rest = known.filter(~known.is_in([*_NINES]))
        least, most = (float(v) for v in (rest.min(), rest.max())) if rest.n_unique() >= 3 else (0.0, math.inf)  # type: ignore[arg-type]
        if max(least - number, number - most) > _FAR * max(1.0, most - least):
            return number
    return None


def _compact(numbers: pl.Series, out: dict[str, Any]) -> Column | None:
    """Dates written as numbers, such as 20201231, if all are."""
    known = numbers.drop_nulls()
    if not known.is_between(19000101, 20991231).all() or known.n_unique() < _DIFFERENT:
        return None
    moments = dates(numbers, COMPACT)
    whole = bool((known == known.round()).all()) and moments.null_count() == numbers.null_count()
    return _date(moments, COMPACT, out) if whole else None


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


def _codes(numbers: pl.Series, out: dict[str, Any]) -> Column | None:
    """Whole numbers that recur and are called codes: their sizes say nothing."""
    known = numbers.drop_nulls()
    if not _NAMING.search(out["name"]) or (known != known.round()).any() or known.n_unique() > known.len() / 2:
        return None
    found = _categories(known.cast(pl.Int64).cast(pl.String), out)
    return found if found.kind == "categorical" and len(found.values) > 1 else None


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
    if between := between_names(known):
        return _several(known, between, out)
    if is_text(known):
        return _texts_of_words(known, out)
    count = known.n_unique()
    if count == known.len():
        return _left_out(out, f"{count} different texts", "every row has a different text, like a name")
    return _categories(known, out)


def _several(known: pl.Series, between: str, out: dict[str, Any]) -> Column:
    """Cells of several names: each frequent name has an input."""
    counts = names_in(known, between).list.unique().list.explode().drop_nulls().rename("name").value_counts()
    least = 1 if known.len() < _TABLE else max(2, math.ceil(_RARE * known.len()))
    values = tuple(counts.filter(pl.col("count") >= least)["name"].sort())
    rare = tuple(counts.filter(pl.col("count") < least)["name"].sort())
    holds = f"several of {listed(values, 4)}"
    return Column(kind="several", values=values, rare=rare, fill="", form=between, shown=holds, **out)


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
        said = f"{counts.height} different texts are too many for categories"
        why = f"{said}: give --categorical or --text to use them anyway"
        return _left_out(out, f"{counts.height} different texts", why)
    values = tuple(sorted(kept[known.name].to_list()))
    others = bool(rare.height) and rare["count"].sum() >= max(least, _RARE * n)
    top = counts.filter(pl.col("count") == highest)[known.name].sort()[0]
    return Column(
        kind="categorical", values=values, fill=top, rare=tuple(sorted(rare[known.name].to_list())), others=others,
        shown=listed(values, 4) + (f", {rare.height} rare" if rare.height else ""), **out,
    )  # fmt: skip
