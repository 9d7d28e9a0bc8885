"""Variables and rules → Constraints: the normal form that the SAT solver and the compiler read.

Each rule becomes a conjunction of disjunctions of *elements*. An element is a choice (a block takes one of some
values, a tuple of value ids) or a Sum. A disjunction of choices is a clause; a Sum with choices beside it is one Sum
over a longer range (`_guarded`), so implications of cardinalities need no helper. What would grow too much by
distribution, or holds several sums, is named by a hidden block that is equivalent to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from dssl.logic.constraints import Constraints, Sum
from dssl.logic.formula import (
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
from dssl.logic.language import Rule
from dssl.logic.variables import Variable

Choice = tuple[int, ...]  # value ids of one block
Element = Choice | Sum
Disjunction = list[Element]
MAX_CLAUSES = 64  # a part that would give more is named by a hidden block
MIN_TABLE_ROWS = 8  # a disjunction of this many complete rows is read as a table


def normalise(variables: Sequence[Variable], rules: Sequence[Rule]) -> Constraints:
    """The constraints of a label space."""
    builder = _Builder(variables)
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


class _Builder:
    def __init__(self, variables: Sequence[Variable]) -> None:
        self.sizes = [len(variable.values) for variable in variables]
        self.categorical = [not variable.binary for variable in variables]
        self.offsets = list(itertools.accumulate(self.sizes, initial=0))
        self.block_of = [block for block, size in enumerate(self.sizes) for _ in range(size)]
        self.variables = {variable.name: (i, variable) for i, variable in enumerate(variables)}
        self.clauses: list[Choice] = []
        self.clause_rules: list[int] = []
        self.clause_owners: list[int] = []
        self.sums: list[Sum] = []
        self.sum_rules: list[int] = []
        self.sum_owners: list[int] = []
        self.named: dict[Formula | Sum, Choice] = {}  # what a hidden block stands for → "that block is true"
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
        )

    # ---- emitting ----

    def assert_rule(self, formula: Formula) -> None:
        if not self.assert_table(formula):
            for disjunction in self.cnf(formula, True):
                self.emit(disjunction, -1)

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
        choices = self.merged([*(e for e in disjunction if not isinstance(e, Sum)), *named])
        if choices is None:
            return
        if not sums:
            self.clauses.append(tuple(sorted(v for choice in choices for v in choice)))
            self.clause_rules.append(self.rule)
            self.clause_owners.append(owner)
            return
        self.sums.append(self._guarded(sums[0], choices))
        self.sum_rules.append(self.rule)
        self.sum_owners.append(owner)

    def merged(self, choices: Iterable[Choice]) -> list[Choice] | None:
        """One choice a block; None if some block's choice is all of its values, so that nothing is demanded."""
        by_block: dict[int, set[int]] = {}
        for choice in choices:
            if choice:
                by_block.setdefault(self.block_of[choice[0]], set()).update(choice)
        if any(len(values) == self.sizes[block] for block, values in by_block.items()):
            return None
        return [tuple(sorted(values)) for _, values in sorted(by_block.items())]

    def _guarded(self, s: Sum, choices: list[Choice]) -> Sum:
        """``choice or … or sum`` as one sum: a true choice lifts the total beyond the reach of the sum itself."""
        if not choices:
            return s
        low, high = self.reach(s)
        lift = high - low + 1
        weights = dict(zip(s.values, s.coefficients))
        for choice in choices:
            for value in choice:
                weights[value] = weights.get(value, 0) + lift
        lifted = (low + lift, high + lift * len(choices))
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

    def name_sum(self, s: Sum) -> Choice:
        """A hidden block that is true exactly when the sum holds."""
        if s not in self.named:
            block = self.add_block(2)
            self.named[s] = (self.offsets[block] + 1,)
            self.emit([(self.offsets[block],), s], block)
            self.emit([(self.offsets[block] + 1,), *self.negated(s)], block)
        return self.named[s]

    def choice(self, formula: Formula, positive: bool = True) -> Choice | bool:
        """The formula as a choice of one block, hidden if it must be, or its truth value if it has one."""
        if isinstance(formula, Not):
            return self.choice(formula.arg, not positive)
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

    def direct(self, formula: Formula) -> Choice | bool | None:
        """An atom that is one choice of one block, or a truth value; None for anything else."""
        if isinstance(formula, Truth):
            return formula.value
        if isinstance(formula, Is):
            block, _ = self.variables[formula.name]
            return (self.offsets[block] + 1,)
        if isinstance(formula, In):
            block, variable = self.variables[formula.name]
            return self.whole(block, [variable.positions[value] for value in formula.values])
        if isinstance(formula, Compare):
            weights, constant = formula.weights()
            names = [name for name, c in weights.items() if c]
            if len(names) > 1:
                return None
            if not names:
                return compare_holds(formula.op, constant)
            block, variable = self.variables[names[0]]
            c = weights[names[0]]
            kept = [i for i, v in enumerate(variable.values) if compare_holds(formula.op, c * int(v) + constant)]
            return self.whole(block, kept)
        return None

    def whole(self, block: int, positions: list[int]) -> Choice | bool:
        """The choice of some values of a block; a truth value if it is none or all of them."""
        if len(positions) in (0, self.sizes[block]):
            return bool(positions)
        return tuple(sorted(self.offsets[block] + p for p in positions))

    def opposite(self, choice: Choice) -> Choice:
        block = self.block_of[choice[0]]
        return tuple(v for v in range(self.offsets[block], self.offsets[block + 1]) if v not in choice)

    # ---- conjunctive form ----

    def cnf(self, formula: Formula, positive: bool) -> list[Disjunction]:
        """The formula, or its negation, as a conjunction of disjunctions; [] is true and [[]] false."""
        key = (formula, positive)
        if key not in self.forms:  # each part once: equivalences ask for both signs of every part below them
            self.forms[key] = self._cnf(formula, positive)
        return self.forms[key]

    def _cnf(self, formula: Formula, positive: bool) -> list[Disjunction]:
        if isinstance(formula, Not):
            return self.cnf(formula.arg, not positive)
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
        if isinstance(formula, Compare) and self.direct(formula) is None:
            return self.counted(self.comparison(formula), positive)
        return self.single(self.choice(formula, positive))

    def single(self, choice: Choice | bool) -> list[Disjunction]:
        if isinstance(choice, bool):
            return [] if choice else [[]]
        return [[choice]]

    def any_of(self, parts: Sequence[tuple[Formula, bool]]) -> list[Disjunction]:
        """The disjunction of some parts, distributed while it stays small."""
        forms: list[list[Disjunction]] = []
        size = 1
        for part, sign in parts:
            form = self.cnf(part, sign)
            if len(form) > 1 and size * len(form) > MAX_CLAUSES:
                form = self.single(self.choice(part, sign))
            size *= len(form)
            forms.append(form)
        if any(not form for form in forms):
            return []
        return [[e for d in combination for e in d] for combination in itertools.product(*forms)]

    def parity(self, args: Sequence[Formula], odd: bool) -> list[Disjunction]:
        """An odd (or even) number of formulas hold."""
        if len(args) == 2 and not all(self.direct(a) is None for a in args):
            a, b = args  # an equivalence with an atom: two implications need no helper
            even = [Or((Not(a), b)), Or((a, Not(b)))]
            return [d for part in ([Or((a, b)), Or((Not(a), Not(b)))] if odd else even) for d in self.cnf(part, True)]
        choices, flips = self.choices(args)
        wanted = (1 if odd else 0) ^ (flips & 1)
        if len(choices) <= 2:
            return self._small_parity(choices, wanted)
        intervals = [(k, k) for k in range(wanted, len(choices) + 1, 2)]
        return self.counted(_sum(self.total(choices), intervals), True)

    def _small_parity(self, choices: list[Choice], wanted: int) -> list[Disjunction]:
        if not choices:
            return [[]] if wanted else []
        if len(choices) == 1:
            return [[choices[0] if wanted else self.opposite(choices[0])]]
        a, b = choices
        if wanted:
            return [[a, b], [self.opposite(a), self.opposite(b)]]
        return [[self.opposite(a), b], [a, self.opposite(b)]]

    def choices(self, args: Iterable[Formula]) -> tuple[list[Choice], int]:
        """Formulas as choices; those that are always true are counted apart."""
        out: list[Choice] = []
        true = 0
        for arg in args:
            choice = self.choice(arg)
            if isinstance(choice, bool):
                true += choice
            else:
                out.append(choice)
        return out, true

    def total(self, choices: Iterable[Choice]) -> dict[int, int]:
        weights: dict[int, int] = {}
        for choice in choices:
            for value in choice:
                weights[value] = weights.get(value, 0) + 1
        return weights

    def count(self, formula: Count, positive: bool) -> list[Disjunction]:
        choices, true = self.choices(formula.args)
        n, k = len(choices), formula.k - true
        low, high = {"<=": (0, k), ">=": (k, n), "=": (k, k)}[formula.op]
        intervals = _clipped([(low, high)], 0, n)
        if not positive:
            intervals = _complement(intervals, 0, n)
        if intervals == [(1, n)]:
            return [list(choices)]
        if intervals == [(0, n - 1)] and n:
            return [[self.opposite(choice) for choice in choices]]
        if intervals in ([(0, 0)], [(n, n)]):
            return [[c if intervals[0][0] else self.opposite(c)] for c in choices]
        return self.counted(_sum(self.total(choices), intervals), True)

    def comparison(self, formula: Compare) -> Sum:
        """A comparison of several variables as a sum."""
        weights, constant = formula.weights()
        by_value: dict[int, int] = {}
        for name, c in weights.items():
            block, variable = self.variables[name]
            for i, value in enumerate(variable.values):
                by_value[self.offsets[block] + i] = c * int(value)
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
        for block in sorted(first):
            for value in range(self.offsets[block], self.offsets[block + 1]):
                others = tuple(start + r for r, row in enumerate(distinct) if row[block] != value)
                self.emit([others, (value,)], -1)
        return True

    def row(self, formula: Formula) -> dict[int, int] | None:
        """A conjunction that fixes one value a block: those values by block."""
        out: dict[int, int] = {}
        for part in formula.args if isinstance(formula, And) else (formula,):
            negative = isinstance(part, Not)
            direct = self.direct(part.arg if isinstance(part, Not) else part)
            if not isinstance(direct, tuple):
                return None
            choice = self.opposite(direct) if negative else direct
            block = self.block_of[choice[0]]
            if len(choice) != 1 or block in out:
                return None
            out[block] = choice[0]
        return out


def _sum(weights: dict[int, int], intervals: Iterable[tuple[int, int]]) -> Sum:
    kept = sorted((value, c) for value, c in weights.items() if c)
    return Sum(tuple(v for v, _ in kept), tuple(c for _, c in kept), tuple(_joined(intervals)))


def _joined(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted intervals, empty ones dropped and neighbours merged."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(interval for interval in intervals if interval[0] <= interval[1]):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out


def _clipped(intervals: Iterable[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    return _joined((max(a, low), min(b, high)) for a, b in intervals)


def _complement(intervals: Sequence[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """What lies between `intervals` (sorted, inside [low, high])."""
    edges = [low - 1, *(edge for interval in intervals for edge in interval), high + 1]
    return _joined((a + 1, b - 1) for a, b in zip(edges[::2], edges[1::2]))
