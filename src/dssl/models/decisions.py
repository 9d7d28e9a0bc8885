"""Decisions: which valid label to answer with, given p(y | x, V).

* "most probable": the label with the largest p(y | V). Right if a label counts only when all of it is right.
* "marginals": the valid label with the most entries right in expectation. Right if every variable counts by itself.
* "f1": the valid label with the largest expected F1 of the columns that hold. Right where most columns hold rarely,
  as in wide hierarchies: there the most probable label is nearly empty.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from dssl.priors.mixture import Mixture
from dssl.priors.predictive import Predictive

_OUTWEIGH = 1e4  # soft rules weigh labels too, and decide only between those of equal gain
_ROUNDS = 20  # of Dinkelbach's method, which takes three or four


Prediction = Predictive | Mixture


def _largest(p: Prediction, gains: list[Tensor]) -> Tensor:
    """The valid label with the largest sum of gains, which values have by group of blocks (..., n, K)."""
    by_gain = Predictive.of_weights([_OUTWEIGH * gain for gain in gains], p.family.plain, strict=p.strict)
    by_gain.allowed = p.allowed
    return by_gain.heaviest()[0]


def most_probable(p: Prediction) -> Tensor:
    """The most probable valid label, bool (..., width); of a mixture, among the best of its components."""
    return p.best()[0] if isinstance(p, Mixture) else p.heaviest()[0]


def by_marginals(p: Prediction) -> Tensor:
    """The y in V with the largest Σ_v P(y_v is right | V), bool (..., width): MPE with marginals as weights (MATH §8).

    >>> import torch
    >>> from dssl.logic.space import LabelSpace
    >>> space = LabelSpace("a: 0..2\\nb: 0..1\\na = 0 -> b = 0")
    >>> p = Predictive(torch.tensor([[1.0, 0.7, 0.7, 0.0, 0.3]]), space)
    >>> most_probable(p).int().tolist(), by_marginals(p).int().tolist()
    ([[0, 1, 0, 0, 1]], [[0, 1, 0, 1, 0]])
    """
    return _largest(p, p.value_marginals)


def by_f1(p: Prediction) -> Tensor:
    """The y in V with the largest 2 Σ_k μ_k y_k / (Σ_k y_k + Σ_k μ_k), bool (..., width).

    μ are the marginals given the rules. It is the F1 of the columns that hold, with a ratio of expectations in place of
    the expected ratio. The largest ratio F is found by Dinkelbach's (1967) method: the label with the largest Σ_k (2
    μ_k − F) y_k, which is an MPE, gives the next F, until F stays.
    """
    blocks, marginals = p.family.blocks, p.marginals
    total = marginals.sum(-1)
    ratio = total.new_zeros(total.shape)
    label = most_probable(p)
    for _ in range(_ROUNDS):
        gains = blocks.logits(2 * marginals - ratio.unsqueeze(-1))  # a column that does not hold gains nothing
        label = _largest(p, gains)
        found = 2 * (marginals * label).sum(-1) / (label.sum(-1) + total).clamp_min(1e-12)
        if bool((found <= ratio + 1e-7).all()):
            break
        ratio = found
    return label


DECISIONS: dict[str, Callable[[Prediction], Tensor]] = {
    "most probable": most_probable,
    "marginals": by_marginals,
    "f1": by_f1,
}
