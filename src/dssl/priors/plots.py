"""Priors as pictures: q, log q and their gradients, and how rules shape them.

| space | picture |
|---|---|
| three classes | heat maps on the triangle, with arrows up log q |
| two or three attributes | the paper's Fig. 6: F, the rules R, V with its support s_R, and q_R |
| any other | curves of q and log q along each variable, and their derivatives (Fig. 3) |
| a `GaussianPrior` | classes, θ(x) and p(θ) with its components (Fig. 4) |

Every function returns a matplotlib Figure of its own, which shows itself in a notebook and has `savefig`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dssl.errors import DataError
from dssl.priors.gaussian import GaussianPrior
from dssl.priors.prior import Prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_VALID, _INVALID, _MAP = "#0072b2", "#b0b0b0", "viridis"
_DEPTH = 12.0  # log q further than this below its maximum is cut off
_SHOWN = 6  # variables with a curve of their own


def plot(prior: Prior, **options: Any) -> Figure:
    """The picture that suits the prior's space; see the module's docstring."""
    variables = prior.space.variables
    if isinstance(prior, GaussianPrior):
        return stochastic(prior, **options)
    if len(variables) == 1 and len(variables[0].values) == 3:
        return triangle(prior, **options)
    if len(variables) in (2, 3) and all(variable.binary for variable in variables):
        return rules(prior, **options)
    return curves([prior], **options)


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install matplotlib") from None
    return Figure(figsize=(width, height), layout="constrained", dpi=150)


# ---- q as a function of θ ----


def _evaluate(prior: Prior, theta: Tensor) -> tuple[Tensor, Tensor]:
    """log q at θ (n, width) inside the space, and its gradient with respect to θ, (n, width)."""
    theta = theta.clone().requires_grad_()
    binary = torch.tensor([variable.binary for variable in prior.space.variables for _ in variable.columns])
    logits = torch.where(binary, theta.logit(), theta.log())
    log_q = prior.log_prob(logits)
    (gradient,) = torch.autograd.grad(log_q.sum(), theta)
    return log_q.detach(), gradient


def _name(prior: Prior) -> str:
    name = type(prior).__name__.removesuffix("Prior")
    power = getattr(prior, "power", None)
    logic = getattr(prior, "logic", None)
    return name + (f", T = {float(power):g}" if power is not None else "") + (f", {logic}" if logic else "")


# ---- curves (Fig. 3) ----


def curves(priors: Sequence[Prior], points: int = 401) -> Figure:
    """q, log q and their derivatives along θ of each variable's first value, for one prior or several of one space.

    The variable's other values share the rest equally, and other variables are at their middle.
    """
    space = priors[0].space
    if any(prior.space != space for prior in priors):
        raise DataError("priors of different spaces cannot share curves\nPlot each with prior.plot().")
    shown = space.variables[:_SHOWN]
    figure = _figure(8, 5.5)
    axes = figure.subplots(2, 2, sharex=True)
    t = torch.linspace(0, 1, points + 2, dtype=torch.float64)[1:-1]
    many = len(priors) > 1
    for i, variable in enumerate(shown):
        theta, direction = _line(priors[0], i, t)
        for j, prior in enumerate(priors):
            log_q, gradient = _evaluate(prior, theta)
            slope, q = (gradient * direction).sum(-1), log_q.exp()
            label = _name(prior) if many else variable.columns[-1 if variable.binary else 0]
            style = {"color": _COLOURS[(j if many else i) % len(_COLOURS)], "linewidth": 1.8}
            style |= {"linestyle": ("-", "--", ":", "-.")[i % 4]}
            for ax, y in zip(axes.flat, (q, log_q, q * slope, slope)):
                ax.plot(t, y, label=label if i == 0 or not many else None, **style)
    for ax, title in zip(axes.flat, ("q(θ)", "log q(θ)", "dq / dθ", "d log q / dθ")):
        _tidy(ax, title)
    _limit(axes[0, 1], depth=_DEPTH)
    for ax in axes[1]:
        _limit(ax)
        ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        ax.set_xlabel("θ")
    if many or len(shown) > 1:
        handles = axes[0, 0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=len(handles[0]), frameon=False, fontsize=9)
    figure.suptitle(_name(priors[0]) if not many else "Relaxations of the prior", fontsize=12)
    return figure


def _line(prior: Prior, i: int, t: Tensor) -> tuple[Tensor, Tensor]:
    """θ (points, width) as variable i's first value (true, if binary) takes the values t, and dθ/dt (width,)."""
    theta, direction = (
        torch.empty(len(t), prior.space.width, dtype=t.dtype),
        torch.zeros(prior.space.width, dtype=t.dtype),
    )
    for j, (variable, (start, stop)) in enumerate(zip(prior.space.variables, prior.space.spans)):
        size = len(variable.values)
        theta[:, start:stop] = 1 / size
        if j == i:
            theta[:, start] = t
            direction[start] = 1
            if size > 1 and not variable.binary:
                theta[:, start + 1 : stop] = ((1 - t) / (size - 1)).unsqueeze(-1)
                direction[start + 1 : stop] = -1 / (size - 1)
    return theta, direction


def _tidy(ax: Axes, title: str) -> None:
    ax.set_title(title, fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=9)
    ax.set_xlim(0, 1)


def _limit(ax: Axes, depth: float = math.inf) -> None:
    """Limits that leave out the poles at θ = 0 and 1, and what lies deep below the maximum."""
    y = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in ax.lines])
    low, high = np.quantile(y, [0.02, 0.98])
    low = max(low, high - depth)
    margin = 0.08 * max(high - low, 1e-3)
    ax.set_ylim(low - margin, high + margin)


# ---- three classes ----


def triangle(prior: Prior, steps: int = 60) -> Figure:
    """Heat maps of q and log q over the triangle of three classes; arrows point up log q."""
    figure = _figure(9, 4)
    theta = _barycentric(steps, edge=1e-3)
    log_q, _ = _evaluate(prior, theta)
    corners = np.array([[0, 0], [1, 0], [0.5, math.sqrt(3) / 2]])
    arrows = _barycentric(12, edge=0.06)
    flow = _evaluate(prior, arrows)[1]
    flow = flow - flow.mean(-1, keepdim=True)  # the part within the plane Σ θ = 1
    for ax, values, title in zip(
        figure.subplots(1, 2), (log_q.exp(), log_q.clamp_min(log_q.max() - _DEPTH)), ("q(θ)", "log q(θ)")
    ):
        image = ax.tripcolor(*(theta.numpy() @ corners).T, values.numpy(), shading="gouraud", cmap=_MAP)
        figure.colorbar(image, ax=ax, shrink=0.75)
        _arrows(ax, arrows.numpy() @ corners, flow.numpy() @ corners)
        ax.plot(*np.vstack([corners, corners[:1]]).T, color="0.3", linewidth=1)
        for corner, name, place in zip(corners, prior.space.columns, ("top", "top", "bottom")):
            ax.annotate(
                name, corner, (0, 6 if place == "bottom" else -6), textcoords="offset points", ha="center", va=place
            )
        ax.set(aspect="equal", title=title, xlim=(-0.08, 1.08), ylim=(-0.12, 1.0))
        ax.axis("off")
    figure.suptitle(_name(prior), fontsize=12)
    return figure


def _barycentric(steps: int, edge: float) -> Tensor:
    """Points of the triangle, (n, 3), no closer to its edges than `edge`."""
    rows = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    return torch.tensor(rows, dtype=torch.float64) / steps * (1 - 3 * edge) + edge


def _arrows(ax: Axes, places: Any, flow: Any) -> None:
    """Arrows along the gradient, all of one length but where it nearly vanishes."""
    size = np.linalg.norm(flow, axis=-1, keepdims=True)
    flow = flow / np.maximum(size, max(0.3 * np.median(size), 1e-12))
    ax.quiver(*places.T, *flow.T, color="white", alpha=0.85, width=0.005, scale=22, pivot="mid")


# ---- two or three attributes (Fig. 6) ----


def rules(prior: Prior, steps: int = 61) -> Figure:
    """F, the rules R, the valid labels V that they leave with their support s_R, and the relaxation q_R."""
    space = prior.space
    flat = len(space.variables) == 2
    figure = _figure(12, 3.3) if flat else _figure(13, 3.7)
    kind: dict[str, Any] = {} if flat else {"projection": "3d"}
    look: dict[str, Any] = {"s": 110, "linewidths": 1.5, "zorder": 5, "clip_on": False}
    look |= {} if flat else {"depthshade": False}
    grid = figure.add_gridspec(1, 4, width_ratios=(1, 0.9, 1, 1.25))
    places = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * len(space.variables)).numpy()  # (vertices, variables)
    valid = ~space.check(places).invalid
    for column, title, mask in (
        (0, "F: feasible labels", np.ones(len(places), bool)),
        (2, "V and its support $s_R$", valid),
    ):
        ax = figure.add_subplot(grid[column], **kind)
        _cube(ax, prior, title)
        colours = [_VALID if on else "white" for on in mask]
        edges = [_VALID if on else _INVALID for on in mask]
        ax.scatter(*places.T, c=colours, edgecolors=edges, **look)
        if column:
            for place, on in zip(0.13 + 0.74 * places, mask):
                colour = _VALID if on else "0.5"
                ax.text(*place, "∞" if on else "0", color=colour, fontsize=13, ha="center", va="center", zorder=6)
    ax = figure.add_subplot(grid[1])
    ax.set_aspect("equal")
    ax.axis("off")
    ax.set_title("R: rules", fontsize=11)
    text = "\n".join(rule.text for rule in space.rules) or "none"
    ax.text(0.5, 0.5, text, ha="center", va="center", family="monospace", fontsize=10, wrap=True)
    ax = figure.add_subplot(grid[3], **kind)
    _cube(ax, prior, f"$q_R$: {_name(prior)}")
    image = _square_map(ax, prior, steps) if flat else _cube_map(ax, prior)
    figure.colorbar(image, ax=ax, shrink=0.8, pad=0.04 if flat else 0.14)
    return figure


def _cube(ax: Any, prior: Prior, title: str) -> None:
    """The unit square or cube with the names of its sides."""
    names = prior.space.columns
    ax.set_title(title, fontsize=11)
    for axis, name in zip("xyz", names):
        getattr(ax, f"set_{axis}label")(f"θ({name})", fontsize=9)
        getattr(ax, f"set_{axis}lim")(0, 1)
        getattr(ax, f"set_{axis}ticks")([0, 1])
    if len(names) == 2:
        ax.set_aspect("equal")
        ax.spines[:].set_color("0.6")
        return
    ax.view_init(elev=20, azim=-65)
    ax.grid(False)
    for a in np.ndindex(2, 2, 2):
        for i in range(3):
            b = list(a)
            b[i] = 1
            ax.plot(*zip(a, b), color="0.6", linewidth=1)


def _square_map(ax: Axes, prior: Prior, steps: int) -> Any:
    side = torch.linspace(1e-3, 1 - 1e-3, steps, dtype=torch.float64)
    q = _evaluate(prior, torch.cartesian_prod(side, side))[0].exp().reshape(steps, steps)
    image = ax.pcolormesh(side.numpy(), side.numpy(), q.T.numpy(), shading="gouraud", cmap=_MAP, rasterized=True)
    coarse = torch.linspace(0.06, 0.94, 9, dtype=torch.float64)
    places = torch.cartesian_prod(coarse, coarse)
    _arrows(ax, places.numpy(), _evaluate(prior, places)[1].numpy())
    return image


def _cube_map(ax: Any, prior: Prior) -> Any:
    """Dots whose size and opacity grow with q: valid corners stand out."""
    side = torch.linspace(0.02, 0.98, 13, dtype=torch.float64)
    places = torch.cartesian_prod(side, side, side)
    q = _evaluate(prior, places)[0].exp()
    share = (q / q.max()).numpy()
    look = {"s": 2 + 110 * share, "alpha": np.clip(share, 0.06, 0.9), "cmap": _MAP, "linewidths": 0}
    return ax.scatter(*places.T.numpy(), c=q.numpy(), depthshade=False, clip_on=False, **look)


# ---- overlapping classes (Fig. 4) ----


def stochastic(prior: GaussianPrior, points: int = 600) -> Figure:
    """The classes p(x | y), θ(x) and p(θ) with its components."""
    figure = _figure(11, 3.4)
    left, middle, right = figure.subplots(1, 3)
    sigma = prior.variance.sqrt().item()
    means, pi = prior.means.double(), prior.weights.double()
    x = torch.linspace(float(means.min()) - 4 * sigma, float(means.max()) + 4 * sigma, points, dtype=torch.float64)
    log_joint = pi.log() - 0.5 * ((x.unsqueeze(-1) - means) / sigma) ** 2
    density = log_joint.exp() / (sigma * math.sqrt(2 * math.pi))  # (points, 2)
    theta = torch.linspace(0, 1, points + 2, dtype=torch.float64)[1:-1]
    parts = prior.components(theta)
    for k in (0, 1):
        left.fill_between(x, density[:, k], color=_COLOURS[k], alpha=0.35, label=f"p(x, y={k})")
        right.fill_between(theta, parts[:, k], color=_COLOURS[k], alpha=0.35, label=f"p(θ, y={k})")
    left.plot(x, density.sum(-1), color="0.2", linewidth=1.5, label="p(x)")
    right.plot(theta, parts.sum(-1), color="0.2", linewidth=1.5, label="p(θ)")
    middle.plot(x, log_joint.softmax(-1)[:, 1], color="0.2", linewidth=1.8)
    right.set_ylim(0, 1.1 * float(np.quantile(parts.sum(-1), 0.98)))
    for ax, title, label in ((left, "classes", "x"), (middle, "θ = p(y=1 | x)", "x"), (right, "p(θ)", "θ")):
        ax.set_title(title, fontsize=11)
        ax.set_xlabel(label)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in (left, right):
        ax.legend(frameon=False, fontsize=9)
    figure.suptitle(f"Two Gaussians, s = {float(prior.separation):.3g}", fontsize=12)
    return figure
