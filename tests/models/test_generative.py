"""GenerativeClassifier: Eq. G against enumeration, EM against scikit-learn's models, and its checks."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

import oracle
from dssl import DataError, LabelledSplit, LabelSpace
from dssl.models.generative import GenerativeClassifier

KINDS = ("full", "diagonal", "tied", "spherical")
IRIS, SPECIES = load_iris(return_X_y=True)
FEW = np.where(np.arange(150) % 10 == 0, SPECIES, -1)  # five labels a class


def binary_rows(n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Twelve features of 0 and 1 whose chances depend on one of three classes."""
    random = np.random.default_rng(seed)
    y = random.integers(3, size=n)
    chances = random.uniform(0.1, 0.9, size=(3, 12))
    return (random.random((n, 12)) < chances[y]).astype(float), y


def matrices(model: GenerativeClassifier) -> list[np.ndarray]:
    """The covariance of each class as a matrix (d, d)."""
    k, d = model.means_.shape
    return {
        "full": lambda c: list(c),
        "tied": lambda c: [c] * k,
        "diagonal": lambda c: [np.diag(v) for v in c],
        "spherical": lambda c: [v * np.eye(d) for v in c],
    }[model.covariance](model.covariances_)


def log_densities(model: GenerativeClassifier, x: np.ndarray) -> np.ndarray:
    """log p(x | y=k) (n, K) by the oracle."""
    if model.model == "bernoulli":
        return np.array([[oracle.log_bernoullis(row, p) for p in model.feature_prob_] for row in x])
    pairs = list(zip(model.means_, matrices(model)))
    return np.array([[oracle.log_normal(row, mean, cov) for mean, cov in pairs] for row in x])


def log_prior(model: GenerativeClassifier, spread: np.ndarray) -> float:
    """What the pseudo-rows add: ν rows of variance D in each covariance, or α rows of each value."""
    if model.model == "bernoulli":
        p = model.feature_prob_
        return model.regularisation * float((np.log(p) + np.log(1 - p)).sum())
    spread = np.full(len(spread), spread.mean()) if model.covariance == "spherical" else spread
    covariances = matrices(model)[:1] if model.covariance == "tied" else matrices(model)
    terms = [np.log(np.linalg.det(c)) + np.trace(np.diag(spread) @ np.linalg.inv(c)) for c in covariances]
    return -0.5 * model.regularisation * float(sum(terms))


# ---- scikit-learn ----

MINUS_ONE = {"check_classifiers_classes": "uses -1 as a class, which stands for unlabelled unless unlabelled=None"}


@parametrize_with_checks(
    [*(GenerativeClassifier(covariance=kind) for kind in KINDS), GenerativeClassifier("bernoulli", binarize=0.0)],
    expected_failed_checks=lambda estimator: MINUS_ONE,
)
def test_scikit_learn_checks(estimator: GenerativeClassifier, check: Any) -> None:
    check(estimator)


def test_minus_one_as_a_class_works_when_asked_for() -> None:
    model = GenerativeClassifier(unlabelled=None).fit(IRIS[:100], np.where(SPECIES[:100] == 0, -1, 1))
    assert model.classes_.tolist() == [-1, 1]


def test_cross_validation_and_pickling() -> None:
    scores = cross_val_score(GenerativeClassifier(), IRIS, FEW, cv=LabelledSplit(3, random_state=0))
    assert scores.mean() > 0.85
    model = GenerativeClassifier().fit(IRIS, FEW)
    assert (pickle.loads(pickle.dumps(model)).predict_proba(IRIS) == model.predict_proba(IRIS)).all()


@pytest.mark.parametrize("parameters", [{"model": "poisson"}, {"covariance": "diag"}, {"tol": -1}, {"max_iter": 0}])
def test_parameters_are_validated(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"The '{next(iter(parameters))}' parameter"):
        GenerativeClassifier(**parameters).fit(IRIS, SPECIES)


# ---- Eq. G by enumeration ----


@pytest.mark.parametrize("kind", [*KINDS, "bernoulli"])
def test_the_likelihood_is_that_of_eq_g(kind: str) -> None:
    """Labelled, unlabelled and weighted rows, λ ≠ 1, pseudo-rows, and a row with two candidates."""
    space = LabelSpace("kind: {a, b, c}")
    x, truth = (IRIS, SPECIES) if kind != "bernoulli" else binary_rows()
    x, y = x[::3], np.full((len(x[::3]), 3), np.nan)
    known = np.arange(len(y)) % 3 == 0
    y[known] = np.eye(3)[truth[::3][known]]
    y[1] = [np.nan, 0, np.nan]
    counts = np.random.default_rng(0).uniform(0.5, 2, len(y))
    family = {"model": "bernoulli"} if kind == "bernoulli" else {"covariance": kind}
    model = GenerativeClassifier(**family, rules=space, unlabelled_weight=0.3, regularisation=0.7)
    model.fit(x, y, sample_weight=counts)

    candidates = [{int(truth[3 * i])} if known[i] else {0, 2} if i == 1 else {0, 1, 2} for i in range(len(y))]
    counts = np.array([c if len(possible) < 3 else 0.3 * c for c, possible in zip(counts, candidates)])
    expected = oracle.generative(model.class_prior_, log_densities(model, x), candidates, counts)
    mean = np.average(x, axis=0, weights=counts)
    expected += log_prior(model, np.average((x - mean) ** 2, axis=0, weights=counts))
    assert model.log_likelihood_[-1] == pytest.approx(expected, rel=1e-9)
    log_joint = np.log(model.class_prior_) + log_densities(model, x)
    np.testing.assert_allclose(model.predict_joint_log_proba(x), log_joint, rtol=1e-8)
    np.testing.assert_allclose(model.score_samples(x), [oracle.log_sum(row) for row in log_joint], rtol=1e-8)
    posterior = np.array([np.exp(row - oracle.log_sum(row)) for row in log_joint])
    np.testing.assert_allclose(model.predict_proba(x), posterior, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("kind", [*KINDS, "bernoulli"])
def test_a_fixed_point_is_a_maximum(kind: str) -> None:
    """Nudging any parameter of the last model lowers what EM climbed, so M-step and log p(ψ) belong together."""
    x, y = (IRIS, FEW) if kind != "bernoulli" else binary_rows()
    family = {"model": "bernoulli"} if kind == "bernoulli" else {"covariance": kind}
    model = GenerativeClassifier(**family, regularisation=2.0, tol=1e-13, max_iter=5000).fit(x, y)
    shown = model._labels(y)[1]
    best = model.log_likelihood_[-1]
    random = np.random.default_rng(0)
    for size in (1e-3, 1e-2):
        for _ in range(5):
            density = model.joint_.density
            if kind == "bernoulli":
                moved = {"chances": density.chances * np.exp(size * random.normal(size=density.chances.shape))}
            else:
                scale = np.exp(size * random.normal(size=(len(density.covariances), 1, 1)))
                moved = {
                    "means": density.means + size * random.normal(size=density.means.shape),
                    "covariances": density.covariances * scale.reshape(-1, *[1] * (density.covariances.ndim - 1)),
                }
            other = type(model.joint_)(type(density)(**(vars(density) | moved)), model.class_prior_)
            assert other.explain(model._modelled(x), shown, np.ones(len(x)))[0] < best


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from([*KINDS, "bernoulli"]),
    seed=st.integers(0, 10_000),
    n=st.integers(6, 40),
    d=st.integers(1, 4),
    classes=st.integers(2, 4),
    regularisation=st.sampled_from([0.01, 1.0, 10.0]),
    share=st.sampled_from([0.1, 1.0, 3.0]),
)
def test_em_never_falls(kind: str, seed: int, n: int, d: int, classes: int, regularisation: float, share: float):
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, d)) * 10.0 ** random.integers(-3, 4, size=d) + random.integers(-100, 100, size=d)
    y = np.concatenate([np.arange(classes), random.integers(-1, classes, size=n)])[:n]
    family = {"model": "bernoulli", "binarize": float(np.median(x))} if kind == "bernoulli" else {"covariance": kind}
    model = GenerativeClassifier(**family, regularisation=regularisation, unlabelled_weight=share, tol=0, max_iter=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        history = model.fit(x, y, sample_weight=random.uniform(0.1, 2, n)).log_likelihood_
    assert np.isfinite(history).all()
    assert (np.diff(history) >= -1e-9 * np.abs(history[1:])).all()


def test_a_fall_would_be_seen() -> None:
    """The twin: with the responsibilities of another λ the likelihood does fall."""
    model = GenerativeClassifier(tol=1e-12).fit(IRIS, FEW)
    x, (_, allowed) = model._modelled(IRIS), model._labels(FEW)
    _, r = model.joint_.explain(x, allowed, np.where(FEW < 0, 0.1, 1.0))
    worse = type(model.joint_).fitted(model.joint_.density, x, r)
    assert worse.explain(x, allowed, np.ones(150))[0] < model.log_likelihood_[-1] - 0.1


# ---- where it coincides with scikit-learn's models ----


@pytest.mark.parametrize("steps", [1, 6, 300])
@pytest.mark.parametrize(("kind", "theirs"), [(k, "diag" if k == "diagonal" else k) for k in KINDS])
def test_em_without_labels_is_a_gaussian_mixture(kind: str, theirs: str, steps: int) -> None:
    model = GenerativeClassifier(covariance=kind, regularisation=0, warm_start=True).fit(IRIS, SPECIES)
    precisions = np.linalg.inv(model.covariances_) if kind in ("full", "tied") else 1 / model.covariances_
    start = {"means_init": model.means_, "weights_init": model.class_prior_, "precisions_init": precisions}
    mixture = GaussianMixture(3, covariance_type=theirs, reg_covar=0, tol=1e-9, max_iter=steps, **start)
    model.set_params(tol=1e-9, max_iter=steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(IRIS)
        model.fit(IRIS, np.full(150, -1))
    # Theirs looks at the gain one step later, and may thus go one step further.
    close = {"rtol": 1e-9} if steps < 300 else {"rtol": 1e-4, "atol": 1e-4}
    assert model.converged_ == mixture.converged_ == (steps == 300)
    np.testing.assert_allclose(model.log_likelihood_[-1] / 150, mixture.score(IRIS), rtol=1e-8)
    np.testing.assert_allclose(model.means_, mixture.means_, **close)
    np.testing.assert_allclose(model.covariances_, mixture.covariances_, **close)
    np.testing.assert_allclose(model.class_prior_, mixture.weights_, **close)
    np.testing.assert_allclose(model.score_samples(IRIS), mixture.score_samples(IRIS), rtol=close["rtol"], atol=1e-3)
    if steps < 300:
        np.testing.assert_allclose(model.predict_proba(IRIS), mixture.predict_proba(IRIS), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_labels_only_it_is_bernoulli_naive_bayes(alpha: float) -> None:
    x, y = binary_rows()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    x[:, 3] = 1  # never varies
    model = GenerativeClassifier("bernoulli", regularisation=alpha).fit(x, y, sample_weight=weight)
    theirs = BernoulliNB(alpha=alpha or 1e-10, force_alpha=True).fit(x, y, sample_weight=weight)
    np.testing.assert_allclose(model.feature_prob_, np.exp(theirs.feature_log_prob_), rtol=1e-9)
    np.testing.assert_allclose(
        model.predict_joint_log_proba(x), theirs.predict_joint_log_proba(x), rtol=1e-9, atol=1e-8
    )
    assert model.n_iter_ <= 2


def test_labels_only_it_is_naive_bayes_or_linear_discriminant_analysis() -> None:
    naive = GenerativeClassifier(covariance="diagonal", regularisation=0).fit(IRIS, SPECIES)
    theirs = GaussianNB(var_smoothing=0).fit(IRIS, SPECIES)
    np.testing.assert_allclose(naive.predict_proba(IRIS), theirs.predict_proba(IRIS), rtol=1e-8, atol=1e-12)
    linear = GenerativeClassifier(covariance="tied", regularisation=0).fit(IRIS, SPECIES)
    theirs = LinearDiscriminantAnalysis("lsqr", store_covariance=True).fit(IRIS, SPECIES)
    np.testing.assert_allclose(linear.covariances_, theirs.covariance_, rtol=1e-8)
    np.testing.assert_allclose(linear.predict_proba(IRIS), theirs.predict_proba(IRIS), rtol=1e-6, atol=1e-12)


def test_bernoulli_em_finds_the_classes_again() -> None:
    x, y = binary_rows(3000)
    few = np.where(np.arange(3000) < 12, y, -1)
    em = GenerativeClassifier("bernoulli").fit(x, few)
    only = GenerativeClassifier("bernoulli", unlabelled_weight=0).fit(x, few)
    best = BernoulliNB().fit(x, y).score(x, y)
    assert only.score(x, y) < em.score(x, y)
    assert em.score(x, y) > best - 0.02


# ---- weights, labels, features ----


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_repetitions_and_lambda_a_weight(kind: str) -> None:
    times = 1 + np.arange(150) % 3
    one = GenerativeClassifier(covariance=kind).fit(IRIS, FEW, sample_weight=times)
    again = GenerativeClassifier(covariance=kind).fit(np.repeat(IRIS, times, axis=0), np.repeat(FEW, times))
    np.testing.assert_allclose(one.predict_proba(IRIS), again.predict_proba(IRIS), rtol=1e-6, atol=1e-9)
    less = GenerativeClassifier(covariance=kind, unlabelled_weight=0.2).fit(IRIS, FEW)
    same = GenerativeClassifier(covariance=kind).fit(IRIS, FEW, sample_weight=np.where(FEW < 0, 0.2, 1))
    np.testing.assert_allclose(less.predict_proba(IRIS), same.predict_proba(IRIS), rtol=1e-9)
    none = GenerativeClassifier(covariance=kind, unlabelled_weight=0).fit(IRIS, FEW)
    shown = FEW >= 0
    labels = GenerativeClassifier(covariance=kind).fit(IRIS[shown], FEW[shown])
    np.testing.assert_allclose(none.predict_proba(IRIS), labels.predict_proba(IRIS), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("regularisation", [0.0, 1.0])
def test_one_label_a_class_is_enough(kind: str, regularisation: float) -> None:
    y = np.full(150, -1)
    y[[0, 50, 100]] = [0, 1, 2]
    model = GenerativeClassifier(covariance=kind, regularisation=regularisation).fit(IRIS, y)
    assert model.score(IRIS, SPECIES) > 0.8
    only = GenerativeClassifier(covariance=kind, unlabelled_weight=0).fit(IRIS, y)
    assert np.isfinite(only.predict_log_proba(IRIS)).all()


def test_unlabelled_rows_help() -> None:
    x, truth = load_digits(return_X_y=True)
    y = np.where(np.arange(len(truth)) < 60, truth, -1)
    em = GenerativeClassifier(covariance="tied").fit(x, y).score(x, truth)
    assert em > GenerativeClassifier(covariance="tied", unlabelled_weight=0).fit(x, y).score(x, truth) + 0.03


@pytest.mark.parametrize("unknown", [-1, None, float("nan")])
def test_names_with_unknown_ones(unknown: Any) -> None:
    names = np.array(["setosa", "versicolor", "virginica"])[SPECIES].astype(object)
    model = GenerativeClassifier(covariance="tied").fit(IRIS, np.where(FEW < 0, unknown, names))
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert model.score(IRIS, names) > 0.9
    assert model.score(IRIS, np.where(np.arange(150) < 3, names, unknown)) == 1
    assert model.score(IRIS[:2], names[:2], sample_weight=[1, 0]) == 1


def test_features_in_every_form_give_the_same_model() -> None:
    expected = GenerativeClassifier().fit(IRIS, FEW).predict_proba(IRIS)
    for form in (pd.DataFrame(IRIS, columns=list("abcd")), torch.from_numpy(IRIS), IRIS.tolist()):
        assert (GenerativeClassifier().fit(form, FEW).predict_proba(form) == expected).all()
    x, y = binary_rows()
    y = np.where(np.arange(len(y)) < 20, y, -1)
    dense, sparse = (GenerativeClassifier("bernoulli").fit(form, y) for form in (x, sp.csr_array(x)))
    np.testing.assert_allclose(sparse.predict_proba(sp.coo_matrix(x)), dense.predict_proba(x), rtol=1e-9)
    scaled = GenerativeClassifier("bernoulli", binarize=0.5).fit(3 * x, y)
    np.testing.assert_allclose(scaled.predict_proba(3 * x), dense.predict_proba(x), rtol=1e-12)


@pytest.mark.parametrize("kind", ["full", "diagonal", "tied"])
def test_units_do_not_matter(kind: str) -> None:
    units, origin = np.array([1e-8, 1.0, 1e6, 1e12]), np.array([0.0, 1e7, -1e9, 0.0])
    one = GenerativeClassifier(covariance=kind).fit(IRIS, FEW)
    other = GenerativeClassifier(covariance=kind).fit(IRIS * units + origin, FEW)
    np.testing.assert_allclose(one.predict_proba(IRIS), other.predict_proba(IRIS * units + origin), atol=1e-5)
    far = one.predict_log_proba(IRIS * 1e100)
    assert not np.isnan(far).any()


def test_features_that_never_vary_say_nothing() -> None:
    x = np.hstack([IRIS[:, :2], np.full((150, 1), 0.1), IRIS[:, 2:]])
    for kind in KINDS:
        one, other = GenerativeClassifier(covariance=kind).fit(IRIS, FEW), GenerativeClassifier(covariance=kind)
        np.testing.assert_allclose(other.fit(x, FEW).predict_proba(x), one.predict_proba(IRIS), rtol=1e-9)
        assert other.means_.shape == (3, 5)
        assert (other.means_[:, 2] == x[0, 2]).all()
        assert other.covariances_.shape == {"tied": (5, 5), "full": (3, 5, 5), "diagonal": (3, 5)}.get(kind, (3,))
        assert (other.sample(5, random_state=0)[0][:, 2] == x[0, 2]).all()
    nothing = GenerativeClassifier().fit(np.zeros((4, 2)), [0, 0, 1, -1])
    np.testing.assert_allclose(nothing.predict_proba(np.ones((1, 2))), [[2 / 3, 1 / 3]], atol=1e-3)


def test_candidates_and_a_declared_variable() -> None:
    """ "Not the first" of every flower but one of each kind: nearly as good as knowing it."""
    space = LabelSpace("kind: {setosa, versicolor, virginica}")
    y = np.where((SPECIES > 0)[:, None], [0, np.nan, np.nan], [1, 0, 0])
    y[[50, 100]] = [[0, 1, 0], [0, 0, 1]]
    model = GenerativeClassifier(covariance="tied", rules=space).fit(IRIS, y)
    truth = space.encode(np.array(["setosa", "versicolor", "virginica"], dtype=object)[SPECIES])
    assert model.score(IRIS, truth) > 0.9
    assert (model.predict_proba(IRIS)[:50, 0] > 0.99).all()
    assert model.predict(IRIS).shape == (150, 3)
    y[50] = [0, np.nan, np.nan]  # no versicolor is labelled: it starts at what may be one
    assert model.fit(IRIS, y).score(IRIS, truth) > 0.9
    y[3] = 0
    with pytest.raises(DataError, match="row 3: 'kind' has no value left"):
        model.fit(IRIS, y)
    yes_no = GenerativeClassifier(rules=LabelSpace("big")).fit(IRIS[:100], np.where(FEW[:100] < 0, None, FEW[:100]))
    assert yes_no.classes_.tolist() == [0, 1]
    assert yes_no.predict(IRIS[[0, 99]]).tolist() == [0, 1]
    assert yes_no.predict_proba(IRIS[:2]).shape == (2, 2)


def test_a_class_may_die_out_without_labels() -> None:
    x = np.concatenate([np.zeros(50), np.ones(50)])[:, None] + np.random.default_rng(0).normal(size=(100, 1)) / 10
    y = np.repeat([0, 1], 50)
    model = GenerativeClassifier(warm_start=True).fit(x, y)
    model.fit(x[:50], np.full(50, -1))
    assert model.class_prior_[1] < 1e-3
    assert np.isfinite(model.predict_proba(x)).all()


# ---- sampling ----


@pytest.mark.parametrize("kind", KINDS)
def test_samples_have_the_models_moments(kind: str) -> None:
    model = GenerativeClassifier(covariance=kind, random_state=0).fit(IRIS, FEW)
    x, y = model.sample(40_000)
    assert (model.sample(40_000)[0] == x).all()
    assert (model.sample(40_000, random_state=1)[0] != x).any()
    np.testing.assert_allclose(np.bincount(y) / len(y), model.class_prior_, atol=0.01)
    for k, covariance in enumerate(matrices(model)):
        np.testing.assert_allclose(x[y == k].mean(axis=0), model.means_[k], atol=0.02)
        np.testing.assert_allclose(np.cov(x[y == k].T), covariance, atol=0.02)


def test_samples_of_bits() -> None:
    x, y = binary_rows()
    model = GenerativeClassifier("bernoulli").fit(x, np.array(list("abc"))[y])
    drawn, labels = model.sample(30_000, random_state=0)
    assert set(labels) == set("abc")
    assert set(np.unique(drawn)) == {0, 1}
    for k, name in enumerate("abc"):
        np.testing.assert_allclose(drawn[labels == name].mean(axis=0), model.feature_prob_[k], atol=0.02)


# ---- what is refused ----


def test_several_variables_and_rules_are_refused() -> None:
    for labels, rules in (
        (np.eye(3)[SPECIES], None),
        (np.eye(3)[SPECIES], "a, b, c\na -> !b"),
        (SPECIES, "kind: {a, b, c}\nkind != b"),
    ):
        with pytest.raises(DataError, match=r"one class per row.*\n.*use DSSLClassifier"):
            GenerativeClassifier(rules=rules).fit(IRIS, labels)


def test_labels_that_say_too_little() -> None:
    with pytest.raises(DataError, match="no row is labelled"):
        GenerativeClassifier().fit(IRIS, np.full(150, -1))
    with pytest.raises(DataError, match=r"class 'virginica' has no labelled row\nLabel at least one"):
        GenerativeClassifier(rules="kind: {setosa, versicolor, virginica}").fit(IRIS[:100], SPECIES[:100])
    with pytest.raises(DataError, match="unlabelled_weight is 0"):
        GenerativeClassifier(warm_start=True, unlabelled_weight=0).fit(IRIS, FEW).fit(IRIS, np.full(150, -1))
    with pytest.raises(DataError, match="nothing can be scored"):
        GenerativeClassifier().fit(IRIS, FEW).score(IRIS, np.full(150, -1))


def test_singular_covariances_are_refused_with_a_remedy() -> None:
    y = np.where(np.arange(150) % 50 == 0, SPECIES, -1)
    for kind in KINDS:
        whose = "common to all classes" if kind == "tied" else "of class 0"
        with pytest.raises(DataError, match=f"the covariance {whose} is singular.*\n.*Raise regularisation"):
            GenerativeClassifier(covariance=kind, regularisation=0, unlabelled_weight=0).fit(IRIS, y)


def test_features_that_do_not_fit() -> None:
    with pytest.raises(DataError, match=r"0 and 1, and X contains 5.1\nSet binarize"):
        GenerativeClassifier("bernoulli").fit(IRIS, SPECIES)
    gap = IRIS.copy()
    gap[3, 2] = np.nan
    with pytest.raises(DataError, match="row 3, feature 2"):
        GenerativeClassifier().fit(gap, SPECIES)


def test_parameters_of_the_other_model() -> None:
    with pytest.raises(NotFittedError):
        _ = GenerativeClassifier().means_
    with pytest.raises(AttributeError, match="a gaussian model has no feature_prob_"):
        _ = GenerativeClassifier().fit(IRIS, SPECIES).feature_prob_
    with pytest.raises(AttributeError, match="a bernoulli model has no means_"):
        _ = GenerativeClassifier("bernoulli").fit(*binary_rows()).means_


def test_stopping_early_is_reported() -> None:
    with pytest.warns(ConvergenceWarning, match=r"did not converge in 2 steps.*\nRaise max_iter"):
        model = GenerativeClassifier(max_iter=2).fit(IRIS, FEW)
    assert not model.converged_
    assert model.n_iter_ == 2
    assert len(model.log_likelihood_) == 3
    assert GenerativeClassifier().fit(IRIS, FEW).converged_
