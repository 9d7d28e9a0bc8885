"""From rule text to every answer: parsed, compiled and asked, against enumeration of what the rules mean."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from logic.strategies import Drawn, valid_spaces

SPACES = valid_spaces(most=12, labels=1024)


def soft_log_weights(drawn: Drawn) -> np.ndarray:
    """What the soft rules add to the log weight of each valid record."""
    soft = [(s, p) for s, p in zip(drawn.statements, drawn.probabilities) if p is not None]
    return np.array([sum(math.log(p if s.holds(r) else 1 - p) for s, p in soft) for r in drawn.valid], dtype=float)


@settings(max_examples=120, deadline=None)
@given(drawn=SPACES, seed=st.integers(0, 2**32 - 1), evidence=st.booleans())
def test_every_query_equals_enumeration(drawn: Drawn, seed: int, evidence: bool) -> None:
    """float64, 1e-9; weights that do not sum to one; evidence as weights of −inf; soft rules (MATH §4)."""
    space = drawn.space()
    rows = space.encode(drawn.valid).astype(bool)
    rng = np.random.default_rng(seed)
    log_pos, log_neg = rng.normal(0, 2, (2, space.width))
    if evidence:  # a valid label stays possible, some others do not
        known = rng.random(space.width) < 0.3
        chosen = rows[rng.integers(len(rows))]
        log_pos[known & ~chosen] = -np.inf
        log_neg[known & chosen] = -np.inf
    weights = oracle.log_weights(rows, log_pos, log_neg) + soft_log_weights(drawn)
    total = oracle.log_sum(weights)
    p = np.exp(weights - total)
    circuit = space.compile()
    assert circuit.count() == len(rows)
    pos, neg = torch.from_numpy(log_pos), torch.from_numpy(log_neg)
    np.testing.assert_allclose(circuit.log_wmc(pos, neg).item(), total, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(circuit.marginals(pos, neg).numpy(), p @ rows, rtol=1e-9, atol=1e-9)
    wanted = -sum(x * math.log(x) for x in p if x > 0)
    np.testing.assert_allclose(circuit.entropy(pos, neg).item(), wanted, rtol=1e-9, atol=1e-9)
    labels, best = circuit.top_k(pos, neg, 3)
    heaviest = np.sort(weights)[::-1][:3]
    heaviest = np.append(heaviest, [-np.inf] * (3 - len(heaviest)))
    np.testing.assert_allclose(best.numpy(), heaviest, rtol=1e-9, atol=1e-9)
    assert not space.check(space.decode(labels[0:1].numpy()))
    drawn_labels = circuit.sample(pos, neg, 20, torch.Generator().manual_seed(seed % 1000)).numpy()
    possible = {tuple(row) for row, weight in zip(rows.tolist(), weights) if weight > -np.inf}
    assert {tuple(row) for row in drawn_labels.tolist()} <= possible


@settings(max_examples=25, deadline=None)
@given(drawn=SPACES, seed=st.integers(0, 2**32 - 1))
def test_gradients(drawn: Drawn, seed: int) -> None:
    space = drawn.space()
    generator = torch.Generator().manual_seed(seed % 2**31)
    weights = torch.randn(2, 3, space.width, generator=generator, dtype=torch.float64, requires_grad=True)
    circuit = space.compile()
    assert torch.autograd.gradcheck(lambda w: circuit.log_wmc(w[0], w[1]), (weights,))
    assert torch.autograd.gradcheck(lambda w: circuit.entropy(w[0], w[1]), (weights,))
