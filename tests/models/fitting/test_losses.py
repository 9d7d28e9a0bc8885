"""Losses: what was asked for is kept, the rest is as planned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dssl import DeterministicPrior, DSSLClassifier, EntropyPrior, LabelSpace
from dssl.models.auto.plan import Plan
from dssl.models.fitting.lessons import Later, Lesson, Rise
from dssl.models.fitting.losses import Asked, make_objective
from dssl.training.balance import Frequencies
from dssl.training.terms.consistency import VAT

SPACE = LabelSpace("a, b\na -> b")
AUTO = Asked("auto", None, "auto", {}, "error", 8, 100, 0)
USED = Plan(True, prior_weight=0.2, balance=0.5)


def lesson(known: int = 4) -> Lesson:
    y = np.full((8, 2), np.nan)
    y[:known] = [[1, 1], [0, 1], [0, 0], [0, 1]] * (known // 4)
    return Lesson(SPACE, np.zeros((8, 3)), y, np.ones(8), np.arange(0))


def test_a_plan_is_carried_out() -> None:
    loss = make_objective(lesson(), AUTO, replace(USED, neighbours=True, given_rules=True))
    assert isinstance(loss.prior, DeterministicPrior)
    assert (loss.prior_weight, loss.constrained, loss.rising) == (0.2, True, True)
    assert loss.balance_weight == pytest.approx(0.25)  # half of the rows are open
    assert list(loss.consistency) == ["neighbours"]
    assert loss.ramp == Rise(40, 0)


def test_a_plan_without_unlabelled_rows_has_the_likelihood_alone() -> None:
    loss = make_objective(lesson(8), AUTO, Plan(False))
    assert loss.prior is None
    assert not loss.balance_weight
    assert not loss.consistency


@pytest.mark.parametrize(("asked", "holds"), [
    ({"prior": "entropy"}, lambda loss: isinstance(loss.prior, EntropyPrior)),
    ({"prior_weight": 3.0}, lambda loss: loss.prior_weight == 3.0 and loss.prior is not None),
    ({"consistency": [VAT()]}, lambda loss: list(loss.consistency) == ["vat"]),
    ({"options": {"labelled_prior_weight": 2.0}}, lambda loss: loss.labelled_prior_weight == 2.0),
    ({"options": {"constrained": True}}, lambda loss: loss.constrained),
    ({"options": {"rising": False}}, lambda loss: not loss.rising),
    ({"options": {"ramp": 0.0}}, lambda loss: loss.ramp is None),
    ({"options": {"ramp": float}, "done": 5}, lambda loss: loss.ramp == Later(float, 5)),
    ({"on_violation": "warn"}, lambda loss: not loss.strict),
], ids="prior prior-weight terms labelled constrained steady no-ramp own-ramp warn".split())  # fmt: skip
def test_what_is_asked_for_is_done_whatever_the_plan(asked: dict[str, Any], holds: Any) -> None:
    assert holds(make_objective(lesson(), replace(AUTO, **asked), Plan(False)))


def test_frequencies_come_from_the_plan_unless_given() -> None:
    shares = Frequencies(np.array([0.3, 0.6]), np.array([0.1, 0.1]))
    planned = replace(USED, shares=shares)
    target = lambda **told: make_objective(lesson(), replace(AUTO, options=told), planned).balance.target.tolist()  # noqa: E731
    assert target() == pytest.approx([0.7, 0.3, 0.4, 0.6])
    assert target(frequencies="uniform") == pytest.approx([0.5] * 4)
    assert target(frequencies=[0.2, 0.5]) == pytest.approx([0.8, 0.2, 0.5, 0.5])
    loss = make_objective(lesson(), replace(AUTO, options={"frequencies": "unknown"}), planned)
    assert not loss.balance_weight
    with pytest.raises(ValueError, match="leave nothing to balance"):
        make_objective(lesson(), replace(AUTO, options={"frequencies": "unknown", "balance": 1.0}), planned)


def test_the_plan_says_what_was_asked_for_in_place_of_what_it_would_do() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 3))
    y = np.where(np.arange(120) < 20, x[:, 0] + 3 * random.normal(size=120) > 0, -1)

    def said(**parameters: Any) -> dict[str, tuple[str, str]]:
        plan = DSSLClassifier(steps=3, random_state=0, **parameters).fit(x, y).plan_
        assert len({d.what for d in plan.decisions}) == len(plan.decisions)
        return {d.what: (d.value, d.reason) for d in plan.decisions}

    planned = said()
    assert "neighbours" in planned
    assert all(reason != "as asked for" for _, reason in planned.values())
    assert said(prior_weight=50)["prior"] == ("DeterministicPrior, weight 50", "as asked for")
    assert said(prior="entropy")["prior"] == ("EntropyPrior, weight 0.3", "as asked for")
    alone = said(prior=None, consistency=["vat", "pi-model"], objective={"balance": 0.5})
    assert alone["prior"] == ("none", "as asked for")
    assert alone["consistency"] == ("vat, pi_model", "as asked for")
    assert alone["balance"] == ("weight 0.5", "as asked for")
    assert not {"neighbours", "teacher", "matching"} & set(alone)
