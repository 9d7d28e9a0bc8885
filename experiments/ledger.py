"""Runs of an experiment, kept in a file one by one as they finish: what is done is not done again.

An experiment is a function of a case, such as ``{"set": "digits", "method": "DP", "seed": 0}``, to what came of it:

    ledger = Ledger("table2", settings)
    ledger.complete(partial(one, settings=settings), cases)  # those not in experiments/results/table2.json
    rows = summary(ledger.runs, by=("set", "method"), of=("accuracy",))
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

KEPT = Path(__file__).parent / "results"  # what docs/results.md is made of
RESULTS = Path(os.environ.get("DSSL_RESULTS", KEPT))  # where runs are kept
Case = dict[str, Any]


class Ledger:
    """The runs of one experiment with these settings, a dataclass. With other settings they are made anew."""

    def __init__(self, name: str, settings: Any, *, folder: Path = RESULTS, packages: Sequence[str] = ()) -> None:
        self.path = folder / f"{name}.json"
        self.settings = json.loads(json.dumps(asdict(settings)))
        self.packages = ("dssl", "torch", "numpy", "scikit-learn", *packages)
        self.runs: list[Case] = []
        if self.path.exists():
            record = json.loads(self.path.read_text())
            if record["settings"] == self.settings:
                self.runs = record["runs"]
            else:
                print(f"{self.path.name} was made with other settings: its {len(record['runs'])} runs are done again")

    def complete(self, work: Callable[..., Case], cases: Sequence[Case], *, jobs: int = 0) -> None:
        """Do the cases that are not done yet, in `jobs` processes of one thread each (0: one a processor).

        `work(**case)` returns what came of it: this joins its case among the runs, with the seconds of a core. All
        cases have the same names. For settings, give ``functools.partial(one, settings=settings)``.
        """
        done = {_key(run, cases[0]) for run in self.runs} if cases else set()
        waiting = [case for case in cases if _key(case, case) not in done]
        if not waiting:
            return
        self.path.parent.mkdir(exist_ok=True)
        begin = time.perf_counter()
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs or os.cpu_count() or 1, context, initializer=begin_worker) as pool:
            futures = [pool.submit(_timed, work, case) for case in waiting]
            for number, future in enumerate(as_completed(futures), 1):
                run = future.result()
                self.runs.append(run)
                self._write()
                left = (time.perf_counter() - begin) / number * (len(waiting) - number)
                print(f"{number}/{len(waiting)}, {left / 60:.0f} min left: {_line(run)}", flush=True)

    def keep(self, cases: Sequence[Case]) -> None:
        """Order the runs as these cases are, and forget runs of no case."""
        place = {_key(case, case): number for number, case in enumerate(cases)}
        self.runs = [run for run in self.runs if _key(run, cases[0]) in place]
        self.runs.sort(key=lambda run: place[_key(run, cases[0])])
        self._write()

    def _write(self) -> None:
        record = {
            "settings": self.settings,
            "versions": {"python": platform.python_version()} | {name: version(name) for name in self.packages},
            "seconds": round(sum(run["seconds"] for run in self.runs), 1),
            "runs": self.runs,
        }
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps(record, indent=1) + "\n")
        beside.replace(self.path)


def begin_worker() -> None:
    """What a process that does runs begins with: one thread, and an end when its parent ends."""
    import torch

    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A pool that is killed leaves its workers waiting for ever."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _timed(work: Callable[..., Case], case: Case) -> Case:
    begin = time.process_time()  # of the one core that a run has, whatever else is going on
    outcome = work(**case)
    return case | outcome | {"seconds": round(time.process_time() - begin, 1)}


def _key(run: Case, case: Case) -> str:
    """What tells a run from others: the values of the case's names."""
    return json.dumps([run.get(name) for name in case])


def _line(run: Case) -> str:
    return "  ".join(f"{name} {value:.4f}" if isinstance(value, float) else str(value) for name, value in run.items())


def summary(runs: Sequence[Case], *, by: Sequence[str], of: Sequence[str]) -> list[Case]:
    """For each group of runs the mean of each measure and its standard error, as `name` and `name_error`.

    Measures that a run does not have, or has as None, are left out of the mean.
    """
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for run in runs:
        groups.setdefault(tuple(run[name] for name in by), []).append(run)
    rows = []
    for group, members in groups.items():
        row = dict(zip(by, group)) | {"seeds": len(members)}
        for name in of:
            values = np.array([run[name] for run in members if run.get(name) is not None], dtype=float)
            if len(values):
                row[name] = float(values.mean())
                row[f"{name}_error"] = float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0
        rows.append(row)
    return rows


def calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error Σ_b (n_b / n) |right_b − confidence_b| (Guo et al. 2017)."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = np.bincount(place, weights=right - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(confidence))


def load(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """The stored record of an experiment."""
    return json.loads((folder / f"{name}.json").read_text())


def markdown(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def percent(row: Case, name: str, digits: int = 1) -> str:
    """A mean and its standard error in per cent, or – where there is none."""
    if name not in row:
        return "–"
    return f"{100 * row[name]:.{digits}f} ± {100 * row[f'{name}_error']:.{digits}f}"
