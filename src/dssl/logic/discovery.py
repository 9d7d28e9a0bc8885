"""The search for rules: single values, then equivalences, pairs, groups, short clauses and counts, simplest first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dssl.logic.evidence import convolved, log_few
from dssl.logic.formula import Count, Formula, Implies, Is, Or
from dssl.logic.mining import Miner
from dssl.logic.phrasing import Finding, Phrasing, reduced

Cell = tuple[int, ...]
KINDS = ("forced", "equivalence", "group", "implication", "exclusion", "clause", "cardinality")  # general ones first


@dataclass
class Search:
    """One search; `findings` and `limits` grow as its steps run."""

    miner: Miner
    max_clause: int = 3
    budget: int = 2_000_000
    findings: list[Finding] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tally = self.miner.tally
        self.phrasing = Phrasing(self.tally.space, np.diagonal(self.tally.pairs))
        self.columns = self._open_columns()

    def _open_columns(self) -> list[int]:
        """Columns in which both values occur; of a categorical variable with two values the first says it all."""
        counts = np.diagonal(self.tally.pairs)
        seen = (counts[0::2] > 0) & (counts[1::2] > 0)
        for variable, (_, stop) in zip(self.tally.space.variables, self.tally.space.spans):
            if not variable.binary and len(variable.values) == 2:
                seen[stop - 1] = False
        return np.flatnonzero(seen).tolist()

    def run(self) -> list[Finding]:
        """All findings, the more general ones first."""
        self.findings += self.phrasing.forced(self.miner.values())
        if self.max_clause >= 2:
            self.find_pairs()
            self.find_groups()
        if self.max_clause >= 3:
            self.find_triples()
        self.find_counts()
        if self.miner.explained:
            self.limits.append(
                f"{self.miner.explained:,} combinations that did not occur are left out: "
                "one other variable accounts for it"
            )
        return self.findings

    # ---- pairs ----

    def find_pairs(self) -> None:
        """Equivalences, after which one column stands for all that equal it; then rules for pairs."""
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
        self.findings += self.phrasing.pairs(self.miner.siblings(self._families(left)) | left)

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
        for first in sorted(self.columns, key=lambda c: (binary[c], c)):  # a categorical value stands for its likes
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
                    self.findings.append(self.phrasing.equivalence(2 * first + 1, 2 * there + way, p))
                    self.columns.remove(there)
                    waiting.append((there, way))

    # ---- groups ----

    def find_groups(self) -> None:
        """For groups of which at most one holds: that one always does, or does where a literal holds."""
        groups = [
            f for f in self.findings if f.kind == "group" and isinstance(f.formula, Count) and f.formula.op == "<="
        ]
        found = []
        for finding in groups:
            columns = self._columns_of(finding.formula)
            others = [c for c in self.columns if c not in columns]
            none, never = self.miner.none_of(columns)
            x = np.array([2 * c + s for c in others for s in (0, 1)], dtype=np.int64)
            found.append((finding, never, x, self.miner.avoiding(none, x, others)))
        if not found:
            return
        limit = self.miner.threshold("groups", np.full(sum(len(x) + 1 for _, _, x, _ in found), -np.inf))
        for finding, never, x, log_p in found:
            assert isinstance(finding.formula, Count)
            args = finding.formula.args
            if never <= limit and never < 0:
                p = max(finding.log_p, float(self.miner.corrected("groups", never)))
                self.findings[self.findings.index(finding)] = Finding("group", Count("=", 1, args), None, p)
                continue
            for literal in np.flatnonzero((log_p <= limit) & (log_p < 0)).tolist():
                premise = self.phrasing.literal(int(x[literal]))
                p = float(self.miner.corrected("groups", log_p[literal]))
                self.findings.append(Finding("clause", Implies(premise, Or.of(*args)), premise, p))

    def _columns_of(self, formula: Formula) -> list[int]:
        place = {name: i for i, name in enumerate(self.tally.space.columns)}
        return [place[atom.name] for atom in formula.atoms() if isinstance(atom, Is)]

    # ---- short clauses ----

    def find_triples(self) -> None:
        columns = self._affordable()
        cells, log_p = self.miner.triples(columns)
        log_p = self.miner.corrected("clauses", log_p)
        kept = self.miner.unexplained_triples(cells, columns)
        self.findings += self.phrasing.triples(
            {tuple(cell): p for cell, p in zip(cells[kept].tolist(), log_p[kept].tolist())}
        )

    def _affordable(self) -> list[int]:
        """As many columns as the budget allows triples of, those first whose rarer value is most common."""
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

    # ---- counts ----

    def find_counts(self) -> None:
        """How many of all binary variables hold at most, and at least, if that is a surprise given the other rules.

        Such a bound has no failures, whatever the tolerance.
        """
        space = self.tally.space
        columns = [start for v, (start, _) in zip(space.variables, space.spans) if v.binary and start in self.columns]
        self.miner.threshold("counts", np.full(2 * max(1, len(columns)), -np.inf))
        if len(columns) < 3:
            return
        codes = self.tally.codes[:, columns]
        args = tuple(Is(space.columns[c]) for c in columns)
        null = convolved([_histogram(codes[:, part]) for part in self._parts(columns)])
        high, p_high = self._edge(columns, 1, null)
        low, p_low = self._edge(columns, 0, null[::-1])
        low = len(columns) - low
        if p_high is not None and p_low is not None and low == high:
            self.findings.append(Finding("cardinality", Count("=", low, args), None, max(p_high, p_low)))
            return
        if p_high is not None:
            self.findings.append(Finding("cardinality", Count("<=", high, args), Count(">=", high, args), p_high))
        if p_low is not None:
            self.findings.append(Finding("cardinality", Count(">=", low, args), Count("<=", low, args), p_low))

    def _parts(self, columns: Sequence[int]) -> list[list[int]]:
        """Places in `columns` that rules found so far connect; what no rule connects is taken as independent."""
        place = {self.tally.space.columns[c]: i for i, c in enumerate(columns)}
        label = list(range(len(columns)))
        for finding in self.findings:
            linked = [label[place[name]] for name in finding.formula.names() if name in place]
            label = [min(linked) if mark in linked else mark for mark in label]
        return [[i for i, mark in enumerate(label) if mark == part] for part in sorted(set(label))]

    def _edge(self, columns: list[int], sign: int, null: NDArray[np.float64]) -> tuple[int, float | None]:
        """The number of columns of a sign that no row exceeds, and its log p-value; None if it is no surprise."""
        codes = self.tally.codes[:, columns]
        complete, number = (codes >= 0).all(axis=1), (codes == sign).sum(axis=1)
        seen = np.bincount(number[complete], minlength=len(columns) + 1).astype(np.float64)
        edge = int(number.max())
        log_p = self._surprise(seen, null, edge)
        if log_p is not None and self._supported(columns, sign, np.where(complete, number, -1), edge):
            return edge, log_p
        return edge, None

    def _surprise(self, seen: NDArray[np.float64], null: NDArray[np.float64], edge: int) -> float | None:
        """The log p-value of no row beyond an edge, if the histogram itself does not fade out there."""
        if edge >= len(seen) - 1 or not seen.any():
            return None
        if self.miner.level is None:
            return 0.0
        log_p = float(log_few(0, seen.sum() * null[edge + 1 :].sum()))
        tail = float(log_few(0, _continued(seen, edge)))
        if max(log_p, tail) > self.miner.log_share - math.log(self.miner.tried["counts"]):
            return None
        return float(self.miner.corrected("counts", log_p))

    def _supported(self, columns: list[int], sign: int, number: NDArray[np.int64], edge: int) -> bool:
        """Whether some column avoids the rows in which the others reach the edge, and no one column accounts for it."""
        if self.miner.level is None:
            return True
        limit = self.miner.log_share - math.log(self.miner.tried["counts"])
        for c in columns:
            rest = np.where(number < 0, -1, number - (self.tally.codes[:, c] == sign) >= edge).astype(np.int8)
            if self.miner.avoiding(rest, np.array([2 * c + sign]), columns)[0] <= limit:
                return True
        return False


def _histogram(codes: NDArray[np.int8]) -> NDArray[np.float64]:
    """The distribution of the number of true columns over complete rows."""
    complete = codes[(codes >= 0).all(axis=1)]
    counts = np.bincount(complete.sum(axis=1, dtype=np.int64), minlength=codes.shape[1] + 1).astype(np.float64)
    return counts / max(1.0, counts.sum())


def _continued(seen: NDArray[np.float64], most: int) -> float:
    """Rows expected just above `most` if the histogram went on as it runs up to there: by its last two ratios."""
    last, before, first = (float(seen[i]) if i >= 0 else 0.0 for i in (most, most - 1, most - 2))
    if not before:
        return last
    ratio = last / before
    return last * (min(ratio, ratio * ratio * first / before) if first else ratio)
