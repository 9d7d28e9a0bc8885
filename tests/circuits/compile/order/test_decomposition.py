"""Orders from the middle of a graph: known middles, names that do not matter, and what they cost."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from circuits.compile.order.test_ordering import Edges, problem_of, random_edges
from dssl.circuits.compile.budget import Budget
from dssl.circuits.compile.order import decomposition
from dssl.circuits.compile.order.decomposition import outwards, rank_from_centre, unpacked
from dssl.circuits.compile.order.ordering import adjacency, degrees, eliminated_by_fill
from dssl.errors import BudgetError


def bags_of(n: int, edges: Edges) -> tuple[np.ndarray, np.ndarray]:
    """When each block is eliminated, and (n, n) which neighbours it had then."""
    bits = adjacency(problem_of(n, edges))
    rank, _ = eliminated_by_fill(bits, np.arange(len(bits)), Budget())
    assert rank is not None
    return rank, unpacked(bits)


def slow_order(rank: np.ndarray, later: np.ndarray) -> list[tuple[int, int]]:
    """For each block how far its nearest bag is from the middle of a tree, negative, and when it was eliminated."""
    n = len(rank)
    near: list[set[int]] = [set() for _ in range(n)]
    for b in range(n):
        if later[b].any():
            parent = min(np.flatnonzero(later[b]).tolist(), key=lambda a: rank[a])
            near[b].add(parent)
            near[parent].add(b)

    def distances(start: int) -> dict[int, int]:
        found, waiting = {start: 0}, [start]
        while waiting:
            b = waiting.pop()
            fresh = near[b] - found.keys()
            found |= dict.fromkeys(fresh, found[b] + 1)
            waiting += fresh
        return found

    def largest_branch(b: int) -> int:
        sizes = []
        for a in near[b]:
            seen, stack = {a, b}, [a]
            while stack:
                fresh = near[stack.pop()] - seen
                seen |= fresh
                stack += fresh
            sizes.append(len(seen) - 1)
        return max(sizes, default=0)

    distance = {}
    for b in range(n):
        tree = set(distances(b))
        # of two middles the one that is eliminated last
        middle = min(tree, key=lambda a: (largest_branch(a), -rank[a]))
        distance[b] = distances(middle)[b]
    return [(-min(distance[a] for a in range(n) if a == b or later[a, b]), int(rank[b])) for b in range(n)]


@pytest.mark.parametrize("seed", range(12))
def test_blocks_near_the_middle_of_the_tree_come_first(seed: int) -> None:
    n = 5 + seed
    rank, later = bags_of(n, random_edges(n, (1.2 + seed % 3) / n, seed))
    keys = slow_order(rank, later)
    assert sorted(range(n), key=lambda b: keys[b]) == np.argsort(outwards(rank, later)).tolist()


def test_a_path_begins_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decomposition, "TRIES", 3)
    n = 63
    rank, width = rank_from_centre(problem_of(n, list(itertools.pairwise(range(n)))), Budget())
    assert rank is not None
    assert width == 1
    assert abs(int(rank.argmax()) - n // 2) <= 1
    assert min(rank[0], rank[-1]) <= 1
    assert sorted(rank.tolist()) == list(range(n))


def test_turns_break_ties_as_other_names_of_the_blocks_would() -> None:
    edges, turn = random_edges(70, 0.1, 3), np.random.default_rng(0).permutation(70)
    bits = adjacency(problem_of(70, edges))
    renamed = adjacency(problem_of(70, [(int(turn[a]), int(turn[b])) for a, b in edges]))
    assert (degrees(bits) == unpacked(bits).sum(axis=1)).all()
    rank, words = eliminated_by_fill(bits, turn, Budget())
    other, as_many = eliminated_by_fill(renamed, np.arange(70), Budget())
    assert rank is not None
    assert other is not None
    assert rank.tolist() == other[turn].tolist()
    assert words == as_many
    assert (unpacked(bits) == unpacked(renamed)[np.ix_(turn, turn)]).all()


def test_more_tries_find_smaller_bags(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(30, random_edges(30, 0.15, 7))
    widths = []
    for tries in (1, 8):
        monkeypatch.setattr(decomposition, "TRIES", tries)
        widths.append(rank_from_centre(problem, Budget())[1])
    assert widths[1] < widths[0]


def test_large_graphs_have_none_and_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(60, random_edges(60, 0.1, 1))
    made: list[int] = []

    def eliminated(bits: np.ndarray, turn: np.ndarray, budget: Budget) -> tuple[np.ndarray | None, int]:
        made.append(1)
        return eliminated_by_fill(bits, turn, budget)

    monkeypatch.setattr(decomposition, "eliminated_by_fill", eliminated)
    monkeypatch.setattr(decomposition, "MOST_WORDS", 1)
    assert rank_from_centre(problem, Budget())[0] is not None
    assert len(made) == 1
    monkeypatch.setattr(decomposition, "eliminated_by_fill", lambda bits, turn, budget: (None, 9))
    assert rank_from_centre(problem, Budget()) == (None, 0)
    monkeypatch.setattr(decomposition, "MOST_BLOCKS", 59)
    assert rank_from_centre(problem, Budget()) == (None, 0)


def test_the_budget_is_asked_between_tries() -> None:
    problem = problem_of(60, random_edges(60, 0.1, 1))
    with pytest.raises(BudgetError):
        rank_from_centre(problem, Budget(0.0))
