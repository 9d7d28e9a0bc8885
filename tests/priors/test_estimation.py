"""Branch probabilities: counts, backing off, EM and forests, against enumeration and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import oracle
from dssl.circuits.branches import with_choices
from dssl.circuits.weighted import WeightedCircuit
from dssl.logic.space import LabelSpace
from dssl.priors import estimation
from dssl.priors.blocks import Blocks
from dssl.priors.estimation import Counts, Learner, backed_off, forest, mixed
from dssl.priors.predictive import Family
from priors.cases import SPACES

RULED = LabelSpace("kind: {x, y, z}\na, b, c\nkind = x -> a\na | b")
NAN = float("nan")


def valid(space):
    return oracle.valid_columns(space.constraints)[:, : space.width].astype(float)


def drawn(space, n, seed=0):
    """Labels drawn from random weights of the valid ones, so that no independent model fits."""
    rows = valid(space)
    rng = np.random.default_rng(seed)
    return rows[rng.choice(len(rows), n, p=rng.dirichlet(np.full(len(rows), 0.5)))]


def hidden(columns, space, seed=0, share=0.4):
    """The same with variables made unknown."""
    out = columns.copy()
    gone = np.random.default_rng(seed).random((len(columns), len(space.variables))) < share
    for v, (start, stop) in enumerate(space.spans):
        out[gone[:, v], start:stop] = NAN
    return out


def learner(space, smoothing=1.0):
    return Learner(Family(Blocks(space), space.compile()), smoothing)


def rows_of(space, columns):
    return Counts.of(Blocks(space), np.asarray(columns, dtype=np.float32))


# ---- rows ----


def test_rows_are_distinct_labels_with_their_number():
    space = LabelSpace("a, b")
    rows = rows_of(space, [[1, 0], [NAN, NAN], [1, 0], [1, NAN]])
    assert rows.number == 3  # of the second nothing is known
    assert sorted(rows.weight.tolist()) == [1, 2]
    assert rows.complete[rows.place].tolist() == [True, True, False]
    part = rows.weighted(np.where(rows.complete, 5.0, 0.0))
    assert part.columns.tolist() == [[1, 0]]
    assert part.weight.tolist() == [5]


# ---- the base ----


@pytest.mark.parametrize("name", [name for name in SPACES if name != "one class"])
def test_the_base_has_the_marginals_of_labels_and_pseudo_labels(name):
    space = SPACES[name]
    columns = drawn(space, 30)
    model = learner(space)
    pos, neg = model.base(rows_of(space, columns)).literals
    found = space.compile().marginals(pos, neg)
    zero = torch.zeros(space.width, dtype=torch.float64)
    even = space.compile().marginals(zero, zero).numpy()
    extra = max(len(v.values) for v in space.variables)
    np.testing.assert_allclose(found, (columns.sum(0) + extra * even) / (30 + extra), atol=1e-5)


def test_without_rules_smoothing_is_laplaces():
    space = LabelSpace.classes(["cat", "dog", "trout"])
    pos, _ = learner(space).base(rows_of(space, np.eye(3)[[0, 0, 0, 1]])).literals
    np.testing.assert_allclose(pos.exp(), [4 / 7, 2 / 7, 1 / 7])
    space = LabelSpace.attributes(["a", "b"])
    pos, neg = learner(space, 0.5).base(rows_of(space, [[1, 0], [1, 1], [1, 0]])).literals
    np.testing.assert_allclose(pos.exp(), [3.5 / 4, 1.5 / 4])
    np.testing.assert_allclose(neg.exp(), [0.5 / 4, 2.5 / 4])


@pytest.mark.parametrize("columns", [np.ones((0, 6)), valid(RULED)[[0, 0, 0]]])
def test_no_labels_or_endless_smoothing_leave_even_weights(columns):
    model = learner(RULED, 1.0 if not len(columns) else math.inf)
    choices, log_phi = model.learn(rows_of(RULED, columns), math.inf)
    phi = log_phi.exp().tolist()
    found = [oracle.branch_probability(choices.circuit, row, phi) for row in valid(RULED)]
    np.testing.assert_allclose(found, 1 / len(found), atol=1e-6)


# ---- counts ----


def test_counts_are_the_maximum_likelihood():
    columns = drawn(RULED, 40, seed=1)
    rows, model = rows_of(RULED, columns), learner(RULED, 0.0)
    choices, shares, _ = model.prepared(rows)
    log_phi = model.fitted(choices, shares, rows, 0.0)

    def surprise(logits):  # by enumeration and finite differences
        phi = np.exp(choices.normalised(logits))
        return -sum(math.log(oracle.branch_probability(choices.circuit, row, phi)) for row in columns)

    brute = minimize(surprise, np.zeros(len(log_phi)), method="L-BFGS-B", bounds=[(-15, 15)] * len(log_phi))
    assert brute.fun == pytest.approx(surprise(log_phi.clamp_min(-40).numpy()), rel=1e-4)
    assert surprise(log_phi.clamp_min(-40).numpy()) <= brute.fun + 1e-6


@settings(deadline=None, max_examples=15)
@given(st.sampled_from(["rule", "rules", "rules and soft rules", "sums", "mix", "binaries"]), st.integers(0, 99))
def test_probabilities_sum_to_one_and_between_the_limits_of_backing_off(name, seed):
    space = SPACES[name]
    columns = drawn(space, 12, seed)
    rows, model = rows_of(space, columns), learner(space)
    choices, shares, _ = model.prepared(rows)
    likelihood = []
    for alpha in (0.0, 1.0, 10.0, math.inf):
        phi = model.fitted(choices, shares, rows, alpha).exp().tolist()
        every = [oracle.branch_probability(choices.circuit, row, phi) for row in valid(space)]
        assert sum(every) == pytest.approx(1)
        likelihood.append(sum(math.log(oracle.branch_probability(choices.circuit, row, phi)) for row in columns))
    assert likelihood == pytest.approx(sorted(likelihood, reverse=True))  # the less they are held back, the likelier


def test_backing_off_is_a_weighted_mean():
    choices = with_choices(LabelSpace("a, b, c\na -> b").compile())
    counts = np.array([3.0, 1.0, 0.0, 0.0, 2.0, 2.0])
    shares = np.log([0.5, 0.5, 0.2, 0.8, 0.3, 0.7])
    found = np.exp(backed_off(choices, counts, shares, 4.0))
    np.testing.assert_allclose(found[:4], [5 / 8, 3 / 8, 0.2, 0.8])
    np.testing.assert_allclose(found[4:], [0.3, 0.7])  # c stands alone and keeps its base
    np.testing.assert_allclose(np.exp(backed_off(choices, counts, shares, 0.0))[2:4], [0.2, 0.8])  # never met
    assert backed_off(choices, counts, shares, math.inf) is shares
    even = np.log(np.full(6, 0.5))
    np.testing.assert_allclose(np.exp(mixed(choices, shares, even, 0.5))[2:], [0.35, 0.65, 0.3, 0.7])
    np.testing.assert_allclose(mixed(choices, shares, even, 0.0), shares)


# ---- unknown values ----


def test_em_never_lowers_the_likelihood_and_beats_leaving_rows_out(monkeypatch):
    full = drawn(RULED, 60, seed=2)
    rows, model = rows_of(RULED, hidden(full, RULED, seed=3)), learner(RULED)
    choices, shares, _ = model.prepared(rows)

    def scored(log_phi):
        value = WeightedCircuit(choices, log_phi).log_wmc(*rows.predictive(model.family).literals)
        return float(rows.weight @ value) + 1.0 * float(np.exp(shares) @ log_phi.numpy())

    found = []
    for steps in (1, 2, 4, 8, 100):
        monkeypatch.setattr(estimation, "_ROUNDS", steps)
        found.append(scored(model.fitted(choices, shares, rows, 1.0)))
    assert found == sorted(found)
    assert found[-1] > scored(torch.from_numpy(shares)) + 1
    known = rows.weighted(np.where(rows.complete, rows.weight.numpy(), 0))
    assert found[-1] > scored(model.fitted(choices, shares, known, 1.0))


def test_em_is_at_a_maximum():
    rows, model = rows_of(RULED, hidden(drawn(RULED, 60, seed=4), RULED, seed=5)), learner(RULED)
    choices, shares, _ = model.prepared(rows)
    circuit = WeightedCircuit(choices, model.fitted(choices, shares, rows, 2.0), learn=True)
    alone = torch.from_numpy(choices.alone)
    score = rows.weight @ circuit.log_wmc(*rows.predictive(model.family).literals)
    score = score + 2.0 * torch.from_numpy(np.exp(shares)) @ circuit.log_phi
    score.backward()
    assert circuit.branches.grad[~alone].abs().max() < 2e-2  # of about 60 labels


def test_values_missing_at_random_hardly_move_a_common_estimate():
    full = drawn(RULED, 3000, seed=6)
    whole, part = (
        learner(RULED).base(rows_of(RULED, c)).literals[0] for c in (full, hidden(full, RULED, 7, share=0.3))
    )
    circuit, zero = RULED.compile(), torch.zeros(RULED.width, dtype=torch.float64)
    marginal = [circuit.marginals(pos, zero) for pos in (whole, part)]
    np.testing.assert_allclose(marginal[0], marginal[1], atol=0.05)


# ---- how much to back off ----


def test_labels_decide_how_much_is_backed_off():
    space = LabelSpace("a, b, c, d, e\na | b | c | d | e")
    same = np.array([[v] * 5 for v in (1, 1, 1)] + [[1, 0, 0, 0, 0]] * 2, dtype=float)
    tied = np.vstack([same] * 20)
    assert learner(space).validated(rows_of(space, tied)).backoff < math.inf
    chance = np.random.default_rng(0).random((60, 5)) < 0.6
    chance[~chance.any(1)] = True
    apart = learner(space).validated(rows_of(space, chance.astype(float)))
    assert apart.backoff >= 8
    assert learner(space).validated(rows_of(space, tied[:5])) == (1.0, 0.0)  # too few to tell


# ---- forests ----


def test_the_forest_of_greatest_likelihood_is_found():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 500)
    b = np.where(rng.random(500) < 0.9, a, 1 - a)
    c = np.where(rng.random(500) < 0.8, b, rng.integers(0, 3, 500))
    d = rng.integers(0, 2, 500)
    space = LabelSpace("a\nb\nc: {x, y, z}\nd\ne, f\ne -> f")
    columns = np.column_stack([a, b, np.eye(3)[c], d, np.zeros(500), np.ones(500)])
    parents = forest(space.compile(), rows_of(space, columns))
    links = {frozenset((child, parent)) for child, parent in enumerate(parents) if parent >= 0}
    assert links == {frozenset((0, 1)), frozenset((1, 2))}
    assert parents[3:] == [-1, -1, -1]  # d depends on nothing, and rules speak of e and f


def test_a_forest_beats_every_other_forest():
    space = LabelSpace.attributes(["a", "b", "c"])
    columns = drawn(space, 3000, seed=8)
    rows = rows_of(space, columns)
    best = forest(space.compile(), rows)
    assert sum(parent >= 0 for parent in best) == 2

    def likelihood(parents):
        choices = with_choices(space.compile(), parents)
        flat = torch.from_numpy(choices.normalised(np.zeros(len(choices.owner))))
        counts, _ = WeightedCircuit(choices, flat).flows(*rows.predictive(learner(space).family).literals, rows.weight)
        counts = counts.numpy()
        whole = np.bincount(choices.owner, counts)[choices.owner]
        seen = counts > 1e-9
        return float(counts[seen] @ np.log(counts[seen] / whole[seen]))

    others = [[-1, 0, 0], [-1, 0, 1], [2, 0, -1]]  # stars and chains: all trees of three
    assert likelihood(best) == pytest.approx(max(map(likelihood, others)))


def test_independent_variables_have_no_forest():
    columns = list(itertools.product([0, 1], repeat=4)) * 3
    space = LabelSpace.attributes("abcd")
    assert forest(space.compile(), rows_of(space, columns)) == [-1] * 4
