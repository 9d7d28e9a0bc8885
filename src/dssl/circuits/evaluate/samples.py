"""The kernel of exact samples.

Values and biases are those of log WMC. A walk from the root tosses a coin with the bias of each sum and meets only
the nodes of one label, so a draw costs far less than an evaluation. A variable that the chosen branches do not mention
is free, and drawn from its own weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dssl.circuits.evaluate.vectors import lanes_of, peek, poke_byte
from dssl.circuits.evaluate.wmc import UNKNOWN, descend, evaluate, is_free, row_bytes, write_result
from dssl.circuits.evaluate.words import END, FIRST, HEAD, LOGGED
from dssl.circuits.jit import allocating, inner

_FIRST, _HEAD = np.uint32(FIRST), np.uint32(HEAD)


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
def _toss_product(like: Any, stream: Any, end: int, logged: int, log: int, state: Any) -> Any:
    """The last word of one of a node's products, drawn by the biases logged before `logged`; the random state.

    Products stand before the word `end`. A coin decides between the last one and those before it, and so on.
    """
    s = end - 1
    while stream[s] & _HEAD == 0:
        state, toss = _next_random(state)
        if toss >= peek(like, log, logged):
            break
        logged -= lanes_of(like)
        while stream[s] & _FIRST == 0:
            s -= 1
        s -= 1
    return s, state


@inner
def _walk(
    like: Any, stream: Any, owner: Any, ends: Any, base: int, lane: int, log: int, state: Any, stack: Any, met: Any
) -> Any:
    """Write the slots of the literals of a random branch below the root to `met`; the random state, and how many."""
    lanes, count = lanes_of(like), 0
    stack[0], depth = len(ends) - 1, 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        logged = (ends[node, LOGGED] - 1) * lanes + lane
        s, state = _toss_product(like, stream, ends[node, END], logged, log, state)
        depth, count = descend(stream, owner, s, base, stack, depth, met, count)
    return state, count


@inner
def _draw_free(like: Any, blocks: Any, lane: int, table: int, state: Any, label: Any) -> Any:
    """Draw the variables that the walk did not meet from their own weights; returns the random state."""
    lanes = lanes_of(like)
    for b in range(len(blocks)):
        start, end = blocks[b, 0], blocks[b, 1]
        state, toss = _next_random(state)
        if is_free(blocks, b, label):
            drawn: Any = np.int64(-1)  # shares may sum to less than 1 by rounding: then it is the last that has one
            for k in range(start, end):
                own = peek(like, table, 4 * k * lanes + lane) * np.exp2(peek(like, table, (4 * k + 1) * lanes + lane))
                if own > 0 and toss > 0:
                    drawn = k if blocks[b, 2] == 1 or toss < own else drawn
                toss -= own
            if drawn >= 0:
                label[drawn] = 1
        for k in range(start, end):
            if label[k] == UNKNOWN:
                label[k] = 0
    return state


@allocating
def sample(like: Any, program: Any, task: Any, first: int, count: int, scratch: int) -> int:
    """given: seed. number: draws n. out: log WMC (batch,). out2: labels (n, batch, columns), unset if V is empty."""
    stream, owner, ends, blocks, soft = program
    row, seed, draws = row_bytes(like), np.uint64(task.given), task.number
    value, log = evaluate(like, stream, blocks, soft, task, first, count, scratch, True)
    table = scratch + 2 * task.columns * row
    empty = write_result(like, value, task, first, count, scratch)
    stack, met = np.empty(task.columns + 2, np.int64), np.empty(task.columns, np.int64)
    label = np.empty(task.columns, np.int64)
    for j in range(count):
        if not peek(like, scratch, j) > -np.inf:
            continue
        for d in range(draws):
            at = d * task.batch + first + j
            # a stream of its own for every draw: the same whatever the tiles and threads
            state, _ = _next_random(seed + np.uint64(at) * np.uint64(0xD1342543DE82EF95))
            state = state * np.uint64(0xDA942042E4DD58B5)
            label[:] = UNKNOWN
            state, found = _walk(like, stream, owner, ends, 2 * task.columns + 2, j, log, state, stack, met)
            for i in range(found):
                label[met[i] >> 1] = 1 - (met[i] & 1)
            _draw_free(like, blocks, j, table, state, label)
            for k in range(task.columns):
                poke_byte(task.out2, at * task.columns + k, label[k])
    return empty
