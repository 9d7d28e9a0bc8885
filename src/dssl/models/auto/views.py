"""Views: which changes of images leave labels as they are, decided by labelled rows that a network had not seen.

A shifted image usually shows what it showed before, and a mirrored digit does not. So one small network after the other
learns half of the labelled rows, seen as they are or changed in one way, and says what the other half shows. A change
is used if left-out labels are predicted better with it; nothing is taken on trust.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.data.rows import ArrayData
from dssl.logic.labels import Columns
from dssl.logic.space import LabelSpace
from dssl.models.auto.ground import tells
from dssl.models.fitting.lessons import Numbers, counting
from dssl.models.inference import run
from dssl.models.splitting import folds
from dssl.priors.blocks import Blocks
from dssl.priors.predictive import Family, Predictive
from dssl.training.loop import train
from dssl.training.objective import Objective
from dssl.training.settings import Settings
from dssl.training.terms.augmentation import Affine, Augmentation, Chain, Cutout, Flip, Lighting, Shift, Views

Floats = NDArray[np.float64]

# changes under which rows are learned, and those under which only a guess has to stay the same
_WEAK: dict[str, type[Augmentation]] = {"shifted": Shift, "mirrored": Flip}
_STRONG: dict[str, type[Augmentation]] = {"turned and resized": Affine, "lit otherwise": Lighting, "cut out": Cutout}
_HALVES = 2
_ENOUGH = 20  # labelled rows, fewer of which say too little
_JUDGED = 1000  # labelled rows that are left out
_BETTER = -0.5  # standard errors by which left-out labels are predicted better, at least
_STEPS, _BATCH, _RATE = 150, 64, 4e-3
_LARGEST, _SMALLEST = 32, 4  # pixels per side that the small network looks at, and down to which it halves them


@dataclass(frozen=True)
class Seen:
    """What was found: views to learn from, and for each change its squared error of left-out labels."""

    views: Views = field(repr=False)
    taken: tuple[str, ...]
    plain: float  # the error of rows as they are
    errors: dict[str, float]
    rows: int

    def said(self) -> tuple[str, str]:
        """As a line of a plan: what is done, and why."""
        tried = ", ".join(f"{name} {error:.2f}" for name, error in self.errors.items())
        return ", ".join(self.taken) or "as they are", (
            f"squared error of {self.rows} left-out labels {self.plain:.2f} for rows as they are, {tried}"
        )


def judge_views(
    space: LabelSpace, x: NDArray[np.float32], columns: Columns, weight: Floats, seed: int = 0
) -> Seen | None:
    """What labelled rows say about views of images x (n, channels, height, width) with label columns (n, width).

    None where labels are too few to tell, or images too small to change.
    """
    known = np.flatnonzero(~np.isnan(columns).all(axis=1) & counting(weight))
    known = np.random.default_rng(seed).permutation(known)[:_JUDGED]
    if len(known) < _ENOUGH or weight[known].sum() < _ENOUGH or min(x.shape[2:]) < _SMALLEST:
        return None
    labels, counts = columns[known], weight[known]
    if not tells(np.nan_to_num(labels), counts):
        return None
    trial = _Trial(space, x[known], labels, counts, seed)
    plain = trial.errors(None)
    found = {name: trial.errors(change()) for name, change in (_WEAK | _STRONG).items()}
    taken = tuple(name for name, errors in found.items() if trial.behind(errors, plain) <= _BETTER)
    weak, strong = ([change() for name, change in kinds.items() if name in taken] for kinds in (_WEAK, _WEAK | _STRONG))
    views = Views(Chain(*weak) if weak else None, Chain(*strong) if strong else None)
    return Seen(
        views, taken, trial.mean(plain), {name: trial.mean(errors) for name, errors in found.items()}, len(known)
    )


class _Trial:
    """Labelled images, each half of which is left out in turn."""

    def __init__(self, space: LabelSpace, x: NDArray[np.float32], labels: Columns, weight: Floats, seed: int) -> None:
        self.space, self.x, self.labels, self.weight, self.seed = space, x, labels, weight, seed
        self.half = folds(labels, _HALVES, np.random.RandomState(seed % 2**32))

    def errors(self, view: Augmentation | None) -> Floats:
        """Squared errors of what a network says of each row (n,) that learned the other half, changed by the view."""
        out = np.empty(len(self.x))
        for k in range(_HALVES):
            rows = np.flatnonzero(self.half == k)
            logits = run(self._learned(np.flatnonzero(self.half != k), view), self.x[rows])
            p = Predictive(logits, Family(Blocks(self.space), None))
            apart = (p.marginals.double() - torch.from_numpy(self.labels[rows])).square()
            out[rows] = apart.nan_to_num(0.0).sum(-1).numpy()
        return out

    def _learned(self, rows: Numbers, view: Augmentation | None) -> nn.Module:
        data = ArrayData(self.x[rows], self.labels[rows], self.weight[rows] / self.weight[rows].mean())
        objective = Objective(self.space, None, augment=Views(view))
        settings = Settings(_STEPS, _BATCH, 0, _RATE, optimizer="adamw", weight_decay=1e-4, seed=self.seed)
        network = _small_network(torch.from_numpy(self.x[:1]), self.space.width, self.seed)
        return train(network, objective, data, settings).network.cpu()

    def mean(self, errors: Floats) -> float:
        return float(np.average(errors, weights=self.weight))

    def behind(self, errors: Floats, others: Floats) -> float:
        """By how many standard errors of the difference the first are above the others."""
        apart = errors - others
        mean = self.mean(apart)
        spread = self.mean((apart - mean) ** 2) ** 0.5
        return mean / (spread / float(self.weight.sum()) ** 0.5 + 1e-9)


def _small_network(example: Tensor, width: int, seed: int) -> nn.Module:
    """Three strided convolutions, and a layer that knows where in the image things are."""
    channels, *size = example.shape[1:]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        layers: list[nn.Module] = []
        if max(size) > _LARGEST:
            size = [min(side, _LARGEST) for side in size]
            layers.append(nn.AdaptiveAvgPool2d(tuple(size)))
        for wide in (16, 32, 64):
            stride = 2 if min(size) > _SMALLEST else 1
            layers += [nn.Conv2d(channels, wide, 3, stride, 1), nn.GroupNorm(4, wide), nn.ReLU()]
            channels, size = wide, [-(-side // stride) for side in size]
        area = channels * size[0] * size[1]
        return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.1), nn.Linear(area, width))
