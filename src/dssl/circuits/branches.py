"""Choices: a circuit made smooth, with one column per branch, so that branches can have probabilities.

A *choice* is an OR: each of its branches gets a binary column of its own behind those of the space, and its probability
φ is the weight of that column being true (1 − φ of its being false, so that a branch that is not taken weighs 1). A
variable that a branch leaves free becomes a choice among its values, there and for that branch alone. The circuit is
deterministic, so a label takes one branch of every choice it meets, and

    π_y = Π φ_b over the branches b that y takes,        Σ_{y∈V} π_y = 1

for any φ that sum to one at every choice (the parameters of a PSDD: Kisa, Van den Broeck, Choi & Darwiche 2014). Soft
rules' columns are dropped: what they weigh is part of φ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.circuits.circuit import Circuit
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, log_values
from dssl.circuits.proof import require_deterministic, trust
from dssl.errors import RuleError

MOST_BRANCHES = 5_000_000
_DEAD, _TRUE = -2, -1  # instead of a node: no label, any label


@dataclass(frozen=True, eq=False)
class Choices:
    """`with_choices` of a circuit.

    `circuit` has the space's columns and then one per branch. `owner` is the choice of each branch: 0, 0, 1, 1, 1, …
    What a branch is made of is a node of the original circuit, `child`, or a value of a variable, `literal` (else 0).
    `alone` marks the branches of variables that depend on no other; these keep the base of `log_shares`.
    """

    circuit: Circuit
    owner: NDArray[np.int64]
    child: NDArray[np.int64]
    literal: NDArray[np.int64]
    alone: NDArray[np.bool_]

    def __post_init__(self) -> None:
        steps = np.diff(self.owner, prepend=-1)
        fits = len(self.owner) <= self.circuit.width and len({len(x) for x in self._parts}) == 1
        if not fits or (steps > 1).any() or (steps < 0).any() or (len(steps) and steps[0] != 1):
            raise ValueError("branches do not fit the circuit: `owner` must rise from 0 by steps of 0 and 1.")

    @property
    def _parts(self) -> tuple[NDArray[Any], ...]:
        return self.owner, self.child, self.literal, self.alone

    def __repr__(self) -> str:
        return f"Choices({self.count} choices, {len(self.owner)} branches, {self.width} columns)"

    @property
    def width(self) -> int:
        """Columns of the space."""
        return self.circuit.width - len(self.owner)

    @property
    def count(self) -> int:
        """Number of choices."""
        return int(self.owner[-1]) + 1 if len(self.owner) else 0

    def fixed(self, phi: Sequence[float]) -> Circuit:
        """The circuit with the branches' probabilities as constants, so that only the space's columns are left."""
        require_deterministic(self.circuit)
        return trust(replace(self.circuit, names=self.circuit.names[: self.width], soft=tuple(phi)))

    def normalised(self, log_weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log weights of branches less the log of their sum at each choice."""
        top = np.full(self.count, -np.inf)
        np.maximum.at(top, self.owner, log_weights)
        with np.errstate(divide="ignore"):
            total = np.log(np.bincount(self.owner, np.exp(log_weights - top[self.owner]), self.count))
        return log_weights - (top + total)[self.owner]

    def log_shares(
        self, original: Circuit, log_pos: NDArray[np.float64], log_neg: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """log φ for which π_y is proportional to the weights of y's literals: what each branch weighs at its choice.

        Weights of the space's columns sum to one in every variable; soft rules of the original have their own.
        """
        soft = np.array(original.soft)
        with np.errstate(divide="ignore"):
            pos, neg = np.append(log_pos, np.log(soft)), np.append(log_neg, np.log1p(-soft))
        values = log_values(original.kind, original.literal, original.ptr, original.child, pos, neg)
        column = np.abs(self.literal) - 1
        own = np.where(self.literal > 0, pos[column], neg[column])
        return self.normalised(np.where(self.literal != 0, own, values[self.child]))


def with_choices(circuit: Circuit, parents: Sequence[int] | None = None) -> Choices:
    """Make every branch a column.

    Variables that no rule mentions are independent, or form a forest: `parents` has the block each block depends on
    (−1 for none), and then a variable has one choice for each value of its parent.
    """
    require_deterministic(circuit)
    return _Maker(circuit).make([-1] * len(circuit.categorical) if parents is None else parents)


class _Maker:
    """Writes nodes, children before parents."""

    def __init__(self, circuit: Circuit) -> None:
        self.c = circuit
        self.hard = len(circuit.categorical) - len(circuit.soft)  # blocks
        self.kind: list[int] = []
        self.sign: list[int] = []  # literals
        self.children: list[list[int]] = []
        self.literals: dict[int, int] = {}
        self.owner: list[int] = []
        self.made_of: list[tuple[int, int]] = []  # (child, literal) of each branch
        self.alone: set[int] = set()  # branches
        self.values = [self._values(block) for block in range(self.hard)]

    def _values(self, block: int) -> list[int]:
        """The literals of a block's values."""
        start, stop = int(self.c.starts[block]) + 1, int(self.c.starts[block + 1]) + 1
        return list(range(start, stop)) if self.c.categorical[block] else [-start, start]

    # ---- nodes ----

    def node(self, kind: int, children: list[int], literal: int = 0) -> int:
        self.kind.append(kind)
        self.sign.append(literal)
        self.children.append(children)
        return len(self.kind) - 1

    def literal(self, literal: int) -> int:
        if literal not in self.literals:
            self.literals[literal] = self.node(LITERAL, [], literal)
        return self.literals[literal]

    def both(self, parts: Iterable[int]) -> int:
        kept = [part for part in parts if part != _TRUE]
        return self.node(AND, kept) if len(kept) > 1 else kept[0] if kept else _TRUE

    def choice(self, branches: list[tuple[list[int], int, int]]) -> int:
        """An OR with one column per branch: (parts, child, literal) of each."""
        if len(branches) == 1:
            return self.both(branches[0][0])
        made = self.owner[-1] + 1 if self.owner else 0
        nodes = []
        for parts, child, literal in branches:
            self.owner.append(made)
            self.made_of.append((child, literal))
            nodes.append(self.both([self.literal(self.c.width + len(self.owner)), *parts]))
        if len(self.owner) > MOST_BRANCHES:
            raise RuleError(
                f"the circuit of these rules has more than {MOST_BRANCHES:,} branches once it is made smooth",
                remedy="Learn weights for fewer rules, or give one per column: DeterministicPrior(space, weights=…).",
            )
        return self.node(OR, nodes)

    def free(self, block: int) -> int:
        """A choice among a block's values."""
        return self.choice([([self.literal(value)], -1, value) for value in self.values[block]])

    # ---- the circuit ----

    def make(self, parents: Sequence[int]) -> Choices:
        c = self.c
        place, scope = self.expand()
        mentioned = scope[-1]
        free = [block for block in range(self.hard) if not mentioned >> block & 1]
        parts = [place[-1], *self.forest(free, parents)]
        parts = [part for part in parts if part != _TRUE]
        self.node(AND, parts)  # the root stands last
        made = np.array(self.made_of, np.int64).reshape(-1, 2)
        ends = c.width + 1 + np.arange(len(self.owner), dtype=np.int32)
        whole = Circuit(
            kind=np.array(self.kind),
            literal=np.array(self.sign),
            ptr=np.cumsum([0, *map(len, self.children)]),
            child=np.array([x for children in self.children for x in children]),
            starts=np.concatenate([c.starts[: self.hard + 1], ends]),
            categorical=np.append(c.categorical[: self.hard], np.zeros(len(self.owner), bool)),
            names=(*c.names, *(f"branch {i + 1}" for i in range(len(self.owner)))),
        )
        alone = np.isin(np.arange(len(self.owner)), list(self.alone))
        return Choices(trust(whole), np.array(self.owner, np.int64), made[:, 0], made[:, 1], alone)

    def expand(self) -> tuple[list[int], list[int]]:
        """The place of each node, and the blocks it mentions as bits; every OR becomes a choice over all of them."""
        c = self.c
        kind, literal, ptr, child = c.kind.tolist(), c.literal.tolist(), c.ptr.tolist(), c.child.tolist()
        place, scope = [_TRUE] * c.nodes, [0] * c.nodes
        for n, k in enumerate(kind):
            below = child[ptr[n] : ptr[n + 1]]
            if k == FALSE:
                place[n] = _DEAD
            elif k == LITERAL:
                block = int(c.block_of_column[abs(literal[n]) - 1])
                if block < self.hard:
                    place[n], scope[n] = self.literal(literal[n]), 1 << block
            elif k == AND:
                dead = any(place[x] == _DEAD for x in below)
                place[n] = _DEAD if dead else self.both(place[x] for x in below)
                scope[n] = _union(scope, below)
            elif k == OR:
                live = [x for x in below if place[x] != _DEAD]
                scope[n] = _union(scope, live)
                branches = [([place[x], *map(self.free, _bits(scope[n] & ~scope[x]))], x, 0) for x in live]
                place[n] = self.choice(branches) if live else _DEAD
        if place[-1] == _DEAD:
            raise RuleError("the rules allow no label at all", remedy="Find the conflict with space.diagnose().")
        return place, scope

    def forest(self, free: list[int], parents: Sequence[int]) -> list[int]:
        """Choices for variables that nothing mentions; returns those of the roots."""
        children: dict[int, list[int]] = {block: [] for block in free}
        roots: list[int] = []
        for block in free:
            (children[parents[block]] if parents[block] >= 0 else roots).append(block)
        order = list(roots)
        for block in order:
            order += children[block]
        made: dict[int, list[int]] = {}  # of each block: a choice for each value of its parent
        for block in reversed(order):
            values = [
                self.both([self.literal(value), *(made[child][i] for child in children[block])])
                for i, value in enumerate(self.values[block])
            ]
            copies = len(self.values[parents[block]]) if parents[block] >= 0 else 1
            branches = [([node], -1, value) for node, value in zip(values, self.values[block])]
            before = len(self.owner)
            made[block] = [self.choice(branches) for _ in range(copies)]
            if parents[block] < 0:
                self.alone.update(range(before, len(self.owner)))
        return [made[block][0] for block in roots]


def _union(scope: list[int], nodes: list[int]) -> int:
    out = 0
    for node in nodes:
        out |= scope[node]
    return out


def _bits(mask: int) -> list[int]:
    out = []
    while mask:
        out.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return out
