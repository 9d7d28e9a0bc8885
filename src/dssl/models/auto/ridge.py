"""Ridge models: what ridge regression learned from labels, as a module that answers for any row, beside a network.

A network and a ridge model err in different ways, and half of each is nearly always better than either alone. How much
of each to take is decided by labels that neither had seen, see `calibration`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.logic.space import LabelSpace

KINDS = ("linear", "wide", "narrow", "laplace")
_FAR = -15.0  # where log softplus(t) is t, to the last digit


class RidgeModel(nn.Module):
    """Logits (n, width) of rows x (n, features) by their similarities to some rows, the marks (m, features).

    Predictions of label columns are mean + K(x, marks) · coefficients, which may be below 0 or above 1: they are bent
    to stay inside, and their logits are multiplied by `power`.
    """

    marks: Tensor
    coefficients: Tensor
    mean: Tensor
    bend: Tensor
    binary: Tensor
    scale: Tensor
    power: Tensor

    def __init__(self, space: LabelSpace, kind: str, marks: int, features: int) -> None:
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"there is no similarity {kind!r}: choose among {', '.join(KINDS)}")
        self.kind = kind
        binary = [v.binary for v in space.variables for _ in range(1 if v.binary else len(v.values))]
        self.register_buffer("marks", torch.zeros(marks, features))
        self.register_buffer("coefficients", torch.zeros(marks, space.width))
        for name in ("mean", "bend"):
            self.register_buffer(name, torch.full((space.width,), 0.5))
        self.register_buffer("binary", torch.tensor(binary))
        for name in ("scale", "power"):
            self.register_buffer(name, torch.tensor(1.0))

    @torch.no_grad()
    def told(self, **values: NDArray[Any] | float) -> RidgeModel:
        """The machine with these buffers filled."""
        for name, value in values.items():
            self.get_buffer(name).copy_(torch.as_tensor(np.asarray(value)))
        return self

    def forward(self, x: Tensor) -> Tensor:
        # sums of large terms of both signs: in single precision a row's answer would depend on the rows beside it
        digits = torch.float32 if x.device.type == "mps" else torch.float64
        marks, coefficients, scale = (part.to(digits) for part in (self.marks, self.coefficients, self.scale))
        return self.logits(similarity(self.kind, x.flatten(1).to(digits), marks, scale) @ coefficients)

    def logits(self, moves: Tensor) -> Tensor:
        """Logits of predictions that differ by `moves` (n, width) from the mean, in the machine's own precision.

        Moves in double precision are bent in it: torch's softplus rounds the last few numbers of a tensor otherwise.
        """
        mean, bend = self.mean.to(moves), self.bend.to(moves)
        p = mean + moves
        against = torch.where(self.binary, _log_bent(1 - p, bend), 0.0)
        return (self.power * (_log_bent(p, bend) - against)).to(self.mean)


def similarity(kind: str, x: Tensor, marks: Tensor, scale: Tensor) -> Tensor:
    """Similarities of rows (n, features) to marks (m, features): (n, m)."""
    product = x @ marks.T
    if kind == "linear":
        return product / scale
    apart = (x.square().sum(1, keepdim=True) + marks.square().sum(1) - 2 * product).clamp_min(0) / scale
    return {"wide": -apart, "narrow": -4 * apart, "laplace": -apart.sqrt()}[kind].exp()


def _log_bent(p: Tensor, bend: Tensor) -> Tensor:
    """log(bend · softplus(p / bend)): log p where p is well above 0, and finite everywhere."""
    t = p / bend
    return bend.log() + torch.where(t < _FAR, t, _softplus(t.clamp_min(_FAR)).log())


def _softplus(t: Tensor) -> Tensor:
    """log(1 + exp(t)); ONNX's own is of single precision only."""
    return t.clamp_min(0) + (-t.abs()).exp().log1p()


class Blended(nn.Module):
    """A network and a ridge model: base + a (network(x) − base) + c (machine(x) − base), shapes (n, width).

    In training it is the network alone.
    """

    base: Tensor
    weights: Tensor

    def __init__(self, network: nn.Module, machine: RidgeModel, base: Tensor, weights: tuple[float, float]) -> None:
        super().__init__()
        self.network, self.machine = network, machine
        self.register_buffer("base", base.float())
        self.register_buffer("weights", torch.tensor(weights))

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.network(x)
        if self.training:
            return z
        return self.base + self.weights[0] * (z - self.base) + self.weights[1] * (self.machine(x) - self.base)
