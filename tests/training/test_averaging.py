"""Averaged weights."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from dssl.training.averaging import Average


def test_the_average_keeps_less_at_first() -> None:
    """θ′ ← α θ′ + (1 − α) θ with α = min(decay, (1 + t) / (10 + t))."""
    network, average = nn.Linear(1, 1, bias=False), Average(0.4)
    mean = float(network.weight.detach())
    average.of(network)
    for t in range(8):
        with torch.no_grad():
            network.weight.fill_(float(t))
        average.update(network)
        keep = min(0.4, (1 + t) / (10 + t))
        mean = keep * mean + (1 - keep) * t
        assert float(average.of(network).weight) == pytest.approx(mean, rel=1e-6)  # type: ignore[arg-type]


def test_buffers_are_those_of_the_network_and_gradients_stay_away() -> None:
    network, average = nn.BatchNorm1d(2), Average(0.9)
    average.update(network)
    network(torch.randn(8, 2))
    averaged = average.with_buffers(network)
    assert torch.equal(averaged.running_mean, network.running_mean)  # type: ignore[arg-type]
    assert not averaged.training
    assert not any(p.requires_grad for p in averaged.parameters())


def test_state_dict_has_weights_and_count() -> None:
    network, average = nn.Linear(2, 2), Average(0.9)
    for _ in range(3):
        average.update(network)
    other = Average(0.9)
    other.of(copy.deepcopy(network))
    other.load_state_dict(average.state_dict())
    assert other.updates == 3
    assert torch.equal(other.of(network).weight, average.of(network).weight)  # type: ignore[arg-type]
