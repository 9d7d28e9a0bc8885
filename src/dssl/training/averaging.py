"""Averaged weights: a network whose weights are a running mean of another's, for teachers and for predictions."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class Average(nn.Module):
    """The network with its weights averaged over training: θ′ ← α θ′ + (1 − α) θ, and buffers as they are.

    >>> network = nn.Linear(1, 1)
    >>> average = Average(0.9)
    >>> for _ in range(3):
    ...     average.update(network)
    >>> average.updates, torch.equal(average.of(network).weight, network.weight)
    (3, True)

    At first the average keeps less of its past, min(α, (1 + t) / (10 + t)) at its t-th update, since early weights are
    close to the initial ones. The number of updates is kept in `state_dict`.
    """

    network: nn.Module | None

    def __init__(self, decay: float) -> None:
        super().__init__()
        self.decay, self.updates = decay, 0  # a plain number: no device is asked for it
        self.register_module("network", None)

    def of(self, network: nn.Module) -> nn.Module:
        """The averaged network, at first a copy, in evaluation mode."""
        if self.network is None:
            self.network = copy.deepcopy(network).requires_grad_(False)
            for weight in self.network.parameters():
                weight.grad = None
        return self.network.eval()

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Moves towards the weights that the network has now."""
        mine: Any = list(self.of(network).parameters())
        keep = min(self.decay, (1 + self.updates) / (10 + self.updates))
        get_ema_multi_avg_fn(keep)(mine, list(network.parameters()), None)
        self.updates += 1

    @torch.no_grad()
    def with_buffers(self, network: nn.Module) -> nn.Module:
        """The averaged network with the buffers that the network has now, such as batch norm's statistics."""
        averaged = self.of(network)
        for own, other in zip(averaged.buffers(), network.buffers()):
            own.copy_(other)
        return averaged

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.updates)

    def set_extra_state(self, state: Tensor) -> None:
        self.updates = int(state)
