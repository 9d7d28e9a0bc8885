"""Elimination of the graph of constraints: the block of least degree first, in memory that never grows.

The graph is kept as a set of *cliques*, at first one per constraint: two blocks are neighbours if a clique has both.
Eliminating a block joins its cliques into one, which is never larger than they were together, so cells of the lists are
used again and none are made. The neighbours of a block are counted again where its cliques are small. Elsewhere it
is bounded as in the approximate minimum degree method: the newest clique, and what lies outside it of each other.

Strictly by degree, a long chain is eliminated from one end to the other, and a search in that order goes as deep as the
chain is long. With a *floor* no degree counts as less, and of equal ones the block whose neighbours were left alone for
longest goes first. A chain then loses every other block, and again, and its depth is the logarithm of its length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dssl.circuits.compile.records import Ints, Longs
from dssl.circuits.jit import entry, inner

# columns of blocks; of cliques; state
START, COUNT, DEGREE, PLACE, SEEN, RANK, TOUCHED = range(7)  # START: of its cliques; PLACE: in the heap
HEAD, SIZE, DEAD, LEFT, STAMP, BELOW = range(6)  # HEAD: first cell; LEFT: members outside the newest clique
DEGREES, STEP, WIDTH, WORK, DEPTH, FLOOR = range(6)  # blocks whose degree is known, blocks eliminated
EXACT = 1000  # members of the older cliques of a block that are counted one by one
_END, _COUNTED = -1, -1


class Graph(NamedTuple):
    """Blocks, cliques and the lists between them."""

    block: Ints  # (blocks + 1, 7)
    clique: Ints  # (cliques, 6)
    cell: Ints  # (cells, 2): block, next cell of the same clique
    of: Ints  # (cells,): cliques of each block
    heap: Ints  # (blocks,): by degree, then number
    state: Longs

    @property
    def work(self) -> int:
        """How many members were looked at."""
        return int(self.state[WORK])

    @property
    def width(self) -> int:
        """The most neighbours that a block had when it was eliminated."""
        return int(self.state[WIDTH])

    @property
    def depth(self) -> int:
        """The most blocks that were eliminated one because of the other: how deep a search in this order may go."""
        return int(self.state[DEPTH])


def bytes_needed(blocks: int, cells: int, cliques: int) -> int:
    """What a graph of this size takes."""
    return 4 * (8 * blocks + 3 * cells + 6 * cliques) + 76


def new_graph(blocks: int, sizes: Longs, member: Ints, floor: int = 0) -> Graph:
    """The graph whose cliques have `sizes` members, listed one after the other in `member`."""
    cells = len(member)
    clique = np.zeros((len(sizes), 6), dtype=np.int32)
    start = np.concatenate([[0], np.cumsum(sizes)])
    clique[:, HEAD] = start[:-1]
    clique[:, SIZE] = sizes
    cell = np.stack([member, np.arange(1, cells + 1, dtype=np.int32)], axis=1)
    cell[start[1:] - 1, 1] = _END
    block = np.zeros((blocks + 1, 7), dtype=np.int32)
    block[:-1, COUNT] = np.bincount(member, minlength=blocks)
    block[1:, START] = np.cumsum(block[:-1, COUNT])
    block[:, RANK] = -1
    order = np.argsort(member, kind="stable")
    of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[order]
    state = np.zeros(6, dtype=np.int64)
    state[FLOOR] = floor
    return Graph(block, clique, cell, of, np.arange(blocks, dtype=np.int32), state)


# ---- the heap ----


@inner
def before(g, a, b):  # type: ignore[no-untyped-def]
    """Whether block a is eliminated before block b as things stand."""
    one, two = max(g.block[a, DEGREE], g.state[FLOOR]), max(g.block[b, DEGREE], g.state[FLOOR])
    if one == two:
        one, two = g.block[a, TOUCHED], g.block[b, TOUCHED]
    return one < two or (one == two and a < b)


@inner
def put(g, k, b):  # type: ignore[no-untyped-def]
    g.heap[k] = b
    g.block[b, PLACE] = k


@inner
def settle(g, k, size):  # type: ignore[no-untyped-def]
    """Move the block at place k of the heap up or down to where it belongs."""
    b = g.heap[k]
    while k > 0 and before(g, b, g.heap[(k - 1) // 2]):
        put(g, k, g.heap[(k - 1) // 2])
        k = (k - 1) // 2
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size and before(g, g.heap[child + 1], g.heap[child]):
            child += 1
        if not before(g, g.heap[child], b):
            break
        put(g, k, g.heap[child])
        k = child
    put(g, k, b)


@inner
def pop(g, size):  # type: ignore[no-untyped-def]
    """Take the first block out of a heap of this size."""
    b = g.heap[0]
    put(g, 0, g.heap[size - 1])
    if size > 1:
        settle(g, 0, size - 1)
    return b


# ---- elimination ----


@inner
def first_degree(g, b):  # type: ignore[no-untyped-def]
    """How many neighbours a block has before any is eliminated."""
    degree = 0
    g.block[b, SEEN] = b + 1
    for k in range(g.block[b, START], g.block[b + 1, START]):
        at = g.clique[g.of[k], HEAD]
        g.state[WORK] += g.clique[g.of[k], SIZE]
        while at != _END:
            a = g.cell[at, 0]
            if g.block[a, SEEN] != b + 1:
                g.block[a, SEEN] = b + 1
                degree += 1
            at = g.cell[at, 1]
    return degree


@inner
def touch(g, a):  # type: ignore[no-untyped-def]
    """Note that a neighbour of block a is eliminated, where that matters."""
    if g.state[FLOOR] > 0:
        g.block[a, TOUCHED] = g.state[STEP] + 1


@inner
def go_below(g, e, below):  # type: ignore[no-untyped-def]
    """Note that clique e stands over so many blocks, one because of the other."""
    g.clique[e, BELOW] = max(g.clique[e, BELOW], below)
    g.state[DEPTH] = max(g.state[DEPTH], below)


@inner
def join_cliques(g, b, stamp):  # type: ignore[no-untyped-def]
    """Join the cliques of block b, without b, into the first of them, which is returned; all are dead for now."""
    joined = g.of[g.block[b, START]]
    tail, size = _END, 0
    head = _END
    g.block[b, SEEN] = stamp
    for k in range(g.block[b, START], g.block[b, START] + g.block[b, COUNT]):
        e = g.of[k]
        at = g.clique[e, HEAD]
        g.clique[e, DEAD] = 1
        go_below(g, joined, g.clique[e, BELOW])
        while at != _END:
            after, a = g.cell[at, 1], g.cell[at, 0]
            g.state[WORK] += 1
            if g.block[a, RANK] < 0 and g.block[a, SEEN] != stamp:
                g.block[a, SEEN] = stamp
                if tail == _END:
                    head = at
                else:
                    g.cell[tail, 1] = at
                tail = at
                size += 1
            at = after
    if tail != _END:
        g.cell[tail, 1] = _END
    go_below(g, joined, g.clique[joined, BELOW] + 1)
    g.clique[joined, HEAD] = head
    g.clique[joined, SIZE] = size
    return joined


@inner
def drop_dead(g, a, joined, stamp):  # type: ignore[no-untyped-def]
    """Replace the dead cliques of block a by the joined one, and count a as inside it for the others."""
    first = g.block[a, START]
    kept = first + 1
    last = first + g.block[a, COUNT]
    g.state[WORK] += g.block[a, COUNT]
    held = joined  # takes the first place; what stood there moves to the place of the first dead one
    for k in range(first, last):
        e = g.of[k]
        if g.clique[e, DEAD] != 0:
            continue
        if g.clique[e, STAMP] != stamp:
            g.clique[e, STAMP] = stamp
            g.clique[e, LEFT] = g.clique[e, SIZE]
        g.clique[e, LEFT] -= 1
        if k == first:
            held = e
        else:
            g.of[kept] = e
            kept += 1
    if held != joined:
        g.of[kept] = held
        kept += 1
    g.of[first] = joined
    g.block[a, COUNT] = kept - first


@inner
def degree_after(g, a, joined, stamp):  # type: ignore[no-untyped-def]
    """Neighbours of block a, or a bound of them; cliques inside the joined one go."""
    first = g.block[a, START]
    kept = first + 1
    outside, members = np.int64(0), np.int64(0)
    for k in range(first + 1, first + g.block[a, COUNT]):
        e = g.of[k]
        if g.clique[e, LEFT] == 0:
            g.clique[e, DEAD] = 1
            go_below(g, joined, g.clique[e, BELOW])
        else:
            outside += g.clique[e, LEFT]
            members += g.clique[e, SIZE]
            g.of[kept] = e
            kept += 1
    g.block[a, COUNT] = kept - first
    if kept > first + 2 and members <= EXACT:  # two or more may share members
        outside = change_marks(g, a, stamp, _COUNTED)
        change_marks(g, a, stamp, 0)
    return g.clique[joined, SIZE] - 1 + outside


@inner
def change_marks(g, a, stamp, mark):  # type: ignore[no-untyped-def]
    """Mark the neighbours of block a in its older cliques that lie outside the newest; how many had another mark."""
    changed = np.int64(0)
    for k in range(g.block[a, START] + 1, g.block[a, START] + g.block[a, COUNT]):
        at = g.clique[g.of[k], HEAD]
        while at != _END:
            x = g.cell[at, 0]
            g.state[WORK] += 1
            if g.block[x, RANK] < 0 and g.block[x, SEEN] != stamp and g.block[x, SEEN] != mark:
                g.block[x, SEEN] = mark
                changed += 1
            at = g.cell[at, 1]
    return changed


@inner
def leave_clique(g, e, left):  # type: ignore[no-untyped-def]
    """Take a block out of its only clique, whose members are neighbours already; how many they are."""
    g.clique[e, SIZE] -= 1
    go_below(g, e, g.clique[e, BELOW] + 1)
    if g.clique[e, SIZE] == left:  # all that is left is next to all that is left: the order no longer matters
        return g.clique[e, SIZE]
    at = g.clique[e, HEAD]
    while at != _END:
        a = g.cell[at, 0]
        g.state[WORK] += 1
        if g.block[a, RANK] < 0:
            g.block[a, DEGREE] -= 1
            touch(g, a)
            settle(g, g.block[a, PLACE], left)
        at = g.cell[at, 1]
    return g.clique[e, SIZE]


@inner
def remove_block(g, b, left):  # type: ignore[no-untyped-def]
    """Eliminate block b; `left` blocks stay."""
    cliques = g.block[b, COUNT]
    if cliques == 0:
        return np.int32(0)
    if cliques == 1:
        return leave_clique(g, g.of[g.block[b, START]], left)
    stamp = np.int32(len(g.block) + g.state[STEP])
    joined = join_cliques(g, b, stamp)
    at = g.clique[joined, HEAD]
    while at != _END:
        drop_dead(g, g.cell[at, 0], joined, stamp)
        at = g.cell[at, 1]
    at = g.clique[joined, HEAD]
    while at != _END:
        a = g.cell[at, 0]
        g.block[a, DEGREE] = min(degree_after(g, a, joined, stamp), left - 1)
        touch(g, a)
        settle(g, g.block[a, PLACE], left)
        at = g.cell[at, 1]
    g.clique[joined, DEAD] = 0
    return g.clique[joined, SIZE]


@entry
def count_degrees(g, work):  # type: ignore[no-untyped-def]
    """Count first degrees until this much work is done; whether all are known."""
    blocks = len(g.heap)
    while g.state[DEGREES] < blocks and g.state[WORK] < work:
        b = np.int32(g.state[DEGREES])
        g.block[b, DEGREE] = first_degree(g, b)
        put(g, b, b)
        settle(g, b, b + 1)
        g.state[DEGREES] += 1
    return g.state[DEGREES] == blocks


@entry
def eliminate(g, work, most):  # type: ignore[no-untyped-def]
    """Go on until this much work is done; whether all blocks are eliminated. After `most`, degrees stay as they are."""
    blocks = len(g.heap)
    while g.state[STEP] < blocks and g.state[WORK] < work:
        left = blocks - g.state[STEP] - 1
        b = pop(g, left + 1)
        g.block[b, RANK] = g.state[STEP]
        g.state[WORK] += 1
        width = np.int64(remove_block(g, b, left)) if g.state[WORK] < most else left
        g.state[WIDTH] = max(g.state[WIDTH], width)
        g.state[STEP] += 1
    return g.state[STEP] == blocks
