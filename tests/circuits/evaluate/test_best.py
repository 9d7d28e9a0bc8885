"""The heaviest label: its own kernel, which answers what that of the k heaviest does."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from circuits.strategies import circuit_of, constraint_sets, literal_weights, naive_circuit
from dssl.circuits import queries
from dssl.circuits.evaluate.launch import launch
from dssl.circuits.evaluate.program import program_of
from dssl.circuits.nodes import LITERAL


def test_free_variables_take_their_heaviest_value():
    circuit = circuit_of([(LITERAL, 1, ())], [0, 0, 3])  # x₁; x₂ and a categorical are free
    pos = torch.tensor([[-9.0, 0.5, 1.0, 3.0, 2.0], [-9.0, -0.5, 1.0, 1.0, 1.0]])
    neg = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0, 0.0]])
    label, weight = queries.mpe(circuit, pos, neg)
    assert label.tolist() == [[True, True, False, True, False], [True, False, True, False, False]]
    torch.testing.assert_close(weight, torch.tensor([-9.0 + 0.5 + 3.0, -9.0 + 1.0 + 2.0]))


def found_by(kernel: str, circuit, pos, neg, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    program = program_of(circuit)
    weight = pos.new_empty(len(pos), k)
    labels = torch.empty(len(pos), k, program.columns, dtype=torch.bool)
    launch(kernel, program, pos, neg, weight, labels, number=k)
    return labels[:, 0], weight[:, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(deadline=None, max_examples=40)
@given(constraint_sets(), st.integers(0, 1 << 20))
def test_it_is_the_first_of_the_k_heaviest_to_the_last_bit(dtype, constraints, seed):
    circuit = naive_circuit(constraints)
    weights = [literal_weights(circuit, seed + i, evidence=0.2) for i in range(3)]
    pos, neg = (torch.stack([torch.as_tensor(pair[i], dtype=dtype) for pair in weights]) for i in range(2))
    labels, weight = found_by("best", circuit, pos, neg, 1)
    others, heavier = found_by("k_best", circuit, pos, neg, 3)
    assert torch.equal(weight, heavier)
    possible = weight > -math.inf
    assert torch.equal(labels[possible], others[possible])


def test_where_no_label_is_valid_it_is_false_and_weighs_nothing():
    circuit = circuit_of([(LITERAL, 1, ())], [0, 0])
    pos, neg = torch.tensor([[-math.inf, 0.0], [0.0, 0.0]]), torch.zeros(2, 2)
    labels, weight = found_by("best", circuit, pos, neg, 1)
    assert weight.tolist() == [-math.inf, 0.0]
    assert labels.tolist()[0] == [False, False]
    assert labels.tolist()[1][0] is True
