"""Fuzzy relaxations against the textbook, and against exact probabilities."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.logic.language.formula import And, Compare, Count, Formula, Iff, Implies, In, Is, Not, Or, Truth, Xor
from dssl.logic.language.parser import Rule
from dssl.logic.space import LabelSpace
from dssl.priors import ExclusivityPrior
from dssl.priors.tnorms import TNormPrior
from priors.cases import FUZZY, RULED, SPACES, logits_of

SPACE = LabelSpace("a, b, c\ncolour: {red, green, blue}\nn: 0..2\nm: 0..3")
atoms = st.one_of(
    st.sampled_from([Is("a"), Is("b"), Is("c"), Truth(True)]),
    st.sampled_from([In("colour", ("red",)), In("colour", ("red", "blue"))]),
    st.sampled_from([Compare(((1, "n"), (1, "m")), ">=", ((3, None),)), Compare(((2, "n"),), "=", ((1, "m"),))]),
)


def larger(parts: st.SearchStrategy) -> st.SearchStrategy:
    several = st.lists(parts, min_size=2, max_size=4).map(tuple)
    return st.one_of(
        parts.map(Not),
        several.map(And),
        several.map(Or),
        several.map(Xor),
        st.builds(Implies, parts, parts),
        st.builds(Iff, parts, parts),
        st.builds(Count, st.sampled_from(["<=", ">=", "="]), st.integers(0, 4), several),
    )


formulas = st.recursive(atoms, larger, max_leaves=8)


def chance(space: LabelSpace, logits: torch.Tensor):
    """The probability of an atom, by enumerating the variables it mentions."""
    theta = {}
    for variable, (start, stop) in zip(space.variables, space.spans):
        z = logits[start:stop]
        theta[variable.name] = (
            [1 - z.sigmoid().item(), z.sigmoid().item()] if variable.binary else z.softmax(-1).tolist()
        )
    values = {v.name: v.values for v in space.variables}

    def of(atom: Formula) -> float:
        names = sorted(atom.names())
        total = 0.0
        for picked in itertools.product(*(range(len(values[name])) for name in names)):
            record = {name: values[name][i] for name, i in zip(names, picked)}
            if holds(atom, record):
                total += math.prod(theta[name][i] for name, i in zip(names, picked))
        return total

    return of


def holds(atom: Formula, record: dict) -> bool:
    match atom:
        case Is(name):
            return record[name]
        case In(name, wanted):
            return record[name] in wanted
        case Compare(left, op, right):
            sides = [sum(c * (1 if n is None else int(record[n])) for c, n in side) for side in (left, right)]
            return {">=": sides[0] >= sides[1], "=": sides[0] == sides[1]}[op]
    raise TypeError(atom)


@pytest.mark.parametrize("logic", FUZZY)
@settings(max_examples=120, deadline=None)
@given(formula=formulas, seed=st.integers(0, 2**31))
def test_against_the_textbook(logic, formula, seed):
    # A rule that contradicts itself is no space: the parser's check is passed by.
    space = LabelSpace.of(SPACE.variables, (Rule(Is("a")),))
    space.rules = (Rule(formula), Rule(Is("a"), 0.9))
    z = logits_of(space, 3, seed=seed)
    for row, found in zip(z, TNormPrior(space, logic).log_prob(z).exp()):
        of = chance(space, row)
        t = of(Is("a"))
        rules = [oracle.fuzzy(formula, logic, of), 0.9 * t + 0.1 * (1 - t)]
        expected = oracle.fuzzy(And((Is("0"), Is("1"))), logic, lambda atom, r=rules: r[int(atom.name)])
        assert found.item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("space", RULED)
def test_the_product_is_the_probability_where_no_variable_occurs_twice(space):
    once = LabelSpace("a, b, c, d\nn: 0..3\n(a -> b) & (c | d)\nn >= 2")
    z = logits_of(once, 5)
    torch.testing.assert_close(TNormPrior(once)(z), ExclusivityPrior(once)(z))
    twice, z = SPACES[space], logits_of(SPACES[space], 5)
    if space != "rule":
        assert (TNormPrior(twice)(z) - ExclusivityPrior(twice)(z)).abs().max() > 1e-3


def test_truth_depends_on_how_a_rule_is_written():
    same = [LabelSpace("a, b", rule) for rule in ("a -> b", "(a -> b) & (a -> b)")]
    z = logits_of(same[0], 1)
    q = [TNormPrior(space)(z).item() for space in same]
    assert q[1] == pytest.approx(2 * q[0])
    exact = [ExclusivityPrior(space)(z).item() for space in same]
    assert exact[0] == pytest.approx(exact[1])


@pytest.mark.parametrize("logic", FUZZY)
def test_vertices_have_the_truth_value_of_logic(logic):
    for name in RULED:
        space = SPACES[name]
        if space.constraints.soft:
            continue
        rows = torch.from_numpy(oracle.valid_columns(space.constraints)[:, : space.width]).double()
        assert TNormPrior(space, logic)(100 * (2 * rows - 1)).exp().min().item() == pytest.approx(1)
        torch.testing.assert_close(TNormPrior(space, logic)(0 * rows, rows).exp(), torch.ones(len(rows)).double())
        if logic == "product":
            assert TNormPrior(space, logic)(0 * rows).exp().max() < 1


def test_contradictory_evidence_weighs_nothing():
    space, broken = SPACES["rule"], torch.ones(1, 2)
    for logic in ("product", "goedel"):
        assert TNormPrior(space, logic)(torch.zeros(1, 2), broken).item() == -math.inf
    assert TNormPrior(space, "lukasiewicz")(torch.zeros(1, 2), broken).item() < -80


def test_misfits_are_refused():
    with pytest.raises(ValueError, match="no logic 'fuzzy'"):
        TNormPrior(SPACES["rule"], "fuzzy")
    with pytest.raises(ValueError, match="has none"):
        TNormPrior(SPACES["mix"])


@pytest.mark.parametrize("logic", FUZZY)
def test_nan_is_not_mistaken_for_false(logic):
    z = torch.tensor([[1.0, 2.0, -1.0], [1.0, math.nan, -1.0]])
    for rules in ("a | b", "at_least(2, a, b, c)", "a -> b"):
        out = TNormPrior(LabelSpace(f"a, b, c\n{rules}"), logic)(z)
        assert out.isnan().tolist() == [False, True]
