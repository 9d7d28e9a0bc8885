"""What labels without a space say about themselves: their variables, and which entries are unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.errors import DataError
from dssl.logic.labels import by_name
from dssl.logic.sources import plain_value, variable_of
from dssl.logic.space import LabelSpace


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


def column_names(columns: int) -> list[str]:
    """What label columns without names are called.

    >>> column_names(2)
    ['label0', 'label1']
    """
    return [f"label{i}" for i in range(columns)]


def known_values(column: Any, unlabelled: Any = -1) -> list[Any]:
    """The different values of a label column, those unknown left out; numbers may be written as texts.

    >>> known_values(["3", None, "12", "3"]), known_values(["True", "", "false"]), known_values([0, 1, -1], None)
    ([3, 12], [0, 1], [0, 1])
    >>> known_values(["dog", "cat"]), known_values([3, -1], None)
    (['cat', 'dog'], [-1, 3])
    """
    array = np.asarray(column, dtype=object if isinstance(column, list) else None)
    seen = set(map(plain_value, array[~unknown(array, unlabelled)].tolist()))
    texts = {v.strip().lower() if isinstance(v, str) else v for v in seen} - {""}
    if texts <= {0, 1, "true", "false", "0", "1"}:  # True equals 1
        return sorted({int(v in (1, "1", "true")) for v in texts})
    if texts <= {-1, 0, 1}:  # beside 0 and 1, −1 is unknown, whatever else may be
        return sorted(texts - {-1})
    if all(isinstance(v, str) and v.removeprefix("-").isdecimal() for v in texts):
        return sorted(map(int, texts))
    return sorted((v for v in seen if str(v).strip()), key=str)


def space_of_labels(y: Any, unlabelled: Any = -1) -> LabelSpace:
    """The space of a vector of classes, of a matrix of 0 and 1, or of a frame, each with the values that occur."""
    named = by_name(y)
    if named is not None:
        return LabelSpace.of(variable_of(name, known_values(column, unlabelled)) for name, column in named.items())
    array = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y, dtype=object if isinstance(y, list) else None)
    if array.ndim == 2:
        return LabelSpace.attributes(column_names(array.shape[1]))
    if array.ndim != 1:
        raise DataError(f"labels of shape {array.shape} do not fit\nGive a vector of classes, or a matrix of labels.")
    known = {int(v) if isinstance(v, bool) else plain_value(v) for v in array[~unknown(array, unlabelled)].tolist()}
    if not known:
        raise DataError("no label is known, so there is nothing to learn\nGive some labels, or a space.")
    odd = [v for v in known if not isinstance(v, str | int)]
    if odd:
        raise DataError(
            f"the labels hold {odd[0]!r}\nUse whole numbers or names for classes; bin measured numbers first."
        )
    return LabelSpace.classes(sorted(known, key=lambda v: (isinstance(v, str), v)))
