"""Threads that share tiles: every tile once, many callers at once, and after a fork or in a data loader's workers;
Ctrl-C is heard in every long call."""

from __future__ import annotations

import _thread
import ctypes
import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from circuits.test_queries import parity
from dssl.circuits import queries
from dssl.circuits.evaluate import launch, threads


@pytest.fixture
def two_threads(monkeypatch):
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
    make = threads._Job.__init__

    def remember(self, *args):
        make(self, *args)
        jobs[id(self)] = self.counters

    monkeypatch.setattr(threads._Job, "__init__", remember)
    threads.run(counting(done, threading.Lock(), jobs), 20, 64, 4)
    assert sorted(done) == list(range(20))


def test_scratch_belongs_to_its_thread_and_is_aligned():
    with ThreadPoolExecutor(2) as pool:
        barrier = threading.Barrier(2)

        def own(size: int) -> int:
            barrier.wait()
            return threads._scratch(size)

        first, second = pool.map(own, [1000, 1000])
    assert abs(first - second) >= 1000
    assert first % 64 == second % 64 == 0


def test_four_callers_at_once(two_threads):
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
def test_in_workers_of_a_data_loader(two_threads, start):
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


def test_a_forked_child_starts_helpers_of_its_own(two_threads):
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


@pytest.mark.usefixtures("ctrl_c")
def test_a_long_call_hears_an_interruption_while_helpers_work():
    """The calling thread only waits, so Ctrl-C is heard at once, and helpers take no further tile."""
    begun, go_on, taken = threading.Event(), threading.Event(), []

    def kernel(scratch: int, counters: int) -> None:
        cells = (ctypes.c_int64 * 3).from_address(counters)
        while cells[0] < 1000:
            cells[0] += 1
            taken.append(threading.current_thread())
            begun.set()
            go_on.wait(30)
            cells[1] += 1

    def interrupt() -> None:
        begun.wait(30)
        _thread.interrupt_main()

    threading.Thread(target=interrupt, daemon=True).start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        threads.run(kernel, 1000, 64, 1, long=True)
    assert time.perf_counter() - start < 15  # and not the 30 of a tile
    go_on.set()
    time.sleep(0.2)
    assert len(taken) == 1
    assert taken[0] is not threading.current_thread()


@pytest.mark.parametrize("long", [False, True])
def test_what_a_helper_cannot_do_is_the_callers_error(long):
    """Such as memory for its scratch, of which it may be the one that is refused; later calls have their helpers."""

    def kernel(scratch: int, counters: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise MemoryError("no scratch")

    for _ in range(3):
        with pytest.raises(MemoryError, match="no scratch"):
            threads.run(kernel, 2, 64, 2, long=long)


HEARD = {
    "log_wmc": lambda c, w: c.log_wmc(*w),
    "gradient": lambda c, w: c.log_wmc(w[0].requires_grad_(), w[1]),
    "marginals": lambda c, w: c.marginals(*w),
    "slope of marginals": lambda c, w: c.marginals(w[0].requires_grad_(), w[1]).sum().backward(),
    "entropy": lambda c, w: c.entropy(*w),
    "mpe": lambda c, w: c.mpe(*w),
    "top_k": lambda c, w: c.top_k(*w, 3),
    "sample": lambda c, w: c.sample(*w),
    "many draws": lambda c, w: c.sample(*w[:, :2], 300),
    "many labels": lambda c, w: c.top_k(*w[:, :2], 300),
}


@pytest.mark.parametrize("query", HEARD)
def test_every_long_query_is_waited_for_and_no_short_one(monkeypatch, query):
    asked: list[bool] = []
    run = threads.run

    def watched(*args, long=False):
        asked.append(long)
        return run(*args, long=long)

    monkeypatch.setattr(threads, "run", watched)
    circuit, weights = parity(40), torch.randn(2, 70, 40, generator=torch.Generator().manual_seed(0))
    HEARD[query](circuit, weights.clone())
    short, asked[:] = asked[:], []
    monkeypatch.setattr(launch, "_LONG", 30_000)
    HEARD[query](circuit, weights.clone())
    assert asked
    assert all(asked)
    assert not any(short)
