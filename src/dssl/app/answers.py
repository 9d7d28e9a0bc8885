"""Answers that people give about rows: a CSV file beside the data, to which lines are added, whole or not at all.

A line has an id, the number of its row, when it was given, what it is, and a cell for each variable. An answer that is
taken back stays in the file, with a line that says so. Whoever adds a line holds a lock on the file, reads what is
there, and waits until the line is on disk: two people, two pages or a crash neither lose an answer nor count one twice.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from dssl import files
from dssl.data.labelling import NOT, OR, Labelling
from dssl.data.tables import Table
from dssl.errors import DataError
from dssl.logic.labels import Columns
from dssl.logic.language.variables import Variable, listed, shown
from dssl.logic.space import LabelSpace

LABEL, CANNOT_TELL, UNDO = "label", "cannot tell", "undo"
_FIRST = ("id", "row", "time", "answer")
_ID = re.compile(r"[0-9a-z-]{8,64}")


@dataclass(frozen=True)
class Answer:
    """What someone said about a row; `cells` has the text of each variable, empty where nothing is known."""

    id: str
    row: int
    time: str
    kind: str
    cells: tuple[str, ...]


class Meanwhile(Exception):
    """Someone else has answered for the row, or taken an answer back. `answer`: the one that holds now, if any does."""

    def __init__(self, answer: Answer | None) -> None:
        super().__init__("this row was answered meanwhile")
        self.answer = answer


def beside(data: Path) -> Path:
    """The file of answers about a file of data, or about a folder of images.

    >>> beside(Path("pets/cats.csv")).as_posix(), beside(Path("pets/photos")).as_posix()
    ('pets/cats.answers.csv', 'pets/photos.answers.csv')
    """
    return data.with_name(f"{data.stem if data.is_file() or data.suffix else data.name}.answers.csv")


@dataclass(frozen=True)
class AnswerFile:
    """The answers about rows of one file, for the variables of one space."""

    path: Path
    space: LabelSpace

    @property
    def names(self) -> list[str]:
        return [variable.name for variable in self.space.variables]

    # ---- reading ----

    def given(self) -> list[Answer]:
        """All answers that were not taken back, in the order in which they were given."""
        return _standing(self._read(self._bytes()))

    def current(self) -> dict[int, Answer]:
        """The answer that holds for each row: the last one."""
        return {answer.row: answer for answer in self.given()}

    def labels(self) -> tuple[list[int], Columns]:
        """Rows and what is known of them as columns (n, width); rows of which nothing could be told are left out."""
        told = [answer for answer in self.current().values() if answer.kind == LABEL]
        frame = pl.DataFrame(
            {name: [answer.cells[i] or None for answer in told] for i, name in enumerate(self.names)},
            schema=dict.fromkeys(self.names, pl.String),
        )
        places = np.array([answer.row for answer in told], dtype=np.int64)
        table = Table(self.path, "CSV", frame, first=0, rows=places)
        columns = Labelling(tuple(self.names), tuple(self.names), self.space).encode(table)
        return [answer.row for answer in told], columns

    def _bytes(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""

    def _read(self, content: bytes) -> list[Answer]:
        """The lines of a file; an error if it is not one of ours. A last line without its end was never confirmed."""
        whole = content[: content.rfind(b"\n") + 1]
        try:
            head, *lines = list(csv.reader(io.StringIO(whole.decode(), newline=""), strict=True)) or [[]]
            out = [Answer(line[0], int(line[1]), line[2], line[3], tuple(line[4:])) for line in lines]
        except (ValueError, IndexError, csv.Error) as error:
            raise DataError(
                f"'{self.path}' is not a file of answers: {shown(str(error))}\nMove it away, or mend that line."
            ) from None
        if head and head != [*_FIRST, *self.names]:
            raise DataError(
                f"'{self.path}' has answers for other labels: {listed(head[4:], 8)}\n"
                f"This run has {listed(self.names, 8)}. Move the file away, or open the run that it belongs to."
            )
        if any(len(answer.cells) != len(self.names) for answer in out):
            raise DataError(f"'{self.path}' has lines of different lengths\nMove it away, or mend it.")
        return out

    # ---- writing ----

    def add(self, id: str, row: int, kind: str, cells: Sequence[str], seen: str | None = None) -> Answer:
        """Write an answer, once, however often it is sent.

        `seen`: the id of the answer that its giver saw for the row, None for none. If another holds by now, nothing is
        written, and `Meanwhile` says which.
        """
        if not _ID.fullmatch(id):
            raise DataError(f"'{shown(id)}' cannot be the id of an answer\nGive 8 to 64 letters, digits or dashes.")
        if kind not in (LABEL, CANNOT_TELL) or len(cells) != len(self.names):
            raise DataError(f"this is not an answer: {shown(kind)}, {len(cells)} cells\nGive a cell for each variable.")
        with self._held() as written:
            same = next((answer for answer in written if answer.id == id), None)
            if same is not None:
                return same
            now = {answer.row: answer for answer in _standing(written)}.get(row)
            if seen != (None if now is None else now.id):
                raise Meanwhile(now)
            answer = Answer(id, row, datetime.now(UTC).isoformat(timespec="seconds"), kind, tuple(cells))
            self._append(answer, first=not written)
        return answer

    def undo(self, id: str) -> Answer:
        """Take an answer back, once, however often that is asked for."""
        with self._held() as written:
            answer = next((answer for answer in written if answer.id == id), None)
            if answer is None:
                raise DataError(f"there is no answer '{shown(id)}' to take back\nIt may be in another file.")
            if answer in _standing(written):
                time = datetime.now(UTC).isoformat(timespec="seconds")
                self._append(Answer(id, answer.row, time, UNDO, ("",) * len(self.names)), first=False)
        return answer

    @contextmanager
    def _held(self) -> Iterator[list[Answer]]:
        """What is in the file, which nobody else can add to meanwhile; half a line that a crash left is cut off."""
        try:
            with open(self.path, "a+b", buffering=0) as file:
                files.hold(file)
                content = self._bytes()
                answers = self._read(content)
                file.truncate(content.rfind(b"\n") + 1)
                yield answers
        except OSError as error:
            raise files.write_error(self.path, error) from None

    def _append(self, answer: Answer, *, first: bool) -> None:
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator="\n")
        if first and self.path.stat().st_size == 0:
            writer.writerow([*_FIRST, *self.names])
        writer.writerow([answer.id, answer.row, answer.time, answer.kind, *answer.cells])
        files.append(self.path, out.getvalue().encode(), durable=True)


def _standing(written: Sequence[Answer]) -> list[Answer]:
    """The answers of a file that were not taken back."""
    undone = {answer.id for answer in written if answer.kind == UNDO}
    return [answer for answer in written if answer.id not in undone]


# ---- cells ----


def cell(variable: Variable, possible: Sequence[int]) -> str:
    """The text of what is known of a variable: which of its values, by their indices, are still possible.

    >>> pet = Variable("pet", "categorical", ("cat", "dog", "trout"))
    >>> [cell(pet, possible) for possible in ([0], [0, 1], [0, 1, 2])], cell(Variable("legs"), [1])
    (['cat', '!trout', ''], '1')
    """
    values = [str(int(value)) if variable.binary else str(value) for value in variable.values]
    if len(possible) == len(values):
        return ""
    if len(possible) == 1:
        return values[possible[0]]
    out = [value for i, value in enumerate(values) if i not in possible]
    text = NOT + out[0] if len(out) == 1 else OR.join(values[i] for i in possible)
    if any(OR in value or value.startswith(NOT) for value in values):
        raise DataError(
            f"'{variable.name}' has values with {OR} or {NOT} in them, so that one of several cannot be written\n"
            "Choose one value, or say that you cannot tell."
        )
    return text
