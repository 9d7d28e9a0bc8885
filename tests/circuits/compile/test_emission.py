"""Emission: shared tails once, chains nobody shares flat, selections linear."""

from __future__ import annotations

import numpy as np

from dssl.circuits.compile.compiler import compile_constraints
from dssl.circuits.compile.emission import LARGE_GROUP
from dssl.circuits.nodes import AND, LITERAL, OR
from dssl.logic.reasoning.constraints import Constraints, Sum


def compiled(n: int, *sums: Sum, clauses: tuple[tuple[int, ...], ...] = ()):  # type: ignore[no-untyped-def]
    names = tuple(f"x{k}" for k in range(n))
    return compile_constraints(Constraints((2,) * n, (False,) * n, clauses, sums, visible=n), names, cache=False)


def test_forced_literals_make_one_flat_and() -> None:
    circuit = compiled(5, clauses=tuple((2 * k + k % 2,) for k in range(5)))
    assert circuit.kind.tolist() == [LITERAL] * 5 + [AND]
    assert sorted(circuit.literal[:5].tolist()) == [-5, -3, -1, 2, 4]
    assert sorted(circuit.child.tolist()) == [0, 1, 2, 3, 4]


def test_tails_of_forced_literals_are_shared() -> None:
    """None after the chosen ones: with a product for each, at most 3 of 60 would have thousands of edges more."""
    circuit = compiled(60, Sum(tuple(range(1, 120, 2)), (1,) * 60, ((0, 3),)))
    assert circuit.edges < 60 * 4 * 6


def test_small_and_large_groups() -> None:
    for n in (LARGE_GROUP, LARGE_GROUP + 1, 100):
        circuit = compiled(n, Sum(tuple(range(1, 2 * n, 2)), (1,) * n, ((1, 1),)))
        assert circuit.kind[-1] == OR
        assert circuit.edges <= max(n * n + n, 8 * n)


def test_no_node_has_a_single_parent_of_its_own_kind() -> None:
    circuit = compiled(12, *(Sum((1, 3, 5, 7, 9), (1,) * 5, ((1, 3),)), Sum((9, 11, 13, 15), (1,) * 4, ((2, 2),))))
    parents = np.bincount(circuit.child, minlength=circuit.nodes)
    for node in range(circuit.nodes):
        for child in circuit.child[circuit.ptr[node] : circuit.ptr[node + 1]]:
            assert parents[child] > 1 or circuit.kind[child] != circuit.kind[node] or circuit.kind[child] == LITERAL
