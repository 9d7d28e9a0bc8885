"""A single rule that is decided block by block, as a circuit without any search: an automaton, a graph, a sum, a table.

Going forwards, the states that can be reached are numbered; going backwards, states with the same completions become
one node. All states of a block are handled at once, so that a sum of thousands of variables takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssl.circuits.compile.budget import Budget
from dssl.circuits.compile.emission import Arrays
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE
from dssl.logic.reasoning.constraints import Constraints, Listed, Sum

Numbers = NDArray[np.int64]
Literals = Callable[[int, int], int]  # block and value → literal, 0 where it is not shown
FAILS, HOLDS = -1, -2  # in the place of a state: nothing more to decide
FEWEST_STEPS = 2_000  # the search is as quick for fewer, and its circuits a little smaller
MOST_STEPS = 10_000_000  # from states by values; beyond, the search may find a better order


class Steps(NamedTuple):
    """Steps through states, from state 0 on, that end in `FAILS` or `HOLDS`."""

    blocks: Sequence[int]
    steps: Sequence[NDArray[np.integer]]  # for each block (states before, its values) → state after


def direct(constraints: Constraints, literal: Literals, budget: Budget) -> Arrays | None:
    """The circuit of a single rule of these kinds; None if there are other rules, or if it gets too large."""
    found = _of_a_chain(constraints) or _of_a_sum(constraints) or _of_a_table(constraints)
    if found is None or sum(step.size for step in found.steps) < FEWEST_STEPS:
        return None
    return _circuit(found, literal, budget)


# ---- rules as steps ----


def _of_a_chain(constraints: Constraints) -> Steps | None:
    if len(constraints.chains) != 1 or constraints.sums or constraints.soft:
        return None
    (chain,) = constraints.chains
    if chain.hidden != constraints.hidden or len(constraints.sizes) == constraints.visible:
        return None
    own = [all(value >= constraints.offsets[constraints.visible] for value in c) for c in _asserted(constraints)]
    if not all(own) or len(own) != 1:
        return None
    last = np.where(chain.steps[-1] == chain.accepted, HOLDS, FAILS)
    return Steps(chain.blocks, [*chain.steps[:-1], last])


def _asserted(constraints: Constraints) -> list[tuple[int, ...]]:
    """The clauses that do not define a hidden block."""
    return [clause for clause, owner in zip(constraints.clauses, constraints.clause_owners) if owner < 0]


def _of_a_sum(constraints: Constraints) -> Steps | None:
    if len(constraints.sums) != 1 or constraints.clauses or constraints.hidden or constraints.soft:
        return None
    (s,) = constraints.sums
    block_of = np.repeat(np.arange(len(constraints.sizes)), constraints.sizes)[list(s.values)].tolist()
    weights = {block: [0] * constraints.sizes[block] for block in sorted(set(block_of))}
    if sum(map(abs, s.coefficients)) + max(abs(edge) for interval in s.intervals for edge in interval) >= 2**62:
        return None
    for value, c, block in zip(s.values, s.coefficients, block_of):
        weights[block][value - constraints.offsets[block]] = c
    if _open_totals(s, weights.values()) * sum(map(len, weights.values())) < FEWEST_STEPS:
        return None
    steps = _totals(s, [np.array(weight, dtype=np.int64) for weight in weights.values()])
    return None if steps is None else Steps(list(weights)[: len(steps)], steps)


def _open_totals(s: Sum, weights: Collection[Sequence[int]]) -> int:
    """At most how many totals of a few blocks are not decided yet: from each an interval must be within reach."""
    low, high = sum(map(min, weights)), sum(map(max, weights))
    return min(s.intervals[-1][1] - low, high - s.intervals[0][0]) + 1


def _totals(s: Sum, weights: Sequence[Numbers]) -> list[NDArray[np.integer]] | None:
    """Steps from total to total: one that is decided, whatever may come, ends."""
    low = np.cumsum([0, *(w.min() for w in reversed(weights))])[-2::-1]
    high = np.cumsum([0, *(w.max() for w in reversed(weights))])[-2::-1]
    totals, cells = np.zeros(1, dtype=np.int64), 0
    out: list[NDArray[np.integer]] = []
    for at, weight in enumerate(weights):
        new = totals[:, None] + weight  # (totals so far, values)
        least, most = new + low[at], new + high[at]
        step = np.full(new.shape, FAILS, dtype=np.int64)
        for a, b in s.intervals:
            step[(least <= b) & (most >= a)] = 0
        for a, b in s.intervals:
            step[(least >= a) & (most <= b)] = HOLDS
        going = step == 0
        totals = np.unique(new[going])
        step[going] = np.searchsorted(totals, new[going])
        out.append(step)
        cells += step.size
        if cells > MOST_STEPS:
            return None
        if not len(totals):  # all are decided
            break
    return out


def _of_a_table(constraints: Constraints) -> Steps | None:
    if len(constraints.tables) != 1 or constraints.sums or constraints.soft or len(constraints.hidden) != 1:
        return None
    (table,) = constraints.tables
    if len(constraints.clauses) != sum(constraints.sizes[block] for block in table.blocks):
        return None
    steps = _prefixes(table, constraints.sizes)
    return None if steps is None else Steps(table.blocks, steps)


def _prefixes(table: Listed, sizes: Sequence[int]) -> list[NDArray[np.integer]] | None:
    """Steps from the beginnings of rows to longer beginnings."""
    before, states, cells = np.zeros(len(table.rows), dtype=np.int64), 1, 0
    out: list[NDArray[np.integer]] = []
    for at, block in enumerate(table.blocks):
        cells += states * sizes[block]
        if cells > 10 * MOST_STEPS:
            return None
        step = np.full((states, sizes[block]), FAILS, dtype=np.int64)
        key, after = np.unique(before * sizes[block] + table.rows[:, at], return_inverse=True)
        last = at == len(table.blocks) - 1
        step.ravel()[key] = HOLDS if last else np.arange(len(key))
        out.append(step)
        before, states = after.reshape(-1), len(key)
    return out


# ---- steps as circuits ----


class _Nodes:
    """Nodes as they are made, children before parents, many at a time."""

    def __init__(self) -> None:
        self.count = 0
        self.kinds: list[NDArray[np.int8]] = []
        self.literals: list[NDArray[np.int32]] = []
        self.sizes: list[Numbers] = []
        self.children: list[Numbers] = []

    def add(self, kind: int, sizes: Numbers, children: Numbers, literals: Numbers | None = None) -> Numbers:
        """The numbers of new nodes of one kind."""
        new = np.arange(self.count, self.count + len(sizes))
        self.count += len(sizes)
        self.kinds.append(np.full(len(sizes), kind, dtype=np.int8))
        self.literals.append(np.zeros(len(sizes), np.int32) if literals is None else literals.astype(np.int32))
        self.sizes.append(sizes)
        self.children.append(children)
        return new

    def arrays(self) -> Arrays:
        return (
            np.concatenate(self.kinds),
            np.concatenate(self.literals),
            np.concatenate([[0], np.cumsum(np.concatenate(self.sizes))]).astype(np.int64),
            np.concatenate(self.children).astype(np.int32),
        )


def _circuit(found: Steps, literal: Literals, budget: Budget) -> Arrays | None:
    nodes = _Nodes()
    below = np.zeros(1, dtype=np.int64)  # the node of each state after a block; none is left after the last
    for step, block in zip(reversed(found.steps), reversed(found.blocks)):
        following = np.where(step >= 0, below[np.maximum(step, 0)], step)  # (states, values)
        rows, kinds = np.unique(following, axis=0, return_inverse=True)
        shown = np.array([literal(block, value) for value in range(rows.shape[1])], dtype=np.int64)
        below = _decided(nodes, rows, shown)[kinds.reshape(-1)]
        budget.tick()
        if nodes.count > budget.nodes:
            return None
    root = int(below[0])
    if root < 0:
        nodes.add(FALSE if root == FAILS else TRUE, np.zeros(1, np.int64), np.zeros(0, np.int64))
    assert root < 0 or root == nodes.count - 1
    return nodes.arrays()


def _decided(nodes: _Nodes, rows: Numbers, shown: Numbers) -> Numbers:
    """A node for each row: the block takes one of its values, and what follows from that holds."""
    out = rows[:, 0].copy()  # where all values lead to the same, there is nothing to decide
    busy = (rows != rows[:, :1]).any(axis=1)
    rows = rows[busy]
    if not len(rows):
        return out
    possible = rows != FAILS
    leaf, used = np.zeros(len(shown), dtype=np.int64), possible.any(axis=0)
    none = np.zeros(0, dtype=np.int64)
    leaf[used] = nodes.add(LITERAL, np.zeros(used.sum(), np.int64), none, shown[used])
    term = np.broadcast_to(leaf, rows.shape).copy()
    onward = possible & (rows != HOLDS)
    value, node = np.nonzero(onward)[1], rows[onward]
    pairs, same = np.unique(value * max(nodes.count, 1) + node, return_inverse=True)
    both = np.stack([leaf[pairs // max(nodes.count, 1)], pairs % max(nodes.count, 1)], axis=1)
    term[onward] = nodes.add(AND, np.full(len(pairs), 2), both.reshape(-1))[same.reshape(-1)]
    arms = possible.sum(axis=1)
    found = term[np.arange(len(rows)), possible.argmax(axis=1)]
    several = arms > 1
    found[several] = nodes.add(OR, arms[several], term[several][possible[several]])
    out[busy] = found
    return out
