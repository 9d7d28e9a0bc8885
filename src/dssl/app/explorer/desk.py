"""Labelling in the page: the next row worth a label, what follows from an answer, and answers written down."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dssl.app.answers import CANNOT_TELL, LABEL, Answer, AnswerFile, Meanwhile, beside, cell
from dssl.app.explorer.predictions import Run
from dssl.app.explorer.spaces import MOST_COLUMNS, Malformed, Refused
from dssl.app.findings.pictures import picture
from dssl.app.worth import worth_labelling
from dssl.data.tables import Table
from dssl.errors import DataError
from dssl.logic.labels import Columns, indices
from dssl.logic.space import LabelSpace

if TYPE_CHECKING:
    from torch import Tensor

MOST_ROWS = 20_000  # unlabelled rows, from the top of the file, that the queue chooses among
MOST_ASIDE = 2_000  # rows that are on other pages, or to be skipped
RECENT = 12  # answers that are listed
LONGEST_CELL = 5_000  # characters

Possible = list[list[int]]  # of each variable, the indices of the values that are still possible


@dataclass(frozen=True)
class Unlabelled:
    """Rows that labels are wanted for: numbers (n,), what is known of them, and what the model says."""

    numbers: NDArray[np.int64]
    known: Columns
    logits: Tensor
    all_rows: bool  # whether the file has no others


class Desk:
    """The calls of the Label tab for a run. Answers are in a file, which every worker and every server reads again."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.space: LabelSpace = run.trained.model.space_

    def handlers(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        return {"next": self.next, "suppose": self.suppose, "answer": self.answer, "undo": self.undo}

    @cached_property
    def file(self) -> AnswerFile:
        if self.run.data is None:
            raise DataError("the data of this run was not found\nPut it where it was, or beside the run's folder.")
        if self.space.width > MOST_COLUMNS:
            raise Refused(f"labels of {self.space.width:,} columns are too wide to be given here ({MOST_COLUMNS}).")
        return AnswerFile(beside(self.run.data), self.space)

    @cached_property
    def unlabelled(self) -> Unlabelled:
        """Rows of the data whose label is not fully known, read once."""
        import torch

        labelling = self.run.trained.labelling()
        numbers, known, logits, rows = [], [], [], 0
        assert self.run.data is not None  # `file` was asked for first
        for chunk in self.run.trained.chunks(self.run.data):
            y = self.space.complete(labelling.encode(chunk)) if self.space.rules else labelling.encode(chunk)
            some = np.flatnonzero((indices(self.space, y) < 0).any(axis=1))[: MOST_ROWS - rows]
            if len(some):
                part = chunk.take(some)
                numbers.append(some + chunk.first)
                known.append(y[some])
                logits.append(self.run.trained._logits(part))
            rows += len(some)
            if rows >= MOST_ROWS:
                break
        if not rows:
            return Unlabelled(np.arange(0), np.zeros((0, self.space.width), np.float32), torch.zeros(0), True)
        return Unlabelled(np.concatenate(numbers), np.concatenate(known), torch.cat(logits), rows < MOST_ROWS)

    @cached_property
    def _worth(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of each unlabelled row: what a label would tell, in nats, and the probabilities of its columns."""
        import torch

        from dssl.priors.mixture import Mixture

        u = self.unlabelled
        p = self.run.trained.model.decoder_.predictive(u.logits.double())
        p = p.given(torch.from_numpy(u.known).double())
        entropy = p.entropy_bounds()[1] if isinstance(p, Mixture) else p.entropy()
        return entropy.clamp_min(0).nan_to_num(0).numpy(), p.marginals.double().numpy()

    # ---- the queue ----

    def next(self, request: dict[str, Any]) -> dict[str, Any]:
        """The next row to label: not one `taken` by other pages, nor one to `skip`. `row` asks for a certain one."""
        aside = _rows(request, "taken") | _rows(request, "skip")
        current, u = self.file.current(), self.unlabelled
        if request.get("row") is not None:
            return self._shown(request["row"], current)
        asked = [i for i, number in enumerate(u.numbers.tolist()) if number in current]
        information, kinds = self._worth
        order = worth_labelling(information, kinds, asked, len(aside) + 1) if len(u.numbers) else []
        left = [int(u.numbers[i]) for i in order if int(u.numbers[i]) not in aside]
        if not left:
            return {"done": True, **self._state(current)}
        return self._shown(left[0], current)

    def _shown(self, row: Any, current: dict[int, Answer]) -> dict[str, Any]:
        """A row for the page: all its columns, its picture, and what is known and believed of it."""
        table = self.run.row({"row": row})
        u = self.unlabelled
        at = np.flatnonzero(u.numbers == row)
        now = current.get(row)
        return {
            "row": row,
            "place": table.place(0),
            "cells": self._cells(table),
            "picture": _picture(table),
            "seen": None if now is None else now.id,
            "earlier": None if now is None else self._told(now),
            "nats": float(self._worth[0][at[0]]) if len(at) else None,
            **self.suppose({"row": row, "said": {}}),
            **self._state(current),
        }

    def _cells(self, table: Table) -> list[list[str]]:
        """Names and texts of all columns, labels last, as the file has them."""
        labels = set(self.run.trained.preprocessing.labels)
        found = table.frame.row(0, named=True)
        order = sorted(found, key=lambda name: name in labels)
        return [[name, "" if found[name] is None else str(found[name])[:LONGEST_CELL]] for name in order]

    def _state(self, current: dict[int, Answer]) -> dict[str, Any]:
        given = self.file.given()
        return {
            "given": len(current),
            "left": len(self.unlabelled.numbers) - sum(int(n) in current for n in self.unlabelled.numbers),
            "all_rows": self.unlabelled.all_rows,
            "file": self.file.path.name,
            "recent": [{"id": a.id, "row": a.row, "label": self._told(a)} for a in given[-RECENT:][::-1]],
        }

    def _told(self, answer: Answer) -> str:
        if answer.kind == CANNOT_TELL:
            return CANNOT_TELL
        pairs = zip(self.space.variables, answer.cells)
        if all(variable.binary for variable in self.space.variables):
            return ", ".join(v.name for v, text in pairs if text == "1") or "none"
        return ", ".join(f"{variable.name} = {text}" for variable, text in pairs if text)

    # ---- what follows ----

    def suppose(self, request: dict[str, Any]) -> dict[str, Any]:
        """What follows from what is known and said of a row: impossible values with their rules, and the best label."""
        import torch

        from dssl.app.explorer.beliefs import judged

        table = self.run.row(request)
        known = self._known(table)
        said = self._said(request.get("said"))
        possible = [
            [k for k in said.get(i, range(len(v.values))) if _allowed(known[start:stop], v.binary, k)]
            for i, (v, (start, stop)) in enumerate(zip(self.space.variables, self.space.spans))
        ]
        ruled, clash = impossible(self.space, possible)
        out: dict[str, Any] = {
            "known": [i for i, v in enumerate(self.space.variables)
                      if not np.isnan(known[slice(*self.space.spans[i])]).any()],
            "ruled": [{"variable": v, "value": k, "rules": rules} for (v, k), rules in ruled.items()],
            "clash": clash,
        }  # fmt: skip
        if clash is not None:
            return out
        left = [[k for k in values if (i, k) not in ruled] for i, values in enumerate(possible)]
        evidence = torch.from_numpy(as_columns(self.space, left)[None]).double()
        z = self.run.trained._logits(table).double()
        p = self.run.trained.model.decoder_.predictive(z).given(evidence)
        told = judged(self.space, p, 3)
        return {**out, "possible": left, **told, "why": apart(self.space, told)}

    def _known(self, table: Table) -> Columns:
        return np.asarray(self.run.trained.labelling().encode(table)[0])

    def _said(self, said: Any) -> dict[int, list[int]]:
        """What was said: for some variables, the values that are possible."""
        if not isinstance(said, dict):
            raise Malformed("'said' must be an object: for a variable's number, the numbers of its possible values")
        out = {}
        for name, values in said.items():
            if not name.isdecimal() or int(name) >= len(self.space.variables) or not isinstance(values, list):
                raise Malformed(f"'said' names no variable: {name[:40]}")
            most = len(self.space.variables[int(name)].values)
            if not values or not all(type(k) is int and 0 <= k < most for k in values):
                raise Malformed(f"'said' has values that variable {name} does not have")
            out[int(name)] = sorted(set(values))
        return out

    # ---- answers ----

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write down what was said of a row, with what follows from it; an answer that breaks a rule is refused."""
        id, seen = request.get("id"), request.get("seen")
        row: Any = request.get("row")
        if not isinstance(id, str) or not (seen is None or isinstance(seen, str)):
            raise Malformed("an answer needs an 'id', and 'seen': the id of the answer it replaces, or null")
        self.run.row({"row": row})
        if request.get("cannot_tell") is True:
            kind, cells = CANNOT_TELL, [""] * len(self.space.variables)
        else:
            found = self.suppose(request)
            if found["clash"] is not None:
                raise DataError("this answer contradicts the rules\nTake part of it back.")
            kind = LABEL
            cells = [cell(v, values) for v, values in zip(self.space.variables, found["possible"])]
            if not any(cells):
                raise DataError("nothing was said about this row\nSay something, or that you cannot tell.")
        try:
            done = self.file.add(id, row, kind, cells, seen)
        except Meanwhile as other:
            now = other.answer
            return {"meanwhile": None if now is None else self._told(now), "seen": None if now is None else now.id}
        return {"written": done.id, **self._state(self.file.current())}

    def undo(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take an answer back."""
        id = request.get("id")
        if not isinstance(id, str):
            raise Malformed("'id' must be the id of an answer")
        done = self.file.undo(id)
        return {"row": done.row, **self._state(self.file.current())}


def _rows(request: dict[str, Any], name: str) -> set[int]:
    """A list of row numbers of a request."""
    rows = request.get(name, [])
    if not isinstance(rows, list) or len(rows) > MOST_ASIDE or not all(type(row) is int for row in rows):
        raise Malformed(f"'{name}' must be a list of up to {MOST_ASIDE:,} row numbers")
    return set(rows)


def _allowed(known: Columns, binary: bool, k: int) -> bool:
    """Whether what is known of a variable's columns leaves its value k."""
    if binary:
        return bool(np.isnan(known[0]) or known[0] == k)
    return bool(known[k] != 0) and not bool((np.delete(known, k) == 1).any())


def as_columns(space: LabelSpace, possible: Sequence[Sequence[int]]) -> Columns:
    """Possible values of each variable as columns (width,): 1, 0, or NaN where more than one is left."""
    out = np.full(space.width, np.nan, np.float32)
    for variable, (start, stop), values in zip(space.variables, space.spans, possible):
        if variable.binary:
            out[start] = values[0] if len(values) == 1 else np.nan
            continue
        for k in range(stop - start):
            out[start + k] = 0 if k not in values else 1 if len(values) == 1 else np.nan
    return out


def impossible(
    space: LabelSpace, possible: Sequence[Sequence[int]]
) -> tuple[dict[tuple[int, int], list[int]], list[int] | None]:
    """Values (variable, value) that rules exclude, given those that are possible, with a minimal set of such rules.

    The second is a minimal set of rules that contradict what is possible, None if nothing does.
    """
    offsets = space.constraints.offsets
    with space.solvers.borrowed() as solver:
        assumed = [
            -solver.literal(offset + k)
            for offset, variable, values in zip(offsets, space.variables, possible)
            for k in range(len(variable.values))
            if k not in values
        ]
        if any(not values for values in possible):
            return {}, []
        clash = solver.conflict(assumed)
        if clash is not None:
            return {}, clash
        out = {}
        for v, values in enumerate(possible):
            for k in values if len(values) > 1 else ():
                literals = [*assumed, solver.literal(offsets[v] + k)]
                if not solver.satisfiable(literals):
                    out[v, k] = solver.conflict(literals) or []
    return out, None


def apart(space: LabelSpace, told: dict[str, Any]) -> str | None:
    """A sentence about a variable whose value in the most probable label is not its own most probable value."""
    best = told["top"][0]["label"]
    for i, (variable, (start, stop)) in enumerate(zip(space.variables, space.spans)):
        p = told["marginals"][start:stop]
        chances = [1 - p[0], p[0]] if variable.binary else p
        top = int(np.argmax(chances))
        if top != best[i] and chances[top] - chances[best[i]] > 1e-9:
            name = [f"{'' if k else 'not '}{variable.name}" for k in (0, 1)] if variable.binary else [
                f"{variable.name} = {value}" for value in variable.values
            ]  # fmt: skip
            return (
                f"{name[top]} is more probable by itself ({100 * chances[top]:.0f} %), summed over many labels, each "
                f"of little probability; the single most probable label has {name[best[i]]} "
                f"({100 * math.exp(told['top'][0]['log_p']):.0f} % for the whole of it)."
            )
    return None


def _picture(table: Table) -> str | None:
    """The image of a row as a data address, if it is one."""
    return None if table.images is None or table.images.ndim not in (3, 4) else picture(table.images[0])
