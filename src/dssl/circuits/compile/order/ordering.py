"""Ordering: in which order the search branches on blocks, from an elimination of the graph of constraints.

Eliminating a block joins its neighbours; the block of least degree, or the one that joins fewest pairs anew, goes
first. The search takes the reverse order, so it begins with blocks that keep the rest together. Orders by degree are
made by `elimination`; those by fill-in here, on rows of bits, and of small graphs only. Both check the budget now and
then, and give up after more work than an order is worth. An order by degree in which a large problem would be searched
far deeper than its width asks for is made again, flatter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dssl.circuits.compile.order import elimination
from dssl.circuits.compile.records import C_SHARES, S_BLOCK, T_BLOCK, Z_TERMS, Ints, Longs, Problem
from dssl.circuits.jit import entry, inner

if TYPE_CHECKING:
    from dssl.circuits.compile.budget import Budget

LARGE = 64  # a constraint on more blocks links only neighbours, or everything would be linked to everything
MOST_BLOCKS = 2000  # of a graph that is ordered by fill-in
SLICE = 2_000_000  # work before Python looks up
MOST_WORDS = 1_000_000_000  # words of bits to look at for an order by fill-in
MOST_CELLS, MORE_CELLS = 100, 10_000_000  # members to look at for one by degree: per member, and for any
DEEP = 30_000_000  # blocks times depth from which on an order is worth making anew
FLAT = 4  # times the width, for each halving of the blocks: no deeper than it has to be
Bits = NDArray[np.uint64]
_ONE, _LOW6 = np.uint64(1), np.int64(63)
_STEP, _WORK = range(2)  # of the state
_NEAR, _FAR, _LAST, _COSTS, _STAMP = range(5)  # rows of scratch


def rank_by_degree(p: Problem, budget: Budget) -> tuple[Ints, int]:
    """Rank of each block, the highest eliminated last, and the width; time and memory grow with the size of `p`."""
    blocks = len(p.block) - 1
    sizes, member = cliques(p)
    graph = _eliminated(blocks, sizes, member, 0, budget)
    if graph.depth * blocks > DEEP and graph.depth > FLAT * (graph.width + 1) * blocks.bit_length():
        flatter = _eliminated(blocks, sizes, member, 2 * graph.width, budget)
        graph = min(graph, flatter, key=lambda graph: graph.depth)
    return graph.block[:-1, elimination.RANK].copy(), graph.width


def _eliminated(blocks: int, sizes: Longs, member: Ints, floor: int, budget: Budget) -> elimination.Graph:
    budget.afford(elimination.bytes_needed(blocks, len(member), len(sizes)))
    graph = elimination.new_graph(blocks, sizes, member, floor)
    while not elimination.count_degrees(graph, graph.work + SLICE):
        budget.tick()
    most = graph.work + MOST_CELLS * (blocks + len(member)) + MORE_CELLS
    while not elimination.eliminate(graph, graph.work + SLICE, most):
        budget.tick()
    return graph


def rank_by_fill(p: Problem, budget: Budget) -> Ints | None:
    """Rank of each block, the highest eliminated last; None for a graph that is large or has little structure."""
    blocks = len(p.block) - 1
    if blocks > MOST_BLOCKS:
        return None
    return eliminated_by_fill(adjacency(p), np.arange(blocks), budget)[0]


def eliminated_by_fill(adjacent: Bits, turn: Longs, budget: Budget) -> tuple[Ints | None, int]:
    """When each block is eliminated, or None where that takes too long, and the words looked at.

    Of blocks that are equally good the one with the smallest `turn` goes first. Row b of `adjacent` has at the end the
    neighbours that block b had when it was eliminated.
    """
    blocks = len(adjacent)
    rank, state = np.zeros(blocks, dtype=np.int32), np.zeros(2, dtype=np.int64)
    scratch = np.zeros((5, blocks), dtype=np.int64)
    first_costs(adjacent, scratch, state)
    while not eliminate(adjacent, turn, rank, scratch, state, state[_WORK] + SLICE):
        budget.tick()
        if state[_WORK] > MOST_WORDS:
            return None, int(state[_WORK])
    return rank, int(state[_WORK])


def degrees(adjacent: Bits) -> Longs:
    """How many neighbours each block has."""
    out = np.empty(len(adjacent), dtype=np.int64)
    count_bits(adjacent, out)
    return out


def cliques(p: Problem) -> tuple[Longs, Ints]:
    """Sizes and members of the sets of blocks that are linked: small constraints, and pairs of neighbours of others."""
    sizes, members = [], []
    for start, block in _lists(p):
        size = np.diff(start)
        large = size > LARGE
        sizes.append(size[~large])
        members.append(block[: start[-1]][np.repeat(~large, size)])
        for c in np.flatnonzero(large):
            sizes.append(np.full(size[c] - 1, 2))
            members.append(np.repeat(block[start[c] : start[c + 1]], 2)[1:-1])
    return np.concatenate(sizes).astype(np.int64), np.concatenate(members)


def _lists(p: Problem) -> list[tuple[Ints, Ints]]:
    """Of clauses and of sums: where the list of each starts, and the blocks listed."""
    return [
        (p.clause[:, C_SHARES].copy(), p.share[:, S_BLOCK].copy()),
        (p.total[:, Z_TERMS].astype(np.int32), p.term[:, T_BLOCK].astype(np.int32)),
    ]


def adjacency(p: Problem) -> Bits:
    """Row b has a bit for each block that shares a constraint with block b."""
    blocks = len(p.block) - 1
    adjacent = np.zeros((blocks, (blocks + 63) // 64), dtype=np.uint64)
    for start, block in _lists(p):
        link(adjacent, start, block)
    return adjacent


@inner
def set_bit(row, b):  # type: ignore[no-untyped-def]
    row[b >> 6] |= _ONE << np.uint64(b & _LOW6)


@inner
def clear_bit(row, b):  # type: ignore[no-untyped-def]
    row[b >> 6] &= ~(_ONE << np.uint64(b & _LOW6))


@entry
def link(adjacent, start, block):  # type: ignore[no-untyped-def]
    """Join the blocks of each constraint: all pairs of a small one, the neighbours in order of a large one."""
    for c in range(len(start) - 1):
        size = start[c + 1] - start[c]
        for i in range(start[c] + 1, start[c + 1]):
            for j in range(start[c] if size <= LARGE else i - 1, i):
                set_bit(adjacent[block[i]], block[j])
                set_bit(adjacent[block[j]], block[i])


@inner
def bit_count(x):  # type: ignore[no-untyped-def]
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inner
def neighbours(row, out):  # type: ignore[no-untyped-def]
    """Write the members of a row of bits; how many."""
    count = 0
    for w in range(len(row)):
        bits = row[w]
        while bits != np.uint64(0):
            low = bits & (~bits + _ONE)
            out[count] = 64 * w + bit_count(low - _ONE)
            count += 1
            bits ^= low
    return count


@inner
def cost(adjacent, b, near, state):  # type: ignore[no-untyped-def]
    """Pairs of neighbours not yet joined, with the degree to break ties."""
    degree = neighbours(adjacent[b], near)
    state[_WORK] += len(adjacent[b]) * (degree + 1)
    missing = np.int64(0)
    for i in range(degree):
        row = adjacent[near[i]]
        for w in range(len(row)):
            missing += bit_count(adjacent[b, w] & ~row[w])
    return (missing - degree) * 1000 + degree  # each neighbour is missing from its own row


@entry
def count_bits(rows, out):  # type: ignore[no-untyped-def]
    """Write how many bits each row has."""
    for b in range(len(rows)):
        out[b] = 0
        for w in range(rows.shape[1]):
            out[b] += bit_count(rows[b, w])


@entry
def first_costs(adjacent, scratch, state):  # type: ignore[no-untyped-def]
    """Costs of all blocks before any is eliminated."""
    for b in range(len(adjacent)):
        scratch[_COSTS, b] = cost(adjacent, b, scratch[_NEAR], state)


@inner
def cheapest(costs, turn):  # type: ignore[no-untyped-def]
    """The block of least cost that is not eliminated, and among equals the one whose turn is first."""
    b = -1
    for a in range(len(costs)):
        if costs[a] >= 0 and (b < 0 or costs[a] < costs[b] or (costs[a] == costs[b] and turn[a] < turn[b])):
            b = a
    return b


@inner
def join_neighbours(adjacent, b, near):  # type: ignore[no-untyped-def]
    """Link the neighbours of block b to each other and unlink b; how many they are."""
    degree = neighbours(adjacent[b], near)
    for i in range(degree):
        row = adjacent[near[i]]
        for w in range(len(row)):
            row[w] |= adjacent[b, w]
        clear_bit(row, near[i])
        clear_bit(row, b)
    return degree


@entry
def eliminate(adjacent, turn, rank, scratch, state, work):  # type: ignore[no-untyped-def]
    """Go on until this much work is done; whether all blocks are eliminated. Uses up `adjacent`."""
    blocks = len(adjacent)
    near, far, costs, stamp = scratch[_NEAR], scratch[_FAR], scratch[_COSTS], scratch[_STAMP]
    while state[_STEP] < blocks and state[_WORK] < work:
        b = cheapest(costs, turn)
        rank[b] = state[_STEP]
        state[_STEP] += 1
        costs[b] = -1
        degree = join_neighbours(adjacent, b, near)
        state[_WORK] += blocks + degree * len(adjacent[b])
        for i in range(degree):
            around = neighbours(adjacent[near[i]], far)
            far[around] = near[i]
            for k in range(around + 1):
                if stamp[far[k]] != state[_STEP]:
                    stamp[far[k]] = state[_STEP]
                    costs[far[k]] = cost(adjacent, far[k], scratch[_LAST], state)
    return state[_STEP] == blocks
