"""Which rows a step sees, and which random numbers: functions of seed and step, so a resumed run needs no memory.

An epoch of a stream is a permutation made from (seed, stream, epoch); step s takes positions s·b to (s+1)·b of the
epochs laid end to end.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from dssl.data.rows import Batch, Data, Rows
from dssl.errors import DataError
from dssl.training.processes import Ranks


class Stream:
    """One stream of row numbers: batches of `batch` rows, each epoch in another order."""

    def __init__(self, data: Data, rows: Rows, batch: int, seed: tuple[int, ...]) -> None:
        self._data, self._rows, self._seed = data, rows, seed
        self.batch = min(batch, len(rows))  # fewer rows than a batch: each step sees them all, once
        self._orders: dict[int, Rows] = {}

    def at(self, step: int) -> Rows:
        """The rows of a step, numbered from 0."""
        if self.batch == len(self._rows):
            return self._rows
        start, stop = step * self.batch, (step + 1) * self.batch
        n = len(self._rows)
        first, last = start // n, max(start, stop - 1) // n  # a batch lies in one epoch or across two
        if first == last:
            return self._in(first)[start - first * n : stop - first * n]
        return np.concatenate([self._in(first)[start - first * n :], self._in(last)[: stop - last * n]])

    def _in(self, epoch: int) -> Rows:
        if epoch not in self._orders:
            self._orders = {e: order for e, order in self._orders.items() if e == epoch - 1}
            self._orders[epoch] = self._data.order(self._rows, np.random.default_rng((*self._seed, epoch)))
        return self._orders[epoch]


class Streams:
    """The labelled and the unlabelled stream side by side."""

    def __init__(self, data: Data, labelled_batch: int, unlabelled_batch: int, seed: int) -> None:
        self._labelled = Stream(data, data.labelled, labelled_batch, (seed, 0))
        self._unlabelled = Stream(data, data.unlabelled, unlabelled_batch, (seed, 1))
        self.size = self._labelled.batch + self._unlabelled.batch
        if not self.size:
            raise DataError(
                f"there is nothing to train on: {len(data.labelled)} labelled rows in batches of {labelled_batch}, "
                f"{len(data.unlabelled)} unlabelled ones in batches of {unlabelled_batch}\nGive rows and batch sizes."
            )

    def at(self, step: int) -> Rows:
        """The labelled rows of a step, then the unlabelled ones."""
        return np.concatenate([self._labelled.at(step), self._unlabelled.at(step)])


def _numbered(data: Data, rows: Rows) -> Batch:
    return replace(data.batch(rows), rows=torch.from_numpy(np.array(rows, np.int64)))


def batches(data: Data, streams: Streams, first: int, last: int, share: slice) -> Iterator[Batch]:
    """The batches of steps first … last−1, only the rows in `share` of each; fetched ahead if the data ask for it."""
    if not data.ahead:
        for step in range(first, last):
            yield _numbered(data, streams.at(step)[share])
        return
    with ThreadPoolExecutor(1, "dssl-data") as thread:
        waiting: list[Future[Batch]] = []
        try:
            for step in range(first, last + data.ahead):
                if step < last:
                    waiting.append(thread.submit(_numbered, data, streams.at(step)[share]))
                if step >= first + data.ahead:
                    yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()


# ---- random numbers ----


def seed_torch(seed: int, step: int, ranks: Ranks) -> None:
    """Makes dropout and the like a function of seed, step and rank: no state to save, and validation may draw too."""
    mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + ranks.rank * 0x94D049BB133111EB) & (2**63 - 1)
    mixed ^= mixed >> 31
    torch.default_generator.manual_seed(mixed)  # torch.manual_seed asks every backend and takes .2 ms
    if ranks.device.type == "cuda":
        torch.cuda.manual_seed(mixed)
    elif ranks.device.type == "mps":
        torch.mps.manual_seed(mixed)


def randomness() -> list[Any]:
    """The states of Python's and numpy's generators, which augmentations of users may draw from."""
    name, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    return [list(random.getstate()), [name, np.asarray(keys).tolist(), *rest]]


def set_randomness(state: list[Any]) -> None:
    (version, words, gauss), numpy = state
    random.setstate((version, tuple(words), gauss))
    np.random.set_state(tuple(numpy))  # noqa: NPY002


@contextmanager
def own_randomness(seed: int, rank: int) -> Iterator[None]:
    """Within it, global generators are the run's own; the caller's are as before afterwards."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        before = randomness()
        random.seed(seed + rank)
        np.random.seed((seed + rank) % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            set_randomness(before)
