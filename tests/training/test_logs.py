"""Log files, TensorBoard, the progress bar, and accuracy over known labels."""

from __future__ import annotations

import io
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from dssl import DSSLClassifier, LabelSpace
from dssl.errors import DataError
from dssl.training import logs
from dssl.training.logs import Bar, Board, LogFile, MLflow, accuracy
from training.tiny_runs import tiny_run

ROWS = [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25, "score": 0.9}]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_are_added_one_by_one(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "deep" / f"log.{kind}"
    log = LogFile(path, [])
    for i in (1, 2):
        log.add(ROWS[:i])
    if kind == "jsonl":
        assert [json.loads(line) for line in path.read_text().splitlines()] == ROWS
    else:
        assert path.read_text() == "step,loss,score\n1,0.5,\n2,0.25,0.9\n"


def test_a_resumed_log_begins_with_the_rows_of_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,loss\n1,0.5\n2,9\n3,9\n")
    LogFile(path, ROWS[:1])
    assert path.read_text() == "step,loss\n1,0.5\n"


def test_other_kinds_of_logs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"neither .csv nor .jsonl"):
        LogFile(tmp_path / "log.txt", [])


def test_a_run_writes_its_rows(tmp_path: Path) -> None:
    history = tiny_run(steps=14, log=tmp_path / "log.jsonl")
    assert [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()] == history.rows


def test_tensorboard_gets_every_number(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tensorboard's own dependencies
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        board = Board(tmp_path, 0)
        for i in (1, 2):
            board.add(ROWS[:i])
        board.close()
        events = EventAccumulator(str(tmp_path))
        events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(1, 0.5), (2, 0.25)]
    assert events.Tags()["scalars"] == ["loss", "score"]


class Listener:
    def __init__(self) -> None:
        self.heard: list[logs.Row] = []
        self.closed = 0

    def __call__(self, row: logs.Row) -> None:
        self.heard.append(row)

    def close(self) -> None:
        self.closed += 1


def test_callbacks_hear_each_row_and_are_closed() -> None:
    listener, heard = Listener(), []
    history = tiny_run(steps=14, callbacks=[listener, heard.append])
    assert listener.heard == heard == history.rows
    assert listener.closed == 1
    listener.heard[0].clear()  # each has a row of its own
    assert history.rows[0]


def test_what_cannot_be_called_is_refused() -> None:
    for odd in ("print", [1], print):
        with pytest.raises(ValueError, match=r"callbacks=.*: it must be a list of functions of a row of the log"):
            tiny_run(steps=1, callbacks=odd)


def test_folds_of_calibration_are_not_heard() -> None:
    heard: list[logs.Row] = []
    y = np.arange(60) % 2
    model = DSSLClassifier(steps=20, calibrate=True, random_state=0, settings={"callbacks": [heard.append]})
    model.fit(y[:, None] + np.random.default_rng(0).normal(size=(60, 2)), y)
    assert heard == model.history_


def test_mlflow_gets_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracking = pytest.importorskip("mlflow.tracking", reason="pip install 'dssl[mlflow]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = tmp_path.as_uri()
    for _ in range(2):  # two runs of one experiment
        history = tiny_run(steps=14, callbacks=[MLflow(uri, "tiny")])
    client = tracking.MlflowClient(tracking_uri=uri)
    runs = client.search_runs([client.get_experiment_by_name("tiny").experiment_id])
    assert [run.info.status for run in runs] == ["FINISHED", "FINISHED"]
    told = client.get_metric_history(runs[0].info.run_id, "total")
    assert [(m.step, m.value) for m in told] == [(row["step"], row["total"]) for row in history.rows]


def test_mlflow_that_is_not_installed_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    with pytest.raises(DataError, match=r"pip install 'dssl\[mlflow\]'"):
        MLflow()(ROWS[0])


def test_tensorboard_that_is_not_installed_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(DataError, match="pip install tensorboard"):
        Board(tmp_path, 0)


def test_the_bar_shows_parts_accuracy_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("rich.progress.get_console", lambda: Console(file=out, force_terminal=True, width=120))
    bar = Bar(100, 40)
    assert bar.due
    bar.show(50, {"supervised": 0.5, "prior": 1.25, "accuracy": 0.875, "score": None})
    assert not bar.due
    bar.step = 60
    bar.close()
    shown = out.getvalue()
    assert "60/100" in shown
    assert "accuracy 0.875  supervised 0.5  prior 1.25" in shown
    assert "score" not in shown


def test_the_bar_fits_a_line_of_80_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("rich.progress.get_console", lambda: Console(file=out, width=80))
    bar = Bar(100_000, 0)
    bar.show(99_999, {"supervised": 0.012345, "prior": 0.0012345, "balance": 0.0012345, "accuracy": 0.98765})
    bar.step = 100_000
    bar.close()
    [line] = out.getvalue().splitlines()
    assert len(line) <= 80
    assert "100000/100000" in line
    assert line.rstrip().endswith("accuracy 0.988")


def test_a_run_with_a_bar_ends_as_one_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_REFRESH", 0.0)
    out = io.StringIO()
    monkeypatch.setattr("rich.progress.get_console", lambda: Console(file=out, force_terminal=True, width=120))
    assert [r["total"] for r in tiny_run(progress=True).rows] == [r["total"] for r in tiny_run().rows]
    assert "balance" in out.getvalue()


def test_accuracy_counts_known_labels_only() -> None:
    space = LabelSpace("kind: {a, b, c}\nlegs")
    nan = float("nan")
    y = torch.tensor([[0, 1, 0, 1], [1, 0, 0, nan], [nan, nan, nan, 0], [nan, 0, nan, nan], [nan, nan, nan, nan]])
    z = torch.tensor([[0, 2, 1, 5], [0, 2, 1, 5], [9, 0, 0, 5], [9, 0, 0, 5], [9, 0, 0, 5]]).float()
    assert accuracy(space, z, y) == 2 / 4  # kind right, legs right, kind wrong, legs wrong; the rest is unknown
    assert accuracy(space, z[3:], y[3:]) is None
    assert accuracy(None, z, y) is None
