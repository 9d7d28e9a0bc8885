"""Balance: predictions of all rows together, held to label frequencies against collapse (MATH §7).

A prior rewards all confident predictions equally, so they may drift to one label. Eq. DSSL leaves out the term that
would prevent it: the entropy of all predictions together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.logic.labels import Columns
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import Blocks
from dssl.priors.mixture import predicted
from dssl.priors.predictive import Family, Predictive
from dssl.priors.weights import value_weights

_SLACK = 0.5
_LEAST = 1e-3  # the least share an edge is given: what never occurred among a few labels may still occur


@dataclass(frozen=True)
class Frequencies:
    """How often columns are true (width,), and how far those of other rows may be from that by chance (width,)."""

    share: NDArray[np.float64]
    error: NDArray[np.float64]


def frequencies(
    space: LabelSpace, columns: Columns, rows: int, weight: NDArray[np.float64] | None = None
) -> Frequencies:
    """Frequencies in label columns (n, width), shrunk towards equal ones, and the error to expect among `rows` others.

    >>> space = LabelSpace.classes(["cat", "dog"])
    >>> frequencies(space, space.encode(["cat"] * 6 + ["dog"] * 4), 1000).share.tolist()
    [0.5, 0.5]
    >>> frequencies(space, space.encode(["cat"] * 90 + ["dog"] * 10), 1000).share.round(3).tolist()
    [0.898, 0.102]

    With few labels their counts are mostly chance: 30 labels of 10 equal classes give some twice their share. The
    James–Stein estimator of Hausser & Strimmer (2009) moves them to equal ones as far as chance explains the
    difference. The error is half the standard error of the difference between two samples: with all of it, priors
    drove rare labels down to the lower edge. A label of `weight` w counts as w labels, 1 unless given.
    """
    share, error = np.empty(space.width), np.empty(space.width)
    weight = np.ones(len(columns)) if weight is None else weight
    for variable, (start, stop) in zip(space.variables, space.spans):
        known = ~np.isnan(columns[:, start:stop]).any(axis=1)
        n, size = float(weight[known].sum()), 2 if variable.binary else stop - start
        seen = weight[known] @ columns[known, start:stop] / n if n else np.full(stop - start, 1 / size)
        values = np.array([1 - seen[0], seen[0]]) if variable.binary else seen
        chance, distance = 1 - np.sum(values**2), max(n - 1, 0) * np.sum((values - 1 / size) ** 2)
        shrink = 1.0 if chance >= distance else chance / distance
        p = (shrink / size + (1 - shrink) * seen).clip(_LEAST, 1 - _LEAST)
        share[start:stop] = p
        error[start:stop] = _SLACK * np.sqrt(p * (1 - p) * ((1 - shrink) ** 2 / max(n, 1) + 1 / max(rows, 1)))
    return Frequencies(share, error)


def given_frequencies(space: LabelSpace, shares: Any, rows: int) -> Frequencies:
    """Known frequencies, in any form that `CountingPrior` takes, and the error to expect among `rows` rows.

    >>> given_frequencies(LabelSpace.classes(["cat", "dog"]), [3, 1], 1000).share.round(3).tolist()
    [0.75, 0.25]
    """
    blocks = Blocks(space)
    given = Predictive.of_weights(blocks.cut(value_weights(space, blocks, shares)), Family(blocks, None))
    share = given.marginals.numpy().astype(np.float64)
    return Frequencies(share, _SLACK * np.sqrt(share * (1 - share) / max(rows, 1)))


class Balance(nn.Module):
    """What holds predictions together: label frequencies p, and a running mean of the predictions.

    >>> space = LabelSpace.classes(["cat", "dog"])
    >>> balance = Balance(space, Frequencies(np.array([0.5, 0.5]), np.array([0.1, 0.1])))
    >>> for theta in ([[0.98, 0.02], [0.98, 0.02]], [[0.98, 0.02], [0.02, 0.98]]):
    ...     round(float(balance.divergence([torch.tensor(theta)[:, None]], torch.ones(2))), 3)
    0.904
    0.0

    `frequencies`: a `Frequencies`, or shares in any form that `CountingPrior` takes as weights. With None they are
    learned from the labels that `move` is shown. The running mean starts at the frequencies and is kept in
    `state_dict`; `momentum` is the share of it that is kept at each batch.
    """

    target: Tensor  # of all values, group after group (values,)
    error: Tensor
    mean: Tensor

    def __init__(self, space: LabelSpace, frequencies: Any = None, *, momentum: float = 0.99) -> None:
        super().__init__()
        self.blocks, self.momentum, self.learns = Blocks(space), momentum, frequencies is None
        error = torch.zeros(space.width)
        if isinstance(frequencies, Frequencies):
            error, frequencies = torch.from_numpy(frequencies.error).float(), torch.from_numpy(frequencies.share)
        if frequencies is None:
            frequencies = [1 / max(2, len(v.values)) for v in space.variables for _ in v.values[v.binary :]]
        weights = value_weights(space, self.blocks, frequencies)
        self.register_buffer("target", self.blocks.flat([part.softmax(-1) for part in self.blocks.cut(weights)]))
        spread = zip(self.blocks.groups, self.blocks.columns(error))
        self.register_buffer("error", self.blocks.flat([e.expand(-1, g.size) if g.binary else e for g, e in spread]))
        self.register_buffer("mean", self.target.clone())

    def divergence(self, theta: list[Tensor], weight: Tensor) -> Tensor:
        """Σ_v KL(p_v ‖ θ̄_v) of the mean θ̄ of predictions θ, by group (n, variables, K), of rows of this weight (n,).

        Where θ̄ is within the error of the frequencies, nothing is asked of it; elsewhere p is the nearest edge. Single
        rows are free as long as the mean is right, so this is not a mean over rows.
        """
        share = _shares(weight, weight)
        low, high = ((self.target + by).clamp(_LEAST, 1 - _LEAST) for by in (-self.error, self.error))
        out = weight.new_zeros(())
        for p, least, most in zip(theta, self.blocks.cut(low), self.blocks.cut(high)):
            mean = (p * share).sum(0).clamp_min(1e-6)  # (variables, K), its logarithm finite
            target = torch.minimum(torch.maximum(mean.detach(), least.to(mean)), most.to(mean))
            target = target / target.sum(-1, keepdim=True)
            out = out + (torch.xlogy(target, target) - target * mean.log()).sum()
        return out

    def aligned(self, logits: Tensor) -> Tensor:
        """Logits (n, width) of θ · target / running mean, normalised: what is predicted too often counts less."""
        tiny = torch.finfo(self.target.dtype).tiny
        shift = self.blocks.cut((self.target.clamp_min(tiny) / self.mean.clamp_min(tiny)).log().to(logits))
        moved = [z + s for z, s in zip(self.blocks.logits(logits), shift)]
        return self.blocks.as_logits(moved)

    @torch.no_grad()
    def move(
        self, theta: list[Tensor], y: Tensor, weight: Tensor | None = None, label_weight: Tensor | None = None
    ) -> None:
        """Moves the running mean towards that of predictions θ, by group (n, variables, K), of unlabelled rows.

        Frequencies that are learned move towards those of labels y (m, width), variable by variable where known.
        `weight` (n,) and `label_weight` (m,) say how much each row counts, all alike unless given.
        """
        if len(theta[0]):
            share = _shares(weight, theta[0])
            self.mean.lerp_(self.blocks.flat([(p * share).sum(0) for p in theta]).to(self.mean), 1 - self.momentum)
        if not self.learns:
            return
        pace = []
        seen = []
        for allowed, old in zip(self.blocks.allowed(y), self.blocks.cut(self.target)):
            known = (allowed.sum(-1, keepdim=True) == 1).to(old)  # (m, variables, 1)
            known = known if label_weight is None else known * label_weight.to(old)[:, None, None]
            counts = known.sum(0)
            seen.append((allowed * known).sum(0) / torch.where(counts > 0, counts, 1))
            pace.append(((counts > 0) * (1 - self.momentum)).to(old).expand_as(old))
        self.target.lerp_(self.blocks.flat(seen), self.blocks.flat(pace))


def _shares(weight: Tensor | None, like: Tensor) -> Tensor:
    """How much of the mean over rows is that of each (n, 1, 1)."""
    weight = like.new_ones(len(like)) if weight is None else weight.to(like)
    return (weight / weight.sum().clamp_min(torch.finfo(weight.dtype).tiny))[:, None, None]


# ---- whether it came to that ----


@dataclass(frozen=True)
class Collapse:
    """Entropy in nats of the mean prediction and of the labels, one per variable: (variables,).

    `share` is the first over the second, all variables together: near 1 when predictions are as varied as labels, 0
    when all are the same.
    """

    predicted: Tensor
    labelled: Tensor

    @property
    def share(self) -> float:
        return float(self.predicted.sum() / self.labelled.sum().clamp_min(1e-12))


def collapse(space: LabelSpace, logits: Tensor, y: Tensor, components: int = 1) -> Collapse:
    """How varied predictions (n, width) are, against labels y (m, width) as columns; unknown entries do not count.

    >>> import torch
    >>> from dssl.training.balance import collapse
    >>> space = LabelSpace.classes(["cat", "dog"])
    >>> labels = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(collapse(space, torch.tensor([[9.0, 0.0], [9.0, 0.0]]), labels).share, 3)
    0.002

    `components`: how many components the predictions are a mixture of.
    """
    blocks = Blocks(space)
    theta = predicted(logits.detach(), Family(blocks, None), components).value_marginals
    mean = [p.mean(0) for p in theta]  # (variables, K) by group
    labelled = []
    for allowed in blocks.allowed(y):
        known = (allowed.sum(-1, keepdim=True) == 1).to(logits.dtype)
        labelled.append((allowed * known).sum(0) / known.sum(0).clamp_min(1))
    order = torch.tensor([i for group in blocks.groups for i in group.variables]).argsort()
    entropies = [torch.cat([torch.special.entr(p).sum(-1) for p in side])[order] for side in (mean, labelled)]
    return Collapse(*entropies)
