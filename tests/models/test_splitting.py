"""Folds hold labelled rows only and are stratified; scorers look at labelled rows only."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from dssl import DataError, DSSLClassifier
from dssl.models.splitting import LabelledSplit, folds, labelled_scorer


def hidden(y: np.ndarray, share: float = 0.7) -> np.ndarray:
    return np.where(np.random.default_rng(0).random(len(y)) < share, -1, y)


def test_unlabelled_rows_are_in_training_only() -> None:
    y = hidden(np.arange(200) % 4)
    seen = []
    for train, test in LabelledSplit(5, random_state=0).split(np.zeros((200, 1)), y):
        assert not set(train) & set(test)
        assert len(train) + len(test) == 200
        assert set(np.flatnonzero(y == -1)) <= set(train)
        assert (y[test] != -1).all()
        seen += test.tolist()
    assert sorted(seen) == np.flatnonzero(y != -1).tolist()


def test_other_splitters_do_test_on_unlabelled_rows() -> None:
    y = hidden(np.arange(200) % 4)
    assert any((y[test] == -1).any() for _, test in KFold(5).split(y))


def test_classes_are_spread_evenly() -> None:
    y = np.repeat([0, 1, 2], [50, 20, 10])
    for _, test in LabelledSplit(5, random_state=3).split(np.zeros((80, 1)), y):
        assert np.bincount(y[test]).tolist() == [10, 4, 2]


def test_labels_of_a_matrix_are_spread_evenly() -> None:
    y = (np.random.default_rng(0).random((300, 6)) < [0.5, 0.3, 0.1, 0.05, 0.05, 0.02]).astype(float)
    y[::3] = np.nan
    wanted = np.nansum(y, axis=0) / 5
    worst = 0.0
    for _, test in LabelledSplit(5, random_state=0).split(np.zeros((300, 1)), y):
        worst = max(worst, np.abs(y[test].sum(axis=0) - wanted).max())
        assert abs(len(test) - 40) <= 2
    assert worst < 2


def test_partly_labelled_rows_and_frames() -> None:
    y = pd.DataFrame({"a": [1, 0, None, None, 1, 0], "b": [None, 1, 0, None, 1, 1]})
    tested = np.concatenate([test for _, test in LabelledSplit(2, random_state=0).split(y, y)])
    assert sorted(tested) == [0, 1, 2, 4, 5]


def test_the_same_seed_gives_the_same_folds() -> None:
    y = np.arange(60) % 3
    one, two, other = (folds(np.eye(3)[y], 4, np.random.RandomState(seed)) for seed in (0, 0, 1))
    assert (one == two).all()
    assert (one != other).any()
    assert LabelledSplit(3).get_n_splits() == 3


def test_rare_labels_are_named() -> None:
    with pytest.warns(UserWarning, match="rarest label has 1 labelled rows"):
        list(LabelledSplit(2).split(np.zeros((4, 1)), [0, 0, 0, 1]))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: LabelledSplit(1), "nothing to train on"),
        (lambda: list(LabelledSplit(2).split([[0]])), "needs y"),
        (lambda: list(LabelledSplit(3).split(np.zeros((4, 1)), [0, 1, -1, -1])), "2 labelled rows for 3 folds"),
    ],
)
def test_what_cannot_be_split(call: object, said: str) -> None:
    with pytest.raises(DataError, match=said):
        call()  # type: ignore[operator]


def test_cross_validation_is_right_only_with_it() -> None:
    """The trap of DESIGN §5: −1 rows in test sets count as wrong."""
    X, truth = load_iris(return_X_y=True)
    y = hidden(truth)
    model = SelfTrainingClassifier(LogisticRegression(max_iter=1000))
    ours = cross_val_score(model, X, y, cv=LabelledSplit(5, random_state=0), scoring=labelled_scorer("accuracy"))
    naive = cross_val_score(model, X, y, cv=KFold(5, shuffle=True, random_state=0))
    assert ours.mean() > 0.85
    assert naive.mean() < 0.5


def test_a_scorer_leaves_out_unlabelled_rows() -> None:
    X, truth = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(X, truth)
    y = hidden(truth)
    kept = y != -1
    for scoring in ("accuracy", "f1_macro", "neg_log_loss", None):
        alone = model.score(X[kept], y[kept]) if scoring is None else None
        score = labelled_scorer(scoring)(model, X, y)
        assert score == labelled_scorer(scoring)(model, pd.DataFrame(X).to_numpy()[kept], y[kept])
        assert alone is None or score == alone
    names = np.where(kept, np.array(["a", "b", "c"])[truth], None)
    named = LogisticRegression(max_iter=1000).fit(X, np.array(["a", "b", "c"])[truth])
    assert labelled_scorer("accuracy")(named, X, names) == labelled_scorer("accuracy")(model, X, y)


def test_a_scorer_takes_weights_and_can_be_sent_elsewhere() -> None:
    X, truth = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(X, truth)
    wrong = model.predict(X) != truth
    scorer = pickle.loads(pickle.dumps(clone(labelled_scorer("accuracy"))))
    assert scorer(model, X, truth, sample_weight=wrong.astype(float)) == 0
    with pytest.raises(DataError, match="no row is labelled"):
        scorer(model, X, np.full(150, -1))
    with pytest.raises(DataError, match="none of 2 rows is completely labelled"):
        scorer(model, X[:2], np.array([[1, np.nan], [np.nan, 0]]))


# ---- labels with names, pipelines ----


def frames() -> tuple[np.ndarray, pd.DataFrame]:
    x = np.random.default_rng(0).normal(size=(40, 3))
    y = pd.DataFrame({"legs": (x[:, 0] > 0) * 1.0, "fins": (x[:, 0] < -0.5) * 1.0}, index=range(100, 140))
    y.iloc[::3] = np.nan
    return x, y


@pytest.mark.parametrize("scoring", [None, "accuracy", "f1_micro", "roc_auc"])
@pytest.mark.parametrize("form", ["pandas", "records", "columns"])
def test_rules_are_found_in_a_pipeline_and_labels_may_have_names(scoring: str | None, form: str) -> None:
    x, frame = frames()
    y: Any = {"pandas": frame, "records": frame.to_dict("records"), "columns": frame.to_numpy()}[form]
    rules = "legs -> !fins" if form != "columns" else "legs, fins\nlegs -> !fins"
    model = DSSLClassifier(rules, prior=None, steps=80, learning_rate=0.01, random_state=0)
    pipeline = make_pipeline(StandardScaler(), model).fit(x, y)
    score = labelled_scorer(scoring)(pipeline, x, y)
    assert score == pytest.approx(labelled_scorer(scoring)(model, StandardScaler().fit_transform(x), y))
    assert 0.8 < score <= 1


def test_rules_are_found_in_a_search_or_given() -> None:
    x, y = frames()
    model = DSSLClassifier("legs -> !fins", prior=None, steps=20, random_state=0)
    cv = LabelledSplit(2, random_state=0, rules="legs -> !fins")
    search = GridSearchCV(model, {"steps": [20, 60]}, cv=cv, scoring=labelled_scorer("f1_micro")).fit(x, y)
    assert labelled_scorer("accuracy")(search, x, y) > 0.5
    told = labelled_scorer("accuracy", rules="legs -> !fins")
    assert told(search, x, y) == labelled_scorer("accuracy")(search, x, y)


# ---- groups ----


@pytest.mark.parametrize("given", ["here", "there"])
def test_groups_are_kept_together(given: str) -> None:
    random = np.random.default_rng(0)
    groups = [None if i % 10 == 0 else f"g{random.integers(12)}" for i in range(100)]
    y = np.where(random.random(100) < 0.6, random.integers(0, 2, 100), -1)
    split = LabelledSplit(3, random_state=0, groups=groups if given == "here" else None)
    tested: list[int] = []
    for train, test in split.split(np.zeros((100, 1)), y, None if given == "here" else groups):
        assert (y[test] >= 0).all()
        assert not {groups[i] for i in train if groups[i]} & {groups[i] for i in test}
        left = set(range(100)) - {*train, *test}
        assert all(y[i] == -1 and groups[i] in {groups[j] for j in test} for i in left)
        tested += test.tolist()
    assert sorted(tested) == np.flatnonzero(y >= 0).tolist()


def test_rows_of_groups_of_their_own_are_split_as_without_groups() -> None:
    y = np.array([0, 1, 0, 1, -1, 0, 1, 0, 1, -1])
    plain, single = (
        list(LabelledSplit(2, random_state=1, groups=groups).split(y[:, None], y)) for groups in (None, np.arange(10))
    )
    for (a, b), (c, d) in zip(plain, single):
        assert b.tolist() == d.tolist()
        assert set(c) <= set(a)


def test_groups_that_do_not_fit_are_refused() -> None:
    y = np.array([0, 1, 0, 1])
    with pytest.raises(DataError, match=r"groups of shape \(3,\) do not fit\nGive 4 groups"):
        next(LabelledSplit(2).split(y[:, None], y, [1, 2, 3]))
    with pytest.raises(DataError, match="1 groups with labelled rows for 2 folds"):
        next(LabelledSplit(2, groups=["a"] * 4).split(y[:, None], y))
