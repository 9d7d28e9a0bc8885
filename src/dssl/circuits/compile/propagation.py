"""Propagation: what is left of the constraints after some values are ruled out, kept up to date and undone by trail.

A block is *assigned* when one value is alive. A clause is satisfied when an assigned block lies inside it, or when no
value outside it is alive in some block; it is *unit* when a single block can still satisfy it, and then that block
loses its values outside. A sum knows the least and the greatest total that the living values allow; a value that would
leave no total inside an interval is ruled out. Everything runs to a fixpoint or to a conflict. Sums may need many
passes for that, so propagation can stop in between and go on later: what is left to do stands in the queues.

Trails and queues are columns of the tables they refer to; `marks` has their lengths.
"""

from __future__ import annotations

import numpy as np

from dssl.circuits.compile.records import (
    B_ASSIGNED,
    B_DOMAIN,
    B_FIRST,
    B_GONE,
    B_QUEUE,
    B_QUEUED,
    B_RETIRED,
    B_SHARES,
    B_TERMS,
    C_LIVE,
    C_OWNER,
    C_QUEUE,
    C_QUEUED,
    C_SATISFIED,
    C_SHARES,
    S_BLOCK,
    S_CLAUSE,
    S_LISTED,
    S_OUTSIDE,
    S_VALUES,
    T_BLOCK,
    T_COEFFICIENTS,
    T_HIGH,
    T_LOW,
    T_SUM,
    V_ALIVE,
    V_BLOCK,
    V_TRAIL,
    V_USES,
    Z_DROPPED,
    Z_GAP,
    Z_HIGH,
    Z_INTERVALS,
    Z_LOW,
    Z_OWNER,
    Z_QUEUE,
    Z_QUEUED,
    Z_SPREAD,
    Z_TERMS,
)
from dssl.circuits.jit import inner

REMOVED, ASSIGNED, RETIRED, CHANGED, CLAUSES, SUMS, BLOCKS = range(7)  # marks: four trails, three queues
WORK, ALLOWED = 7, 8  # marks, too: what was done since the search looked up, and after how much it does so again
CONFLICT, FIXPOINT, UNFINISHED = range(3)  # how propagation ends


@inner
def push_clause(p, c):  # type: ignore[no-untyped-def]
    """Queue a clause that may have become unit."""
    clause = p.clause
    if clause[c, C_LIVE] <= 1 and clause[c, C_SATISFIED] == 0 and clause[c, C_QUEUED] == 0:
        clause[c, C_QUEUED] = 1
        clause[p.marks[CLAUSES], C_QUEUE] = c
        p.marks[CLAUSES] += 1


@inner
def living(p, b):  # type: ignore[no-untyped-def]
    """The first living value of block b."""
    v = p.block[b, B_FIRST]
    while p.value[v, V_ALIVE] == 0:
        v += 1
    return v


@inner
def note_assigned(p, b):  # type: ignore[no-untyped-def]
    """Block b has one living value: settle its clauses."""
    v = living(p, b)
    p.block[p.marks[ASSIGNED], B_ASSIGNED] = b
    p.marks[ASSIGNED] += 1
    for k in range(p.value[v, V_USES], p.value[v + 1, V_USES]):
        i = p.lists[k]
        c = p.share[i, S_CLAUSE]
        if p.share[i, S_OUTSIDE] != 0:
            p.clause[c, C_LIVE] -= 1
            push_clause(p, c)
        else:
            p.clause[c, C_SATISFIED] += 1


@inner
def remove(p, v):  # type: ignore[no-untyped-def]
    """Rule out a living value of a block with others; sums follow in `propagate`."""
    b = p.value[v, V_BLOCK]
    p.value[v, V_ALIVE] = 0
    p.value[p.marks[REMOVED], V_TRAIL] = v
    p.marks[REMOVED] += 1
    p.block[b, B_DOMAIN] -= 1
    p.marks[WORK] += 1 + p.value[v + 1, V_USES] - p.value[v, V_USES]
    at = len(p.value) + b
    p.key[at, 0] -= p.key[v, 0]
    p.key[at, 1] -= p.key[v, 1]
    for k in range(p.value[v, V_USES], p.value[v + 1, V_USES]):
        i = p.lists[k]
        p.share[i, S_LISTED] -= 1
        if p.share[i, S_LISTED] == 0:
            c = p.share[i, S_CLAUSE]
            if p.share[i, S_OUTSIDE] != 0:
                p.clause[c, C_SATISFIED] += 1
            else:
                p.clause[c, C_LIVE] -= 1
                push_clause(p, c)
    if p.block[b, B_DOMAIN] == 1:
        note_assigned(p, b)
    if p.block[b, B_TERMS] < p.block[b + 1, B_TERMS] and p.block[b, B_QUEUED] == 0:
        p.block[b, B_QUEUED] = 1
        p.block[p.marks[BLOCKS], B_QUEUE] = b
        p.marks[BLOCKS] += 1


@inner
def assign(p, v):  # type: ignore[no-untyped-def]
    """Rule out every other value of v's block."""
    b = p.value[v, V_BLOCK]
    for w in range(p.block[b, B_FIRST], p.block[b + 1, B_FIRST]):
        if w != v and p.value[w, V_ALIVE] != 0:
            remove(p, w)


@inner
def set_dropped(p, b, step):  # type: ignore[no-untyped-def]
    """Drop hidden block b with the constraints that define it (step 1), or take that back (step -1)."""
    p.block[b, B_GONE] += step
    for k in range(p.block[b, B_SHARES], p.block[b + 1, B_SHARES]):
        c = p.share[p.lists[k], S_CLAUSE]
        if p.clause[c, C_OWNER] == b:
            p.clause[c, C_SATISFIED] += step
    for k in range(p.block[b, B_TERMS], p.block[b + 1, B_TERMS]):
        z = p.term[p.lists[k], T_SUM]
        if p.total[z, Z_OWNER] == b:
            p.total[z, Z_DROPPED] += step


@inner
def drop(p, b):  # type: ignore[no-untyped-def]
    """Drop a hidden block with the constraints that define it."""
    p.block[p.marks[RETIRED], B_RETIRED] = b
    p.marks[RETIRED] += 1
    set_dropped(p, b, np.int64(1))


@inner
def restore(p, v):  # type: ignore[no-untyped-def]
    """Take back `remove`."""
    b = p.value[v, V_BLOCK]
    if p.block[b, B_DOMAIN] == 1:
        w = living(p, b)
        for k in range(p.value[w, V_USES], p.value[w + 1, V_USES]):
            i = p.lists[k]
            if p.share[i, S_OUTSIDE] != 0:
                p.clause[p.share[i, S_CLAUSE], C_LIVE] += 1
            else:
                p.clause[p.share[i, S_CLAUSE], C_SATISFIED] -= 1
    p.value[v, V_ALIVE] = 1
    p.block[b, B_DOMAIN] += 1
    at = len(p.value) + b
    p.key[at, 0] += p.key[v, 0]
    p.key[at, 1] += p.key[v, 1]
    for k in range(p.value[v, V_USES], p.value[v + 1, V_USES]):
        i = p.lists[k]
        if p.share[i, S_LISTED] == 0:
            if p.share[i, S_OUTSIDE] != 0:
                p.clause[p.share[i, S_CLAUSE], C_SATISFIED] -= 1
            else:
                p.clause[p.share[i, S_CLAUSE], C_LIVE] += 1
        p.share[i, S_LISTED] += 1


@inner
def set_range(p, t, low, high):  # type: ignore[no-untyped-def]
    """Give term t a new range of living coefficients."""
    z = p.term[t, T_SUM]
    p.total[z, Z_LOW] += low - p.term[t, T_LOW]
    p.total[z, Z_HIGH] += high - p.term[t, T_HIGH]
    p.term[t, T_LOW] = low
    p.term[t, T_HIGH] = high


@inner
def undo(p, removed, assigned, retired, changed):  # type: ignore[no-untyped-def]
    """Go back to the trail lengths given."""
    marks = p.marks
    while marks[RETIRED] > retired:
        marks[RETIRED] -= 1
        set_dropped(p, p.block[marks[RETIRED], B_RETIRED], np.int64(-1))
    while marks[CHANGED] > changed:
        marks[CHANGED] -= 1
        k = marks[CHANGED]
        set_range(p, p.changed[k, 0], p.changed[k, 1], p.changed[k, 2])
    marks[ASSIGNED] = assigned
    while marks[REMOVED] > removed:
        marks[REMOVED] -= 1
        restore(p, p.value[marks[REMOVED], V_TRAIL])


@inner
def can_satisfy(p, i):  # type: ignore[no-untyped-def]
    """Whether some living value of share i's block lies inside the clause."""
    if p.share[i, S_OUTSIDE] != 0:
        return p.share[i, S_LISTED] < p.block[p.share[i, S_BLOCK], B_DOMAIN]
    return p.share[i, S_LISTED] > 0


@inner
def run_clause(p, c):  # type: ignore[no-untyped-def]
    """Rule out what a unit clause excludes; False where nothing can satisfy it."""
    last = -1
    for i in range(p.clause[c, C_SHARES], p.clause[c + 1, C_SHARES]):
        if can_satisfy(p, i):
            if last >= 0:
                return True  # a block's count was late; not unit after all
            last = i
    if last < 0:
        return False
    k, end = p.share[last, S_VALUES], p.share[last + 1, S_VALUES]
    if p.share[last, S_OUTSIDE] != 0:
        for at in range(k, end):
            if p.value[p.lists[at], V_ALIVE] != 0:
                remove(p, p.lists[at])
        return True
    b = p.share[last, S_BLOCK]
    for v in range(p.block[b, B_FIRST], p.block[b + 1, B_FIRST]):
        if k < end and p.lists[k] == v:
            k += 1
        elif p.value[v, V_ALIVE] != 0:
            remove(p, v)
    return True


@inner
def refresh_terms(p, b):  # type: ignore[no-untyped-def]
    """Bring the ranges of block b's terms up to date and queue the sums that changed."""
    first, last = p.block[b, B_FIRST], p.block[b + 1, B_FIRST]
    p.marks[WORK] += (p.block[b + 1, B_TERMS] - p.block[b, B_TERMS]) * (last - first)
    for k in range(p.block[b, B_TERMS], p.block[b + 1, B_TERMS]):
        t = np.int64(p.lists[k])
        shift = p.term[t, T_COEFFICIENTS] - first
        low = p.coefficient[shift + living(p, b)]
        high = low
        for v in range(first, last):
            if p.value[v, V_ALIVE] != 0:
                low = min(low, p.coefficient[shift + v])
                high = max(high, p.coefficient[shift + v])
        if low != p.term[t, T_LOW] or high != p.term[t, T_HIGH]:
            at = p.marks[CHANGED]
            p.changed[at, 0] = t
            p.changed[at, 1] = p.term[t, T_LOW]
            p.changed[at, 2] = p.term[t, T_HIGH]
            p.marks[CHANGED] += 1
            set_range(p, t, low, high)
            z = p.term[t, T_SUM]
            if p.total[z, Z_DROPPED] == 0 and p.total[z, Z_QUEUED] == 0:
                p.total[z, Z_QUEUED] = 1
                p.total[p.marks[SUMS], Z_QUEUE] = z
                p.marks[SUMS] += 1


@inner
def interval_after(p, z, low):  # type: ignore[no-untyped-def]
    """The first interval of a sum that ends at `low` or later."""
    a, b = p.total[z, Z_INTERVALS], p.total[z + 1, Z_INTERVALS]
    while a < b:
        middle = (a + b) // 2
        if p.interval[middle, 1] < low:
            a = middle + 1
        else:
            b = middle
    return a


@inner
def meets(p, z, low, high):  # type: ignore[no-untyped-def]
    """Whether some number from low to high lies in an interval of the sum."""
    k = interval_after(p, z, low)
    return k < p.total[z + 1, Z_INTERVALS] and p.interval[k, 0] <= high


@inner
def sum_open(p, z):  # type: ignore[no-untyped-def]
    """Whether a sum still says something: some total that is left lies in no interval."""
    if p.total[z, Z_DROPPED] != 0:
        return False
    low, high = p.total[z, Z_LOW], p.total[z, Z_HIGH]
    k = interval_after(p, z, low)
    return k == p.total[z + 1, Z_INTERVALS] or low < p.interval[k, 0] or p.interval[k, 1] < high


@inner
def run_sum(p, z):  # type: ignore[no-untyped-def]
    """Rule out values that leave no total inside an interval; False where none is left."""
    low, high = p.total[z, Z_LOW], p.total[z, Z_HIGH]
    if not meets(p, z, low, high):
        return False
    if not sum_open(p, z):
        return True
    bottom = p.interval[p.total[z, Z_INTERVALS], 0]
    top = p.interval[p.total[z + 1, Z_INTERVALS] - 1, 1]
    spread = p.total[z, Z_SPREAD]
    if spread <= min(top - low, high - bottom) and high - low - spread >= p.total[z, Z_GAP]:
        return True  # no single value is enough to leave the intervals
    for t in range(p.total[z, Z_TERMS], p.total[z + 1, Z_TERMS]):
        below, above = low - p.term[t, T_LOW], high - p.term[t, T_HIGH]
        if low - below == high - above:
            continue
        b = p.term[t, T_BLOCK]
        shift = p.term[t, T_COEFFICIENTS] - p.block[b, B_FIRST]
        p.marks[WORK] += p.block[b + 1, B_FIRST] - p.block[b, B_FIRST]
        for v in range(p.block[b, B_FIRST], p.block[b + 1, B_FIRST]):
            c = p.coefficient[shift + v]
            if p.value[v, V_ALIVE] != 0 and not meets(p, z, below + c, above + c):
                if p.block[b, B_DOMAIN] == 1:
                    return False
                remove(p, v)
    return True


@inner
def propagate(p):  # type: ignore[no-untyped-def]
    """Run all queues empty, cheap clauses before sums, or stop unfinished when enough work is done."""
    marks = p.marks
    good = True
    while marks[CLAUSES] + marks[SUMS] + marks[BLOCKS] > 0:  # on a conflict the queues are only emptied
        if good and marks[WORK] > marks[ALLOWED]:
            return UNFINISHED
        if marks[CLAUSES] > 0:
            marks[CLAUSES] -= 1
            c = p.clause[marks[CLAUSES], C_QUEUE]
            p.clause[c, C_QUEUED] = 0
            good = good and (p.clause[c, C_SATISFIED] > 0 or run_clause(p, c))
        elif marks[BLOCKS] > 0:
            marks[BLOCKS] -= 1
            b = p.block[marks[BLOCKS], B_QUEUE]
            p.block[b, B_QUEUED] = 0
            if good:
                refresh_terms(p, b)
        else:
            marks[SUMS] -= 1
            z = p.total[marks[SUMS], Z_QUEUE]
            p.total[z, Z_QUEUED] = 0
            good = good and (p.total[z, Z_DROPPED] > 0 or run_sum(p, z))
    return FIXPOINT if good else CONFLICT


@inner
def queue_all(p):  # type: ignore[no-untyped-def]
    """Queue everything, before any decision."""
    for b in range(len(p.block) - 1):
        if p.block[b, B_DOMAIN] == 1:
            note_assigned(p, np.int32(b))
    for c in range(len(p.clause) - 1):
        push_clause(p, np.int32(c))
    for z in range(len(p.total) - 1):
        p.total[z, Z_QUEUED] = 1
        p.total[z, Z_QUEUE] = z
    p.marks[SUMS] = len(p.total) - 1
