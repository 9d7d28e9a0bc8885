"""Kinds of rows: what the labels of a batch say, which of its rows are labelled in full, in part or not at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import Blocks

_CERTAIN = 100.0  # a logit whose θ is 1 to the last bit, in any precision


@dataclass(frozen=True)
class ByKind:
    """A batch: logits and label columns (n, width), weights (n,), and the numbers of rows of each kind.

    A row is *complete* if its label leaves one value for every variable, and *open* if not; it is *labelled* if
    any part of its label is known. The device is asked only once which rows are which.
    """

    logits: Tensor
    y: Tensor
    weight: Tensor
    is_complete: Tensor  # (n,)
    labelled: Tensor  # numbers
    complete: Tensor
    open: Tensor
    partial: bool  # whether something is known of an open row

    @classmethod
    def of(cls, blocks: Blocks, logits: Tensor, y: Tensor, weight: Tensor | None) -> ByKind:
        complete = blocks.complete(y)
        empty = torch.stack([~a.any(-1).all(-1) for a in blocks.allowed(y)]).any(0)
        kinds = torch.stack([~y.isnan().all(-1), complete, empty]).cpu()
        if bool(kinds[2].any()):
            odd = kinds[2].nonzero().flatten().tolist()
            raise DataError(f"the labels of rows {odd[:10]} leave no value for a variable\nLeave unknown ones NaN.")
        labelled, whole, open_ = (kind.nonzero().flatten().to(y.device) for kind in (kinds[0], kinds[1], ~kinds[1]))
        return cls(
            logits,
            y,
            torch.ones_like(logits[:, 0]) if weight is None else weight.to(logits),
            complete,
            labelled,
            whole,
            open_,
            partial=bool((kinds[0] & ~kinds[1]).any()),
        )


def given(blocks: Blocks, logits: Tensor, y: Tensor) -> Tensor:
    """Logits (n, width) of θ given what columns y say about each variable by itself.

    log q(θ, y) contains log p(y | θ), which the likelihood already counts. Given y, known variables are certain, and
    candidates share the rest; so the prior is about what is still open (MATH §1).
    """
    out = []
    for group, z, allowed in zip(blocks.groups, blocks.columns(logits), blocks.allowed(y)):
        if group.binary:
            true, false = ~allowed[..., :1], ~allowed[..., 1:]  # where the other value is excluded
            out.append(z.masked_fill(true, _CERTAIN).masked_fill(false, -_CERTAIN))
        else:
            least = z.detach().masked_fill(~allowed, -math.inf).amax(-1, keepdim=True) - _CERTAIN  # finite, θ of it 0
            out.append(torch.where(allowed, z, least))
    return blocks.joined(out)


def as_columns(space: LabelSpace, y: Any, like: Tensor) -> Tensor:
    """Labels as columns (batch, width) of 1, 0 and NaN, on the device and in the type of `like`."""
    y = torch.as_tensor(y, device=like.device)
    if y.shape == like.shape:
        return y.to(like.dtype).masked_fill(y == -1, math.nan)
    y = y.unsqueeze(-1) if y.dim() == like.dim() - 1 and len(space.variables) == 1 else y
    if y.shape != (*like.shape[:-1], len(space.variables)):
        raise DataError(
            f"labels of shape {tuple(y.shape)} do not fit logits of shape {tuple(like.shape)}\n"
            f"Give columns, one per column of the space ({space.width}), or value indices, one per variable "
            f"({len(space.variables)}); space.encode turns other forms into columns."
        )
    index = torch.where(y.isnan(), -1, y).long() if y.is_floating_point() else y.long()
    parts = []
    for i, variable in enumerate(space.variables):
        size = len(variable.values)
        one = index[..., i].unsqueeze(-1) == torch.arange(size, device=like.device)
        bad = (index[..., i] >= size) | (index[..., i] < -1)
        if bool(bad.any()):
            raise DataError(f"'{variable.name}' has {size} values, and an index is {int(index[..., i][bad][0])}")
        part = one.to(like.dtype).masked_fill((index[..., i] < 0).unsqueeze(-1), math.nan)
        parts.append(part[..., 1:] if variable.binary else part)
    return torch.cat(parts, -1)
