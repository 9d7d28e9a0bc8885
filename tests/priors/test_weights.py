"""Weights π in every form, and tables of weighted labels against enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import oracle
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors import DeterministicPrior, WeightedLabels
from dssl.priors.blocks import Blocks
from dssl.priors.weights import value_weights
from priors.cases import RULED, SPACES, evidence_of, logits_of

MIX = LabelSpace("legs\nspecies: {cat, dog, trout}\nage: 0..1")


@pytest.mark.parametrize(
    "weights",
    [
        [0.9, 0.2, 0.3, 0.5, 1.0, 1.0],
        {"legs": 0.9, "species": [0.2, 0.3, 0.5]},
        {"legs": 0.9, "species": {"dog": 0.3, "cat": 0.2, "trout": 0.5}, "age": torch.ones(2)},
        np.array([[0.9, 0.1], [0.2, 1], [0.3, 1], [0.5, 1], [1, 1], [1, 1]]),
    ],
)
def test_every_form_says_the_same(weights):
    found = value_weights(MIX, Blocks(MIX), weights).exp()
    torch.testing.assert_close(found, torch.tensor([0.1, 0.9, 0.2, 0.3, 0.5, 1, 1]))


def test_class_weights_of_table_1():
    space, pi = SPACES["classes"], torch.tensor([0.1, 0.2, 0.3, 0.4])
    z = logits_of(space, 5)
    log_q = DeterministicPrior(space, 3.0, weights=pi).log_prob(z)
    torch.testing.assert_close(log_q, (pi * z.softmax(-1) ** 3).sum(-1).log(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("space", RULED)
def test_weights_of_literals_against_enumeration(space):
    s, z = SPACES[space], logits_of(SPACES[space], 3)
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.1, 0.9, (s.width, 2)).astype(np.float32)
    found = DeterministicPrior(s, 2.0, weights=weights).log_prob(z)
    rows = oracle.valid_columns(s.constraints)
    soft = oracle.soft_log_weights(s.constraints)
    for value, row in zip(found, z):
        literals = zip(oracle.log_literals(s.variables, row), np.log(weights.T.astype(float)), soft)
        both = [np.concatenate([2 * theta + pi, p]) for theta, pi, p in literals]
        assert value.item() == pytest.approx(oracle.log_wmc(rows, *both), rel=1e-5)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.5], r"shape \(2,\) do not fit 6 columns"),
        ({"leg": 0.5}, "Did you mean 'legs'"),
        ({"species": [0.5, 0.5]}, "3 columns and 2 weights"),
        ({"species": {"cat": 1.0}}, "no weight for dog, trout"),
        ({"legs": 1.5}, "not negative"),
        ([math.nan] * 6, "finite"),
    ],
)
def test_misfits_are_refused(weights, message):
    with pytest.raises(DataError, match=message):
        value_weights(MIX, Blocks(MIX), weights)


@pytest.mark.parametrize("space", ["classes", "mix", "rule", "sums"])
def test_weighted_labels_against_enumeration(space):
    s = SPACES[space]
    rows = oracle.valid_columns(s.constraints)[:20]
    pi = np.random.default_rng(1).uniform(0.1, 1, len(rows)).astype(np.float32)
    table = WeightedLabels(s, rows.astype(float), pi)
    known = evidence_of(s, 4)
    for z, e in zip(logits_of(s, 4), known):
        pos, neg = oracle.log_literals(s.variables, z)
        pos, neg = np.where(e == 0, -np.inf, pos), np.where(e == 1, -np.inf, neg)
        scores = oracle.log_weights(rows, pos, neg) + np.log(pi.astype(float))
        literals = torch.tensor(pos), torch.tensor(neg)
        assert table.log_wmc(*literals).item() == pytest.approx(oracle.log_sum(scores), rel=1e-6)
        if oracle.log_sum(scores) == -math.inf:
            assert not table.marginals(*literals).any()
            with pytest.raises(DataError, match="none of the weighted labels"):
                table.sample(*literals)
            continue
        p = np.exp(scores - oracle.log_sum(scores))
        assert table.entropy(*literals).item() == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum(), abs=1e-6)
        np.testing.assert_allclose(table.marginals(*literals), p @ rows, atol=1e-6)
        label, weight = table.mpe(*literals)
        assert weight.item() == pytest.approx(scores.max(), rel=1e-6)
        assert label.tolist() == rows[scores.argmax()].tolist()
        labels, weights = table.top_k(*literals, 30)
        order = np.argsort(-scores, kind="stable")[: int((scores > -math.inf).sum())]
        np.testing.assert_allclose(weights[: len(order)], scores[order], rtol=1e-6)
        assert labels[: len(order)].tolist() == rows[order].tolist()
        assert bool((weights[len(order) :] == -math.inf).all())
        assert not labels[len(order) :].any()
        raised = oracle.log_sum(scores + 2 * np.log(pi.astype(float)))
        assert table.log_wmc(*literals, power=3.0).item() == pytest.approx(raised, rel=1e-6)
        drawn = table.sample(*literals, 4000, torch.Generator().manual_seed(0)).double().mean(0)
        assert (drawn - table.marginals(*literals)).abs().max() < 0.05


def test_label_weights_of_the_deterministic_prior():
    space = SPACES["rule"]
    labels = [{"legs": 1, "fins": 0}, {"legs": 0, "fins": 1}, {"legs": 0, "fins": 0}]
    z = logits_of(space, 5)
    q = DeterministicPrior(space, 3.0, weights=WeightedLabels(space, labels, [0.5, 0.3, 0.2]))
    legs, fins = z.sigmoid().unbind(-1)
    pi = torch.tensor([0.5, 0.3, 0.2]).double()
    expected = (
        pi[0] * (legs * (1 - fins)) ** 3 + pi[1] * ((1 - legs) * fins) ** 3 + pi[2] * ((1 - legs) * (1 - fins)) ** 3
    )
    torch.testing.assert_close(q.log_prob(z), expected.log(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("labels", "weights"),
    [([], None), ([{"legs": 1}], None), ([{"legs": 1, "fins": 0}] * 2, None), ([{"legs": 1, "fins": 0}], [1.0, 2.0])],
)
def test_tables_that_are_refused(labels, weights):
    with pytest.raises(DataError):
        WeightedLabels(SPACES["rule"], labels, weights)
