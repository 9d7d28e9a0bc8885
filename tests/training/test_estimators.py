"""DSSLClassifier: scikit-learn to the letter, every form of labels and features, and predictions that obey rules."""

from __future__ import annotations

import pickle
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
from dssl.priors import DeterministicPrior, EntropyPrior, LearnedPrior, learn_prior
from dssl.training.consistency import VAT, MeanTeacher
from dssl.training.estimators import CollapseWarning, DSSLClassifier
from dssl.training.mending import LabelWarning
from dssl.training.names import TERMS
from dssl.training.splitting import LabelledSplit, labelled_scorer
from training.rule_sets import RULE_SETS

RULES = "legs, fins, wings\nlegs -> !fins\nwings -> legs"


def quick(**parameters: Any) -> DSSLClassifier:
    return DSSLClassifier(**{"steps": 60, "learning_rate": 5e-3, "random_state": 0, **parameters})


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
    sparse = quick(standardise=False).fit(sp.csr_matrix(X), y)
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
    model = quick(rules=RULES, prior=prior, steps=20, labelled_prior_weight=0.1, constrained=True).fit(x, y)
    parts = set(model.history_[-1])
    assert {"supervised"} <= parts
    assert (prior is not None) == ({"prior", "labelled_prior", "balance"} <= parts)


def test_collapse_is_reported() -> None:
    X, truth = load_digits(return_X_y=True)
    y = np.full(len(truth), -1)
    y[:20] = truth[:20]
    with pytest.warns(CollapseWarning, match=r"as varied as those of labelled rows\nLower prior_weight"):
        quick(prior_weight=30.0, ramp=0.0, balance=0.0, steps=100).fit(X, y)


def test_early_stopping_holds_out_labelled_rows() -> None:
    X, truth = load_iris(return_X_y=True)
    y = np.where(np.arange(150) % 2 == 0, truth, -1)
    model = quick(early_stopping=True, steps=400, patience=3).fit(X, y)
    assert model.n_steps_ < 400
    assert "score" in model.history_[-1]
    assert model.score(X, truth) > 0.85
    with pytest.raises(DataError, match="too few to hold out"):
        quick(early_stopping=True).fit(X[::25], truth[::25])


def test_partial_fit_goes_on() -> None:
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    model = quick(learning_rate=1e-2, labelled_batch=16)
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
    quick(settings={"log": log, "eval_every": 10}, ema=0.9).fit(X, y)
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
    model = quick(prior="learned", consistency=None, power=3.0).fit(X, y, extra_labels=extra)
    assert isinstance(model.prior_, LearnedPrior)
    assert float(model.prior_.power) == 3.0
    wanted = learn_prior([*y, *extra], model.space_)
    torch.testing.assert_close(model.prior_.weights, wanted.weights)
    alone = quick(prior="learned", consistency=None, power=3.0).fit(X, y)
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
    assert not model.verdict_.helps
    assert model.verdict_.reason == "75 unlabelled rows are few beside 75 labelled ones"
    assert model.prior_ is None
    np.testing.assert_array_equal(model.predict_proba(X), quick(prior=None).fit(X, y).predict_proba(X))
    for asked in (quick(consistency=None).fit(X, y), quick().fit(X, y, extra_labels=[0, 1, 2])):
        assert asked.verdict_.helps
        assert asked.prior_ is not None


@pytest.mark.parametrize(
    ("y", "terms", "weight"),
    [([0, 1, None, None] * 10, {"neighbours"}, 0.3), ([[0, 1], [1, 0], [np.nan] * 2, [np.nan] * 2] * 10, set(), 1.0)],
)
def test_classes_of_rows_of_features_get_neighbours(y: Any, terms: set[str], weight: float) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    X, y = np.concatenate([X, X + 9, X - 9]), y + [[np.nan] * 2 if isinstance(y[0], list) else None] * 80
    model = quick().fit(X, y)
    assert model.verdict_.helps
    assert {"neighbours"} & set(model.history_[-1]) == terms
    kept, columns = np.arange(120), model.targets_.encode(y)
    objective = model._objective(columns, kept, 0.5, 0, np.ones(120), None, 2)
    assert objective.objective.prior_weight == weight  # type: ignore[union-attr]
    model.consistency, model.augment = "fixmatch", "table"  # a term that is asked for counts as one that is chosen
    assert model._objective(columns, kept, 0.5, 0, np.ones(120), None, 2).objective.prior_weight == 0.3  # type: ignore[union-attr]


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
    model = quick(consistency=[term, "vat"], augment=(None, lambda x: -x), consistency_weight=0.5).fit(x, y)
    assert {"mean_teacher", "vat", "prior", "balance"} <= model.history_[-1].keys()
    assert not term.state_dict().keys() - {"teacher.updates"}  # the one given stays as it was
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
    model = quick(consistency="mean-teacher", ema=0.9).fit(x, y)
    plain = quick(consistency="mean-teacher", ema=None).fit(x, y)
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
