"""LearnedPrior: the deterministic prior with label probabilities π, and a power T, learned from labels (MATH §5)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from scipy.optimize import minimize_scalar
from torch import Generator, Tensor

from dssl import files
from dssl.circuits.branches import Choices
from dssl.circuits.circuit import Circuit
from dssl.circuits.weighted import WeightedCircuit
from dssl.errors import DataError
from dssl.logic.inferred import space_of_labels
from dssl.logic.labels import Columns
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import Blocks
from dssl.priors.estimation import Counts, Learner
from dssl.priors.predictive import Family, Predictive
from dssl.priors.relaxations import POWER, DeterministicPrior

_FORMAT, _VERSION = "dssl learned prior", 1
_ANEW = "Learn the prior again with this version of dssl, and save it."
_POWERS = (0.01, 1e4)  # the range of T that is searched
_EDGE = 1e-7  # θ is taken to be at least this far from 0 and 1, the accuracy of float32
_ARRAYS = ("kind", "literal", "ptr", "child", "starts", "categorical")
_SOURCES = {"owner": "owner", "of_child": "child", "of_literal": "literal", "alone": "alone"}


class LearnedPrior(DeterministicPrior):
    """The deterministic prior with π_y learned from labels; `learn_prior` makes one.

    log q(θ) = log Σ_{y∈V} π_y Π_v θ_v(y)^T        π_y = Π φ over the branches of the rules' circuit that y takes

    π sums to one over valid labels and costs about what the rules cost. Everything of `DeterministicPrior` works;
    `labels` is the weighted circuit, with φ as its parameters.

    Threads may share it, while none changes its parameters.
    """

    def __init__(
        self,
        space: LabelSpace,
        labels: WeightedCircuit,
        power: float = POWER,
        *,
        scale: str = "power",
        objective: str = "log",
        normalised: bool = False,
        learn_power: bool = False,
    ) -> None:
        super().__init__(
            space,
            power,
            scale=scale,
            objective=objective,
            normalised=normalised,
            learn_power=learn_power,
            circuit=labels,
        )

    @property
    def labels(self) -> WeightedCircuit:
        """π over labels: a circuit with a probability at every branch."""
        return self.circuit  # type: ignore[return-value]

    @property
    def weights(self) -> Tensor:
        """P(column is true) under π, shape (width,): for classes, π itself."""
        return Predictive.even(self.family, self.labels.branches).marginals

    def log_prob_labels(self, Y: Any) -> Tensor:
        """log π_y of labels in any form `space.encode` reads, shape (n,); −inf for a label that breaks a rule.

        For a partial label it is the log of the sum over its completions.
        """
        known = torch.from_numpy(self.space.encode(Y)).to(self.labels.branches)
        return Predictive.even(self.family, known, known).log_valid

    def sample_labels(self, n: int, generator: Generator | None = None) -> Tensor:
        """n labels drawn from π, bool (n, width); `sample` draws θ."""
        return Predictive.even(self.family, self.labels.branches.detach()).sample(n, generator)

    # ---- files ----

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What `from_state` needs: plain values for JSON, and tensors."""
        choices = self.labels.choices
        facts = {
            "format": _FORMAT,
            "version": _VERSION,
            "space": str(self.space),
            "power": float(self.power.detach()),
            "scale": self.scale,
            "objective": self.objective,
            "normalised": self.normalised,
            "learn": self.labels.branches.requires_grad,
            "learn_power": "log_power" in self._parameters,
        }
        arrays = {name: getattr(choices.circuit, name) for name in _ARRAYS}
        arrays |= {name: getattr(choices, field) for name, field in _SOURCES.items()}
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        return facts, tensors | {"branches": self.labels.branches.detach().cpu().clone()}

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> LearnedPrior:
        """The prior that `state` describes."""
        if facts.get("format") != _FORMAT:
            raise DataError(f"this is not a learned prior. {_ANEW}")
        if facts.get("version") != _VERSION:
            raise DataError(f"it has format {facts.get('version')}, and this dssl reads {_VERSION}. {_ANEW}")
        try:
            space = LabelSpace(facts["space"], folder=None)
            arrays = {name: tensor.numpy() for name, tensor in tensors.items() if name != "branches"}
            names = (*space.columns, *(f"branch {i + 1}" for i in range(len(arrays["owner"]))))
            fields: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
            circuit = Circuit(**fields, names=names)
            choices = Choices(circuit, **{field: arrays[name] for name, field in _SOURCES.items()})
            labels = WeightedCircuit(choices, tensors["branches"], learn=facts["learn"])
            options = {name: facts[name] for name in ("scale", "objective", "normalised", "learn_power")}
            return cls(space, labels, facts["power"], **options)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RuntimeError) as error:
            raise DataError(f"the learned prior is damaged: {str(error).rstrip('.')}. {_ANEW}") from error

    def save(self, path: str | Path) -> None:
        """Write the prior to `path` (safetensors, no pickle): the whole file appears, or none of it."""
        facts, tensors = self.state()
        text = json.dumps(facts)
        meta = {"facts": text, "checksum": _checksum(text, tensors)}
        files.write_whole(path, safetensors.torch.save(tensors, metadata=meta))

    @classmethod
    def load(cls, path: str | Path) -> LearnedPrior:
        """Read a prior that `save` wrote. Nothing in the file is executed."""
        path = files.present(path)
        try:
            with safetensors.safe_open(path, "pt") as file:
                meta = file.metadata() or {}
                names = file.keys()
                tensors = {name: file.get_tensor(name) for name in names}
            facts = dict(json.loads(meta["facts"]))
        except (safetensors.SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise DataError(f"{path} is not a prior saved by dssl, or was cut short. {_ANEW}") from error
        if facts.get("version") == _VERSION and meta.get("checksum") != _checksum(meta["facts"], tensors):
            raise DataError(f"{path} was changed after it was saved: its checksum does not fit. {_ANEW}")
        try:
            return cls.from_state(facts, tensors)
        except ValueError as error:
            raise DataError(f"{path} cannot be read: {error}") from error


def _checksum(facts: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(facts.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()


# ---- learning ----


def learn_prior(
    Y: Any,
    space: LabelSpace | None = None,
    *,
    smoothing: float = 1.0,
    backoff: float | None = None,
    power: float = POWER,
    theta: Any = None,
    sample_weight: Any = None,
    learn: bool = False,
    circuit: Circuit | None = None,
    **options: Any,
) -> LearnedPrior:
    """A prior whose label probabilities π are learned from labels, of labelled rows or without any x.

    >>> prior = learn_prior(["cat", "cat", "dog", None, "cat"])
    >>> prior.weights
    tensor([0.6667, 0.3333])
    >>> space = LabelSpace("legs, fins, wings\\nlegs -> !fins")
    >>> prior = learn_prior([[1, 0, 0], [1, 0, 1], [0, 1, 0], [1, 0, float("nan")]], space)
    >>> prior.log_prob_labels([[1, 0, 1], [1, 1, 0]]).exp()
    tensor([0.2863, 0.0000])

    * `Y`: labels in any form `space.encode` reads; −1, None and NaN are unknown, and partial labels count as far as
      they go (EM). Without a `space`: a vector of classes, or a matrix of 0 and 1.
    * `smoothing`: pseudo-labels, evenly over V, for each value of the largest variable: 1 is Laplace's rule for classes
      and for independent attributes. ∞ is the uniform π.
    * `backoff`: α, with how many labels' weight each branch of the rules' circuit is held to independent variables; 0
    is   maximum likelihood, ∞ independence given the rules. By default chosen by cross-validation.
    * `power`: T. With `theta` (n, width), predictions of rows like those to come, T is the one under which the
      normalised mixture gives them the greatest likelihood.
    * `sample_weight` (n,): how much each label counts, 1 by default.
    * `learn`: φ keeps learning during training, by gradient. `circuit` replaces ``space.compile()``. Other options
      (`scale`, `objective`, `normalised`, `learn_power`) are those of `DeterministicPrior`.

    Any number of threads may call it at once.
    """
    if not smoothing >= 0 or (backoff is not None and not backoff >= 0):
        raise ValueError(f"smoothing and backoff must be 0 or more, not {smoothing!r} and {backoff!r}")
    space = space_of_labels(Y) if space is None else space
    rules = space.compile() if circuit is None else circuit
    family = Family(Blocks(space), rules)
    columns = space.encode(Y)
    labelled = Counts.of(family.blocks, columns, _weights(sample_weight, len(columns)))
    _refuse_contradictions(space, family, labelled)
    choices, log_phi = Learner(family, float(smoothing)).learn(labelled, backoff)
    labels = WeightedCircuit(choices, log_phi.to(torch.get_default_dtype()), learn=learn)
    prior = LearnedPrior(space, labels, power, **options)
    if theta is not None:
        prior.power = likeliest_power(prior, theta)
    return prior


def _weights(given: Any, n: int) -> Any:
    if given is None:
        return None
    weight = np.asarray(given, dtype=float)
    if weight.shape != (n,) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise DataError(f"sample_weight of shape {weight.shape} does not fit\nGive {n} weights, none of them negative.")
    return weight


def _refuse_contradictions(space: LabelSpace, family: Family, labelled: Counts) -> None:
    if not len(labelled.weight):
        return
    bad = (labelled.predictive(family).log_valid == -math.inf).numpy()
    if bad.any():
        first: Columns = labelled.columns[bad][:1]
        raise DataError(
            f"{int(labelled.weight.numpy()[bad].sum())} labels break the rules; one is {space.decode(first)[0]}\n"
            "Find them with space.check(Y), and correct or drop them."
        )


def likeliest_power(prior: LearnedPrior, theta: Any) -> float:
    """T of the normalised mixture Σ_y π_y Π_v Dir(θ_v; 1 + T e_y) that gives θ (n, width) the greatest likelihood."""
    given = torch.as_tensor(np.asarray(theta), dtype=torch.float64)
    if given.shape[-1:] != (prior.space.width,) or not bool(((given >= 0) & (given <= 1)).all()) or not given.numel():
        raise DataError(
            f"theta of shape {tuple(given.shape)} does not fit\n"
            f"Give probabilities (n, {prior.space.width}), as predict_theta has them."
        )
    values = prior.blocks.of_values(given.clamp(_EDGE, 1 - _EDGE))
    logits = prior.blocks.as_logits([value.log() for value in values])
    model = DeterministicPrior(prior.space, normalised=True, circuit=prior.labels).double()

    def surprise(log_power: float) -> float:
        model.power = math.exp(log_power)
        with torch.no_grad():
            return -float(model.log_prob(logits).mean())

    low, high = map(math.log, _POWERS)
    return math.exp(minimize_scalar(surprise, bounds=(low, high), method="bounded", options={"xatol": 1e-4}).x)
