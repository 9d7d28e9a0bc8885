"""The null-category prior against its model, written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.logic.space import LabelSpace
from dssl.priors import ExclusivityPrior, NullCategoryPrior
from priors.cases import SPACES, logits_of


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


@settings(max_examples=50, deadline=None)
@given(st.floats(-20, 20), st.floats(0, 10))
def test_it_is_the_chance_that_a_binary_category_is_not_null(f: float, w: float) -> None:
    """Lawrence & Jordan 2005, Eqs. 2 and 3, with logistic noise: all three categories sum to one."""
    above, below = sigmoid(f - w / 2), sigmoid(-f - w / 2)
    null = sigmoid(f + w / 2) - sigmoid(f - w / 2)
    assert above + below + null == pytest.approx(1)
    prior = NullCategoryPrior(LabelSpace("y"), w)
    q = prior(torch.tensor([[f]], dtype=torch.float64)).exp().item()
    assert q == pytest.approx(1 - null)


@pytest.mark.parametrize("name", sorted(SPACES))
@pytest.mark.parametrize("w", [0.5, 4.0])
def test_it_sums_over_valid_labels(name: str, w: float) -> None:
    space = SPACES[name]
    logits = logits_of(space, 3)
    categorical = np.array([not v.binary for v in space.variables for _ in v.columns])
    rows, soft = oracle.valid_columns(space.constraints), oracle.soft_log_weights(space.constraints)

    def spike(log_theta: np.ndarray) -> np.ndarray:
        theta = np.exp(log_theta)
        with np.errstate(divide="ignore"):
            return np.log(theta / (theta + (1 - theta) * math.exp(w / 2)))

    for z, found in zip(logits, NullCategoryPrior(space, w)(logits)):
        pos, neg = oracle.log_literals(space.variables, z)
        weights = spike(pos), np.where(categorical, 0.0, spike(neg))
        expected = oracle.log_wmc(rows, *(np.concatenate([part, s]) for part, s in zip(weights, soft)))
        assert found.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_without_a_width_it_is_the_probability_of_a_valid_label() -> None:
    space = SPACES["rules"]
    logits = logits_of(space, 4)
    torch.testing.assert_close(NullCategoryPrior(space, 0.0)(logits), ExclusivityPrior(space)(logits))


def test_boundaries_keep_away_from_rows() -> None:
    """The gradient moves f away from 0, most where it is near."""
    f = torch.tensor([[-4.0], [-0.5], [0.5], [4.0]], requires_grad=True)
    NullCategoryPrior(LabelSpace("y"), 2.0)(f).sum().backward()
    assert f.grad is not None
    slope = f.grad.flatten()
    assert slope[0] < 0 > slope[1]
    assert slope[2] > 0 < slope[3]
    assert slope[2] > slope[3]


def test_a_negative_width_is_refused() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        NullCategoryPrior(LabelSpace("y"), -1.0)
