"""Kernels that choose labels: the heaviest valid label, and exact samples.

* Best: values are plain log weights, normalised so that each variable's heaviest value weighs 0. A product adds, a sum
  takes the larger, and its choice is 1 or 0; `kernels.flow_backward` then carries the flow 1 along the best label.
* Samples: values and choices are those of log WMC. A walk from the root tosses a coin with the bias of each choice and
  meets only the nodes of one label, so a draw costs far less than an evaluation.

A variable that the chosen branches do not mention is free: it takes its heaviest value, or is drawn from its weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dssl.circuits.kernels import (
    evaluate,
    finish_tile,
    flow_backward,
    next_tile,
    read_weights,
    row_bytes,
    write_result,
)
from dssl.circuits.program import FIRST, HEAD, LAST, SLOT, TAIL
from dssl.circuits.simd import (
    flush_tiny,
    inner,
    jit,
    lanes_of,
    larger,
    load,
    or_nan,
    peek,
    poke_byte,
    splat,
    store,
    where_larger,
    zeros,
)

_SLOT, _FIRST, _LAST, _HEAD, _TAIL = (np.uint32(x) for x in (SLOT, FIRST, LAST, HEAD, TAIL))
_LOWEST = -3e38
_UNKNOWN = 2


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
        least = larger(top, splat(like, _LOWEST))
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
def _best_forward(like: Any, stream: Any, table: int, log: int, save: bool) -> None:
    """Run the stream: the heaviest product of every node to its slot, the choices (0 or 1) to the log."""
    lanes = lanes_of(like)
    s = logged = 0
    while s < len(stream):
        best, word, s = _product(like, stream, s, table)
        while word & _TAIL == 0:
            other, word, s = _product(like, stream, s, table)
            if save:
                store(log, logged, where_larger(other, best, splat(like, 0.0), splat(like, 1.0)))
                logged += lanes
            best = larger(other, best)
        store(table, np.int64(stream[s] & _SLOT) * lanes, best)
        s += 1


@inner
def _evaluate_best(
    like: Any,
    stream: Any,
    blocks: Any,
    soft: Any,
    task: Any,
    first: int,
    count: int,
    scratch: int,
    log: int,
    save: bool,
) -> Any:
    """The tile's largest log weights, also written to `out`, and how many are −inf."""
    row = row_bytes(like)
    pos, neg, table = scratch, scratch + task.columns * row, scratch + 2 * task.columns * row
    read_weights(like, soft, task, first, count, pos, neg)
    constant = _weigh_best(like, blocks, task.columns, pos, neg, table)
    _best_forward(like, stream, table, log, save)
    value = load(like, table, task.root * lanes_of(like)) + constant
    return value, write_result(like, value, task, first, count, scratch)


@inner
def _best_weight_tile(
    like: Any, stream: Any, blocks: Any, soft: Any, task: Any, first: int, count: int, scratch: int
) -> int:
    return _evaluate_best(like, stream, blocks, soft, task, first, count, scratch, 0, False)[1]


@inner
def _best_tile(like: Any, stream: Any, blocks: Any, soft: Any, task: Any, first: int, count: int, scratch: int) -> int:
    lanes, row = lanes_of(like), row_bytes(like)
    table = scratch + 2 * task.columns * row
    flow = table + task.slots * row
    log = flow + task.slots * row
    value, empty = _evaluate_best(like, stream, blocks, soft, task, first, count, scratch, log, True)
    flow_backward(like, stream, task, flow, log)
    none, zero = splat(like, -np.inf), splat(like, 0.0)
    for b in range(len(blocks)):
        rest = splat(like, 1.0)
        for slot in range(2 * blocks[b, 0], 2 * blocks[b, 1]):
            rest = rest - load(like, flow, slot * lanes)
        for k in range(blocks[b, 0], blocks[b, 1]):
            heaviest = where_larger(load(like, table, 2 * k * lanes), splat(like, -1e-37), rest, zero)
            rest = rest - heaviest  # of equal values the first
            on = load(like, flow, 2 * k * lanes) + heaviest
            store(scratch, k * lanes, where_larger(value, none, on, zero))
    for j in range(count):
        for k in range(task.columns):
            poke_byte(task.out2, (first + j) * task.columns + k, peek(like, scratch, k * lanes + j) > 0.5)
    return empty


def best_weight(lanes: int, bits: int, source: int) -> Any:
    """out: the largest log weight of a valid label (batch,)."""

    @jit
    def run(stream: Any, blocks: Any, soft: Any, tasks: Any, scratch: int, counters: int) -> None:
        like, task, former = zeros(lanes, bits, source), tasks[0], flush_tiny(np.uint32(1))
        first = next_tile(like, counters)
        while first < task.batch:
            count = min(lanes, task.batch - first)
            empty = _best_weight_tile(like, stream, blocks, soft, task, first, count, scratch)
            first = finish_tile(like, counters, empty)
        flush_tiny(former)

    return run


def best(lanes: int, bits: int, source: int) -> Any:
    """out: the largest log weight of a valid label (batch,). out2: that label (batch, columns), false if none."""

    @jit
    def run(stream: Any, blocks: Any, soft: Any, tasks: Any, scratch: int, counters: int) -> None:
        like, task, former = zeros(lanes, bits, source), tasks[0], flush_tiny(np.uint32(1))
        first = next_tile(like, counters)
        while first < task.batch:
            count = min(lanes, task.batch - first)
            empty = _best_tile(like, stream, blocks, soft, task, first, count, scratch)
            first = finish_tile(like, counters, empty)
        flush_tiny(former)

    return run


@inner
def _next_random(state: np.uint64) -> Any:
    """The next state of SplitMix64, and a number in (0, 1) that is never 0 or 1."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    x = state
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return state, (np.float64(x >> np.uint64(12)) + 0.5) / 4503599627370496.0


@inner
def _walk(
    like: Any, stream: Any, origin: Any, base: int, lane: int, log: int, state: Any, stack: Any, label: Any
) -> Any:
    """Mark in `label` the literals of a random branch below the root; returns the random state."""
    lanes = lanes_of(like)
    stack[0], depth = len(stream) - 1, 1
    while depth > 0:
        depth -= 1
        s = stack[depth]
        logged = (origin[s] - 1) * lanes + lane
        s -= 1
        while stream[s] & _HEAD == 0:  # a coin decides between this product and those before it
            state, toss = _next_random(state)
            if toss >= peek(like, log, logged):
                break
            logged -= lanes
            while stream[s] & _FIRST == 0:
                s -= 1
            s -= 1
        while True:
            word = stream[s]
            slot = np.int64(word & _SLOT)
            if slot >= base:
                stack[depth] = origin[s]
                depth += 1
            elif slot < base - 2:
                label[slot >> 1] = 1 - (slot & 1)
            s -= 1
            if word & _FIRST != 0:
                break
    return state


@inner
def _draw_free(like: Any, blocks: Any, lane: int, table: int, state: Any, label: Any) -> Any:
    """Draw the variables that the walk did not meet from their own weights; returns the random state."""
    lanes = lanes_of(like)
    for b in range(len(blocks)):
        start, end = blocks[b, 0], blocks[b, 1]
        known = False
        for k in range(start, end):
            known |= label[k] != _UNKNOWN
        state, toss = _next_random(state)
        for k in range(start, end):
            own = peek(like, table, 4 * k * lanes + lane) * np.exp2(peek(like, table, (4 * k + 1) * lanes + lane))
            if not known and (toss < own or (k == end - 1 and blocks[b, 2] == 1)):
                label[k], known = 1, True
            elif label[k] != 1:
                label[k] = 0
            toss -= own
    return state


@inner
def _sample_tile(
    like: Any, stream: Any, origin: Any, blocks: Any, soft: Any, task: Any, first: int, count: int, scratch: int
) -> int:
    row, seed, draws = row_bytes(like), np.uint64(task.given), task.number
    value, log = evaluate(like, stream, blocks, soft, task, first, count, scratch, True)
    table = scratch + 2 * task.columns * row
    empty = write_result(like, value, task, first, count, scratch)
    stack, label = np.empty(task.columns + 2, np.int64), np.empty(task.columns, np.int64)
    for j in range(count):
        if not peek(like, scratch, j) > -np.inf:
            continue
        for d in range(draws):
            at = d * task.batch + first + j
            # a stream of its own for every draw: the same whatever the tiles and threads
            state, _ = _next_random(seed + np.uint64(at) * np.uint64(0xD1342543DE82EF95))
            state = state * np.uint64(0xDA942042E4DD58B5)
            label[:] = _UNKNOWN
            state = _walk(like, stream, origin, 2 * task.columns + 2, j, log, state, stack, label)
            _draw_free(like, blocks, j, table, state, label)
            for k in range(task.columns):
                poke_byte(task.out2, at * task.columns + k, label[k])
    return empty


def sample(lanes: int, bits: int, source: int) -> Any:
    """given: seed. number: draws n. out: log WMC (batch,). out2: labels (n, batch, columns), unset if V is empty."""

    @jit
    def run(stream: Any, origin: Any, blocks: Any, soft: Any, tasks: Any, scratch: int, counters: int) -> None:
        like, task, former = zeros(lanes, bits, source), tasks[0], flush_tiny(np.uint32(1))
        first = next_tile(like, counters)
        while first < task.batch:
            count = min(lanes, task.batch - first)
            empty = _sample_tile(like, stream, origin, blocks, soft, task, first, count, scratch)
            first = finish_tile(like, counters, empty)
        flush_tiny(former)

    return run
