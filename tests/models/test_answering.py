"""What a fitted model answers: every answer obeys the rules, follows evidence, and comes in the form of the labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from dssl import DSSLClassifier
from dssl.models.answering import Answering

RULES = "legs, fins\nlegs -> !fins"
X = np.random.default_rng(0).normal(size=(30, 3))
Y = np.array([[1, 0], [0, 1], [np.nan, np.nan]] * 10)


@pytest.fixture(scope="module")
def model() -> DSSLClassifier:
    return DSSLClassifier(RULES, steps=15, random_state=0).fit(X, Y)


def test_all_answers_agree(model: DSSLClassifier) -> None:
    p, theta = model.predict_proba(X), model.predict_theta(X)
    both = theta[:, 0] * theta[:, 1]
    expected = theta * (1 - theta[:, ::-1]) / (1 - both)[:, None]  # given that not both hold
    np.testing.assert_allclose(p, expected, rtol=1e-4, atol=1e-6)
    assert not len(model.space_.check(model.predict(X)))
    drawn = np.stack(model.sample(X, n=400, random_state=0))
    np.testing.assert_allclose(drawn.mean(axis=0), p, atol=0.12)


def test_evidence_narrows_all_of_them(model: DSSLClassifier) -> None:
    known = np.tile([1.0, np.nan], (len(X), 1))
    np.testing.assert_array_equal(model.predict(X, evidence=known), np.tile([1, 0], (len(X), 1)))
    np.testing.assert_allclose(model.predict_proba(X, evidence=known)[:, 1], 0, atol=1e-6)
    assert model.score(X, np.tile([1, 0], (len(X), 1)), evidence=known) == 1


def test_a_model_that_was_not_fitted_says_so() -> None:
    assert issubclass(DSSLClassifier, Answering)
    with pytest.raises(NotFittedError):
        DSSLClassifier(RULES).predict(X)
