"""Solver: a SAT solver over the constraints of a label space, with each rule switched on or off at will.

Value ids become SAT variables (a binary block shares one variable between its two values). Clauses carry over; a sum
becomes a chain of partial totals, one variable for each place and remaining demand. What belongs to a rule is guarded
by that rule's switch; definitions of hidden and soft blocks always hold.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from pysat.solvers import Glucose4

from dssl.errors import RuleError
from dssl.logic.constraints import Constraints, Sum

_MAX_PLACES = 50_000  # of one sum
_SPREAD = 6  # blocks larger than this forbid two values by a ladder, not pair by pair


class Solver:
    """Satisfiability under chosen rules and values."""

    def __init__(self, constraints: Constraints) -> None:
        self.constraints = constraints
        self._sat = Glucose4()
        self._ids = itertools.count(1)
        self._literal: list[int] = []  # SAT literal of each value id
        self._block_of = [block for block, size in enumerate(constraints.sizes) for _ in range(size)]
        for block, size in enumerate(constraints.sizes):
            self._add_block(size, constraints.categorical[block])
        used = set(constraints.clause_rules + constraints.sum_rules)
        self.switches = {rule: next(self._ids) for rule in sorted(used)}
        self._rule_of = {switch: rule for rule, switch in self.switches.items()}
        self._above: dict[int, tuple[int, int]] = {}  # a switch or group of switches → its group and its sibling
        self._all = self._group(list(self.switches.values()))
        c = constraints
        for clause, rule, owner in zip(c.clauses, c.clause_rules, c.clause_owners):
            self._sat.add_clause([*self._guard(rule, owner), *map(self.literal, clause)])
        for s, rule, owner in zip(c.sums, c.sum_rules, c.sum_owners):
            self._add_sum(s, self._guard(rule, owner))

    def _group(self, switches: list[int]) -> list[int]:
        """A switch for all of some switches (none if there are none), by a binary tree of groups.

        One literal then stands for thousands of rules, and "all but one" costs as many as the tree is deep.
        """
        while len(switches) > 1:
            pairs = list(zip(switches[::2], switches[1::2]))
            rest = switches[-1:] if len(switches) % 2 else []
            switches = []
            for a, b in pairs:
                group = next(self._ids)
                self._sat.add_clause([-group, a])
                self._sat.add_clause([-group, b])
                self._above[a], self._above[b] = (group, b), (group, a)
                switches.append(group)
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
        """The sum as a decision diagram over its blocks: a place that is reached must find a way on."""
        layers = self._layers(s)  # coefficients rise within each
        reach = [(0, 0)]
        for layer in reversed(layers):
            reach.append((reach[-1][0] + layer[0][0], reach[-1][1] + layer[-1][0]))
        reach.reverse()
        places: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
        todo: list[tuple[int, tuple[tuple[int, int], ...], int]] = []

        def place(depth: int, demand: Sequence[tuple[int, int]]) -> bool | int:
            low, high = reach[depth]
            kept = tuple((max(a, low), min(b, high)) for a, b in demand if a <= high and b >= low)
            if not kept or kept == ((low, high),):
                return bool(kept)
            key = (depth, kept)
            if key not in places:
                if len(places) == _MAX_PLACES:
                    raise RuleError(
                        f"a sum of {len(layers)} variables with more than {_MAX_PLACES:,} different partial totals",
                        remedy="Use fewer variables, smaller ranges or rounder coefficients.",
                    )
                places[key] = next(self._ids)
                todo.append((depth, kept, places[key]))
            return places[key]

        root = place(0, s.intervals)
        if root is not True:
            self._sat.add_clause([*guard, *([] if root is False else [root])])
        while todo:
            depth, demand, here = todo.pop()
            low, high = reach[depth + 1]
            onward: list[int] = []
            for a, b in demand:  # only these coefficients leave a demand that can still be met
                first = bisect.bisect_left(layers[depth], (a - high, -1))
                last = bisect.bisect_left(layers[depth], (b - low + 1, -1))
                for c, value in layers[depth][first:last]:
                    after = place(depth + 1, [(x - c, y - c) for x, y in demand])
                    onward.append(self.literal(value))
                    if after is not True:
                        self._sat.add_clause([-here, -self.literal(value), after])
            self._sat.add_clause([-here, *onward])

    def _layers(self, s: Sum) -> list[list[tuple[int, int]]]:
        """For each block that a sum speaks of, its coefficients and values, coefficients rising."""
        coefficient = dict(zip(s.values, s.coefficients))
        offsets, sizes = self.constraints.offsets, self.constraints.sizes
        blocks = dict.fromkeys(self._block_of[v] for v in s.values)
        spans = (range(offsets[block], offsets[block] + sizes[block]) for block in blocks)
        return [sorted((coefficient.get(v, 0), v) for v in span) for span in spans]

    def satisfiable(self, literals: Iterable[int] = (), rules: Iterable[int] | None = None) -> bool:
        """Whether the rules (all, if None) allow these SAT literals together."""
        on = self._all if rules is None else [self.switches[r] for r in rules if r in self.switches]
        return bool(self._sat.solve(assumptions=[*on, *literals]))

    def satisfiable_without(self, rule: int, literals: Iterable[int]) -> bool:
        """Whether all rules but one allow these SAT literals."""
        here, on = self.switches[rule], []
        while here in self._above:
            here, sibling = self._above[here]
            on.append(sibling)
        return bool(self._sat.solve(assumptions=[*on, *literals]))

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
        """Let the next solutions choose these values where nothing speaks against it."""
        self._sat.set_phases([self._literal[v] for v in values])

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
