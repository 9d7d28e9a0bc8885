"""The normalised deterministic prior: a mixture of Dirichlet (for binaries, Beta) densities, one per valid label.

A block of K values in label y has density Dir(θ; 1 + T e_y) = Γ(T+K)/Γ(T+1) · θ_y^T, which for K = 2 is the
Beta(1+T, 1) of a binary variable. Sampling needs uniform numbers only: θ_y ~ Beta(1+T, K−1) is a product of powers of
uniforms, and the rest is shared out by a flat Dirichlet.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from dssl.priors.blocks import Blocks


def log_constant(blocks: Blocks, power: Tensor) -> Tensor:
    """log of the constants of all blocks: Σ_v log Γ(T+K_v)/Γ(T+1), which is log (T+1)(T+2)…(T+K_v−1).

    In this form nothing cancels: for large T, log Γ itself is far larger than the difference.
    """
    out = torch.zeros_like(power)
    for group in blocks.groups:
        steps = torch.arange(1, group.size, dtype=power.dtype, device=power.device)
        out = out + len(group.variables) * (power + steps).log().sum()
    return out


def draw_theta(blocks: Blocks, labels: Tensor, power: Tensor, generator: Generator | None) -> Tensor:
    """θ given labels, bool (n, width): (n, width)."""
    parts = []
    for group, columns in zip(blocks.groups, blocks.columns(labels.to(power.dtype))):
        label = columns.squeeze(-1).long() if group.binary else columns.argmax(-1)  # (n, m)
        steps = torch.arange(group.size - 1, device=power.device)
        own = -(_exponential((*label.shape, group.size - 1), power, generator) / (1 + power + steps)).sum(-1)
        share = _exponential((*label.shape, group.size), power, generator)
        share = share.scatter(-1, label.unsqueeze(-1), 0)
        share = share / share.sum(-1, keepdim=True).clamp_min(torch.finfo(share.dtype).tiny)
        theta = -torch.expm1(own).unsqueeze(-1) * share
        parts.append(theta.scatter(-1, label.unsqueeze(-1), own.exp().unsqueeze(-1)))  # (n, m, K)
    return blocks.literals(parts)[0]


def _exponential(shape: tuple[int, ...], like: Tensor, generator: Generator | None) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device).exponential_(generator=generator)
