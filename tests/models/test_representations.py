"""Features that all rows teach: scikit-learn's contract, and what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from dssl import DSSLClassifier
from dssl.models.representations import M1, MixturePosteriors
from dssl.training.terms.deep_generative import M2

RANDOM = np.random.default_rng(0)
KIND = np.arange(240) % 2
PLACES = np.array([[-3.0, 0.0], [3.0, 0.0]])
X = PLACES[KIND] + RANDOM.normal(size=(240, 2))


@parametrize_with_checks([M1(latent=2, hidden=8, steps=3), MixturePosteriors(2)])
def test_scikit_learn_s_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_posteriors_are_bayes_rule() -> None:
    model = MixturePosteriors(3, covariance="full", random_state=0).fit(X)
    found, mixture = model.transform(X[:5]), model.mixture_
    for row, p in zip(X[:5], found):
        joint = []
        for weight, mean, covariance in zip(mixture.weights_, mixture.means_, mixture.covariances_):
            away = row - mean
            joint.append(
                weight
                * np.exp(-0.5 * away @ np.linalg.solve(covariance, away))
                / (2 * np.pi * np.sqrt(np.linalg.det(covariance)))
            )
        np.testing.assert_allclose(p, np.array(joint) / sum(joint), rtol=1e-6)
    assert list(model.get_feature_names_out()) == [f"mixtureposteriors{i}" for i in range(3)]


def test_boundaries_run_between_components() -> None:
    """Two labels, both near the middle: the line between them is tilted, the coupled one is not."""
    rows = np.vstack([X, [[-0.6, -2.0], [0.6, 2.0]]])
    y = np.append(np.full(240, -1), [0, 1])
    plain = DSSLClassifier(network="linear", prior=None, consistency=None, steps=200, random_state=0).fit(rows, y)
    coupled = make_pipeline(MixturePosteriors(2, covariance="full", random_state=0), plain).fit(rows, y)
    assert coupled.score(X, KIND) > 0.98


def test_latents_keep_what_distinguishes_rows() -> None:
    """M1 of two clouds in twenty dimensions: one label per class is enough for a linear classifier of one latent."""
    wide = X @ RANDOM.normal(size=(2, 20)) + 0.3 * RANDOM.normal(size=(240, 20))
    features = M1(latent=2, hidden=32, steps=400, random_state=0).fit_transform(wide)
    assert features.dtype == wide.dtype
    between = np.abs(np.corrcoef(features.T, KIND)[-1, :-1]).max()
    assert between > 0.8
    again = M1(latent=2, hidden=32, steps=400, random_state=0).fit_transform(wide)
    np.testing.assert_array_equal(features, again)


@pytest.mark.parametrize("bad", [{"latent": 0}, {"steps": 0}, {"learning_rate": -1.0}])
def test_what_is_out_of_range_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        M1(**bad).fit(X)


def test_both_models_in_a_row() -> None:
    y = np.where(np.arange(240) < 4, KIND, -1)
    both = make_pipeline(
        M1(latent=2, hidden=32, steps=200, random_state=0),
        DSSLClassifier(prior=None, consistency=M2(hidden=32, latent=2), steps=150, random_state=0, calibrate=False),
    )
    assert both.fit(X, y).score(X, KIND) > 0.9
