"""Components: what falls apart is solved apart, what is equal is solved once, what nobody asks for is dropped."""

from __future__ import annotations

from dssl.circuits import search as kernel
from dssl.circuits.components import DECISIONS, HITS
from dssl.circuits.problem import build, lay_out
from dssl.circuits.search import Search
from dssl.logic.constraints import Constraints, Sum


def solved(constraints: Constraints) -> Search:
    problem = build(constraints, lay_out(constraints, []))
    assert problem is not None
    problem.block[:-1, 5] = range(len(constraints.sizes), 0, -1)
    search = kernel.start(problem, 0)
    while kernel.run(*search[:3], 1000, search.margin) != kernel.DONE:
        search = search.with_room()
    return search


def test_independent_parts_add_up_instead_of_multiplying() -> None:
    n = 30
    clauses = tuple((4 * k + 1, 4 * k + 3) for k in range(n))
    search = solved(Constraints((2,) * (2 * n), (False,) * (2 * n), clauses, (), visible=2 * n))
    assert search.stack.counts[DECISIONS] == n


def test_sums_with_the_same_remainder_are_one_component() -> None:
    """At most 5 of 40: what matters is how many are left to choose, not which were chosen."""
    n = 40
    search = solved(Constraints((2,) * n, (False,) * n, (), (Sum(tuple(range(1, 2 * n, 2)), (1,) * n, ((0, 5),)),), n))
    assert search.stack.counts[DECISIONS] <= 6 * n
    assert search.stack.counts[HITS] > n


def test_a_hidden_block_that_nobody_uses_costs_nothing() -> None:
    clauses = ((4, 1, 3), (5, 0), (5, 2))  # block 2 is hidden: true exactly when block 0 or block 1 is
    definition = {"clause_owners": (2, 2, 2)}
    search = solved(Constraints((2, 2, 2), (False,) * 3, clauses, (), visible=2, **definition))  # type: ignore[arg-type]
    assert search.stack.counts[DECISIONS] == 0
    assert search.root == 1


def test_hidden_blocks_are_dropped_from_the_outermost_in() -> None:
    """Block 3 is defined by block 2, which is defined by 0 and 1; nobody asks for 3, so both go."""
    clauses = ((4, 1, 3), (5, 0), (5, 2), (6, 5), (7, 4))
    owners = (2, 2, 2, 3, 3)
    search = solved(Constraints((2,) * 4, (False,) * 4, clauses, (), visible=2, clause_owners=owners))
    assert search.root == 1
