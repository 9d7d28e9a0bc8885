"""Which columns of a table predictions rest on: how much accuracy on held-out rows is lost if one is shuffled.

A column is one of the table's, with all the inputs that were made of it (Breiman 2001). Columns that say the same can
replace each other: each of them may then seem to matter little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from dssl.app.measures import Part, row_hits
from dssl.models.estimators import DSSLClassifier
from dssl.models.inference import features_of, run

_TIMES = 5  # shuffles of each column
_ROWS = 1_000  # held-out rows, at most
_PREDICTIONS = 400_000  # at most, over all columns and shuffles
_FEWEST = 20  # rows, fewer of which say nothing
_SEED = 0


@dataclass(frozen=True)
class Importance:
    """Of accuracy, the share that is lost in the mean if a column is shuffled, and the standard deviation of that over
    shuffles. `clear`: the loss is more than shuffles and the draw of the rows make by themselves."""

    column: str
    lost: float
    spread: float
    clear: bool


def importances(
    model: DSSLClassifier, X: Any, part: Part, columns: Mapping[str, Sequence[int]]
) -> tuple[Importance, ...]:
    """One per column of the table, the most important first. `X` (n, inputs) has the rows of the part, and `columns`
    says which of its inputs were made of which column. Empty where there are too few rows to say."""
    rows = np.flatnonzero(row_hits(part)[1])
    if len(rows) < _FEWEST or not columns:
        return ()
    random = np.random.default_rng(_SEED)
    most = max(_FEWEST, min(_ROWS, _PREDICTIONS // (_TIMES * len(columns))))
    rows = rows if len(rows) <= most else np.sort(random.choice(rows, most, replace=False))
    x = features_of(model, X)[rows]
    some = replace(part, rows=part.rows[rows], known=part.known[rows], logits=part.logits[rows], missed=None)
    before = row_hits(some)[0]
    out = []
    for name, inputs in columns.items():
        after = np.stack([_hits(model, _shuffled(x, inputs, random), some) for _ in range(_TIMES)])
        lost = before.mean() - after.mean(axis=1)  # (shuffles,)
        each = before - after.mean(axis=0)  # (rows,)
        error = each.std() / np.sqrt(len(rows)) + lost.std() / np.sqrt(_TIMES)
        out.append(Importance(name, float(lost.mean()), float(lost.std()), bool(lost.mean() > 2 * error)))
    return tuple(sorted(out, key=lambda i: -i.lost))


def _hits(model: DSSLClassifier, x: Any, part: Part) -> Any:
    return row_hits(replace(part, logits=run(model.network_, x, model.standardiser_)))[0]


def _shuffled(x: Any, inputs: Sequence[int], random: np.random.Generator) -> Any:
    """The rows with some inputs, all together, taken from other rows."""
    order = random.permutation(x.shape[0])
    if sp.issparse(x):
        chosen = np.zeros(x.shape[1])
        chosen[list(inputs)] = 1
        return (x @ sp.diags(1 - chosen) + x[order] @ sp.diags(chosen)).tocsr().astype(x.dtype)
    out = x.copy()
    out[:, list(inputs)] = x[order][:, list(inputs)]
    return out
