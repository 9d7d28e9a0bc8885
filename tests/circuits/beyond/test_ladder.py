"""Every step of the ladder against enumeration, on random spaces; and steps that are kept with a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.circuits.beyond import ladder, superset
from dssl.circuits.beyond.cascade import Cascade
from dssl.circuits.beyond.ladder import again, climb, told
from dssl.circuits.beyond.superset import Superset, grow
from dssl.circuits.circuit import Circuit
from dssl.errors import BudgetError, DataError
from dssl.logic.space import LabelSpace
from logic.hierarchies import hierarchy
from logic.strategies import Drawn, valid_spaces


def weights(space: LabelSpace, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    z = 2 * np.random.default_rng(seed).normal(size=(2, space.width))
    both = [oracle.log_literals(space.variables, row) for row in z]
    pos, neg = (torch.from_numpy(np.array(part)) for part in zip(*both))
    return pos, neg


@settings(deadline=None, max_examples=60)
@given(valid_spaces(labels=40, soft=False), st.integers(0, 99), st.sampled_from([None, 0.0]), st.integers(0, 40))
def test_labels_obey_every_rule_on_every_step(drawn: Drawn, seed: int, budget: float | None, nodes: int) -> None:
    """The most probable label is that of enumeration, unless it says that this is not proven."""
    space = LabelSpace.of(drawn.variables, drawn.rules())
    if not space.rules:
        return
    step = climb(space, budget)
    if isinstance(step.answers, Superset) and nodes:
        step = step._replace(answers=grow(space, 1.0, budget_nodes=nodes))
    assert isinstance(step.answers, Circuit) or budget == 0  # where nothing is to be decided, no budget is needed
    pos, neg = weights(space, seed)
    rows = np.unique(oracle.valid_columns(space.constraints), axis=0)
    label, weight = step.answers.mpe(pos, neg)
    assert not space.check(label.float().numpy())
    if isinstance(step.answers, Cascade):
        return  # its labels weigh something else: see the next test
    how = step.answers.search(pos, neg)[2] if isinstance(step.answers, Superset) else torch.zeros(2)
    for i in range(2):
        each = oracle.log_weights(rows, pos[i].numpy(), neg[i].numpy())
        if how[i] != superset.UNPROVEN:
            assert float(weight[i]) == pytest.approx(each.max(), abs=1e-9)
        total = oracle.log_wmc(rows, pos[i].numpy(), neg[i].numpy())
        found = float(step.answers.log_wmc(pos, neg)[i])
        assert found >= total - 1e-9  # of a superset
        if isinstance(step.answers, Circuit):
            assert found == pytest.approx(total)


@pytest.mark.parametrize("seed", range(100))
def test_implications_without_a_budget(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path))  # what was compiled before costs no budget
    space = hierarchy(seed, classes=2 + seed % 6)
    step = climb(space, 0.0)
    assert isinstance(step.answers, Cascade)
    u = np.random.default_rng(seed).normal(size=space.width)
    rows = oracle.valid_columns(space.constraints)
    each = np.array([oracle.from_the_top(space, row, u) for row in rows])
    pos, neg = (torch.from_numpy(-np.logaddexp(0, sign * u)) for sign in (-1, 1))
    label, weight = step.answers.mpe(pos, neg)
    assert not space.check(label.double().numpy()[None])
    assert float(weight) == pytest.approx(each.max(), abs=1e-6)
    np.testing.assert_allclose(step.answers.marginals(pos, neg), np.exp(each) @ rows)


def test_what_was_told_is_had_again() -> None:
    tree, latin = hierarchy(1), LabelSpace("x[1..3]: 1..3\nall_different(x[*])\nx[1] != 2\nx[2] < x[3]")
    cases: list[tuple[LabelSpace, Any]] = [
        (tree, climb(tree).answers),
        (tree, climb(tree, 0.0).answers),
        (latin, Superset(latin, (1, 2), LabelSpace.of(latin.variables, latin.rules[1:]).compile())),
    ]
    for space, answers in cases:
        found = again(space, told(answers)) or space.compile()
        assert repr(found) == repr(answers)
        pos, neg = weights(space, 0)
        torch.testing.assert_close(found.marginals(pos, neg), answers.marginals(pos, neg))
    assert again(tree, None) is None
    for odd in ({"step": "implications"}, {"step": "superset", "kept": [7]}, {"step": "guess"}):
        with pytest.raises(DataError, match="to answer for the rules"):
            again(latin, odd)


def test_rules_of_which_no_valid_label_can_be_found_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from dssl.logic.reasoning.solver import Solver

    space = LabelSpace("a, b\na | b")

    def undecided(self: Solver, *args: Any) -> bool:
        raise BudgetError("not decided")

    monkeypatch.setattr(Solver, "satisfiable", undecided)
    with pytest.raises(BudgetError, match="not decided"):
        climb(space, 0.0)


def test_implications_get_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = []

    def compile_(self: LabelSpace, *, budget_s: float) -> Circuit:
        seconds.append(budget_s)
        raise BudgetError("too much")

    monkeypatch.setattr(LabelSpace, "compile", compile_)
    assert isinstance(climb(hierarchy(0)).answers, Cascade)
    assert seconds == [ladder.IMPLICATIONS_S]
