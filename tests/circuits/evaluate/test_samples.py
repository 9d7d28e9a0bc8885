"""Samples: free variables are drawn from their weights, walks are independent, and evidence is kept to."""

from __future__ import annotations

import math

import pytest
import torch

from circuits.strategies import circuit_of
from circuits.test_queries import parity
from dssl.circuits import queries
from dssl.circuits.nodes import TRUE


@pytest.mark.compiled
def test_samples_never_take_a_value_that_is_excluded():
    """Shares that sum to less than one by rounding must not leave the rest to the last value, which weighs nothing."""
    values = 10_000
    circuit = circuit_of([(TRUE, 0, ())], [values])
    pos = torch.full((1, values), math.log(0.75 * 2**-23))  # adding one more rounds the sum up by a quarter of a bit
    pos[0, 0], pos[0, -1] = 0.0, -math.inf
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        drawn = queries.sample(circuit, pos, torch.zeros(1, values), 6000, generator)[:, 0]
        assert (drawn.sum(1) == 1).all()
        assert not drawn[:, -1].any()


def test_free_variables_are_drawn_from_their_weights():
    circuit = circuit_of([(TRUE, 0, ())], [0, 3])
    pos, neg = torch.tensor([[0.0, 1.0, 2.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.0, 1.0]])
    drawn = queries.sample(circuit, pos, neg, 40_000, torch.Generator().manual_seed(0))[:, 0].double()
    expected = queries.marginals(circuit, pos.double(), neg.double())[0]
    assert (drawn.mean(0) - expected).abs().max() < 0.01
    assert (drawn[:, 1:].sum(1) == 1).all()
    together = (drawn[:, 0] * drawn[:, 1]).mean()
    assert together.item() == pytest.approx(expected[0].item() * expected[1].item(), abs=0.01)


def test_draws_are_independent_of_each_other():
    circuit = parity(3)
    zeros = torch.zeros(64, 3)
    drawn = queries.sample(circuit, zeros, zeros, 400, torch.Generator().manual_seed(5)).double() - 0.5
    first, second = drawn[:-1, :, 0].flatten(), drawn[1:, :, 0].flatten()
    assert abs((first * second).mean().item()) * 4 < 5 / math.sqrt(first.numel())
    assert abs((drawn[:, :-1, 1] * drawn[:, 1:, 1]).mean().item()) * 4 < 5 / math.sqrt(first.numel())
    assert not queries.sample(circuit, zeros, zeros, 0).numel()
