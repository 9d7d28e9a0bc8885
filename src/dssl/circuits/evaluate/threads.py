"""A team of threads that share the tiles of one call.

The calling thread works itself; helpers join when they wake and take the next tile from a shared counter, so no thread
waits for a slow one. Kernels run without the interpreter's lock. Each thread has its own scratch memory, which grows to
the largest program it has run and does not depend on the batch. Any number of threads may call at once, helpers start
on first need, and a forked child starts with none.

A thread inside a kernel does not react to Ctrl-C. So in a long call the calling thread leaves all the work to helpers
and waits for them: it reacts at once, and helpers take no further tile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

import numpy as np

Loop = Callable[[int, int], None]  # (address of scratch, address of the counters) → None

_ALIGNED = 64
NO_MORE = 1 << 40  # a tile beyond the last of any call
_LOOK_UP = 0.1  # seconds after which a waiting thread looks up: on Windows nothing else lets it see Ctrl-C


class _Job:
    """One call: what to run, and counters of the next tile, of those done, and of samples without a valid label."""

    def __init__(self, loop: Loop, tiles: int, scratch: int, held: tuple[object, ...]) -> None:
        self.loop, self.tiles, self.scratch, self.held = loop, tiles, scratch, held
        self.counters = np.zeros(3, np.int64)
        self.finished: SimpleQueue[None] = SimpleQueue()
        self.error: BaseException | None = None

    def work(self) -> None:
        """Run tiles until none is left."""
        self.loop(_scratch(self.scratch), self.counters.ctypes.data)

    def complete(self) -> bool:
        return self.error is not None or int(self.counters[1]) == self.tiles

    def wait(self) -> None:
        """Return when all tiles are done; raise what a helper could not do. After Ctrl-C no tile is taken."""
        try:
            while not self.complete():
                with suppress(Empty):
                    self.finished.get(timeout=_LOOK_UP)
        except BaseException:
            self.counters[0] = NO_MORE
            raise
        if self.error is not None:
            raise self.error


class _Memory(threading.local):
    """A thread's scratch: the array that holds it, its size and the aligned address."""

    held: np.ndarray | None = None
    size = 0
    address = 0


_memory = _Memory()
_queue: SimpleQueue[_Job] = SimpleQueue()
_helpers = 0
_lock = threading.Lock()


def run(
    loop: Loop, tiles: int, scratch: int, threads: int, held: tuple[object, ...] = (), *, long: bool = False
) -> int:
    """Run `loop` over all tiles with up to `threads` threads of `scratch` bytes each; the samples without a label.

    `held` are the objects whose memory the loop uses: helpers keep them alive even if the caller is interrupted.
    In a `long` call the calling thread only waits.
    """
    job = _Job(loop, tiles, scratch, held)
    helpers = max(1, min(threads, tiles)) - (not long)
    if helpers > 0:
        _recruit(helpers)
        for _ in range(helpers):
            _queue.put(job)
    if not long:
        job.work()
    job.wait()
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
            try:
                job.work()
            except BaseException as error:  # the caller's to raise: this thread has more callers
                job.error = error
            if job.complete():
                job.finished.put(None)
        del job  # and what it holds, while waiting for the next


def _forget() -> None:
    """In a forked child no helper runs, and a lock may have been held."""
    global _queue, _helpers, _lock
    _queue, _helpers, _lock = SimpleQueue(), 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
