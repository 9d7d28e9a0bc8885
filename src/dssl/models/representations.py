"""Representations: features that all rows teach, labelled or not, for a classifier that then sees labels only.

Both transformers make the parameters of p(y | x) depend on those of p(x), which is the other way to let unlabelled rows
count in a discriminative model (Seeger 2006): what is learned about x says which functions of x are plausible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.mixture import GaussianMixture
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from dssl.data.rows import ArrayData
from dssl.models.parameters import Interval
from dssl.training.loop import Settings, train
from dssl.training.terms.autoencoder import Autoencoder

_SAMPLED = 1000  # rows that tell how x is modelled
_PART = 4096  # rows that are transformed together


class M1(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """M1 (Kingma et al. 2014, Eq. 1): the latent means of a variational autoencoder that is learned from all rows.

    −log p(x) ≤ KL(q(z | x) ‖ p(z)) − E_q(z | x)[log p(x | z)]

    >>> import numpy as np
    >>> from dssl.models.representations import M1
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> M1(latent=2, steps=20, random_state=0).fit_transform(X).shape
    (60, 2)

    M1+M2 is a pipeline of it and ``DSSLClassifier(consistency=M2())``. Rows whose label is −1 or NaN are rows like any
    other: y is ignored.

    Threads may share a fitted one for `transform`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "latent": [Interval(Integral, 1, None, closed="left")],
        "hidden": [Interval(Integral, 1, None, closed="left")],
        "steps": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        latent: int = 50,
        *,
        hidden: int = 256,
        steps: int = 2000,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        random_state: Any = None,
    ) -> None:
        self.latent, self.hidden, self.steps = latent, hidden, steps
        self.batch_size, self.learning_rate, self.random_state = batch_size, learning_rate, random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows X (n, features)."""
        self._validate_params()
        x = validate_data(self, X, dtype=np.float32)
        data = ArrayData(x, np.full((len(x), 1), np.nan))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            model = Autoencoder(torch.ones(1, 1), data.some(_SAMPLED), self.latent, self.hidden)
        settings = Settings(
            steps=self.steps, unlabelled_batch=self.batch_size, lr=self.learning_rate, seed=seed, accelerator="cpu"
        )
        train(model, _bound, data, settings)  # it keeps the last weights: there is nothing to validate
        self.model_ = model.eval()
        return self

    @torch.no_grad()
    def transform(self, X: Any) -> NDArray[np.floating]:
        """The mean of q(z | x) of each row, of the type of X: (n, latent)."""
        check_is_fitted(self)
        given = validate_data(self, X, reset=False, dtype=(np.float32, np.float64))
        parts = torch.from_numpy(np.ascontiguousarray(given, np.float32)).split(_PART)
        out: NDArray[np.floating] = torch.cat([self.model_.latents(part)[0][:, 0] for part in parts]).numpy()
        return out.astype(given.dtype, copy=False)

    @property
    def _n_features_out(self) -> int:
        return self.latent


@dataclass(frozen=True)
class _Loss:
    total: Tensor
    parts: Mapping[str, Tensor]


def _bound(losses: Tensor, y: Tensor, *, step: int, sample_weight: Tensor) -> _Loss:
    """The mean of what an autoencoder gives."""
    mean = losses.mean()
    return _Loss(mean, {"bound": mean})


class MixturePosteriors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """p(c | x) of a mixture of Gaussians p(x) = Σ_c π_c N(x; μ_c, Σ_c) that is learned from all rows.

    >>> import numpy as np
    >>> from dssl.models.representations import MixturePosteriors
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> MixturePosteriors(2, random_state=0).fit_transform(X).round().sum(0).tolist()
    [3.0, 3.0]

    A linear classifier of these features is constant where p(x) is of one component, so its boundaries run between
    components: the input-dependent regularisation of Seeger (2006). `components`, `covariance` ("full", "diag", "tied"
    or "spherical") and `random_state` are those of scikit-learn's GaussianMixture.

    Threads may share a fitted one for `transform`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "components": [Interval(Integral, 1, None, closed="left")],
        "covariance": "no_validation",  # GaussianMixture's own check names the choices
        "random_state": ["random_state"],
    }

    def __init__(self, components: int = 20, *, covariance: str = "diag", random_state: Any = None) -> None:
        self.components, self.covariance, self.random_state = components, covariance, random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn p(x) from rows X (n, features)."""
        self._validate_params()
        x = validate_data(self, X, dtype=np.float64)
        self.mixture_ = GaussianMixture(
            self.components, covariance_type=self.covariance, reg_covar=1e-3, random_state=self.random_state
        ).fit(x)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """p(c | x) of each row: (n, components)."""
        check_is_fitted(self)
        out: NDArray[np.float64] = self.mixture_.predict_proba(validate_data(self, X, reset=False, dtype=np.float64))
        return out

    @property
    def _n_features_out(self) -> int:
        return self.components
