"""The program of a circuit: no value changes, no slot is overwritten while needed, and its marks are right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from circuits.strategies import circuit_of, constraint_sets, naive_circuit
from dssl.circuits.circuit import Circuit
from dssl.circuits.evaluate.program import build_program, program_of
from dssl.circuits.evaluate.words import FIRST, HEAD, LAST, SLOT, TAIL, TOUCH
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE

many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def leaf_weights(circuit: Circuit, seed: int) -> np.ndarray:
    """Random weights of slots 2·column and 2·column + 1 that sum to one over each variable; then 1 and 0."""
    rng = np.random.default_rng(seed)
    out = np.zeros(2 * circuit.starts[-1] + 2)
    for start, end, categorical in zip(circuit.starts[:-1], circuit.starts[1:], circuit.categorical):
        if categorical:
            out[2 * start : 2 * end : 2] = rng.dirichlet(np.ones(end - start))
        else:
            out[2 * start : 2 * start + 2] = rng.dirichlet([1, 1])
    out[-2] = 1
    return out


def value_of(circuit: Circuit, leaves: np.ndarray) -> float:
    """The circuit's value, node by node."""
    values: list[float] = []
    for n in range(circuit.nodes):
        below = [values[x] for x in circuit.child[circuit.ptr[n] : circuit.ptr[n + 1]]]
        literal = int(circuit.literal[n])
        leaf = leaves[2 * abs(literal) - 2 + (literal < 0)]
        values.append({FALSE: 0, TRUE: 1, LITERAL: leaf, AND: math.prod(below), OR: sum(below)}[circuit.kind[n]])
    return float(values[-1])


def stretches(program) -> list[tuple[list[list[int]], int]]:
    """The stream as nodes: (products as lists of words, the slot word)."""
    nodes, products, factors, words = [], [], [], iter(program.stream.tolist())
    for word in words:
        factors.append(word)
        if word & LAST:
            products.append(factors)
            factors = []
            if word & TAIL:
                nodes.append((products, next(words)))
                products = []
    assert not products
    assert not factors
    return nodes


def run(program, leaves: np.ndarray) -> float:
    table = np.full(program.slots, np.nan)
    table[: len(leaves)] = leaves
    for products, target in stretches(program):
        table[target & SLOT] = sum(math.prod(table[w & SLOT] for w in factors) for factors in products)
    return float(table[program.root])


@many
@given(constraint_sets())
def test_simplification_changes_no_value(constraints):
    circuit = naive_circuit(constraints)
    leaves = leaf_weights(circuit, circuit.nodes)
    assert run(build_program(circuit), leaves) == pytest.approx(value_of(circuit, leaves), rel=1e-12, abs=1e-15)


def test_a_changed_program_would_be_noticed():
    circuit = naive_circuit_of_pairs(6)
    program, leaves = build_program(circuit), leaf_weights(circuit, 0)
    program.stream[0] ^= 2  # another literal
    assert run(program, leaves) != pytest.approx(value_of(circuit, leaves), rel=1e-6)


@many
@given(constraint_sets())
def test_marks_tell_where_products_begin_and_values_end(constraints):
    circuit = naive_circuit(constraints)
    program = build_program(circuit)
    named: set[int] = set()
    for products, target in reversed(stretches(program)):
        named.discard(target & SLOT)
        for i, factors in reversed(list(enumerate(products))):
            assert bool(factors[-1] & HEAD) == (i == 0)
            assert bool(factors[-1] & TAIL) == (i == len(products) - 1)
            for j, word in reversed(list(enumerate(factors))):
                assert bool(word & FIRST) == (j == 0)
                slot = word & SLOT
                assert bool(word & TOUCH) == (slot >= 2 * program.columns + 2 and slot not in named)
                named.add(slot)
    assert program.biases == sum(len(products) - 1 for products, _ in stretches(program))


@many
@given(constraint_sets())
def test_mantissas_stay_within_their_bits(constraints):
    program = build_program(naive_circuit(constraints))
    bits = np.ones(program.slots)
    for products, target in stretches(program):
        sizes = [sum(bits[w & SLOT] for w in factors) for factors in products]
        assert max(sizes) <= 120
        bits[target & SLOT] = 1 if target & LAST else max(sizes) + len(products) - 1


def test_words_lead_to_the_nodes_that_wrote_the_values():
    program = build_program(naive_circuit_of_pairs(8))
    owner, ends = program.walk
    position, choices = 0, 0
    writer: dict[int, int] = {}
    for node, (products, target) in enumerate(stretches(program)):
        for word in [w for factors in products for w in factors]:
            assert owner[position] == writer.get(word & SLOT, -1)
            position += 1
        choices += len(products) - 1
        assert owner[position] == node
        assert ends[node].tolist() == [position, choices]
        writer[target & SLOT] = node
        position += 1
    assert len(ends) == program.nodes == node + 1


def naive_circuit_of_pairs(n: int) -> Circuit:
    """x₁ ⊕ x₂ ⊕ … ⊕ x_n: a chain of decisions whose nodes all have two parents."""
    nodes = [(LITERAL, sign * (i + 1), ()) for i in range(n) for sign in (1, -1)]
    even, odd = 2 * n - 1, 2 * n - 2
    for i in range(n - 2, -1, -1):
        at = len(nodes)
        nodes += [(AND, 0, (2 * i, even)), (AND, 0, (2 * i + 1, odd)), (OR, 0, (at, at + 1))]
        nodes += [(AND, 0, (2 * i, odd)), (AND, 0, (2 * i + 1, even)), (OR, 0, (at + 3, at + 4))]
        odd, even = at + 2, at + 5
    nodes.append((AND, 0, (odd,)))
    return circuit_of(nodes, [0] * n)


def test_slots_are_reused():
    program = build_program(naive_circuit_of_pairs(200))
    assert program.slots - 2 * program.columns - 2 <= 5
    assert program.biases >= 300


def test_constants_fold():
    x, not_x, y = (LITERAL, 1, ()), (LITERAL, -1, ()), (LITERAL, 2, ())
    free = circuit_of([x, not_x, (OR, 0, (0, 1)), y, (AND, 0, (2, 3))], [0, 0])
    program = build_program(free)
    assert [w & SLOT for products, _ in stretches(program) for factors in products for w in factors] == [2]
    nothing = circuit_of([x, (FALSE, 0, ()), (AND, 0, (0, 1))], [0])
    assert run(build_program(nothing), leaf_weights(nothing, 0)) == 0
    everything = circuit_of([(TRUE, 0, ()), (AND, 0, (0,))], [0])
    assert run(build_program(everything), leaf_weights(everything, 0)) == 1


def test_products_of_literals_that_occur_often_are_shared():
    n = 12
    nodes = [(LITERAL, sign * (i + 1), ()) for i in range(n) for sign in (1, -1)]
    common = tuple(range(0, 8, 2))  # four literals
    terms = []
    for i in range(8, 2 * n - 2, 2):  # times "two neighbours agree"
        at = len(nodes)
        nodes += [(AND, 0, (i, i + 2)), (AND, 0, (i + 1, i + 3)), (OR, 0, (at, at + 1)), (AND, 0, (*common, at + 2))]
        terms.append(at + 3)
        common = common[::-1]
    circuit = circuit_of([*nodes, (OR, 0, tuple(terms))], [0] * n)
    leaves, program = leaf_weights(circuit, 1), build_program(circuit)
    assert sorted(len(products) for products, _ in stretches(program)) == [1, *[2] * 7, 7]
    assert run(program, leaves) == pytest.approx(value_of(circuit, leaves))


@pytest.mark.parametrize("size", [63, 64, 65, 5000])
def test_long_products_are_cut(size):
    nodes = [(LITERAL, i + 1, ()) for i in range(size)]
    circuit = circuit_of([*nodes, (AND, 0, tuple(range(size)))], [0] * size)
    program = build_program(circuit)
    assert max(len(factors) for products, _ in stretches(program) for factors in products) <= 64
    leaves = leaf_weights(circuit, 0) ** 0.01
    assert run(program, leaves) == pytest.approx(value_of(circuit, leaves), rel=1e-9)


def test_a_program_is_built_once():
    circuit = naive_circuit_of_pairs(3)
    assert program_of(circuit) is program_of(circuit)
