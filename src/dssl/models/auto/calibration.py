"""Calibration: how sharp predictions should be, found on labelled rows that a network had not seen.

Networks that are trained until they fit a few labels are too sure of themselves. Labelled rows are left out in folds; a
network that was trained without a fold says how sure it is there, and the labels say how sure it should have been. The
result is one number, which the network gets as a last layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.logic.space import LabelSpace
from dssl.models.auto.beside import Blended
from dssl.models.auto.judging import Judged
from dssl.models.auto.plan import are_texts, is_wide
from dssl.models.fitting.lessons import Lesson, Numbers
from dssl.models.inference import run
from dssl.models.splitting import folds
from dssl.priors.predictive import Family, Predictive

After = Callable[[Tensor], Tensor]  # from a network's outputs to logits

_SCALES = np.sort(np.append(np.geomspace(0.02, 8.0, 60), 1.0))
_FOLDS = 4
_FEWEST = 2 * _FOLDS  # labelled rows, fewer of which are not left out
_ENOUGH = 20  # labelled rows, fewer of which say too little
_EACH = 3  # labels per class at least: fewer, and folds are without some class
_LEAST_STEPS = 100
_ELSEWHERE = 1000  # unlabelled rows on which networks are compared
_SHARES = (0.0, 0.25, 0.5, 0.75)  # of a ridge model,
_ALONE = 200  # which may answer alone if as many labels say so: fewer have chosen it among many ways by chance
_DOUBT = 2.0  # labels' worth of belief that predictions are as sharp as they should be,
_LEAN, _HALF = 4.0, 0.4  # and that this is about the share of the ridge model


class Calibrated(nn.Module):
    """Outputs at `scale` times their distance from `base`: base + scale (z − base), shapes (n, width).

    >>> layer = Calibrated(torch.tensor([0.0, 1.0]), 0.5).eval()
    >>> layer(torch.tensor([[4.0, 3.0]]))
    tensor([[2., 2.]])

    With base 0 it is a temperature, which leaves the most probable label as it is, with rules too. With the log odds of
    label frequencies it moves predictions towards these: at scale 0 the model is the constant one. In training it is
    the identity.
    """

    base: Tensor
    scale: Tensor

    def __init__(self, base: Tensor, scale: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("base", base.float())
        self.register_buffer("scale", torch.tensor(float(scale)))

    def forward(self, z: Tensor) -> Tensor:
        return z if self.training else self.base + self.scale * (z - self.base)


@dataclass(frozen=True)
class Fold:
    """What a network that had not seen some labelled rows said about these, and about unlabelled rows (m, width).

    `beside` is what a ridge model that had not seen them either said about them.
    """

    outputs: Tensor  # (n, width)
    labels: Tensor  # (n, width), NaN where unknown
    weight: Tensor  # (n,)
    elsewhere: Tensor
    beside: Tensor | None = None


@dataclass(frozen=True)
class Found:
    """What was found: base + network · (z − base) + ridge · (k − base), z of the network and k of a ridge model.

    `before` and `after` are mean squared errors of left-out labels, of the network alone and of the result.
    """

    network: float
    ridge: float
    share: float  # of the ridge model
    before: float
    after: float
    rows: float
    beside: str = "a ridge model"
    sure: float = 1.0  # standard errors by which predictions are ahead of label frequencies alone, 1 at most

    def said(self) -> tuple[str, str]:
        """As a line of a plan: what is done, and why."""
        figures = f"squared error of {self.rows:.0f} left-out labels: {self.before:.2f} before, {self.after:.2f} after"
        if not self.sure:
            return "label frequencies", f"{figures}: features do not help measurably to predict labels"
        if self.sure < 1:
            figures += f"; drawn to the label frequencies, which are only {self.sure:.1f} standard errors behind"
        if self.ridge:
            return f"{self.share:.0%} of {self.beside}", figures
        return f"sharpness × {self.network:.2g}", figures


@dataclass(frozen=True)
class Outputs:
    """Of unlabelled rows (m, width): of the network that saw all labels, and of the ridge model."""

    network: Tensor
    ridge: Tensor | None = None


def calibrate(
    family: Family, base: Tensor, folds: Sequence[Fold], elsewhere: Outputs, after: After = lambda z: z
) -> Found:
    """Shares and scale with the least squared error of left-out labels, carried over to the network that saw all.

    Networks of the folds were trained for fewer steps, on fewer labels, and may be less sure for that alone. So the
    scale is carried over by how sure they are, at their best scale, `elsewhere`: on unlabelled rows, where the network
    that saw all labels should be as sure. Without such rows it has the same scale. If a base is given, and predictions
    are ahead of it by less than a standard error, they are moved towards it in proportion; if not ahead, all the way.
    """
    trial = _Blending(family, base, folds, elsewhere, after)
    plain, rows = float(trial.mean(trial.errors(0.0, trial.size))), float(trial.weight.sum())
    tried = []
    shares = (*_SHARES, *([1.0] if rows >= _ALONE else [])) if folds[0].beside is not None else (0.0,)
    for share in shares:
        losses = np.stack([trial.errors(share, scale * trial.size) for scale in _SCALES])  # (scales, rows)
        doubts = _DOUBT / 2 * (np.log(_SCALES) ** 2 + _LEAN * (share - _HALF) ** 2) / rows
        at = int((trial.mean(losses) + doubts).argmin())
        tried.append((float(trial.mean(losses[at]) + doubts[at]), share, at, losses))
    _, share, at, losses = min(tried, key=lambda one: one[0])
    sure = trial.sure(losses[0] - losses[at]) if bool(base.any()) else 1.0
    if not sure:
        return Found(float(_SCALES[0]), 0.0, 0.0, plain, float(trial.mean(losses[0])), rows, sure=0.0)
    scale = sure * trial.carried_over(share, float(_SCALES[at]) * trial.size)
    network, ridge = trial.weights(share, scale)
    return Found(network, ridge, share, plain, float(trial.mean(losses[at])), rows, sure=sure)


class _Blending:
    """Shares and scales tried. Outputs are compared by size: their mean distance from the base on unlabelled rows."""

    def __init__(self, family: Family, base: Tensor, folds: Sequence[Fold], elsewhere: Outputs, after: After) -> None:
        self.family, self.base, self.folds, self.elsewhere, self.after = family, base, folds, elsewhere, after
        self.weight = torch.cat([fold.weight for fold in folds]).double().numpy()
        some = bool(len(elsewhere.network))
        self.size = self._size(torch.cat([fold.elsewhere if some else fold.outputs for fold in folds]))
        self.full = self._size(elsewhere.network) if some else self.size
        self.beside = 1.0
        if folds[0].beside is not None:
            left = torch.cat([fold.beside for fold in folds if fold.beside is not None])
            self.beside = self._size(elsewhere.ridge if some and elsewhere.ridge is not None else left)

    def _size(self, outputs: Tensor) -> float:
        return float((outputs - self.base).abs().mean().clamp_min(1e-6))

    def _mixed(self, share: float, scale: float, z: Tensor, size: float, k: Tensor | None) -> Predictive:
        moved = (1 - share) / size * (z - self.base)
        if share and k is not None:
            moved = moved + share / self.beside * (k - self.base)
        return Predictive(self.after(self.base + scale * moved), self.family)

    def errors(self, share: float, scale: float) -> NDArray[np.float64]:
        """Squared errors of left-out labels (rows,)."""
        each = [_errors(self._mixed(share, scale, fold.outputs, self.size, fold.beside), fold.labels)
                for fold in self.folds]  # fmt: skip
        return torch.cat(each).double().numpy()

    def sure(self, gain: NDArray[np.float64]) -> float:
        """How many standard errors a gain (rows,) is above 0, within 0 and 1."""
        mean = self.mean(gain)
        spread = float(np.sqrt(self.mean((gain - mean) ** 2) / self.weight.sum()))
        return float(np.clip(mean / max(spread, 1e-12), 0.0, 1.0))

    def mean(self, errors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of errors (…, rows), a row of weight w counted as w rows."""
        return np.asarray((errors * self.weight).sum(axis=-1) / self.weight.sum())

    def carried_over(self, share: float, scale: float) -> float:
        """The scale at which the network that saw all labels is as sure elsewhere as those of the folds are."""
        if not len(self.elsewhere.network):
            return scale
        ridge = self.elsewhere.ridge

        def sure(scale: float, z: Tensor, size: float) -> float:
            return _confidence(self._mixed(share, scale, z, size, ridge))

        wanted = float(np.mean([sure(scale, fold.elsewhere, self.size) for fold in self.folds]))
        own = np.array([sure(each * self.full, self.elsewhere.network, self.full) for each in _SCALES])
        return float(_SCALES[np.abs(own - wanted).argmin()]) * self.full

    def weights(self, share: float, scale: float) -> tuple[float, float]:
        """Of the network that saw all labels, and of the ridge model."""
        return scale * (1 - share) / self.full, scale * share / self.beside


def _errors(p: Predictive, labels: Tensor) -> Tensor:
    """Squared errors of the probabilities of known columns, added up (n,).

    They are largest for labels called impossible, as log loss is, but bounded: one confident mistake among thirty
    labels does not make all predictions unsure.
    """
    return (p.marginals - labels).square().nan_to_num(0.0).sum(-1)


def _confidence(p: Predictive) -> float:
    """The probability of the most probable value, in the mean over variables and rows."""
    most = [value.amax(-1) for value in p.value_marginals]
    return float(torch.cat(most, -1).mean())


def uncalibrated(network: nn.Module) -> nn.Module:
    """The network without its calibration, to go on training."""
    core, *behind = parts(network)
    core = core.network if isinstance(core, Blended) else core
    return joined(core, *(layer for layer in behind if not isinstance(layer, Calibrated)))


def parts(network: nn.Module) -> list[nn.Module]:
    """The network proper, and the layers that `joined` put behind it."""
    return list(network.children()) if isinstance(network, _Joined) else [network]


def joined(network: nn.Module, *layers: nn.Module | None) -> nn.Module:
    """A network with further layers behind it; None is no layer."""
    there = [layer for layer in layers if layer is not None]
    return _Joined(network, *there) if there else network


class _Joined(nn.Sequential):
    """A network and the layers behind it, to be told from a user's own sequence."""


# ---- folds ----


def calibration_rows(asked: str | bool, lesson: Lesson, *, in_elements: bool = False) -> Numbers | None:
    """The labelled rows to leave out in turn, or None if predictions stay as they are."""
    rows = lesson.kept[lesson.labelled[lesson.kept]]
    enough = max(_ENOUGH, _EACH * lesson.space.width if _is_class(lesson.space) else 0)
    if asked is True:
        return rows if len(rows) >= _FEWEST else None
    # a soft rule weighs labels besides the network, and is not to count more or less for it; where most columns are
    # rare, networks are sure of nearly all of them at any scale, and cannot be compared by that
    wide = is_wide(lesson.space, in_elements=in_elements) or lesson.cascade is not None
    weighed = any(rule.probability is not None for rule in lesson.space.rules)
    rare = wide or are_texts(lesson.space, lesson.x)
    few = len(rows) < _FEWEST or lesson.weight[rows].sum() < enough
    return None if asked is False or weighed or rare or few else rows


def _is_class(space: LabelSpace) -> bool:
    return len(space.variables) == 1 and not space.variables[0].binary


def fold_steps(steps: int, *, in_full: bool = False) -> int:
    """Steps of each fold's network: all folds together take about as long as the network itself.

    With `in_full` they are those of the network. A network that learns a table's labels alone takes short steps, and
    how much it learned by heart does not show after a quarter of them.
    """
    return steps if in_full else min(steps, max(_LEAST_STEPS, ceil(steps / _FOLDS)))


def cross_fitted(
    lesson: Lesson,
    network: nn.Module,
    first: NDArray[np.float64],
    judged: Judged | None,
    seed: int,
    trained_without: Callable[[Numbers], nn.Module],
) -> tuple[nn.Module, Found]:
    """The network, calibrated by networks that are trained without some labelled rows each, and what was found.

    Predictions of classes, and of wide hierarchies, are moved towards `first`, the outputs of label frequencies; others
    are made sharper or softer. With a judge, its best ridge model answers beside the network as far as that pays.
    """
    core, *behind = parts(network)
    rows = lesson.kept[lesson.labelled[lesson.kept]]
    beside = None
    if judged is not None and judged.beside is not None:
        beside = judged.beside(seed % 2**32)
        rows = lesson.kept[judged.rows]  # what neither has seen can be said of these
    number = folds(lesson.columns[rows], _FOLDS, np.random.RandomState(seed % 2**32))
    said = None if beside is None else beside.left_out(number)
    others = np.flatnonzero(~lesson.labelled & lesson.counting)[:_ELSEWHERE]
    base = torch.from_numpy(first if behind or _is_class(lesson.space) else np.zeros_like(first)).float()
    told = []
    for k in range(_FOLDS):
        hidden = rows[number == k]
        other = trained_without(hidden)
        labels, weight = (torch.from_numpy(part[hidden]).float() for part in (lesson.columns, lesson.weight))
        ridge = None if said is None else said[torch.from_numpy(number == k)]
        told.append(Fold(_outputs(other, lesson, hidden), labels, weight, _outputs(other, lesson, others), ridge))
    machine = None if beside is None else beside.machine
    elsewhere = Outputs(_outputs(core, lesson, others), None if machine is None else _outputs(machine, lesson, others))
    found = calibrate(lesson.family, base, told, elsewhere, nn.Sequential(*behind))
    if beside is not None and found.ridge:
        blended = Blended(core, beside.machine, base, (found.network, found.ridge))
        return joined(blended, *behind), replace(found, beside=beside.name)
    return joined(core, Calibrated(base, found.network), *behind), found


def _outputs(network: nn.Module, lesson: Lesson, rows: Numbers) -> Tensor:
    return run(network, lesson.x[rows]) if len(rows) else torch.zeros(0, lesson.space.width)
