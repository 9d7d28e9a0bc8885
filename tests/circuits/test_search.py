"""The search: the same answer in one run or in many, with any order, while its arrays grow."""

from __future__ import annotations

import numpy as np
import pytest

from dssl.circuits import search as kernel
from dssl.circuits.components import DECISIONS, NEED
from dssl.circuits.nodes import CHILDREN, NODES, START
from dssl.circuits.problem import B_RANK, Problem, build, lay_out
from dssl.circuits.search import Search
from dssl.logic.constraints import Constraints


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
        status = kernel.run(*search[:3], steps, search.margin)
        slices += 1
        if status == kernel.DONE:
            return search, slices
        if status == kernel.FULL:
            search = search.with_room()


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
    while kernel.run(*search[:3], 10**9, search.margin) != kernel.DONE:
        lacking.append(search.store.sizes[CHILDREN] + search.stack.counts[NEED] - len(search.store.child))
        search = search.with_room()
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
    while kernel.run(*search[:3], 500, search.margin) != kernel.DONE:
        search = search.with_room()
        shares.append(search.share())
    assert search.root > 0
    assert shares[0] == 0
    assert all(0 <= share <= 1 for share in shares)
    assert max(shares) > 0.5
