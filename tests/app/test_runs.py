"""Run folders: new, resumed, replaced or refused; whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path

import pytest

from dssl.app.runs import RunFolder, model_folder, refuse_taken, write_run
from dssl.errors import DataError

IDENTITY = {"steps": 5, "label": ["legs"]}


def finished(path: Path) -> None:
    folder = RunFolder.open(path, IDENTITY, overwrite=True)
    with folder.finished() as fresh:
        (fresh / "model").mkdir()
        write_run(fresh, {"steps": 5})


def names(path: Path) -> list[str]:
    return sorted(p.name for p in path.iterdir())


def test_a_new_run_holds_a_checkpoint_until_it_is_finished(tmp_path: Path) -> None:
    folder = RunFolder.open(tmp_path / "run", IDENTITY, overwrite=False)
    assert (folder.began, folder.resumed, folder.resumable) == (True, False, False)
    assert names(tmp_path / "run") == ["checkpoint"]
    with folder.finished() as fresh:
        write_run(fresh, {"steps": 5})
        assert names(tmp_path / "run") == ["checkpoint"]
    assert names(tmp_path) == ["run"]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["steps"] == 5
    assert names(tmp_path / "run") == ["run.json"]


def test_an_error_at_the_end_leaves_the_checkpoint(tmp_path: Path) -> None:
    folder = RunFolder.open(tmp_path / "run", IDENTITY, overwrite=False)
    (folder.checkpoint / "step-000000005.safetensors").write_text("")
    with contextlib.suppress(OSError), folder.finished() as fresh:
        write_run(fresh, {})
        raise OSError("full")
    assert names(tmp_path) == ["run"]
    assert names(tmp_path / "run") == ["checkpoint"]
    again = RunFolder.open(tmp_path / "run", IDENTITY, overwrite=False)
    assert (again.resumed, again.resumable) == (True, True)


def test_giving_up_leaves_things_as_they_were(tmp_path: Path) -> None:
    RunFolder.open(tmp_path / "run", IDENTITY, overwrite=False).give_up()
    assert names(tmp_path) == []
    (tmp_path / "run").mkdir()
    RunFolder.open(tmp_path / "run", IDENTITY, overwrite=False).give_up()
    assert names(tmp_path) == ["run"]  # it was there before
    finished(tmp_path / "run")
    RunFolder.open(tmp_path / "run", {"steps": 6}, overwrite=True).give_up()
    assert names(tmp_path / "run") == ["model", "run.json"]


def test_giving_up_on_a_disk_that_can_only_be_read_hides_no_other_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    folder = RunFolder.open(tmp_path / "run", IDENTITY, overwrite=False)
    monkeypatch.setattr(os, "rename", refuse)
    folder.give_up()
    assert names(tmp_path / "run") == ["checkpoint"]


def test_another_run_is_not_resumed(tmp_path: Path) -> None:
    RunFolder.open(tmp_path / "run", IDENTITY, overwrite=False)
    with pytest.raises(DataError, match="started differently:\n  steps: 5 there, 6 here\nResume"):
        RunFolder.open(tmp_path / "run", {**IDENTITY, "steps": 6}, overwrite=False)
    assert not RunFolder.open(tmp_path / "run", {**IDENTITY, "steps": 6}, overwrite=True).resumed
    assert RunFolder.open(tmp_path / "run", {**IDENTITY, "steps": 6}, overwrite=False).resumed


def test_what_is_there_is_refused(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    with pytest.raises(DataError, match="holds a finished run"):
        refuse_taken(tmp_path / "run", overwrite=False)
    refuse_taken(tmp_path / "run", overwrite=True)
    (tmp_path / "own").mkdir()
    refuse_taken(tmp_path / "own", overwrite=False)
    (tmp_path / "own" / "file").write_text("")
    with pytest.raises(DataError, match="is not empty and holds no run"):
        refuse_taken(tmp_path / "own", overwrite=True)
    with pytest.raises(DataError, match="is a file"):
        refuse_taken(tmp_path / "own" / "file", overwrite=True)


def test_what_a_killed_run_left_is_not_taken_for_somebodys_files(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / ".checkpoint.0123abcd.dssl-partial").mkdir(parents=True)  # it was killed while it made the folder ready
    refuse_taken(run, overwrite=False)
    RunFolder.open(run, IDENTITY, overwrite=False)
    assert names(run) == ["checkpoint"]
    assert names(run / "checkpoint") == ["run.json"]
    finished(run)
    run.rename(tmp_path / ".run.0123abcd.dssl-old")  # between two renames, where a system cannot swap folders
    with pytest.raises(DataError, match="holds a finished run"):
        RunFolder.open(run, IDENTITY, overwrite=False)
    assert names(tmp_path) == ["run"]


def test_models_of_runs(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    run = tmp_path / "run"
    assert model_folder(run) == (run, None)  # without preprocessing it is taken for a model
    (run / "preprocessing.json").write_text("{}")
    assert model_folder(run) == model_folder(run / "model") == (run / "model", run / "preprocessing.json")
    RunFolder.open(tmp_path / "open", IDENTITY, overwrite=False)
    with pytest.raises(DataError, match="is not finished"):
        model_folder(tmp_path / "open")
    with pytest.raises(FileNotFoundError):
        model_folder(tmp_path / "none")
