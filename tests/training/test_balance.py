"""The balance term: KL of label frequencies from the mean prediction."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dssl import LabelSpace
from dssl.priors import DeterministicPrior
from dssl.training.balance import Balanced, Frequencies, frequencies
from dssl.training.objective import Objective, linear_ramp

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
    loss = Balanced(Objective(SPACE, None), EXACT, weight=0.5)(logits, y, sample_weight=weight)
    mean = (theta_of(logits)[1:] * (weight[1:] / 8)[:, None]).sum(0)
    assert float(loss.parts["balance"]) == pytest.approx(0.5 * divergence(mean.numpy(), TARGET), rel=1e-5)
    assert float(loss.total) == pytest.approx(sum(float(part) for part in loss.parts.values()), rel=1e-6)


def test_it_vanishes_where_predictions_are_balanced_or_all_rows_are_labelled() -> None:
    space = LabelSpace.classes(["a", "b"])
    balanced = Balanced(Objective(space, None), HALF, weight=1.0)
    assert float(balanced(torch.tensor([[3.0, 0], [0, 3.0]]), torch.tensor([-1, -1])).parts["balance"]) < 1e-6
    assert float(balanced(torch.tensor([[3.0, 0]]), torch.tensor([0])).parts["balance"]) == 0


def test_the_ramp_applies_and_gradients_stay_finite() -> None:
    space = LabelSpace.classes(["a", "b"])
    objective = Objective(space, DeterministicPrior(space), ramp=linear_ramp(4))
    balanced = Balanced(objective, HALF, weight=1.0)
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
    balanced = Balanced(Objective(space, None), target, weight=1.0)

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
