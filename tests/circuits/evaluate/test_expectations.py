"""Means over valid labels: entropy without cancellation, covariance times a direction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle
from circuits.strategies import constraint_sets, literal_weights, naive_circuit, with_soft
from circuits.test_queries import parity
from dssl.circuits import queries
from dssl.circuits.evaluate.launch import launch
from dssl.circuits.evaluate.program import program_of

many = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@many
@given(constraint_sets(), st.integers(0, 2**32 - 1))
def test_covariance_is_that_of_enumerated_labels(constraints, seed):
    circuit, rows = naive_circuit(constraints), oracle.valid_columns(constraints)
    pos, neg = with_soft(circuit, *literal_weights(circuit, seed))
    if not len(rows):
        return
    v = np.random.default_rng(seed).normal(size=len(pos))
    p = oracle.probabilities(rows, pos, neg)
    centred = rows - p @ rows
    expected = (centred * p[:, None]).T @ (centred @ v)
    out = torch.empty(1, circuit.width, dtype=torch.float64)
    weights = [torch.tensor(x[None, : circuit.width]) for x in (pos, neg)]
    launch("covariance", program_of(circuit), *weights, out, given=torch.tensor(v))
    np.testing.assert_allclose(out[0], expected[: circuit.width], atol=1e-10)


def test_entropy_of_unlikely_labels_does_not_cancel():
    """All columns are forced far from their weights, and two labels are left: the entropy is log 2, not ±1e5·ε."""
    circuit = parity(21)
    pos, neg = torch.zeros(2, 1, 21)
    neg[:, :20] = 0.0
    pos[:, :20] = -9e4
    pos[:, :2] = torch.tensor([[-5e4, -5e4]])
    neg[:, 20], pos[:, 20] = 0.0, -torch.inf
    value = queries.entropy(circuit, pos, neg)
    assert value.item() == pytest.approx(np.log(2), abs=1e-5)


def test_entropy_of_certainty_is_zero_and_of_nothing_known_is_the_log_count():
    circuit = parity(10)
    zeros = torch.zeros(1, 10)
    assert queries.entropy(circuit, zeros, zeros).item() == pytest.approx(9 * np.log(2), rel=1e-6)
    pos, neg = zeros.clone(), torch.full((1, 10), -torch.inf)
    neg[0, 0], pos[0, 0] = 0, -torch.inf
    assert queries.entropy(circuit, pos, neg).item() == 0
