"""The worker's answers: statuses for what goes wrong, and lines of JSON through a real process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dssl import LabelSpace
from dssl.app.explorer.spaces import Malformed, Refused
from dssl.app.explorer.worker import HANDLERS, answered
from dssl.errors import DataError


def failing(error: BaseException) -> Any:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        raise error

    return {"it": answer}


@pytest.mark.parametrize(
    ("error", "status", "body"),
    [
        (Refused("too large"), 200, {"refused": "too large"}),
        (MemoryError(), 200, {"refused": "too large for this page: it needs more memory than this page may take."}),
        (DataError("no row"), 200, {"message": "no row"}),
        (Malformed("a list"), 400, {"message": "a list"}),
    ],
)
def test_what_goes_wrong_has_a_status_and_a_sentence(error: Exception, status: int, body: dict[str, str]) -> None:
    assert answered(failing(error), "it", {}) == (status, body)


@pytest.mark.parametrize("request_", [None, 3, "text", [1], True])
def test_a_request_is_an_object(request_: Any) -> None:
    assert answered(HANDLERS, "rules", request_) == (400, {"message": "the request must be a JSON object."})


def spoken(lines: list[str], *arguments: str) -> list[dict[str, Any]]:
    """What a worker says to some lines, after the line that it is ready."""
    words = [sys.executable, "-m", "dssl.app.explorer.worker", *arguments]
    done = subprocess.run(words, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_process_answers_line_by_line() -> None:
    bomb = "a: 0..400\n" + "\n".join(f"b{i}, " for i in range(3000))
    asked: list[tuple[str, Any]] = [
        ("rules", {"text": "legs, fins\nlegs -> !fins"}),
        ("rules", {"text": bomb}),
        ("beliefs", {"text": "a", "values": [2]}),
        ("gaussians", {}),
    ]
    ready, rules, refused, malformed, figure = spoken([json.dumps(each) for each in asked])
    assert ready == {"ready": True}
    assert rules["answer"]["count"] == str(LabelSpace("legs, fins\nlegs -> !fins").count())
    assert "refused" in refused["answer"]
    assert malformed["status"] == 400
    assert figure["answer"]["s"] == 4


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="the system has no alarms")
def test_a_worker_that_nobody_ends_ends_itself() -> None:
    code = (
        "import time\nfrom dssl.app.explorer import worker\n"
        "worker.LONGEST_S, worker.warm_up = 1, lambda: None\n"
        "worker.HANDLERS |= {'sleep': lambda request: time.sleep(request['s']) or {}}\n"
        "worker.main(None)"
    )
    lines = [json.dumps(["sleep", {"s": seconds}]) for seconds in (0, 0.1, 300)]
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == -signal.SIGALRM
    assert len(done.stdout.splitlines()) == 3  # ready, and two answers


def test_a_damaged_run_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('{"format": "other"}')
    (said,) = spoken([], str(tmp_path))
    assert "is not a model saved by dssl" in said["failed"]
