"""Ordering: in which order the search branches on blocks, from an elimination of the graph of constraints.

Eliminating a block joins its neighbours; the block of least degree, or the one that joins fewest pairs anew, goes
first. The search takes the reverse order, so it begins with blocks that keep the rest together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssl.circuits.jit import entry, inner
from dssl.circuits.problem import C_SHARES, S_BLOCK, T_BLOCK, Z_TERMS, Ints, Problem

LARGE = 64  # a constraint on more blocks links neighbours only, or everything would be next to everything
Bits = NDArray[np.uint64]
_ONE, _LOW6 = np.uint64(1), np.int64(63)


def elimination_rank(p: Problem, fill: bool) -> tuple[Ints, int]:
    """Rank of each block, the highest eliminated last, and the width; by fill-in, or by degree, which is cheaper."""
    blocks = len(p.block) - 1
    rank = np.zeros(blocks, dtype=np.int32)
    width = eliminate(adjacency(p), fill, rank, np.zeros((5, blocks), dtype=np.int64))
    return rank, int(width)


def adjacency(p: Problem) -> Bits:
    """Row b has a bit for each block that shares a constraint with block b."""
    blocks = len(p.block) - 1
    adjacent = np.zeros((blocks, (blocks + 63) // 64), dtype=np.uint64)
    link(adjacent, p.clause[:, C_SHARES].copy(), p.share[:, S_BLOCK].copy())
    link(adjacent, p.total[:, Z_TERMS].astype(np.int32), p.term[:, T_BLOCK].astype(np.int32))
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
def cost(adjacent, b, fill, near):  # type: ignore[no-untyped-def]
    """Degree, or pairs of neighbours not yet joined, with the degree to break ties."""
    degree = neighbours(adjacent[b], near)
    if not fill:
        return np.int64(degree)
    missing = np.int64(0)
    for i in range(degree):
        row = adjacent[near[i]]
        for w in range(len(row)):
            missing += bit_count(adjacent[b, w] & ~row[w])
    return (missing - degree) * 1000 + degree  # each neighbour is missing from its own row


@entry
def eliminate(adjacent, fill, rank, scratch):  # type: ignore[no-untyped-def]
    """Eliminate all blocks and note when; the most neighbours one had. Uses up `adjacent`."""
    blocks, width = len(adjacent), 0
    near, far, last, costs, stamp = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    for b in range(blocks):
        costs[b] = cost(adjacent, b, fill, near)
    for step in range(blocks):
        b = np.int64(-1)  # type: ignore[assignment]
        for a in range(blocks):
            if costs[a] >= 0 and (b < 0 or costs[a] < costs[b]):
                b = a
        rank[b] = step
        costs[b] = -1
        degree = neighbours(adjacent[b], near)
        width = max(width, degree)
        for i in range(degree):
            row = adjacent[near[i]]
            for w in range(len(row)):
                row[w] |= adjacent[b, w]
            clear_bit(row, near[i])
            clear_bit(row, b)
        for i in range(degree):
            a = near[i]
            if not fill:
                costs[a] = cost(adjacent, a, fill, far)
                continue
            around = neighbours(adjacent[a], far)
            far[around] = a
            for k in range(around + 1):
                if stamp[far[k]] != step + 1:
                    stamp[far[k]] = step + 1
                    costs[far[k]] = cost(adjacent, far[k], fill, last)
    return width
