"""Constraints on many variables: against their plain meaning, by every route; printed, renamed, put together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.logic.language.formula import Not
from dssl.logic.language.parser import Rule, parse, text_of
from dssl.logic.language.structures.patterns import PATTERNS, Pattern, Tuples
from dssl.logic.space import LabelSpace
from logic.stopwatch import LOADED, best_of_three


def agrees_with_its_twin(text: str) -> LabelSpace:
    """Labels listed, counted and checked are those that the plain meaning of the rules allows; the text reads back."""
    space = LabelSpace(text)
    records = oracle.records(space.variables)
    wanted = [all(oracle.holds(rule.formula, record) for rule in space.rules) for record in records]
    assert list(space.valid()) == [record for record, good in zip(records, wanted) if good]
    assert space.count() == sum(wanted)
    assert np.array_equal(~space.check(records).invalid, wanted)
    bare = [Rule(rule.formula, rule.probability) for rule in space.rules]
    assert parse(text_of(space.variables, bare)) == parse(str(space)) == (space.variables, space.rules)
    return space


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("x[1..3]: 1..3\nall_different(x[*])", 6),
        ("x[1..3]: {a, b, c, d}\nall_different(x[*])", 24),
        ("x: 1..3\ny: 2..4\nz\nall_different(x, y - 1, 2*z)", None),
        ("x[1..3]: 1..2\n!all_different(x[*])", 8),
        ("x: 0..3\ny\ntable(x, y) in {(9, 1), (1, 0), (2, 1)}", 2),
        ("q[1..4]: 1..4\nfor s in {-1, 0, 1}: all_different(q[i] + s*i for i in 1..4)", 2),
        ("x[1..3]: 1..3\nincreasing(x[*])", 10),
        ("x[1..3]: 1..4\nstrictly_increasing(x[*])", 4),
        ("x[1..3], y[1..3]: 0..1\nlex(x[*], y[*])", 36),
        ("x[1..2], y[1..2]: 0..2\nx[1] = 1 -> !lex(x[*], y[*])", None),
        ("x[1..3, 1..3]\npermutation(x[*, *])", 6),
        ("x[1..3, 1..3]\nranking(x[*, *])", 6),
        ("x: 0..2\ny: {p, q}\nb\ntable(x, y, b) in {(0, p, true), (2, q, 0)}", 2),
        ("x, y: 0..3\n" + "table(x, y) in {" + ", ".join(f"({i}, {j})" for i in range(4) for j in range(3)) + "}", 12),
        ("x: 0..2\ny: {p, q}\nb\nb <-> table(x, y) in {(0, p), (2, q)}", 6),
    ],
)
def test_each_against_its_plain_meaning(text: str, count: int | None) -> None:
    space = agrees_with_its_twin(text)
    assert count is None or space.count() == count


@st.composite
def programs(draw) -> str:
    kinds = draw(st.lists(st.sampled_from(["0..2", "1..3", "-1..1", "{0, 3}"]), min_size=1, max_size=4))
    names = [f"x{i}" for i in range(len(kinds))]
    operand = st.builds(
        lambda name, c, d: f"{c}*{name} + {d}", st.sampled_from(names), st.sampled_from([-1, 1, 2]), st.integers(0, 2)
    )
    function = draw(st.sampled_from(["all_different", "increasing", "strictly_increasing", "lex"]))
    operands = draw(st.lists(operand, min_size=2, max_size=4).map(lambda o: o[: len(o) // 2 * 2]))
    sign = draw(st.sampled_from(["", "!", "x0 > 0 -> ", "x0 < 1 | !", "exactly_one(x0 < 1, %s)"]))
    body = f"{function}({', '.join(operands)})"
    declared = "\n".join(f"{name}: {kind}" for name, kind in zip(names, kinds))
    return f"{declared}\n" + (sign % body if "%" in sign else sign + body)


@settings(deadline=None, max_examples=60)
@given(programs())
def test_random_patterns_wherever_a_formula_stands(text: str) -> None:
    variables, (rule,) = parse(text)
    if any(oracle.holds(rule.formula, record) for record in oracle.records(variables)):
        agrees_with_its_twin(text)


def test_every_pattern_has_an_example_that_reads() -> None:
    head = "x[1..2, 1..2], before[1..2, 1..2]\nn[1..2], y[1..2]: 0..3\n"
    for name, meaning in PATTERNS.items():
        example = meaning.example if meaning.binary else meaning.example.replace("x[*]", "n[*]")
        (rule,) = parse(head + example)[1]
        assert isinstance(rule.formula, Pattern)
        assert rule.formula.function == name


def test_renaming_reaches_every_operand() -> None:
    space = LabelSpace(
        "x, y: 0..2\nb\nall_different(x, y + 1)\ntable(x, b) in {(1, 0), (2, 1)}\ncount(x = 1, b) + y <= 2"
    )
    renamed = space.rename({"x": "u", "b": "c"})
    assert {name for rule in renamed.rules for name in rule.formula.names()} == {"u", "y", "c"}
    assert renamed.count() == space.count()
    assert LabelSpace(str(renamed)) == renamed


def test_rules_of_one_space_fit_another() -> None:
    space = LabelSpace("x[1..3]: 1..3\nall_different(x[*])")
    assert LabelSpace("x[1..3]: 1..3").where(*space.rules).count() == 6
    assert (space & LabelSpace("x[1..3]: 1..3\nx[1] < x[2]")).count() == 3
    assert (space | LabelSpace("x[1..3]: 1..3\nx[1] = x[2]")).count() == 6 + 9


def test_what_a_table_says() -> None:
    formula = Tuples(("x", "b"), ((1, True), (2, False)))
    assert str(formula) == "table(x, b) in {(1, true), (2, false)}"
    assert str(Not(formula)) == "!table(x, b) in {(1, true), (2, false)}"


def test_more_variables_than_values_clash_at_once() -> None:
    (rule,) = parse("x[1..40]: 1..39\nall_different(x[*])")[1]
    text = "x[1..40]: 1..39\na\na -> all_different(x[*])"
    assert best_of_three(lambda: LabelSpace(text)) < 1 * LOADED
    assert LabelSpace(text).decode(LabelSpace(text).complete([{}]))[0]["a"] is False
    assert len(rule.formula.names()) == 40


@pytest.mark.parametrize("n", [8, 9])
def test_permutations_are_counted(n: int) -> None:
    assert LabelSpace(f"x[1..{n}]: 1..{n}\nall_different(x[*])").count() == math.factorial(n)
