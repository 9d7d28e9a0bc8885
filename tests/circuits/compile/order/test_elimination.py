"""Elimination by degree, against the obvious way to do it."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.circuits.compile.order import elimination
from dssl.circuits.compile.order.elimination import RANK, bytes_needed, count_degrees, eliminate, new_graph

FOREVER = 10**12


def ranks(blocks: int, cliques: list[list[int]], slice_: int = FOREVER, most: int = FOREVER) -> tuple[list[int], int]:
    sizes = np.array([len(c) for c in cliques], dtype=np.int64)
    member = np.array([b for c in cliques for b in c], dtype=np.int32)
    graph = new_graph(blocks, sizes, member)
    assert sum(array.nbytes for array in graph) <= bytes_needed(blocks, len(member), len(sizes))
    while not count_degrees(graph, graph.work + slice_):
        pass
    while not eliminate(graph, graph.work + slice_, most):
        pass
    return graph.block[:-1, RANK].tolist(), graph.width


def slowly(blocks: int, cliques: list[list[int]]) -> tuple[list[int], int]:
    """Least degree first, then least number, on sets of neighbours."""
    near: list[set[int]] = [set() for _ in range(blocks)]
    for clique in cliques:
        for a, b in itertools.permutations(clique, 2):
            near[a].add(b)
    rank, width = [-1] * blocks, 0
    for step in range(blocks):
        b = min((b for b in range(blocks) if rank[b] < 0), key=lambda b: (len(near[b]), b))
        rank[b], width = step, max(width, len(near[b]))
        for a in near[b]:
            near[a] = (near[a] | near[b]) - {a, b}
    return rank, width


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[list[int]]]:
    blocks = draw(st.integers(1, 14))
    members = st.lists(st.integers(0, blocks - 1), min_size=1, max_size=5, unique=True)
    return blocks, draw(st.lists(members, max_size=20))


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_the_same_order_as_the_obvious_way(graph: tuple[int, list[list[int]]]) -> None:
    assert ranks(*graph) == slowly(*graph)


@settings(max_examples=50, deadline=None)
@given(graphs(), st.integers(1, 5))
def test_slices_do_not_change_the_order(graph: tuple[int, list[list[int]]], slice_: int) -> None:
    assert ranks(*graph, slice_=slice_) == ranks(*graph)


@settings(max_examples=100, deadline=None)
@given(graphs(), st.integers(0, 60))
def test_giving_up_leaves_an_order_all_the_same(graph: tuple[int, list[list[int]]], most: int) -> None:
    rank, width = ranks(*graph, most=most)
    assert sorted(rank) == list(range(graph[0]))
    assert 0 <= width < graph[0]


def test_large_cliques_are_bounded_not_counted() -> None:
    """Two cliques of 600 that meet in a hundred blocks; each is more than what is counted one by one."""
    n = 1100
    cliques = [list(range(600)), list(range(500, 1100)), [0, 1099], [1, 1098], [2, 1097], [3, 3 + 600]]
    assert elimination.EXACT < 600 + 600
    rank, width = ranks(n, cliques)
    assert sorted(rank) == list(range(n))
    assert width == slowly(n, cliques)[1]
