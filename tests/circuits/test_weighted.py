"""Weighted circuits against enumeration: every answer with labels multiplied by π."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
from circuits.strategies import constraint_sets, literal_weights, naive_circuit
from dssl.circuits.branches import with_choices
from dssl.circuits.weighted import WeightedCircuit, log_rest
from dssl.errors import DataError
from dssl.logic.space import LabelSpace

SPACE = LabelSpace("kind: {x, y, z}\na, b, c, d\nkind = x -> a\nexactly(2, a, b, c)\n0.8 :: kind = y -> !b")


def weighted(circuit, seed=0, learn=False):
    choices = with_choices(circuit)
    log_phi = choices.normalised(np.random.default_rng(seed).normal(0, 1.5, len(choices.owner)))
    return WeightedCircuit(choices, torch.from_numpy(log_phi), learn=learn)


def label_weights(model, rows, log_pos, log_neg):
    """log of π_y times the literal weights of each valid row, by the plainest way."""
    phi = model.log_phi.detach().exp().tolist()
    with np.errstate(divide="ignore"):
        log_pi = np.log([oracle.branch_probability(model.choices.circuit, row, phi) for row in rows.tolist()])
    return log_pi + oracle.log_weights(rows, log_pos, log_neg)


def test_another_type_does_not_keep_constants_of_the_former_one():
    model = weighted(SPACE.compile()).float()
    pos, neg = torch.full((1, SPACE.width), -0.3), torch.full((1, SPACE.width), -0.6)
    model.log_wmc(pos, neg)  # makes the constants
    wide = copy.deepcopy(model).double()
    fresh = WeightedCircuit(model.choices, model.branches.detach().double())
    assert torch.equal(wide.log_wmc(pos.double(), neg.double()), fresh.log_wmc(pos.double(), neg.double()))
    assert abs(float(wide.log_phi.detach().exp()[wide.owner == 0].sum()) - 1) < 1e-15


@settings(deadline=None, max_examples=30)
@given(constraint_sets(soft=1, choices=200), st.integers(0, 99), st.booleans())
def test_answers_against_enumeration(constraints, seed, learn):
    circuit = naive_circuit(constraints)
    rows = oracle.valid_columns(constraints)[:, : circuit.width]
    assume(len(rows))
    model = weighted(circuit, seed, learn)
    pos, neg = literal_weights(circuit, seed, evidence=0.1)
    logs = label_weights(model, rows, pos, neg)
    total = oracle.log_sum(logs)
    assume(total > -np.inf)
    p = np.exp(logs - total)
    log_pos, log_neg = torch.from_numpy(pos), torch.from_numpy(neg)
    assert float(model.log_wmc(log_pos, log_neg).detach()) == pytest.approx(total, abs=1e-9)
    np.testing.assert_allclose(model.marginals(log_pos, log_neg).detach(), p @ rows, atol=1e-9)
    entropy = -sum(x * np.log(x) for x in p if x > 0)
    assert float(model.entropy(log_pos, log_neg).detach()) == pytest.approx(entropy, abs=1e-8)
    label, weight = model.mpe(log_pos, log_neg)
    assert float(weight.detach()) == pytest.approx(max(logs), abs=1e-9)
    assert logs[(rows == label.numpy()).all(1)][0] == pytest.approx(max(logs), abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(constraint_sets(soft=1, choices=200), st.integers(0, 99))
def test_powers_and_the_k_heaviest_labels_against_enumeration(constraints, seed):
    circuit = naive_circuit(constraints)
    rows = oracle.valid_columns(constraints)[:, : circuit.width]
    assume(len(rows))
    model = weighted(circuit, seed)
    pos, neg = literal_weights(circuit, seed, evidence=0.1)
    literals = torch.from_numpy(pos), torch.from_numpy(neg)
    logs = label_weights(model, rows, pos, neg)
    alone = label_weights(model, rows, np.zeros_like(pos), np.zeros_like(neg))
    raised = oracle.log_sum(logs + 1.5 * alone)  # log π counts once in the first
    assert model.log_wmc(*literals, power=2.5).item() == pytest.approx(raised, rel=1e-7, abs=1e-7)
    order = np.argsort(-logs, kind="stable")[:5]
    possible = order[logs[order] > -np.inf]
    labels, weight = model.top_k(*literals, 5)
    np.testing.assert_allclose(weight[: len(possible)], logs[possible], atol=1e-7)
    assert not labels[len(possible) :].any()
    assert bool((weight[len(possible) :] == -np.inf).all())
    found = [tuple(label) for label in labels[: len(possible)].tolist()]
    assert len({*found}) == len(found)
    weigh = dict(zip(map(tuple, rows.tolist()), logs))
    np.testing.assert_allclose([weigh[label] for label in found], weight[: len(possible)], atol=1e-7)


def test_the_k_heaviest_labels_keep_the_shape_of_their_rows():
    model = weighted(SPACE.compile())
    pos, neg = torch.randn(2, 3, SPACE.width).double(), torch.randn(SPACE.width).double()
    labels, weight = model.top_k(pos, neg, 4)
    assert labels.shape == (2, 3, 4, SPACE.width)
    one_label, one_weight = model.top_k(pos[1, 2], neg, 4)
    assert torch.equal(labels[1, 2], one_label)
    torch.testing.assert_close(weight[1, 2], one_weight)
    with pytest.raises(DataError, match="at least one"):
        model.top_k(pos, neg, 0)


def test_samples_follow_the_weights():
    circuit = SPACE.compile()
    rows = oracle.valid_columns(SPACE.constraints)[:, : SPACE.width]
    model, zero = weighted(circuit, 1), torch.zeros(SPACE.width, dtype=torch.float64)
    drawn = model.sample(zero, zero, 20_000, torch.Generator().manual_seed(0)).numpy()
    assert drawn.shape == (20_000, SPACE.width)
    p = np.exp(label_weights(model, rows, zero.numpy(), zero.numpy()))
    found = np.array([(drawn == row).all(1).mean() for row in rows])
    np.testing.assert_allclose(found.sum(), 1)
    assert (abs(found - p) < 5 * np.sqrt(p * (1 - p) / 20_000) + 1e-4).all()


@pytest.mark.parametrize("query", ["log_wmc", "marginals", "entropy"])
def test_gradients_in_weights_and_in_branches(query):
    model = weighted(SPACE.compile(), 2, learn=True)
    generator = torch.Generator().manual_seed(0)
    logs = torch.randn(2, 2, SPACE.width, dtype=torch.float64, generator=generator, requires_grad=True)

    def answer(logs, branches):
        return torch.func.functional_call(model, {"branches": branches}, (logs, query))

    model.forward = lambda logs, query: getattr(model, query)(logs[0], logs[1])
    assert torch.autograd.gradcheck(answer, (logs, model.branches.detach().clone().requires_grad_()))


def test_fixed_and_learned_branches_give_the_same_answers():
    fixed, learned = (weighted(SPACE.compile(), 3, learn) for learn in (False, True))
    logs = torch.randn(2, 5, 3, SPACE.width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for query in ("log_wmc", "marginals"):
        torch.testing.assert_close(getattr(fixed, query)(*logs), getattr(learned, query)(*logs))
        with torch.no_grad():
            torch.testing.assert_close(getattr(fixed, query)(*logs), getattr(learned, query)(*logs))


def test_a_changed_branch_is_noticed_however_it_was_written():
    model = weighted(SPACE.compile(), 4)
    zero = torch.zeros(SPACE.width, dtype=torch.float64)
    before = model.marginals(zero, zero)
    model.branches.data.mul_(0)
    assert not torch.allclose(model.marginals(zero, zero), before)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(twin.marginals(zero, zero), model.marginals(zero, zero))


def test_flows_of_complete_labels_are_counts_and_give_their_probability():
    rows = oracle.valid_columns(SPACE.constraints)[:, : SPACE.width]
    model = weighted(SPACE.compile(), 5)
    log_pos = torch.from_numpy(np.where(rows, 0.0, -np.inf))
    log_neg = torch.from_numpy(np.where(rows, -np.inf, 0.0))
    log_neg[:, :3] = 0  # of a categorical variable only "true" has a weight
    for row in range(len(rows)):
        flow, value = model.flows(log_pos[row : row + 1], log_neg[row : row + 1], torch.ones(1, dtype=torch.float64))
        assert set(flow.round(decimals=9).tolist()) <= {0.0, 1.0}
        assert float(value) == pytest.approx(float(flow @ model.log_phi.detach()))
        per_choice = torch.zeros(model.choices.count, dtype=torch.float64).index_add(0, model.owner, flow)
        assert per_choice.max() == pytest.approx(1)  # a choice is met at most once
    weights = torch.arange(1.0, len(rows) + 1, dtype=torch.float64)
    whole, _ = model.flows(log_pos, log_neg, weights)
    parts = [model.flows(log_pos[i : i + 1], log_neg[i : i + 1], weights[i : i + 1])[0] for i in range(len(rows))]
    torch.testing.assert_close(whole, torch.stack(parts).sum(0))


def test_rows_without_a_label_are_minus_infinity_or_an_error():
    model = weighted(SPACE.compile(), 6)
    log_pos, log_neg = torch.zeros(2, SPACE.width), torch.zeros(2, SPACE.width)
    log_pos[0, 3:6] = -torch.inf  # neither a, b nor c
    assert model.log_wmc(log_pos, log_neg)[0] == -torch.inf
    assert model.entropy(log_pos, log_neg)[0] == 0
    with pytest.raises(DataError, match="no valid label"):
        model.log_wmc(log_pos, log_neg, strict=True)


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_at_extreme_weights(learn, dtype):
    model = weighted(SPACE.compile(), 7, learn).to(dtype)
    with torch.no_grad():
        model.branches.mul_(1e4)
    signs = torch.tensor(list(itertools.product([-1e4, 1e4], repeat=2)), dtype=dtype)
    log_pos = (signs[:, :1] * torch.linspace(-1, 1, SPACE.width, dtype=dtype)).requires_grad_()
    log_neg = (signs[:, 1:] * torch.linspace(1, -1, SPACE.width, dtype=dtype)).requires_grad_()
    out = model.log_wmc(log_pos, log_neg)
    out.sum().backward()
    assert out.isfinite().all()
    assert log_pos.grad.isfinite().all()
    assert log_neg.grad.isfinite().all()
    if learn:
        assert model.branches.grad.isfinite().all()


def test_no_choice_at_all():
    model = weighted(LabelSpace.classes(["only"]).compile())
    zero = torch.zeros(1, dtype=torch.float64)
    assert float(model.log_wmc(zero, zero)) == 0
    assert model.sample(zero, zero, 2).tolist() == [[True], [True]]


def test_log_rest():
    p = torch.tensor([1e-30, 0.2, 0.5, 0.999], dtype=torch.float64)
    torch.testing.assert_close(log_rest(p.log()), torch.log1p(-p))
    end = torch.zeros(1, requires_grad=True)
    log_rest(end).backward()
    assert end.grad.isfinite().all()
    assert torch.autograd.gradcheck(log_rest, p[1:].log().requires_grad_())
