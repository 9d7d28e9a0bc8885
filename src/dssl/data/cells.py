"""What a cell says: not known, yes or no, a number or a date, however people write it.

A column has one way of writing, its *form*, found from all its cells and kept for new files.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import polars as pl

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?", "n/a", "#N/A", "<NA>")  # "not known", in labels too
# What else means it in features. In labels these may be classes: "none", say, beside "mild" and "severe".
_MISSING_FEATURES = frozenset(
    "na n/a n.a. n.a nan null none nil ? ?? - -- --- . .. #n/a #na #null! #value! #div/0! #ref! #num! #name? <na> "
    "<null> (null) (none) (missing) (unknown) \\n missing unknown not_available k.a. k.a".split()
) | {"", "not available", "not known", "no data", "no answer", "keine angabe", "#n/a n/a"}  # fmt: skip
_CONTROL = r"[\x00-\x08\x0e-\x1f\x7f\ufeff]"  # left behind by old programs, and invisible
_TRUTH = {
    "true": 1.0, "yes": 1.0, "y": 1.0, "t": 1.0, "on": 1.0, "ja": 1.0, "oui": 1.0, "si": 1.0, "sí": 1.0, "wahr": 1.0,
    "false": 0.0, "no": 0.0, "n": 0.0, "f": 0.0, "off": 0.0, "nein": 0.0, "non": 0.0, "falsch": 0.0,
}  # fmt: skip


def cells(series: pl.Series) -> pl.Series:
    """A column as it was meant: texts trimmed, and null for what stands for "not known"."""
    if series.dtype == pl.String:
        series = series.str.strip_chars()
        return series.set(series.is_in(MISSING), None)
    return series.fill_nan(None) if series.dtype.is_float() else series


def feature_cells(series: pl.Series) -> pl.Series:
    """The same for a feature, where more spellings mean "not known"."""
    if series.dtype == pl.List(pl.String):  # several names, as Parquet has them
        series = series.list.join("|", ignore_nulls=True)
    if series.dtype != pl.String:
        return cells(series)
    numbers = series.cast(pl.Float64, strict=False)
    if numbers.is_finite().all(ignore_nulls=False):  # nothing to correct, as in most columns of most files
        return series
    series = series.str.replace_all(_CONTROL, "").str.strip_chars()
    return series.set(series.str.to_lowercase().is_in(_MISSING_FEATURES), None)


def truth(series: pl.Series) -> pl.Series | None:
    """Truth values as 1 and 0, or None for other columns.

    >>> truth(pl.Series(["Yes", "no", None])).to_list()
    [1.0, 0.0, None]
    """
    if series.dtype == pl.Boolean:
        return series.cast(pl.Float64)
    if series.dtype != pl.String:
        return None
    found = some_truth(series)
    return found if found.null_count() == series.null_count() else None


def some_truth(texts: pl.Series) -> pl.Series:
    """Texts as 1 and 0; null for those that are neither."""
    return texts.str.to_lowercase().replace_strict(_TRUTH, default=None, return_dtype=pl.Float64)


# ---- numbers ----

_CURRENCIES = "€ $ £ ¥ ₹ ₽ ₩ zł Kč kr Fr. EUR USD GBP JPY CHF CNY INR SEK NOK DKK PLN CZK AUD CAD"
_MEASURES = (
    "% ‰ °C °F kg g mg µg t lb lbs oz km m cm mm µm mi ft yd in m² m2 km² cm² m³ m3 l L ml cl dl kWh Wh kW W "
    "MW V A Hz kHz MHz GHz B kB KB MB GB TB h min s sec ms d days years yrs km/h mph kcal kJ J hPa bar Pa px dB ppm bpm"
)
UNITS = frozenset(f"{_CURRENCIES} {_MEASURES}".split())
_ALIKE = {"day": "days", "year": "years", "yr": "years", "yrs": "years"}
_SCALES = {
    **dict.fromkeys(("k", "K", "Tsd", "Tsd."), 1e3), **dict.fromkeys(("M", "Mio", "Mio.", "million"), 1e6),
    **dict.fromkeys(("bn", "Mrd", "Mrd.", "billion"), 1e9),
}  # fmt: skip
_UNIT, _CURRENCY, _SCALE = (
    "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    for words in ((*UNITS, *_ALIKE), _CURRENCIES.split(), _SCALES)
)
_SPACES = r"[\u00a0\u202f\u2009\u2007]"
_ABOUT = r"[~≈]|ca\.?|[<>]=?|[≤≥]"  # before a number, which then stands for those about it, or beyond it
_WRITTEN = (
    rf"^(?:{_ABOUT})?\s*(?P<paren>\()?\s*(?P<sign>[-+]?)\s*(?P<before>{_CURRENCY})?\s*(?P<sign2>[-+]?)\s*"
    rf"(?P<body>[0-9][0-9.,' ’]*|[.,][0-9]+)(?P<power>[eE][-+]?[0-9]{{1,3}})?\+?\s*"
    rf"(?:(?P<after>{_UNIT})|(?P<scale>{_SCALE})\s*(?P<money>{_CURRENCY})?)?\s*\)?$"
)
_BEYOND = r"^\s*[<>≤≥]|\+\s*$"
_BEYOND_MOST = 0.5
_WORD = r"[0-9]\s+(\p{L}{3,15})\.?$"  # a unit of the column's own, such as rooms
# Groups of three digits never begin with 0: "0,123" has a decimal comma.
_POINT = r"^(?:[1-9][0-9]{0,2}(?:[, '’][0-9]{3})+(?:\.[0-9]*)?|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)$"
_COMMA = r"^(?:[1-9][0-9]{0,2}(?:[. '’][0-9]{3})+(?:,[0-9]*)?|[0-9]+(?:,[0-9]*)?|,[0-9]+)$"
_CODE = r"^0[0-9]+$"  # 007 and 01069 are names, not numbers
POINT, COMMA = "point", "comma"


@dataclass(frozen=True)
class Written:
    """Numbers as they are written: digits with their marks, sign, power and unit; null where there is no number."""

    body: pl.Series
    negative: pl.Series
    power: pl.Series
    unit: pl.Series
    scale: pl.Series

    @classmethod
    def of(cls, texts: pl.Series, own: str = "") -> Written:
        """Texts taken apart; `own` is a word that may follow numbers as a unit, in the singular.

        >>> Written.of(pl.Series(["1.5k", "~20", "3 rooms"]), "room").read(POINT).to_list()
        [1500.0, 20.0, 3.0]
        """
        plain = texts.str.replace_all(_SPACES, " ").str.replace_all("[−–]", "-")
        if own:
            ends = rf"(?i)([0-9])\s+{own}s?\.?$"
            word = pl.select(pl.when(plain.str.contains(ends)).then(pl.lit(own))).to_series()
            plain = plain.str.replace(ends, "${1}")
        parts = plain.str.extract_groups(_WRITTEN)
        field = parts.struct.field
        signs = field("sign").fill_null("") + field("sign2").fill_null("")
        paren = field("paren").is_not_null() & plain.str.ends_with(")")
        unit = pl.select(pl.coalesce(field("before"), field("after"), field("money"))).to_series().replace(_ALIKE)
        unit = pl.select(pl.coalesce(unit, word)).to_series() if own else unit
        scale = field("scale").replace_strict(_SCALES, default=1.0, return_dtype=pl.Float64)
        lone = (field("paren").is_not_null() == plain.str.ends_with(")").fill_null(False)) & (signs.str.len_chars() < 2)
        body = field("body").str.strip_chars().set(~lone.fill_null(False), None)
        return cls(body, (signs == "-") | paren, field("power").fill_null(""), unit, scale)

    def forms(self) -> tuple[bool, bool]:
        """Whether all bodies can have decimal points, and whether all can have decimal commas."""
        known = self.body.drop_nulls()
        return bool(known.str.contains(_POINT).all()), bool(known.str.contains(_COMMA).all())

    def read(self, form: str) -> pl.Series:
        """The numbers, if a mark of this form separates decimals; null for anything else."""
        fits, groups = (_COMMA, "[. '’]") if form == COMMA else (_POINT, "[, '’]")
        body = self.body.set(~self.body.str.contains(fits).fill_null(False), None)
        digits = body.str.replace_all(groups, "").str.replace(",", ".", literal=True)
        numbers = (digits + self.power).cast(pl.Float64, strict=False) * self.scale
        return pl.select(pl.when(self.negative).then(-numbers).otherwise(numbers)).to_series()


def own_unit(texts: pl.Series) -> str:
    """The word that follows all numbers of a column, if it is none of the usual units, in the singular.

    >>> own_unit(pl.Series(["3 rooms", "1 room", "2 rooms"])), own_unit(pl.Series(["3 rooms", "2 doors"]))
    ('room', '')
    """
    found = set(texts.str.extract(_WORD).str.to_lowercase().str.replace("(.)s$", "${1}").unique())
    word = found.pop() if len(found) == 1 else None
    return word if word is not None and not {word, f"{word}s"} & {*UNITS, *_ALIKE} else ""


def mostly_beyond(texts: pl.Series) -> bool:
    """Whether most cells only say what a number is above or below, such as >50K: then they are categories."""
    return float(texts.str.contains(_BEYOND).mean() or 0) > _BEYOND_MOST  # type: ignore[arg-type]


def are_codes(texts: pl.Series) -> bool:
    """Whether digits are names: some begin with a zero, as numbers do not."""
    return bool(texts.str.contains("^[0-9]+$").all()) and bool(texts.str.contains(_CODE).any())


# ---- dates ----

_MONTHS = {
    name: number + 1
    for number, names in enumerate(
        "jan|feb fév|mar mär mrz|apr avr|may mai|jun|jul|aug aoû|sep|oct okt|nov|dec dez déc".split("|")
    )
    for name in names.split()
}
_YEAR = r"(?P<y>[0-9]{4}|[0-9]{2})"
_TIME = (
    r"(?:[T ,]+(?P<H>[0-9]{1,2}):(?P<M>[0-9]{2})(?::(?P<S>[0-9]{2})(?:[.,][0-9]+)?)?\s*(?P<half>[AaPp][Mm])?"
    r"\s*(?:[+-][0-9]{2}:?[0-9]{2}|\(?[A-Za-z]{1,5}\)?(?: [A-Za-z]{1,5}){0,4})?)?$"  # an offset, or letters
)
_FULL = (
    "jan(?:uary|uar|vier)?|feb(?:ruary|ruar)?|fév(?:rier)?|mar(?:ch|s)?|mär(?:z)?|mrz|apr(?:il)?|avr(?:il)?|ma[iy]"
    "|june?|jui?n|jul[iy]?|juillet|aug(?:ust)?|août|sept?(?:ember|embre)?|o[ck]t(?:ober|obre)?|nov(?:ember|embre)?"
    "|de[cz](?:ember)?|déc(?:embre)?"
)
MONTHLY = {
    "year and month": r"^(?P<y>[0-9]{4})[-/](?P<m>[0-9]{1,2})$",
    "month and year": r"^(?P<m>[0-9]{1,2})[-/](?P<y>[0-9]{4})$",
    "month's name and year": rf"^(?P<m>(?i:{_FULL}))\.?[-/ ,’']+(?P<y>[0-9]{{4}}|[0-9]{{2}})$",
}
COMPACT = "digits"  # 20201231
CLOCK = "time of day"
DATE_FORMS = {
    "year first": r"^(?P<y>[0-9]{4})[-/.](?P<m>[0-9]{1,2})[-/.](?P<d>[0-9]{1,2})" + _TIME,
    "day first, dots": r"^(?P<d>[0-9]{1,2})\.\s?(?P<m>[0-9]{1,2})\.\s?" + _YEAR + _TIME,
    "day first": r"^(?P<d>[0-9]{1,2})[-/](?P<m>[0-9]{1,2})[-/]" + _YEAR + _TIME,
    "month first": r"^(?P<m>[0-9]{1,2})[-/](?P<d>[0-9]{1,2})[-/]" + _YEAR + _TIME,
    "month's name": r"^(?:[A-Za-z]{2,9}\.?,?\s+)?(?P<d>[0-9]{1,2})[-. /]+(?P<m>\p{L}{3,9})\.?[-. /,]+" + _YEAR + _TIME,
    "month's name first": r"^(?P<m>\p{L}{3,9})\.?\s+(?P<d>[0-9]{1,2})(?:st|nd|rd|th)?,?\s+" + _YEAR + _TIME,
    **MONTHLY,
    COMPACT: r"^(?P<y>(?:19|20)[0-9]{2})(?P<m>[01][0-9])(?P<d>[0-3][0-9])" + _TIME,
    CLOCK: r"^[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?\s*(?:[AaPp][Mm])?$",
}
# Parts of dates, and how many days dates must span for each to come round: a month that was never seen, or once, says
# nothing that can be learned. December is next to January, and 23:00 to 0:00: such parts are places on a circle.
PARTS = {
    "age in days": 0, "month, sine": 2 * 365, "month, cosine": 2 * 365, "day": 62, "weekend": 14, "weekday, sine": 14,
    "weekday, cosine": 14, "hour": 2, "hour, sine": 2, "hour, cosine": 2,
}  # fmt: skip


def dates(series: pl.Series, form: str) -> pl.Series:
    """Texts as moments; null for texts that are not dates of this form. Offsets from UTC are ignored.

    >>> dates(pl.Series(["26-FEB-1987 15:01:01.79"]), "month's name").to_list()
    [datetime.datetime(1987, 2, 26, 15, 1, 1)]
    """
    if form == COMPACT and series.dtype.is_numeric():
        series = series.cast(pl.Int64, strict=False).cast(pl.String)
    if series.dtype != pl.String:
        if isinstance(series.dtype, pl.Datetime) and series.dtype.time_zone is not None:
            series = series.dt.replace_time_zone(None)
        return series.cast(pl.Datetime("us")) if series.dtype in (pl.Date, pl.Datetime) else _nothing(len(series))
    if form in MONTHLY:
        series, form = _first_day(series, form), "year first"
    if form == CLOCK:
        series, form = "1970-01-01 " + series.set(~series.str.contains(DATE_FORMS[CLOCK]), None), "year first"
    field = series.str.extract_groups(DATE_FORMS[form]).struct.field
    hour = field("H").cast(pl.Int32).fill_null(0)
    late, half = field("half").str.to_lowercase() == "pm", field("half").is_not_null()
    of_day = pl.when(half).then(hour % 12 + 12 * late.fill_null(False).cast(pl.Int32)).otherwise(hour)
    parts = pl.DataFrame(
        {
            "y": _year(field("y")),
            "m": _month(field("m"), form),
            "d": field("d").cast(pl.Int32).cast(pl.String),
            "H": pl.select(of_day).to_series().cast(pl.String),
            "M": field("M").fill_null("0"),
            "S": field("S").fill_null("0"),
        }
    )
    text = parts.select(pl.format("{}-{}-{} {}:{}:{}", *parts.columns)).to_series()
    return text.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="us")


def _year(texts: pl.Series) -> pl.Series:
    """Years of four digits; those of two are taken for 1970 to 2069."""
    year, short = texts.cast(pl.Int32), texts.str.len_chars() == 2
    century = pl.when(short & (year < 70)).then(2000).when(short).then(1900).otherwise(0)
    return pl.select(century + year).to_series().cast(pl.String)


def _first_day(months: pl.Series, form: str) -> pl.Series:
    """Months as the dates of their first days."""
    field = months.str.extract_groups(MONTHLY[form]).struct.field
    return _year(field("y")) + "-" + _month(field("m"), form) + "-1"


def _month(texts: pl.Series, form: str) -> pl.Series:
    if "name" not in form:
        return texts.cast(pl.Int32).cast(pl.String)
    short = texts.str.to_lowercase().str.slice(0, 3)
    return short.replace_strict(_MONTHS, default=None, return_dtype=pl.Int32).cast(pl.String)


def _nothing(n: int) -> pl.Series:
    return pl.Series([None] * n, dtype=pl.Datetime("us"))


def date_forms(known: pl.Series) -> list[str]:
    """The forms in which all these texts are dates; two if days and months cannot be told apart."""
    some = known.unique()
    first = some.head(50)
    near = [form for form in DATE_FORMS if dates(first, form).null_count() == 0]
    return [form for form in near if dates(some, form).null_count() == 0]


def date_parts(moments: pl.Series, latest: str) -> dict[str, pl.Series]:
    """What a date says: its age in days before the latest one, and its place in the year, month, week and day.

    >>> from datetime import datetime
    >>> day = pl.Series([datetime(2020, 12, 31)])
    >>> {name: round(values[0], 2) for name, values in date_parts(day, "2021-01-01 00:00:00").items()}
    {'age in days': 1.0, 'month, sine': -0.0, 'month, cosine': 1.0, 'day': 31, 'weekend': 0, 'weekday, sine': -0.43, \
'weekday, cosine': -0.9, 'hour': 0.0, 'hour, sine': 0.0, 'hour, cosine': 1.0}
    """
    last = pl.Series([latest]).str.to_datetime(time_unit="us")
    at = moments.dt
    age, hour = (last[0] - moments).dt.total_seconds() / 86400, at.hour() + at.minute() / 60
    weekend = (at.weekday() >= 6).cast(pl.Int8)
    found = (age, *_circle(at.month(), 12), at.day(), weekend, *_circle(at.weekday(), 7), hour, *_circle(hour, 24))
    return dict(zip(PARTS, found))


def _circle(values: pl.Series, period: int) -> tuple[pl.Series, pl.Series]:
    angle = values * (2 * math.pi / period)
    return angle.sin(), angle.cos()


def parts_covered(known: pl.Series, form: str) -> tuple[str, ...]:
    """The parts of these dates that differ, and come round often enough."""
    if form == CLOCK:
        return tuple(name for name in PARTS if name.startswith("hour"))
    in_order = known.sort()
    span = (in_order[-1] - in_order[0]).days
    return tuple(
        name
        for name, values in date_parts(known, str(in_order[-1])).items()
        if values.n_unique() > 1 and span >= PARTS[name] and not (name.startswith("week") and form in MONTHLY)
    )
