"""Runs that are kept as they finish."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ledger import Case, Ledger, calibration_error, load, markdown, percent, summary


@dataclass(frozen=True)
class Settings:
    factor: int = 2


def doubled(number: int, seed: int, folder: Path, settings: Settings) -> Case:
    """Work that leaves a trace, and fails on 13."""
    with (folder / "trace").open("a") as trace:
        trace.write(f"{number}\n")
    if number == 13:
        raise ArithmeticError
    return {"score": float(number * settings.factor + seed)}


def cases(*numbers: int) -> list[Case]:
    return [{"number": number, "seed": seed} for number in numbers for seed in (0, 1)]


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    work = partial(doubled, folder=tmp_path, settings=Settings())
    with pytest.raises(ArithmeticError):
        Ledger("small", Settings(), folder=tmp_path).complete(work, cases(1, 13), jobs=1)
    assert [run["score"] for run in load("small", tmp_path)["runs"]] == [2.0, 3.0]  # what was done before it broke off
    ledger = Ledger("small", Settings(), folder=tmp_path)
    ledger.complete(work, cases(3, 1), jobs=1)
    ledger.keep(cases(1, 3))
    assert [run["score"] for run in ledger.runs] == [2.0, 3.0, 6.0, 7.0]
    record = load("small", tmp_path)
    assert record["settings"] == {"factor": 2}
    assert record["runs"] == ledger.runs
    assert {"dssl", "torch", "python"} <= set(record["versions"])
    assert (tmp_path / "trace").read_text().split().count("1") == 2
    assert [path.name for path in tmp_path.iterdir() if path.suffix] == ["small.json"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes where Linux lists them")
def test_workers_end_with_whoever_started_them(tmp_path: Path) -> None:
    code = f"""
import sys; sys.path[:0] = {sys.path!r}
from pathlib import Path
import ledger, test_ledger
if __name__ == "__main__":
    folder = Path({str(tmp_path)!r})
    slow = ledger.Ledger("slow", test_ledger.Settings(), folder=folder)
    slow.complete(test_ledger.Sleeper(folder), [{{"seed": 0}}], jobs=1)
"""
    (tmp_path / "slow.py").write_text(code)
    with subprocess.Popen([sys.executable, str(tmp_path / "slow.py")]) as process:
        worker = _wait_for(lambda: (tmp_path / "worker").exists() and int((tmp_path / "worker").read_text() or 0))
        process.kill()
    assert _wait_for(lambda: not Path(f"/proc/{worker}").exists())


@dataclass(frozen=True)
class Sleeper:
    """Work that says who does it, and takes for ever."""

    folder: Path

    def __call__(self, seed: int) -> Case:
        (self.folder / "worker").write_text(str(os.getpid()))
        time.sleep(600)
        return {}


def _wait_for(event: Callable[[], Any], seconds: float = 60) -> Any:
    for _ in range(round(seconds * 10)):
        if found := event():
            return found
        time.sleep(0.1)
    raise TimeoutError


def test_with_other_settings_all_is_done_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for settings in (Settings(), Settings(3)):
        ledger = Ledger("small", settings, folder=tmp_path)
        ledger.complete(partial(doubled, folder=tmp_path, settings=settings), cases(1), jobs=1)
    assert [run["score"] for run in ledger.runs] == [3.0, 4.0]
    assert "small.json was made with other settings: its 2 runs are done again" in capsys.readouterr().out


def test_means_and_their_errors() -> None:
    runs = [{"set": "a", "score": score} for score in (0.1, 0.2, 0.6)] + [{"set": "b", "score": None, "more": 1.0}]
    first, second = summary(runs, by=("set",), of=("score", "more"))
    assert first == {"set": "a", "seeds": 3, "score": pytest.approx(0.3), "score_error": pytest.approx(0.1527525)}
    assert second == {"set": "b", "seeds": 1, "more": 1.0, "more_error": 0.0}
    assert percent(first, "score") == "30.0 ± 15.3"
    assert percent(second, "score") == "–"
    assert markdown(["a", "b"], [[1, "x"]]) == "| a | b |\n| --- | --- |\n| 1 | x |"


def test_stored_records_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"runs": []}))
    assert load("x", tmp_path) == {"runs": []}


def test_calibration_error_by_hand() -> None:
    confidence = np.array([0.95, 0.95, 0.55, 1.0])
    right = np.array([True, False, True, True])
    # bins .9–1: three rows, right 2, confidence 2.9; .5–.6: one row, right 1, confidence .55
    assert calibration_error(confidence, right) == pytest.approx((abs(2 - 2.9) + abs(1 - 0.55)) / 4)
    assert calibration_error(np.ones(3), np.ones(3)) == 0
