"""What a run reports as it goes: a progress bar, a log file, TensorBoard, MLflow, and users' own callbacks."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dssl import files
from dssl.errors import DataError

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace

Row = dict[str, Any]


class LogFile:
    """Rows in a .csv or .jsonl file: one is added whenever the run is evaluated.

    When a run is resumed, the file is first rewritten from the checkpoint's rows, so that none occurs twice.
    """

    def __init__(self, path: str | Path, rows: Sequence[Row]) -> None:
        self._path = Path(path)
        if self._path.suffix not in (".csv", ".jsonl"):
            raise DataError(f"the log '{path}' is neither .csv nor .jsonl\nGive it one of these endings.")
        self._names: list[str] = []
        self._write(rows)

    def _write(self, rows: Sequence[Row]) -> None:
        self._names = list(dict.fromkeys(name for row in rows for name in row))
        head = ",".join(self._names) + "\n" if self._path.suffix == ".csv" and rows else ""
        files.write_whole(self._path, (head + "".join(map(self._line, rows))).encode(), parents=True)

    def _line(self, row: Row) -> str:
        if self._path.suffix == ".jsonl":
            return json.dumps(row) + "\n"
        line = io.StringIO()
        csv.DictWriter(line, self._names, restval="", lineterminator="\n").writerow(row)
        return line.getvalue()

    def add(self, rows: Sequence[Row]) -> None:
        """Adds the last of `rows`; for a new column the whole file is rewritten."""
        if not set(rows[-1]) <= set(self._names) and self._path.suffix == ".csv":
            self._write(rows)
            return
        files.append(self._path, self._line(rows[-1]).encode())

    def close(self) -> None:
        """Does nothing: no file is open between rows."""


class Board:
    """Rows as TensorBoard scalars."""

    def __init__(self, folder: str | Path, first: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise DataError(
                f"tensorboard='{folder}' needs the package tensorboard\nInstall it: pip install tensorboard"
            ) from None
        self._writer = SummaryWriter(str(folder), purge_step=first)

    def add(self, rows: Sequence[Row]) -> None:
        """Adds the last of all `rows`."""
        for name, value in rows[-1].items():
            if name != "step" and value is not None:
                self._writer.add_scalar(name, value, rows[-1]["step"])
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class Told:
    """A callback of the user's: it is called with each row, and closed at the end if it can be."""

    def __init__(self, callback: Callable[[Row], object]) -> None:
        self._callback = callback

    def add(self, rows: Sequence[Row]) -> None:
        self._callback(dict(rows[-1]))

    def close(self) -> None:
        getattr(self._callback, "close", lambda: None)()


class MLflow:
    """A callback for MLflow: ``settings={"callbacks": [MLflow("sqlite:///runs.db")]}``; each training is one run.

    `uri`: where MLflow keeps its runs; None for MLflow's own setting. `experiment`: the experiment that gets them.
    """

    def __init__(self, uri: str | None = None, experiment: str = "dssl") -> None:
        self.uri, self.experiment = uri, experiment
        self._client: Any = None
        self._run = ""

    def _begin(self) -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise DataError("MLflow needs the package mlflow\nInstall it: pip install 'dssl[mlflow]'") from None
        self._client = MlflowClient(tracking_uri=self.uri)
        found = self._client.get_experiment_by_name(self.experiment)
        number = self._client.create_experiment(self.experiment) if found is None else found.experiment_id
        self._run = self._client.create_run(number).info.run_id

    def __call__(self, row: Row) -> None:
        if self._client is None:
            self._begin()
        for name, value in row.items():
            if name != "step" and value is not None:
                self._client.log_metric(self._run, name, float(value), step=row["step"])

    def close(self) -> None:
        """Ends the run; the next row begins another."""
        if self._client is not None:
            self._client.set_terminated(self._run)
            self._client = None


_REFRESH = 0.1  # seconds between two looks of the progress bar


_BAR, _AROUND = 16, 48  # characters of the bar, and of all that stands before the figures


class Bar:
    """A progress bar with the time left, accuracy and the loss's parts; drawn at most ten times a second.

    `step` is the last one done, which it ends at. Figures are shown as far as a line holds them.
    """

    def __init__(self, steps: int, done: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("training"),
            BarColumn(_BAR),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
        )
        self.step = done
        self._task = self._progress.add_task("training", total=steps, completed=done, text="")
        self._next = 0.0
        self._progress.start()

    @property
    def due(self) -> bool:
        return time.monotonic() >= self._next

    def show(self, step: int, values: Mapping[str, float | None]) -> None:
        self._next = time.monotonic() + _REFRESH
        self.step = step
        self._progress.update(self._task, completed=step, text=self._figures(values))

    def _figures(self, values: Mapping[str, float | None]) -> str:
        """Those that fit beside the bar, accuracy and score first."""
        first = sorted(values, key=lambda name: name not in ("accuracy", "score"))
        out, room = [], self._progress.console.width - _AROUND
        for figure in (f"{name} {values[name]:.3g}" for name in first if values[name] is not None):
            room -= len(figure) + 2
            if room < 0:
                break
            out.append(figure)
        return "  ".join(out)

    def close(self) -> None:
        self._progress.update(self._task, completed=self.step)
        self._progress.stop()


def accuracy(space: LabelSpace | None, logits: Tensor, y: Tensor) -> float | None:
    """The share of known labels that the most probable value of each variable gets right; None if none are known.

    logits, y: (n, width). A categorical variable counts where y names its value.
    """
    if space is None:
        return None
    right: Tensor | int = 0
    known: Tensor | int = 0
    for variable, (start, stop) in zip(space.variables, space.spans):
        z, truth = logits[:, start:stop].detach(), y[:, start:stop]
        here = ~truth[:, 0].isnan() if variable.binary else (truth == 1).any(1)
        hit = (z[:, 0] > 0) == (truth[:, 0] > 0.5) if variable.binary else z.argmax(1) == (truth == 1).int().argmax(1)
        right, known = right + (hit & here).sum(), known + here.sum()
    found, of = torch.stack([torch.as_tensor(right), torch.as_tensor(known)]).tolist()  # the device is asked once
    return found / of if of else None
