"""Search: branch on a block, propagate, split into components, solve each once; resumable between any two steps.

The stack is explicit, so that the search can stop after a number of steps, or when an array is full, and go on later
from the same place. Each frame is one component: its block to branch on, the value being tried, and the components
that this value left, of which those before the cursor are solved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dssl.circuits.compile.components import (
    BEST,
    BLOCK,
    BRANCH,
    BRANCHES,
    COMPONENT,
    COMPONENTS,
    CURSOR,
    DECISIONS,
    DEPTH,
    FIRST,
    HITS,
    LAST,
    MARK,
    MODE,
    NEED,
    PART,
    PARTS,
    ROOT,
    STEPS,
    VALUE,
    Stack,
    bytes_of_stack,
    drop_hidden,
    new_stack,
    push_part,
    split,
)
from dssl.circuits.compile.propagation import (
    ALLOWED,
    ASSIGNED,
    CHANGED,
    FIXPOINT,
    REMOVED,
    RETIRED,
    UNFINISHED,
    WORK,
    assign,
    living,
    propagate,
    queue_all,
    undo,
)
from dssl.circuits.compile.records import B_ASSIGNED, B_FIRST, B_FREE, B_HIDDEN, V_ALIVE, Problem
from dssl.circuits.compile.store import (
    CHILDREN,
    ENTRIES,
    FALSE,
    NODES,
    Store,
    append_factors,
    decision,
    factors,
    grown,
    new_store,
    product,
    remember,
    solved,
)
from dssl.circuits.compile.store import bytes_needed as bytes_of_store
from dssl.circuits.jit import entry, inner

if TYPE_CHECKING:
    from dssl.circuits.compile.budget import Budget

MORE, FULL, DONE = range(3)  # why a run stopped
# next: queue everything; try another value; solve the next component of the current value; go on propagating it
BEGIN, TRY, SOLVE, FOLLOW = range(4)


@inner
def open_frame(p, t, c):  # type: ignore[no-untyped-def]
    """Push the frame of component c."""
    f = t.frame[t.counts[DEPTH]]
    f[BLOCK] = t.component[c, BEST]
    f[VALUE] = p.block[f[BLOCK], B_FIRST] - 1
    f[COMPONENT] = t.counts[COMPONENTS]
    f[PART] = t.counts[PARTS]
    f[BRANCH] = t.counts[BRANCHES]
    for k in range(4):
        f[MARK + k] = p.marks[k]
    t.counts[DEPTH] += 1
    t.counts[DECISIONS] += 1
    t.counts[MODE] = TRY


@inner
def take_back(p, t):  # type: ignore[no-untyped-def]
    """Undo the value being tried."""
    f = t.frame[t.counts[DEPTH] - 1]
    undo(p, f[MARK + REMOVED], f[MARK + ASSIGNED], f[MARK + RETIRED], f[MARK + CHANGED])
    t.counts[COMPONENTS] = f[COMPONENT]
    t.counts[PARTS] = f[PART]
    t.counts[MODE] = TRY


@inner
def conclusion(p, store, t, f):  # type: ignore[no-untyped-def]
    """The node of the value being tried: what it forced, and its parts."""
    item, count = t.scratch[0], np.int64(0)
    for k in range(f[MARK + ASSIGNED], p.marks[ASSIGNED]):
        b = p.block[k, B_ASSIGNED]
        single = p.block[b, B_FREE] != 0 and p.block[b + 1, B_FIRST] - p.block[b, B_FIRST] == 1
        if b != f[BLOCK] and p.block[b, B_HIDDEN] == 0 and not single:
            item[count] = 2 + living(p, b)
            count += 1
    for k in range(f[PART], t.counts[PARTS]):
        count = append_factors(store, t.part[k], item, count)
    p.marks[WORK] += count
    return product(store, item, count)


@inner
def begin(p, store, t):  # type: ignore[no-untyped-def]
    """Follow the constraints; the lowest frame is the whole problem and tries no value."""
    queue_all(p)
    follow(p, store, t)


@inner
def follow(p, store, t):  # type: ignore[no-untyped-def]
    """Propagate the value being tried and split what is left of its component; stop in between if it takes long."""
    f = t.frame[t.counts[DEPTH] - 1]
    first, last = np.int64(0), np.int64(len(p.block) - 1)
    if f[BLOCK] >= 0:
        c = t.frame[t.counts[DEPTH] - 2, CURSOR]
        first, last = t.component[c, FIRST], t.component[c, LAST]
    end = propagate(p)
    if end == UNFINISHED:
        t.counts[MODE] = FOLLOW
        return
    if end == FIXPOINT:
        drop_hidden(p, t, first, last)
        if split(p, store, t, first, last):
            f[CURSOR] = f[COMPONENT]
            t.counts[MODE] = SOLVE
            return
    give_up_value(p, t)


@inner
def give_up_value(p, t):  # type: ignore[no-untyped-def]
    """The value being tried leads nowhere; for the whole problem, which tries none, that is the end."""
    if t.frame[t.counts[DEPTH] - 1, BLOCK] < 0:
        t.counts[ROOT] = FALSE
    else:
        take_back(p, t)


@inner
def deliver(p, t, node):  # type: ignore[no-untyped-def]
    """Hand the node of a component to the frame that waits for it."""
    f = t.frame[t.counts[DEPTH] - 1]
    if node != FALSE:
        push_part(t, node)
        f[CURSOR] += 1
        t.counts[MODE] = SOLVE
    else:
        give_up_value(p, t)


@inner
def try_value(p, store, t):  # type: ignore[no-untyped-def]
    """Try the next value of the top frame, or close the frame when there is none; False if the store is too small."""
    f = t.frame[t.counts[DEPTH] - 1]
    v, end = f[VALUE] + 1, p.block[f[BLOCK] + 1, B_FIRST]
    while v < end and p.value[v, V_ALIVE] == 0:
        v += 1
    if v == end:
        return close_frame(p, store, t)
    f[VALUE] = v
    assign(p, v)
    follow(p, store, t)
    return True


@inner
def close_frame(p, store, t):  # type: ignore[no-untyped-def]
    """Make the node of the component whose values are all tried; False if the store is too small."""
    f = t.frame[t.counts[DEPTH] - 1]
    b, count = f[BLOCK], (t.counts[BRANCHES] - f[BRANCH]) // 2
    t.counts[NEED] = 0
    for k in range(count):
        t.counts[NEED] += factors(store, t.branch[f[BRANCH] + 2 * k + 1])
    if store.sizes[CHILDREN] + t.counts[NEED] > len(store.child):
        return False
    p.marks[WORK] += t.counts[NEED]
    whole = p.block[b, B_FREE] != 0 and count == p.block[b + 1, B_FIRST] - p.block[b, B_FIRST]
    node = decision(store, t.branch, f[BRANCH], count, whole, p.block[b, B_HIDDEN] == 0, t.scratch)
    t.counts[BRANCHES] = f[BRANCH]
    t.counts[DEPTH] -= 1
    c = t.frame[t.counts[DEPTH] - 1, CURSOR]
    remember(store, t.key[c, 0], t.key[c, 1], node)
    deliver(p, t, node)
    return True


@inner
def solve_next(p, store, t):  # type: ignore[no-untyped-def]
    """Solve the next component of the value being tried, or conclude the value when all are solved."""
    f = t.frame[t.counts[DEPTH] - 1]
    c = f[CURSOR]
    if c < t.counts[COMPONENTS]:
        node = solved(store, t.key[c, 0], t.key[c, 1])
        if node >= 0:
            t.counts[HITS] += 1
            deliver(p, t, node)
        else:
            open_frame(p, t, c)
        return
    node = conclusion(p, store, t, f)
    if f[BLOCK] < 0:
        t.counts[ROOT] = node
        return
    at = t.counts[BRANCHES]
    t.branch[at] = f[VALUE]
    t.branch[at + 1] = node
    t.counts[BRANCHES] += 2
    take_back(p, t)


@inner
def has_room(store, margin):  # type: ignore[no-untyped-def]
    """Whether the arrays can take one more step."""
    nodes = store.sizes[NODES] + margin
    return (
        nodes < len(store.node)
        and 2 * nodes <= len(store.table)
        and store.sizes[CHILDREN] + margin <= len(store.child)
        and 2 * (store.sizes[ENTRIES] + 2) <= len(store.entry_node)
    )


@entry
def run(p, store, t, steps, work, margin):  # type: ignore[no-untyped-def]
    """Go on for some steps or work: DONE with the root in ``counts[ROOT]``, FULL when an array must grow, or MORE."""
    p.marks[WORK] = 0
    p.marks[ALLOWED] = work
    while steps > 0 and p.marks[WORK] <= work:
        if t.counts[ROOT] >= 0:
            return DONE
        if t.counts[MODE] == FOLLOW:  # the rest of a step
            follow(p, store, t)
            continue
        if not has_room(store, margin):
            return FULL
        steps -= 1
        t.counts[STEPS] += 1
        p.marks[WORK] += 1
        if t.counts[MODE] == SOLVE:
            solve_next(p, store, t)
        elif t.counts[MODE] == BEGIN:
            begin(p, store, t)
        elif not try_value(p, store, t):
            return FULL
    return MORE


class Search(NamedTuple):
    """A search under way."""

    problem: Problem
    store: Store
    stack: Stack
    margin: int

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for part in self[:3] for array in part)

    def with_room(self, budget: Budget) -> Search:
        """The same search with arrays large enough to go on, if the budget allows them beside those there are."""
        return self._replace(store=grown(self.store, self.margin + int(self.stack.counts[NEED]), budget))

    @property
    def root(self) -> int:
        """The node of the whole problem, or -1 before the search is done."""
        return int(self.stack.counts[ROOT])

    def share(self) -> float:
        """The share of all choices gone through, from the values tried at each level: not a share of the time."""
        frame, block = self.stack.frame[1 : int(self.stack.counts[DEPTH])], self.problem.block
        first = block[frame[:, BLOCK], B_FIRST]
        weight = np.cumprod(1.0 / (block[frame[:, BLOCK] + 1, B_FIRST] - first))
        return float(np.dot(weight, np.maximum(frame[:, VALUE] - first, 0)))


def bytes_needed(problem: Problem) -> int:
    """Bytes that a search of the problem begins with."""
    blocks, values = len(problem.block) - 1, len(problem.value) - 1
    own = sum(array.nbytes for array in problem)
    return own + bytes_of_stack(blocks, values) + bytes_of_store(values, _margin(problem))


def _margin(problem: Problem) -> int:
    """Nodes and children that one step can make."""
    return 8 * (len(problem.value) + len(problem.block)) + 64


def start(problem: Problem, weight: int) -> Search:
    """A search that has not begun; it uses up the problem's state.

    `weight` is what one open constraint counts against one step of rank when a block is picked; 0 is a static order.
    """
    margin = _margin(problem)
    return Search(problem, new_store(len(problem.value) - 1, margin), new_stack(problem, weight), margin)
