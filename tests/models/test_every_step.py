"""The estimator on every step of the ladder: fit, predict, save, load; nothing fails after training."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dssl.circuits.beyond import ladder
from dssl.circuits.beyond.cascade import Cascade
from dssl.circuits.beyond.superset import Superset
from dssl.errors import BudgetError, DataError
from dssl.logic.space import LabelSpace
from dssl.models.estimators import DSSLClassifier
from dssl.models.files.saved import load, save
from logic.hierarchies import hierarchy

X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)


@pytest.fixture
def no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "BUDGET_S", 0.0)


def dag() -> LabelSpace:
    return hierarchy(2, classes=6)


def rules() -> LabelSpace:
    """Made anew each time: a space that was compiled once has its circuit, whatever the budget."""
    return LabelSpace("a, b, c, d\nexactly(2, a, b, c, d)\na -> !b\nc | d")


def labels(space: LabelSpace) -> np.ndarray:
    """Valid labels that depend on X."""
    valid = space.encode(list(space.valid()))
    score = X @ np.random.default_rng(1).normal(size=(4, space.width))
    return valid[(score @ (2 * valid - 1).T).argmax(axis=1)]


def fitted(space: LabelSpace, y: Any = None, **options: Any) -> DSSLClassifier:
    options = {"steps": 60, "random_state": 0, "calibrate": False} | options
    return DSSLClassifier(space, **options).fit(X, labels(space) if y is None else y)


@pytest.mark.parametrize("decision", ["most probable", "marginals", "f1"])
@pytest.mark.parametrize(("make", "kind"), [(dag, Cascade), (rules, Superset)])
def test_every_prediction_obeys_every_rule(no_budget: None, make: Any, kind: type, decision: str) -> None:
    space = make()
    model = fitted(space, decision=decision)
    assert isinstance(model.decoder_.circuit, kind)
    assert not space.check(model.predict(X))
    for drawn in model.sample(X[:5], 3, random_state=0):
        assert not space.check(drawn)
    assert model.predict_proba(X).shape == (60, space.width)
    assert 0 <= model.score(X, labels(space)) <= 1
    said = {d.what: d.value for d in model.plan_.decisions}["rules"]
    assert said == ("implications, no circuit needed" if kind is Cascade else "0 of 3 rules in the circuit")


def test_the_exact_circuit_is_said_too() -> None:
    assert ("rules", "exact circuit") in [(d.what, d.value) for d in fitted(rules()).plan_.decisions]
    assert "rules" not in [d.what for d in DSSLClassifier(steps=5).fit(X, X[:, 0] > 0).plan_.decisions]


def test_implications_are_learned(no_budget: None) -> None:
    """Better than label frequencies, whose labels the network begins with; thresholds on marginals are coherent."""
    y = labels(dag())
    model, first = fitted(dag(), steps=300), fitted(dag(), steps=1, learning_rate=1e-9)
    marginals = model.predict_proba(X)
    np.testing.assert_allclose(first.predict_proba(X).mean(axis=0), y.mean(axis=0), atol=0.15)
    assert np.square(marginals - y).mean() < 0.7 * np.square(first.predict_proba(X) - y).mean()
    for threshold in (0.1, 0.5, 0.9):
        assert not dag().check((marginals > threshold).astype(float))


def test_labels_known_in_part(no_budget: None) -> None:
    for space in (dag(), rules()):
        y = labels(space)
        y[np.random.default_rng(0).random(y.shape) < 0.4] = np.nan
        assert not space.check(fitted(space, y, prior=None).predict(X))


def test_labels_are_repaired(no_budget: None) -> None:
    for space in (dag(), rules()):
        y = labels(space)
        y[:3] = 1 - y[:3]
        with pytest.warns(UserWarning, match="replaced by the valid label"):
            assert not space.check(fitted(space, y, on_violation="repair").predict(X))


def test_saved_and_pickled_models_answer_alike(no_budget: None, tmp_path: Path) -> None:
    for name, space in {"dag": dag(), "rules": rules()}.items():
        model = fitted(space)
        before = model.predict_proba(X), np.asarray(model.predict(X))
        again = load(save(model, tmp_path / name))
        for other in (again, pickle.loads(pickle.dumps(model))):
            assert type(other.decoder_.circuit) is type(model.decoder_.circuit)
            np.testing.assert_allclose(other.predict_proba(X), before[0], atol=1e-6)
            np.testing.assert_array_equal(np.asarray(other.predict(X)), before[1])
        assert str(again.plan_) == str(model.plan_)
        again.partial_fit(X, labels(space))
        assert not space.check(again.predict(X))


def test_priors(no_budget: None) -> None:
    """A superset takes any prior; one that weighs labels by powers cannot do without a circuit, and says so at once."""
    assert not rules().check(fitted(rules(), prior="deterministic", prior_weight=0.3).predict(X))
    y = labels(dag())
    y[30:] = np.nan
    assert not dag().check(fitted(dag(), y, prior="entropy").predict(X))
    with pytest.raises(DataError, match="not probabilities"):
        fitted(dag(), y, prior="deterministic")


def test_calibration(no_budget: None) -> None:
    model = fitted(rules(), calibrate=True)
    assert "calibration" in [d.what for d in model.plan_.decisions]
    assert not rules().check(model.predict(X))


def test_what_no_step_can_answer_is_refused_before_training(monkeypatch: pytest.MonkeyPatch, no_budget: None) -> None:
    from dssl.models import estimators

    def never(*args: Any, **options: Any) -> None:
        raise AssertionError("training began")

    def undecided(*args: Any) -> None:
        raise BudgetError("not decided")

    monkeypatch.setattr(estimators, "train", never)
    monkeypatch.setattr(ladder, "grow", undecided)
    with pytest.raises(BudgetError, match="not decided"):
        fitted(rules())
