"""Beside a network: models of another kind that answer together with it.

A network, a ridge model and a forest err in different ways, and a part of each is nearly always better than any alone.
How much of each is said by labels that none had seen, see `calibration`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.logic.space import LabelSpace

_FAR = -15.0  # where log softplus(t) is t, to the last digit


def digits(x: Tensor) -> torch.dtype:
    """Double precision, where the device of rows x has it."""
    return torch.float32 if x.device.type == "mps" else torch.float64


class Machine(nn.Module):
    """Logits (n, width) of rows: predictions of label columns, mean + moves(x), which may be below 0 or above 1.

    They are bent to stay inside, and their logits are multiplied by `power`.
    """

    mean: Tensor
    bend: Tensor
    binary: Tensor
    power: Tensor

    def __init__(self, space: LabelSpace) -> None:
        super().__init__()
        binary = [v.binary for v in space.variables for _ in range(1 if v.binary else len(v.values))]
        for name in ("mean", "bend"):
            self.register_buffer(name, torch.full((space.width,), 0.5))
        self.register_buffer("binary", torch.tensor(binary))
        self.register_buffer("power", torch.tensor(1.0))

    @torch.no_grad()
    def told(self, **values: NDArray[Any] | float) -> Self:
        """The machine with these buffers filled."""
        for name, value in values.items():
            self.get_buffer(name).copy_(torch.as_tensor(np.asarray(value)))
        return self

    def moves(self, x: Tensor) -> Tensor:
        """By how much predictions (n, width) differ from the mean."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return self.logits(self.moves(x))

    def logits(self, moves: Tensor) -> Tensor:
        """Logits of predictions that differ by `moves` (n, width) from the mean, in the machine's own precision.

        Moves in double precision are bent in it: torch's softplus rounds the last few numbers of a tensor otherwise,
        and ONNX's log1p all small ones.
        """
        mean, bend = self.mean.to(moves), self.bend.to(moves)
        p = mean + moves
        against = torch.where(self.binary, _log_bent(1 - p, bend), 0.0)
        return (self.power * (_log_bent(p, bend) - against)).to(self.mean)


class Together(nn.Module):
    """Two machines: the mean of their logits."""

    def __init__(self, *machines: nn.Module) -> None:
        super().__init__()
        self.machines = nn.ModuleList(machines)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([machine(x) for machine in self.machines]).mean(0)


@dataclass(frozen=True)
class Beside:
    """A model that answers for any row, what it is called, and what it says of labelled rows left out in folds."""

    name: str
    machine: nn.Module
    left_out: Callable[[NDArray[np.int64]], Tensor] = field(repr=False)
    """Logits (judged, width) of the judged rows, each from rows of other folds; from `fold` (judged,), numbers."""


class Blended(nn.Module):
    """A network and what answers beside it: base + a (network(x) − base) + c (machine(x) − base), shapes (n, width).

    In training it is the network alone.
    """

    base: Tensor
    weights: Tensor

    def __init__(self, network: nn.Module, machine: nn.Module, base: Tensor, weights: tuple[float, float]) -> None:
        super().__init__()
        self.network, self.machine = network, machine
        self.register_buffer("base", base.float())
        self.register_buffer("weights", torch.tensor(weights))

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.network(x)
        if self.training:
            return z
        return self.base + self.weights[0] * (z - self.base) + self.weights[1] * (self.machine(x) - self.base)


def _log_bent(p: Tensor, bend: Tensor) -> Tensor:
    """log(bend · softplus(p / bend)): log p where p is well above 0, and finite everywhere."""
    t = p / bend
    return bend.log() + torch.where(t < _FAR, t, _softplus(t.clamp_min(_FAR)).log())


def _softplus(t: Tensor) -> Tensor:
    """log(1 + exp(t)); ONNX's own is of single precision only."""
    return t.clamp_min(0) + (-t.abs()).exp().log1p()
