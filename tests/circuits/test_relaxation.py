"""The clause relaxation: exact rule by rule, exact where rules share nothing, and clear about the rest."""

from __future__ import annotations

import math
import os
import time

import numpy as np
import pytest
import torch

import oracle
from dssl.circuits.relaxation import ClauseRelaxation
from dssl.errors import BudgetError
from dssl.logic.space import LabelSpace

APART = LabelSpace("a, b\ncolour: {red, green, blue}\nn: 0..3\nfree\na -> !b\ncolour != red\n0.8 :: n >= 2")
SHARED = LabelSpace("a, b, c\ncolour: {red, green, blue}\na -> b\nb -> c\ncolour = red <-> c\n0.9 :: a | c")


def weights(space: LabelSpace, rows: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(2, rows, space.width, dtype=torch.float64, generator=generator).unbind(0))


def by_enumeration(space: LabelSpace, pos: np.ndarray, neg: np.ndarray) -> float:
    soft = oracle.soft_log_weights(space.constraints)
    rows = oracle.valid_columns(space.constraints)
    return oracle.log_wmc(rows, np.concatenate([pos, soft[0]]), np.concatenate([neg, soft[1]]))


def test_exact_where_no_two_rules_share_a_variable():
    pos, neg = weights(APART)
    found = ClauseRelaxation(APART).log_wmc(pos, neg)
    for value, p, n in zip(found, pos.numpy(), neg.numpy()):
        assert value.item() == pytest.approx(by_enumeration(APART, p, n), rel=1e-9)


def test_the_sum_of_the_rules_log_probabilities_elsewhere():
    pos, neg = weights(SHARED)
    found = ClauseRelaxation(SHARED).log_wmc(pos, neg)
    free = LabelSpace.of(SHARED.variables)
    for value, p, n in zip(found, pos.numpy(), neg.numpy()):
        constant = by_enumeration(free, p, n)
        alone = [by_enumeration(LabelSpace.of(SHARED.variables, (rule,)), p, n) - constant for rule in SHARED.rules]
        assert value.item() == pytest.approx(constant + sum(alone), rel=1e-9)
        assert abs(value.item() - by_enumeration(SHARED, p, n)) > 1e-3


def test_gradients_evidence_and_shapes():
    relaxed = ClauseRelaxation(SHARED)
    pos, neg = (w.requires_grad_() for w in weights(SHARED, 2))
    assert torch.autograd.gradcheck(relaxed.log_wmc, (pos, neg))
    assert relaxed.log_wmc(pos[0], neg[0]).shape == ()
    assert relaxed.log_wmc(pos.expand(3, 2, -1), neg).shape == (3, 2)
    broken = pos.detach().clone()
    broken[0, 1] = -math.inf  # b is false: a must be, which the first rule alone settles
    broken[1, 3:] = -math.inf  # no colour at all
    broken.requires_grad_()
    out = relaxed.log_wmc(broken, neg)
    assert out.isfinite().tolist() == [True, False]
    out.sum().backward()
    assert broken.grad.isfinite().all()
    assert not broken.grad[1].any()


def test_constant_rules():
    space = LabelSpace("a, b\ntrue\n0.9 :: true\na | b")
    half = torch.full((2,), 0.5).log()
    assert ClauseRelaxation(space).log_wmc(half, half).exp().item() == pytest.approx(0.9 * 0.75)


def test_it_names_itself_and_what_to_use_instead():
    relaxed = ClauseRelaxation(SHARED)
    assert "approximation" in repr(relaxed)
    pos, neg = weights(SHARED)
    for query in (relaxed.marginals, relaxed.mpe, relaxed.sample, relaxed.entropy):
        with pytest.raises(RuntimeError, match=r"approximation.*space.compile\(\)"):
            query(pos, neg)
    with pytest.raises(RuntimeError, match="k most probable"):
        relaxed.top_k(pos, neg, 2)
    with pytest.raises(RuntimeError, match="number of valid labels"):
        relaxed.count()
    assert relaxed.width == SHARED.width


# ---- the budget ----


def parities(rules: int) -> LabelSpace:
    """Rules of a dozen variables each."""
    names = [[f"x{r}_{i}" for i in range(12)] for r in range(rules)]
    return LabelSpace(
        ", ".join(name for row in names for name in row) + "\n" + "\n".join(" ^ ".join(row) for row in names)
    )


@pytest.mark.parametrize("budget", [{"budget_s": 0.0}, {"budget_nodes": 150}, {"budget_bytes": 10_000}])
def test_the_budget_holds_for_all_rules_together(budget, monkeypatch):
    monkeypatch.setenv("DSSL_CACHE", os.devnull)  # nothing is kept
    with pytest.raises(
        BudgetError, match=r"on its own takes more than other rules left of the budget.*\nRaise budget_s"
    ):
        parities(5).compile(relaxation="clauses", **budget)
    assert isinstance(parities(5).compile(relaxation="clauses"), ClauseRelaxation)


def test_each_rule_uses_up_some_of_the_budget(monkeypatch):
    monkeypatch.setenv("DSSL_CACHE", os.devnull)  # nothing is kept
    nodes = ClauseRelaxation(parities(1)).parts[0].circuit.nodes
    enough = 100 * nodes  # a search makes more nodes than it keeps
    given = []

    def noted(self, **budget):
        given.append((budget["budget_nodes"], budget["budget_bytes"]))
        return compiled(self, **budget)

    compiled = LabelSpace.compile
    monkeypatch.setattr(LabelSpace, "compile", noted)
    ClauseRelaxation(parities(3), budget_nodes=enough, budget_bytes=1 << 30)
    assert [left for left, _ in given] == [enough, enough - nodes, enough - 2 * nodes]
    assert given[0][1] == 1 << 30 > given[1][1] > given[2][1]


def test_seconds_that_are_used_up_are_not_a_budget_below_zero(monkeypatch):
    monkeypatch.setenv("DSSL_CACHE", os.devnull)  # nothing is kept
    compiled = LabelSpace.compile

    def slow(self, **budget):
        until = time.thread_time() + 0.1
        while time.thread_time() < until:
            pass
        return compiled(self, **budget | {"budget_s": 60.0})

    monkeypatch.setattr(LabelSpace, "compile", slow)
    with pytest.raises(BudgetError, match=r"^'x1_0 .*left of the budget: its seconds are used up\n"):
        ClauseRelaxation(parities(3), budget_s=0.05)
