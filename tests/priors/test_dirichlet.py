"""The normalised deterministic prior: it integrates to one, and its samples follow it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import oracle
from dssl.logic.space import LabelSpace
from dssl.priors import DeterministicPrior
from dssl.priors.blocks import Blocks
from dssl.priors.dirichlet import log_constant
from priors.cases import SPACES, logits_of, weights_of


def test_constants_of_the_uniform_mixtures():
    for k in (2, 3, 10):
        space = LabelSpace.classes(range(k))
        z = logits_of(space, 3)
        raw, normal = (DeterministicPrior(space, 4.0, normalised=n).log_prob(z) for n in (False, True))
        constant = math.log(k) + math.lgamma(5) - math.lgamma(4 + k)
        np.testing.assert_allclose(raw - normal, constant, rtol=1e-6)
    space = SPACES["rules"]
    z = logits_of(space, 3)
    raw, normal = (DeterministicPrior(space, 4.0, normalised=n).log_prob(z) for n in (False, True))
    np.testing.assert_allclose(raw - normal, math.log(space.count() / 5**4), rtol=1e-6)


@pytest.mark.parametrize("weights", [None, [0.7, 0.2, 0.1]])
def test_three_classes_integrate_to_one(weights):
    q = DeterministicPrior(LabelSpace.classes("abc"), 3.0, weights=weights, normalised=True)
    n = 400
    a, b = torch.meshgrid(*[(torch.arange(n, dtype=torch.float64) + 0.5) / n] * 2, indexing="ij")
    inside = a + b < 1
    theta = torch.stack([a, b, 1 - a - b], -1)[inside]
    # The diagonal cuts cells in half; their centres fall on or near it, which the grid's error bound covers.
    assert q.log_prob(theta.log()).exp().sum().item() / n**2 == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("weights", [None, [0.9, 0.4]])
def test_attributes_with_a_rule_integrate_to_one(weights):
    q = DeterministicPrior(SPACES["rule"], 3.0, weights=weights, normalised=True)
    n = 300
    grid = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    theta = torch.cartesian_prod(grid, grid)
    assert q.log_prob(theta.logit()).exp().mean().item() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("space", ["classes", "one class", "mix", "rules and soft rules", "sums"])
def test_samples_have_the_moments_of_the_mixture(space):
    s, power = SPACES[space], 5.0
    weights = weights_of(s)
    q = DeterministicPrior(s, power, weights=weights, normalised=True)
    theta = q.sample(20_000, torch.Generator().manual_seed(0))
    assert theta.shape == (20_000, s.width)
    rows = oracle.valid_columns(s.constraints)
    soft = oracle.soft_log_weights(s.constraints)
    binary = np.array([v.binary for v in s.variables for _ in v.columns])
    pos, neg = np.log(weights.numpy()), np.where(binary, np.log(1 - weights.numpy()), 0)
    label = oracle.marginals(rows, np.concatenate([pos, soft[0]]), np.concatenate([neg, soft[1]]))[: s.width]
    size = np.array([2 if v.binary else len(v.values) for v in s.variables for _ in v.columns])
    expected = (1 + power * label) / (size + power)  # mean of Dir(1 + T e_y), averaged over labels
    np.testing.assert_allclose(theta.mean(0), expected, atol=0.01)
    second = (1 + power * label) / (size + power)  # E θ² = E α(α+1) / ((K+T)(K+T+1))
    second = (label * (1 + power) * (2 + power) + (1 - label) * 2) / ((size + power) * (size + power + 1))
    np.testing.assert_allclose(theta.square().mean(0), second, atol=0.01)
    for variable, (start, stop) in zip(s.variables, s.spans):
        if not variable.binary:
            torch.testing.assert_close(theta[:, start:stop].sum(-1), torch.ones(20_000))


def test_samples_are_seeded():
    q = DeterministicPrior(SPACES["rules"])
    a, b, c = (q.sample(5, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@pytest.mark.parametrize("size", [1, 2, 7, 300])
@pytest.mark.parametrize("power", [0.5, 10.0, 1e4])
def test_the_constant_keeps_its_digits_where_gamma_is_huge(size, power):
    blocks = Blocks(LabelSpace.classes([f"c{i}" for i in range(size)]))
    found = log_constant(blocks, torch.tensor(power))
    assert float(found) == pytest.approx(math.lgamma(power + size) - math.lgamma(power + 1), rel=1e-6, abs=1e-6)
