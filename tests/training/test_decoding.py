"""Decoding agrees with enumeration, and never gives an invalid label."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from dssl import DataError, LabelSpace
from dssl.training.decoding import Decoder
from training.rule_sets import RULE_SETS


def enumerated(space: LabelSpace, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All valid labels as columns (labels, width), and their probabilities (rows, labels) under the network."""
    rows = space.encode(list(space.valid()))
    log_theta = np.zeros((len(logits), space.width, 2))  # of false and true
    for variable, (start, stop) in zip(space.variables, space.spans):
        z = logits[:, start:stop].astype(np.float64)
        if variable.binary:
            log_theta[:, start, 0], log_theta[:, start, 1] = -np.logaddexp(0, z)[:, 0], -np.logaddexp(0, -z)[:, 0]
        else:
            log_theta[:, start:stop, 1] = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
    columns = np.arange(space.width)
    log_p = np.stack([log_theta[:, columns, row.astype(int)].sum(axis=1) for row in rows], axis=1)
    return rows, np.exp(log_p)


def soft_weight(space: LabelSpace, rows: np.ndarray) -> np.ndarray:
    """π of each label: the odds of soft rules (MATH §4)."""
    out = np.ones(len(rows))
    records = space.decode(rows)
    for rule in space.rules:
        if rule.probability is not None:
            hard = LabelSpace.of(space.variables).where(rule.formula)
            holds = ~hard.check(records).invalid
            out *= np.where(holds, rule.probability, 1 - rule.probability)
    return out


@pytest.mark.parametrize("text", RULE_SETS.values(), ids=RULE_SETS)
def test_answers_equal_enumeration(text: str) -> None:
    decoder = Decoder(text)
    logits = np.random.default_rng(0).normal(scale=2, size=(20, decoder.space.width)).astype(np.float32)
    rows, p = enumerated(decoder.space, logits)
    p = p * soft_weight(decoder.space, rows)
    given = p / p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(decoder.marginals(logits), given @ rows, atol=1e-5)
    best = decoder.best(logits)
    chosen = (best[:, None] == rows[None]).all(axis=2)
    assert (chosen.sum(axis=1) == 1).all()
    np.testing.assert_allclose((p * chosen).sum(axis=1), p.max(axis=1), rtol=1e-4)


@pytest.mark.parametrize("text", RULE_SETS.values(), ids=RULE_SETS)
def test_no_invalid_label_in_a_hundred_thousand_rows(text: str) -> None:
    decoder = Decoder(text)
    random = np.random.default_rng(1)
    logits = random.normal(size=(100_000, decoder.space.width)) * random.choice([0, 1, 10, 1000], size=(100_000, 1))
    best = decoder.best(logits.astype(np.float32))
    assert best.shape == (100_000, decoder.space.width)
    assert not decoder.space.check(best)


def test_raw_predictions_do_break_rules() -> None:
    """The twin of the test above: it would see an invalid label."""
    decoder = Decoder(RULE_SETS["implications"])
    logits = np.random.default_rng(1).normal(size=(1000, 4))
    found = decoder.violations(logits)
    assert len(found) > 100
    assert decoder.space.check(decoder.raw(logits)).rows.tolist() == found.rows.tolist()


@pytest.mark.parametrize("name", ["implications", "no rules", "sums"])
def test_samples_are_valid_and_follow_the_marginals(name: str) -> None:
    decoder = Decoder(RULE_SETS[name])
    logits = np.random.default_rng(2).normal(size=(3, decoder.space.width))
    drawn = decoder.sample(logits, 4000, seed=0)
    assert drawn.shape == (4000, 3, decoder.space.width)
    assert not decoder.space.check(drawn.reshape(-1, decoder.space.width))
    np.testing.assert_allclose(drawn.mean(axis=0), decoder.marginals(logits), atol=0.04)
    assert (decoder.sample(logits, 3, seed=5) == decoder.sample(logits, 3, seed=5)).all()


def test_theta_is_softmax_in_blocks_and_sigmoid_elsewhere() -> None:
    decoder = Decoder("colour: {red, green}\nround")
    theta = decoder.theta([[1.0, 1.0, 0.0]])
    np.testing.assert_allclose(theta, [[0.5, 0.5, 0.5]])


def test_arrays_and_tensors_are_alike() -> None:
    decoder = Decoder(LabelSpace("a, b\na -> b"))
    logits = torch.tensor([[2.0, -1.0]], requires_grad=True)
    assert decoder.decode(logits) == decoder.decode(logits.detach().numpy()) == [{"a": True, "b": True}]
    assert decoder.decode(logits, "indices").tolist() == [[1, 1]]


@pytest.mark.parametrize(("logits", "said"), [([[1.0]], "do not fit"), ([[np.nan, 0.0]], "not finite in 1 rows")])
def test_logits_that_cannot_be_decoded(logits: list[list[float]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        Decoder("a, b\na -> b").best(logits)


def test_a_circuit_can_be_given() -> None:
    space = LabelSpace("a, b\na -> b")
    circuit = space.compile()
    for a, b in itertools.product((-1.0, 1.0), repeat=2):
        assert Decoder(space, circuit).decode([[a, b]]) == Decoder(space).decode([[a, b]])
