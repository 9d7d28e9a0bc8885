"""Kernels of means over p(y | V): entropy, and products with the covariance matrix of the labels.

A value is a triple (m, e, x): the weight m·2^e as in `wmc`, and the mean x of some additive function of the
mentioned variables, given that node. Products add x; a sum with bias c has the mean c·x_a + (1 − c)·x_b.

* Entropy (MATH §4, identity 6, node by node so that nothing large cancels): x is the entropy of the mentioned variables
  less what they would have if free, and a sum also has that of its own coin.
* Covariance: x is the derivative of a node's log weight along a direction v of log w. Running the derivative of the
  flows backward gives the derivative of the marginals, Cov(y)·v: the Hessian of log WMC times v.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dssl.circuits.evaluate.vectors import (
    keep_if,
    lanes_of,
    larger,
    load,
    log_parts,
    normalise,
    or_nan,
    scaled,
    smaller,
    splat,
    store,
    where_larger,
)
from dssl.circuits.evaluate.wmc import (
    read_columns,
    read_weights,
    row_bytes,
    share_of,
    weigh,
    write_columns,
    write_result,
)
from dssl.circuits.evaluate.words import FIRST, HEAD, LAST, SLOT, TAIL, TOUCH
from dssl.circuits.jit import inner

_SLOT, _TOUCH, _FIRST, _LAST, _HEAD, _TAIL = (np.uint32(x) for x in (SLOT, TOUCH, FIRST, LAST, HEAD, TAIL))


@inner
def _self_information(c: Any) -> Any:
    """−c·log c, 0 at 0."""
    m, e = normalise(larger(c, splat(c, 1e-37)), splat(c, 0.0))
    return c * log_parts(m, e) * -1.0


@inner
def _product(like: Any, stream: Any, s: int, table: int, mean: int) -> Any:
    """The product that begins at word s: (m, e, x, its last word, position after it)."""
    lanes = lanes_of(like)
    m, e, x = splat(like, 1.0), splat(like, 0.0), splat(like, 0.0)
    while True:
        word = stream[s]
        at = np.int64(word & _SLOT) * lanes
        m, e = m * load(like, table, 2 * at), e + load(like, table, 2 * at + lanes)
        x = x + load(like, mean, at)
        s += 1
        if word & _LAST != 0:
            return m, e, x, word, s


@inner
def _mean_forward(like: Any, stream: Any, table: int, mean: int, log: int, entropy: bool) -> None:
    """Run the stream on triples. With `entropy` a sum has that of its coin; else biases and slopes are logged."""
    lanes = lanes_of(like)
    s = logged = 0
    while s < len(stream):
        m, e, x, word, s = _product(like, stream, s, table, mean)
        while word & _TAIL == 0:
            pm, pe, px, word, s = _product(like, stream, s, table, mean)
            a, b = scaled(m, smaller(e - pe, splat(like, 0.0))), scaled(pm, smaller(pe - e, splat(like, 0.0)))
            m, e = a + b, larger(e, pe)
            c, d = a / m, b / m
            if entropy:
                x = c * x + d * px + (_self_information(c) + _self_information(d))
            else:
                store(log, logged, c)
                store(log, logged + lanes, c * d * (x - px))  # the bias's derivative
                logged += 2 * lanes
                x = c * x + d * px
        word = stream[s]
        if word & _LAST != 0:
            m, e = normalise(m, e)
        at = np.int64(word & _SLOT) * lanes
        store(table, 2 * at, m)
        store(table, 2 * at + lanes, e)
        store(mean, at, x)
        s += 1


@inner
def _flow_derivative(like: Any, stream: Any, task: Any, flow: int, log: int) -> None:
    """Run the stream backward on pairs: a flow, as in `wmc.flow_backward`, and its derivative."""
    lanes = lanes_of(like)
    for slot in range(2 * (2 * task.columns + 2)):
        store(flow, slot * lanes, splat(like, 0.0))
    store(flow, task.root * 2 * lanes, splat(like, 1.0))
    store(flow, task.root * 2 * lanes + lanes, splat(like, 0.0))
    s, logged = len(stream) - 1, task.biases * 2 * lanes
    while s >= 0:
        at = np.int64(stream[s] & _SLOT) * 2 * lanes
        f, df = load(like, flow, at), load(like, flow, at + lanes)
        s -= 1
        head = False
        while not head:
            word = stream[s]
            head = word & _HEAD != 0
            part, slope = f, df
            if not head:
                logged -= 2 * lanes
                c, dc = load(like, log, logged), load(like, log, logged + lanes)
                df = df * c + f * dc
                f = f * c
                part, slope = part - f, slope - df
            while True:
                at = np.int64(word & _SLOT) * 2 * lanes
                store(flow, at, keep_if(~word & _TOUCH, load(like, flow, at)) + part)
                store(flow, at + lanes, keep_if(~word & _TOUCH, load(like, flow, at + lanes)) + slope)
                s -= 1
                if word & _FIRST != 0:
                    break
                word = stream[s]


@inner
def _free_entropy(like: Any, blocks: Any, table: int, mean: int) -> Any:
    """Give every literal the mean −h, h the entropy of its variable if free; returns the sum of all h."""
    lanes = lanes_of(like)
    total = splat(like, 0.0)
    for b in range(len(blocks)):
        h = splat(like, 0.0)
        for k in range(blocks[b, 0], blocks[b, 1]):
            h = h + _self_information(share_of(like, table, 2 * k))
            if blocks[b, 2] == 0:
                h = h + _self_information(share_of(like, table, 2 * k + 1))
        for k in range(blocks[b, 0], blocks[b, 1]):
            store(mean, 2 * k * lanes, h * -1.0)
            store(mean, (2 * k + 1) * lanes, h * -1.0)
        total = total + h
    return total


@inner
def entropy(like: Any, program: Any, task: Any, first: int, count: int, scratch: int) -> int:
    """out: the entropy of p(y | V) (batch,), 0 where V is empty."""
    stream, _, _, blocks, soft = program
    lanes, row = lanes_of(like), row_bytes(like)
    pos, neg, table = scratch, scratch + task.columns * row, scratch + 2 * task.columns * row
    mean = table + 2 * task.slots * row
    read_weights(like, soft, task, first, count, pos, neg)
    constant = weigh(like, blocks, task.columns, pos, neg, table)
    free = _free_entropy(like, blocks, table, mean)
    for slot in range(2 * task.columns, 2 * task.columns + 2):
        store(mean, slot * lanes, splat(like, 0.0))
    _mean_forward(like, stream, table, mean, 0, True)
    possible = load(like, table, task.root * 2 * lanes + lanes) + constant
    value = larger(free + load(like, mean, task.root * lanes), splat(like, 0.0))
    value = where_larger(possible, splat(like, -np.inf), value, splat(like, 0.0))
    empty = write_result(like, possible, task, first, count, scratch)
    store(scratch, 0, or_nan(value, constant))
    write_columns(like, task.out, first, count, 1, scratch)
    return empty


@inner
def _literal_slopes(like: Any, blocks: Any, direction: int, table: int, mean: int) -> None:
    """Derivatives of the literals' normalised log weights along the direction: v less its mean over the block."""
    lanes = lanes_of(like)
    for b in range(len(blocks)):
        start, end = blocks[b, 0], blocks[b, 1]
        if blocks[b, 2] == 0:  # w̄ too small beside w must not be lost in 1 − w
            v = load(like, direction, start * lanes)
            store(mean, 2 * start * lanes, v * share_of(like, table, 2 * start + 1))
            store(mean, (2 * start + 1) * lanes, v * share_of(like, table, 2 * start) * -1.0)
            continue
        average = splat(like, 0.0)
        for k in range(start, end):
            average = average + share_of(like, table, 2 * k) * load(like, direction, k * lanes)
        for k in range(start, end):
            store(mean, 2 * k * lanes, load(like, direction, k * lanes) - average)


@inner
def _marginal_slopes(like: Any, blocks: Any, table: int, mean: int, flow: int, out: int) -> None:
    """The derivative of `wmc.marginals`: of a literal's flow, and of a free variable's own weight."""
    lanes = lanes_of(like)
    for b in range(len(blocks)):
        rest, slope = splat(like, 1.0), splat(like, 0.0)
        for k in range(2 * blocks[b, 0], 2 * blocks[b, 1]):
            rest = rest - load(like, flow, k * 2 * lanes)
            slope = slope - load(like, flow, k * 2 * lanes + lanes)
        for k in range(blocks[b, 0], blocks[b, 1]):
            own = share_of(like, table, 2 * k)
            change = slope * own + rest * own * load(like, mean, 2 * k * lanes)
            store(out, k * lanes, load(like, flow, 2 * k * 2 * lanes + lanes) + change)


@inner
def covariance(like: Any, program: Any, task: Any, first: int, count: int, scratch: int) -> int:
    """given: v (batch, columns). out: Cov(y)·v (batch, width), 0 where V is empty."""
    stream, _, _, blocks, soft = program
    lanes, row, width = lanes_of(like), row_bytes(like), task.columns - len(soft)
    pos, neg, direction = scratch, scratch + task.columns * row, scratch + 2 * task.columns * row
    table = direction + task.columns * row
    mean = table + 2 * task.slots * row
    flow = mean + task.slots * row
    log = flow + 2 * task.slots * row
    read_weights(like, soft, task, first, count, pos, neg)
    read_columns(like, task.given, task.columns, 1, first, count, task.columns, direction)
    constant = weigh(like, blocks, task.columns, pos, neg, table)
    _literal_slopes(like, blocks, direction, table, mean)
    for slot in range(2 * task.columns, 2 * task.columns + 2):
        store(mean, slot * lanes, splat(like, 0.0))
    _mean_forward(like, stream, table, mean, log, False)
    possible = load(like, table, task.root * 2 * lanes + lanes) + constant
    _flow_derivative(like, stream, task, flow, log)
    _marginal_slopes(like, blocks, table, mean, flow, pos)
    for k in range(width):
        slope = load(like, pos, k * lanes)
        store(pos, k * lanes, where_larger(possible, splat(like, -np.inf), slope, splat(like, 0.0)))
    write_columns(like, task.out, first, count, width, pos)
    return 0
