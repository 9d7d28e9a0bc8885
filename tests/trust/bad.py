"""A bad input: how it is made, who is given it, and what must be said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dssl.errors import DataError

Make = Callable[[Path], object]
Content = bytes | str | Callable[[], bytes]


@dataclass(frozen=True)
class Bad:
    """`make` puts the input into an empty folder; `call` gives it to the library there, which must raise `kind`.

    `said` is a piece of the fact and a piece of the remedy, with " … " between them. `by_scikit`: arrays and parameters
    are checked by scikit-learn, in its own words, as for every estimator.
    """

    name: str
    make: Make
    call: Callable[[Path], Any]
    said: str
    kind: type[Exception] = DataError
    by_scikit: bool = False


@dataclass(frozen=True)
class Typed:
    """A command line that must fail with `code`; {model} and {run} stand for folders that are right."""

    name: str
    make: Make
    words: str
    said: str
    code: int = 1


def nothing(folder: Path) -> None:
    """No file is needed."""


def put(name: str, content: Content) -> Make:
    """A file with this content."""

    def make(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content() if callable(content) else content
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    return make


def both(*makes: Make) -> Make:
    """Several files."""

    def make(folder: Path) -> None:
        for one in makes:
            one(folder)

    return make


def link(name: str, target: str) -> Make:
    """A symbolic link."""
    return lambda folder: (folder / name).symlink_to(target)


def edited(path: str, change: Callable[[Any], object]) -> Make:
    """A JSON file, changed in place; what `change` gives back, if anything, replaces it."""

    def make(folder: Path) -> None:
        file = folder / path
        held = json.loads(file.read_text())
        out = change(held)
        file.write_text(json.dumps(held if out is None else out))

    return make


def deep(opening: str, closing: str, depth: int = 100_000) -> str:
    return opening * depth + closing * depth
