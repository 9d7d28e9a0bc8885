"""Single rules that are built without a search: the same labels as by enumeration, quickly, or not at all."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.circuits.compile import compiler
from dssl.circuits.compile.budget import Budget
from dssl.circuits.compile.native import single
from dssl.logic.space import LabelSpace
from logic.stopwatch import LOADED, best_of_three


@pytest.fixture(autouse=True)
def _small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single, "FEWEST_STEPS", 0)


def built(space: LabelSpace) -> bool:
    return single.direct(space.constraints, compiler._shown(space.constraints), Budget()) is not None


def agrees(space: LabelSpace) -> None:
    """The circuit is proved, and its labels and their weights are those that enumeration finds."""
    circuit = compiler.compile_constraints(space.constraints, space.columns, cache=False)
    circuit.verify()
    hard = [rule.formula for rule in space.rules if rule.probability is None]
    records = [r for r in oracle.records(space.variables) if all(oracle.holds(formula, r) for formula in hard)]
    assert circuit.count() == len(records)
    if not records or circuit.soft:
        return
    pos, neg = torch.randn(2, 1, space.width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    columns = torch.from_numpy(space.encode(records)).bool()
    weights = torch.where(columns, pos, neg).sum(axis=1)
    assert torch.allclose(circuit.log_wmc(pos, neg), torch.logsumexp(weights, 0))


@pytest.mark.parametrize(
    "text",
    [
        "a[1..7]\nexactly(3, a[*])",
        "a[1..7]\nat_least(2, a[*])",
        "a[1..5], free\nn: {3, 5, 9}\nsum(i*a[i] for i in 1..5) + 2*n != 12",
        "n, m: -3..3\n2*n - 3*m = 1",
        't[1..4]: {O, B, I}\nb\nregular(t[*], "(O | B I*)*")',
        "e[a,b], e[b,c], e[a,c], e[c,d]\npath(e[*, *], a, d)",
        "e[a,b], e[b,c], e[a,c], e[c,d]\nconnected(e[*, *])",
        "x: 1..3\ny: {a, b, c}\nz\n"
        "table(y, x, z) in {(a,1,1),(a,2,1),(b,1,0),(b,2,0),(c,3,1),(c,1,1),(c,1,0),(a,3,0),(a,2,1)}",
    ],
)
def test_each_kind_has_the_labels_of_enumeration(text: str) -> None:
    space = LabelSpace(text)
    assert built(space)
    agrees(space)


@given(
    st.lists(st.integers(-6, 6).filter(bool), min_size=3, max_size=7),
    st.sampled_from(["<=", ">=", "=", "!="]),
    st.integers(-8, 8),
)
@settings(max_examples=60, deadline=None)
def test_random_sums(weights: list[int], op: str, total: int) -> None:
    terms = " + ".join(f"{w}*{'n' if i == 0 else f'a[{i}]'}" for i, w in enumerate(weights)).replace("+ -", "- ")
    variables, rules = LabelSpace(f"n: 0..2\na[1..{len(weights) - 1}]").variables, f"{terms} {op} {total}"
    try:
        space = LabelSpace.of(variables).where(rules)
    except ValueError:  # no label at all
        return
    agrees(space)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), min_size=8, max_size=20))
@settings(max_examples=40, deadline=None)
def test_random_tables(rows: list[tuple[int, int, bool]]) -> None:
    text = ", ".join(f"({a}, {b}, {str(c).lower()})" for a, b, c in rows)
    agrees(LabelSpace(f"x: 0..3\ny: 0..2\nz, w\ntable(x, y, z) in {{{text}}}"))


@pytest.mark.parametrize(
    "more",
    ["a[1] -> a[2]", "0.9 :: a[1]", "at_most(6, a[*])", 'regular(a[*], "(0 | 1 1)*")', "b: 0..9\nb >= 2 | a[1]"],
)
def test_rules_beside_it_are_left_to_the_search(more: str) -> None:
    assert built(LabelSpace("a[1..7]\nexactly(4, a[*])"))
    space = LabelSpace("a[1..7]\nexactly(4, a[*])\n" + more)
    assert not built(space)
    agrees(space)


def test_what_is_small_or_too_large_is_left_to_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    space = LabelSpace("a[1..9]\nexactly(4, a[*])")
    constraints = space.constraints
    assert single.direct(constraints, compiler._shown(constraints), Budget(nodes=20)) is None
    monkeypatch.setattr(single, "MOST_STEPS", 10)
    assert not built(space)
    monkeypatch.undo()
    assert not built(space)


def test_half_of_a_thousand_is_built_in_a_moment() -> None:
    space = LabelSpace("a[1..1000]\nexactly(500, a[*])")
    seconds = best_of_three(lambda: compiler.compile_constraints(space.constraints, space.columns, cache=False))
    assert seconds < 2 * LOADED  # by search it took 17
    assert space.count() == math.comb(1000, 500)
    assert np.isclose(space.log_weight(), math.log(math.comb(1000, 500)))


def test_a_thousand_tags_take_a_second() -> None:
    text = 't[1..1000]: {O, B_per, I_per, B_loc, I_loc}\nregular(t[*], "(O | B_per I_per* | B_loc I_loc*)*")'
    space = LabelSpace(text)
    seconds = best_of_three(lambda: compiler.compile_constraints(space.constraints, space.columns, cache=False))
    assert seconds < 1 * LOADED
