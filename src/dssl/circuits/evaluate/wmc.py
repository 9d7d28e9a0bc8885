"""The loops that must be fast: log WMC and its gradient over tiles of samples, in numba.

A *tile* is `lanes` samples side by side. Its table has a row of `lanes` numbers for each slot of the program, so every
word of the stream is a few vector operations, and the table stays in the processor's cache whatever the batch.

One tile of the kernel `gradient`:

1. `read_weights`: the tile's log weights, one row of lanes per column;
2. `weigh`: normalised literal weights in the table, and the log of the constant taken out (MATH §4, 1 and 7);
3. `sum_forward`: the stream from front to back; each addition logs its bias where a gradient is wanted;
4. `flow_backward`: the stream from back to front with flows f = ∂ log WMC / ∂ log value, from 1 at the root;
5. `marginals`: flows of literals become marginals (identity 3); a variable that was not mentioned is free.

The other kernels (see `expectations`, `heaviest`, `samples`) differ in what a value is, how products and sums are
formed, and what a bias means; 1, 2 and 4 are the same. Here values are pairs (m, e) of mantissa and exponent (see
`vectors`), and flows are plain numbers.

A kernel is called with the program's arrays, a `TASK`, the address of its thread's scratch memory and that of three
counters: the next tile to take, how many are done, and samples without a valid label.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dssl.circuits.evaluate.vectors import (
    atomic_add,
    bytes_of,
    exp_parts,
    flush_tiny,
    keep_if,
    lanes_of,
    larger,
    load,
    log1p,
    log_parts,
    normalise,
    or_nan,
    peek,
    poke,
    power_of_two,
    scaled,
    smaller,
    splat,
    store,
    where_larger,
    zeros,
)
from dssl.circuits.evaluate.words import FIRST, HEAD, LAST, SLOT, TAIL, TOUCH
from dssl.circuits.jit import UNLOCKED, always, inner, stand_in

_SLOT, _TOUCH, _FIRST, _LAST, _HEAD, _TAIL = (np.uint32(x) for x in (SLOT, TOUCH, FIRST, LAST, HEAD, TAIL))
LOWEST = -3e38  # stands for −inf where a difference of two −inf must not be NaN
UNKNOWN = 2  # of a column in a label that is being made

# one call of a kernel: addresses and strides (in elements) of tensors, and the program's sizes
TASK = np.dtype(
    [
        (name, np.int64)
        for name in (
            "columns", "slots", "biases", "root", "batch",
            "pos", "pos_row", "pos_column", "neg", "neg_row", "neg_column",
            "given", "number", "out", "out2",
        )
    ]
)  # fmt: skip


@inner
def next_tile(like: Any, counters: int) -> int:
    """Take a tile: its first sample."""
    return atomic_add(counters, 1) * lanes_of(like)


@inner
def finish_tile(like: Any, counters: int, empty: int) -> int:
    """Count a tile as done, of which `empty` samples have no valid label, and take the next one."""
    atomic_add(counters + 16, empty)
    atomic_add(counters + 8, 1)
    return next_tile(like, counters)


def kernel(tile: Any, lanes: int, bits: int, source: int) -> Any:
    """The kernel that takes tiles until none is left: `tile` answers for `count` samples from `first` on."""

    def run(stream, owner, ends, blocks, soft, tasks, scratch, counters):  # type: ignore[no-untyped-def]
        like, program, task = zeros(lanes, bits, source), (stream, owner, ends, blocks, soft), tasks[0]
        former = flush_tiny(np.uint32(1))
        first = next_tile(like, counters)
        while first < task.batch:
            count = min(lanes, task.batch - first)
            empty = answer_tile(like, program, task, first, count, scratch)  # type: ignore[name-defined]  # noqa: F821
            first = finish_tile(like, counters, empty)
        flush_tiny(former)

    return always(stand_in(run, tile, answer_tile=tile), **UNLOCKED)


@inner
def row_bytes(like: Any) -> int:
    """The size of a row of lanes."""
    return lanes_of(like) * bytes_of(like)


@inner
def read_columns(like: Any, base: int, row: int, column: int, first: int, count: int, width: int, rows: int) -> None:
    """Copy samples `first` to `first + count` of a strided (batch, width) matrix to rows of lanes."""
    lanes = lanes_of(like)
    base += first * row * bytes_of(like)
    for k in range(width):  # a column at a time: the lines of all samples stay in the first cache
        for j in range(count):
            poke(like, rows, k * lanes + j, peek(like, base, j * row + k * column))
        for j in range(count, lanes):
            poke(like, rows, k * lanes + j, 0.0)


@inner
def write_columns(like: Any, base: int, first: int, count: int, width: int, rows: int) -> None:
    """Copy rows of lanes to samples `first` to `first + count` of a contiguous (batch, width) matrix."""
    lanes = lanes_of(like)
    base += first * width * bytes_of(like)
    for k in range(width):
        for j in range(count):
            poke(like, base, j * width + k, peek(like, rows, k * lanes + j))


@inner
def write_result(like: Any, value: Any, task: Any, first: int, count: int, row: int) -> int:
    """Write a tile's log weights to `out` by way of a free row; returns how many are −inf."""
    store(row, 0, value)
    write_columns(like, task.out, first, count, 1, row)
    empty = 0
    for j in range(count):
        empty += peek(like, row, j) == -np.inf
    return empty


@inner
def read_weights(like: Any, soft: Any, task: Any, first: int, count: int, pos: int, neg: int) -> None:
    """The log weights of a tile, with the constant ones of soft rules after the space's columns."""
    lanes, width = lanes_of(like), task.columns - len(soft)
    read_columns(like, task.pos, task.pos_row, task.pos_column, first, count, width, pos)
    read_columns(like, task.neg, task.neg_row, task.neg_column, first, count, width, neg)
    for r in range(len(soft)):
        store(pos, (width + r) * lanes, splat(like, soft[r, 0]))
        store(neg, (width + r) * lanes, splat(like, soft[r, 1]))


@inner
def store_pair(like: Any, table: int, slot: Any, m: Any, e: Any) -> None:
    lanes = lanes_of(like)
    store(table, slot * 2 * lanes, m)
    store(table, slot * 2 * lanes + lanes, e)


@inner
def weigh(like: Any, blocks: Any, columns: int, pos: int, neg: int, table: int) -> Any:
    """Write all literals' normalised weights and the constants 1 and 0 to the table; return the log of the rest."""
    constant = splat(like, 0.0)
    for b in range(len(blocks)):
        start, end = blocks[b, 0], blocks[b, 1]
        if blocks[b, 2] == 0:
            constant = constant + weigh_pair(like, start, pos, neg, table)
        else:
            constant = constant + weigh_block(like, start, end, pos, neg, table)
    store_pair(like, table, 2 * columns, splat(like, 1.0), splat(like, 0.0))
    store_pair(like, table, 2 * columns + 1, splat(like, 1.0), splat(like, -np.inf))
    return constant


@inner
def weigh_pair(like: Any, column: int, pos: int, neg: int, table: int) -> Any:
    """Weights w and w̄ divided by w + w̄; returns log(w + w̄)."""
    lanes = lanes_of(like)
    p, n = load(like, pos, column * lanes), load(like, neg, column * lanes)
    top, low = larger(p, n), where_larger(p, n, n, p)
    x = low - larger(top, splat(like, LOWEST))
    m, e = exp_parts(x)
    total = m * power_of_two(e) + 1.0
    share = 1.0 / total
    high_m, high_e = normalise(share, splat(like, 0.0))
    low_m, low_e = normalise(m * share, e)
    store_pair(like, table, 2 * column, where_larger(p, n, high_m, low_m), where_larger(p, n, high_e, low_e))
    store_pair(like, table, 2 * column + 1, where_larger(p, n, low_m, high_m), where_larger(p, n, low_e, high_e))
    return or_nan(top + log1p(total - 1.0), x)


@inner
def weigh_block(like: Any, start: int, end: int, pos: int, neg: int, table: int) -> Any:
    """Value k weighs w_k Π_{j≠k} w̄_j; all divided by their sum, whose log is returned."""
    lanes = lanes_of(like)
    after = splat(like, 0.0)
    for k in range(end - 1, start - 1, -1):  # rests in the slot of "column is false", which no rule can name
        store(table, (2 * k + 1) * 2 * lanes, after)
        after = after + load(like, neg, k * lanes)
    before, top, bad = splat(like, 0.0), splat(like, -np.inf), splat(like, 0.0)
    for k in range(start, end):
        u = load(like, pos, k * lanes) + (before + load(like, table, (2 * k + 1) * 2 * lanes))
        before = before + load(like, neg, k * lanes)
        top, bad = larger(u, top), or_nan(bad, u)
        store(table, 2 * k * 2 * lanes, u)
    total, least = splat(like, 0.0), larger(top, splat(like, LOWEST))
    for k in range(start, end):
        m, e = exp_parts(load(like, table, 2 * k * 2 * lanes) - least)
        total = total + m * power_of_two(e)
        store_pair(like, table, 2 * k, m, e)
    total = larger(total, splat(like, 1.0))
    for k in range(start, end):
        at = 2 * k * 2 * lanes
        m, e = normalise(load(like, table, at) / total, load(like, table, at + lanes))
        store_pair(like, table, 2 * k, m, e)
    m, e = normalise(total, splat(like, 0.0))
    return or_nan(top + log_parts(m, e), bad)


@inner
def product(like: Any, stream: Any, s: int, table: int) -> Any:
    """The product that begins at word s: (m, e, its last word, position after it). m is not normalised."""
    lanes = lanes_of(like)
    word = stream[s]
    at = np.int64(word & _SLOT) * (2 * lanes)
    m, e = load(like, table, at), load(like, table, at + lanes)
    s += 1
    while word & _LAST == 0:
        word = stream[s]
        at = np.int64(word & _SLOT) * (2 * lanes)
        m, e = m * load(like, table, at), e + load(like, table, at + lanes)
        s += 1
    return m, e, word, s


@inner
def sum_forward(like: Any, stream: Any, table: int, log: int, save: bool) -> None:
    """Run the stream: every node's value to its slot, every addition's bias to the log."""
    lanes = lanes_of(like)
    s = logged = 0
    while s < len(stream):
        m, e, word, s = product(like, stream, s, table)
        while word & _TAIL == 0:
            pm, pe, word, s = product(like, stream, s, table)
            # zero less zero is NaN, which `smaller` replaces by 0: the mantissas stay, and so does the exponent −inf
            a, b = scaled(m, smaller(e - pe, splat(like, 0.0))), scaled(pm, smaller(pe - e, splat(like, 0.0)))
            m, e = a + b, larger(e, pe)
            if save:
                store(log, logged, a / m)
                logged += lanes
        word = stream[s]
        if word & _LAST != 0:
            m, e = normalise(m, e)
        store_pair(like, table, np.int64(word & _SLOT), m, e)
        s += 1


@inner
def flow_backward(like: Any, stream: Any, task: Any, flow: int, log: int) -> None:
    """Run the stream backward: share the flow 1 of the root among literals by the logged biases."""
    lanes = lanes_of(like)
    for slot in range(2 * task.columns + 2):
        store(flow, slot * lanes, splat(like, 0.0))
    store(flow, task.root * lanes, splat(like, 1.0))
    s, logged = len(stream) - 1, task.biases * lanes
    while s >= 0:
        f = load(like, flow, np.int64(stream[s] & _SLOT) * lanes)
        s -= 1
        head = False
        while not head:
            word = stream[s]
            head = word & _HEAD != 0
            part = f
            if not head:
                logged -= lanes
                f = f * load(like, log, logged)
                part = part - f
            while True:
                at = np.int64(word & _SLOT) * lanes
                store(flow, at, keep_if(~word & _TOUCH, load(like, flow, at)) + part)
                s -= 1
                if word & _FIRST != 0:
                    break
                word = stream[s]


@inner
def marginals(like: Any, blocks: Any, result: Any, table: int, flow: int, out: int) -> None:
    """P(column is true | V) from the flows of literals; free variables keep their own weight. 0 where V is empty."""
    lanes = lanes_of(like)
    none = splat(like, -np.inf)
    for b in range(len(blocks)):
        rest = splat(like, 1.0)
        for k in range(blocks[b, 0], blocks[b, 1]):
            rest = rest - load(like, flow, 2 * k * lanes) - load(like, flow, (2 * k + 1) * lanes)
        for k in range(blocks[b, 0], blocks[b, 1]):
            mu = load(like, flow, 2 * k * lanes) + rest * share_of(like, table, 2 * k)
            mu = smaller(larger(mu, splat(like, 0.0)), splat(like, 1.0))  # rounding may take it a little beyond
            store(out, k * lanes, or_nan(where_larger(result, none, mu, splat(like, 0.0)), result))


@inner
def descend(stream: Any, owner: Any, s: int, base: int, stack: Any, depth: int, met: Any, count: int) -> Any:
    """Go down the product that ends at word s: its nodes go on the stack, the slots of its literals to `met`.

    Nodes on the stack mention different variables, so there are never more of them than columns.
    """
    begun = False
    while not begun:
        begun = stream[s] & _FIRST != 0
        slot = np.int64(stream[s] & _SLOT)
        if slot >= base:
            stack[depth] = owner[s]
            depth += 1
        elif slot < base - 2:
            met[count] = slot
            count += 1
        s -= 1
    return depth, count


@inner
def is_free(blocks: Any, b: int, label: Any) -> bool:
    """Whether no column of a block is known yet."""
    known = False
    for k in range(blocks[b, 0], blocks[b, 1]):
        known |= label[k] != UNKNOWN
    return not known


@inner
def share_of(like: Any, table: int, slot: int) -> Any:
    """The value m·2^e of a slot as a plain float: a literal's normalised weight."""
    at = slot * 2 * lanes_of(like)
    return load(like, table, at) * power_of_two(load(like, table, at + lanes_of(like)))


@inner
def evaluate(
    like: Any, stream: Any, blocks: Any, soft: Any, task: Any, first: int, count: int, scratch: int, save: bool
) -> Any:
    """Steps 1 to 3: returns the tile's log WMC and the address after the table."""
    lanes, row = lanes_of(like), row_bytes(like)
    pos, neg, table = scratch, scratch + task.columns * row, scratch + 2 * task.columns * row
    after = table + 2 * task.slots * row
    read_weights(like, soft, task, first, count, pos, neg)
    constant = weigh(like, blocks, task.columns, pos, neg, table)
    sum_forward(like, stream, table, after, save)
    root = task.root * 2 * lanes
    return log_parts(load(like, table, root), load(like, table, root + lanes)) + constant, after


@inner
def log_wmc(like: Any, program: Any, task: Any, first: int, count: int, scratch: int) -> int:
    """out: log WMC (batch,)."""
    stream, _, _, blocks, soft = program
    value, _ = evaluate(like, stream, blocks, soft, task, first, count, scratch, False)
    return write_result(like, value, task, first, count, scratch)


@inner
def gradient(like: Any, program: Any, task: Any, first: int, count: int, scratch: int) -> int:
    """out: log WMC (batch,). out2: its gradient, the marginals (batch, width)."""
    stream, _, _, blocks, soft = program
    row = row_bytes(like)
    value, log = evaluate(like, stream, blocks, soft, task, first, count, scratch, True)
    empty = write_result(like, value, task, first, count, scratch)
    table, flow = scratch + 2 * task.columns * row, log + task.biases * row
    flow_backward(like, stream, task, flow, log)
    marginals(like, blocks, value, table, flow, scratch)
    write_columns(like, task.out2, first, count, task.columns - len(soft), scratch)
    return empty
