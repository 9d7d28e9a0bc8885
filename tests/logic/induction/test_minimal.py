"""Short lists of rules mean exactly the set they were made from, and none of them can be spared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.errors import RuleError
from dssl.logic.induction.minimal import irredundant, rules_of
from dssl.logic.language.formula import Not
from dssl.logic.language.parser import Rule, parse_rules
from dssl.logic.space import LabelSpace
from logic.messages import BadCall, calls_about, check_call
from logic.strategies import Drawn, valid_spaces


def implied(space: LabelSpace, rule: Rule) -> bool:
    """Whether a rule follows from a space: its opposite contradicts it."""
    try:
        space.where(Rule(Not(rule.formula)))
    except RuleError:
        return True
    return False


def spared(space: LabelSpace) -> list[str]:
    """Hard rules that the others imply."""
    out = []
    for i, rule in enumerate(space.rules):
        rest = LabelSpace.of(
            space.variables, [r for j, r in enumerate(space.rules) if j != i and r.probability is None]
        )
        if rule.probability is None and implied(rest, rule):
            out.append(rule.text)
    return out


@settings(max_examples=50)
@given(valid_spaces())
def test_a_space_said_anew_has_the_same_valid_labels(drawn: Drawn) -> None:
    short = rules_of(drawn.space())
    assert list(short.valid()) == drawn.valid
    assert not spared(short)
    hard = [r.text for r in drawn.space().rules if r.probability is None]
    assert sum(len(r.text) for r in short.rules if r.probability is None) <= sum(map(len, hard))
    assert [r for r in short.rules if r.probability is not None] == [
        r for r in drawn.space().rules if r.probability is not None
    ]


rows = st.integers(1, 6).flatmap(
    lambda k: st.sets(st.tuples(*(st.integers(0, 1) for _ in range(k))), min_size=1, max_size=24)
)


@settings(max_examples=80)
@given(rows)
def test_rows_and_back(valid: set[tuple[int, ...]]) -> None:
    """Paper, Eq. 8, in both directions: a set of labels as rules, and the rules' labels."""
    space = rules_of(sorted(valid))
    assert {tuple(map(int, record.values())) for record in space.valid()} == valid
    assert not spared(space)


def test_the_count_is_the_number_of_rows() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2):
        valid = np.unique(rng.integers(0, 2, (40, 8)), axis=0)
        assert rules_of(valid).count() == len(valid)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("exactly_one(a, b, c)", ["exactly_one(a, b, c)"]),
        ("at_most(2, a, b, c, d, e)", ["at_most(2, a, b, c, d, e)"]),
        ("at_most(3, a, b, c, d, e)\nf -> a", ["f -> a", "at_most(3, a, b, c, d, e)"]),
        ("exactly(2, a, b, c, d)", ["exactly(2, a, b, c, d)"]),
        ("a -> b\nb -> c\na -> c", ["a -> b", "b -> c"]),
        ("a <-> b\nb <-> !c", ["a <-> b", "a <-> !c"]),
        ("!a\nb = true", ["!a", "b = true"]),
        ("a & b & c & d -> e", ["a & b & c & d -> e"]),
        ("s = x <-> a\nn >= 2 -> b", ["s = x <-> a", "n = 2 -> b"]),
    ],
)
def test_rows_become_the_rules_they_came_from(rules: str, expected: list[str]) -> None:
    space = LabelSpace("a, b, c, d, e, f\ns: {x, y}\nn: 0..2\n" + rules)
    found = rules_of(list(space.valid()))
    assert [rule.text for rule in found.rules] == expected
    assert found.count() == space.count()


def test_rules_that_are_short_already_stay() -> None:
    parity = LabelSpace("a, b, c, d\na ^ b ^ c ^ d")
    assert rules_of(parity).rules == parity.rules
    assert rules_of(list(parity.valid())).count() == 8


def test_large_sets() -> None:
    space = LabelSpace.attributes(
        [f"x{i}" for i in range(12)], "at_most(4, x0, x1, x2, x3, x4, x5, x6)\nx8 & x9 -> x10"
    )
    found = rules_of(list(space.valid()))
    assert [rule.text for rule in found.rules] == ["at_most(4, x0, x1, x2, x3, x4, x5, x6)", "x8 & x9 -> x10"]


# ---- nothing that follows ----


def kept(text: str, given: str = "") -> list[str]:
    variables = LabelSpace("a, b, c, d").variables
    rules, before = parse_rules(text, variables), parse_rules(given, variables)
    return [rules[i].text for i in irredundant(variables, rules, before)]


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("a -> b\nb -> c\na -> c", "", ["a -> b", "b -> c"]),
        ("a -> c\na -> b\nb -> c", "", ["a -> b", "b -> c"]),
        ("a -> !b\nat_most(1, a, b, c)", "", ["at_most(1, a, b, c)"]),
        ("a -> b", "a -> c\nc -> b", []),
        ("a | !a", "", []),
        ("a <-> b\nb <-> c\nc <-> a", "", ["a <-> b", "b <-> c"]),
        ("0.9 :: a -> b\na -> b", "", ["a -> b"]),
        ("0.9 :: a -> b\n0.8 :: a -> b | c", "", ["0.9 :: a -> b"]),
        ("0.9 :: a -> b\na -> b | c", "", ["0.9 :: a -> b", "a -> b | c"]),  # soft rules spare no hard one
        ("0.9 :: a = true\n0.9 :: !a", "", ["0.9 :: a", "0.9 :: !a"]),
    ],
)
def test_what_follows_is_dropped(text: str, given: str, expected: list[str]) -> None:
    assert kept(text, given) == expected


@settings(max_examples=50)
@given(valid_spaces(soft=False, depth=2))
def test_the_rules_left_mean_the_same(drawn: Drawn) -> None:
    space = drawn.space()
    left = LabelSpace.of(space.variables, [space.rules[i] for i in irredundant(space.variables, space.rules)])
    assert oracle.obeying(left.rules, oracle.records(space.variables)) == drawn.valid
    c = left.constraints
    if set(c.hidden) <= {*c.clause_owners, *c.sum_owners}:  # no table, whose rows exist for valid labels only
        assert not spared(left)


@pytest.mark.parametrize("case", calls_about("minimal"), ids=lambda case: case.reason)
def test_errors(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)
