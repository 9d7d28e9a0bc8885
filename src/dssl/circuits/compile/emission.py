"""Emission: the nodes of the search as the arrays of a Circuit.

Products are written as chains in the order of branching, so that common tails are stored once; then every AND or OR
with a single parent of its own kind is merged into it, so that unshared chains are flat again. A value of a selection
is the product of its literal and the negations of the others, for large selections by way of chains from both ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dssl.circuits.compile.records import B_FIRST, B_FREE, B_RANK, V_BLOCK, Ints, Longs, Problem
from dssl.circuits.compile.store import (
    EITHER,
    KIND,
    PRODUCT,
    SLICE,
    START,
    Store,
    bytes_needed,
    intern,
    new_store,
    sort,
    sort_pairs,
)
from dssl.circuits.jit import entry, inner
from dssl.circuits.nodes import AND, LITERAL, OR

if TYPE_CHECKING:
    from dssl.circuits.compile.budget import Budget

LARGE_GROUP = 8
_AND, _OR, _TWO = np.int64(AND), np.int64(OR), np.int64(2)  # see `nodes` for why
Arrays = tuple[NDArray[np.int8], Ints, Longs, Ints]


def emit(p: Problem, store: Store, root: int, literal: Ints, budget: Budget) -> Arrays:
    """Kind, literal, ptr and child of the circuit; `literal` is that of each value, 0 for one that is not shown."""
    parents = np.zeros(max(root + 1, len(p.value) + 1), dtype=np.int32)
    edges = _parents(store, root, PRODUCT, parents, budget)
    room = 3 * edges + _room_for_groups(p) + 64
    index = np.zeros(int(np.abs(literal).max(initial=0)) + 1, dtype=np.int32)
    index[np.abs(literal)] = 1  # no sort: there may be millions
    columns = np.flatnonzero(index[1:]).astype(np.int32) + np.int32(1)
    index[columns] = np.arange(len(columns))
    budget.afford(2 * parents.nbytes + bytes_needed(2 * len(columns), room))
    out = new_store(2 * len(columns), room)
    out.node[2 : 2 + 2 * len(columns), KIND] = LITERAL
    place = np.zeros(len(parents), dtype=np.int32)
    scratch = np.zeros((2, 2 * len(p.value) + 2), dtype=np.int32)
    expand_values(p, parents, literal, index, out, place, scratch[1])
    for first in range(len(p.value) + 1, len(place), SLICE):
        expand(p, store, parents, out, place, scratch, first, min(first + SLICE, len(place)))
        budget.tick()
    return _flat(out, int(place[root]), np.stack([columns, -columns], axis=1).reshape(-1), budget)


def _parents(store: Store, root: int, least: int | np.integer, parents: Ints, budget: Budget) -> int:
    """Count the parents of what is under the root, itself counted once; how many edges. Inner kinds are >= least."""
    parents[root] = 1
    edges = 0
    for last in range(root, -1, -SLICE):
        edges += count_parents(store, last, max(last - SLICE, -1), least, parents)
        budget.tick()
    return edges


def _room_for_groups(p: Problem) -> int:
    sizes = np.diff(p.block[:, B_FIRST])[p.block[:-1, B_FREE] == 0].tolist()
    return sum(n * n if n <= LARGE_GROUP else 8 * n for n in sizes)


def _flat(out: Store, root: int, signed: Ints, budget: Budget) -> Arrays:
    """Keep what the root uses, merge nodes with a single parent of their kind into it, number anew."""
    parents = np.zeros(root + 1, dtype=np.int32)
    edges = _parents(out, root, AND, parents, budget)
    merged = np.zeros(root + 1, dtype=np.bool_)
    for first in range(0, root + 1, SLICE):
        mark_merged(out, parents, merged, first, min(first + SLICE, root + 1))
        budget.tick()
    kept = np.flatnonzero((parents > 0) & ~merged)
    number = np.zeros(root + 1, dtype=np.int32)
    number[kept] = np.arange(len(kept))
    kind = out.node[kept, KIND].astype(np.int8)
    literal = np.zeros(len(kept), dtype=np.int32)
    literal[kind == LITERAL] = signed[kept[kind == LITERAL] - 2]
    ptr = np.zeros(len(kept) + 1, dtype=np.int64)
    child = np.zeros(edges - int(np.count_nonzero(merged)), dtype=np.int32)
    todo = np.zeros(edges + 1, dtype=np.int32)
    for first in range(0, len(kept), SLICE):
        write_children(out, kept, merged, number, ptr, child, todo, first, min(first + SLICE, len(kept)))
        budget.tick()
    return kind, literal, ptr, child


@entry
def count_parents(store, begin, end, least, parents):  # type: ignore[no-untyped-def]
    """Count the edges from the nodes in use from `begin` down to before `end`, for each child and in all."""
    edges = 0
    for n in range(begin, end, -1):
        if parents[n] > 0 and store.node[n, KIND] >= least:
            for k in range(store.node[n, START], store.node[n + 1, START]):
                parents[store.child[k]] += 1
                edges += 1
    return edges


@inner
def both(out, kind, a, b, item):  # type: ignore[no-untyped-def]
    """AND or OR of two nodes, where 1, true, is left out of an AND and 0, false, of an OR."""
    neutral = 1 if kind == AND else 0
    if a == neutral:
        return b
    if b == neutral:
        return a
    item[0], item[1] = min(a, b), max(a, b)
    return intern(out, kind, item, _TWO)


@inner
def literal_node(literal, index):  # type: ignore[no-untyped-def]
    return np.int32(2 + 2 * index[abs(literal)] + (literal < 0))


@inner
def write_group(first, last, parents, literal, index, out, place, item):  # type: ignore[no-untyped-def]
    """Place the small selection with values first to last: each value is a product of as many literals."""
    for v in range(first, last):
        if parents[2 + v] == 0:
            continue
        for w in range(first, last):
            item[w - first] = literal_node(np.int64(literal[w] if w == v else -literal[w]), index)
        sort(item, last - first)
        place[2 + v] = intern(out, _AND, item, last - first)


@inner
def write_large_group(first, last, parents, literal, index, out, place, item):  # type: ignore[no-untyped-def]
    """Place the large selection: what stands before a value is a chain, and so is what stands after it."""
    chain = np.int32(1)
    for v in range(first, last):
        place[2 + v] = both(out, _AND, chain, literal_node(np.int64(literal[v]), index), item)
        chain = both(out, _AND, chain, literal_node(np.int64(-literal[v]), index), item)
    chain = np.int32(1)
    for v in range(last - 1, first - 1, -1):
        place[2 + v] = both(out, _AND, place[2 + v], chain, item)
        chain = both(out, _AND, chain, literal_node(np.int64(-literal[v]), index), item)


@inner
def write_product(p, store, n, place, out, order, item):  # type: ignore[no-untyped-def]
    """Atoms as a chain, the block branched on last innermost, then what is not an atom."""
    atoms = np.int64(0)
    first, last = store.node[n, START], store.node[n + 1, START]
    while first + atoms < last and store.child[first + atoms] <= len(p.value):
        atom = store.child[first + atoms]
        order[2 * atoms] = p.block[p.value[atom - 2, V_BLOCK], B_RANK]
        order[2 * atoms + 1] = place[atom]
        atoms += 1
    sort_pairs(order, atoms, True)
    chain = np.int32(1)
    for k in range(atoms):
        chain = both(out, _AND, order[2 * k + 1], chain, item)
    others = last - first - atoms
    if others == 0:
        return chain
    for k in range(others):
        order[k] = place[store.child[first + atoms + k]]
    sort(order, others)
    rest = intern(out, _AND, order, others) if others > 1 else order[0]
    return both(out, _AND, chain, rest, item)


@entry
def expand_values(p, parents, literal, index, out, place, item):  # type: ignore[no-untyped-def]
    """Place true and every value: a literal, or for a selection a product of literals."""
    place[1] = 1
    for b in range(len(p.block) - 1):
        first, last = p.block[b, B_FIRST], p.block[b + 1, B_FIRST]
        if p.block[b, B_FREE] == 0 and last - first > LARGE_GROUP:
            write_large_group(first, last, parents, literal, index, out, place, item)
        elif p.block[b, B_FREE] == 0:
            write_group(first, last, parents, literal, index, out, place, item)
        else:
            for v in range(first, last):
                if literal[v] != 0:
                    place[2 + v] = literal_node(np.int64(literal[v]), index)


@entry
def expand(p, store, parents, out, place, scratch, begin, end):  # type: ignore[no-untyped-def]
    """Write some of the nodes in use with AND and OR only, and note their places."""
    order, item = scratch[0], scratch[1]
    for n in range(begin, end):
        if parents[n] == 0:
            continue
        if store.node[n, KIND] == PRODUCT:
            place[n] = write_product(p, store, n, place, out, order, item)
            continue
        count = np.int64(0)
        paired = 1 if store.node[n, KIND] == EITHER else 2
        for k in range(store.node[n, START], store.node[n + 1, START], paired):
            order[count] = place[store.child[k]]
            if paired == 2:
                order[count] = both(out, _AND, order[count], place[store.child[k + 1]], item)
            count += 1
        sort(order, count)
        place[n] = intern(out, _OR, order, count)


@entry
def mark_merged(out, parents, merged, begin, end):  # type: ignore[no-untyped-def]
    """Mark each AND and OR whose only parent is one of some nodes and of the same kind."""
    for n in range(begin, end):
        if parents[n] > 0 and out.node[n, KIND] >= AND:
            for k in range(out.node[n, START], out.node[n + 1, START]):
                c = out.child[k]
                merged[c] = parents[c] == 1 and out.node[c, KIND] == out.node[n, KIND]


@entry
def write_children(out, kept, merged, number, ptr, child, todo, first, last):  # type: ignore[no-untyped-def]
    """Write the children of some of the nodes kept, those of merged nodes in their stead."""
    at = ptr[first]
    for m in range(first, last):
        begin = at
        top = 1 if out.node[kept[m], KIND] >= AND else 0
        todo[0] = kept[m]
        while top > 0:
            top -= 1
            x = todo[top]
            for k in range(out.node[x, START], out.node[x + 1, START]):
                c = out.child[k]
                if merged[c]:
                    todo[top] = c
                    top += 1
                else:
                    child[at] = number[c]
                    at += 1
        sort(child[begin:at], np.int64(at - begin))
        ptr[m + 1] = at
