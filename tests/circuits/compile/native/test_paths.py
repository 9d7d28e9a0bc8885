"""Simple paths as circuits: against enumeration on random graphs, and published counts on grids."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.circuits.circuit import Circuit
from dssl.errors import BudgetError, RuleError

# Paths between opposite corners of the n×n grid (OEIS A007764).
GRIDS = {2: 2, 3: 12, 4: 184, 5: 8512, 6: 1262816}


def grid(n: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    nodes = list(itertools.product(range(n), repeat=2))
    return [(a, b) for a, b in itertools.combinations(nodes, 2) if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]


def is_path(edges: list[tuple[int, int]], source: int, target: int) -> bool:
    """Whether some edges, all of them used, lead from source to target without a vertex twice."""
    left, here, seen = list(edges), source, {source}
    while left:
        nexts = [edge for edge in left if here in edge]
        if len(nexts) != 1:
            return False
        left.remove(nexts[0])
        here = nexts[0][0] + nexts[0][1] - here
        if here in seen:
            return False
        seen.add(here)
    return here == target


def models(circuit: Circuit) -> set[tuple[bool, ...]]:
    """The valid rows of a small circuit, by evaluating it on all rows."""
    out = set()
    for row in itertools.product((False, True), repeat=circuit.width):
        value = []
        for node in range(circuit.nodes):
            below = [value[x] for x in circuit.child[circuit.ptr[node] : circuit.ptr[node + 1]]]
            literal = int(circuit.literal[node])
            kinds = [False, True, row[abs(literal) - 1] == (literal > 0) if literal else False, all(below), any(below)]
            value.append(kinds[circuit.kind[node]])
        if value[-1]:
            out.add(row)
    return out


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[int, int]]:
    pairs = list(itertools.combinations(range(5), 2))
    edges = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=8, unique=True))
    return [edge if draw(st.booleans()) else edge[::-1] for edge in edges]


@settings(max_examples=150, deadline=None)
@given(edges=graphs(), data=st.data())
def test_models_are_the_paths(edges: list[tuple[int, int]], data: st.DataObject) -> None:
    vertices = sorted({v for edge in edges for v in edge})
    source = data.draw(st.sampled_from(vertices))
    target = data.draw(st.sampled_from([v for v in vertices if v != source]))
    circuit = Circuit.paths(edges, source, target)
    wanted = {
        row
        for row in itertools.product((False, True), repeat=len(edges))
        if is_path([edge for edge, on in zip(edges, row) if on], source, target)
    }
    assert models(circuit) == wanted
    assert circuit.count() == len(wanted)
    assert circuit.verify()


@pytest.mark.parametrize("n", GRIDS)
def test_grids(n: int) -> None:
    assert Circuit.paths(grid(n), (0, 0), (n - 1, n - 1)).count() == GRIDS[n]


def test_the_order_of_edges_changes_columns_only() -> None:
    edges = grid(4)
    shuffled = [edges[i] for i in np.random.default_rng(0).permutation(len(edges))]
    assert Circuit.paths(shuffled, (0, 0), (3, 3)).count() == GRIDS[4]


@pytest.mark.parametrize(
    ("edges", "ends", "budget", "said"),
    [
        ([(1, 1), (1, 2)], (1, 2), 1000, "the edge 'e0' joins a vertex with itself"),
        ([(1, 2)], (1, 3), 1000, "no edge meets the vertex 3"),
        ([(1, 2)], (1, 1), 1000, "a path from 1 to itself"),
        (grid(5), ((0, 0), (4, 4)), 1000, "take more than 1,000 nodes"),
    ],
)
def test_errors(edges: list, ends: tuple, budget: int, said: str) -> None:
    with pytest.raises(BudgetError if "nodes" in said else RuleError, match=said):
        Circuit.paths(edges, *ends, budget_nodes=budget)
    assert Circuit.paths([(1, 2)], 1, 2).count() == 1
