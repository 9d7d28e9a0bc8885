"""Inference: rows of features as estimators are given them, a network on them, and how right its labels are."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import validate_data
from torch import Tensor, nn

from dssl.data.features import require_finite
from dssl.data.targets import Targets, index_of, plain
from dssl.errors import DataError
from dssl.logic.labels import Columns
from dssl.models.decoding import Decoder
from dssl.training.processes import device_of

_ROWS = 1024  # predicted at a time


def count(X: Any) -> int:
    """The number of rows of an array, a sparse matrix, a tensor, a frame or a list."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def taken(X: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of X, in the form that X has.

    scikit-learn's own splitters and pipelines take rows by this function, which it documents under a private name: a
    function of ours could treat some frames differently.
    """
    return X[rows] if sp.issparse(X) or hasattr(X, "detach") else _safe_indexing(X, rows)


def features_of(model: Any, X: Any, *, reset: bool = False) -> Any:
    """Rows as an estimator was given them, as a finite array or sparse matrix of the shape that it was fitted to.

    With `reset`, their shape and names become those that it is fitted to.
    """
    if isinstance(X, Tensor):
        X = X.detach().cpu().numpy()
    shape = tuple(getattr(X, "shape", ()))[1:]
    if not reset and max(len(shape), len(model.input_shape_)) > 1:  # scikit-learn would count channels as features
        _require_shape(model, shape)
    x = validate_data(
        model, X, reset=reset, accept_sparse="csr", dtype="numeric", allow_nd=True, ensure_all_finite=False
    )
    require_finite(x, getattr(model, "feature_names_in_", None))
    if reset:
        model.input_shape_ = x.shape[1:]
    else:
        _require_shape(model, x.shape[1:])
    if sp.issparse(x) and not x.has_canonical_format:
        x = x.copy()
        x.sum_duplicates()
    return x


def _require_shape(model: Any, shape: tuple[int, ...]) -> None:
    if shape != tuple(model.input_shape_):
        raise DataError(f"rows of shape {shape} where {tuple(model.input_shape_)} was fitted\nGive the same shape.")


def as_tensor(x: Any) -> Tensor:
    """Rows of an array or a sparse matrix as a tensor."""
    return torch.from_numpy(x.toarray() if sp.issparse(x) else np.ascontiguousarray(x))


class Resident:
    """A network on the device to predict with; the one given stays on the CPU, from where it can be saved.

    The copy is made when first needed, and does not travel with a pickled model.
    """

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        self._given, self._device = network, device
        self._copy: nn.Module | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_copy": None}

    def network(self) -> nn.Module:
        """The network to run."""
        if self._device.type == "cpu":
            return self._given
        if self._copy is None:
            self._copy = copy.deepcopy(self._given).to(self._device)
        return self._copy


def device_to_predict_on(settings: Mapping[str, Any] | None) -> torch.device:
    """The machine's accelerator, if it has one, unless settings ask for the CPU: models move between machines."""
    return device_of("cpu" if (settings or {}).get("accelerator") == "cpu" else "auto")


def run(network: nn.Module, x: Any, standardise: Callable[[Any], Any] | None = None) -> Tensor:
    """The network's logits of standardised rows, on the CPU, wherever the network is.

    With `standardise`, rows are as they came, and standardised a few at a time: there is never a second copy of all.
    """
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    training = network.training
    network.eval()
    with torch.inference_mode():
        parts = []
        for start in range(0, count(x), _ROWS):
            part = x[start : start + _ROWS]
            part = part if standardise is None else standardise(part)
            parts.append(network(as_tensor(part).to(device)).cpu())
    network.train(training)
    return torch.cat(parts).float()


def seen(targets: Targets, evidence: Any, rows: Any = None) -> Columns | None:
    """What is known of `rows`, in a form of labels or of columns, as columns (n, width).

    Pandas frames go together by the places of their rows, as everywhere in scikit-learn; if both name their rows, and
    not in the same way, that would be another row's evidence.

    >>> seen(Targets.of(["cat", "dog", "eel"]), np.array([[0, np.nan, np.nan]])).tolist()  # not a cat
    [[0.0, nan, nan]]
    """
    if evidence is None:
        return None
    _require_one_index(rows, evidence)
    given = plain(evidence) if targets.form == "classes" else None
    columns = given is not None and (not isinstance(given, np.ndarray) or given.ndim == 2)
    return targets.space.encode(given) if columns else targets.encode(evidence)


def _require_one_index(rows: Any, evidence: Any) -> None:
    """An error if rows and evidence have indices of their own that differ."""
    first, second = index_of(rows), index_of(evidence)
    if first is None or second is None or len(first) != len(second):
        return
    places = list(range(len(first)))
    odd = [i for i, (a, b) in enumerate(zip(first, second)) if a != b]
    if odd and list(first) != places and list(second) != places:
        raise DataError(
            f"the evidence is about other rows than X: its row {odd[0]} is called {second[odd[0]]!r}, that of X "
            f"{first[odd[0]]!r}\nGive evidence.loc[X.index], or .reset_index(drop=True) if the order is the same."
        )


def right(best: Columns, known: Columns, sample_weight: Any = None) -> float:
    """Accuracy over the rows of which something is known; a row is right if everything known is."""
    rows = ~np.isnan(known).all(axis=1)
    if not rows.any():
        raise DataError("no row is labelled, so nothing can be scored\nScore on labelled rows.")
    correct = ((best == known) | np.isnan(known)).all(axis=1)
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)[rows]
    return float(np.average(correct[rows], weights=weight))


@dataclass(frozen=True)
class Validation:
    """Accuracy on held-out rows, as an object that can be sent to other processes."""

    decoder: Decoder
    x: Any
    columns: Columns
    weight: NDArray[np.float64]

    def __call__(self, network: nn.Module) -> float:
        return right(self.decoder.best(run(network, self.x)), self.columns, self.weight)
