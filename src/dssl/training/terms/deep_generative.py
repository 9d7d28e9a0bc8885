"""M2, the deep generative model of Kingma et al. (2014), with the network as its q(y | x)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dssl.data.rows import Data
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.training.terms.autoencoder import Autoencoder
from dssl.training.terms.consistency import Consistency, Look

_MOST_LABELS = 64  # summed over for each unlabelled row
_SAMPLED = 1000  # rows that tell how x is modelled


class M2(Consistency):
    """M2 (Kingma et al. 2014, Eqs. 6–9): a model of x given y and a latent z, with the network as its q(y | x).

    L(x, y) of a complete row, and U(x) = Σ_y q(y | x) (L(x, y) + log q(y | x)) of any other, per feature of x

    L is the bound of −log p(x, y) that `Autoencoder` gives. The sum is over the valid labels that a partial label
    leaves, with q(y | x) given the rules. The paper's α term, the likelihood of labels under q(y | x), is the
    objective's supervised part. The autoencoder has one hidden layer of `hidden` units each way and `latent`
    dimensions, and learns along with the network. For spaces of at most 64 valid labels, and x of floats.
    """

    name = "m2"
    ramped = False

    def __init__(self, weight: float = 1.0, *, latent: int = 32, hidden: int = 256, labelled: bool = True) -> None:
        super().__init__(weight, labelled=labelled)
        self.latent, self.hidden = latent, hidden
        self.model: Autoencoder | None = None

    def prepare(self, space: LabelSpace, network: nn.Module, data: Data) -> None:
        if self.model is None:
            device = next((p.device for p in network.parameters()), None)
            self.model = Autoencoder(_labels(space), _floats(data.some(_SAMPLED)), self.latent, self.hidden).to(device)

    def forward(self, look: Look) -> Tensor:
        if self.model is None:
            raise ValueError("M2 learns a model of x\nCall objective.prepare(network, data) first.")
        bound = self.model(_floats(look.seen).to(self.model.labels))  # (n, m)
        shape = (*bound.shape, look.y.shape[1])
        every = self.model.labels.to(look.logits).expand(shape).flatten(0, 1)
        here, known = (rows[:, None].expand(shape).flatten(0, 1) for rows in (look.logits, look.y))
        log_q = look.predict(here, given_rules=True).given(known).log_prob(every).view(bound.shape)
        possible = log_q > -math.inf  # others are known to be wrong
        log_q = log_q.masked_fill(~possible, 0.0)
        return (log_q.exp() * possible * (bound + log_q)).sum(1) / self.model.features


def _labels(space: LabelSpace) -> Tensor:
    """All valid labels as columns (m, width)."""
    count = space.count()
    if count > _MOST_LABELS:
        raise ValueError(
            f"M2 sums over all valid labels for each unlabelled row, at most {_MOST_LABELS}, and this space has {count}"
            "\nUse another term, or a space with fewer labels."
        )
    return torch.from_numpy(space.encode(list(space.valid(_MOST_LABELS)))).float()


def _floats(x: Tensor) -> Tensor:
    if not x.is_floating_point():
        raise DataError(f"M2 models x as numbers, and x is of {x.dtype}\nGive floats, or use another term.")
    return x
