"""Good circuits are proven good, by either route, and each way of being broken is caught with a counter-example."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circuits.strategies import circuit_of, constraint_sets, naive_circuit
from circuits.test_circuit import ladder
from dssl.circuits.circuit import Circuit
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE
from dssl.circuits.verification import verify


def holds(circuit: Circuit, label: tuple[bool, ...]) -> list[bool]:
    """Whether each node holds for a label, one node after the other."""
    out: list[bool] = []
    for node, kind in enumerate(circuit.kind.tolist()):
        below = [out[x] for x in circuit.child[circuit.ptr[node] : circuit.ptr[node + 1]]]
        literal = int(circuit.literal[node])
        leaf = kind == TRUE or (kind == LITERAL and label[abs(literal) - 1] == (literal > 0))
        out.append(all(below) if kind == AND else any(below) if kind == OR else leaf)
    return out


@settings(max_examples=80, deadline=None)
@given(constraint_sets())
def test_expansions_are_proven(constraints):
    circuit = naive_circuit(constraints)
    report = verify(circuit)
    assert report
    assert report.ors_by_values + report.ors_by_sat == (circuit.kind == OR).sum()
    assert (report.node, report.shared, report.label) == (None, (), None)


def test_an_and_that_shares_a_variable():
    nodes = [(LITERAL, 1, ()), (LITERAL, 2, ()), (AND, 0, (0, 1)), (LITERAL, -2, ()), (AND, 0, (2, 3))]
    report = verify(circuit_of(nodes, [0, 0], names=["legs", "fins"]))
    assert not report
    assert (report.decomposable, report.deterministic) == (False, True)
    assert (report.node, report.shared) == (4, ("fins",))


def test_an_and_of_two_values_of_one_variable():
    nodes = [(LITERAL, 1, ()), (LITERAL, 2, ()), (AND, 0, (0, 1))]
    report = verify(circuit_of(nodes, [3], names=["k=a", "k=b", "k=c"]))
    assert (report.decomposable, report.node, report.shared) == (False, 2, ("k=a", "k=b", "k=c"))


@pytest.mark.parametrize(
    ("nodes", "sizes"),
    [
        ([(LITERAL, 1, ()), (LITERAL, 2, ()), (OR, 0, (0, 1))], [0, 0]),
        ([(LITERAL, 1, ()), (LITERAL, 4, ()), (OR, 0, (0, 1))], [3, 3]),
        ([(LITERAL, 1, ()), (TRUE, 0, ()), (OR, 0, (0, 1))], [0]),
        ([(LITERAL, 1, ()), (OR, 0, (0, 0))], [0, 0]),
        ([(LITERAL, 1, ()), (LITERAL, -2, ()), (OR, 0, (0, 1)), (LITERAL, 3, ()), (AND, 0, (2, 3))], [0, 0, 2]),
    ],
)
def test_an_or_whose_children_overlap(nodes, sizes):
    circuit = circuit_of(nodes, sizes)
    report = verify(circuit)
    assert not report
    assert not report.deterministic
    assert circuit.kind[report.node] == OR
    held = holds(circuit, report.label)
    children = circuit.child[circuit.ptr[report.node] : circuit.ptr[report.node + 1]]
    assert sum(held[x] for x in children) >= 2
    for first, last, kind in zip(circuit.starts, circuit.starts[1:], circuit.categorical):
        assert not kind or sum(report.label[first:last]) == 1


def exclusive_only_together(overlap: bool) -> Circuit:
    """(a xor b) or not (a xor b): no single column tells the children apart."""
    nodes = [(LITERAL, 1, ()), (LITERAL, -1, ()), (LITERAL, 2, ()), (LITERAL, -2, ())]
    nodes += [(AND, 0, (0, 3)), (AND, 0, (1, 2)), (OR, 0, (4, 5))]
    nodes += [(AND, 0, (0, 3 if overlap else 2)), (AND, 0, (1, 3)), (OR, 0, (7, 8)), (OR, 0, (6, 9))]
    return circuit_of(nodes, [0, 0])


def test_the_solver_proves_what_values_do_not_show():
    report = verify(exclusive_only_together(overlap=False))
    assert report
    assert (report.ors_by_values, report.ors_by_sat) == (2, 1)
    broken = verify(exclusive_only_together(overlap=True))
    assert not broken.deterministic
    assert (broken.node, broken.label) == (10, (True, False))


def test_categorical_values_exclude_each_other_in_the_solver():
    nodes = [(LITERAL, k, ()) for k in range(1, 7)]  # two blocks of three
    nodes += [(AND, 0, (i, 3 + i)) for i in range(3)] + [(OR, 0, (6, 7, 8))]
    nodes += [(AND, 0, (i, 3 + (i + 1) % 3)) for i in range(3)] + [(OR, 0, (10, 11, 12)), (OR, 0, (9, 13))]
    report = verify(circuit_of(nodes, [3, 3]))
    assert report
    assert report.ors_by_sat == 1


def test_a_child_that_is_false_overlaps_with_nothing():
    nodes = [(FALSE, 0, ()), (LITERAL, 1, ()), (OR, 0, (0, 1)), (TRUE, 0, ()), (AND, 0, (2, 3))]
    assert verify(circuit_of(nodes, [0]))


@settings(max_examples=100, deadline=None)
@given(constraint_sets(soft=0), st.randoms(use_true_random=False))
def test_random_damage_is_judged_as_enumeration_judges_it(constraints, rng: random.Random):
    circuit = naive_circuit(constraints)
    edges = np.flatnonzero(np.repeat(circuit.kind, np.diff(circuit.ptr)) >= AND)
    if not len(edges):
        return
    child = circuit.child.copy()
    edge = rng.choice(edges.tolist())
    upper = int(np.searchsorted(circuit.ptr, edge, side="right")) - 1
    child[edge] = rng.randrange(upper)
    fields = (circuit.kind, circuit.literal, circuit.ptr, child, circuit.starts, circuit.categorical, circuit.names)
    damaged = Circuit(*fields)
    assert verify(damaged).deterministic == (overlaps(damaged) == 0)


def overlaps(circuit: Circuit) -> int:
    """How often two children of an OR hold at once, over all labels."""
    import oracle
    from dssl.logic.reasoning.constraints import Constraints

    sizes = tuple(int(s) if k else 2 for s, k in zip(np.diff(circuit.starts), circuit.categorical))
    every = oracle.valid_columns(Constraints(sizes, tuple(circuit.categorical.tolist()), (), (), len(sizes)))
    found = 0
    for label in every.tolist():
        held = holds(circuit, tuple(label))
        for node in np.flatnonzero(circuit.kind == OR):
            found += sum(held[x] for x in circuit.child[circuit.ptr[node] : circuit.ptr[node + 1]]) > 1
    return found


@pytest.mark.compiled
def test_a_hundred_thousand_edges_take_seconds():
    circuit = ladder(5600)
    assert circuit.edges > 100_000
    start = time.perf_counter()
    assert verify(circuit)
    assert time.perf_counter() - start < 10
