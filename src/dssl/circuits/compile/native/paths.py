"""The simple paths of a graph as a circuit, built directly by the frontier method (Knuth's Simpath).

To say that chosen edges form one path would take a rule for every cycle of the graph: too many. Instead edges
are decided one after another. A *state* tells, for each vertex that has decided and undecided edges (the frontier),
its *mate*: the vertex itself while no edge of it is taken, the other end of its partial path where it is an end, and
DONE inside one. Decisions that lead to the same state have the same completions: states are nodes of a decision
diagram.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from dssl.circuits.circuit import Circuit
from dssl.circuits.compile.budget import Budget
from dssl.circuits.compile.native.diagram import Diagram
from dssl.circuits.nodes import FALSE, TRUE
from dssl.errors import BudgetError, RuleError

DONE = -1
Edge = tuple[int, int]
State = tuple[int, ...]
Layer = dict[State, tuple[State | None, State | None]]  # state → states after the edge is left, and taken
_STATE = 700  # bytes of a state and of its nodes, as Python holds them


def simple_paths(
    edges: Mapping[str, tuple[Hashable, Hashable]] | Iterable[tuple[Hashable, Hashable]],
    source: Hashable,
    target: Hashable,
    *,
    budget_s: float = 60.0,
    budget_nodes: int = 20_000_000,
    budget_bytes: int | None = None,
) -> Circuit:
    """The circuit over the edges of a graph whose valid labels are the simple paths from `source` to `target`.

    >>> square = {"ab": ("a", "b"), "bd": ("b", "d"), "ac": ("a", "c"), "cd": ("c", "d"), "bc": ("b", "c")}
    >>> Circuit.paths(square, "a", "d").count()
    4

    `edges` are undirected pairs of vertices, by name or in a list (then named e0, e1, …). Its size grows with the
    number of vertices that a cut of the graph leaves on the frontier: planar graphs of some hundred edges are easy.
    The budgets are those of `LabelSpace.compile`.
    """
    if not isinstance(edges, Mapping):
        edges = {f"e{i}": edge for i, edge in enumerate(edges)}
    number: dict[Hashable, int] = {}
    pairs = [(number.setdefault(u, len(number)), number.setdefault(v, len(number))) for u, v in edges.values()]
    _refuse_bad(edges, pairs, number, source, target)
    orders = (list(range(len(pairs))), _outward(pairs, number[source]))
    order = min(orders, key=lambda order: max(map(len, _frontiers([pairs[i] for i in order]))))
    walk = _Walk.of([pairs[i] for i in order], {number[source], number[target]})
    return _circuit(walk.layers(Budget(budget_s, budget_nodes, budget_bytes)), order, tuple(map(str, edges)))


def _refuse_bad(
    edges: Mapping[str, tuple[Hashable, Hashable]],
    pairs: list[Edge],
    number: dict[Hashable, int],
    source: Hashable,
    target: Hashable,
) -> None:
    for name, (u, v) in zip(edges, pairs):
        if u == v:
            raise RuleError(
                f"the edge '{name}' joins a vertex with itself", remedy="No simple path uses it: remove it."
            )
    for end in (source, target):
        if end not in number:
            raise RuleError(f"no edge meets the vertex {end!r}", remedy="Name a vertex of the graph as an end.")
    if source == target:
        raise RuleError(f"a path from {source!r} to itself", remedy="Name two different ends.")


def _outward(edges: list[Edge], start: int) -> list[int]:
    """The edges in the order in which a breadth-first search from `start` meets them."""
    met: dict[int, list[int]] = {}
    for i, edge in enumerate(edges):
        for v in edge:
            met.setdefault(v, []).append(i)
    order: dict[int, None] = {}
    seen = {start}
    for root in (start, *met):  # parts of the graph out of reach follow at the end
        queue = [root]
        for v in queue:
            for i in met[v]:
                order.setdefault(i, None)
                other = edges[i][0] + edges[i][1] - v
                if other not in seen:
                    seen.add(other)
                    queue.append(other)
    return list(order)


def _frontiers(edges: list[Edge]) -> list[list[int]]:
    """For each edge, the vertices that are open while it is decided, its own included."""
    last = {v: i for i, edge in enumerate(edges) for v in edge}
    out: list[list[int]] = []
    frontier: list[int] = []
    for i, edge in enumerate(edges):
        frontier = [*frontier, *(v for v in edge if v not in frontier)]
        out.append(frontier)
        frontier = [v for v in frontier if last[v] > i]
    return out


@dataclass(frozen=True)
class _Walk:
    """Edges in the order of decision, their frontiers, and the ends of the path."""

    edges: list[Edge]
    ends: set[int]
    last: dict[int, int]  # the edge after which a vertex leaves the frontier
    frontiers: list[list[int]]

    @classmethod
    def of(cls, edges: list[Edge], ends: set[int]) -> _Walk:
        return cls(edges, ends, {v: i for i, edge in enumerate(edges) for v in edge}, _frontiers(edges))

    def kept(self, i: int) -> list[int]:
        """The vertices that are still open after edge i."""
        return [v for v in self.frontiers[i] if self.last[v] > i]

    def layers(self, budget: Budget) -> list[Layer]:
        """All states before each edge, and where they lead."""
        out: list[Layer] = []
        states: dict[State, None] = {(): None}
        open_: list[int] = []
        for i in range(len(self.edges)):
            out.append({s: (self.after(i, s, open_, False), self.after(i, s, open_, True)) for s in states})
            states = {s: None for pair in out[-1].values() for s in pair if s is not None}
            open_ = self.kept(i)
            decided = sum(map(len, out))
            budget.tick()
            budget.afford(decided * (_STATE + 16 * max(map(len, self.frontiers))))
            if 3 * decided > budget.nodes:
                raise BudgetError(
                    f"the paths of this graph take more than {budget.nodes:,} nodes: {i + 1} of {len(self.edges)} "
                    f"edges are decided, and up to {max(map(len, self.frontiers))} vertices are open at once\n"
                    "Raise budget_nodes, or thin out the graph."
                )
        return out

    def after(self, i: int, state: State, open_: list[int], take: bool) -> State | None:
        """The state after edge i is taken or left; None if no path is possible any more."""
        mate = dict(zip(open_, state))
        for v in self.edges[i]:
            mate.setdefault(v, v)
        if take:
            u, v = self.edges[i]
            a, b = mate[u], mate[v]
            full = any(m == DONE or (x in self.ends and m != x) for x, m in ((u, a), (v, b)))
            if full or a == v:  # a vertex with two edges, an end with one, or a cycle
                return None
            mate[u] = mate[v] = DONE  # ends of partial paths get their mates now, which may be u or v again
            mate[a], mate[b] = b, a
        for v in self.edges[i]:
            loose = mate[v] in (v, DONE) if v in self.ends else mate[v] not in (v, DONE)
            if self.last[v] == i and loose:
                return None
        return tuple(mate[v] for v in self.kept(i))


def _circuit(layers: list[Layer], order: list[int], names: tuple[str, ...]) -> Circuit:
    """The decision diagram as a circuit: x ∧ taken ∨ ¬x ∧ left at every state, dead states left out."""
    diagram = Diagram()
    below: dict[State, int] = {(): TRUE}
    for layer, edge in zip(reversed(layers), reversed(order)):
        literals = (-(edge + 1), edge + 1)
        decide = diagram.decisions(literals)
        here: dict[State, int] = {}
        for state, pair in layer.items():
            ways = [(of, below[s]) for of, s in zip(literals, pair) if s is not None]
            here[state] = decide(tuple((of, node) for of, node in ways if node != FALSE))
        below = here
    starts = np.arange(len(names) + 1, dtype=np.int32)
    arrays = diagram.below(below[()])
    return Circuit(*arrays, starts=starts, categorical=np.zeros(len(names), dtype=bool), names=names)
