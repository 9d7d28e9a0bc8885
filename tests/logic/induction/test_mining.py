"""Cells and their p-values against loops over rows, arrangements and scipy's exact test."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dssl.logic.induction.mining import FAMILIES, Miner
from dssl.logic.induction.tally import Tally, read
from dssl.logic.space import LabelSpace


def sample(rows: int, seed: int = 0, unknown: float = 0.0) -> np.ndarray:
    """Six columns: 1 implies 0; 2 and 3 never meet; 4 and 5 have nothing to do with anything."""
    rng = np.random.default_rng(seed)
    y = (rng.random((rows, 6)) < 0.5).astype(float)
    y[:, 0] = np.maximum(y[:, 0], y[:, 1])
    y[:, 3] *= 1 - y[:, 2]
    y[rng.random(y.shape) < unknown] = np.nan
    return y


def pairs_of(miner: Miner) -> dict[tuple[int, int], float]:
    x, y, log_p = miner.pairs(range(miner.tally.width))
    return dict(zip(zip(x.tolist(), y.tolist()), log_p.tolist()))


@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_pairs_that_never_meet_have_fishers_p_value(unknown: float) -> None:
    y = sample(200, unknown=unknown)
    found = pairs_of(Miner(read(y)))
    assert set(found) == {(0, 3), (5, 7)}  # y0 false and y1 true; y2 and y3 true
    for (a, b), log_p in found.items():
        known = ~np.isnan(y[:, a // 2]) & ~np.isnan(y[:, b // 2])
        first, second = (y[known, c // 2] == c % 2 for c in (a, b))
        table = [[(u & v).sum() for v in (second, ~second)] for u in (first, ~first)]
        assert math.exp(log_p) == pytest.approx(stats.fisher_exact(table, alternative="less").pvalue, rel=1e-6)


def test_the_correction_counts_tests_that_could_be_significant() -> None:
    miner = Miner(read(sample(200)))
    pairs_of(miner)
    assert miner.tried == {"pairs": 4 * math.comb(6, 2)}
    assert math.exp(miner.corrected("pairs", math.log(1e-6))) == pytest.approx(1e-6 * 60 * len(FAMILIES))
    rare = sample(200)
    rare[:, 4] = 0
    rare[0, 4] = 1  # a value seen once can be in no significant cell with a rarer side
    few = Miner(read(rare))
    pairs_of(few)
    assert few.tried["pairs"] == 60 - 10


def test_failures_are_tolerated_up_to_a_share_of_the_rarer_side() -> None:
    y = sample(2000)
    y[np.flatnonzero(y[:, 1] == 1)[:20], 0] = 0  # 2 % of the chances of y1 -> y0 fail
    assert (0, 3) not in pairs_of(Miner(read(y)))
    assert (0, 3) not in pairs_of(Miner(read(y), tolerance=0.01))
    assert (0, 3) in pairs_of(Miner(read(y), tolerance=0.05))


def test_what_another_column_accounts_for_is_left_out() -> None:
    """0 implies 1; 1 and 2 meet seldom. That 0 and 2 never meet says nothing new; given 1, chance would do it."""
    rng = np.random.default_rng(0)
    y = np.zeros((400, 4))
    y[:, 1] = rng.random(400) < 0.5
    y[:, 0] = y[:, 1] * (rng.random(400) < 0.5)
    y[:, 2] = (1 - y[:, 1]) * (rng.random(400) < 0.6)
    y[np.flatnonzero((y[:, 1] == 1) & (y[:, 0] == 0))[:2], 2] = 1
    y[:, 3] = rng.random(400) < 0.5
    miner = Miner(read(y))
    x, z, _ = miner.pairs(range(4))
    cells = list(zip(x.tolist(), z.tolist()))
    assert set(cells) == {(1, 2), (1, 5)}
    kept = miner.unexplained(x, z, range(4))
    assert [cell for cell, good in zip(cells, kept) if good] == [(1, 2)]
    assert miner.explained == 1


def test_the_p_value_given_a_column_is_exact() -> None:
    """All arrangements of one column within the strata of another."""
    x, z = np.array([1, 1, 0, 0, 1, 0, 0]), np.array([0, 0, 0, 0, 1, 1, 1])
    y = np.array([0, 0, 1, 0, 0, 1, 0])
    ways = [
        (set(a) | set(b)) for a in itertools.combinations(range(4), 1) for b in itertools.combinations(range(4, 7), 1)
    ]
    share = np.mean([not way & set(np.flatnonzero(x)) for way in ways])
    miner = Miner(read(np.stack([x, y, z], axis=1)))
    c, at = miner.tally.pairs, np.array([2])
    rates = [[(c[w, 2 * at + s] / (c[w, 2 * at + s] + c[w ^ 1, 2 * at + s]))[None] for s in (0, 1)] for w in (1, 3)]
    found = miner._stratified(np.zeros((1, 1)), np.full((1, 1), 7.0), rates[0], rates[1], c[4, 4][None], c[5, 5][None])
    assert math.exp(float(found[0, 0])) == pytest.approx(share)


def test_siblings_are_tested_where_their_parent_holds() -> None:
    """Children of a rare parent never meet: no surprise in all rows, a great one in the parent's."""
    rng = np.random.default_rng(0)
    y = np.zeros((4000, 5))
    y[:, 0] = rng.random(4000) < 0.05
    which = rng.integers(1, 5, 4000)
    y[np.arange(4000), which] = y[:, 0]
    miner = Miner(read(y))
    across = {(2 * i + 1, 2 * j + 1) for i, j in itertools.combinations(range(1, 5), 2)}
    assert not across & set(pairs_of(miner))
    assert set(miner.siblings({1: [3, 5, 7, 9]})) == across
    assert Miner(read(y)).siblings({}) == {}


def test_triples_are_those_that_no_pair_accounts_for() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random((800, 5)) < 0.5).astype(float)
    y[:, 2] = np.maximum(y[:, 2], y[:, 0] * y[:, 1])  # y0 & y1 -> y2
    miner = Miner(read(y))
    cells, log_p = miner.triples(range(5))
    assert [sorted(cell) for cell in cells.tolist()] == [[1, 3, 4]]
    inside = (y[:, 0] == 1) & (y[:, 1] == 1)
    splits = [inside, (y[:, 0] == 1) & (y[:, 2] == 0), (y[:, 1] == 1) & (y[:, 2] == 0)]
    rest = [y[:, 2] == 0, y[:, 1] == 1, y[:, 0] == 1]
    worst = max(stats.hypergeom.logpmf(0, 800, a.sum(), b.sum()) for a, b in zip(splits, rest))
    assert float(log_p[0]) == pytest.approx(worst)
    assert miner.unexplained_triples(cells, range(5)).all()
    y[:, 1] = 1 - y[:, 0]  # now no row is in two of its three literals at all
    assert len(Miner(read(y)).triples(range(5))[0]) == 0


def test_values_that_never_occur_are_judged_against_a_rare_one() -> None:
    y = sample(120)
    y[:, 4] = 0
    assert Miner(read(y)).values() == []  # 0.95^120 is no surprise among twelve literals
    y = sample(300)
    y[:, 4] = 0
    ((cell, log_p),) = Miner(read(y)).values()
    assert cell == (9,)
    assert math.exp(log_p) == pytest.approx(0.95**300 * 12 * len(FAMILIES))


def test_groups_of_which_one_always_holds() -> None:
    rng = np.random.default_rng(0)
    y = np.eye(3)[rng.integers(0, 3, 300)]
    other = (rng.random(300) < 0.5).astype(float)
    none, never = Miner(read(np.column_stack([y, other]))).none_of([0, 1, 2])
    assert not none.any()
    assert never == pytest.approx(300 * math.log(0.95))  # under independence it would be less likely still
    y[other == 0] = 0
    miner = Miner(read(np.column_stack([y, other])))
    none, never = miner.none_of([0, 1, 2])
    assert none.tolist() == (1 - other).tolist()
    assert never == 0
    log_p = miner.avoiding(none, np.array([6, 7]), [3])  # where y3 holds, one of them does
    assert log_p[0] == 0
    assert log_p[1] == pytest.approx(stats.hypergeom.logpmf(0, 300, other.sum(), none.sum()))


def test_a_derived_column_may_be_accounted_for_by_another() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random((400, 2)) < 0.5).astype(float)
    y[:, 0] *= y[:, 1]
    derived = np.where(y[:, 1] == 1, 0, rng.random(400) < 0.5).astype(np.int8)
    derived[np.flatnonzero((y[:, 1] == 1) & (y[:, 0] == 0))[:2]] = 1
    miner = Miner(read(y))
    assert miner.avoiding(derived, np.array([1]), [0])[0] < -20
    assert miner.avoiding(derived, np.array([1]), [0, 1])[0] == 0


def test_without_a_level_every_empty_cell_counts() -> None:
    rows = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0]], dtype=np.int8)
    miner = Miner(Tally(LabelSpace("a, b, c"), rows), level=None)
    empty = [
        (x, y)
        for x in range(6)
        for y in range(x + 1, 6)
        if x // 2 != y // 2 and not any(r[x // 2] == x % 2 and r[y // 2] == y % 2 for r in rows)
    ]
    assert sorted(pairs_of(miner)) == empty
    assert miner.unexplained(np.array([1]), np.array([3]), range(3)).all()
    assert miner.none_of([0, 1, 2])[1] < 0


def test_the_p_value_among_some_rows_is_exact() -> None:
    """All arrangements of a column among the rows that count; the others do not matter."""
    rng = np.random.default_rng(1)
    value = np.array([0, 0, 0, 1, 1, 1, 1, 0, 1, 1, 0])
    derived = np.array([1, 1, 1, 0, 0, 0, 0, 0, 1, -1, 0], dtype=np.int8)
    rows = np.array([1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0], dtype=bool)  # the ninth would be a failure
    counted = np.flatnonzero(rows & (derived >= 0))
    inside = set(np.flatnonzero(derived == 1))
    ways = [set(way) for way in itertools.combinations(counted.tolist(), int(value[counted].sum()))]
    share = np.mean([not way & inside for way in ways])
    miner = Miner(read(np.stack([value, rng.integers(0, 2, 11)], axis=1)), level=0.9)
    found = miner.avoiding_among(rows, derived, 1, [0], 0.0)
    assert found is not None
    assert math.exp(found) == pytest.approx(share)
    assert miner.avoiding_among(np.ones(11, dtype=bool), derived, 1, [0], 0.0) is None  # they meet
    assert miner.avoiding_among(rows, derived, 1, [0], found - 0.01) is None  # no surprise
