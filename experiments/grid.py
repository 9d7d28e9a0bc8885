"""The 4×4 grid of the shortest-path task: its nodes and edges, the rule that edges form a path, and the data.

The rule is one circuit for all pairs of nodes, over 56 columns: 24 edges, 16 edges from a start s to each node and 16
to an end t. A row's two nodes are known, so 30 of the 32 are known to be absent and the other two to be taken.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dssl.circuits.circuit import Circuit
from dssl.logic.space import LabelSpace

SURE = 1e4  # the logit of what is known: no network outweighs it


# ---- the grid: node v = 4·row + column ----

EDGES = tuple((4 * r + c, 4 * r + c + 1) for r in range(4) for c in range(3)) + tuple(
    (4 * r + c, 4 * r + c + 4) for c in range(4) for r in range(3)
)


def _columns() -> dict[str, tuple[Any, Any]]:
    """Edges e0, …, and one of a start s and of an end t to each node, in an order that keeps the frontier narrow."""
    named: dict[str, tuple[Any, Any]] = {}
    for v in range(16):
        named |= {f"s{v}": ("s", v), f"t{v}": ("t", v)}
        named |= {f"e{i}": edge for i, edge in enumerate(EDGES) if max(edge) == v}
    return named


NAMES = tuple(_columns())
ORDER = torch.tensor(
    [*map([*(f"e{i}" for i in range(24)), *(f"{k}{v}" for k in "st" for v in range(16))].index, NAMES)]
)
EDGE_COLUMNS = torch.tensor([NAMES.index(f"e{i}") for i in range(24)])


@cache
def paths() -> Circuit:
    """All simple paths from s to t: a start, an end and a path between them, both ways round.

    Where the lower of a row's two nodes is the start and the other one the end, they are the paths between the two.
    """
    return Circuit.paths(_columns(), "s", "t")


@cache
def free() -> LabelSpace:
    """The columns of the circuit, without rules."""
    return LabelSpace.attributes(list(NAMES))


@cache
def by_degree() -> LabelSpace:
    """What a rule at each node can say: it has no edge or two, that of a start or an end included.

    Loops beside the path remain possible, which would take a rule each.
    """
    rules = []
    for v in range(16):
        there = ", ".join(name for name, edge in _columns().items() if v in edge)
        rules.append(f"none({there}) | exactly(2, {there})")
    return LabelSpace.attributes(list(NAMES), "\n".join(rules))


def joined(edges: Tensor, ends: Tensor) -> Tensor:
    """Edges (n, 24) and ends (n, 32) as columns (n, 56) of the circuit."""
    return torch.cat([edges, ends], 1)[:, ORDER]


def is_path(taken: np.ndarray, start: int, end: int) -> bool:
    """Whether the taken edges (24,) are a simple path between two nodes, found by walking along them."""
    left = [EDGES[i] for i in np.flatnonzero(taken)]
    here, seen = start, {start}
    while here != end:
        ways = [edge for edge in left if here in edge]
        if len(ways) != 1:
            return False
        left.remove(ways[0])
        here = sum(ways[0]) - here
        if here in seen:
            return False
        seen.add(here)
    return not left


# ---- data ----


@dataclass(frozen=True)
class Rows:
    x: Tensor  # (n, 40): edges that are there, the two nodes
    ends: Tensor  # (n, 32): the lower node as start, the other as end
    y: Tensor  # (n, 24): the first path listed; NaN where it is not known
    shortest: tuple[frozenset[tuple[int, ...]], ...] = ()  # all paths listed

    def __len__(self) -> int:
        return len(self.x)

    @property
    def missing(self) -> Tensor:
        return self.x[:, :24] == 0

    def columns(self, logits: Tensor, missing: bool = False) -> Tensor:
        """Logits of edges (n, 24) as those of the circuit's columns, the ends as sure; if asked, missing edges too."""
        if missing:
            logits = logits.masked_fill(self.missing, -SURE)
        return joined(logits, SURE * (2 * self.ends - 1))

    def labels(self) -> Tensor:
        """What is known, as columns of the circuit (n, 56) of 1, 0 and NaN."""
        return joined(self.y, self.ends)

    def __getitem__(self, rows: Tensor) -> Rows:
        return Rows(self.x[rows], self.ends[rows], self.y[rows])

    def __add__(self, more: Rows) -> Rows:
        return Rows(*(torch.cat(pair) for pair in ((self.x, more.x), (self.ends, more.ends), (self.y, more.y))))

    def hidden(self) -> Rows:
        """The same inputs without labels, but for the missing edges: these are not taken."""
        return Rows(self.x, self.ends, torch.where(self.missing, 0.0, torch.nan))


def rows_of(lines: Sequence[str]) -> Rows:
    """Lines of `removed edges,two nodes,path,…`, numbers joined by '-'."""
    x, ends, y, listed = np.zeros((len(lines), 40)), np.zeros((len(lines), 32)), np.zeros((len(lines), 24)), []
    x[:, :24] = 1
    for i, line in enumerate(lines):
        removed, nodes, *found = ([int(n) for n in part.split("-") if n] for part in line.strip().split(","))
        x[i, removed] = 0
        x[i, 24 + np.array(nodes)] = 1
        ends[i, [min(nodes), 16 + max(nodes)]] = 1
        y[i, found[0]] = 1
        listed.append(frozenset(tuple(sorted(path)) for path in found))
    return Rows(*(torch.from_numpy(part).float() for part in (x, ends, y)), tuple(listed))


@cache
def read() -> dict[str, Rows]:
    """The published parts: 60 % to train, 20 % to validate, 20 % to test."""
    lines = (Path(os.environ["DSSL_DATA"]) / "grid" / "paths.data").read_text().splitlines()
    order = np.random.RandomState(0).permutation(len(lines))
    cuts = np.split(order, [int(len(lines) * 0.6), int(len(lines) * 0.8)])
    return {name: rows_of([lines[i] for i in rows]) for name, rows in zip(("train", "valid", "test"), cuts)}


@cache
def draw(count: int, seed: int = 0) -> Rows:
    """Inputs like those of the data, at random: eight edges removed, two nodes that a path still joins. No labels."""
    rng = np.random.default_rng(seed)
    lines: list[str] = []
    while len(lines) < count:
        removed = rng.choice(24, 8, replace=False).tolist()
        a, b = rng.choice(16, 2, replace=False).tolist()
        if b in reached(a, [edge for i, edge in enumerate(EDGES) if i not in removed]):
            lines.append(f"{'-'.join(map(str, removed))},{a}-{b},")
    return rows_of(lines).hidden()


def reached(start: int, edges: Sequence[tuple[int, int]]) -> set[int]:
    seen, waiting = {start}, [start]
    for v in waiting:
        new = {sum(edge) - v for edge in edges if v in edge} - seen
        seen |= new
        waiting += new
    return seen
