"""Proof that a circuit is what it claims to be: decomposable and deterministic.

*Decomposable*: no two children of an AND mention the same variable. *Deterministic*: no two children of an OR have a
valid label in common. The first is read off the arrays. For the second, each node gets the set of values that its
labels may take, an upper bound; two children whose bounds share no value of some block exclude each other. Pairs that
this leaves open go to a SAT solver, which finds a common label or proves that there is none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from pysat.card import CardEnc, EncType
from pysat.solvers import Solver

from dssl.circuits.circuit import AND, FALSE, LITERAL, OR, TRUE, Circuit


@dataclass(frozen=True)
class Verification:
    """What `verify` found; true when the circuit is decomposable and deterministic."""

    decomposable: bool
    deterministic: bool
    ors_by_values: int  # ORs whose children exclude each other by the values they allow
    ors_by_sat: int  # ORs for which the solver was asked and found no common label
    node: int | None = None  # the first node that fails, ANDs before ORs
    shared: tuple[str, ...] = ()  # the columns that two children of that AND both mention
    label: tuple[bool, ...] | None = None  # a label (with soft rules' columns) common to two children of that OR

    def __bool__(self) -> bool:
        return self.decomposable and self.deterministic


def verify(circuit: Circuit) -> Verification:
    """Prove that every AND is decomposable and every OR deterministic, or name a counter-example."""
    fault, shared = _shared_variables(circuit)
    by_values, open_pairs = _exclusive_by_values(circuit)
    common = _CommonLabel(circuit)
    by_sat = 0
    clash, label = None, None
    for node, pairs in open_pairs:
        label = next((found for a, b in pairs if (found := common.find(a, b))), None)
        if label is not None:
            clash = node
            break
        by_sat += 1
    return Verification(
        decomposable=fault is None,
        deterministic=clash is None,
        ors_by_values=by_values,
        ors_by_sat=by_sat,
        node=fault if fault is not None else clash,
        shared=shared,
        label=label,
    )


def _shared_variables(c: Circuit) -> tuple[int | None, tuple[str, ...]]:
    """The first AND two of whose children mention the same variable, and that variable's columns."""
    kind, ptr, child = c.kind.tolist(), c.ptr.tolist(), c.child.tolist()
    block = [int(c.block_of_column[abs(literal) - 1]) if literal else 0 for literal in c.literal.tolist()]
    mentions = [0] * c.nodes  # a bit a block
    for node, k in enumerate(kind):
        if k == LITERAL:
            mentions[node] = 1 << block[node]
        union = mentions[node]
        for x in child[ptr[node] : ptr[node + 1]]:
            if k == AND and (twice := union & mentions[x]):
                first = twice.bit_length() - 1
                return node, tuple(_names(c)[c.starts[first] : c.starts[first + 1]])
            union |= mentions[x]
        mentions[node] = union
    return None, ()


def _names(c: Circuit) -> tuple[str, ...]:
    return c.names + tuple(f"soft rule {i + 1}" for i in range(len(c.soft)))


# ---- by the values that nodes allow ----


class _Values:
    """Sets with a bit a value, and a spare bit above each block to test all blocks for emptiness at once."""

    def __init__(self, c: Circuit) -> None:
        self.everything = self.spare = 0
        self.of_block: list[int] = []
        self.true_bit: list[int] = []  # of each column
        place = 0
        for categorical, size in zip(c.categorical.tolist(), np.diff(c.starts).tolist()):
            values = size if categorical else 2
            self.true_bit += [1 << (place + i) for i in range(size)] if categorical else [2 << place]
            self.of_block.append(((1 << values) - 1) << place)
            self.everything |= self.of_block[-1]
            self.spare |= 1 << (place + values)
            place += values + 1

    def of_literal(self, literal: int, block: int) -> int:
        bit = self.true_bit[abs(literal) - 1]
        return self.everything & ~self.of_block[block] | (bit if literal > 0 else bit >> 1)

    def lacks_block(self, values: int) -> bool:
        """Whether some block has no value: adding all ones to a block carries into its spare bit unless it is 0."""
        return (values + self.everything) & self.spare != self.spare


def _exclusive_by_values(c: Circuit) -> tuple[int, list[tuple[int, list[tuple[int, int]]]]]:
    """How many ORs are deterministic by the values their children allow, and the pairs of children left of others."""
    sets = _Values(c)
    kind, literal, ptr, child = c.kind.tolist(), c.literal.tolist(), c.ptr.tolist(), c.child.tolist()
    allowed = [0] * c.nodes
    proven, left = 0, []
    for node, k in enumerate(kind):
        children = child[ptr[node] : ptr[node + 1]]
        if k == LITERAL:
            allowed[node] = sets.of_literal(literal[node], int(c.block_of_column[abs(literal[node]) - 1]))
        elif k == TRUE:
            allowed[node] = sets.everything
        elif k == AND:
            allowed[node] = sets.everything
            for x in children:
                allowed[node] &= allowed[x]
        elif k == OR:
            pairs, allowed[node] = _open_pairs(sets, children, allowed)
            proven += not pairs
            if pairs:
                left.append((node, pairs))
    return proven, left


def _open_pairs(sets: _Values, children: list[int], allowed: list[int]) -> tuple[list[tuple[int, int]], int]:
    """Pairs of children that may have a label in common, and the values that any child allows."""
    once = twice = 0
    for x in children:
        twice |= once & allowed[x]
        once |= allowed[x]
    if sets.lacks_block(twice):  # one block tells all children apart: a decision
        return [], once
    pairs = itertools.combinations(children, 2)
    return [(a, b) for a, b in pairs if not sets.lacks_block(allowed[a] & allowed[b])], once


# ---- by SAT ----


class _CommonLabel:
    """Asks a solver for a label of two nodes at once. Nodes are encoded when they are first met.

    A node's variable implies what the node says; the other direction is not needed, since nodes occur positively.
    """

    def __init__(self, c: Circuit) -> None:
        self.c = c
        self.columns = int(c.starts[-1])
        self.encoded = np.zeros(c.nodes, bool)

    @cached_property
    def solver(self) -> Solver:
        """A solver that knows the blocks: columns are variables 1, 2, …, and nodes follow."""
        c, solver = self.c, Solver("glucose4")
        spare = self.columns + c.nodes
        for start, stop in self.blocks():
            one = CardEnc.atmost(list(range(start + 1, stop + 1)), 1, top_id=spare, encoding=EncType.seqcounter)
            spare = max(spare, one.nv)
            solver.append_formula(one.clauses)
        return solver

    def blocks(self) -> Iterator[tuple[int, int]]:
        bounds = zip(self.c.starts.tolist(), self.c.starts[1:].tolist())
        return (bound for bound, categorical in zip(bounds, self.c.categorical) if categorical)

    def find(self, a: int, b: int) -> tuple[bool, ...] | None:
        """A label that both nodes hold for, or None."""
        self.encode([a, b])
        if not self.solver.solve(assumptions=[self.columns + a + 1, self.columns + b + 1]):
            return None
        model = self.solver.get_model()
        label = [column < len(model) and model[column] > 0 for column in range(self.columns)]
        for start, stop in self.blocks():  # a block that neither node mentions may have no value yet
            label[start] |= not any(label[start:stop])
        return tuple(label)

    def encode(self, nodes: list[int]) -> None:
        c, stack = self.c, list(nodes)
        while stack:
            node = stack.pop()
            if self.encoded[node]:
                continue
            self.encoded[node] = True
            name = self.columns + node + 1
            children = c.child[c.ptr[node] : c.ptr[node + 1]].tolist()
            below = [self.columns + x + 1 for x in children]
            if c.kind[node] == LITERAL:
                self.solver.add_clause([-name, int(c.literal[node])])
            elif c.kind[node] == FALSE:
                self.solver.add_clause([-name])
            elif c.kind[node] == OR:
                self.solver.add_clause([-name, *below])
            else:
                self.solver.append_formula([[-name, x] for x in below])
            stack += children
