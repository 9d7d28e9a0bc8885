"""The Γ form of the ladder network, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from dssl.data.rows import ArrayData
from dssl.logic.space import LabelSpace
from dssl.training.objective import Objective
from dssl.training.terms.denoising import Ladder, _noise
from training.looks import look_at

THREE = LabelSpace.classes(["a", "b", "c"])
X = torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0], [1.0, 1.0, 0.0]], dtype=torch.float64)


def prepared(term: Ladder, network: nn.Module) -> Ladder:
    term.prepare(THREE, network, ArrayData(X.numpy(), np.full((4, 3), np.nan)))
    return term


def test_without_noise_the_clean_pass_is_found_again() -> None:
    """g starts as the identity of z̃, so without noise nothing is left to remove."""
    network = nn.Linear(3, 3, dtype=torch.float64)
    found = prepared(Ladder(noise=0.0), network)(look_at(THREE, X, network=network))
    torch.testing.assert_close(found, torch.zeros(4, dtype=torch.float64))


def test_labels_are_learned_by_the_noisy_pass() -> None:
    network = nn.Linear(3, 3, dtype=torch.float64)
    y = torch.full((4, 3), torch.nan, dtype=torch.float64)
    y[0] = torch.tensor([1.0, 0.0, 0.0])
    found = prepared(Ladder(noise=0.0), network)(look_at(THREE, X, y, network=network))
    torch.testing.assert_close(found[0], -network(X).log_softmax(-1)[0, 0])
    assert found[1:].abs().max() < 1e-12


def test_the_loss_by_hand() -> None:
    """Two rows of one binary column: z̃ = z + noise, g(z̃, u) = (z̃ − μ(u)) υ(u) + μ(u) with known parameters."""
    space, network = LabelSpace("flag"), nn.Identity()
    x = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    term = Ladder(noise=0.5)
    term.prepare(space, network, ArrayData(x.numpy(), np.full((2, 1), np.nan)))
    curves = torch.tensor([[[0.3], [2.0], [-0.1], [0.4], [0.2]], [[0.1], [1.5], [0.2], [-0.3], [0.9]]])
    with torch.no_grad():
        assert term.curves is not None
        term.curves.copy_(curves)
    torch.manual_seed(7)
    found = term(look_at(space, x, network=network))  # the identity has no layer, so the noise at the top is all
    torch.manual_seed(7)
    drawn = 0.5 * torch.randn(2, 1, dtype=torch.float64)
    for i in range(2):
        z = float(x[i])  # mean 0 and variance 1 already
        theta = [1 / (1 + math.exp(1)), 1 / (1 + math.exp(-1))]
        u = (theta[i] - 0.5) / (theta[1] - 0.5)
        mean, scale = (
            a[0] / (1 + math.exp(-(a[1] * u + a[2]))) + a[3] * u + a[4] for a in curves[:, :, 0].double().tolist()
        )
        expected = (z - (z + float(drawn[i]) - mean) * scale - mean) ** 2
        assert found[i].item() == pytest.approx(expected, rel=1e-4)


def test_noise_is_relative_to_what_enters_a_layer_and_gone_afterwards() -> None:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.ones_(layer.weight)
    x = torch.full((20_000, 1), 4.0)
    with _noise(layer, 0.25):
        assert (layer(x) - x).std().item() == pytest.approx(1.0, rel=0.03)
    assert torch.equal(layer(x), x)


def test_gradients_reach_the_network_and_the_denoiser() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)).double()
    term = prepared(Ladder(), network).double()
    term(look_at(THREE, X, network=network)).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters() if p.ndim > 1)
    assert term.curves is not None
    assert term.curves.grad is not None
    assert term.curves.grad.abs().sum() > 0


def test_it_must_have_seen_the_data() -> None:
    look = look_at(THREE, X)
    with pytest.raises(ValueError, match=r"Call objective\.prepare"):
        Ladder()(look)


def test_the_objective_takes_it_in_place_of_the_likelihood() -> None:
    network = nn.Linear(3, 3)
    objective = Objective(THREE, None, consistency=Ladder(noise=0.0))
    objective.prepare(network, ArrayData(X.numpy(), np.full((4, 3), np.nan)))
    y = torch.full((4, 3), torch.nan)
    y[0] = torch.tensor([0.0, 1.0, 0.0])
    x = X.float()
    loss = objective(network(x), y, x=x, network=network)
    torch.testing.assert_close(loss.parts["supervised"], -network(x).log_softmax(-1)[0, 1] / 4)
