"""A team of threads that share the tiles of one call.

The calling thread works itself; helpers join when they wake and take the next tile from a shared counter, so nobody
waits for a slow one. Kernels run without the interpreter's lock. Each thread has its own scratch memory, which grows
to the largest program it has run and does not depend on the batch. Any number of threads may call at once, helpers
start on first need, and a forked child starts with none.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

import numpy as np

Kernel = Callable[[int, int], None]  # (address of scratch, address of the counters) → None

_ALIGNED = 64


class _Job:
    """One call: what to run, and counters of the next tile, of those done, and of samples without a valid label."""

    def __init__(self, kernel: Kernel, tiles: int, scratch: int, held: tuple[object, ...]) -> None:
        self.kernel, self.tiles, self.scratch, self.held = kernel, tiles, scratch, held
        self.counters = np.zeros(3, np.int64)
        self.finished: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        """Run tiles until none is left."""
        self.kernel(_scratch(self.scratch), self.counters.ctypes.data)

    def complete(self) -> bool:
        return int(self.counters[1]) == self.tiles


class _Memory(threading.local):
    """A thread's scratch: the array that holds it, its size and the aligned address."""

    held: np.ndarray | None = None
    size = 0
    address = 0


_memory = _Memory()
_queue: SimpleQueue[_Job] = SimpleQueue()
_helpers = 0
_lock = threading.Lock()


def run(kernel: Kernel, tiles: int, scratch: int, threads: int, held: tuple[object, ...] = ()) -> int:
    """Run `kernel` on all tiles with up to `threads` threads of `scratch` bytes each; the samples without a label.

    `held` are the objects whose memory the kernel uses: helpers keep them alive even if the caller is interrupted.
    """
    job = _Job(kernel, tiles, scratch, held)
    helpers = min(threads, tiles) - 1
    if helpers > 0:
        _recruit(helpers)
        for _ in range(helpers):
            _queue.put(job)
    job.work()
    while not job.complete():
        job.finished.get()
    return int(job.counters[2])


def _scratch(size: int) -> int:
    """The address of `size` bytes that belong to this thread."""
    if _memory.size < size:
        _memory.held = None  # let go before asking for more
        _memory.held = np.empty(size + _ALIGNED, np.uint8)
        _memory.size = size
        _memory.address = -(-_memory.held.ctypes.data // _ALIGNED) * _ALIGNED
    return _memory.address


def _recruit(helpers: int) -> None:
    global _helpers
    while _helpers < helpers:
        with _lock:
            if _helpers < helpers:
                _helpers += 1
                threading.Thread(target=_help, name=f"dssl-{_helpers}", daemon=True).start()


def _help() -> None:
    while True:
        job = _queue.get()
        if not job.complete():
            job.work()
            if job.complete():
                job.finished.put(None)
        del job  # and what it holds, while waiting for the next


def _forget() -> None:
    """In a forked child no helper runs, and a lock may have been held."""
    global _queue, _helpers, _lock
    _queue, _helpers, _lock = SimpleQueue(), 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
