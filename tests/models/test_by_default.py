"""What a user gets by default: DSSLClassifier(rules).fit(X, y), nothing else set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dssl import DSSLClassifier, LabelSpace


@pytest.mark.parametrize("network", ["linear", "auto"])
@pytest.mark.parametrize("calibrate", ["auto", False])
def test_variables_that_follow_from_others_count_once(network: str, calibrate: Any) -> None:
    """Four variables that are always equal, and rows that tell nothing: they are as probable as they are frequent."""
    random = np.random.default_rng(0)
    X, held = random.normal(size=(500, 2)), random.random(500) < 0.8
    space = LabelSpace("a, b, c, d\na <-> b\nb <-> c\nc <-> d")
    y = np.repeat(held[:, None], 4, axis=1).astype(float)
    model = DSSLClassifier(space, network=network, calibrate=calibrate, steps=200, random_state=0).fit(X, y)
    assert abs(model.predict_proba(X).mean() - held.mean()) < 0.06


def test_a_soft_rule_is_counted_once() -> None:
    """`0.9 :: a`, and 88.2 % of labels have it: that is what is predicted, not .985, its odds times nine."""
    random = np.random.default_rng(0)
    truth = (np.arange(500) < 441).astype(float)  # 88.2 %
    y = random.permutation(truth)[:, None]
    X = random.normal(size=(500, 3))
    space = LabelSpace("a, b\n0.9 :: a")
    model = DSSLClassifier(space, steps=200, random_state=0).fit(X, np.repeat(y, 2, axis=1))
    assert np.mean(model.predict_proba(X)[:, 0]) == pytest.approx(0.882, abs=0.02)


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order[:900]], y[order[:900]], X[order[900:]], y[order[900:]]


def scores(model: DSSLClassifier, X: np.ndarray, y: np.ndarray) -> float:
    found = model.predict(X)
    digit = found[:, :10].argmax(1) if found.ndim == 2 else found
    return float(np.mean(digit == y))


def test_unlabelled_rows_help_and_rules_do_not_take_it_away(digits: tuple[np.ndarray, ...]) -> None:
    """Attributes that follow from the class change little (the fault: .94 without rules, .86 with)."""
    X, y, X_test, truth = digits
    shown = np.where(np.arange(len(y)) < 50, y, -1)
    space = LabelSpace("digit: 0..9\neven, big\neven <-> digit in {0, 2, 4, 6, 8}\nbig <-> digit > 4")
    every = space.complete([{"digit": int(d)} for d in y])
    every[50:] = np.nan
    alone = scores(DSSLClassifier(prior=None, random_state=0).fit(X, shown), X_test, truth)
    without = scores(DSSLClassifier(random_state=0).fit(X, shown), X_test, truth)
    with_rules = scores(DSSLClassifier(space, random_state=0).fit(X, every), X_test, truth)
    assert without > alone + 0.05
    assert with_rules > without - 0.02


def test_a_rare_class_with_labels_picked_by_hand_is_not_over_predicted() -> None:
    random = np.random.default_rng(1)
    rare = np.r_[np.ones(10), np.zeros(10), random.random(980) < 0.04].astype(int)
    X = random.normal(size=(1000, 10))
    X[:, :5] += 1.3 * rare[:, None]
    y = np.where(np.arange(1000) < 20, rare, -1)
    X_test = random.normal(size=(1000, 10))
    truth = (random.random(1000) < 0.04).astype(int)
    X_test[:, :5] += 1.3 * truth[:, None]
    alone = DSSLClassifier(prior=None, random_state=0).fit(X, y).score(X_test, truth)
    assert DSSLClassifier(random_state=0).fit(X, y).score(X_test, truth) > alone - 0.02
