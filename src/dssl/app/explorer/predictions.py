"""A run opened in the explorer: what it is, and single predictions with the reasons why the rules changed them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssl.app.explorer.spaces import MOST_COLUMNS, Malformed, described
from dssl.app.runs import REPORT, RUN, SUMMARY
from dssl.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from dssl.app.summary import Summary
    from dssl.app.trained import Trained
    from dssl.data.tables import Table

MOST_INPUTS = 100  # columns with a field of their own
MOST_SHOWN = 100  # variables of a prediction, where there are too many columns to show all
MOST_ROW = 10_000_000
MOST_TYPED = 20_000  # characters of a field: a column may hold texts
MOST_UNSURE = 10  # rows that are suggested
TOP = 5  # most probable labels


@dataclass(frozen=True)
class Run:
    """A trained model and, where they can be found, the data it was made from and its summary."""

    folder: Path
    trained: Trained
    data: Path | None
    summary: Summary | None

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Read a run; nothing in the folder is executed."""
        from dssl.app.summary import Summary
        from dssl.app.trained import Trained

        try:
            summary = Summary.load(folder / SUMMARY)
        except (DataError, FileNotFoundError):  # a model works without one
            summary = None
        return cls(folder, Trained.open(folder), _data(folder), summary)

    def handlers(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        """The calls that a run answers, by name."""
        return {"run": self.described, "prediction": self.prediction}

    # ---- what it is ----

    def described(self, _: dict[str, Any]) -> dict[str, Any]:
        """The run for the page: its title, its inputs, its rows and its rules."""
        s = self.summary
        facts: dict[str, Any] = {"data": None if self.data is None else self.data.name}
        if s is not None:
            facts |= {"trained": s.created, "network": f"{s.network}, {s.weights:,} weights"}
            facts |= {"right on test rows": None if s.score is None else f"{s.score:.1%}", "command": s.command}
        return {
            "title": self.folder.name if s is None else s.title,
            "facts": facts,
            "report": (self.folder / REPORT).is_file(),
            "rows": self.data is not None,
            "inputs": self._inputs(),
            "unsure": [] if s is None else _unsure(s),
            **described(self.trained.model.space_),
        }

    def _inputs(self) -> list[dict[str, Any]]:
        """The columns that can be typed in: none for images and very wide tables."""
        used = self.trained.preprocessing.used
        if self.trained.preprocessing.image is not None or len(used) > MOST_INPUTS:
            return []
        return [
            {
                "name": column.name,
                "kind": column.kind,
                "values": list(column.values) if column.kind == "categorical" else [],
                "usual": column.example,
            }
            for column in used
        ]

    # ---- one prediction ----

    def prediction(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the model says about a row of its data, or of values that were typed in."""
        from dssl.data.transformer import Notes

        table = self.row(request) if "row" in request else self._typed(request)
        notes = Notes()
        x = self.trained.preprocessing(table, notes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that features have no names here
            z = self.trained.model._logits(x).double()
        return {
            "cells": {} if self.trained.preprocessing.image is not None else _cells(table),
            "place": table.place(0),
            "notes": notes.sentences(),
            **self._explained(z),
        }

    def _explained(self, z: Tensor) -> dict[str, Any]:
        from dssl.app.explorer.beliefs import judged
        from dssl.app.explorer.reasons import broken, reasons

        space, p = self.trained.model.space_, self.trained.model.decoder_.predictive(z)
        out = judged(space, p, TOP)
        raw, final = out["raw"], out["top"][0]["label"]
        found = reasons(space, p, raw, final)
        return {
            **out,
            "final": final,
            "broken": broken(space, raw),
            "reasons": [vars(reason) for reason in found],
            "shown": _shown(space.width, raw, final),
        }

    # ---- rows ----

    def row(self, request: dict[str, Any]) -> Table:
        """One row of the data, by its number: the line of the file, where it has lines."""
        row = request.get("row")
        if isinstance(row, bool) or not isinstance(row, int) or not 0 <= row <= MOST_ROW:
            raise Malformed(f"'row' must be a whole number, not {str(row)[:40]}")
        if self.data is None:
            raise DataError("the data of this run was not found\nType values in instead.")
        first, last = None, 0
        for chunk in self.trained.chunks(self.data):
            first, last = chunk.first if first is None else first, chunk.first + len(chunk) - 1
            if chunk.first <= row <= last:
                return chunk.slice(row - chunk.first, row - chunk.first + 1)
        raise DataError(f"'{self.data.name}' has no row {row}\nIts rows have the numbers {first} to {last}.")

    def _typed(self, request: dict[str, Any]) -> Table:
        """A row of typed texts; what is left out or empty is not known."""
        import polars as pl

        from dssl.data.tables import Table

        given, inputs = request.get("values"), self._inputs()
        if not isinstance(given, dict) or not inputs:
            raise Malformed('give a row number, or "values": an object of texts by column')
        if any(not isinstance(text, str) or len(text) > MOST_TYPED for text in given.values()):
            raise Malformed(f"'values' are texts of up to {MOST_TYPED:,} characters")
        columns = {column["name"]: [given.get(column["name"]) or None] for column in inputs}
        frame = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
        return Table(Path("typed in"), "values", frame)


def _unsure(summary: Summary) -> list[dict[str, Any]]:
    """Rows of the data worth a look; those of a separate file of unlabelled rows have the number 0."""
    return [{"row": row.row, "label": row.label} for row in summary.uncertain if row.row > 0][:MOST_UNSURE]


def _data(folder: Path) -> Path | None:
    """The data that a run was made from, where it was then or beside the run."""
    try:
        said = json.loads((folder / RUN).read_text(encoding="utf-8"))["data"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(said, str):
        return None
    places = (Path(said), folder / said, folder.parent / Path(said).name)
    return next((place.resolve() for place in places if place.exists()), None)


def _cells(table: Table) -> dict[str, str]:
    row = table.frame.row(0, named=True)
    return {name: "" if value is None else str(value) for name, value in list(row.items())[: 2 * MOST_INPUTS]}


def _shown(width: int, raw: list[int], final: list[int]) -> list[int]:
    """The variables that the page lists: all, or of very many, those that changed and those that are not 0."""
    if width <= MOST_COLUMNS:
        return list(range(len(raw)))
    changed = [i for i, (a, b) in enumerate(zip(raw, final)) if a != b]
    told = [i for i, (a, b) in enumerate(zip(raw, final)) if a == b and b]
    return sorted((changed + told)[:MOST_SHOWN])
