"""The search: the same answer in one run or in many, with any order, while its arrays grow."""

from __future__ import annotations

import numpy as np
import pytest

from dssl.circuits.compile import search as kernel
from dssl.circuits.compile.budget import Budget
from dssl.circuits.compile.components import DECISIONS, LAST_STAMP, NEED, STAMP, STEPS
from dssl.circuits.compile.problem import build, lay_out
from dssl.circuits.compile.records import B_RANK, Problem
from dssl.circuits.compile.search import Search
from dssl.circuits.compile.store import CHILDREN, NODES, START
from dssl.errors import BudgetError
from dssl.logic.reasoning.constraints import Constraints


def problem_of(seed: int, n: int = 25, ratio: float = 2.5) -> Problem:
    random = np.random.default_rng(seed)
    clauses = [
        tuple((2 * random.choice(n, 3, False) + random.integers(0, 2, 3)).tolist()) for _ in range(int(n * ratio))
    ]
    constraints = Constraints((2,) * n, (False,) * n, tuple(clauses), (), visible=n)
    problem = build(constraints, lay_out(constraints, []))
    assert problem is not None
    problem.block[:-1, B_RANK] = random.permutation(n)
    return problem


def finish(search: Search, steps: int) -> tuple[Search, int]:
    """Run to the end in slices; how many it took."""
    slices = 0
    while True:
        status = kernel.run(*search[:3], steps, 10**12, search.margin)
        slices += 1
        if status == kernel.DONE:
            return search, slices
        if status == kernel.FULL:
            search = search.with_room(Budget())


def models(search: Search, n: int) -> float:
    """The share of all choices that the root allows."""
    store = search.store
    share = np.zeros(search.root + 1)
    share[1:2] = 1.0
    share[2 : 2 + 2 * n] = 0.5
    for node in range(2 + 2 * n, search.root + 1):
        kind, start = store.node[node]
        below = share[store.child[start : store.node[node + 1, START]]]
        share[node] = np.prod(below) if kind == 3 else np.dot(below[::2], below[1::2])
    return float(share[search.root])


@pytest.mark.parametrize("seed", range(4))
def test_slices_do_not_change_the_answer(seed: int) -> None:
    whole, one = finish(kernel.start(problem_of(seed), 0), 10**9)
    sliced, many = finish(kernel.start(problem_of(seed), 0), 7)
    assert many > one
    assert whole.root == sliced.root
    assert np.array_equal(whole.store.sizes, sliced.store.sizes)


@pytest.mark.parametrize("seed", range(4))
def test_slices_of_work_do_not_change_the_answer(seed: int) -> None:
    whole, _ = finish(kernel.start(problem_of(seed), 0), 10**9)
    search, slices = kernel.start(problem_of(seed), 0), 0
    while (status := kernel.run(*search[:3], 10**9, 50, search.margin)) != kernel.DONE:
        slices += 1
        search = search.with_room(Budget()) if status == kernel.FULL else search
    assert slices > 20
    assert whole.root == search.root
    assert whole.stack.counts[STEPS] == search.stack.counts[STEPS]


@pytest.mark.parametrize("before", [0, 1, 5, 50])
def test_stamps_that_are_used_up_begin_anew(before: int) -> None:
    """Stamps are kept in 32 bits: without a new beginning, members would be counted again and again."""
    fresh, _ = finish(kernel.start(problem_of(1), 0), 10**9)
    search = kernel.start(problem_of(1), 0)
    search.stack.counts[STAMP] = LAST_STAMP - before
    search, _ = finish(search, 10**9)
    assert 0 < search.stack.counts[STAMP] < LAST_STAMP
    assert search.root == fresh.root
    assert np.array_equal(search.store.sizes, fresh.store.sizes)


def test_a_search_that_cannot_grow_says_so() -> None:
    search = kernel.start(problem_of(1, n=40, ratio=1.8), 40)
    assert kernel.run(*search[:3], 10**9, 10**12, search.margin) == kernel.FULL
    with pytest.raises(BudgetError, match=r"more than the budget of 0\.0 MiB"):
        search.with_room(Budget(nbytes=1 << 10))
    assert search.with_room(Budget()).nbytes > search.nbytes


def test_the_bytes_that_a_search_begins_with_are_known_before() -> None:
    for problem in (problem_of(0), problem_of(0, n=300, ratio=1.0)):
        assert kernel.start(problem, 0).nbytes == kernel.bytes_needed(problem)


@pytest.mark.parametrize("seed", range(4))
def test_any_order_gives_the_same_count(seed: int) -> None:
    counts = set()
    for weight in (0, 3, 1000):
        search, _ = finish(kernel.start(problem_of(seed), weight), 1000)
        counts.add(round(models(search, 25) * 2**25))
    assert len(counts) == 1


def test_arrays_grow_when_they_must() -> None:
    search, _ = finish(kernel.start(problem_of(1, n=40, ratio=1.8), 40), 10**9)
    assert search.store.sizes[NODES] > 4096
    assert len(search.store.node) > search.store.sizes[NODES]


def test_a_decision_with_more_children_than_there_is_room_for() -> None:
    """Each of n values settles n binaries: the decision has n² children, many times what is kept free for one step."""
    n = 110
    bits = np.random.default_rng(0).integers(0, 2, (n, n))
    clauses = [  # value v is not chosen, or binary b is bits[v, b]
        (*(w for w in range(n) if w != v), n + 2 * b + int(bits[v, b])) for v in range(n) for b in range(n)
    ]
    constraints = Constraints((n, *(2,) * n), (True, *(False,) * n), tuple(clauses), (), visible=n + 1)
    problem = build(constraints, lay_out(constraints, []))
    assert problem is not None
    problem.block[:-1, B_RANK] = np.arange(n, -1, -1)  # the values first
    search, lacking = kernel.start(problem, 0), []
    while kernel.run(*search[:3], 10**9, 10**12, search.margin) != kernel.DONE:
        lacking.append(search.store.sizes[CHILDREN] + search.stack.counts[NEED] - len(search.store.child))
        search = search.with_room(Budget())
    assert lacking[-1] > 0  # it stopped at the decision, whose children are as many as those of its products
    assert search.stack.counts[NEED] == n * n > 3 * search.margin
    assert search.stack.counts[DECISIONS] == 1
    start = search.store.node[search.root, START]
    pairs = search.store.child[start : search.store.node[search.root + 1, START]].reshape(-1, 2)
    assert len(pairs) == n
    for v, (value, product) in enumerate(sorted(pairs.tolist())):
        below = search.store.child[search.store.node[product, START] : search.store.node[product + 1, START]]
        assert value == 2 + v
        assert sorted(below.tolist()) == [2 + n + 2 * b + int(bits[v, b]) for b in range(n)]


def test_the_share_done_rises_to_one() -> None:
    search = kernel.start(problem_of(2, n=40, ratio=1.8), 40)
    shares = [search.share()]
    while kernel.run(*search[:3], 500, 10**12, search.margin) != kernel.DONE:
        search = search.with_room(Budget())
        shares.append(search.share())
    assert search.root > 0
    assert shares[0] == 0
    assert all(0 <= share <= 1 for share in shares)
    assert max(shares) > 0.5
