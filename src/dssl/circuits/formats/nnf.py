"""Circuits as text files of c2d and d4: `.nnf`.

A file is read as it is; before the circuit is asked anything, it is proved decomposable and deterministic (`proof`).
The columns of a circuit that was read are all binary and named x1, x2, … by the file's variables.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dssl.circuits.circuit import Circuit
from dssl.circuits.formats.text import Builder, Line, Source
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE
from dssl.errors import DataError

# ---- reading ----


def from_nnf(source: str | Path, *, variables: int | None = None) -> Circuit:
    """Read a circuit in c2d's `.nnf` (header, L, A, O lines) or d4's (o, a, t, f lines and edges with literals).

    `source` is a path, or the text itself if it has a line break. d4 does not write how many variables there are:
    pass `variables` where the last ones are free and so do not occur. A file that does not fit is a DataError.
    """
    file = Source.of(source)
    lines = list(file.lines())
    if not lines:
        file.fail(
            1, "nothing but comments", "Pass a file with an `nnf` header (c2d) or with `o`, `a`, `t`, `f` lines (d4)."
        )
    builder = Builder()
    if lines[0][1][0] == "nnf":
        root, columns = _read_c2d(file, lines, builder)
    else:
        root, columns = _read_d4(file, lines, builder), builder.columns()
    if variables is not None and variables < builder.columns():
        raise DataError(f"{file.name} uses variable {builder.columns()}, but variables={variables}. Raise it.")
    return builder.finish(root, columns if variables is None else variables)


def _read_c2d(file: Source, lines: list[Line], builder: Builder) -> tuple[int, int]:
    """The root and the number of variables."""
    at, words = lines[0]
    header = file.integers(at, words[1:])
    if len(header) != 3 or min(header) < 0:
        file.fail(at, "expected `nnf nodes edges variables`", "Pass a file in c2d's format.")
    nodes, _, columns = header
    ids: list[int] = []
    for at, words in lines[1:]:
        numbers = file.integers(at, words[1:])
        if words[0] == "L" and len(numbers) == 1:
            if not 1 <= abs(numbers[0]) <= columns:
                file.fail(at, f"literal {numbers[0]} is not among the {columns} variables of the header")
            ids.append(builder.literal(numbers[0]))
            continue
        skip = {"A": 1, "O": 2}.get(words[0], 0)  # numbers before the children: (decision variable,) arity
        if not skip or len(numbers) < skip or numbers[skip - 1] != len(numbers) - skip:
            file.fail(at, f"expected `L literal`, `A n …` or `O j n …` with n children, found `{' '.join(words)[:60]}`")
        if any(not 0 <= x < len(ids) for x in numbers[skip:]):
            file.fail(at, f"a child is not among the {len(ids)} nodes above")
        children = [ids[x] for x in numbers[skip:]]
        ids.append(builder.conjunction(children) if words[0] == "A" else builder.disjunction(children))
    if len(ids) != nodes or not ids:
        file.fail(lines[-1][0], f"the header announces {nodes} nodes, and the file has {len(ids)}")
    return ids[-1], columns


def _read_d4(file: Source, lines: list[Line], builder: Builder) -> int:
    """The root: node 1, or the only node that is nobody's child."""
    kinds: dict[int, str] = {}
    edges: dict[int, list[tuple[int, list[int], int]]] = {}  # parent → (child, literals, line)
    for at, words in lines:
        numbers = file.integers(at, words[1:] if words[0] in set("oatf") else words)
        if words[0] in set("oatf") and len(numbers) == 2 and numbers[1] == 0:
            kinds[numbers[0]] = words[0]
        elif len(numbers) >= 3 and numbers[-1] == 0 and words[0] not in set("oatf") and 0 not in numbers[:-1]:
            edges.setdefault(numbers[0], []).append((numbers[1], numbers[2:-1], at))
        else:
            file.fail(at, f"expected `o|a|t|f node 0` or `parent child literals 0`, found `{' '.join(words)[:60]}`")
    for parent, out in edges.items():
        for child, _, at in out:
            if parent not in kinds or child not in kinds:
                file.fail(at, f"node {child if parent in kinds else parent} is not declared")
    below = {child for out in edges.values() for child, _, _ in out}
    tops = [node for node in kinds if node not in below]
    if 1 not in tops and len(tops) != 1:
        file.fail(lines[-1][0], f"expected one root, found {len(tops)} nodes without a parent")
    return _build_d4(file, kinds, edges, 1 if 1 in tops else tops[0], builder)


def _build_d4(
    file: Source,
    kinds: dict[int, str],
    edges: dict[int, list[tuple[int, list[int], int]]],
    root: int,
    builder: Builder,
) -> int:
    """Build what lies below the root, children first and without recursion."""
    made: dict[int, int] = {}
    entered: set[int] = set()
    stack = [root]
    while stack:
        node = stack[-1]
        out = edges.get(node, [])
        if node not in made and node not in entered:
            entered.add(node)
            for child, _, at in out:
                if child in entered and child not in made:
                    file.fail(at, f"node {child} lies below itself")
            stack += [child for child, _, _ in out if child not in made]
            continue
        stack.pop()
        if node not in made:
            parts = [builder.conjunction([*map(builder.literal, literals), made[x]]) for x, literals, _ in out]
            constant = {"t": TRUE, "f": FALSE}.get(kinds[node])
            made[node] = (
                constant
                if constant is not None
                else (builder.conjunction(parts) if kinds[node] == "a" else builder.disjunction(parts))
            )
    return made[root]


# ---- writing ----


def to_nnf(circuit: Circuit) -> str:
    """The circuit as c2d's `.nnf` text over plain Boolean columns, with the same number of models.

    The format knows no categorical variables: each value's column becomes a variable of its own, choosing a value also
    negates the others of its block, and a block that a branch leaves free becomes an explicit OR there. A soft
    rule's column is written like any other, without its weight. Comments tell which variable is which column.
    """
    writer = _Writer(circuit)
    root = writer.close(circuit.nodes - 1, writer.categorical)
    body = writer.lines[: root + 1]
    edges = sum(len(line.split()) - {"L": 2, "A": 2, "O": 3}[line[0]] for line in body)
    names = circuit.names + tuple(f"soft rule {i + 1}, p = {p}" for i, p in enumerate(circuit.soft))
    comments = [f"c x{i + 1} is {' '.join(name.split())}" for i, name in enumerate(names)]
    return "\n".join([*comments, f"nnf {len(body)} {edges} {circuit.starts[-1]}", *body]) + "\n"


class _Writer:
    """Writes the nodes of a circuit in order; `close` adds the values that a branch leaves free."""

    def __init__(self, c: Circuit) -> None:
        self.c = c
        self.lines: list[str] = []
        self.number: dict[str, int] = {}
        self.categorical = sum(1 << int(b) for b in np.flatnonzero(c.categorical))
        self.mentions: list[int] = []  # of each node, a bit for each categorical block
        self.written: list[int] = []  # the line of each node
        for node in range(c.nodes):
            self.node(node)

    def line(self, text: str) -> int:
        if text not in self.number:
            self.number[text] = len(self.lines)
            self.lines.append(text)
        return self.number[text]

    def gate(self, letter: str, children: list[int]) -> int:
        if len(children) == 1:
            return children[0]
        return self.line(" ".join(map(str, [letter, len(children), *children])))

    def node(self, node: int) -> None:
        c, kind = self.c, int(self.c.kind[node])
        children = c.child[c.ptr[node] : c.ptr[node + 1]].tolist()
        mentioned = 0
        for x in children:
            mentioned |= self.mentions[x]
        if kind == LITERAL:
            literal = int(c.literal[node])
            block = int(c.block_of_column[abs(literal) - 1])
            mentioned = self.categorical & (1 << block)
            made = self.value(block, literal - 1) if mentioned else self.line(f"L {literal}")
        elif kind == OR:
            made = self.gate("O 0", [self.close(x, mentioned) for x in children])
        elif kind == AND:
            made = self.gate("A", [self.written[x] for x in children])
        else:
            made = self.line("A 0" if kind == TRUE else "O 0 0")
        self.mentions.append(mentioned)
        self.written.append(made)

    def value(self, block: int, column: int) -> int:
        """One value of a categorical block: its column, and not the others."""
        columns = range(int(self.c.starts[block]), int(self.c.starts[block + 1]))
        return self.gate("A", [self.line(f"L {x + 1 if x == column else -x - 1}") for x in columns])

    def close(self, node: int, blocks: int) -> int:
        """The node, with an OR over the values of each categorical block of `blocks` that it does not mention."""
        missing = blocks & ~self.mentions[node]
        parts = [self.written[node]]
        while missing:
            block = missing.bit_length() - 1
            missing ^= 1 << block
            columns = range(int(self.c.starts[block]), int(self.c.starts[block + 1]))
            parts.append(self.gate("O 0", [self.value(block, column) for column in columns]))
        return self.gate("A", parts)
