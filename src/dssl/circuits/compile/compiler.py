"""Compiler: constraints to a deterministic, decomposable circuit, within a budget of seconds, nodes and bytes.

The work is a search that branches, propagates, splits into components and solves each component once (`search`).
Several ways to branch take turns (`turns`); the smallest of the circuits found is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from dssl.circuits.circuit import Circuit
from dssl.circuits.compile import cache as disk
from dssl.circuits.compile.budget import Budget, Progress
from dssl.circuits.compile.emission import Arrays, emit
from dssl.circuits.compile.native.chains import chained
from dssl.circuits.compile.native.single import direct
from dssl.circuits.compile.problem import Layout, build, lay_out
from dssl.circuits.compile.records import Ints, Problem
from dssl.circuits.compile.search import Search
from dssl.circuits.compile.selections import exactly_one_selections
from dssl.circuits.compile.sharpen.backbone import without_idle_values
from dssl.circuits.compile.sharpen.subsumption import without_subsumed
from dssl.circuits.compile.turns import solve
from dssl.circuits.jit import thread_time
from dssl.circuits.nodes import FALSE
from dssl.circuits.proof import trust
from dssl.errors import BudgetError
from dssl.logic.reasoning.constraints import Constraints

_LIST, _ITEM = 500, 200  # bytes of a list and of an item, with sets and dictionaries of them; measured
WORTH_KEEPING_S = 0.02  # of the processor; a quicker compile is not worth a file


def compile_constraints(
    constraints: Constraints,
    names: tuple[str, ...],
    *,
    budget_s: float = 60.0,
    budget_nodes: int = 20_000_000,
    budget_bytes: int | None = None,
    progress: bool | Callable[[Progress], None] = False,
    cache: bool = True,
) -> Circuit:
    """The circuit whose models are the values of visible and soft blocks that the constraints allow.

    >>> from dssl.logic.reasoning.constraints import Constraints
    >>> both_or_none = Constraints((2, 2), (False, False), ((0, 3), (1, 2)), (), visible=2)
    >>> compile_constraints(both_or_none, ("a", "b"), cache=False).edges
    6

    `names` are those of the space's columns. `progress` prints a line now and then, or is called with a `Progress`.
    `cache` looks for the circuit on disk first and keeps it there. Raises `BudgetError` when `budget_s` seconds of the
    processor, `budget_nodes` nodes or `budget_bytes` bytes (half of the memory, if None) are used up.
    """
    began = thread_time()
    key = disk.content_key(constraints) if cache else ""
    arrays = disk.load(key) if cache else None
    kept = arrays is not None  # what comes from a file is proved before it is asked anything
    if arrays is None:
        report = _printer() if progress is True else (progress or None)
        arrays = _compile(constraints, Budget(budget_s, budget_nodes, budget_bytes, report))
        if cache and thread_time() - began > WORTH_KEEPING_S:
            disk.save(key, arrays)
    circuit = _circuit(constraints, names, arrays)
    return circuit if kept else trust(circuit)


def _printer() -> Callable[[Progress], None]:
    def tell(p: Progress) -> None:
        print(
            f"compiling: {p.seconds:.0f} s, {p.decisions:,} decisions, {p.nodes:,} nodes, "
            f"{p.share:.0%} of the choices gone through",
            file=sys.stderr,
            flush=True,
        )

    return tell


def _compile(constraints: Constraints, budget: Budget) -> Arrays:
    native = direct(constraints, _shown(constraints), budget) or chained(constraints, _shown(constraints), budget)
    if native is not None:
        return native
    budget.afford(_bytes_of_lists(constraints))
    constraints = without_subsumed(constraints)
    layout = lay_out(constraints, exactly_one_selections(constraints))
    problem = build(constraints, layout)
    if problem is None:
        return _false()
    budget.tick()

    def sharpened() -> Problem | None:
        better = without_idle_values(constraints)
        return problem if better is constraints else build(better, layout)

    searches = solve(problem, budget, sharpened)
    if not searches or searches[0].root == FALSE:
        return _false()
    return _smallest(searches, _literals(constraints, layout), budget)


def _bytes_of_lists(constraints: Constraints) -> int:
    """About what the Python lists take that a problem is built from: known before they are."""
    parts = [constraints.sizes, *constraints.clauses, *(s.values for s in constraints.sums)]
    return _LIST * len(parts) + _ITEM * sum(map(len, parts))


def _smallest(searches: list[Search], literals: Ints, budget: Budget) -> Arrays:
    """The circuit with fewest edges; the first is always written, the others as far as the budget goes."""
    best = emit(searches[0].problem, searches[0].store, searches[0].root, literals, budget)
    for s in searches[1:]:
        try:
            other = emit(s.problem, s.store, s.root, literals, budget)
        except BudgetError:
            break
        best = min(best, other, key=lambda arrays: len(arrays[3]))
    return best


def _shown(constraints: Constraints) -> Callable[[int, int], int]:
    """The literal of each value of a block, 0 where it is not shown."""
    starts, shown = _starts(constraints).tolist(), constraints.visible + len(constraints.soft)

    def literal(block: int, value: int) -> int:
        if block >= shown or constraints.sizes[block] == 1:
            return 0
        return starts[block] + value + 1 if constraints.categorical[block] else (2 * value - 1) * (starts[block] + 1)

    return literal


def _literals(constraints: Constraints, layout: Layout) -> Ints:
    """The literal of each value of the problem, 0 where it is not shown."""
    starts = _starts(constraints).tolist()
    out: list[int] = []
    for members in layout.blocks:
        b = members[0]
        if len(members) > 1:
            out += [starts[m] + 1 if layout.true_value[m] else -(starts[m] + 1) for m in members]
        elif b in constraints.hidden or constraints.sizes[b] == 1:
            out += [0] * constraints.sizes[b]
        elif constraints.categorical[b]:
            out += [starts[b] + v + 1 for v in range(constraints.sizes[b])]
        else:
            out += [-(starts[b] + 1), starts[b] + 1]
    return np.array(out, dtype=np.int32)


def _starts(constraints: Constraints) -> Ints:
    """First column of each block that is shown, and one past the last."""
    shown = constraints.visible + len(constraints.soft)
    widths = [s if c else 1 for s, c in zip(constraints.sizes[:shown], constraints.categorical)]
    return np.concatenate([[0], np.cumsum(np.array(widths, dtype=np.int64))]).astype(np.int32)


def _false() -> Arrays:
    """The circuit of contradictory constraints: no label is valid."""
    return (
        np.array([FALSE], dtype=np.int8),
        np.zeros(1, dtype=np.int32),
        np.zeros(2, dtype=np.int64),
        np.zeros(0, dtype=np.int32),
    )


def _circuit(constraints: Constraints, names: tuple[str, ...], arrays: Arrays) -> Circuit:
    kind, literal, ptr, child = arrays
    shown = constraints.visible + len(constraints.soft)
    return Circuit(
        kind=kind,
        literal=literal,
        ptr=ptr,
        child=child,
        starts=_starts(constraints),
        categorical=np.array(constraints.categorical[:shown], dtype=bool),
        names=names,
        soft=constraints.soft,
    )
