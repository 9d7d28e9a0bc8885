"""GenerativeClassifier: p(x, y) by EM on labelled and unlabelled rows, the discriminative model's twin (Eq. G)."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import binarize
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from dssl.data.features import require_finite
from dssl.data.targets import Targets
from dssl.errors import DataError
from dssl.logic.labels import Columns
from dssl.models.densities import Bernoullis, Floats, Gaussians, Joint, Mask, log_sum
from dssl.models.inference import taken
from dssl.models.parameters import Interval, StrOptions, checked_weight


class GenerativeClassifier(ClassifierMixin, BaseEstimator):
    """Classifier that models p(x, y) = π_y p(x | y), and learns from unlabelled rows what they say about p(x).

    Maximises (Eq. G)  Σ_i log p(x_i, y_i) + λ Σ_j log Σ_y p(x_j, y)  by EM; i labelled, j unlabelled.

    >>> import numpy as np
    >>> X = np.array([[0.0], [0.2], [0.1], [3.1], [2.9], [3.0]])
    >>> model = GenerativeClassifier().fit(X, ["near", None, None, "far", None, None])
    >>> model.predict([[0.3], [2.0]]).tolist()
    ['near', 'far']
    >>> model.means_.round(2).tolist()
    [[3.0], [0.1]]

    **Labels.** One class per row, with −1, None or NaN where it is unknown. With `rules` of one variable y may also be
    columns of 1, 0 and NaN: zeros exclude values, and the others are a row's candidates.

    **Parameters**

    * `model`: "gaussian", or "bernoulli" for features that are 0 or 1 and independent given the class (naive Bayes).
    * `covariance` of Gaussians: "full", "diagonal" or "spherical", one per class, or "tied", a full one for all.
    * `unlabelled_weight`: λ. 1 is the likelihood; less trusts the model of p(x) less; 0 learns from labels only.
    * `regularisation`: pseudo-rows in each class. Gaussian: rows ν with the variance of all data, Σ = (S + νD)/(n + ν).
      Bernoulli: rows of each value, as `alpha` of scikit-learn's BernoulliNB.
    * `binarize`: the threshold above which a feature of a Bernoulli model is 1; None if features are 0 and 1 already.
    * `max_iter`, `tol`: EM stops when a step gains less than `tol` per row.
    * `rules`: a `LabelSpace` (or its text) of one variable, to name the classes. For rules about several variables,
      use `DSSLClassifier`.
    * `unlabelled`: what stands for an unknown class, besides None and NaN.
    * `warm_start`: `fit` continues from the last parameters; then no row needs a label. `random_state`: of `sample`.

    EM starts at the labelled rows: each class needs one, and one is enough. Features that never vary are left out of
    Gaussians.

    **Attributes**: `classes_`, `class_prior_` (K,); `means_` (K, d) and `covariances_`, shaped as in scikit-learn's
    GaussianMixture, or `feature_prob_` (K, d); `log_likelihood_`, Eq. G before the first step and after each, with the
    logarithm of the pseudo-rows' prior added so that it never falls; `n_iter_`, `converged_`, `n_features_in_`.

    Threads may share a fitted one for predictions. `fit` belongs to one thread, while no other thread predicts.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "model": [StrOptions({"gaussian", "bernoulli"})],
        "covariance": [StrOptions({"full", "diagonal", "tied", "spherical"})],
        "unlabelled_weight": [Interval(Real, 0, None, closed="left")],
        "regularisation": [Interval(Real, 0, None, closed="left")],
        "binarize": [Real, None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "rules": "no_validation",
        "unlabelled": "no_validation",
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        model: str = "gaussian",
        covariance: str = "full",
        *,
        unlabelled_weight: float = 1.0,
        regularisation: float = 1.0,
        binarize: float | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        rules: Any = None,
        unlabelled: Any = -1,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.model, self.covariance = model, covariance
        self.unlabelled_weight, self.regularisation, self.binarize = unlabelled_weight, regularisation, binarize
        self.max_iter, self.tol = max_iter, tol
        self.rules, self.unlabelled = rules, unlabelled
        self.warm_start, self.random_state = warm_start, random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.model == "bernoulli"
        return tags

    # ---- fitting ----

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows X (n, features) and classes y, most of them unknown."""
        self._validate_params()
        goes_on = self.warm_start and hasattr(self, "joint_")
        if y is None:
            validate_data(self, X, y=None)  # says so in scikit-learn's words
        x = self._features(X, reset=not goes_on)
        check_consistent_length(x, y)
        weight = checked_weight(sample_weight, x)
        if not weight.all():
            some = np.flatnonzero(weight)
            x, y, weight = x[some], taken(y, some), weight[some]
        if not goes_on:
            self.targets_ = self._targets(y)
            self.space_, self.classes_ = self.targets_.space, self.targets_.classes
        known, allowed = self._labels(y)
        weight = np.where(known, 1.0, self.unlabelled_weight) * weight
        kept = weight > 0
        if not kept.any():
            raise DataError("no row is labelled, and unlabelled_weight is 0: no row counts\nLabel some, or raise it.")
        x, known, allowed, weight = x[kept], known[kept], allowed[kept], weight[kept]
        if goes_on:
            return self._climb(self.joint_.regularised(self.regularisation), self._modelled(x), allowed, weight)
        self._scale(x, weight)
        x = self._modelled(x)
        return self._climb(self._start(x, known, allowed, weight), x, allowed, weight)

    def _targets(self, y: Any) -> Targets:
        targets = Targets.of(y, self.rules, self.unlabelled)
        if len(targets.space.variables) > 1 or targets.space.rules:
            raise DataError(
                f"a generative model has one class per row, and the labels are of {targets.space!r}\n"
                "Give one variable without rules, or use DSSLClassifier, which takes several variables and rules."
            )
        return targets

    def _labels(self, y: Any) -> tuple[Mask, Mask]:
        """The rows (n,) of which something is known, and the classes (n, K) that each row's label leaves."""
        columns = self.targets_.encode(y)
        known = np.asarray((~np.isnan(columns)).any(axis=1))
        if self.space_.variables[0].binary:
            columns = np.hstack([1 - columns, columns])
        return known, columns != 0

    def _scale(self, x: Any, weight: Floats) -> None:
        """Where the features of Gaussians are centred, how they spread, and which vary at all."""
        if self.model == "bernoulli":
            return
        share = weight / weight.sum()
        self.centre_: Floats = share @ x
        self.spread_: Floats = share @ np.square(x - self.centre_)
        self.varying_ = np.ptp(x, axis=0) > 1e-12 * np.abs(self.centre_)  # otherwise only rounding errors
        self.centre_[~self.varying_] = x[0, ~self.varying_]

    def _start(self, x: Any, known: Mask, allowed: Mask, weight: Floats) -> Joint:
        """The M-step on labelled rows; a pseudo-row lets one label start a class.

        A class without a label of its own starts at the rows for which it is a candidate.
        """
        candidates = allowed.sum(axis=1)
        r = np.where(known, weight, 0.0)[:, None] * allowed / candidates[:, None]
        labelled = r[candidates == 1].any(axis=0)
        r[np.ix_(candidates > 1, labelled)] = 0
        missing = np.flatnonzero(r.sum(axis=0) == 0)
        if len(missing):
            raise DataError(
                f"class {self.classes_.tolist()[missing[0]]!r} has no labelled row\n"
                "Label at least one row of each class, or leave the class out of the rules."
            )
        cautious = self._density(max(1.0, self.regularisation))
        return Joint.fitted(cautious, x, r).regularised(self.regularisation)

    def _density(self, rows: float) -> Gaussians | Bernoullis:
        if self.model == "bernoulli":
            return Bernoullis.of(rows)
        names = tuple(repr(name) for name in self.classes_.tolist())
        return Gaussians.of(names, self.covariance, rows, self.spread_[self.varying_])

    def _climb(self, joint: Joint, x: Any, allowed: Mask, weight: Floats) -> Self:
        """EM: explain, fit, until a step gains less than `tol` per row."""
        likelihood, r = joint.explain(x, allowed, weight)
        history, self.converged_ = [likelihood], False
        while len(history) <= self.max_iter and not self.converged_:
            joint = Joint.fitted(joint.density, x, r)
            likelihood, r = joint.explain(x, allowed, weight)
            self.converged_ = likelihood - history[-1] <= self.tol * weight.sum()
            history.append(likelihood)
        self.joint_, self.log_likelihood_, self.n_iter_ = joint, np.array(history), len(history) - 1
        if not self.converged_:
            gain = (history[-1] - history[-2]) / weight.sum()
            warnings.warn(
                f"EM did not converge in {self.max_iter} steps: the last one gained {gain:.2g} per row\n"
                f"Raise max_iter, or tol (now {self.tol:g}).",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    # ---- parameters ----

    @property
    def class_prior_(self) -> Floats:
        """π (K,)."""
        return self._fitted().weights

    @property
    def means_(self) -> Floats:
        """μ (K, d)."""
        density = self._fitted_as("means_", Gaussians)
        out = np.tile(self.centre_, (len(density.means), 1))
        out[:, self.varying_] += density.means
        return out

    @property
    def covariances_(self) -> Floats:
        """Σ: full (K, d, d), tied (d, d), diagonal (K, d), spherical (K,)."""
        density = self._fitted_as("covariances_", Gaussians)
        small, d = density.covariances, len(self.centre_)
        if density.kind == "spherical":
            return small[:, 0]
        out = np.zeros((len(small), *(d for _ in small.shape[1:])))
        places = np.flatnonzero(self.varying_)
        out[np.ix_(np.arange(len(small)), *[places] * (small.ndim - 1))] = small
        return out[0] if density.kind == "tied" else out

    @property
    def feature_prob_(self) -> Floats:
        """p(x_j = 1 | y=k) (K, d)."""
        return self._fitted_as("feature_prob_", Bernoullis).chances

    def _fitted(self) -> Joint:
        check_is_fitted(self, "joint_")
        joint: Joint = self.joint_
        return joint

    def _fitted_as(self, name: str, kind: type) -> Any:
        density = self._fitted().density
        if not isinstance(density, kind):
            raise AttributeError(f"a {self.model} model has no {name}")
        return density

    # ---- predicting ----

    def predict(self, X: Any) -> Any:
        """The most probable class of each row, in the form of the labels given to `fit`."""
        return self._decode(self.predict_joint_log_proba(X).argmax(axis=1))

    def predict_proba(self, X: Any) -> Floats:
        """p(y | x) = π_y p(x | y) / p(x): (n, classes)."""
        out: Floats = np.exp(self.predict_log_proba(X))
        return out

    def predict_log_proba(self, X: Any) -> Floats:
        """log p(y | x): (n, classes)."""
        log_joint = self.predict_joint_log_proba(X)
        out: Floats = log_joint - log_sum(log_joint)[:, None]
        return out

    def predict_joint_log_proba(self, X: Any) -> Floats:
        """log p(x, y): (n, classes)."""
        joint = self._fitted()
        return joint.log_joint(self._modelled(self._features(X, reset=False)))

    def score_samples(self, X: Any) -> Floats:
        """log p(x) (n,): low for rows unlike any that were seen."""
        return log_sum(self.predict_joint_log_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of labelled rows whose class, or one of whose candidates, is predicted; others do not count."""
        best = self.predict_joint_log_proba(X).argmax(axis=1)
        check_consistent_length(best, y)
        known, allowed = self._labels(y)
        if not known.any():
            raise DataError("no row is labelled, so nothing can be scored\nScore on labelled rows.")
        right = allowed[np.arange(len(best)), best][known]
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)[known]
        return float(np.average(right, weights=weight))

    def sample(self, n: int = 1, random_state: Any = None) -> tuple[Floats, Any]:
        """`n` rows drawn from p(x, y): X (n, features) and their labels, in the form of those given to `fit`."""
        joint = self._fitted()
        random = check_random_state(self.random_state if random_state is None else random_state)
        y = random.choice(len(joint.weights), size=n, p=joint.weights)
        drawn = joint.density.draw(y, random)
        if self.model == "bernoulli":
            return drawn, self._decode(y)
        x = np.tile(self.centre_, (n, 1))
        x[:, self.varying_] += drawn
        return x, self._decode(y)

    def _decode(self, index: NDArray[np.int64]) -> Any:
        one_hot: Columns = np.eye(len(self._fitted().weights), dtype=np.float32)[index]
        return self.targets_.decode(one_hot[:, 1:] if self.space_.variables[0].binary else one_hot)

    # ---- features ----

    def _features(self, X: Any, *, reset: bool) -> Any:
        if hasattr(X, "detach"):  # a tensor
            X = X.detach().cpu().numpy()
        sparse = "csr" if self.model == "bernoulli" else False
        x = validate_data(self, X, reset=reset, accept_sparse=sparse, dtype=np.float64, ensure_all_finite=False)
        require_finite(x, getattr(self, "feature_names_in_", None), np.finfo(np.float64).max)
        if self.model == "gaussian":
            return x
        if self.binarize is not None:
            return binarize(x, threshold=self.binarize)
        values = x.data if sp.issparse(x) else x
        odd = values[(values != 0) & (values != 1)]
        if len(odd):
            raise DataError(
                f"a Bernoulli model has features of 0 and 1, and X contains {odd[0]:g}\n"
                "Set binarize to the threshold above which a feature is 1, or use model='gaussian'."
            )
        return x

    def _modelled(self, x: Any) -> Any:
        """What the density describes: for Gaussians, features that vary, centred."""
        return x if self.model == "bernoulli" else x[:, self.varying_] - self.centre_[self.varying_]
