"""A saved model: a folder with weights (safetensors), everything else as JSON, and a model card. No code, no pickle."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import replace
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
from dssl.circuits.beyond import ladder
from dssl.data.features import Standardiser
from dssl.data.targets import Targets
from dssl.errors import DataError
from dssl.logic.language.variables import shown
from dssl.logic.space import LabelSpace
from dssl.models.auto.beside import Blended, Machine, Together
from dssl.models.auto.calibration import Calibrated, joined, parts, uncalibrated
from dssl.models.auto.committee import Committee
from dssl.models.auto.elements import MOST_TOKENS, Elements, build_network, find_elements, network_name
from dssl.models.auto.outputs import Conditional, forest
from dssl.models.auto.plan import Decision, Plan
from dssl.models.auto.ridge import RidgeModel
from dssl.models.auto.trees import Forest, Size
from dssl.models.decisions import DECISIONS
from dssl.models.decoding import Decoder
from dssl.models.estimators import DSSLClassifier
from dssl.models.files.card import model_card
from dssl.models.files.described import described, made
from dssl.models.parameters import MOST_COMPONENTS, PLACES, from_0_1, present
from dssl.priors import LearnedPrior

_FORMAT, _VERSION = "dssl model", 2
_WEIGHTS, _FACTS, _CARD = "model.safetensors", "model.json", "README.md"
_ANEW = "Save the model again, or fetch an intact copy."
_MOST_INPUTS = 1 << 28  # numbers of one row
_MOST_NUMBERS = 1 << 26  # in the leaves of all trees
_DEEPEST = 1 << 14  # splits on the way to a leaf
_MOST_MEMBERS = 16
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

    Any number of threads may call it at once, each for its own folder.
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
    prior, asked = getattr(model, "prior_", None), model.network
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
        "answers": ladder.told(model.decoder_.circuit),
        "input_shape": list(model.input_shape_),
        "feature_names": None if names is None else names.tolist(),
        "network": {
            "name": network_name(asked, model.elements_, model.input_shape_) if isinstance(asked, str) else None,
            "asked": asked if isinstance(asked, str) else None,  # "auto" may come to another one when fitted again
            "class": type(_first(model.network_)).__qualname__,
            "conditional": _has(model.network_, Conditional),
            "calibrated": _has(model.network_, Calibrated),
            **_machines(model.network_),
            "members": _members(model.network_),
            "components": model.decoder_.components,
            "vocabulary": None if model.elements_ is None else model.elements_.vocabulary,
            "whole_numbers": model.standardiser_.whole,
            "weights": sum(p.numel() for p in model.network_.parameters()),
        },
        "prior": prior.state()[0] if isinstance(prior, LearnedPrior) else None,
        "plan": {
            "uses_unlabelled": model.plan_.uses_unlabelled,
            "decisions": [[d.what, d.value, d.reason] for d in model.plan_.decisions],
        },
        "parameters": {k: described(v) for k, v in model.get_params().items() if k not in ("rules", "network")},
        "steps": model.n_steps_,
        "history": [described(row) for row in model.history_[-1:]],
        "metrics": {str(name): float(value) for name, value in metrics.items()},
        "files": {_WEIGHTS: weights},
    }
    return facts | {"checksum": _checksum(facts)}


def _checksum(facts: Mapping[str, Any]) -> str:
    """Of everything but itself, whatever the layout of the file."""
    rest = {name: value for name, value in facts.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


# ---- loading ----


def load(path: str | Path, network: nn.Module | None = None) -> DSSLClassifier:
    """Read a model that `save` wrote. Nothing in the folder is executed.

    Files that were changed, cut short, or written by a newer format are refused. `network`: a module like the one the
    model was trained with, if that was your own; its weights are replaced by the saved ones.

    Any number of threads may call it at once.
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
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
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
        raise DataError(f"'{file}' is not a safetensors file: {error}\n{_ANEW}") from None


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
    asked = facts["network"].get("asked") or name
    model = DSSLClassifier(rules=rules, network=network or asked, **_parameters(facts, targets.space, prior))
    model.prior_ = prior
    if "plan" in facts:  # which 0.1.0 did not save
        said = tuple(Decision(*map(str, words)) for words in facts["plan"]["decisions"])
        model.plan_ = Plan(bool(facts["plan"]["uses_unlabelled"]), decisions=said)
    shape = tuple(facts["input_shape"])
    if not all(type(n) is int and n > 0 for n in shape) or math.prod(shape) > _MOST_INPUTS:
        raise DataError(f"inputs of shape {shown(repr(shape))}\n{_ANEW}")
    model.targets_, model.space_, model.classes_ = targets, targets.space, targets.classes
    model.input_shape_, model.n_features_in_ = shape, shape[0]
    if facts["feature_names"] is not None:
        model.feature_names_in_ = np.array(facts["feature_names"], dtype=object)
    whole = bool(facts["network"].get("whole_numbers", False))
    model.standardiser_ = Standardiser(tensors.pop("mean").numpy(), tensors.pop("scale").numpy(), whole)
    model.elements_ = _elements(model, facts["network"])
    components = facts["network"].get("components", 1)
    if type(components) is not int or not 0 < components <= MOST_COMPONENTS:
        raise DataError(f"a model of {shown(repr(components))} components\n{_ANEW}")
    example = torch.zeros(2, *shape, dtype=torch.int64 if whole else torch.float32)
    members = facts["network"].get("members", 1)
    if type(members) is not int or not 0 < members <= _MOST_MEMBERS:
        raise DataError(f"a model of {shown(repr(members))} networks\n{_ANEW}")
    each = [
        build_network(network or name, model.elements_, example, targets.space, components=components, seed=0)
        for _ in range(members)
    ]
    built = each[0] if members == 1 else Committee(*each)
    built = _beside(built, facts["network"], targets.space, shape)
    built = joined(built, *_behind(facts["network"], targets.space, components))
    built.load_state_dict(_part(tensors, "network."))
    if not all(m.sound(math.prod(shape)) for m in built.modules() if isinstance(m, Forest)):
        raise DataError(f"trees that point to nodes, leaves or features that are not there\n{_ANEW}")
    decision = model.decision if model.decision in DECISIONS else "most probable"
    model.network_ = built.eval()
    model.decoder_ = Decoder(
        targets.space, ladder.again(targets.space, facts.get("answers")), decision, components=components
    )
    model.n_steps_, model.history_ = facts["steps"], facts["history"]
    model.metrics_ = facts["metrics"]
    return model


def _elements(model: DSSLClassifier, facts: Mapping[str, Any]) -> Elements | None:
    """What rows are made of, found again from their shape and the rules; models of older formats have no elements."""
    if "vocabulary" not in facts:
        model.elements = None
    vocabulary = facts.get("vocabulary")
    if vocabulary is not None and (type(vocabulary) is not int or not 0 < vocabulary <= MOST_TOKENS):
        raise DataError(f"a vocabulary of {shown(repr(vocabulary))} tokens\n{_ANEW}")
    found = find_elements(model.space_, model.input_shape_, model.elements, model.network)
    return None if found is None else replace(found, vocabulary=vocabulary)


def _machines(network: nn.Module) -> dict[str, dict[str, Any] | None]:
    """The ridge model and the forest that answer together with the network, if they do."""
    core = parts(network)[0]
    machine = core.machine if isinstance(core, Blended) else None
    each = list(machine.machines) if isinstance(machine, Together) else [machine]
    ridge = next((m for m in each if isinstance(m, RidgeModel)), None)
    forest = next((m for m in each if isinstance(m, Forest)), None)
    return {
        "kernel": None if ridge is None else {"kind": ridge.kind, "marks": len(ridge.marks)},
        "forest": None if forest is None else forest.size._asdict(),
    }


def _beside(network: nn.Module, facts: Mapping[str, Any], space: LabelSpace, shape: tuple[int, ...]) -> nn.Module:
    """The network with what answers beside it, as all are before weights are read."""
    features, ridge, forest = math.prod(shape), facts.get("kernel"), facts.get("forest")
    machines: list[Machine] = []
    if ridge is not None:
        if not 0 < ridge["marks"] <= _MOST_INPUTS // features:
            raise DataError(f"a ridge model of {ridge['marks']} rows\n{_ANEW}")
        machines.append(RidgeModel(space, ridge["kind"], ridge["marks"], features))
    if forest is not None:
        size = Size(**forest)
        counts = all(type(n) is int and 0 <= n <= _MOST_NUMBERS // space.width for n in size)
        if not counts or not size.trees or size.depth > _DEEPEST:
            raise DataError(f"a forest of {shown(repr(tuple(size)))} trees, nodes, leaves and splits\n{_ANEW}")
        machines.append(Forest(space, size))
    if not machines:
        return network
    machine = machines[0] if len(machines) == 1 else Together(*machines)
    return Blended(network, machine, torch.zeros(space.width), (1.0, 0.0))


def _first(network: nn.Module) -> nn.Module:
    """The network proper, or the first of those that answer together."""
    core = parts(uncalibrated(network))[0]
    return core.members[0] if isinstance(core, Committee) else core


def _members(network: nn.Module) -> int:
    """How many networks answer together."""
    core = parts(uncalibrated(network))[0]
    return len(core.members) if isinstance(core, Committee) else 1


def _has(network: nn.Module, kind: type[nn.Module]) -> bool:
    return any(isinstance(layer, kind) for layer in parts(network))


def _behind(facts: Mapping[str, Any], space: LabelSpace, components: int) -> list[nn.Module]:
    """The layers behind the network proper, as they are before weights are read."""
    layers: list[nn.Module] = [Calibrated(torch.zeros(space.width))] if facts.get("calibrated") else []
    if facts.get("conditional"):
        above = forest(space)
        if above is None:
            raise DataError(f"the model's outputs follow a forest of classes, and its rules are not one\n{_ANEW}")
        layers.append(Conditional(above, components))
    return layers


def _parameters(facts: Mapping[str, Any], space: LabelSpace, prior: LearnedPrior | None) -> dict[str, Any]:
    """The estimator's parameters, except where its training wrote files: another machine has other folders."""
    old = facts["parameters"]
    out = present(made(old, space, prior)) if facts["version"] > 1 else from_0_1(old, prior)
    if isinstance(settings := out.get("settings"), dict):
        out["settings"] = {name: value for name, value in settings.items() if name not in PLACES} or None
    return out


def _prior(facts: dict[str, Any] | None, tensors: dict[str, Tensor]) -> LearnedPrior | None:
    """The learned prior that was saved with the model, if any."""
    try:
        return LearnedPrior.from_state(facts, _part(tensors, "prior.")) if facts else None
    except ValueError as error:
        raise DataError(f"the model's prior cannot be read: {error}\n{_ANEW}") from error


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}
