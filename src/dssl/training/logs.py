"""What a run tells while it goes on: a progress bar, a log file, TensorBoard."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from dssl import files
from dssl.errors import DataError

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace

Row = dict[str, Any]


class LogFile:
    """Rows in a .csv or .jsonl file: one is added whenever the run is evaluated.

    On a resumed run the file is first written anew from the rows that the checkpoint knows, so none occurs twice.
    """

    def __init__(self, path: str | Path, rows: Sequence[Row]) -> None:
        self._path = Path(path)
        if self._path.suffix not in (".csv", ".jsonl"):
            raise DataError(f"the log '{path}' is neither .csv nor .jsonl\nName it so.")
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
        """Adds the last of all `rows`; a column not seen before has the whole file written again."""
        if not set(rows[-1]) <= set(self._names) and self._path.suffix == ".csv":
            self._write(rows)
            return
        files.append(self._path, self._line(rows[-1]).encode())

    def close(self) -> None:
        """Nothing is open between rows."""


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


_REFRESH = 0.1  # seconds between two looks of the progress bar


class Bar:
    """A progress bar with the loss's parts, accuracy and the time left; drawn at most ten times a second."""

    def __init__(self, steps: int, done: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
        )
        self._task = self._progress.add_task("training", total=steps, completed=done, text="")
        self._next = 0.0
        self._progress.start()

    @property
    def due(self) -> bool:
        return time.monotonic() >= self._next

    def show(self, step: int, values: Mapping[str, float | None]) -> None:
        self._next = time.monotonic() + _REFRESH
        text = "  ".join(f"{name} {value:.4g}" for name, value in values.items() if value is not None)
        self._progress.update(self._task, completed=step, text=text)

    def close(self) -> None:
        self._progress.stop()


def accuracy(space: LabelSpace | None, logits: Tensor, y: Tensor) -> float | None:
    """The share of known labels that the most probable value of each variable gets right; None if none are known.

    logits, y: (n, width). A categorical variable counts where y names its value.
    """
    if space is None:
        return None
    right = known = 0
    for variable, (start, stop) in zip(space.variables, space.spans):
        z, truth = logits[:, start:stop].detach(), y[:, start:stop]
        here = ~truth[:, 0].isnan() if variable.binary else (truth == 1).any(1)
        hit = (z[:, 0] > 0) == (truth[:, 0] > 0.5) if variable.binary else z.argmax(1) == (truth == 1).int().argmax(1)
        right, known = right + int((hit & here).sum()), known + int(here.sum())
    return right / known if known else None
