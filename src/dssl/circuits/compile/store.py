"""Nodes of the search: products and decisions, each stored once, and the cache of components already solved.

Node 0 is false, 1 is true, ``2 + v`` is *atom* v, "value v is chosen". A PRODUCT has atoms, EITHERs and decisions as
children, never products. An EITHER is one of several atoms of a block. A DECISION has children in pairs, an EITHER (or
atom) and what follows from it. Children are sorted, and a factor that all branches of a decision share stands outside
it, so that equal functions mostly become the same node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dssl.circuits.compile.records import Hashes, Ints, Longs
from dssl.circuits.jit import entry, inner

if TYPE_CHECKING:
    from dssl.circuits.compile.budget import Budget

T = TypeVar("T", bound=np.generic)

# numpy integers, as numba compiles a function anew for every plain one it is called with
FALSE, TRUE, ATOM, PRODUCT, DECISION, EITHER = np.arange(6)
_NONE = np.int64(0)
KIND, START = range(2)
NODES, CHILDREN, ENTRIES = range(3)
SLICE = 1_000_000  # nodes or entries that a loop deals with before Python looks up
LONGEST = int(np.iinfo(np.int32).max)  # of an array that 32-bit numbers point into
_A, _B, _C = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(0x9E3779B97F4A7C15)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


class Store(NamedTuple):
    """Nodes in order of creation, children first, a table to find equal ones, and the components solved."""

    node: Ints  # (nodes, 2): kind and start of the children, which end where the next node's start
    child: Ints
    table: Ints  # open addressing; 0 is empty
    entry_key: Hashes  # (entries, 2): components solved, open addressing
    entry_node: Ints  # -1 is empty
    sizes: Longs  # nodes, children, entries in use

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)


def bytes_needed(values: int, capacity: int) -> int:
    """What a new store takes."""
    capacity += 2 * values
    return 16 * capacity + 4 * (1 << (2 * capacity).bit_length()) + (20 << 10) + 32


def new_store(values: int, capacity: int = 1 << 10) -> Store:
    """A store that holds false, true and the atoms."""
    capacity += 2 * values
    refuse_long(2 * capacity)
    slots = 1 << (2 * capacity).bit_length()
    store = Store(
        node=np.zeros((capacity + 1, 2), dtype=np.int32),
        child=np.zeros(2 * capacity, dtype=np.int32),
        table=np.zeros(slots, dtype=np.int32),
        entry_key=np.zeros((1 << 10, 2), dtype=np.uint64),
        entry_node=np.full(1 << 10, -1, dtype=np.int32),
        sizes=np.array([2 + values, 0, 0]),
    )
    store.node[1, KIND] = TRUE
    store.node[2 : 2 + values, KIND] = ATOM
    return store


def grown(store: Store, margin: int, budget: Budget) -> Store:
    """The same store with room for `margin` more nodes and children, and tables at most half full.

    Raises `BudgetError` where the new arrays are too large beside the old ones.
    """
    nodes, children, entries = store.sizes.tolist()
    if nodes + margin >= len(store.node):
        store = store._replace(node=longer(store.node, 2 * nodes + 2 * margin, budget))
    if children + margin > len(store.child):
        store = store._replace(child=longer(store.child, 2 * children + 2 * margin, budget))
    if 2 * (nodes + margin) > len(store.table):
        slots = 1 << (3 * (nodes + margin)).bit_length()
        budget.afford(4 * slots)
        table = np.zeros(slots, dtype=np.int32)
        for first in range(2, nodes, SLICE):
            refill_table(store, table, first, min(first + SLICE, nodes))
            budget.tick()
        store = store._replace(table=table)
    if 2 * (entries + 2) > len(store.entry_node):
        slots = 4 * len(store.entry_node)
        budget.afford(20 * slots)
        key, node = np.zeros((slots, 2), dtype=np.uint64), np.full(slots, -1, dtype=np.int32)
        for first in range(0, len(store.entry_node), SLICE):
            refill_entries(store, key, node, first, min(first + SLICE, len(store.entry_node)))
            budget.tick()
        store = store._replace(entry_key=key, entry_node=node)
    return store


def refuse_long(length: int) -> None:
    """Raise `BudgetError` where an array is too long for the numbers that point into it, whatever the budget."""
    if length > LONGEST:
        from dssl.errors import BudgetError  # not above: kernels are to depend on no messages

        raise BudgetError(
            f"compiling the rules takes more than {LONGEST:,} nodes or edges, the most that a circuit can have. "
            'Drop or split rules, or ask for relaxation="clauses".'
        )


def longer(array: NDArray[T], length: int, budget: Budget) -> NDArray[T]:
    """A copy of an array with room behind it, if the budget allows it beside the old one."""
    budget.afford(length * array[:1].nbytes)
    refuse_long(length)
    out = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    out[: len(array)] = array
    return out


@inner
def mix(x):  # type: ignore[no-untyped-def]
    """A 64-bit number scattered over all 64-bit numbers."""
    x ^= x >> _S30
    x *= _A
    x ^= x >> _S27
    x *= _B
    x ^= x >> _S31
    return x


@inner
def children_hash(kind, child, first, last):  # type: ignore[no-untyped-def]
    h = mix(np.uint64(kind) + _C)
    for k in range(first, last):
        h = mix(h ^ (np.uint64(child[k]) * _C))
    return h


@entry
def refill_table(store, table, begin, end):  # type: ignore[no-untyped-def]
    """Enter some nodes into a new table."""
    mask = np.uint64(len(table) - 1)
    for n in range(begin, end):
        if store.node[n, KIND] != ATOM:
            h = children_hash(store.node[n, KIND], store.child, store.node[n, START], store.node[n + 1, START])
            slot = np.int64(h & mask)
            while table[slot] != 0:
                slot = np.int64(np.uint64(slot + 1) & mask)
            table[slot] = n


@entry
def refill_entries(store, key, node, begin, end):  # type: ignore[no-untyped-def]
    """Enter some of the components solved into a new table."""
    mask = np.uint64(len(node) - 1)
    for k in range(begin, end):
        if store.entry_node[k] >= 0:
            slot = np.int64(store.entry_key[k, 0] & mask)
            while node[slot] >= 0:
                slot = np.int64(np.uint64(slot + 1) & mask)
            key[slot, 0] = store.entry_key[k, 0]
            key[slot, 1] = store.entry_key[k, 1]
            node[slot] = store.entry_node[k]


@inner
def intern(store, kind, item, count):  # type: ignore[no-untyped-def]
    """The node of this kind with these children, made if there is none."""
    h = children_hash(kind, item, _NONE, count)
    mask = np.uint64(len(store.table) - 1)
    slot = np.int64(h & mask)
    while store.table[slot] != 0:
        n = store.table[slot]
        first = store.node[n, START]
        if store.node[n, KIND] == kind and store.node[n + 1, START] - first == count:
            k = 0
            while k < count and store.child[first + k] == item[k]:
                k += 1
            if k == count:
                return n
        slot = np.int64(np.uint64(slot + 1) & mask)
    n = store.sizes[NODES]
    at = store.sizes[CHILDREN]
    for k in range(count):
        store.child[at + k] = item[k]
    store.node[n, KIND] = kind
    store.node[n, START] = at
    store.node[n + 1, START] = at + count
    store.sizes[NODES] += 1
    store.sizes[CHILDREN] += count
    store.table[slot] = n
    return np.int32(n)


@inner
def solved(store, first, second):  # type: ignore[no-untyped-def]
    """The node of a component solved before, or -1."""
    mask = np.uint64(len(store.entry_node) - 1)
    slot = np.int64(first & mask)
    while store.entry_node[slot] >= 0:
        if store.entry_key[slot, 0] == first and store.entry_key[slot, 1] == second:
            return store.entry_node[slot]
        slot = np.int64(np.uint64(slot + 1) & mask)
    return np.int32(-1)


@inner
def remember(store, first, second, node):  # type: ignore[no-untyped-def]
    """Keep the node of a component."""
    mask = np.uint64(len(store.entry_node) - 1)
    slot = np.int64(first & mask)
    while store.entry_node[slot] >= 0:
        slot = np.int64(np.uint64(slot + 1) & mask)
    store.entry_key[slot, 0] = first
    store.entry_key[slot, 1] = second
    store.entry_node[slot] = node
    store.sizes[ENTRIES] += 1


@inner
def factors(store, node):  # type: ignore[no-untyped-def]
    """How many factors a node has."""
    return store.node[node + 1, START] - store.node[node, START] if store.node[node, KIND] == PRODUCT else 1


@inner
def append_factors(store, node, item, count):  # type: ignore[no-untyped-def]
    """Write the factors of a node behind `count` items; the new count. True has none, a product its children."""
    if store.node[node, KIND] == PRODUCT:
        for k in range(store.node[node, START], store.node[node + 1, START]):
            item[count] = store.child[k]
            count += 1
    elif node != TRUE:
        item[count] = node
        count += 1
    return count


@inner
def sort(item, count):  # type: ignore[no-untyped-def]
    """Sort the first items in place (Shell's method: short lists are the rule, and it is quick to compile)."""
    gap = 1
    while 3 * gap + 1 < count:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            x = item[i]
            j = i
            while j >= gap and item[j - gap] > x:
                item[j] = item[j - gap]
                j -= gap
            item[j] = x
        gap //= 3


@inner
def sort_pairs(item, count, forward):  # type: ignore[no-untyped-def]
    """Sort the first pairs, flat in `item`, by their first entry and then the second, or the other way round."""
    first, second = (0, 1) if forward else (1, 0)
    gap = 1
    while 3 * gap + 1 < count:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            a, b = item[2 * i + first], item[2 * i + second]
            j = i
            while j >= gap:
                c, d = item[2 * (j - gap) + first], item[2 * (j - gap) + second]
                if c < a or (c == a and d <= b):
                    break
                item[2 * j + first], item[2 * j + second] = c, d
                j -= gap
            item[2 * j + first], item[2 * j + second] = a, b
        gap //= 3


@inner
def product(store, item, count):  # type: ignore[no-untyped-def]
    """The product of the factors, which it sorts in place."""
    if count == 0:
        return np.int32(TRUE)
    if count == 1:
        return item[0]
    sort(item, count)
    return intern(store, PRODUCT, item, count)


@inner
def either(store, value, count, whole, item):  # type: ignore[no-untyped-def]
    """One of `count` values, in ascending order; `whole` says that they are all and need not be named."""
    if whole:
        return np.int32(TRUE)
    if count == 1:
        return np.int32(2 + value[0])
    for k in range(count):
        item[k] = 2 + value[k]
    return intern(store, EITHER, item, count)


@inner
def keep_common(store, node, item, count):  # type: ignore[no-untyped-def]
    """Keep of the sorted items those that are factors of the node too; the new count."""
    if store.node[node, KIND] != PRODUCT:
        for k in range(count):
            if item[k] == node:
                item[0] = node
                return 1
        return 0
    kept = 0
    at, last = store.node[node, START], store.node[node + 1, START]
    for k in range(count):
        while at < last and store.child[at] < item[k]:
            at += 1
        if at < last and store.child[at] == item[k]:
            item[kept] = item[k]
            kept += 1
    return kept


@inner
def divide(store, node, common, count, item):  # type: ignore[no-untyped-def]
    """The node without the `count` sorted factors `common`."""
    left = _NONE
    k = 0
    if store.node[node, KIND] != PRODUCT:
        return np.int32(TRUE)
    for at in range(store.node[node, START], store.node[node + 1, START]):
        if k < count and store.child[at] == common[k]:
            k += 1
        else:
            item[left] = store.child[at]
            left += 1
    return product(store, item, left)


@inner
def common_factors(store, pair, count, common):  # type: ignore[no-untyped-def]
    """Write the factors that the nodes of all branches share; how many. Equal nodes stand side by side."""
    shared = append_factors(store, pair[1], common, _NONE)
    for k in range(1, count):
        if shared > 0 and pair[2 * k + 1] != pair[2 * k - 1]:
            shared = keep_common(store, pair[2 * k + 1], common, shared)
    return shared


@inner
def merge_branches(store, pair, count, whole, named, common, shared, scratch):  # type: ignore[no-untyped-def]
    """Make one branch of all values with the same node, without the shared factors; how many are left."""
    value, item = scratch[1], scratch[3]
    merged, k = _NONE, 0
    while k < count:
        node, values = pair[2 * k + 1], _NONE
        while k < count and pair[2 * k + 1] == node:
            value[values] = pair[2 * k]
            values += 1
            k += 1
        pair[2 * merged] = either(store, value, values, not named or (whole and values == count), item)
        pair[2 * merged + 1] = divide(store, node, common, shared, item) if shared > 0 else node
        merged += 1
    return merged


@inner
def decision(store, branch, first, count, whole, named, scratch):  # type: ignore[no-untyped-def]
    """The node "exactly one of these values, and what follows from it".

    `branch` has, from entry `first`, `count` flat pairs of a value of one block and its node. `whole`: the values
    need not be named where they all lead to the same node; `named`: atoms appear at all.
    """
    if count == 0:
        return np.int32(FALSE)
    common, pair = scratch[0], scratch[2]
    for k in range(2 * count):
        pair[k] = branch[first + k]
    sort_pairs(pair, count, False)  # by node
    shared = common_factors(store, pair, count, common)
    pairs = merge_branches(store, pair, count, whole, named, common, shared, scratch)
    node = pair[0]
    if pairs > 1:
        sort_pairs(pair, pairs, True)  # by their values, so that equal decisions look alike
        node = intern(store, DECISION, pair, 2 * pairs)
    return product(store, common, append_factors(store, node, common, shared))
