"""The null-category noise model of Lawrence and Jordan (2005), which is a choice of q(θ) too."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from dssl.logic.space import LabelSpace
from dssl.priors.blocks import log_rest
from dssl.priors.predictive import Answers
from dssl.priors.prior import LATER
from dssl.priors.relaxations import CountingPrior


class NullCategoryPrior(CountingPrior):
    """Null category.

    log q(θ) = log Σ_{y∈V} π_y Π_v σ(logit θ_v(y) − w/2)

    >>> import torch
    >>> from dssl.priors import NullCategoryPrior
    >>> prior = NullCategoryPrior(LabelSpace("y"), width=2.0)
    >>> prior(torch.tensor([[0.0], [3.0]])).exp()
    tensor([0.5379, 0.8988])

    Between the two values of a binary variable lies a third, the null category, to which no row ever belongs. With
    latent f: p(y=1 | f) = σ(f − w/2), p(y=0 | f) = σ(−f − w/2), and the null category has the rest. An unlabelled row
    says that its category is not null, which has the probability σ(f − w/2) + σ(−f − w/2): the decision boundary keeps
    away from it. So the model that was written as a process over f is a prior over θ = σ(f), with a spike of its own;
    logistic noise takes the place of the original's Gaussian noise. For a categorical variable each value is treated so
    against the others; with rules the sum is over valid labels. `width` is w; at 0, q is the
    probability that a label is valid, and without rules 1 for every θ.

    Threads may share it, while none changes its parameters.
    """

    def __init__(
        self, space: LabelSpace = LATER, width: float = 2.0, *, weights: Any = None, circuit: Answers | None = None
    ) -> None:
        super().__init__(space, weights=weights, circuit=circuit)
        if not 0 <= float(width) < math.inf:
            raise ValueError(f"the width of the null category must be a number, 0 or more, not {width!r}")
        self.width = float(width)

    def spike(self, log_theta: Tensor) -> Tensor:
        rest = log_rest(log_theta) + self.width / 2  # σ(logit θ − w/2) = θ / (θ + (1−θ) e^{w/2})
        return log_theta - log_theta.logaddexp(rest)
