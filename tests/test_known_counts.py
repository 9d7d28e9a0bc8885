"""Counts that others published, reached from rule text, from DIMACS files and from compiled circuits of other tools."""

from __future__ import annotations

import csv
import itertools
import math
from pathlib import Path

import pytest

from dssl import Circuit, LabelSpace
from dssl.errors import BudgetError

HARD = {"php13_13.cnf", "queens16.cnf"}  # no limit is promised for these


def permutations(n: int) -> str:
    """n×n binaries, exactly one in each row and column."""
    rows = [[f"x{i}{j}" for j in range(n)] for i in range(n)]
    lines = [", ".join(row) for row in rows]
    return "\n".join(lines + [f"exactly_one({', '.join(line)})" for line in [*rows, *zip(*rows)]])


def grid_paths(n: int) -> str:
    """Edges of an n×n grid and its nodes: the edges form one simple path, whose two ends are the chosen nodes."""
    nodes = list(itertools.product(range(n), repeat=2))
    edges = [(a, b) for a, b in itertools.combinations(nodes, 2) if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]
    name = {edge: f"e{i}" for i, edge in enumerate(edges)}
    ends = {node: f"n{i}" for i, node in enumerate(nodes)}
    lines = [", ".join(name.values()), ", ".join(ends.values()), f"exactly(2, {', '.join(ends.values())})"]
    for node, end in ends.items():
        met = ", ".join(name[edge] for edge in edges if node in edge)
        lines += [f"{end} -> exactly_one({met})", f"!{end} -> none({met}) | exactly(2, {met})"]
    lines += [f"!all({', '.join(name[edge] for edge in cycle)})" for cycle in cycles(nodes, edges)]
    return "\n".join(lines)


def cycles(nodes: list, edges: list) -> set[frozenset]:
    """The simple cycles of a graph, each as its set of edges."""
    met = {node: [edge for edge in edges if node in edge] for node in nodes}
    found: set[frozenset] = set()

    def walk(start: tuple, here: tuple, path: tuple) -> None:
        for edge in met[here]:
            there = edge[1] if edge[0] == here else edge[0]
            if edge in path:
                continue
            if there == start:
                found.add(frozenset((*path, edge)))
            elif there > start and not any(there in used for used in path):
                walk(start, there, (*path, edge))

    for node in nodes:
        walk(node, node, ())
    return found


def test_permutations_of_four() -> None:
    assert LabelSpace(permutations(4)).count() == 24


def test_paths_of_the_4_by_4_grid() -> None:
    """24 edges and 16 nodes; the published circuit of this constraint has 14,248 models."""
    space = LabelSpace(grid_paths(4))
    assert space.width == 40
    assert space.count() == 14_248


@pytest.mark.parametrize(("file", "count"), [("permutation-4.sdd", 24), ("4-grid-all-pairs-sd.sdd", 14_248)])
def test_published_sdd_files(data_folder: Path, file: str, count: int) -> None:
    assert Circuit.from_sdd(data_folder / "grid" / file).count() == count


def published() -> dict[str, int]:
    """The counts of the DIMACS files, by file name."""
    import os

    folder = os.environ.get("DSSL_DATA")
    if not folder:
        return {}
    with open(Path(folder) / "cnf" / "COUNTS.tsv") as file:
        return {row["file"]: int(row["model_count"]) for row in csv.DictReader(file, delimiter="\t")}


def test_dimacs_files(data_folder: Path) -> None:
    counts = published()
    assert len(counts) == 19
    for file, count in counts.items():
        space = LabelSpace.dimacs(data_folder / "cnf" / file, projection="ignore")
        try:
            assert space.compile(budget_s=5 if file in HARD else 60).count() == count, file
        except BudgetError:
            assert file in HARD


def test_weighted_count(data_folder: Path) -> None:
    """The published weighted count of a file in the competition's format."""
    space = LabelSpace.dimacs(data_folder / "cnf" / "grid-50-10-1-q.weighted.cnf")
    assert math.isclose(math.exp(space.log_weight()), 0.530158, abs_tol=5e-7)
