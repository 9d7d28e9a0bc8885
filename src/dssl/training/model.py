"""A saved model: a folder with weights (safetensors), everything else as JSON, and a model card. No code, no pickle."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import sklearn
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

import dssl
from dssl import files
from dssl.errors import DataError
from dssl.logic.variables import shown
from dssl.priors import LearnedPrior
from dssl.training.card import model_card
from dssl.training.decoding import Decoder
from dssl.training.estimators import DSSLClassifier
from dssl.training.features import Standardiser
from dssl.training.networks import make_network
from dssl.training.targets import Targets

_FORMAT, _VERSION = "dssl model", 1
_WEIGHTS, _FACTS, _CARD = "model.safetensors", "model.json", "README.md"
_ANEW = "Save the model anew, or fetch an intact copy."
_PLACES = ("checkpoint", "log", "tensorboard")  # settings that name files to write
_MOST_INPUTS = 1 << 28  # numbers of one row
_NO_MODEL = (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError)


# ---- saving ----


def save(model: DSSLClassifier, path: str | Path, metrics: Mapping[str, float] | None = None) -> Path:
    """Write a fitted model to a folder: the whole folder appears, or none of it; an older model there is replaced.

    >>> import numpy as np, tempfile
    >>> model = DSSLClassifier(steps=20, random_state=0).fit(np.eye(4), ["cat", "dog", "cat", None])
    >>> folder = save(model, Path(tempfile.mkdtemp()) / "pets", metrics={"accuracy": 1.0})
    >>> sorted(file.name for file in folder.iterdir())
    ['README.md', 'model.json', 'model.safetensors']
    >>> load(folder).predict(np.eye(4)).tolist() == model.predict(np.eye(4)).tolist()
    True

    `metrics`: figures to keep with the model and to show on its card.
    """
    if not isinstance(model, DSSLClassifier):
        raise DataError(f"a {type(model).__name__} cannot be saved, only a DSSLClassifier\nPickle it, or save that.")
    check_is_fitted(model, "network_")
    path = Path(path)
    if path.exists() and not (path / _FACTS).is_file() and (not path.is_dir() or any(path.iterdir())):
        raise DataError(f"'{path}' exists and is not a saved model\nChoose another path, or remove it first.")
    weights = safetensors.torch.save(_tensors(model))
    facts = _facts(model, dict(metrics or {}), hashlib.sha256(weights).hexdigest())
    with files.whole_folder(path) as fresh:
        files.write_whole(fresh / _WEIGHTS, weights)
        files.write_whole(fresh / _FACTS, json.dumps(facts, indent=2, ensure_ascii=False).encode())
        files.write_whole(fresh / _CARD, model_card(path.name, facts).encode())
    return path


def _tensors(model: DSSLClassifier) -> dict[str, Tensor]:
    out = {f"network.{name}": tensor.contiguous().clone() for name, tensor in model.network_.state_dict().items()}
    scaling = {"mean": model.standardiser_.mean, "scale": model.standardiser_.scale}
    if isinstance(prior := getattr(model, "prior_", None), LearnedPrior):
        out |= {f"prior.{name}": tensor for name, tensor in prior.state()[1].items()}
    return out | {name: torch.from_numpy(np.array(value, dtype=np.float64)) for name, value in scaling.items()}


def _facts(model: DSSLClassifier, metrics: dict[str, float], weights: str) -> dict[str, Any]:
    names = getattr(model, "feature_names_in_", None)
    own, prior = isinstance(model.network, nn.Module), getattr(model, "prior_", None)
    default = "mlp" if len(model.input_shape_) == 1 else "cnn"
    facts: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "dssl": dssl.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "targets": model.targets_.state(),
        "rules": model.rules is not None,
        "input_shape": list(model.input_shape_),
        "feature_names": None if names is None else names.tolist(),
        "network": {
            "name": None if own else model.network or default,
            "class": type(model.network_).__qualname__,
            "weights": sum(p.numel() for p in model.network_.parameters()),
        },
        "prior": prior.state()[0] if isinstance(prior, LearnedPrior) else None,
        "parameters": {k: _plain(v) for k, v in model.get_params().items() if k not in ("rules", "network")},
        "steps": model.n_steps_,
        "history": [_plain(row) for row in model.history_[-1:]],
        "metrics": {str(name): float(value) for name, value in metrics.items()},
        "files": {_WEIGHTS: weights},
    }
    return facts | {"checksum": _checksum(facts)}


def _plain(value: Any) -> Any:
    """A value as JSON has it; what JSON has no form for becomes its description."""
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and value != value:
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, Path) else type(value).__name__


def _checksum(facts: Mapping[str, Any]) -> str:
    """Of everything but itself, however the file is laid out."""
    rest = {name: value for name, value in facts.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


# ---- loading ----


def load(path: str | Path, network: nn.Module | None = None) -> DSSLClassifier:
    """Read a model that `save` wrote. Nothing in the folder is executed.

    Files that were changed, cut short, or written by a newer format are refused. `network`: a module like the one the
    model was trained with, if that was your own; its weights are replaced by the saved ones.
    """
    path = Path(path)
    facts = _read_facts(path)
    try:
        return _rebuilt(facts, _read_tensors(path / _WEIGHTS, facts["files"][_WEIGHTS]), network)
    except DataError:
        raise
    except _NO_MODEL as error:
        raise DataError(f"'{path}' does not describe a model: {str(error)[:500]}\n{_ANEW}") from error


def _read_facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads((path / _FACTS).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise DataError(f"'{path}' is not a saved model: it has no {_FACTS}\nCheck the path.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"'{path / _FACTS}' cannot be read: {error}\n{_ANEW}") from None
    if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
        raise DataError(f"'{path}' is not a model saved by dssl\nCheck the path.")
    version = facts.get("version")
    if not isinstance(version, int) or version > _VERSION:
        raise DataError(
            f"'{path}' has model format {shown(str(version))}, and this dssl reads up to {_VERSION}\n"
            f"It was written by dssl {_writer(facts)}: upgrade dssl."
        )
    if facts.get("checksum") != _checksum(facts):
        raise DataError(f"'{path / _FACTS}' was changed after it was saved: its checksum does not fit\n{_ANEW}")
    return facts


def _writer(facts: Mapping[str, Any]) -> str:
    versions = facts.get("versions")
    return shown(versions.get("dssl", "of a later version")) if isinstance(versions, dict) else "of a later version"


def _read_tensors(file: Path, checksum: str) -> dict[str, Tensor]:
    try:
        content = file.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        raise DataError(f"'{file}' is missing\n{_ANEW}") from None
    if hashlib.sha256(content).hexdigest() != checksum:
        raise DataError(f"'{file}' was changed or cut short: its checksum does not fit\n{_ANEW}")
    try:
        return safetensors.torch.load(content)
    except safetensors.SafetensorError as error:
        raise DataError(f"'{file}' is no safetensors file: {error}\n{_ANEW}") from None


def _rebuilt(facts: dict[str, Any], tensors: dict[str, Tensor], network: nn.Module | None) -> DSSLClassifier:
    targets = Targets.from_state(facts["targets"])
    name = facts["network"]["name"]
    if name is None and network is None:
        raise DataError(
            f"the model's network is your own module ({facts['network']['class']}), and code is never saved\n"
            "Build one like it and pass it: load(path, network=module)."
        )
    if name is not None and network is not None:
        raise DataError(f"the model's network is '{name}', which is built from its name\nLeave out network=.")
    rules = targets.space if facts["rules"] else None
    prior = _prior(facts.get("prior"), tensors)
    model = DSSLClassifier(rules=rules, network=network or name, **_parameters(facts))
    if model.prior == LearnedPrior.__name__:  # one was given, which has no form in JSON
        model.prior = prior
    model.prior_ = prior
    shape = tuple(facts["input_shape"])
    if not all(type(n) is int and n > 0 for n in shape) or math.prod(shape) > _MOST_INPUTS:
        raise DataError(f"inputs of shape {shown(repr(shape))}\n{_ANEW}")
    model.targets_, model.space_, model.classes_ = targets, targets.space, targets.classes
    model.input_shape_, model.n_features_in_ = shape, shape[0]
    if facts["feature_names"] is not None:
        model.feature_names_in_ = np.array(facts["feature_names"], dtype=object)
    model.standardiser_ = Standardiser(tensors.pop("mean").numpy(), tensors.pop("scale").numpy())
    built = make_network(network or name, torch.zeros(2, *shape), targets.space.width, seed=0)
    built.load_state_dict(_part(tensors, "network."))
    model.network_, model.decoder_ = built.eval(), Decoder(targets.space)
    model.n_steps_, model.history_ = facts["steps"], facts["history"]
    model.metrics_ = facts["metrics"]
    return model


def _parameters(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The estimator's parameters, but not where its training wrote files: another machine has other places."""
    out = dict(facts["parameters"])
    if isinstance(settings := out.get("settings"), dict):
        out["settings"] = {name: value for name, value in settings.items() if name not in _PLACES} or None
    return out


def _prior(facts: dict[str, Any] | None, tensors: dict[str, Tensor]) -> LearnedPrior | None:
    """The learned prior that was saved with the model, if any."""
    try:
        return LearnedPrior.from_state(facts, _part(tensors, "prior.")) if facts else None
    except ValueError as error:
        raise DataError(f"the model's prior cannot be read: {error}\n{_ANEW}") from error


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}
