"""How surprising it is that a rule never failed: tails under independence, corrections, and bounds for new rows.

Everything is in logarithms, on arrays, and works with real-valued counts, which stand for estimates where labels are
partly unknown.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, gammaln, pdtr

Floats = NDArray[np.float64]


def log_never(n: Any, a: Any, b: Any) -> Floats:
    """log P(no row has both) if a and b of n rows are chosen independently: C(n−a, b) / C(n, b), Fisher's exact test.

    >>> round(float(np.exp(log_never(10, 4, 5))), 6)  # C(6, 5) / C(10, 5)
    0.02381
    """
    n, a, b = (np.asarray(v, dtype=np.float64) for v in (n, a, b))
    room = n - a - b
    ways = gammaln(n - a + 1) - gammaln(np.maximum(room, 0) + 1) - gammaln(n + 1) + gammaln(n - b + 1)
    return np.where(room < -1e-9, -np.inf, np.minimum(ways, 0.0))


def log_few(failures: Any, expected: Any) -> Floats:
    """A bound of log P(X ≤ failures) for a sum X of independent indicators, hypergeometric ones included.

    The Poisson tail, which lies above the exact one where failures ≤ expected − 1 (Hoeffding 1956); 0 elsewhere.
    """
    f, mean = np.asarray(failures, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.log(pdtr(f, mean))
        chernoff = f - mean + np.where(f > 0, f * np.log(mean / np.maximum(f, 1e-300)), 0.0)
    return np.where(f <= mean - 1, np.where(np.isfinite(tail), tail, chernoff), 0.0)


def log_tail(failures: Any, n: Any, a: Any, b: Any) -> Floats:
    """log P(at most so many rows have both): exact where there are no failures, else `log_few`."""
    f = np.asarray(failures, dtype=np.float64)
    expected = np.asarray(a, dtype=np.float64) * b / np.maximum(n, 1e-300)
    return np.where(f == 0, log_never(n, a, b), log_few(f, expected))


def tarone(log_least: Floats, log_level: float) -> int:
    """How many tests count towards the correction (Tarone 1990).

    `log_least` has the smallest p-value each test could reach given its margins. A test that can never reach level / k
    cannot be a false alarm at that level, so k need only cover those that can.

    >>> tarone(np.log([1e-9, 1e-8, 0.3, 0.6]), np.log(0.05))
    2
    """
    least = np.sort(np.asarray(log_least, dtype=np.float64))
    low, high = 1, max(1, len(least))
    while low < high:  # the count falls and k rises: the first k that covers its count
        k = (low + high) // 2
        if np.searchsorted(least, log_level - np.log(k), side="right") <= k:
            high = k
        else:
            low = k + 1
    return low


def rate_bound(failures: int, chances: int, log_level: float) -> float:
    """The upper bound of Clopper and Pearson (1934) for a failure rate.

    >>> round(rate_bound(0, 100, np.log(0.05)), 4)
    0.0295
    """
    if chances <= failures:
        return 1.0
    if failures == 0:
        return float(-np.expm1(log_level / chances))
    return float(betainccinv(failures + 1.0, float(chances - failures), np.exp(log_level)))


def convolved(parts: list[Floats]) -> Floats:
    """The distribution of a sum of independent whole numbers, 0 or larger."""
    out = np.ones(1)
    for part in parts:
        out = np.convolve(out, part)
    return out
