"""Cells that labels avoid, written in the rule language: few rules, as general as possible.

Pairs of literals that never meet make an implication graph. What follows from the rest of it is dropped (its transitive
reduction), pairs that all exclude each other become one group, and values of a categorical variable are gathered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dssl.logic.language.formula import And, Compare, Count, Formula, Iff, Implies, In, Is, Not, Or
from dssl.logic.language.quoting import Value
from dssl.logic.language.variables import Variable
from dssl.logic.space import LabelSpace

Cell = tuple[int, ...]
Square = NDArray[np.bool_]


@dataclass(frozen=True)
class Candidate:
    """A rule that may be learned: its kind, where it could fail (None: in every row), and its log p-value."""

    kind: str
    formula: Formula
    premise: Formula | None
    log_p: float


class Phrasing:
    """Writes cells of a space's literals as formulas; `counts` has the rows of each literal."""

    def __init__(self, space: LabelSpace, counts: NDArray[np.float64]) -> None:
        self.space, self.counts = space, counts
        self.place = [(v, i) for v in space.variables for i in range(len(v.columns))]
        self.owner = np.repeat(np.arange(len(space.variables)), [len(v.columns) for v in space.variables])

    def literal(self, x: int) -> Formula:
        """The formula "this literal holds"."""
        variable, value = self.place[x // 2]
        atom = Is(variable.name) if variable.binary else member(variable, [value])
        return atom if x % 2 else negation(atom)

    # ---- single literals and equivalences ----

    def forced(self, cells: Iterable[tuple[Cell, float]]) -> list[Candidate]:
        """Values that never occur: one rule per variable."""
        out, gone = [], defaultdict(list)
        for (x,), log_p in cells:
            variable, value = self.place[x // 2]
            if variable.binary:
                out.append(Candidate("forced", self.literal(x ^ 1), None, log_p))
            elif x % 2:
                gone[variable].append((value, log_p))
        for variable, found in gone.items():
            left = [i for i in range(len(variable.values)) if i not in {value for value, _ in found}]
            out.append(Candidate("forced", member(variable, left), None, max(log_p for _, log_p in found)))
        return out

    def equivalence(self, x: int, y: int, log_p: float) -> Candidate:
        """x and y are the same."""
        return Candidate("equivalence", Iff(self.literal(x), self.literal(y)), None, log_p)

    # ---- pairs ----

    def background(self) -> Square:
        """Pairs of literals that cannot meet because a categorical variable has one value."""
        size = 2 * len(self.place)
        out = np.zeros((size, size), dtype=bool)
        same = (self.owner[:, None] == self.owner[None, :]) & ~np.eye(len(self.place), dtype=bool)
        out[1::2, 1::2] = same
        return out

    def never(self, cells: Iterable[Cell]) -> Square:
        """Pairs of literals that never meet, as a matrix."""
        size = 2 * len(self.place)
        out = np.zeros((size, size), dtype=bool)
        for x, y in cells:
            out[x, y] = out[y, x] = True
        return out

    def pairs(self, cells: Mapping[Cell, float]) -> list[Candidate]:
        """Rules for pairs of literals that never meet."""
        kept, all_ = reduced(self.never(cells), self.background())
        binary = np.array([v.binary for v, _ in self.place])
        out = []
        rest = {cell: cells[cell] for cell in cells if kept[cell]}
        for sign in (1, 0):
            chosen = 2 * np.flatnonzero(binary) + sign
            square = np.ix_(chosen, chosen)
            for clique in cliques(kept[square], all_[square]):
                group = sorted(chosen[i] for i in clique)
                inside = [(x, y) for i, x in enumerate(group) for y in group[i + 1 :]]
                out.append(self.group([int(x) for x in group], 1, max(cells.get(c, -np.inf) for c in inside)))
                for cell in inside:
                    rest.pop(cell, None)
        mixed = {c: p for c, p in rest.items() if not (binary[c[0] // 2] and binary[c[1] // 2])}
        out += [self.clause(cell, log_p) for cell, log_p in rest.items() if cell not in mixed]
        return out + self._sets(mixed)

    def group(self, literals: Sequence[int], k: int, log_p: float) -> Candidate:
        """At most k of some literals of one sign hold."""
        args = tuple(Is(self.place[x // 2][0].name) for x in literals)
        if literals[0] % 2:
            some = Or.of(*args) if k == 1 else Count(">=", k, args)
            return Candidate("group", Count("<=", k, args), some, log_p)
        least = len(args) - k
        return Candidate("group", Count(">=", least, args), Count("<=", least, args), log_p)

    def clause(self, cell: Cell, log_p: float) -> Candidate:
        """Some literals never meet: an implication from its true columns to its false ones."""
        true = sorted((x for x in cell if x % 2), key=lambda x: self.counts[x])
        false = [x for x in cell if not x % 2]
        kind = "clause" if len(cell) > 2 else "implication" if false else "exclusion"
        if not true:
            parts = [self.literal(x ^ 1) for x in false]
            return Candidate(kind, Or.of(*parts), None if len(cell) > 2 else negation(parts[0]), log_p)
        if not false and len(cell) > 2 and all(self.place[x // 2][0].binary for x in cell):
            return self.group(sorted(true), len(cell) - 1, log_p)
        said = false or [true.pop()]
        premise = And.of(*map(self.literal, sorted(true)))
        return Candidate(kind, Implies(premise, Or.of(*(self.literal(x ^ 1) for x in said))), premise, log_p)

    # ---- values of categorical variables in sets ----

    def _sets(self, cells: Mapping[Cell, float]) -> list[Candidate]:
        """Pairs with values of categorical variables, those of one variable and one partner in one rule."""
        out = []
        gathered: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)  # (partner, variable) → value → log p
        for (x, y), log_p in cells.items():
            partner, value = self._oriented(x, y)
            if value % 2:
                gathered[partner, int(self.owner[value // 2])][self.place[value // 2][1]] = log_p
            else:  # every value but one is excluded: partner → variable = value
                one, other = self.literal(partner), self.literal(value ^ 1)
                out.append(Candidate("implication", Implies(one, other), one, log_p))
        done = set()
        for (partner, owner), values in gathered.items():
            if (partner, owner) in done:
                continue
            variable, log_p = self.space.variables[owner], max(values.values())
            opposite = gathered.get((partner ^ 1, owner), {})
            parted = not values.keys() & opposite.keys() and len(values) + len(opposite) == len(variable.values)
            if len(values) == len(variable.values):  # no value is left beside the partner
                out.append(Candidate("forced", self.literal(partner ^ 1), None, log_p))
            elif self.place[partner // 2][0].binary and parted:
                true = opposite if partner % 2 else values
                same = Iff(Is(self.place[partner // 2][0].name), member(variable, sorted(true)))
                out.append(Candidate("equivalence", same, None, max(log_p, *opposite.values())))
                done.add((partner ^ 1, owner))
            elif len(values) == len(variable.values) - 1:
                left = [i for i in range(len(variable.values)) if i not in values]
                one = self.literal(partner)
                out.append(Candidate("implication", Implies(one, member(variable, left)), one, log_p))
            else:
                one = member(variable, sorted(values))
                out.append(Candidate("implication", Implies(one, self.literal(partner ^ 1)), one, log_p))
        return out

    def _oriented(self, x: int, y: int) -> tuple[int, int]:
        """A pair as partner and value: the value is of the categorical variable, or of the one with more values."""
        sizes = [0 if self.place[z // 2][0].binary else len(self.place[z // 2][0].values) for z in (x, y)]
        return (y, x) if sizes[0] > sizes[1] else (x, y)

    # ---- triples ----

    def triples(self, cells: Mapping[Cell, float]) -> list[Candidate]:
        """Rules for triples; those of one sign that all exclude each other become one group."""
        out, left = [], dict(sorted(cells.items(), key=lambda item: item[1]))
        for group in _threes(left, [v.binary for v, _ in self.place]):
            inside = [c for c in left if set(c) <= set(group)]
            out.append(self.group(group, 2, max(left[c] for c in inside)))
            for c in inside:
                del left[c]
        return out + [self.clause(cell, log_p) for cell, log_p in left.items()]


def _threes(cells: Mapping[Cell, float], binary: Sequence[bool]) -> list[list[int]]:
    """Groups of four or more literals of one sign in which every triple is a cell; disjoint in their triples."""
    out = []
    known = {frozenset(c) for c in cells if len({x % 2 for x in c}) == 1 and all(binary[x // 2] for x in c)}
    open_ = set(known)
    for seed in [frozenset(c) for c in cells]:
        if seed not in open_:
            continue
        group = _grown(seed, known)
        if len(group) > 3:
            out.append(group)
            open_ -= {c for c in open_ if c <= set(group)}
    return out


def _grown(seed: frozenset[int], known: set[frozenset[int]]) -> list[int]:
    """A triple, and literals that form a known triple with every two of it and of those taken before."""
    group = sorted(seed)
    for x in sorted({x for c in known if len(c & seed) == 2 for x in c - seed}):
        if all(frozenset((a, b, x)) in known for a, b in combinations(group, 2)):
            group.append(x)
    return sorted(group)


# ---- formulas ----


def negation(formula: Formula) -> Formula:
    """The opposite, without double negation."""
    return formula.arg if isinstance(formula, Not) else Not(formula)


def member(variable: Variable, places: Sequence[int]) -> Formula:
    """The variable takes one of some values; a comparison where they are all integers up to or from one."""
    values: list[Value] = [variable.values[i] for i in places]
    if variable.kind == "integer" and 1 < len(values) < len(variable.values):
        ordered = sorted(int(v) for v in variable.values)
        run = sorted(int(v) for v in values)
        if run == ordered[: len(run)]:
            return Compare(((1, variable.name),), "<=", ((run[-1], None),))
        if run == ordered[-len(run) :]:
            return Compare(((1, variable.name),), ">=", ((run[0], None),))
    return In(variable.name, tuple(v for v in values if not isinstance(v, bool)))


def said(box: Sequence[tuple[Variable, Sequence[int]]]) -> Formula:
    """Some variables never take values of these sets together: an implication, to what reads best."""
    premises: list[Formula] = []
    rest: list[Formula] = []
    for variable, places in box:
        others = [i for i in range(len(variable.values)) if i not in places]
        if not variable.binary:
            short = len(places) <= len(others)
            (premises if short else rest).append(member(variable, list(places) if short else others))
        elif places[0]:
            premises.append(Is(variable.name))
        else:
            rest.append(Is(variable.name))
    if not premises:
        return Or.of(*rest)
    if not rest:
        rest = [negation(premises.pop())]
    return Implies(And.of(*premises), Or.of(*rest)) if premises else Or.of(*rest)


# ---- graphs ----


def closure(step: Square) -> Square:
    """Pairs joined by a path of one or more steps."""
    out = step.copy()
    while True:
        wide = out.astype(np.float32)
        further = out | ((wide @ wide) > 0)
        if (further == out).all():
            return out
        out = further


def reduced(never: Square, background: Square) -> tuple[Square, Square]:
    """The pairs that do not follow from the others, and all that follow from them, given the background."""
    flip = np.arange(len(never)) ^ 1
    step = (never | background)[:, flip]  # x → y where x and not-y never meet
    reach = closure(step)
    around = (step.astype(np.float32) @ reach.astype(np.float32)) > 0
    kept = never & ~around[:, flip]
    kept &= kept.T
    follows = closure((kept | background)[:, flip])[:, flip]
    kept |= never & ~follows  # in a circle of soft rules every pair goes around
    return kept, closure((kept | background)[:, flip])[:, flip] | kept


def cliques(wanted: Square, allowed: Square) -> list[list[int]]:
    """Sets of three or more that are `allowed` pair by pair, greedily, until no set covers more `wanted` pairs."""
    apart = ~np.eye(len(wanted), dtype=bool)
    open_, allowed, out = wanted & apart, allowed & apart, []
    while open_.any():
        start = int(open_.sum(axis=1).argmax())
        members, near = [start], allowed[start].copy()
        while near.any():
            gain = np.where(near, open_[:, members].sum(axis=1), 0)
            if not gain.any():
                break
            best = np.flatnonzero(gain == gain.max())
            room = [(allowed[i] & near).sum() for i in best]
            chosen = int(best[int(np.argmax(room))])
            members.append(chosen)
            near &= allowed[chosen]
        if len(members) > 2:
            out.append(members)
        open_[np.ix_(members, members)] = False
    return out
