"""Few rules: those that follow from others dropped, and a short list of rules for an exact set of labels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.errors import RuleError
from dssl.logic.induction.discovery import KINDS, Discovery
from dssl.logic.induction.mining import Miner
from dssl.logic.induction.phrasing import said
from dssl.logic.induction.tally import Tally, read
from dssl.logic.labels import indices
from dssl.logic.language.formula import Count, Formula, Is
from dssl.logic.language.parser import Rule
from dssl.logic.language.variables import Variable
from dssl.logic.reasoning.normalisation import normalise
from dssl.logic.reasoning.solver import Solver
from dssl.logic.space import LabelSpace

Ints = NDArray[np.int64]
_WRITTEN_OUT = 2000  # clauses of one cardinality


def irredundant(variables: Sequence[Variable], rules: Sequence[Rule], given: Sequence[Rule] = ()) -> list[int]:
    """Places of the rules that neither the `given` nor the remaining rules imply; later ones are dropped first.

    A hard rule is dropped only because of hard ones, a soft rule also if remaining soft ones say as much. `given` ones
    are hard. A disjunction of many whole rows is kept even if it is redundant.
    """
    first = len(given)
    solver = Solver(normalise(variables, [Rule(rule.formula) for rule in (*given, *rules)]))
    hard = [first + i for i, rule in enumerate(rules) if rule.probability is None]
    soft = [first + i for i, rule in enumerate(rules) if rule.probability is not None]
    ways = solver.ways_to_fail()
    on = list(range(first))
    for some in (hard, soft):
        on += some
        for i in reversed(some if solver.satisfiable((), on) else ()):  # soft rules may contradict each other
            rest = [r for r in on if r != i]
            if not any(solver.satisfiable(way, rest) for way in ways.get(i, ())):
                on = rest
    return sorted(r - first for r in on if r >= first)


# ---- from an exact set of labels back to rules (paper, Eq. 8) ----


def rules_of(labels: Any, names: Sequence[str] | None = None, limit: int = 100_000) -> LabelSpace:
    """A space with exactly these valid labels, described by a short list of rules.

    >>> [rule.text for rule in rules_of([(0, 0, 1), (0, 1, 0), (1, 0, 0)], ["legs", "fins", "wings"]).rules]
    ['exactly_one(legs, fins, wings)']

    `labels`: a LabelSpace, whose rules are rewritten unless they are shorter as they are, or complete rows in any form
    that `learn_rules` reads. Forced values, equivalences, groups and implications come first; what is left is covered
    by prime implicates, each of which shuts out a label that the rules so far let in. At most `limit` labels are
    listed.
    """
    tally, soft = _listed(labels, names, limit)
    variables = tally.space.variables
    candidates = sorted(Discovery(Miner(tally, level=None), max_clause=2).run(), key=lambda f: KINDS.index(f.kind))
    rules = [Rule(candidate.formula) for candidate in candidates]
    rules += _Cover(variables, indices(tally.space, tally.codes.astype(np.float32)), rules).run()
    found = _exactly([rules[i] for i in irredundant(variables, rules)])
    if isinstance(labels, LabelSpace):
        hard = [rule for rule in labels.rules if rule.probability is None]
        own = [hard[i] for i in irredundant(variables, hard)]
        found = min(found, own, key=_length)
    return LabelSpace.of(variables, (*found, *soft))


def _length(rules: list[Rule]) -> int:
    return sum(len(rule.text) for rule in rules)


def _exactly(rules: list[Rule]) -> list[Rule]:
    """The rules with "at most k" and "at least k" of the same formulas as "exactly k"."""
    out: list[Rule] = []
    for rule in rules:
        formula = rule.formula
        if isinstance(formula, Count) and formula.op in ("<=", ">="):
            other = Rule(Count({"<=": ">=", ">=": "<="}[formula.op], formula.k, formula.args))
            if other in out:
                out[out.index(other)] = Rule(Count("=", formula.k, formula.args))
                continue
        out.append(rule)
    return out


def _listed(labels: Any, names: Sequence[str] | None, limit: int) -> tuple[Tally, list[Rule]]:
    """The labels as a tally, and the soft rules of a space."""
    if isinstance(labels, LabelSpace):
        rows = list(labels.valid(limit + 1))
        if len(rows) > limit:
            raise RuleError(
                f"the space has more than {limit:,} valid labels", remedy="Raise limit, or split the space into parts."
            )
        plain = LabelSpace.of(labels.variables)
        return read(rows, space=plain), [rule for rule in labels.rules if rule.probability is not None]
    tally = read(labels, names)
    unknown = (tally.codes < 0).any(axis=1)
    if unknown.any():
        raise RuleError(
            f"row {int(unknown.argmax())} of the valid labels has a missing value",
            remedy="A valid row is complete: fill it in or leave it out.",
        )
    return Tally(tally.space, np.unique(tally.codes, axis=0)), []


class _Cover:
    """Rules that shut out, one by one, the labels that some rules let in and that are not valid."""

    def __init__(self, variables: Sequence[Variable], valid: Ints, rules: Sequence[Rule]) -> None:
        self.variables, self.valid = variables, valid  # valid: (labels, variables) value indices
        self.solver = _Open(normalise(variables, rules))
        self.offsets = self.solver.constraints.offsets
        self.binary = np.array([variable.binary for variable in variables])
        for row in valid.tolist():
            self.solver.demand([-self._literal(i, value) for i, value in enumerate(row)])

    def _literal(self, variable: int, value: int) -> int:
        return self.solver.literal(self.offsets[variable] + value)

    def run(self) -> list[Rule]:
        out: list[Rule] = []
        while self.solver.satisfiable():
            point = np.array(self.solver.model()[: len(self.variables)])
            out.append(Rule(self._shut(point)))
        return out

    def _shut(self, point: Ints) -> Formula:
        """A rule that all valid labels obey and this one does not, as general as possible."""
        box = self._box(point)
        chosen = list(box)
        signs = {int(point[i]) for i in chosen}
        if len(chosen) > 2 and self.binary[chosen].all() and len(signs) == 1:
            group = self._grown(chosen, signs.pop())
            if group is not None:
                return group
        self._demand({i: set(values) for i, values in box.items()})
        return said([(self.variables[i], sorted(values)) for i, values in box.items()])

    def _box(self, point: Ints) -> dict[int, list[int]]:
        """Few variables, and as many values of each, that no valid label takes together."""
        apart = self.valid != point
        chosen: list[int] = []
        open_ = np.ones(len(apart), dtype=bool)
        while open_.any():
            chosen.append(int(apart[open_].sum(axis=0).argmax()))
            open_ &= ~apart[:, chosen[-1]]
        for i in tuple(chosen):
            rest = [j for j in chosen if j != i]
            if rest and apart[:, rest].any(axis=1).all():
                chosen = rest
        box = {i: [int(point[i])] for i in sorted(chosen)}
        for i in box:
            others = [np.isin(self.valid[:, j], box[j]) for j in box if j != i]
            seen = set(self.valid[np.logical_and.reduce(others), i].tolist() if others else self.valid[:, i].tolist())
            box[i] = [value for value in range(len(self.variables[i].values)) if value not in seen]
        return box

    def _grown(self, chosen: list[int], sign: int) -> Formula | None:
        """At most k of a group, from k + 1 that never hold together; None if the group does not grow."""
        k, group = len(chosen) - 1, list(chosen)
        count = (self.valid[:, group] == sign).sum(axis=1)
        for i in np.flatnonzero(self.binary).tolist():
            wider = count + (self.valid[:, i] == sign)
            if i not in group and wider.max() <= k:
                group, count = [*group, i], wider
        if len(group) == len(chosen) or math.comb(len(group), k + 1) > _WRITTEN_OUT:
            return None
        for some in itertools.combinations(group, k + 1):
            self._demand({i: {sign} for i in some})
        args = tuple(Is(self.variables[i].name) for i in sorted(group))
        return Count("<=", k, args) if sign else Count(">=", len(group) - k, args)

    def _demand(self, box: dict[int, set[int]]) -> None:
        """Shut out every label of a box."""
        self.solver.demand(
            [
                self._literal(i, v)
                for i, inside in box.items()
                for v in range(len(self.variables[i].values))
                if v not in inside
            ]
        )


class _Open(Solver):
    """A solver that takes further clauses, which always hold."""

    def demand(self, literals: list[int]) -> None:
        self._sat.add_clause(literals)
