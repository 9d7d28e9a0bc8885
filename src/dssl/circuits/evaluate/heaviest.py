"""The kernel of the k heaviest valid labels; `best` has a quicker one for k = 1.

Values are those of `best`, and every node's value is kept. From there on each sample goes its own way. A *derivation*
of a node is one of its products with a derivation of each factor. `_advance` finds a node's derivations one by one, the
heaviest first, and asks its factors for theirs only as far as needed (Huang & Chiang 2005, algorithm 3). The circuit is
deterministic, so derivations of the root have no label in common. Those with free variables stand for many labels,
which `_heaviest` enumerates in the order of what they lose against the heaviest. Time is linear in k, apart from the
logarithm of a heap.

Functions are few and share tuples, not one record of everything: each array that is handed on counts as a reference.
With one record in every call, and a function for each step, the 20 heaviest labels took twice the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dssl.circuits.evaluate.best import best_forward, weigh_best
from dssl.circuits.evaluate.vectors import (
    lanes_of,
    load,
    peek,
    poke,
    poke_byte,
    store,
)
from dssl.circuits.evaluate.wmc import UNKNOWN, is_free, read_weights, row_bytes
from dssl.circuits.evaluate.words import END, FIRST, HEAD, SLOT
from dssl.circuits.jit import allocating, inner

_SLOT, _FIRST, _HEAD = (np.uint32(x) for x in (SLOT, FIRST, HEAD))


# ---- records of derivations and labels, in heaps ----

# A record of a derivation: the last word of its PRODUCT, and which of the factors' derivations it takes where that is
# not the heaviest: VALUE at word PLACE, the others (at later words) as in record REST. A base record has VALUE −1.
# A record of a label: the derivation that is its PRODUCT, and the free variables that do not take their heaviest value:
# the one at PLACE, counted by what it has to lose, takes its VALUE-th heaviest, others (at earlier places) as in REST.
# NEXT is the node's next derivation; DOWN and SIDE are the heap's: the first record below, and the next beside.
_PRODUCT, _REST, _PLACE, _VALUE, _NEXT, _DOWN, _SIDE, _FIELDS = range(8)
_NOT_YET, _NONE = -1, -2


@allocating
def _record(weight: Any, field: Any, w: float, product: int, rest: int, place: int, value: int) -> int:
    """A new record; returns its number."""
    weight.append(w)
    field.append(np.int64(product))
    field.append(np.int64(rest))
    field.append(np.int64(place))
    field.append(np.int64(value))
    field.append(np.int64(_NOT_YET))
    field.append(np.int64(-1))
    field.append(np.int64(-1))
    return len(weight) - 1


@allocating
def _meld(weight: Any, field: Any, a: Any, b: Any) -> Any:
    """The top of two heaps (−1 if empty) made one; of equals, the first."""
    if a < 0:
        return b
    if b < 0:
        return a
    if weight[b] > weight[a]:
        a, b = b, a
    field[b * _FIELDS + _SIDE] = field[a * _FIELDS + _DOWN]
    field[a * _FIELDS + _DOWN] = b
    return a


@allocating
def _without(weight: Any, field: Any, top: Any) -> Any:
    """The heap less its top: what lies below is melded in pairs, and the pairs from the last to the first."""
    left, pairs = field[top * _FIELDS + _DOWN], np.int64(-1)
    while left >= 0:
        a = left
        b = field[a * _FIELDS + _SIDE]
        left = field[b * _FIELDS + _SIDE] if b >= 0 else np.int64(-1)
        a = _meld(weight, field, a, b)
        field[a * _FIELDS + _SIDE] = pairs
        pairs = a
    heap = np.int64(-1)
    while pairs >= 0:
        a, pairs = pairs, field[pairs * _FIELDS + _SIDE]
        heap = _meld(weight, field, a, heap)
    return heap


# ---- derivations of nodes, the heaviest first ----


@allocating
def _begin(sample: Any, n: int, program: Any, found: Any) -> Any:
    """The heaviest derivation of node n, which the sample has not met before: a record for each product."""
    like, lane, table, values = sample
    stream, owner, ends, base = program
    weight, field, first, last, heap, met = found
    lanes = lanes_of(like)
    top, head, s = np.int64(-1), False, ends[n, END] - 1
    while not head:
        end, total, begun = s, 0.0, False
        head = stream[s] & _HEAD != 0
        while not begun:
            begun = stream[s] & _FIRST != 0
            slot = np.int64(stream[s] & _SLOT)
            total += (
                peek(like, table, slot * lanes + lane) if slot < base else peek(like, values, owner[s] * lanes + lane)
            )
            s -= 1
        if total > -np.inf:
            top = _meld(weight, field, _record(weight, field, total, end, -1, end + 1, -1), top)
    first[n] = last[n] = top
    heap[n] = _without(weight, field, top)
    met.append(n)
    return top


@allocating
def _advance(sample: Any, root: int, program: Any, found: Any, stack: Any) -> None:
    """Find the derivation that follows the last one known of a node, or that there is none."""
    stream, owner, _, base = program
    weight, field, first, last, heap, _ = found
    stack.clear()
    stack.append(np.int64(root))
    while len(stack) > 0:
        n = stack[-1]
        item = last[n]
        at = item * _FIELDS
        place, taken = field[at + _PLACE], field[at + _VALUE]
        begin = place if taken >= 0 else place - 1
        ready, s, done = True, begin + 1, False
        while ready and not done:  # the next derivations of factors must be known first
            s -= 1
            done = stream[s] & _FIRST != 0
            if np.int64(stream[s] & _SLOT) < base:
                continue
            now = taken if s == place else first[owner[s]]
            if now < 0:
                now = _begin(sample, owner[s], program, found)
            ready = field[now * _FIELDS + _NEXT] != _NOT_YET
        if not ready:
            stack.append(np.int64(owner[s]))
            continue
        s, done = begin + 1, False
        while not done:  # what follows the last derivation: the next one of a factor, from `place` on
            s -= 1
            done = stream[s] & _FIRST != 0
            if np.int64(stream[s] & _SLOT) < base:
                continue
            now = taken if s == place else first[owner[s]]
            then = field[now * _FIELDS + _NEXT]
            if then < 0:
                continue
            rest = field[at + _REST] if s == place else item if taken >= 0 else np.int64(-1)
            w = weight[item] - weight[now] + weight[then]
            heap[n] = _meld(weight, field, heap[n], _record(weight, field, w, field[at + _PRODUCT], rest, s, then))
        stack.pop()
        top = heap[n]
        field[at + _NEXT] = top if top >= 0 else _NONE
        if top >= 0:
            heap[n], last[n] = _without(weight, field, top), top


@allocating
def _mark(sample: Any, item: int, program: Any, found: Any, stack: Any, label: Any) -> None:
    """Mark the literals of a derivation in `label`."""
    stream, owner, _, base = program
    _, field, first, _, _, _ = found
    stack.clear()
    stack.append(np.int64(item))
    while len(stack) > 0:
        chain = stack.pop()
        end = field[chain * _FIELDS + _PRODUCT]
        s = end
        while stream[s] & _FIRST == 0:
            s -= 1
        while s <= end:  # records name places from the first word to the last
            slot = np.int64(stream[s] & _SLOT)
            if slot >= base and chain >= 0 and field[chain * _FIELDS + _PLACE] == s:
                stack.append(field[chain * _FIELDS + _VALUE])
                chain = field[chain * _FIELDS + _REST]
            elif slot >= base:
                now = first[owner[s]]
                stack.append(now if now >= 0 else _begin(sample, owner[s], program, found))
            elif slot < base - 2:
                label[slot >> 1] = 1 - (slot & 1)
            s += 1


# ---- labels, the heaviest first ----


@allocating
def _rank_values(like: Any, blocks: Any, hard: int, lane: int, table: int, ranked: Any, losses: Any) -> Any:
    """Write each variable's values as slots by falling weight to `ranked`, and what they lose to `losses`.

    Both begin at twice the variable's first column. Returns the variables by what their second value loses.
    """
    lanes = lanes_of(like)
    second = np.full(len(blocks), np.inf)
    for b in range(hard):
        start, end = blocks[b, 0], blocks[b, 1]
        step = 1 if blocks[b, 2] == 0 else 2
        weights = np.empty(2 * (end - start) // step)
        for i in range(len(weights)):
            weights[i] = -peek(like, table, (2 * start + i * step) * lanes + lane)
        order = np.argsort(weights, kind="mergesort")
        for i in range(len(order)):
            ranked[2 * start + i] = 2 * start + order[i] * step
            losses[2 * start + i] = weights[order[i]] - weights[order[0]]
        if len(order) > 1:
            second[b] = losses[2 * start + 1]
    return np.argsort(second, kind="mergesort")


@inner
def _fill(like: Any, blocks: Any, lane: int, table: int, label: Any) -> None:
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


@allocating
def _next_labels(
    weight: Any, field: Any, label_: int, heap: int, blocks: Any, order: Any, losses: Any, label: Any
) -> int:
    """Add the labels that follow one of the same derivation: each label follows exactly one, which is no lighter."""
    at = label_ * _FIELDS
    item, rest, place, rank = field[at + _PRODUCT], field[at + _REST], field[at + _PLACE], field[at + _VALUE]
    w, then = weight[label_], place + 1
    while then < len(order) and not is_free(blocks, order[then], label):
        then += 1
    lost = np.inf
    if then < len(order) and blocks[order[then], 1] - blocks[order[then], 0] + (blocks[order[then], 2] == 0) > 1:
        lost = losses[2 * blocks[order[then], 0] + 1]
    if lost < np.inf:  # one more variable takes its second value
        fresh = _record(weight, field, w - lost, item, label_ if place >= 0 else np.int64(-1), then, 1)
        heap = _meld(weight, field, heap, fresh)
    if place >= 0:
        b = order[place]
        own, values = 2 * blocks[b, 0], 2 if blocks[b, 2] == 0 else blocks[b, 1] - blocks[b, 0]
        if rank + 1 < values and losses[own + rank + 1] < np.inf:  # the last variable takes its next value
            fresh = _record(weight, field, w + losses[own + rank] - losses[own + rank + 1], item, rest, place, rank + 1)
            heap = _meld(weight, field, heap, fresh)
        if rank == 1 and lost < np.inf:  # another variable in its stead
            fresh = _record(weight, field, w + losses[own + 1] - lost, item, rest, then, 1)
            heap = _meld(weight, field, heap, fresh)
    return heap


@allocating
def _mark_varied(field: Any, label_: int, blocks: Any, order: Any, ranked: Any, label: Any) -> None:
    """Mark the values of free variables that do not take their heaviest one in a label."""
    while label_ >= 0 and field[label_ * _FIELDS + _PLACE] >= 0:
        b, rank = order[field[label_ * _FIELDS + _PLACE]], field[label_ * _FIELDS + _VALUE]
        slot = ranked[2 * blocks[b, 0] + rank]
        label[slot >> 1] = 1 - (slot & 1)
        label_ = field[label_ * _FIELDS + _REST]


@allocating
def _heaviest(sample: Any, program: Any, blocks: Any, found: Any, scratch: Any, hard: int, most: int, out: Any) -> int:
    """Write up to `most` labels and their log weights; returns how many there are.

    `hard` variables may vary. `out` has the addresses of labels and weights, and a constant that is added to these.
    """
    like, lane, table, _ = sample
    weight, field, first, _, _, met = found
    stack, label, ranked, losses = scratch
    labels, weights, constant = out
    root = len(program[2]) - 1
    order = _rank_values(like, blocks, hard, lane, table, ranked, losses)[:hard]
    item = _begin(sample, root, program, found)
    heap, count = _record(weight, field, weight[item], item, -1, -1, 0), 0
    while heap >= 0 and count < most:
        top = heap
        heap = _without(weight, field, top)
        label[:] = UNKNOWN
        item = field[top * _FIELDS + _PRODUCT]
        _mark(sample, item, program, found, stack, label)
        _mark_varied(field, top, blocks, order, ranked, label)
        if count + 1 < most:
            heap = _next_labels(weight, field, top, heap, blocks, order, losses, label)
            if field[top * _FIELDS + _PLACE] < 0:  # the derivation's heaviest label: the next derivation may follow
                if field[item * _FIELDS + _NEXT] == _NOT_YET:
                    _advance(sample, root, program, found, stack)
                then = field[item * _FIELDS + _NEXT]
                if then >= 0:
                    heap = _meld(weight, field, heap, _record(weight, field, weight[then], then, -1, -1, 0))
        _fill(like, blocks, lane, table, label)
        for k in range(len(label)):
            poke_byte(labels, count * len(label) + k, label[k])
        poke(like, weights, count, weight[top] + constant)
        count += 1
    for n in met:
        first[n] = -1
    met.clear()
    weight.clear()
    field.clear()
    return count


@allocating
def k_best(like: Any, program: Any, task: Any, first: int, count: int, scratch: int) -> int:
    """number: k. out: the k largest log weights of valid labels (batch, k), −inf where there are fewer.

    out2: those labels (batch, k, columns), false where there is none.
    """
    stream, owner, ends, blocks, soft = program
    lanes, row, most, nodes = lanes_of(like), row_bytes(like), task.number, len(ends)
    pos, neg, table = scratch, scratch + task.columns * row, scratch + 2 * task.columns * row
    values = table + task.slots * row
    read_weights(like, soft, task, first, count, pos, neg)
    constant = weigh_best(like, blocks, task.columns, pos, neg, table)
    best_forward(like, stream, table, 0, values)
    store(pos, 0, constant)
    store(pos, lanes, load(like, table, task.root * lanes) + constant)
    label, stack = np.empty(task.columns, np.int64), [np.int64(0)]
    made = stack, label, np.empty(2 * task.columns, np.int64), np.empty(2 * task.columns)
    known = np.full(nodes, -1, np.int64), np.full(nodes, -1, np.int64), np.full(nodes, -1, np.int64)
    weight, field, met = [0.0], [np.int64(0)], [np.int64(0)]
    weight.clear()
    field.clear()
    met.clear()
    found = weight, field, known[0], known[1], known[2], met
    walked = stream, owner, ends, 2 * task.columns + 2
    empty = 0
    for j in range(count):
        at, size = (first + j) * most, 0
        labels, weights = task.out2 + at * task.columns, task.out + at * row // lanes
        if peek(like, pos, lanes + j) > -np.inf:
            out = labels, weights, peek(like, pos, j)
            size = _heaviest((like, j, table, values), walked, blocks, found, made, len(blocks) - len(soft), most, out)
        for i in range(size, most):
            poke(like, weights, i, -np.inf)
            for k in range(task.columns):
                poke_byte(labels, i * task.columns + k, 0)
        empty += size == 0
    return empty
