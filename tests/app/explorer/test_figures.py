"""The figures' numbers: the priors' own on the triangle, and MATH §6 for two Gaussians."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.app.explorer.figures import gaussians, triangle, triangle_grid
from dssl.app.explorer.spaces import Malformed


def by_hand(prior: str, theta: list[float], power: float) -> float:
    """log q of one point, as MATH §2 has it."""
    return {
        "entropy": sum(t * math.log(t) for t in theta),
        "exclusivity": oracle.exclusivity(np.array(theta)),
        "pseudo-label": math.log(max(theta)),
        "deterministic": math.log(sum(t**power for t in theta)),
    }[prior]


@pytest.mark.parametrize("prior", ["entropy", "exclusivity", "pseudo-label", "deterministic"])
def test_log_q_on_the_triangle(prior: str) -> None:
    said = triangle({"prior": prior, "power": 4.0, "steps": 9})
    grid = triangle_grid(9, 1e-3).tolist()
    assert len(said["log_q"]) == len(grid) == 55
    assert said["log_q"] == pytest.approx([by_hand(prior, theta, 4.0) for theta in grid], abs=2e-6)


def test_the_grid_goes_row_by_row_from_the_third_corner() -> None:
    grid = triangle_grid(2, 0.0)
    expected = [[0, 0, 1], [0, 0.5, 0.5], [0, 1, 0], [0.5, 0, 0.5], [0.5, 0.5, 0], [1, 0, 0]]
    assert grid.tolist() == expected


@pytest.mark.parametrize("prior", ["entropy", "deterministic"])
def test_arrows_are_the_gradient_within_the_plane(prior: str) -> None:
    for *theta, a, b, c in triangle({"prior": prior, "power": 3.0})["arrows"][::7]:
        assert a + b + c == pytest.approx(0, abs=1e-9)
        along, h = np.array([1.0, -1.0, 0.0]), 1e-6
        up, down = (by_hand(prior, (np.array(theta) + s * h * along).tolist(), 3.0) for s in (1, -1))
        assert a - b == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    "wrong", [{"prior": "best"}, {"prior": 3}, {"steps": 2}, {"steps": 1000}, {"steps": 9.5}, {"power": -1}]
)
def test_triangles_outside_their_bounds_are_malformed(wrong: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        triangle(wrong)


# ---- two Gaussians ----

figures = st.fixed_dictionaries(
    {"separation": st.floats(0.3, 6), "variance": st.floats(0.2, 4), "pi": st.floats(0.05, 0.95)}
)


@settings(max_examples=25, deadline=None)
@given(figures)
def test_two_gaussians_by_hand(request: dict[str, float]) -> None:
    said = gaussians(request)
    d, variance, pi = request["separation"], request["variance"], request["pi"]
    assert said["s"] == pytest.approx(d * d / variance)
    for i in (0, 40, 80, 120, 160):
        x = said["x"][i]
        joint = [
            p * math.exp(-((x - m) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
            for p, m in ((1 - pi, -d / 2), (pi, d / 2))
        ]
        assert [said["joint"][k][i] for k in (0, 1)] == pytest.approx(joint, rel=1e-6, abs=1e-12)
        assert said["posterior"][i] == pytest.approx(joint[1] / sum(joint), rel=1e-6, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(figures)
def test_bars_hold_all_the_mass_and_theta_splits_it(request: dict[str, float]) -> None:
    said = gaussians(request)
    zero, one = np.array(said["bins"])
    assert zero.mean() == pytest.approx(1 - request["pi"], abs=1e-3)
    assert one.mean() == pytest.approx(request["pi"], abs=1e-3)
    theta, density = np.array(said["theta"]), np.array(said["density"])
    assert density[1] == pytest.approx(theta * density.sum(0), rel=1e-4)  # p(θ, 1) = θ p(θ)


def test_bars_agree_with_the_closed_form_and_with_a_histogram() -> None:
    said = gaussians({"separation": 2.0, "variance": 1.0, "pi": 0.3})
    bars = np.array(said["bins"]).sum(0)
    middle = np.interp((np.arange(50) + 0.5) / 50, said["theta"], np.array(said["density"]).sum(0))
    assert bars[5:45] == pytest.approx(middle[5:45], rel=0.03)
    random = np.random.default_rng(0)
    y = random.random(200_000) < 0.3
    x = random.normal(size=200_000) + np.where(y, 1.0, -1.0)
    theta = 1 / (1 + np.exp(-(2 * x + math.log(0.3 / 0.7))))
    counts = np.histogram(theta, bins=10, range=(0, 1), density=True)[0]
    assert bars.reshape(10, 5).mean(1) == pytest.approx(counts, rel=0.05)


@pytest.mark.parametrize("wrong", [{"separation": 0}, {"variance": 0}, {"pi": 1}, {"pi": "a"}, {"variance": 1e9}])
def test_gaussians_outside_their_bounds_are_malformed(wrong: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        gaussians(wrong)


def test_figures_leave_torch_as_it_was() -> None:
    before = torch.get_default_dtype()
    gaussians({})
    triangle({})
    assert torch.get_default_dtype() == before
