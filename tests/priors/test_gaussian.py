"""The stochastic case (MATH §6) against histograms and quadrature."""

from __future__ import annotations

import math

import pytest
import torch

from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors.gaussian import GaussianPrior, mixture_density

PRIOR = GaussianPrior((0.0, 2.0), 1.0, (0.7, 0.3)).double()
GRID = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000


def histogram(n: int, bins: int) -> torch.Tensor:
    """The density of θ(x) = p(y=1 | x) from draws of x, by Bayes' rule alone."""
    generator = torch.Generator().manual_seed(0)
    y = torch.rand(n, generator=generator) < 0.3
    x = 2.0 * y + torch.randn(n, generator=generator)
    joint = torch.stack([0.7 * torch.exp(-0.5 * x**2), 0.3 * torch.exp(-0.5 * (x - 2) ** 2)])
    return torch.histc(joint[1] / joint.sum(0), bins, 0, 1) / n * bins


def test_against_a_histogram():
    drawn = histogram(1_000_000, 20)
    assert drawn[0].item() == pytest.approx(6.85, abs=0.05)
    closed = PRIOR.density(GRID).reshape(20, -1).mean(-1)
    assert closed[0].item() == pytest.approx(6.85, abs=0.01)
    torch.testing.assert_close(closed, drawn.double(), rtol=0.05, atol=0.02)


def test_the_papers_formula_does_not_fit_though_it_integrates_to_one():
    """The twin: with the paper's b_k and c_k the density is that of other means."""
    s, odds, d = 4.0, math.log(0.3 / 0.7), 2.0
    logit = GRID.logit()
    total = 0
    for k, pi in ((0, 0.7), (1, 0.3)):
        b = (0.0, 2.0)[k] / d + (4.0 - odds) / s
        total = total + pi * torch.exp(-(logit**2) / (2 * s) + b * logit - s * b**2 / 2)
    printed = total / math.sqrt(2 * math.pi * s) / (GRID * (1 - GRID))
    assert printed.mean().item() == pytest.approx(1, abs=0.01)
    assert abs(printed[: 20_000 // 20].mean().item() - 6.85) > 1


def test_density_components_and_mass():
    p, joint = PRIOR.density(GRID), PRIOR.components(GRID)
    assert p.mean().item() == pytest.approx(1, abs=1e-3)
    torch.testing.assert_close(joint.sum(-1), p)
    torch.testing.assert_close(joint[:, 1], GRID * p)  # p(θ, y=1) = θ p(θ)
    torch.testing.assert_close(joint.mean(0), PRIOR.weights, rtol=1e-3, atol=1e-3)
    inner = slice(4000, 16_000)
    mass = PRIOR.mass(torch.tensor([0.2, 0.8], dtype=torch.float64)).diff(dim=0)
    torch.testing.assert_close(joint[inner].sum(0) / 20_000, mass[0], rtol=1e-6, atol=1e-6)
    ends = PRIOR.mass(torch.tensor([0.0, 1.0], dtype=torch.float64))
    torch.testing.assert_close(ends, torch.stack([torch.zeros(2).double(), PRIOR.weights]))


def test_log_prob_from_logits_and_evidence():
    z = torch.tensor([[-2.0], [0.0], [3.0]], dtype=torch.float64, requires_grad=True)
    theta = z.detach().sigmoid()[:, 0]
    torch.testing.assert_close(PRIOR(z).exp().detach(), PRIOR.density(theta))
    known = torch.tensor([[1.0], [0.0], [math.nan]]).double()
    parts = PRIOR.components(theta)
    expected = torch.stack([parts[0, 1], parts[1, 0], parts[2].sum()])
    torch.testing.assert_close(PRIOR(z, known).exp().detach(), expected)
    assert torch.autograd.gradcheck(PRIOR, (z,))
    classes = GaussianPrior((0.0, 2.0), 1.0, (0.7, 0.3), space=LabelSpace.classes("ab")).double()
    two = torch.cat([torch.zeros_like(z), z], -1)
    torch.testing.assert_close(classes(two + 5), PRIOR(z))
    huge = PRIOR(torch.tensor([[1e4], [-1e4]]))
    assert huge.isfinite().all()


def test_samples_follow_the_components():
    theta, y = PRIOR.sample(200_000, torch.Generator().manual_seed(0))
    for k in (0, 1):
        drawn = torch.histc(theta[y == k], 10, 0, 1) / len(theta) * 10
        torch.testing.assert_close(drawn, PRIOR.components(GRID)[:, k].reshape(10, -1).mean(-1), rtol=0.05, atol=0.02)


def expected_steps() -> torch.Tensor:
    """P(θ ≤ .01, y=k) and P(θ ≤ .99, y=k) when all of class 0 is at θ = 0 and all of class 1 at θ = 1."""
    return torch.tensor([[0.7, 0.0], [0.7, 0.0]], dtype=torch.float64)


def test_the_limit_is_the_deterministic_prior():
    near = torch.tensor([0.01, 0.99], dtype=torch.float64)
    left = [(PRIOR.mass(near) - expected_steps()).abs().max()]
    for variance in (1e-1, 1e-2):
        apart = GaussianPrior((0.0, 2.0), variance, (0.7, 0.3)).double()
        left.append((apart.mass(near) - expected_steps()).abs().max())
    assert left[0] > left[1] > left[2]
    assert left[2] < 1e-6
    limit = PRIOR.limit(power=1e4)
    theta = limit.sample(20_000, torch.Generator().manual_seed(0))
    assert ((theta < 0.01) | (theta > 0.99)).all()
    assert (theta > 0.5).float().mean().item() == pytest.approx(0.3, abs=0.02)


def test_numeric_density_of_general_mixtures():
    def gaussians(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([-0.5 * x**2, -0.5 * (x - 2) ** 2], -1)

    found = mixture_density(gaussians, (0.7, 0.3), (-9, 11), bins=20)
    closed = PRIOR.components(GRID).reshape(20, -1, 2).mean(1)
    torch.testing.assert_close(found, closed, rtol=2e-3, atol=2e-3)

    def wide_and_narrow(x: torch.Tensor) -> torch.Tensor:  # θ(x) rises and falls
        return torch.stack([-0.5 * (x / 2) ** 2 - math.log(2), -0.5 * x**2], -1)

    found = mixture_density(wide_and_narrow, (0.5, 0.5), (-20, 20), bins=10)
    assert found.sum().item() / 10 == pytest.approx(1)
    middle = (torch.arange(10) + 0.5) / 10
    share = found[1:7, 1] / found[1:7].sum(-1)  # p(θ, 1) = θ p(θ) holds whatever the mixture, up to the bin's width
    assert (share - middle[1:7]).abs().max() < 0.05
    assert found[7:].max() < 1e-9  # θ is at most 2/3

    three = mixture_density(
        lambda x: torch.stack([-0.5 * (x - m) ** 2 for m in (-3, 0, 3)], -1), (0.2, 0.5, 0.3), (-9, 9)
    )
    torch.testing.assert_close(three.mean(0), torch.tensor([0.2, 0.5, 0.3]).double(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [((0.0,), 1.0), ((1.0, 1.0), 1.0), ((0.0, 1.0), 0.0), ((0.0, 1.0), 1.0, (0.5, 0.6)), ((0.0, 1.0), 1.0, (1.0, 0.0))],
)
def test_misfits_are_refused(arguments):
    with pytest.raises(ValueError, match="needed"):
        GaussianPrior(*arguments)


def test_a_space_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="one variable with two values"):
        GaussianPrior((0.0, 1.0), 1.0, space=LabelSpace.classes("abc"))
    with pytest.raises(DataError, match="do not fit 2 weights"):
        mixture_density(lambda x: x.unsqueeze(-1), (0.5, 0.5), (0, 1))
