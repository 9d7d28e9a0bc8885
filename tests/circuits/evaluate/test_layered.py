"""Every query in layered torch operations against enumeration, with its gradients, in both precisions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import oracle
from circuits.strategies import circuit_of, constraint_sets, literal_weights, naive_circuit, with_soft
from dssl.circuits.circuit import Circuit
from dssl.circuits.evaluate import layered
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE
from dssl.errors import DataError
from dssl.logic.reasoning.constraints import Constraints, Sum

seeds = st.integers(0, 2**32 - 1)
many = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
few = settings(many, max_examples=25)
exact = {"rtol": 1e-9, "atol": 1e-9}


def batch(circuit: Circuit, seed: int, rows: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights (rows, width), the later rows with more and more evidence."""
    drawn = [literal_weights(circuit, seed + row, evidence=0.15 * row) for row in range(rows)]
    return tuple(torch.tensor(np.stack(side)) for side in zip(*drawn))


def by_row(circuit: Circuit, pos: torch.Tensor, neg: torch.Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
    return [with_soft(circuit, p, n) for p, n in zip(pos.numpy(), neg.numpy())]


@many
@given(constraint_sets(), seeds)
def test_log_wmc_is_the_sum_over_valid_rows(constraints, seed):
    circuit, rows = naive_circuit(constraints), oracle.valid_columns(constraints)
    pos, neg = batch(circuit, seed)
    expected = [oracle.log_wmc(rows, p, n) for p, n in by_row(circuit, pos, neg)]
    np.testing.assert_allclose(layered.log_wmc(circuit, pos, neg).numpy(), expected, **exact)


@many
@given(constraint_sets(), seeds)
def test_marginals_are_the_gradient_of_log_wmc_identity_3(constraints, seed):
    circuit, rows = naive_circuit(constraints), oracle.valid_columns(constraints)
    pos, neg = (w.requires_grad_() for w in batch(circuit, seed))
    total = layered.log_wmc(circuit, pos, neg)
    total.sum().backward()
    found = layered.marginals(circuit, pos.detach(), neg.detach()).numpy()
    np.testing.assert_allclose(found, pos.grad.numpy(), **exact)
    for row, (p, n) in enumerate(by_row(circuit, pos.detach(), neg.detach())):
        if total[row] == -math.inf:
            assert not found[row].any()
            assert not neg.grad[row].any()
        else:
            expected = oracle.marginals(rows, p, n)[: circuit.width]
            np.testing.assert_allclose(found[row], expected, **exact)
            np.testing.assert_allclose(neg.grad[row].numpy(), 1 - expected, **exact)


@many
@given(constraint_sets(), seeds)
def test_entropy_is_that_of_the_valid_rows(constraints, seed):
    circuit, rows = naive_circuit(constraints), oracle.valid_columns(constraints)
    pos, neg = batch(circuit, seed)
    found = layered.entropy(circuit, pos, neg).numpy()
    for row, (p, n) in enumerate(by_row(circuit, pos, neg)):
        valid = oracle.log_wmc(rows, p, n) > -math.inf
        np.testing.assert_allclose(found[row], oracle.entropy(rows, p, n) if valid else 0, **exact)


@many
@given(constraint_sets(), seeds, st.integers(1, 6))
def test_top_k_and_mpe_are_the_heaviest_valid_rows(constraints, seed, k):
    circuit, rows = naive_circuit(constraints), oracle.valid_columns(constraints)
    valid = {tuple(row[: circuit.width]) for row in rows.tolist()}
    pos, neg = batch(circuit, seed)
    labels, weight = layered.top_k(circuit, pos, neg, k)
    assert labels.shape == (4, k, circuit.width)
    assert labels.dtype == torch.bool
    best, best_weight = layered.mpe(circuit, pos, neg)
    for row, (p, n) in enumerate(by_row(circuit, pos, neg)):
        expected = oracle.best(rows, p, n, k)[1]
        expected = np.concatenate([expected, np.full(k - len(expected), -np.inf)])
        np.testing.assert_allclose(weight[row].numpy(), expected, **exact)
        np.testing.assert_allclose(best_weight[row].item(), expected[0], **exact)
        found = [tuple(label) for label, w in zip(labels[row].tolist(), weight[row]) if w > -math.inf]
        assert len(set(found)) == len(found)
        assert set(found) <= valid
        assert best_weight[row] == -math.inf or tuple(best[row].tolist()) in valid
        assert not labels[row][weight[row] == -math.inf].any()


@few
@given(constraint_sets(blocks=4), seeds)
def test_samples_are_valid_and_follow_the_weights(constraints, seed):
    circuit, rows = naive_circuit(constraints), oracle.valid_columns(constraints)
    pos, neg = (torch.tensor(w) for w in literal_weights(circuit, seed, evidence=0.1, scale=1.0))
    weights = with_soft(circuit, pos.numpy(), neg.numpy())
    assume(oracle.log_wmc(rows, *weights) > -math.inf)
    n = 4000
    drawn = layered.sample(circuit, pos, neg, n, torch.Generator().manual_seed(seed)).numpy()
    assert drawn.shape == (n, circuit.width)
    share = {tuple(row): 0.0 for row in rows[:, : circuit.width].tolist()}
    for row in drawn.tolist():
        share[tuple(row)] += 1 / n  # a KeyError here is an invalid label
    p = oracle.probabilities(rows, *weights)
    assert np.abs(np.array(list(share.values())) - p).max() < 5 * 0.5 / math.sqrt(n)
    assert not np.array(list(share.values()))[p == 0].any()


def test_sample_is_seeded_batched_and_cut_into_steps(monkeypatch):
    circuit = naive_circuit(animals())
    pos, neg = (w[:2].expand(3, 2, -1) for w in batch(circuit, 0))

    def draw(seed: int) -> torch.Tensor:
        return layered.sample(circuit, pos, neg, 7, torch.Generator().manual_seed(seed))

    assert draw(1).shape == (7, 3, 2, circuit.width)
    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))
    monkeypatch.setattr(layered, "_HELD", 3 * circuit.edges)
    assert draw(1).shape == (7, 3, 2, circuit.width)
    np.testing.assert_allclose(layered.mpe(circuit, pos, neg)[1][0], layered.top_k(circuit, pos, neg, 2)[1][1, :, 0])


def animals() -> Constraints:
    """species of 3, legs, fins, wings; at most two of the binaries; trout has fins; a soft rule; wings mostly free."""
    return Constraints(
        sizes=(3, 2, 2, 2, 2),
        categorical=(True, False, False, False, False),
        clauses=((0, 1, 6), (3, 5), (9, 4, 8), (10, 3), (10, 7)),
        sums=(Sum((4, 6, 8), (1, 1, 1), ((0, 2),)),),
        visible=4,
        soft=(0.9,),
    )


@pytest.mark.parametrize("query", [layered.log_wmc, layered.marginals, layered.entropy, lambda *a: layered.mpe(*a)[1]])
def test_gradients_and_second_gradients(query):
    circuit = naive_circuit(animals())
    pos, neg = (w[:2].requires_grad_() for w in batch(circuit, 3))
    function = lambda p, n: query(circuit, p, n)  # noqa: E731
    assert torch.autograd.gradcheck(function, (pos, neg))
    assert torch.autograd.gradgradcheck(function, (pos, neg))


@few
@given(constraint_sets(blocks=4), seeds)
def test_gradcheck_on_random_spaces(constraints, seed):
    assume(len(oracle.valid_columns(constraints)))
    circuit = naive_circuit(constraints)
    pos, neg = (w[:1].requires_grad_() for w in batch(circuit, seed))
    for query in (layered.log_wmc, layered.marginals, layered.entropy):
        assert torch.autograd.gradcheck(lambda p, n, q=query: q(circuit, p, n), (pos, neg))


def test_derivatives_are_finite_where_evidence_is_minus_infinity():
    circuit = naive_circuit(animals())
    pos, neg = batch(circuit, 5, rows=8)
    assert pos.isinf().any()
    for query in (layered.log_wmc, layered.marginals, layered.entropy, lambda *a: layered.mpe(*a)[1]):
        p, n = pos.clone().requires_grad_(), neg.clone().requires_grad_()
        value = query(circuit, p, n)
        first = torch.autograd.grad(value[value.isfinite()].sum(), (p, n), create_graph=True)
        assert all(g.isfinite().all() for g in first)
        if any(g.requires_grad for g in first):
            second = torch.autograd.grad(sum(g.square().sum() for g in first), (p, n), materialize_grads=True)
            assert all(g.isfinite().all() for g in second)


def test_marginals_when_both_weights_come_from_the_same_logits():
    circuit = naive_circuit(animals())
    z = torch.randn(5, circuit.width, dtype=torch.float64, requires_grad=True)
    found = layered.marginals(circuit, z, -z)
    np.testing.assert_allclose(found.detach(), layered.marginals(circuit, z.detach(), -z.detach()), **exact)
    assert torch.autograd.gradcheck(lambda x: layered.marginals(circuit, x, -x), (z,))


# ---- MATH §4 ----


@few
@given(constraint_sets(soft=0), seeds)
def test_identity_1_normalising_takes_out_a_constant(constraints, seed):
    circuit = naive_circuit(constraints)
    pos, neg = (w[:1] for w in batch(circuit, seed))
    _, constant = layered.normalise(circuit, pos, neg)
    a = torch.logaddexp(pos, neg)
    if not circuit.categorical.any():
        np.testing.assert_allclose(constant, a.sum(-1), **exact)
        log_q = layered.log_wmc(circuit, pos - a, neg - a) + constant
        np.testing.assert_allclose(layered.log_wmc(circuit, pos, neg), log_q, **exact)
    free = circuit_of([(TRUE, 0, ())], [s if c else 0 for s, c in zip(constraints.sizes, constraints.categorical)])
    np.testing.assert_allclose(constant, layered.log_wmc(free, pos, neg), **exact)


def test_identity_1_of_the_deterministic_prior():
    circuit, power = naive_circuit(at_most_two_of_four()), 10.0
    z = torch.randn(6, 4, dtype=torch.float64)
    on, off = torch.nn.functional.logsigmoid(z), torch.nn.functional.logsigmoid(-z)
    left = layered.log_wmc(circuit, power * on, power * off)
    sharp = [torch.nn.functional.logsigmoid(sign * power * z) for sign in (1, -1)]
    right = torch.logaddexp(power * on, power * off).sum(-1) + layered.log_wmc(circuit, *sharp)
    np.testing.assert_allclose(left, right, **exact)


def at_most_two_of_four() -> Constraints:
    return Constraints((2,) * 4, (False,) * 4, (), (Sum((1, 3, 5, 7), (1, 1, 1, 1), ((0, 2),)),), 4)


def test_identity_3_of_the_deterministic_prior():
    circuit, power = naive_circuit(at_most_two_of_four()), 3.0
    z = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    weights = [power * torch.nn.functional.logsigmoid(sign * z) for sign in (1, -1)]
    (gradient,) = torch.autograd.grad(layered.log_wmc(circuit, *weights).sum(), z)
    mu = layered.marginals(circuit, *(w.detach() for w in weights))
    np.testing.assert_allclose(gradient, power * (mu - z.detach().sigmoid()), **exact)


@few
@given(constraint_sets(soft=0), seeds)
def test_identity_5_probabilities(constraints, seed):
    circuit, rng = naive_circuit(constraints), np.random.default_rng(seed)
    pos = torch.full((circuit.width,), 0.0, dtype=torch.float64)
    neg = pos.clone()
    for block, (first, last) in enumerate(zip(circuit.starts, circuit.starts[1:])):
        logits = torch.tensor(rng.normal(0, 2, last - first))
        categorical = circuit.categorical[block]
        pos[first:last] = logits.log_softmax(0) if categorical else torch.nn.functional.logsigmoid(logits)
        neg[first:last] = 0 if categorical else torch.nn.functional.logsigmoid(-logits)
    sizes = [s if c else 0 for s, c in zip(constraints.sizes, constraints.categorical)]
    np.testing.assert_allclose(layered.log_wmc(circuit_of([(TRUE, 0, ())], sizes), pos, neg), 0, atol=1e-9)
    log_q = layered.log_wmc(circuit, pos, neg)
    valid = {tuple(row) for row in oracle.valid_columns(constraints).tolist()}
    every = oracle.valid_columns(Constraints(constraints.sizes, constraints.categorical, (), (), constraints.visible))
    broken = [tuple(row) not in valid for row in every.tolist()]
    q_broken = np.exp(oracle.log_weights(every, pos.numpy(), neg.numpy()))[broken].sum()
    np.testing.assert_allclose(log_q.exp() + q_broken, 1, **exact)
    less = Constraints(constraints.sizes, constraints.categorical, constraints.clauses[:1], (), constraints.visible)
    more = layered.log_wmc(naive_circuit(less), pos, neg)
    assert more >= log_q - 1e-9


def test_identity_5_no_rules_give_zero_loss_and_zero_gradient():
    circuit = circuit_of([(TRUE, 0, ())], [0, 0, 3])
    z = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    pos = torch.cat([torch.nn.functional.logsigmoid(z[:, :2]), z[:, 2:].log_softmax(-1)], -1)
    neg = torch.cat([torch.nn.functional.logsigmoid(-z[:, :2]), torch.zeros(4, 3)], -1)
    log_q = layered.log_wmc(circuit, pos, neg)
    (gradient,) = torch.autograd.grad(log_q.sum(), z)
    np.testing.assert_allclose(log_q.detach(), 0, atol=1e-12)
    np.testing.assert_allclose(gradient, 0, atol=1e-12)


@few
@given(constraint_sets(soft=0), seeds)
def test_identity_6_entropy_from_marginals(constraints, seed):
    assume(len(oracle.valid_columns(constraints)))
    circuit = naive_circuit(constraints)
    pos, neg = (w[:1] for w in batch(circuit, seed))
    mu = layered.marginals(circuit, pos, neg)
    expected = layered.log_wmc(circuit, pos, neg) - (mu * pos + (1 - mu) * neg).sum(-1)
    np.testing.assert_allclose(layered.entropy(circuit, pos, neg), expected, **exact)


def test_identity_7_a_categorical_block_is_one_many_valued_variable():
    circuit = circuit_of([(TRUE, 0, ())], [4])
    pos, neg = torch.randn(2, 3, 4, dtype=torch.float64)
    leaf, constant = layered.normalise(circuit, pos, neg)
    value = torch.stack([pos[:, k] + neg.sum(-1) - neg[:, k] for k in range(4)], -1)
    np.testing.assert_allclose(leaf, value.log_softmax(-1), **exact)
    np.testing.assert_allclose(constant, value.logsumexp(-1), **exact)
    # Two values that are certain contradict each other, and no other value is left.
    certain = neg.clone()
    certain[:, :2] = -math.inf
    assert (layered.log_wmc(circuit, pos, certain) == -math.inf).all()


# ---- numbers at the edge ----


@few
@given(constraint_sets(), seeds)
def test_float32_is_finite_at_huge_logits(constraints, seed):
    assume(len(oracle.valid_columns(constraints)))
    circuit, power = naive_circuit(constraints), 10
    z = torch.tensor(np.random.default_rng(seed).choice([-1e4, 1e4], (8, circuit.width)), dtype=torch.float32)
    z.requires_grad_()
    pos, neg = (power * torch.nn.functional.logsigmoid(sign * z) for sign in (1, -1))
    for query in (layered.log_wmc, layered.marginals, layered.entropy, lambda *a: layered.mpe(*a)[1]):
        value = query(circuit, pos, neg)
        assert value.dtype == torch.float32
        assert value.isfinite().all()
        (gradient,) = torch.autograd.grad(value.sum(), z, retain_graph=True)
        assert gradient.isfinite().all()


def test_contradictory_evidence():
    circuit = circuit_of([(LITERAL, 1, ()), (LITERAL, -2, ()), (AND, 0, (0, 1))], [0, 0, 0])
    pos, neg = torch.zeros(3, 3), torch.zeros(3, 3)
    pos[1, 0] = -math.inf  # against the rule
    pos[2, 2] = neg[2, 2] = -math.inf  # against itself, in a column no rule mentions
    pos.requires_grad_()
    log_q = layered.log_wmc(circuit, pos, neg)
    assert log_q.isinf().tolist() == [False, True, True]
    log_q.sum().backward()
    assert not pos.grad[1:].any()
    labels, weight = layered.mpe(circuit, pos, neg)
    assert not labels[1:].any()
    assert weight.isinf().tolist() == [False, True, True]
    assert not layered.entropy(circuit, pos, neg)[1:].any()
    with pytest.raises(DataError, match="rows 1, 2"):
        layered.sample(circuit, pos, neg)
    assert layered.sample(circuit, pos[:1], neg[:1]).shape == (1, 1, 3)


def test_weights_of_another_width():
    circuit = naive_circuit(animals())
    with pytest.raises(DataError, match="have 7 columns, and the circuit has 6"):
        layered.log_wmc(circuit, torch.zeros(2, 7), torch.zeros(2, 7))


def test_float32_entropy_is_close_where_weights_are_large():
    circuit = naive_circuit(at_most_two_of_four())
    z = 1e4 * torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    weights = [10 * torch.nn.functional.logsigmoid(sign * z) for sign in (1, -1)]
    found = layered.entropy(circuit, *weights)
    assert (found >= 0).all()
    np.testing.assert_allclose(found, layered.entropy(circuit, *(w.double() for w in weights)), atol=1e-6)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3), (2, 0, 3)])
def test_leading_shapes_and_broadcasting(shape):
    circuit = naive_circuit(animals())
    pos, neg = torch.randn(*shape, circuit.width), torch.randn(circuit.width)
    assert layered.log_wmc(circuit, pos, neg).shape == shape
    assert layered.entropy(circuit, neg, pos).shape == shape
    assert layered.marginals(circuit, neg, pos).shape == (*shape, circuit.width)
    assert layered.mpe(circuit, pos, neg)[0].shape == (*shape, circuit.width)
    assert layered.top_k(circuit, pos, neg, 3)[1].shape == (*shape, 3)
    assert layered.sample(circuit, pos, neg, 2).shape == (2, *shape, circuit.width)


@pytest.mark.parametrize("kind", [TRUE, FALSE])
def test_constants(kind):
    circuit = circuit_of([(kind, 0, ())], [0, 2])
    pos = torch.zeros(2, 3)
    expected = math.log(4) if kind == TRUE else -math.inf
    np.testing.assert_allclose(layered.log_wmc(circuit, pos, pos).numpy(), expected, rtol=1e-6)


def test_nodes_that_the_root_does_not_reach_change_nothing():
    nodes = [(LITERAL, 1, ()), (LITERAL, -1, ()), (OR, 0, (0, 1)), (AND, 0, (2, 0)), (LITERAL, 2, ())]
    circuit = circuit_of(nodes, [0, 0])
    pos, neg = torch.tensor([0.3, 0.7]).log(), torch.tensor([0.7, 0.3]).log()
    assert layered.log_wmc(circuit, pos, neg).exp().item() == pytest.approx(0.7)
    assert layered.mpe(circuit, pos, neg)[0].tolist() == [False, True]
    assert layered.sample(circuit, pos, neg, 5)[:, 1].all()


def test_by_shape_on_the_meta_device():
    circuit = naive_circuit(animals())
    weights = torch.empty(5, 7, circuit.width, device="meta", requires_grad=True)
    out = layered.log_wmc(circuit, weights, weights)
    assert out.device.type == "meta"
    assert out.shape == (5, 7)
    assert layered.marginals(circuit, weights, weights).shape == weights.shape


def test_sum_of_others_keeps_minus_infinity_apart():
    x = torch.tensor([1.0, -math.inf, 3.0])
    assert layered.sum_of_others(x).tolist() == [-math.inf, 4.0, -math.inf]
    assert layered.sum_of_others(x[:1]).tolist() == [0.0]
