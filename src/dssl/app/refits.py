"""A run that learns further: the same data and settings, with the answers people gave, from the run's last weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dssl.app.answers import AnswerFile, beside
from dssl.app.options import Options
from dssl.app.preparation import Examples, Preparation, prepare
from dssl.app.runs import CHANGES, REFIT_STEPS, RUN
from dssl.app.trained import Trained
from dssl.errors import DataError
from dssl.files import write_whole

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace

_LISTED = 200  # rows whose prediction changed
_PATHS = ("rules", "unlabelled", "test")


def recorded(run: Path) -> dict[str, Any]:
    """What a run says of itself."""
    try:
        record = json.loads((run / RUN).read_text(encoding="utf-8"))
        if isinstance(record, dict) and isinstance(record["settings"], dict) and isinstance(record["data"], str):
            return record
    except (OSError, ValueError, KeyError):
        pass
    raise DataError(f"'{run}' does not say how it was fitted\nGive the folder that dssl fit --out wrote.")


def found(said: str, run: Path) -> Path:
    """A file that a run names: where it was then, or beside the run."""
    places = (Path(said), run.parent / said, run.parent / Path(said).name)
    place = next((place for place in places if place.exists()), None)
    if place is None:
        raise DataError(f"'{said}' of the run '{run}' was not found\nPut it where it was, or beside the run's folder.")
    return place


def learns_further(run: Path, rules: Path | None = None, steps: int | None = None) -> Preparation:
    """Everything a further fit needs. With other `rules` it begins again; otherwise it continues the run."""
    record = recorded(run)
    known = {field.name for field in fields(Options)}
    said = {name: value for name, value in record["settings"].items() if name in known and name != "out"}
    said |= {name: found(said[name], run) for name in _PATHS if name in said}
    said |= {"rules": rules} if rules is not None else {}
    said |= {"steps": steps or REFIT_STEPS} if rules is None else {"steps": steps} if steps else {}
    options = Options(**said)
    prepared = prepare(found(record["data"], run), options)
    trained = Trained.open(run)
    same = trained.preprocessing.inputs == prepared.preprocessing.inputs
    same = same and trained.model.space_ == prepared.space
    if not same and rules is None:
        raise DataError(f"the data of '{run}' have changed: its columns or labels are others now\nFit it again.")
    answers = AnswerFile(beside(prepared.data), prepared.space)
    rows, columns = answers.labels()
    train, used = with_labels(prepared.train, prepared.space, rows, columns)
    told = {"refit": {"of": str(run.resolve()), "answers": used}}
    return replace(prepared, train=train, start=trained.model if same else None, beside=told)


def with_labels(train: Examples, space: LabelSpace, rows: list[int], columns: Any) -> tuple[Examples, int]:
    """The same rows, where answers were given with these, and how many were; held-out rows are not among them."""
    place = {int(number): i for i, number in enumerate(train.numbers) if number}
    at = [(place[row], i) for i, row in enumerate(rows) if row in place]
    known = train.known.copy()
    for row, i in at:
        known[row] = columns[i]
    told = np.asarray(~np.isnan(known).all(axis=0))  # what the rules alone decide is left to them
    values = np.where(np.isnan(known), -1, known).astype(np.int64)
    names = [(i, name) for i, name in enumerate(space.columns) if told[i]]
    y = pl.DataFrame({name: pl.Series(values[:, i]).replace(-1, None) for i, name in names})
    return replace(train, known=known, y=y), len(at)


# ---- what became of it ----


@dataclass(frozen=True)
class Change:
    """A row of the data that is predicted differently now; `better`: on a row with a label, whether it is right now."""

    row: int
    before: str
    after: str
    better: bool | None


def changes(before: Path, after: Path) -> tuple[int, list[Change]]:
    """How many rows the data of a run have, and those for which two runs predict different labels."""
    old, new = Trained.open(before), Trained.open(after)
    rows, out = 0, []
    for change, count in _changed(old, new, found(recorded(after)["data"], after)):
        rows += count
        out += change
    return rows, out


def _changed(old: Trained, new: Trained, data: Path) -> Iterator[tuple[list[Change], int]]:
    from dssl.app.measures import complete, label_text

    space = new.model.space_
    for table in new.chunks(data):
        a, b = (each.model.decoder_.best(each._logits(table)) for each in (old, new))
        known = new.labelling().encode(table)
        whole = complete(space, known)
        out = []
        for i in np.flatnonzero((a != b).any(axis=1)).tolist():
            right = [bool((each[i] == known[i]).all()) for each in (a, b)]
            better = right[1] if whole[i] and right[0] != right[1] else None
            out.append(Change(table.first + i, label_text(space, a[i]), label_text(space, b[i]), better))
        yield out, len(table)


def write_changes(before: Path, after: Path) -> dict[str, Any]:
    """Write down, in the folder of a run, what it predicts differently from the run before."""
    rows, every = changes(before, after)
    facts = {
        "rows": rows,
        "changed": len(every),
        "better": sum(change.better is True for change in every),
        "worse": sum(change.better is False for change in every),
        "listed": [vars(change) for change in every[:_LISTED]],
    }
    write_whole(after / CHANGES, json.dumps(facts, ensure_ascii=False, indent=1).encode())
    return facts
