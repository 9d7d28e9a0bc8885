"""Threads that share tiles: every tile once, many callers at once, and after a fork or in a data loader's workers."""

from __future__ import annotations

import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from circuits.test_queries import parity
from dssl.circuits import launch, queries, team


@pytest.fixture
def threads(monkeypatch):
    """Two threads even for small calls."""
    monkeypatch.setattr(launch, "_SMALL", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def counting(done: list[int], lock: threading.Lock, address: dict[int, np.ndarray]):
    """A kernel in Python: takes tiles as the compiled ones do."""

    def kernel(scratch: int, counters: int) -> None:
        cells = next(job for job in address.values() if job.ctypes.data == counters)
        while True:
            with lock:
                tile, cells[0] = int(cells[0]), cells[0] + 1
            if tile >= 20:
                return
            time.sleep(0.001)
            with lock:
                done.append(tile)
                cells[1] += 1

    return kernel


def test_every_tile_runs_once(monkeypatch):
    done: list[int] = []
    jobs: dict[int, np.ndarray] = {}
    make = team._Job.__init__

    def remember(self, *args):
        make(self, *args)
        jobs[id(self)] = self.counters

    monkeypatch.setattr(team._Job, "__init__", remember)
    team.run(counting(done, threading.Lock(), jobs), 20, 64, 4)
    assert sorted(done) == list(range(20))


def test_scratch_belongs_to_its_thread_and_is_aligned():
    with ThreadPoolExecutor(2) as pool:
        barrier = threading.Barrier(2)

        def own(size: int) -> int:
            barrier.wait()
            return team._scratch(size)

        first, second = pool.map(own, [1000, 1000])
    assert abs(first - second) >= 1000
    assert first % 64 == second % 64 == 0


def test_four_callers_at_once(threads):
    circuit = parity(40)
    weights = [torch.randn(2, 300, 40, generator=torch.Generator().manual_seed(i)) for i in range(8)]
    expected = [queries.marginals(circuit, *w) for w in weights]

    def ask(i: int) -> bool:
        return all(torch.equal(queries.marginals(circuit, *weights[i]), expected[i]) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(8)))


class Answers(Dataset):
    """Items computed by a circuit inside the loader's workers."""

    def __init__(self) -> None:
        self.circuit = parity(12)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> torch.Tensor:
        pos, neg = torch.randn(2, 40, 12, generator=torch.Generator().manual_seed(i))
        return queries.log_wmc(self.circuit, pos, neg)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_in_workers_of_a_data_loader(threads, start):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {start} here")
    data = Answers()
    expected = torch.stack([data[i] for i in range(8)])  # helpers run in this process before it forks
    loader = DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context=start)
    assert torch.equal(torch.cat(list(loader)), expected)


def _child(queue, circuit, weights):
    torch.set_num_threads(2)
    launch._SMALL = 0
    queue.put(queries.marginals(circuit, *weights).sum().item())


def test_a_forked_child_starts_helpers_of_its_own(threads):
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork here")
    circuit, weights = parity(20), torch.randn(2, 200, 20)
    expected = queries.marginals(circuit, *weights).sum().item()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_child, args=(queue, circuit, weights))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert queue.get() == pytest.approx(expected)
