"""Solver: a SAT solver over the constraints of a label space, with each rule switched on or off at will.

Value ids become SAT variables (a binary block shares one variable between its two values). Clauses carry over; a sum
becomes a chain of partial totals, one variable for each place and remaining demand. What belongs to a rule is guarded
by that rule's switch; definitions of hidden and soft blocks always hold.

A sum with too many partial totals is *watched* instead: a solution that breaks it teaches the solver a clause, and it
looks for another. If many such lessons lead to no answer, `BudgetError` says so; the compiler may still find one.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from dssl.errors import BudgetError
from dssl.logic.reasoning.constraints import Constraints, Sum
from dssl.logic.reasoning.sat import Sat

_MAX_PLACES = 50_000  # of one sum
_MAX_LESSONS = 300  # of one question
Layer = list[tuple[int, int]]  # coefficients and values of a block, coefficients rising
_SPREAD = 6  # blocks larger than this forbid two values by a ladder, not pair by pair


class Solver:
    """Satisfiability under chosen rules and values."""

    def __init__(self, constraints: Constraints) -> None:
        self.constraints = constraints
        self._sat = Sat()
        self._ids = itertools.count(1)
        self._literal: list[int] = []  # SAT literal of each value id
        self._block_of = [block for block, size in enumerate(constraints.sizes) for _ in range(size)]
        for block, size in enumerate(constraints.sizes):
            self._add_block(size, constraints.categorical[block])
        used = set(constraints.clause_rules + constraints.sum_rules)
        self.switches = {rule: next(self._ids) for rule in sorted(used)}
        self._rule_of = {switch: rule for rule, switch in self.switches.items()}
        self._watched: list[_Watched] = []
        self._above: dict[int, tuple[int, int]] = {}  # a switch, joint or not → the joint one above it and its sibling
        self._all = self._joined(list(self.switches.values()))
        c = constraints
        for clause, rule, owner in zip(c.clauses, c.clause_rules, c.clause_owners):
            self._sat.add_clause([*self._guard(rule, owner), *map(self.literal, clause)])
        for s, rule, owner in zip(c.sums, c.sum_rules, c.sum_owners):
            self._add_sum(s, self._guard(rule, owner))

    def _joined(self, switches: list[int]) -> list[int]:
        """A switch for all of some switches (none if there are none), by a binary tree of joint ones.

        One literal then stands for thousands of rules, and "all but one" costs as many as the tree is deep.
        """
        while len(switches) > 1:
            pairs = list(zip(switches[::2], switches[1::2]))
            rest = switches[-1:] if len(switches) % 2 else []
            switches = []
            for a, b in pairs:
                joint = next(self._ids)
                self._sat.add_clause([-joint, a])
                self._sat.add_clause([-joint, b])
                self._above[a], self._above[b] = (joint, b), (joint, a)
                switches.append(joint)
            switches += rest
        return switches

    def _guard(self, rule: int, owner: int) -> list[int]:
        return [-self.switches[rule]] if owner < 0 else []

    def literal(self, value: int) -> int:
        """The SAT literal "this value is chosen"."""
        return self._literal[value]

    def _add_block(self, size: int, categorical: bool) -> None:
        if size == 2 and not categorical:
            x = next(self._ids)
            self._literal += [-x, x]
            return
        xs = [next(self._ids) for _ in range(size)]
        self._literal += xs
        self._sat.add_clause(xs)
        if size <= _SPREAD:
            for a, b in itertools.combinations(xs, 2):
                self._sat.add_clause([-a, -b])
            return
        before = 0  # "one of the values so far is chosen"
        for x in xs:
            if before:
                self._sat.add_clause([-before, -x])
            now = next(self._ids)
            self._sat.add_clause([-x, now])
            if before:
                self._sat.add_clause([-before, now])
            before = now

    def _add_sum(self, s: Sum, guard: list[int]) -> None:
        """Demand a sum where the guard does not hold."""
        layers = self._layers(s)
        clauses = self._diagram(layers, s.intervals, guard)
        if clauses is None:
            self._watched.append(_Watched(s, guard, layers))
        for clause in clauses or ():
            self._sat.add_clause(clause)

    def _diagram(
        self, layers: list[Layer], intervals: Sequence[tuple[int, int]], guard: list[int]
    ) -> list[list[int]] | None:
        """The clauses of a sum as a decision diagram over its blocks: a place that is reached must find a way on.

        None if there are too many places.
        """
        places = _Places(layers, self._ids)
        root = places.at(0, intervals)
        clauses = [] if root is True else [[*guard, *([] if root is False else [root])]]
        while places.todo:
            depth, demand, here = places.todo.pop()
            low, high = places.reach[depth + 1]
            onward: list[int] = []
            for a, b in demand:  # only these coefficients leave a demand that can still be met
                first = bisect.bisect_left(layers[depth], (a - high, -1))
                last = bisect.bisect_left(layers[depth], (b - low + 1, -1))
                for c, value in layers[depth][first:last]:
                    after = places.at(depth + 1, [(x - c, y - c) for x, y in demand])
                    onward.append(self.literal(value))
                    if after is not True:
                        clauses.append([-here, -self.literal(value), after])
            clauses.append([-here, *onward])
            if len(places.known) > _MAX_PLACES:
                return None
        return clauses

    def _layers(self, s: Sum) -> list[Layer]:
        """For each block that a sum speaks of, its coefficients and values, coefficients rising."""
        coefficient = dict(zip(s.values, s.coefficients))
        offsets, sizes = self.constraints.offsets, self.constraints.sizes
        blocks = dict.fromkeys(self._block_of[v] for v in s.values)
        spans = (range(offsets[block], offsets[block] + sizes[block]) for block in blocks)
        return [sorted((coefficient.get(v, 0), v) for v in span) for span in spans]

    def satisfiable(self, literals: Iterable[int] = (), rules: Iterable[int] | None = None) -> bool:
        """Whether the rules (all, if None) allow these SAT literals together."""
        on = self._all if rules is None else [self.switches[r] for r in rules if r in self.switches]
        return self._solve([*on, *literals])

    def satisfiable_without(self, rule: int, literals: Iterable[int]) -> bool:
        """Whether all rules but one allow these SAT literals."""
        here, on = self.switches[rule], []
        while here in self._above:
            here, sibling = self._above[here]
            on.append(sibling)
        return self._solve([*on, *literals])

    def _solve(self, assumptions: list[int]) -> bool:
        """Whether the solver finds a solution that keeps the watched sums, too."""
        for attempt in range(_MAX_LESSONS):
            if not self._sat.decide(assumptions):
                return False
            lessons = self._lessons(attempt > 0) if self._watched else []
            if not lessons:
                return True
            for clause in lessons:
                self._sat.add_clause(clause)
        most = max(len(watched.layers) for watched in self._watched)
        raise BudgetError(
            f"whether the rules allow this is not decided after {_MAX_LESSONS} attempts: a sum of {most} variables "
            f"with more than {_MAX_PLACES:,} different partial totals\nAsk the circuit, space.compile(), if the rules "
            "can be compiled, or use fewer variables, smaller ranges or rounder coefficients."
        )

    def _lessons(self, again: bool) -> list[list[int]]:
        """A clause for each watched sum that the solution just found breaks; the next one is nudged to keep it."""
        chosen, model = self.chosen(), self._sat.get_model() or []
        out, phases = [], []
        for watched in self._watched:
            off = any(abs(x) <= len(model) and model[abs(x) - 1] == x for x in watched.guard)
            if not off and not watched.holds(watched.total(chosen)):
                out.append([*watched.guard, *(-self.literal(v) for v in watched.reasons(chosen))])
                phases += [*watched.guard, *(self.literal(v) for v in watched.better(chosen, again))]
        if out:
            self._sat.set_phases(phases)
        return out

    def chosen(self) -> NDArray[np.bool_]:
        """Which values the solution just found chooses (values,)."""
        literals = np.array(self._literal)
        model = np.array(self._sat.get_model(), dtype=np.int64)  # ±1, ±2, … in order, up to the last one in a clause
        free = -np.arange(len(model) + 1, np.abs(literals).max() + 1)
        return np.concatenate([model, free])[np.abs(literals) - 1] == literals

    def model(self) -> list[int]:
        """The value index of each block in the solution just found."""
        ids = np.flatnonzero(self.chosen())
        return (ids - np.array(self.constraints.offsets[:-1])).tolist()

    def prefer(self, values: Iterable[int]) -> None:
        """Let the next solutions choose these values where they can."""
        self._sat.set_phases([self._literal[v] for v in values])

    def never(self, values: int, conflicts: int | None = None) -> list[int]:
        """Which of the first so many values no solution chooses; with `conflicts`, as far as so short searches tell.

        Values seen in any solution are struck off at once.
        """
        open_ = np.ones(values, dtype=bool)
        out = []
        while open_.any():
            value = int(np.argmax(open_))
            self.prefer(np.flatnonzero(open_).tolist())
            allowed = self._allows(self.literal(value), conflicts)
            if allowed:
                open_ &= ~self.chosen()[:values]
            elif allowed is False:
                out.append(value)
            open_[value] = False
        return out

    def propagated(self) -> set[int]:
        """Values that propagation alone rules out."""
        return self.ruled_out([]) or set()

    def ruled_out(self, literals: Iterable[int]) -> set[int] | None:
        """Values that propagation alone rules out given SAT literals; None if it finds a contradiction."""
        fine, known = self._sat.propagate(assumptions=[*self._all, *literals])
        false = {-x for x in known}
        return {value for value, literal in enumerate(self._literal) if literal in false} if fine else None

    def _allows(self, literal: int, conflicts: int | None) -> bool | None:
        """Whether a solution has a literal; with `conflicts` it may break watched sums, and None is undecided."""
        if conflicts is None:
            return self.satisfiable([literal])
        return self._sat.decide_within(conflicts, [*self._all, literal])

    def conflict(self, literals: Sequence[int] = (), rules: Iterable[int] | None = None) -> list[int] | None:
        """A minimal set of rules that forbids the literals, in rule order; None if nothing forbids them."""
        if rules is None:
            if self.satisfiable(literals):
                return None
            rules = list(self.switches)
        if self.satisfiable(literals, rules):
            return None
        core = self._core()
        for rule in tuple(core):
            if rule not in core:
                continue
            rest = [r for r in core if r != rule]
            if not self.satisfiable(literals, rest):
                core = [r for r in self._core() if r in rest]
        return sorted(core)

    def _core(self) -> list[int]:
        return sorted(self._rule_of[x] for x in self._sat.get_core() or () if x in self._rule_of)

    def add_negation(self, s: Sum) -> int:
        """A SAT literal whose truth demands that a sum fails."""
        switch = next(self._ids)
        layers = self._layers(s)
        low, high = sum(layer[0][0] for layer in layers), sum(layer[-1][0] for layer in layers)
        edges = [low - 1, *(edge for interval in s.intervals for edge in interval), high + 1]
        gaps = [(a + 1, b - 1) for a, b in zip(edges[::2], edges[1::2]) if a + 1 <= b - 1]
        self._add_sum(Sum(s.values, s.coefficients, tuple(gaps)), [-switch])
        return switch

    def ways_to_fail(self) -> dict[int, list[list[int]]]:
        """For each rule, SAT literals for every way in which it can fail; definitions are not its own.

        The negations of sums are added to this solver: call it on one that is not shared.
        """
        c = self.constraints
        out: dict[int, list[list[int]]] = {rule: [] for rule in self.switches}
        for clause, rule, owner in zip(c.clauses, c.clause_rules, c.clause_owners):
            if owner < 0:
                out[rule].append([-self.literal(v) for v in clause])
        for s, rule, owner in zip(c.sums, c.sum_rules, c.sum_owners):
            if owner < 0:
                out[rule].append([self.add_negation(s)])
        return out


class _Watched:
    """A sum with too many partial totals to be written as clauses: what is wrong with a solution that breaks it."""

    def __init__(self, s: Sum, guard: list[int], layers: list[Layer]) -> None:
        self.intervals, self.guard, self.layers = s.intervals, guard, layers
        self.values = np.array(s.values)
        self.coefficients = np.array(s.coefficients, dtype=object)  # of any size

    def total(self, chosen: NDArray[np.bool_]) -> int:
        return int(self.coefficients[chosen[self.values]].sum())

    def holds(self, total: int) -> bool:
        return any(low <= total <= high for low, high in self.intervals)

    def _picked(self, chosen: NDArray[np.bool_]) -> Iterator[tuple[Layer, int, int]]:
        """Blocks of narrow range first: the block, the coefficient and the value chosen."""
        for layer in sorted(self.layers, key=lambda layer: layer[-1][0] - layer[0][0]):
            yield layer, *next((c, v) for c, v in layer if chosen[v])

    def reasons(self, chosen: NDArray[np.bool_]) -> list[int]:
        """Values of which one must change: the others alone cannot bring the total out of its gap between intervals."""
        low = high = self.total(chosen)
        below = max((b for _, b in self.intervals if b < low), default=None)
        above = min((a for a, _ in self.intervals if a > low), default=None)
        out = []
        for layer, c, v in self._picked(chosen):
            least, most = low + layer[0][0] - c, high + layer[-1][0] - c
            if (below is None or least > below) and (above is None or most < above):
                low, high = least, most
            else:
                out.append(v)
        return out

    def better(self, chosen: NDArray[np.bool_], all_the_way: bool) -> list[int]:
        """Values that would bring the total down to an interval below it, or up to one above if there is none.

        `all_the_way` is for when that was not enough, since some values cannot be changed.
        """
        total = self.total(chosen)
        down = any(b < total for _, b in self.intervals)
        out = []
        for layer, c, _ in self._picked(chosen):
            if self.holds(total) and not all_the_way:
                break
            best, value = layer[0] if down else layer[-1]
            if best != c:
                total += best - c
                out.append(value)
        return out


Demand = tuple[tuple[int, int], ...]  # totals that the blocks left may add up to


class _Places:
    """Places of a sum's decision diagram: how many blocks are decided, and what is demanded of the rest."""

    def __init__(self, layers: list[Layer], ids: Iterator[int]) -> None:
        self.ids = ids
        self.reach = [(0, 0)]  # least and greatest total of the blocks from each depth on
        for layer in reversed(layers):
            self.reach.append((self.reach[-1][0] + layer[0][0], self.reach[-1][1] + layer[-1][0]))
        self.reach.reverse()
        self.known: dict[tuple[int, Demand], int] = {}
        self.todo: list[tuple[int, Demand, int]] = []  # places without a way on so far

    def at(self, depth: int, demand: Sequence[tuple[int, int]]) -> bool | int:
        """The SAT variable of a place, or a truth value if what is demanded is always or never met."""
        low, high = self.reach[depth]
        kept = tuple((max(a, low), min(b, high)) for a, b in demand if a <= high and b >= low)
        if not kept or kept == ((low, high),):
            return bool(kept)
        key = (depth, kept)
        if key not in self.known:
            self.known[key] = next(self.ids)
            self.todo.append((depth, kept, self.known[key]))
        return self.known[key]


class Solvers:
    """The solvers of one label space: a borrower has one alone until it is given back.

    A new one is built only if all are in use, so there are never more than threads that asked at the same time.
    """

    def __init__(self, constraints: Constraints) -> None:
        self.constraints = constraints
        self._idle: list[Solver] = []  # append and pop are atomic: no lock that a fork could leave held

    @contextmanager
    def borrowed(self) -> Iterator[Solver]:
        """A solver for this thread alone. One that an error or Ctrl-C interrupted is not used again."""
        try:
            solver = self._idle.pop()
        except IndexError:
            solver = Solver(self.constraints)
        yield solver
        self._idle.append(solver)
