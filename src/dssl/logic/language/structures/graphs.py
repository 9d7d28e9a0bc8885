"""Chosen edges of a graph: ``path(e[*, *], a, d)``, ``tree(e[*, *])``, ``connected(e[*, *])``, by the frontier method.

The variable ``e[a,b]`` says that the edge between a and b is chosen. Edges are decided one after another; all that
has to be known of earlier ones is how they join the vertices on the frontier, those with decided and undecided edges.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dssl.errors import RuleError
from dssl.logic.language.arrays import Index, place
from dssl.logic.language.formula import Formula
from dssl.logic.language.quoting import quoted
from dssl.logic.language.structures.automata import Diagram, Layered
from dssl.logic.language.structures.patterns import Domains

Vertex = int | str
Edge = tuple[int, int]
State = tuple[int, ...]  # of each vertex on the frontier, in their order
BUDGET_S = 60.0  # processor seconds for one graph, as many as compiling has
MOST_STATES = 1_000_000  # of one graph, about half a gigabyte
_LOOKED = 1_000  # states after which the clock is looked at
GRAPHS = {"path": "path(e[*, *], a, d)", "tree": "tree(e[*, *])", "connected": "connected(e[*, *])"}
_INSIDE = -1  # of a path: a vertex with two chosen edges


def ends_of(name: str) -> Index | None:
    """The two vertices in the name of an edge; None if there are none."""
    found = place(name)
    return found[1] if found is not None and len(found[1]) == 2 and found[1][0] != found[1][1] else None


@dataclass(frozen=True)
class Chosen(Layered):
    """The chosen edges are a simple path between two vertices, a spanning tree, or connect all vertices."""

    function: str
    columns: tuple[str, ...]
    between: tuple[Vertex, ...] = ()

    def _renamed(self, names: Mapping[str, str]) -> Formula:
        columns = tuple(names.get(name, name) for name in self.columns)
        for old, new in zip(self.columns, columns):
            if ends_of(old) != ends_of(new):
                raise RuleError(
                    f"the edge '{old}' cannot be called '{new}'",
                    remedy=f"{self.function}(…) reads the vertices off the name: keep the index.",
                )
        return Chosen(self.function, columns, self.between)

    def diagram(self, values: Domains) -> Diagram:
        return _diagram(self)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(quoted, (*self.columns, *self.between)))})"


@lru_cache(maxsize=32)
def _diagram(formula: Chosen) -> Diagram:
    number: dict[Vertex, int] = {}
    edges: list[Edge] = []
    for name in formula.columns:
        u, v = ends_of(name) or ("", "")
        edges.append((number.setdefault(u, len(number)), number.setdefault(v, len(number))))
    order = min((list(range(len(edges))), _outward(edges)), key=lambda order: _widest([edges[i] for i in order]))
    between = {number[vertex] for vertex in formula.between if vertex in number}
    names = tuple(formula.columns[i] for i in order)
    if len(between) < len(formula.between):
        return Diagram(names, [np.zeros((1, 2), dtype=np.int32)] * len(edges), np.zeros(1, dtype=bool))
    walk = _Walk(formula.function, [edges[i] for i in order], between)
    return walk.diagram(names)


def _outward(edges: Sequence[Edge]) -> list[int]:
    """Edges in the order in which a search from the first vertex meets them."""
    seen, met = [edges[0][0]], {edges[0][0]}
    for vertex in seen:  # grows during the loop
        for u, v in edges:
            if vertex in (u, v):
                other = v if vertex == u else u
                if other not in met:
                    met.add(other)
                    seen.append(other)
    rank = {vertex: i for i, vertex in enumerate(seen)}
    last = len(rank)

    def met_at(i: int) -> list[int]:
        return sorted((rank.get(vertex, last) for vertex in edges[i]), reverse=True)

    return sorted(range(len(edges)), key=met_at)


def _frontiers(edges: Sequence[Edge]) -> list[tuple[list[int], list[int]]]:
    """For each edge the vertices on the frontier before it, new ones included, and those that leave after it."""
    last = {v: i for i, edge in enumerate(edges) for v in edge}
    frontier: list[int] = []
    out = []
    for i, edge in enumerate(edges):
        frontier += [v for v in edge if v not in frontier]
        leaving = [v for v in edge if last[v] == i]
        out.append((list(frontier), leaving))
        frontier = [v for v in frontier if v not in leaving]
    return out


def _widest(edges: Sequence[Edge]) -> int:
    return max(len(frontier) for frontier, _ in _frontiers(edges))


class _Walk:
    """Goes through the edges with all states at once."""

    def __init__(self, function: str, edges: Sequence[Edge], between: Iterable[int]) -> None:
        self.path, self.acyclic = function == "path", function == "tree"
        self.function, self.edges, self.between = function, edges, frozenset(between)
        self.frontiers = _frontiers(edges)

    def diagram(self, names: tuple[str, ...]) -> Diagram:
        states: list[State | None] = [()]  # None: it cannot end well any more
        kept: list[int] = []  # the frontier that they speak of
        steps = []
        began, seen = time.thread_time(), 0
        for i, (frontier, leaving) in enumerate(self.frontiers):
            after: dict[State | None, int] = {}
            new = [v for v in frontier if v not in kept]
            rest = [v for v in frontier if v not in leaving]
            rows = []
            for number, state in enumerate(states):
                if number % _LOOKED == 0:
                    self.keep_within(time.thread_time() - began, seen + len(after), i)
                mates = None if state is None else dict(zip([*kept, *new], [*state, *new]))
                ways = [mates, None if mates is None else self.taken(mates, *self.edges[i])]
                rows.append([after.setdefault(self.left(way, leaving, rest, i), len(after)) for way in ways])
            steps.append(np.array(rows, dtype=np.int32))
            states, kept, seen = list(after), rest, seen + len(after)
        return Diagram(names, steps, np.array([state is not None for state in states]))

    def keep_within(self, seconds: float, states: int, edge: int) -> None:
        """Gives up once the budget is spent."""
        over = f"{BUDGET_S:g} s" if seconds > BUDGET_S else f"{MOST_STATES:,} states" if states > MOST_STATES else ""
        if over:
            raise RuleError(
                f"{self.function}(…) of {len(self.edges):,} edges takes more than {over}: it got to edge {edge:,}, "
                f"with {states:,} states to tell apart",
                remedy="Use a graph that can be cut at few vertices.",
            )

    def taken(self, mates: dict[int, int], u: int, v: int) -> dict[int, int] | None:
        """The state once an edge is chosen: for a path the other end of each end, else a name of each part."""
        a, b = mates[u], mates[v]
        if not self.path:
            if a == b:
                return None if self.acyclic else mates
            return {w: (a if mate == b else mate) for w, mate in mates.items()}
        full = any(mates[w] == _INSIDE or (w in self.between and mates[w] != w) for w in (u, v))
        if full or a == v:  # too many edges at a vertex, or a cycle
            return None
        out = dict(mates)
        for w in (u, v):
            if mates[w] != w:
                out[w] = _INSIDE
        for end, other in ((a, b), (b, a)):
            if end in out:
                out[end] = other
        return out

    def left(self, mates: dict[int, int] | None, leaving: list[int], rest: list[int], i: int) -> State | None:
        """The state of the vertices that stay; None if one that leaves can no longer be what it has to be."""
        if mates is None:
            return None
        for v in leaving:
            if self.path:
                alone = mates[v] == v
                if alone if v in self.between else not (alone or mates[v] == _INSIDE):
                    return None
            elif i + 1 < len(self.edges) or rest:  # its part must go on
                if all(mates[w] != mates[v] for w in rest):
                    return None
            elif len({mates[w] for w in leaving}) > 1:
                return None
        if self.path:
            return tuple(mates[w] for w in rest)
        names: dict[int, int] = {}
        for w in rest:  # a part is called after its first vertex on the frontier
            names.setdefault(mates[w], w)
        return tuple(names[mates[w]] for w in rest)
