"""Search: branch on a block, propagate, split into components, solve each once; resumable between any two steps.

The stack is explicit, so that the search can stop after a number of steps, or when an array is full, and go on later
from the same place. Each frame is one component: its block to branch on, the value being tried, and the components
that this value left, of which those before the cursor are solved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dssl.circuits.components import (
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
    MEMBER,
    MEMBERS,
    MODE,
    NEED,
    PART,
    PARTS,
    ROOT,
    STEPS,
    VALUE,
    Stack,
    drop_hidden,
    new_stack,
    push_part,
    split,
)
from dssl.circuits.jit import entry, inner
from dssl.circuits.nodes import (
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
from dssl.circuits.problem import (
    B_ASSIGNED,
    B_FIRST,
    B_FREE,
    B_HIDDEN,
    V_ALIVE,
    Problem,
)
from dssl.circuits.propagation import (
    ASSIGNED,
    CHANGED,
    REMOVED,
    RETIRED,
    assign,
    living,
    propagate,
    settle,
    undo,
)

MORE, FULL, DONE = range(3)  # why a run stopped
BEGIN, TRY, SOLVE = range(3)  # next: settle; try another value; solve the next component of the current value


@inner
def open_frame(p, t, c):  # type: ignore[no-untyped-def]
    """Push the frame of component c."""
    f = t.frame[t.counts[DEPTH]]
    f[BLOCK] = t.component[c, BEST]
    f[VALUE] = p.block[f[BLOCK], B_FIRST] - 1
    f[COMPONENT] = t.counts[COMPONENTS]
    f[MEMBER] = t.counts[MEMBERS]
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
    t.counts[MEMBERS] = f[MEMBER]
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
    return product(store, item, count)


@inner
def begin(p, store, t):  # type: ignore[no-untyped-def]
    """Settle the constraints; the lowest frame is the whole problem and tries no value."""
    t.counts[MODE] = SOLVE
    if settle(p):
        drop_hidden(p, t, np.int64(0), t.counts[MEMBERS])
        if split(p, store, t, np.int64(0), t.counts[MEMBERS]):
            return
    t.counts[ROOT] = FALSE


@inner
def deliver(p, t, node):  # type: ignore[no-untyped-def]
    """Hand the node of a component to the frame that waits for it."""
    f = t.frame[t.counts[DEPTH] - 1]
    if node != FALSE:
        push_part(t, node)
        f[CURSOR] += 1
        t.counts[MODE] = SOLVE
    elif f[BLOCK] < 0:
        t.counts[ROOT] = FALSE
    else:
        take_back(p, t)


@inner
def try_value(p, store, t):  # type: ignore[no-untyped-def]
    """Try the next value of the top frame, or close the frame when there is none; False if the store is too small."""
    f = t.frame[t.counts[DEPTH] - 1]
    c = t.frame[t.counts[DEPTH] - 2, CURSOR]
    b, v = f[BLOCK], f[VALUE] + 1
    end = p.block[b + 1, B_FIRST]
    while v < end and p.value[v, V_ALIVE] == 0:
        v += 1
    f[VALUE] = v
    if v < end:
        assign(p, v)
        good = propagate(p)
        if good:
            drop_hidden(p, t, t.component[c, FIRST], t.component[c, LAST])
            good = split(p, store, t, t.component[c, FIRST], t.component[c, LAST])
        if good:
            f[CURSOR] = f[COMPONENT]
            t.counts[MODE] = SOLVE
        else:
            take_back(p, t)
        return True
    count = (t.counts[BRANCHES] - f[BRANCH]) // 2
    t.counts[NEED] = 0
    for k in range(count):
        t.counts[NEED] += factors(store, t.branch[f[BRANCH] + 2 * k + 1])
    if store.sizes[CHILDREN] + t.counts[NEED] > len(store.child):
        f[VALUE] = end - 1
        return False
    whole = p.block[b, B_FREE] != 0 and count == end - p.block[b, B_FIRST]
    node = decision(store, t.branch, f[BRANCH], count, whole, p.block[b, B_HIDDEN] == 0, t.scratch)
    t.counts[BRANCHES] = f[BRANCH]
    t.counts[DEPTH] -= 1
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
def has_room(p, store, t, margin):  # type: ignore[no-untyped-def]
    """Whether the arrays can take one more step."""
    blocks = len(p.block)
    nodes = store.sizes[NODES] + margin
    return (
        nodes < len(store.node)
        and 2 * nodes <= len(store.table)
        and store.sizes[CHILDREN] + margin <= len(store.child)
        and 2 * (store.sizes[ENTRIES] + 2) <= len(store.entry_node)
        and t.counts[MEMBERS] + blocks <= len(t.member)
        and t.counts[COMPONENTS] + blocks <= len(t.component)
    )


@entry
def run(p, store, t, steps, margin):  # type: ignore[no-untyped-def]
    """Go on for some steps: DONE with the root in ``counts[ROOT]``, FULL when an array must grow, else MORE."""
    for _ in range(steps):
        if t.counts[ROOT] >= 0:
            return DONE
        if not has_room(p, store, t, margin):
            return FULL
        t.counts[STEPS] += 1
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

    def with_room(self) -> Search:
        """The same search with arrays large enough to go on."""
        stack, blocks = self.stack, len(self.problem.block)
        if stack.counts[MEMBERS] + blocks > len(stack.member):
            stack = stack._replace(member=np.resize(stack.member, 2 * len(stack.member)))
        if stack.counts[COMPONENTS] + blocks > len(stack.component):
            size = 2 * len(stack.component)
            stack = stack._replace(component=np.resize(stack.component, (size, 3)), key=np.resize(stack.key, (size, 2)))
        store = grown(self.store, self.margin + int(stack.counts[NEED]))
        return self._replace(store=store, stack=stack)

    @property
    def root(self) -> int:
        """The node of the whole problem, or -1 before the search is done."""
        return int(self.stack.counts[ROOT])

    def share(self) -> float:
        """A guess at the share of the search that is done, from the values tried at each level."""
        t, block = self.stack, self.problem.block
        done, weight = 0.0, 1.0
        for depth in range(int(t.counts[DEPTH])):
            b, value = t.frame[depth, :2]
            if b >= 0:
                size = int(block[b + 1, B_FIRST] - block[b, B_FIRST])
                weight /= size
                done += weight * max(int(value - block[b, B_FIRST]), 0)
        return done


def start(problem: Problem, weight: int) -> Search:
    """A search that has not begun; it uses up the problem's state.

    `weight` is what one open constraint counts against one step of rank when a block is picked; 0 is a static order.
    """
    margin = 8 * (len(problem.value) + len(problem.block)) + 64
    return Search(problem, new_store(len(problem.value) - 1, margin), new_stack(problem, weight), margin)
