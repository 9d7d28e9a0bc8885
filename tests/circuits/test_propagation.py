"""Propagation: sound, complete for single constraints, and undone without a trace."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from dssl.circuits.problem import V_ALIVE, Problem, build, copy, lay_out
from dssl.circuits.propagation import assign, propagate, settle, undo
from dssl.logic.constraints import Constraints, Sum


@njit
def settled(p, v):  # type: ignore[no-untyped-def]
    """Settle; then, for v >= 0, choose v; whether no conflict was met."""
    good = settle(p)
    if good and v >= 0 and p.value[v, V_ALIVE] != 0:
        assign(p, v)
        good = propagate(p)
    return good


@njit
def there_and_back(p, v):  # type: ignore[no-untyped-def]
    """Choose v after settling and take it back."""
    removed, assigned, retired, changed = p.marks[0], p.marks[1], p.marks[2], p.marks[3]
    assign(p, v)
    propagate(p)
    undo(p, removed, assigned, retired, changed)


def problem_of(sizes: tuple[int, ...], clauses: list[tuple[int, ...]], *sums: Sum) -> Problem | None:
    constraints = Constraints(sizes, (True,) * len(sizes), tuple(clauses), sums, visible=len(sizes))
    return build(constraints, lay_out(constraints, []))


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
    p = problem_of((2, 2), [(1,)], Sum((1, 3), (2, 2), ((1, 1), (3, 3), (5, 6))))
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
        assert np.array_equal(p.marks, before.marks)
