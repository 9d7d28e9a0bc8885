"""Labels that break rules: they are refused, kept, dropped or repaired, and rows and rules are named."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from dssl.errors import DataError
from dssl.logic.labels import Columns
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import Blocks
from dssl.priors.predictive import Family, Predictive


class LabelWarning(UserWarning):
    """Some row labels break rules."""


_DONE = {
    "warn": "They are used as they are.",
    "drop": "Their labels are dropped: these rows count as unlabelled.",
    "repair": "Each is replaced by the valid label that differs in the fewest known entries.",
}


def mend(space: LabelSpace, y: Columns, on_violation: str, circuit: Any = None) -> Columns:
    """Labels as columns (n, width), where those that break rules are treated as asked.

    >>> space = LabelSpace("legs, fins, wings", "legs -> !fins", "legs -> !wings")
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     mend(space, np.array([[1, 1, 1], [1, 0, np.nan]], dtype=np.float32), "repair")
    array([[ 0.,  1.,  1.],
           [ 1.,  0., nan]], dtype=float32)

    `on_violation`: "error", "warn" (and keep them; a partial label without a valid completion is dropped, since
    nothing could be learned from it), "drop" the labels of these rows, or "repair" them. `circuit` answers for the
    rules; it is compiled unless given.
    """
    found = space.check(y) if space.rules else None
    if not found:
        return y
    if on_violation == "error":
        raise DataError(
            f"labels: {found}\n"
            'Correct these rows or rules; or pass on_violation="warn", "drop" (their labels) or "repair" (to the '
            "nearest valid label)."
        )
    warnings.warn(f"labels: {found}\n{_DONE[on_violation]}", LabelWarning, stacklevel=4)
    rows = found.invalid
    out = y.copy()
    if on_violation == "repair":
        out[rows] = nearest(space, y[rows], circuit)
    else:
        out[rows & (np.isnan(y).any(axis=1) | (on_violation == "drop"))] = np.nan
    return out


def completed(space: LabelSpace, y: Columns) -> Columns:
    """Labels as columns (n, width), with what the rules force filled in where something is known.

    >>> space = LabelSpace("legs, fins, wings", "wings -> legs", "legs -> !fins")
    >>> completed(space, np.array([[np.nan, np.nan, 1], [np.nan] * 3], dtype=np.float32))
    array([[ 1.,  0.,  1.],
           [nan, nan, nan]], dtype=float32)

    Rows of which nothing is known stay unlabelled. Equal rows are completed once.
    """
    known = ~np.isnan(y)
    partial = known.any(axis=1) & ~known.all(axis=1)
    if not space.rules or not partial.any():
        return y
    out = y.copy()
    out[partial] = space.complete(y[partial])
    return out


def nearest(space: LabelSpace, y: Columns, circuit: Any = None) -> Columns:
    """The valid labels that differ from rows y (n, width) in the fewest known entries; unknown entries stay unknown."""
    family = Family.of(space) if circuit is None else Family(Blocks(space), circuit)
    # log weight 0 for observed values; for others so low that no soft rule makes up for it
    values = [(a.float() - 1) * 1000 for a in family.blocks.allowed(torch.from_numpy(y))]
    best, _ = Predictive.of_weights(values, family.plain, strict=True).heaviest()
    return np.where(np.isnan(y), y, best.numpy().astype(np.float32))
