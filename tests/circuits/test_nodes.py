"""Loops over the arrays of a circuit, against the same by recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circuits.strategies import constraint_sets, naive_circuit
from dssl.circuits.circuit import Circuit
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE, levels, log_values


def children(c: Circuit, n: int) -> list[int]:
    return c.child[c.ptr[n] : c.ptr[n + 1]].tolist()


@settings(max_examples=20, deadline=None)
@given(constraint_sets(), st.integers(0, 1000))
def test_levels_and_weights_of_every_node_are_those_of_a_recursion(constraints, seed) -> None:
    c = naive_circuit(constraints)
    weight = np.random.default_rng(seed).uniform(0.1, 1, (int(c.starts[-1]), 2))  # of each column: true, false

    def level(n: int) -> int:
        return max((level(x) + 1 for x in children(c, n)), default=0)

    def value(n: int) -> float:
        if c.kind[n] in (FALSE, TRUE):
            return float(c.kind[n] == TRUE)
        if c.kind[n] == LITERAL:
            return float(weight[abs(c.literal[n]) - 1, int(c.literal[n] < 0)])
        return float((np.prod if c.kind[n] == AND else np.sum)([value(x) for x in children(c, n)]))

    pos, neg = np.log(weight).T.copy()
    assert levels(c.ptr, c.child).tolist() == [level(n) for n in range(c.nodes)]
    found = np.exp(log_values(c.kind, c.literal, c.ptr, c.child, pos, neg))
    assert found.tolist() == pytest.approx([value(n) for n in range(c.nodes)])


def test_kinds_are_numbered_as_in_files() -> None:
    """Saved circuits hold these numbers."""
    assert (FALSE, TRUE, LITERAL, AND, OR) == (0, 1, 2, 3, 4)
