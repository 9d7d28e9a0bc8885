"""The pool keeps its bounds, with workers that are small scripts: slow, dying, silent, and good ones."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dssl.app.explorer.pool import Busy, Pool

WORKER = """
import json, os, sys, time
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    name, request = json.loads(line)
    if name == "sleep": time.sleep(request)
    if name == "die": os._exit(1)
    if name == "flood": print("x" * (20 << 20), flush=True)
    print(json.dumps({"status": 200, "answer": {"pid": os.getpid(), "echo": request}}), flush=True)
"""


def using(pool: Callable[[], Pool], action: Callable[[Pool], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with pool() as open_pool:
            return await action(open_pool)

    return asyncio.run(main())


def small(code: str = WORKER, **bounds: Any) -> Callable[[], Pool]:
    return lambda: Pool((sys.executable, "-c", code), **bounds)


def test_answers_come_back_to_those_who_asked() -> None:
    async def ask(pool: Pool) -> list[Any]:
        while pool.ready < 2:
            await asyncio.sleep(0.01)
        return await asyncio.gather(*(pool.ask("sleep", i / 1000) for i in range(40)))

    answers = using(small(), ask)
    assert [answer["echo"] for _, answer in answers] == [i / 1000 for i in range(40)]
    assert len({answer["pid"] for _, answer in answers}) == 2


def test_work_that_takes_too_long_is_ended_and_others_go_on() -> None:
    async def ask(pool: Pool) -> Any:
        slow = asyncio.create_task(pool.ask("sleep", 60))
        _, first = await pool.ask("echo", 1)
        refused = await slow
        _, second = await pool.ask("echo", 2)
        return refused, first, second

    began = time.monotonic()
    refused, first, second = using(small(budget=0.5, workers=2), ask)
    assert time.monotonic() - began < 30
    assert refused == (200, {"refused": "too large for this page: it took more than 0.5 s and was ended."})
    assert (first["echo"], second["echo"]) == (1, 2)


@pytest.mark.parametrize("name", ["die", "flood"])
def test_a_worker_that_ends_is_replaced(name: str) -> None:
    async def ask(pool: Pool) -> Any:
        _, before = await pool.ask("echo", 1)
        ended = await pool.ask(name, None)
        _, after = await pool.ask("echo", 2)
        return before, ended, after

    before, ended, after = using(small(workers=1), ask)
    assert "came to an end" in ended[1]["refused"]
    assert before["pid"] != after["pid"]


def test_ends_of_workers_are_noticed_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    async def ask(pool: Pool) -> Any:
        return [await pool.ask("die", None) for _ in range(25)]

    assert len(using(small(), ask)) == 25
    assert not caplog.records  # asyncio warns of processes whose end something else has seen


@pytest.mark.parametrize("name", ["die", "flood", "echo"])
@pytest.mark.parametrize("pause", [0.0, 0.001, 0.01, 0.05])
def test_a_pool_that_closes_while_a_worker_ends_leaves_no_process(
    name: str, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[asyncio.subprocess.Process] = []
    begin = asyncio.create_subprocess_exec

    async def noted(*words: Any, **how: Any) -> asyncio.subprocess.Process:
        begun.append(await begin(*words, **how))
        return begun[-1]

    async def slowly(process: asyncio.subprocess.Process) -> int:
        await asyncio.sleep(0.02)  # the task is cancelled in here
        return await wait(process)

    async def ask(pool: Pool) -> None:
        await pool.ask(name, None)
        await asyncio.sleep(pause)

    wait = asyncio.subprocess.Process.wait
    monkeypatch.setattr(asyncio.subprocess.Process, "wait", slowly)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    using(small(workers=1), ask)
    assert begun
    assert all(process.returncode is not None for process in begun)


def test_a_full_queue_is_busy_at_once() -> None:
    async def ask(pool: Pool) -> Any:
        await pool.ask("echo", 0)
        waiting = [asyncio.create_task(pool.ask("sleep", 3.0))]
        await asyncio.sleep(0.05)  # it is at work
        waiting += [asyncio.create_task(pool.ask("echo", i)) for i in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(Busy, match="too many requests"):
            await pool.ask("echo", 1)
        return await asyncio.gather(*waiting)

    assert len(using(small(workers=1, waiting=3), ask)) == 4


def test_whoever_waits_too_long_is_told_and_not_worked_for() -> None:
    async def ask(pool: Pool) -> Any:
        await pool.ask("echo", 0)
        slow = asyncio.create_task(pool.ask("sleep", 3.0))
        await asyncio.sleep(0.05)
        pool.patience = 0.2
        with pytest.raises(Busy, match="no worker became free"):
            await pool.ask("sleep", 60)
        pool.patience = 20.0
        await slow
        return await pool.ask("echo", "after")  # the forgotten request was skipped, not slept for

    assert using(small(workers=1), ask)[1]["echo"] == "after"


def test_workers_that_do_not_start_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dssl.app.explorer.pool._AGAIN_S", 0.01)

    async def ask(pool: Pool) -> Any:
        return await pool.ask("echo", 1), await pool.ask("echo", 2), pool.failure

    first, second, failure = using(small("raise SystemExit(3)", workers=1), ask)
    assert first == second == (500, {"message": failure})
    assert "do not start" in failure


def test_a_worker_says_why_it_cannot_work() -> None:
    async def ask(pool: Pool) -> Any:
        return await pool.ask("echo", 1)

    code = 'print(\'{"failed": "no such model"}\')'
    assert using(small(code, workers=1), ask) == (500, {"message": "no such model"})


def test_leaving_ends_every_process() -> None:
    async def ask(pool: Pool) -> Any:
        return await asyncio.gather(*(pool.ask("echo", i) for i in range(8)))

    pids = {answer["pid"] for _, answer in using(small(), ask)}
    import os

    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
