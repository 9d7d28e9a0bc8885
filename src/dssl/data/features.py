"""Features as users have them → what networks are given: finite, on one scale, equal rows counted once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dssl.errors import DataError

Floats = NDArray[np.floating[Any]]
_ROWS = 4096  # handled at a time: sums are in float64, and a whole copy would double the memory
_NUMBERS = 1 << 24  # numbers at a time, at most
_LARGEST = float(np.finfo(np.float32).max)
_ONE_UNIT = 3.0  # largest over median spread up to which features are taken to share their unit


# ---- standardising ----


@dataclass(frozen=True)
class Standardiser:
    """x ↦ (x − mean) / scale, as float32.

    >>> pixels = Standardiser.fit(np.array([[0.0, 7.0], [2.0, 9.0]]))
    >>> pixels(np.array([[2.0, 9.0]]))
    array([[1., 1.]], dtype=float32)

    Features that share a unit (pixels, say: no spread exceeds three times the median) get one common scale: dividing a
    pixel that is nearly always 0 by its own small spread would blow up its noise. Other features get one each, except
    features of zeros and ones, such as categories: they stay a step of 1, however rare the ones are. Images
    (n, c, h, w) have one mean and scale per channel. Sparse rows are only divided, by one number, so they stay sparse.
    With `whole`, rows are whole numbers to be looked up, and stay as they are.
    """

    mean: Floats  # (features,), (c, 1, 1) for images
    scale: Floats
    whole: bool = False

    @classmethod
    def fit(cls, x: Any, weight: Floats | None = None, *, shared: bool | None = None) -> Standardiser:
        """Mean and scale of rows x, each counted `weight` times; `shared` says whether features have one scale."""
        w = np.ones(x.shape[0]) if weight is None else weight
        if sp.issparse(x):
            square = float(np.asarray(x.multiply(x).sum(axis=1)).ravel() @ w) / (w.sum() * x.shape[1])
            return cls(np.zeros(x.shape[1]), np.full(x.shape[1], square**0.5 or 1.0))
        axes = tuple(range(2, x.ndim))  # within a channel
        mean = sum(w[rows] @ x[rows].mean(axis=axes, dtype=np.float64) for rows in _slices(x)) / w.sum()
        centre = mean.reshape(-1, *(1 for _ in axes))
        squares = (np.square(x[rows] - centre).mean(axis=axes, dtype=np.float64) for rows in _slices(x))
        variance = sum(w[rows] @ square for rows, square in zip(_slices(x), squares)) / w.sum()
        return cls(centre, _scale(variance, mean, shared).reshape(centre.shape))

    @classmethod
    def of_moments(cls, mean: Floats, variance: Floats, ndim: int) -> Standardiser:
        """By mean and variance of each feature (features,), or channel, of rows with `ndim` dimensions."""
        shape = (-1, *(1 for _ in range(2, ndim)))
        return cls(mean.reshape(shape), _scale(variance, mean, None).reshape(shape))

    @classmethod
    def none(cls, x: Any) -> Standardiser:
        """Leaves features as they are."""
        shape = (x.shape[1], *(1 for _ in x.shape[2:]))
        return cls(np.zeros(shape), np.ones(shape))

    def __call__(self, x: Any) -> Any:
        if self.whole:
            return np.asarray(x, dtype=np.int64)
        if sp.issparse(x):
            if not self.mean.any():
                return (x @ sp.diags_array(1 / self.scale)).tocsr().astype(np.float32)
            x = x.toarray()
        out = np.empty(x.shape, dtype=np.float32)
        for rows in _slices(x):
            out[rows] = (x[rows] - self.mean) / self.scale
        return out


def _slices(x: NDArray[Any]) -> Iterator[slice]:
    """Some rows at a time, fewer where rows are large: numbers of double precision are made of them."""
    step = int(np.clip(_NUMBERS // max(1, math.prod(x.shape[1:])), 1, _ROWS))
    return (slice(start, start + step) for start in range(0, len(x), step))


def _scale(variance: Floats, mean: Floats, shared: bool | None) -> Floats:
    # The variance of a constant feature is rounding error.
    live = variance > (1e-7 * np.abs(mean)) ** 2
    # Zeros and ones have this variance, and other numbers hardly ever. A category of one row in a hundred is not ten
    # times as telling as another: divided by its spread it would be.
    flags = live & np.isclose(variance, mean * (1 - mean), rtol=1e-6, atol=0)
    spread = np.sqrt(variance)
    if shared is None and live.any():
        close = spread[live].max() <= _ONE_UNIT * np.quantile(spread[live], 0.5, method="lower")
        shared = bool(close or flags.sum() == live.sum())
    if shared and live.any():
        return np.where(live, np.sqrt(np.mean(variance[live])), 1.0)
    return np.where(live & ~flags, spread, 1.0)


# ---- checking ----


def require_finite(x: Any, names: Any = None, largest: float = _LARGEST) -> None:
    """An error that says where x holds NaN, infinity or more than the `largest` number, and what to do about it."""
    values = x.data if sp.issparse(x) else x
    low, high = (values.min(), values.max()) if values.size else (0, 0)
    if low >= -largest and high <= largest:  # no entry is NaN then; otherwise look closer
        return
    bad = ~(np.abs(values) <= largest)
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr)) if sp.issparse(x) else np.nonzero(bad)[0]
    row = int(rows[np.argmax(bad)] if sp.issparse(x) else rows[0])
    column = int(x.indices[np.argmax(bad)] if sp.issparse(x) else np.nonzero(bad)[1][0])
    what = "NaN" if np.isnan(values).any() else "inf (infinity)" if np.isinf(values).any() else "numbers beyond float32"
    where = f"'{names[column]}'" if names is not None else f"{column}"
    raise DataError(
        f"X contains {what}: {int(bad.sum()):,} entries, first in row {row}, feature {where}\n"
        "Fill them in first, for instance make_pipeline(SimpleImputer(), DSSLClassifier()), or drop these rows."
    )


# ---- equal rows ----


def distinct(x: Any, y: Floats, weight: Floats) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The rows of positive weight, equal ones once, with their weights added up.

    >>> x, y = np.array([[1.0], [2.0], [1.0]]), np.array([[1.0], [0.0], [1.0]])
    >>> rows, weight = distinct(x, y, np.ones(3))
    >>> sorted(zip(rows.tolist(), weight.tolist()))
    [(0, 2.0), (1, 1.0)]

    They come in the order of a digest of their contents. So training does not depend on the order of rows, and a row
    of weight 2 is the same as that row twice.
    """
    kept = np.flatnonzero(weight > 0)
    digests = np.array([_digest(x, y, row) for row in kept.tolist()], dtype="S16")
    _, first, group = np.unique(digests, return_index=True, return_inverse=True)
    return kept[first].astype(np.int64), np.bincount(group, weights=weight[kept]).astype(np.float64)


def _digest(x: Any, y: Floats, row: int) -> bytes:
    if sp.issparse(x):
        inside = slice(x.indptr[row], x.indptr[row + 1])
        content = x.indices[inside].tobytes() + x.data[inside].tobytes()
    else:
        content = x[row].astype(np.float64).tobytes()  # whole numbers are the same rows as floats
    # numpy drops zero bytes at the end of a byte string: an odd last byte keeps digests apart
    return hashlib.blake2b(content + y[row].tobytes(), digest_size=15).digest() + b"\x01"
