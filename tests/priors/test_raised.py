"""Sums over labels whose own weights are raised, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import oracle
from dssl import LabelSpace
from dssl.priors.raised import log_wmc_raised
from priors.cases import RULED, SPACES, logits_of

SOFT = LabelSpace("a, b, c\na | b\n0.8 :: a -> c\n0.3 :: b\n0.99 :: a | c")


def slow(space: LabelSpace, logits: torch.Tensor, power: float) -> float:
    pos, neg = oracle.log_literals(space.variables, logits)
    soft = oracle.soft_log_weights(space.constraints)
    rows = oracle.valid_columns(space.constraints)
    return oracle.log_wmc(rows, np.append(pos, power * soft[0]), np.append(neg, power * soft[1]))


@pytest.mark.parametrize("space", [*(SPACES[name] for name in RULED), SOFT])
@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_soft_rules_are_raised(space: LabelSpace, power: float) -> None:
    z, circuit = logits_of(space, 3), space.compile()
    literals = [oracle.log_literals(space.variables, row) for row in z]
    pos, neg = (torch.from_numpy(np.stack(side)) for side in zip(*literals))
    found = log_wmc_raised(circuit, pos, neg, power)
    np.testing.assert_allclose(found, [slow(space, row, power) for row in z], rtol=1e-9)
    if power == 1:
        torch.testing.assert_close(found, circuit.log_wmc(pos, neg))


def test_the_power_has_a_gradient() -> None:
    zero = torch.zeros(SOFT.width, dtype=torch.float64)
    power = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda T: log_wmc_raised(SPACES["rules and soft rules"].compile(), *[
        torch.zeros(6, dtype=torch.float64)] * 2, T), (power,))  # fmt: skip
    assert bool(log_wmc_raised(SOFT.compile(), zero, zero, power).isfinite())


def test_an_approximation_is_refused() -> None:
    space = SPACES["rules and soft rules"]
    with pytest.raises(TypeError, match=r"cannot raise the weights.*\n.*space\.compile"):
        log_wmc_raised(space.compile(relaxation="clauses"), torch.zeros(6), torch.zeros(6), 2.0)
