"""Projected counts: as many as there are distinct labels of the variables that are seen."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.circuits import projection
from dssl.errors import BudgetError, DataError, RuleError
from dssl.logic.space import LabelSpace
from logic.strategies import Drawn, drawn_spaces


@settings(deadline=None, max_examples=100)
@given(drawn_spaces(most=6, labels=200, rules=3, depth=3), st.data())
def test_counts_are_those_of_distinct_projections(drawn: Drawn, data: st.DataObject) -> None:
    if not drawn.valid:
        return
    names = [variable.name for variable in drawn.variables]
    over = data.draw(st.lists(st.sampled_from(names), unique=True))
    assert drawn.space().count(over=over) == len(oracle.projections(drawn.valid, over))


@pytest.mark.parametrize("seed", range(12))
def test_random_clauses(seed: int) -> None:
    """Larger than what is drawn: twelve variables, branches that overlap once others are forgotten."""
    rng = random.Random(seed)
    names = [f"x{i}" for i in range(12)]
    clauses = [" | ".join(rng.choice(["", "!"]) + x for x in rng.sample(names, 3)) for _ in range(rng.randint(12, 40))]
    space = LabelSpace(", ".join(names) + "\n" + "\n".join(clauses))
    valid = list(space.valid())
    for k in (0, 1, 4, 8, 12):
        over = rng.sample(names, k)
        assert space.count(over=over) == len(oracle.projections(valid, over))


def test_a_long_chain_is_counted_without_recursion() -> None:
    n = 600
    space = LabelSpace(f"x[1..{n}]\nfor i in 1..{n - 1}: x[i] -> x[i+1]")
    assert space.count(over=[f"x[{i}]" for i in range(1, n + 1, 2)]) == n // 2 + 1


def test_numbers_of_any_size() -> None:
    space = LabelSpace("x[1..300]\nd: 0..9\nany(x[*])")
    assert space.count(over=[f"x[{i}]" for i in range(1, 300)]) == 2**299
    assert space.count(over=[*(f"x[{i}]" for i in range(1, 301)), "d"]) == (2**300 - 1) * 10


def test_soft_rules_change_nothing() -> None:
    assert LabelSpace("a, b, c\na | b\n0.9 :: a <-> c").count(over=["a", "c"]) == 4


def test_one_name_is_a_name_and_unknown_ones_are_refused() -> None:
    space = LabelSpace("legs, fins\nlegs -> !fins")
    assert space.count(over="legs") == 2
    with pytest.raises(RuleError, match="'leg' is not declared"):
        space.count(over=["leg"])


def test_a_count_that_grows_too_much_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    space = LabelSpace("x[1..8]\nh[1..8]\nfor i, j in 1..8: x[i] & h[j] -> x[(i * j) mod 8 + 1]\nany(h[*])")
    whole = space.count(over=[f"x[{i}]" for i in range(1, 9)])
    assert whole == len(oracle.projections(list(space.valid()), [f"x[{i}]" for i in range(1, 9)]))
    monkeypatch.setattr(projection, "MOST_NODES", 20)
    with pytest.raises(BudgetError, match="more than 20 nodes"):
        space.count(over=[f"x[{i}]" for i in range(1, 9)])


@pytest.mark.parametrize("block", [-1, 3, 2**70])
def test_a_block_that_is_not_there(block: int) -> None:
    circuit = LabelSpace("a, b, c\na -> b").compile()
    with pytest.raises(DataError, match=rf"block {block} is not one of the circuit's\n.* from 0 to 2"):
        circuit.count([0, block])
    assert circuit.count([0, 2]) == 4
