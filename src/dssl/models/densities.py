"""p(x, y) = π_y p(x | y) with Gaussian or Bernoulli features: densities, both steps of EM, and draws (Eq. G)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dssl.errors import DataError

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_ROWS = 8192  # handled at a time, so that differences x − μ stay small
_LEAST = 1e-10  # pseudo-rows of a Bernoulli: probabilities of exactly 0 would forbid what was not seen
_SINGULAR = 1e-14  # variance, as a share of the data's, that is mere rounding


def _slices(n: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS) for start in range(0, n, _ROWS))


# ---- p(x | y) ----


@dataclass(frozen=True)
class Gaussians:
    """x | y=k ~ N(μ_k, Σ_k), and ν pseudo-rows of variance D in every covariance.

    log p(ψ) = −½ν Σ_k [log |Σ_k| + tr(D Σ_k⁻¹)], the kernel of an inverse Wishart density, maximised with the data by
    Σ_k = (S_k + νD) / (n_k + ν). A tied covariance has one such term, a spherical one D's mean.
    """

    names: tuple[str, ...]  # of the classes, for errors
    kind: str
    rows: float  # ν
    spread: Floats  # (d,), the diagonal of D
    means: Floats  # (K, d)
    covariances: Floats  # full (K, d, d), tied (1, d, d), diagonal (K, d), spherical (K, 1)

    @classmethod
    def of(cls, names: tuple[str, ...], kind: str, rows: float, spread: Floats) -> Gaussians:
        return cls(names, kind, rows, spread, np.empty(0), np.empty(0))

    @property
    def _matrices(self) -> bool:
        return self.kind in ("full", "tied")

    def fitted(self, x: Floats, r: Floats) -> Gaussians:
        """The M-step: the parameters that maximise Σ r_ik log p(x_i | k) + log p(ψ) for responsibilities r (n, K)."""
        n = r.sum(axis=0) + np.finfo(np.float64).tiny
        means = (r.T @ x) / n[:, None]
        scatter = np.stack([self._scatter(x, mean, share) for mean, share in zip(means, r.T)])
        if self.kind == "tied":
            n, scatter = n.sum(keepdims=True), scatter.sum(axis=0, keepdims=True)
        if self.kind == "spherical":
            scatter = scatter.sum(axis=1, keepdims=True) / max(1, x.shape[1])
        n = n.reshape(-1, *(1 for _ in scatter.shape[1:]))
        return replace(self, means=means, covariances=(scatter + self.rows * self._prior()) / (n + self.rows))

    def _scatter(self, x: Floats, mean: Floats, share: Floats) -> Floats:
        out = np.zeros((x.shape[1], x.shape[1]) if self._matrices else x.shape[1])
        for rows in _slices(len(x)):
            apart = x[rows] - mean
            out += (apart * share[rows, None]).T @ apart if self._matrices else share[rows] @ np.square(apart)
        return out

    def _prior(self) -> Floats:
        """D in the shape of one covariance."""
        if self._matrices:
            return np.diag(self.spread)
        return self.spread if self.kind == "diagonal" else self.spread.sum(keepdims=True) / max(1, len(self.spread))

    def log_density(self, x: Floats) -> Floats:
        """log p(x | y=k) of rows x (n, d): (n, K)."""
        out = np.empty((len(x), len(self.means)))
        d = x.shape[1]
        for k, mean in enumerate(self.means):
            root, log_size = self._whitening(k)
            for rows in _slices(len(x)):
                apart = x[rows] - mean
                white = apart @ root if self._matrices else apart * root
                out[rows, k] = -0.5 * np.einsum("ij,ij->i", white, white)
            out[:, k] -= 0.5 * (d * math.log(2 * math.pi) + log_size)
        return out

    def _whitening(self, k: int) -> tuple[Floats, float]:
        """A root of Σ_k⁻¹ (d, d), or (d,) of a diagonal one, and log |Σ_k|."""
        covariance = self.covariances[k % len(self.covariances)]
        d = len(self.spread)
        if not self._matrices:
            pivots = np.broadcast_to(covariance, d)
            self._refuse_singular(pivots, k)
            return 1 / np.sqrt(pivots), float(np.log(pivots).sum())
        try:
            lower = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            lower = np.zeros((d, d))
        self._refuse_singular(np.diag(lower) ** 2, k)
        inverse = scipy.linalg.solve_triangular(lower, np.eye(d), lower=True) if d else lower
        return inverse.T, 2 * float(np.log(np.diag(lower)).sum())

    def _refuse_singular(self, pivots: Floats, k: int) -> None:
        if not (pivots > _SINGULAR * self.spread).all():
            whose = "common to all classes" if self.kind == "tied" else f"of class {self.names[k]}"
            raise DataError(
                f"the covariance {whose} is singular: its rows do not spread in all {len(self.spread)} features\n"
                "Raise regularisation, choose covariance='tied' or 'diagonal', or label more rows."
            )

    def log_prior(self) -> float:
        """log p(ψ), up to a constant."""
        total = 0.0
        for k in range(len(self.covariances)):
            root, log_size = self._whitening(k)
            spread = self.spread[:, None] if self._matrices else self.spread
            if self.kind == "spherical":
                spread = np.full(len(spread), self._prior()[0])
            total += log_size + float((spread * root**2).sum())
        return -0.5 * self.rows * total

    def draw(self, y: NDArray[np.int64], random: np.random.RandomState) -> Floats:
        """One x for each class index in y: (n, d)."""
        out = random.standard_normal((len(y), len(self.spread)))
        for k, mean in enumerate(self.means):
            covariance = self.covariances[k % len(self.covariances)]
            noise = out[y == k]
            out[y == k] = mean + (
                noise @ np.linalg.cholesky(covariance).T if self._matrices else noise * covariance**0.5
            )
        return out


@dataclass(frozen=True)
class Bernoullis:
    """x_j | y=k ~ Bernoulli(p_kj), all features independent given y, and α pseudo-rows of each value.

    log p(ψ) = α Σ_kj [log p_kj + log(1 − p_kj)], maximised with the data by p_kj = (count + α) / (n_k + 2α).
    """

    rows: float  # α
    chances: Floats  # (K, d)

    @classmethod
    def of(cls, rows: float) -> Bernoullis:
        return cls(rows, np.empty(0))

    def fitted(self, x: Any, r: Floats) -> Bernoullis:
        """The M-step, for rows x (n, d) of 0 and 1, dense or sparse."""
        alpha = max(self.rows, _LEAST)
        return replace(self, chances=((x.T @ r).T + alpha) / (r.sum(axis=0)[:, None] + 2 * alpha))

    def log_density(self, x: Any) -> Floats:
        """log p(x | y=k) of rows x (n, d): (n, K)."""
        on, off = np.log(self.chances), np.log1p(-self.chances)
        return np.asarray(x @ (on - off).T) + off.sum(axis=1)

    def log_prior(self) -> float:
        """log p(ψ), up to a constant."""
        return self.rows * float(np.log(self.chances).sum() + np.log1p(-self.chances).sum())

    def draw(self, y: NDArray[np.int64], random: np.random.RandomState) -> Floats:
        """One x for each class index in y: (n, d)."""
        return (random.random_sample((len(y), self.chances.shape[1])) < self.chances[y]).astype(np.float64)


# ---- p(x, y) ----


@dataclass(frozen=True)
class Joint:
    """p(x, y) = π_y p(x | y)."""

    density: Gaussians | Bernoullis
    weights: Floats  # π (K,)

    @classmethod
    def fitted(cls, density: Gaussians | Bernoullis, x: Any, r: Floats) -> Joint:
        """The M-step for responsibilities r (n, K), weights of rows included."""
        return cls(density.fitted(x, r), r.sum(axis=0) / r.sum())

    def regularised(self, rows: float) -> Joint:
        """The same parameters, with different pseudo-rows from the next M-step on."""
        return replace(self, density=replace(self.density, rows=rows))

    def log_joint(self, x: Any) -> Floats:
        """log p(x, y=k): (n, K)."""
        with np.errstate(divide="ignore"):  # a class may have died out: log 0 = −∞
            return self.density.log_density(x) + np.log(self.weights)

    def explain(self, x: Any, allowed: Mask, weight: Floats) -> tuple[float, Floats]:
        """The E-step: Σ_i w_i log Σ_{y allowed} p(x_i, y) + log p(ψ), and w_i p(y | x_i, allowed) (n, K)."""
        log_joint = np.where(allowed, self.log_joint(x), -np.inf)
        total = log_sum(log_joint)
        r = np.exp(log_joint - total[:, None]) * weight[:, None]
        return float(weight @ total) + self.density.log_prior(), r


def log_sum(values: Floats) -> Floats:
    """log Σ_k exp of (n, K): (n,)."""
    top = values.max(axis=1)
    out: Floats = top + np.log(np.exp(values - top[:, None]).sum(axis=1))
    return out
