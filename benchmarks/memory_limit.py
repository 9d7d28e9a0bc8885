"""The least time a program can take: the same loads and stores on the same tables, with no arithmetic to speak of.

Forward, every factor reads the two rows of its value, every node writes two, every choice is written to the log.
Backward, every factor reads and writes one row, every node reads one, every choice is read from the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dssl.circuits.evaluate.program import Program
from dssl.circuits.evaluate.vectors import lanes_of, load, store, zeros
from dssl.circuits.evaluate.words import FIRST, HEAD, LAST, SLOT, TAIL
from dssl.circuits.jit import inner, unlocked

_SLOT, _FIRST, _LAST, _HEAD, _TAIL = (np.uint32(x) for x in (SLOT, FIRST, LAST, HEAD, TAIL))


@inner
def _forward(like: Any, stream: Any, table: int, log: int, save: bool) -> None:
    lanes = lanes_of(like)
    s = logged = 0
    while s < len(stream):
        m, e = like, like
        while True:
            word = stream[s]
            at = np.int64(word & _SLOT) * 2 * lanes
            m, e = m + load(like, table, at), e + load(like, table, at + lanes)
            s += 1
            if word & _LAST != 0:
                if save and word & _HEAD == 0:
                    store(log, logged, m)
                    logged += lanes
                if word & _TAIL != 0:
                    break
        at = np.int64(stream[s] & _SLOT) * 2 * lanes
        store(table, at, m)
        store(table, at + lanes, e)
        s += 1


@inner
def _backward(like: Any, stream: Any, flow: int, log: int, choices: int) -> None:
    lanes = lanes_of(like)
    s, logged = len(stream) - 1, choices * lanes
    while s >= 0:
        f = load(like, flow, np.int64(stream[s] & _SLOT) * lanes)
        s -= 1
        head = False
        while not head:
            word = stream[s]
            head = word & _HEAD != 0
            if not head:
                logged -= lanes
                f = f + load(like, log, logged)
            while True:
                at = np.int64(word & _SLOT) * lanes
                store(flow, at, load(like, flow, at) + f)
                s -= 1
                if word & _FIRST != 0:
                    break
                word = stream[s]


def _compiled(lanes: int) -> Any:
    @unlocked
    def run(stream: Any, table: int, flow: int, log: int, choices: int, tiles: int, backward: bool) -> None:
        like = zeros(lanes, 32, 0)
        for _ in range(tiles):
            _forward(like, stream, table, log, backward)
            if backward:
                _backward(like, stream, flow, log, choices)

    return run


def moving(program: Program, batch: int, backward: bool) -> Callable[[], None]:
    """A function that moves what `batch` samples must move, on one thread, in the best width that the kernels have."""
    calls = []
    for lanes in (16, 32, 64):
        run, tiles = _compiled(lanes), max(1, batch // lanes)
        arrays = [np.zeros((n, lanes), np.float32) for n in (2 * program.slots, program.slots, program.biases + 1)]

        def call(run: Any = run, tiles: int = tiles, arrays: list[np.ndarray] = arrays) -> None:
            run(program.stream, *(x.ctypes.data for x in arrays), program.biases, tiles, backward)

        times = []
        for _ in range(4):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        calls.append((min(times[1:]), lanes, call))
    return min(calls)[2]
