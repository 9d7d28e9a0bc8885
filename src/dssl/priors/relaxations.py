"""The relaxations of the paper's Table 1, on every label space: entropy, exclusivity, pseudo-label, deterministic.

Without rules variables are independent and log q is a sum of closed forms; with rules it is a question to the circuit.
All work from logits, in log space (MATH §2–4).
"""

from __future__ import annotations

import copy
import math
import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor, nn

from dssl.circuits.evaluate.layered import sum_of_others
from dssl.circuits.relaxation import ClauseRelaxation
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import log_rest
from dssl.priors.dirichlet import draw_theta, log_constant
from dssl.priors.predictive import Answers, Predictive
from dssl.priors.prior import LATER, CircuitPrior
from dssl.priors.weights import WeightedLabels, value_weights

Spike = Callable[[Tensor, Tensor], Tensor]
POWER = 10.0  # T of a prior that is told none: the paper's


class EntropyPrior(CircuitPrior):
    """Minimum entropy.

    log q(θ) = −H(y | V) = Σ_{y∈V} p(y | V) log p(y | V)

    Without rules this is Σ θ_k log θ_k over the values of every variable. With rules it is the neuro-symbolic entropy:
    the network's p(y) is conditioned on the valid labels, so nothing pushes it towards them. `semantic=True` adds
    log P(V), the semantic term, which does push it.

    Threads may share it, while none changes its parameters.
    """

    def __init__(self, space: LabelSpace = LATER, *, semantic: bool = False, circuit: Answers | None = None) -> None:
        super().__init__(space, circuit=circuit)
        self.semantic = semantic

    def log_prob(self, logits: Tensor, evidence: Tensor | None = None) -> Tensor:
        p = self.predictive(logits, evidence)
        return p.log_valid - p.entropy() if self.semantic else -p.entropy()


class ExclusivityPrior(CircuitPrior):
    """Mutual exclusivity; with rules, the semantic loss.

    log q(θ) = log Σ_k θ_k Π_{j≠k} (1−θ_j)        without rules, summed over categorical variables
    log q(θ) = log P(V) = log Σ_{y∈V} p(y | θ)     with rules

    The first is the semantic loss of "exactly one" over independent binaries with the probabilities of a softmax. With
    rules a softmax block stays one variable with exclusive values (weights θ_k and 1), so q is the probability
    that a label drawn from the network's prediction is valid. Binary variables without rules contribute 0 for every θ.

    Threads may share it, while none changes its parameters.
    """

    def __init__(self, space: LabelSpace = LATER, *, circuit: Answers | None = None) -> None:
        super().__init__(space, circuit=circuit)
        binaries = sum(variable.binary for variable in space.variables)
        if binaries and self.circuit is None:
            what = "any variable: all are" if binaries == len(space.variables) else f"{binaries} variables that are"
            warnings.warn(
                f"ExclusivityPrior gives no signal for {what} binary, and without rules q is 1 for every θ of them. "
                "Add rules, or use EntropyPrior, PseudoLabelPrior or DeterministicPrior.",
                stacklevel=3,  # past the metaclass, to whoever makes the prior
            )

    def log_prob(self, logits: Tensor, evidence: Tensor | None = None) -> Tensor:
        p = self.predictive(logits, evidence)
        return p.log_valid if self.circuit is not None else p.weighing(self._alone).log_valid

    def _alone(self, log_theta: list[Tensor]) -> list[Tensor]:
        """log of θ_k Π_{j≠k} (1−θ_j) in the blocks of categorical variables."""
        return [t if g.binary else t + sum_of_others(log_rest(t)) for g, t in zip(self.blocks.groups, log_theta)]


class PseudoLabelPrior(CircuitPrior):
    """Pseudo-label: the most probable valid label.

    log q(θ) = log max_{y∈V} p(y | θ)

    Without rules this is log max_k θ_k, summed over variables.

    Threads may share it, while none changes its parameters.
    """

    def log_prob(self, logits: Tensor, evidence: Tensor | None = None) -> Tensor:
        return self.predictive(logits, evidence).heaviest()[1]


class CountingPrior(CircuitPrior):
    """A spike at every valid label.

    log q(θ) = log Σ_{y∈V} π_y Π_v g(θ_v(y))

    with θ_v(y) the probability of the value that variable v has in y: θ_k or 1−θ_k of a binary variable, θ_k of a
    categorical one (MATH §4). `weights` are π: one weight per column (for a binary variable the probability of true),
    a mapping from variables to theirs, weights of true and false (width, 2), or `WeightedLabels`.
    """

    log_weights: Tensor | None

    def __init__(self, space: LabelSpace = LATER, *, weights: Any = None, circuit: Answers | None = None) -> None:
        table = weights if isinstance(weights, WeightedLabels) else None
        super().__init__(space, circuit=circuit if table is None else table)
        given = weights is not None and table is None
        self.register_buffer("log_weights", value_weights(space, self.blocks, weights) if given else None)

    @abstractmethod
    def spike(self, log_theta: Tensor) -> Tensor:
        """log g(θ) of values (..., n, K)."""

    def log_prob(self, logits: Tensor, evidence: Tensor | None = None) -> Tensor:
        return self.predictive(logits, evidence).weighing(self._spikes).log_valid

    def _spikes(self, log_theta: list[Tensor]) -> list[Tensor]:
        return self.weighted([self.spike(t) for t in log_theta])

    def weighted(self, values: list[Tensor]) -> list[Tensor]:
        """The log weights of values with log π added."""
        if self.log_weights is None:
            return values
        return [value + part for value, part in zip(values, self.blocks.cut(self.log_weights))]


class DeterministicPrior(CountingPrior):
    """Deterministic prior.

    log q(θ) = log Σ_{y∈V} π_y Π_v θ_v(y)^T

    Without rules this is log Σ_k π_k θ_k^T, summed over variables. Called as a module it gives what training
    maximises: log q / T by default.

    Without `space` the prior takes the space of the estimator or objective that uses it:
    ``DeterministicPrior(power=5.0)``.

    * `power`: T, which may be changed at any time (``prior.power = 5.0``). `learn_power=True` makes log T a parameter,
      which needs the normalised form and scale "none", since the raw q is largest at T → 0.
    * `scale`: "power" divides by T, which keeps the gradient's size comparable across T; "none" is the paper's form.
    * `objective`: "log" maximises log q, "q" maximises q itself, where confident predictions move most.
    * `weights`: π, see `CountingPrior`.
    * `normalised`: q integrates to one. It is then the mixture Σ_y π_y Π_v Dir(θ_v; 1 + T e_y) with π summing to one
      over valid labels, Beta(1+T, 1) for a binary variable; `sample` draws from it.

    Threads may share it, while none changes its parameters.
    """

    def __init__(
        self,
        space: LabelSpace = LATER,
        power: float = POWER,
        *,
        scale: str = "power",
        objective: str = "log",
        weights: Any = None,
        normalised: bool = False,
        learn_power: bool = False,
        circuit: Answers | None = None,
    ) -> None:
        super().__init__(space, weights=weights, circuit=circuit)
        _one_of("scale", scale, ("power", "none"))
        _one_of("objective", objective, ("log", "q"))
        if learn_power and (not normalised or scale != "none"):
            raise ValueError(
                "learn_power=True needs normalised=True and scale='none': q without its constant is largest at T → 0"
            )
        if normalised and isinstance(circuit, ClauseRelaxation):
            raise ValueError(f"normalised=True needs an exact circuit: {circuit!r} does not know the sum over V")
        self.scale, self.objective, self.normalised = scale, objective, normalised
        start = torch.tensor(_positive(power))
        if learn_power:
            self.log_power = nn.Parameter(start.log())
        else:
            self.register_buffer("exponent", start)

    @property
    def power(self) -> Tensor:
        """T, a scalar tensor; assign a number to change it."""
        return self.log_power.exp() if self.learns_power else self.get_buffer("exponent")

    @power.setter
    def power(self, value: float) -> None:
        with torch.no_grad():
            if self.learns_power:
                self.log_power.fill_(math.log(_positive(value)))
            else:
                self.get_buffer("exponent").fill_(_positive(value))

    @property
    def learns_power(self) -> bool:
        """Whether log T is a parameter."""
        return "log_power" in self._parameters

    def spike(self, log_theta: Tensor) -> Tensor:
        return self.power * log_theta

    def at(self, power: float) -> DeterministicPrior:
        """The same prior with another T, which shares everything else: for a T that rises in training.

        >>> import torch
        >>> prior = DeterministicPrior(LabelSpace.classes(["cat", "dog"]), power=10.0)
        >>> float(prior.at(2.0).power), float(prior.power)
        (2.0, 10.0)
        """
        if self.learns_power:
            raise ValueError("this prior learns its power, which cannot be set from outside")
        other = copy.copy(self)
        other._buffers = self._buffers | {"exponent": torch.full_like(self.power, _positive(power))}
        return other

    def log_prob(self, logits: Tensor, evidence: Tensor | None = None) -> Tensor:
        log_q = super().log_prob(logits, evidence)
        if not self.normalised:
            return log_q
        return log_q + log_constant(self.blocks, self.power) - self._labels(logits).log_valid

    def forward(self, logits: Tensor, evidence: Tensor | None = None) -> Tensor:
        out = self.log_prob(logits, evidence)
        out = out.exp() if self.objective == "q" else out
        return out / self.power if self.scale == "power" else out

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """n draws of θ from the normalised q: (n, width), categorical blocks summing to one."""
        labels = self._labels(self.power.detach()).sample(n, generator)
        return draw_theta(self.blocks, labels, self.power.detach(), generator)

    def _labels(self, like: Tensor) -> Predictive:
        """π as a distribution over valid labels, uniform where no weights are given."""
        return Predictive.even(self.family, like).weighing(self.weighted)

    def extra_repr(self) -> str:
        return f"{self.space!r}, power={self.power.item():g}, scale={self.scale!r}, objective={self.objective!r}"


class SpikePrior(CountingPrior):
    """The deterministic prior with a spike of your own.

    log q(θ) = log Σ_{y∈V} π_y Π_v g(θ_v(y))

    >>> import torch
    >>> from dssl.priors import SpikePrior
    >>> space = LabelSpace.classes(["cat", "dog"])
    >>> smoothstep = lambda log_t, log_rest: 2 * log_t + torch.log(3 - 2 * log_t.exp())
    >>> SpikePrior(space, smoothstep)(torch.zeros(1, 2))
    tensor([0.])

    `g` is a function or module of (log t, log(1−t)) that gives log g(t), elementwise and differentiable, with g(0) = 0
    and g(1) = 1. Both arguments are accurate, however close t is to 0 or 1; t^T is ``lambda t, rest: T * t``.
    """

    def __init__(self, space: LabelSpace, g: Spike, *, weights: Any = None, circuit: Answers | None = None) -> None:
        super().__init__(space, weights=weights, circuit=circuit)
        ends = torch.tensor([-math.inf, 0.0])
        found = [float(x) for x in g(ends, ends.flip(0)).detach().exp()]
        if not abs(found[0]) < 1e-6 or not abs(found[1] - 1) < 1e-6:
            raise ValueError(f"a spike has g(0) = 0 and g(1) = 1, and this one has {found[0]:g} and {found[1]:g}")
        self.g = g

    def spike(self, log_theta: Tensor) -> Tensor:
        return self.g(log_theta, log_rest(log_theta))


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"there is no {name} '{value}': choose one of {', '.join(choices)}")


def _positive(power: float) -> float:
    if not (0 < float(power) < math.inf):
        raise ValueError(f"power must be a positive number, not {power!r}")
    return float(power)
