"""Rules that are decided step by step, such as a path in a graph, as a circuit: by the frontier method.

Blocks are decided in the order of the chain. A *state* says all that matters of those before: the state of each chain,
which clauses are still open, and the totals of sums so far. Decisions that lead to the same state have the same
completions, so states are nodes of a decision diagram. Where further rules make it too wide it is given up, and the
search takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dssl.circuits.compile.budget import Budget
from dssl.circuits.compile.emission import Arrays
from dssl.circuits.compile.native.diagram import Diagram
from dssl.circuits.nodes import FALSE, TRUE
from dssl.logic.reasoning.constraints import Chain, Constraints, Sum

WIDE = 32  # states of a chain from which on it is decided so; the search is as good for fewer, and splits better
MOST_STATES = 500_000  # in all, before it is given up
State = tuple[tuple[int, ...], frozenset[int], tuple[tuple[int, int], ...]]  # of chains, open clauses, sums so far
Literals = Callable[[int, int], int]  # block and value → literal, 0 where it is not shown
_STATE, _CHOICE = 400, 8  # bytes of a state and of where a value leads, as Python holds them
_DEAD = 0  # the number of what cannot end well; 1 is what has


def chained(constraints: Constraints, literal: Literals, budget: Budget) -> Arrays | None:
    """The circuit of constraints with a wide chain; None if there is none, or if it gets too wide."""
    if not constraints.chains or max(chain.width for chain in constraints.chains) < WIDE:
        return None
    inside = {block for chain in constraints.chains for block in chain.hidden}
    rest = _rest(constraints, inside)
    if rest is None:
        return None
    order = _order(constraints, rest, inside)
    if order is None:
        return None
    walk = _Walk(constraints, *rest, order)
    layers = walk.layers(budget)
    if layers is None:
        return None
    made = _circuit(layers, order, constraints, literal)
    budget.allow(len(made[0]))
    return made


def _rest(constraints: Constraints, inside: set[int]) -> tuple[list[tuple[int, ...]], list[Sum]] | None:
    """Clauses and sums that are not the chains' own; None if one of them asks for a state of a chain."""
    block_of = np.repeat(np.arange(len(constraints.sizes)), constraints.sizes)
    hidden = np.isin(block_of, list(inside))
    clauses = []
    for clause, owner in zip(constraints.clauses, constraints.clause_owners):
        asks = hidden[list(clause)]
        if owner in inside or (owner < 0 and asks.all() and len(clause)):
            continue
        if asks.any():
            return None
        clauses.append(clause)
    if any(hidden[list(s.values)].any() for s in constraints.sums):
        return None
    return clauses, list(constraints.sums)


def _order(
    constraints: Constraints, rest: tuple[list[tuple[int, ...]], list[Sum]], inside: set[int]
) -> list[int] | None:
    """The blocks in the order of decision: those of chains, others beside the first that they share a rule with.

    None if the chains want their blocks in different orders.
    """
    first = constraints.chains[0]
    place: dict[int, float] = {block: float(i) for i, block in enumerate(first.blocks)}
    for chain in constraints.chains[1:]:
        at = -1.0
        for block in chain.blocks:
            if block in place and place[block] < at:
                return None
            at = place.setdefault(block, at)
    block_of = np.repeat(np.arange(len(constraints.sizes)), constraints.sizes).tolist()
    together = [sorted({block_of[v] for v in values}) for values in (*rest[0], *(s.values for s in rest[1]))]
    met: dict[int, list[int]] = {}
    for i, blocks in enumerate(together):
        for block in blocks:
            met.setdefault(block, []).append(i)
    todo = sorted(place, key=lambda block: place[block])
    for block in todo:  # grows while it is gone through
        for i in met.pop(block, ()):
            for other in together[i]:
                if other not in place:
                    place[other] = place[block]
                    todo.append(other)
    blocks = [block for block in range(len(constraints.sizes)) if block not in inside]
    return sorted(blocks, key=lambda block: (place.get(block, len(place)), block not in first.blocks, block))


class _Walk:
    """Goes through the blocks with all states at once."""

    def __init__(
        self, constraints: Constraints, clauses: list[tuple[int, ...]], sums: list[Sum], order: list[int]
    ) -> None:
        self.sizes, self.offsets, self.order = constraints.sizes, constraints.offsets, order
        self.chains = constraints.chains
        self.at = [{block: i for i, block in enumerate(chain.blocks)} for chain in self.chains]
        self.alive = [_alive(chain) for chain in self.chains]
        block_of = np.repeat(np.arange(len(self.sizes)), self.sizes).tolist()
        rank = {block: i for i, block in enumerate(order)}
        self.opening: list[list[int]] = [[] for _ in order]  # clauses whose first block it is
        self.closing: list[set[int]] = [set() for _ in order]
        self.satisfied: dict[int, set[int]] = {}  # value → clauses that it satisfies
        self.impossible = not all(clauses)
        for i, clause in enumerate(clauses):
            ranks = [rank[block_of[v]] for v in clause]
            if ranks:
                self.opening[min(ranks)].append(i)
                self.closing[max(ranks)].add(i)
            for v in clause:
                self.satisfied.setdefault(v, set()).add(i)
        self.sums = [_Running(s, self.offsets, self.sizes, rank, block_of) for s in sums]
        self.adding: list[list[int]] = [[] for _ in order]
        for i, running in enumerate(self.sums):
            for at in running.ranks:
                self.adding[at].append(i)

    def layers(self, budget: Budget) -> list[list[list[int]]] | None:
        """For each block and state the numbers of the states after each value; None if there are too many.

        States are numbered from 2 on within their layer; 0 cannot end well, 1 stands for nothing more to decide.
        """
        states: dict[State, int] = {((0,) * len(self.chains), frozenset(), ()): 2}
        out: list[list[list[int]]] = []
        total = choices = 0
        for at in range(len(self.order)):
            after: dict[State, int] = {}
            rows = []
            for state in states:
                row = []
                for value in range(self.sizes[self.order[at]]):
                    following = None if self.impossible else self.after(at, state, value)
                    row.append(_DEAD if following is None else after.setdefault(following, len(after) + 2))
                rows.append(row)
            out.append(rows)
            states = after
            total += len(after)
            budget.tick()
            choices += sum(map(len, rows))
            budget.afford(_STATE * total + _CHOICE * choices)
            if total > MOST_STATES:
                return None
        return out

    def after(self, at: int, state: State, value: int) -> State | None:
        """The state once a block is decided; None if it cannot end well."""
        block = self.order[at]
        walks, open_, totals = state
        moved = []
        for chain, places, alive, here in zip(self.chains, self.at, self.alive, walks):
            step = places.get(block)
            if step is not None:
                here = int(chain.steps[step][here, value])
                if not alive[step][here]:
                    return None
            moved.append(here)
        done = self.satisfied.get(self.offsets[block] + value, set())
        left = (open_.union(self.opening[at]) if self.opening[at] else open_) - done
        if left & self.closing[at]:
            return None
        if not self.adding[at] and not totals:
            return tuple(moved), left, ()
        so_far = dict(totals)
        for i in self.adding[at]:
            if so_far.get(i, 0) is not None:
                found = self.sums[i].added(so_far.get(i), at, self.offsets[block] + value)
                if found is None:
                    return None
                so_far[i] = found
        return tuple(moved), left, tuple(sorted((i, t) for i, t in so_far.items() if not self.sums[i].over(at)))


def _alive(chain: Chain) -> list[list[bool]]:
    """After each step, from which states the walk can still end well."""
    good = np.arange(chain.steps[-1].max() + 1) == chain.accepted
    out = [good.tolist()]
    for step in reversed(chain.steps[1:]):
        good = good[step].any(axis=1)
        out.append(good.tolist())
    return out[::-1]


class _Running:
    """A sum on the way: what may still be added after each block."""

    def __init__(
        self, s: Sum, offsets: Sequence[int], sizes: Sequence[int], rank: dict[int, int], block_of: list[int]
    ) -> None:
        self.weight, self.intervals = dict(zip(s.values, s.coefficients)), s.intervals
        blocks = sorted({block_of[v] for v in s.values}, key=lambda block: rank[block])
        self.ranks = [rank[block] for block in blocks]
        self.low, self.high = {}, {}  # after the block of a rank, the least and most that is still to come
        low = high = 0
        for block in reversed(blocks):
            self.low[rank[block]], self.high[rank[block]] = low, high
            given = [self.weight.get(offsets[block] + v, 0) for v in range(sizes[block])]
            low, high = low + min(given), high + max(given)

    def added(self, total: int | None, at: int, value: int) -> int | None:
        """The total with one more value; None if it cannot come to lie in an interval."""
        new = (total or 0) + self.weight.get(value, 0)
        low, high = new + self.low[at], new + self.high[at]
        return new if any(low <= b and high >= a for a, b in self.intervals) else None

    def over(self, at: int) -> bool:
        """Whether its last block is decided."""
        return at >= self.ranks[-1]


def _circuit(layers: list[list[list[int]]], order: list[int], constraints: Constraints, literal: Literals) -> Arrays:
    """The decision diagram as a circuit, from the last block up, without dead states and idle decisions."""
    diagram = Diagram()
    last = max((n for row in layers[-1] for n in row), default=0)
    below = [FALSE, TRUE, *[TRUE] * (last - 1)]  # all states after the last block are the same
    for rows, block in zip(reversed(layers), reversed(order)):
        shown = [literal(block, v) for v in range(constraints.sizes[block])]
        decide = diagram.decisions(shown)
        here = [FALSE, TRUE]
        for row in rows:
            arms = tuple((of, below[n]) for of, n in zip(shown, row) if below[n] != FALSE)
            idle = len(arms) == len(shown) and all(shown) and len({node for _, node in arms}) == 1
            here.append(arms[0][1] if idle else decide(arms))
        below = here
    return diagram.below(below[2])
