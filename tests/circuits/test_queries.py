"""Every query of the kernels against enumeration, with gradients, evidence, any shape, and the layered twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import oracle
from circuits.strategies import circuit_of, constraint_sets, literal_weights, naive_circuit, with_soft
from dssl.circuits import queries
from dssl.circuits.circuit import Circuit
from dssl.circuits.evaluate import layered
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE
from dssl.errors import DataError
from dssl.logic.reasoning.constraints import Constraints
from dssl.logic.space import LabelSpace

seeds = st.integers(0, 2**32 - 1)
many = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
few = settings(many, max_examples=25)
precisions = pytest.mark.parametrize(("dtype", "tight"), [(torch.float64, 1e-9), (torch.float32, 2e-5)])


def batch(circuit: Circuit, seed: int, rows: int = 5, dtype=torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights (rows, width), the later rows with more and more evidence."""
    drawn = [literal_weights(circuit, seed + row, evidence=0.12 * row) for row in range(rows)]
    return tuple(torch.tensor(np.stack(side), dtype=dtype) for side in zip(*drawn))


def by_row(circuit: Circuit, pos: torch.Tensor, neg: torch.Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
    return [with_soft(circuit, p, n) for p, n in zip(pos.double().numpy(), neg.double().numpy())]


@precisions
@many
@given(constraints=constraint_sets(), seed=seeds)
def test_sums_equal_enumeration(dtype, tight, constraints, seed):
    circuit, rows = naive_circuit(constraints), oracle.valid_columns(constraints)
    pos, neg = batch(circuit, seed, dtype=dtype)
    value, mu = queries.log_wmc(circuit, pos, neg), queries.marginals(circuit, pos, neg)
    entropy = queries.entropy(circuit, pos, neg)
    for i, (p, n) in enumerate(by_row(circuit, pos, neg)):
        expected = oracle.log_wmc(rows, p, n)
        assert value[i].item() == pytest.approx(expected, rel=tight, abs=tight)
        if expected == -math.inf:
            assert not mu[i].any()
            assert entropy[i] == 0
        else:
            np.testing.assert_allclose(mu[i], oracle.marginals(rows, p, n)[: circuit.width], atol=tight)
            assert entropy[i].item() == pytest.approx(oracle.entropy(rows, p, n), abs=tight)


@precisions
@many
@given(constraints=constraint_sets(), seed=seeds, k=st.integers(1, 6))
def test_heaviest_labels_equal_enumeration(dtype, tight, constraints, seed, k):
    circuit, rows = naive_circuit(constraints), oracle.valid_columns(constraints)
    pos, neg = batch(circuit, seed, dtype=dtype)
    labels, weight = queries.top_k(circuit, pos, neg, k)
    label, heaviest = queries.mpe(circuit, pos, neg)
    assert torch.equal(label, labels[:, 0])
    assert torch.equal(heaviest, weight[:, 0])
    for i, (p, n) in enumerate(by_row(circuit, pos, neg)):
        _, expected = oracle.best(rows, p, n, k)
        possible = int((expected > -math.inf).sum())
        np.testing.assert_allclose(weight[i, :possible], expected[:possible], atol=tight, rtol=tight)
        assert (weight[i, possible:] == -math.inf).all()
        assert not labels[i, possible:].any()
        assert len({tuple(x) for x in labels[i, :possible].tolist()}) == possible
        assert all(any((x == y).all() for y in rows[:, : circuit.width]) for x in labels[i, :possible].numpy())


@few
@given(constraints=constraint_sets(), seed=seeds)
def test_gradients(constraints, seed):
    circuit = naive_circuit(constraints)
    pos, neg = (x.requires_grad_() for x in batch(circuit, seed, rows=1))  # without evidence: differences exist
    assume(torch.isfinite(queries.log_wmc(circuit, pos, neg)).all())
    for query in (queries.log_wmc, queries.marginals, queries.entropy):
        assert torch.autograd.gradcheck(lambda p, n, q=query: q(circuit, p, n), (pos, neg))


@few
@given(constraints=constraint_sets(soft=1), seed=seeds)
def test_first_and_second_derivatives_equal_the_layered_ones(constraints, seed):
    circuit = naive_circuit(constraints)
    pos, neg = (x.requires_grad_() for x in batch(circuit, seed, rows=4))
    for name in ("log_wmc", "marginals", "entropy"):
        found, expected = (getattr(room, name)(circuit, pos, neg) for room in (queries, layered))
        v = torch.randn(found.shape, dtype=found.dtype, generator=torch.Generator().manual_seed(seed))
        first = [torch.autograd.grad(x, (pos, neg), v, retain_graph=True) for x in (found, expected)]
        for ours, theirs in zip(*first):
            assert torch.isfinite(ours).all()
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)
        twice = [torch.autograd.grad(x, (pos, neg), v, create_graph=True) for x in (found, expected)]
        second = [torch.autograd.grad(sum(g.square().sum() for g in x), (pos, neg)) for x in twice]
        for ours, theirs in zip(*second):
            torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-7)


def test_second_derivatives_by_differences():
    circuit = parity(3)
    pos, neg = (x.requires_grad_() for x in batch(circuit, 3, rows=1))
    for query in (queries.log_wmc, queries.marginals, queries.entropy, lambda *x: queries.mpe(*x)[1]):
        assert torch.autograd.gradgradcheck(lambda p, n, q=query: q(circuit, p, n), (pos, neg))


def parity(n: int) -> Circuit:
    """x₁ ⊕ … ⊕ x_n."""
    nodes = [(LITERAL, sign * (i + 1), ()) for i in range(n) for sign in (1, -1)]
    even, odd = 2 * n - 1, 2 * n - 2
    for i in range(n - 2, -1, -1):
        at = len(nodes)
        nodes += [(AND, 0, (2 * i, even)), (AND, 0, (2 * i + 1, odd)), (OR, 0, (at, at + 1))]
        nodes += [(AND, 0, (2 * i, odd)), (AND, 0, (2 * i + 1, even)), (OR, 0, (at + 3, at + 4))]
        odd, even = at + 2, at + 5
    return circuit_of([*nodes, (AND, 0, (odd,))], [0] * n)


@precisions
@pytest.mark.parametrize("scale", [1.0, 50.0, 1e4])
def test_deterministic_prior_of_large_logits_is_finite_and_right(dtype, tight, scale):
    circuit = parity(30)
    z = torch.randn(40, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).clamp(-1, 1) * scale
    weights = []
    for room, kind in ((queries, dtype), (layered, torch.float64)):
        x = z.to(kind).requires_grad_()
        value = room.log_wmc(circuit, *(10 * torch.nn.functional.logsigmoid(s * x) for s in (1, -1)))
        weights.append((value, *torch.autograd.grad(value.sum(), x)))
    (value, slope), (expected, right) = weights
    assert torch.isfinite(value).all()
    torch.testing.assert_close(value.double(), expected, rtol=10 * tight, atol=tight)
    wide = 1e-8 if dtype == torch.float64 else 1e-6 * max(10.0, scale)  # float32 logits themselves are rounded
    assert (slope.double() - right).abs().max() < wide


@pytest.mark.parametrize("rows", [0, 1, 2, 15, 16, 17, 63, 64, 65, 130])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_batch_size(rows, dtype):
    circuit = parity(7)
    pos, neg = torch.randn(2, rows, 7, dtype=dtype)
    torch.testing.assert_close(queries.log_wmc(circuit, pos, neg), layered.log_wmc(circuit, pos, neg))
    torch.testing.assert_close(queries.marginals(circuit, pos, neg), layered.marginals(circuit, pos, neg))
    torch.testing.assert_close(queries.entropy(circuit, pos, neg), layered.entropy(circuit, pos, neg))
    assert torch.equal(queries.mpe(circuit, pos, neg)[0], layered.mpe(circuit, pos, neg)[0])
    assert queries.sample(circuit, pos, neg, 3).shape == (3, rows, 7)
    x = pos.clone().requires_grad_()
    queries.log_wmc(circuit, x, neg).sum().backward()
    torch.testing.assert_close(x.grad, layered.marginals(circuit, pos, neg))


def test_any_leading_shape_and_strides():
    circuit = parity(5)
    pos, neg = torch.randn(2, 4, 3, 5, dtype=torch.float64)
    expected = queries.log_wmc(circuit, pos.reshape(12, 5), neg.reshape(12, 5)).reshape(4, 3)
    assert torch.equal(queries.log_wmc(circuit, pos, neg), expected)
    turned = [x.permute(2, 1, 0).contiguous().permute(2, 1, 0) for x in (pos, neg)]
    assert torch.equal(queries.log_wmc(circuit, *turned), expected)
    assert torch.equal(queries.log_wmc(circuit, pos[0].t().contiguous().t(), neg[0]), expected[0])
    assert torch.equal(queries.log_wmc(circuit, pos[2, 1], neg[2, 1]), expected[2, 1])
    assert queries.marginals(circuit, pos, neg).shape == (4, 3, 5)
    assert queries.top_k(circuit, pos, neg, 2)[0].shape == (4, 3, 2, 5)
    assert queries.sample(circuit, pos[0, 0], neg[0, 0], 7).shape == (7, 5)
    assert queries.sample(circuit, pos, neg, 0).shape == (0, 4, 3, 5)
    label, weight = queries.mpe(circuit, pos, neg)
    for at in ((), (2,), (2, 1)):
        one, heaviest = queries.mpe(circuit, pos[at], neg[at])
        assert torch.equal(one, label[at])
        assert torch.equal(heaviest, weight[at])


def test_weights_of_two_precisions_are_taken_as_the_finer():
    circuit = parity(4)
    pos, neg = torch.randn(2, 3, 4)
    found = queries.log_wmc(circuit, pos, neg.double())
    assert found.dtype == torch.float64
    assert torch.equal(found, queries.log_wmc(circuit, pos.double(), neg.double()))


def test_weights_broadcast_and_gradients_find_their_way_back():
    circuit = parity(5)
    pos = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
    neg = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    queries.log_wmc(circuit, pos, neg).sum().backward()
    mu = queries.marginals(circuit, pos, neg).detach()
    torch.testing.assert_close(pos.grad, mu)
    torch.testing.assert_close(neg.grad, (1 - mu).sum((0, 1)))


@pytest.mark.parametrize("which", [0, 1])
def test_gradient_of_either_side_alone(which):
    circuit = parity(4)
    weights = [*torch.randn(2, 6, 4, dtype=torch.float64)]
    weights[which].requires_grad_()
    queries.log_wmc(circuit, *weights).sum().backward()
    mu = queries.marginals(circuit, *(w.detach() for w in weights))
    torch.testing.assert_close(weights[which].grad, 1 - mu if which else mu)


def test_contradictory_evidence():
    circuit = parity(2)
    pos, neg = torch.randn(2, 3, 2, 2, dtype=torch.float64)
    neg[1, 0] = -math.inf  # both true: not odd
    neg[2, 1, 0] = pos[2, 1, 0] = -math.inf  # neither true nor false
    pos.requires_grad_()
    neg.requires_grad_()
    for query in (queries.log_wmc, queries.marginals, queries.entropy, lambda *x, **y: queries.mpe(*x, **y)[1]):
        answer = query(circuit, pos, neg)
        grads = torch.autograd.grad(answer.masked_fill(answer == -math.inf, 0).sum(), (pos, neg))
        for grad in grads:
            assert torch.isfinite(grad).all()
            assert not grad[1, 0].any()
            assert not grad[2, 1].any()
        with pytest.raises(DataError, match=r"rows \(1, 0\), \(2, 1\)"):
            query(circuit, pos, neg, strict=True)
    value = queries.log_wmc(circuit, pos, neg)
    assert (value == -math.inf).nonzero().tolist() == [[1, 0], [2, 1]]
    assert not queries.mpe(circuit, pos, neg)[0][1, 0].any()
    with pytest.raises(DataError, match=r"rows \(1, 0\), \(2, 1\)"):
        queries.sample(circuit, pos, neg)
    assert torch.isfinite(queries.log_wmc(circuit, pos[0], neg[0], strict=True)).all()


@pytest.mark.parametrize("room", [queries, layered])
def test_marginals_are_probabilities(room):
    """Rounding leaves them within [0, 1], as `binary_cross_entropy` demands, and their gradients as they are."""
    circuit = LabelSpace("a, b, c, d, e\nk: {u, v, w, x}\nat_most(2, a, b, c, d)\nk = u -> a\ne -> b").compile()
    beyond = 0
    for seed in range(40):
        pos, neg = 8 * torch.randn(2, 500, circuit.width, generator=torch.Generator().manual_seed(seed))
        mu = room.marginals(circuit, pos, neg)
        assert 0 <= mu.min() <= mu.max() <= 1
        assert torch.nn.functional.binary_cross_entropy(mu, torch.ones_like(mu)) >= 0
        beyond += int(((mu == 0) | (mu == 1)).sum())
    assert beyond > 0
    pos.requires_grad_()
    slope = torch.autograd.grad(room.marginals(circuit, pos, neg).sum(), pos)[0]
    expected = torch.autograd.grad(layered.log_wmc(circuit, pos, neg).sum(), pos, create_graph=True)[0]
    torch.testing.assert_close(slope, torch.autograd.grad(expected.sum(), pos)[0], atol=1e-4, rtol=1e-3)


def test_nan_in_is_nan_out():
    circuit = parity(3)
    pos, neg = torch.randn(2, 2, 3)
    pos[1, 1] = math.nan
    assert queries.log_wmc(circuit, pos, neg).isnan().tolist() == [False, True]
    assert queries.marginals(circuit, pos, neg).isnan().any(1).tolist() == [False, True]


def test_circuits_without_nodes():
    for kind, value in ((TRUE, 0.0), (FALSE, -math.inf)):
        circuit = circuit_of([(kind, 0, ())], [0, 3])
        pos, neg = torch.randn(2, 5, 4, dtype=torch.float64)
        whole = torch.logaddexp(pos[:, 0], neg[:, 0])
        block = pos[:, 1:] + neg[:, 1:].sum(1, keepdim=True) - neg[:, 1:]
        expected = whole + block.logsumexp(1) + value
        torch.testing.assert_close(queries.log_wmc(circuit, pos, neg), expected)


def test_a_circuit_without_columns_has_derivatives_of_every_order():
    circuit = circuit_of([(TRUE, 0, ())], [])
    for query in (queries.log_wmc, queries.marginals, queries.entropy):
        pos, neg = (x.requires_grad_() for x in torch.zeros(2, 3, 0, dtype=torch.float64))
        grads = torch.autograd.grad(query(circuit, pos, neg).sum(), (pos, neg), create_graph=True)
        assert [tuple(grad.shape) for grad in grads] == [(3, 0), (3, 0)]


def test_samples_have_the_right_frequencies():
    constraints = Constraints((2, 3, 2, 2), (False, True, False, False), ((0, 3), (1, 5, 2), (3, 6)), (), 4)
    circuit, rows = naive_circuit(constraints), oracle.valid_columns(constraints)
    pos, neg = batch(circuit, 5, rows=2, dtype=torch.float32)
    drawn = queries.sample(circuit, pos, neg, 20_000, torch.Generator().manual_seed(1))
    for i, (p, n) in enumerate(by_row(circuit, pos, neg)):
        seen = np.array([(drawn[:, i].numpy() == row).all(1).sum() for row in rows])
        assert seen.sum() == 20_000
        expected = 20_000 * oracle.probabilities(rows, p, n)
        assert not seen[expected == 0].any()
        kept = expected > 5
        surprise = ((seen - expected)[kept] ** 2 / expected[kept]).sum()
        assert surprise < kept.sum() + 6 * math.sqrt(2 * kept.sum())


def test_samples_are_seeded():
    circuit = parity(9)
    pos, neg = torch.randn(2, 100, 9)

    def draw(seed: int) -> torch.Tensor:
        return queries.sample(circuit, pos, neg, 50, torch.Generator().manual_seed(seed))

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))
    before = torch.get_num_threads()
    one = draw(3)
    try:
        torch.set_num_threads(3)
        assert torch.equal(one, draw(3))
    finally:
        torch.set_num_threads(before)
    assert (one.sum(-1) % 2 == 1).all()


def test_the_gradient_of_the_heaviest_weight_is_its_label():
    circuit = parity(6)
    pos, neg = (x.requires_grad_() for x in torch.randn(2, 8, 6, dtype=torch.float64))
    label, weight = queries.mpe(circuit, pos, neg)
    weight.sum().backward()
    assert torch.equal(pos.grad, label.double())
    assert torch.equal(neg.grad, (~label).double())


@pytest.mark.parametrize(
    ("pos", "neg", "match"),
    [
        (torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3), r"log_pos is torch\.int64.*float\(\)"),
        (torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.float16), r"log_neg is torch\.float16"),
        (torch.zeros(2, 4), torch.zeros(2, 3), r"log_pos has shape \(2, 4\).*3 columns"),
        (torch.zeros(2, 3), torch.zeros(2, 2), r"log_neg has shape \(2, 2\).*3 columns"),
        (torch.zeros(()), torch.zeros(3), r"log_pos has shape \(\)"),
        (torch.zeros(2, 3), torch.zeros(4, 3), "do not broadcast"),
    ],
)
def test_wrong_weights_are_named(pos, neg, match):
    for query in (queries.log_wmc, queries.marginals, queries.entropy, queries.mpe, queries.sample):
        with pytest.raises(DataError, match=match):
            query(parity(3), pos, neg)
    with pytest.raises(DataError, match="k = 0"):
        queries.top_k(parity(3), torch.zeros(3), torch.zeros(3), 0)
    with pytest.raises(DataError, match="n = -1"):
        queries.sample(parity(3), torch.zeros(3), torch.zeros(3), -1)


def test_rows_without_a_valid_label_are_named_and_after_ten_only_hinted_at():
    circuit = parity(3)
    for rows, where in ((1, "rows 0."), (10, f"rows {', '.join(map(str, range(10)))}. "), (11, ", 8, 9, …. ")):
        pos, neg = torch.full((2, rows, 3), -math.inf)
        for query in (queries.log_wmc, queries.mpe, queries.sample):
            with pytest.raises(DataError) as caught:
                query(circuit, pos, neg, **({} if query is queries.sample else {"strict": True}))
            assert where in str(caught.value)
    with pytest.raises(DataError, match="with the weights given"):  # there is but one row
        queries.log_wmc(circuit, pos[0], neg[0], strict=True)


def test_gradients_of_a_batch_too_large_for_one_grain():
    circuit, rows = parity(4), 1 + queries._GRAIN // 4
    weights = torch.randn(2, rows, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights[:, 5] = -math.inf  # a row without a valid label
    scale = torch.linspace(-1, 2, rows, dtype=torch.float64)
    mu = queries.marginals(circuit, *weights)
    for wanted in ((True, True), (True, False), (False, True)):
        pos, neg = (x.clone().requires_grad_(w) for x, w in zip(weights, wanted))
        value = queries.log_wmc(circuit, pos, neg)
        grads = torch.autograd.grad(value, [x for x in (pos, neg) if x.requires_grad], scale)
        expected = [g for g, w in zip((mu * scale[:, None], (1 - mu) * scale[:, None]), wanted) if w]
        for found, right in zip(grads, expected):
            assert not found[5].any()
            torch.testing.assert_close(found, right.index_fill(0, torch.tensor([5]), 0.0))


def test_k_best_in_steps_equals_all_at_once(monkeypatch):
    circuit = parity(5)
    pos, neg = torch.randn(2, 7, 5, dtype=torch.float64)
    labels, weight = queries.top_k(circuit, pos, neg, 4)
    monkeypatch.setattr(queries, "_HELD", 60)  # two rows a step
    assert torch.equal(queries.top_k(circuit, pos, neg, 4)[0], labels)
    assert torch.equal(queries.top_k(circuit, pos, neg, 4)[1], weight)


def test_other_devices_take_the_layered_route():
    circuit = parity(3)
    pos, neg = torch.empty(2, 5, 3, device="meta")
    assert queries.log_wmc(circuit, pos, neg).shape == (5,)
    assert queries.log_wmc(circuit, pos, neg).device.type == "meta"


@pytest.mark.parametrize("name", ["log_wmc", "marginals", "entropy", "top_k", "sample"])
def test_the_layered_query_answers_on_other_devices_and_only_there(name, monkeypatch):
    answer, asked = torch.tensor([[0.0, -math.inf, 0.0]]), []

    def layered_query(*arguments):
        asked.append(arguments)
        return (answer, answer.T) if name == "top_k" else answer

    monkeypatch.setattr(layered, name, layered_query)
    query = {"top_k": lambda *x, **y: queries.top_k(*x, 2, **y)}.get(name, getattr(queries, name))
    circuit, weights = parity(4), torch.zeros(2, 3, 4)
    query(circuit, *weights)
    assert not asked
    found = query(circuit, *weights.to("meta"))
    assert len(asked) == 1
    assert (found[0] if name == "top_k" else found) is answer
    if name != "sample":
        monkeypatch.setattr(layered, "log_wmc", lambda *arguments: answer[0])
        with pytest.raises(DataError, match=r"rows 1\."):
            query(circuit, *weights.to("meta"), strict=True)


@pytest.mark.parametrize("column", range(5))
def test_weights_that_are_nan_give_nan_in_their_row_and_nowhere_else(column):
    circuit = LabelSpace("a: {x, y, z}\nb, c\na = x -> b\nb | c").compile()
    pos, neg = torch.full((3, 5), -0.5), torch.full((3, 5), -0.7)
    pos[1, column] = math.nan
    for value in (
        queries.log_wmc(circuit, pos, neg),
        queries.entropy(circuit, pos, neg),
        queries.mpe(circuit, pos, neg)[1],
        queries.top_k(circuit, pos, neg, 2)[1].sum(-1),
        layered.top_k(circuit, pos, neg, 2)[1].sum(-1),
        queries.marginals(circuit, pos, neg).sum(-1),
    ):
        assert value.isnan().tolist() == [False, True, False]
