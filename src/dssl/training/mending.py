"""Row labels that break rules: refuse, keep, drop or repair them, and name the rows and rules."""

from __future__ import annotations

import warnings

import numpy as np
import torch

from dssl.errors import DataError
from dssl.logic.labels import Columns
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import Blocks


class LabelWarning(UserWarning):
    """Some row labels break rules."""


_DONE = {
    "warn": "They are used as they are.",
    "drop": "Their labels are dropped: these rows count as unlabelled.",
    "repair": "Each is replaced by the valid label that differs in the fewest known entries.",
}


def mend(space: LabelSpace, y: Columns, on_violation: str) -> Columns:
    """Labels as columns (n, width), with those that break rules treated as asked.

    >>> space = LabelSpace("legs, fins, wings", "legs -> !fins", "legs -> !wings")
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     mend(space, np.array([[1, 1, 1], [1, 0, np.nan]], dtype=np.float32), "repair")
    array([[ 0.,  1.,  1.],
           [ 1.,  0., nan]], dtype=float32)

    `on_violation`: "error", "warn" (and keep them; a partly labelled row that no completion saves loses its label, for
    nothing could be learnt from it), "drop" the labels of these rows, or "repair" them.
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
        out[rows] = nearest(space, y[rows])
    else:
        out[rows & (np.isnan(y).any(axis=1) | (on_violation == "drop"))] = np.nan
    return out


def nearest(space: LabelSpace, y: Columns) -> Columns:
    """The valid labels that differ from rows y (n, width) in the fewest known entries; unknown entries stay unknown."""
    blocks = Blocks(space)
    known = torch.from_numpy(y)
    # log weight 0 for what is observed, and for what is not so little that no soft rule makes up for it
    values = [(a.float() - 1) * 1000 for a in blocks.allowed(known)]
    best, _ = space.compile().mpe(*blocks.literals(values), strict=True)
    return np.where(np.isnan(y), y, best.numpy().astype(np.float32))
