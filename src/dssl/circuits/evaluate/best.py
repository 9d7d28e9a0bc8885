"""The kernel of the heaviest valid label, and what it shares with that of the k heaviest.

Values are plain log weights, normalised so that each variable's heaviest value weighs 0. A product adds, a sum takes
the larger, and every node's value is kept. From there on each sample goes its own way, from the root down along the
heaviest products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dssl.circuits.evaluate.vectors import (
    bytes_of,
    lanes_of,
    larger,
    load,
    or_nan,
    peek,
    poke,
    poke_byte,
    splat,
    store,
)
from dssl.circuits.evaluate.wmc import LOWEST, UNKNOWN, is_free, read_weights, row_bytes
from dssl.circuits.evaluate.words import END, FIRST, HEAD, LAST, SLOT, TAIL
from dssl.circuits.jit import allocating, inner

_SLOT, _FIRST, _LAST, _HEAD, _TAIL = (np.uint32(x) for x in (SLOT, FIRST, LAST, HEAD, TAIL))


@inner
def _weigh_best(like: Any, blocks: Any, columns: int, pos: int, neg: int, table: int) -> Any:
    """Literals' log weights less the largest of their variable; returns the sum of those."""
    lanes = lanes_of(like)
    constant = splat(like, 0.0)
    for b in range(len(blocks)):
        start, end = blocks[b, 0], blocks[b, 1]
        after, top, bad = splat(like, 0.0), splat(like, -np.inf), splat(like, 0.0)
        if blocks[b, 2] == 0:
            p, n = load(like, pos, start * lanes), load(like, neg, start * lanes)
            store(table, 2 * start * lanes, p)
            store(table, (2 * start + 1) * lanes, n)
            top, bad = larger(p, n), or_nan(or_nan(bad, p), n)
        else:  # value k weighs w_k Π_{j≠k} w̄_j
            for k in range(end - 1, start - 1, -1):
                store(table, (2 * k + 1) * lanes, after)
                after = after + load(like, neg, k * lanes)
            before = splat(like, 0.0)
            for k in range(start, end):
                u = load(like, pos, k * lanes) + (before + load(like, table, (2 * k + 1) * lanes))
                before = before + load(like, neg, k * lanes)
                store(table, 2 * k * lanes, u)
                store(table, (2 * k + 1) * lanes, splat(like, -np.inf))
                top, bad = larger(u, top), or_nan(bad, u)
        least = larger(top, splat(like, LOWEST))
        for slot in range(2 * start, 2 * end):
            store(table, slot * lanes, load(like, table, slot * lanes) - least)
        constant = constant + or_nan(top, bad)
    store(table, 2 * columns * lanes, splat(like, 0.0))
    store(table, (2 * columns + 1) * lanes, splat(like, -np.inf))
    return constant


@inner
def _product(like: Any, stream: Any, s: int, table: int) -> Any:
    """The log weight of the product that begins at word s, its last word, and the position after it."""
    lanes = lanes_of(like)
    word = stream[s]
    total = load(like, table, np.int64(word & _SLOT) * lanes)
    s += 1
    while word & _LAST == 0:
        word = stream[s]
        total = total + load(like, table, np.int64(word & _SLOT) * lanes)
        s += 1
    return total, word, s


@inner
def _best_forward(like: Any, stream: Any, table: int, values: int) -> None:
    """Run the stream: the weight of every node's heaviest product to its slot, and to a row of its own."""
    lanes = lanes_of(like)
    s = row = 0
    while s < len(stream):
        best, word, s = _product(like, stream, s, table)
        while word & _TAIL == 0:
            other, word, s = _product(like, stream, s, table)
            best = larger(other, best)
        store(table, np.int64(stream[s] & _SLOT) * lanes, best)
        store(values, row, best)
        row += lanes
        s += 1


@inner
def fill_free(like: Any, blocks: Any, lane: int, table: int, label: Any) -> None:
    """Give the variables that are still free their heaviest value, the first of equals."""
    lanes = lanes_of(like)
    for b in range(len(blocks)):
        start, end = blocks[b, 0], blocks[b, 1]
        if is_free(blocks, b, label):
            best = start
            for k in range(start + 1, end):
                if peek(like, table, 2 * k * lanes + lane) > peek(like, table, 2 * best * lanes + lane):
                    best = k
            label[best] = blocks[b, 2] == 1 or peek(like, table, 2 * best * lanes + lane) >= 0.0
        for k in range(start, end):
            if label[k] == UNKNOWN:
                label[k] = 0


@inner
def weigh_nodes(like: Any, program: Any, task: Any, first: int, count: int, scratch: int) -> Any:
    """The heaviest weight of every node of a tile: the addresses of the table, of a row per node, and of two rows.

    These are the constant that weights lack, and the weight of the heaviest label.
    """
    stream, _, _, blocks, soft = program
    lanes, row = lanes_of(like), row_bytes(like)
    pos, neg, table = scratch, scratch + task.columns * row, scratch + 2 * task.columns * row
    values = table + task.slots * row
    read_weights(like, soft, task, first, count, pos, neg)
    constant = _weigh_best(like, blocks, task.columns, pos, neg, table)
    _best_forward(like, stream, table, values)
    store(pos, 0, constant)
    store(pos, lanes, load(like, table, task.root * lanes) + constant)
    return table, values, pos


@inner
def write_none(like: Any, task: Any, labels: int, weights: int, begin: int, end: int) -> None:
    """Write that there are no labels at these places."""
    for i in range(begin, end):
        poke(like, weights, i, -np.inf)
        for k in range(task.columns):
            poke_byte(labels, i * task.columns + k, 0)


@inner
def _mark_first(sample: Any, program: Any, stack: Any, label: Any) -> float:
    """Mark the literals of the root's heaviest derivation, and return its weight: no records are needed for one.

    Nodes on the stack mention different variables, so there are never more of them than columns.
    """
    like, lane, table, values = sample
    stream, owner, ends, base = program
    lanes = lanes_of(like)
    weight, whole = 0.0, True
    stack[0], depth = len(ends) - 1, 1
    while depth > 0:
        depth -= 1
        best, at, head, s = -np.inf, np.int64(-1), False, ends[stack[depth], END] - 1
        while not head:
            end, total, begun = s, 0.0, False
            head = stream[s] & _HEAD != 0
            while not begun:
                begun = stream[s] & _FIRST != 0
                slot = np.int64(stream[s] & _SLOT)
                total += (
                    peek(like, table, slot * lanes + lane)
                    if slot < base
                    else peek(like, values, owner[s] * lanes + lane)
                )
                s -= 1
            if total >= best:  # of equals the first, as heaps have it
                best, at = total, end
        if whole:
            weight, whole = best, False
        begun = False
        while not begun:
            begun = stream[at] & _FIRST != 0
            slot = np.int64(stream[at] & _SLOT)
            if slot >= base:
                stack[depth] = owner[at]
                depth += 1
            elif slot < base - 2:
                label[slot >> 1] = 1 - (slot & 1)
            at -= 1
    return weight


@allocating
def best(like: Any, program: Any, task: Any, first: int, count: int, scratch: int) -> int:
    """What `k_best` answers for k = 1, without its records: a kernel that is compiled in an eighth of the time."""
    stream, owner, ends, blocks, _ = program
    table, values, found = weigh_nodes(like, program, task, first, count, scratch)
    walked = stream, owner, ends, 2 * task.columns + 2
    label, stack = np.empty(task.columns, np.int64), np.empty(task.columns + 2, np.int64)
    lanes, empty = lanes_of(like), 0
    for j in range(count):
        at = first + j
        labels, weights = task.out2 + at * task.columns, task.out + at * bytes_of(like)
        if not peek(like, found, lanes + j) > -np.inf:
            write_none(like, task, labels, weights, 0, 1)
            empty += 1
            continue
        label[:] = UNKNOWN
        heaviest = _mark_first((like, j, table, values), walked, stack, label)
        fill_free(like, blocks, j, table, label)
        for k in range(task.columns):
            poke_byte(labels, k, label[k])
        poke(like, weights, 0, heaviest + peek(like, found, j))
    return empty
