"""DSSLClassifier: the scikit-learn estimator, from arrays and rules to a model whose predictions never break one."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from math import ceil
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, _safe_indexing, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)
from torch import nn

from dssl.errors import DataError
from dssl.logic.labels import Columns
from dssl.logic.validity import Violations
from dssl.priors import Prior
from dssl.training.augmentation import AUGMENTATIONS, Views, make_views
from dssl.training.balance import Balanced, frequencies
from dssl.training.consistency import Consistency
from dssl.training.data import ArrayData
from dssl.training.decoding import Decoder
from dssl.training.features import Standardiser, distinct, require_finite
from dssl.training.loop import train
from dssl.training.mending import mend
from dssl.training.names import PRIORS, TERMS, make_prior, make_terms
from dssl.training.networks import Standardise, make_network
from dssl.training.objective import Objective, collapse
from dssl.training.safeguard import Verdict, judge
from dssl.training.settings import Settings
from dssl.training.splitting import folds
from dssl.training.targets import Targets

_STEPS, _PASSES = 400, 10  # of training at least, and passes over the labelled rows at least
_ROWS = 1024  # predicted at a time
_BESIDE_TERMS = 0.3  # λ, where consistency does most of the work
_VARIED = 0.5  # share of the labels' entropy below which predictions count as collapsed
_LOOKED_AT = 10_000  # unlabelled rows, at most, on which collapse is measured


@dataclass(frozen=True)
class _Rise:
    """The share of λ at a step: from 0 to 1 over `steps` steps, `done` of which are past."""

    steps: int
    done: int

    def __call__(self, step: int) -> float:
        return min(1.0, (step + self.done) / self.steps)


@dataclass(frozen=True)
class _Validation:
    """Accuracy on held-out rows, given to the loop as an object that other processes can be sent."""

    decoder: Decoder
    x: Any
    columns: Columns

    def __call__(self, network: nn.Module) -> float:
        return _right(self.decoder.best(_run(network, self.x)), self.columns)


class CollapseWarning(UserWarning):
    """Predictions on unlabelled rows are far less varied than the labels."""


class DSSLClassifier(ClassifierMixin, BaseEstimator):
    """Classifier that learns from labelled rows, unlabelled rows and rules about labels.

    >>> import numpy as np
    >>> X = np.array([[0.0, 0.1], [0.2, 0.0], [3.0, 3.1], [3.2, 2.9]] * 5)
    >>> y = np.array(["near", None, "far", None] * 5)
    >>> DSSLClassifier(steps=50, random_state=0).fit(X, y).predict([[0.1, 0.1], [3.0, 3.0]]).tolist()
    ['near', 'far']

    **Labels.** A vector of classes, with −1, None or NaN where the class is unknown; a matrix of 0 and 1 with NaN where
    an entry is unknown; or, with `rules`, whatever `LabelSpace.encode` reads. Predictions come in the same form.

    **Parameters**

    * `rules`: what labels can look like. Rule text, a path to it, a `LabelSpace`, or, if y is a frame or records,
      formulas about its columns. Without rules: classes, or independent labels.
    * `prior`: "deterministic", "entropy", "exclusivity", "pseudo-label"; "learned", with the label probabilities that
      `learn_prior` finds; a `Prior`, or a function from space to one; None to learn from labels only. `prior_weight`
      is its weight λ, by default 1, or .3 beside a consistency term; `power` the T of the deterministic prior,
      `labelled_prior_weight` its weight on labelled rows.
    * `balance`: how strongly the mean prediction is held to the label frequencies, against collapse (see `Balanced`).
    * `consistency`: predictions should stay as they are under small changes of x. "vat", "mean-teacher", "pi-model",
      "temporal-ensembling", "neighbours", "fixmatch", "mixmatch", "remixmatch", "mixup"; a term of
      `dssl.training.consistency` or `.matching`; a list of those; None. `consistency_weight` is its weight μ.
      "auto": neighbours, for classes of rows of features; and where `judge` finds that unlabelled rows are unlikely
      to help, neither they nor the prior are used, and `verdict_` says why.
    * `augment`: which changes of x leave labels as they are. "image", "digits" (no mirroring), "table", a function of
      standardised rows, a pair of a weak and a strong one, or None. Labels are learnt on weak views.
    * `ramp`: the share of training in which the weights of prior, balance and consistency rise from 0. They are
      multiplied by the share of rows that are unlabelled: few such rows say little.
    * `constrained`: the likelihood of a label is taken given that labels are valid.
    * `network`: "linear", "mlp" (default), "cnn" (default for images), "wrn-28-2" or a torch module.
    * `steps` of training, by default 400, or ten passes over the labelled rows if that is more; `learning_rate`,
      `weight_decay`, `labelled_batch`, `unlabelled_batch`, `ema`. `settings` holds further fields of `Settings`
      (devices, accelerator, checkpoint, log, …).
    * `early_stopping`: stop when a held-out `validation_fraction` of the labelled rows no longer gets better.
    * `standardise`: bring features to mean 0 and a common scale first.
    * `unlabelled`: what stands for an unknown class, besides None and NaN.
    * `on_violation`: labels that break a rule are an "error", or "warn", "drop" the label, "repair" it.
    * `warm_start`: `fit` goes on from the last model. `verbose`: show progress. `random_state`: seed.

    **Attributes**: `classes_`, `space_`, `network_`, `prior_`, `verdict_`, `history_`, `n_steps_`, `n_features_in_`,
    `feature_names_in_`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "rules": "no_validation",
        "prior": [StrOptions(set(PRIORS)), Prior, callable, None],
        "consistency": [StrOptions({*TERMS, "auto"}), Consistency, list, tuple, None],
        "consistency_weight": [Interval(Real, 0, None, closed="left")],
        "augment": [StrOptions(set(AUGMENTATIONS)), callable, Views, list, tuple, None],
        "network": [StrOptions({"linear", "mlp", "cnn", "wrn-28-2"}), nn.Module, None],
        "prior_weight": [Interval(Real, 0, None, closed="left"), None],
        "labelled_prior_weight": [Interval(Real, 0, None, closed="left")],
        "power": [Interval(Real, 0, None, closed="neither")],
        "ramp": [Interval(Real, 0, 1, closed="both")],
        "balance": [Interval(Real, 0, None, closed="left")],
        "constrained": ["boolean"],
        "steps": [Interval(Integral, 1, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "labelled_batch": [Interval(Integral, 1, None, closed="left")],
        "unlabelled_batch": [Interval(Integral, 1, None, closed="left")],
        "ema": [Interval(Real, 0, 1, closed="left"), None],
        "settings": [dict, None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 0.5, closed="right")],
        "patience": [Interval(Integral, 1, None, closed="left")],
        "standardise": ["boolean"],
        "unlabelled": "no_validation",
        "on_violation": [StrOptions({"error", "warn", "drop", "repair"})],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        rules: Any = None,
        prior: Any = "deterministic",
        network: str | nn.Module | None = None,
        *,
        prior_weight: float | None = None,
        labelled_prior_weight: float = 0.0,
        power: float = 2.0,
        ramp: float = 0.4,
        balance: float = 1.0,
        consistency: Any = "auto",
        consistency_weight: float = 1.0,
        augment: Any = None,
        constrained: bool = False,
        steps: int | None = None,
        learning_rate: float = 2e-3,
        weight_decay: float = 1e-4,
        labelled_batch: int = 64,
        unlabelled_batch: int = 256,
        ema: float | None = 0.99,
        settings: dict[str, Any] | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        patience: int = 5,
        standardise: bool = True,
        unlabelled: Any = -1,
        on_violation: str = "error",
        warm_start: bool = False,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.rules, self.prior, self.network = rules, prior, network
        self.prior_weight, self.labelled_prior_weight = prior_weight, labelled_prior_weight
        self.power, self.balance, self.ramp, self.constrained = power, balance, ramp, constrained
        self.consistency, self.consistency_weight, self.augment = consistency, consistency_weight, augment
        self.steps, self.learning_rate, self.weight_decay = steps, learning_rate, weight_decay
        self.labelled_batch, self.unlabelled_batch = labelled_batch, unlabelled_batch
        self.ema, self.settings = ema, settings
        self.early_stopping, self.validation_fraction, self.patience = early_stopping, validation_fraction, patience
        self.standardise, self.unlabelled, self.on_violation = standardise, unlabelled, on_violation
        self.warm_start, self.verbose, self.random_state = warm_start, verbose, random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags

    # ---- fitting ----

    def fit(self, X: Any, y: Any, sample_weight: Any = None, extra_labels: Any = None) -> DSSLClassifier:
        """Learn from rows X (n, features), images (n, c, h, w) or a frame, and labels y, most of them unknown.

        `extra_labels`: labels like y that come without rows. They tell how frequent labels are, which `balance` and
        the "learned" prior use.
        """
        goes_on = self.warm_start and hasattr(self, "network_")
        x, columns, weight = self._read(X, y, sample_weight, None if goes_on else {})
        extra = self._extra(extra_labels)
        return self._learn(x, columns, weight, steps=self._steps(columns), done=0, schedule="cosine", extra=extra)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> DSSLClassifier:
        """Learn a little more, from one pass over these rows. The first call fixes classes and standardisation."""
        first = not hasattr(self, "network_")
        x, columns, weight = self._read(X, y, sample_weight, {"classes": classes} if first else None)
        labelled = int((~np.isnan(columns)).any(axis=1).sum())
        passes = (labelled / self.labelled_batch, (len(columns) - labelled) / self.unlabelled_batch)
        done = 0 if first else self.n_steps_
        return self._learn(x, columns, weight, steps=max(1, *map(ceil, passes)), done=done, schedule="constant")

    def _extra(self, labels: Any) -> Columns | None:
        if labels is None:
            return None
        if self.prior is None:
            raise DataError("extra_labels say nothing without a prior\nGive one, as in prior='learned'.")
        return mend(self.space_, self.targets_.encode(labels), self.on_violation)

    def _steps(self, columns: Columns) -> int:
        labelled = int((~np.isnan(columns)).any(axis=1).sum())
        return self.steps or max(_STEPS, ceil(_PASSES * labelled / self.labelled_batch))

    def _read(
        self, X: Any, y: Any, sample_weight: Any, new: dict[str, Any] | None
    ) -> tuple[Any, Columns, NDArray[np.float64]]:
        """Users' data as distinct rows x, label columns and weights; `new` holds what a first reading is told."""
        self._validate_params()
        if y is None:
            validate_data(self, X, y=None)  # says so in scikit-learn's words
        x = self._features(X, reset=new is not None)
        check_consistent_length(x, y)
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        if not weight.all():
            kept = np.flatnonzero(weight)
            if not len(kept):
                raise DataError("all sample weights are zero, so no row counts\nGive some rows a positive weight.")
            x, y, weight = x[kept], _safe_indexing(y, kept), weight[kept]
        if new is not None:
            self.targets_ = Targets.of(y, self.rules, self.unlabelled, **new)
            self.space_, self.classes_ = self.targets_.space, self.targets_.classes
        columns = mend(self.space_, self.targets_.encode(y), self.on_violation)
        if np.isnan(columns).all():
            raise DataError(f"none of the {len(columns)} rows is labelled\nLabel some rows of each class.")
        rows, weight = distinct(x, columns, weight)
        x, columns = x[rows], columns[rows]
        if new is not None:
            self.standardiser_ = Standardiser.fit(x, weight) if self.standardise else Standardiser.none(x)
            self.__dict__.pop("network_", None)
        return self.standardiser_(x), columns, weight

    def _learn(
        self,
        x: Any,
        columns: Columns,
        weight: NDArray[np.float64],
        *,
        steps: int,
        done: int,
        schedule: str,
        extra: Columns | None = None,
    ) -> DSSLClassifier:
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        labelled = np.asarray((~np.isnan(columns)).any(axis=1))
        held = self._held_out(columns, labelled, random)
        kept = np.setdiff1d(np.arange(len(columns)), held)
        share = float(np.mean(~labelled[kept]))
        for part, counts in ((kept[labelled[kept]], 1.0), (kept[~labelled[kept]], share)):
            weight[part] *= counts / weight[part].mean() if len(part) else 1  # whatever their scale
        network = self.__dict__.get("network_")  # a fit that fails leaves no network behind
        if network is None:
            name = self.network if self.network is not None else "mlp" if x.ndim == 2 else "cnn"
            network = make_network(name, _tensor(x[:2]), self.space_.width, seed=seed)
            for module in network.modules():
                if isinstance(module, Standardise):
                    module.fitted.fill_(True)  # rows come standardised, so it has nothing to do
        validate = _Validation(Decoder(self.space_), x[held], columns[held]) if len(held) else None
        data = ArrayData(x[kept], columns[kept], weight[kept])
        self.verdict_ = self._judge(x[kept], columns[kept], whole=schedule == "cosine", more=extra is not None)
        objective = self._objective(columns, kept, share, done, weight, extra, x.ndim)
        history = train(network, objective, data, self._settings(steps, schedule, seed), validate=validate)
        self.network_, self.history_ = history.network.cpu().eval(), history.rows
        if self.prior_ is not None:
            self.prior_.cpu()
        self.decoder_ = Decoder(self.space_)
        self.n_steps_ = done + history.steps_done
        self._warn_if_collapsed(x, columns, labelled)
        return self

    def _held_out(self, columns: Columns, labelled: NDArray[np.bool_], random: Any) -> NDArray[np.int64]:
        """Labelled rows to stop on: one of as many stratified folds as the fraction asks for."""
        rows = np.flatnonzero(labelled)
        count = round(1 / self.validation_fraction)
        if not self.early_stopping:
            return rows[:0]
        if len(rows) < 2 * count:
            raise DataError(
                f"{len(rows)} labelled rows are too few to hold out a fraction of {self.validation_fraction:g}\n"
                "Set early_stopping=False, or label more rows."
            )
        return rows[folds(columns[rows], count, random) == 0]

    def _objective(
        self,
        columns: Columns,
        kept: NDArray[np.int64],
        share: float,
        done: int,
        weight: NDArray[np.float64],
        extra: Columns | None,
        dimensions: int,
    ) -> nn.Module:
        space = self.space_
        extra = columns[:0] if extra is None else extra
        labels = np.concatenate([columns[kept], extra])
        counts = np.concatenate([weight[kept], np.ones(len(extra))])
        used = self.verdict_.helps
        prior = self.prior_ = make_prior(self.prior, space, self.power, labels, counts) if used else None
        terms = make_terms(self._terms(len(kept), dimensions)) if used else []
        objective = Objective(
            space,
            prior,
            prior_weight=self._prior_weight(terms),
            labelled_prior_weight=self.labelled_prior_weight,
            ramp=_Rise(ceil(self.ramp * self._steps(columns)), done) if self.ramp else None,
            constrained=self.constrained,
            consistency=terms,
            consistency_weight=self.consistency_weight,
            augment=make_views(copy.deepcopy(self.augment)),
            mean="terms",
        )
        if prior is None or not self.balance:
            return objective
        rows = min(round(share * len(kept)), self.unlabelled_batch)  # that a mean prediction is taken over
        return Balanced(objective, frequencies(space, labels, rows), share * self.balance)

    def _judge(self, x: Any, columns: Columns, *, whole: bool, more: bool) -> Verdict:
        """Whether to use unlabelled rows: as was asked for, or as labels say; not by a few rows of many."""
        if self.prior is None and self.consistency in ("auto", None):
            return Verdict(False, "neither a prior nor a consistency term was asked for")
        if self.consistency != "auto" or more or not whole:
            return Verdict(True, "it was asked for")
        return judge(self.space_, x, columns)

    def _terms(self, rows: int, dimensions: int) -> Any:
        if self.consistency != "auto":
            return self.consistency
        classes = len(self.space_.variables) == 1 and not self.space_.variables[0].binary and not self.space_.rules
        return "neighbours" if classes and dimensions == 2 and rows > 1 else None

    def _prior_weight(self, terms: list[Consistency]) -> float:
        if self.prior_weight is not None:
            return self.prior_weight
        return _BESIDE_TERMS if terms else 1.0

    def _settings(self, steps: int, schedule: str, seed: int) -> Settings:
        given: dict[str, Any] = {
            "steps": steps,
            "labelled_batch": self.labelled_batch,
            "unlabelled_batch": self.unlabelled_batch if self.verdict_.helps else 0,
            "optimizer": "adamw",
            "lr": self.learning_rate,
            "weight_decay": self.weight_decay,
            "schedule": schedule,
            "ema": self.ema,
            "patience": self.patience if self.early_stopping else None,
            "eval_every": max(1, steps // 20),
            "progress": bool(self.verbose),
            "seed": seed,
        }
        return Settings.of(given | (self.settings or {}))

    def _warn_if_collapsed(self, x: Any, columns: Columns, labelled: NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(~labelled)[:_LOOKED_AT]
        if not self.verdict_.helps or len(rows) < 2:
            return
        found = collapse(self.space_, _run(self.network_, x[rows]), torch.from_numpy(columns[labelled]))
        if float(found.labelled.sum()) > 0.1 and found.share < _VARIED:
            warnings.warn(
                f"predictions on unlabelled rows have collapsed: their labels are {found.share:.0%} as varied as those "
                "of labelled rows\nLower prior_weight, raise balance or ramp, or label more rows. If unlabelled rows "
                "truly are this uniform, ignore this.",
                CollapseWarning,
                stacklevel=4,
            )

    # ---- predicting ----

    def predict(self, X: Any) -> Any:
        """The most probable valid label of each row, in the form of the labels given to `fit`."""
        logits = self._logits(X)
        return self.targets_.decode(self.decoder_.best(logits))

    def predict_proba(self, X: Any) -> NDArray[np.floating[Any]]:
        """Probabilities given the rules: (n, classes), or (n, width) of the space's columns being true."""
        logits = self._logits(X)
        return self.targets_.probabilities(self.decoder_.marginals(logits))

    def predict_theta(self, X: Any) -> NDArray[np.floating[Any]]:
        """θ, the network's own probabilities (n, width), as if there were no rules."""
        logits = self._logits(X)
        return self.decoder_.theta(logits)

    def sample(self, X: Any, n: int = 1, random_state: Any = None) -> list[Any]:
        """`n` times labels for all rows, drawn from p(y | x, valid): a list of what `predict` gives."""
        logits = self._logits(X)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        return [self.targets_.decode(columns) for columns in self.decoder_.sample(logits, n, seed)]

    def violations(self, X: Any) -> Violations:
        """Which rules the network's raw predictions would break in which rows, were they not decoded."""
        logits = self._logits(X)
        return self.decoder_.violations(logits)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of labelled rows that are predicted right in all that is known of them; others do not count."""
        logits = self._logits(X)
        columns = self.targets_.encode(y)
        check_consistent_length(logits, columns)
        return _right(self.decoder_.best(logits), columns, sample_weight)

    # ---- features ----

    def _features(self, X: Any, *, reset: bool) -> Any:
        if isinstance(X, torch.Tensor):
            X = X.detach().cpu().numpy()
        x = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype="numeric", allow_nd=True, ensure_all_finite=False
        )
        require_finite(x, getattr(self, "feature_names_in_", None))
        if reset:
            self.input_shape_ = x.shape[1:]
        elif x.shape[1:] != self.input_shape_:
            raise DataError(f"rows of shape {x.shape[1:]} where {self.input_shape_} was fitted\nGive the same shape.")
        if sp.issparse(x) and not x.has_canonical_format:
            x = x.copy()
            x.sum_duplicates()
        return x

    def _logits(self, X: Any) -> torch.Tensor:
        check_is_fitted(self, "network_")
        return _run(self.network_, self.standardiser_(self._features(X, reset=False)))


def _tensor(x: Any) -> torch.Tensor:
    return torch.from_numpy(x.toarray() if sp.issparse(x) else np.ascontiguousarray(x))


def _run(network: nn.Module, x: Any) -> torch.Tensor:
    """The network's logits of standardised rows."""
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    training = network.training
    network.eval()
    with torch.inference_mode():
        parts = [network(_tensor(x[i : i + _ROWS]).to(device)).cpu() for i in range(0, _num_samples(x), _ROWS)]
    network.train(training)
    return torch.cat(parts).float()


def _right(best: Columns, known: Columns, sample_weight: Any = None) -> float:
    """Accuracy over the rows of which something is known; a row is right if all that is known is."""
    rows = ~np.isnan(known).all(axis=1)
    if not rows.any():
        raise DataError("no row is labelled, so nothing can be scored\nScore on labelled rows.")
    right = ((best == known) | np.isnan(known)).all(axis=1)
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)[rows]
    return float(np.average(right[rows], weights=weight))
