"""Proof that a circuit is what it claims to be: decomposable and deterministic.

`proof` settles the first, and the second as far as the values that nodes allow show it. Pairs of branches that this
leaves open go to a SAT solver, which finds a common label or proves that there is none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from pysat.card import CardEnc, EncType

from dssl.circuits.circuit import Circuit
from dssl.circuits.nodes import FALSE, LITERAL, OR
from dssl.circuits.proof import column_names, open_pairs, shared_block
from dssl.logic.reasoning.sat import Sat


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
    fault = shared_block(circuit)
    asked: list[int] = []  # ORs with pairs that values leave open

    def pairs() -> Iterator[list[int]]:
        for left, _ in open_pairs(circuit):
            asked.extend(np.unique(left[:, 0]).tolist())
            yield from left.tolist()

    waiting = pairs()
    found, _ = overlap(circuit, waiting)
    deque(waiting, maxlen=0)  # after a common label only to count
    open_ors = np.unique(np.array(asked, np.int64))
    columns = slice(*circuit.starts[fault[1] : fault[1] + 2]) if fault else slice(0)
    return Verification(
        decomposable=fault is None,
        deterministic=found is None,
        ors_by_values=int((circuit.kind == OR).sum()) - len(open_ors),
        ors_by_sat=int((open_ors < found[0]).sum()) if found else len(open_ors),
        node=fault[0] if fault else found[0] if found else None,
        shared=column_names(circuit)[columns],
        label=found[1] if found else None,
    )


def overlap(
    circuit: Circuit, pairs: Iterable[list[int]], *, conflicts: int | None = None
) -> tuple[tuple[int, tuple[bool, ...]] | None, int]:
    """The first OR of which a pair of children has a label in common, with that label; and how many pairs stay open.

    Each of the pairs is an OR and two of its children. With `conflicts` the solver gives up on a pair after that many.
    """
    common, unsure = _CommonLabel(circuit, conflicts), 0
    for node, a, b in pairs:
        possible = common.find(a, b)
        if possible:
            return (node, common.label()), unsure
        unsure += possible is None
    return None, unsure


# ---- by SAT ----


class _CommonLabel:
    """Asks a solver for a label of two nodes at once. Nodes are encoded when they are first met.

    A node's variable implies what the node says; the other direction is not needed, since nodes occur positively.
    """

    def __init__(self, c: Circuit, conflicts: int | None = None) -> None:
        self.c, self.conflicts = c, conflicts
        self.columns = int(c.starts[-1])
        self.encoded = np.zeros(c.nodes, bool)

    @cached_property
    def solver(self) -> Sat:
        """A solver that knows the blocks: columns are variables 1, 2, …, and nodes follow."""
        c, solver = self.c, Sat()
        spare = self.columns + c.nodes
        for start, stop in self.blocks():
            one = CardEnc.atmost(list(range(start + 1, stop + 1)), 1, top_id=spare, encoding=EncType.seqcounter)
            spare = max(spare, one.nv)
            solver.append_formula(one.clauses)
        return solver

    def blocks(self) -> Iterator[tuple[int, int]]:
        bounds = zip(self.c.starts.tolist(), self.c.starts[1:].tolist())
        return (bound for bound, categorical in zip(bounds, self.c.categorical) if categorical)

    def find(self, a: int, b: int) -> bool | None:
        """Whether some label makes both nodes true; None where the solver gave up."""
        self.encode([a, b])
        both = [self.columns + a + 1, self.columns + b + 1]
        if self.conflicts is None:
            return self.solver.decide(both)
        return self.solver.decide_within(self.conflicts, both)

    def label(self) -> tuple[bool, ...]:
        """The label that was found last."""
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
