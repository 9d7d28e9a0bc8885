"""Balance: what Eq. DSSL leaves out of KL(predictions ‖ prior), the entropy of all predictions together (MATH §7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.logic.labels import Columns
from dssl.logic.space import LabelSpace
from dssl.training.augmentation import Views
from dssl.training.data import Data
from dssl.training.objective import Loss, Objective, as_columns

_SLACK = 0.5


@dataclass(frozen=True)
class Frequencies:
    """How often columns are true (width,), and how far from that those of other rows may be by chance (width,)."""

    share: NDArray[np.float64]
    error: NDArray[np.float64]


def frequencies(space: LabelSpace, columns: Columns, rows: int) -> Frequencies:
    """Frequencies in label columns (n, width), shrunk towards equal ones, and the error to expect among `rows` others.

    >>> space = LabelSpace.classes(["cat", "dog"])
    >>> frequencies(space, space.encode(["cat"] * 6 + ["dog"] * 4), 1000).share.tolist()
    [0.5, 0.5]
    >>> frequencies(space, space.encode(["cat"] * 90 + ["dog"] * 10), 1000).share.round(3).tolist()
    [0.898, 0.102]

    With few labels their counts are mostly chance: 30 labels of 10 equal classes give some twice their share. The
    James–Stein estimator of Hausser & Strimmer (2009) moves them to equal ones as far as chance explains the
    difference. The error is half the standard error of a difference between two samples: with a whole one, priors
    drove labels that are rare down to its lower edge.
    """
    share, error = np.empty(space.width), np.empty(space.width)
    for variable, (start, stop) in zip(space.variables, space.spans):
        known = columns[~np.isnan(columns[:, start:stop]).any(axis=1), start:stop]
        n, size = len(known), 2 if variable.binary else stop - start
        seen = known.mean(axis=0, dtype=np.float64) if n else np.full(stop - start, 1 / size)
        values = np.array([1 - seen[0], seen[0]]) if variable.binary else seen
        chance, distance = 1 - np.sum(values**2), max(n - 1, 0) * np.sum((values - 1 / size) ** 2)
        shrink = 1.0 if chance >= distance else chance / distance
        p = (shrink / size + (1 - shrink) * seen).clip(1e-3, 1 - 1e-3)  # what never occurred among few may yet
        share[start:stop] = p
        error[start:stop] = _SLACK * np.sqrt(p * (1 - p) * ((1 - shrink) ** 2 / max(n, 1) + 1 / max(rows, 1)))
    return Frequencies(share, error)


class Balanced(nn.Module):
    """An objective plus μ · Σ_v KL(p_v ‖ θ̄_v): the mean prediction θ̄ of unlabelled rows, held to label frequencies p.

    >>> space = LabelSpace.classes(["cat", "dog"])
    >>> half = Frequencies(np.array([0.5, 0.5]), np.array([0.1, 0.1]))
    >>> balanced = Balanced(Objective(space, None), half, weight=1.0)
    >>> unlabelled = torch.tensor([-1, -1])
    >>> for logits in ([[4.0, 0.0], [4.0, 0.0]], [[4.0, 0.0], [0.0, 4.0]]):
    ...     round(float(balanced(torch.tensor(logits), unlabelled).parts["balance"]), 3)
    0.945
    0.0

    A prior rewards every confident prediction alike, so predictions may drift to one label; this term pulls them back
    together, and leaves each row free. It is no mean over rows. Where θ̄ is within the error of the frequencies it asks
    for nothing; elsewhere p is the nearest edge. The objective's ramp applies to it too. Rows count by their weight;
    rows with a complete label do not count.
    """

    low: Tensor
    high: Tensor

    def __init__(self, objective: Objective, target: Frequencies, weight: float) -> None:
        super().__init__()
        self.objective, self.weight, self.space = objective, weight, objective.space
        for name, edge in (("low", target.share - target.error), ("high", target.share + target.error)):
            self.register_buffer(name, torch.from_numpy(edge.clip(1e-3, 1 - 1e-3)).float())

    @property
    def views(self) -> Views:
        return self.objective.views

    @property
    def consistency(self) -> nn.ModuleDict:
        return self.objective.consistency

    def prepare(self, network: nn.Module, data: Data) -> None:
        """As the objective's."""
        self.objective.prepare(network, data)

    def forward(
        self, logits: Tensor, y: Any, *, step: int | None = None, sample_weight: Tensor | None = None, **seen: Any
    ) -> Loss:
        """The objective's loss with a part "balance"."""
        loss = self.objective(logits, y, step=step, sample_weight=sample_weight, **seen)
        columns = as_columns(self.space, y, logits)
        allowed = self.objective.blocks.allowed(columns)
        open_ = ~torch.stack([(a.sum(-1) == 1).all(-1) for a in allowed]).all(0)
        weight = torch.ones_like(logits[:, 0]) if sample_weight is None else sample_weight.to(logits)
        part = logits.new_zeros(())
        if bool(open_.any()):
            part = self._divergence(logits[open_], weight[open_])
        ramp = self.objective.ramp
        part = (self.weight if ramp is None or step is None else self.weight * ramp(step)) * part
        return Loss(loss.total + part, {**loss.parts, "balance": part})

    def _divergence(self, logits: Tensor, weight: Tensor) -> Tensor:
        share = (weight / weight.sum())[:, None, None]
        blocks, out = self.objective.blocks, logits.new_zeros(())
        edges = zip(blocks.columns(self.low), blocks.columns(self.high))
        for group, z, (low, high) in zip(blocks.groups, blocks.logits(logits), edges):
            if group.binary:  # of false and true
                low, high = torch.cat([1 - high, low], -1), torch.cat([1 - low, high], -1)
            mean = (z.softmax(-1) * share).sum(0).clamp_min(1e-6)  # (variables, K), its logarithm finite
            target = torch.minimum(torch.maximum(mean.detach(), low), high)
            target = target / target.sum(-1, keepdim=True)
            out = out + (torch.xlogy(target, target) - target * mean.log()).sum()
        return out
