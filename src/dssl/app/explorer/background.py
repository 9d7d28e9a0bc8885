"""A refit in the background: a process of its own, how far it is, and the run that takes the place of the last one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from dssl.app.runs import CHANGES, CHECKPOINT, LOG, REFIT_STEPS, RUN, next_folder

_RUNS = 50  # of the curve
_LISTED = 30  # changed rows that the page shows
_ENDING_S = 5.0


def worker_command(run: Path | None) -> list[str]:
    """What starts a worker, for a run or for none."""
    return [sys.executable, "-m", "dssl.app.explorer.worker", *([str(run)] if run is not None else [])]


class Background:
    """The run that the page shows. After a refit it is the new one; `renew` then starts workers for it."""

    def __init__(self, run: Path | None, renew: Callable[[Sequence[str]], Awaitable[None]] | None) -> None:
        self.run, self._renew = run, renew
        self._next: Path | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure = ""
        self._renewed = False  # and nobody was told yet

    async def __aenter__(self) -> Background:
        return self

    async def __aexit__(self, *_: object) -> None:
        """End a fit that is under way; its folder is left as an unfinished run."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def begin(self, rules: Path | None = None) -> dict[str, Any]:
        """Start a refit, with other rules if they are given, unless one is under way."""
        if self.run is not None and (self._task is None or self._task.done()):
            self._next, self._failure = next_folder(self.run), ""
            self._task = asyncio.create_task(self._fit(self.run, self._next, rules))
        return await self.progress()

    async def _fit(self, run: Path, out: Path, rules: Path | None) -> None:
        more = ["--steps", str(REFIT_STEPS)] if rules is None else ["--rules", str(rules)]
        words = [sys.executable, "-m", "dssl", "refit", str(run), "--out", str(out), *more, "--quiet"]
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        try:
            _, said = await process.communicate()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ENDING_S):
                    await process.wait()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        if process.returncode != 0:
            lines = [line for line in said.decode(errors="replace").splitlines() if not line.startswith("warning:")]
            self._failure = "\n".join(lines[-3:]).removeprefix("error: ") or "the refit came to an end before its time"
            return
        self.run, self._renewed = out, True
        if self._renew is not None:
            await self._renew(worker_command(out))

    async def progress(self) -> dict[str, Any]:
        """How far a refit is, the runs so far, and what the last one changed."""
        running = self._task is not None and not self._task.done()
        renewed, self._renewed = self._renewed and not running, self._renewed and running
        return {
            "running": running,
            "step": await asyncio.to_thread(_step, self._next) if running and self._next is not None else 0,
            "of": REFIT_STEPS,
            "failure": self._failure,
            "run": None if self.run is None else self.run.name,
            "renewed": renewed,
            **await asyncio.to_thread(_told, self.run),
        }


def _step(out: Path) -> int:
    """The last step in the log of a run that is not finished."""
    try:
        head, *lines = (out / CHECKPOINT / LOG).read_text(encoding="utf-8").splitlines()
        return int(lines[-1].split(",")[head.split(",").index("step")]) if lines else 0
    except (OSError, ValueError, IndexError):
        return 0


def _told(run: Path | None) -> dict[str, Any]:
    """Labels and accuracy of a run and of those before it, and what the last refit changed."""
    curve: list[dict[str, Any]] = []
    at = run
    while at is not None and len(curve) < _RUNS:
        record = _json(at / RUN)
        rows, metrics = record.get("rows"), record.get("metrics")
        if isinstance(rows, dict) and isinstance(metrics, dict):
            curve.append({"run": at.name, "labels": rows.get("labelled"), "accuracy": metrics.get("accuracy, test")})
        refit = record.get("refit")
        at = Path(refit["of"]) if isinstance(refit, dict) and isinstance(refit.get("of"), str) else None
    changed = {} if run is None else _json(run / CHANGES)
    listed = changed.get("listed")
    changed["listed"] = listed[:_LISTED] if isinstance(listed, list) else []
    return {"curve": curve[::-1], "changes": changed if "changed" in changed else None}


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
