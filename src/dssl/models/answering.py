"""Answering: what a fitted model says about rows, whoever fitted it."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from torch import nn

from dssl.data.features import Standardiser
from dssl.data.targets import FRAMES, Targets
from dssl.logic.validity import Violations
from dssl.models.decoding import Decoder
from dssl.models.inference import Resident, device_to_predict_on, features_of, right, run, seen


class Answering(ClassifierMixin, BaseEstimator):
    """Labels, probabilities and samples by a network, and a decoder that keeps the rules."""

    settings: dict[str, Any] | None
    network_: nn.Module
    decoder_: Decoder
    targets_: Targets
    standardiser_: Standardiser

    def set_output(self, *, transform: str | None = None) -> Self:
        """Probabilities as a "pandas" or "polars" frame with the index of the rows, or by "default" as an array."""
        if transform not in (None, "default", *FRAMES):
            raise ValueError(f"transform={transform!r} is not known: choose among default, {', '.join(FRAMES)}")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # by this name scikit-learn's clone keeps it
        return self

    def predict(self, X: Any, *, evidence: Any = None) -> Any:
        """The most probable valid label of each row, in the form of the labels given to `fit`.

        `evidence`: what is known about each row already, in any form of labels, or columns of 1, 0 and NaN for
        unknown. Answers are then given it, exactly; evidence that contradicts the rules is an error.
        """
        logits = self._logits(X)
        return self.targets_.decode(self.decoder_.best(logits, seen(self.targets_, evidence, X)), X)

    def predict_proba(self, X: Any, *, evidence: Any = None) -> Any:
        """Probabilities given the rules and the evidence: (n, classes), or (n, width) of columns being true."""
        logits = self._logits(X)
        p = self.targets_.probabilities(self.decoder_.marginals(logits, seen(self.targets_, evidence, X)))
        form = getattr(self, "_sklearn_output_config", {}).get("transform", "default")
        return p if form == "default" else self.targets_.frame(p, form, X)

    def predict_theta(self, X: Any) -> NDArray[np.floating[Any]]:
        """θ, the network's own probabilities (n, width), as if there were no rules."""
        logits = self._logits(X)
        return self.decoder_.theta(logits)

    def sample(self, X: Any, n: int = 1, random_state: Any = None, *, evidence: Any = None) -> list[Any]:
        """Labels for all rows, drawn `n` times from p(y | x, valid, evidence): a list of what `predict` gives."""
        logits, known = self._logits(X), seen(self.targets_, evidence, X)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        return [self.targets_.decode(columns, X) for columns in self.decoder_.sample(logits, n, seed, known)]

    def violations(self, X: Any) -> Violations:
        """Which rules the network's raw predictions would break in which rows, if they were not decoded."""
        logits = self._logits(X)
        return self.decoder_.violations(logits)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, evidence: Any = None) -> float:
        """The share of labelled rows in which everything known is predicted right; other rows do not count.

        With `evidence`, predictions are given it.
        """
        logits = self._logits(X)
        columns = self.targets_.encode(y)
        check_consistent_length(logits, columns)
        return right(self.decoder_.best(logits, seen(self.targets_, evidence, X)), columns, sample_weight)

    def _logits(self, X: Any) -> torch.Tensor:
        check_is_fitted(self, "network_")
        x = features_of(self, X)
        if "_resident" not in self.__dict__:
            self._resident = Resident(self.network_, device_to_predict_on(self.settings))
        return run(self._resident.network(), x, self.standardiser_)
