"""Weights π: what users give for classes, variables and labels, and a table of weighted labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from dssl.errors import DataError
from dssl.logic.language.variables import Variable, canonical, listed, nearest
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import Blocks, log_sum

_FORMS = (
    "Give one weight per column (for a binary variable the probability of true), weights of true and false "
    "(width, 2), or a mapping from variables to their weights."
)


def value_weights(space: LabelSpace, blocks: Blocks, weights: Any) -> Tensor:
    """Weights in any of the users' forms as log weights of all values, group after group: (values,)."""
    if isinstance(weights, Mapping):
        columns = _columns_of(space, weights)
    else:
        columns = torch.as_tensor(weights).detach().to(torch.get_default_dtype())
        if columns.shape == (space.width,):
            columns = torch.stack([columns, _complement(space, columns)], -1)
        if columns.shape != (space.width, 2):
            raise DataError(f"weights of shape {tuple(columns.shape)} do not fit {space.width} columns\n{_FORMS}")
    if not bool((columns.isfinite() & (columns >= 0)).all()):
        raise DataError(f"weights must be finite and not negative, not {columns.tolist()}\n{_FORMS}")
    out = []
    for group, true, false in zip(blocks.groups, blocks.columns(columns[:, 0]), blocks.columns(columns[:, 1])):
        # The literals of the other values are false: value k weighs w_k Π_{j≠k} w̄_j (MATH §4, identity 7).
        value = torch.cat([false, true], -1) if group.binary else true * _product_of_others(false)
        out.append(value.flatten())
    return torch.cat(out).log()


def _complement(space: LabelSpace, columns: Tensor) -> Tensor:
    """Weights of "false": 1 − w for binary columns, 1 for categorical ones."""
    out = torch.ones_like(columns)
    for variable, (start, _) in zip(space.variables, space.spans):
        if variable.binary:
            out[start] = 1 - columns[start]
    return out


def _product_of_others(x: Tensor) -> Tensor:
    """The product of all others along the last dimension, for small blocks of plain weights."""
    size = x.shape[-1]
    spread = x.unsqueeze(-2).expand(*x.shape[:-1], size, size)
    return spread.masked_fill(torch.eye(size, dtype=torch.bool, device=x.device), 1.0).prod(-1)


def _columns_of(space: LabelSpace, weights: Mapping[str, Any]) -> Tensor:
    names = [variable.name for variable in space.variables]
    weights = {canonical(name): given for name, given in weights.items()}
    for name in weights:
        if name not in names:
            raise DataError(f"weights for '{name}', which is not declared\n{nearest(name, names)}{_FORMS}")
    out = torch.ones(space.width, 2)
    for variable, (start, stop) in zip(space.variables, space.spans):
        if variable.name in weights:
            given = _of_variable(variable, weights[variable.name])
            out[start:stop, 0] = given
            if variable.binary:
                out[start, 1] = 1 - given[0]
    return out


def _of_variable(variable: Variable, given: Any) -> Tensor:
    if isinstance(given, Mapping):
        given = {canonical(value): weight for value, weight in given.items()}
        missing = [value for value in variable.values if value not in given]
        if missing or variable.binary:
            raise DataError(f"'{variable.name}' has no weight for {listed(missing or variable.values)}\n{_FORMS}")
        given = [given[value] for value in variable.values]
    out = torch.as_tensor(given).to(torch.get_default_dtype()).reshape(-1)
    if len(out) != len(variable.columns):
        raise DataError(f"'{variable.name}' has {len(variable.columns)} columns and {len(out)} weights\n{_FORMS}")
    return out


class WeightedLabels:
    """A short list of labels, each with its own weight π_y, for weights that do not factorise as the rules do.

    >>> import torch
    >>> from dssl.priors import WeightedLabels
    >>> space = LabelSpace("legs, fins")
    >>> table = WeightedLabels(space, [{"legs": 1, "fins": 0}, {"legs": 0, "fins": 1}], [0.9, 0.1])
    >>> table.log_wmc(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.5, 0.5]).log()).exp()
    tensor(0.2500)

    `labels` are what `space.encode` accepts, complete and all different; other labels count as invalid. Use it as
    `weights` of a `DeterministicPrior` or as `circuit` of any prior. It answers the same questions as a circuit, by
    adding up: labels × columns operations for each row.
    """

    def __init__(self, space: LabelSpace, labels: Any, weights: Any = None) -> None:
        rows = torch.from_numpy(space.encode(labels))  # (labels, width)
        if bool(rows.isnan().any()) or len(rows.unique(dim=0)) != len(rows) or not len(rows):
            raise DataError("weighted labels must be complete and all different\nFill in or drop the others.")
        self.labels = rows == 1
        given = torch.ones(len(rows)) if weights is None else torch.as_tensor(weights).to(torch.get_default_dtype())
        if given.shape != (len(rows),) or not bool((given.isfinite() & (given >= 0)).all()):
            raise DataError(f"{len(rows)} labels need as many weights, none of them negative: {given.tolist()}")
        self.log_weights = given.log()

    def __repr__(self) -> str:
        return f"WeightedLabels({len(self.labels)} labels of {self.labels.shape[1]} columns)"

    def _scores(self, log_pos: Tensor, log_neg: Tensor, power: float | Tensor = 1.0) -> Tensor:
        """log weight of each label, with π to a power: (..., labels)."""
        on = self.labels.to(log_pos.device, log_pos.dtype).t()
        out = power * self.log_weights.to(on)
        for weight, mask in ((log_pos, on), (log_neg, 1 - on)):
            zero = weight == -math.inf
            against = zero.to(on.dtype) @ mask > 0  # 0 · −inf would be NaN
            out = (out + weight.masked_fill(zero, 0) @ mask).masked_fill(against, -math.inf)
        return out

    def log_wmc(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False, power: float | Tensor = 1.0) -> Tensor:
        """log of the sum over labels of π_y^power times the product of literal weights; shape (...)."""
        scores = self._scores(log_pos, log_neg, power)
        return _strictly(log_sum(scores), strict)

    def mpe(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> tuple[Tensor, Tensor]:
        """The heaviest label, bool (..., width), and its log weight (...)."""
        weight, index = self._scores(log_pos, log_neg).max(-1)
        _strictly(weight, strict)
        return self.labels.to(index.device)[index] & (weight > -math.inf).unsqueeze(-1), weight

    def top_k(self, log_pos: Tensor, log_neg: Tensor, k: int, *, strict: bool = False) -> tuple[Tensor, Tensor]:
        """The k heaviest labels, bool (..., k, width), heaviest first, and their log weights (..., k).

        Where fewer than k labels are left, the rest are all false and weigh −inf.
        """
        if k < 1:
            raise DataError(f"top_k was asked for k = {k} labels. Ask for at least one.")
        scores = self._scores(log_pos, log_neg)
        missing = max(0, k - len(self.labels))
        weight, index = torch.nn.functional.pad(scores, (0, missing), value=-math.inf).topk(k)
        _strictly(weight[..., 0], strict)
        found = self.labels.to(index.device)[index.clamp_max(len(self.labels) - 1)]
        return found & (weight > -math.inf).unsqueeze(-1), weight

    def entropy(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """Entropy in nats of the distribution over labels; shape (...)."""
        scores = self._scores(log_pos, log_neg)
        total = _strictly(log_sum(scores), strict)
        none = total == -math.inf
        log_p = scores - total.masked_fill(none, 0).unsqueeze(-1)
        return -(log_p.exp() * log_p.masked_fill(log_p == -math.inf, 0)).sum(-1)

    def marginals(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """P(column is true) of each column; shape (..., width)."""
        scores = self._scores(log_pos, log_neg)
        total = _strictly(log_sum(scores), strict)
        log_p = scores - total.masked_fill(total == -math.inf, 0).unsqueeze(-1)
        return log_p.exp() @ self.labels.to(log_p.device, log_p.dtype)

    def sample(self, log_pos: Tensor, log_neg: Tensor, n: int = 1, generator: Generator | None = None) -> Tensor:
        """n labels for each row in proportion to weight; bool (n, ..., width)."""
        scores = self._scores(log_pos, log_neg).detach()
        _strictly(log_sum(scores), True)
        noise = torch.empty(n, *scores.shape, dtype=scores.dtype, device=scores.device).exponential_(
            generator=generator
        )
        return self.labels.to(scores.device)[(scores - noise.log()).argmax(-1)]


def _strictly(log_weight: Tensor, strict: bool) -> Tensor:
    if strict and bool((log_weight == -math.inf).any()):
        raise DataError("the evidence of some rows leaves none of the weighted labels\nCheck it, or add the labels.")
    return log_weight
