"""Circuits as text files of the SDD package: `.sdd`, with their `.vtree`.

A file is read as it is; before the circuit is asked anything, it is proved decomposable and deterministic (`proof`).
The columns of a circuit that was read are all binary and named x1, x2, … by the file's variables.
"""

from __future__ import annotations

from pathlib import Path

from dssl.circuits.circuit import Circuit
from dssl.circuits.formats.text import Builder, Source
from dssl.circuits.nodes import FALSE, TRUE


def from_sdd(path: str | Path, vtree: str | Path | None = None) -> Circuit:
    """Read an `.sdd` file; its `.vtree`, if given, tells how many variables there are beyond those that occur."""
    file = Source.of(path)
    builder, ids = Builder(), {}
    announced, last = None, None
    for at, words in file.lines():
        numbers = file.integers(at, words[1:])
        if words[0] == "sdd" and len(numbers) == 1:
            announced = numbers[0]
        elif words[0] in ("F", "T") and len(numbers) == 1:
            ids[numbers[0]] = FALSE if words[0] == "F" else TRUE
        elif words[0] == "L" and len(numbers) == 3 and numbers[2]:
            ids[numbers[0]] = builder.literal(numbers[2])
        elif words[0] == "D" and len(numbers) >= 3 and len(numbers) == 3 + 2 * numbers[2]:
            elements = numbers[3:]
            if missing := [x for x in elements if x not in ids]:
                file.fail(at, f"node {missing[0]} is not above this line")
            pairs = zip(elements[::2], elements[1::2])
            ids[numbers[0]] = builder.disjunction([builder.conjunction([ids[p], ids[s]]) for p, s in pairs])
        else:
            file.fail(at, f"expected `F`, `T`, `L` or `D` lines of an SDD, found `{' '.join(words)[:60]}`")
        last = numbers[0] if words[0] != "sdd" else last
    if last is None or (announced is not None and announced != len(ids)):
        file.fail(file.text.count("\n") + 1, f"the header announces {announced} nodes, and the file has {len(ids)}")
    columns = max(builder.columns(), _vtree_variables(vtree) if vtree is not None else 0)
    return builder.finish(ids[last], columns)


def _vtree_variables(path: str | Path) -> int:
    """The highest variable of a vtree."""
    file = Source.of(path)
    highest = 0
    for at, words in file.lines():
        numbers = file.integers(at, words[1:])
        if words[0] == "L" and len(numbers) == 2:
            highest = max(highest, numbers[1])
        elif (words[0], len(numbers)) not in (("vtree", 1), ("I", 3)):
            file.fail(at, f"expected `vtree`, `L` or `I` lines, found `{' '.join(words)[:60]}`")
    return highest
