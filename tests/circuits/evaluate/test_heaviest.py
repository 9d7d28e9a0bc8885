"""The k heaviest labels against enumeration, free variables and deep circuits among them, in time linear in k."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from circuits.strategies import circuit_of, constraint_sets, literal_weights, naive_circuit, with_soft
from circuits.test_queries import parity
from dssl.circuits import queries
from dssl.circuits.nodes import LITERAL


def test_a_derivation_stands_for_all_values_of_its_free_variables():
    """x₁ alone: the k heaviest labels differ in what is free, among values of falling weight."""
    circuit = circuit_of([(LITERAL, 1, ())], [0, 0, 4, 0])
    rng = np.random.default_rng(3)
    pos, neg = torch.from_numpy(rng.normal(size=(2, 7, 7)))
    pos[2, 3], neg[3, 1], pos[4, 2:6] = -math.inf, -math.inf, torch.tensor([0.0, 0.0, -math.inf, 0.0])
    labels, weight = queries.top_k(circuit, pos, neg, 20)
    rows = np.array([row for row in itertools.product([False, True], repeat=7) if row[0] and sum(row[2:6]) == 1])
    for i in range(7):
        expected = np.sort(oracle.log_weights(rows, pos[i].numpy(), neg[i].numpy()))[::-1]
        np.testing.assert_allclose(weight[i, :16], expected)
        assert (weight[i, 16:] == -math.inf).all()
        possible = int((expected > -math.inf).sum())
        assert len({tuple(x) for x in labels[i, :possible].tolist()}) == possible


@settings(max_examples=60, deadline=None)
@given(constraint_sets(choices=400), st.integers(0, 2**32 - 1), st.integers(1, 500))
def test_all_labels_come_in_the_order_of_weight(constraints, seed, k):
    circuit, rows = naive_circuit(constraints), oracle.valid_columns(constraints)
    drawn = [literal_weights(circuit, seed + i, evidence=0.1 * i) for i in range(3)]
    pos, neg = (torch.tensor(np.stack(side)) for side in zip(*drawn))
    labels, weight = queries.top_k(circuit, pos, neg, k)
    for i, (p, n) in enumerate(drawn):
        _, expected = oracle.best(rows, *with_soft(circuit, p, n), k)
        possible = int((expected > -math.inf).sum())
        np.testing.assert_allclose(weight[i, :possible], expected[:possible], atol=1e-9)
        assert (weight[i, possible:] == -math.inf).all()
        assert len({tuple(x) for x in labels[i, :possible].tolist()}) == possible


@pytest.mark.compiled
def test_time_is_linear_in_the_number_of_labels():
    circuit = parity(24)
    pos, neg = torch.randn(2, 20, 24)
    took = {}
    for k in (10, 250, 1000):
        start = time.perf_counter()
        queries.top_k(circuit, pos, neg, k)
        took[k] = time.perf_counter() - start
    assert took[1000] < 10 * took[250]  # a quadratic search takes 16 times as long


def test_deep_circuits_need_no_deep_recursion():
    circuit = parity(3000)
    pos, neg = torch.randn(2, 2, 3000, dtype=torch.float64)
    labels, weight = queries.top_k(circuit, pos, neg, 4)
    assert (labels.sum(-1) % 2 == 1).all()
    gap = (pos - neg).abs().sort(-1).values  # the two cheapest changes keep the parity
    best = torch.maximum(pos, neg).sum(-1)
    odd = (pos > neg).sum(-1) % 2 == 1
    torch.testing.assert_close(weight[:, 0], best - torch.where(odd, 0, gap[:, 0]))


def test_memory_of_the_search_depends_on_k(monkeypatch):
    circuit, asked = parity(5), []
    k_best = queries._top_k
    monkeypatch.setattr(queries, "_top_k", lambda c, p, n, k: asked.append(len(p)) or k_best(c, p, n, k))
    monkeypatch.setattr(queries, "_HELD", 1000)
    whole = queries.top_k(circuit, *torch.randn(2, 90, 5), 10)[0]
    assert whole.shape == (90, 10, 5)
    assert max(asked) * 10 * 5 <= 1000
