"""The ladder network in its Γ form: noise in every layer, and its removal at the top."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dssl.data.rows import Data
from dssl.logic.space import LabelSpace
from dssl.training.terms.consistency import Consistency, Look

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_LEAST = 1e-4  # standard deviation of a column that hardly varies


class Ladder(Consistency):
    """Ladder network, Γ form (Rasmus et al. 2015, section 3 with denoising at the top layer alone).

    ‖z − g(z̃, u)‖² / width, with z the normalised logits of a clean pass, z̃ those of a noisy one, and u = θ̃ normalised.

    In the noisy pass Gaussian noise is added to what enters each linear or convolutional layer: `noise` times the root
    mean square of that input, so that networks without batch norm have noise of the same relative size. The denoising
    function has the paper's form, g(z̃, u) = (z̃ − μ(u)) υ(u) + μ(u), where μ and υ are a₁ σ(a₂ u + a₃) + a₄ u + a₅ with
    five parameters per column each, learned with the network. The noisy pass learns the labels, in place of the
    supervised loss. Gradient flows through both passes.
    """

    name = "ladder"
    supervised = True
    ramped = False
    curves: nn.Parameter | None

    def __init__(self, weight: float = 1.0, *, noise: float = 0.3, labelled: bool = True) -> None:
        super().__init__(weight, labelled=labelled)
        self.noise = noise
        self.register_parameter("curves", None)

    def prepare(self, space: LabelSpace, network: nn.Module, data: Data) -> None:
        if self.curves is None:
            device = next((p.device for p in network.parameters()), None)
            start = torch.zeros(2, 5, space.width, device=device)  # of μ and υ
            start[:, 1] = 1.0
            start[1, 4] = 1.0  # g(z̃, u) = z̃ at the start
            self.curves = nn.Parameter(start)

    def forward(self, look: Look) -> Tensor:
        if self.curves is None:
            raise ValueError("Ladder learns to remove noise\nCall objective.prepare(network, data) first.")
        clean = look.run(look.seen, calm=True)
        with _noise(look.network, self.noise):
            noisy = look.run(look.seen, calm=True)
        p = look.predict(noisy)
        z = _normalised(look, clean)
        top = _normalised(look, noisy)
        top = top + self.noise * torch.randn_like(top)
        mean, scale = (_curve(a, _normalised(look, p.theta)) for a in self.curves.to(top))
        away = (z - (top - mean) * scale - mean).square().mean(-1)
        return torch.where(look.complete, self.weight * away - p.log_prob(look.y), away)


def _curve(a: Tensor, u: Tensor) -> Tensor:
    """a₁ σ(a₂ u + a₃) + a₄ u + a₅, for each column: a (5, width), u (n, width)."""
    return a[0] * torch.sigmoid(a[1] * u + a[2]) + a[3] * u + a[4]


def _normalised(look: Look, rows: Tensor) -> Tensor:
    """Rows (n, width) with mean 0 and variance 1 in each column, over the rows of all processes."""
    every = look.everyone(rows)
    return (rows - every.mean(0)) / (every.var(0, correction=0) + _LEAST**2).sqrt()


@contextmanager
def _noise(network: nn.Module, scale: float) -> Iterator[None]:
    """A context in which noise is added to the inputs of the network's layers."""

    def add(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        x, *others = inputs
        rows = x.detach().square().flatten(1).mean(1)  # first by row: torch divides one long sum between its threads
        size = scale * rows.mean().sqrt()
        return x + size * torch.randn_like(x), *others

    hooks = [m.register_forward_pre_hook(add) for m in network.modules() if isinstance(m, _LAYERS)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
