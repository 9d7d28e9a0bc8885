"""Cells that labels avoid: sets of literals that never meet in a row, or far less often than by chance.

A cell is kept if it is emptier than independence allows, and than independence given any one other column allows: where
a → b holds and b and c seldom meet, a and c meet even more seldom, and that alone is not a rule about a and c.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dssl.logic.induction.surprise import Floats, log_few, log_never, log_tail, tarone
from dssl.logic.induction.tally import Tally
from dssl.logic.space import LabelSpace

Ints = NDArray[np.int64]
Cell = tuple[int, ...]
FAMILIES = ("values", "pairs", "siblings", "groups", "clauses", "counts")  # each has an equal share of the level
_CHUNK = 2_000_000  # numbers at a time


@dataclass
class Miner:
    """Finds cells. With `level` None, every cell without a row is kept: the rows are all there are."""

    tally: Tally
    level: float | None = 0.05
    tolerance: float = 0.0
    rare: float = 0.05
    tried: dict[str, int] = field(default_factory=dict)
    explained: int = 0  # cells dropped because another column accounts for their emptiness

    @property
    def log_share(self) -> float:
        """The log of each family's share of the level."""
        return math.log((self.level or 1.0) / len(FAMILIES))

    def corrected(self, family: str, log_p: Floats | float) -> Floats:
        """The log p-value times the number of tests of its family and the number of families, at most 0."""
        return np.minimum(0.0, np.asarray(log_p) + math.log(self.tried[family] * len(FAMILIES)))

    def threshold(self, family: str, log_least: Floats) -> float:
        """The largest log p-value that is significant in a family, given the least each test can reach."""
        if self.level is None:
            self.tried[family] = 1
            return math.inf
        self.tried[family] = tarone(log_least, self.log_share)
        return self.log_share - math.log(self.tried[family])

    # ---- single literals ----

    def values(self) -> list[tuple[Cell, float]]:
        """Literals that never hold, with corrected log p-values against holding in a share `rare` of the rows."""
        counts = np.diagonal(self.tally.pairs)
        known = counts + counts[np.arange(len(counts)) ^ 1]
        least = known * math.log1p(-self.rare)
        limit = self.threshold("values", least)
        log_p = np.where(counts == 0, least, log_few(counts, self.rare * known))
        kept = (counts <= self.tolerance * known) & (known > 0) & (log_p <= limit)
        corrected = self.corrected("values", log_p)
        return [((x,), float(corrected[x])) for x in np.flatnonzero(kept).tolist()]

    # ---- pairs ----

    def margins(self, x: Ints, y: Ints) -> tuple[Floats, Floats, Floats, Floats]:
        """Rows in the cell, of each of its literals, and in all, where both columns are known."""
        c = self.tally.pairs
        f = c[x, y]
        a, b = f + c[x, y ^ 1], f + c[x ^ 1, y]
        return f, a, b, a + b - f + c[x ^ 1, y ^ 1]

    def pair_cells(self, columns: Sequence[int]) -> tuple[Ints, Ints]:
        """All cells of two literals of different variables."""
        place = np.asarray(columns, dtype=np.int64)
        i, j = np.triu_indices(len(place), 1)
        apart = self.tally.owner[place[i]] != self.tally.owner[place[j]]
        i, j = place[i[apart]], place[j[apart]]
        x = np.concatenate([2 * i + s for s in (0, 0, 1, 1)])
        y = np.concatenate([2 * j + s for s in (0, 1, 0, 1)])
        return x, y

    def near_empty(self, x: Ints, y: Ints, limit: float) -> tuple[Ints, Ints, Floats]:
        """The cells whose failures are tolerable and whose log p-value is within a limit; the p-values."""
        f, a, b, n = self.margins(x, y)
        near = (f <= self.tolerance * np.minimum(a, b)) & (a > 0) & (b > 0)
        log_p = np.zeros(len(x))
        log_p[near] = log_tail(f[near], n[near], a[near], b[near])
        kept = near & (log_p <= limit)
        return x[kept], y[kept], log_p[kept]

    def pairs(self, columns: Sequence[int]) -> tuple[Ints, Ints, Floats]:
        """Cells of two literals of different variables that are emptier than independence allows; log p-values."""
        x, y = self.pair_cells(columns)
        _, a, b, n = self.margins(x, y)
        return self.near_empty(x, y, self.threshold("pairs", log_never(n, a, b)))

    def siblings(self, families: Mapping[int, Sequence[int]]) -> dict[Cell, float]:
        """Pairs of literals that both imply another one and never meet where it holds; corrected log p-values.

        `families`: literals of binary columns, by the literal that each implies. Independence is no longer an option
        for such a pair, so it is tested within the rows of what it implies, where it has far more power.
        """
        parts = []
        for parent, children in families.items():
            rows = self.tally.codes[:, parent // 2] == parent % 2
            columns = [x // 2 for x in children]
            space = LabelSpace.attributes([self.tally.space.columns[c] for c in columns])
            inner = Miner(Tally(space, self.tally.codes[rows][:, columns]), self.level, self.tolerance, self.rare)
            i, j = np.triu_indices(len(columns), 1)
            signs = np.array([x % 2 for x in children])
            parts.append((inner, np.asarray(children), 2 * i + signs[i], 2 * j + signs[j]))
        margins = [inner.margins(x, y) for inner, _, x, y in parts]
        limit = self.threshold(
            "siblings", np.concatenate([log_never(n, a, b) for _, a, b, n in margins] or [np.zeros(0)])
        )
        out: dict[Cell, float] = {}
        for inner, place, x, y in parts:
            x, y, log_p = inner.near_empty(x, y, limit)
            kept = inner.unexplained(x, y, range(len(place)))
            self.explained += inner.explained
            for u, v, p in zip(place[x[kept] // 2], place[y[kept] // 2], self.corrected("siblings", log_p[kept])):
                out[int(min(u, v)), int(max(u, v))] = float(p)
        return out

    def unexplained(self, x: Ints, y: Ints, columns: Sequence[int]) -> NDArray[np.bool_]:
        """Which pair cells are too empty even if their literals are independent given any one other column."""
        if self.level is None:
            return np.ones(len(x), dtype=bool)
        c, z = self.tally.pairs, np.asarray(columns, dtype=np.int64)
        f, _, _, n = self.margins(x, y)
        out = np.empty(len(x), dtype=bool)
        for part in _chunks(len(x), len(z)):
            u, v = x[part, None], y[part, None]
            p, q = ([_rate(c[w, 2 * z + s], c[w ^ 1, 2 * z + s]) for s in (0, 1)] for w in (u, v))
            out[part] = self._guarded(f[part], n[part], p, q, z, np.concatenate([u, v], axis=1))
        self.explained += int((~out).sum())
        return out

    def _guarded(
        self, f: Floats, n: Floats, p: list[Floats], q: list[Floats], z: Ints, cell: Ints, single: Floats | None = None
    ) -> NDArray[np.bool_]:
        """Whether the few rows of a cell are a surprise given each column z of other variables than the cell's."""
        owner = self.tally.owner
        other = np.logical_and.reduce([owner[z] != owner[cell[:, i, None] // 2] for i in range(cell.shape[1])])
        single = np.diagonal(self.tally.pairs) if single is None else single
        log_p = self._stratified(f[:, None], n[:, None], p, q, single[2 * z], single[2 * z + 1])
        return np.asarray(np.where(other, log_p, -np.inf).max(axis=1, initial=-np.inf) <= math.log(self.level or 1.0))

    @staticmethod
    def _stratified(f: Floats, n: Floats, p: list[Floats], q: list[Floats], false: Floats, true: Floats) -> Floats:
        """log P(at most this many rows in a cell) if its sides, of rates p and q, are independent given a column."""
        sizes = [n * false / np.maximum(false + true, 1), n * true / np.maximum(false + true, 1)]
        expected = sum(size * a * b for size, a, b in zip(sizes, p, q))
        exact = sum(log_never(size, size * a, size * b) for size, a, b in zip(sizes, p, q))
        return np.where(f == 0, exact, log_few(f, expected))

    # ---- triples ----

    def triples(self, columns: Sequence[int]) -> tuple[NDArray[np.int64], Floats]:
        """Cells of three literals (m, 3) that are emptier than any pair in them and the third allow, with p-values."""
        cells: list[Ints] = []
        numbers: list[Floats] = []  # log p, three splits' worst
        least: list[Floats] = []
        place = np.asarray(columns, dtype=np.int64)
        for i, counts in self.tally.triples(columns):
            for cell, f, worst, reach in self._splits(i, place, counts):
                least.append(reach)
                keep = (f >= 0) & (worst <= (self.log_share if self.level is not None else math.inf))
                cells.append(cell[keep])
                numbers.append(worst[keep])
        if not cells:
            self.threshold("clauses", np.zeros(0))
            return np.zeros((0, 3), dtype=np.int64), np.zeros(0)
        limit = self.threshold("clauses", np.concatenate(least))
        cell, log_p = np.concatenate(cells), np.concatenate(numbers)
        keep = log_p <= limit
        return cell[keep], log_p[keep]

    def _splits(self, i: int, place: Ints, counts: Floats) -> Iterator[tuple[Ints, Floats, Floats, Floats]]:
        """All cells of column place[i] and two later ones: literals, failures (−1: too many), log p, least log p."""
        m = len(place) - i - 1
        owner = self.tally.owner[place]
        grid = counts.reshape(2, m, 2, m, 2)
        j, k = np.triu_indices(m, 1)
        apart = (owner[i] != owner[i + 1 + j]) & (owner[i] != owner[i + 1 + k]) & (owner[i + 1 + j] != owner[i + 1 + k])
        j, k = j[apart], k[apart]
        eight = grid[:, j, :, k, :]  # (pairs, 2, 2, 2): numpy puts the paired axis first
        n = eight.sum(axis=(1, 2, 3))
        for r, s, t in np.ndindex(2, 2, 2):
            f = eight[:, r, s, t]
            ij, ik, jk = eight[:, r, s].sum(axis=1), eight[:, r, :, t].sum(axis=1), eight[:, :, s, t].sum(axis=1)
            ones = (
                eight[:, r].sum(axis=(1, 2)),
                eight[:, :, s].sum(axis=(1, 2)),
                eight[:, :, :, t].sum(axis=(1, 2)),
            )
            sides = ((ij, ones[2]), (ik, ones[1]), (jk, ones[0]))
            reach = np.maximum.reduce([log_never(n, a, b) for a, b in sides])
            fits = f <= self.tolerance * np.minimum(np.minimum(ij, ik), jk)
            fits &= (ij > 0) & (ik > 0) & (jk > 0)
            worst = np.maximum.reduce([log_tail(f, n, a, b) for a, b in sides]) if self.tolerance else reach
            cell = np.stack(
                [np.full(len(j), 2 * place[i] + r), 2 * place[i + 1 + j] + s, 2 * place[i + 1 + k] + t], axis=1
            )
            yield cell, np.where(fits, f, -1.0), worst, reach

    def unexplained_triples(self, cells: Ints, columns: Sequence[int]) -> NDArray[np.bool_]:
        """The same for triples, for each split into a pair and a single literal."""
        out = np.ones(len(cells), dtype=bool)
        if self.level is None or not len(cells):
            return out
        c, z = self.tally.pairs, np.asarray(columns, dtype=np.int64)
        f, n = self._sizes(cells)
        for a, b, single in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
            pair, which = np.unique(cells[:, [a, b]], axis=0, return_inverse=True)
            meets = self.tally.meeting(pair)
            alone = np.diagonal(c)
            for part in _chunks(len(cells), len(z)):
                y, w = cells[part, single, None], which.ravel()[part, None]
                p = [meets[w, 2 * z + s] / np.maximum(alone[2 * z + s], 1) for s in (0, 1)]
                q = [_rate(c[y, 2 * z + s], c[y ^ 1, 2 * z + s]) for s in (0, 1)]
                out[part] &= self._guarded(f[part], n[part], p, q, z, cells[part])
        self.explained += int((~out).sum())
        return out

    def _sizes(self, cells: Ints) -> tuple[Floats, Floats]:
        """Rows in each cell, and rows in which its columns are all known."""
        codes = self.tally.codes
        inside, known = np.zeros(len(cells)), np.zeros(len(cells))
        for number, cell in enumerate(cells):
            block = codes[:, cell // 2]
            known[number] = (block >= 0).all(axis=1).sum()
            inside[number] = (block == cell % 2).all(axis=1).sum()
        return inside, known

    # ---- groups ----

    def none_of(self, columns: Sequence[int]) -> tuple[NDArray[np.int8], float]:
        """Where none of some columns is true (1, 0, or −1 for unknown), and the log p-value that this never happens.

        The p-value is 0 where it happens too often; it is not yet corrected.
        """
        block, none = self.tally.codes[:, columns], self.tally.joint([2 * c for c in columns])
        n, f = float((none >= 0).sum()), float((none == 1).sum())
        if f > self.tolerance * n or not n:
            return none, 0.0
        if self.level is None:
            return none, -1.0
        rates = [float((block[:, i] == 0).sum()) / max(1, int((block[:, i] >= 0).sum())) for i in range(len(columns))]
        rare = float(log_few(f, self.rare * n)) if f else n * math.log1p(-self.rare)
        return none, max(float(log_few(f, n * math.prod(rates))), rare)

    def avoiding(self, derived: NDArray[np.int8], x: Ints, columns: Sequence[int]) -> Floats:
        """log p-values that literals x never meet a further, derived column; 0 if some of `columns` accounts for it."""
        true, false = self.tally.meeting_rows(derived == 1), self.tally.meeting_rows(derived == 0)
        f, opposite = true[x], true[x ^ 1]
        a, b = f + false[x], f + opposite
        n = a + opposite + false[x ^ 1]
        fits = (f <= self.tolerance * np.minimum(a, b)) & (a > 0) & (b > 0)
        if self.level is None:
            return np.where(fits, -1.0, 0.0)
        out = np.where(fits, log_tail(f, n, a, b), 0.0)
        near = np.flatnonzero(out <= self.log_share)
        z, c = np.asarray(columns, dtype=np.int64), self.tally.pairs
        p = [_rate(c[x[near, None], 2 * z + s], c[x[near, None] ^ 1, 2 * z + s]) for s in (0, 1)]
        q = [_rate(true[2 * z + s], false[2 * z + s])[None] for s in (0, 1)]
        out[near[~self._guarded(f[near], n[near], p, q, z, x[near, None])]] = 0.0
        return out

    def avoiding_among(
        self, rows: NDArray[np.bool_], derived: NDArray[np.integer], x: int, columns: Sequence[int], limit: float
    ) -> float | None:
        """The log p-value that literal x never meets a derived column among some rows; None if it is above a limit.

        None, too, if they do meet, or if some of `columns` accounts for it there.
        """
        value = self.tally.codes[:, x // 2]
        here, there = rows & (derived == 1), rows & (derived == 0)
        yes, no = value == x % 2, value == 1 - x % 2
        f, opposite, away, rest = (float((a & b).sum()) for a in (here, there) for b in (yes, no))
        a, b, n = f + away, f + opposite, f + opposite + away + rest
        if f or not a or not b:
            return None
        log_p = float(log_never(n, a, b))
        if log_p > limit:
            return None
        z, meets = np.asarray(columns, dtype=np.int64), self.tally.meeting_rows
        single, with_x, without = meets(rows), meets(rows & yes), meets(rows & no)
        true, false = meets(here), meets(there)
        p = [_rate(with_x[2 * z + s], without[2 * z + s])[None] for s in (0, 1)]
        q = [_rate(true[2 * z + s], false[2 * z + s])[None] for s in (0, 1)]
        kept = self._guarded(np.array([f]), np.array([n]), p, q, z, np.array([[x]]), single)
        return log_p if kept[0] else None


def _rate(inside: Floats, outside: Floats) -> Floats:
    return inside / np.maximum(inside + outside, 1e-300)


def _chunks(rows: int, width: int) -> Iterator[slice]:
    step = max(1, _CHUNK // max(1, width))
    return (slice(start, start + step) for start in range(0, rows, step))
