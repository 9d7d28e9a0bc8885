"""Choices against enumeration: labels' probabilities are products of branch probabilities, and sum to one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
from circuits.strategies import circuit_of, constraint_sets, naive_circuit
from dssl.circuits import branches as module
from dssl.circuits.branches import with_choices
from dssl.circuits.compile.compiler import compile_constraints
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE
from dssl.errors import RuleError
from dssl.logic.space import LabelSpace


def some_phi(choices, seed):
    return np.exp(choices.normalised(np.random.default_rng(seed).normal(0, 2, len(choices.owner))))


def all_labels(circuit):
    """Every combination of values of the space's variables, valid or not, as rows of columns."""
    hard = len(circuit.categorical) - len(circuit.soft)
    blocks = [
        [tuple(i == k for i in range(size)) for k in range(size)] if categorical else [(False,), (True,)]
        for categorical, size in zip(circuit.categorical[:hard], np.diff(circuit.starts))
    ]
    return [sum(parts, ()) for parts in itertools.product(*blocks)]


@settings(deadline=None, max_examples=40)
@given(constraint_sets(soft=2), st.integers(0, 99), st.booleans())
def test_label_probabilities_sum_to_one_over_the_valid_labels_and_are_zero_elsewhere(constraints, seed, plainly):
    valid = oracle.valid_columns(constraints)[:, : int(sum(_widths(constraints)))]
    assume(len(valid))
    names = [f"x{i}" for i in range(valid.shape[1])]
    circuit = naive_circuit(constraints) if plainly else compile_constraints(constraints, names, cache=False)
    choices = with_choices(circuit)
    phi = some_phi(choices, seed)
    inside = {tuple(row) for row in valid.tolist()}
    chances = {label: oracle.branch_probability(choices.circuit, label, phi) for label in all_labels(circuit)}
    assert sum(chances.values()) == pytest.approx(1)
    assert {label for label, chance in chances.items() if chance > 0} == inside
    assert choices.circuit.verify()  # still decomposable and deterministic
    assert choices.width == circuit.width


def _widths(constraints):
    shown = range(constraints.visible)
    return [constraints.sizes[b] if constraints.categorical[b] else 1 for b in shown]


@settings(deadline=None, max_examples=40)
@given(constraint_sets(soft=2), st.integers(0, 99))
def test_shares_of_literal_weights_make_labels_proportional_to_them(constraints, seed):
    rows = oracle.valid_columns(constraints)
    assume(len(rows))
    circuit = naive_circuit(constraints)
    log_pos, log_neg = normal_weights(circuit, seed)
    choices = with_choices(circuit)
    phi = np.exp(choices.log_shares(circuit, log_pos, log_neg))
    p = np.array(constraints.soft)
    wanted = oracle.probabilities(rows, np.append(log_pos, np.log(p)), np.append(log_neg, np.log1p(-p)))
    found = [oracle.branch_probability(choices.circuit, row[: circuit.width], phi) for row in rows.tolist()]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def normal_weights(circuit, seed):
    """Random log weights of literals that sum to one in every variable; 0 for "false" of a categorical value."""
    rng = np.random.default_rng(seed)
    log_pos, log_neg = np.zeros(circuit.width), np.zeros(circuit.width)
    for block in range(len(circuit.categorical) - len(circuit.soft)):
        start, stop = circuit.starts[block : block + 2]
        if circuit.categorical[block]:
            log_pos[start:stop] = np.log(rng.dirichlet(np.ones(stop - start)))
        else:
            log_pos[start], log_neg[start] = np.log(rng.dirichlet(np.ones(2)))
    return log_pos, log_neg


def test_every_branch_that_leaves_a_variable_free_has_its_own_choice():
    choices = with_choices(LabelSpace("a, b, c\na -> b").compile())
    # a and not a; b where a is false; c, which depends on nothing
    assert choices.count == 3
    assert np.bincount(choices.owner).tolist() == [2, 2, 2]
    assert choices.alone.sum() == 2
    assert repr(choices) == "Choices(3 choices, 6 branches, 3 columns)"


def test_a_forest_is_a_product_of_conditionals():
    space = LabelSpace("a\nb: {x, y, z}\nc\nd")  # a → b → d, a → c
    choices = with_choices(space.compile(), [-1, 0, 0, 1])
    assert choices.count == 1 + 2 + 2 + 3  # a; b and c for each value of a; d for each value of b
    assert choices.alone.sum() == 2
    phi = some_phi(choices, 3)
    chance = {row: oracle.branch_probability(choices.circuit, row, phi) for row in all_labels(space.compile())}
    assert sum(chance.values()) == pytest.approx(1)

    def p(**known):
        place = {"a": 0, "x": 1, "y": 2, "z": 3, "c": 4, "d": 5}
        return sum(c for row, c in chance.items() if all(row[place[name]] == v for name, v in known.items()))

    for a, value, c, d in itertools.product([True, False], "xyz", [True, False], [True, False]):
        b = {value: True}
        product = p(a=a) * p(a=a, **b) / p(a=a) * p(a=a, c=c) / p(a=a) * p(d=d, **b) / p(**b)
        assert p(a=a, c=c, d=d, **b) == pytest.approx(product)
    assert p(a=True, c=True) != pytest.approx(p(a=True) * p(c=True))  # and not independent


def test_constants_take_the_place_of_columns():
    choices = with_choices(LabelSpace("a, b\na -> b").compile())
    fixed = choices.fixed([0.25, 0.75, 0.5, 0.5])
    assert fixed.width == 2
    assert fixed.soft == (0.25, 0.75, 0.5, 0.5)


def test_normalised_weights_sum_to_one_even_where_they_are_tiny_or_zero():
    choices = with_choices(LabelSpace("a, b\na -> b").compile())
    log_phi = choices.normalised(np.array([-5000.0, -5001.0, -np.inf, 3.0]))
    np.testing.assert_allclose(np.exp(log_phi), [1 / (1 + np.exp(-1)), 1 / (1 + np.e), 0, 1])


def test_false_branches_are_left_out():
    nodes = [(LITERAL, 1, ()), (LITERAL, -1, ()), (FALSE, 0, ()), (AND, 0, (0, 2)), (OR, 0, (1, 3))]
    choices = with_choices(circuit_of(nodes, [0, 0]))
    assert choices.count == 1  # of the second variable, which is free; the first is false
    assert oracle.branch_probability(choices.circuit, (True, True), [0.5, 0.5]) == 0
    assert oracle.branch_probability(choices.circuit, (False, True), [0.3, 0.7]) == 0.7


def test_what_cannot_be_weighted_is_refused(monkeypatch):
    with pytest.raises(RuleError, match="allow no label"):
        with_choices(circuit_of([(FALSE, 0, ())], [0]))
    monkeypatch.setattr(module, "MOST_BRANCHES", 3)
    with pytest.raises(RuleError, match=r"more than 3 branches[\s\S]*DeterministicPrior\(space, weights=…\)"):
        with_choices(circuit_of([(TRUE, 0, ())], [0, 0]))
