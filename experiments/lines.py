"""Runs of an experiment as lines of a file, each added as it finishes: what is done is not done again.

Several commands may add to a file at once, and two files joined are a file of both. A line is a JSON object: the run's
key (such as case, system and seed) and what came of it. If a run is there twice, the later line counts.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from ledger import begin_worker

Run = dict[str, Any]


def read(path: Path, key: Sequence[str]) -> list[Run]:
    """The runs of a file; none if there is no such file. A last line that was cut short does not count."""
    found: dict[tuple[Any, ...], Run] = {}
    whole = path.read_text(encoding="utf-8") if path.exists() else ""
    for line in whole[: whole.rfind("\n") + 1].splitlines():
        run = json.loads(line)
        found[tuple(run[name] for name in key)] = run
    return list(found.values())


def forget(path: Path, key: Sequence[str], unwanted: Callable[[Run], bool]) -> int:
    """Take runs out of a file, and say how many."""
    runs = read(path, key)
    kept = [run for run in runs if not unwanted(run)]
    if len(kept) < len(runs):
        beside = path.with_suffix(".new")
        beside.write_text("".join(json.dumps(run) + "\n" for run in kept), encoding="utf-8")
        beside.replace(path)
    return len(runs) - len(kept)


def complete(path: Path, work: Callable[..., Run], keys: Sequence[Run], *, jobs: int = 0) -> list[str]:
    """Do the runs that are not in the file, in `jobs` processes of one thread each (0: one per processor).

    `work(**key)` returns what came of it. A run that fails does not stop the others: what failed is returned in words.
    """
    names = list(keys[0]) if keys else []
    done = {tuple(run[name] for name in names) for run in read(path, names)}
    waiting = [key for key in keys if tuple(key.values()) not in done]
    if not waiting:
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    _end_line(path)
    begin, failed = time.perf_counter(), []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs or os.cpu_count() or 1, context, initializer=begin_worker) as pool:
        futures = {pool.submit(work, **key): key for key in waiting}
        for number, future in enumerate(as_completed(futures), 1):
            key, error = futures[future], future.exception()
            if error is not None:
                failed.append(f"{', '.join(map(str, key.values()))}: {type(error).__name__}: {error}")
            else:
                _add(path, key | future.result())
            left = (time.perf_counter() - begin) / number * (len(waiting) - number)
            said = failed[-1] if error is not None else "  ".join(map(str, (key | future.result()).values()))
            print(f"{number}/{len(waiting)}, {left / 60:.0f} min left: {said}", flush=True)
    return failed


def _add(path: Path, run: Run) -> None:
    with path.open("a", encoding="utf-8") as file:  # one write, so that two commands do not mix their lines
        file.write(json.dumps(run) + "\n")


def _end_line(path: Path) -> None:
    """A line that was cut short is ended off, so that the next one is not lost with it."""
    if path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size:
        whole = path.read_text(encoding="utf-8")
        path.write_text(whole[: whole.rfind("\n") + 1], encoding="utf-8")
