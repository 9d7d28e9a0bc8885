"""The balance term: KL of label frequencies from the mean prediction."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dssl import LabelSpace
from dssl.priors import DeterministicPrior
from dssl.training.balance import Balance, Frequencies, collapse, frequencies, given_frequencies
from dssl.training.objective import Objective, linear_ramp
from priors.cases import SPACES, logits_of

SPACE = LabelSpace("round\ncolour: {red, green, blue}\nheavy")
TARGET = np.array([0.3, 0.5, 0.25, 0.25, 0.8])
EXACT = Frequencies(TARGET, np.zeros(5))
HALF = Frequencies(np.array([0.5, 0.5]), np.array([0.0, 0.0]))
NAN = float("nan")


def divergence(theta: np.ndarray, target: np.ndarray) -> float:
    """Slowly: each variable's KL, added up."""
    total = 0.0
    for variable, (start, stop) in zip(SPACE.variables, SPACE.spans):
        p, q = target[start:stop], theta[start:stop]
        if variable.binary:
            p, q = np.array([1 - p[0], p[0]]), np.array([1 - q[0], q[0]])
        total += float((p * np.log(p / q)).sum())
    return total


def theta_of(logits: torch.Tensor) -> torch.Tensor:
    return torch.cat([logits[:, :1].sigmoid(), logits[:, 1:4].softmax(-1), logits[:, 4:].sigmoid()], dim=1)


def test_it_is_the_divergence_of_the_mean_of_open_rows() -> None:
    logits = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    y = torch.full((6, 5), NAN)
    y[0] = torch.tensor([1.0, 0, 1, 0, 0])  # complete: does not count
    y[1, 0] = 1.0  # partial: counts
    weight = torch.tensor([9.0, 1, 1, 1, 1, 4])
    loss = Objective(SPACE, None, balance=0.5, frequencies=EXACT)(logits, y, sample_weight=weight)
    mean = (theta_of(logits)[1:] * (weight[1:] / 8)[:, None]).sum(0)
    assert float(loss.parts["balance"]) == pytest.approx(0.5 * divergence(mean.numpy(), TARGET), rel=1e-5)
    assert float(loss.total) == pytest.approx(sum(float(part) for part in loss.parts.values()), rel=1e-6)


def test_it_vanishes_where_predictions_are_balanced_or_all_rows_are_labelled() -> None:
    space = LabelSpace.classes(["a", "b"])
    balanced = Objective(space, None, balance=1.0, frequencies=HALF)
    assert float(balanced(torch.tensor([[3.0, 0], [0, 3.0]]), torch.tensor([-1, -1])).parts["balance"]) < 1e-6
    assert float(balanced(torch.tensor([[3.0, 0]]), torch.tensor([0])).parts["balance"]) == 0


def test_the_ramp_applies_and_gradients_stay_finite() -> None:
    space = LabelSpace.classes(["a", "b"])
    balanced = Objective(space, DeterministicPrior(space), ramp=linear_ramp(4), balance=1.0, frequencies=HALF)
    logits = torch.tensor([[400.0, 0.0]], requires_grad=True)
    parts = [balanced(logits, torch.tensor([-1]), step=step).logs()["balance"] for step in (0, 2, 4)]
    assert parts[0] == 0
    assert parts[2] == pytest.approx(2 * parts[1])
    balanced(logits, torch.tensor([-1]), step=4).total.backward()
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())


def test_nothing_is_asked_within_the_error() -> None:
    space = LabelSpace("a, b")
    target = Frequencies(np.array([0.3, 0.6]), np.array([0.1, 0.05]))
    balanced = Objective(space, None, balance=1.0, frequencies=target)

    def part(a: float, b: float) -> float:
        logits = torch.logit(torch.tensor([[a, b]])).requires_grad_()
        return balanced(logits, torch.full((1, 2), NAN)).logs()["balance"]

    assert part(0.39, 0.56) == pytest.approx(0, abs=1e-6)
    assert part(0.45, 0.6) == pytest.approx(0.4 * np.log(0.4 / 0.45) + 0.6 * np.log(0.6 / 0.55), rel=1e-4)
    assert part(0.3, 0.5) > 0


def test_frequencies_are_shrunk_as_far_as_chance_explains() -> None:
    space = LabelSpace.classes(list("abcde"))
    even = frequencies(space, space.encode(list("aabbbccdde")), 100)
    assert even.share.tolist() == [0.2] * 5
    np.testing.assert_allclose(even.error, 0.5 * (0.2 * 0.8 / 100) ** 0.5)
    uneven = frequencies(space, space.encode(["a"] * 96 + list("bcde")), 100)
    assert 0.94 < uneven.share[0] < 0.96
    assert uneven.share.sum() == pytest.approx(1)
    small, large = (frequencies(space, space.encode((["a"] * 8 + ["b"] * 2) * n), 100).share[0] for n in (1, 50))
    assert small < large < 0.8


def test_frequencies_of_unknown_and_constant_columns() -> None:
    space = LabelSpace("a, b, c")
    y = np.array([[1, NAN, 0], [0, NAN, 0]] * 50, dtype=np.float32)
    share = frequencies(space, y, 10).share
    assert share.tolist() == [0.5, 0.5, 0.001]


def test_frequencies_that_are_known() -> None:
    found = given_frequencies(SPACE, {"round": 0.3, "colour": {"red": 2, "green": 1, "blue": 1}}, 100)
    np.testing.assert_allclose(found.share, [0.3, 0.5, 0.25, 0.25, 0.5], rtol=1e-6)
    np.testing.assert_allclose(found.error, 0.5 * np.sqrt(found.share * (1 - found.share) / 100), rtol=1e-6)


# ---- alignment ----


def theta_by_group(balance: Balance, z: torch.Tensor) -> list[torch.Tensor]:
    return [v.softmax(-1) for v in balance.blocks.logits(z)]


@pytest.mark.parametrize("space", ["classes", "binaries", "mix"])
def test_alignment_multiplies_by_target_over_running_mean(space: str) -> None:
    """Berthelot et al. (2020), Eq. 1: normalise(q · p(y) / p̃(y)), p̃ a running mean of predictions."""
    s = SPACES[space]
    target = torch.linspace(0.2, 0.8, s.width)
    balance = Balance(s, target, momentum=0.0)
    z = logits_of(s, 50).float()
    torch.testing.assert_close(balance.aligned(z), z, rtol=1e-5, atol=1e-5)  # the running mean starts at the target
    balance.move(theta_by_group(balance, z), z[:0])  # with momentum 0 the mean is now that of the batch
    moved = balance.aligned(z)
    for variable, (start, stop) in zip(s.variables, s.spans):
        if variable.binary:
            theta, aligned = z[:, start].sigmoid(), moved[:, start].sigmoid()
            odds = theta / (1 - theta) * target[start] / (1 - target[start]) / (theta.mean() / (1 - theta.mean()))
            torch.testing.assert_close(aligned / (1 - aligned), odds, rtol=1e-3, atol=1e-4)
        else:
            theta = z[:, start:stop].softmax(-1)
            expected = theta * target[start:stop] / target[start:stop].sum() / theta.mean(0)
            expected = expected / expected.sum(-1, keepdim=True)
            torch.testing.assert_close(moved[:, start:stop].softmax(-1), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.4}])
def test_the_running_mean_and_learned_frequencies_move_by_what_momentum_leaves(options: dict[str, float]) -> None:
    space, kept = SPACES["mix"], options.get("momentum", 0.99)
    balance = Balance(space, **options)
    start, z = balance.target.clone(), logits_of(space, 6).float()
    y = torch.from_numpy(space.encode([{"legs": 1, "a": "x", "fins": 0, "b": "v", "c": "r"}] * 2)).float()
    theta = torch.cat([v.flatten(-2) for v in theta_by_group(balance, z)], -1).mean(0)
    seen = torch.cat([a.flatten(-2) for a in balance.blocks.allowed(y)], -1)[0].float()
    assert seen.sum() == len(space.variables)
    balance.move(theta_by_group(balance, z), y)
    torch.testing.assert_close(balance.mean, kept * start + (1 - kept) * theta)
    torch.testing.assert_close(balance.target, kept * start + (1 - kept) * seen)
    before = balance.mean.clone(), balance.target.clone()
    balance.move(theta_by_group(balance, z[:0]), y[:0])
    assert torch.equal(balance.mean, before[0])
    assert torch.equal(balance.target, before[1])
    given = Balance(space, torch.linspace(0.2, 0.8, space.width))
    fixed = given.target.clone()
    given.move(theta_by_group(given, z), y)
    assert torch.equal(given.target, fixed)  # what is given stays


def test_frequencies_are_learned_of_each_variable_where_it_is_known() -> None:
    space = LabelSpace("flag\ncolour: {red, green, blue}")
    balance = Balance(space, momentum=0.5)
    y = torch.tensor([[1.0, 0, 1, 0], [NAN, 0, 0, 1], [1.0, NAN, NAN, NAN]])
    balance.move(theta_by_group(balance, torch.zeros(0, 4)), y)
    assert balance.target.tolist() == pytest.approx([0.25, 0.75, 1 / 6, 1 / 6 + 0.25, 1 / 6 + 0.25])
    balance.move(theta_by_group(balance, torch.zeros(0, 4)), y[2:])  # the colour is not known here
    assert balance.target.tolist() == pytest.approx([0.125, 0.875, 1 / 6, 1 / 6 + 0.25, 1 / 6 + 0.25])


def test_an_own_loop_learns_frequencies_from_the_labels_it_is_shown() -> None:
    space = LabelSpace.classes(["a", "b"])
    objective = Objective(space, None, balance=1.0)
    y = torch.tensor([0, 0, 0, -1])
    for _ in range(300):
        objective(torch.zeros(4, 2), y)
    assert objective.balance.target.tolist() == pytest.approx([1, 0], abs=0.05)
    objective.eval()
    before = objective.balance.target.clone()
    objective(torch.zeros(1, 2), torch.tensor([1]))
    assert torch.equal(objective.balance.target, before)


def test_collapse_by_variable():
    space = SPACES["mix"]
    labels = torch.from_numpy(space.encode([{"legs": i % 2, "a": "xyz"[i % 3], "b": "u"} for i in range(6)]))
    found = collapse(space, torch.zeros(4, space.width), labels)
    expected = [math.log(len(v.values)) for v in space.variables]
    np.testing.assert_allclose(found.predicted, expected, rtol=1e-6)
    np.testing.assert_allclose(found.labelled, [math.log(2), math.log(3), 0, 0, 0], atol=1e-6)


def test_collapse_of_mixtures_is_that_of_their_mean():
    space, labels = SPACES["mix"], torch.zeros(0, SPACES["mix"].width)
    a, b = torch.full((4, space.width), 9.0), torch.full((4, space.width), -9.0)
    a[:, 1] = b[:, 1] = 30.0
    found = collapse(space, torch.cat([a, b, torch.zeros(4, 2)], 1), labels, components=2).predicted
    np.testing.assert_allclose(found[:2], [math.log(2), 0], atol=1e-3)  # one half each; sure in both


def test_frequencies_count_labels_by_their_weight() -> None:
    space = LabelSpace("kind: {a, b, c}\nbig")
    y = space.encode([["a", 1], ["b", 0], ["c", 1], ["a", None], [None, 0]])
    times = np.array([7, 2, 3, 11, 5])
    found, repeated = frequencies(space, y, 100, times.astype(float)), frequencies(space, y.repeat(times, axis=0), 100)
    np.testing.assert_allclose(found.share, repeated.share)
    np.testing.assert_allclose(found.error, repeated.error)
    light = frequencies(space, np.concatenate([y, y[:1]]), 100, np.array([*times, 1e-9]))
    np.testing.assert_allclose(light.share, repeated.share)
    assert np.abs(frequencies(space, y, 100).share - repeated.share).max() > 0.01


def test_running_means_count_rows_by_their_weight() -> None:
    theta, y = torch.tensor([[0.9, 0.1], [0.2, 0.8]])[:, None], torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    times = torch.tensor([3, 1])
    space = LabelSpace.classes(["cat", "dog"])
    weighted, repeated, plain = Balance(space), Balance(space), Balance(space)
    weighted.move([theta], y, times.float(), times.float())
    repeated.move([theta.repeat_interleave(times, 0)], y.repeat_interleave(times, 0))
    plain.move([theta], y)
    for name in ("mean", "target"):
        torch.testing.assert_close(getattr(weighted, name), getattr(repeated, name))
        assert not torch.allclose(getattr(weighted, name), getattr(plain, name))
