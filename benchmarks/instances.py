"""Instances the compilers are measured on: as our own constraints, and as clauses for those that read clauses."""

from __future__ import annotations

import gzip
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dssl.logic.reasoning.constraints import Constraints, Sum

Clauses = list[list[int]]
Place = tuple[int, int]


class Instance(NamedTuple):
    """One problem in both forms; `shown` variables of the clauses are its own, later ones are helpers.

    `graph` is an n of n×n: then ours is built as paths of that grid, and no clauses mean that they would be too many.
    """

    name: str
    constraints: Constraints
    variables: int
    clauses: Clauses
    shown: int
    graph: int = 0


def from_clauses(name: str, variables: int, clauses: Clauses, sums: list[Sum] | None = None) -> Instance:
    """The same clauses for both, or, with sums, sums and the clauses they do not cover for us."""
    values = tuple(tuple(2 * (abs(l) - 1) + (l > 0) for l in clause) for clause in clauses)
    constraints = Constraints((2,) * variables, (False,) * variables, values, tuple(sums or ()), visible=variables)
    return Instance(name, constraints, variables, clauses, variables)


def _native(name: str, variables: int, sums: list[Sum], clauses: Clauses, shown: int | None = None) -> Instance:
    shown = variables if shown is None else shown
    constraints = Constraints((2,) * shown, (False,) * shown, (), tuple(sums), visible=shown)
    return Instance(name, constraints, variables, clauses, shown)


def _count(variables: list[int], low: int, high: int) -> Sum:
    return Sum(tuple(2 * v - 1 for v in variables), (1,) * len(variables), ((low, high),))


def _pairwise_one(variables: list[int]) -> Clauses:
    return [list(variables), *([-a, -b] for a, b in itertools.combinations(variables, 2))]


def exactly_one(n: int) -> Instance:
    variables = list(range(1, n + 1))
    return _native(f"exactly one of {n:,}", n, [_count(variables, 1, 1)], _pairwise_one(variables))


def at_most(k: int, n: int) -> Instance:
    """Clauses by a sequential counter: helper (i, j) is true exactly when j of the first i are."""
    clauses: Clauses = []
    helper: dict[tuple[int, int], int] = {}
    for i in range(1, n + 1):
        for j in range(1, min(i, k + 1) + 1):
            helper[i, j] = n + len(helper) + 1
            above, left = helper.get((i - 1, j)), helper.get((i - 1, j - 1))
            never, always = above is None, j == 1
            v = helper[i, j]
            clauses.append([-v, i] if never else [-v, above or 0, i])
            if not always:
                clauses.append([-v, left or 0] if never else [-v, above or 0, left or 0])
            if not never:
                clauses.append([v, -(above or 0)])
            clauses.append([v, -i] if always else [v, -(left or 0), -i])
    clauses.append([-helper[n, k + 1]])
    return _native(f"at most {k} of {n}", n + len(helper), [_count(list(range(1, n + 1)), 0, k)], clauses, shown=n)


def permutation(n: int) -> Instance:
    rows = [[i * n + j + 1 for j in range(n)] for i in range(n)]
    lines = rows + [list(column) for column in zip(*rows)]
    clauses = [clause for line in lines for clause in _pairwise_one(line)]
    return _native(f"permutation {n}", n * n, [_count(line, 1, 1) for line in lines], clauses)


def sudoku() -> Instance:
    def cell(r: int, c: int, d: int) -> int:
        return (r * 4 + c) * 4 + d + 1

    four = range(4)
    lines = [[cell(r, c, d) for d in four] for r in four for c in four]
    for d in four:
        lines += [[cell(r, c, d) for c in four] for r in four]
        lines += [[cell(r, c, d) for r in four] for c in four]
        corners = [(r, c) for r in (0, 2) for c in (0, 2)]
        lines += [[cell(r + i, c + j, d) for i in (0, 1) for j in (0, 1)] for r, c in corners]
    clauses = [clause for line in lines for clause in _pairwise_one(line)]
    return _native("sudoku 4×4", 64, [_count(line, 1, 1) for line in lines], clauses)


def grid_edges(n: int) -> list[tuple[Place, Place]]:
    """The edges of the n×n grid, row by row."""
    edges = []
    for r, c in itertools.product(range(n), range(n)):
        edges += [((r, c), (r, c + 1))] if c + 1 < n else []
        edges += [((r, c), (r + 1, c))] if r + 1 < n else []
    return edges


def grid_of_paths(n: int) -> Instance:
    """Simple paths between opposite corners: a graph for us, the rules below as clauses for the others up to 5×5."""
    given = grid_paths(n) if n <= 5 else from_clauses("", 2 * n * (n - 1), [])
    return given._replace(name=f"{n}×{n} grid paths", graph=n)


def grid_paths(n: int) -> Instance:
    """Simple paths between opposite corners by rules: degrees, and no cycle beside the path."""
    edges = grid_edges(n)
    at: dict[tuple[int, int], list[int]] = {}
    for k, (a, b) in enumerate(edges, start=1):
        at.setdefault(a, []).append(k)
        at.setdefault(b, []).append(k)
    clauses: Clauses = []
    sums = []
    for place, near in at.items():
        if place in ((0, 0), (n - 1, n - 1)):
            clauses += _pairwise_one(near)
            sums.append(_count(near, 1, 1))
        else:
            clauses += [[-a, -b, -c] for a, b, c in itertools.combinations(near, 3)]
            clauses += [[-a, *(b for b in near if b != a)] for a in near]
            sums.append(Sum(tuple(2 * v - 1 for v in near), (1,) * len(near), ((0, 0), (2, 2))))
    cycles = [[-e for e in cycle] for cycle in _cycles(edges, at)]
    ours = from_clauses("", len(edges), cycles, sums).constraints
    return Instance(f"{n}×{n} grid paths, by rules", ours, len(edges), clauses + cycles, len(edges))


def _cycles(edges: list[tuple[Place, Place]], at: dict[Place, list[int]]) -> Clauses:
    """Every simple cycle as a list of edges, found from its smallest place."""
    out = []
    for first in sorted(at):
        stack: list[tuple[Place, frozenset[Place], list[int]]] = [(first, frozenset([first]), [])]
        while stack:
            place, seen, path = stack.pop()
            for e in at[place]:
                a, b = edges[e - 1]
                other = b if a == place else a
                if other == first and len(path) >= 3 and path[0] < e:
                    out.append([*path, e])
                elif other > first and other not in seen:
                    stack.append((other, seen | {other}, [*path, e]))
    return out


def hierarchy(n: int, second_parents: float) -> Instance:
    """Child implies parent; a share of the children has a second parent."""
    draw = random.Random(0)
    clauses = []
    for child in range(2, n + 1):
        parents = {draw.randrange(max(1, child - 60), child)}
        if draw.random() < second_parents:
            parents.add(draw.randrange(max(1, child - 60), child))
        clauses += [[-child, parent] for parent in sorted(parents)]
    kind = f"{second_parents:.0%} second parents" if second_parents else "tree"
    return from_clauses(f"hierarchy {n:,}, {kind}", n, clauses)


def random_cnf(n: int, ratio: float) -> Instance:
    draw = random.Random(1000 * n + int(10 * ratio))
    clauses = []
    for _ in range(int(n * ratio)):
        chosen = draw.sample(range(1, n + 1), 3)
        clauses.append([v if draw.random() < 0.5 else -v for v in chosen])
    return from_clauses(f"3-CNF {n} vars, ratio {ratio:g}", n, clauses)


def published_hierarchy(folder: Path, name: str) -> Instance:
    """The classes of a hierarchical data set: '/'-paths of FunCat, or 'parent/child' edges of the Gene Ontology."""
    with gzip.open(folder / "hmc" / f"{name}.train.arff.gz", "rt") as file:
        line = next(line for line in file if line.lower().startswith("@attribute class"))
    items = line.split()[-1].split(",")
    number: dict[str, int] = {}
    edges = []
    for item in items:
        if name.endswith("GO"):
            parent, child = item.split("/")
            edges.append((child, parent))
        elif "/" in item:
            edges.append((item, item.rsplit("/", 1)[0]))
        else:
            number.setdefault(item, len(number) + 1)
    for end in itertools.chain(*edges):
        number.setdefault(end, len(number) + 1)
    return from_clauses(f"{name} ({len(number):,} classes)", len(number), [[-number[c], number[p]] for c, p in edges])


def dimacs(path: Path) -> Instance:
    variables = 0
    clauses: Clauses = [[]]
    for line in path.read_text().splitlines():
        if line.startswith("p"):
            variables = int(line.split()[2])
        elif not line.startswith("c"):
            for number in map(int, line.split()):
                if number:
                    clauses[-1].append(number)
                else:
                    clauses.append([])
    return from_clauses(path.name, variables, clauses[:-1])


def all_instances(data: Path | None, quick: bool) -> list[Callable[[], Instance]]:
    """Makers of the instances; the published ones only where their folder is given."""
    out: list[Callable[[], Instance]] = [
        lambda: exactly_one(1000),
        lambda: at_most(5, 50),
        lambda: permutation(6),
        lambda: permutation(8),
        sudoku,
        lambda: grid_paths(4),
        lambda: grid_of_paths(4),
        lambda: hierarchy(500, 0.0),
        lambda: hierarchy(500, 0.1),
        lambda: random_cnf(30, 3.0),
        lambda: random_cnf(40, 2.5),
        lambda: random_cnf(50, 2.0),
        lambda: random_cnf(60, 3.0),
    ]
    if not quick:
        out += [
            lambda: random_cnf(60, 2.0),
            lambda: grid_paths(5),
            *(lambda n=n: grid_of_paths(n) for n in (5, 6, 7)),
            lambda: hierarchy(5000, 0.0),
            lambda: hierarchy(5000, 0.1),
        ]
    if data is not None:
        out += [lambda name=name: published_hierarchy(data, f"{name}_FUN") for name in ("cellcycle", "derisi", "eisen")]
        folders = [folder for folder in (data / "cnf", data / "cnf-hard") if folder.exists()]
        files = [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in (".cnf", ".dimacs")]
        hard = ("php13_13", "queens16")
        out += [lambda path=path: dimacs(path) for path in files if not path.name.startswith(hard)]
    return out
