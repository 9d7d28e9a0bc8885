"""Judging: label columns predicted in closed form, and every way of doing so judged by leaving rows out in turn.

Ridge regression on label columns has a leave-one-out error in closed form (Allen 1974), for any similarity of rows
(elsewhere called a kernel). So labels can say, in a second and without touching a test row, whether a linear model is
enough, how smooth predictions should be, and whether near rows have the same label:

* `linear` and `smooth` similarities use labelled rows alone,
* `manifold` ones also ask that predictions change little between near rows, labelled or not (Belkin et al. 2006),
* the `graph` uses nothing but nearest neighbours.

The best of them also gives every row probabilities, calibrated on the left-out predictions, that can teach a network.
And the best of those that know labelled rows only, a forest, or both, can answer beside a network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dssl.logic.labels import Columns
from dssl.logic.space import LabelSpace
from dssl.models.auto.beside import Beside, Machine, Together
from dssl.models.auto.ground import Floats, Ground, Way, plain_ways, tells
from dssl.models.auto.ridge import RidgeModel
from dssl.models.auto.trees import Forest, grow
from dssl.priors.predictive import Family, Predictive

_JUDGED = 300  # labelled rows that are left out in turn
_SHOWN = 64  # directions of wide labels that are judged


@dataclass(frozen=True)
class Judged:
    """How well each way predicts the labels of left-out rows.

    `errors` (rows,) are squared errors, as shares of those of a constant; `best` is the way with the least. `wrong` is
    the share of left-out rows in which the linear way's largest column is not the label's.
    `marginals` (n, width) are what it says about all rows, `left_out` (rows, width) about the labelled `rows` it was
    judged on, each without its own label. A row counts by its `weight` (rows,). `beside(seed)` may answer beside a
    network.
    """

    rows: NDArray[np.int64]
    weight: Floats
    errors: dict[str, Floats]
    best: str
    wrong: float
    marginals: Floats = field(repr=False)
    left_out: Floats = field(repr=False)
    beside: Callable[[int], Beside] | None = field(default=None, repr=False)

    def error(self, way: str) -> float:
        """The mean error of one way; 1 is a constant's."""
        return self._mean(self.errors[way])

    def behind(self, way: str, *others: str) -> tuple[float, float]:
        """By how much a way's error is above the least of others, and in how many standard errors of the difference."""
        other = min((self.errors[o] for o in others), key=self._mean)
        apart = self.errors[way] - other
        mean = self._mean(apart)
        spread = self._mean((apart - mean) ** 2) ** 0.5
        return mean, mean / (spread / self.count**0.5 + 1e-9)

    @property
    def count(self) -> float:
        """How many rows it was judged on, each counted by its weight."""
        return float(self.weight.sum())

    def _mean(self, values: Floats) -> float:
        return float((self.weight * values).sum() / self.weight.sum())


def judge(space: LabelSpace, x: Any, columns: Columns, ground: Ground | None) -> Judged | None:
    """Judges by rows x (n, features) of a ground and those label columns (n, width) that are known now.

    >>> space = LabelSpace.classes(["low", "high"])
    >>> x = np.linspace(-1, 1, 40)[:, None]
    >>> y = np.where(x < 0, [1.0, 0.0], [0.0, 1.0])
    >>> judge(space, x, y, Ground.of(x, y)).error("graph") < 0.5
    True

    None without a ground, or where its rows with known columns are too few, or all alike.
    """
    which = np.arange(0) if ground is None else np.flatnonzero(~np.isnan(columns[ground.known]).any(axis=1))
    if ground is None or not tells(columns[ground.known[which]], ground.weight[which]):
        return None
    known = ground.known[which]
    trial = _Trial.of(columns[known].astype(np.float64), ground.weight[which])
    found: dict[str, tuple[Floats, Way]] = {}
    for name, way in ground.ways(which):
        errors = trial.errors(way)
        if name not in found or trial.total(errors) < trial.total(found[name][0]):
            found[name] = errors, way

    def total(name: str) -> float:
        return trial.total(found[name][0])

    best = min(found, key=total)
    way = found[best][1]
    moves, left = way.predict(trial.labels - trial.mean, x), trial.left_out(way)
    probabilities = _calibrated(space, trial, trial.scale(way), left)
    shares = {name: values / trial.constant for name, (values, _) in found.items()}
    linear = trial.mean + trial.left_out(found["linear"][1])
    wrong = trial.total(linear.argmax(axis=1) != trial.some.argmax(axis=1)) / float(trial.weight.sum())
    answers = min((name for name in found if found[name][1].span), key=total)
    beside = partial(_best_beside, space, x[known], found[answers][1], trial) if space.width <= _SHOWN else None
    return Judged(
        known[: len(trial.some)], trial.weight, shares, best, wrong, probabilities(moves), probabilities(left), beside
    )


# ---- features ----


@dataclass(frozen=True)
class Left:
    """Squared errors (rows,) of left-out labels by the best of a few ways, as shares of a constant's."""

    errors: Floats
    weight: Floats

    @property
    def share(self) -> float:
        """Their mean; 1 is a constant's."""
        return float(np.average(self.errors, weights=self.weight))

    def behind(self, other: Left) -> float:
        """By how many standard errors of the difference these are above others of the same rows."""
        apart = self.errors - other.errors
        mean = float(np.average(apart, weights=self.weight))
        spread = float(np.average((apart - mean) ** 2, weights=self.weight)) ** 0.5
        return mean / (spread / float(self.weight.sum()) ** 0.5 + 1e-9)


def left_out_errors(x: Floats, labels: Columns, weight: Floats) -> Left:
    """What rows x (m, features) as they are tell about their labels (m, width), all of them known."""
    trial = _Trial.of(labels.astype(np.float64), weight)
    found = (trial.errors(way) for way in plain_ways(x, weight))
    return Left(min(found, key=trial.total) / trial.constant, trial.weight)


# ---- beside a network ----


def _best_beside(space: LabelSpace, x: Any, way: Way, trial: _Trial, seed: int) -> Beside:
    """A ridge model and a forest together, unless one of them alone is ahead by a standard error on left-out rows.

    The ridge model is the best of many by the same rows, and its lead over a forest is partly chance.
    """
    ridge = _ridge(space, way, trial)
    if not isinstance(x, np.ndarray):
        return ridge
    forest = _forest(space, x, trial, seed)
    both = Beside(
        "a ridge model and a forest",
        Together(ridge.machine, forest.machine),
        lambda fold: (ridge.left_out(fold) + forest.left_out(fold)) / 2,
    )
    alone = np.arange(len(trial.some))  # each row a fold of its own

    def errors(one: Beside) -> Floats:
        p = Predictive(one.left_out(alone).double(), Family.of(space)).marginals.numpy()
        return np.asarray(((p - trial.some) ** 2).sum(axis=1))

    def ahead(one: Beside) -> float:
        return -Left(errors(one), trial.weight).behind(Left(errors(both), trial.weight))

    best = max(ridge, forest, key=ahead)
    return best if ahead(best) > 1 else both


def _ridge(space: LabelSpace, way: Way, trial: _Trial) -> Beside:
    scale = trial.scale(way)
    told, reach = _voice(space, trial, scale, trial.left_out(way))
    assert way.span is not None
    span, through = way.span
    factor = reach * scale
    coefficients = factor * span.to @ (through @ way.weights(trial.labels - trial.mean))
    machine = RidgeModel(space, span.kind, *span.marks.shape)
    machine.told(marks=span.marks, scale=span.scale, coefficients=coefficients, **told)
    return Beside(
        "a ridge model",
        machine,
        lambda fold: _said(machine, factor * _left_out_in_folds(way, trial.some - trial.mean, fold)),
    )


def _forest(space: LabelSpace, x: NDArray[Any], trial: _Trial, seed: int) -> Beside:
    """Rows of any folds are left out by the trees that did not see them."""
    grown = grow(x, trial.labels, trial.counts, seed)
    left = grown.left_out[: len(trial.some)] - trial.mean
    told, reach = _voice(space, trial, 1.0, left)
    values = reach * (grown.arrays["values"] - trial.mean)
    machine = Forest(space, grown.size).told(**grown.arrays | {"values": values}, **told)
    return Beside("a forest", machine, lambda fold: _said(machine, reach * left))


def _voice(space: LabelSpace, trial: _Trial, scale: float, left: Floats) -> tuple[dict[str, Any], float]:
    """How a machine makes logits of its moves, and how far these reach, by its left-out predictions."""
    reach, power = _sharpest(space, trial, scale, left)
    mean = trial.shrunk(space)
    return {"power": power, "mean": mean, "bend": _bends(space, mean)}, reach


def _said(machine: Machine, moves: Floats) -> torch.Tensor:
    return machine.logits(torch.from_numpy(moves))


def _left_out_in_folds(way: Way, target: Floats, fold: NDArray[np.int64]) -> Floats:
    """Each judged row's prediction from the judged rows of other folds."""
    inverse = _inverse(way, len(target))
    out = np.empty_like(target)
    for number in np.unique(fold):
        rows = np.flatnonzero(fold == number)
        out[rows] = target[rows] - np.linalg.solve(inverse[np.ix_(rows, rows)], (inverse @ target)[rows])
    return out


# ---- leaving rows out ----


@dataclass(frozen=True)
class _Trial:
    """Labelled rows, the first of which are left out in turn, and what their left-out predictions are compared with.

    That is labels minus the mean of the others, in a few directions.
    """

    labels: Floats  # (known, width)
    counts: Floats  # (known,), how many rows each counts as
    mean: Floats  # (width,) of all labels
    shown: Floats  # (judged, directions), labels minus the mean
    truth: Floats  # (judged, directions), labels minus the mean of the others
    constant: float  # mean squared error of that mean

    @classmethod
    def of(cls, labels: Floats, counts: Floats) -> _Trial:
        mean, some = counts @ labels / counts.sum(), labels[:_JUDGED]
        weight = counts[:_JUDGED, None]
        centred = some - mean
        if centred.shape[1] > _SHOWN:
            centred = centred @ np.linalg.svd(np.sqrt(weight) * centred, full_matrices=False)[2][:_SHOWN].T
        weighed = weight * centred
        truth = centred - (weighed.sum(axis=0) - weighed) / (weight.sum() - weight)
        constant = float((weight * truth**2).sum(axis=1).sum() / weight.sum())
        return cls(labels, counts, mean, centred, truth, constant or 1.0)

    @property
    def some(self) -> Floats:
        """The labels that are left out in turn (judged, width)."""
        return self.labels[:_JUDGED]

    @property
    def weight(self) -> Floats:
        """How many rows each of them counts as (judged,)."""
        return self.counts[:_JUDGED]

    def total(self, values: NDArray[Any]) -> float:
        """The sum of what judged rows have, (judged,) or (judged, k), by their weight."""
        return float((self.weight.reshape(-1, *(1 for _ in values.shape[1:])) * values).sum())

    def errors(self, way: Way) -> Floats:
        """Squared errors (judged,) of left-out predictions, all of them scaled by the one best number."""
        left = _left_out(way, self.shown)
        return ((self.truth - self._scaled(left) * left) ** 2).sum(axis=1)

    def scale(self, way: Way) -> float:
        """The number that left-out predictions are best multiplied by."""
        return self._scaled(_left_out(way, self.shown))

    def _scaled(self, left: Floats) -> float:
        return float(np.clip(self.total(left * self.truth) / max(1e-12, self.total(left**2)), 0.0, 8.0))

    def left_out(self, way: Way) -> Floats:
        """Each judged row's prediction from the others, minus the mean (judged, width)."""
        return _left_out(way, self.some - self.mean)

    def shrunk(self, space: LabelSpace) -> Floats:
        """The mean label (width,) of these rows and one more, which has every value alike."""
        return np.asarray((self.counts @ self.labels + _even(space)) / (self.counts.sum() + 1))


def _left_out(way: Way, target: Floats) -> Floats:
    """Each row's prediction from all others of the first rows, those that have a target (Allen's identity)."""
    inverse = _inverse(way, len(target))
    return target - inverse @ target / np.diag(inverse)[:, None]


def _inverse(way: Way, rows: int) -> Floats:
    """The inverse of similarity plus ridge, of the first rows."""
    ridge = np.broadcast_to(way.ridge, len(way.similarity))[:rows]
    return np.asarray(np.linalg.inv(way.similarity[:rows, :rows] + ridge * np.eye(rows)))


# ---- probabilities ----


def _calibrated(space: LabelSpace, trial: _Trial, scale: float, left: Floats) -> Callable[[Floats], Floats]:
    """How predictions, minus the mean label, become probabilities (n, width): as they are, or sharpened given rules.

    Whichever has the smaller squared error on left-out rows; sharpness is that of the largest left-out likelihood. Wide
    labels are left as they are.
    """

    def plain(moves: Floats) -> Floats:
        p = np.clip(trial.mean + scale * moves, 1e-4, 1 - 1e-4)
        for variable, (start, stop) in zip(space.variables, space.spans):
            if not variable.binary:
                p[:, start:stop] /= p[:, start:stop].sum(axis=1, keepdims=True)
        return p

    if space.width > _SHOWN:
        return plain
    chosen = _sharpest(space, trial, scale, left)

    def given_rules(moves: Floats) -> Floats:
        parts = [_sharpened(space, trial, scale * moves[i : i + 4096], *chosen).marginals.numpy()
                 for i in range(0, len(moves), 4096)]  # fmt: skip
        return np.concatenate(parts)

    errors = [trial.total((way(left) - trial.some) ** 2) for way in (plain, given_rules)]
    return plain if errors[0] <= errors[1] else given_rules


def _sharpest(space: LabelSpace, trial: _Trial, scale: float, left: Floats) -> tuple[float, float]:
    """How far predictions reach from the mean, and the power of their logits, by the likelihood of left-out labels."""
    y, weight = torch.from_numpy(trial.some), torch.from_numpy(trial.weight)

    def surprise(way: tuple[float, float]) -> float:
        return float(-(weight * _sharpened(space, trial, scale * left, *way).log_prob(y).clamp_min(-50)).sum())

    ways = [(reach, power) for reach in (0.02, 0.3, 0.6, 1, 1.5, 2, 3) for power in (0.3, 0.5, 0.7, 1, 1.4, 2, 3, 4, 6)]
    return min(ways, key=surprise)


def _sharpened(space: LabelSpace, trial: _Trial, moves: Floats, reach: float, power: float) -> Predictive:
    logits = power * _logits(space, trial.shrunk(space), reach * moves)
    return Predictive(torch.from_numpy(logits), Family.of(space))


def _even(space: LabelSpace) -> Floats:
    return np.concatenate([np.full(stop - start, 1 / max(2, stop - start)) for start, stop in space.spans])


def _logits(space: LabelSpace, mean: Floats, moves: Floats) -> Floats:
    """Logits of probabilities mean + moves, which may be below 0 or above 1: they are bent to stay inside."""
    bend, binary = _bends(space, mean), np.array([v.binary for v in space.variables for _ in v.values[v.binary :]])
    p = mean + moves
    return _log_bent(p, bend) - np.where(binary, _log_bent(1 - p, bend), 0.0)


def _bends(space: LabelSpace, mean: Floats) -> Floats:
    """How far from 0 and 1 predictions are bent (width,): less where a column is rare."""
    out = np.full(space.width, 0.02)
    for variable, (start, _) in zip(space.variables, space.spans):
        if variable.binary:
            out[start] = np.clip(min(mean[start], 1 - mean[start]) / 2, 1e-4, 0.02)
    return out


def _log_bent(p: Floats, bend: Floats) -> Floats:
    return np.asarray(np.log(bend * np.logaddexp(0, np.maximum(p / bend, -300))))
