"""Implications without a circle: what follows from them, against the SAT solver and against enumeration."""

from __future__ import annotations

import time

import numpy as np
import pytest

import oracle
from dssl.errors import DataError
from dssl.logic.reasoning.implications import Implications
from dssl.logic.space import LabelSpace
from logic.hierarchies import hierarchy, partly_known


@pytest.mark.parametrize("seed", range(40))
def test_check_and_complete_say_what_the_solver_says(seed: int) -> None:
    """The same rules as clauses are no implications, so the SAT solver is asked about them."""
    space, clauses = hierarchy(seed), hierarchy(seed, written="!{} | {}")
    assert space.implications is not None
    assert clauses.implications is None
    rows = partly_known(seed, 60, space.width)
    quick, slow = space.check(rows), clauses.check(rows)
    np.testing.assert_array_equal(quick.invalid, slow.invalid)
    np.testing.assert_array_equal(quick.broken, slow.broken)
    np.testing.assert_array_equal(quick.impossible, slow.impossible)
    fine = rows[~quick.invalid]
    np.testing.assert_array_equal(space.complete(fine), clauses.complete(fine))
    partial = rows[np.isnan(rows).any(axis=1)]
    if lost := len(space.check(partial)):
        with pytest.raises(DataError, match=f"{lost} rows cannot be completed"):
            space.complete(partial)


@pytest.mark.parametrize("seed", range(10))
def test_rules_named_together_leave_no_label_and_none_is_spared(seed: int) -> None:
    space = hierarchy(seed, classes=9, share=0.25)
    rows = partly_known(seed, 80, 9)
    found = space.check(rows)
    for row in np.flatnonzero(found.impossible):
        used = np.flatnonzero(found.jointly[row])
        known = rows[row : row + 1]
        assert LabelSpace.of(space.variables, [space.rules[i] for i in used]).check(known)
        for spared in used:
            rest = [space.rules[i] for i in used if i != spared]
            assert not LabelSpace.of(space.variables, rest).check(known)


def test_spreading_is_the_smallest_valid_label_above() -> None:
    space = hierarchy(3)
    valid = oracle.valid_columns(space.constraints).astype(bool)
    for marks in np.random.default_rng(0).random((50, 7)) < 0.3:
        above = valid[(valid >= marks).all(axis=1)]
        below = valid[~(valid & marks).any(axis=1)]
        assert space.implications is not None
        np.testing.assert_array_equal(space.implications.upward(marks[None])[0], above.all(axis=0))
        np.testing.assert_array_equal(~space.implications.downward(marks[None])[0], below.any(axis=0))


@pytest.mark.parametrize(
    "text",
    ["a, b", "a, b\na -> !b", "a, b\na -> b\nb -> a", "a, b\na -> a", "a, b\n0.9 :: a -> b", "a\nb: 1..2\na -> b = 1"],
)
def test_other_rules_are_not_implications(text: str) -> None:
    space = LabelSpace(text)
    assert Implications.of(space.variables, space.rules) is None


def test_single() -> None:
    for text, single in {"a -> b\nc -> b": True, "a -> b\na -> b": True, "a -> b\na -> c": False}.items():
        found = LabelSpace("a, b, c\n" + text).implications
        assert found is not None
        assert found.single is single


def test_long_chains_and_wide_rows_take_linear_time() -> None:
    n = 2000
    space = LabelSpace.hierarchy([(f"k{i + 1}", f"k{i}") for i in range(n - 1)])
    rows = np.full((20, n), np.nan, dtype=np.float32)
    rows[:, space.columns.index(f"k{n - 1}")] = 1
    began = time.perf_counter()
    assert (space.complete(rows) == 1).all()
    assert time.perf_counter() - began < 5  # a solver takes minutes
