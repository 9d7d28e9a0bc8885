"""The kernel of the heaviest valid label.

Values are plain log weights, normalised so that each variable's heaviest value weighs 0. A product adds, and a sum
takes the larger: its bias is 1 or 0. From there on each sample goes its own way, from the root down, and meets only the
nodes of one label. A variable that it does not meet is free and takes its heaviest value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dssl.circuits.evaluate.vectors import (
    lanes_of,
    larger,
    load,
    or_nan,
    peek,
    poke,
    poke_byte,
    splat,
    store,
    where_larger,
)
from dssl.circuits.evaluate.wmc import LOWEST, descend, read_weights, row_bytes, write_result
from dssl.circuits.evaluate.words import END, FIRST, HEAD, LAST, LOGGED, SLOT, TAIL
from dssl.circuits.jit import allocating, inner

_SLOT, _FIRST, _LAST, _HEAD, _TAIL = (np.uint32(x) for x in (SLOT, FIRST, LAST, HEAD, TAIL))
_TINY = -1e-37  # what weighs more is a variable's heaviest value


@inner
def weigh_best(like: Any, blocks: Any, columns: int, pos: int, neg: int, table: int) -> Any:
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
def best_forward(like: Any, stream: Any, table: int, log: int, values: int) -> None:
    """Run the stream: the weight of every node's heaviest product to its slot.

    Every sum's bias goes to `log`, and every node's weight to a row of `values`; neither is kept at address 0.
    """
    lanes = lanes_of(like)
    zero, one = splat(like, 0.0), splat(like, 1.0)
    s = logged = row = 0
    while s < len(stream):
        best, word, s = _product(like, stream, s, table)
        while word & _TAIL == 0:
            other, word, s = _product(like, stream, s, table)
            if log != 0:
                store(log, logged, where_larger(other, best, zero, one))
                logged += lanes
            best = larger(other, best)
        store(table, np.int64(stream[s] & _SLOT) * lanes, best)
        if values != 0:
            store(values, row, best)
            row += lanes
        s += 1


@inner
def _chosen_product(like: Any, stream: Any, end: int, logged: int, log: int) -> int:
    """The last word of a node's heaviest product, by the biases logged up to `logged`: the first of equals."""
    s = end - 1
    while stream[s] & _HEAD == 0 and peek(like, log, logged) > 0.5:
        logged -= lanes_of(like)
        while stream[s] & _FIRST == 0:
            s -= 1
        s -= 1
    return s


@inner
def _walk(
    like: Any, stream: Any, owner: Any, ends: Any, base: int, lane: int, log: int, stack: Any, met: Any, literals: int
) -> None:
    """Write 1 to the sample's lane of each of its heaviest label's literals."""
    lanes, count = lanes_of(like), 0
    stack[0], depth = len(ends) - 1, 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        s = _chosen_product(like, stream, ends[node, END], (ends[node, LOGGED] - 1) * lanes + lane, log)
        depth, count = descend(stream, owner, s, base, stack, depth, met, count)
    for i in range(count):
        poke(like, literals, met[i] * lanes + lane, 1.0)


@inner
def _fill(like: Any, blocks: Any, value: Any, table: int, literals: int) -> None:
    """Give free variables their heaviest value, the first of equals; column k's truth goes to row k of `literals`."""
    lanes = lanes_of(like)
    none, zero = splat(like, -np.inf), splat(like, 0.0)
    for b in range(len(blocks)):
        free = splat(like, 1.0)
        for slot in range(2 * blocks[b, 0], 2 * blocks[b, 1]):
            free = free - load(like, literals, slot * lanes)
        for k in range(blocks[b, 0], blocks[b, 1]):
            heaviest = where_larger(load(like, table, 2 * k * lanes), splat(like, _TINY), free, zero)
            free = free - heaviest
            on = load(like, literals, 2 * k * lanes) + heaviest
            store(literals, k * lanes, where_larger(value, none, on, zero))


@allocating
def best(like: Any, program: Any, task: Any, first: int, count: int, scratch: int) -> int:
    """out: the largest log weight of a valid label (batch,), −inf if none. out2: that label (batch, columns)."""
    stream, owner, ends, blocks, soft = program
    lanes, row = lanes_of(like), row_bytes(like)
    pos, neg, table = scratch, scratch + task.columns * row, scratch + 2 * task.columns * row
    log = table + task.slots * row
    read_weights(like, soft, task, first, count, pos, neg)
    constant = weigh_best(like, blocks, task.columns, pos, neg, table)
    best_forward(like, stream, table, log, 0)
    value = load(like, table, task.root * lanes) + constant
    result, literals = table + task.root * row, scratch
    stack, met = np.empty(task.columns + 2, np.int64), np.empty(task.columns, np.int64)
    empty = write_result(like, value, task, first, count, result)
    for slot in range(2 * task.columns):  # weights are in the table now: their rows are free for literals
        store(literals, slot * lanes, splat(like, 0.0))
    for j in range(count):
        if peek(like, result, j) > -np.inf:
            _walk(like, stream, owner, ends, 2 * task.columns + 2, j, log, stack, met, literals)
    _fill(like, blocks, value, table, literals)
    for j in range(count):
        for k in range(task.columns):
            poke_byte(task.out2, (first + j) * task.columns + k, np.int64(peek(like, literals, k * lanes + j) > 0.5))
    return empty
