"""Components: what falls apart is solved apart, what is equal is solved once, what nobody asks for is dropped."""

from __future__ import annotations

import numpy as np

from dssl.circuits.compile import search as kernel
from dssl.circuits.compile.budget import Budget
from dssl.circuits.compile.components import COMPONENTS, DECISIONS, HITS, new_stack, smallest_first
from dssl.circuits.compile.problem import Layout, build, lay_out
from dssl.circuits.compile.propagation import WORK
from dssl.circuits.compile.search import Search
from dssl.circuits.jit import entry
from dssl.logic.reasoning.constraints import Constraints, Sum


def solved(constraints: Constraints) -> Search:
    problem = build(constraints, lay_out(constraints, []))
    assert problem is not None
    problem.block[:-1, 5] = range(len(constraints.sizes), 0, -1)
    search = kernel.start(problem, 0)
    while kernel.run(*search[:3], 1000, 10**12, search.margin) != kernel.DONE:
        search = search.with_room(Budget())
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


def test_dropping_a_long_chain_of_hidden_blocks_is_linear() -> None:
    """Each hidden block is defined by the one before it: dropping one frees just that one."""
    work = []
    for n in (500, 1000):
        clauses = [(2 * k + a, 2 * k + 3 - a) for k in range(n) for a in range(2)]
        owners = tuple(k + 1 for k in range(n) for _ in range(2))
        constraints = Constraints(
            (2,) * (n + 1), (False,) * (n + 1), tuple(clauses), (), visible=1, clause_owners=owners
        )
        search = solved(constraints)
        assert search.root == 1
        work.append(int(search.problem.marks[WORK]))
    assert work[1] < 2.5 * work[0]


@entry
def sort_components(t, base):  # type: ignore[no-untyped-def]
    smallest_first(t, base)


def test_small_components_come_first_and_equal_ones_keep_their_order() -> None:
    problem = build(Constraints((2,) * 300, (False,) * 300, (), (), visible=300), lay_out_of(300))
    assert problem is not None
    stack, sizes = new_stack(problem, 0), np.random.default_rng(0).integers(1, 9, 200)
    first = 7 + np.concatenate([[0], np.cumsum(sizes)])
    stack.component[:3] = 99
    stack.component[3:203] = np.stack([first[:-1], first[1:], np.arange(200)], axis=1)
    stack.key[3:203, 0] = np.arange(200)
    stack.counts[COMPONENTS] = 203
    sort_components(stack, np.int64(3))
    order = np.argsort(sizes, kind="stable")
    assert stack.component[3:203, 2].tolist() == order.tolist()
    assert stack.key[3:203, 0].tolist() == order.tolist()
    assert (stack.component[:3] == 99).all()


def lay_out_of(n: int) -> Layout:
    return lay_out(Constraints((2,) * n, (False,) * n, (), (), visible=n), [])
