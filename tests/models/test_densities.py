"""p(x, y): densities, M-steps and the prior of pseudo-rows against the textbook, for every shape of covariance."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal

import oracle
from dssl import DataError
from dssl.models.densities import Bernoullis, Gaussians, Joint, log_sum

KINDS = ("full", "diagonal", "tied", "spherical")
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 3)) @ RANDOM.normal(size=(3, 3)) + [1.0, -2.0, 0.5]
BITS = (RANDOM.random((60, 5)) < 0.4).astype(float)
SHARES = RANDOM.dirichlet(np.ones(2), size=60) * RANDOM.uniform(0.5, 2, size=(60, 1))  # responsibilities × weights
SPREAD = np.array([1.0, 2.0, 0.5])


def gaussians(kind: str, rows: float = 1.5) -> Gaussians:
    return Gaussians.of(("'a'", "'b'"), kind, rows, SPREAD).fitted(X, SHARES)


def as_matrices(density: Gaussians) -> list[np.ndarray]:
    """Σ_k as (d, d), whatever its shape."""
    found = [density.covariances[k % len(density.covariances)] for k in (0, 1)]
    return [c if c.ndim == 2 else np.diag(np.broadcast_to(c, 3)) for c in found]


@pytest.mark.parametrize("kind", KINDS)
def test_gaussian_densities(kind: str) -> None:
    density = gaussians(kind)
    pairs = list(zip(density.means, as_matrices(density)))
    by_hand = np.array([[oracle.log_normal(row, mean, covariance) for mean, covariance in pairs] for row in X])
    np.testing.assert_allclose(density.log_density(X), by_hand, rtol=1e-10)
    theirs = np.stack([multivariate_normal(mean, covariance).logpdf(X) for mean, covariance in pairs], axis=1)
    np.testing.assert_allclose(density.log_density(X), theirs, rtol=1e-10)
    many = np.tile(X, (400, 1))  # more rows than are handled at a time
    np.testing.assert_allclose(density.log_density(many), np.tile(by_hand, (400, 1)), rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_the_m_step_counts_pseudo_rows(kind: str) -> None:
    """Σ = (S + νD) / (n + ν), entry by entry."""
    density, nu = gaussians(kind), 1.5
    scatters, counts = [], SHARES.sum(axis=0)
    for k in (0, 1):
        mean = sum(share * row for share, row in zip(SHARES[:, k], X)) / counts[k]
        np.testing.assert_allclose(density.means[k], mean)
        scatters.append(sum(share * np.outer(row - mean, row - mean) for share, row in zip(SHARES[:, k], X)))
    if kind == "tied":
        scatters, counts = [sum(scatters)] * 2, [counts.sum()] * 2
    for k in (0, 1):
        expected = (scatters[k] + nu * np.diag(SPREAD)) / (counts[k] + nu)
        expected = {
            "diagonal": lambda c: np.diag(np.diag(c)),
            "spherical": lambda c: np.trace(c) / 3 * np.eye(3),
        }.get(kind, lambda c: c)(expected)
        np.testing.assert_allclose(as_matrices(density)[k], expected, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_the_prior_is_an_inverse_wishart_kernel(kind: str) -> None:
    density = gaussians(kind)
    spread = np.full(3, SPREAD.mean()) if kind == "spherical" else SPREAD
    matrices = as_matrices(density)[: len(density.covariances)]
    terms = [np.log(np.linalg.det(c)) + np.trace(np.diag(spread) @ np.linalg.inv(c)) for c in matrices]
    assert density.log_prior() == pytest.approx(-0.5 * 1.5 * sum(terms))


def test_bernoullis() -> None:
    density = Bernoullis.of(0.7).fitted(BITS, SHARES)
    for k, count in enumerate(SHARES.sum(axis=0)):
        np.testing.assert_allclose(density.chances[k], (SHARES[:, k] @ BITS + 0.7) / (count + 1.4))
    by_hand = [[oracle.log_bernoullis(row, p) for p in density.chances] for row in BITS]
    np.testing.assert_allclose(density.log_density(BITS), by_hand)
    np.testing.assert_allclose(density.log_density(sp.csr_array(BITS)), by_hand)
    np.testing.assert_allclose(Bernoullis.of(0.7).fitted(sp.csr_array(BITS), SHARES).chances, density.chances)
    p = density.chances
    assert density.log_prior() == pytest.approx(0.7 * sum(np.log(p * (1 - p)).ravel()))
    never = Bernoullis.of(0.0).fitted(0 * BITS, SHARES)
    assert np.isfinite(never.log_density(BITS)).all()  # what was never seen is improbable, not impossible


def test_the_e_step_is_bayes_rule_over_what_is_allowed() -> None:
    joint = Joint.fitted(Gaussians.of(("'a'", "'b'"), "full", 1.5, SPREAD), X, SHARES)
    np.testing.assert_allclose(joint.weights, SHARES.sum(axis=0) / SHARES.sum())
    allowed = np.ones((60, 2), dtype=bool)
    allowed[0, 1] = allowed[1, 0] = False
    weight = np.linspace(0.5, 2, 60)
    total, r = joint.explain(X, allowed, weight)
    p = np.exp(joint.log_joint(X)) * allowed
    np.testing.assert_allclose(r, weight[:, None] * p / p.sum(axis=1, keepdims=True))
    assert total == pytest.approx(float(weight @ np.log(p.sum(axis=1))) + joint.density.log_prior())
    assert joint.regularised(9.0).density.rows == 9.0
    np.testing.assert_array_equal(joint.regularised(9.0).log_joint(X), joint.log_joint(X))


def test_log_sums_of_far_values() -> None:
    values = np.array([[-1e5, -1e5], [1e5, -np.inf]])
    np.testing.assert_allclose(log_sum(values), [-1e5 + np.log(2), 1e5])


def test_a_covariance_of_rounding_errors_is_refused() -> None:
    flat = X.copy()
    flat[:, 2] = flat[:, 0] + flat[:, 1]
    density = Gaussians.of(("'a'", "'b'"), "full", 0.0, flat.var(axis=0)).fitted(flat, SHARES)
    with pytest.raises(DataError, match=r"of class 'a' is singular.*all 3 features\nRaise regularisation"):
        density.log_density(flat)
    assert np.isfinite(Gaussians.of(("'a'", "'b'"), "full", 1e-6, flat.var(axis=0)).fitted(flat, SHARES).log_prior())


@pytest.mark.parametrize("kind", KINDS)
def test_draws(kind: str) -> None:
    density = gaussians(kind)
    y = np.repeat([0, 1], 40_000)
    x = density.draw(y, np.random.RandomState(0))
    for k, covariance in enumerate(as_matrices(density)):
        np.testing.assert_allclose(x[y == k].mean(axis=0), density.means[k], atol=0.05)
        np.testing.assert_allclose(np.cov(x[y == k].T), covariance, atol=0.05 * np.trace(covariance))
