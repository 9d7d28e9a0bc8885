"""What rules say that their author may not have meant, each finding with the rules that cause it."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dssl.errors import BudgetError, ContradictionError
from dssl.logic.language.formula import Formula, Iff, Implies, Is
from dssl.logic.language.parser import Rule
from dssl.logic.language.quoting import Value, quoted
from dssl.logic.language.variables import Variable
from dssl.logic.reasoning.solver import Solver

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace


@dataclass(frozen=True)
class Finding:
    """One thing worth a look: `kind`, a sentence, and a smallest set of rules behind it.

    Kinds: "forced" (a variable has one value only), "impossible" (a value never occurs), "vacuous" (a rule always
    true), "redundant" (implied by the others), "dead" (the premise of a rule can never hold).
    """

    kind: str
    message: str
    rules: tuple[Rule, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.kind}: {self.message}", *(f"    {rule}" for rule in self.rules)])


@dataclass(frozen=True)
class Diagnosis:
    """All findings about a space. Empty, hence false, if there is nothing to say."""

    findings: tuple[Finding, ...]

    def of_kind(self, kind: str) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.kind == kind)

    def __bool__(self) -> bool:
        return bool(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        return (
            "\n".join(map(str, self.findings))
            or "nothing stands out: no value is forced, and every rule says something"
        )


def diagnose(space: LabelSpace) -> Diagnosis:
    """Forced variables, values that never occur, rules without effect, and premises that can never hold.

    Where sums are too large for the solver, circuits find the same, but blame all other rules together.
    """
    try:
        doctor = _Doctor(space)
        return Diagnosis((*doctor.values(), *doctor.idle_rules(), *doctor.dead_premises()))
    except BudgetError:
        return Diagnosis(tuple(_by_circuits(space)))


class _Doctor:
    def __init__(self, space: LabelSpace) -> None:
        self.space = space
        self.solver = Solver(space.constraints)  # its own: questions about rules add clauses to it
        self.hard = [i for i, rule in enumerate(space.rules) if rule.probability is None]
        c = space.constraints
        owned = {*c.clause_owners, *c.sum_owners}
        rows = {c.offsets[block] for block in c.hidden if block not in owned}  # first values of blocks of rows
        self.tables = {rule for clause, rule in zip(c.clauses, c.clause_rules) if not rows.isdisjoint(clause)}

    def rules(self, numbers: list[int] | None) -> tuple[Rule, ...]:
        return tuple(self.space.rules[i] for i in numbers or ())

    # ---- values ----

    def values(self) -> list[Finding]:
        """Variables with a single possible value, and values that never occur."""
        never = self._never()
        out = []
        for block, variable in enumerate(self.space.variables):
            gone = [v for v in range(len(variable.values)) if (block, v) in never]
            left = [v for v in range(len(variable.values)) if (block, v) not in never]
            if gone and len(left) == 1:
                blame = self.solver.conflict([-self._literal(block, left[0])])
                said = f"{quoted(variable.name)} is always {_said(variable.values[left[0]])}"
                out.append(Finding("forced", said + self._because(blame), self.rules(blame)))
            else:
                out += [self._impossible(block, variable, v) for v in gone]
        return out

    def _impossible(self, block: int, variable: Variable, value: int) -> Finding:
        blame = self.solver.conflict([self._literal(block, value)])
        said = f"{quoted(variable.name)} is never {_said(variable.values[value])}"
        return Finding("impossible", said + self._because(blame), self.rules(blame))

    @staticmethod
    def _because(blame: list[int] | None) -> str:
        return ", because of these rules together:" if blame and len(blame) > 1 else ":"

    def _literal(self, block: int, value: int) -> int:
        return self.solver.literal(self.space.constraints.offsets[block] + value)

    def _never(self) -> set[tuple[int, int]]:
        """(variable, value) pairs that no valid label has."""
        offsets, last = self.space.constraints.offsets, len(self.space.variables)
        blocks = ((bisect.bisect_right(offsets, value) - 1, value) for value in self.solver.never(offsets[last]))
        return {(block, value - offsets[block]) for block, value in blocks}

    # ---- rules ----

    def idle_rules(self) -> list[Finding]:
        """Rules that are always true, and rules that follow from the others."""
        out = []
        ways = self.solver.ways_to_fail()
        for i in self.hard:
            rule = self.space.rules[i]
            blame = self._implied_as_a_whole(i) if i in self.tables else self._implied(i, ways.get(i, []))
            if blame:
                out.append(Finding("redundant", f"'{rule.text}' follows from:", self.rules(blame)))
            elif blame is not None:
                out.append(Finding("vacuous", f"'{rule.text}' is always true", (rule,)))
        return out

    def _implied(self, i: int, ways: list[list[int]]) -> list[int] | None:
        """The other rules that together imply rule i; None if they do not."""
        if any(self.solver.satisfiable_without(i, way) for way in ways):
            return None
        others = [r for r in self.hard if r != i]
        return sorted({r for way in ways for r in self.solver.conflict(way, others) or ()})

    def _implied_as_a_whole(self, i: int) -> list[int] | None:
        """The same for a table, whose constraints speak of a row that exists for valid labels only."""
        solver = self._probing([self.space.rules[i].formula])
        fails = solver.literal(solver.constraints.offsets[len(self.space.variables)])
        probe = len(self.space.rules)
        blame = solver.conflict([fails], [*(r for r in self.hard if r != i), probe])
        return None if blame is None else [r for r in blame if r != probe]

    def dead_premises(self) -> list[Finding]:
        """Implications whose premise can never hold, though no single variable is to blame."""
        out: list[Finding] = []
        premises = [(i, self.space.rules[i].formula) for i in self.hard]
        wanted = [(i, f.premise) for i, f in premises if isinstance(f, Implies) and not isinstance(f.premise, Is)]
        if not wanted:
            return out
        solver = self._probing([premise for _, premise in wanted])
        for number, (i, premise) in enumerate(wanted):
            literal = solver.literal(solver.constraints.offsets[len(self.space.variables) + number] + 1)
            blame = solver.conflict([literal])
            if blame is not None:
                blame = [r for r in blame if r < len(self.space.rules)]  # the probe itself is not to blame
            if blame and blame != [i]:
                said = f"'{premise}' can never hold, so '{self.space.rules[i].text}' says nothing; because of:"
                out.append(Finding("dead", said, self.rules(blame)))
        return out

    def _probing(self, premises: list[Formula]) -> Solver:
        """A solver over the same rules with one more binary block for each premise, true exactly when it holds."""
        from dssl.logic.reasoning.normalisation import normalise

        names = [f"premise {i}" for i in range(len(premises))]
        taken = {variable.name for variable in self.space.variables}
        while taken & set(names):
            names = [name + " " for name in names]
        variables = (*self.space.variables, *(Variable(name) for name in names))
        probes = [Rule(Iff(Is(name), premise)) for name, premise in zip(names, premises)]
        return Solver(normalise(variables, (*self.space.rules, *probes)))


# ---- where the solver gives up ----


def _by_circuits(space: LabelSpace) -> Iterator[Finding]:
    hard = tuple(rule for rule in space.rules if rule.probability is None)
    valid = type(space).of(space.variables, hard)
    yield from _values_by_circuit(valid)
    for rule in hard:
        others = tuple(other for other in hard if other is not rule)
        if type(space).of(space.variables, [rule]).count() == math.prod(len(v.values) for v in space.variables):
            yield Finding("vacuous", f"'{rule.text}' is always true", (rule,))
        elif type(space).of(space.variables, others).count() == valid.count():
            yield Finding("redundant", f"'{rule.text}' follows from:", others)
        premise = rule.formula.premise if isinstance(rule.formula, Implies) else None
        if premise is not None and not isinstance(premise, Is) and _empty(space, [*others, Rule(premise)]):
            said = f"'{premise}' can never hold, so '{rule.text}' says nothing; because of:"
            yield Finding("dead", said, others)


def _values_by_circuit(valid: LabelSpace) -> Iterator[Finding]:
    circuit = valid.compile()
    for variable, (start, stop) in zip(valid.variables, valid.spans):
        left = []
        for i, value in enumerate(variable.values):
            weights = np.ones((valid.width, 2))  # of true and false, so that only this value is left
            weights[start:stop, 0] = i if variable.binary else np.arange(stop - start) == i
            weights[start:stop, 1] = 1 - i if variable.binary else 1
            if circuit.log_weight(weights) > -math.inf:
                left.append(value)
        if len(left) == 1 < len(variable.values):
            yield Finding("forced", f"{quoted(variable.name)} is always {_said(left[0])}:", valid.rules)
        else:
            for value in variable.values:
                if value not in left:
                    yield Finding("impossible", f"{quoted(variable.name)} is never {_said(value)}:", valid.rules)


def _empty(space: LabelSpace, rules: list[Rule]) -> bool:
    try:
        return type(space).of(space.variables, rules).count() == 0
    except ContradictionError:
        return True


def _said(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else quoted(value)
