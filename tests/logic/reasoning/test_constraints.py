"""The normal form itself: how values are numbered and which blocks are hidden."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from dssl.logic.reasoning.constraints import Constraints, Sum, merged


def test_values_are_numbered_through() -> None:
    c = Constraints((2, 3, 2, 2), (False, True, False, False), (), (), visible=2, soft=(0.9,))
    assert c.offsets == (0, 2, 5, 7, 9)
    assert list(c.hidden) == [3]


def test_nothing_is_hidden_without_need() -> None:
    assert list(Constraints((2,), (False,), (), (), visible=1).hidden) == []


@pytest.mark.parametrize(
    ("constraints", "count"),
    [
        (Constraints((2, 3), (False, True), (), (), 2), 6),
        (Constraints((2, 3), (False, True), ((1, 4),), (), 2), 4),  # the binary is true, or the last value is chosen
        (Constraints((2, 2, 2), (False,) * 3, (), (Sum((1, 3, 5), (1, 1, 1), ((0, 0), (2, 2))),), 3), 4),
        (Constraints((2,), (False,), ((),), (), 1), 0),
    ],
)
def test_clauses_and_sums_mean_what_the_docstring_says(constraints: Constraints, count: int) -> None:
    assert len(list(oracle.choices(constraints))) == count


def test_constraints_are_values() -> None:
    a, b = (Constraints((2,), (False,), ((1,),), (), 1) for _ in range(2))
    assert a == b
    assert hash(a) == hash(b)


@given(st.lists(st.tuples(st.integers(-6, 6), st.integers(-6, 6)), max_size=6))
def test_merged_intervals_hold_the_same_numbers_and_never_touch(intervals: list[tuple[int, int]]) -> None:
    out = merged(intervals)
    assert {n for a, b in out for n in range(a, b + 1)} == {n for a, b in intervals for n in range(a, b + 1)}
    assert all(a <= b for a, b in out)
    assert all(a[1] + 1 < b[0] for a, b in pairwise(out))
