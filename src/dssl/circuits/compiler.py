"""Compiler: constraints to a deterministic, decomposable circuit, within a budget of seconds and nodes.

The work is a search that branches, propagates, splits into components and solves each component once (`search`). It
runs in short slices; between them the budget is checked, progress is told and Ctrl-C is heard. Two ways to branch take
turns: a fixed order from an elimination of the constraint graph, which suits rules with structure, and the block with
most open constraints, which suits those without.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache as once
from typing import NamedTuple

import numpy as np

from dssl.circuits import cache as disk
from dssl.circuits import search as kernel
from dssl.circuits.circuit import FALSE, Circuit
from dssl.circuits.emission import Arrays, emit
from dssl.circuits.groups import exactly_one_groups
from dssl.circuits.jit import announced
from dssl.circuits.nodes import ENTRIES, NODES, grown, new_store
from dssl.circuits.ordering import elimination_rank
from dssl.circuits.problem import B_RANK, Ints, Layout, Problem, build, copy, lay_out
from dssl.circuits.search import Search
from dssl.logic.constraints import Constraints

SLICE_S = 0.03  # how long the search runs before Python looks up
WORTH_KEEPING_S = 0.02  # a quicker compile is not worth a file
HEAD_START = 20_000  # steps before a rival way to branch joins
QUICK = 200_000_000  # steps times size below which other ways are tried too, and the smallest circuit kept
FILL_BLOCKS = 2000  # with more blocks, orders by fill-in take too long
_REPORT_S = 0.5  # between two reports of progress


class BudgetError(RuntimeError):
    """The compiler used up its seconds or nodes."""


class Progress(NamedTuple):
    """How far the compiler has come."""

    seconds: float
    decisions: int
    nodes: int
    components: int  # solved and kept
    share: float  # of the search, a guess from the values tried so far


def compile_constraints(
    constraints: Constraints,
    names: tuple[str, ...],
    *,
    budget_s: float = 60.0,
    budget_nodes: int = 20_000_000,
    progress: bool | Callable[[Progress], None] = False,
    cache: bool = True,
) -> Circuit:
    """The circuit whose models are the choices of visible and soft blocks that the constraints allow.

    >>> from dssl.logic.constraints import Constraints
    >>> both_or_none = Constraints((2, 2), (False, False), ((0, 3), (1, 2)), (), visible=2)
    >>> compile_constraints(both_or_none, ("a", "b"), cache=False).edges
    6

    `names` are those of the space's columns. `progress` prints a line now and then, or is called with a `Progress`.
    `cache` looks for the circuit on disk first and keeps it there. Raises `BudgetError` when `budget_s` seconds or
    `budget_nodes` nodes are used up.
    """
    _warm_up()
    began = time.perf_counter()
    key = disk.content_key(constraints) if cache else ""
    arrays = disk.load(key) if cache else None
    if arrays is None:
        report = _printer() if progress is True else (progress or None)
        arrays = _compile(constraints, _Budget(budget_s, budget_nodes, report))
        if cache and time.perf_counter() - began > WORTH_KEEPING_S:
            disk.save(key, arrays)
    return _circuit(constraints, names, arrays)


@once
def _warm_up() -> None:
    """Compile the kernels on the first call of a process, or load them from where numba keeps them."""
    with announced():
        example = Constraints((2, 2, 2), (False,) * 3, ((0, 3), (2, 5), (1, 4)), (), visible=3)
        _compile(example, _Budget(float("inf"), sys.maxsize, None))
        store = new_store(1)
        store.sizes[ENTRIES] = len(store.entry_node)
        grown(store, len(store.table))


def _printer() -> Callable[[Progress], None]:
    def tell(p: Progress) -> None:
        print(
            f"compiling: {p.seconds:.0f} s, {p.decisions:,} decisions, {p.nodes:,} nodes, about {p.share:.0%} done",
            file=sys.stderr,
            flush=True,
        )

    return tell


@dataclass
class _Budget:
    """Seconds and nodes allowed, and who hears of progress."""

    seconds: float
    nodes: int
    report: Callable[[Progress], None] | None
    began: float = field(default_factory=time.perf_counter)
    reported: float = field(default_factory=time.perf_counter)

    def check(self, attempts: list[_Attempt]) -> None:
        now = time.perf_counter()
        progress = _progress([a.search for a in attempts], now - self.began)
        if progress.seconds > self.seconds or progress.nodes > self.nodes:
            raise BudgetError(self._message(progress))
        if self.report is not None and now - self.reported > _REPORT_S:
            self.reported = now
            self.report(progress)

    def _message(self, p: Progress) -> str:
        over = f"{self.seconds:g} s" if p.seconds > self.seconds else f"{self.nodes:,} nodes"
        return (
            f"compiling the rules took more than the budget of {over}. It came to {p.decisions:,} decisions, "
            f"{p.nodes:,} nodes and {p.components:,} components kept in {p.seconds:.1f} s, about {p.share:.1%} of the "
            'search. Raise budget_s or budget_nodes, drop or split rules, or ask for relaxation="clauses".'
        )


def _progress(searches: list[Search], seconds: float) -> Progress:
    return Progress(
        seconds,
        sum(int(s.stack.counts[kernel.DECISIONS]) for s in searches),
        sum(int(s.store.sizes[NODES]) for s in searches),
        sum(int(s.store.sizes[ENTRIES]) for s in searches),
        max(s.share() for s in searches),
    )


def _compile(constraints: Constraints, budget: _Budget) -> Arrays:
    layout = lay_out(constraints, exactly_one_groups(constraints))
    problem = build(constraints, layout)
    if problem is None:
        return _false()
    searches = _solve(problem, budget)
    if searches[0].root == FALSE:
        return _false()
    literals = _literals(constraints, layout)
    return min((emit(s.problem, s.store, s.root, literals) for s in searches), key=lambda arrays: len(arrays[3]))


@dataclass
class _Attempt:
    """A search that runs in slices of about `SLICE_S`."""

    search: Search
    slice: int = 1000

    @property
    def steps(self) -> int:
        return int(self.search.stack.counts[kernel.STEPS])

    def go_on(self, until: int, budget: _Budget, all_of_them: list[_Attempt]) -> bool:
        """Run until that many steps are done in all; whether the search came to an end."""
        while self.steps < until:
            began = time.perf_counter()
            status = kernel.run(*self.search[:3], min(self.slice, until - self.steps), self.search.margin)
            took = time.perf_counter() - began
            if status == kernel.DONE:
                return True
            if status == kernel.FULL:
                self.search = self.search.with_room()
            elif took < SLICE_S / 2 or took > 2 * SLICE_S:
                self.slice = max(self.slice * 2 if took < SLICE_S else self.slice // 4, 16)
            budget.check(all_of_them)
        return False


def _solve(problem: Problem, budget: _Budget) -> list[Search]:
    """Searches that came to an end: the first that did, and others where that was quick.

    Turns are measured in steps, never in time, so that the same constraints always give the same circuit.
    """
    favourite, *others = attempts = _attempts(problem)
    rival = others[-1]
    until = HEAD_START
    while True:
        if favourite.go_on(until, budget, attempts):
            winner = favourite
            break
        if rival.go_on(until // 2, budget, attempts):
            winner = rival
            break
        until += until // 2
    done = [winner.search]
    if winner.steps * (len(problem.share) + len(problem.term)) < QUICK:
        tried = [a for a in attempts if a is not winner and a.go_on(winner.steps + 1000, budget, attempts)]
        done += [a.search for a in tried]
    return done


def _attempts(problem: Problem) -> list[_Attempt]:
    """The ways to branch, the most promising first, its rival last.

    A graph nearly as wide as it is large has no order worth keeping to, unless it is complete: then one large
    constraint says so, and the order in which it was written is as good as any.
    """
    blocks = len(problem.block) - 1
    by_degree, width = elimination_rank(problem, fill=False)
    by_fill = elimination_rank(problem, fill=True)[0] if blocks <= FILL_BLOCKS else by_degree
    ways = [(by_fill, 0), (by_degree, 0), (by_fill, blocks)]
    if 3 * width > blocks and width < blocks - 1:
        ways.reverse()
    attempts = []
    for rank, weight in ways:
        own = copy(problem)
        own.block[:-1, B_RANK] = rank
        attempts.append(_Attempt(kernel.start(own, weight)))
    return attempts


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
    """The circuit of what cannot be."""
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
