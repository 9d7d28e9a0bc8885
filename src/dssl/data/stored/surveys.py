"""A survey: one pass over data that need not fit into memory, and a bounded sample of their rows.

A fit on arrays looks at all rows before it trains: for their scale, their labels, and for what helps to predict them.
From `Data`, it gets a sample of bounded size, and sums over all rows; training then asks for batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dssl.data.features import Floats, Standardiser
from dssl.data.rows import Batch, Data, Rows
from dssl.errors import DataError
from dssl.logic.labels import Columns

_SAMPLE = 10_000  # labelled rows in a sample at most, and as many unlabelled ones
_BYTES = 1 << 28  # that the rows of a sample take up at most


@dataclass(frozen=True)
class Survey:
    """What a pass over data finds.

    `labels` (labelled, width) are those of all labelled rows, 1, 0 or −1 for unknown, `weights` (labelled,) theirs;
    `unlabelled` is the sum of the weights of unlabelled rows. `mean` and `variance` are those of each feature, or
    channel. The sample: `rows` numbers, `x`, `columns` and `counts`, how many rows of the data each stands for.
    """

    data: Data
    labels: NDArray[np.int8]
    weights: NDArray[np.float32]
    unlabelled: float
    mean: Floats
    variance: Floats
    rows: Rows
    x: NDArray[Any]
    columns: Columns
    counts: NDArray[np.float64]

    @property
    def standardiser(self) -> Standardiser:
        """By mean and spread of all rows."""
        return Standardiser.of_moments(self.mean, self.variance, self.x.ndim)

    @property
    def known(self) -> Columns:
        """Labels of all labelled rows as columns."""
        return _columns(self.labels)

    def stream(self, standardise: Callable[[Any], Any], held: Rows, factors: NDArray[np.float64]) -> Surveyed:
        """The data to train on, without the `held` rows of the sample; labelled rows count `factors` (labelled,) times.

        As in a fit on arrays, the mean weight of labelled rows is 1, and that of unlabelled ones their share of all.
        """
        weight = self.weights * factors
        share = self.unlabelled / max(self.unlabelled + float(self.weights.sum()), 1e-12)
        mean = self.unlabelled / max(1, len(self.data.unlabelled))
        relative = (weight / (weight.mean() or 1)).astype(np.float32)
        return Surveyed(self.data, self.labels, relative, share / (mean or 1), standardise, self.rows[held])


def survey(data: Data, mended: Callable[[Columns], Columns], seed: int) -> Survey:
    """Goes over all rows once; `mended` makes labels obey the rules, or raises."""
    random = np.random.default_rng(seed)
    most = _most(data)
    chosen = np.sort(np.concatenate([_some(data.labelled, most, random), _some(data.unlabelled, most, random)]))
    sums, weight, labels, weights = _Moments(), [], [], []
    unlabelled, at, x = 0.0, 0, np.empty(0)
    for rows, batch in data.parts():
        sums.add(batch)
        inside = chosen[np.searchsorted(chosen, rows[0]) : np.searchsorted(chosen, rows[-1], "right")] - rows[0]
        some = batch.x[inside].numpy()
        x = x if at or x.size else np.empty((len(chosen), *some.shape[1:]), some.dtype)
        x[at : at + len(some)] = some
        at += len(some)
        weight.append(batch.weight[inside].numpy())
        known = np.flatnonzero(np.isin(rows, data.labelled, assume_unique=True))
        labels.append(_codes(batch.y[known].numpy()))
        weights.append(batch.weight[known].numpy())
        unlabelled += float(batch.weight.sum()) - float(weights[-1].sum())
    every = np.concatenate(labels)
    if not len(every):
        raise DataError(f"none of the {len(data):,} rows is labelled\nLabel some rows of each class.")
    codes = _codes(_mended(data, _columns(every), mended))
    columns = np.full((len(chosen), codes.shape[1]), np.nan, np.float32)
    place = np.searchsorted(data.labelled, chosen).clip(max=len(data.labelled) - 1)
    own = data.labelled[place] == chosen
    columns[own] = _columns(codes[place[own]])
    counts = np.concatenate(weight).astype(np.float64)
    for part, all_ in ((own, len(data.labelled)), (~own, len(data.unlabelled))):
        counts[part] *= all_ / max(1, int(part.sum()))
    mean, variance = sums.result()
    return Survey(data, codes, np.concatenate(weights), unlabelled, mean, variance, chosen,
                  x, columns, counts)  # fmt: skip


def _most(data: Data) -> int:
    """How many rows of a kind are held."""
    if not len(data):
        raise DataError("the data have no rows\nGive rows, of which some are labelled.")
    row = data.batch([0]).x
    return int(max(100, min(_SAMPLE, _BYTES // (2 * max(1, row.numel() * row.element_size())))))


def _some(rows: Rows, most: int, random: np.random.Generator) -> Rows:
    return rows if len(rows) <= most else random.choice(rows, most, replace=False, shuffle=False)


def _mended(data: Data, labels: Columns, mended: Callable[[Columns], Columns]) -> Columns:
    try:
        return mended(labels)
    except DataError as error:
        raise DataError(f"{error}\nRows are counted among the {len(labels):,} labelled ones.") from None


def _codes(y: Columns) -> NDArray[np.int8]:
    return np.where(np.isnan(y), -1, y).astype(np.int8)


def _columns(codes: NDArray[np.int8]) -> Columns:
    return np.where(codes < 0, np.nan, codes).astype(np.float32)


class _Moments:
    """Sums of features and of their squares, weighted, about the mean of the first rows: large means cost no digits."""

    def __init__(self) -> None:
        self.around: Any = None
        self.weight, self.first, self.second = 0.0, 0.0, 0.0

    def add(self, batch: Batch) -> None:
        x, w = batch.x.double(), batch.weight.double()
        x = x.flatten(2) if x.ndim > 2 else x[:, :, None]  # (n, features or channels, pixels)
        if self.around is None:
            self.around = x.mean((0, 2))
        x = x - self.around[:, None]
        self.weight += float(w.sum())
        self.first = self.first + (w @ x.mean(2)).numpy()
        self.second = self.second + (w @ x.square().mean(2)).numpy()

    def result(self) -> tuple[Floats, Floats]:
        mean = self.first / self.weight
        return mean + self.around.numpy(), np.maximum(self.second / self.weight - mean**2, 0)


class Surveyed(Data):
    """The rows of other data, standardised, with labels and weights as a survey has them."""

    def __init__(
        self,
        data: Data,
        labels: NDArray[np.int8],
        weights: NDArray[np.float32],
        unlabelled: float,
        standardise: Callable[[Any], Any],
        without: Rows,
    ) -> None:
        self._data, self._labels, self._weights, self._unlabelled = data, labels, weights, unlabelled
        self._standardise, self._places = standardise, data.labelled
        self.ahead, self.space = data.ahead, data.space
        known = (labels >= 0).any(axis=1)
        self.labelled = np.setdiff1d(data.labelled[known], without, assume_unique=True)
        self.unlabelled = data.unlabelled if known.all() else np.union1d(data.unlabelled, data.labelled[~known])

    def __len__(self) -> int:
        return len(self._data)

    def batch(self, indices: Any) -> Batch:
        rows = np.asarray(indices, np.int64)
        read = self._data.batch(rows)
        place = np.searchsorted(self._places, rows).clip(max=len(self._places) - 1)
        known = self._places[place] == rows
        y = torch.from_numpy(np.where(known[:, None], _columns(self._labels[place]), np.float32(np.nan)))
        weight = np.where(known, self._weights[place], read.weight.numpy() * self._unlabelled)
        x = torch.from_numpy(np.ascontiguousarray(self._standardise(read.x.numpy())))
        return Batch(x, y, torch.from_numpy(weight.astype(np.float32)))

    def order(self, rows: Rows, generator: np.random.Generator) -> Rows:
        return self._data.order(rows, generator)
