"""The steps of the search, each on labels made for it."""

from __future__ import annotations

import numpy as np
import pytest

from dssl.logic.discovery import KINDS, Search
from dssl.logic.mining import Miner
from dssl.logic.tally import read


def coins(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random((rows, columns)) < 0.5).astype(float)


def found(y: np.ndarray, max_clause: int = 3, budget: int = 2_000_000, **options: float) -> list[str]:
    search = Search(Miner(read(y), **options), max_clause, budget)
    return [str(f.formula) for f in search.run()]


def test_equal_columns_are_said_once_and_stand_for_each_other() -> None:
    y = coins(300, 5)
    y[:, 1], y[:, 2] = y[:, 0], 1 - y[:, 0]
    y[:, 3] *= y[:, 0]
    assert found(y) == ["y0 <-> y1", "y0 <-> !y2", "y3 -> y0"]


def test_a_group_of_which_one_always_holds() -> None:
    y = np.column_stack([np.eye(4)[np.random.default_rng(0).integers(0, 4, 400)], coins(400, 2)])
    assert found(y) == ["exactly_one(y0, y1, y2, y3)"]


def test_a_group_of_which_one_holds_where_something_else_does() -> None:
    y = np.column_stack([np.eye(4)[np.random.default_rng(0).integers(0, 4, 800)], coins(800, 2)])
    y[y[:, 4] == 0, :4] *= coins(int((y[:, 4] == 0).sum()), 1)
    assert found(y) == ["at_most(1, y0, y1, y2, y3)", "y4 -> y0 | y1 | y2 | y3"]


def test_a_parent_and_its_children() -> None:
    rng = np.random.default_rng(0)
    y = np.zeros((3000, 5))
    y[:, 0] = rng.random(3000) < 0.05
    y[np.arange(3000), rng.integers(1, 5, 3000)] = y[:, 0]
    assert set(found(y)) >= {"y1 -> y0", "y2 -> y0", "y3 -> y0", "y4 -> y0", "at_most(1, y1, y2, y3, y4)"}


def test_counts_that_no_other_rule_accounts_for() -> None:
    y = coins(6000, 8)
    y = y[(y.sum(axis=1) <= 4) & (y.sum(axis=1) >= 3)]
    assert found(y, max_clause=2) == [
        "at_most(4, y0, y1, y2, y3, y4, y5, y6, y7)",
        "at_least(3, y0, y1, y2, y3, y4, y5, y6, y7)",
    ]
    y = y[y.sum(axis=1) == 4]
    assert found(y, max_clause=2) == ["exactly(4, y0, y1, y2, y3, y4, y5, y6, y7)"]


def test_a_count_that_fades_out_is_no_rule() -> None:
    """The largest of many counts lies below the largest possible one, for no reason."""
    assert found(coins(500, 12)) == []


def test_a_count_that_follows_from_groups_is_no_surprise() -> None:
    rng = np.random.default_rng(0)
    y = np.concatenate([np.eye(3)[rng.integers(0, 3, 600)] for _ in range(4)], axis=1)
    assert found(y, max_clause=2) == [f"exactly_one(y{i}, y{i + 1}, y{i + 2})" for i in (0, 3, 6, 9)]


def test_a_budget_is_kept_and_said() -> None:
    y = coins(300, 12)
    y[:, 2] = np.maximum(y[:, 2], y[:, 0] * y[:, 1])
    whole = Search(Miner(read(y)))
    assert [str(f.formula) for f in whole.run()] == ["y0 & y1 -> y2"]
    assert whole.limits == []
    some = Search(Miner(read(y)), budget=8 * 10)  # triples of five columns
    some.run()
    assert some.limits == [
        "clauses of three were sought among 5 of 12 columns only, those whose rarer value is most common: "
        "all would be 1,760 clauses for a budget of 80"
    ]


def test_what_is_explained_is_said() -> None:
    y = coins(400, 4)
    y[:, 0] *= y[:, 1]
    y[:, 2] *= 1 - y[:, 1]
    y[np.flatnonzero((y[:, 1] == 1) & (y[:, 0] == 0))[:2], 2] = 1
    search = Search(Miner(read(y)))
    assert [str(f.formula) for f in search.run()] == ["y0 -> y1"]
    assert search.limits == ["1 combinations that did not occur are left out: one other variable accounts for it"]


@pytest.mark.parametrize(("longest", "expected"), [(1, ["!y0"]), (2, ["!y0", "y1 -> y2"])])
def test_shorter_searches(longest: int, expected: list[str]) -> None:
    y = coins(400, 6)
    y[:, 0] = 0
    y[:, 2] = np.maximum(y[:, 1], y[:, 2])
    y[:, 5] = np.maximum(y[:, 5], y[:, 3] * y[:, 4])
    assert found(y, max_clause=longest) == expected
    assert found(y) == ["!y0", "y1 -> y2", "y3 & y4 -> y5"]


def test_a_count_may_not_fail_even_where_rules_may() -> None:
    y = coins(20_000, 8)
    y = y[y.sum(axis=1) <= 3]
    said = "at_most(3, y0, y1, y2, y3, y4, y5, y6, y7)"
    assert said in found(y, max_clause=2, tolerance=0.02)
    y[0] = 1
    assert said not in found(y, max_clause=2, tolerance=0.02)


def test_soft_groups() -> None:
    y = np.column_stack([np.eye(4)[np.random.default_rng(0).integers(0, 4, 2000)], coins(2000, 2)])
    y[::100, :4] = [1, 1, 0, 0]
    y[50::100, :4] = 0
    assert found(y, tolerance=0.05, max_clause=2) == ["exactly_one(y0, y1, y2, y3)"]
    assert "exactly_one(y0, y1, y2, y3)" not in found(y)


def test_kinds_are_all_known() -> None:
    y = coins(400, 5)
    y[:, 1] = y[:, 0]
    assert {f.kind for f in Search(Miner(read(y))).run()} <= set(KINDS)
