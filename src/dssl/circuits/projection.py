"""Projected counting: in how many ways some variables can be set, whatever the others are.

What the others say is forgotten literal by literal, which keeps ANDs apart but lets branches of an OR overlap. Where
they do, the node is divided by the values of one variable, again and again, until its branches are apart. Nodes are
shared, so that equal parts are divided and counted once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE
from dssl.errors import BudgetError, DataError

if TYPE_CHECKING:
    from dssl.circuits.circuit import Circuit

MOST_NODES = 5_000_000  # that divisions may make
_MOST_PAIRS = 60  # branches that are compared two by two
Literal = tuple[int, int]  # a block and its value


def projected(circuit: Circuit, blocks: Iterable[int]) -> int:
    """The number of distinct labels of some blocks that can be completed to a label the circuit allows."""
    kept = sorted(set(blocks))
    if kept and not 0 <= kept[0] <= kept[-1] < len(circuit.categorical):
        strange = kept[0] if kept[0] < 0 else kept[-1]
        last = len(circuit.categorical) - 1
        raise DataError(f"block {strange} is not one of the circuit's\nThey are numbered from 0 to {last}.")
    sizes = [int(n) if many else 2 for n, many in zip(circuit.starts[1:] - circuit.starts[:-1], circuit.categorical)]
    forgotten = _Forgotten([sizes[block] for block in kept])
    root = forgotten.read(circuit, {block: i for i, block in enumerate(kept)})
    return forgotten.count(root)


class _Forgotten:
    """Nodes over the blocks that are kept, numbered so that children come first; 0 is false and 1 is true."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.kind = [FALSE, TRUE]
        self.literal: list[Literal | None] = [None, None]
        self.children: list[tuple[int, ...]] = [(), ()]
        self.scope = [0, 0]  # a bit for each block below
        self.number: dict[tuple[int, object], int] = {}

    def read(self, circuit: Circuit, place: dict[int, int]) -> int:
        """The root of a circuit of which all but some blocks are forgotten."""
        ptr, child = circuit.ptr.tolist(), circuit.child.tolist()
        block_of, starts = circuit.block_of_column.tolist(), circuit.starts.tolist()
        found: list[int] = []
        for node, (kind, literal) in enumerate(zip(circuit.kind.tolist(), circuit.literal.tolist())):
            if kind == LITERAL:
                column = abs(literal) - 1
                block = block_of[column]
                value = column - starts[block] if circuit.categorical[block] else int(literal > 0)
                found.append(self.leaf(place[block], value) if block in place else 1)
            elif kind in (AND, OR):
                found.append(self.joined(kind, [found[x] for x in child[ptr[node] : ptr[node + 1]]]))
            else:
                found.append(int(kind == TRUE))
        return found[-1]

    # ---- nodes ----

    def _node(self, kind: int, literal: Literal | None, children: tuple[int, ...], scope: int) -> int:
        key = (kind, literal if kind == LITERAL else children)
        if key not in self.number:
            if len(self.kind) >= MOST_NODES:
                raise BudgetError(
                    f"the projected count takes more than {MOST_NODES:,} nodes\n"
                    "Count over more variables, over fewer, or over all of them."
                )
            self.number[key] = len(self.kind)
            self.kind.append(kind)
            self.literal.append(literal)
            self.children.append(children)
            self.scope.append(scope)
        return self.number[key]

    def leaf(self, block: int, value: int) -> int:
        return self._node(LITERAL, (block, value), (), 1 << block)

    def joined(self, kind: int, parts: Iterable[int]) -> int:
        """An AND or OR of nodes; true and false are folded, and so are nodes of the same kind inside."""
        neutral, final = (1, 0) if kind == AND else (0, 1)
        members: set[int] = set()
        for part in parts:
            if part == final:
                return final
            members.update(self.children[part] if self.kind[part] == kind else (part,))
        members.discard(neutral)
        if len(members) < 2:
            return members.pop() if members else neutral
        scope = 0
        for member in members:
            scope |= self.scope[member]
        return self._node(kind, None, tuple(sorted(members)), scope)

    def given(self, root: int, block: int, value: int) -> int:
        """The node once a block has a value."""
        bit, todo, below = 1 << block, [root], {root}
        while todo:
            for x in self.children[todo.pop()]:
                if self.scope[x] & bit and x not in below:
                    below.add(x)
                    todo.append(x)
        now: dict[int, int] = {}
        for x in sorted(below):  # children first
            if not self.scope[x] & bit:
                now[x] = x
            elif self.kind[x] == LITERAL:
                now[x] = int(self.literal[x] == (block, value))
            else:
                now[x] = self.joined(self.kind[x], [now.get(part, part) for part in self.children[x]])
        return now[root]

    # ---- counting ----

    def count(self, root: int) -> int:
        """Labels of all blocks that a node allows."""
        known: dict[int, int] = {0: 0, 1: 1}
        waiting: dict[int, list[tuple[int, int]]] = {}  # sums of multiples of others
        stack = [root]
        while stack:
            node = stack[-1]
            if node in known:
                stack.pop()
                continue
            if self.kind[node] == OR and node not in waiting:
                waiting[node] = self._apart(node)
            parts = [x for _, x in waiting[node]] if self.kind[node] == OR else self.children[node]
            missing = [x for x in parts if x not in known]
            if missing:
                stack += missing
            elif self.kind[node] == OR:
                known[node] = sum(times * known[x] for times, x in waiting.pop(node))
            else:
                known[node] = math.prod(known[x] for x in parts)  # 1 for a literal
        return known[root] * self._labels(~self.scope[root])

    def _labels(self, scope: int) -> int:
        """How many labels some blocks have."""
        return math.prod(size for block, size in enumerate(self.sizes) if scope >> block & 1)

    def _apart(self, node: int) -> list[tuple[int, int]]:
        """An OR as a sum: how often each of some nodes counts, none of whose labels another one has."""
        branches, scope = self.children[node], self.scope[node]
        units = [self._units(x) for x in branches]
        if _exclusive(units):
            return [(self._labels(scope & ~self.scope[x]), x) for x in branches]
        block = self._divider(units, scope)
        rest = scope & ~(1 << block)
        halves = [self.given(node, block, value) for value in range(self.sizes[block])]
        return [(self._labels(rest & ~self.scope[x]), x) for x in halves if x]

    def _units(self, node: int) -> dict[int, int]:
        """The values that all labels of a node have."""
        parts = self.children[node] if self.kind[node] == AND else (node,)
        literals = (self.literal[x] for x in parts)
        return dict(literal for literal in literals if literal is not None)

    def _divider(self, units: Sequence[dict[int, int]], scope: int) -> int:
        """The block that most branches have decided, or the first of all."""
        votes: dict[int, int] = {}
        for unit in units:
            for block in unit:
                votes[block] = votes.get(block, 0) + 1
        return max(votes, key=lambda block: votes[block]) if votes else (scope & -scope).bit_length() - 1


def _exclusive(units: Sequence[dict[int, int]]) -> bool:
    """Whether any two branches have different values of some block."""
    for block in units[0]:
        values = [unit.get(block) for unit in units]
        if None not in values and len(set(values)) == len(values):
            return True
    if len(units) > _MOST_PAIRS:
        return False
    return all(any(b.get(x, v) != v for x, v in a.items()) for a, b in combinations(units, 2))
