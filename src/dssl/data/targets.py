"""Targets: labels as users hand them to an estimator ⇄ columns of a label space."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from dssl.errors import DataError, RuleError
from dssl.logic.inferred import known_values, space_of_labels, unknown
from dssl.logic.labels import Columns, by_name
from dssl.logic.language.formula import Formula
from dssl.logic.language.parser import parse_rules
from dssl.logic.language.symbols import Symbol
from dssl.logic.language.variables import Variable, canonical, listed, shown
from dssl.logic.sources import variable_of
from dssl.logic.space import LabelSpace

FRAMES = ("pandas", "polars")


@dataclass(frozen=True, eq=False)
class Targets:
    """A label space and the form of the users' labels: what `encode` reads and `decode` gives back.

    >>> targets = Targets.of(["cat", "dog", None, "cat"])
    >>> targets.classes.tolist(), targets.form
    (['cat', 'dog'], 'classes')
    >>> targets.decode(np.array([[0.0, 1.0]])).tolist()
    ['dog']

    Forms: "classes" and "vector" (n,), without and with rules; "matrix" (n, labels) of 0 and 1; "values" and "indices"
    (n, variables); "columns" (n, width); "records"; "pandas" and "polars" frames. A vector that came as a `series` of
    pandas or polars has its kind and its name here.
    """

    space: LabelSpace
    form: str
    classes: NDArray[Any]
    unlabelled: Any = -1
    series: tuple[str, str | None] | None = None

    @classmethod
    def of(cls, y: Any, rules: Any = None, unlabelled: Any = -1, classes: Any = None) -> Targets:
        """The targets of labels `y`, with rules in any form that `DSSLClassifier` takes."""
        found = cls._of(y, rules, unlabelled, classes)
        return replace(found, series=_series(y)) if found.form in ("classes", "vector") else found

    @classmethod
    def _of(cls, y: Any, rules: Any, unlabelled: Any, classes: Any) -> Targets:
        if rules is not None:
            space = space_of(rules, y)
            return cls(space, _form(space, y), _values(space), unlabelled)
        y = plain(y)
        if _kind(y) is None and y.ndim == 1:
            given = y[~unknown(y, unlabelled)] if classes is None else plain(classes)
            return cls.of_classes(given, unlabelled)
        space, kind = space_of_labels(y), _kind(y)
        return cls(space, kind or "matrix", np.array(space.columns) if kind else np.arange(space.width), unlabelled)

    @classmethod
    def of_space(cls, space: LabelSpace) -> Targets:
        """Of labels that are columns of a space already: values of one variable, or frames of several."""
        return cls(space, "vector" if len(space.variables) == 1 else "polars", _values(space))

    @classmethod
    def of_classes(cls, labels: NDArray[Any], unlabelled: Any = -1) -> Targets:
        """One variable over the classes that occur."""
        if not len(labels):
            raise DataError(
                "no row is labelled, so there are no classes to learn\n"
                f"Label at least one row of each class; {unlabelled!r}, None and NaN stand for unknown."
            )
        if labels.dtype.kind == "f" and np.isinf(labels).any():
            raise DataError("the labels contain infinity\nUse whole numbers or names for classes, NaN for unknown.")
        whole = labels.dtype == object and all(isinstance(label, Integral) for label in labels)
        try:
            # numbers beside None are objects
            check_classification_targets(labels.astype(np.int64) if whole else labels)
            values = np.array(np.unique(labels).tolist())  # of a plain type: names may come as objects
        except TypeError:
            kinds = sorted({type(label).__name__ for label in labels})
            raise DataError(f"the labels mix {' and '.join(kinds)}\nUse names or numbers, not both.") from None
        except OverflowError:  # Python's whole numbers have any size
            largest = max(labels, key=abs)
            raise DataError(
                f"the label {shown(largest)} is too large for a class\nUse smaller numbers, or names."
            ) from None
        named = [v if isinstance(v, int | float) else str(v) for v in values.tolist()]
        return cls(space_of_labels(named, unlabelled=None), "classes", values, unlabelled)

    # ---- users' form → columns ----

    def encode(self, y: Any) -> Columns:
        """Labels as columns (n, width): 1, 0, or NaN for unknown."""
        y = plain(y, vector=len(self.space.variables) == 1)
        if self.form == "classes":
            return self._encode_classes(y)
        if isinstance(y, np.ndarray):
            if self.form == "matrix" and (y.ndim != 2 or y.shape[1] != self.space.width):
                raise DataError(f"labels of shape {y.shape} do not fit\nGive a matrix (n, {self.space.width}).")
            y = _blanked(y, self.unlabelled)
        return self.space.encode(y)

    def _encode_classes(self, y: Any) -> Columns:
        if not isinstance(y, np.ndarray) or y.ndim != 1:
            raise DataError(f"labels of shape {np.shape(y)} do not fit\nGive one class per row.")
        out = np.full((len(y), self.space.width), np.nan, dtype=np.float32)
        known = np.flatnonzero(~unknown(y, self.unlabelled))
        labels = y[known]
        place = _places(labels, self.classes)
        if (place < 0).any():
            at = int(np.argmin(place))
            raise DataError(
                f"row {known[at]}: the class {labels[at : at + 1].tolist()[0]!r} is not among those of the first fit\n"
                f"Known: {listed(self.classes.tolist())}. Correct it; to learn more classes, fit a new model, or give "
                "all classes at the first call: partial_fit(X, y, classes=…)."
            )
        out[known] = 0
        out[known, place] = 1
        return out

    # ---- columns → users' form ----

    def decode(self, columns: Columns, rows: Any = None) -> Any:
        """Complete columns (n, width) in the form of the labels that `fit` was given.

        A frame is of the library of `rows`, if these are a frame or series, and has their index. A vector that came as
        a series is one again if `rows` are of the same library.
        """
        if self.form == "classes":
            return self._vector(self.classes[columns.argmax(axis=1)], rows)
        if self.form in ("matrix", "columns"):
            return columns.astype(np.int64)
        if self.form in ("records", "indices"):
            return self.space.decode(columns, self.form)
        objects = self.space.decode(columns, "values")  # (n, variables)
        values = [
            objects[:, i] if variable.kind == "categorical" else objects[:, i].astype(np.int64)
            for i, variable in enumerate(self.space.variables)
        ]
        if self.form in FRAMES:
            names = [variable.name for variable in self.space.variables]
            library = _library(rows)
            return _frame(library if library in FRAMES else self.form, names, values, index_of(rows))
        if self.form == "vector":
            return self._vector(np.array(values[0].tolist(), dtype=self.classes.dtype), rows)
        return np.stack(values, axis=1)

    def _vector(self, values: NDArray[Any], rows: Any) -> Any:
        if self.series is None or _library(rows) != self.series[0]:
            return values
        kind, name = self.series
        if kind == "pandas":
            import pandas

            return pandas.Series(values, index=index_of(rows), name=name)
        import polars

        return polars.Series(name, values)

    def frame(self, p: NDArray[Any], kind: str, rows: Any = None) -> Any:
        """Probabilities (n, classes or width) as a frame, with the index of `rows`, if these are pandas'."""
        names = [str(c) for c in (self.classes if p.shape[1] == len(self.classes) else self.space.columns)]
        return _frame(kind, names, [*p.T], index_of(rows))

    def probabilities(self, marginals: Columns) -> NDArray[np.floating[Any]]:
        """Marginals (n, width) with a column for each of `classes`."""
        if self.form == "vector" and self.space.width == 1:  # one binary variable: its two values
            return np.hstack([1 - marginals, marginals])
        return marginals

    # ---- files ----

    def state(self) -> dict[str, Any]:
        """What `from_state` needs, as plain values for JSON."""
        classes = {"dtype": self.classes.dtype.str, "values": self.classes.tolist()}
        unlabelled = self.unlabelled.item() if isinstance(self.unlabelled, np.generic) else self.unlabelled
        unlabelled = (
            None if unlabelled != unlabelled else unlabelled
        )  # NaN, which JSON does not have; None says the same
        series = {} if self.series is None else {"series": list(self.series)}
        return {"space": str(self.space), "form": self.form, "classes": classes, "unlabelled": unlabelled, **series}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Targets:
        dtype, values = np.dtype(state["classes"]["dtype"]), np.array(state["classes"]["values"])
        if dtype.kind not in "biufU" or values.ndim != 1 or dtype.itemsize > max(16, values.itemsize):
            raise DataError(f"{values.size} classes of the type {dtype}\nSave the model again.")
        classes = values.astype(dtype)
        series = _checked_series(state.get("series"))
        targets = cls(LabelSpace(state["space"], folder=None), state["form"], classes, state["unlabelled"], series)
        if targets.form != "classes" or targets.space.width == len(classes):
            return targets
        raise DataError(f"{len(classes)} classes for a space of {targets.space.width}\nSave the model again.")


# ---- reading labels ----


def plain(y: Any, *, vector: bool = True) -> Any:
    """Labels as an array (1-D or 2-D), or as they are if they have names: frames and records.

    A frame of one column is a vector, unless its name is needed to tell which of several variables is meant.
    """
    if sp.issparse(y):
        y = y.toarray()
    if _kind(y) in FRAMES and len(y.columns) == 1 and vector:
        y = y[y.columns[0]]
    if _kind(y) is not None:
        return y
    if hasattr(y, "detach"):
        y = y.detach().cpu().numpy()
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    if not isinstance(y, np.ndarray):
        y = _array(y)
    if y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Use y.ravel().",
            DataConversionWarning,
            stacklevel=2,
        )
        y = y.ravel()
    if y.ndim not in (1, 2):
        raise DataError(f"labels of shape {y.shape} do not fit\nGive a vector of classes, or a matrix of labels.")
    return _composed(y)


def _composed(y: NDArray[Any]) -> NDArray[Any]:
    """Names in Unicode's composed form, in which names that look the same are the same."""
    if y.dtype.kind not in "OU" or all(not isinstance(v, str) or v.isascii() for v in y.flat):
        return y
    out = np.array([canonical(v) for v in y.flat], dtype=object).reshape(y.shape)
    return out if y.dtype.kind == "O" else out.astype(np.str_)


def _array(y: Any) -> NDArray[Any]:
    """A list as an array. Names beside −1, None or NaN must stay what they are, so they are kept as objects."""
    try:
        array = np.asarray(y)
    except ValueError:
        raise DataError("the rows of the labels differ in length\nGive every row the same number of entries.") from None
    return np.asarray(y, dtype=object) if array.dtype.kind in "USO" else array


def _places(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Where each label stands among the sorted classes, −1 where it does not.

    Labels of another type are compared one by one: a cast would cut 1.5 to 1, and a name to the length of the classes'.
    """
    if labels.dtype.kind == classes.dtype.kind:
        found = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
        return np.where(classes[found] == labels, found, -1)
    values = classes.tolist()
    place = {str(v): i for i, v in enumerate(values)} | {v: i for i, v in enumerate(values)}
    return np.array([place.get(label, place.get(str(label), -1)) for label in labels.tolist()], np.int64)


def _kind(y: Any) -> str | None:
    """ "pandas", "polars", "records", or None for what has no names."""
    if hasattr(y, "columns") and hasattr(y, "__getitem__"):
        return "polars" if type(y).__module__.startswith("polars") else "pandas"
    records = isinstance(y, Sequence) and not isinstance(y, str) and len(y) and isinstance(y[0], Mapping)
    return "records" if records else None


def _blanked(y: NDArray[Any], unlabelled: Any) -> NDArray[Any]:
    """An array in which `unlabelled` entries are None or NaN, which every space knows."""
    if unlabelled is None or unlabelled != unlabelled or unlabelled == -1:
        return y
    mask = unknown(y, unlabelled)
    blank = y.astype(object) if y.dtype.kind in "OUS" else y.astype(np.float64)
    blank[mask] = None if blank.dtype.kind == "O" else np.nan
    return blank


def _form(space: LabelSpace, y: Any) -> str:
    """The form that labels of a space with rules are in."""
    y = plain(y, vector=len(space.variables) == 1)
    kind = _kind(y)
    if kind is not None:
        return kind
    if y.ndim == 1 and len(space.variables) == 1:
        return "vector"
    if y.ndim == 2 and y.shape[1] == space.width:
        return "columns"
    numeric = y.dtype.kind in "biuf"
    return "indices" if numeric and any(v.kind == "categorical" for v in space.variables) else "values"


def _values(space: LabelSpace) -> NDArray[Any]:
    if len(space.variables) > 1:
        return np.array(space.columns)
    only = space.variables[0]
    return np.array([int(v) if only.binary else v for v in only.values])


def _library(rows: Any) -> str:
    return type(rows).__module__.partition(".")[0]


def index_of(rows: Any) -> Any:
    """The index of a pandas frame or series; None for all else."""
    return getattr(rows, "index", None) if _library(rows) == "pandas" else None


def _series(y: Any) -> tuple[str, str | None] | None:
    """Of which library a series is, and its name; None for other labels."""
    if _library(y) not in FRAMES or hasattr(y, "columns"):
        return None
    return _library(y), None if y.name is None else str(y.name)


def _checked_series(given: Any) -> tuple[str, str | None] | None:
    """What a file says of a series; it may have been edited."""
    if given is None:
        return None
    if not isinstance(given, list) or len(given) != 2 or given[0] not in FRAMES or not isinstance(given[1], str | None):
        raise DataError(f"labels that came as {given!r}\nSave the model again.")
    return given[0], given[1]


def _frame(kind: str, names: list[str], values: list[NDArray[Any]], index: Any = None) -> Any:
    columns = {name: column.tolist() for name, column in zip(names, values)}
    if kind == "pandas":
        import pandas

        return pandas.DataFrame(columns, index=index)
    import polars

    return polars.DataFrame(columns)


# ---- reading rules ----


def space_of(rules: Any, y: Any = None) -> LabelSpace:
    """The space that `rules` describe: a space, a file, text, or formulas about the columns of a frame y.

    >>> space_of("legs -> !fins", [{"legs": 1, "fins": 0}]).count()
    3
    """
    if isinstance(rules, LabelSpace):
        return rules
    if isinstance(rules, Path):
        return LabelSpace.read(rules)
    if isinstance(rules, str):
        if "\n" not in rules and rules.endswith(".rules"):
            return LabelSpace.read(rules)
        declared = _declared_by(y)
        if declared and _only_rules(rules, declared):
            return LabelSpace.of(declared).where(rules)
        return LabelSpace(rules)
    if not isinstance(rules, Formula | Symbol | Iterable):
        raise RuleError(f"rules are a {type(rules).__name__}", remedy="Give text, a path, formulas or a LabelSpace.")
    given = [rules] if isinstance(rules, Formula | Symbol) else list(rules)
    declared = _declared_by(y)
    if not declared:
        raise RuleError(
            "formulas do not say which variables there are",
            remedy="Give y as a data frame or records with one column per variable, or rules as text or a LabelSpace.",
        )
    return LabelSpace.of(declared).where(*given)


def _only_rules(text: str, declared: list[Variable]) -> bool:
    try:
        parse_rules(text, declared, ".")
    except RuleError:
        return False
    return True


def _declared_by(y: Any) -> list[Variable]:
    """The variables that labels with names describe."""
    named = None if _kind(y) is None else by_name(y)
    return [variable_of(name, known_values(column)) for name, column in (named or {}).items()]
