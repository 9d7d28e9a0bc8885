"""Blocks: the columns of a label space, regrouped so that variables with equally many values are handled at once.

Every variable is a *block* of K values. A categorical variable has its softmax block; a binary one has the two values
false and true, with logits 0 and z, since softmax(0, z) = (σ(−z), σ(z)). So one formula serves both kinds. Tensors by
group have shape (..., n, K): n variables of K values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dssl.logic.space import LabelSpace

_MOST = -0.69  # log θ above which log(1−θ) is summed from the others: θ > .5, so at most one value of a block


@dataclass(frozen=True)
class Group:
    """Variables of one kind and size: their places in the space, and `span` if their columns stand together."""

    binary: bool
    size: int  # values of each variable
    variables: tuple[int, ...]
    columns: tuple[int, ...]  # of all its variables, one after the other

    @property
    def span(self) -> tuple[int, int] | None:
        first, last = self.columns[0], self.columns[-1] + 1
        return (first, last) if self.columns == tuple(range(first, last)) else None


class Blocks(nn.Module):
    """Cuts (..., width) tensors of a space into groups of blocks (..., n, K), and joins them again."""

    _inverse: Tensor  # where the columns of the space stand among those of the groups

    def __init__(self, space: LabelSpace) -> None:
        super().__init__()
        self.groups = _groups(space)
        self.width = space.width
        order = [column for group in self.groups for column in group.columns]
        self._sorted = order == list(range(space.width))
        inverse = torch.tensor(order).argsort()
        self.register_buffer("_inverse", inverse, persistent=False)
        for i, group in enumerate(self.groups):
            self.register_buffer(f"_columns_{i}", torch.tensor(group.columns), persistent=False)

    def extra_repr(self) -> str:
        return ", ".join(f"{len(g.variables)} of {g.size} values" for g in self.groups)

    # ---- cutting ----

    def columns(self, x: Tensor) -> list[Tensor]:
        """A tensor (..., width) by group: (..., n, K), or (..., n, 1) for binaries."""
        out = []
        for i, group in enumerate(self.groups):
            places = self.get_buffer(f"_columns_{i}")
            part = x[..., slice(*group.span)] if group.span else x.index_select(-1, places)
            out.append(part.unflatten(-1, (len(group.variables), -1)))
        return out

    def logits(self, logits: Tensor) -> list[Tensor]:
        """The logits of all values by group, (..., n, K): 0 and z for a binary variable."""
        return [
            torch.cat([torch.zeros_like(z), z], -1) if group.binary else z
            for group, z in zip(self.groups, self.columns(logits))
        ]

    def allowed(self, evidence: Tensor) -> list[Tensor]:
        """Which values evidence (..., width) of 1, 0 and NaN leaves possible, by group: bool (..., n, K)."""
        out = []
        for group, e in zip(self.groups, self.columns(evidence)):
            if group.binary:
                out.append(torch.cat([e != 1, e != 0], -1))
            else:
                one = e == 1
                out.append(torch.where(one.any(-1, keepdim=True), one, e != 0))
        return out

    # ---- joining ----

    def literals(self, values: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Log weights of values by group as log weights of literals, two tensors (..., width).

        A binary column has the weights of its two values; a categorical one has its value's weight where it is true
        and weight 1 where it is false (MATH §4).
        """
        positive, negative = [], []
        for group, value in zip(self.groups, values):
            positive.append(value[..., 1] if group.binary else value.flatten(-2))
            negative.append(value[..., 0] if group.binary else torch.zeros_like(positive[-1]))
        return self._joined(positive), self._joined(negative)

    def joined(self, columns: list[Tensor]) -> Tensor:
        """What `columns` cut, whole again: (..., width)."""
        return self._joined([part.flatten(-2) for part in columns])

    def _joined(self, parts: list[Tensor]) -> Tensor:
        whole = torch.cat(parts, -1) if len(parts) > 1 else parts[0]
        return whole if self._sorted else whole.index_select(-1, self._inverse)


def _groups(space: LabelSpace) -> tuple[Group, ...]:
    if not hasattr(space, "variables"):
        raise TypeError(f"a prior needs a LabelSpace, not {type(space).__name__}. Write LabelSpace(text).")
    members: dict[tuple[bool, int], list[int]] = {}
    for i, variable in enumerate(space.variables):
        size = 2 if variable.binary else len(variable.values)
        members.setdefault((variable.binary, size), []).append(i)
    out = []
    for (binary, size), variables in members.items():
        columns = [column for i in variables for column in range(*space.spans[i])]
        out.append(Group(binary, size, tuple(variables), tuple(columns)))
    return tuple(out)


def log_rest(log_theta: Tensor) -> Tensor:
    """log(1 − θ) of every value from log θ (..., K), accurate at both ends.

    Where θ > ½ it is the logsumexp of the other values of the block, elsewhere log1p(−θ).
    """
    most = log_theta > _MOST
    others = log_theta.masked_fill(most, -math.inf).logsumexp(-1, keepdim=True)
    small = torch.log1p(-log_theta.masked_fill(most, -1.0).exp())
    return torch.where(most, others, small)


def exclusive_sum(x: Tensor) -> Tensor:
    """The sum of all others along the last dimension, added up from both ends: −inf cannot be subtracted again."""
    zero = torch.zeros_like(x[..., :1])
    before = torch.cat([zero, x[..., :-1].cumsum(-1)], -1)
    after = torch.cat([x[..., 1:].flip(-1).cumsum(-1).flip(-1), zero], -1)
    return before + after
