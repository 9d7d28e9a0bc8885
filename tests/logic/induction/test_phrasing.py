"""Cells said as rules mean the cells, no more and no less; graphs against plain loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import oracle
from dssl.logic.induction.phrasing import Phrasing, cliques, closure, member, reduced, said
from dssl.logic.language.variables import Variable
from dssl.logic.space import LabelSpace

SPACE = LabelSpace("a, b, c, d\ns: {x, y, z}\nn: 0..3")
WIDTH = 2 * SPACE.width


def phrasing(counts: Any = None) -> Phrasing:
    return Phrasing(SPACE, np.ones(WIDTH) if counts is None else counts)


def literal_holds(record: dict[str, Any], x: int) -> bool:
    column = SPACE.columns[x // 2]
    name, _, value = column.partition("=")
    true = record[name] if not value else str(record[name]) == value
    return bool(true) is bool(x % 2)


def meaning(formulas: Any) -> list[bool]:
    return [all(oracle.holds(f, r) for f in formulas) for r in oracle.records(SPACE.variables)]


def avoiding(cells: Any) -> list[bool]:
    return [not any(all(literal_holds(r, x) for x in c) for c in cells) for r in oracle.records(SPACE.variables)]


OWNER = phrasing().owner
apart = st.tuples(st.integers(0, WIDTH - 1), st.integers(0, WIDTH - 1)).filter(
    lambda cell: OWNER[cell[0] // 2] < OWNER[cell[1] // 2]
)


@example({(0, 9), (0, 11), (0, 13)})  # no value of s is left beside "not a"
@example({(0, 9), (0, 11), (0, 13), (1, 9), (1, 11), (1, 13)})  # nor beside "a"
@example({(6, 9), (6, 11), (7, 9)})  # s = x never occurs, with d or without
@given(st.sets(apart, max_size=12))
def test_pairs_mean_their_cells(cells: set[tuple[int, int]]) -> None:
    candidates = phrasing().pairs(dict.fromkeys(cells, -1.0))
    assert meaning([f.formula for f in candidates]) == avoiding(cells)


@given(st.sets(st.lists(st.integers(0, 7), min_size=3, max_size=3, unique_by=lambda x: x // 2).map(sorted).map(tuple)))
def test_triples_mean_their_cells(cells: set[tuple[int, ...]]) -> None:
    candidates = phrasing().triples(dict.fromkeys(cells, -1.0))
    assert meaning([f.formula for f in candidates]) == avoiding(cells)


@example({(0, 9), (0, 11), (0, 13)})  # no value of s is left beside "not a"
@given(st.sets(apart, max_size=8))
def test_a_rule_can_only_fail_where_its_premise_holds(cells: set[tuple[int, int]]) -> None:
    for candidate in phrasing().pairs(dict.fromkeys(cells, -1.0)):
        for record in oracle.records(SPACE.variables):
            if candidate.premise is not None and not oracle.holds(candidate.premise, record):
                assert oracle.holds(candidate.formula, record)


def texts(cells: Any, **options: Any) -> list[str]:
    return [str(f.formula) for f in phrasing(**options).pairs(dict.fromkeys(cells, -1.0))]


A, B, C, D = 1, 3, 5, 7  # "a is true" …; one less for false
X, Y, Z = 9, 11, 13  # s = x …
N = [15, 17, 19, 21]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([(A, B)], ["a -> !b"]),
        ([(A, B - 1)], ["a -> b"]),
        ([(A - 1, B)], ["b -> a"]),
        ([(A - 1, B - 1)], ["a | b"]),
        ([(A, B), (A, C), (B, C)], ["at_most(1, a, b, c)"]),
        ([(A - 1, B - 1), (A - 1, C - 1), (B - 1, C - 1)], ["at_least(2, a, b, c)"]),
        ([(A, B - 1), (B, C - 1), (A, C - 1)], ["a -> b", "b -> c"]),  # a -> c follows
        ([(A, B - 1), (B, C), (A, C)], ["a -> b", "b -> !c"]),
        ([(A, X), (A, Y)], ["a -> s = z"]),
        ([(A, X)], ["s = x -> !a"]),
        ([(A, X), (A, Y), (A - 1, Z)], ["a <-> s = z"]),
        ([(A, X), (A - 1, Y), (A - 1, Z)], ["a <-> s in {y, z}"]),
        ([(A, Z - 1)], ["a -> s = z"]),
        ([(A, Z - 1), (A, X), (A, Y)], ["a -> s = z"]),
        ([(A, N[2]), (A, N[3])], ["n >= 2 -> !a"]),
        ([(X, N[0]), (X, N[1])], ["n <= 1 -> s != x"]),
        ([(X, N[1]), (X, N[2])], ["n in {1, 2} -> s != x"]),
    ],
)
def test_wording_of_pairs(cells: Any, expected: list[str]) -> None:
    assert texts(cells) == expected


def test_the_rarer_of_two_that_exclude_each_other_is_the_premise() -> None:
    counts = np.ones(WIDTH)
    counts[A] = 10
    assert texts([(A, B)], counts=counts) == ["b -> !a"]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([(A, B, C - 1)], ["a & b -> c"]),
        ([(A, B - 1, C - 1)], ["a -> b | c"]),
        ([(A - 1, B - 1, C - 1)], ["a | b | c"]),
        ([(A, B, C)], ["at_most(2, a, b, c)"]),
        ([(A, B, X)], ["a & b -> s != x"]),
        ([(A, B, X - 1)], ["a & b -> s = x"]),
        (list(itertools.combinations((A, B, C, D), 3)), ["at_most(2, a, b, c, d)"]),
        (list(itertools.combinations((A - 1, B - 1, C - 1, D - 1), 3)), ["at_least(2, a, b, c, d)"]),
    ],
)
def test_wording_of_triples(cells: Any, expected: list[str]) -> None:
    assert [str(f.formula) for f in phrasing().triples(dict.fromkeys(cells, -1.0))] == expected


def test_forced_values_and_equivalences() -> None:
    p = phrasing()
    found = p.forced([((A,), -1.0), ((B - 1,), -2.0), ((X,), -3.0), ((Y,), -4.0), ((N[0],), -5.0)])
    assert [(str(f.formula), f.log_p) for f in found] == [("!a", -1), ("b", -2), ("s = z", -3), ("n >= 1", -5)]
    assert str(p.equivalence(X, B - 1, -1.0).formula) == "s = x <-> !b"


def test_the_p_value_of_a_group_is_that_of_its_weakest_pair() -> None:
    (group,) = phrasing().pairs({(A, B): -9.0, (A, C): -7.0, (B, C): -8.0})
    assert group.log_p == -7


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sets(st.integers(0, 2), min_size=1, max_size=2)), min_size=1, max_size=3)
)
def test_boxes_are_shut_out(parts: list[tuple[int, set[int]]]) -> None:
    variables = [Variable("a"), Variable.choice("s", "xyz"), Variable.choice("n", range(3))]
    box = {i: {v for v in values if v < len(variables[i].values)} or {0} for i, values in dict(parts).items()}
    box = {i: values if i else {min(values)} for i, values in box.items()}
    formula = said([(variables[i], sorted(values)) for i, values in box.items()])
    for record in oracle.records(variables):
        inside = all(variables[i].positions[record[variables[i].name]] in values for i, values in box.items())
        assert oracle.holds(formula, record) is not inside


def test_runs_of_integers_are_compared() -> None:
    n = Variable.choice("n", (3, 1, 2, 7))
    words = [str(member(n, places)) for places in ([1, 2], [0, 3], [1, 3], [2], [0, 1, 2, 3])]
    assert words == ["n <= 2", "n >= 3", "n in {1, 7}", "n = 2", "n in {3, 1, 2, 7}"]


# ---- graphs ----

graphs = st.integers(2, 8).flatmap(
    lambda n: st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] != e[1])).map(
        lambda edges: (n, edges)
    )
)


@given(graphs)
def test_closure_is_reachability(graph: tuple[int, set[tuple[int, int]]]) -> None:
    n, edges = graph
    step = np.zeros((n, n), dtype=bool)
    for a, b in edges:
        step[a, b] = True
    reach = {a: set() for a in range(n)}
    for a in range(n):
        waiting = [b for x, b in edges if x == a]
        while waiting:
            here = waiting.pop()
            if here not in reach[a]:
                reach[a].add(here)
                waiting += [b for x, b in edges if x == here]
    assert [[b in reach[a] for b in range(n)] for a in range(n)] == closure(step).tolist()


@given(graphs)
def test_cliques_cover_every_triangle_edge_they_can(graph: tuple[int, set[tuple[int, int]]]) -> None:
    n, edges = graph
    joined = np.zeros((n, n), dtype=bool)
    for a, b in edges:
        joined[a, b] = joined[b, a] = True
    for clique in cliques(joined, joined):
        assert len(clique) >= 3
        assert all(joined[a, b] for a, b in itertools.combinations(clique, 2))
    if joined.sum() == n * (n - 1) and n > 2:
        assert [sorted(c) for c in cliques(joined, joined)] == [list(range(n))]


def test_what_follows_from_a_circle_is_not_all_dropped() -> None:
    never = np.zeros((6, 6), dtype=bool)  # a -> b -> c -> a and back: six pairs, each of which goes around
    for x, y in itertools.permutations((1, 3, 5), 2):
        never[x, y ^ 1] = never[y ^ 1, x] = True
    kept, follows = reduced(never, np.zeros_like(never))
    assert kept.any()
    assert (follows | ~never).all()
