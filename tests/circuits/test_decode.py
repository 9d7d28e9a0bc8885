"""Choosing labels: free variables take their heaviest value, and walks draw independently."""

from __future__ import annotations

import math

import pytest
import torch

from circuits.strategies import circuit_of
from circuits.test_queries import parity
from dssl.circuits import queries
from dssl.circuits.circuit import LITERAL, TRUE
from dssl.circuits.launch import launch
from dssl.circuits.program import program_of


def test_free_variables_take_their_heaviest_value():
    circuit = circuit_of([(LITERAL, 1, ())], [0, 0, 3])  # x₁; x₂ and a categorical are free
    pos = torch.tensor([[-9.0, 0.5, 1.0, 3.0, 2.0], [-9.0, -0.5, 1.0, 1.0, 1.0]])
    neg = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0, 0.0]])
    label, weight = queries.mpe(circuit, pos, neg)
    assert label.tolist() == [[True, True, False, True, False], [True, False, True, False, False]]
    torch.testing.assert_close(weight, torch.tensor([-9.0 + 0.5 + 3.0, -9.0 + 1.0 + 2.0]))


def test_a_bound_needs_no_label():
    circuit = parity(9)
    pos, neg = torch.randn(2, 50, 9)
    bound = torch.empty(50)
    launch("best_weight", program_of(circuit), pos, neg, bound)
    torch.testing.assert_close(bound, queries.mpe(circuit, pos, neg)[1])


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
