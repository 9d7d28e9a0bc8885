"""Program: a circuit as the stream of numbers that the kernels run from front to back, and backward.

**Simplified.** Constants are folded, ``x ∨ ¬x`` is TRUE (its normalised weights sum to one), nodes with one child are
that child. What is left is written as *sums of products*: an AND with one parent (or few, if short) becomes part of
their products, an OR with a single parent that is an OR part of its parent's sum. Products of literals that occur often
become nodes of their own, and products of more than 64 factors are cut, so that mantissas cannot overflow.

**Slots.** A value has a slot in a table of ``slots`` rows. Slots ``2·column`` and ``2·column + 1`` hold the weights of
"column is true" and "column is false"; slot ``one`` the number 1 and slot ``one + 1`` the number 0. Nodes are put in
depth-first order and use the remaining slots; a slot is free again after its value's last use.

**Stream.** See `words`.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dssl.circuits.circuit import Circuit
from dssl.circuits.evaluate.lowering import MOST_FACTORS, cut, depth_first, fold, fuse, share, walk, write
from dssl.circuits.evaluate.words import SLOT
from dssl.circuits.proof import require_decomposable
from dssl.errors import DataError

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Program:
    """What the kernels need of a circuit; see the module's docstring."""

    stream: NDArray[np.uint32]
    blocks: NDArray[np.int64]  # (blocks, 3): first column, one past the last, 1 if categorical
    soft: NDArray[np.float64]  # (soft rules, 2): log p, log(1 - p)
    columns: int  # of the space and of soft rules
    slots: int
    biases: int  # entries of the log
    nodes: int
    root: int  # slot of the result

    @property
    def work(self) -> int:
        """Words to run and literals to prepare: what a sample costs."""
        return len(self.stream) + 4 * self.columns

    @cached_property
    def walk(self) -> tuple[Ints, NDArray[np.int64]]:
        """For walks from the root: the node that each word refers to, and (nodes, 2) where each node ends.

        Nodes are numbered in the order of the stream, the root last; words of literals and constants have −1. A node
        ends at the word of its slot (END), with the number of biases logged up to there (LOGGED).
        """
        return walk(self.stream, self.slots, self.nodes)


_programs: weakref.WeakKeyDictionary[Circuit, Program] = weakref.WeakKeyDictionary()


def program_of(circuit: Circuit) -> Program:
    """The circuit's program, built on first use and kept as long as the circuit."""
    program = _programs.get(circuit)
    if program is None:
        program = _programs[circuit] = build_program(circuit)
    return program


def build_program(circuit: Circuit) -> Program:
    """Simplify, order and write down the circuit as a program, once it is proved decomposable: walks rely on it."""
    require_decomposable(circuit)
    columns = circuit.width + len(circuit.soft)
    base = 2 * columns + 2
    starts = circuit.starts.astype(np.int64)
    lone = np.zeros(columns, np.bool_)  # columns with a negative literal
    lone[starts[:-1][~circuit.categorical]] = True
    top, kinds, ptr, child = fold(circuit.kind, circuit.literal, circuit.ptr, circuit.child, lone)
    root, node_ptr, product_ptr, factor = fuse(top, kinds, ptr, child, base)
    node_ptr, product_ptr, factor = share(node_ptr, product_ptr, factor, base)
    while np.diff(product_ptr).max() > MOST_FACTORS:
        node_ptr, product_ptr, factor = cut(node_ptr, product_ptr, factor, base)
    order = depth_first(root, node_ptr, product_ptr, factor, base)
    stream, slots, biases, last = write(order, node_ptr, product_ptr, factor, base)
    if slots > SLOT:
        raise DataError(
            f"{circuit!r} needs {slots:,} values at a time, and kernels can hold {SLOT:,}. Split the rules into parts."
        )
    probability = np.array(circuit.soft, np.float64)
    with np.errstate(divide="ignore"):  # a rule that holds for certain
        soft = np.stack([np.log(probability), np.log1p(-probability)], axis=1)
    return Program(
        stream=stream,
        blocks=np.stack([starts[:-1], starts[1:], circuit.categorical.astype(np.int64)], axis=1),
        soft=soft,
        columns=columns,
        slots=slots,
        biases=biases,
        nodes=len(order),
        root=last,
    )
