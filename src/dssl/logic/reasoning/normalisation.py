"""Variables and rules → Constraints: the normal form that the SAT solver and the compiler read.

Each rule becomes a conjunction of disjunctions of *elements*. An element is a member (a block takes one of some
values, a tuple of value ids) or a Sum. A disjunction of members is a clause; a Sum with members beside it is one Sum
over a longer range (`_guarded`), so implications of cardinalities need no helper. A part that would grow too much by
distribution, or holds several sums, gets a hidden block that is equivalent to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from dssl.logic.language.formula import (
    And,
    Compare,
    Count,
    Formula,
    Iff,
    Implies,
    In,
    Is,
    Not,
    Or,
    Truth,
    Xor,
    compare_holds,
)
from dssl.logic.language.parser import Rule
from dssl.logic.language.structures.automata import Layered
from dssl.logic.language.structures.patterns import Structure
from dssl.logic.language.variables import Variable
from dssl.logic.reasoning.constraints import Chain, Constraints, Listed, Member, Sum, merged
from dssl.logic.reasoning.walks import Walks

Element = Member | Sum
Disjunction = list[Element]
MAX_CLAUSES = 64  # a part that would give more is named by a hidden block
MAX_PAIRS = 10_000  # pairs of values of two variables that are compared one by one
MAX_PARITY = 12  # members of one parity; a longer one is folded
MIN_TABLE_ROWS = 8  # a disjunction of this many complete rows is read as a table


def normalise(variables: Sequence[Variable], rules: Sequence[Rule]) -> Constraints:
    """The constraints of a label space."""
    builder = Builder(variables)
    soft = [(i, rule) for i, rule in enumerate(rules) if rule.probability is not None]
    blocks = [builder.add_block(2) for _ in soft]
    for block, (i, rule) in zip(blocks, soft):
        builder.rule = i
        builder.define(block, rule.formula)
    for i, rule in enumerate(rules):
        if rule.probability is None:
            builder.rule = i
            builder.assert_rule(rule.formula)
    return builder.finish(len(variables), tuple(rule.probability or 0.0 for _, rule in soft))


class Builder:
    """Blocks, clauses and sums, as they are added rule by rule."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.sizes = [len(variable.values) for variable in variables]
        self.categorical = [not variable.binary for variable in variables]
        self.offsets = list(itertools.accumulate(self.sizes, initial=0))
        self.block_of = [block for block, size in enumerate(self.sizes) for _ in range(size)]
        self.variables = {variable.name: (i, variable) for i, variable in enumerate(variables)}
        self.values = {variable.name: variable.values for variable in variables}
        self.clauses: list[Member] = []
        self.clause_rules: list[int] = []
        self.clause_owners: list[int] = []
        self.sums: list[Sum] = []
        self.sum_rules: list[int] = []
        self.sum_owners: list[int] = []
        self.named: dict[Formula | Sum, Member] = {}  # what a hidden block stands for → "that block is true"
        self.walks = Walks(self)
        self.asserted: list[Chain] = []
        self.tables: list[Listed] = []
        self.folds: dict[tuple[Member, ...], list[Member]] = {}  # a long parity → a short one
        self.forms: dict[tuple[Formula, bool], list[Disjunction]] = {}
        self.rule = -1

    def add_block(self, size: int) -> int:
        block = len(self.sizes)
        self.sizes.append(size)
        self.categorical.append(False)
        self.offsets.append(self.offsets[-1] + size)
        self.block_of += [block] * size
        return block

    def finish(self, visible: int, soft: tuple[float, ...]) -> Constraints:
        return Constraints(
            sizes=tuple(self.sizes),
            categorical=tuple(self.categorical),
            clauses=tuple(self.clauses),
            sums=tuple(self.sums),
            visible=visible,
            soft=soft,
            clause_rules=tuple(self.clause_rules),
            sum_rules=tuple(self.sum_rules),
            clause_owners=tuple(self.clause_owners),
            sum_owners=tuple(self.sum_owners),
            chains=tuple(self.asserted),
            tables=tuple(self.tables),
        )

    # ---- emitting ----

    def assert_rule(self, formula: Formula) -> None:
        if isinstance(formula, Structure) and not isinstance(formula, Layered):
            formula = formula.lowered(self.values)
        if not self.assert_table(formula):
            for disjunction in self.cnf(formula, True):
                self.emit(disjunction, -1)
        if isinstance(formula, Layered) and formula in self.walks.chains:
            self.asserted.append(self.walks.chains[formula])

    def define(self, block: int, formula: Formula) -> None:
        """Make a binary block equivalent to a formula."""
        false, true = ((self.offsets[block],), (self.offsets[block] + 1,))
        for disjunction in self.cnf(formula, True):
            self.emit([false, *disjunction], block)
        for disjunction in self.cnf(formula, False):
            self.emit([true, *disjunction], block)

    def emit(self, disjunction: Disjunction, owner: int) -> None:
        """Add a disjunction as a clause or as one sum."""
        sums = [e for e in disjunction if isinstance(e, Sum)]
        named = [self.name_sum(s) for s in sums[1:]]
        members = self.merged([*(e for e in disjunction if not isinstance(e, Sum)), *named])
        if members is None:
            return
        if not sums:
            self.clauses.append(tuple(sorted(v for member in members for v in member)))
            self.clause_rules.append(self.rule)
            self.clause_owners.append(owner)
            return
        self.sums.append(self._guarded(sums[0], members))
        self.sum_rules.append(self.rule)
        self.sum_owners.append(owner)

    def merged(self, members: Iterable[Member]) -> list[Member] | None:
        """One member per block; None if some block may take all of its values, so that nothing is required."""
        by_block: dict[int, set[int]] = {}
        for member in members:
            if member:
                by_block.setdefault(self.block_of[member[0]], set()).update(member)
        if any(len(values) == self.sizes[block] for block, values in by_block.items()):
            return None
        return [tuple(sorted(values)) for _, values in sorted(by_block.items())]

    def _guarded(self, s: Sum, members: list[Member]) -> Sum:
        """``member or … or sum`` as one sum: a true member lifts the total beyond the reach of the sum itself."""
        if not members:
            return s
        low, high = self.reach(s)
        lift = high - low + 1
        weights = dict(zip(s.values, s.coefficients))
        for member in members:
            for value in member:
                weights[value] = weights.get(value, 0) + lift
        lifted = (low + lift, high + lift * len(members))
        return _sum(weights, [*s.intervals, lifted])

    def reach(self, s: Sum) -> tuple[int, int]:
        """The smallest and largest total of a sum."""
        by_block: dict[int, list[int]] = {}
        for value, c in zip(s.values, s.coefficients):
            by_block.setdefault(self.block_of[value], []).append(c)
        low = high = 0
        for block, given in by_block.items():
            spread = given if len(given) == self.sizes[block] else [*given, 0]
            low, high = low + min(spread), high + max(spread)
        return low, high

    # ---- naming ----

    def name_sum(self, s: Sum) -> Member:
        """A hidden block that is true exactly when the sum holds."""
        if s not in self.named:
            block = self.add_block(2)
            self.named[s] = (self.offsets[block] + 1,)
            self.emit([(self.offsets[block],), s], block)
            self.emit([(self.offsets[block] + 1,), *self.negated(s)], block)
        return self.named[s]

    def member(self, formula: Formula, positive: bool = True) -> Member | bool:
        """The formula as a member of one block, hidden if it must be, or its truth value if it has one."""
        if isinstance(formula, Not):
            return self.member(formula.arg, not positive)
        direct = self.direct(formula)
        if direct is None:
            if formula not in self.named:
                block = self.add_block(2)
                self.named[formula] = (self.offsets[block] + 1,)
                self.define(block, formula)
            direct = self.named[formula]
        if isinstance(direct, bool):
            return direct == positive
        return direct if positive else self.opposite(direct)

    def direct(self, formula: Formula) -> Member | bool | None:
        """An atom that is one member of one block, or a truth value; None for anything else."""
        if isinstance(formula, Truth):
            return formula.value
        if isinstance(formula, Is):
            return self.literal(formula, True)
        if isinstance(formula, In):
            block, variable = self.variables[formula.name]
            return self.whole(block, [variable.positions[value] for value in formula.values])
        if isinstance(formula, Layered):
            return self.walks.accepted(formula)
        if isinstance(formula, Compare):
            weights, constant = formula.weights()
            counted = [x for x, c in weights.items() if c]
            if len(counted) > 1 or (counted and not isinstance(counted[0], str)):
                return None
            if not counted:
                return compare_holds(formula.op, constant)
            block, variable = self.variables[str(counted[0])]
            c = weights[counted[0]]
            kept = [i for i, v in enumerate(variable.values) if compare_holds(formula.op, c * int(v) + constant)]
            return self.whole(block, kept)
        return None

    def literal(self, atom: Is, positive: bool) -> Member:
        """The member of a binary variable that is true, or false."""
        return (self.offsets[self.variables[atom.name][0]] + positive,)

    def whole(self, block: int, positions: list[int]) -> Member | bool:
        """The member of some values of a block; a truth value if it is none or all of them."""
        if len(positions) in (0, self.sizes[block]):
            return bool(positions)
        return tuple(sorted(self.offsets[block] + p for p in positions))

    def opposite(self, member: Member) -> Member:
        block = self.block_of[member[0]]
        return tuple(v for v in range(self.offsets[block], self.offsets[block + 1]) if v not in member)

    # ---- conjunctive form ----

    def cnf(self, formula: Formula, positive: bool) -> list[Disjunction]:
        """The formula, or its negation, as a conjunction of disjunctions; [] is true and [[]] false."""
        if isinstance(formula, Is):
            return [[self.literal(formula, positive)]]
        if isinstance(formula, Not):
            return self.cnf(formula.arg, not positive)
        key = (formula, positive)
        found = self.forms.get(key)
        if found is None:  # each part once: equivalences ask for both signs of every part below them
            found = self.forms[key] = self._cnf(formula, positive)
        return found

    def _cnf(self, formula: Formula, positive: bool) -> list[Disjunction]:
        if isinstance(formula, Implies):
            return self.cnf(Or((Not(formula.premise), formula.conclusion)), positive)
        if isinstance(formula, And | Or):
            parts = [(part, positive) for part in formula.args]
            if isinstance(formula, And) == positive:
                return [d for part, sign in parts for d in self.cnf(part, sign)]
            return self.any_of(parts)
        if isinstance(formula, Iff):
            return self.parity((formula.left, formula.right), not positive)
        if isinstance(formula, Xor):
            return self.parity(formula.args, positive)
        if isinstance(formula, Count):
            return self.count(formula, positive)
        if isinstance(formula, Structure) and not isinstance(formula, Layered):
            return self.cnf(formula.lowered(self.values), positive)
        if isinstance(formula, Compare) and self.direct(formula) is None:
            pairs = self.pairs(formula, positive)
            return self.counted(self.comparison(formula), positive) if pairs is None else pairs
        return self.single(self.member(formula, positive))

    def single(self, member: Member | bool) -> list[Disjunction]:
        if isinstance(member, bool):
            return [] if member else [[]]
        return [[member]]

    def any_of(self, parts: Sequence[tuple[Formula, bool]]) -> list[Disjunction]:
        """The disjunction of some parts, distributed while it stays small."""
        forms: list[list[Disjunction]] = []
        size = 1
        for part, sign in parts:
            form = self.cnf(part, sign)
            if len(form) > 1 and size * len(form) > MAX_CLAUSES:
                form = self.single(self.member(part, sign))
            size *= len(form)
            forms.append(form)
        if any(not form for form in forms):
            return []
        return [[e for d in combination for e in d] for combination in itertools.product(*forms)]

    def parity(self, args: Sequence[Formula], odd: bool) -> list[Disjunction]:
        """An odd (or even) number of formulas hold."""
        if len(args) == 2 and not all(self.direct(a) is None for a in args):
            a, b = args  # an equivalence with an atom: two implications need no hidden block
            even = [Or((Not(a), b)), Or((a, Not(b)))]
            return [d for part in ([Or((a, b)), Or((Not(a), Not(b)))] if odd else even) for d in self.cnf(part, True)]
        members, flips = self.members(args)
        wanted = (1 if odd else 0) ^ (flips & 1)
        if len(members) <= 2:
            return self._small_parity(members, wanted)
        members = self.folded(members)
        intervals = [(k, k) for k in range(wanted, len(members) + 1, 2)]
        return self.counted(_sum(self.total(members), intervals), True)

    def folded(self, members: list[Member]) -> list[Member]:
        """A few members of the same parity: one hidden block after another says whether those so far are odd."""
        key = tuple(members)
        if len(key) <= MAX_PARITY:
            return members
        if key not in self.folds:
            while len(members) > MAX_PARITY:
                first, members = members[: MAX_PARITY - 1], members[MAX_PARITY - 1 :]
                block = self.add_block(2)
                odd = (self.offsets[block] + 1,)
                even = [(k, k) for k in range(0, MAX_PARITY + 1, 2)]
                self.emit(self.counted(_sum(self.total([odd, *first]), even), True)[0], block)
                members = [odd, *members]
            self.folds[key] = members
        return self.folds[key]

    def _small_parity(self, members: list[Member], wanted: int) -> list[Disjunction]:
        if not members:
            return [[]] if wanted else []
        if len(members) == 1:
            return [[members[0] if wanted else self.opposite(members[0])]]
        a, b = members
        if wanted:
            return [[a, b], [self.opposite(a), self.opposite(b)]]
        return [[self.opposite(a), b], [a, self.opposite(b)]]

    def members(self, args: Iterable[Formula]) -> tuple[list[Member], int]:
        """Formulas as members; those that are always true are counted apart."""
        out: list[Member] = []
        true = 0
        for arg in args:
            member = self.member(arg)
            if isinstance(member, bool):
                true += member
            else:
                out.append(member)
        return out, true

    def total(self, members: Iterable[Member]) -> dict[int, int]:
        weights: dict[int, int] = {}
        for member in members:
            for value in member:
                weights[value] = weights.get(value, 0) + 1
        return weights

    def count(self, formula: Count, positive: bool) -> list[Disjunction]:
        members, true = self.members(formula.args)
        n, k = len(members), formula.k - true
        low, high = {"<=": (0, k), ">=": (k, n), "=": (k, k)}[formula.op]
        intervals = _clipped([(low, high)], 0, n)
        if not positive:
            intervals = _complement(intervals, 0, n)
        if intervals == [(1, n)]:
            return [list(members)]
        if intervals == [(0, n - 1)] and n:
            return [[self.opposite(member) for member in members]]
        if intervals in ([(0, 0)], [(n, n)]):
            return [[c if intervals[0][0] else self.opposite(c)] for c in members]
        return self.counted(_sum(self.total(members), intervals), True)

    def pairs(self, formula: Compare, positive: bool) -> list[Disjunction] | None:
        """Two numbers that differ, value by value, as for names. None for any other comparison."""
        weights, constant = formula.weights()
        counted = [x for x, c in weights.items() if c and isinstance(x, str)]
        if formula.op != ("!=" if positive else "=") or len(counted) != 2 or len(counted) < len(weights):
            return None
        (a, first), (b, second) = sorted((self.variables[name] for name in counted), key=lambda at: len(at[1].values))
        if len(first.values) * len(second.values) > MAX_PAIRS:
            return None
        c, d = weights[first.name], weights[second.name]
        out: list[Disjunction] = []
        for i, v in enumerate(first.values):
            apart = [j for j, w in enumerate(second.values) if c * int(v) + d * int(w) + constant]
            if len(apart) < len(second.values):
                members = self.whole(a, [k for k in range(len(first.values)) if k != i]), self.whole(b, apart)
                out.append([member for member in members if isinstance(member, tuple)])
        return out

    def comparison(self, formula: Compare) -> Sum:
        """A comparison of several variables and counted formulas as a sum."""
        weights, constant = formula.weights()
        by_value: dict[int, int] = {}
        for x, c in weights.items():
            if isinstance(x, str):
                block, variable = self.variables[x]
                numbers = {self.offsets[block] + i: int(value) for i, value in enumerate(variable.values)}
            else:
                member = self.member(x)
                constant += c if member is True else 0
                numbers = dict.fromkeys(member, 1) if isinstance(member, tuple) else {}
            for value, number in numbers.items():
                by_value[value] = by_value.get(value, 0) + c * number
        low, high = self.reach(_sum(by_value, []))
        wanted = {
            "<": [(low, -constant - 1)],
            "<=": [(low, -constant)],
            ">": [(-constant + 1, high)],
            ">=": [(-constant, high)],
            "=": [(-constant, -constant)],
            "!=": [(low, -constant - 1), (-constant + 1, high)],
        }[formula.op]
        return _sum(by_value, wanted)

    def counted(self, s: Sum, positive: bool) -> list[Disjunction]:
        """A sum, or its negation, folded if it always or never holds."""
        low, high = self.reach(s)
        intervals = _clipped(s.intervals, low, high)
        if not positive:
            intervals = _complement(intervals, low, high)
        if not intervals:
            return [[]]
        if intervals == [(low, high)]:
            return []
        return [[Sum(s.values, s.coefficients, tuple(intervals))]]

    def negated(self, s: Sum) -> Disjunction:
        (disjunction,) = self.counted(s, False)
        return disjunction

    # ---- tables ----

    def assert_table(self, formula: Formula) -> bool:
        """Assert a disjunction of complete rows through one hidden block: the row. False if it is not of that form."""
        if not isinstance(formula, Or) or len(formula.args) < MIN_TABLE_ROWS:
            return False
        rows = [self.row(arg) for arg in formula.args]
        first = rows[0]
        if first is None or any(row is None or row.keys() != first.keys() for row in rows):
            return False
        distinct = list({tuple(sorted(row.items())): row for row in rows if row is not None}.values())
        selector = self.add_block(len(distinct))
        start = self.offsets[selector]
        blocks = sorted(first)
        positions = [[row[block] - self.offsets[block] for block in blocks] for row in distinct]
        self.tables.append(Listed(tuple(blocks), np.array(positions, dtype=np.int64)))
        for block in blocks:
            for value in range(self.offsets[block], self.offsets[block + 1]):
                others = tuple(start + r for r, row in enumerate(distinct) if row[block] != value)
                self.emit([others, (value,)], -1)
        return True

    def row(self, formula: Formula) -> dict[int, int] | None:
        """A conjunction that fixes one value per block: those values by block."""
        out: dict[int, int] = {}
        for part in formula.args if isinstance(formula, And) else (formula,):
            negative = isinstance(part, Not)
            direct = self.direct(part.arg if isinstance(part, Not) else part)
            if not isinstance(direct, tuple):
                return None
            member = self.opposite(direct) if negative else direct
            block = self.block_of[member[0]]
            if len(member) != 1 or block in out:
                return None
            out[block] = member[0]
        return out


def _sum(weights: dict[int, int], intervals: Iterable[tuple[int, int]]) -> Sum:
    kept = sorted((value, c) for value, c in weights.items() if c)
    return Sum(tuple(v for v, _ in kept), tuple(c for _, c in kept), tuple(merged(intervals)))


def _clipped(intervals: Iterable[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    return merged((max(a, low), min(b, high)) for a, b in intervals)


def _complement(intervals: Sequence[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """What lies between `intervals` (sorted, inside [low, high])."""
    edges = [low - 1, *(edge for interval in intervals for edge in interval), high + 1]
    return merged((a + 1, b - 1) for a, b in zip(edges[::2], edges[1::2]))
