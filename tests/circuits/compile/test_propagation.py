"""Propagation: sound, complete for single constraints, and undone without a trace."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.circuits.compile.problem import build, lay_out
from dssl.circuits.compile.propagation import (
    ALLOWED,
    BLOCKS,
    CONFLICT,
    FIXPOINT,
    UNFINISHED,
    WORK,
    assign,
    propagate,
    queue_all,
    undo,
)
from dssl.circuits.compile.records import V_ALIVE, Problem, copy
from dssl.circuits.jit import entry
from dssl.logic.reasoning.constraints import Constraints, Sum


@entry
def settled(p, v):  # type: ignore[no-untyped-def]
    """Settle; then, for v >= 0, choose v; whether no conflict was met."""
    queue_all(p)
    end = propagate(p)
    if end == FIXPOINT and v >= 0 and p.value[v, V_ALIVE] != 0:
        assign(p, v)
        end = propagate(p)
    return end == FIXPOINT


@entry
def settled_in_steps(p):  # type: ignore[no-untyped-def]
    """Settle, stopping as often as that can be done; how often it stopped, or -1 after a conflict."""
    queue_all(p)
    stops = 0
    while True:
        p.marks[WORK] = 1
        p.marks[ALLOWED] = 1
        end = propagate(p)
        if end != UNFINISHED:
            return -1 if end == CONFLICT else stops
        stops += 1


@entry
def there_and_back(p, v):  # type: ignore[no-untyped-def]
    """Choose v after settling and take it back."""
    removed, assigned, retired, changed = p.marks[0], p.marks[1], p.marks[2], p.marks[3]
    assign(p, v)
    propagate(p)
    undo(p, removed, assigned, retired, changed)


def problem_of(sizes: tuple[int, ...], clauses: list[tuple[int, ...]], *sums: Sum) -> Problem | None:
    constraints = Constraints(sizes, (True,) * len(sizes), tuple(clauses), sums, visible=len(sizes))
    problem = build(constraints, lay_out(constraints, []))
    if problem is not None:
        problem.marks[ALLOWED] = 10**9
    return problem


def living(p: Problem) -> list[int]:
    return np.flatnonzero(p.value[:-1, V_ALIVE]).tolist()


def test_a_unit_clause_leaves_its_values() -> None:
    p = problem_of((3, 2), [(0, 1)])
    assert p is not None
    assert settled(p, -1)
    assert living(p) == [0, 1, 3, 4]


def test_clauses_chain() -> None:
    p = problem_of((2, 2, 2), [(1,), (0, 3), (2, 5)])
    assert p is not None
    assert settled(p, -1)
    assert living(p) == [1, 3, 5]


def test_a_sum_rules_out_what_leaves_no_total() -> None:
    p = problem_of((4, 4), [], Sum((1, 2, 3, 5, 6, 7), (1, 2, 3, 1, 2, 3), ((0, 0), (5, 9))))
    assert p is not None
    assert settled(p, -1)
    assert living(p) == [0, 2, 3, 4, 6, 7]
    assert settled(p, 3)
    assert living(p) == [3, 6, 7]


def test_conflicts_are_found() -> None:
    p = problem_of((2, 2), [(1,), (0, 3), (0, 2)])
    assert p is not None
    assert not settled(p, -1)
    p = problem_of((2, 2), [(1,)], Sum((1, 3), (2, 3), ((1, 1), (4, 4))))
    assert p is not None
    assert not settled(p, -1)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_nothing_valid_is_ruled_out_and_undo_leaves_no_trace(data: st.DataObject) -> None:
    sizes = tuple(data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=4)))
    n = sum(sizes)
    clauses = data.draw(st.lists(st.lists(st.integers(0, n - 1), min_size=1, max_size=6, unique=True), max_size=4))
    values = data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True))
    coefficients = data.draw(st.lists(st.integers(-3, 3), min_size=len(values), max_size=len(values)))
    total = Sum(tuple(values), tuple(coefficients), ((-2, -1), (1, 1), (4, 6)))
    p = problem_of(sizes, [tuple(c) for c in clauses], total)
    starts = np.cumsum([0, *sizes])
    valid = []
    for picked in itertools.product(*(range(s) for s in sizes)):
        chosen = {int(starts[b]) + k for b, k in enumerate(picked)}
        amount = sum(c for v, c in zip(values, coefficients) if v in chosen)
        if all(chosen & set(c) for c in clauses) and any(a <= amount <= b for a, b in total.intervals):
            valid.append(chosen)
    if p is None or not settled(p, -1):
        assert not valid
        return
    assert set().union(*valid) <= set(living(p))
    before = copy(p)
    for v in living(p):
        there_and_back(p, v)
        for field in ("value", "block", "share", "clause", "term", "total"):
            # trails and queues keep what was last in them; their lengths are what counts
            columns = {"value": [2], "block": [6, 7, 8], "share": [4], "clause": [2, 3, 4], "term": [3, 4]}
            checked = columns.get(field, [5, 6, 7, 8])
            assert np.array_equal(getattr(p, field)[:, checked], getattr(before, field)[:, checked]), field
        assert np.array_equal(p.key, before.key)
        assert np.array_equal(p.marks[: BLOCKS + 1], before.marks[: BLOCKS + 1])


def test_a_long_way_to_the_fixpoint_can_be_interrupted() -> None:
    """a < b and b < a over a thousand values: each pass rules out a value or two, and only then a conflict is met."""
    n = 1000
    less = Sum(tuple(range(2 * n)), (*range(n), *(-k for k in range(n))), ((-n, -1),))
    more = Sum(tuple(range(2 * n)), (*range(n), *(-k for k in range(n))), ((1, n),))
    p = problem_of((n, n), [], less, more)
    assert p is not None
    twin = copy(p)
    assert not settled(p, -1)
    stops = 0
    queue_all_of(twin)
    while (end := propagate_a_little(twin)) == UNFINISHED:
        stops += 1
    assert end == CONFLICT
    assert stops > n // 2


@entry
def queue_all_of(p):  # type: ignore[no-untyped-def]
    queue_all(p)


@entry
def propagate_a_little(p):  # type: ignore[no-untyped-def]
    p.marks[WORK] = 0
    p.marks[ALLOWED] = 1000
    return propagate(p)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_stopping_in_between_does_not_change_the_fixpoint(data: st.DataObject) -> None:
    sizes = tuple(data.draw(st.lists(st.integers(2, 6), min_size=2, max_size=4)))
    n = sum(sizes)
    clauses = data.draw(st.lists(st.lists(st.integers(0, n - 1), min_size=1, max_size=6, unique=True), max_size=4))
    coefficients = data.draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    p = problem_of(
        sizes,
        [tuple(c) for c in clauses],
        *(Sum(tuple(range(n)), tuple(coefficients), (e,)) for e in ((-4, 2), (0, 9))),
    )
    if p is None:
        return
    twin = copy(p)
    stops = settled_in_steps(twin)
    assert settled(p, -1) == (stops >= 0)
    if stops >= 0:
        assert living(p) == living(twin)
