"""DSSLClassifier: scikit-learn to the letter, every form of labels and features, and predictions that obey rules."""

from __future__ import annotations

import pickle
import time
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from dssl import DataError, LabelSpace, load, save
from dssl.data.mending import LabelWarning, completed
from dssl.models.estimators import DSSLClassifier
from dssl.models.fitting.lessons import Lesson
from dssl.models.fitting.losses import make_objective
from dssl.models.fitting.pace import Course
from dssl.models.fitting.variety import CollapseWarning
from dssl.models.names import TERMS
from dssl.models.splitting import LabelledSplit, labelled_scorer
from dssl.priors import DeterministicPrior, EntropyPrior, LearnedPrior, learn_prior
from dssl.training.terms.consistency import VAT, MeanTeacher
from training.rule_sets import RULE_SETS

RULES = "legs, fins, wings\nlegs -> !fins\nwings -> legs"


def quick(**parameters: Any) -> DSSLClassifier:
    known = {"steps": 60, "learning_rate": 5e-3, "calibrate": False, "random_state": 0}
    return DSSLClassifier(**{**known, **parameters})


def animals(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features, and valid labels that depend on them."""
    x = np.random.default_rng(seed).normal(size=(n, 6))
    legs, fins, wings = x[:, 0] > 0, x[:, 1] > 0, x[:, 2] > 0
    return x, np.stack([legs, fins & ~legs, wings & legs], axis=1).astype(float)


# ---- scikit-learn ----

MINUS_ONE = {"check_classifiers_classes": "uses -1 as a class, which stands for unlabelled unless unlabelled=None"}


@parametrize_with_checks(
    [DSSLClassifier(steps=40), DSSLClassifier(steps=40, network="linear", prior=None, learning_rate=0.05)],
    expected_failed_checks=lambda estimator: MINUS_ONE,
)
def test_scikit_learn_checks(estimator: DSSLClassifier, check: Any) -> None:
    """Class labels and, since the estimator is tagged so, matrices of labels."""
    assert estimator.__sklearn_tags__().classifier_tags.multi_label
    check(estimator)


def test_minus_one_as_a_class_works_when_asked_for() -> None:
    X, y = load_iris(return_X_y=True)
    model = quick(unlabelled=None).fit(X[:100], np.where(y[:100] == 0, -1, 1))
    assert model.classes_.tolist() == [-1, 1]
    assert model.score(X[:100], np.where(y[:100] == 0, -1, 1)) == 1


def test_pipelines_clone_and_search() -> None:
    X, truth = load_iris(return_X_y=True)
    y = np.where(np.arange(150) % 3 == 0, truth, -1)
    pipeline = make_pipeline(PCA(3), quick())
    search = GridSearchCV(pipeline, {"dsslclassifier__prior": [None, "entropy"]}, cv=LabelledSplit(3, random_state=0))
    search.fit(X, y)
    assert search.best_score_ > 0.85
    scores = cross_val_score(quick(), X, y, cv=LabelledSplit(3, random_state=0), scoring=labelled_scorer("f1_macro"))
    assert scores.mean() > 0.85
    assert clone(search.best_estimator_[-1]).get_params()["steps"] == 60


def test_the_same_seed_gives_the_same_model_in_any_order() -> None:
    X, truth = load_iris(return_X_y=True)
    y = np.where(np.arange(150) % 3 == 0, truth, -1)
    one = quick().fit(X, y).predict_proba(X)
    order = np.random.default_rng(0).permutation(150)
    assert (quick().fit(X[order], y[order]).predict_proba(X) == one).all()
    assert (quick(random_state=1).fit(X, y).predict_proba(X) != one).any()
    twice = quick().fit(np.vstack([X, X]), np.hstack([y, y]))
    assert (quick().fit(X, y, sample_weight=np.full(150, 2.0)).predict_proba(X) == twice.predict_proba(X)).all()


def test_pickling_keeps_predictions() -> None:
    x, y = animals()
    model = quick(rules=RULES).fit(x, y)
    assert (pickle.loads(pickle.dumps(model)).predict_proba(x) == model.predict_proba(x)).all()


@pytest.mark.parametrize("parameters", [{"prior": "x"}, {"steps": 0}, {"network": "rnn"}, {"on_violation": "?"}])
def test_parameters_are_validated(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"The '{next(iter(parameters))}' parameter"):
        quick(**parameters).fit(*animals())


# ---- labels and features in every form ----


@pytest.mark.parametrize("unknown", [-1, None, float("nan")])
def test_names_with_unknown_ones(unknown: Any) -> None:
    X, truth = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[truth].astype(object)
    y = np.where(np.arange(150) % 3 == 0, names, unknown)
    model = quick().fit(X, y)
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert model.score(X, names) > 0.85
    assert model.predict(X).dtype.kind == "U"
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-5)


def test_features_in_every_form_give_the_same_model() -> None:
    X, truth = load_iris(return_X_y=True)
    y = np.where(np.arange(150) % 3 == 0, truth, -1)
    expected = quick().fit(X, y).predict_proba(X)
    names = ["a", "b", "c", "d"]
    for form in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names), torch.from_numpy(X), X.tolist()):
        model = quick().fit(form, y)
        assert (model.predict_proba(form) == expected).all()
        assert not hasattr(form, "columns") or model.feature_names_in_.tolist() == names
    sparse = quick(settings={"standardise": False}).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(sparse.predict_proba(sp.coo_array(X)), sparse.predict_proba(X), rtol=1e-5)
    assert sparse.score(X, truth) > 0.6


def test_images() -> None:
    X, y = load_digits(n_class=3, return_X_y=True)
    images = torch.from_numpy(X[:150].reshape(-1, 1, 8, 8).astype(np.float32))
    model = quick(steps=30).fit(images, y[:150])
    assert model.score(images, y[:150]) > 0.9
    with pytest.raises(DataError, match=r"rows of shape \(1, 4, 4\)"):
        model.predict(images[:, :, :4, :4])


def test_an_own_network_is_sized_for_the_space() -> None:
    x, y = animals()
    model = quick(rules=RULES, network=nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 99))).fit(x, y)
    assert model.predict_theta(x).shape == (200, 3)
    assert model.network[2].out_features == 99  # the user's own is left alone


def test_gaps_in_features_are_refused_with_a_remedy() -> None:
    x, y = animals(20)
    x[3, 2] = np.nan
    with pytest.raises(DataError, match=r"row 3, feature 2\n.*SimpleImputer"):
        quick().fit(x, y)
    assert make_pipeline(SimpleImputer(), quick(steps=2)).fit(x, y).predict(x).shape == (20, 3)


def test_a_fit_that_fails_leaves_no_network_behind() -> None:
    x, y = np.arange(8.0).reshape(4, 2), [0, 1, -1, -1]
    model = DSSLClassifier(steps=3, network="linear", random_state=0).fit(x, y)
    with pytest.raises(FloatingPointError, match="not finite"):
        model.set_params(augment=(lambda x: x * np.nan, None), consistency=None).fit(x, y)
    with pytest.raises(NotFittedError):
        model.predict(x)


def test_matrices_with_unknown_entries() -> None:
    x, truth = animals()
    y = truth.copy()
    y[np.random.default_rng(0).random(y.shape) < 0.5] = np.nan
    model = quick(steps=150).fit(x, y)
    assert model.predict(x).dtype.kind == "i"
    assert (model.predict(x) == truth).mean() > 0.8
    assert model.score(x, y) > 0.5


def test_nothing_labelled() -> None:
    with pytest.raises(DataError, match="no row is labelled"):
        quick().fit(np.eye(3), [-1, -1, -1])
    with pytest.raises(DataError, match="none of the 3 rows is labelled"):
        quick(rules="a, b").fit(np.eye(3), np.full((3, 2), np.nan))


# ---- rules ----


@pytest.mark.parametrize("text", RULE_SETS.values(), ids=RULE_SETS)
def test_no_invalid_prediction_in_a_hundred_thousand_rows(text: str) -> None:
    space = LabelSpace(text)
    labels = space.encode(list(space.valid()))
    random = np.random.default_rng(0)
    y = labels[random.integers(len(labels), size=60)]
    y[::2] = np.nan
    model = quick(rules=space, network="linear", steps=5).fit(random.normal(size=(60, 4)), y)
    x = random.normal(size=(100_000, 4)) * 10
    assert not space.check(model.predict(x))
    assert not space.check(np.concatenate(model.sample(x[:100], 5, random_state=0)))
    assert ((model.predict_proba(x[:1000]) >= 0) & (model.predict_proba(x[:1000]) <= 1)).all()


def test_rules_raise_accuracy_and_raw_predictions_break_them() -> None:
    x, truth = animals(400)
    y = truth.copy()
    y[40:] = np.nan
    model = quick(rules=RULES, prior=None).fit(x, y)
    found = model.violations(x)
    assert found
    assert "legs -> !fins" in str(found)
    assert not model.space_.check(model.predict(x))
    raw = (model.predict_theta(x) > 0.5).astype(int)
    assert (model.predict(x) == truth).all(axis=1).mean() >= (raw == truth).all(axis=1).mean()


@pytest.mark.parametrize("form", [pd.DataFrame, pl.DataFrame])
def test_frames_with_rules_about_their_columns(form: Any) -> None:
    x, truth = animals()
    y = (
        form(truth.astype(int), ["legs", "fins", "wings"])
        if form is pl.DataFrame
        else form(truth.astype(int), columns=["legs", "fins", "wings"])
    )
    model = quick(rules="legs -> !fins\nwings -> legs").fit(x, y)
    assert isinstance(model.predict(x), form)
    assert list(model.predict(x).columns) == ["legs", "fins", "wings"]
    assert model.score(x, y) > 0.5


def test_labels_that_break_rules() -> None:
    x, y = animals(40)
    y[7] = [1, 1, 0]
    with pytest.raises(DataError, match=r"legs -> !fins\n    1 row: 7"):
        quick(rules=RULES).fit(x, y)
    for way in ("warn", "drop", "repair"):
        with pytest.warns(LabelWarning, match="1 row: 7"):
            model = quick(rules=RULES, on_violation=way, steps=5).fit(x, y)
        assert not model.space_.check(model.predict(x))


# ---- priors and training ----


@pytest.mark.parametrize(
    "prior",
    [
        "deterministic",
        "entropy",
        "exclusivity",
        "pseudo-label",
        None,
        EntropyPrior,
        DeterministicPrior(LabelSpace(RULES)),
    ],
    ids=str,
)
def test_priors(prior: Any) -> None:
    x, y = animals()
    y[50:] = np.nan
    model = quick(
        rules=RULES, prior=prior, steps=20, objective={"labelled_prior_weight": 0.1, "constrained": True}
    ).fit(x, y)
    parts = set(model.history_[-1])
    assert {"supervised"} <= parts
    assert (prior is not None) == ({"prior", "labelled_prior", "balance"} <= parts)


def test_collapse_is_reported() -> None:
    X, truth = load_digits(return_X_y=True)
    y = np.full(len(truth), -1)
    y[:20] = truth[:20]
    with pytest.warns(CollapseWarning, match=r"as varied as those of labelled rows\nLower prior_weight"):
        quick(prior_weight=30.0, objective={"ramp": 0.0, "balance": 0.0}, steps=100).fit(X, y)


def test_early_stopping_holds_out_labelled_rows() -> None:
    X, truth = load_iris(return_X_y=True)
    y = np.where(np.arange(150) % 2 == 0, truth, -1)
    model = quick(steps=400, settings={"patience": 3}).fit(X, y)
    assert model.n_steps_ < 400
    assert "score" in model.history_[-1]
    assert model.score(X, truth) > 0.85
    with pytest.raises(DataError, match="too few to hold out"):
        quick(settings={"patience": 5}).fit(X[::25], truth[::25])


def test_partial_fit_goes_on() -> None:
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    model = quick(learning_rate=1e-2, batch_size=16)
    for _ in range(8):
        for rows in np.array_split(order, 5):
            model.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
    assert model.score(X, y) > 0.9
    assert model.n_steps_ == 80
    with pytest.raises(DataError, match="the class 7 is not among"):
        model.partial_fit(X[:2], [7, 0])


def test_warm_start_goes_on_from_the_last_model() -> None:
    X, y = load_iris(return_X_y=True)
    model = quick(warm_start=True, steps=20).fit(X, y)
    first = model.history_[-1]["supervised"]
    assert model.fit(X, y).history_[-1]["supervised"] < first
    assert quick(steps=20).fit(X, y).history_[-1]["supervised"] == first


def test_settings_reach_the_loop(tmp_path: Any) -> None:
    X, y = load_iris(return_X_y=True)
    log = tmp_path / "run.csv"
    quick(settings={"log": log, "eval_every": 10, "ema": 0.9}).fit(X, y)
    assert len(log.read_text().splitlines()) == 7


def test_unlabelled_rows_help() -> None:
    """A small copy of experiments/defaults.py."""
    X, truth = load_digits(return_X_y=True)
    gain = []
    for seed in range(2):
        rows = np.random.default_rng(seed).permutation(len(truth))
        test, train = rows[:500], rows[500:]
        y = truth.copy()
        y[train[30:]] = -1
        supervised, ours = (quick(prior=p, steps=300, random_state=seed) for p in (None, "deterministic"))
        gain.append(ours.fit(X[train], y[train]).score(X[test], truth[test]))
        gain[-1] -= supervised.fit(X[train], y[train]).score(X[test], truth[test])
    assert np.mean(gain) > 0.01


# ---- learned priors, labels without rows ----


def test_the_learned_prior_is_that_of_the_labels_and_of_extra_ones() -> None:
    X, y = load_iris(return_X_y=True)
    rows = np.arange(len(y))
    y = np.where(rows % 5 == 0, y, -1)
    extra = [0] * 60 + [-1]
    model = quick(prior=partial(learn_prior, power=3.0), consistency=None).fit(X, y, extra_labels=extra)
    assert isinstance(model.prior_, LearnedPrior)
    assert float(model.prior_.power) == 3.0
    wanted = learn_prior([*y, *extra], model.space_)
    torch.testing.assert_close(model.prior_.weights, wanted.weights)
    alone = quick(prior="learned", consistency=None).fit(X, y)
    torch.testing.assert_close(alone.prior_.weights, torch.full((3,), 1 / 3))
    assert not np.array_equal(alone.predict_proba(X), model.predict_proba(X))


def test_extra_labels_follow_rules_and_forms() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    y = pd.DataFrame({"legs": [1, 0, None, 1] * 5, "fins": [0, 1, None, None] * 5})
    model = quick(rules="legs -> !fins", prior="learned", consistency=None)
    model.fit(X, y, extra_labels=pd.DataFrame({"legs": [0, 0], "fins": [0, 0]}))
    assert float(model.prior_.log_prob_labels([[1, 1]])) == -np.inf
    with pytest.raises(DataError, match="break"):
        model.fit(X, y, extra_labels=pd.DataFrame({"legs": [1], "fins": [1]}))
    with pytest.raises(DataError, match="extra_labels say nothing without a prior"):
        quick(prior=None).fit(X, [0, 1] * 10, extra_labels=[0])
    with pytest.raises(DataError, match="not among those"):
        quick(prior="learned").fit(X, [0, 1] * 10, extra_labels=[2])


def test_unlabelled_rows_are_left_out_where_they_are_unlikely_to_help() -> None:
    X, y = load_iris(return_X_y=True)
    y = np.where(np.arange(len(y)) % 2 == 0, y, -1)
    model = quick().fit(X, y)
    assert not model.plan_.uses_unlabelled
    assert model.plan_.reason == "75 unlabelled rows are few beside 75 labelled ones"
    assert model.prior_ is None
    np.testing.assert_array_equal(model.predict_proba(X), quick(prior=None).fit(X, y).predict_proba(X))
    for asked in (quick(prior="entropy").fit(X, y), quick().fit(X, y, extra_labels=[0, 1, 2])):
        assert asked.plan_.uses_unlabelled
        assert asked.prior_ is not None


def test_terms_and_weights_are_those_of_the_plan_unless_others_are_asked_for() -> None:
    X, digits = load_digits(return_X_y=True)
    y = np.where(np.arange(400) < 50, digits[:400], -1)
    model = DSSLClassifier(steps=5, random_state=0).fit(X[:400], y)
    assert model.plan_.neighbours
    assert "neighbours" in model.history_[-1]
    lesson = Lesson(model.space_, X[:400], model.targets_.encode(y), np.ones(400), np.arange(0))
    loss = make_objective(lesson, model._asked(lesson, Course(5)), model.plan_)
    assert loss.prior_weight == model.plan_.prior_weight == 0.3
    model.prior_weight = 2.0
    assert make_objective(lesson, model._asked(lesson, Course(5)), model.plan_).prior_weight == 2.0
    asked = DSSLClassifier(consistency=None, steps=5, random_state=0).fit(X[:400], y)
    assert "neighbours" not in asked.history_[-1]
    assert asked.prior_ is not None


def test_extra_labels_reach_the_balance_of_other_priors() -> None:
    X, y = load_iris(return_X_y=True)
    y = np.where(np.arange(len(y)) % 10 == 0, y, -1)
    plain, told = (
        quick(consistency=None).fit(X, y, extra_labels=extra) for extra in (None, [0] * 500 + [1] * 20 + [2] * 20)
    )
    assert not np.array_equal(plain.predict_proba(X), told.predict_proba(X))


# ---- consistency ----


def blobs(n: int = 120) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two clouds, one label in ten known."""
    truth = np.arange(n) % 2
    x = np.random.default_rng(0).normal(size=(n, 4)) + 3 * truth[:, None]
    return x, truth, np.where(np.arange(n) % 20 < 2, truth, -1)


@pytest.mark.parametrize("name", sorted(TERMS))
@pytest.mark.parametrize("prior", [None, "deterministic"])
def test_every_consistency_term_by_name_with_and_without_a_prior(name: str, prior: str | None) -> None:
    x, truth, y = blobs()
    model = quick(prior=prior, consistency=name, augment="table").fit(x, y)
    assert model.score(x, truth) > 0.9
    assert name.replace("-", "_") in model.history_[-1]
    assert model.history_[-1][name.replace("-", "_")] >= 0


def test_consistency_alone_uses_unlabelled_rows() -> None:
    x, _, y = blobs()
    with_, without = (
        quick(prior=None, consistency="vat").fit(rows, labels).predict_theta(x)
        for rows, labels in ((x, y), (x[y >= 0], y[y >= 0]))
    )
    assert not np.allclose(with_, without)


def test_terms_lists_functions_and_pairs() -> None:
    x, truth, y = blobs()
    term = MeanTeacher(decay=0.9)
    model = quick(consistency=[term, "vat"], augment=(None, lambda x: -x), objective={"consistency_weight": 0.5}).fit(
        x, y
    )
    assert {"mean_teacher", "vat", "prior", "balance"} <= model.history_[-1].keys()
    assert not term.state_dict().keys() - {"teacher._extra_state"}  # the one given stays as it was
    assert model.score(x, truth) > 0.9
    again = clone(model).fit(x, y)
    np.testing.assert_array_equal(again.predict_theta(x), model.predict_theta(x))


def test_a_search_over_consistency_and_a_saved_model(tmp_path: Any) -> None:
    x, _, y = blobs()
    grid = {"consistency": [None, "vat", VAT(epsilon=0.1), ["vat", "neighbours"]]}
    search = GridSearchCV(quick(steps=30), grid, cv=LabelledSplit(2, random_state=0)).fit(x, y)
    assert search.best_score_ > 0.9
    model = quick(steps=30, consistency=["fixmatch", VAT()], augment=lambda x: x).fit(x, y)
    loaded = load(save(model, tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))


def test_guesses_obey_rules_in_training_and_predictions_after_it() -> None:
    x, labels = animals()
    y = np.where(np.arange(200)[:, None] % 8 == 0, labels, np.nan)
    y[1::8, 0] = labels[1::8, 0]  # some are partly known
    model = quick(rules=RULES, consistency=["fixmatch", "vat"], augment="table").fit(x, y)
    assert not model.space_.check(model.predict(x))
    assert model.score(x, labels) > 0.5


def test_images_and_sparse_rows_are_seen_again_too() -> None:
    x, truth, y = blobs(60)
    pictures = np.repeat(x, 16, axis=1).reshape(60, 1, 8, 8)
    model = quick(steps=20, consistency="fixmatch", augment="digits").fit(pictures, y)
    assert model.history_[-1]["fixmatch"] >= 0
    sparse = quick(consistency=["vat", "neighbours"], augment="table").fit(sp.csr_array(x), y)
    assert sparse.score(sp.csr_array(x), truth) > 0.9


def test_averaged_weights_predict_beside_a_mean_teacher() -> None:
    x, truth, y = blobs()
    model = quick(consistency="mean-teacher", settings={"ema": 0.9}).fit(x, y)
    plain = quick(consistency="mean-teacher", settings={"ema": None}).fit(x, y)
    assert model.score(x, truth) > 0.9
    assert not np.allclose(model.predict_theta(x), plain.predict_theta(x))


def test_wrong_words_are_refused() -> None:
    x, _, y = blobs()
    with pytest.raises(ValueError, match="'consistency' parameter of DSSLClassifier must be"):
        quick(consistency="vats").fit(x, y)
    with pytest.raises(ValueError, match="there is no consistency term 'vats'"):
        quick(consistency=["vats"]).fit(x, y)
    with pytest.raises(ValueError, match="'augment' parameter of DSSLClassifier must be"):
        quick(augment="pictures").fit(x, y)
    with pytest.raises(DataError, match=r'Flip is for images.*\n.*augment="table"'):
        quick(consistency="fixmatch", augment="image").fit(x, y)


# ---- what is asked for is done ----


def test_a_row_of_little_weight_counts_little() -> None:
    """A row of weight w counts as w rows: unlabelled rows of weight 1e-4 move nothing, and repeated ones no more."""
    x, _, y = blobs()
    rows = np.where(y < 0, 2, 1)
    plain, light, double, twice = (
        quick(prior="entropy", consistency=None).fit(x_, y_, sample_weight=weight)
        for x_, y_, weight in (
            (x, y, None),
            (x, y, np.where(y < 0, 1e-4, 1.0)),
            (x, y, rows),
            (x.repeat(rows, axis=0), y.repeat(rows), None),
        )
    )
    assert not np.array_equal(plain.predict_theta(x), light.predict_theta(x))
    assert not np.array_equal(plain.predict_theta(x), double.predict_theta(x))
    np.testing.assert_array_equal(double.predict_theta(x), twice.predict_theta(x))
    assert light.history_[0]["prior"] < 1e-2 * plain.history_[0]["prior"]


@pytest.mark.parametrize("rules", [None, "big, heavy, small\nbig -> heavy\nheavy ^ small"])
def test_labels_of_hardly_any_weight_change_next_to_nothing(rules: str | None) -> None:
    """In none of what a fit takes from labels: plan, judging, first outputs, frequencies, calibration, training."""
    x, truth, _ = blobs(400)
    light, open_ = (np.arange(400) >= 40) & (np.arange(400) < 190), np.arange(400) >= 190
    told = np.where(light, 1 - truth, truth).astype(float)  # light ones are wrong
    told[open_] = np.nan
    y = told if rules is None else np.stack([told, told, 1 - told], axis=1)

    def fitted(weight: Any) -> DSSLClassifier:
        return quick(rules=rules, calibrate="auto").fit(x, y, weight)

    without, with_light, as_heavy = fitted(np.where(light, 0.0, 1.0)), fitted(np.where(light, 1e-9, 1.0)), fitted(None)
    plans = [[(d.what, d.value) for d in m.plan_.decisions if d.what != "calibration"] for m in (without, with_light)]
    assert plans[0] == plans[1]
    expected = without.predict_theta(x[open_])
    away = [np.abs(model.predict_theta(x[open_]) - expected).mean() for model in (with_light, as_heavy)]
    assert away[0] < 0.02
    assert away[1] > 0.2


@pytest.mark.parametrize("options", [
    {"prior": "entropy", "prior_weight": 50.0}, {"prior": "entropy"}, {"prior_weight": 2.0},
    {"objective": {"labelled_prior_weight": 5.0}}, {"prior": EntropyPrior}, {"consistency": "vat"},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("known", [1, 2])
def test_what_is_asked_for_is_not_discarded(options: dict[str, Any], known: int) -> None:
    """Half of the rows labelled, or all: labels enough that "auto" leaves the prior out."""
    X, y = load_iris(return_X_y=True)
    y = np.where(np.arange(len(y)) % 2 < known, y, -1)
    assert quick(steps=3).fit(X, y).prior_ is None
    model = quick(steps=3, **options).fit(X, y)
    parts = model.history_[-1]
    if "consistency" in options:
        assert "vat" in parts
        return
    assert model.prior_ is not None
    assert parts["prior"] > 0 if known == 1 else parts["prior"] == 0
    assert ("labelled_prior" in parts) == ("objective" in options)
    assert model.plan_.uses_unlabelled == (known == 1)


def test_without_an_unlabelled_row_nothing_is_said_to_help() -> None:
    x, y = animals(40)
    model = quick(rules=RULES, steps=3).fit(x, y)
    assert not model.plan_.uses_unlabelled
    assert model.plan_.reason == "every row is labelled"


def test_one_home_for_steps() -> None:
    x, y = animals(40)
    with pytest.raises(ValueError, match="steps is a parameter of its own here, steps=…"):
        quick(steps=20, settings={"steps": 50}).fit(x, y)


def test_label_frequencies() -> None:
    x, _, y = blobs()
    found = {}
    for given in ("labels", "uniform", "unknown", [0.9, 0.1]):
        model = quick(prior="deterministic", consistency=None, objective={"frequencies": given}).fit(x, y)
        found[str(given)] = model.predict_theta(x).mean(axis=0)[0]
        assert ("balance" in model.history_[-1]) == (given != "unknown")
    assert found["[0.9, 0.1]"] > found["uniform"] + 0.05
    with pytest.raises(ValueError, match="leave nothing to balance predictions by"):
        quick(objective={"frequencies": "unknown", "balance": 1.0}, prior="entropy").fit(x, y)


# ---- partial labels ----


def test_labels_are_completed_by_the_rules_before_fitting() -> None:
    """wings say legs, which say no fins: told only wings, the likelihood hears of all three."""
    x, truth = animals(200)
    y = np.full((200, 3), np.nan)
    y[:, 2] = truth[:, 2]
    filled = LabelSpace(RULES).complete(y)
    assert np.isnan(y).sum() > np.isnan(filled).sum()
    told, completed = (quick(rules=RULES, prior=None).fit(x, labels).predict_theta(x) for labels in (y, filled))
    np.testing.assert_array_equal(told, completed)


def test_completing_is_fast_and_leaves_unlabelled_rows_alone() -> None:
    space = LabelSpace("d: 0..9\neven, prime\neven <-> d in {0, 2, 4, 6, 8}\nprime <-> d in {2, 3, 5, 7}\nx\nx = true")
    y = np.full((100_000, space.width), np.nan, dtype=np.float32)
    y[:50_000, :10] = np.eye(10, dtype=np.float32)[np.arange(50_000) % 10]
    began = time.perf_counter()
    filled = completed(space, y)
    assert time.perf_counter() - began < 20
    assert not np.isnan(filled[:50_000]).any()
    assert np.isnan(filled[50_000:]).all()  # x holds in every label, and these are unlabelled all the same


def test_balance_and_collapse_where_all_rows_are_known_in_part() -> None:
    x, truth = animals(200)
    y = truth.copy()
    y[:, 1:] = np.nan
    options: dict[str, Any] = {"rules": "legs, fins, wings", "prior": "deterministic"}
    model = quick(**options).fit(x, y)
    assert model.history_[-1]["balance"] > 0
    with pytest.warns(CollapseWarning):
        quick(**options, prior_weight=30.0, objective={"ramp": 0.0, "balance": 0.0}, steps=100).fit(
            x, np.where(np.arange(200)[:, None] < 20, truth, y)
        )


# ---- labels that break rules, runs in parts, saved models ----


@pytest.mark.parametrize("options", [{"objective": {"constrained": True}}, {"prior": "learned"}], ids=str)
def test_labels_that_break_rules_can_be_kept(options: dict[str, Any]) -> None:
    x, y = animals(60)
    y[7], y[20:] = [1, 1, 0], np.nan
    with pytest.warns(LabelWarning, match="1 row: 7"):
        model = quick(rules=RULES, on_violation="warn", steps=20, **options).fit(x, y)
    assert np.isfinite(model.history_[-1]["supervised"])
    assert not model.space_.check(model.predict(x))


def test_partial_fit_is_one_run_in_parts() -> None:
    """The same rows again and again: as if the loop had gone on."""
    X, y = load_iris(return_X_y=True)
    options: dict[str, Any] = {"batch_size": 150, "prior": None, "objective": {"ramp": 0.0}}
    parts = quick(**options)
    for _ in range(12):
        parts.partial_fit(X, y)
    whole = quick(steps=12, settings={"schedule": "constant"}, **options).fit(X, y)
    assert parts.n_steps_ == whole.n_steps_ == 12
    np.testing.assert_allclose(parts.predict_theta(X), whole.predict_theta(X), rtol=1e-4, atol=1e-5)
    again = pickle.loads(pickle.dumps(parts)).partial_fit(X, y)
    np.testing.assert_array_equal(again.predict_theta(X), parts.partial_fit(X, y).predict_theta(X))


def test_warm_start_adds_up_steps() -> None:
    X, y = load_iris(return_X_y=True)
    model = quick(warm_start=True, steps=5).fit(X, y)
    assert model.fit(X, y).n_steps_ == 10
    assert quick(steps=5).fit(X, y).fit(X, y).n_steps_ == 5


@pytest.mark.parametrize("options", [
    {"prior": EntropyPrior}, {"prior": DeterministicPrior(power=3.0)}, {"consistency": [VAT(epsilon=0.1)]},
    {"unlabelled": np.int64(-9)}, {"objective": {"frequencies": np.array([0.5, 0.5])}},
], ids=str)  # fmt: skip
def test_a_loaded_model_can_be_fitted_again(tmp_path: Any, options: dict[str, Any]) -> None:
    x, _, y = blobs()
    y = np.where(y < 0, options.get("unlabelled", -1), y)
    model = quick(steps=5, **options).fit(x, y)
    loaded = load(save(model, tmp_path / "model"))
    assert str(loaded.plan_) == str(model.plan_)
    np.testing.assert_array_equal(loaded.fit(x, y).predict_theta(x), model.predict_theta(x))


def test_predictions_keep_the_index_of_a_frame() -> None:
    x, truth = animals(30)
    frame = pd.DataFrame(x, columns=list("abcdef"), index=range(500, 530))
    y = pd.DataFrame(truth, columns=["legs", "fins", "wings"], index=frame.index)
    model = quick(rules="legs -> !fins\nwings -> legs", steps=3).fit(frame, y)
    assert model.predict(frame[10:]).index.tolist() == list(range(510, 530))
    assert model.sample(frame, 1, random_state=0)[0].index.equals(frame.index)


def test_images_without_channels_are_named_as_they_are() -> None:
    with pytest.raises(
        DataError, match=r"a row of x has shape \(28, 28\)\nGive images without channels one: x\[:, None"
    ):
        quick().fit(np.zeros((40, 28, 28)), [0, 1] * 20)


@pytest.mark.parametrize("name", ["fixmatch", "mixmatch", "remixmatch"])
def test_terms_that_compare_views_ask_for_them(name: str) -> None:
    x, _, y = blobs()
    with pytest.raises(ValueError, match=f"'{name}' compares a row with a .* view of it(?s:.*)Give augment="):
        quick(consistency=name).fit(x, y)


# ---- components ----

PAIRS = LabelSpace("a, b, c, d\nexactly(2, a, b, c, d)")
LINEAR: dict[str, Any] = {"prior": None, "network": "linear", "learning_rate": 0.03, "steps": 400, "random_state": 0}


def two_ways(rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Rows that say nothing, and labels: a and b, or c and d."""
    random = np.random.default_rng(0)
    which = random.random(rows) < 0.5
    return random.normal(size=(rows, 3)), np.where(which[:, None], [1.0, 1, 0, 0], [0.0, 0, 1, 1])


@pytest.fixture(scope="module")
def mixed() -> DSSLClassifier:
    X, y = two_ways()
    return DSSLClassifier(PAIRS, objective={"components": 2}, **LINEAR).fit(X, y)


def test_components_learn_two_ways_that_one_product_blurs(mixed: DSSLClassifier) -> None:
    X, y = two_ways()
    alone = DSSLClassifier(PAIRS, **LINEAR).fit(X, y)
    share = {}
    for name, model in (("one", alone), ("two", mixed)):
        drawn = np.stack(model.sample(X, 5, random_state=0)).reshape(-1, 4)
        share[name] = float((drawn[:, 0] == drawn[:, 1]).mean())
    assert share["two"] > 0.97
    assert share["one"] < 0.6  # by chance a third
    np.testing.assert_allclose(mixed.predict_proba(X), 0.5, atol=0.2)
    assert not PAIRS.check(mixed.predict(X))
    assert mixed.predict_theta(X).shape == (400, 4)
    assert 0.3 < mixed.score(X, y) < 0.8


@pytest.mark.parametrize("decision", ["most probable", "marginals", "f1"])
def test_components_with_unlabelled_rows_and_every_decision(decision: str) -> None:
    X, y = two_ways(60)
    y[30:] = np.nan
    model = DSSLClassifier(PAIRS, objective={"components": 3}, decision=decision, steps=15, random_state=0).fit(X, y)
    assert model.plan_.components == model.decoder_.components == 3
    assert model.history_[-1].keys() >= {"supervised"}
    assert not PAIRS.check(model.predict(X))
    pickle.loads(pickle.dumps(model)).predict(X)


def test_components_of_classes_and_of_a_users_network() -> None:
    X, y = np.eye(12), np.arange(12) % 3
    model = DSSLClassifier(objective={"components": 2}, network=torch.nn.Linear(12, 7), steps=5, random_state=0).fit(
        X, y
    )
    assert model.network_.out_features == 2 * (3 + 1)
    assert model.predict_proba(X).shape == (12, 3)
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1, rtol=1e-5)


def test_a_model_goes_on_with_the_components_it_has() -> None:
    X, y = two_ways(40)
    model = (
        DSSLClassifier(PAIRS, objective={"components": 2}, steps=5, random_state=0, warm_start=True).fit(X, y).fit(X, y)
    )
    model.partial_fit(X, y)
    with pytest.raises(ValueError, match="has 2 components and cannot continue with 3"):
        model.set_params(objective={"components": 3}).fit(X, y)
    assert model.set_params(warm_start=False).fit(X, y).decoder_.components == 3


def test_what_components_do_not_go_with_is_refused() -> None:
    X, y = two_ways(40)
    with pytest.raises(ValueError, match=r"calibrate=True is for one component, and there are 2"):
        DSSLClassifier(PAIRS, objective={"components": 2}, calibrate=True, steps=5).fit(X, y)
    with pytest.raises(ValueError, match=r"vat: consistency terms compare predictions of one component"):
        DSSLClassifier(PAIRS, objective={"components": 2}, consistency="vat", steps=5).fit(X, y)
    for odd in (0, 1.5, "many"):
        with pytest.raises(ValueError, match="it must be a whole number from 1 to 1000"):
            DSSLClassifier(PAIRS, objective={"components": odd}, steps=5).fit(X, y)


# ---- evidence ----


@pytest.mark.parametrize("components", ["auto", 2])
def test_what_is_known_of_a_row_narrows_the_rest(components: Any) -> None:
    space = LabelSpace("kind: {cat, trout, eagle}\nfins, wings\nkind = trout <-> fins\nkind = eagle <-> wings")
    random = np.random.default_rng(0)
    valid = list(space.valid())
    y = [valid[i] for i in random.integers(3, size=60)]
    x = np.array([[r["fins"], r["wings"]] for r in y]) + random.normal(scale=0.3, size=(60, 2))
    model = DSSLClassifier(space, steps=30, objective={"components": components}, random_state=0).fit(x, y)
    free = model.predict(x)
    told = [{"fins": True}, {"kind": "cat"}, *[{}] * 58]
    given = model.predict(x, evidence=told)
    assert given[0] == {"kind": "trout", "fins": True, "wings": False}
    assert given[1] == {"kind": "cat", "fins": False, "wings": False}
    assert given[2:] == free[2:]
    assert all(drawn[0]["kind"] == "trout" for drawn in model.sample(x, 5, 0, evidence=told))
    p = model.predict_proba(x, evidence=told)
    np.testing.assert_allclose(p[:2], space.encode(given)[:2], atol=1e-6)
    np.testing.assert_allclose(p[2:], model.predict_proba(x)[2:], atol=1e-6)
    assert model.score(x, y, evidence=y) == 1.0
    excluded = space.encode(y)
    excluded[:, 3:], excluded[excluded == 1] = np.nan, np.nan  # of kinds, those it is not: all but one
    assert model.predict(x, evidence=excluded) == y
    with pytest.raises(DataError, match="row 1: the evidence contradicts the rules"):
        model.predict(x[:2], evidence=[{}, {"fins": 1, "wings": 1}])
    with pytest.raises(DataError, match="evidence about 1 rows for 2 rows of X"):
        model.predict_proba(x[:2], evidence=[{"fins": 1}])


def test_evidence_about_classes_may_exclude_some() -> None:
    x = np.array([[0.0], [1.0], [2.0]] * 10)
    model = DSSLClassifier(steps=30, random_state=0).fit(x, ["low", "middle", "high"] * 10)
    first = int(np.flatnonzero(model.classes_ == model.predict(x[:1])[0])[0])
    without = np.full((1, 3), np.nan)
    without[0, first] = 0
    p, before = model.predict_proba(x[:1], evidence=without)[0], model.predict_proba(x[:1])[0]
    rest = np.arange(3) != first
    np.testing.assert_allclose(p[rest], before[rest] / before[rest].sum(), atol=1e-6)
    assert p[first] == 0
    assert model.predict(x[:1], evidence=["middle"]).tolist() == ["middle"]


# ---- shapes ----


@pytest.mark.parametrize("shape", [(5, 3, 28, 28), (5, 28, 28), (5, 784)])
def test_images_of_another_shape_are_told_by_their_shape(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    model = DSSLClassifier(steps=2, calibrate=False, random_state=0).fit(random.normal(size=(8, 1, 28, 28)), [0, 1] * 4)
    with pytest.raises(DataError, match=r"rows of shape \(.*\) where \(1, 28, 28\) was fitted"):
        model.predict(random.normal(size=shape))


# ---- frames ----


def test_pandas_and_polars_come_back_with_their_index(tmp_path: Any) -> None:
    random = np.random.default_rng(0)
    x = pd.DataFrame(random.normal(size=(30, 2)), columns=["a", "b"], index=[f"r{i}" for i in range(30)])
    y = pd.Series(np.where(x["a"] > 0, "high", "low"), index=x.index, name="level")
    model = DSSLClassifier(steps=20, random_state=0).fit(x, y)
    found = model.predict(x)
    assert (found.index.tolist(), found.name) == (x.index.tolist(), "level")
    assert isinstance(model.predict_proba(x), np.ndarray)
    plain = model.predict_proba(x)
    framed = model.set_output(transform="pandas").predict_proba(x)
    assert (framed.columns.tolist(), framed.index.tolist()) == (["high", "low"], x.index.tolist())
    np.testing.assert_array_equal(framed.to_numpy(), plain)
    assert clone(model)._sklearn_output_config == {"transform": "pandas"}
    assert isinstance(model.set_output(transform="polars").predict_proba(pl.DataFrame(x)), pl.DataFrame)
    assert isinstance(model.set_output().predict_proba(pl.DataFrame(x)), pl.DataFrame)
    assert isinstance(model.set_output(transform="default").predict_proba(x), np.ndarray)
    with pytest.raises(ValueError, match="transform='numpy' is not known"):
        model.set_output(transform="numpy")
    save(model, tmp_path / "model")
    pd.testing.assert_series_equal(load(tmp_path / "model").predict(x), found)


def test_watched_rows_are_in_the_log_and_decide_nothing() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 3))
    y = np.where(np.arange(200) < 20, (x[:, 0] > 0).astype(int), -1)
    told = (x[100:], (x[100:, 0] > 0).astype(int))
    plain = DSSLClassifier(steps=40, random_state=0).fit(x[:100], y[:100])
    watched = DSSLClassifier(steps=40, random_state=0).fit(x[:100], y[:100], watched=told)
    assert (plain.predict_proba(x) == watched.predict_proba(x)).all()
    assert "watched" not in plain.history_[0]
    assert len({row["watched"] for row in watched.history_}) > 1
    loose = DSSLClassifier(steps=40, random_state=0, calibrate=False).fit(x[:100], y[:100], watched=told)
    assert loose.history_[-1]["watched"] == loose.score(*told)  # calibration may still change predictions
    with pytest.raises(ValueError, match="inconsistent numbers"):
        DSSLClassifier(steps=2, random_state=0).fit(x, y, watched=(x, y[:5]))
