"""Cross-validation with unlabelled rows: they stay in training, and only labelled rows are tested on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import check_scoring
from sklearn.model_selection import BaseCrossValidator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from dssl.data.targets import Targets, plain
from dssl.errors import DataError
from dssl.logic.inferred import unknown
from dssl.logic.labels import Columns
from dssl.models.inference import taken


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

    Rows of one group, by `groups` here or in `split`, are never in training and test set of the same fold: groups are
    given to folds as a whole, and unlabelled rows of a test group are left out of that fold. A row whose group is None
    or NaN is a group by itself.

    Threads may share it, unless `random_state` is a generator.
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = True,
        random_state: Any = None,
        unlabelled: Any = -1,
        rules: Any = None,
        groups: Any = None,
    ) -> None:
        if n_splits < 2:
            raise DataError(f"{n_splits} folds leave nothing to train on\nUse at least 2.")
        self.n_splits, self.shuffle, self.random_state = n_splits, shuffle, random_state
        self.unlabelled, self.rules, self.groups = unlabelled, rules, groups

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Row numbers of training and test set, fold by fold. `groups`, one per row, are in place of those given."""
        if y is None:
            raise DataError("LabelledSplit needs y, to tell labelled rows from others\nCall split(X, y).")
        columns = Targets.of(y, self.rules, self.unlabelled).encode(y)
        labelled = np.asarray(~np.isnan(columns).all(axis=1))
        groups = self.groups if groups is None else groups
        group = _numbers(groups, len(columns))
        own, place = np.unique(group[labelled], return_inverse=True)
        if len(own) < self.n_splits:
            what = "labelled rows" if groups is None else "groups with labelled rows"
            raise DataError(f"{len(own)} {what} for {self.n_splits} folds\nUse fewer folds.")
        told = np.zeros((len(own), columns.shape[1]), np.float32)
        np.maximum.at(told, place, columns[labelled] == 1)
        counts = told.sum(axis=0).astype(np.int64)
        if ((counts > 0) & (counts < self.n_splits)).any():
            warnings.warn(
                f"the rarest label has {counts[counts > 0].min()} labelled {'rows' if groups is None else 'groups'}, "
                f"fewer than the {self.n_splits} folds, so it is missing from some",
                UserWarning,
                stacklevel=2,
            )
        random = check_random_state(self.random_state) if self.shuffle else None
        chosen = folds(told, self.n_splits, random)
        inside = np.isin(group, own)
        fold = np.where(inside, chosen[np.searchsorted(own, group).clip(max=len(own) - 1)], -1)
        for i in range(self.n_splits):
            yield np.flatnonzero(fold != i), np.flatnonzero((fold == i) & labelled)


def _numbers(groups: Any, rows: int) -> NDArray[np.int64]:
    """The number of each row's group; every row has one of its own if there are no groups, or its is unknown."""
    alone = np.arange(rows)
    if groups is None:
        return alone
    given = np.asarray(groups)
    if given.shape != (rows,):
        raise DataError(f"groups of shape {given.shape} do not fit\nGive {rows:,} groups, one per row.")
    free = unknown(given, None)
    _, numbers = np.unique(given[~free].astype(str), return_inverse=True)
    out = alone + rows
    out[~free] = numbers
    return out


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


def labelled_scorer(
    scoring: str | Callable[..., float] | None = None, *, unlabelled: Any = -1, rules: Any = None
) -> Callable[..., float]:
    """A scorer that looks at labelled rows only, for `cross_val_score`, `GridSearchCV` and their like.

    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> X, y = np.zeros((4, 1)), np.array([1, 1, 0, -1])
    >>> model = DummyClassifier(strategy="constant", constant=1).fit(X[:3], y[:3])
    >>> labelled_scorer("accuracy")(model, X, y)
    0.6666666666666666

    `scoring` is as in scikit-learn: a name, a scorer, or None for the estimator's own. Metrics cannot take an
    unknown entry of a matrix, so matrices are scored on completely labelled rows. Frames and records are scored as
    matrices with one column per column of the space. `rules` are those of the estimator, or of the last step of a
    pipeline, unless given.

    Any number of threads may share a scorer.
    """
    return _LabelledScorer(scoring, unlabelled, rules)


class _LabelledScorer(BaseEstimator):
    """What `labelled_scorer` returns: an object, so that it can be sent to other processes."""

    def __init__(self, scoring: Any, unlabelled: Any, rules: Any = None) -> None:
        self.scoring, self.unlabelled, self.rules = scoring, unlabelled, rules

    def __call__(self, estimator: Any, X: Any, y: Any, **options: Any) -> float:
        rules = self.rules if self.rules is not None else getattr(_last(estimator), "rules", None)
        targets = Targets.of(y, rules, self.unlabelled)
        columns = targets.encode(y)
        rows = np.flatnonzero(~np.isnan(columns).any(axis=1))
        if not len(rows):
            raise DataError(
                f"none of {len(columns)} rows is completely labelled, so nothing can be scored\n"
                "Use LabelledSplit as cv: it keeps unlabelled rows out of test sets."
            )
        if options.get("sample_weight") is not None:
            options["sample_weight"] = np.asarray(options["sample_weight"])[rows]
        x, known = taken(X, rows), taken(y, rows)
        labels = plain(known, vector=len(targets.space.variables) == 1)
        named = not isinstance(labels, np.ndarray)
        if named and self.scoring is None:
            return float(estimator.score(x, known, **options))
        if named or (labels.ndim == 2 and hasattr(_last(estimator), "targets_")):
            estimator, labels = _AsColumns(estimator, targets), columns[rows].astype(np.int64)
        elif labels.dtype.kind in "fO":
            labels = _exact(labels)
        return float(check_scoring(estimator, scoring=self.scoring)(estimator, x, labels, **options))


def _last(estimator: Any) -> Any:
    """The estimator that learns: the last step of a pipeline, the best of a search."""
    while True:
        inner = getattr(estimator, "best_estimator_", None)
        inner = estimator[-1] if inner is None and isinstance(estimator, Pipeline) else inner
        if inner is None:
            return estimator
        estimator = inner


class _AsColumns(ClassifierMixin, BaseEstimator):
    """A fitted estimator whose predictions are matrices of 0 and 1, as scikit-learn's metrics take them."""

    def __init__(self, estimator: Any, targets: Targets) -> None:
        self.estimator, self.targets = estimator, targets
        self.classes_ = [np.array([0, 1])] * targets.space.width  # how scikit-learn tells several labels from classes

    def fit(self, X: Any, y: Any) -> Any:
        """Does nothing: the estimator is already fitted."""
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        return float(self.estimator.score(X, y, sample_weight=sample_weight))

    def predict(self, X: Any) -> NDArray[np.int64]:
        return self.targets.encode(self.estimator.predict(X)).astype(np.int64)

    def predict_proba(self, X: Any) -> Any:
        return self.estimator.predict_proba(X)


def _exact(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels that None or NaN turned into objects or floats, in the type that they would have had otherwise."""
    exact = np.array(labels.tolist())
    whole = exact.dtype.kind == "f" and (exact == np.rint(exact)).all()
    return exact.astype(np.int64) if whole else exact
