"""Smoothing terms: the original formulas on cases worked by hand, and gradients only where they should flow."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import oracle
from dssl.data.rows import ArrayData
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.training.objective import Objective
from dssl.training.processes import NORMS
from dssl.training.terms.consistency import (
    _DROPS,
    VAT,
    Consistency,
    Look,
    MeanTeacher,
    Neighbours,
    PiModel,
    TemporalEnsembling,
    cross_entropy,
    squared_error,
)
from priors.cases import SPACES, logits_of
from training.looks import look_at

THREE = LabelSpace.classes(["a", "b", "c"])
TWO = LabelSpace.classes(["a", "b"])
FLAG = LabelSpace.attributes(["flag"])


def linear(weights: list[list[float]], bias: list[float] | None = None) -> nn.Linear:
    layer = nn.Linear(len(weights[0]), len(weights), bias=bias is not None, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weights, dtype=torch.float64))
        if bias is not None:
            layer.bias.copy_(torch.tensor(bias, dtype=torch.float64))
    return layer


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def kl(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


# ---- how far predictions are apart ----


def joint(space: LabelSpace, z: Tensor) -> np.ndarray:
    """The probability of every label, rules or not."""
    rows = oracle.valid_columns(LabelSpace.of(space.variables).constraints)
    return np.exp(oracle.log_weights(rows, *oracle.log_literals(space.variables, z)))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(SPACES)), st.integers(0, 10_000), st.floats(0.1, 4))
def test_sums_over_blocks_are_those_of_the_joint_distribution(name: str, seed: int, scale: float) -> None:
    """Variables are independent under θ, so divergences of labels are sums over variables."""
    space = SPACES[name]
    a, b = (logits_of(space, 2, seed=seed + i, scale=scale) for i in (0, 1))
    look = look_at(space, a)
    here, there = look.predict(a), look.predict(b)
    log_p, log_q = look.log_theta(a), look.log_theta(b)
    for i in range(2):
        p, q = joint(space, a[i]), joint(space, b[i])
        assert float(here.divergence(there)[i]) == pytest.approx((p * np.log(p / q)).sum(), rel=1e-6, abs=1e-9)
        found = float(cross_entropy([t.exp() for t in log_p], log_q)[i])
        assert found == pytest.approx(-(p * np.log(q)).sum(), rel=1e-6, abs=1e-9)


def test_squared_error_is_the_mean_within_a_block_and_the_sum_over_blocks() -> None:
    space = LabelSpace("flag\ncolour: {red, green, blue}")
    look = look_at(space, torch.zeros(1, 4))
    p = [torch.tensor([[[0.25, 0.75]]]), torch.tensor([[[0.5, 0.5, 0.0]]])]
    q = [torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[0.2, 0.2, 0.6]]])]
    assert [group.size for group in look.blocks.groups] == [2, 3]
    expected = (0.25**2 + 0.25**2) / 2 + (0.3**2 + 0.3**2 + 0.6**2) / 3
    assert float(squared_error(p, q)) == pytest.approx(expected)


TERMS: dict[str, Any] = {
    "pi-model": PiModel,
    "temporal ensembling": TemporalEnsembling,
    "mean teacher": MeanTeacher,
    "vat": VAT,
    "neighbours": Neighbours,
}


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("space", SPACES)
def test_every_space_and_logits_of_ten_thousand(name: str, space: str) -> None:
    """Finite losses and gradients, also where predictions contradict each other as much as they can."""
    s = SPACES[space]
    x = torch.cat([logits_of(s, 3), logits_of(s, 3).sign() * 1e4, -logits_of(s, 3).sign() * 1e4])
    network = linear(torch.eye(s.width).tolist())
    objective = Objective(s, None, consistency=TERMS[name](), augment=(lambda x: -x, None))
    objective.prepare(network, ArrayData(x, np.full(x.shape, np.nan)))
    for _ in range(2):
        rows = torch.arange(len(x))
        loss = objective(network(x), torch.full_like(x, torch.nan), x=x, network=network, rows=rows)
        loss.backward()
    assert math.isfinite(float(loss))
    assert network.weight.grad is not None
    assert bool(network.weight.grad.isfinite().all())


# ---- Π-model ----


def test_pi_model_is_the_squared_difference_of_two_views() -> None:
    """Laine & Aila (2017), Eq. in §2.1: ‖z − z̃‖² / C, here with a second view of twice x."""
    look = look_at(FLAG, torch.tensor([[1.0]]), augment=(lambda x: 2 * x, None))
    # both values, true and false, differ by σ(2) − σ(1)
    assert PiModel()(look).item() == pytest.approx((sigmoid(2) - sigmoid(1)) ** 2)


def test_pi_model_has_gradient_through_both_views() -> None:
    x = torch.tensor([[0.3, -1.0], [2.0, 0.5]], dtype=torch.float64)

    def loss(weight: Tensor) -> Tensor:
        network = linear([[0.0, 0.0]] * 3)
        del network.weight
        network.weight = weight  # type: ignore[assignment]
        return PiModel()(look_at(THREE, x, network=network, augment=(lambda x: x**2, None))).sum()

    weight = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(loss, (weight,))


# ---- temporal ensembling ----


def test_temporal_ensembling_is_the_corrected_mean_of_earlier_predictions() -> None:
    """Laine & Aila (2017), Algorithm 2: Z ← αZ + (1−α)z, z̃ = Z / (1−αᵗ)."""
    term = TemporalEnsembling(momentum=0.6)
    term.prepare(FLAG, nn.Identity(), ArrayData(np.zeros((5, 1)), np.full((5, 1), np.nan)))
    ensemble = 0.0
    for t, z in enumerate([0.5, -1.0, 2.0, 0.1]):
        found = term(look_at(FLAG, torch.tensor([[z]]), rows=torch.tensor([3]))).item()
        target = ensemble / (1 - 0.6**t) if t else sigmoid(z)  # nothing to agree with at first
        assert found == pytest.approx((sigmoid(z) - target) ** 2, rel=1e-5, abs=1e-9)
        ensemble = 0.6 * ensemble + 0.4 * sigmoid(z)
    assert term.visits is not None
    assert term.visits.tolist() == [0, 0, 0, 4, 0]


def test_a_row_twice_in_a_batch_is_one_visit_and_evaluation_leaves_no_trace() -> None:
    term = TemporalEnsembling(momentum=0.5)
    term.prepare(FLAG, nn.Identity(), ArrayData(np.zeros((2, 1)), np.full((2, 1), np.nan)))
    look = look_at(FLAG, torch.tensor([[0.0], [3.0]]), rows=torch.tensor([1, 1]))
    term.eval()(look)
    assert term.visits is not None and term.visits.tolist() == [0, 0]  # noqa: PT018
    term.train()(look)
    assert term.visits.tolist() == [0, 1]
    assert term.ensemble is not None
    assert float(term.ensemble[1, 1]) == pytest.approx(0.5 * sigmoid(3.0))  # the last


def test_temporal_ensembling_says_what_it_needs() -> None:
    with pytest.raises(ValueError, match=r"which rows.*\n.*rows=their_numbers"):
        TemporalEnsembling()(look_at(FLAG, torch.zeros(1, 1)))
    with pytest.raises(ValueError, match=r"objective.prepare\(network, data\) first"):
        TemporalEnsembling()(look_at(FLAG, torch.zeros(1, 1), rows=torch.tensor([0])))


# ---- mean teacher ----


def test_the_teacher_is_the_running_mean_of_weights_and_gets_no_gradient() -> None:
    """Tarvainen & Valpola (2017), Eq. 2: θ′ ← α θ′ + (1−α) θ; Eq. 1: the squared difference of predictions."""
    network, x = linear([[1.0]]), torch.tensor([[2.0]], dtype=torch.float64)
    term = MeanTeacher(decay=0.15)
    averaged = 1.0
    for t, weight in enumerate([1.0, 3.0, -1.0]):
        with torch.no_grad():
            network.weight.fill_(weight)
        keep = min(0.15, (1 + t) / (10 + t))
        averaged = keep * averaged + (1 - keep) * weight
        network.zero_grad()
        found = term(look_at(FLAG, x, network=network))
        found.sum().backward()
        assert found.item() == pytest.approx((sigmoid(2 * weight) - sigmoid(2 * averaged)) ** 2, abs=1e-12)
        s = sigmoid(2 * weight)
        slope = 2 * (s - sigmoid(2 * averaged)) * s * (1 - s) * 2  # the teacher held fixed
        assert network.weight.grad is not None
        assert float(network.weight.grad) == pytest.approx(slope, abs=1e-12)
    assert all(not p.requires_grad and p.grad is None for p in term.parameters())
    assert float(term.state_dict()["teacher.network.weight"]) == pytest.approx(averaged)


def test_the_teacher_sees_its_own_view_and_is_never_in_training_mode() -> None:
    network = nn.Sequential(linear([[1.0]]), nn.Dropout(0.9))
    x = torch.tensor([[2.0]], dtype=torch.float64)
    term = MeanTeacher()
    logits = torch.tensor([[0.7]], dtype=torch.float64)
    look = look_at(FLAG, x, network=network, logits=logits, augment=(lambda x: 3 * x, None))
    assert term(look).item() == pytest.approx((sigmoid(0.7) - sigmoid(6.0)) ** 2)


# ---- VAT ----


def test_vat_of_a_logistic_regression_has_a_closed_form() -> None:
    """Its divergence grows fastest along w (Miyato et al. 2018, Eqs. 5–11), so r = ±ε w/‖w‖, and z moves by ±ε‖w‖."""
    w, b = [0.6, -0.8, 1.2], 0.4
    network, norm = linear([w], [b]), math.sqrt(sum(v * v for v in w))
    x = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    found = VAT(epsilon=0.5, xi=1e-3, relative=False)(look_at(FLAG, x, network=network)).tolist()
    sides = set()
    for row, value in zip(x.tolist(), found):
        z = sum(v * u for v, u in zip(w, row)) + b
        either = [kl(sigmoid(z), sigmoid(z + side * 0.5 * norm)) for side in (1, -1)]
        assert min(abs(value - e) for e in either) < 1e-9
        sides.add(abs(value - either[0]) < 1e-9)
    assert sides == {True, False}  # the sign is that of the random start
    torch.manual_seed(0)
    relative = VAT(epsilon=0.5 / math.sqrt(3), xi=1e-3 / math.sqrt(3))(look_at(FLAG, x, network=network))
    assert relative.tolist() == pytest.approx(found)


def test_more_iterations_find_the_leading_direction_of_the_hessian() -> None:
    """Eq. 8: the Hessian of KL at r = 0 is Wᵀ(diag θ − θθᵀ)W for a linear network."""
    generator = torch.Generator().manual_seed(3)
    network = linear(torch.randn(3, 5, generator=generator).tolist())
    x = torch.randn(1, 5, dtype=torch.float64, generator=generator)
    theta = network(x)[0].softmax(-1).detach()
    weight = network.weight.detach()
    hessian = weight.T @ (theta.diag() - theta.outer(theta)) @ weight
    leading = torch.linalg.eigh(hessian).eigenvectors[:, -1]
    moved = []
    hook = network.register_forward_pre_hook(lambda module, args: moved.append(args[0].detach()))
    torch.manual_seed(0)
    VAT(epsilon=1.0, xi=1e-4, iterations=60, relative=False)(look_at(THREE, x, network=network))
    hook.remove()
    r = moved[-1][0] - x[0]
    assert float(r.norm()) == pytest.approx(1.0)
    assert abs(float(r @ leading)) == pytest.approx(1.0, abs=1e-4)


def test_vat_has_gradient_through_the_moved_pass_only() -> None:
    network = linear([[1.5]])
    x = torch.tensor([[1.0]], dtype=torch.float64)
    look = look_at(FLAG, x, network=network)
    value = VAT(epsilon=1.0, xi=1e-3, relative=False)(look)
    (slope,) = torch.autograd.grad(value.sum(), network.weight)
    side = 1 if abs(value.item() - kl(sigmoid(1.5), sigmoid(3.0))) < 1e-9 else -1
    q = sigmoid(1.5 * (1 + side))
    assert float(slope) == pytest.approx((q - sigmoid(1.5)) * (1 + side), abs=1e-9)  # d KL/dz = q − p, p held fixed
    look.logits.sum().backward()  # the search has left nothing behind
    assert float(network.weight.grad) == pytest.approx(1.0)  # type: ignore[arg-type]


def test_where_nothing_changes_vat_stays_with_a_random_direction() -> None:
    network = linear([[0.0, 0.0]], [1.0])
    found = VAT()(look_at(FLAG, torch.zeros(3, 2, dtype=torch.float64), network=network))
    assert found.tolist() == [0, 0, 0]


def test_vat_is_without_dropout_and_leaves_batch_norm_as_it_was() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    x = torch.randn(6, 4)
    look = look_at(TWO, x, network=network)
    before = copy.deepcopy(network.state_dict())
    assert not look.plain
    assert VAT(epsilon=0.0)(look).abs().max().item() < 1e-6  # all its passes agree
    assert all(torch.equal(t, before[name]) for name, t in network.state_dict().items())
    assert all(module.training for module in network.modules())
    look.run(x)
    assert torch.equal(network[1].running_mean, before["1.running_mean"])  # type: ignore[arg-type]
    network(x)
    assert not torch.equal(network[1].running_mean, before["1.running_mean"])  # type: ignore[arg-type]


def test_vat_searches_in_full_precision() -> None:
    seen = []
    network = nn.Linear(3, 2)
    network.register_forward_hook(lambda module, args, out: seen.append(out.dtype))
    look = look_at(TWO, torch.randn(4, 3), network=network, within=torch.autocast("cpu", torch.bfloat16))
    seen.clear()
    VAT(iterations=2)(look).sum().backward()
    assert seen == [torch.float32] * 3 + [torch.bfloat16]
    assert network.weight.grad is not None


def test_vat_refuses_whole_numbers() -> None:
    with pytest.raises(DataError, match=r"x is of torch.int64\nGive floats"):
        VAT()(look_at(TWO, torch.zeros(2, 2, dtype=torch.int64), network=lambda x: x.float()))  # type: ignore[arg-type]


# ---- neighbours ----


def test_neighbours_draw_a_row_and_its_neighbour_together() -> None:
    x = torch.tensor([[0.0], [1.0], [7.0], [8.0]], dtype=torch.float32)
    term, network = Neighbours(k=1), nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        network.weight.fill_(0.5)
    term.prepare(FLAG, network, ArrayData(x, np.full((4, 1), np.nan)))
    found = term(look_at(FLAG, x[[0, 2]], network=network, rows=torch.tensor([0, 2])))

    def apart(a: float, b: float) -> float:
        return (kl(sigmoid(a), sigmoid(b)) + kl(sigmoid(b), sigmoid(a))) / 2

    assert found.tolist() == pytest.approx([apart(0.5, 0.0), apart(4.0, 3.5)], rel=1e-4)
    found.sum().backward()  # through both predictions
    slope = sum(apart(0.501 * b, 0.501 * a) - apart(0.499 * b, 0.499 * a) for a, b in ((0, 1), (7, 8))) / 0.002
    assert float(network.weight.grad) == pytest.approx(slope, rel=1e-3)  # type: ignore[arg-type]


# ---- a term of one's own ----


class Halves(Consistency):
    """‖θ(x) − θ(x/2)‖² / K."""

    name = "halves"

    def forward(self, look: Look) -> Tensor:
        theta = [[t.exp() for t in look.log_theta(z)] for z in (look.logits, look.run(look.x / 2))]
        return squared_error(*theta)


def test_a_term_of_ones_own() -> None:
    network, x = linear([[2.0]]), torch.tensor([[1.0]], dtype=torch.float64)
    loss = Objective(FLAG, None, consistency=Halves())(network(x), torch.tensor([[math.nan]]), x=x, network=network)
    assert loss.logs()["halves"] == pytest.approx((sigmoid(2) - sigmoid(1)) ** 2)


def test_every_dropout_and_batch_norm_of_torch_is_known() -> None:
    """Of a torch that has more of them, these are forgotten: then a pass would not be calm, or would be remembered."""
    kinds = {name: kind for name, kind in vars(nn).items() if isinstance(kind, type) and "Lazy" not in name}
    assert {kind for name, kind in kinds.items() if "Dropout" in name} == set(_DROPS)
    assert {kind for name, kind in kinds.items() if "BatchNorm" in name} == set(NORMS)
