"""`dssl refit`: a run that learns further, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dssl.app.cli import main


def test_a_refit_says_where_it_is(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refit", str(trained), "--out", str(tmp_path / "new"), "--steps", "10", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["out"] == str(tmp_path / "new")
    assert told["refit"] == {"of": str(trained.resolve()), "answers": 0}
    assert (tmp_path / "new" / "changes.json").is_file()


def test_what_is_no_run_cannot_learn_further(fails: Callable[..., str], tmp_path: Path, trained: Path) -> None:
    assert "No such file" in fails("refit", tmp_path / "gone")
    assert "does not say how it was fitted" in fails("refit", tmp_path, "--out", tmp_path / "new")
    assert "holds a finished run" in fails("refit", trained, "--out", trained)
    assert "--steps 0 is below 1" in fails("refit", trained, "--out", tmp_path / "new", "--steps", 0, code=2)
    assert not (tmp_path / "new").exists()
