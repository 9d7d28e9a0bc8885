"""A network that is taught by another model's probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dssl import LabelSpace, Objective, Predictive
from dssl.training.objective import linear_ramp
from dssl.training.terms.consistency import Taught

SPACE = LabelSpace("kind: {a, b, c}\nlegs, fins\nlegs -> !fins\nkind = a -> legs")


def loss(space: LabelSpace, logits: torch.Tensor, marginals: torch.Tensor, *, given_rules: bool) -> torch.Tensor:
    term = Taught(marginals, given_rules=given_rules)
    objective = Objective(space, None, consistency=term, mean="terms")
    y = torch.full_like(logits, torch.nan)
    network = torch.nn.Linear(1, space.width)
    x, rows = torch.zeros(len(logits), 1), torch.arange(len(logits))
    return objective(logits, y, x=x, network=network, rows=rows).parts["taught"]


@pytest.mark.parametrize("given_rules", [False, True])
def test_the_gradient_is_the_difference_of_marginals(given_rules: bool) -> None:
    logits = torch.randn(4, SPACE.width, generator=torch.Generator().manual_seed(1)).requires_grad_()
    told = torch.rand(4, SPACE.width, generator=torch.Generator().manual_seed(2))
    told[:, :3] /= told[:, :3].sum(1, keepdim=True)
    loss(SPACE, logits, told, given_rules=given_rules).backward()
    p = Predictive(logits.detach(), SPACE)
    expected = (p.marginals if given_rules else p.theta) - told
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad * 4, expected, atol=1e-5)


def test_a_taught_network_ends_at_the_teachers_marginals() -> None:
    told = Predictive(torch.randn(1, SPACE.width, generator=torch.Generator().manual_seed(3)), SPACE).marginals
    logits = torch.zeros(1, SPACE.width, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.1)
    for _ in range(400):
        optimizer.zero_grad()
        loss(SPACE, logits, told, given_rules=True).backward()
        optimizer.step()
    np.testing.assert_allclose(Predictive(logits.detach(), SPACE).marginals, told, atol=1e-3)


def test_it_counts_in_full_from_the_first_step_and_for_open_rows_only() -> None:
    space = LabelSpace("a, b")
    term = Taught(torch.full((2, 2), 0.9))
    objective = Objective(space, None, consistency=term, mean="terms", ramp=linear_ramp(100))
    y = torch.tensor([[torch.nan, torch.nan], [1.0, 0.0]])
    parts = objective(
        torch.zeros(2, 2), y, step=0, x=torch.zeros(2, 1), network=torch.nn.Linear(1, 2), rows=torch.arange(2)
    ).parts
    np.testing.assert_allclose(float(parts["taught"]), 2 * np.log(2), rtol=1e-5)
