"""What answers beside a network: machines, two of them together, and the blend of all."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dssl import LabelSpace
from dssl.models.auto.beside import Blended, Machine, Together
from dssl.models.auto.ridge import RidgeModel

SPACE = LabelSpace("kind: 0..2\nbig, red\nkind = 0 -> big")


class Steady(Machine):
    """The same moves for every row."""

    def __init__(self, moves: list[float]) -> None:
        super().__init__(SPACE)
        self.same = torch.tensor(moves, dtype=torch.float64)

    def moves(self, x: Tensor) -> Tensor:
        return self.same.expand(len(x), -1)


def test_predictions_well_inside_are_told_as_they_are() -> None:
    mean = np.array([0.5, 0.3, 0.2, 0.6, 0.5])
    machine = Steady([0.2, -0.1, -0.1, 0.3, -0.2]).told(mean=mean, bend=1e-3, power=1.0)
    z = machine(torch.zeros(2, 1))
    torch.testing.assert_close(z[:, :3].softmax(1), torch.tensor([[0.7, 0.2, 0.1]] * 2), atol=1e-4, rtol=0)
    torch.testing.assert_close(z[:, 3:].sigmoid(), torch.tensor([[0.9, 0.3]] * 2), atol=1e-4, rtol=0)
    sharper = Steady([0.2, -0.1, -0.1, 0.3, -0.2]).told(mean=mean, bend=1e-3, power=2.0)
    torch.testing.assert_close(sharper(torch.zeros(2, 1)), 2 * z)


def test_predictions_outside_are_bent_to_finite_logits() -> None:
    for far in (3.0, 1e4):
        z = Steady([far, -far, 0.0, far, -far])(torch.zeros(1, 1))
        assert z.isfinite().all()
        assert z[0, 0] > z[0, 2] > z[0, 1]
        assert z[0, 3] > 0 > z[0, 4]


def test_both_together_say_the_mean() -> None:
    one, other = Steady([0.1, 0.2, -0.3, 0.1, 0.2]), Steady([-0.2, 0.3, -0.1, 0.3, -0.4])
    x = torch.zeros(3, 1)
    torch.testing.assert_close(Together(one, other)(x), (one(x) + other(x)) / 2)


def test_a_blend_is_the_network_in_training_and_both_afterwards() -> None:
    network, machine = nn.Linear(5, SPACE.width), RidgeModel(SPACE, "wide", 4, 5)
    machine.told(marks=np.ones((4, 5)), coefficients=np.full((4, SPACE.width), 0.1))
    blend, x = Blended(network, machine, torch.ones(SPACE.width), (0.5, 2.0)), torch.randn(3, 5)
    assert torch.equal(blend.train()(x), network(x))
    torch.testing.assert_close(blend.eval()(x), 1 + 0.5 * (network(x) - 1) + 2 * (machine(x) - 1))
