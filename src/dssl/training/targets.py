"""Targets: labels as users hand them to an estimator ⇄ columns of a label space."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from dssl.errors import DataError, RuleError
from dssl.logic.formula import Formula
from dssl.logic.labels import Columns
from dssl.logic.language import parse_rules
from dssl.logic.space import LabelSpace
from dssl.logic.symbols import Symbol
from dssl.logic.variables import Variable, listed

_FRAMES = ("pandas", "polars")


@dataclass(frozen=True, eq=False)
class Targets:
    """A label space and the form of the users' labels: what `encode` reads and `decode` gives back.

    >>> targets = Targets.of(["cat", "dog", None, "cat"])
    >>> targets.classes.tolist(), targets.form
    (['cat', 'dog'], 'classes')
    >>> targets.decode(np.array([[0.0, 1.0]])).tolist()
    ['dog']

    Forms: "classes" and "vector" (n,), without and with rules; "matrix" (n, labels) of 0 and 1; "values" and "indices"
    (n, variables); "columns" (n, width); "records"; "pandas" and "polars" frames.
    """

    space: LabelSpace
    form: str
    classes: NDArray[Any]
    unlabelled: Any = -1

    @classmethod
    def of(cls, y: Any, rules: Any = None, unlabelled: Any = -1, classes: Any = None) -> Targets:
        """The targets of labels `y`, with rules in any form that `DSSLClassifier` takes."""
        if rules is not None:
            space = space_of(rules, y)
            return cls(space, _form(space, y), _values(space), unlabelled)
        y = plain(y)
        if _kind(y) is None and y.ndim == 1:
            given = y[~unknown(y, unlabelled)] if classes is None else np.asarray(classes)
            return cls.of_classes(given, unlabelled)
        names = _names(y)
        space = LabelSpace.attributes(names if names is not None else [f"label{i}" for i in range(y.shape[1])])
        form = "matrix" if names is None else str(_kind(y))
        return cls(space, form, np.array(names) if names is not None else np.arange(y.shape[1]), unlabelled)

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
            check_classification_targets(
                labels.astype(np.int64) if whole else labels
            )  # numbers beside None are objects
            values = np.array(np.unique(labels).tolist())  # of a plain type: names may come as objects
        except TypeError:
            kinds = sorted({type(label).__name__ for label in labels})
            raise DataError(f"the labels mix {' and '.join(kinds)}\nUse names or numbers, not both.") from None
        integer = values.dtype.kind in "iu"
        return cls(LabelSpace.classes([int(v) if integer else str(v) for v in values]), "classes", values, unlabelled)

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
            raise DataError(f"labels of shape {np.shape(y)} do not fit\nGive one class a row.")
        out = np.full((len(y), self.space.width), np.nan, dtype=np.float32)
        known = np.flatnonzero(~unknown(y, self.unlabelled))
        labels = y[known]
        if labels.dtype.kind != self.classes.dtype.kind and len(labels):
            labels = labels.astype(self.classes.dtype)
        place = np.searchsorted(self.classes, labels).clip(max=len(self.classes) - 1)
        strange = self.classes[place] != labels
        if strange.any():
            at = int(np.argmax(strange))
            raise DataError(
                f"row {known[at]}: the class {labels[at : at + 1].tolist()[0]!r} is not among those of the first fit\n"
                f"Known: {listed(self.classes.tolist())}. Fit a new model, or give all classes at first: "
                "partial_fit(X, y, classes=…)."
            )
        out[known] = 0
        out[known, place] = 1
        return out

    # ---- columns → users' form ----

    def decode(self, columns: Columns) -> Any:
        """Complete columns (n, width) in the form of the labels that `fit` was given."""
        if self.form == "classes":
            return self.classes[columns.argmax(axis=1)]
        if self.form in ("matrix", "columns"):
            return columns.astype(np.int64)
        if self.form in ("records", "indices"):
            return self.space.decode(columns, self.form)
        objects = self.space.decode(columns, "values")  # (n, variables)
        values = [
            objects[:, i] if variable.kind == "categorical" else objects[:, i].astype(np.int64)
            for i, variable in enumerate(self.space.variables)
        ]
        if self.form in _FRAMES:
            return _frame(self.form, [variable.name for variable in self.space.variables], values)
        if self.form == "vector":
            return np.array(values[0].tolist(), dtype=self.classes.dtype)
        return np.stack(values, axis=1)

    def probabilities(self, marginals: Columns) -> NDArray[np.floating[Any]]:
        """Marginals (n, width) with a column for each of `classes`."""
        if self.form == "vector" and self.space.width == 1:  # one binary variable: its two values
            return np.hstack([1 - marginals, marginals])
        return marginals

    # ---- files ----

    def state(self) -> dict[str, Any]:
        """What `from_state` needs, as plain values for JSON."""
        classes = {"dtype": self.classes.dtype.str, "values": self.classes.tolist()}
        return {"space": str(self.space), "form": self.form, "classes": classes, "unlabelled": self.unlabelled}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Targets:
        dtype, values = np.dtype(state["classes"]["dtype"]), np.array(state["classes"]["values"])
        if dtype.kind not in "biufU" or values.ndim != 1 or dtype.itemsize > max(16, values.itemsize):
            raise DataError(f"{values.size} classes of the type {dtype}\nSave the model anew.")
        classes = values.astype(dtype)
        targets = cls(LabelSpace(state["space"]), state["form"], classes, state["unlabelled"])
        if targets.form != "classes" or targets.space.width == len(classes):
            return targets
        raise DataError(f"{len(classes)} classes for a space of {targets.space.width}\nSave the model anew.")


# ---- reading labels ----


def plain(y: Any, *, vector: bool = True) -> Any:
    """Labels as an array (1-D or 2-D), or as they are if they have names: frames and records.

    A frame of one column is a vector, unless its name is needed to tell which of several variables it is about.
    """
    if sp.issparse(y):
        y = y.toarray()
    if _kind(y) in _FRAMES and len(y.columns) == 1 and vector:
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
    return y


def _array(y: Any) -> NDArray[Any]:
    """A list as an array. Names beside −1, None or NaN must stay what they are, so they are kept as objects."""
    array = np.asarray(y)
    return np.asarray(y, dtype=object) if array.dtype.kind in "USO" else array


def _kind(y: Any) -> str | None:
    """ "pandas", "polars", "records", or None for what has no names."""
    if hasattr(y, "columns") and hasattr(y, "__getitem__"):
        return "polars" if type(y).__module__.startswith("polars") else "pandas"
    records = isinstance(y, Sequence) and not isinstance(y, str) and len(y) and isinstance(y[0], Mapping)
    return "records" if records else None


def _names(y: Any) -> list[str] | None:
    kind = _kind(y)
    if kind is None:
        return None
    return list(map(str, y.columns)) if kind in _FRAMES else list(dict.fromkeys(str(n) for row in y for n in row))


def unknown(y: NDArray[Any], unlabelled: Any = -1) -> NDArray[np.bool_]:
    """Mask of the entries that stand for "unknown": None, NaN and `unlabelled`."""
    if y.dtype.kind == "f":
        out = np.isnan(y)
    elif y.dtype.kind == "O":
        out = np.array([v is None or type(v).__name__ == "NAType" or v != v for v in y.ravel()], dtype=bool)
        out = out.reshape(y.shape)
    else:
        out = np.zeros(y.shape, dtype=bool)
    if unlabelled is None or unlabelled != unlabelled or y.dtype.kind == "b":
        return out
    if y.dtype.kind in "US":  # numpy turns −1 beside names into "-1"
        return out | (y == str(unlabelled))
    if y.dtype.kind == "O":
        same = [not isinstance(v, bool) and type(v).__name__ != "NAType" and v == unlabelled for v in y.ravel()]
        return out | np.array(same, dtype=bool).reshape(y.shape)
    return out if isinstance(unlabelled, str) else out | (y == unlabelled)


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


def _frame(kind: str, names: list[str], values: list[NDArray[Any]]) -> Any:
    columns = {name: column.tolist() for name, column in zip(names, values)}
    if kind == "pandas":
        import pandas

        return pandas.DataFrame(columns)
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
            remedy="Give y as a data frame or records with a column a variable, or rules as text or a LabelSpace.",
        )
    return LabelSpace.of(declared).where(*given)


def _only_rules(text: str, declared: list[Variable]) -> bool:
    try:
        parse_rules(text, declared)
    except RuleError:
        return False
    return True


def _declared_by(y: Any) -> list[Variable]:
    """The variables that labels with names describe: binary where all entries are 0 and 1, else a choice."""
    names = _names(y)
    if names is None:
        return []
    out = []
    for name in names:
        column = np.asarray([row.get(name) for row in y] if _kind(y) == "records" else y[name].to_numpy(), dtype=object)
        known = column[~unknown(column)].tolist()
        if all(value in (0, 1) for value in known):
            out.append(Variable(name))
        else:
            out.append(Variable.choice(name, sorted({_exact(value) for value in known}, key=str)))
    return out


def _exact(value: Any) -> str | int:
    return int(value) if isinstance(value, int | float) and float(value).is_integer() else str(value)
