"""The two figures of the page: q on the triangle of three classes, and p(θ) of two Gaussians."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor

from dssl.app.explorer.beliefs import POWERS, PRIORS, number, whole
from dssl.app.explorer.spaces import Malformed
from dssl.logic.space import LabelSpace
from dssl.priors import GaussianPrior, Prior, mixture_density

EDGE = 1e-3  # θ on the triangle is no closer to its sides
ARROWS = 12  # steps between arrows
BINS, POINTS = 50, 20_001


# ---- three classes ----


def triangle(request: dict[str, Any]) -> dict[str, Any]:
    """log q on a grid of the triangle, and arrows along its gradient."""
    steps = whole(request, "steps", 4, 80, 48)
    prior = _prior(request)
    arrows = triangle_grid(ARROWS, 0.06)
    flow = _gradient(prior, arrows)
    return {
        "steps": steps,
        "log_q": _log_q(prior, triangle_grid(steps, EDGE)),
        "arrows": [[*place, *along] for place, along in zip(arrows.tolist(), flow.tolist())],
    }


def _prior(request: dict[str, Any]) -> Prior:
    name = request.get("prior", "deterministic")
    if not isinstance(name, str) or name not in PRIORS:
        raise Malformed(f"there is no prior '{str(name)[:40]}'; choose one of {', '.join(PRIORS)}")
    power = number(request, "power", *POWERS, 10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space = LabelSpace.classes(["a", "b", "c"])
        return PRIORS[name](space, **({"power": power} if name == "deterministic" else {}))


def triangle_grid(steps: int, edge: float) -> Tensor:
    """θ (n, 3) over the triangle, (i, j, steps − i − j) row by row, no closer to its sides than `edge`."""
    rows = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    return torch.tensor(rows, dtype=torch.float64) / steps * (1 - 3 * edge) + edge


def _log_q(prior: Prior, theta: Tensor) -> list[float]:
    with torch.no_grad():
        return [round(x, 6) for x in prior.log_prob(theta.log()).tolist()]


def _gradient(prior: Prior, theta: Tensor) -> Tensor:
    """∂ log q / ∂θ within the plane Σ θ = 1, (n, 3)."""
    theta = theta.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(prior.log_prob(theta.log()).sum(), theta)
    return gradient - gradient.mean(-1, keepdim=True)


# ---- two Gaussians ----


def gaussians(request: dict[str, Any]) -> dict[str, Any]:
    """p(x, y), θ(x) and p(θ, y) of two Gaussians of equal variance (MATH §6)."""
    distance = number(request, "separation", 0.1, 8.0, 2.0)
    variance = number(request, "variance", 0.05, 9.0, 1.0)
    pi = number(request, "pi", 0.01, 0.99, 0.3)
    prior = GaussianPrior((-distance / 2, distance / 2), variance, (1 - pi, pi)).double()
    means, weights = torch.tensor([[-distance / 2, distance / 2], [1 - pi, pi]], dtype=torch.float64)
    reach = distance / 2 + 4 * math.sqrt(variance)

    def log_density(x: Tensor) -> Tensor:
        return -0.5 * (x.unsqueeze(-1) - means) ** 2 / variance - 0.5 * math.log(2 * math.pi * variance)

    x = torch.linspace(-reach, reach, 161, dtype=torch.float64)
    log_joint = log_density(x) + weights.log()
    theta = torch.linspace(0.005, 0.995, 199, dtype=torch.float64)
    bars = mixture_density(log_density, (1 - pi, pi), (-2 * reach, 2 * reach), bins=BINS, points=POINTS)
    return {
        "s": distance**2 / variance,
        "x": x.tolist(),
        "joint": log_joint.exp().T.tolist(),  # p(x, y=k), one list per class
        "posterior": log_joint.softmax(-1)[:, 1].tolist(),
        "bins": bars.T.tolist(),  # p(θ, y=k), means over equal bins
        "theta": theta.tolist(),
        "density": prior.components(theta).T.tolist(),  # the same in closed form
    }
