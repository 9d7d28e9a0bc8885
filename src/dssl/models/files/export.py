"""ONNX: the network as a file that other runtimes read, and the model that reads this file back with its rules."""

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
from torch import nn

from dssl import files
from dssl.circuits.beyond import ladder
from dssl.data.targets import Targets
from dssl.errors import DataError
from dssl.models.decisions import DECISIONS
from dssl.models.decoding import Decoder
from dssl.models.estimators import DSSLClassifier
from dssl.models.inference import features_of
from dssl.training.elements.network import elements_of
from dssl.training.networks import Standardise

_TOLERANCE = 1e-3  # of logits, relative to the largest: runtimes add up in another order
_KEY, _DECISION, _COMPONENTS, _ANSWERS = "dssl", "dssl decision", "dssl components", "dssl answers"
_MISSING = "ONNX export needs further packages: pip install 'dssl[export]'"


def export_onnx(model: DSSLClassifier, path: str | Path, X: Any = None) -> float:
    """Write a fitted model as an ONNX file, and check its answers; gives the largest difference of logits.

    The graph takes features `x` (n, …) as float32, standardises them, and gives `logits` (n, width), or those of a
    mixture. Space and classes are in the file's metadata, so `OnnxModel` needs nothing else. `X`: rows to check on,
    random ones by default.
    """
    check_is_fitted(model, "network_")
    try:
        import onnx
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{error.name} is not installed\n{_MISSING}") from error
    if model.standardiser_.whole:
        raise DataError("the model reads whole numbers, and an exported graph takes features\nUse save for this model.")
    x = _rows(model, X)
    first = torch.from_numpy(x[:1])
    inputs = Standardise(first if model.elements_ is None else elements_of(first, model.elements_.axes))
    inputs.hold(model.standardiser_)
    network = nn.Sequential(inputs, model.network_).eval()
    batch = torch.export.Dim("rows", min=1)
    with _quiet():
        program = torch.onnx.export(
            network,
            (torch.from_numpy(x[:2]),),
            input_names=["x"],
            output_names=["logits"],
            dynamic_shapes=({0: batch},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    told = {_DECISION: model.decoder_.decision, _COMPONENTS: str(model.decoder_.components)}
    told[_ANSWERS] = json.dumps(ladder.told(model.decoder_.circuit))
    onnx.helper.set_model_props(proto, {_KEY: json.dumps(model.targets_.state()), **told})
    return _write_checked(Path(path), proto.SerializeToString(), network, x)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences the exporter, which warns about its own internals and about packages that it could use."""
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
    x = features_of(model, X)
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
            "Nothing was written. The module may do something that ONNX cannot express exactly."
        )
    files.write_whole(path, content)
    return difference


def _session(model: str | bytes) -> Any:
    """A session of a file, or of what would be its content."""
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
        kept = self._run.get_modelmeta().custom_metadata_map
        state, decision = kept.get(_KEY), kept.get(_DECISION)
        if state is None:
            raise DataError(f"'{path}' was not exported by dssl: its metadata has no label space\nUse export_onnx.")
        self.targets = Targets.from_state(json.loads(state))
        self.decoder = Decoder(
            self.targets.space,
            ladder.again(self.targets.space, json.loads(kept.get(_ANSWERS, "{}"))),
            decision=decision if decision in DECISIONS else "most probable",
            components=int(kept.get(_COMPONENTS, 1)),
        )

    def logits(self, x: Any) -> NDArray[np.float32]:
        """The network's outputs (n, width)."""
        out: NDArray[np.float32] = self._run.run(["logits"], {"x": np.ascontiguousarray(x, dtype=np.float32)})[0]
        return out

    def predict(self, x: Any) -> Any:
        """The best valid label of each row, in the form the model was trained with."""
        return self.targets.decode(self.decoder.best(self.logits(x)))

    def predict_proba(self, x: Any) -> NDArray[np.floating[Any]]:
        """Probabilities given the rules."""
        return self.targets.probabilities(self.decoder.marginals(self.logits(x)))
