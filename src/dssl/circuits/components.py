"""Components: what is left after a value is chosen, split into parts that share no open constraint.

Each part is known by a key of 128 bits: the living values of its blocks, its open clauses, and what its open sums still
demand. Equal keys mean equal futures, so a part solved before is not solved again. A hidden block that only its own
definition still uses is dropped together with that definition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dssl.circuits.jit import inner
from dssl.circuits.nodes import (
    FALSE,
    TRUE,
    Hashes,
    choice,
    mix,
    solved,
)
from dssl.circuits.problem import (
    B_DOMAIN,
    B_FIRST,
    B_FREE,
    B_GONE,
    B_HIDDEN,
    B_RANK,
    B_SCORE,
    B_SEEN,
    B_SHARES,
    B_TERMS,
    C_OWNER,
    C_SATISFIED,
    C_SEEN,
    C_SHARES,
    S_BLOCK,
    S_CLAUSE,
    S_LISTED,
    S_OUTSIDE,
    T_BLOCK,
    T_HIGH,
    T_LOW,
    T_SUM,
    V_ALIVE,
    Z_HIGH,
    Z_INTERVALS,
    Z_LOW,
    Z_OWNER,
    Z_SEEN,
    Z_TERMS,
    Ints,
    Longs,
    Problem,
)
from dssl.circuits.propagation import can_satisfy, drop, interval_after, sum_open

# columns of frames: block, value being tried, component being solved; lengths of trails and stacks below the value
BLOCK, VALUE, CURSOR, MARK, COMPONENT, MEMBER, PART, BRANCH = 0, 1, 2, 3, 7, 8, 9, 10
FIRST, LAST, BEST = range(3)  # columns of components: slice of members and the block to branch on
# counts: lengths of the stacks, then the rest
DEPTH, COMPONENTS, MEMBERS, PARTS, BRANCHES, STAMP, MODE, ROOT, DECISIONS, HITS, NEED, WEIGHT, STEPS = range(13)
_ONE = np.uint64(1)


class Stack(NamedTuple):
    """The frames and what they refer to."""

    frame: Longs
    component: Longs
    key: Hashes  # (components, 2)
    member: Ints  # blocks of components
    part: Ints  # nodes of the components solved of the value being tried, and of blocks left alone
    branch: Ints  # flat pairs: value and node of the values tried
    scratch: Ints  # (4, n)
    counts: Longs


def new_stack(p: Problem, weight: int) -> Stack:
    """A stack with the frame of the whole problem."""
    blocks, values = len(p.block) - 1, len(p.value) - 1
    stack = Stack(
        frame=np.zeros((blocks + 2, 11), dtype=np.int64),
        component=np.zeros((4 * blocks + 64, 3), dtype=np.int64),
        key=np.zeros((4 * blocks + 64, 2), dtype=np.uint64),
        member=np.arange(8 * blocks + 64, dtype=np.int32),
        part=np.zeros(blocks + 2, dtype=np.int32),
        branch=np.zeros(2 * values + 2, dtype=np.int32),
        scratch=np.zeros((4, 2 * (values + blocks) + 8), dtype=np.int32),
        counts=np.zeros(13, dtype=np.int64),
    )
    stack.frame[0, BLOCK] = -1
    stack.counts[DEPTH] = 1
    stack.counts[MEMBERS] = blocks
    stack.counts[ROOT] = -1
    stack.counts[WEIGHT] = weight
    return stack


@inner
def clause_open(p, c):  # type: ignore[no-untyped-def]
    """Whether some choice of living values falsifies the clause."""
    if p.clause[c, C_SATISFIED] > 0:
        return False
    for i in range(p.clause[c, C_SHARES], p.clause[c + 1, C_SHARES]):
        if p.share[i, S_OUTSIDE] == 0 and p.share[i, S_LISTED] == p.block[p.share[i, S_BLOCK], B_DOMAIN]:
            return False
    return True


@inner
def wanted(p, b):  # type: ignore[no-untyped-def]
    """Whether an open constraint other than its own definition uses hidden block b."""
    for k in range(p.block[b, B_SHARES], p.block[b + 1, B_SHARES]):
        c = p.share[p.lists[k], S_CLAUSE]
        if p.clause[c, C_OWNER] != b and clause_open(p, c):
            return True
    for k in range(p.block[b, B_TERMS], p.block[b + 1, B_TERMS]):
        z = p.term[p.lists[k], T_SUM]
        if p.total[z, Z_OWNER] != b and sum_open(p, z):
            return True
    return False


@inner
def drop_hidden(p, t, first, last):  # type: ignore[no-untyped-def]
    """Drop the hidden blocks of a component that nothing asks for; dropping one may free those it was defined by."""
    again = True
    while again:
        again = False
        for k in range(first, last):
            b = t.member[k]
            if p.block[b, B_HIDDEN] == 0 or p.block[b, B_GONE] != 0 or p.block[b, B_DOMAIN] == 1:
                continue
            # a hidden block that lost a value may carry the trace of a constraint that is satisfied by the loss
            if p.block[b, B_DOMAIN] == p.block[b + 1, B_FIRST] - p.block[b, B_FIRST] and not wanted(p, b):
                drop(p, b)
                again = True


@inner
def sum_key(p, z, h):  # type: ignore[no-untyped-def]
    """A hash of what the sum demands of the blocks left: its intervals relative to the least total."""
    low, high = p.total[z, Z_LOW], p.total[z, Z_HIGH]
    k = interval_after(p, z, low)
    while k < p.total[z + 1, Z_INTERVALS] and p.interval[k, 0] <= high:
        h = mix(h + np.uint64(max(p.interval[k, 0] - low, 0)))
        h = mix(h + (np.uint64(min(p.interval[k, 1], high) - low) << _ONE) + _ONE)
        k += 1
    return h


@inner
def join(p, t, b):  # type: ignore[no-untyped-def]
    """Count an open constraint for block b, which becomes a member of the component if it is not one yet."""
    if p.block[b, B_SEEN] != t.counts[STAMP]:
        p.block[b, B_SEEN] = t.counts[STAMP]
        p.block[b, B_SCORE] = 0
        t.member[t.counts[MEMBERS]] = b
        t.counts[MEMBERS] += 1
    p.block[b, B_SCORE] += 1


@inner
def gather(p, t, start, at):  # type: ignore[no-untyped-def]
    """Collect the component of the block at `start` of the members, its key in row `at`; whether it is constrained."""
    stamp = t.counts[STAMP]
    key = p.key
    blocks, clauses, sums = len(p.value), len(p.value) + len(p.block), len(p.value) + len(p.block) + len(p.clause)
    one, two = np.uint64(0), np.uint64(0)
    found = False
    i = start
    while i < t.counts[MEMBERS]:
        x = t.member[i]
        i += 1
        one += key[blocks + x, 0]
        two += key[blocks + x, 1]
        for k in range(p.block[x, B_SHARES], p.block[x + 1, B_SHARES]):
            c = p.share[p.lists[k], S_CLAUSE]
            if p.clause[c, C_SATISFIED] > 0 or p.clause[c, C_SEEN] == stamp or not can_satisfy(p, p.lists[k]):
                continue
            p.clause[c, C_SEEN] = stamp
            if not clause_open(p, c):
                continue
            found = True
            one += key[clauses + c, 0]
            two += key[clauses + c, 1]
            for j in range(p.clause[c, C_SHARES], p.clause[c + 1, C_SHARES]):
                if p.block[p.share[j, S_BLOCK], B_DOMAIN] > 1 and can_satisfy(p, j):
                    join(p, t, p.share[j, S_BLOCK])
        for k in range(p.block[x, B_TERMS], p.block[x + 1, B_TERMS]):
            term = p.lists[k]
            z = p.term[term, T_SUM]
            if p.term[term, T_LOW] == p.term[term, T_HIGH] or p.total[z, Z_SEEN] == stamp or not sum_open(p, z):
                continue
            p.total[z, Z_SEEN] = stamp
            found = True
            one += sum_key(p, z, key[sums + z, 0])
            two += sum_key(p, z, key[sums + z, 1])
            for j in range(p.total[z, Z_TERMS], p.total[z + 1, Z_TERMS]):
                if p.term[j, T_LOW] < p.term[j, T_HIGH]:
                    join(p, t, np.int32(p.term[j, T_BLOCK]))
    t.key[at, 0] = one
    t.key[at, 1] = two
    return found


@inner
def push_part(t, node):  # type: ignore[no-untyped-def]
    t.part[t.counts[PARTS]] = node
    t.counts[PARTS] += 1


@inner
def left_alone(p, store, t, b):  # type: ignore[no-untyped-def]
    """The node of a block that no open constraint uses: one of its living values."""
    value, count = t.scratch[0], np.int64(0)
    first, last = p.block[b, B_FIRST], p.block[b + 1, B_FIRST]
    for v in range(first, last):
        if p.value[v, V_ALIVE] != 0:
            value[count] = v
            count += 1
    whole = p.block[b, B_HIDDEN] != 0 or (p.block[b, B_FREE] != 0 and count == last - first)
    return choice(store, value, count, whole, t.scratch[1])


@inner
def best_member(p, t, first, last):  # type: ignore[no-untyped-def]
    """The block to branch on: many open constraints and a high rank, as the weight has it."""
    best, most = t.member[first], np.int64(-1)
    for k in range(first, last):
        b = t.member[k]
        score = t.counts[WEIGHT] * p.block[b, B_SCORE] + p.block[b, B_RANK]
        if score > most:
            best, most = b, score
    return best


@inner
def wait(t, base, start, best):  # type: ignore[no-untyped-def]
    """Put the component gathered last among those to solve, small ones first: they fail soonest."""
    c = t.counts[COMPONENTS]
    one, two = t.key[c, 0], t.key[c, 1]
    size = t.counts[MEMBERS] - start
    while c > base and t.component[c - 1, LAST] - t.component[c - 1, FIRST] > size:
        for k in range(3):
            t.component[c, k] = t.component[c - 1, k]
        t.key[c, 0] = t.key[c - 1, 0]
        t.key[c, 1] = t.key[c - 1, 1]
        c -= 1
    t.component[c, FIRST] = start
    t.component[c, LAST] = t.counts[MEMBERS]
    t.component[c, BEST] = best
    t.key[c, 0] = one
    t.key[c, 1] = two
    t.counts[COMPONENTS] += 1


@inner
def split(p, store, t, first, last):  # type: ignore[no-untyped-def]
    """Split the blocks left of a component: those solved become parts, the others wait; False if one is unsolvable."""
    t.counts[STAMP] += 1
    base = t.counts[COMPONENTS]
    for k in range(first, last):
        b = t.member[k]
        if p.block[b, B_DOMAIN] == 1 or p.block[b, B_SEEN] == t.counts[STAMP] or p.block[b, B_GONE] != 0:
            continue
        start, at = t.counts[MEMBERS], t.counts[COMPONENTS]
        join(p, t, b)
        if gather(p, t, start, at):
            node = solved(store, t.key[at, 0], t.key[at, 1])
            if node < 0:
                wait(t, base, start, best_member(p, t, start, t.counts[MEMBERS]))
                continue
            t.counts[HITS] += 1
        else:
            node = left_alone(p, store, t, b)
        t.counts[MEMBERS] = start
        if node == FALSE:
            return False
        if node != TRUE:
            push_part(t, node)
    return True
