"""Parameters of the estimator: one home for each, and errors that name it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from dssl import DeterministicPrior, DSSLClassifier
from dssl.models.parameters import (
    CONSTRAINTS,
    GONE,
    checked_weight,
    from_0_1,
    loop_settings,
    objective_options,
    present,
)


def test_every_parameter_is_checked_and_none_is_gone() -> None:
    names = list(inspect.signature(DSSLClassifier).parameters)
    assert names == list(CONSTRAINTS)
    assert set(names) == set(DSSLClassifier().get_params())
    assert not set(names) & set(GONE)
    assert len(names) <= 18


def test_constraints_are_checked_in_the_words_of_scikit_learn() -> None:
    """`_validate_params` and what it understands are its own, but other estimators of it rely on them, too."""
    with pytest.raises(ValueError, match=r"'steps' parameter of DSSLClassifier must be an int in the range \[1, inf\)"):
        DSSLClassifier(steps=0)._validate_params()
    with pytest.raises(ValueError, match="'network' parameter of DSSLClassifier must be a str among"):
        DSSLClassifier(network="none")._validate_params()
    DSSLClassifier()._validate_params()


@pytest.mark.parametrize(("given", "expected"), [(None, [1, 1, 1]), (2, [2, 2, 2]), ([0, 1, 2.5], [0, 1, 2.5]),
                                                 (1e-6, [1, 1, 1]), ([0, 0.25, 0.5], [0, 0.5, 1])])  # fmt: skip
def test_weights_of_rows(given: Any, expected: list[float]) -> None:
    weight = checked_weight(given, np.zeros((3, 1)))
    assert weight.tolist() == expected
    assert weight.dtype == np.float64


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, 1], r"sample_weight of shape \(2,\) does not fit\nGive 3 weights, one per row\."),
        ([[1], [1], [1]], r"sample_weight of shape \(3, 1\) does not fit"),
        ([1, 1, -1], "Negative values in data passed to `sample_weight`"),
        (-1, "Negative values in data passed to `sample_weight`"),
        ([1, 1, np.nan], "Input sample_weight contains NaN"),
        ([0, 0, 0], "all sample weights are zero, so no row counts\nGive some rows a positive weight."),
    ],
)
def test_bad_weights_of_rows(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_weight(given, np.zeros((3, 1)))


@pytest.mark.parametrize("name", sorted(GONE))
def test_a_spelling_that_is_gone_names_the_new_one(name: str) -> None:
    with pytest.raises(TypeError, match=f"no parameter '{name}' any more\nWrite ") as made:
        DSSLClassifier(**{name: 1})
    with pytest.raises(ValueError, match=f"no parameter '{name}' any more\nWrite ") as set_:
        DSSLClassifier().set_params(**{name: 1})
    assert str(made.value) == str(set_.value)


def test_other_names_are_refused_as_usual() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'priors'"):
        DSSLClassifier(priors=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="Invalid parameter 'priors'"):
        DSSLClassifier().set_params(priors=1)


def test_clone_and_repr_know_the_signature() -> None:
    model = DSSLClassifier(prior=DeterministicPrior(power=3.0), objective={"balance": 0.5})
    again = clone(model)
    assert again.objective == model.objective
    assert again.prior == model.prior
    assert "balance" in repr(model)


def test_a_setting_with_a_home_of_its_own_is_refused_elsewhere() -> None:
    for name, home in (("steps", "steps"), ("lr", "learning_rate"), ("labelled_batch", "batch_size")):
        with pytest.raises(ValueError, match=f"{name} is a parameter of its own here, {home}=…"):
            loop_settings({name: 1})
    assert loop_settings({"ema": 0.9, "validation_fraction": 0.3}) == ({"ema": 0.9}, (0.3, True))
    assert loop_settings({"progress": True, "standardise": False}) == ({"progress": True}, (0.2, False))
    assert loop_settings(None) == ({}, (0.2, True))
    with pytest.raises(ValueError, match="standardise='no': it must be True or False"):
        loop_settings({"standardise": "no"})


def test_options_of_the_objective() -> None:
    given: dict[str, Any] = {"ramp": 0.5, "constrained": True, "balance": 0, "labelled_prior_weight": 2.0}
    given |= {"frequencies": {"legs": 0.3}, "components": np.int64(3)}
    assert objective_options(given) == given
    for name, odd in (("frequencies", 3), ("frequencies", "even"), ("components", 0), ("components", True)):
        with pytest.raises(ValueError, match=f"objective={{'{name}': {odd!r}}}: it must be "):
            objective_options({name: odd})
    assert objective_options(None) == {}
    ramp = objective_options({"ramp": lambda step: 1.0})["ramp"]
    assert ramp(3) == 1.0


def test_parameters_that_0_1_0_saved() -> None:
    """The parameters in model.json of a model that dssl 0.1.0 wrote."""
    old = {
        "prior": "deterministic", "prior_weight": None, "labelled_prior_weight": 0.0, "power": 3.0, "ramp": 0.4,
        "balance": 1.0, "consistency": "auto", "consistency_weight": 1.0, "augment": None, "constrained": True,
        "steps": 20, "learning_rate": 0.002, "weight_decay": 1e-4, "labelled_batch": 32, "unlabelled_batch": 128,
        "ema": None, "settings": {"devices": 2}, "early_stopping": True, "validation_fraction": 0.25, "patience": 3,
        "standardise": True, "unlabelled": -1, "on_violation": "error", "warm_start": False, "verbose": False,
        "random_state": 0,
    }  # fmt: skip
    new = from_0_1(old)
    model = DSSLClassifier(**new)
    model._validate_params()
    assert (model.steps, model.batch_size, model.learning_rate, model.random_state) == (20, 32, 0.002, 0)
    assert model.objective == {
        "labelled_prior_weight": 0.0, "constrained": True, "balance": 1.0, "ramp": 0.4, "consistency_weight": 1.0
    }  # fmt: skip
    assert model.settings == {
        "devices": 2, "weight_decay": 1e-4, "unlabelled_batch": 128, "ema": None, "patience": 3,
        "validation_fraction": 0.25,
    }  # fmt: skip
    assert model.prior == DeterministicPrior(power=3.0)
    assert from_0_1(old | {"prior": None})["prior"] is None


def test_parameters_that_have_moved_since_a_model_was_saved() -> None:
    old = {"steps": 5, "label_frequencies": [0.2, 0.8], "components": 2, "standardise": False, "verbose": 1,
           "objective": {"balance": 2.0}, "settings": None}  # fmt: skip
    new = present(old)
    assert new == {
        "steps": 5, "objective": {"balance": 2.0, "frequencies": [0.2, 0.8], "components": 2},
        "settings": {"standardise": False, "progress": True},
    }  # fmt: skip
    DSSLClassifier(**new)._validate_params()
    usual = {"label_frequencies": "auto", "components": "auto", "standardise": True, "verbose": False}
    assert present(usual | {"objective": None, "settings": None}) == {"objective": None, "settings": None}
