"""Proof, before any kernel runs, that a circuit is decomposable and deterministic, whatever made it.

*Decomposable*: no two children of an AND mention the same block. The kernels rely on it: a walk from the root keeps at
most one pending node per block. *Deterministic*: no two children of an OR have a valid label in common. Sums, samples
and the k heaviest labels are right only then.

Both proofs first try an argument that takes one pass over the edges, and look closer only at what it leaves open:

* AND: where there are many blocks, these are numbered as a depth-first walk meets them. Children whose ranges of
  numbers do not overlap share no block. For other ANDs, sets of 64 blocks go up the circuit as words:
  edges × ⌈blocks / 64⌉ steps.
* OR: literals that stand directly in the children and belong to one block tell them apart, as in a decision. For other
  ORs, each node gets the set of values that its labels may take, an upper bound: edges × ⌈values / 42⌉ steps or so. Two
  children whose sets share no value of some block exclude each other. What even this leaves open goes to a SAT solver.
  There are quadratically many pairs, so they are made and looked at some at a time, a child that occurs twice first.

No method is known that is linear for every circuit: deciding the first property is reachability between many pairs of
nodes of a graph at once, deciding the second is as hard as SAT. Circuits of dssl's own compiler are made decomposable
and deterministic, and are taken as such in the process that made them; what comes from a file never is.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from dssl.circuits.circuit import Circuit
from dssl.circuits.nodes import AND
from dssl.circuits.scopes import (
    allowed,
    exclusive,
    overlapping,
    ranks,
    shared_of_64,
    standing_alone,
    undecided,
)
from dssl.errors import DataError

Pairs = NDArray[np.int64]  # (pairs, 3): an OR and two of its children
_Part = tuple[int, int, int, int]  # first block, one past the last, first value, one past the last

_FEW = 256  # blocks for which words are quicker than ranges
_WORD = 63  # bits of a set of values that are used
_AT_ONCE = 1 << 18  # pairs that are looked at together, and so held
_MOST_TIMES, _MOST_ASKED = 1000, 1 << 20  # before a query: how often; pairs that a solver is asked about

_decomposable: WeakSet[Circuit] = WeakSet()
_deterministic: WeakSet[Circuit] = WeakSet()


def trust(circuit: Circuit) -> Circuit:
    """Take a circuit as proven: one that this process has made, or made from proven ones."""
    _decomposable.add(circuit)
    _deterministic.add(circuit)
    return circuit


def require_decomposable(circuit: Circuit) -> None:
    """`DataError` unless no AND has two children that mention the same block; proved once per circuit."""
    if circuit in _decomposable:
        return
    with _memory_of_proof(circuit):
        fault = shared_block(circuit)
    if fault is not None:
        node, block = fault
        names = ", ".join(repr(name) for name in column_names(circuit)[slice(*circuit.starts[block : block + 2])][:3])
        raise DataError(
            f"this circuit is not decomposable: two children of node {node}, an AND, mention {names}. "
            "Was its file damaged or edited? Compile the rules again; circuit.verify() says more."
        )
    _decomposable.add(circuit)


def require_deterministic(circuit: Circuit) -> None:
    """`DataError` unless the circuit is decomposable and no two children of an OR have a label in common."""
    if circuit in _deterministic:
        return
    require_decomposable(circuit)
    with _memory_of_proof(circuit):
        unsure = _unsure(circuit)
    if unsure:
        warnings.warn(
            f"{unsure:,} pairs of branches of this circuit were not proved to exclude each other within a short "
            "search. Answers are right only if they do: circuit.verify() searches without a limit.",
            stacklevel=3,
        )
    _deterministic.add(circuit)


def _unsure(circuit: Circuit) -> int:
    """How many pairs of children of ORs are left open; `DataError` for a pair with a label in common."""
    never_seen = 0

    def pairs() -> Iterator[list[int]]:
        nonlocal never_seen
        asked = 0
        for times, (left, after) in enumerate(open_pairs(circuit), 1):
            yield from left.tolist()
            asked += len(left)
            if times >= _MOST_TIMES or asked >= _MOST_ASKED:
                never_seen = after
                return

    if (first := next(waiting := pairs(), None)) is None:
        return never_seen
    from dssl.circuits.verification import overlap  # the solver is needed for few circuits

    found, unsure = overlap(circuit, itertools.chain([first], waiting), conflicts=20_000)
    if found is not None:
        raise DataError(
            f"this circuit is not deterministic: two children of node {found[0]}, an OR, have a label in common, so "
            "that label would count twice. Use a compiler to deterministic circuits (d-DNNF, SDD); circuit.verify() "
            "names the label."
        )
    return unsure + never_seen


@contextmanager
def _memory_of_proof(circuit: Circuit) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise DataError(
            f"there is not enough memory to prove that {circuit!r} is decomposable and deterministic, which no query "
            "can do without. Free memory, or compile smaller circuits."
        ) from None


def column_names(circuit: Circuit) -> tuple[str, ...]:
    """Names of all columns, those of soft rules too."""
    return circuit.names + tuple(f"soft rule {i + 1}" for i in range(len(circuit.soft)))


def _block_of_node(c: Circuit) -> NDArray[np.int32]:
    """The block of each literal, −1 for other nodes."""
    out = np.full(c.nodes, -1, np.int32)
    literal = c.literal != 0
    out[literal] = c.block_of_column[np.abs(c.literal[literal]) - 1]
    return out


# ---- decomposable ----


def shared_block(c: Circuit) -> tuple[int, int] | None:
    """The first AND two of whose children mention the same block, and that block; None if there is none."""
    block, blocks = _block_of_node(c), len(c.categorical)
    rank, left, low, high = np.arange(blocks), c.kind == AND, 0, blocks - 1
    if blocks > _FEW:
        rank = ranks(block, c.ptr, c.child, blocks)
        left, low, high = overlapping(c.kind, block, rank, c.ptr, c.child)
    if not left.any():
        return None
    last, number = int(np.flatnonzero(left)[-1]) + 1, np.argsort(rank)
    faults = [
        (node, int(number[start + bit]))
        for start in range(low, high + 1, 64)
        for node, bit in [shared_of_64(c.kind, block, rank, c.ptr[: last + 1], c.child, left, start)]
        if node >= 0
    ]
    return min(faults, default=None)


# ---- deterministic ----


def open_pairs(c: Circuit) -> Iterator[tuple[Pairs, int]]:
    """Pairs of children of ORs that are not seen to exclude each other by the values they allow, in the order of ORs.

    They come some at a time, with the number of pairs that are still to be looked at.
    """
    block = _block_of_node(c)
    sizes = np.where(c.categorical, np.diff(c.starts), 2).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(sizes)])  # value of each block
    value = np.full(c.nodes, -1, np.int64)  # of each literal
    literals = np.flatnonzero(c.literal)
    column, owner = np.abs(c.literal[literals]) - 1, block[literals]
    value[literals] = first[owner] + np.where(c.categorical[owner], column - c.starts[owner], c.literal[literals] > 0)
    ors = np.flatnonzero(undecided(c.kind, block, value, c.ptr, c.child, len(sizes), int(first[-1])))
    if not len(ors):
        return
    ptr = c.ptr[: int(ors[-1]) + 2]

    def in_every(parts: list[_Part], ask: Callable[..., NDArray[np.bool_]]) -> NDArray[np.bool_]:
        found = (ask(*allowed(c.kind, block, value, ptr, c.child, first, *part)) for part in parts)
        return reduce(np.logical_and, found)  # one after the other: a large block has many parts

    alone = np.zeros(int((ptr[ors + 1] - ptr[ors]).sum()), np.bool_)  # children of these ORs, end to end
    for parts in _words(first):
        alone |= in_every(parts, partial(standing_alone, ors, ptr, c.child))
    for pairs, after in _pairs_of(*_members(ors, alone, value, ptr, c.child)):
        for parts in _words(first) if len(pairs) else []:
            pairs = pairs[~in_every(parts, partial(exclusive, pairs))]
        yield pairs, after


_Ints = NDArray[np.int64]
_Members = tuple[_Ints, _Ints, NDArray[np.bool_]]


def _members(ors: Any, alone: NDArray[np.bool_], value: NDArray[np.int64], ptr: Any, child: Any) -> _Members:
    """Those children of the ORs that do not stand alone, each once: the OR, the child, whether it occurs again.

    Nodes of the same literal count as one. Those that occur again come first in their OR.
    """
    arity = ptr[ors + 1] - ptr[ors]
    parent = np.repeat(ors, arity)[~alone]
    edges = np.arange(len(alone)) + np.repeat(ptr[ors] - np.cumsum(arity) + arity, arity)
    node = child[edges[~alone]].astype(np.int64)
    distinct, which = np.unique(value[node], return_inverse=True)
    same = np.full(len(distinct), len(value))
    np.minimum.at(same, which, node)
    node = np.where(value[node] >= 0, same[which], node)
    found, times = np.unique(np.stack([parent, node]), axis=1, return_counts=True)
    again = times > 1
    order = np.lexsort([found[1], ~again, found[0]])
    return found[0, order], found[1, order], again[order]


def _pairs_of(
    parent: NDArray[np.int64], node: NDArray[np.int64], again: NDArray[np.bool_]
) -> Iterator[tuple[Any, int]]:
    """All pairs of children of an OR, those that occur again with themselves too, some at a time; how many follow."""
    number = np.arange(len(parent))
    partners = np.searchsorted(parent, parent, side="right") - number - 1 + again
    made = np.concatenate([[0], np.cumsum(partners)])
    start = 0
    while start < len(parent):
        stop = max(start + 1, int(np.searchsorted(made, made[start] + _AT_ONCE, side="right")) - 1)
        one = np.repeat(number[start:stop], partners[start:stop])
        shift = np.repeat(made[start:stop] - made[start] - 1 + again[start:stop], partners[start:stop])
        other = one + np.arange(len(one)) - shift
        yield np.stack([parent[one], node[one], node[other]], axis=1), int(made[-1] - made[stop])
        start = stop


def _words(first: NDArray[np.int64]) -> list[list[_Part]]:
    """Blocks in runs whose values fit a word, with a spare bit for each block; a larger block in several parts."""
    out: list[list[_Part]] = []
    b, blocks = 0, len(first) - 1
    ends = first + np.arange(blocks + 1)  # bits up to each block
    while b < blocks:
        end = int(np.searchsorted(ends, ends[b] + _WORD, side="right")) - 1
        cuts = [int(first[b]), int(first[max(end, b + 1)])]
        if end == b:
            end, cuts = b + 1, [*range(cuts[0], cuts[1], _WORD - 1), cuts[1]]
        out.append([(b, end, start, stop) for start, stop in itertools.pairwise(cuts)])
        b = end
    return out
