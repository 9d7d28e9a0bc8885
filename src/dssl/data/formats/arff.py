"""ARFF, the table format of Weka, as published multi-label and hierarchical sets use it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dssl.circuits.formats.packed import Damaged, unpacked
from dssl.errors import DataError
from dssl.logic.language.variables import shown

_ATTRIBUTE = re.compile(r"""@attribute\s+(?:'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)"|(\S+))\s+(.+)""", re.IGNORECASE)
_PLACE = re.compile("[0-9]{1,9}")
_NUMERIC = ("numeric", "real", "integer")


@dataclass(frozen=True)
class Arff:
    """A table: x (n, features) with NaN where a value is missing, nominal values as indices.

    `values`: the nominal values of each feature; empty for numbers. A class attribute of the type "hierarchical" is
    not a feature: `target` is its name, its entries are in `hierarchy`, those of the rows in `labels`, as they are
    written.
    """

    features: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    x: NDArray[np.float64]
    hierarchy: tuple[str, ...] | None
    labels: tuple[str, ...]
    target: str = ""


def read_arff(path: Path) -> Arff:
    """Reads an ARFF file, dense or sparse, compressed (.gz) or not."""
    lines = ((i, line.strip()) for i, line in enumerate(_text(path).split("\n"), 1))
    kept = ((i, line) for i, line in lines if line and not line.startswith("%"))
    attributes = _attributes(kept, path)
    rows = [_row(line, attributes, f"'{path}', line {i}") for i, line in kept]
    hierarchical = [i for i, (_, kind) in enumerate(attributes) if isinstance(kind, _Hierarchy)]
    if len(hierarchical) > 1:
        raise DataError(f"'{path}' has {len(hierarchical)} hierarchical attributes\nOne is supported.")
    plain = [i for i in range(len(attributes)) if i not in hierarchical]
    x = np.array([[row[i] for i in plain] for row in rows], np.float64).reshape(len(rows), len(plain))
    tree = attributes[hierarchical[0]][1] if hierarchical else None
    return Arff(
        tuple(attributes[i][0] for i in plain),
        tuple(_nominal(attributes[i][1]) for i in plain),
        x,
        tree.entries if isinstance(tree, _Hierarchy) else None,
        tuple(str(row[hierarchical[0]]) for row in rows) if hierarchical else (),
        attributes[hierarchical[0]][0] if hierarchical else "",
    )


def parents_of(entries: Sequence[str], where: str = "the file") -> dict[str, list[str]]:
    """The parents of each class, from '/'-paths (01/01/03) or from edges parent/child.

    >>> parents_of(["01", "01/02"]), parents_of(["root/a", "a/b"])
    ({'01': [], '01/02': ['01']}, {'a': [], 'b': ['a']})
    """
    if any(entry.startswith("root/") for entry in entries):
        return _edges(entries, where)
    parents: dict[str, list[str]] = {}
    for entry in entries:
        steps = entry.split("/")
        for depth in range(1, len(steps) + 1):
            parents["/".join(steps[:depth])] = ["/".join(steps[: depth - 1])] if depth > 1 else []
    return parents


def _edges(entries: Sequence[str], where: str) -> dict[str, list[str]]:
    parents: dict[str, list[str]] = {}
    for entry in entries:
        parent, _, child = entry.partition("/")
        if not child or "/" in child:
            raise DataError(
                f"the hierarchy of {where} has the entry '{shown(entry)}' among edges parent/child\n"
                "Write paths from the top, such as 01/02, or edges, of which some begin with root/; not both."
            )
        above = parents.setdefault(child, [])
        if parent != "root":
            parents.setdefault(parent, [])
            above.append(parent)
    return parents


def with_parents(joined: str, parents: Mapping[str, list[str]], where: str) -> list[str]:
    """The classes in a text such as 'a@b', and all classes above them.

    >>> with_parents("01/02@03", {"01": [], "01/02": ["01"], "03": []}, "row 0")
    ['03', '01/02', '01']
    """
    found: dict[str, None] = {}
    waiting = [name for name in joined.split("@") if name]
    while waiting:
        name = waiting.pop()
        if name not in parents:
            raise DataError(
                f"{where} has the class '{shown(name)}', which the hierarchy does not have\n"
                "Use files of one set: the hierarchy is that of the training file."
            )
        if name not in found:
            found[name] = None
            waiting += parents[name]
    return list(found)


def _text(path: Path) -> str:
    try:
        return unpacked(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"'{path}' is not UTF-8 text (byte {error.start})\nSave it as UTF-8.") from None
    except Damaged as error:
        raise DataError(f"'{path}' cannot be unpacked: {error}\nGet the file again, or unpack it.") from None


@dataclass(frozen=True)
class _Hierarchy:
    entries: tuple[str, ...]


_Kind = dict[str, int] | _Hierarchy | None  # nominal values and their indices, a hierarchy, or numbers


def _nominal(kind: _Kind) -> tuple[str, ...]:
    return tuple(kind) if isinstance(kind, dict) else ()


def _attributes(lines: Iterator[tuple[int, str]], path: Path) -> list[tuple[str, _Kind]]:
    """The attributes up to @data, which is consumed."""
    out: list[tuple[str, _Kind]] = []
    for i, line in lines:
        if line.lower().startswith("@data"):
            return out
        if line.lower().startswith("@relation"):
            continue
        match = _ATTRIBUTE.fullmatch(line)
        if match is None:
            raise DataError(f"'{path}', line {i}: this is not an attribute\n  {line[:100]}\nGive an ARFF file.")
        single, double, bare, kind = match.groups()
        name = bare if bare is not None else re.sub(r"\\(.)", r"\1", single if single is not None else double)
        out.append((name, _kind(kind.strip(), f"'{path}', line {i}")))
    raise DataError(f"'{path}' has no @data\nGive a whole ARFF file.")


def _kind(text: str, where: str) -> _Kind:
    if text.lower() in _NUMERIC:
        return None
    if text.startswith("{") and text.endswith("}"):
        values = _cells(text[1:-1], where)
        if len(set(values)) < len(values):
            twice = max(values, key=values.count)
            raise DataError(f"{where}: the value '{shown(twice)}' is listed twice\nRemove one of them.")
        return {value: i for i, value in enumerate(values)}
    word, _, rest = text.partition(" ")
    if word.lower() == "hierarchical":
        return _Hierarchy(tuple(entry.strip() for entry in rest.split(",")))
    raise DataError(f"{where}: attributes of the type '{text[:40]}' are not supported\nUse numeric or nominal ones.")


def _cells(line: str, where: str) -> list[str]:
    reader = csv.reader([line], quotechar="'" if "'" in line else '"', escapechar="\\", skipinitialspace=True)
    try:
        return [cell.strip() for cell in next(reader)]
    except csv.Error as error:
        raise DataError(f"{where}: {error}\nCorrect or remove the line.") from None


def _row(line: str, attributes: list[tuple[str, _Kind]], where: str) -> list[float | str]:
    if line.startswith("{"):  # sparse: only some entries, each with its attribute's number; others are 0
        row: list[float | str] = [0.0] * len(attributes)
        for cell in _cells(line.strip("{}"), where) if line.strip("{} ") else []:
            place, _, value = cell.partition(" ")
            if not _PLACE.fullmatch(place) or int(place) >= len(attributes):
                raise DataError(
                    f"{where}: there is no attribute number '{shown(place)}'\n"
                    f"Give numbers from 0 to {len(attributes) - 1}, each with its value."
                )
            row[int(place)] = _entry(value.strip().strip("'\""), attributes[int(place)][1], where)
        return row
    cells = _cells(line, where)
    if len(cells) != len(attributes):
        raise DataError(f"{where}: {len(cells)} entries for {len(attributes)} attributes\nCorrect or remove the line.")
    return [_entry(cell, kind, where) for cell, (_, kind) in zip(cells, attributes)]


def _entry(cell: str, kind: _Kind, where: str) -> float | str:
    if isinstance(kind, _Hierarchy):
        return cell
    if cell == "?":
        return float("nan")
    try:
        return float(cell) if kind is None else float(kind[cell])
    except (ValueError, KeyError):
        raise DataError(f"{where}: the entry '{cell[:40]}' does not fit its attribute\nCorrect or remove it.") from None
