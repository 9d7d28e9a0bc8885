"""Blocks: the columns of a label space, regrouped so that variables with equally many values are handled at once.

Every variable is a *block* of K values. A categorical variable has its softmax block; a binary one has the two values
false and true, with logits 0 and z, since softmax(0, z) = (σ(−z), σ(z)). So one formula serves both kinds. Tensors by
group have shape (..., n, K): n variables of K values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from dssl.circuits.circuit import Circuit
from dssl.circuits.nodes import TRUE
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
    """Cuts (..., width) tensors of a space or a circuit into groups of blocks (..., n, K), and joins them again."""

    _inverse: Tensor  # where the columns of the space stand among those of the groups

    def __init__(self, space: LabelSpace | Circuit) -> None:
        super().__init__()
        self.groups = _groups(_spans(space))
        self.width = space.width
        self.names = tuple(space.names if isinstance(space, Circuit) else space.columns)
        order = [column for group in self.groups for column in group.columns]
        self._sorted = order == list(range(space.width))
        inverse = torch.tensor(order).argsort()
        self.register_buffer("_inverse", inverse, persistent=False)
        for i, group in enumerate(self.groups):
            self.register_buffer(f"_columns_{i}", torch.tensor(group.columns), persistent=False)

    def extra_repr(self) -> str:
        return ", ".join(f"{len(g.variables)} of {g.size} values" for g in self.groups)

    @cached_property
    def free(self) -> Circuit:
        """The circuit of these columns without rules: every label is valid."""
        binary = {i: group.binary for group in self.groups for i in group.variables}
        sizes = {i: 1 if group.binary else group.size for group in self.groups for i in group.variables}
        starts = np.cumsum([0, *(sizes[i] for i in range(len(sizes)))])
        return Circuit(
            kind=np.array([TRUE]),
            literal=np.array([0]),
            ptr=np.array([0, 0]),
            child=np.array([], dtype=np.int32),
            starts=starts,
            categorical=np.array([not binary[i] for i in range(len(binary))]),
            names=tuple(map(str, range(self.width))),
        )

    # ---- cutting ----

    def columns(self, x: Tensor) -> list[Tensor]:
        """A tensor (..., width) by group: (..., n, K), or (..., n, 1) for binaries."""
        out = []
        for i, group in enumerate(self.groups):
            if group.span:
                part = x[..., slice(*group.span)]
            else:
                part = x.index_select(-1, self.get_buffer(f"_columns_{i}").to(x.device))
            out.append(part.unflatten(-1, (len(group.variables), -1)))
        return out

    def of_values(self, columns: Tensor) -> list[Tensor]:
        """Probabilities of columns (..., width), or 0 and 1, as those of all values by group: (..., n, K)."""
        groups = zip(self.groups, self.columns(columns))
        return [torch.cat([1 - p, p], -1) if group.binary else p for group, p in groups]

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

    def cut(self, values: Tensor) -> list[Tensor]:
        """A number for each value, group after group (values,), by group: (n, K)."""
        shapes = [(len(group.variables), group.size) for group in self.groups]
        return [part.unflatten(0, shape) for part, shape in zip(values.split([n * k for n, k in shapes]), shapes)]

    def complete(self, y: Tensor) -> Tensor:
        """Which labels, columns (..., width) of 1, 0 and NaN, leave one value for every variable: bool (...)."""
        return torch.stack([(a.sum(-1) == 1).all(-1) for a in self.allowed(y)]).all(0)

    # ---- joining ----

    @staticmethod
    def flat(values: list[Tensor]) -> Tensor:
        """The inverse of `cut`: (values,)."""
        return torch.cat([value.flatten() for value in values])

    def as_logits(self, values: list[Tensor]) -> Tensor:
        """Log weights of values by group as logits (..., width), from which softmax gives the same θ."""
        groups = zip(self.groups, values)
        return self.joined([value[..., 1:] - value[..., :1] if group.binary else value for group, value in groups])

    def literals(self, values: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Log weights of values by group as log weights of literals, two tensors (..., width).

        A binary column has the weights of its two values; a categorical one has its value's weight where it is true
        and weight 1 where it is false (MATH §4).
        """
        positive, negative = [], []
        for group, value in zip(self.groups, values):
            positive.append(value[..., 1] if group.binary else value.flatten(-2))
            negative.append(value[..., 0] if group.binary else torch.zeros_like(positive[-1]))
        return self._in_order(positive), self._in_order(negative)

    def joined(self, columns: list[Tensor]) -> Tensor:
        """The inverse of `columns`: (..., width)."""
        return self._in_order([part.flatten(-2) for part in columns])

    def _in_order(self, parts: list[Tensor]) -> Tensor:
        whole = torch.cat(parts, -1) if len(parts) > 1 else parts[0]
        return whole if self._sorted else whole.index_select(-1, self._inverse.to(whole.device))


def _spans(space: LabelSpace | Circuit) -> list[tuple[bool, int, int]]:
    """For every variable: whether it is binary, its first column, and one past its last."""
    if isinstance(space, Circuit):
        bounds = zip(space.categorical.tolist(), space.starts.tolist(), space.starts[1:].tolist())
        return [(not categorical, start, stop) for categorical, start, stop in bounds if start < space.width]
    if not hasattr(space, "variables"):
        raise TypeError(f"predictions are about a LabelSpace, not a {type(space).__name__}. Write LabelSpace(text).")
    return [(variable.binary, *span) for variable, span in zip(space.variables, space.spans)]


def _groups(spans: list[tuple[bool, int, int]]) -> tuple[Group, ...]:
    members: dict[tuple[bool, int], list[int]] = {}
    for i, (binary, start, stop) in enumerate(spans):
        members.setdefault((binary, 2 if binary else stop - start), []).append(i)
    return tuple(
        Group(binary, size, tuple(variables), tuple(column for i in variables for column in range(*spans[i][1:])))
        for (binary, size), variables in members.items()
    )


def log_rest(log_theta: Tensor) -> Tensor:
    """log(1 − θ) of every value from log θ (..., K), accurate at both ends.

    Where θ > ½ it is the logsumexp of the other values of the block, elsewhere log1p(−θ).
    """
    most = log_theta > _MOST
    others = log_theta.masked_fill(most, -math.inf).logsumexp(-1, keepdim=True)
    small = torch.log1p(-log_theta.masked_fill(most, -1.0).exp())
    return torch.where(most, others, small)


def log_sum(x: Tensor) -> Tensor:
    """logsumexp over the last dimension, with gradient 0 where all is −inf."""
    none = (x == -math.inf).all(-1, keepdim=True)
    return x.masked_fill(none, 0).logsumexp(-1).masked_fill(none.squeeze(-1), -math.inf)


def wide(logits: Tensor) -> Tensor:
    """Logits in at least single precision: log weights need the digits."""
    return logits.float() if logits.dtype.itemsize < 4 else logits


def over_blocks(parts: list[Tensor]) -> Tensor:
    """What blocks contribute, (..., n) by group, added up; shape (...)."""
    out = parts[0].sum(-1)
    for part in parts[1:]:
        out = out + part.sum(-1)
    return out
