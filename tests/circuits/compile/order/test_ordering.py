"""Elimination orders of small graphs whose best order is known, and what orders of large ones cost."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dssl.circuits.compile.budget import Budget
from dssl.circuits.compile.order import ordering
from dssl.circuits.compile.order.ordering import LARGE, adjacency, cliques, rank_by_degree, rank_by_fill
from dssl.circuits.compile.problem import build, lay_out
from dssl.circuits.compile.records import Problem
from dssl.errors import BudgetError
from dssl.logic.reasoning.constraints import Constraints, Sum

Edges = list[tuple[int, int]]


def problem_of(n: int, edges: Edges, *sums: Sum) -> Problem:
    clauses = tuple((2 * a + 1, 2 * b + 1) for a, b in edges)
    constraints = Constraints((2,) * n, (False,) * n, clauses, sums, visible=n)
    problem = build(constraints, lay_out(constraints, []))
    assert problem is not None
    return problem


def order(problem: Problem, fill: bool) -> np.ndarray:
    rank = rank_by_fill(problem, Budget()) if fill else rank_by_degree(problem, Budget())[0]
    assert rank is not None
    return rank


def slow_width(n: int, edges: Edges, rank: np.ndarray) -> int:
    near: list[set[int]] = [set() for _ in range(n)]
    for a, b in edges:
        near[a].add(b)
        near[b].add(a)
    width = 0
    for b in np.argsort(rank).tolist():
        width = max(width, len(near[b]))
        for a in near[b]:
            near[a] |= near[b]
            near[a] -= {a, b}
    return width


def random_edges(n: int, share: float, seed: int) -> Edges:
    random = np.random.default_rng(seed)
    return [(a, b) for a, b in itertools.combinations(range(n), 2) if random.random() < share]


@pytest.mark.parametrize("fill", [False, True])
def test_widths_of_known_graphs(fill: bool) -> None:
    path = [(k, k + 1) for k in range(99)]
    cycle = [*path, (99, 0)]
    grid = [(5 * r + c, 5 * r + c + 1) for r in range(5) for c in range(4)]
    grid += [(5 * r + c, 5 * r + c + 5) for r in range(4) for c in range(5)]
    complete = list(itertools.combinations(range(8), 2))
    for n, edges, width in ((100, path, 1), (100, cycle, 2), (25, grid, 5), (8, complete, 7)):
        problem = problem_of(n, edges)
        rank = order(problem, fill)
        assert sorted(rank.tolist()) == list(range(n))
        assert slow_width(n, edges, rank) == width
        assert rank_by_degree(problem, Budget())[1] == width


@pytest.mark.parametrize("seed", range(5))
def test_the_width_told_is_the_width_of_the_order(seed: int) -> None:
    edges = random_edges(90, 0.04, seed)
    rank, width = rank_by_degree(problem_of(90, edges), Budget())
    assert width == slow_width(90, edges, rank)


@pytest.mark.parametrize("seed", range(5))
def test_fill_in_is_as_good_as_degree_or_better(seed: int) -> None:
    edges = random_edges(90, 0.04, seed)
    problem = problem_of(90, edges)
    assert slow_width(90, edges, order(problem, True)) <= rank_by_degree(problem, Budget())[1]


def test_a_large_constraint_keeps_the_order_in_which_it_was_written() -> None:
    n = LARGE + 10
    problem = problem_of(n, [], Sum(tuple(range(1, 2 * n, 2)), (1,) * n, ((0, 5),)))
    assert rank_by_degree(problem, Budget())[1] == 1
    for fill in (False, True):
        assert order(problem, fill).tolist() == list(range(n))


def test_adjacency_has_a_bit_for_each_neighbour() -> None:
    bits = np.unpackbits(adjacency(problem_of(70, [(0, 69), (3, 64)])).view(np.uint8), axis=1, bitorder="little")
    assert np.argwhere(bits).tolist() == [[0, 69], [3, 64], [64, 3], [69, 0]]


def test_cliques_are_constraints_and_pairs_of_large_ones() -> None:
    n = LARGE + 1
    s = Sum(tuple(range(1, 2 * n, 2)), (1,) * n, ((0, 5),))
    sizes, member = cliques(problem_of(n, [(0, 2), (1, 2)], s, Sum((1, 3, 5), (1, 1, 1), ((0, 1),))))
    assert sizes.tolist() == [2, 2, 3, *[2] * LARGE]
    pairs = [b for k in range(LARGE) for b in (k, k + 1)]
    assert member.tolist() == [0, 2, 1, 2, 0, 1, 2, *pairs]


# ---- what it costs ----


def work_of(n: int, edges: Edges, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Members looked at, and bytes of the graph, for an order by degree."""
    made = []
    new_graph = ordering.elimination.new_graph
    with monkeypatch.context() as patch:
        patch.setattr(ordering.elimination, "new_graph", lambda *given: made.append(new_graph(*given)) or made[0])
        rank_by_degree(problem_of(n, edges), Budget())
    return made[0].work, sum(array.nbytes for array in made[0])


def tree(n: int) -> Edges:
    random = np.random.default_rng(0)
    return [(k, int(random.integers(0, k))) for k in range(1, n)]


def band(n: int) -> Edges:
    return [(a, b) for a in range(n) for b in range(a + 1, min(a + 4, n))]


@pytest.mark.parametrize("graph", [tree, band])
def test_work_and_memory_grow_with_the_graph(graph, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    small, large = (work_of(n, graph(n), monkeypatch) for n in (4000, 16_000))
    assert 3 < large[0] / small[0] < 5
    assert 3.9 < large[1] / small[1] < 4.1


def test_work_is_bounded_where_the_graph_has_no_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many random edges as blocks: the last third is next to itself, which no order can mend."""
    monkeypatch.setattr(ordering, "MORE_CELLS", 0)
    random = np.random.default_rng(0)
    for n in (2000, 8000):
        edges = [(int(a), int(b)) for a, b in random.integers(0, n, (2 * n, 2)) if a != b]
        work, _ = work_of(n, edges, monkeypatch)
        assert work < 1.1 * (ordering.MOST_CELLS + 10) * (n + 4 * n)
        rank, width = rank_by_degree(problem_of(n, edges), Budget())
        assert sorted(rank.tolist()) == list(range(n))
        assert width > n / 10


def test_orders_by_fill_in_are_for_graphs_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(100, [(k, k + 1) for k in range(99)])
    monkeypatch.setattr(ordering, "MOST_BLOCKS", 99)
    assert rank_by_fill(problem, Budget()) is None
    monkeypatch.setattr(ordering, "MOST_BLOCKS", 100)
    assert rank_by_fill(problem, Budget()) is not None
    monkeypatch.setattr(ordering, "MOST_WORDS", 10)
    monkeypatch.setattr(ordering, "SLICE", 1)
    assert rank_by_fill(problem, Budget()) is None


@pytest.mark.parametrize("fill", [False, True])
def test_orders_are_made_in_slices_and_within_the_budget(fill: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(90, random_edges(90, 0.04, 0))
    whole = order(problem, fill)
    monkeypatch.setattr(ordering, "SLICE", 50)
    assert np.array_equal(order(problem, fill), whole)
    with pytest.raises(BudgetError, match="budget of 0 s"):
        (rank_by_fill if fill else rank_by_degree)(problem, Budget(seconds=0))


def test_the_graph_is_counted_before_it_is_made() -> None:
    with pytest.raises(BudgetError, match=r"budget of 0\.0 MiB"):
        rank_by_degree(problem_of(90, random_edges(90, 0.04, 0)), Budget(nbytes=1000))
