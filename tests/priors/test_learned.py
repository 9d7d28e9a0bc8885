"""Learned priors: against enumeration, with evidence, in training, and in files."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch

import oracle
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors import (
    DeterministicPrior,
    EntropyPrior,
    LearnedPrior,
    PseudoLabelPrior,
    WeightedLabels,
    learn_prior,
)
from dssl.training.objective import Objective
from priors.cases import SPACES, evidence_of, learned, logits_of

every_space = pytest.mark.parametrize("space", SPACES)
NAN = float("nan")


def valid(space: LabelSpace) -> np.ndarray:
    return oracle.valid_columns(space.constraints)[:, : space.width]


def tabled(prior: LearnedPrior) -> WeightedLabels:
    """The same π as a list of labels, each with its weight."""
    rows = valid(prior.space).astype(float)
    return WeightedLabels(prior.space, rows, prior.log_prob_labels(rows).exp())


# ---- π ----


@every_space
def test_the_sum_over_labels_is_one(space):
    prior = learned(SPACES[space]).double()
    assert float(prior.log_prob_labels(valid(prior.space).astype(float)).exp().sum()) == pytest.approx(1, abs=1e-6)


@every_space
@pytest.mark.parametrize("seen", [False, True])
def test_log_q_against_a_table_of_weighted_labels(space, seen):
    prior = learned(SPACES[space]).double()
    twin = DeterministicPrior(prior.space, 3.0, weights=tabled(prior)).double()
    z = logits_of(prior.space, 5)
    known = evidence_of(prior.space, 5) if seen else None
    torch.testing.assert_close(prior.log_prob(z, known), twin.log_prob(z, known), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(prior(z, known), prior.log_prob(z, known) / 3)


def test_log_q_is_the_formula():
    space = LabelSpace("a, b\na -> b")
    prior = learn_prior([[0, 0], [0, 1], [0, 1], [1, 1]], space, power=4.0)
    z = torch.tensor([0.3, -1.2])
    theta = z.sigmoid()
    q = 0.0
    for a, b in ([0, 0], [0, 1], [1, 1]):
        pi = float(prior.log_prob_labels([[a, b]]).exp())
        q += pi * float((theta[0] if a else 1 - theta[0]) * (theta[1] if b else 1 - theta[1])) ** 4
    assert float(prior.log_prob(z)) == pytest.approx(math.log(q), rel=1e-5)


def test_classes_are_counted_with_laplaces_rule():
    prior = learn_prior(["cat", "dog", None, "cat", "trout", NAN, -1])
    assert prior.space == LabelSpace.classes(["cat", "dog", "trout"])
    np.testing.assert_allclose(prior.weights, [3 / 7, 2 / 7, 2 / 7], rtol=1e-6)
    twin = DeterministicPrior(prior.space, weights=prior.weights)
    z = logits_of(prior.space, 6).float()
    torch.testing.assert_close(prior(z), twin(z))


def test_unpaired_labels_and_partial_ones():
    space = SPACES["rules and soft rules"]
    rows = valid(space).astype(float)[[0, 0, 1, 2, 3, 3, 3]]
    gaps = rows.copy()
    gaps[:3, 3:] = NAN
    whole, part = learn_prior(rows, space, backoff=1.0), learn_prior(gaps, space, backoff=1.0)
    assert not torch.allclose(whole.weights, part.weights)
    blank = learn_prior(np.vstack([rows, np.full((5, space.width), NAN)]), space, backoff=1.0)
    torch.testing.assert_close(whole.weights, blank.weights)  # a label of which nothing is known says nothing
    # the probability of a partial label is the sum over its completions
    table = tabled(part)
    fits = (table.labels[:, :3].double() == torch.from_numpy(rows[3, :3])).all(1)
    known = np.concatenate([rows[3, :3], np.full(space.width - 3, NAN)])
    found = part.log_prob_labels([known]).exp()
    torch.testing.assert_close(found, table.log_weights[fits].exp().sum().reshape(1))


def test_weights_of_labels_count():
    space = SPACES["rules and soft rules"]
    rows = valid(space).astype(float)[[0, 1, 2, 3]]
    twice = learn_prior(rows[[0, 0, 1, 3, 3, 3]], space)
    torch.testing.assert_close(learn_prior(rows, space, sample_weight=[2, 1, 0, 3], backoff=1.0).weights, twice.weights)
    with pytest.raises(DataError, match=r"sample_weight of shape \(2,\) does not fit\nGive 4 weights"):
        learn_prior(rows, space, sample_weight=[1, 1])
    with pytest.raises(DataError, match="none of them negative"):
        learn_prior(rows, space, sample_weight=[1, 1, 1, -1])


def test_a_label_that_breaks_a_rule_has_no_probability_and_teaches_nothing():
    space = LabelSpace("a, b\na -> b")
    prior = learn_prior([[1, 1]], space)
    assert prior.log_prob_labels([[1, 0]]).tolist() == [-math.inf]
    with pytest.raises(DataError, match=r"2 labels break the rules; one is \{'a': True, 'b': False\}\nFind them"):
        learn_prior([[1, 1], [1, 0], [1, 0]], space)
    with pytest.raises(ValueError, match="0 or more"):
        learn_prior([[1, 1]], space, smoothing=-1)
    with pytest.raises(ValueError, match="0 or more"):
        learn_prior([[1, 1]], space, backoff=NAN)


@every_space
def test_limits_of_smoothing_and_backing_off(space):
    space = SPACES[space]
    rows = valid(space).astype(float)
    few = rows[[0, 0, len(rows) - 1]]
    even = learn_prior(few, space, smoothing=math.inf, backoff=math.inf).double()
    weights = oracle.soft_log_weights(space.constraints)
    full = oracle.valid_columns(space.constraints)
    zero = np.zeros(space.width)
    wanted = oracle.probabilities(full, np.append(zero, weights[0]), np.append(zero, weights[1]))
    np.testing.assert_allclose(even.log_prob_labels(rows).exp(), wanted, atol=1e-6)
    base = learn_prior(few, space, backoff=math.inf).double()
    near = learn_prior(few, space, backoff=1e9).double()
    torch.testing.assert_close(base.log_prob_labels(rows), near.log_prob_labels(rows), atol=1e-5, rtol=1e-5)


def test_samples():
    prior = learned(SPACES["sums"])
    labels = prior.sample_labels(4000, torch.Generator().manual_seed(0))
    assert prior.log_prob_labels(labels.float()).isfinite().all()
    np.testing.assert_allclose(labels.float().mean(0), prior.weights, atol=0.04)
    theta = prior.sample(2000, torch.Generator().manual_seed(0))  # T = 3: not far from labels
    assert theta.shape == (2000, prior.space.width)
    again = learn_prior(labels.float(), prior.space)
    np.testing.assert_allclose(again.weights, prior.weights, atol=0.04)


def test_other_priors_and_queries_take_the_weighted_circuit():
    prior = learned(SPACES["rules and soft rules"]).double()
    table, z = tabled(prior), logits_of(prior.space, 4)
    for kind in (EntropyPrior, PseudoLabelPrior):
        found, wanted = (kind(prior.space, circuit=circuit)(z) for circuit in (prior.labels, table))
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


# ---- the power ----


def test_the_power_is_the_likeliest():
    space = SPACES["rule"]
    rows = [[0, 0], [0, 1], [1, 0], [1, 0]]
    truth = learn_prior(rows, space, power=6.0)
    theta = truth.sample(4000, torch.Generator().manual_seed(0))
    prior = learn_prior(rows, space, theta=theta)
    assert float(prior.power) == pytest.approx(6.0, rel=0.05)
    logits = theta.clamp(1e-7, 1 - 1e-7).logit()

    def likelihood(power):
        twin = learn_prior(rows, space, power=power, normalised=True)
        return float(twin.log_prob(logits).mean())

    best = likelihood(float(prior.power))
    assert all(best >= likelihood(float(prior.power) * factor) for factor in (0.5, 0.9, 1.1, 2.0))
    with pytest.raises(DataError, match=r"theta of shape \(4, 3\)"):
        learn_prior(rows, space, theta=np.full((4, 3), 0.5))
    with pytest.raises(DataError, match="theta"):
        learn_prior(rows, space, theta=[[0.5, 1.5]])


def test_the_normalised_mixture_integrates_to_one():
    prior = learn_prior([[1, 0], [0, 1], [1, 0]], LabelSpace("a, b\na ^ b"), power=3.0, normalised=True).double()
    grid = (torch.arange(400, dtype=torch.float64) + 0.5) / 400
    theta = torch.cartesian_prod(grid, grid)
    assert float(prior.log_prob(theta.logit()).exp().mean()) == pytest.approx(1, abs=1e-3)


# ---- learning jointly ----


@pytest.mark.parametrize("space", ["classes", "rules and soft rules"])
def test_branches_learn_in_training_and_stay_normalised(space):
    prior = learned(SPACES[space], learn=True)
    rows = valid(prior.space).astype(float)
    before = prior.log_prob_labels(rows).exp().detach()
    objective = Objective(prior.space, prior, prior_weight=1.0, labelled_prior_weight=1.0)
    target = torch.from_numpy(rows[1:2]).float().expand(8, -1)
    logits = 6 * (2 * target - 1)  # all predictions say label 1
    optimizer = torch.optim.Adam([p for p in objective.parameters() if p.requires_grad], lr=0.1)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = objective(logits, target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    after = prior.log_prob_labels(rows).exp().detach()
    assert losses[-1] < losses[0]
    assert after[1] > 0.9 > before[1]
    assert float(after.sum()) == pytest.approx(1, abs=1e-5)


def test_fixed_branches_get_no_gradient():
    prior = learned(SPACES["rule"])
    assert [name for name, p in prior.named_parameters() if p.requires_grad] == []
    assert "circuit.branches" in prior.state_dict()


# ---- files ----


@every_space
def test_a_file_brings_everything_back(space, tmp_path):
    prior = learned(SPACES[space], learn=True, normalised=True, learn_power=True, scale="none")
    prior.save(tmp_path / "prior.safetensors")
    again = LearnedPrior.load(tmp_path / "prior.safetensors")
    z = logits_of(prior.space, 3).float()
    assert torch.equal(again(z), prior(z))
    assert again.space == prior.space
    assert [p.requires_grad for p in again.parameters()] == [p.requires_grad for p in prior.parameters()]
    assert [path.name for path in tmp_path.iterdir()] == ["prior.safetensors"]  # no temporary file is left


def test_damaged_foreign_and_newer_files_are_refused(tmp_path):
    file = tmp_path / "prior"
    prior = learned(SPACES["rule"])
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        LearnedPrior.load(file)
    prior.save(file)
    whole = file.read_bytes()
    for broken in (whole[:-5], b"", b"PK nothing"):
        file.write_bytes(broken)
        with pytest.raises(ValueError, match=r"not a prior saved by dssl, or was cut short. Learn the prior again"):
            LearnedPrior.load(file)
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ValueError, match="changed after it was saved"):
        LearnedPrior.load(file)
    facts, tensors = prior.state()
    newer = json.dumps(facts | {"version": 2})
    file.write_bytes(safetensors.torch.save(tensors, metadata={"facts": newer}))
    with pytest.raises(ValueError, match="has format 2, and this dssl reads 1"):
        LearnedPrior.load(file)
    file.write_bytes(safetensors.torch.save(tensors, metadata={"facts": "{}"}))
    with pytest.raises(ValueError, match="not a learned prior"):
        LearnedPrior.load(file)


@pytest.mark.parametrize(
    "change",
    [
        {"child": torch.tensor([99])},
        {"owner": torch.zeros(2, dtype=torch.int64)},
        {"branches": torch.zeros(3)},
        {"kind": None},
    ],
    ids=str,
)
def test_states_that_describe_no_prior_are_refused(change):
    facts, tensors = learned(SPACES["rule"]).state()
    tensors = {name: value for name, value in (tensors | change).items() if value is not None}
    with pytest.raises(ValueError, match="damaged"):
        LearnedPrior.from_state(facts, tensors)
