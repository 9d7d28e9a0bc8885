"""Cross-validation with unlabelled rows: they stay in training, and only labelled rows are tested on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import check_scoring
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import _safe_indexing, check_random_state

from dssl.errors import DataError
from dssl.logic.labels import Columns
from dssl.training.targets import Targets, plain


class LabelledSplit(BaseCrossValidator):
    """Stratified folds of the labelled rows; every unlabelled row is in every training set and in no test set.

    >>> import numpy as np
    >>> y = np.array([0, 1, 0, 1, -1, -1])
    >>> for train, test in LabelledSplit(2, shuffle=False).split(np.zeros((6, 1)), y):
    ...     print(train.tolist(), test.tolist())
    [2, 3, 4, 5] [0, 1]
    [0, 1, 4, 5] [2, 3]

    Other splitters put unlabelled rows into test sets, where −1 counts as a class that is never predicted. A vector of
    classes is stratified by class. Other labels are stratified by iterative stratification: rarest label first, each
    row to the fold that lacks it most. Partly labelled rows count as labelled. `unlabelled` and `rules` are those of
    the estimator; `rules` are needed only for labels that are neither a vector nor a matrix of 0 and 1.
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = True,
        random_state: Any = None,
        unlabelled: Any = -1,
        rules: Any = None,
    ) -> None:
        if n_splits < 2:
            raise DataError(f"{n_splits} folds leave nothing to train on\nUse at least 2.")
        self.n_splits, self.shuffle, self.random_state = n_splits, shuffle, random_state
        self.unlabelled, self.rules = unlabelled, rules

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Row numbers of training and test set, fold by fold. `groups` are ignored."""
        if y is None:
            raise DataError("LabelledSplit needs y, to tell labelled rows from others\nCall split(X, y).")
        columns = Targets.of(y, self.rules, self.unlabelled).encode(y)
        labelled = np.flatnonzero(~np.isnan(columns).all(axis=1))
        if len(labelled) < self.n_splits:
            raise DataError(f"{len(labelled)} labelled rows for {self.n_splits} folds\nUse fewer folds.")
        counts = (columns[labelled] == 1).sum(axis=0)
        if ((counts > 0) & (counts < self.n_splits)).any():
            warnings.warn(
                f"the rarest label has {counts[counts > 0].min()} labelled rows, fewer than the {self.n_splits} folds, "
                "so it is missing from some",
                UserWarning,
                stacklevel=2,
            )
        random = check_random_state(self.random_state) if self.shuffle else None
        fold = np.full(len(columns), -1)
        fold[labelled] = folds(columns[labelled], self.n_splits, random)
        for i in range(self.n_splits):
            yield np.flatnonzero(fold != i), np.flatnonzero(fold == i)


def folds(columns: Columns, count: int, random: np.random.RandomState | None = None) -> NDArray[np.int64]:
    """A fold for each row of label columns (n, width), so that every label is spread evenly over the folds.

    Iterative stratification (Sechidis et al. 2011): take the rarest label that still has rows to place, and give each
    of its rows to the fold that lacks this label most, then the fold that lacks rows most, then the first.
    """
    order = np.arange(len(columns)) if random is None else random.permutation(len(columns))
    has = columns[order] == 1
    # Rows in which nothing is true are a label of their own.
    has = np.column_stack([has, ~has.any(axis=1)])
    total = has.sum(axis=0)
    lacks = np.repeat(total[None] / count, count, axis=0)  # (folds, labels)
    room = np.full(count, len(columns) / count)
    fold = np.full(len(columns), -1)
    while (fold < 0).any():
        left = has[fold < 0].sum(axis=0)
        label = int(np.where(left > 0, left, np.iinfo(np.int64).max).argmin())
        for row in np.flatnonzero((fold < 0) & has[:, label]):
            chosen = np.lexsort((-room, -lacks[:, label]))[0]
            fold[row] = chosen
            lacks[chosen] -= has[row]
            room[chosen] -= 1
    out = np.empty(len(columns), dtype=np.int64)
    out[order] = fold
    return out


def labelled_scorer(scoring: str | Callable[..., float] | None = None, *, unlabelled: Any = -1) -> Callable[..., float]:
    """A scorer that looks at labelled rows only, for `cross_val_score`, `GridSearchCV` and their like.

    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> X, y = np.zeros((4, 1)), np.array([1, 1, 0, -1])
    >>> model = DummyClassifier(strategy="constant", constant=1).fit(X[:3], y[:3])
    >>> labelled_scorer("accuracy")(model, X, y)
    0.6666666666666666

    `scoring` is what scikit-learn calls so: a name, a scorer, or None for the estimator's own. Metrics cannot take an
    unknown entry of a matrix, so matrices are scored on completely labelled rows.
    """
    return _LabelledScorer(scoring, unlabelled)


class _LabelledScorer(BaseEstimator):
    """What `labelled_scorer` gives: an object, so that it can be sent to other processes."""

    def __init__(self, scoring: Any, unlabelled: Any) -> None:
        self.scoring, self.unlabelled = scoring, unlabelled

    def __call__(self, estimator: Any, X: Any, y: Any, **options: Any) -> float:
        columns = Targets.of(y, getattr(estimator, "rules", None), self.unlabelled).encode(y)
        rows = np.flatnonzero(~np.isnan(columns).any(axis=1))
        if not len(rows):
            raise DataError(
                f"none of {len(columns)} rows is completely labelled, so nothing can be scored\n"
                "Use LabelledSplit as cv: it keeps unlabelled rows out of test sets."
            )
        if options.get("sample_weight") is not None:
            options["sample_weight"] = np.asarray(options["sample_weight"])[rows]
        known = _safe_indexing(y, rows)
        labels = plain(known)
        if isinstance(labels, np.ndarray) and labels.dtype.kind in "fO":
            labels = _exact(labels)
        x = X[rows] if sp.issparse(X) or hasattr(X, "detach") else _safe_indexing(X, rows)
        return float(check_scoring(estimator, scoring=self.scoring)(estimator, x, labels, **options))


def _exact(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels that None or NaN made objects or floats, as what they would be without."""
    exact = np.array(labels.tolist())
    whole = exact.dtype.kind == "f" and (exact == np.rint(exact)).all()
    return exact.astype(np.int64) if whole else exact
