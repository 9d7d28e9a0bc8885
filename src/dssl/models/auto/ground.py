"""The ground: which rows are similar or near, whatever their labels are.

The slow part of ridge regression needs no labels: which rows are near, and in which directions rows differ. It is
worked out once for a fit, and used again for every part of the labels that is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dssl.logic.labels import Columns
from dssl.models.auto.ridge import KINDS
from dssl.models.fitting.lessons import Numbers, counting

Floats = NDArray[np.float64]

_LABELLED = 1500  # labelled rows that ridge models learn from
_LEAST = 8  # labelled rows, fewer of which say nothing
_ODD = 0.5  # rows that have another label at least: if not, all are alike
_ROWS = 2500  # that neighbours are looked for among
_MARKS = 400  # rows that similarities are spanned by
_SMOOTH = (0.0, 0.5, 5.0, 50.0, 500.0)
_RIDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0)
_NEAR = (5, 10)
_LEAKS = (0.003, 0.02, 0.1)


@dataclass(frozen=True)
class Way:
    """Ridge regression: similarities of labelled rows (m, m), the ridge, and how predictions reach all rows.

    A row that counts as w rows has 1/w of the ridge, which is what ridge regression on w equal rows comes to.
    """

    similarity: Floats
    ridge: Floats | float  # (m,), or one for all
    reach: Callable[[Floats, Any], Floats]  # from weights of labelled rows (m, columns) to predictions of rows x
    span: tuple[Span, Floats] | None = None  # coordinates, and from weights of labelled rows to weights of those

    def weights(self, target: Floats) -> Floats:
        """Weights of labelled rows (m, columns), from their targets (m, columns)."""
        return np.asarray(np.linalg.solve(self.similarity + self.ridge * np.eye(len(target)), target))

    def predict(self, target: Floats, x: Any) -> Floats:
        """Predictions of all rows (n, columns), from the targets of labelled rows (m, columns)."""
        return self.reach(self.weights(target), x)


@dataclass(frozen=True)
class Span:
    """Coordinates of rows in the span of some rows, the marks: their similarities to the marks, times `to`."""

    kind: str
    marks: Floats
    scale: float
    to: Floats

    def __call__(self, a: Any) -> Floats:
        return similarities(self.kind, a, self.marks, self.scale) @ self.to


class Ground:
    """Rows x (n, features), standardised, of which `known` are labelled; others are drawn by `random`.

    Labelled rows count by their `weight` (n,), 1 unless given. Unlabelled rows say where rows are, and count alike;
    those with hardly any weight are left out.
    """

    def __init__(self, x: Any, known: Numbers, random: np.random.Generator, weight: Floats | None = None) -> None:
        from sklearn.neighbors import NearestNeighbors  # half a second, which models that only answer do without

        weight = np.ones(x.shape[0]) if weight is None else weight
        rest = random.permutation(np.setdiff1d(np.flatnonzero(counting(weight)), known))
        self.known, self.weight = known, weight[known]
        self.sample = np.concatenate([known, rest])[: max(_ROWS, len(known))]
        self.near = NearestNeighbors(n_neighbors=min(max(_NEAR) + 1, len(self.sample))).fit(x[self.sample])
        table = self.near.kneighbors(x[self.sample], return_distance=False)[:, 1:]
        others = random.permutation(self.sample[len(known) :])[: max(0, _MARKS - len(known))]
        marks = np.concatenate([known[:_MARKS], others])
        self._spans = [_Smoothed.of(span, x, self.sample, len(known), table) for span in _spans(x[marks])]
        self._walks = list(_walks(table, len(known)))

    @classmethod
    def of(cls, x: Any, columns: Columns, seed: int = 0, weight: Floats | None = None) -> Ground | None:
        """Of rows x with label columns (n, width); None where too few rows are labelled in full, or all alike."""
        random = np.random.default_rng(seed)
        weight = np.ones(len(columns)) if weight is None else weight
        whole = ~np.isnan(columns).any(axis=1) & counting(weight)
        known = random.permutation(np.flatnonzero(whole))[:_LABELLED]
        return cls(x, known, random, weight) if x.ndim == 2 and tells(columns[known], weight[known]) else None

    def ways(self, which: Numbers) -> Iterator[tuple[str, Way]]:
        """Names and ways of predicting from some of the known rows: `known[which]`."""
        for walks, degree in self._walks:
            yield from self._graph(walks, degree, which)
        for smoothed in self._spans:
            yield from smoothed.ways(which, self.weight[which])

    def _graph(self, walks: Floats, degree: Floats, which: Numbers) -> Iterator[tuple[str, Way]]:
        """Random walks on the graph of nearest neighbours."""
        walks = walks[:, which] / np.sqrt(degree)[:, None] / np.sqrt(degree[which])
        walks = walks / walks[which, np.arange(len(which))].mean()
        between = (walks[which] + walks[which].T) / 2
        for ridge in (0.003, 0.03, 0.3, 3.0):
            yield "graph", Way(between, ridge / self.weight[which], self._nearby(walks))

    def _nearby(self, walks: Floats) -> Callable[[Floats, Any], Floats]:
        """Predictions on the graph; rows that are not in it have the mean of their neighbours there."""

        def reach(weights: Floats, x: Any) -> Floats:
            inside = walks @ weights
            out = np.empty((x.shape[0], weights.shape[1]))
            out[self.sample] = inside
            others = np.setdiff1d(np.arange(x.shape[0]), self.sample)
            for start in range(0, len(others), 4096):
                part = others[start : start + 4096]
                out[part] = inside[self.near.kneighbors(x[part], _NEAR[0], return_distance=False)].mean(axis=1)
            return out

        return reach


def plain_ways(x: Floats, weight: Floats) -> Iterator[Way]:
    """Ways of predicting from labelled rows x (m, features) alone, for each similarity and ridge."""
    for span in _spans(x):
        between = similarities(span.kind, x, x, span.scale)
        for ridge in _RIDGES:
            yield Way(between, ridge / weight, _nowhere)


def _nowhere(weights: Floats, x: Any) -> Floats:
    raise ValueError("plain ways predict left-out rows only")


def tells(labels: Columns, weight: Floats) -> bool:
    """Whether labels (m, width) of this weight (m,) are enough to judge by, and not all alike."""
    if len(labels) < _LEAST or weight.sum() < _LEAST:
        return False
    return bool((np.minimum(weight @ labels, weight @ (1 - labels)) >= _ODD).any())


# ---- similarities ----


@dataclass(frozen=True)
class _Smoothed:
    """A span along whose axes predictions change by `size` between near rows; `at` are the known rows there."""

    span: Span
    size: Floats
    axes: Floats
    at: Floats  # (known, axes)

    @classmethod
    def of(cls, span: Span, x: Any, sample: Numbers, known: int, table: Numbers) -> _Smoothed:
        around = span(x[sample])
        size, axes = np.linalg.eigh(around.T @ (_laplacian(table[:, : _NEAR[0]]) @ around) / len(sample))
        return cls(span, np.maximum(size, 0), axes, around[:known] @ axes)

    def ways(self, which: Numbers, weight: Floats) -> Iterator[tuple[str, Way]]:
        """A similarity with several ridges and degrees of smoothness along the data."""
        at = self.at[which]
        for smooth in _SMOOTH:
            name = "manifold" if smooth else "linear" if self.span.kind == "linear" else "smooth"
            for ridge in _RIDGES:
                weights = 1 / (ridge + smooth * self.size)
                through = self.axes @ (at * weights).T
                yield name, Way((at * weights) @ at.T, 1 / weight, _spanned(self.span, through), (self.span, through))


def _spanned(span: Span, through: Floats) -> Callable[[Floats, Any], Floats]:
    return lambda weights, x: span(x) @ (through @ weights)


def _spans(marks: Any) -> Iterator[Span]:
    """Coordinates of rows in the span of some rows, for each similarity."""
    marks = np.asarray(marks.toarray() if sp.issparse(marks) else marks, dtype=np.float64)
    apart = _distances(marks, marks)
    scale = float(np.median(apart[np.triu_indices(len(apart), 1)])) or 1.0
    square = float(_squares(marks).mean()) or 1.0
    for kind in KINDS:
        size_of = square if kind == "linear" else scale
        size, axes = np.linalg.eigh(similarities(kind, marks, marks, size_of))
        kept = size > 1e-6 * size.max()
        yield Span(kind, marks, size_of, axes[:, kept] / np.sqrt(size[kept]))


def similarities(kind: str, a: Any, marks: Any, scale: float) -> Floats:
    """Similarities of rows (n, features) to marks (m, features), in double precision: (n, m)."""
    if kind == "linear":
        return _dot(a, marks) / scale
    apart = _distances(a, marks) / scale
    return np.exp({"wide": -apart, "narrow": -4 * apart, "laplace": -np.sqrt(apart)}[kind])


def _dot(a: Any, b: Any) -> Floats:
    out = a @ b.T
    return np.asarray(out.todense() if sp.issparse(out) else out, dtype=np.float64)


def _distances(a: Any, b: Any) -> Floats:
    """Squared distances (n, m)."""
    return np.maximum(0, _squares(a)[:, None] + _squares(b) - 2 * _dot(a, b))


def _squares(a: Any) -> Floats:
    return np.asarray((a.multiply(a) if sp.issparse(a) else a**2).sum(axis=1), dtype=np.float64).ravel()


# ---- graphs ----


def _walks(table: Numbers, known: int) -> Iterator[tuple[Floats, Floats]]:
    """Random walks (n, known) from the known rows, which come first, that end sooner or later; and rows' degrees."""
    from scipy.sparse.linalg import splu

    n = len(table)
    start = np.zeros((n, known))
    start[np.arange(known), np.arange(known)] = 1
    for k in _NEAR:
        links = _links(table[:, :k])
        degree = np.asarray(links.sum(axis=1)).ravel()
        scaled = sp.diags_array(degree**-0.5) @ links @ sp.diags_array(degree**-0.5)
        for leak in _LEAKS:
            yield splu(((1 + leak) * sp.eye_array(n) - scaled).tocsc()).solve(start), degree


def _links(table: Numbers) -> Any:
    n, k = table.shape
    links = sp.csr_array((np.ones(n * k), (np.repeat(np.arange(n), k), table.ravel())), shape=(n, n))
    return links.maximum(links.T)


def _laplacian(table: Numbers) -> Any:
    links = _links(table)
    degree = np.asarray(links.sum(axis=1)).ravel()
    return (sp.diags_array(degree) - links) / degree.mean()
