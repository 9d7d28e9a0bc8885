"""Tables as people have them → the numbers a network is given, the same for training and for new rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dssl.data.cells import COMMA, POINT, UNITS, Written, date_parts, dates, feature_cells, some_truth
from dssl.data.columns import Column, require, unfit
from dssl.data.meaning import find_columns
from dssl.data.tables import Table
from dssl.data.texts import names_in
from dssl.errors import DataError
from dssl.files import present, write_whole
from dssl.logic.language.variables import listed, shown

_FORMAT, _VERSION = "dssl table", 1
_FAR = 1.0  # how far outside the range seen in training a number is mentioned, in widths of that range


@dataclass
class Notes:
    """What was corrected while rows were read: counts by sentence, over all chunks of a file."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, what: str, count: int, example: str = "") -> None:
        if count:
            self.counts[what] = self.counts.get(what, 0) + count
            self.examples.setdefault(what, example)

    def sentences(self) -> list[str]:
        return [f"{count:,} {what}{self.examples[what]}" for what, count in self.counts.items()]


class TableTransformer(TransformerMixin, BaseEstimator):
    """Columns of a table as features: numbers, yes or no, categories, dates and texts, however they are written.

    >>> import polars as pl
    >>> rooms = pl.DataFrame({"price": ["1,50 €", "3,50 €", "n/a"], "open": ["yes", "no", "yes"]})
    >>> table = TableTransformer().fit(rooms)
    >>> table.get_feature_names_out().tolist()
    ['price', 'price is missing', 'open']
    >>> table.transform(rooms)
    array([[1.5, 0. , 1. ],
           [3.5, 0. , 0. ],
           [2.5, 1. , 1. ]], dtype=float32)

    What a column means is decided from the rows it is fitted on, and kept in `columns_`: printed, each says what
    becomes of it and why. `dssl fit` uses this very class. Rows are a pandas or polars frame, a mapping of columns, or
    an array.

    * `categorical`, `text`, `ignore`: columns to read as categories, as texts, or not at all.
    * `embeddings`: what turns the texts of some columns into numbers, by column: an object with `transform`, or a
      function from a list of texts to an array. Only its name is saved; give it again to `load`.
    * `scale`: bring numbers and dates to mean 0 and spread 1. "auto": only beside texts, whose features stay sparse and
      have rows of length 1. A table without texts is left to the estimator, which standardises all features.

    Features are a float32 array, or a sparse matrix in rows if there are texts.
    """

    columns_: tuple[Column, ...]

    def __init__(
        self,
        *,
        categorical: Sequence[str] = (),
        text: Sequence[str] = (),
        ignore: Sequence[str] = (),
        embeddings: Mapping[str, Any] | None = None,
        scale: bool | str = "auto",
    ) -> None:
        self.categorical, self.text, self.ignore = categorical, text, ignore
        self.embeddings, self.scale = embeddings, scale

    @classmethod
    def of(cls, columns: Sequence[Column], embeddings: Mapping[str, Any] | None = None) -> TableTransformer:
        """A fitted transformer with these columns."""
        made = cls(embeddings=embeddings)
        made._keep(columns)
        return made

    def _keep(self, columns: Sequence[Column]) -> None:
        self.columns_ = tuple(columns)
        self.n_features_in_ = len(self.columns_)
        self.feature_names_in_ = np.array([column.name for column in self.columns_], dtype=object)
        lacking = [c for c in self.columns_ if c.kind == "embedded" and c.name not in (self.embeddings or {})]
        if lacking:
            raise DataError(
                f"column '{lacking[0].name}' was embedded by '{lacking[0].embedding}', which is not given\n"
                f"Give it again: embeddings={{'{lacking[0].name}': …}}."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.allow_nan = tags.input_tags.categorical = True
        return tags

    # ---- fitting ----

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find what the columns of X mean; labels are not looked at."""
        table = as_table(X)
        if self.scale not in (True, False, "auto"):
            raise DataError(f"scale={self.scale!r} is not known\nGive True, False or 'auto'.")
        embedded, left = self.embeddings or {}, set(self.ignore)
        asked = {"categorical": self.categorical, "text": self.text, "ignore": self.ignore, "embeddings": [*embedded]}
        for flag, names in asked.items():
            require(table, names, flag)
        plain = [name for name in table.names if name not in left and name not in embedded]
        found = {column.name: column for column in find_columns(table, plain, self.categorical, self.text)}
        found |= {name: _embedded(table, name, how) for name, how in embedded.items()}
        columns = [found[name] for name in table.names if name in found]
        if self.scale is True or (self.scale == "auto" and any(column.kind == "text" for column in columns)):
            columns = _on_one_scale(columns, table)
        self._keep(columns)
        return self

    @property
    def used(self) -> list[Column]:
        """The columns that become features."""
        return [column for column in self.columns_ if column.kind != "left out"]

    def save(self, path: str | Path) -> None:
        """Write it as JSON; of embeddings only the names."""
        check_is_fitted(self, "columns_")
        state = {"format": _FORMAT, "version": _VERSION, "columns": [asdict(column) for column in self.columns_]}
        write_whole(Path(path), json.dumps(state, ensure_ascii=False).encode())

    @classmethod
    def load(cls, path: str | Path, embeddings: Mapping[str, Any] | None = None) -> TableTransformer:
        """Read what `save` wrote: nothing in it is executed. `embeddings` are asked for again."""
        try:
            state = json.loads(present(path).read_text(encoding="utf-8"))
            if state["format"] != _FORMAT or state["version"] > _VERSION:
                raise DataError(f"'{path}' was written by another program or a newer dssl\nUpgrade dssl, or fit again.")
            columns = [Column.read(column) for column in state["columns"]]
            fault = unfit(columns)
        except DataError:
            raise
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            fault = shown(str(error))
        if fault:
            raise DataError(f"'{path}' is damaged: {fault}\nFetch an intact copy, or fit again.")
        return cls.of(columns, embeddings)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the features: the column's own, or one for each category, part of a date, or word."""
        check_is_fitted(self, "columns_")
        return np.array([name for column in self.columns_ for name in column.inputs], dtype=object)

    # ---- rows ----

    def transform(self, X: Any) -> Any:
        """Features of rows X (n, features), found by the names of their columns: sparse if some are texts.

        After `set_output`, a frame, which cannot be sparse.
        """
        check_is_fitted(self, "columns_")
        found = self.rows(as_table(X, self.feature_names_in_), Notes())
        asked = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        return found.toarray() if sp.issparse(found) and asked != "default" else found

    def rows(self, table: Table, notes: Notes) -> Any:
        """Features of a table's rows. Corrections are noted in `notes`; what cannot be corrected is an error."""
        absent = [column.name for column in self.used if column.name not in table.names]
        if absent:
            raise DataError(
                f"'{table.path}' has no column{'s' if len(absent) > 1 else ''} {listed(absent)}, which the model "
                f"was trained on\nIts columns: {listed(table.names, 12)}. Add what is missing; its cells may be empty."
            )
        parts = [_inputs(column, table, notes, self.embeddings or {}) for column in self.used]
        if any(sp.issparse(part) for part in parts):
            return sp.csr_matrix(sp.hstack(parts, format="csr", dtype=np.float32))
        return np.column_stack(parts).astype(np.float32) if parts else np.zeros((len(table), 0), np.float32)


def as_table(X: Any, names: Any = None) -> Table:
    """Rows given from Python as a table; `names` are those of an array's columns."""
    if isinstance(X, Table):
        return X
    if isinstance(X, pl.LazyFrame):
        X = X.collect()
    if isinstance(X, pl.DataFrame):
        return Table(Path("X"), "frame", X, first=0)
    if isinstance(X, Mapping):
        return Table(Path("X"), "frame", pl.DataFrame({str(k): _series(v) for k, v in X.items()}), first=0)
    if hasattr(X, "columns") and hasattr(X, "iloc"):  # pandas
        twice = next((name for name, count in Counter(map(str, X.columns)).items() if count > 1), None)
        if twice is not None:
            raise DataError(f"X has two columns '{shown(twice)}'\nRename one of them.")
        frame = pl.DataFrame({str(name): _series(X[name]) for name in X.columns})
        return Table(Path("X"), "frame", frame, first=0)
    array = np.asarray(X)
    if array.ndim != 2 or (names is not None and len(names) != array.shape[1]):
        wanted = "" if names is None else f" where {len(names)} columns were fitted"
        raise DataError(f"X has shape {array.shape}{wanted}\nGive a frame, or an array with one column per feature.")
    called = [f"x{i}" for i in range(array.shape[1])] if names is None else list(names)
    return Table(Path("X"), "frame", pl.DataFrame({n: _series(array[:, i]) for i, n in enumerate(called)}), first=0)


def _series(values: Any) -> pl.Series:
    """A column from Python: numbers, truth values and dates as they are, all else as texts."""
    if str(getattr(values, "dtype", "")) == "category":  # of pandas: strings, as in a file
        given = [None if v is None or v != v else str(v) for v in values.tolist()]
        return pl.Series(given, dtype=pl.String).cast(pl.Categorical)
    array = np.asarray(values)
    if array.dtype.kind == "m":
        return pl.Series(array.astype("timedelta64[us]"))
    if array.dtype.kind in "biufM":
        return pl.Series(array.astype("datetime64[us]") if array.dtype.kind == "M" else array)
    missing = [v is None or type(v).__name__ in ("NAType", "NaTType") or v != v for v in array.tolist()]
    given = [None if gone else v for v, gone in zip(array.tolist(), missing)]
    kinds = {type(v) for v in given if v is not None}
    if kinds and all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return pl.Series(given, dtype=pl.Boolean)
    if kinds and all(issubclass(kind, int | float | np.number) for kind in kinds):
        return pl.Series([None if v is None else float(v) for v in given], dtype=pl.Float64)
    return pl.Series([None if v is None else str(v) for v in given], dtype=pl.String)


# ---- one column ----


def _inputs(column: Column, table: Table, notes: Notes, embeddings: Mapping[str, Any]) -> Any:
    """The inputs of one column (n, k): sparse for texts."""
    given = table.frame[column.name]
    series = given if given.dtype.is_nested() and column.kind != "several" else feature_cells(given)
    if series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Object):
        raise DataError(
            f"'{table.path}': column '{column.name}' holds {shown(str(series.dtype))} here, and {column.kind} cells in "
            "training\nGive the column as it was."
        )
    if column.kind == "text":
        assert column.vocabulary is not None
        return column.vocabulary(series.cast(pl.String).fill_null("").to_list()) * np.float32(column.weight)
    if column.kind == "embedded":
        return _embed(column, series, embeddings[column.name], table)
    series = _known(column, series)
    gaps = series.is_null()
    _say_filled(column, gaps, table, notes)
    parts: Any = _READERS[column.kind](column, series, table, notes)
    for i, (mean, spread) in enumerate(column.scales):
        parts[:, i] = (parts[:, i] - mean) / spread
    flags = gaps.to_numpy()[:, None] if column.flagged else np.zeros((len(table), 0))
    return np.hstack([parts, flags]).astype(np.float32)


def _known(column: Column, series: pl.Series) -> pl.Series:
    """Cells without those that stand for "not known" in this column alone."""
    if not column.gaps:
        return series
    if series.dtype == pl.String:
        series = series.set(series.str.to_lowercase().is_in([gap.lower() for gap in column.gaps]), None)
    numbers = series.cast(pl.Float64, strict=False) if column.kind == "numeric" else None
    stand_ins = pl.Series(column.gaps).cast(pl.Float64, strict=False).drop_nulls()
    return series if numbers is None else series.set(numbers.is_in(stand_ins.to_list()).fill_null(False), None)


def _say_filled(column: Column, gaps: pl.Series, table: Table, notes: Notes) -> None:
    if gaps.any() and column.fill is None:
        row = gaps.arg_max() or 0
        raise DataError(f"'{table.path}', {table.place(row)}: '{column.name}' is empty\nFill it in.")
    if gaps.any() and not column.flagged:
        fill = column.fill if isinstance(column.fill, str) else f"{column.fill:.4g}"
        notes.add(
            f"empty cells of '{column.name}', which had none in training, were filled with {fill}", int(gaps.sum())
        )


def _numeric(column: Column, series: pl.Series, table: Table, notes: Notes) -> NDArray[np.float64]:
    numbers = _read_numbers(column, series, table)
    if column.bounds is not None:
        low, high = column.bounds
        width = _FAR * (high - low) or abs(high) or 1.0
        far = ((numbers < low - width) | (numbers > high + width)).fill_null(False)
        if far.any():
            row = far.arg_max() or 0
            what = f"far outside what the model was trained on ({low:.4g} to {high:.4g})"
            first = f"; first {series[row]} in {table.place(row)}"
            notes.add(f"numbers of '{column.name}' are {what}", int(far.sum()), first)
    found = _filled(column, numbers)
    centre, unit = column.tail or (0.0, 1.0)
    return np.arcsinh((found - centre) / unit) if column.tail else found


def _boolean(column: Column, series: pl.Series, table: Table, notes: Notes) -> NDArray[np.float64]:
    if series.dtype != pl.String:
        return _filled(column, _read_numbers(column, series, table))
    values = pl.select(pl.coalesce(some_truth(series), series.cast(pl.Float64, strict=False))).to_series()
    odd = values.is_null() & series.is_not_null()
    if odd.any():
        _refuse(column, series, odd, table)
    return _filled(column, values)


def _filled(column: Column, numbers: pl.Series) -> NDArray[np.float64]:
    return (numbers if column.fill is None else numbers.fill_null(column.fill)).to_numpy().astype(np.float64)[:, None]


def _read_numbers(column: Column, series: pl.Series, table: Table) -> pl.Series:
    """Numbers as the column's form has them; an entry that is none is an error."""
    unit = pl.Series([None] * series.len(), dtype=pl.String)
    if series.dtype in (pl.Duration, pl.Time):
        numbers = series.cast(pl.Duration("us")).dt.total_microseconds() / 1e6
    elif series.dtype == pl.String and (column.form or column.unit):
        written = Written.of(series, "" if column.unit in UNITS else column.unit)
        numbers, unit = written.read(column.form or POINT), written.unit
    elif series.dtype == pl.String or series.dtype.is_numeric() or series.dtype == pl.Boolean:
        numbers = series.cast(pl.Float64, strict=False)
    else:
        numbers = pl.Series([None] * series.len(), dtype=pl.Float64)
    odd = (numbers.is_null() & series.is_not_null()) | numbers.is_infinite().fill_null(False)
    odd |= (unit != column.unit).fill_null(False) if column.unit else unit.is_not_null()
    if odd.any():
        _refuse(column, series, odd, table)
    return numbers


def _refuse(column: Column, series: pl.Series, odd: pl.Series, table: Table) -> None:
    row, count = odd.arg_max() or 0, int(odd.sum())
    kind = {"boolean": "true or false", "date": "dates"}.get(column.kind, "numbers")
    kind += f" in {column.unit}" if column.unit else " with decimal commas" if column.form == COMMA else ""
    raise DataError(
        f"'{table.path}', {table.place(row)}: column '{column.name}' held {kind} in training, but here "
        f"'{shown(series[row])}'{f', and {count - 1} more like it' if count > 1 else ''}\n"
        "Correct it, or leave the cell empty if it is unknown."
    )


def _date(column: Column, series: pl.Series, table: Table, notes: Notes) -> NDArray[np.float64]:
    moments = dates(series, column.form or "year first")
    odd = moments.is_null() & series.is_not_null()
    if odd.any():
        _refuse(column, series, odd, table)
    assert column.bounds is not None
    low, high = ((pl.Series([round(day * 86_400_000_000)]).cast(pl.Datetime("us")))[0] for day in column.bounds)
    fill = datetime.fromisoformat(str(column.fill)).replace(tzinfo=None)  # as `unfit` read it
    filled = moments.fill_null(fill)
    days, (first_day, last_day) = filled.dt.epoch("s") / 86400, column.bounds
    width = _FAR * (last_day - first_day)
    far = (days < first_day - width) | (days > last_day + width)
    if far.any():
        seen = f"{low:%Y-%m-%d} to {high:%Y-%m-%d}"
        first = f"; first {series[far.arg_max() or 0]} in {table.place(far.arg_max() or 0)}"
        what = f"dates of '{column.name}' are far outside what the model was trained on ({seen})"
        notes.add(what, int(far.sum()), first)
    parts = date_parts(filled, str(high))
    inside = date_parts(filled.clip(low, high), str(high))  # nothing was learned about later years
    parts["age in days"] = inside["age in days"]
    found = [parts[name].to_numpy().astype(np.float64) for name in column.values]
    return np.column_stack(found) if found else np.zeros((len(table), 0))


def _one_hot(column: Column, series: pl.Series, table: Table, notes: Notes) -> NDArray[np.float64]:
    """As scikit-learn's OneHotEncoder with "infrequent_if_exist": rare and new categories share an input, if any."""
    texts = series.cast(pl.String).fill_null(str(column.fill))
    whole = texts.str.replace(r"^(-?[0-9]+)\.0+$", "${1}")  # 5.0 is the code 5: gaps make decimals of whole numbers
    texts = texts.zip_with(texts.is_in([*column.values, *column.rare]), whole)
    place = {value: i for i, value in enumerate(column.values)}
    other = len(place) if column.others else -1
    known = {**dict.fromkeys(column.rare, -2), **place}
    index = texts.replace_strict(known, default=-1, return_dtype=pl.Int64).to_numpy()
    strange = index == -1
    if strange.any():
        row = int(np.argmax(strange))
        count_as = "and count as rare values do" if column.others else "and count as none of the known values"
        notes.add(
            f"cells of '{column.name}' hold a value that was not in the training data, {count_as}",
            int(strange.sum()),
            f"; first '{shown(texts[row])}' in {table.place(row)}",
        )
    index = np.where(index < 0, other, index)
    out = np.zeros((len(table), len(place) + column.others))
    out[np.flatnonzero(index >= 0), index[index >= 0]] = 1
    return out


def _several(column: Column, series: pl.Series, table: Table, notes: Notes) -> NDArray[np.float64]:
    """1 for each name that a cell holds."""
    found = names_in(series.cast(pl.String).fill_null(""), column.form)
    strange = found.list.set_difference(pl.Series([[*column.values, *column.rare]]))
    odd = strange.list.len() > 0
    what = f"cells of '{column.name}' hold a name that was not in the training data, which is passed over"
    row = odd.arg_max() or 0
    notes.add(what, int(odd.sum()), f"; first '{shown(strange[row][0])}' in {table.place(row)}" if odd.any() else "")
    return np.column_stack([found.list.contains(value).to_numpy() for value in column.values]).astype(np.float64)


_READERS: dict[str, Callable[[Column, pl.Series, Table, Notes], NDArray[np.float64]]] = {
    "numeric": _numeric,
    "boolean": _boolean,
    "categorical": _one_hot,
    "several": _several,
    "date": _date,
}


def _on_one_scale(columns: list[Column], table: Table) -> list[Column]:
    """Columns on one scale: texts count at least as much as all others together."""
    texts = sum(column.kind == "text" for column in columns)
    others = sum(column.kind not in ("text", "left out") for column in columns)
    weight = max(1.0, others / max(1, texts)) ** 0.5
    scaled = (_scaled(column, table) for column in columns)
    return [replace(column, weight=weight) if column.kind == "text" else column for column in scaled]


def _scaled(column: Column, table: Table) -> Column:
    """The column with mean and spread of its inputs, if it holds numbers or dates; a date counts as one number."""
    if column.kind not in ("numeric", "date"):
        return column
    parts = _inputs(replace(column, flagged=False), table, Notes(), {}).astype(np.float64)
    spread = parts.std(axis=0) * len(column.own) ** 0.5
    return replace(column, scales=tuple((float(m), float(s) or 1.0) for m, s in zip(parts.mean(axis=0), spread)))


# ---- embeddings ----


def _embedded(table: Table, name: str, how: Any) -> Column:
    series = feature_cells(table.frame[name])
    called = getattr(how, "__qualname__", type(how).__qualname__)
    column = Column(name, "embedded", missing=series.null_count(), embedding=f"{how.__module__}.{called}")
    width = _embed(column, series, how, table).shape[1]
    return replace(column, width=width, shown=f"{width} numbers from {called}")


def _embed(column: Column, series: pl.Series, how: Any, table: Table) -> NDArray[np.float32]:
    texts = series.cast(pl.String).fill_null("").to_list()
    found = how.transform(texts) if hasattr(how, "transform") else how(texts)
    out = np.asarray(found.toarray() if sp.issparse(found) else found, dtype=np.float32)
    wrong = column.width and out.shape[1:] != (column.width,)
    if out.ndim != 2 or len(out) != len(texts) or not out.shape[1] or wrong or not np.isfinite(out).all():
        raise DataError(
            f"the embedding of column '{column.name}' gave shape {out.shape} for {len(texts)} texts of '{table.path}'"
            f"{f', and {column.width} numbers each in training' if wrong else ''}\n"
            "It must give the same number of finite numbers for each text."
        )
    return out
