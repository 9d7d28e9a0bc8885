"""The bound of the autoencoder against its formula, and against log p(x, y) where that is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dssl.training.terms.autoencoder import Autoencoder


def made(example: torch.Tensor, labels: torch.Tensor | None = None) -> Autoencoder:
    torch.manual_seed(0)
    return Autoencoder(torch.eye(3) if labels is None else labels, example, latent=2, hidden=5)


def test_the_bound_by_hand() -> None:
    """One row and one draw, every part written out in numpy (Kingma et al. 2014, Eq. 6)."""
    example = torch.tensor([[0.0, 3.0], [2.0, 5.0], [4.0, 1.0]])
    model = made(example).double()
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    torch.manual_seed(1)
    found = model(x)[0]
    torch.manual_seed(1)
    drawn = torch.randn(1, 3, 2, dtype=torch.float64)[0].numpy()
    w = {name: p.detach().numpy() for name, p in model.named_parameters()}
    mean, std = example.numpy().mean(0), example.numpy().std(0)
    seen = (x.numpy()[0] - mean) / std
    for k in range(3):
        h = np.maximum(0, w["see.weight"] @ seen + w["see.bias"] + w["told.weight"][:, k])
        m, v = np.split(w["encode.1.weight"] @ h + w["encode.1.bias"], 2)
        z = m + drawn[k] * np.exp(v / 2)
        g = np.maximum(0, w["imagine.weight"] @ z + w["imagine.bias"] + w["asked.weight"][:, k])
        out = w["decode.1.weight"] @ g + w["decode.1.bias"]
        log_density = -0.5 * ((seen - out) ** 2 + math.log(2 * math.pi)).sum()  # variances start at 1
        away = 0.5 * (m**2 + np.exp(v) - 1 - v).sum()
        assert found[k].item() == pytest.approx(away - log_density + math.log(3), rel=1e-5)


def test_pixels_are_bernoulli() -> None:
    example = torch.rand(10, 4)
    model = made(example)
    assert model.pixels
    assert not made(example * 2).pixels
    x, out = example[:1], torch.zeros(1, 3, 4)
    torch.testing.assert_close(model._log_density(x, out), torch.full((1, 3), 4 * math.log(0.5)))


def test_it_bounds_the_truth() -> None:
    """A linear decoder gives log p(x | y) in closed form; the mean bound over many draws is above −log p(x, y)."""
    example = torch.tensor([[-1.0], [1.0]])
    model = made(example, torch.eye(2)).double()
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        # one hidden unit that is never off passes z on: x given y, z is N(z₁ ± 1/2, 1)
        model.imagine.weight[0, 0] = 1.0
        model.imagine.bias[0] = 100.0
        model.asked.weight[0] = torch.tensor([-0.5, 0.5])
        model.decode[1].weight[0, 0] = 1.0
        model.decode[1].bias[0] = -100.0
    x = torch.full((4000, 1), 0.7, dtype=torch.float64)
    bound = model(x).mean(0)
    for k, at in enumerate((-0.5, 0.5)):
        truth = 0.5 * math.log(2 * math.pi * 2) + (0.7 - at) ** 2 / (2 * 2) + math.log(2)
        assert bound[k].item() > truth - 0.05


def test_latents_have_a_mean_per_label() -> None:
    mean, log_variance = made(torch.rand(6, 4))(torch.rand(6, 4)), None
    assert mean.shape == (6, 3)
    mean, log_variance = made(torch.rand(6, 4)).latents(torch.rand(6, 4))
    assert mean.shape == log_variance.shape == (6, 3, 2)
