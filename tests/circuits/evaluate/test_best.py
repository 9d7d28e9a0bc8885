"""The heaviest label against enumeration and against the first of the k heaviest, whatever shares a tile with it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from circuits.strategies import circuit_of, constraint_sets, literal_weights, naive_circuit, with_soft
from dssl.circuits import queries
from dssl.circuits.evaluate.launch import launch
from dssl.circuits.evaluate.program import program_of
from dssl.circuits.nodes import AND, LITERAL, OR


@settings(max_examples=60, deadline=None)
@given(constraint_sets(choices=400), st.integers(0, 2**32 - 1))
def test_the_heaviest_label_is_that_of_enumeration(constraints, seed):
    circuit, rows = naive_circuit(constraints), oracle.valid_columns(constraints)
    drawn = [literal_weights(circuit, seed + i, evidence=0.05 * i) for i in range(19)]  # more than one tile
    pos, neg = (torch.tensor(np.stack(side)) for side in zip(*drawn))
    label, weight = queries.mpe(circuit, pos, neg)
    for i, (p, n) in enumerate(drawn):
        _, found = oracle.best(rows, *with_soft(circuit, p, n), 1)
        expected = found[0] if len(found) else -math.inf
        np.testing.assert_allclose(weight[i], expected, atol=1e-9)
        if expected == -math.inf:
            assert not label[i].any()
        else:
            assert any(np.array_equal(label[i].numpy(), row[: circuit.width]) for row in rows)


def found_by(kernel: str, circuit, pos, neg, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    program = program_of(circuit)
    weight = pos.new_empty(len(pos), k)
    labels = torch.empty(len(pos), k, program.columns, dtype=torch.bool)
    launch(kernel, program, pos, neg, weight, labels, number=k)
    return labels[:, 0], weight[:, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(deadline=None, max_examples=40)
@given(constraint_sets(), st.integers(0, 1 << 20))
def test_it_is_the_first_of_the_k_heaviest(dtype, constraints, seed):
    circuit = naive_circuit(constraints)
    weights = [literal_weights(circuit, seed + i, evidence=0.2) for i in range(3)]
    pos, neg = (torch.stack([torch.as_tensor(pair[i], dtype=dtype) for pair in weights]) for i in range(2))
    labels, weight = found_by("best", circuit, pos, neg, 1)
    others, heavier = found_by("k_best", circuit, pos, neg, 3)
    torch.testing.assert_close(weight, heavier)  # they add in different orders
    possible = weight > -math.inf
    assert torch.equal(labels[possible], others[possible])


def test_of_equals_the_first_product_and_the_first_value_win():
    nodes = [(LITERAL, 1, ()), (LITERAL, -1, ()), (LITERAL, 2, ()), (AND, 0, (1, 2)), (OR, 0, (0, 3))]
    circuit = circuit_of(nodes, [0, 0, 3])  # x₁ ∨ (¬x₁ ∧ x₂), and a categorical variable that is free
    label, weight = queries.mpe(circuit, torch.zeros(2, 5), torch.zeros(2, 5))
    assert label.tolist() == [[True, True, True, False, False]] * 2
    assert weight.tolist() == [0.0, 0.0]


def test_rows_that_share_a_tile_do_not_touch_each_other():
    circuit = circuit_of([(LITERAL, 1, ())], [0, 0])
    pos, neg = torch.zeros(40, 2), torch.zeros(40, 2)
    pos[1, 0], pos[2, 1], neg[3, 1] = -math.inf, math.nan, 5.0
    label, weight = queries.mpe(circuit, pos, neg)
    others = [i for i in range(40) if i not in (1, 2, 3)]
    assert label[others].all()
    assert label[[1, 2, 3]].tolist() == [[False, False], [False, False], [True, False]]
    assert weight[1] == -math.inf
    assert weight[2].isnan()
    assert weight[3] == 5.0
