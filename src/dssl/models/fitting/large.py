"""Fits on `Data`, which may be larger than memory: what they say about labels and features, for an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.data.rows import Data
from dssl.data.stored.surveys import Survey
from dssl.data.targets import space_of
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.models.fitting.lessons import by_class


def space_of_data(data: Data, rules: Any) -> LabelSpace:
    """The space of the data's labels; `rules` must be the same, or None, unless the data do not know it."""
    if not len(data):
        raise DataError("the data have no rows\nGive rows, of which some are labelled.")
    if rules is None and data.space is not None:
        return data.space
    if rules is None:
        raise DataError(
            f"{type(data).__name__} has columns of labels, and no names for them\n"
            "Give the label space that they are columns of: DSSLClassifier(rules=space)."
        )
    space = space_of(rules)
    width = data.batch([0]).y.shape[1]
    if (data.space is not None and str(data.space) != str(space)) or width != space.width:
        raise DataError(
            f"the data have labels of another space: {width} columns, and the rules have {space.width}\n"
            "Give the estimator no rules, or those that the data were made with."
        )
    return space


def set_names(model: Any, x: NDArray[Any], names: Sequence[str] | None) -> None:
    """What scikit-learn's `validate_data` would note of rows x, of which only a sample is in memory."""
    model.input_shape_, model.n_features_in_ = x.shape[1:], x.shape[1]
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    else:
        model.__dict__.pop("feature_names_in_", None)


def weights_of(space: LabelSpace, found: Survey, class_weight: Any) -> NDArray[np.float64]:
    """How much each labelled row (labelled,) counts for its class."""
    if class_weight is None:
        return np.ones(len(found.weights))
    return by_class(space, found.known, found.weights.astype(np.float64), class_weight)
