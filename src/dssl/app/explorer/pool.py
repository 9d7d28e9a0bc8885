"""Pool: a few worker processes, a bounded queue before them, and an end to whatever takes too long."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_LONGEST = 16 << 20  # bytes of an answer
_AGAIN_S = 1.0  # before a worker that died at its start is started again
_ENDING_S = 1.0  # for a worker whose output has ended
_TRIES = 3  # to start a worker, one after another


class Busy(Exception):
    """No worker became free in time, or too many requests are waiting already."""


@dataclass
class _Job:
    name: str
    request: Any
    answer: asyncio.Future[tuple[int, dict[str, Any]]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def settle(self, status: int, answer: dict[str, Any]) -> None:
        if not self.answer.done():
            self.answer.set_result((status, answer))


class Pool:
    """Workers that answer `ask(name, request)`.

    `command` starts a worker (see `worker`), `workers` of them run, up to `waiting` requests may queue. A
    request waits up to `patience` seconds for its answer; work on it is ended after `budget` seconds, and a new
    worker takes the place of the one that was ended.
    """

    def __init__(
        self,
        command: Sequence[str] = (sys.executable, "-m", "dssl.app.explorer.worker"),
        *,
        workers: int = 2,
        waiting: int = 256,
        budget: float = 6.0,
        patience: float = 20.0,
    ) -> None:
        self.command, self.workers, self.budget, self.patience = tuple(command), workers, budget, patience
        self.ready = 0
        self.failure = ""  # why no worker starts
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue(waiting)
        self._slots: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Pool:
        first = asyncio.Event()
        self._slots = [asyncio.create_task(self._slot(first if i else None, first)) for i in range(self.workers)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for slot in self._slots:
            slot.cancel()
        await asyncio.gather(*self._slots, return_exceptions=True)

    async def renew(self, command: Sequence[str]) -> None:
        """Let other workers, started by this command, take the place of all of them."""
        await self.__aexit__()
        self.command, self.failure = tuple(command), ""
        await self.__aenter__()

    async def ask(self, name: str, request: Any) -> tuple[int, dict[str, Any]]:
        """The status and body of an answer; `Busy` if it cannot be had in time."""
        if self.failure:
            return 500, {"message": self.failure}
        job = _Job(name, request)
        try:
            self._jobs.put_nowait(job)
        except asyncio.QueueFull:
            raise Busy("too many requests are waiting; ask again in a moment.") from None
        try:
            async with asyncio.timeout(self.patience):
                return await job.answer
        except TimeoutError:
            raise Busy("no worker became free in time; ask again in a moment.") from None

    async def _slot(self, wait_for: asyncio.Event | None, started: asyncio.Event) -> None:
        """Keep one worker running. Others wait for the first, which fills the caches that all of them read."""
        if wait_for is not None:
            await wait_for.wait()
        tries = 0
        while tries < _TRIES:
            process = await asyncio.create_subprocess_exec(
                *self.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_LONGEST
            )
            try:
                said = await _line(process)
                if said is not None and "failed" in said:
                    self.failure = said["failed"]
                    break
                if said is None:
                    tries += 1
                    await asyncio.sleep(_AGAIN_S)
                    continue
                tries = 0
                started.set()
                await self._work(process)
            finally:
                await _end(process)
        self.failure = self.failure or "the workers of this server do not start; its terminal says why."
        while not self._jobs.empty():
            self._jobs.get_nowait().settle(500, {"message": self.failure})

    async def _work(self, process: asyncio.subprocess.Process) -> None:
        """Hand jobs to a worker until one of them takes too long or ends it."""
        self.ready += 1
        try:
            while True:
                job = await self._jobs.get()
                if job.answer.done():  # nobody is waiting for it any more
                    continue
                try:
                    async with asyncio.timeout(self.budget):
                        said = await _line(process, [job.name, job.request])
                except TimeoutError:
                    job.settle(
                        200, {"refused": f"too large for this page: it took more than {self.budget:g} s and was ended."}
                    )
                    return
                except asyncio.CancelledError:
                    job.settle(503, {"message": "the workers of this server are being replaced; ask again."})
                    raise
                if said is None:
                    job.settle(
                        200, {"refused": "too large for this page: the process that worked on it came to an end."}
                    )
                    return
                job.settle(said["status"], said["answer"])
        finally:
            self.ready -= 1


async def _end(process: asyncio.subprocess.Process) -> None:
    """See a process to its end, also where this task is cancelled meanwhile: asyncio holds its pipes until then."""
    ending, cancelled = asyncio.create_task(_ending(process)), None
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    ending.result()


async def _ending(process: asyncio.subprocess.Process) -> None:
    """Kill a process; one that is ending by itself gets a moment first, so that asyncio sees its own end."""
    assert process.stdout is not None
    if process.stdout.at_eof():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ENDING_S):
                await process.wait()
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def _line(process: asyncio.subprocess.Process, what: Any = None) -> dict[str, Any] | None:
    """Send a line, if any, and read one; None if the process has ended."""
    assert process.stdin is not None  # both are pipes
    assert process.stdout is not None
    try:
        if what is not None:
            process.stdin.write(json.dumps(what).encode() + b"\n")
            await process.stdin.drain()
        line = await process.stdout.readline()
    except (ConnectionError, ValueError):  # ended, or an answer longer than any should be
        return None
    return dict(json.loads(line)) if line.endswith(b"\n") else None
