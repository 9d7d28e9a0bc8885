"""Decomposition: an order for problems that are hard, from a tree of bags: its centre first, then outwards.

Each block, when it is eliminated, has a *bag*: itself and its neighbours. The bags form a tree. An elimination that
goes from one end of the graph to the other is searched from the other end, and what is left stays in one piece for
long; a search that begins in the middle of the tree soon has two halves that share nothing. Eliminations by fill-in
differ by how they break ties, and some are far better than others, so some are made, and the one with the smallest bags
is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dssl.circuits.compile.order.ordering import MOST_BLOCKS, Bits, adjacency, degrees, eliminated_by_fill
from dssl.circuits.compile.records import Bools, Ints, Problem

if TYPE_CHECKING:
    from dssl.circuits.compile.budget import Budget

TRIES = 200  # eliminations, at most
MOST_WORDS = 30_000_000  # words of bits to look at, after which no further one is begun


def rank_from_centre(p: Problem, budget: Budget) -> tuple[Ints | None, int]:
    """Rank of each block, the highest in the middle of the tree, and its width; None and 0 for a large graph."""
    blocks = len(p.block) - 1
    if blocks > MOST_BLOCKS:
        return None, 0
    random, adjacent, work = np.random.default_rng(20), adjacency(p), 0
    best: tuple[float, Ints, Bits] | None = None
    for number in range(TRIES):
        bags = adjacent.copy()
        turn = random.permutation(blocks) if number else np.arange(blocks)
        order, words = eliminated_by_fill(bags, turn, budget)
        work += words
        if order is not None:
            cost = float(np.exp2(np.minimum(degrees(bags), 1000)).sum())
            if best is None or cost < best[0]:
                best = cost, order, bags
        if work > MOST_WORDS:
            break
        budget.tick()
    return (None, 0) if best is None else (outwards(best[1], unpacked(best[2])), int(degrees(best[2]).max()))


def unpacked(bits: Bits) -> Bools:
    """(n, n): a row of bits as a row of booleans."""
    octets = bits.astype("<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little", count=len(bits)).astype(bool)


def outwards(rank: Ints, later: Bools) -> Ints:
    """The order that begins in the middle of the tree of bags.

    `rank` says when each block was eliminated, row b of `later` which neighbours it had then. Blocks are ranked by how
    far the nearest bag that has them is from the middle, and those at one distance as they were eliminated.
    """
    order = np.argsort(rank)
    parent = [int(np.where(row, rank, len(rank)).argmin()) if row.any() else -1 for row in later]
    near = np.full(len(rank), len(rank))
    distance = _distances(order.tolist(), parent)
    for b in order.tolist():
        near[b] = min(near[b], distance[b])
        near[later[b]] = np.minimum(near[later[b]], distance[b])
    out = np.zeros(len(rank), dtype=np.int32)
    out[np.lexsort((rank, -near))] = np.arange(len(rank))
    return out


def _distances(order: list[int], parent: list[int]) -> list[int]:
    """How far each node of the trees is from the middle of its tree, where no branch has more than half of it."""
    size = [1] * len(order)
    for b in order:
        if parent[b] >= 0:
            size[parent[b]] += size[b]
    root, middle = [0] * len(order), list(range(len(order)))
    for b in reversed(order):  # parents first
        root[b] = root[parent[b]] if parent[b] >= 0 else b
        if 2 * size[b] > size[root[b]]:
            middle[root[b]] = b  # such nodes are one below the other, and the lowest comes last
    distance = [-1] * len(order)
    for r in {root[b] for b in order}:
        b, steps = middle[r], 0
        while b >= 0:  # the way from the middle up to the root
            distance[b], b, steps = steps, parent[b], steps + 1
    for b in reversed(order):
        if distance[b] < 0:
            distance[b] = distance[parent[b]] + 1
    return distance
