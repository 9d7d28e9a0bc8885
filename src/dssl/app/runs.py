"""Run folders: what `dssl fit` writes, whole or not at all, and how an interrupted run is resumed.

model/               the model, as `dssl.save` writes it
preprocessing.json   how columns of files become its inputs
run.json             command, settings, data, versions, duration, metrics
log.csv              the loss and its parts
summary.json, report.html
changes.json         of a refit: what it predicts differently
checkpoint/          of a run that is not finished, with its own run.json; gone once it is
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dssl import files
from dssl.errors import DataError

RUN, PREPROCESSING, MODEL, LOG = "run.json", "preprocessing.json", "model", "log.csv"
SUMMARY, REPORT, CHECKPOINT = "summary.json", "report.html", "checkpoint"
CHANGES = "changes.json"
REFIT_STEPS = 150  # from weights that have learned already
_FORMAT, _VERSION = "dssl run", 1


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run in progress. `began`: this run made the folder itself."""

    path: Path
    began: bool
    resumed: bool

    @property
    def checkpoint(self) -> Path:
        return self.path / CHECKPOINT

    @property
    def log(self) -> Path:
        return self.checkpoint / LOG

    @classmethod
    def open(cls, path: Path, identity: Mapping[str, Any], *, overwrite: bool) -> RunFolder:
        """The folder, ready for use: new, to resume the same run, or to replace a finished one at the end."""
        files.clear(Path(os.path.abspath(path)).parent)
        refuse_taken(path, overwrite=overwrite)
        began, held = not path.exists(), path / CHECKPOINT
        resumed = not began and _same_run(path, identity, overwrite)
        if not resumed:
            with files.whole_folder(held) as fresh:
                write_run(fresh, {"identity": dict(identity)})
        return cls(path, began, resumed)

    def interrupted(self) -> bool:
        """Whether the last checkpoint is that of a run that was told to stop."""
        from dssl.training import checkpoints

        last = checkpoints.latest(self.checkpoint)
        return last is not None and checkpoints.unpack(last.state, last.tensors)["plain"]["stopped"] == "interrupted"

    def give_up(self) -> None:
        """Leave things as they were before this run, as far as the disk allows."""
        with suppress(OSError):
            files.remove_folder(self.checkpoint)
            if self.began and self.path.is_dir() and not any(self.path.iterdir()):
                self.path.rmdir()

    @property
    def resumable(self) -> bool:
        return any(self.checkpoint.glob("step-*.safetensors"))

    @property
    def step(self) -> int:
        """The step of the last checkpoint; 0 without any."""
        found = (re.fullmatch(r"step-(\d+)", file.stem) for file in self.checkpoint.glob("step-*.safetensors"))
        return max((int(name[1]) for name in found if name), default=0)

    def finished(self) -> AbstractContextManager[Path]:
        """A folder beside this one to fill, which takes its place at the end, or vanishes on an error."""
        return files.whole_folder(self.path)


def refuse_taken(path: Path, *, overwrite: bool) -> None:
    """An error if something is there that may not be replaced; what dssl did not write is never touched."""
    if path.exists() and not path.is_dir():
        raise DataError(f"'{path}' is a file\nGive --out a folder that dssl may make.")
    if not path.exists() or all(map(files.is_partial, path.iterdir())):
        return
    if not (path / RUN).is_file() and not (path / CHECKPOINT / RUN).is_file():
        raise DataError(f"'{path}' is not empty and holds no run\nGive --out a new folder.")
    if (path / RUN).is_file() and not overwrite:
        raise DataError(f"'{path}' holds a finished run\nGive another --out, or --overwrite to replace it.")


def _same_run(path: Path, identity: Mapping[str, Any], overwrite: bool) -> bool:
    """Whether the checkpoint there belongs to this run; that of another is an error, unless it may be replaced."""
    try:
        theirs = json.loads((path / CHECKPOINT / RUN).read_text(encoding="utf-8"))["identity"]
    except (OSError, ValueError, KeyError):
        return False
    ours = json.loads(json.dumps(dict(identity)))
    differing = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    if differing and not overwrite:
        shown = "\n".join(f"  {n.replace('_', '-')}: {theirs.get(n)!r} there, {ours.get(n)!r} here" for n in differing)
        raise DataError(
            f"'{path}' holds an unfinished run that was started differently:\n{shown}\n"
            "Resume it with the same command, give another --out, or --overwrite to drop it."
        )
    return not differing


def write_run(folder: Path, facts: Mapping[str, Any]) -> None:
    """The record of a run."""
    content = {"format": _FORMAT, "version": _VERSION, **facts}
    files.write_whole(folder / RUN, json.dumps(content, indent=1, ensure_ascii=False, default=str).encode())


def next_folder(run: Path) -> Path:
    """A new name beside a run.

    >>> next_folder(Path("models/pets")).as_posix(), next_folder(Path("models/pets-7")).as_posix()
    ('models/pets-2', 'models/pets-8')
    """
    stem, _, number = run.name.rpartition("-")
    stem, start = (stem, int(number) + 1) if stem and number.isdecimal() else (run.name, 2)
    return next(p for n in range(start, start + 10_000) if not (p := run.with_name(f"{stem}-{n}")).exists())


def model_folder(path: Path) -> tuple[Path, Path | None]:
    """The model and the preprocessing of a run folder; a model saved from Python has no preprocessing."""
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    if (path / CHECKPOINT / RUN).is_file() and not (path / RUN).is_file():
        raise DataError(f"the run in '{path}' is not finished\nRun its dssl fit command again to finish it.")
    run = path if (path / MODEL).is_dir() else path.parent if path.name == MODEL else None
    if run is not None and (run / PREPROCESSING).is_file():
        return run / MODEL, run / PREPROCESSING
    return path, None
