"""Predictive: p(y | x, V), a network's prediction given that labels obey the rules (MATH §8).

Every question about predictions is answered here: the priors, the likelihood, consistency, decisions and reports are
a line or two each in terms of it.

A prediction gives a weight to each value of each variable, at first θ, and to a label their product. Without rules
variables are independent and the answers are closed forms; with rules a circuit answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Generator, Tensor

from dssl.circuits.beyond.cascade import Cascade
from dssl.circuits.circuit import Circuit
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import Blocks, over_blocks, wide
from dssl.priors.raised import log_wmc_raised


class Answers(Protocol):
    """What a prediction asks of compiled rules. An approximation may refuse some of it."""

    def log_wmc(self, log_pos: Tensor, log_neg: Tensor, /, *, strict: bool = False) -> Tensor: ...

    def marginals(self, log_pos: Tensor, log_neg: Tensor, /, *, strict: bool = False) -> Tensor: ...

    def mpe(self, log_pos: Tensor, log_neg: Tensor, /, *, strict: bool = False) -> tuple[Tensor, Tensor]: ...

    def top_k(self, log_pos: Tensor, log_neg: Tensor, /, k: int, *, strict: bool = False) -> tuple[Tensor, Tensor]: ...

    def entropy(self, log_pos: Tensor, log_neg: Tensor, /, *, strict: bool = False) -> Tensor: ...

    def sample(self, log_pos: Tensor, log_neg: Tensor, /, n: int = 1, generator: Generator | None = None) -> Tensor: ...


class Family(NamedTuple):
    """Every p(y | x, V) of one set of labels: how its columns form blocks, and who answers for the rules, if any."""

    blocks: Blocks
    circuit: Answers | None

    @property
    def plain(self) -> Family:
        """The family in which a label weighs the product of all its values: itself, but for a `Cascade`."""
        return Family(self.blocks, getattr(self.circuit, "plain", self.circuit))

    @staticmethod
    def of(given: Rules) -> Family:
        """The family of a space, which is compiled the first time, or of a circuit."""
        if isinstance(given, Family):
            return given
        if not isinstance(given, LabelSpace | Circuit):
            raise TypeError(f"predictions are about a LabelSpace or a Circuit, not a {type(given).__name__}")
        return _family(given)

    def require_same(self, other: Family) -> None:
        """An error unless the other family is about the same columns and rules."""
        one, two = self.blocks, other.blocks
        if (one.names, one.groups) != (two.names, two.groups):
            raise ValueError(
                f"these are predictions about two label spaces, with the columns {_few(one.names)} and "
                f"{_few(two.names)}\nUse one space, or one circuit, for both."
            )
        if self.circuit is not other.circuit:
            raise ValueError(
                f"these are predictions about the columns {_few(one.names)} under two sets of rules, or under one "
                "compiled twice\nUse one space, or one circuit, for both."
            )


Rules = LabelSpace | Circuit | Family  # from which valid labels are known


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


_FAMILIES: WeakKeyDictionary[LabelSpace, Family] = WeakKeyDictionary()  # gone when their space is


def _family(given: LabelSpace | Circuit) -> Family:
    if isinstance(given, Circuit):
        return Family(Blocks(given), given)
    found = _FAMILIES.get(given)
    if found is None:
        found = _FAMILIES[given] = Family(Blocks(given), given.compile() if given.rules else None)
    return found


class Predictive:
    """p(y | x, V) = Π_v θ_v(y) / Z on the valid labels V, for each row of logits.

    >>> import torch
    >>> from dssl import LabelSpace, Predictive
    >>> space = LabelSpace("legs, fins, wings\\nlegs -> !fins")
    >>> p = Predictive(torch.tensor([[2.0, 1.0, -1.0]]), space)
    >>> p.theta  # what the network says
    tensor([[0.8808, 0.7311, 0.2689]])
    >>> p.marginals  # what follows given the rules
    tensor([[0.6652, 0.2447, 0.2689]])
    >>> label, log_prob = p.best()
    >>> label.int(), log_prob.exp()
    (tensor([[1, 0, 0]], dtype=torch.int32), tensor([0.4863]))
    >>> p.given(torch.tensor([[torch.nan, 1.0, torch.nan]])).marginals  # fins were seen
    tensor([[0.0000, 1.0000, 0.2689]])

    `logits` (..., width) have one column per column of the space. `rules` is the `LabelSpace`, or a `Circuit` compiled
    from it, which saves a lookup. `evidence` (..., width) holds 1, 0 or NaN as `space.encode` gives it; every
    answer is then given the evidence, too. All answers are exact, batched over the leading shape, in log space, and
    differentiable where they are numbers. With ``strict=True`` rows whose evidence leaves no valid label are an error;
    otherwise their log weights are −inf and their marginals 0.

    Threads may share it. Gradients are torch's: take those of one answer in one thread.
    """

    def __init__(self, logits: Tensor, rules: Rules, evidence: Tensor | None = None, *, strict: bool = False) -> None:
        self.family, self.strict = Family.of(rules), strict
        self._check(logits)
        self.log_values = [z.log_softmax(-1) for z in self.family.blocks.logits(wide(logits))]
        self.allowed: list[Tensor] | None = None
        if evidence is not None:
            self._check(evidence)
            self.allowed = self.family.blocks.allowed(evidence)

    def given(self, evidence: Tensor) -> Predictive:
        """The same prediction with this evidence (..., width), in place of any earlier evidence."""
        self._check(evidence)
        out = self._with(self.log_values)
        out.allowed = self.family.blocks.allowed(evidence)
        return out

    def weighing(self, weigh: Callable[[list[Tensor]], list[Tensor]]) -> Predictive:
        """The same labels with other weights: `weigh` maps the log weights of values by group to new ones.

        >>> import torch
        >>> p = Predictive(torch.tensor([0.0, 1.0]), LabelSpace("a, b\\na | b"))
        >>> squared = p.weighing(lambda values: [2 * value for value in values])
        >>> torch.allclose(p.power(2.0), squared.log_valid - 2 * p.log_valid)
        True
        """
        return self._with(weigh(self.log_values))

    @classmethod
    def of_weights(
        cls, log_values: list[Tensor], family: Family, evidence: Tensor | None = None, *, strict: bool = False
    ) -> Predictive:
        """Labels weighed by log weights of values, by group of blocks (..., n, K), in place of a network's log θ."""
        out = cls.__new__(cls)
        out.family, out.strict, out.log_values = family, strict, log_values
        out.allowed = None if evidence is None else family.blocks.allowed(evidence)
        return out

    @classmethod
    def even(cls, family: Family, like: Tensor, evidence: Tensor | None = None) -> Predictive:
        """Labels that all weigh the same, apart from what the rules weigh, in the type and on the device of `like`."""
        shapes = [(len(group.variables), group.size) for group in family.blocks.groups]
        return cls.of_weights([like.new_zeros(shape) for shape in shapes], family, evidence)

    def without_rules(self) -> Predictive:
        """The same prediction and evidence, as if every label were valid."""
        out = Predictive.of_weights(self.log_values, Family(self.family.blocks, None), strict=self.strict)
        out.allowed = self.allowed
        return out

    def _with(self, log_values: list[Tensor]) -> Predictive:
        out = Predictive.of_weights(log_values, self.family)
        out.strict, out.allowed = self.strict, self.allowed
        return out

    # ---- what the network says ----

    @property
    def log_theta(self) -> Tensor:
        """log θ of each column being true (..., width), rules and evidence aside."""
        return self.family.blocks.literals(self.log_values)[0]

    @property
    def theta(self) -> Tensor:
        """θ, the network's own probability of each column (..., width): softmax in blocks, sigmoid for binaries."""
        return self.log_theta.exp()

    # ---- what follows given the rules ----

    @cached_property
    def log_valid(self) -> Tensor:
        """log P(V | θ), or log P(V and evidence | θ): the log of a weighted model count (WMC); shape (...)."""
        if self.family.circuit is None:
            return over_blocks([value.logsumexp(-1) for value in self.observed])
        return self._ask("log_wmc", strict=self.strict)

    def log_prob(self, y: Tensor, *, rules: bool = True) -> Tensor:
        """log p of what y says, columns (..., width) of 1, 0 and NaN for unknown; shape (...).

        With ``rules=False`` it is log p(y | θ), where variables are independent; with rules log p(y | V) =
        log P(y and V) − log P(V), which is −inf for labels that break a rule, or an error if strict. Both are given
        the evidence, if there is any.
        """
        self._check(y)
        if not rules:
            return self.without_rules().log_prob(y)
        allowed = self.family.blocks.allowed(y)
        if self.family.circuit is None and self.allowed is None:
            return -over_blocks([_surprise(value, a) for value, a in zip(self.log_values, allowed)])
        both = self._with(self.log_values)
        known = self.allowed or [torch.ones_like(a) for a in allowed]
        both.allowed = [a & b for a, b in zip(allowed, known)]
        return self._normalised(both.log_valid)

    @cached_property
    def marginals(self) -> Tensor:
        """P(column is true | V) of each column; shape (..., width)."""
        blocks = self.family.blocks
        if self.family.circuit is None:
            return blocks.literals([_softmax(value) for value in self.observed])[0]
        return self._ask("marginals", strict=self.strict)

    @property
    def value_marginals(self) -> list[Tensor]:
        """P(value | V) of every value of every variable, by group of blocks (..., n, K)."""
        if self.family.circuit is None:
            return [_softmax(value) for value in self.observed]
        return self.family.blocks.of_values(self.marginals)

    def entropy(self) -> Tensor:
        """Entropy of p(y | V) in nats; shape (...)."""
        if self.family.circuit is None:
            return over_blocks([_entropy(value) for value in self.observed])
        return self._ask("entropy", strict=self.strict)

    def power(self, T: float | Tensor) -> Tensor:
        """log Σ over valid y of p(y | V)^T, from −∞ for a flat prediction to 0 for a certain one, if T > 1; (...).

        The weights of soft rules and learned probabilities are part of p(y | V), and are raised too.
        """
        raised = self.weighing(lambda values: [T * value for value in values])
        if self.family.circuit is None:
            return raised.log_valid - T * self.log_valid
        return log_wmc_raised(self.family.circuit, *raised.literals, T, strict=self.strict) - T * self.log_valid

    def divergence(self, other: Predictive, *, symmetric: bool = False) -> Tensor:
        """KL(this ‖ other) of the joint distributions over valid labels; shape (...).

        With ``symmetric=True`` it is Jeffreys' ½ KL(this ‖ other) + ½ KL(other ‖ this) = ½ Σ (μ − μ′)(log θ − log θ′),
        in which log Z cancels. Variables that follow from others count nothing extra. Both are taken given this one's
        evidence.
        """
        self.family.require_same(other.family)
        if isinstance(self.family.circuit, Cascade):
            return self._from_the_top(other, symmetric)
        there = other._with(other.log_values)
        there.allowed = self.allowed
        apart = [a - b for a, b in zip(self.log_values, there.log_values)]
        if symmetric:
            pairs = zip(self.value_marginals, there.value_marginals, apart)
            return over_blocks([((p - q) * d).sum(-1) for p, q, d in pairs]) / 2
        moved = over_blocks([(p * d).sum(-1) for p, d in zip(self.value_marginals, apart)])
        return moved + there.log_valid - self.log_valid

    def _from_the_top(self, other: Predictive, symmetric: bool) -> Tensor:
        """The divergence of labels that are decided from the top down."""
        here, there = (self.family.blocks.literals(p.log_values) for p in (self, other))
        if self.allowed is not None:
            raise DataError("the divergence given evidence needs a circuit of the rules\nLeave out the evidence.")
        ahead = self.family.circuit.divergence(*here, *there)  # type: ignore[union-attr]
        return (ahead + self.family.circuit.divergence(*there, *here)) / 2 if symmetric else ahead  # type: ignore[union-attr]

    # ---- labels ----

    def best(self) -> tuple[Tensor, Tensor]:
        """The most probable valid label, bool (..., width), and its log p(y | V) (...)."""
        label, log_weight = self.heaviest()
        return label, self._normalised(log_weight)

    def heaviest(self) -> tuple[Tensor, Tensor]:
        """The most probable valid label, bool (..., width), and log p(y | θ) of it, which is not divided by Z (...)."""
        if self.family.circuit is not None:
            return self._ask("mpe", strict=self.strict)
        most = [value.max(-1) for value in self.observed]
        return self._labels([top.indices for top in most]), over_blocks([top.values for top in most])

    def top_k(self, k: int) -> tuple[Tensor, Tensor]:
        """The k most probable valid labels, bool (..., k, width), most probable first, and their log p(y | V) (..., k).

        Where fewer are valid, the rest are all false and have −inf.
        """
        labels, log_weights = self._ask("top_k", k, strict=self.strict)
        return labels, self._normalised(log_weights)

    def sample(self, n: int = 1, generator: Generator | None = None) -> Tensor:
        """n labels for each row, drawn exactly and independently from p(y | V); bool (n, ..., width)."""
        if self.family.circuit is not None:
            return self._ask("sample", n, generator)
        drawn = []
        for value in self.observed:
            race = torch.empty((n, *value.shape), dtype=value.dtype, device=value.device).exponential_(
                generator=generator
            )
            drawn.append((value.detach() - race.log()).argmax(-1))
        return self._labels(drawn)

    # ---- shared ----

    @cached_property
    def observed(self) -> list[Tensor]:
        """The log weights of values with those that evidence contradicts at −inf."""
        if self.allowed is None:
            return self.log_values
        return [value.masked_fill(~a, -math.inf) for value, a in zip(self.log_values, self.allowed)]

    @property
    def literals(self) -> tuple[Tensor, Tensor]:
        """The log weights of columns being true and being false, as circuits take them: two tensors (..., width)."""
        return self.family.blocks.literals(self.observed)

    def _normalised(self, log_weight: Tensor) -> Tensor:
        """log weights (...) or (..., k) less log Z; −inf where no label is valid."""
        total = self.log_valid.masked_fill(self.log_valid == -math.inf, 0)
        return log_weight - (total if log_weight.dim() == total.dim() else total.unsqueeze(-1))

    def _ask(self, query: str, *options: Any, **named: Any) -> Any:
        circuit = self.family.circuit
        if circuit is None:  # closed forms answer everything but the k best
            circuit = self.family.blocks.free
        return _ask(circuit, query, *self.literals, *options, **named)

    def _labels(self, values: list[Tensor]) -> Tensor:
        """Value indices by group (..., n) as columns, bool (..., width)."""
        parts = []
        for group, index in zip(self.family.blocks.groups, values):
            one = torch.nn.functional.one_hot(index, group.size).bool()
            parts.append(one[..., 1:] if group.binary else one)
        return self.family.blocks.joined(parts)

    def _check(self, x: Tensor) -> None:
        width = self.family.blocks.width
        if x.dim() == 0 or x.shape[-1] != width or not x.is_floating_point():
            raise DataError(
                f"logits, labels and evidence of shape {tuple(x.shape)} and type {x.dtype} do not fit\n"
                f"Give floats of shape (..., {width}): one column for each of the label space."
            )


def _ask(*given: Any, **named: Any) -> Any:
    """Hidden from `torch.compile`, which cannot trace kernels and calls this as it is.

    The decorator that hides it loads torch's compiler, in seconds: it is put on when a compiler comes this way.
    """
    if torch.compiler.is_compiling() and not _hidden:
        _hidden.append(torch.compiler.disable(_answered))
    return (_hidden[0] if _hidden else _answered)(*given, **named)


_hidden: list[Callable[..., Any]] = []


def _answered(circuit: Any, query: str, log_pos: Tensor, log_neg: Tensor, *options: Any, **named: Any) -> Any:
    # torch has no public test; without this the user would read that some tensor has no storage
    if torch._C._functorch.is_functorch_wrapped_tensor(log_pos):
        raise RuntimeError(
            "rules cannot be evaluated inside torch.func.vmap, grad or jvp: their circuit runs in kernels that torch "
            "does not see into. Call the prior on the whole batch, of any leading shape, and use torch.autograd."
        )
    return getattr(circuit, query)(log_pos, log_neg, *options, **named)


def _surprise(log_values: Tensor, allowed: Tensor) -> Tensor:
    """−log of the probability that the allowed values have (..., K); exactly 0 if all are allowed."""
    kept = log_values.masked_fill(~allowed, -math.inf).logsumexp(-1)
    out = log_values.masked_fill(allowed, -math.inf).logsumexp(-1)
    return torch.nn.functional.softplus(out - kept)  # log(1 + excluded / kept), accurate at both ends


def _softmax(log_weights: Tensor) -> Tensor:
    """Probabilities in proportion to weights (..., K); 0 where no value is left."""
    none = (log_weights == -math.inf).all(-1, keepdim=True)
    return log_weights.masked_fill(none, 0).softmax(-1).masked_fill(none, 0)


def _entropy(log_weights: Tensor) -> Tensor:
    """−Σ p log p of p in proportion to weights (..., K); 0 where no value is left."""
    none = (log_weights == -math.inf).all(-1, keepdim=True)
    log_p = log_weights.masked_fill(none, 0).log_softmax(-1)
    entropy = -(log_p.exp() * log_p.masked_fill(log_p == -math.inf, 0)).sum(-1)
    return entropy.masked_fill(none.squeeze(-1), 0)
