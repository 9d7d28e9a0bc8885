"""Rules → normal form: the same valid labels, each once; soft blocks are the truth of their rules."""

from __future__ import annotations

import math
from unittest import mock

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import oracle
from dssl.logic.language.parser import parse
from dssl.logic.reasoning import normalisation
from dssl.logic.reasoning.constraints import Constraints
from dssl.logic.reasoning.normalisation import normalise
from dssl.logic.space import LabelSpace
from logic.stopwatch import LOADED, best_of_three, within
from logic.strategies import Drawn, drawn_spaces


def normal(text: str) -> Constraints:
    return normalise(*parse(text))


small = drawn_spaces(most=4, labels=16, rules=3, depth=2)
limits = st.sampled_from([(64, 8), (1, 2), (4, 10**9)])  # distributed, named, or named and no tables


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(small, limits)
def test_the_normal_form_has_each_valid_label_once(drawn: Drawn, limit: tuple[int, int]) -> None:
    clauses, rows = limit
    with mock.patch.multiple(normalisation, MAX_CLAUSES=clauses, MIN_TABLE_ROWS=rows):
        rules = drawn.rules()
        constraints = normalise(drawn.variables, rules)
    assume(math.prod(constraints.sizes) <= 3000)
    soft = [s for s, p in zip(drawn.statements, drawn.probabilities) if p is not None]
    assert constraints.soft == tuple(p for p in drawn.probabilities if p is not None)
    expected = [
        (
            *(v.values.index(record[v.name]) for v in drawn.variables),
            *(int(statement.holds(record)) for statement in soft),
        )
        for record in drawn.valid
    ]
    kept = constraints.visible + len(soft)
    assert sorted(choice[:kept] for choice in oracle.choices(constraints)) == sorted(expected)


@settings(deadline=None, max_examples=40)
@given(drawn_spaces(), limits)
def test_the_form_is_as_documented(drawn: Drawn, limit: tuple[int, int]) -> None:
    with mock.patch.multiple(normalisation, MAX_CLAUSES=limit[0], MIN_TABLE_ROWS=limit[1]):
        c = normalise(drawn.variables, drawn.rules())
    block_of = [block for block, size in enumerate(c.sizes) for _ in range(size)]
    assert c.visible == len(drawn.variables)
    assert c.sizes[: c.visible] == tuple(len(v.values) for v in drawn.variables)
    assert c.categorical[: c.visible] == tuple(not v.binary for v in drawn.variables)
    assert len(c.clauses) == len(c.clause_rules) == len(c.clause_owners)
    assert len(c.sums) == len(c.sum_rules) == len(c.sum_owners)
    for clause in c.clauses:
        assert list(clause) == sorted(set(clause))
        assert all(0 <= value < c.offsets[-1] for value in clause)
    for s in c.sums:
        assert len(set(s.values)) == len(s.values) == len(s.coefficients)
        assert all(s.coefficients)
        edges = [edge for interval in s.intervals for edge in interval]
        assert edges == sorted(edges)
        assert all(high + 1 < low for (_, high), (low, _) in zip(s.intervals, s.intervals[1:]))
    for owner, things in (*zip(c.clause_owners, c.clauses), *zip(c.sum_owners, (s.values for s in c.sums))):
        assert owner == -1 or owner >= c.visible
        assert owner == -1 or owner in {block_of[value] for value in things}


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(small, st.sampled_from([1, 64]))
def test_definitions_fix_hidden_blocks_whatever_the_rest_says(drawn: Drawn, clauses: int) -> None:
    with mock.patch.multiple(normalisation, MAX_CLAUSES=clauses, MIN_TABLE_ROWS=10**9):
        c = normalise(drawn.variables, drawn.rules())
    assume(math.prod(c.sizes) <= 3000)
    owned = Constraints(
        c.sizes,
        c.categorical,
        tuple(clause for clause, owner in zip(c.clauses, c.clause_owners) if owner >= 0),
        tuple(s for s, owner in zip(c.sums, c.sum_owners) if owner >= 0),
        c.visible,
        c.soft,
    )
    free = [choice[: c.visible] for choice in oracle.choices(owned)]
    assert len(free) == len(set(free)) == math.prod(c.sizes[: c.visible])


@pytest.mark.parametrize(
    ("text", "clauses", "sums", "hidden"),
    [
        ("a, b\na -> b", 1, 0, 0),
        ("a, b\na <-> b", 2, 0, 0),
        ("a, b\na | !a", 0, 0, 0),
        ("a, b\nfalse", 1, 0, 0),
        ("x: {p, q, r}\nx in {p, q}", 1, 0, 0),
        ("x: {p, q, r}\nx = p | x = q", 1, 0, 0),
        ("n: 0..9\nn >= 3 & n != 5", 2, 0, 0),
        ("a, b, c\nexactly_one(a, b, c)", 0, 1, 0),
        ("a, b, c\nat_least(1, a, b, c)", 1, 0, 0),
        ("a, b, c\nat_most(2, a, b, c)", 1, 0, 0),
        ("a, b, c\nnone(a, b, c)", 3, 0, 0),
        ("a, b, c, d\nd -> at_most(1, a, b, c)", 0, 1, 0),  # a guarded sum needs no helper
        ("a, b, c\na ^ b ^ c", 0, 1, 0),
        ("n: 0..9\nm: 0..9\nn + m = 9", 0, 1, 0),
        ("n: 0..9\nm: 0..9\nn + m <= 18", 0, 0, 0),
        ("n: 0..9\nm: 0..9\nn + m > 18", 1, 0, 0),
        ("n: 0..9\nm: 0..9\nn - n + m = 3", 1, 0, 0),
    ],
)
def test_rules_take_the_smallest_form(text: str, clauses: int, sums: int, hidden: int) -> None:
    c = normal(text)
    assert (len(c.clauses), len(c.sums), len(c.hidden)) == (clauses, sums, hidden)


def test_rows_become_one_hidden_block() -> None:
    rows = " | ".join(f"n = {i} & m = {9 - i}" for i in range(10))
    c = normal(f"n: 0..9\nm: 0..9\n{rows} | n = 0 & m = 9")  # one row twice
    assert [c.sizes[block] for block in c.hidden] == [10]
    assert len(list(oracle.choices(c))) == 10


def test_a_sum_that_is_settled_beside_another() -> None:
    text = "p, q, r\nx: {a, b, c}\nat_most(1, p, q, r) | (x in {a, b} ^ x in {b, c} ^ x in {a, c})"
    assert len(list(oracle.choices(normal(text)))) == 4 * 3


DEEP = 40


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(
            " <-> (".join(f"x{i}" for i in range(DEEP)) + ")" * (DEEP - 1),
            id="equivalences",
        ),
        pytest.param(
            " <-> ".join(f"x{i}" for i in range(DEEP)),
            id="chain of equivalences",
        ),
        pytest.param(" -> ".join(f"x{i}" for i in range(DEEP)), id="implications"),
        pytest.param(
            "".join(f"((x{i} & x{i + 1}) | (" for i in range(0, DEEP, 2)) + "x0" + "))" * (DEEP // 2), id="alternating"
        ),
        pytest.param("(x0 & x1) | " * 20 + "(x2 & x3)", id="products"),
        pytest.param(
            "".join(f"exactly(1, x{i}, x{i + 1}, " for i in range(0, DEEP, 2)) + "x0" + ")" * (DEEP // 2), id="counts"
        ),
        pytest.param(" ^ ".join(f"(x{i} & x{i + 1})" for i in range(DEEP - 1)), id="parity"),
    ],
)
def test_deep_rules_stay_small(rule: str) -> None:
    with within(3):
        c = normal(", ".join(f"x{i}" for i in range(DEEP)) + "\n" + rule)
    assert len(c.clauses) + len(c.sums) < 2000


@pytest.mark.parametrize("n", [13, 24, 40])
def test_long_parities_are_folded_and_count_the_same(n: int) -> None:
    names = ", ".join(f"a{i}" for i in range(n))
    space = LabelSpace(names + "\n" + " ^ ".join(f"a{i}" for i in range(n)))
    assert space.count() == 2 ** (n - 1)
    assert LabelSpace(names + "\nb\nb <-> " + "(" + " ^ ".join(f"a{i}" for i in range(n)) + ")").count() == 2**n
    ones = [{f"a{i}": int(i < k) for i in range(n)} for k in range(n + 1)]
    assert (~space.check(ones).invalid).tolist() == [k % 2 == 1 for k in range(n + 1)]


def test_a_parity_of_a_thousand_terms_is_read_in_a_moment() -> None:
    text = "a[1..1000]\n" + " ^ ".join(f"a[{i}]" for i in range(1, 1001))
    assert best_of_three(lambda: LabelSpace(text)) < 1 * LOADED
    assert LabelSpace(text).count() == 2**999


def test_numbers_that_differ_take_clauses_as_names_do() -> None:
    numbers, names = LabelSpace("x, y: 1..3\nx != y"), LabelSpace("x, y: {a, b, c}\nx != y")
    assert sorted(numbers.constraints.clauses) == sorted(names.constraints.clauses)
    assert not numbers.constraints.sums
    assert LabelSpace("x, y: 0..500\nx != y").constraints.sums  # too many pairs of values: one sum


@pytest.mark.parametrize("op", ["x != 5", "1*x != 5", "x < 5", "x in {1, 2, 0, 3, 5}", "!(x = 5)", "x not in {5, 6}"])
def test_numbers_out_of_reach_are_treated_alike(op: str) -> None:
    space = LabelSpace(f"x: 0..3\n{op}")
    assert space.count() == 4
    assert [finding.kind for finding in space.diagnose().findings] == ["vacuous"]
    assert LabelSpace(str(space)) == space
