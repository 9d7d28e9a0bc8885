"""Exactly-one selections, from sums and from clauses."""

from __future__ import annotations

import itertools

from dssl.circuits.compile.selections import exactly_one_selections
from dssl.logic.reasoning.constraints import Constraints, Sum


def binaries(n: int, clauses: list[tuple[int, ...]], *sums: Sum) -> Constraints:
    return Constraints((2,) * n, (False,) * n, tuple(clauses), sums, visible=n)


def test_coefficients_may_have_any_common_step_and_sign() -> None:
    three_of_minus_two = Sum((1, 3, 5), (-2, -2, -2), ((-3, -1),))
    assert exactly_one_selections(binaries(3, [], three_of_minus_two)) == [((0, 1), (1, 1), (2, 1))]


def test_all_but_one_is_a_group_of_the_negations() -> None:
    assert exactly_one_selections(binaries(4, [], Sum((1, 3, 5, 7), (1,) * 4, ((3, 3),)))) == [
        ((0, 0), (1, 0), (2, 0), (3, 0))
    ]


def test_other_sums_are_no_groups() -> None:
    for intervals in (((0, 1),), ((1, 2),), ((0, 0),), ((1, 1), (3, 3))):
        assert exactly_one_selections(binaries(3, [], Sum((1, 3, 5), (1, 1, 1), intervals))) == []
    assert exactly_one_selections(binaries(3, [], Sum((1, 3, 5), (1, 1, 2), ((1, 1),)))) == []


def test_a_clause_with_all_its_pairs_is_a_group() -> None:
    literals = [0, 3, 5]  # not a, b, c
    pairs = [(v ^ 1, w ^ 1) for v, w in itertools.combinations(literals, 2)]
    assert exactly_one_selections(binaries(3, [tuple(literals), *pairs])) == [((0, 0), (1, 1), (2, 1))]
    assert exactly_one_selections(binaries(3, [tuple(literals), *pairs[1:]])) == []


def test_groups_are_disjoint_and_larger_ones_win() -> None:
    small, large = Sum((1, 3, 5), (1,) * 3, ((1, 1),)), Sum((5, 7, 9, 11), (1,) * 4, ((1, 1),))
    assert exactly_one_selections(binaries(6, [], small, large)) == [((2, 1), (3, 1), (4, 1), (5, 1))]


def test_what_defines_a_hidden_block_makes_no_group() -> None:
    one = Sum((1, 3, 5), (1,) * 3, ((1, 1),))
    hidden = Constraints((2,) * 4, (False,) * 4, (), (one,), visible=3, sum_owners=(3,))
    assert exactly_one_selections(hidden) == []
