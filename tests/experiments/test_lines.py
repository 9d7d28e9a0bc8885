"""Runs kept as lines: done once, added one by one, and not lost to a line that was cut short."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import lines
import pytest

KEY = ("number", "seed")


def doubled(number: int, seed: int, folder: Path) -> dict[str, Any]:
    with (folder / "trace").open("a") as trace:
        trace.write(f"{number}\n")
    if number == 13:
        raise ArithmeticError("thirteen")
    return {"score": 2 * number + seed}


def keys(*numbers: int) -> list[dict[str, Any]]:
    return [{"number": number, "seed": seed} for number in numbers for seed in (0, 1)]


def test_what_is_done_is_not_done_again_and_a_failure_stops_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, work = tmp_path / "new" / "runs.jsonl", partial(doubled, folder=tmp_path)
    assert lines.complete(path, work, [], jobs=1) == []
    failed = lines.complete(path, work, keys(13, 1), jobs=1)
    assert failed == ["13, 0: ArithmeticError: thirteen", "13, 1: ArithmeticError: thirteen"]
    assert "13, 0: ArithmeticError: thirteen" in capfd.readouterr().out
    assert [run["score"] for run in lines.read(path, KEY)] == [2, 3]
    assert lines.complete(path, work, keys(1, 4), jobs=1) == []
    assert [run["score"] for run in lines.read(path, KEY)] == [2, 3, 8, 9]
    assert (tmp_path / "trace").read_text().split().count("1") == 2
    assert lines.complete(path, work, keys(4), jobs=1) == []


def test_a_line_that_was_cut_short_is_not_read_and_harms_no_other(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    whole = json.dumps({"number": 1, "seed": 0, "score": 2})
    path.write_text(f'{whole}\n{{"number": 5, "se')
    assert [run["number"] for run in lines.read(path, KEY)] == [1]
    lines.complete(path, partial(doubled, folder=tmp_path), keys(5), jobs=1)
    assert [run["number"] for run in lines.read(path, KEY)] == [1, 5, 5]


def test_of_two_lines_the_later_counts_and_runs_can_be_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    assert lines.read(path, KEY) == []
    assert lines.forget(path, KEY, lambda run: True) == 0
    runs = [{"number": 1, "seed": 0, "score": s} for s in (7, 8)] + [{"number": 2, "seed": 0, "score": 9}]
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    assert [run["score"] for run in lines.read(path, KEY)] == [8, 9]
    assert lines.forget(path, KEY, lambda run: run["number"] == 1) == 1
    assert [run["score"] for run in lines.read(path, KEY)] == [9]
    assert [file.name for file in tmp_path.iterdir()] == ["runs.jsonl"]
