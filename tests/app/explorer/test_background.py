"""The refit behind the page: begun once, told how far it is, and a failure in words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dssl.app.explorer import background
from dssl.app.explorer.background import Background, worker_command


def run_in(folder: Path, name: str, labelled: int, accuracy: float | None, of: Path | None) -> Path:
    (folder / name).mkdir()
    record: dict[str, Any] = {
        "rows": {"labelled": labelled},
        "metrics": {} if accuracy is None else {"accuracy, test": accuracy},
    }
    (folder / name / "run.json").write_text(json.dumps(record | ({"refit": {"of": str(of)}} if of else {})))
    return folder / name


def test_the_curve_is_that_of_the_runs_before(tmp_path: Path) -> None:
    first = run_in(tmp_path, "a", 20, 0.5, None)
    second = run_in(tmp_path, "a-2", 30, None, first)
    (second / "changes.json").write_text(json.dumps({"changed": 1, "rows": 9, "listed": [{"row": 4}] * 99}))
    told = asyncio.run(Background(second, None).progress())
    assert [(each["run"], each["labels"], each["accuracy"]) for each in told["curve"]] == [
        ("a", 20, 0.5),
        ("a-2", 30, None),
    ]
    assert told["changes"]["changed"] == 1
    assert len(told["changes"]["listed"]) == background._LISTED
    assert not told["running"]


def test_records_that_cannot_be_read_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[")
    told = asyncio.run(Background(tmp_path, None).progress())
    assert (told["curve"], told["changes"]) == ([], None)


def test_a_failure_is_told_in_words_and_the_run_stays(tmp_path: Path) -> None:
    async def whole() -> dict[str, Any]:
        async with Background(tmp_path, None) as here:
            first, again = await asyncio.gather(here.begin(), here.begin())
            assert first["running"]
            assert again["running"]
            assert here._task is not None
            await here._task
            return await here.progress()

    told = asyncio.run(whole())
    assert "does not say how it was fitted" in told["failure"]
    assert (told["run"], told["running"]) == (tmp_path.name, False)


def test_a_refit_takes_the_place_of_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, started = run_in(tmp_path, "a", 20, 0.5, None), []

    class Done:
        returncode = 0

        async def communicate(self) -> tuple[bytes, bytes]:
            return b"", b""

    async def process(*words: str, **_: Any) -> Done:
        started.append(words)
        return Done()

    async def renew(command: Sequence[str]) -> None:
        started.append(tuple(command))

    async def whole() -> dict[str, Any]:
        here = Background(run, renew)
        await here.begin()
        assert here._task is not None
        await here._task
        first = await here.progress()
        assert first["renewed"]
        return await here.progress()

    monkeypatch.setattr(background.asyncio, "create_subprocess_exec", process)
    told = asyncio.run(whole())
    assert (told["run"], told["renewed"]) == ("a-2", False)
    assert started[0][3:6] == ("refit", str(run), "--out")
    assert list(started[1]) == worker_command(tmp_path / "a-2")


def test_progress_is_the_last_step_of_the_log(tmp_path: Path) -> None:
    assert background._step(tmp_path) == 0
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "log.csv").write_text("step,total\n10,1.0\n20,0.5\n")
    assert background._step(tmp_path) == 20


def test_the_end_of_the_server_ends_a_refit(tmp_path: Path) -> None:
    async def whole() -> asyncio.Task[None]:
        async with Background(tmp_path, None) as here:
            await here.begin()
            await asyncio.sleep(0.2)
            assert here._task is not None
            return here._task

    assert asyncio.run(whole()).cancelled()
