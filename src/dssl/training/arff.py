"""ARFF, the table format of Weka, as published multi-label and hierarchical sets use it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dssl.circuits.packed import Damaged, unpacked
from dssl.errors import DataError
from dssl.logic.variables import shown

_ATTRIBUTE = re.compile(r"""@attribute\s+(?:'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)"|(\S+))\s+(.+)""", re.IGNORECASE)
_PLACE = re.compile("[0-9]{1,9}")
_NUMERIC = ("numeric", "real", "integer")


@dataclass(frozen=True)
class Arff:
    """A table: x (n, features) with NaN where a value is missing, nominal values as indices.

    `values`: of each feature, its nominal values; empty for numbers. A class attribute of the type "hierarchical" is
    not a feature: its entries are in `hierarchy` and the rows' in `labels`, as they are written.
    """

    features: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    x: NDArray[np.float64]
    hierarchy: tuple[str, ...] | None
    labels: tuple[str, ...]


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
    )


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
            raise DataError(f"'{path}', line {i}: this is no attribute\n  {line[:100]}\nGive an ARFF file.")
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
        raise DataError(f"{where}: {error}\nMend or remove the line.") from None


def _row(line: str, attributes: list[tuple[str, _Kind]], where: str) -> list[float | str]:
    if line.startswith("{"):  # sparse: only some entries, each with its attribute's number; others are 0
        row: list[float | str] = [0.0] * len(attributes)
        for cell in _cells(line.strip("{}"), where) if line.strip("{} ") else []:
            place, _, value = cell.partition(" ")
            if not _PLACE.fullmatch(place) or int(place) >= len(attributes):
                raise DataError(
                    f"{where}: '{shown(place)}' is the number of no attribute\n"
                    f"Give numbers from 0 to {len(attributes) - 1}, each with its value."
                )
            row[int(place)] = _entry(value.strip().strip("'\""), attributes[int(place)][1], where)
        return row
    cells = _cells(line, where)
    if len(cells) != len(attributes):
        raise DataError(f"{where}: {len(cells)} entries for {len(attributes)} attributes\nMend or remove the line.")
    return [_entry(cell, kind, where) for cell, (_, kind) in zip(cells, attributes)]


def _entry(cell: str, kind: _Kind, where: str) -> float | str:
    if isinstance(kind, _Hierarchy):
        return cell
    if cell == "?":
        return float("nan")
    try:
        return float(cell) if kind is None else float(kind[cell])
    except (ValueError, KeyError):
        raise DataError(f"{where}: the entry '{cell[:40]}' does not fit its attribute\nMend or remove it.") from None
