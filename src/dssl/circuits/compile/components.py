"""Components: what is left after a value is chosen, split into parts that share no open constraint.

Each part is known by a key of 128 bits: the living values of its blocks, its open clauses, and what its open sums still
demand. Equal keys mean equal futures, so a part solved before is not solved again. A hidden block that only its own
definition still uses is dropped together with that definition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dssl.circuits.compile.propagation import WORK, can_satisfy, drop, interval_after, sum_open
from dssl.circuits.compile.records import (
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
    Hashes,
    Ints,
    Longs,
    Problem,
)
from dssl.circuits.compile.store import (
    FALSE,
    TRUE,
    either,
    mix,
    solved,
)
from dssl.circuits.jit import inner

# columns of frames: block, value being tried, component being solved; lengths of trails and stacks below the value
BLOCK, VALUE, CURSOR, MARK, COMPONENT, PART, BRANCH = 0, 1, 2, 3, 7, 8, 9
FIRST, LAST, BEST = range(3)  # columns of components: slice of members and the block to branch on
# counts: lengths of the stacks, then the rest
DEPTH, COMPONENTS, MEMBERS, PARTS, BRANCHES, STAMP, MODE, ROOT, DECISIONS, HITS, NEED, WEIGHT, STEPS = range(13)
LAST_STAMP = np.int64(np.iinfo(np.int32).max)  # what the columns of stamps hold
_ONE = np.uint64(1)


class Stack(NamedTuple):
    """The frames and what they refer to.

    The components of a value are slices of the list of the component that it was tried in, so however deep the frames
    stand, all their lists together take one place for each block.
    """

    frame: Longs
    component: Longs
    key: Hashes  # (components, 2)
    member: Ints  # (2 × blocks,): blocks of components, then those of the component being split
    part: Ints  # nodes of the components solved of the value being tried, and of blocks left alone
    branch: Ints  # flat pairs: value and node of the values tried
    scratch: Ints  # (4, n)
    counts: Longs


def new_stack(p: Problem, weight: int) -> Stack:
    """A stack with the frame of the whole problem."""
    blocks, values = len(p.block) - 1, len(p.value) - 1
    stack = Stack(
        frame=np.zeros((blocks + 2, 10), dtype=np.int64),
        component=np.zeros((3 * blocks + 64, 3), dtype=np.int64),
        key=np.zeros((3 * blocks + 64, 2), dtype=np.uint64),
        member=np.arange(2 * blocks, dtype=np.int32),
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


def bytes_of_stack(blocks: int, values: int) -> int:
    """What a new stack takes."""
    return 244 * blocks + 40 * values + 2968


@inner
def clause_open(p, c):  # type: ignore[no-untyped-def]
    """Whether some living values together falsify the clause."""
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
def droppable(p, b):  # type: ignore[no-untyped-def]
    """Whether hidden block b can be dropped: it is still open, and nothing asks for it."""
    if p.block[b, B_HIDDEN] == 0 or p.block[b, B_GONE] != 0 or p.block[b, B_DOMAIN] == 1:
        return False
    p.marks[WORK] += 1
    # a hidden block that lost a value may reflect a constraint that is satisfied by the loss
    return p.block[b, B_DOMAIN] == p.block[b + 1, B_FIRST] - p.block[b, B_FIRST] and not wanted(p, b)


@inner
def drop_freed(p, b, todo, count):  # type: ignore[no-untyped-def]
    """Put the blocks that the definition of b speaks of behind `count` that are to be looked at; the new count."""
    for k in range(p.block[b, B_SHARES], p.block[b + 1, B_SHARES]):
        c = p.share[p.lists[k], S_CLAUSE]
        if p.clause[c, C_OWNER] == b:
            for j in range(p.clause[c, C_SHARES], p.clause[c + 1, C_SHARES]):
                count = push_droppable(p, p.share[j, S_BLOCK], todo, count)
    for k in range(p.block[b, B_TERMS], p.block[b + 1, B_TERMS]):
        z = p.term[p.lists[k], T_SUM]
        if p.total[z, Z_OWNER] == b:
            for j in range(p.total[z, Z_TERMS], p.total[z + 1, Z_TERMS]):
                count = push_droppable(p, np.int32(p.term[j, T_BLOCK]), todo, count)
    return count


@inner
def push_droppable(p, b, todo, count):  # type: ignore[no-untyped-def]
    """Drop block b if that can be done, and put it behind `count` whose definitions are to be looked at."""
    if droppable(p, b):
        drop(p, b)
        todo[count] = b
        count += 1
    return count


@inner
def drop_hidden(p, t, first, last):  # type: ignore[no-untyped-def]
    """Drop the hidden blocks of a component that nothing asks for; dropping one may free those it was defined by."""
    todo, count = t.scratch[0], np.int64(0)
    for k in range(first, last):
        if p.block[t.member[k], B_HIDDEN] != 0:  # most are not, and should cost nothing
            count = push_droppable(p, t.member[k], todo, count)
        while count > 0:
            count -= 1
            count = drop_freed(p, todo[count], todo, count)


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
def gather_clause(p, t, c):  # type: ignore[no-untyped-def]
    """Join the blocks that can still satisfy an open clause."""
    for j in range(p.clause[c, C_SHARES], p.clause[c + 1, C_SHARES]):
        if p.block[p.share[j, S_BLOCK], B_DOMAIN] > 1 and can_satisfy(p, j):
            join(p, t, p.share[j, S_BLOCK])


@inner
def gather_sum(p, t, z):  # type: ignore[no-untyped-def]
    """Join the blocks that an open sum still depends on."""
    for j in range(p.total[z, Z_TERMS], p.total[z + 1, Z_TERMS]):
        if p.term[j, T_LOW] < p.term[j, T_HIGH]:
            join(p, t, np.int32(p.term[j, T_BLOCK]))


@inner
def unseen_clause(p, stamp, i):  # type: ignore[no-untyped-def]
    """The clause of share i, if it is open and met for the first time, or -1."""
    c = p.share[i, S_CLAUSE]
    if p.clause[c, C_SATISFIED] > 0 or p.clause[c, C_SEEN] == stamp or not can_satisfy(p, i):
        return np.int32(-1)
    p.clause[c, C_SEEN] = stamp
    return c if clause_open(p, c) else np.int32(-1)


@inner
def unseen_sum(p, stamp, i):  # type: ignore[no-untyped-def]
    """The sum of term i, if it is open and met for the first time, or -1."""
    z = p.term[i, T_SUM]
    if p.term[i, T_LOW] == p.term[i, T_HIGH] or p.total[z, Z_SEEN] == stamp or not sum_open(p, z):
        return np.int64(-1)
    p.total[z, Z_SEEN] = stamp
    return z


@inner
def gather(p, t, start, at):  # type: ignore[no-untyped-def]
    """Collect the component of the block at `start` of the members, its key in row `at`; whether it is constrained."""
    key, stamp, work = p.key, t.counts[STAMP], np.int64(0)
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
            c = unseen_clause(p, stamp, p.lists[k])
            if c >= 0:
                found = True
                one += key[clauses + c, 0]
                two += key[clauses + c, 1]
                gather_clause(p, t, c)
        for k in range(p.block[x, B_TERMS], p.block[x + 1, B_TERMS]):
            z = unseen_sum(p, stamp, p.lists[k])
            if z >= 0:
                found = True
                one += sum_key(p, z, key[sums + z, 0])
                two += sum_key(p, z, key[sums + z, 1])
                gather_sum(p, t, z)
        work += 1 + p.block[x + 1, B_SHARES] - p.block[x, B_SHARES] + p.block[x + 1, B_TERMS] - p.block[x, B_TERMS]
    p.marks[WORK] += work
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
    return either(store, value, count, whole, t.scratch[1])


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
def write_component(t, c, first, last, best, one, two):  # type: ignore[no-untyped-def]
    """Write row c of the components."""
    t.component[c, FIRST], t.component[c, LAST], t.component[c, BEST] = first, last, best
    t.key[c, 0], t.key[c, 1] = one, two


@inner
def smallest_first(t, base):  # type: ignore[no-untyped-def]
    """Sort the components from `base` on by size, then by place (Shell's method): small ones fail soonest."""
    component, key, end = t.component, t.key, t.counts[COMPONENTS]
    gap = 1
    while 3 * gap + 1 < end - base:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(base + gap, end):
            first, last, best = component[i, FIRST], component[i, LAST], component[i, BEST]
            one, two = key[i, 0], key[i, 1]
            j = i
            while j - gap >= base:
                k = j - gap
                larger = component[k, LAST] - component[k, FIRST] - last + first
                if larger < 0 or (larger == 0 and component[k, FIRST] < first):
                    break
                write_component(t, j, component[k, FIRST], component[k, LAST], component[k, BEST], key[k, 0], key[k, 1])
                j = k
            if j < i:
                write_component(t, j, first, last, best, one, two)
        gap //= 3


@inner
def next_stamp(p, t):  # type: ignore[no-untyped-def]
    """A stamp that no block, clause or sum carries; when all are used up, all are reset."""
    if t.counts[STAMP] >= LAST_STAMP:
        for b in range(len(p.block)):
            p.block[b, B_SEEN] = 0
        for c in range(len(p.clause)):
            p.clause[c, C_SEEN] = 0
        for z in range(len(p.total)):
            p.total[z, Z_SEEN] = 0
        t.counts[STAMP] = 0
    t.counts[STAMP] += 1


@inner
def split(p, store, t, first, last):  # type: ignore[no-untyped-def]
    """Split the blocks left of a component: those solved become parts, the others wait; False if one is unsolvable.

    The list of the component, from `first` to `last`, is put in the order of its parts, each of which is a slice of it.
    """
    next_stamp(p, t)
    base = t.counts[COMPONENTS]
    blocks = len(p.block) - 1
    t.counts[MEMBERS] = blocks
    for k in range(first, last):
        b = t.member[k]
        if p.block[b, B_SEEN] == t.counts[STAMP]:
            continue
        start, at = t.counts[MEMBERS], t.counts[COMPONENTS]
        join(p, t, b)
        if p.block[b, B_DOMAIN] == 1 or p.block[b, B_GONE] != 0:
            continue
        if gather(p, t, start, at):
            node = solved(store, t.key[at, 0], t.key[at, 1])
            if node < 0:
                t.component[at, FIRST] = first + start - blocks
                t.component[at, LAST] = first + t.counts[MEMBERS] - blocks
                t.component[at, BEST] = best_member(p, t, start, t.counts[MEMBERS])
                t.counts[COMPONENTS] += 1
                continue
            t.counts[HITS] += 1
        else:
            node = left_alone(p, store, t, b)
        if node == FALSE:
            return False
        if node != TRUE:
            push_part(t, node)
    for k in range(last - first):
        t.member[first + k] = t.member[blocks + k]
    smallest_first(t, base)
    return True
