"""Runs small enough to be killed, repeated and compared by the dozen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dssl import DeterministicPrior, LabelSpace
from dssl.data.rows import ArrayData
from dssl.training.loop import History, Settings, train
from dssl.training.networks import make_network
from dssl.training.objective import Objective
from dssl.training.terms.augmentation import Noise
from dssl.training.terms.consistency import VAT, MeanTeacher, TemporalEnsembling
from dssl.training.terms.matching import FixMatch, ReMixMatch

FEATURES, WIDTH = 6, 3


def tiny_data(n: int = 60, labelled: int = 20, seed: int = 0) -> ArrayData:
    """Three clusters; the first rows are labelled."""
    random = np.random.default_rng(seed)
    classes = np.arange(n) % WIDTH
    x = random.normal(size=(n, FEATURES)) + 2 * np.eye(WIDTH, FEATURES)[classes]
    y = np.eye(WIDTH)[classes]
    y[labelled:] = np.nan
    return ArrayData(x, y)


@dataclass(frozen=True)
class TinyLoss:
    total: Tensor
    parts: dict[str, Tensor]


class TinyObjective(nn.Module):
    """Cross-entropy, confidence, and terms of the whole batch: its mean prediction's entropy and a running mean."""

    mean: Tensor

    def __init__(self, scale: float = 0.1) -> None:
        super().__init__()
        self.scale = scale
        self.register_buffer("mean", torch.full((WIDTH,), 1 / WIDTH))

    def forward(self, logits: Tensor, y: Tensor, step: int | None = None, sample_weight: Any = None) -> TinyLoss:
        known = ~y.isnan().any(1)
        log_theta = logits.log_softmax(1)
        mean = log_theta.exp().mean(0)
        with torch.no_grad():
            self.mean.lerp_(mean, 0.1)
        parts = {
            "supervised": -(y[known] * log_theta[known] * sample_weight[known, None]).sum() / max(1, int(known.sum())),
            "prior": -self.scale * log_theta[~known].logsumexp(1).sum()
            - self.scale * (log_theta * 3).logsumexp(1).mean(),
            "balance": (mean * mean.log()).sum() + (mean / self.mean).log().square().sum(),
        }
        return TinyLoss(sum(parts.values(), torch.zeros(())), parts)


EVERY = tiny_data().batch(np.arange(20))


def tiny_network(seed: int = 1) -> nn.Module:
    """With dropout, so that randomness matters."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body = nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, WIDTH))
    return make_network(body, torch.zeros(2, FEATURES), WIDTH)


def fit(network: nn.Module) -> float:
    """A score that rises to the end of a run, so that its last weights are the best."""
    return -float(TinyObjective()(network(EVERY.x), EVERY.y, sample_weight=EVERY.weight).parts["supervised"])


TINY = Settings(
    steps=60,
    labelled_batch=8,
    unlabelled_batch=16,
    ema=0.9,
    eval_every=7,
    checkpoint_every=3,
    seed=3,
    accelerator="cpu",
)


def tiny_run(folder: Path | None = None, **changes: Any) -> History:
    """One run from the same beginning every time."""
    settings = replace(TINY, checkpoint=folder, **changes)
    return train(tiny_network(), TinyObjective(), tiny_data(), settings, validate=fit)


def every_term(random: bool = True) -> Objective:
    """An objective with a prior and terms of every kind of state; if not random, a function of the rows alone."""
    space = LabelSpace.classes(["a", "b", "c"])
    terms = [MeanTeacher(decay=0.9), TemporalEnsembling(), FixMatch(threshold=0.6, align=True)]
    more = [VAT(), ReMixMatch()] if random else []
    views = (Noise(0.1), Noise(0.5)) if random else (None, lambda x: 0.8 * x)
    return Objective(space, DeterministicPrior(space), consistency=[*terms, *more], augment=views, mean="terms")


def same_weights(a: nn.Module, b: nn.Module) -> bool:
    """Whether two networks have the same weights to the last bit."""
    return all(torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values()))
