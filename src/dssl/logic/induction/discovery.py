"""The search for rules: single values, then equivalences, pairs, groups, short clauses and counts, simplest first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dssl.logic.induction.mining import Miner
from dssl.logic.induction.phrasing import Candidate, Phrasing, reduced
from dssl.logic.induction.surprise import log_few
from dssl.logic.language.formula import Assignments, Count, Formula, Implies, Is, Or

Cell = tuple[int, ...]
KINDS = ("forced", "equivalence", "group", "implication", "exclusion", "clause", "cardinality")  # general ones first


@dataclass
class Discovery:
    """One search; `candidates` and `limits` grow as its steps run."""

    miner: Miner
    max_clause: int = 3
    budget: int = 2_000_000
    candidates: list[Candidate] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    families: dict[int, list[int]] = field(default_factory=dict)  # literals, by the literal that each of them implies

    def __post_init__(self) -> None:
        self.tally = self.miner.tally
        self.phrasing = Phrasing(self.tally.space, np.diagonal(self.tally.pairs))
        self.columns = self._open_columns()

    def _open_columns(self) -> list[int]:
        """Columns in which both values occur; of a categorical variable with two values, only the first."""
        counts = np.diagonal(self.tally.pairs)
        seen = (counts[0::2] > 0) & (counts[1::2] > 0)
        for variable, (_, stop) in zip(self.tally.space.variables, self.tally.space.spans):
            if not variable.binary and len(variable.values) == 2:
                seen[stop - 1] = False
        return np.flatnonzero(seen).tolist()

    def run(self) -> list[Candidate]:
        """All candidates, the more general ones first."""
        self.candidates += self.phrasing.forced(self.miner.values())
        if self.max_clause >= 2:
            self.find_pairs()
            self.find_groups()
        if self.max_clause >= 3:
            self.find_triples()
        self.find_covers_and_counts()
        if self.miner.explained:
            self.limits.append(
                f"{self.miner.explained:,} combinations that did not occur are left out: "
                "one other variable explains each of them"
            )
        return self.candidates

    # ---- pairs ----

    def find_pairs(self) -> None:
        """Equivalences, after which one column stands for all that are equal to it; then rules for pairs."""
        x, y, log_p = self.miner.pairs(self.columns)
        log_p = self.miner.corrected("pairs", log_p)
        cells: dict[Cell, float] = {(a, b): p for a, b, p in zip(x.tolist(), y.tolist(), log_p.tolist())}
        self._merge(cells)
        kept = np.isin(x // 2, self.columns) & np.isin(y // 2, self.columns)
        x, y, log_p = x[kept], y[kept], log_p[kept]
        kept = self.miner.unexplained(x, y, self.columns)
        left: dict[Cell, float] = {
            (a, b): p for a, b, p in zip(x[kept].tolist(), y[kept].tolist(), log_p[kept].tolist())
        }
        self.families = self._families(left)
        self.candidates += self.phrasing.pairs(self.miner.siblings(self.families) | left)

    def _families(self, cells: dict[Cell, float]) -> dict[int, list[int]]:
        """Literals of binary columns by the literal they imply, where at least two do."""
        if self.miner.level is None:  # all pairs are known already
            return {}
        never = self.phrasing.never(cells)
        kept, _ = reduced(never, self.phrasing.background())
        out: dict[int, list[int]] = {}
        for x, y in cells:
            for child, parent in ((x, y ^ 1), (y, x ^ 1)):
                if kept[x, y] and self.phrasing.place[child // 2][0].binary:
                    out.setdefault(parent, []).append(child)
        return {parent: children for parent, children in out.items() if len(children) > 1}

    def _merge(self, cells: dict[Cell, float]) -> None:
        """Equivalent columns: one of each class stays open."""
        same: dict[int, list[tuple[int, int, float]]] = {c: [] for c in self.columns}
        for (x, y), p in cells.items():
            if x % 2 and (x ^ 1, y ^ 1) in cells:  # x and y never meet, nor do their opposites: x = not y
                worst = max(p, cells[x ^ 1, y ^ 1])
                same[x // 2].append((y // 2, 1 - y % 2, worst))
                same[y // 2].append((x // 2, 1 - y % 2, worst))
        binary = [v.binary for v, _ in self.phrasing.place]
        done: set[int] = set()
        for first in sorted(
            self.columns, key=lambda c: (binary[c], c)
        ):  # a categorical value stands for those equal to it
            if first in done:
                continue
            done.add(first)
            waiting = [(first, 1)]
            while waiting:
                here, sign = waiting.pop()
                for there, agrees, p in same[here]:
                    if there in done:
                        continue
                    done.add(there)
                    way = sign if agrees else 1 - sign
                    self.candidates.append(self.phrasing.equivalence(2 * first + 1, 2 * there + way, p))
                    self.columns.remove(there)
                    waiting.append((there, way))

    # ---- groups ----

    def find_groups(self) -> None:
        """For groups of which at most one holds: whether one always does, or does where a literal holds."""
        groups = [
            f for f in self.candidates if f.kind == "group" and isinstance(f.formula, Count) and f.formula.op == "<="
        ]
        found = []
        for candidate in groups:
            columns = self._columns_of(candidate.formula)
            others = [c for c in self.columns if c not in columns]
            none, never = self.miner.none_of(columns)
            x = np.array([2 * c + s for c in others for s in (0, 1)], dtype=np.int64)
            found.append((candidate, never, x, self.miner.avoiding(none, x, others)))
        if not found:
            return
        limit = self.miner.threshold("groups", np.full(sum(len(x) + 1 for _, _, x, _ in found), -np.inf))
        for candidate, never, x, log_p in found:
            assert isinstance(candidate.formula, Count)
            args = candidate.formula.args
            if never <= limit and never < 0:
                p = max(candidate.log_p, float(self.miner.corrected("groups", never)))
                self.candidates[self.candidates.index(candidate)] = Candidate("group", Count("=", 1, args), None, p)
                continue
            for literal in np.flatnonzero((log_p <= limit) & (log_p < 0)).tolist():
                premise = self.phrasing.literal(int(x[literal]))
                p = float(self.miner.corrected("groups", log_p[literal]))
                self.candidates.append(Candidate("clause", Implies(premise, Or.of(*args)), premise, p))

    def _columns_of(self, formula: Formula) -> list[int]:
        place = {name: i for i, name in enumerate(self.tally.space.columns)}
        return [place[atom.name] for atom in formula.atoms() if isinstance(atom, Is)]

    # ---- short clauses ----

    def find_triples(self) -> None:
        columns = self._affordable()
        cells, log_p = self.miner.triples(columns)
        log_p = self.miner.corrected("clauses", log_p)
        kept = self.miner.unexplained_triples(cells, columns)
        self.candidates += self.phrasing.triples(
            {tuple(cell): p for cell, p in zip(cells[kept].tolist(), log_p[kept].tolist())}
        )

    def _affordable(self) -> list[int]:
        """As many columns as the budget for triples allows, those first whose rarer value is most common."""
        most = len(self.columns)
        while most > 3 and 8 * math.comb(most, 3) > self.budget:
            most -= 1
        if most == len(self.columns):
            return self.columns
        counts = np.diagonal(self.tally.pairs)
        order = sorted(self.columns, key=lambda c: -min(counts[2 * c], counts[2 * c + 1]))
        self.limits.append(
            f"clauses of three were sought among {most} of {len(self.columns)} columns only, those whose rarer value "
            f"is most common: all would be {8 * math.comb(len(self.columns), 3):,} clauses for a budget of "
            f"{self.budget:,}"
        )
        return sorted(order[:most])

    # ---- covers and counts ----

    def find_covers_and_counts(self) -> None:
        """Wider clauses and bounds on counts, if they are a surprise given the rules found earlier.

        They have no failures, whatever the tolerance.
        """
        covers = self._covers() if self.max_clause >= 3 else []
        counted = self._counted()
        tests = sum(map(len, covers)) + 2 * sum(map(len, counted))
        self.miner.threshold("counts", np.full(max(1, tests), -np.inf))
        pairs = self.tally.pairs
        for cell in covers:
            spare = pairs[cell[0], cell[0]] - sum(pairs[cell[0], x ^ 1] for x in cell[1:])
            if spare > 0 or (self.tally.joint(cell) == 1).any():  # more rows than all of the others could cover
                continue
            log_p = self._held_back([(x, self.tally.joint([y for y in cell if y != x])) for x in cell[1:]], cell)
            if log_p is not None:
                self.candidates.append(self.phrasing.clause(cell, log_p))
        for columns in counted:
            self._bound(columns)

    def _covers(self) -> list[Cell]:
        """A literal and the opposites of three or more that imply it: empty where it always comes with one of them."""
        cells = [(parent, *(x ^ 1 for x in some)) for parent, some in self.families.items() if len(some) > 2]
        return [cell for cell in cells if {x // 2 for x in cell} <= set(self.columns)]

    def _counted(self) -> list[list[int]]:
        """Sets of binary columns whose count may be bounded: those that rules connect, and then all."""
        space = self.tally.space
        every = [start for v, (start, _) in zip(space.variables, space.spans) if v.binary and start in self.columns]
        place = {space.columns[c]: c for c in every}
        part = {c: {c} for c in every}
        for candidate in self.candidates if self.miner.level is not None else ():
            joined = set().union(*(part[place[name]] for name in candidate.formula.names() if name in place))
            part.update(dict.fromkeys(joined, joined))
        parts = [sorted(some) for some in {min(some): some for some in part.values()}.values()]
        return [some for some in (*parts, every) if len(some) > 2 and (some is every or len(some) < len(every))]

    def _bound(self, columns: list[int]) -> None:
        """How many of some columns are true at most, and at least."""
        args = tuple(Is(self.tally.space.columns[c]) for c in columns)
        high, p_high = self._edge(columns, 1)
        low, p_low = self._edge(columns, 0)
        low = len(columns) - low
        if p_high is not None and p_low is not None and low == high:
            self.candidates.append(Candidate("cardinality", Count("=", low, args), None, max(p_high, p_low)))
            return
        if p_high is not None:
            self.candidates.append(Candidate("cardinality", Count("<=", high, args), Count(">=", high, args), p_high))
        if p_low is not None:
            self.candidates.append(Candidate("cardinality", Count(">=", low, args), Count("<=", low, args), p_low))

    def _edge(self, columns: list[int], sign: int) -> tuple[int, float | None]:
        """The number of columns of a sign that no row exceeds, and its log p-value; None if it is no surprise."""
        codes = self.tally.codes[:, columns]
        complete, number = (codes >= 0).all(axis=1), (codes == sign).sum(axis=1)
        seen = np.bincount(number[complete], minlength=len(columns) + 1).astype(np.float64)
        edge = int(number.max())
        if edge == len(columns) or not seen.any():
            return edge, None
        if self.miner.level is None:
            return edge, 0.0
        if float(log_few(0, _continued(seen, edge))) > self._limit:  # the histogram itself fades out there
            return edge, None
        number = np.where(complete, number, -1)
        rests = (np.where(number < 0, -1, number - (self.tally.codes[:, c] == sign) >= edge) for c in columns)
        return edge, self._held_back(((2 * c + sign, rest) for c, rest in zip(columns, rests)))

    @property
    def _limit(self) -> float:
        return self.miner.log_share - math.log(self.miner.tried["counts"])

    def _held_back(self, tests: Iterable[tuple[int, NDArray[np.integer]]], own: Cell = ()) -> float | None:
        """The corrected log p-value of the first literal that is held back where the rest of a rule is at its limit.

        `tests`: literals of binary columns, and where the rest is. Only rows count in which the column is *free*: the
        rules found so far let it take either value beside the others. If nothing but those rules held, its value would
        be independent of the others there, however the rules connect them, so the exact test of independence keeps its
        level, and its power grows with the rows. None if no literal is held back, or if a column that is not the
        rule's `own` accounts for it.
        """
        others = [c for c in self.columns if c not in {x // 2 for x in own}]
        rules = self._rules_by_name()
        for x, rest in tests:
            log_p = self.miner.avoiding_among(self._free(x // 2, rules), rest, x, others, self._limit)
            if log_p is not None:
                return float(self.miner.corrected("counts", log_p))
        return None

    def _rules_by_name(self) -> dict[str, list[Formula]]:
        """The rules found so far, and those given, by the variables they name."""
        out: dict[str, list[Formula]] = {}
        given = [rule.formula for rule in self.tally.space.rules if rule.probability is None]
        for formula in (*given, *(candidate.formula for candidate in self.candidates)):
            for name in formula.names():
                out.setdefault(name, []).append(formula)
        return out

    def _free(self, column: int, rules: Mapping[str, list[Formula]]) -> NDArray[np.bool_]:
        """Rows in which the rules hold whichever value a binary column takes."""
        name, labels = self.tally.space.columns[column], self.tally.assignments
        rows = np.flatnonzero(self.tally.codes[:, column] >= 0)
        for formula in rules.get(name, ()):  # rows that one rule decides are not looked at again
            indices = {other: labels.indices[other][rows] for other in formula.names()}
            indices[name] = 1 - indices[name]
            rows = rows[~formula.kleene(Assignments(indices, labels.values, len(rows)))[1]]
        out = np.zeros(self.tally.rows, dtype=bool)
        out[rows] = True
        return out


def _continued(seen: NDArray[np.float64], most: int) -> float:
    """Rows expected just above `most` if the histogram continued as it does up to there, by its last two ratios."""
    last, before, first = (float(seen[i]) if i >= 0 else 0.0 for i in (most, most - 1, most - 2))
    if not before:
        return last
    ratio = last / before
    return last * (min(ratio, ratio * ratio * first / before) if first else ratio)
