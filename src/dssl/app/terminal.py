"""What commands say: text and tables for people, one JSON object for machines, errors in one style."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any

from cyclopts import Parameter

JSON = Parameter(help="Print one JSON object, and nothing else, on stdout.", negative="")  # the flag of all commands
_WIDTH = 110  # of tables that are not shown on a terminal


class UsageError(Exception):
    """Flags that do not go together."""


class Terminal:
    """Where a command prints. `as_json`: text for people is left out, and `result` prints one object on stdout.

    Warnings go to stderr, and into the object too.
    """

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.silent = as_json, as_json or quiet
        self.warnings: list[str] = []

    def say(self, text: str = "") -> None:
        """A line for people, never wrapped or cut."""
        if not self.silent:
            print(text, flush=True)

    def table(self, *head: str, rows: Iterable[Iterable[object]], title: str | None = None) -> None:
        """A table for people."""
        if self.silent:
            return
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*head, title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for row in rows:
            table.add_row(*(Text(str(cell)) for cell in row))
        width = None if sys.stdout.isatty() else _WIDTH
        Console(width=width, highlight=False).print(table)

    def counted(self, frames: Iterable[Sized]) -> Iterator[Any]:
        """The same frames; people at a terminal see how many rows have come so far."""
        if self.silent or not sys.stderr.isatty():
            yield from frames
            return
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.completed:,} rows"), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("rows", total=None)
            for frame in frames:
                yield frame
                progress.advance(task, len(frame))

    def warn(self, text: str) -> None:
        """Something the user may not expect, and what to do about it."""
        self.warnings.append(text)
        print(f"warning: {text}", file=sys.stderr, flush=True)

    def result(self, facts: Mapping[str, Any]) -> None:
        """What came out, for machines."""
        if self.as_json:
            print(json.dumps({**facts, "warnings": self.warnings}, ensure_ascii=False, default=str))


def error_text(error: BaseException) -> str:
    """What went wrong with a file, in the style of our own errors."""
    if isinstance(error, OSError) and error.filename is not None:
        name = Path(str(error.filename))
        return f"'{name}': {error.strerror}\n{_neighbour(name)}Check the path and its permissions."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):  # files say theirs
        return f"the output cannot be written: {error.strerror}\nFree some space, and try again."
    return str(error)


def _neighbour(name: Path) -> str:
    """The file in the same folder whose name is closest to one that is not there."""
    from dssl.logic.language.variables import nearest

    if name.exists() or not name.parent.is_dir():
        return ""
    return nearest(name.name, (other.name for other in name.parent.iterdir() if other.name != name.name))
