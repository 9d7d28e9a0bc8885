"""Numbers at slider positions: equal to the Python API's, and to enumeration over all labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl import DeterministicPrior, EntropyPrior, ExclusivityPrior, LabelSpace, PseudoLabelPrior
from dssl.app.explorer.beliefs import beliefs
from dssl.app.explorer.spaces import Malformed, Refused

TEXTS = {
    "animals": "legs, fins, wings\nlegs -> !fins",
    "mixed": "species: {cat, dog, trout}\nlegs, fins\nspecies = trout -> fins\nlegs -> !fins\n0.8 :: legs",
    "no rules": "a: {x, y, z}\nb, c",
    "sums": "a: 0..2\nb: 0..2\nt: 0..4\na + b = t",
}


def logits_of(space: LabelSpace, values: list[float]) -> list[float]:
    """Slider positions as logits, one by one."""
    binary = [variable.binary for variable in space.variables for _ in variable.columns]
    return [math.log(v / (1 - v)) if b else v for v, b in zip(values, binary)]


@st.composite
def positions(draw: st.DrawFn, space: LabelSpace) -> list[float]:
    binary = [variable.binary for variable in space.variables for _ in variable.columns]
    return [draw(st.floats(0.001, 0.999) if b else st.floats(-8, 8)) for b in binary]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_log_q_is_that_of_the_priors(text: str, data: st.DataObject) -> None:
    space = LabelSpace(text)
    values = data.draw(positions(space))
    power = data.draw(st.floats(0.5, 30))
    said = beliefs({"text": text, "values": values, "power": power})
    z = torch.tensor([logits_of(space, values)], dtype=torch.float64)
    priors = [EntropyPrior(space), EntropyPrior(space, semantic=True), PseudoLabelPrior(space)]
    expected = {
        "entropy": priors[0](z),
        "entropy, semantic": priors[1](z),
        "pseudo-label": priors[2](z),
        "deterministic": DeterministicPrior(space, power).log_prob(z),
    }
    if space.rules:
        expected["exclusivity"] = ExclusivityPrior(space)(z)
    found = {prior["name"]: prior for prior in said["priors"]}
    for name, log_q in expected.items():
        assert found[name]["log_q"] == pytest.approx(float(log_q), rel=1e-9, abs=1e-9)
    assert found["deterministic"]["maximised"] == pytest.approx(found["deterministic"]["log_q"] / power, rel=1e-5)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_answers_are_those_of_enumeration(text: str, data: st.DataObject) -> None:
    space = LabelSpace(text)
    values = data.draw(positions(space))
    said = beliefs({"text": text, "values": values, "power": 3.0, "top": 4})
    log_pos, log_neg = oracle.log_literals(space.variables, logits_of(space, values))
    soft_pos, soft_neg = oracle.soft_log_weights(space.constraints)
    weights = np.concatenate([log_pos, soft_pos]), np.concatenate([log_neg, soft_neg])
    rows = oracle.valid_columns(space.constraints)
    assert said["theta"] == pytest.approx(np.exp(log_pos).tolist(), abs=1e-9)
    assert said["marginals"] == pytest.approx(oracle.marginals(rows, *weights)[: space.width].tolist(), abs=1e-6)
    assert said["valid"] == pytest.approx(math.exp(oracle.log_wmc(rows, *weights)), rel=1e-6)
    _, heavy = oracle.best(rows, *weights, k=4)
    total = oracle.log_wmc(rows, *weights)
    assert [each["log_p"] for each in said["top"]] == pytest.approx((heavy - total).tolist(), abs=1e-6)
    powered = {p["name"]: p["log_q"] for p in said["priors"]}["deterministic"]
    soft = np.where(rows[:, space.width :], soft_pos, soft_neg).sum(axis=1)
    hard = oracle.log_weights(rows[:, : space.width], 3.0 * log_pos, 3.0 * log_neg)
    assert powered == pytest.approx(oracle.log_sum(hard + soft), abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_samples_and_labels_are_valid_and_repeat_with_their_seed(data: st.DataObject) -> None:
    space = LabelSpace(TEXTS["mixed"])
    request: dict[str, Any] = {"text": TEXTS["mixed"], "values": data.draw(positions(space)), "samples": 20}
    request["seed"] = data.draw(st.integers(0, 2**31 - 1))
    said = beliefs(request)
    assert said == beliefs(request)
    labels = [*said["samples"], *(each["label"] for each in said["top"])]
    records = [{v.name: v.values[i] for v, i in zip(space.variables, label)} for label in labels]
    assert not space.check(records)
    assert len(said["samples"]) == 20


def test_samples_follow_the_weights() -> None:
    """p(legs | valid) = .9·.5 / (.9·.5 + .1·.5 + .1·.5) by hand, in 1,000 draws."""
    draws = [
        label[0]
        for seed in range(20)
        for label in beliefs({"text": "legs, fins\nlegs -> !fins", "values": [0.9, 0.5], "samples": 50, "seed": seed})[
            "samples"
        ]
    ]
    assert np.mean(draws) == pytest.approx(0.45 / 0.55, abs=4 * math.sqrt(0.15 / 1000))


def test_the_raw_label_may_break_rules_and_the_best_does_not() -> None:
    said = beliefs({"text": TEXTS["animals"], "values": [0.9, 0.8, 0.3]})
    assert said["raw"] == [1, 1, 0]
    assert said["top"][0]["label"] == [1, 0, 0]


def test_of_equally_probable_raw_values_the_best_labels_counts() -> None:
    said = beliefs({"text": "a, b\nc: {x, y}\na | b", "values": [0.5, 0.5, 0.0, 0.0]})
    assert said["raw"] == said["top"][0]["label"]


def test_exclusivity_without_rules_says_that_it_gives_no_signal() -> None:
    found = {p["name"]: p for p in beliefs({"text": "a, b", "values": [0.3, 0.4]})["priors"]}
    assert found["exclusivity"]["note"] == "No signal for binary variables without rules."
    assert found["entropy"]["note"] == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"values": [0.5]}, "list of 2 numbers"),
        ({"values": "ab"}, "list of 2 numbers"),
        ({"values": [0.5, None]}, "list of 2 numbers"),
        ({"values": [0.5, float("nan")]}, "list of 2 numbers"),
        ({"values": [0.0, 0.5]}, "between 0 and 1"),
        ({"values": [1.0, 0.5]}, "between 0 and 1"),
        ({"power": 0}, "'power' must be a number from 0.5 to 100"),
        ({"power": "ten"}, "'power' must be a number"),
        ({"power": True}, "'power' must be a number"),
        ({"samples": 10_000}, "'samples' must be a number from 0 to 50"),
        ({"top": 0}, "'top' must be a number from 1"),
        ({"seed": 1.5}, "'seed' must be a whole number"),
    ],
)
def test_requests_outside_their_bounds_are_malformed(change: dict[str, Any], said: str) -> None:
    with pytest.raises(Malformed, match=said):
        beliefs({"text": "a, b", "values": [0.5, 0.5], **change})


def test_a_logit_out_of_bounds_is_malformed() -> None:
    with pytest.raises(Malformed, match="others between −30 and 30"):
        beliefs({"text": "a: {x, y}", "values": [31, 0]})


def test_more_columns_than_sliders_are_refused() -> None:
    with pytest.raises(Refused, match="up to 200 columns"):
        beliefs({"text": "a: 0..300", "values": [0] * 301})


def test_wrong_rules_are_said_to_be_wrong() -> None:
    assert beliefs({"text": "a -> b", "values": []}) == {"error": {"reason": "'a' is not declared"}}
