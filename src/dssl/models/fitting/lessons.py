"""A lesson: rows, labels and weights of one fit, ready for the loop, and how much each kind of row counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dssl.circuits.beyond.cascade import Cascade
from dssl.data.rows import ArrayData
from dssl.errors import DataError
from dssl.logic.labels import Columns, indices
from dssl.logic.language.variables import Variable, listed, nearest
from dssl.logic.space import LabelSpace
from dssl.models.splitting import folds
from dssl.priors.blocks import Blocks
from dssl.priors.predictive import Answers, Family

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

_SCANT = 0.01  # share of the usual weight, below which a row does not count beside others


@dataclass(frozen=True)
class Lesson:
    """Standardised rows x (n, …), label columns (n, width) and weights (n,); `held` are kept out to validate on.

    A row of weight w counts as w rows. A row is *labelled* if any part of its label is known, and *open* unless all
    of it is known. `circuit` answers for the rules; None is that of the space.
    """

    space: LabelSpace
    x: Any
    columns: Columns
    weight: NDArray[np.float64]
    held: Numbers
    circuit: Answers | None = None

    @property
    def family(self) -> Family:
        """Every p(y | x, V) of these labels."""
        return Family.of(self.space) if self.circuit is None else Family(Blocks(self.space), self.circuit)

    @property
    def cascade(self) -> Cascade | None:
        """Who answers where classes are decided from the top down."""
        return self.circuit if isinstance(self.circuit, Cascade) else None

    @cached_property
    def kept(self) -> Numbers:
        """The numbers of the rows to learn from."""
        return np.setdiff1d(np.arange(len(self.columns)), self.held)

    @cached_property
    def labelled(self) -> Mask:
        return np.asarray((~np.isnan(self.columns)).any(axis=1))

    @cached_property
    def open(self) -> Mask:
        return ~Blocks(self.space).complete(torch.from_numpy(self.columns)).numpy()

    def share(self, which: Mask) -> float:
        """The share of some rows among those to learn from, by weight."""
        total = float(self.weight[self.kept].sum())
        return float(self.weight[self.kept][which[self.kept]].sum()) / total

    @cached_property
    def counting(self) -> Mask:
        """The rows that count for something."""
        return counting(self.weight)

    def data(self, class_weight: Any = None) -> ArrayData:
        """The rows to learn from, with weights relative to rows of the same kind, and of a class if that is given.

        The loop draws labelled and unlabelled rows into batches of their own. So the mean weight of labelled rows is
        1, whatever their scale, and that of unlabelled ones their share of all rows: few of them say little.
        """
        weight = self.weight * by_class(self.space, self.columns, self.weight, class_weight)
        for part, counts in ((self.labelled, 1.0), (~self.labelled, self.share(~self.labelled))):
            rows = self.kept[part[self.kept]]
            weight[rows] *= counts / weight[rows].mean() if len(rows) else 1
        x = self.x[self.kept]
        x = torch.from_numpy(x) if x.dtype.kind == "i" else x  # whole numbers stay what they are
        return ArrayData(x, self.columns[self.kept], weight[self.kept])

    def open_in_a_batch(self, labelled: int, unlabelled: int) -> int:
        """About how many open rows a batch has, with at most this many labelled and unlabelled rows."""
        known, open_ = self.labelled[self.kept], self.open[self.kept]
        partly = min(labelled, int(known.sum())) * float(np.mean(open_[known])) if known.any() else 0.0
        return max(1, round(partly) + min(unlabelled, int((~known).sum())))


def counting(weight: NDArray[np.float64]) -> Mask:
    """Which rows count for something beside the others: at least a hundredth of the usual weight.

    >>> counting(np.array([1.0, 2.0, 0.5, 1e-9])).tolist()
    [True, True, True, False]

    The usual weight is the mean over all that is counted, so any number of light rows leave it as it is.
    """
    relative = weight / weight.max()
    return np.asarray(relative >= _SCANT * np.average(relative, weights=relative))


def held_out(columns: Columns, fraction: float, random: np.random.RandomState) -> Numbers:
    """Labelled rows for early stopping: one of 1 / fraction stratified folds."""
    rows = np.flatnonzero((~np.isnan(columns)).any(axis=1))
    count = round(1 / fraction)
    if len(rows) < 2 * count:
        raise DataError(
            f"{len(rows)} labelled rows are too few to hold out a fraction of {fraction:g}\n"
            'Leave "patience" out of the settings, or label more rows.'
        )
    return rows[folds(columns[rows], count, random) == 0]


# ---- weights of classes ----


def by_class(space: LabelSpace, columns: Columns, weight: NDArray[np.float64], asked: Any) -> NDArray[np.float64]:
    """How much each row (n,) counts for the values that it is known to have.

    >>> space = LabelSpace.classes(["cat", "dog"])
    >>> y = space.encode(["cat", "cat", "cat", "dog", None])
    >>> by_class(space, y, np.ones(5), "balanced").round(2).tolist()
    [0.67, 0.67, 0.67, 2.0, 1.0]
    >>> by_class(space, y, np.ones(5), {"dog": 3}).tolist()
    [1.0, 1.0, 1.0, 3.0, 1.0]

    `asked`: "balanced", or weights by class, 1 for those not named; of several variables, one of these for each that is
    named, and their weights are multiplied. "balanced" values weigh as much as each other, as in scikit-learn.
    """
    out = np.ones(len(columns))
    if asked is None:
        return out
    names = [variable.name for variable in space.variables]
    by_variable = isinstance(asked, Mapping) and asked and all(str(name) in names for name in asked)
    if not by_variable and len(names) > 1:
        raise DataError(
            f"class_weight is for one variable, and there are {len(names)}\n"
            f'Give it by variable, as in {{{names[0]!r}: "balanced"}}.'
        )
    positions = indices(space, columns)
    for name, told in asked.items() if by_variable else [(names[0], asked)]:
        at = names.index(str(name))
        known = positions[:, at] >= 0
        each = _value_weights(space.variables[at], positions[known, at], weight[known], told)
        out[known] *= each[positions[known, at]]
    return out


def _value_weights(variable: Variable, positions: Numbers, weight: NDArray[np.float64], told: Any) -> Any:
    """The weight of each value of a variable."""
    out = np.ones(len(variable.values))
    if isinstance(told, str) and told == "balanced":
        counts = np.bincount(positions, weights=weight, minlength=len(out))
        there = counts > 0
        out[there] = counts.sum() / (there.sum() * counts[there])
        return out
    if not isinstance(told, Mapping):
        raise DataError(
            f"class_weight of '{variable.name}' is {told!r}\nGive \"balanced\", or a weight for each value."
        )
    places = {str(int(value) if variable.binary else value): i for i, value in enumerate(variable.values)}
    for value, each in told.items():
        whole = isinstance(value, bool | np.bool_) or (isinstance(value, float) and value.is_integer())
        place = places.get(str(int(value) if whole else value))
        if place is None:
            raise DataError(
                f"class_weight: '{variable.name}' cannot be {value!r}\n{nearest(str(value), places)}"
                f"Allowed: {listed(places)}."
            )
        if not isinstance(each, Real) or not 0 <= float(each) < float("inf"):
            raise DataError(f"class_weight: {each!r} for {value!r} is not a weight\nGive a number, 0 or more.")
        out[place] = float(each)
    return out


# ---- how weights rise ----


@dataclass(frozen=True)
class Rise:
    """A factor that rises from 0 to 1 over `steps` steps, `done` of which are past."""

    steps: int
    done: int

    def __call__(self, step: int) -> float:
        return min(1.0, (step + self.done) / self.steps)


@dataclass(frozen=True)
class Later:
    """A user's ramp, `done` steps of which are past."""

    ramp: Any
    done: int

    def __call__(self, step: int) -> float:
        return float(self.ramp(step + self.done))
