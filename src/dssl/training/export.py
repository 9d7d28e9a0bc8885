"""ONNX: the network as a file that other runtimes read, and the model that reads it back with its rules."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from dssl import files
from dssl.errors import DataError
from dssl.training.decoding import Decoder
from dssl.training.estimators import DSSLClassifier
from dssl.training.targets import Targets

_TOLERANCE = 1e-3  # of logits, relative to the largest: runtimes add up in another order
_KEY = "dssl"
_MISSING = "ONNX export needs further packages: pip install 'dssl[onnx]'"


class _Exported(nn.Module):
    """Standardisation and network in one: features in, logits out."""

    mean: Tensor
    scale: Tensor

    def __init__(self, model: DSSLClassifier) -> None:
        super().__init__()
        self.network = model.network_
        self.register_buffer("mean", torch.from_numpy(model.standardiser_.mean).float())
        self.register_buffer("scale", torch.from_numpy(model.standardiser_.scale).float())

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.network((x - self.mean) / self.scale)
        return out


def export_onnx(model: DSSLClassifier, path: str | Path, X: Any = None) -> float:
    """Write a fitted model as an ONNX file, and check that it answers alike; gives the largest difference of logits.

    The graph takes features `x` (n, …) as float32, standardises them, and gives `logits` (n, width). Space and classes
    are in the file's metadata, so `OnnxModel` needs nothing else. `X`: rows to check on, random ones by default.
    """
    check_is_fitted(model, "network_")
    try:
        import onnx
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{error.name} is not installed\n{_MISSING}") from error
    network = _Exported(model).eval()
    x = _rows(model, X)
    batch = torch.export.Dim("rows", min=1)
    with _quiet():
        program = torch.onnx.export(
            network,
            (torch.from_numpy(x[:2]),),
            input_names=["x"],
            output_names=["logits"],
            dynamic_shapes={"x": {0: batch}},
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    onnx.helper.set_model_props(proto, {_KEY: json.dumps(model.targets_.state())})
    return _write_checked(Path(path), proto.SerializeToString(), network, x)


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter warns of its own internals, and of packages that it could use."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _rows(model: DSSLClassifier, X: Any) -> NDArray[np.float32]:
    """Rows to trace and check with, at least two."""
    if X is None:
        noise = np.random.default_rng(0).standard_normal((64, *model.input_shape_))
        return (noise * model.standardiser_.scale + model.standardiser_.mean).astype(np.float32)
    x = model._features(X, reset=False)
    dense = np.asarray(x.toarray() if hasattr(x, "toarray") else x, dtype=np.float32)
    return np.concatenate([dense, dense]) if len(dense) == 1 else dense


def _write_checked(path: Path, content: bytes, network: nn.Module, x: NDArray[np.float32]) -> float:
    with torch.inference_mode():
        expected = network(torch.from_numpy(x)).numpy()
    got = _session(content).run(["logits"], {"x": x})[0]
    difference = float(np.abs(got - expected).max())
    if not difference <= _TOLERANCE * max(1.0, float(np.abs(expected).max())):
        raise DataError(
            f"the exported network's logits differ by up to {difference:g}\n"
            "Nothing was written. The module may do something that ONNX has no exact form for."
        )
    files.write_whole(path, content)
    return difference


def _session(model: str | bytes) -> Any:
    """Of a file, or of what would be its content."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError(f"onnxruntime is not installed\n{_MISSING}") from error
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


class OnnxModel:
    """An exported model, run by onnxruntime and decoded with its rules: predictions are as valid as before.

    `predict`, `predict_proba` and `decoder` are those of the estimator it came from; x is an array of float32.
    """

    def __init__(self, path: str | Path) -> None:
        self._run = _session(str(path))
        state = self._run.get_modelmeta().custom_metadata_map.get(_KEY)
        if state is None:
            raise DataError(f"'{path}' was not exported by dssl: its metadata name no label space\nUse export_onnx.")
        self.targets = Targets.from_state(json.loads(state))
        self.decoder = Decoder(self.targets.space)

    def logits(self, x: Any) -> NDArray[np.float32]:
        """The network's outputs (n, width)."""
        out: NDArray[np.float32] = self._run.run(["logits"], {"x": np.ascontiguousarray(x, dtype=np.float32)})[0]
        return out

    def predict(self, x: Any) -> Any:
        """The most probable valid label of each row, in the form the model was trained with."""
        return self.targets.decode(self.decoder.best(self.logits(x)))

    def predict_proba(self, x: Any) -> NDArray[np.floating[Any]]:
        """Probabilities given the rules."""
        return self.targets.probabilities(self.decoder.marginals(self.logits(x)))
