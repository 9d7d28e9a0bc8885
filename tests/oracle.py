"""The slow, obvious twin of every number: enumerate, multiply, add. Float64 and Python integers only.

Nothing here imports the code under test beyond the plain data it describes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

# ---- the normal form (dssl.logic.constraints) ----


def choices(constraints: Any) -> Iterator[tuple[int, ...]]:
    """Every choice of one value index a block (hidden and soft blocks too) that all constraints allow."""
    offsets = constraints.offsets
    for picked in itertools.product(*(range(size) for size in constraints.sizes)):
        chosen = {offsets[block] + value for block, value in enumerate(picked)}
        if all(chosen & set(clause) for clause in constraints.clauses) and all(
            _sum_holds(s, chosen) for s in constraints.sums
        ):
            yield picked


def _sum_holds(s: Any, chosen: set[int]) -> bool:
    total = sum(c for v, c in zip(s.values, s.coefficients) if v in chosen)
    return any(low <= total <= high for low, high in s.intervals)


def valid_columns(constraints: Any) -> np.ndarray:
    """The valid labels as rows of columns (n, columns) of bool: visible and soft blocks, hidden ones left out."""
    kept = constraints.visible + len(constraints.soft)
    rows = []
    for picked in choices(constraints):
        row: list[bool] = []
        for size, categorical, value in zip(constraints.sizes, constraints.categorical, picked[:kept]):
            row += [value == v for v in range(size)] if categorical else [value == 1]
        rows.append(row)
    width = sum(s if c else 1 for s, c in zip(constraints.sizes[:kept], constraints.categorical[:kept]))
    return np.array(rows, dtype=bool).reshape(len(rows), width)


# ---- questions about a list of valid rows, for one sample's literal weights ----


def log_weights(rows: np.ndarray, log_pos: np.ndarray, log_neg: np.ndarray) -> np.ndarray:
    """log weight of each valid row: the sum of its literals' log weights (MATH §4)."""
    return np.array([sum(p if on else n for on, p, n in zip(row, log_pos, log_neg)) for row in rows], dtype=float)


def log_sum(values: np.ndarray) -> float:
    top = max(values, default=-math.inf)
    if top == -math.inf:
        return -math.inf
    return top + math.log(sum(math.exp(v - top) for v in values))


def log_wmc(rows: np.ndarray, log_pos: np.ndarray, log_neg: np.ndarray) -> float:
    """log of the sum over valid rows of the product of literal weights."""
    return log_sum(log_weights(rows, log_pos, log_neg))


def probabilities(rows: np.ndarray, log_pos: np.ndarray, log_neg: np.ndarray) -> np.ndarray:
    """p(y | V) of each valid row."""
    weights = log_weights(rows, log_pos, log_neg)
    return np.exp(weights - log_sum(weights))


def marginals(rows: np.ndarray, log_pos: np.ndarray, log_neg: np.ndarray) -> np.ndarray:
    """P(column is true | V) of each column."""
    return probabilities(rows, log_pos, log_neg) @ rows.astype(float)


def entropy(rows: np.ndarray, log_pos: np.ndarray, log_neg: np.ndarray) -> float:
    """Entropy of p(y | V) in nats."""
    return -sum(p * math.log(p) for p in probabilities(rows, log_pos, log_neg) if p > 0)


def best(rows: np.ndarray, log_pos: np.ndarray, log_neg: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k heaviest valid rows and their log weights, heaviest first."""
    weights = log_weights(rows, log_pos, log_neg)
    order = np.argsort(-weights, kind="stable")[:k]
    return rows[order], weights[order]
