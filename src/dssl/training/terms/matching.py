"""Matching: consistency terms that guess labels of one view and ask for them in another (MATH §7).

Guesses respect what is known: values that a partial label excludes have probability zero, complete labels are their
own guess, and with rules guesses are conditioned on valid labels, so no guess breaks a rule.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dssl.data.rows import Data
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import over_blocks
from dssl.priors.predictive import Predictive
from dssl.training.terms.consistency import Consistency, Look, Teacher, cross_entropy, squared_error

# ---- guesses, from log θ by group of blocks (n, variables, K) ----


def _known(look: Look, values: list[Tensor]) -> Predictive:
    """Labels with these log weights of values, given the rules and what is known."""
    return Predictive.of_weights(values, look.rules(), look.y, strict=True)


@torch.no_grad()
def soft_guess(look: Look, log_theta: list[Tensor], power: float = 1.0) -> list[Tensor]:
    """The probability of each value under p(y)^power, given labels and rules. A power above 1 sharpens.

    Without rules it is θ^power / Σ θ^power, the Sharpen of Berthelot et al. (2019, Eq. 7) at temperature 1 / power.
    """
    return _known(look, [power * value for value in log_theta]).value_marginals


@torch.no_grad()
def best_guess(look: Look, log_theta: list[Tensor]) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """The most probable valid label y* as 0 and 1 of all values; how probable its variables are (n, variables) by
    group, given labels and rules; and how probable all of it is, p(y* | V), (n,)."""
    p = _known(look, log_theta)
    label, log_prob = p.best()
    best = look.blocks.of_values(label.to(log_prob))
    most = [(b * m).sum(-1) for b, m in zip(best, p.value_marginals)]
    return best, most, log_prob.exp().clamp(max=1)


class Matching(Consistency):
    """A term that guesses labels.

    `align`: guesses are first aligned to label frequencies (Berthelot et al. 2020, Eq. 1), which are those of the
    objective's `Balance`.
    """

    def __init__(self, weight: float, *, align: bool = False, labelled: bool = True) -> None:
        super().__init__(weight, labelled=labelled)
        self.align = align

    def aligned(self, look: Look, logits: Tensor) -> Tensor:
        """Logits (n, width) to guess from, without gradient."""
        logits = logits.detach()
        return look.balance.aligned(logits) if self.align else logits


class FixMatch(Matching):
    """FixMatch (Sohn et al. 2020, Eq. 4): the label guessed from the weak view, asked for in the strong view.

    1[p* ≥ τ] · −log θ_y*(strong x). y* is the most probable valid label. With ``per="variable"`` a variable counts if
    its value in y* has probability p* ≥ τ given the rules; with ``per="label"`` all count if p(y* | V) ≥ τ.
    """

    name = "fixmatch"
    needs = "strong"

    def __init__(
        self,
        weight: float = 1.0,
        *,
        threshold: float = 0.95,
        per: str = "variable",
        align: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(weight, align=align, **options)
        if per not in ("variable", "label"):
            raise ValueError(f"per='{per}': choose variable or label")
        self.threshold, self.per = threshold, per

    def forward(self, look: Look) -> Tensor:
        guess, sure, label = best_guess(look, look.log_theta(self.aligned(look, look.logits)))
        if self.per == "label":
            sure = [label[:, None]] * len(sure)
        log_theta = look.log_theta(look.run(look.strong()))
        parts = [-(g * s).sum(-1) * (c >= self.threshold) for g, s, c in zip(guess, log_theta, sure)]
        return over_blocks(parts)


# ---- mixing ----


def _mixed(x: Tensor, p: list[Tensor], partner: Tensor, alpha: float, nearer: bool) -> tuple[Tensor, list[Tensor]]:
    """Rows and their probabilities, each mixed with its partner's: λ·own + (1 − λ)·other, λ ~ Beta(α, α) for each.

    `nearer`: λ is the larger of λ and 1 − λ (Berthelot et al. 2019, Eqs. 8–11), so that a row stays nearest to itself.
    """
    if not x.is_floating_point():
        raise DataError(f"rows can only be mixed as floats, and x is of {x.dtype}\nUse a term that does not mix.")
    if not len(x):
        return x, p
    # validating its arguments would wait for the device
    both = torch.tensor(alpha, device=x.device)
    beta = torch.distributions.Beta(both, both, validate_args=False)
    share = beta.sample((len(x),))
    share = torch.maximum(share, 1 - share) if nearer else share

    def mix(values: Tensor) -> Tensor:
        own = share.to(values).view(-1, *[1] * (values.ndim - 1))
        return own * values + (1 - own) * values[partner]

    return mix(x), [mix(values) for values in p]


def _shuffled(rows: Tensor) -> Tensor:
    return torch.randperm(len(rows), device=rows.device)


def _row_means(losses: Tensor, rows: Tensor, n: int) -> Tensor:
    """The mean loss of each of n rows over its copies: losses (m,) of copies of `rows` (m,)."""
    count = torch.zeros(n, device=rows.device, dtype=losses.dtype).index_add(0, rows, torch.ones_like(losses))
    return losses.new_zeros(n).index_add(0, rows, losses) / count.clamp_min(1)


class MixMatch(Matching):
    """MixMatch (Berthelot et al. 2019): guesses sharpened, every row mixed with another.

    The guess of a row is the mean prediction over `views` weak views, sharpened at `temperature`. Labelled and guessed
    rows are mixed with partners from all of them. Mixed labels cost their cross-entropy, in place of the supervised
    loss, and mixed guesses ‖p − θ‖² / K (Eqs. 3–5, 7–11).
    """

    name = "mixmatch"
    needs = "weak"
    supervised = True

    def __init__(
        self, weight: float = 75.0, *, views: int = 2, temperature: float = 0.5, alpha: float = 0.75, **options: Any
    ) -> None:
        super().__init__(weight, **options)
        self.views, self.temperature, self.alpha = views, temperature, alpha

    def forward(self, look: Look) -> Tensor:
        others = [look.weak() for _ in range(self.views - 1)]
        with torch.no_grad():
            logits = [self.aligned(look, look.logits), *(look.run(x) for x in others)]
            theta = [torch.stack(views).logsumexp(0) for views in zip(*map(look.log_theta, logits))]  # log Σ θ
        guess = soft_guess(look, theta, 1 / self.temperature)
        open_ = (~look.complete).nonzero().flatten()
        rows = torch.cat([torch.arange(len(look.x), device=look.x.device), *[open_] * len(others)])
        x = torch.cat([look.seen, *(other[open_] for other in others)])
        x, p = _mixed(x, [g[rows] for g in guess], _shuffled(rows), self.alpha, nearer=True)
        log_theta = look.log_theta(look.run(x))
        losses = torch.where(
            look.complete[rows], cross_entropy(p, log_theta), squared_error(p, [t.exp() for t in log_theta])
        )
        return _row_means(losses, rows, len(look.x))


class ReMixMatch(Matching):
    """ReMixMatch (Berthelot et al. 2020): MixMatch with distribution alignment and augmentation anchoring.

    The guess comes from the weak view, aligned and sharpened, and is asked for in `views` strong views; these, the weak
    views and strong views of labelled rows are mixed as in MixMatch. Both kinds cost their cross-entropy; `unmixed`
    weighs that of a first strong view before mixing. The original's loss of guessing rotations is left out.
    """

    name = "remixmatch"
    needs = "strong"
    supervised = True

    def __init__(
        self,
        weight: float = 1.5,
        *,
        views: int = 2,
        temperature: float = 0.5,
        alpha: float = 0.75,
        unmixed: float = 1 / 3,
        align: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(weight, align=align, **options)
        self.views, self.temperature, self.alpha, self.unmixed = views, temperature, alpha, unmixed

    def forward(self, look: Look) -> Tensor:
        guess = soft_guess(look, look.log_theta(self.aligned(look, look.logits)), 1 / self.temperature)
        first, *others = [look.strong() for _ in range(self.views)]
        open_ = (~look.complete).nonzero().flatten()
        rows = torch.cat([torch.arange(len(look.x), device=look.x.device), *[open_] * self.views])
        x = torch.cat([first, look.seen[open_], *(other[open_] for other in others)])
        x, p = _mixed(x, [g[rows] for g in guess], _shuffled(rows), self.alpha, nearer=True)
        losses = _row_means(cross_entropy(p, look.log_theta(look.run(x))), rows, len(look.x))
        anchored = cross_entropy(guess, look.log_theta(look.run(first)))
        return losses + self.unmixed * anchored * ~look.complete


class Mixup(Matching):
    """Mixup of labelled rows (Zhang et al. 2018), and of unlabelled ones (ICT: Verma et al. 2019, Eq. 2).

    Labelled rows are mixed with each other, and mixed labels cost their cross-entropy, in place of the supervised loss.
    Other rows are mixed with each other, and the prediction for the mixture should be the mixture of predictions:
    ‖Mix(θ′_i, θ′_j) − θ(Mix(x_i, x_j))‖² / K. θ′ is of a `Teacher` with this `decay`, or of the network itself if None;
    no gradient reaches it.
    """

    name = "mixup"
    supervised = True

    def __init__(self, weight: float = 20.0, *, alpha: float = 1.0, decay: float | None = 0.99, **options: Any) -> None:
        super().__init__(weight, **options)
        self.alpha, self.decay = alpha, decay
        self.teacher = None if decay is None else Teacher(decay)

    def prepare(self, space: LabelSpace, network: nn.Module, data: Data) -> None:
        if self.teacher is not None:
            self.teacher.of(network)

    def forward(self, look: Look) -> Tensor:
        logits = look.logits if self.teacher is None else self.teacher.logits(look, look.seen)
        guess = soft_guess(look, look.log_theta(self.aligned(look, logits)))
        partner = torch.arange(len(look.x), device=look.x.device)
        for kind in (look.complete, ~look.complete):
            own = kind.nonzero().flatten()
            partner[own] = own[_shuffled(own)]
        x, p = _mixed(look.seen, guess, partner, self.alpha, nearer=False)
        log_theta = look.log_theta(look.run(x))
        return torch.where(look.complete, cross_entropy(p, log_theta), squared_error(p, [t.exp() for t in log_theta]))
