"""Decoding agrees with enumeration, and never gives an invalid label."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import oracle
from dssl import DataError, LabelSpace
from dssl.models.decoding import Decoder
from dssl.priors.mixture import Mixture, output_width
from training.rule_sets import RULE_SETS

SPACE = LabelSpace(RULE_SETS["classes and attributes"])


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


# ---- components ----


def mixed(components: int = 3, rows: int = 20) -> torch.Tensor:
    width = components * (SPACE.width + 1)
    return 2 * torch.randn(rows, width, generator=torch.Generator().manual_seed(0))


def test_a_mixture_is_decoded_as_one() -> None:
    z, decoder = mixed(), Decoder(SPACE, components=3)
    p = Mixture(z, SPACE)
    np.testing.assert_allclose(decoder.marginals(z), p.marginals, atol=1e-6)
    np.testing.assert_allclose(decoder.theta(z), p.theta, atol=1e-6)
    np.testing.assert_array_equal(decoder.best(z), p.best()[0])
    assert not SPACE.check(decoder.best(z))
    assert decoder.sample(z, 4, seed=0).shape == (4, 20, SPACE.width)
    assert not SPACE.check(decoder.sample(z, 4, seed=0).reshape(80, -1))
    assert len(decoder.raw(z)) == 20


def test_one_component_whose_weight_is_all_is_decoded_as_if_alone() -> None:
    z = mixed()
    z[:, -3:] = torch.tensor([-1e4, 1e4, 0.0])
    one, several = z[:, SPACE.width : 2 * SPACE.width], Decoder(SPACE, components=3)
    for name in ("best", "raw", "theta", "marginals"):
        np.testing.assert_allclose(getattr(several, name)(z), getattr(Decoder(SPACE), name)(one), atol=1e-6)


def test_logits_of_another_number_of_components_are_refused() -> None:
    with pytest.raises(DataError, match=rf"Give a matrix \(n, {2 * (SPACE.width + 1)}\), for 2 components of"):
        Decoder(SPACE, components=2).best(mixed(3))


# ---- evidence ----


def pieces_of(space: LabelSpace, random: np.random.Generator, rows: int) -> np.ndarray:
    """Evidence that some valid label agrees with: a few of its columns, or values that are not its own."""
    valid = space.encode(list(space.valid()))
    known = valid[random.integers(len(valid), size=rows)].copy()
    known[random.random(known.shape) < 0.6] = np.nan
    return space.encode(known)


@pytest.mark.parametrize("components", [1, 3])
@pytest.mark.parametrize("text", RULE_SETS.values(), ids=RULE_SETS)
def test_evidence_narrows_the_rest_as_enumeration_does(text: str, components: int) -> None:
    decoder, random = Decoder(text, components=components), np.random.default_rng(5)
    space, n = decoder.space, 15
    width = output_width(space.width, components)
    logits = random.normal(scale=2, size=(n, width)).astype(np.float32)
    known = pieces_of(space, random, n)
    rows, each = enumerated(space, logits[:, : components * space.width].reshape(-1, space.width))
    p = each * soft_weight(space, rows)
    p = (p / p.sum(axis=1, keepdims=True)).reshape(n, components, len(rows))
    weights = np.ones((n, 1)) if components == 1 else np.exp(logits[:, -components:].astype(np.float64))
    p = (weights[:, :, None] / weights.sum(axis=1)[:, None, None] * p).sum(axis=1)
    p = np.stack([oracle.given_labels(rows, p[i], known[i]) for i in range(n)])
    np.testing.assert_allclose(decoder.marginals(logits, known), p @ rows, atol=1e-5)
    best = decoder.best(logits, known)
    chosen = (best[:, None] == rows[None]).all(axis=2)
    np.testing.assert_allclose((p * chosen).sum(axis=1), p.max(axis=1), rtol=1e-3)
    drawn = decoder.sample(logits, 2000, 0, known)
    assert ((drawn == known) | np.isnan(known)).all()
    np.testing.assert_allclose(drawn.mean(axis=0), p @ rows, atol=0.06)


@pytest.mark.parametrize("decision", ["most probable", "marginals", "f1"])
def test_every_decision_keeps_to_the_evidence(decision: str) -> None:
    decoder, random = Decoder(SPACE, decision=decision), np.random.default_rng(6)
    known = pieces_of(SPACE, random, 50)
    best = decoder.best(random.normal(size=(50, SPACE.width)), known)
    assert ((best == known) | np.isnan(known)).all()
    assert not SPACE.check(best)


@pytest.mark.parametrize("components", [1, 2])
def test_evidence_that_contradicts_the_rules_is_refused_by_row(components: int) -> None:
    decoder = Decoder("legs, fins\nlegs -> !fins", components=components)
    logits = np.zeros((3, output_width(2, components)))
    known = [[np.nan, 1], [1, 1], [1, 1]]
    assert decoder.contradicted(known) == dict.fromkeys((1, 2), "line 2: legs -> !fins")
    for ask in (decoder.best, decoder.marginals, lambda z, e: decoder.sample(z, 2, 0, e)):
        with pytest.raises(DataError, match="row 1, and 1 rows more: the evidence contradicts the rules: line 2"):
            ask(logits, known)
    with pytest.raises(DataError, match="evidence about 2 rows for 3 rows of X"):
        decoder.best(logits, known[:2])
    np.testing.assert_array_equal(decoder.best(logits, [[np.nan, 1]] * 3), [[0, 1]] * 3)
