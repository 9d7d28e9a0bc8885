"""Elimination orders of small graphs whose best order is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dssl.circuits.ordering import LARGE, adjacency, elimination_rank
from dssl.circuits.problem import Problem, build, lay_out
from dssl.logic.constraints import Constraints, Sum


def problem_of(n: int, edges: list[tuple[int, int]], *sums: Sum) -> Problem:
    clauses = tuple((2 * a + 1, 2 * b + 1) for a, b in edges)
    constraints = Constraints((2,) * n, (False,) * n, clauses, sums, visible=n)
    problem = build(constraints, lay_out(constraints, []))
    assert problem is not None
    return problem


def slow_width(n: int, edges: list[tuple[int, int]], rank: np.ndarray) -> int:
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


@pytest.mark.parametrize("fill", [False, True])
def test_widths_of_known_graphs(fill: bool) -> None:
    path = [(k, k + 1) for k in range(99)]
    cycle = [*path, (99, 0)]
    grid = [(5 * r + c, 5 * r + c + 1) for r in range(5) for c in range(4)]
    grid += [(5 * r + c, 5 * r + c + 5) for r in range(4) for c in range(5)]
    complete = list(itertools.combinations(range(8), 2))
    for n, edges, width in ((100, path, 1), (100, cycle, 2), (25, grid, 5), (8, complete, 7)):
        rank, found = elimination_rank(problem_of(n, edges), fill)
        assert sorted(rank.tolist()) == list(range(n))
        assert found == slow_width(n, edges, rank)
        assert found == width


@pytest.mark.parametrize("seed", range(5))
def test_the_width_told_is_the_width_of_the_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    edges = [(a, b) for a, b in itertools.combinations(range(90), 2) if random.random() < 0.04]
    for fill in (False, True):
        rank, width = elimination_rank(problem_of(90, edges), fill)
        assert width == slow_width(90, edges, rank)


def test_a_large_constraint_keeps_the_order_in_which_it_was_written() -> None:
    n = LARGE + 10
    rank, width = elimination_rank(problem_of(n, [], Sum(tuple(range(1, 2 * n, 2)), (1,) * n, ((0, 5),))), fill=True)
    assert width == 1
    assert rank.tolist() == list(range(n))


def test_adjacency_has_a_bit_for_each_neighbour() -> None:
    bits = np.unpackbits(adjacency(problem_of(70, [(0, 69), (3, 64)])).view(np.uint8), axis=1, bitorder="little")
    assert np.argwhere(bits).tolist() == [[0, 69], [3, 64], [64, 3], [69, 0]]
