"""Rows to learn from, of which few have labels, and rows to test on: how the cases of `cases.py` are cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from dssl.logic.space import LabelSpace

Arrays = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Split:
    """What an estimator is given, and what it is tested on.

    Without rules, y is a vector of classes with −1 for unknown, or a matrix of 0 and 1 with NaN; with rules, the
    columns (n, width) of the label space, NaN where unknown. All of `y_test` is known.
    """

    X_train: NDArray[Any]
    y_train: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    rules: LabelSpace | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which entries of y_train are known."""
        return self.y_train >= 0  # NaN is not

    @property
    def labelled(self) -> int:
        """Rows of which all is known."""
        return int(self.known.reshape(len(self.y_train), -1).all(axis=1).sum())

    @property
    def partial(self) -> int:
        """Rows of which something is known, but not all."""
        return int(self.known.reshape(len(self.y_train), -1).any(axis=1).sum()) - self.labelled

    @property
    def unlabelled(self) -> int:
        """Rows of which nothing is known."""
        return len(self.y_train) - self.labelled - self.partial


def split(x: np.ndarray, y: np.ndarray, labels: int, test: int, seed: int, random: bool) -> tuple[np.ndarray, ...]:
    """Training rows with all but `labels` labels hidden, and test rows."""
    even = y.ndim == 1 and np.unique(y, return_counts=True)[1].min() > 4  # zoo's rarest type cannot be spread
    train, held = train_test_split(np.arange(len(x)), test_size=test, random_state=seed, stratify=y if even else None)
    if even and not random:
        kept, _ = train_test_split(train, train_size=labels, random_state=seed, stratify=y[train])
    else:
        kept = np.random.RandomState(seed).permutation(train)[:labels]
    shown = np.full(y.shape, -1)
    shown[kept] = y[kept]
    return x[train], shown[train], x[held], y[held]


def parted(rows: int, train: int, test: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`train` rows to learn from and `test` rows to test on, at random; the first come in random order too."""
    order = np.random.default_rng(seed).permutation(rows)
    return order[test : test + train], order[:test]


def evenly(y: NDArray[Any], labels: int) -> NDArray[np.int64]:
    """Rows to label, as many of each class as of any other as far as there are, the first of each class first."""
    rank = np.zeros(len(y), dtype=np.int64)
    for k in np.unique(y):
        rank[y == k] = np.arange(np.sum(y == k))
    return np.argsort(rank, kind="stable")[:labels]


def shown(y: NDArray[Any], rows: Any) -> NDArray[Any]:
    """Classes (n,) or columns (n, width) with all but those of `rows` hidden."""
    out = np.full(y.shape, -1) if y.ndim == 1 else np.full(y.shape, np.nan, dtype=np.float32)
    out[rows] = y[rows]
    return out


def cut(
    x: NDArray[Any],
    y: NDArray[Any],
    rules: LabelSpace | None,
    seed: int,
    *,
    labels: int,
    train: int,
    test: int,
    even: NDArray[Any] | None = None,
    tells: NDArray[np.bool_] | None = None,
    partial: int = 0,
) -> Split:
    """Rows at random, the first `labels` of those to learn from with labels; `even` spreads them over these classes.

    Of `partial` further rows the columns are known that `tells` (width,) says.
    """
    kept, held = parted(len(x), train, test, seed)
    rows = np.arange(labels) if even is None else evenly(even[kept], labels)
    known = shown(y[kept], rows)
    if tells is not None:
        more = np.setdiff1d(np.arange(len(kept)), rows)[:partial]
        known[np.ix_(more, np.flatnonzero(tells))] = y[kept][np.ix_(more, np.flatnonzero(tells))]
    return Split(x[kept], known, x[held], y[held], rules)
