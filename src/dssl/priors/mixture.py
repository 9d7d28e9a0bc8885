"""Mixture: several predictions of one row, each with a weight, for correlations that rules do not explain (MATH §8).

Given the rules, p(y | x, V) is still one product of θ: beyond what the rules say, variables are independent. If a row
may be labelled in two quite different ways, such a product can only blur the two. A sum of products can keep them
apart.
"""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Generator, Tensor

from dssl.errors import DataError
from dssl.priors.blocks import log_sum, wide
from dssl.priors.predictive import Family, Predictive, Rules

CANDIDATES = 8  # labels of each component that are searched for the most probable one


class Mixture:
    """p(y | x) = Σ_m w_m p_m(y | V): M components, each a `Predictive` of its own, with weights w, a softmax.

    >>> import torch
    >>> from dssl import LabelSpace
    >>> space = LabelSpace("a, b, c, d\\nexactly(2, a, b, c, d)")
    >>> one, other = [5.0, 5.0, -5.0, -5.0], [-5.0, -5.0, 5.0, 5.0]
    >>> p = Mixture(torch.tensor([[*one, *other, 0.3, 0.0]]), space)  # a and b, or c and d: nothing in between
    >>> p.marginals.round(decimals=2)
    tensor([[0.5700, 0.5700, 0.4300, 0.4300]])
    >>> label, log_prob, exact = p.best()
    >>> label.int(), log_prob.exp().round(decimals=2), exact
    (tensor([[1, 1, 0, 0]], dtype=torch.int32), tensor([0.5700]), tensor([True]))
    >>> p.given(torch.tensor([[torch.nan, torch.nan, 1.0, torch.nan]])).marginals.round(decimals=2)  # c was seen
    tensor([[0., 0., 1., 1.]])

    `logits` (..., M·width + M): those of the components, one after the other, then those of their weights. `rules`,
    `evidence` and `strict` are those of `Predictive`. Evidence reweights the components by how probable it is in each.
    Answers are exact, batched, in log space, and differentiable where they are numbers; the entropy of a mixture has no
    such form, and is bounded. With M = 1 answers are those of `Predictive`.

    Threads may share it, as they may a `Predictive`.
    """

    def __init__(self, logits: Tensor, rules: Rules, evidence: Tensor | None = None, *, strict: bool = False) -> None:
        self.family, self.strict = Family.of(rules), strict
        width = self.family.blocks.width
        self.components = _count(logits, width)
        logits = wide(logits)
        cut = self.components * width
        self.first_log_weights = logits[..., cut:].log_softmax(-1)  # whatever the evidence (..., M)
        self.parts = Predictive(logits[..., :cut].unflatten(-1, (self.components, width)), self.family, strict=strict)
        self._all = self.parts
        self.allowed: list[Tensor] | None = None
        if evidence is not None:
            self._see(evidence)

    def given(self, evidence: Tensor) -> Mixture:
        """The same mixture with this evidence (..., width), in place of any earlier evidence."""
        out = Mixture.__new__(Mixture)
        out.family, out.strict, out.components = self.family, self.strict, self.components
        out.first_log_weights, out._all = self.first_log_weights, self._all
        out._see(evidence)
        return out

    def without_rules(self) -> Mixture:
        """The same mixture and evidence, as if every label were valid."""
        out = Mixture.__new__(Mixture)
        out.strict, out.components, out.allowed = self.strict, self.components, self.allowed
        out.first_log_weights = self.first_log_weights
        out.parts, out._all = self.parts.without_rules(), self._all.without_rules()
        out.family = out.parts.family
        return out

    def _see(self, evidence: Tensor) -> None:
        self.parts = self._all.given(evidence.unsqueeze(-2))
        self.allowed = self.family.blocks.allowed(evidence)

    # ---- numbers ----

    @cached_property
    def log_weights(self) -> Tensor:
        """log w of each component (..., M), given the evidence: w_m p_m(evidence | V), normalised."""
        if self.allowed is None:
            return self.first_log_weights
        joint = self.first_log_weights + self.parts.log_valid - self._all.log_valid
        total = log_sum(joint).unsqueeze(-1)
        return joint - total.masked_fill(total == -math.inf, 0)

    @property
    def log_valid(self) -> Tensor:
        """log Σ_m w_m P_m(V and evidence | θ_m): what components give to valid labels without rules (...)."""
        return log_sum(self.first_log_weights + self.parts.log_valid)

    @property
    def theta(self) -> Tensor:
        """Probability of each column (..., width), rules and evidence aside: Σ_m w_m θ_m."""
        return _in_bounds((self.first_log_weights.exp().unsqueeze(-1) * self._all.theta).sum(-2))

    def log_prob(self, y: Tensor, *, rules: bool = True) -> Tensor:
        """log p of what y says, columns (..., width) of 1, 0 and NaN for unknown; shape (...).

        With ``rules=False`` components are products of θ. Both are given the evidence, if there is any.
        """
        if not rules:
            return self.without_rules().log_prob(y)
        return log_sum(self.log_weights + self.parts.log_prob(y.unsqueeze(-2)))

    @cached_property
    def marginals(self) -> Tensor:
        """P(column is true | V) of each column; shape (..., width)."""
        return _in_bounds((self.log_weights.exp().unsqueeze(-1) * self.parts.marginals).sum(-2))

    @property
    def value_marginals(self) -> list[Tensor]:
        """P(value | V) of every value of every variable, by group of blocks (..., n, K)."""
        weights = self.log_weights.exp()[..., None, None]
        return [_in_bounds((weights * value).sum(-3)) for value in self.parts.value_marginals]

    def entropy_bounds(self) -> tuple[Tensor, Tensor]:
        """Bounds of the entropy in nats, from below and above, each (...): Σ_m w_m H_m, and that plus H(w).

        The first is reached if components agree, the second if they share no label.
        """
        weights = self.log_weights.exp()
        low = (weights * self.parts.entropy()).sum(-1)
        known = self.log_weights.masked_fill(weights == 0, 0)  # it does not count, and its logarithm may be −inf
        return low, low - (weights * known).sum(-1)

    # ---- labels ----

    def candidates(self, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """The k best labels of each component, bool (..., M·k, width), and their log p in the mixture (..., M·k).

        And a bound (...): no other label has a larger log p than log Σ_m w_m p_m(the k-th best of m), since it is
        better than that in no component. Places without a label are all false and have −inf.
        """
        labels, own = self.parts.top_k(k)  # (..., M, k, width), (..., M, k)
        bound = log_sum(self.log_weights + own[..., -1])
        held = self.family.blocks.of_values(labels.flatten(-3, -2).to(own.dtype))  # (..., M·k, n, K) by group
        each = sum(
            torch.einsum("...mnv,...cnv->...cm", value, there) for value, there in zip(self.parts.log_values, held)
        )
        each = each - self.parts.log_valid.unsqueeze(-2)  # (..., M·k, M): log p of each, soft rules aside
        source = torch.arange(self.components, device=own.device).repeat_interleave(k)
        there = each.gather(-1, source.expand(each.shape[:-1]).unsqueeze(-1))
        own = own.flatten(-2)
        none = own == -math.inf
        # what soft rules add is the same in all components, and cancels
        each = own.masked_fill(none, 0).unsqueeze(-1) + (each - there)
        return (
            labels.flatten(-3, -2),
            log_sum(self.log_weights.unsqueeze(-2) + each).masked_fill(none, -math.inf),
            bound,
        )

    def best(self, k: int = CANDIDATES) -> tuple[Tensor, Tensor, Tensor]:
        """The most probable label among the k best of each component: bool (..., width), its log p (...), and `exact`.

        Where `exact`, bool (...), holds, no label is more probable: see `candidates`. Elsewhere a larger k may settle
        it.
        """
        labels, log_probs, bound = self.candidates(k)
        most, at = log_probs.max(-1)
        label = labels.gather(-2, at[..., None, None].expand(*at.shape, 1, labels.shape[-1])).squeeze(-2)
        return label, most, most >= bound

    def top_k(self, k: int) -> tuple[Tensor, Tensor]:
        """The k most probable among the k best labels of each component, each once, and their log p.

        Bool (..., k, width), most probable first, and (..., k). The rest are all false and have −inf.
        """
        labels, log_probs, _ = self.candidates(k)
        same = (labels.unsqueeze(-2) == labels.unsqueeze(-3)).all(-1)  # (..., M·k, M·k)
        again = same.tril(-1).any(-1)
        most = log_probs.masked_fill(again, -math.inf).topk(k)
        found = labels.gather(-2, most.indices.unsqueeze(-1).expand(*most.indices.shape, labels.shape[-1]))
        return found & (most.values > -math.inf).unsqueeze(-1), most.values

    def sample(self, n: int = 1, generator: Generator | None = None) -> Tensor:
        """n labels for each row, drawn exactly and independently: a component, then a label; bool (n, ..., width)."""
        weights = self.log_weights.detach()
        race = torch.empty((n, *weights.shape), dtype=weights.dtype, device=weights.device)
        drawn = (weights - race.exponential_(generator=generator).log()).argmax(-1)  # (n, ...)
        values = []
        for value in self.parts.log_values:  # (..., M, v, K)
            at = drawn[..., None, None, None].expand(*drawn.shape, 1, *value.shape[-2:])
            values.append(value.expand(n, *value.shape).gather(-3, at).squeeze(-3))
        out = Predictive.of_weights(values, self.family, strict=self.strict)
        out.allowed = self.allowed
        return out.sample(1, generator)[0]


def predicted(
    logits: Tensor, rules: Rules, components: int = 1, evidence: Tensor | None = None, *, strict: bool = False
) -> Predictive | Mixture:
    """What the outputs of a network with this many components mean: for one, a `Predictive` of (..., width) logits.

    >>> from dssl import LabelSpace
    >>> space = LabelSpace("a, b\\na | b")
    >>> type(predicted(torch.zeros(2), space)).__name__, type(predicted(torch.zeros(6), space, 2)).__name__
    ('Predictive', 'Mixture')
    """
    if components == 1:
        return Predictive(logits, rules, evidence, strict=strict)
    out = Mixture(logits, rules, evidence, strict=strict)
    if out.components != components:
        raise DataError(
            f"logits of shape {tuple(logits.shape)} are those of {out.components} components, not of {components}\n"
            f"Give {output_width(out.family.blocks.width, components)} columns."
        )
    return out


def output_width(width: int, components: int = 1) -> int:
    """How many outputs a network has for labels of this width: one per column, or those of a mixture."""
    return width if components == 1 else components * (width + 1)


def _in_bounds(p: Tensor) -> Tensor:
    """Probabilities that rounding took a little above 1, or below 0, put back; their gradient stays."""
    return p + (p.detach().clamp(0, 1) - p.detach())


def _count(logits: Tensor, width: int) -> int:
    """The number of components that logits (..., M·width + M) are of."""
    if logits.dim() == 0 or logits.shape[-1] == 0 or logits.shape[-1] % (width + 1) or not logits.is_floating_point():
        raise DataError(
            f"logits of shape {tuple(logits.shape)} and type {logits.dtype} are not those of a mixture\n"
            f"Give floats of shape (..., M · {width + 1}): {width} for each of M components, then M for their weights."
        )
    return logits.shape[-1] // (width + 1)
