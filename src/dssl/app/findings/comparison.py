"""The same rows by simpler means: is the model worth more than a constant, labels alone, labels and rules?"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.app.measures import Part, row_hits
from dssl.logic.labels import Columns
from dssl.logic.space import LabelSpace
from dssl.models.estimators import DSSLClassifier
from dssl.models.inference import taken

CONSTANT, LABELS, RULES, MODEL = "one label for all", "labels alone", "labels and rules", "this model"
CHANCE = 0.05  # probability of a difference by chance, below which it counts
_PLACES = ("checkpoint", "checkpoint_every", "log", "tensorboard", "callbacks", "progress", "devices", "patience")


@dataclass(frozen=True)
class Way:
    """How many test rows a way of predicting gets right. `gained` rows are right by the model and wrong by it, `lost`
    the other way round; `seconds` it took."""

    name: str
    right: int
    of: int
    gained: int
    lost: int
    seconds: float

    @property
    def share(self) -> float:
        return self.right / self.of

    @property
    def differs(self) -> bool:
        """Whether chance would hardly make such a difference from the model (an exact sign test of the rows)."""
        return sign_test(self.gained, self.lost) < CHANCE


def sign_test(one: int, other: int) -> float:
    """The probability that a fair coin falls at least as unevenly as so many heads and tails.

    >>> sign_test(1, 3), sign_test(0, 8)
    (0.625, 0.0078125)
    """
    n, k = one + other, min(one, other)
    tail: int = sum(comb(n, i) for i in range(k + 1))
    return min(1.0, 2 * tail / 2**n)


def compare(
    model: DSSLClassifier, fresh: DSSLClassifier, X: Any, columns: Columns, X_test: Any, test: Part
) -> tuple[Way, ...]:
    """The constant, labels alone, labels and rules, and the model itself on its test rows.

    * `fresh`: an estimator with the same settings that has not learned yet.
    * `X`, `columns`: the rows it learned from, and what is known of each (n, width).
    * `X_test`, `test`: the test rows, and what the model predicts for them.
    """
    hits, known = row_hits(test)
    if not known.any():
        return ()
    rows = np.flatnonzero(~np.isnan(columns).all(axis=1))
    x, labels = taken(X, rows), columns[rows]
    found = [_way(CONSTANT, _constant(labels, model), test, hits, known, 0.0)]
    spaces = {LABELS: LabelSpace.of(model.space_.variables), **({RULES: model.space_} if model.space_.rules else {})}
    for name, space in spaces.items():
        began = time.monotonic()
        other = _supervised(fresh, space).fit(x, labels)
        best = other.decoder_.best(other._logits(X_test))
        found.append(_way(name, best, test, hits, known, time.monotonic() - began))
    return (*found, Way(MODEL, int(hits[known].sum()), int(known.sum()), 0, 0, 0.0))


def _way(
    name: str, best: Columns, test: Part, hits: NDArray[np.bool_], known: NDArray[np.bool_], seconds: float
) -> Way:
    theirs = ((best == test.known) | np.isnan(test.known)).all(axis=1)
    if test.missed is not None:
        theirs &= test.missed == 0
    gained, lost = int((hits & ~theirs)[known].sum()), int((theirs & ~hits)[known].sum())
    return Way(name, int(theirs[known].sum()), int(known.sum()), gained, lost, round(seconds, 2))


def _constant(labels: Columns, model: DSSLClassifier) -> Columns:
    """The most frequent label among rows labelled in full; without any, the most probable one by label frequencies."""
    whole = labels[~np.isnan(labels).any(axis=1)]
    if len(whole):
        values, counts = np.unique(whole, axis=0, return_counts=True)
        return np.asarray(values[counts.argmax()][None])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # columns of which nothing is known
        share = np.nan_to_num(np.nanmean(labels, axis=0), nan=0.5).clip(1e-3, 1 - 1e-3)
    return model.decoder_.best(np.log(share / (1 - share))[None].astype(np.float32))


def _supervised(fresh: DSSLClassifier, space: LabelSpace) -> DSSLClassifier:
    """The same network and settings, which learns from labels only."""
    settings = {name: value for name, value in (fresh.settings or {}).items() if name not in _PLACES}
    objective = {n: v for n, v in (fresh.objective or {}).items() if n in ("components", "constrained", "class_weight")}
    given = {
        **fresh.get_params(deep=False),
        "rules": space,
        "prior": None,
        "consistency": None,
        "prior_weight": None,
        "augment": None,
        "warm_start": False,
        "settings": settings,
        "objective": objective or None,
    }
    return DSSLClassifier(**given)
