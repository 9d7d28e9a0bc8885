"""Tables of the search: nothing of the constraints is lost in them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.circuits.compile.problem import LARGEST, Layout, build, lay_out
from dssl.circuits.compile.records import (
    B_FIRST,
    C_SHARES,
    S_BLOCK,
    S_OUTSIDE,
    S_VALUES,
    T_BLOCK,
    T_COEFFICIENTS,
    Z_INTERVALS,
    Z_TERMS,
    Problem,
    copy,
)
from dssl.circuits.compile.selections import exactly_one_selections
from dssl.errors import RuleError
from dssl.logic.reasoning.constraints import Constraints, Sum


def holds(p: Problem, chosen: tuple[int, ...]) -> bool:
    """Whether one value index a block meets every clause and sum of the tables."""
    value = [p.block[b, B_FIRST] + k for b, k in enumerate(chosen)]

    def inside(i: int) -> bool:
        listed = p.lists[p.share[i, S_VALUES] : p.share[i + 1, S_VALUES]]
        return bool((value[p.share[i, S_BLOCK]] in listed) != p.share[i, S_OUTSIDE])

    def total(z: int) -> int:
        terms = range(p.total[z, Z_TERMS], p.total[z + 1, Z_TERMS])
        return sum(int(p.coefficient[p.term[t, T_COEFFICIENTS] + chosen[p.term[t, T_BLOCK]]]) for t in terms)

    clauses = (range(p.clause[c, C_SHARES], p.clause[c + 1, C_SHARES]) for c in range(len(p.clause) - 1))
    return all(any(inside(i) for i in shares) for shares in clauses) and all(
        any(low <= total(z) <= high for low, high in p.interval[p.total[z, Z_INTERVALS] : p.total[z + 1, Z_INTERVALS]])
        for z in range(len(p.total) - 1)
    )


def original_choice(constraints: Constraints, layout: Layout, chosen: tuple[int, ...]) -> set[int]:
    """The value ids of the constraints that a choice of the problem's values stands for."""
    out = set()
    for b in range(len(constraints.sizes)):
        k = chosen[layout.home_of[b]]
        if layout.position[b] >= 0:
            k = layout.true_value[b] if layout.position[b] == k else 1 - layout.true_value[b]
        out.add(constraints.offsets[b] + k)
    return out


def allowed(constraints: Constraints, chosen: set[int]) -> bool:
    return all(chosen & set(clause) for clause in constraints.clauses) and all(
        any(low <= sum(c for v, c in zip(s.values, s.coefficients) if v in chosen) <= high for low, high in s.intervals)
        for s in constraints.sums
    )


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_tables_allow_what_the_constraints_allow(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 2, 2, 3, 6]), min_size=3, max_size=5))
    n = sum(sizes)
    some = st.lists(st.integers(0, n - 1), min_size=1, max_size=6, unique=True)
    clauses = data.draw(st.lists(some, max_size=4))
    sums = []
    for values in data.draw(st.lists(some, max_size=2)):
        coefficients = data.draw(st.lists(st.integers(-2, 2), min_size=len(values), max_size=len(values)))
        sums.append(Sum(tuple(values), tuple(coefficients), ((-1, 0), (2, 3))))
    ones = [sum(sizes[:b]) + 1 for b, size in enumerate(sizes) if size == 2]
    if len(ones) > 2:
        sums.append(Sum(tuple(ones), (1,) * len(ones), ((1, 1),)))
    constraints = Constraints(
        tuple(sizes), tuple(s != 2 for s in sizes), tuple(map(tuple, clauses)), tuple(sums), visible=len(sizes)
    )
    layout = lay_out(constraints, exactly_one_selections(constraints))
    problem = build(constraints, layout)
    for chosen in itertools.product(*(range(size) for size in layout.sizes)):
        expected = allowed(constraints, original_choice(constraints, layout, chosen))
        assert (problem is not None and holds(problem, chosen)) == expected


def test_a_group_stands_where_its_first_member_stood() -> None:
    constraints = Constraints((2, 3, 2, 2), (False, True, False, False), (), (), visible=4)
    layout = lay_out(constraints, [((0, 1), (2, 0), (3, 1))])
    assert layout.blocks == ((0, 2, 3), (1,))
    assert layout.sizes == (3, 3)


def test_not_this_one_of_many_is_a_list_of_one() -> None:
    constraints = Constraints((100, 2), (True, False), (tuple(range(1, 100)) + (101,),), (), visible=2)
    problem = build(constraints, lay_out(constraints, []))
    assert problem is not None
    assert problem.share[:2, S_OUTSIDE].tolist() == [1, 0]
    assert np.diff(problem.share[:, S_VALUES]).tolist() == [1, 1]


def problem_with(*sums: Sum) -> Problem | None:
    n = max(v for s in sums for v in s.values) // 2 + 1
    constraints = Constraints((2,) * n, (False,) * n, (), sums, visible=n)
    return build(constraints, lay_out(constraints, []))


def test_sums_are_as_small_as_they_can_be() -> None:
    """Terms begin at 0 and have no common divisor; totals that no choice has are left out."""
    problem = problem_with(Sum((1, 2, 5), (6, 9, 12), ((8, 11), (17, 40))))
    assert problem is not None
    assert problem.coefficient.tolist() == [0, 2, 3, 0, 0, 4]  # 6 a + 9 ¬b + 12 c in units of 3
    assert problem.interval.tolist() == [[3, 3], [6, 9]]
    assert problem_with(Sum((1, 3), (2, 2), ((1, 1), (3, 3)))) is None


@pytest.mark.parametrize(("unit", "least", "most"), [(10**18, 2, 4), (-(10**40), 3, 3)])
def test_numbers_of_any_size_are_read(unit: int, least: int, most: int) -> None:
    problem = problem_with(Sum((1, 3, 5), (unit, 2 * unit, 3 * unit), (tuple(sorted((2 * unit - 1, 4 * unit + 1))),)))
    assert problem is not None
    assert problem.interval.tolist() == [[least, most]]


def test_totals_that_64_bits_cannot_hold_are_refused() -> None:
    fits = Sum((1, 3), (LARGEST - 1, 1), ((0, LARGEST - 1),))
    assert problem_with(fits) is not None
    with pytest.raises(RuleError, match=r"a sum of 2 variables has totals up to 2,305.* apart(.|\n)*rounder"):
        problem_with(Sum((1, 3), (LARGEST, 1), ((0, LARGEST),)))
    assert problem_with(Sum((1, 3), (LARGEST, 1), ((0, 2 * LARGEST),))) is not None  # it says nothing


def test_a_copy_has_a_state_of_its_own() -> None:
    constraints = Constraints((2, 2), (False, False), ((1, 3),), (), visible=2)
    problem = build(constraints, lay_out(constraints, []))
    assert problem is not None
    twin = copy(problem)
    twin.value[:] = 7
    assert not (problem.value == 7).any()
