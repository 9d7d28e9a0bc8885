"""What each node mentions and allows: the loops with which `proof` looks through a circuit.

`block` has the block of each literal and `value` its value, −1 for other nodes; sets go up the circuit as words.
"""

from __future__ import annotations

import numpy as np

from dssl.circuits.jit import allocating, kept
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR

# ---- decomposable ----


@kept
def ranks(block, ptr, child, blocks):  # type: ignore[no-untyped-def]
    """A number for each block, in the order in which a depth-first walk from the root meets them."""
    rank = np.full(blocks, -1, np.int64)
    seen = np.zeros(len(block), np.bool_)
    stack = np.empty(len(child) + 1, np.int64)
    met = 0
    for top in range(len(block) - 1, -1, -1):  # the root stands last; what it does not reach follows
        stack[0], height = top, 1
        while height > 0:
            height -= 1
            n = stack[height]
            if seen[n]:
                continue
            seen[n] = True
            if block[n] >= 0 and rank[block[n]] < 0:
                rank[block[n]] = met
                met += 1
            for j in range(ptr[n + 1] - 1, ptr[n] - 1, -1):
                if not seen[child[j]]:
                    stack[height] = child[j]
                    height += 1
    for b in range(blocks):  # blocks that nothing mentions
        if rank[b] < 0:
            rank[b] = met
            met += 1
    return rank


@kept
def overlapping(kind, block, rank, ptr, child):  # type: ignore[no-untyped-def]
    """The ANDs whose children's ranges of blocks overlap, and the range that all of these ANDs span."""
    low, high = np.empty(len(kind), np.int64), np.empty(len(kind), np.int64)
    left = np.zeros(len(kind), np.bool_)
    first, last = len(rank), -1
    for n in range(len(kind)):
        low[n], high[n] = len(rank), -1
        if block[n] >= 0:
            low[n] = high[n] = rank[block[n]]
        for j in range(ptr[n], ptr[n + 1]):
            low[n], high[n] = min(low[n], low[child[j]]), max(high[n], high[child[j]])
        if kind[n] == AND and _overlap(low, high, child[ptr[n] : ptr[n + 1]]):
            left[n] = True
            first, last = min(first, low[n]), max(last, high[n])
    return left, first, last


@allocating
def _overlap(low, high, children):  # type: ignore[no-untyped-def]
    """Whether two of the children's ranges have a number in common."""
    if len(children) == 2:
        a, b = children
        return low[a] <= high[b] and low[b] <= high[a]
    end = np.int64(-1)
    for x in children[np.argsort(low[children])]:
        if high[x] >= 0:
            if low[x] <= end:
                return True
            end = high[x]
    return False


@kept
def shared_of_64(kind, block, rank, ptr, child, left, start):  # type: ignore[no-untyped-def]
    """The first of the ANDs in `left` with two children that mention one of 64 blocks, and which; (−1, 0) if none."""
    mentions = np.zeros(len(ptr) - 1, np.uint64)
    for n in range(len(mentions)):
        if block[n] >= 0 and 0 <= rank[block[n]] - start < 64:
            mentions[n] = np.uint64(1) << np.uint64(rank[block[n]] - start)
        union = mentions[n]
        for j in range(ptr[n], ptr[n + 1]):
            twice = union & mentions[child[j]]
            if left[n] and twice != 0:
                bit = 0
                while (twice >> np.uint64(bit)) & np.uint64(1) == 0:
                    bit += 1
                return n, bit
            union |= mentions[child[j]]
        mentions[n] = union
    return -1, 0


# ---- deterministic ----


@kept
def undecided(kind, block, value, ptr, child, blocks, values):  # type: ignore[no-untyped-def]
    """The ORs that no block decides by literals that stand directly in the children."""
    left = np.zeros(len(kind), np.bool_)
    seen = np.full(values, -1, np.int64)  # the last OR in which a value was met
    edge, count = np.full(blocks, -1, np.int64), np.zeros(blocks, np.int64)  # the last child; children that have it
    for n in range(len(kind)):
        if kind[n] != OR:
            continue
        most = 0
        for e in range(ptr[n], ptr[n + 1]):
            x = child[e]
            start, stop = (ptr[x], ptr[x + 1]) if kind[x] == AND else (0, 1)
            for j in range(start, stop):
                y = child[j] if kind[x] == AND else x
                b = block[y]
                if b < 0 or edge[b] == e:
                    continue
                if edge[b] < ptr[n]:  # first met in this OR
                    count[b] = 0
                edge[b] = e
                count[b] = -len(child) if seen[value[y]] == n else count[b] + 1
                seen[value[y]] = n
                most = max(most, count[b])
        left[n] = most < ptr[n + 1] - ptr[n]
    return left


@kept
def allowed(kind, block, value, ptr, child, first, b0, b1, start, stop):  # type: ignore[no-untyped-def]
    """The values from `start` to `stop`, of blocks b0 to b1, that each node allows; all of them; the spare bits.

    Above the bits of a block stands a spare one: adding all ones to the bits carries into it unless they are all 0.
    """
    one, everything, spare = np.uint64(1), np.uint64(0), np.uint64(0)
    mask, shift = np.zeros(b1 - b0, np.uint64), np.empty(b1 - b0, np.int64)
    bit = 0
    for b in range(b0, b1):
        shift[b - b0] = bit - max(first[b], start)
        for _ in range(max(first[b], start), min(first[b + 1], stop)):
            mask[b - b0] |= one << np.uint64(bit)
            bit += 1
        spare |= one << np.uint64(bit)
        bit += 1
        everything |= mask[b - b0]
    allowed = np.empty(len(ptr) - 1, np.uint64)
    for n in range(len(allowed)):
        k = kind[n]
        held = np.uint64(0) if k in (FALSE, OR) else everything
        if k == LITERAL and b0 <= block[n] < b1:
            held &= ~mask[block[n] - b0]
            if start <= value[n] < stop:
                held |= one << np.uint64(value[n] + shift[block[n] - b0])
        for j in range(ptr[n], ptr[n + 1]):
            if k == AND:
                held &= allowed[child[j]]
            else:
                held |= allowed[child[j]]
        allowed[n] = held
    return allowed, everything, spare


@kept
def standing_alone(ors, ptr, child, allowed, everything, spare):  # type: ignore[no-untyped-def]
    """Of the children of the ORs, those with a block all of whose values no other child of the OR allows."""
    total = 0
    for n in ors:
        total += ptr[n + 1] - ptr[n]
    out = np.empty(total, np.bool_)
    end = 0
    for n in ors:
        once, twice = np.uint64(0), np.uint64(0)
        for j in range(ptr[n], ptr[n + 1]):
            twice |= once & allowed[child[j]]
            once |= allowed[child[j]]
        for j in range(ptr[n], ptr[n + 1]):
            out[end] = ((allowed[child[j]] & twice) + everything) & spare != spare
            end += 1
    return out


@kept
def exclusive(pairs, allowed, everything, spare):  # type: ignore[no-untyped-def]
    """Which pairs allow no common value of some block."""
    out = np.empty(len(pairs), np.bool_)
    for i in range(len(pairs)):
        both = allowed[pairs[i, 1]] & allowed[pairs[i, 2]]
        out[i] = (both + everything) & spare != spare
    return out
