"""The errors users meet: of rules, data, files and budgets. Each states the fact, the input and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class RuleError(ValueError):
    """Something is wrong with rules: their text, their types, or what they say together.

    `line` and `column` count from 1 and are None for rules that did not come from text; `file` is the file that they
    were read from, if any.

    Threads may share it.
    """

    def __init__(
        self,
        reason: str,
        *,
        remedy: str = "",
        line: int | None = None,
        column: int | None = None,
        source: str | None = None,
        file: str | Path | None = None,
    ) -> None:
        self.reason, self.remedy, self.line, self.column, self.source = reason, remedy, line, column, source
        self.file = file
        super().__init__(self._message())

    def _message(self) -> str:
        where = [f"'{self.file}'"] if self.file is not None else []
        where += [f"line {self.line}, column {self.column}"] if self.line is not None else []
        parts = [", ".join(where) + (": " if where else "") + self.reason]
        if self.source is not None and self.column is not None:
            text, caret = _window(self.source, self.column)
            parts.append(f"  {text}\n  {' ' * caret}^")
        elif self.source is not None:
            parts.append(f"  {_window(self.source, 1)[0]}")
        if self.remedy:
            parts.append(self.remedy)
        return "\n".join(parts)


class ContradictionError(RuleError):
    """No label obeys all rules. `rules` is a smallest list of rules that contradict each other."""

    def __init__(self, reason: str, *, rules: tuple[Any, ...] = (), **place: Any) -> None:
        self.rules = rules
        super().__init__(reason, **place)


class BudgetError(RuntimeError):
    """A search used up its seconds, nodes or bytes: how far it came, and what to do."""


class DataError(ValueError):
    """Something is wrong with labels or data, or a file is not what it should be: the fact, the place, the remedy.

    Threads may share it.
    """


class WriteError(OSError, DataError):
    """A file cannot be written: which, why, the remedy. `errno` is the system's."""

    def __str__(self) -> str:
        return str(self.strerror)


_SHOWN = 100


def _window(source: str, column: int) -> tuple[str, int]:
    """The part of a long line around `column`, and where the caret stands in it."""
    text = "".join(c if c.isprintable() else " " for c in source)
    start = max(0, column - 1 - _SHOWN // 2) if len(text) > _SHOWN else 0
    shown = text[start : start + _SHOWN]
    lead = "…" if start else ""
    tail = "…" if start + _SHOWN < len(text) else ""
    return lead + shown + tail, len(lead) + column - 1 - start


def in_file(error: RuleError, path: str | Path) -> RuleError:
    """The same error, with the file that the rules are in."""
    error.file = path
    error.args = (error._message(),)
    return error
