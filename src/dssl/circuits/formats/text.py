"""What the readers of circuits as text share: lines with errors that point into the file, and nodes built in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np

from dssl import files
from dssl.circuits.circuit import Circuit
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE
from dssl.errors import DataError
from dssl.logic.language.variables import shown

MOST_VARIABLES = 1_000_000  # each becomes a column with a name
Line = tuple[int, list[str]]  # number from 1, words
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class Source:
    """A file of lines, and errors that point into it."""

    name: str
    text: str

    @classmethod
    def of(cls, source: str | Path) -> Source:
        """A text is told from a path by its line breaks."""
        if isinstance(source, str) and "\n" in source:
            return cls("the text", source)
        try:
            return cls(str(source), files.present(source).read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise DataError(
                f"{source}, byte {error.start}: not a text file. Pass the compiler's text output."
            ) from error

    def lines(self) -> Iterator[Line]:
        """Lines that say something: no comments, no empty ones."""
        for number, line in enumerate(self.text.splitlines(), 1):
            words = line.split()
            if words and words[0] != "c":
                yield number, words

    def fail(
        self, line: int, reason: str, remedy: str = "Was the file cut short or edited? Write it again."
    ) -> NoReturn:
        raise DataError(f"{self.name}, line {line}: {reason}. {remedy}")

    def integers(self, line: int, words: list[str]) -> list[int]:
        bad = next((word for word in words if not _WHOLE.fullmatch(word)), None)
        if bad is not None:
            self.fail(line, f"expected whole numbers, found '{shown(bad)}'")
        return [int(word) for word in words]


@dataclass
class Builder:
    """Nodes in order, each once, without constants and single children."""

    nodes: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=lambda: [(FALSE, 0, ()), (TRUE, 0, ())])
    number: dict[tuple[int, int, tuple[int, ...]], int] = field(default_factory=dict)

    def add(self, kind: int, literal: int, children: tuple[int, ...]) -> int:
        key = (kind, literal, children)
        if key not in self.number:
            self.number[key] = len(self.nodes)
            self.nodes.append(key)
        return self.number[key]

    def literal(self, literal: int) -> int:
        return self.add(LITERAL, literal, ())

    def conjunction(self, children: list[int]) -> int:
        if FALSE in children:  # the nodes FALSE and TRUE have the numbers of their kinds
            return FALSE
        children = [x for x in children if x != TRUE]
        return self.add(AND, 0, tuple(children)) if len(children) > 1 else children[0] if children else TRUE

    def disjunction(self, children: list[int]) -> int:
        children = [x for x in children if x != FALSE]
        return self.add(OR, 0, tuple(children)) if len(children) > 1 else children[0] if children else FALSE

    def finish(self, root: int, columns: int) -> Circuit:
        """The circuit of what lies below `root`, over binary columns."""
        if columns > MOST_VARIABLES:
            raise DataError(
                f"a circuit over {columns:,} variables is more than {MOST_VARIABLES:,}. "
                "Number the variables without gaps, from 1."
            )
        used = np.zeros(len(self.nodes), bool)
        used[root] = True
        for node in range(root, -1, -1):
            if used[node]:
                used[list(self.nodes[node][2])] = True
        new = np.cumsum(used) - 1
        nodes = [node for node, keep in zip(self.nodes, used) if keep]
        below = np.array([x for _, _, children in nodes for x in children], dtype=np.int64)
        return Circuit(
            kind=np.array([kind for kind, _, _ in nodes], dtype=np.int8),
            literal=np.array([literal for _, literal, _ in nodes], dtype=np.int32),
            ptr=np.cumsum([0, *(len(children) for _, _, children in nodes)]),
            child=new[below].astype(np.int32),
            starts=np.arange(columns + 1, dtype=np.int32),
            categorical=np.zeros(columns, bool),
            names=tuple(f"x{i + 1}" for i in range(columns)),
        )

    def columns(self) -> int:
        """The highest variable of any literal."""
        return max((abs(literal) for _, literal, _ in self.nodes), default=0)
