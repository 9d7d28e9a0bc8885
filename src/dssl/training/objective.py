"""Objective: Eq. DSSL as a loss with named parts, for labelled, partly labelled and unlabelled rows at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from dssl.data.rows import Data
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import Blocks, wide
from dssl.priors.mixture import Mixture, output_width, predicted
from dssl.priors.predictive import Answers, Family
from dssl.priors.prior import Prior, Unbound
from dssl.priors.relaxations import DeterministicPrior
from dssl.spellings import says_where
from dssl.training.balance import Balance
from dssl.training.kinds import ByKind, as_columns, given
from dssl.training.processes import Ranks
from dssl.training.terms.augmentation import Views, make_views
from dssl.training.terms.consistency import Consistency, Look

Ramp = Callable[[int], float]

# ---- ramps ----


def linear_ramp(steps: int) -> Ramp:
    """From 0 to 1 in equal steps.

    >>> from dssl.training.objective import linear_ramp
    >>> [linear_ramp(4)(step) for step in (0, 1, 4, 9)]
    [0.0, 0.25, 1.0, 1.0]
    """
    return lambda step: min(1.0, max(0.0, step / steps))


def sigmoid_ramp(steps: int) -> Ramp:
    """exp(−5 (1 − step/steps)²), slow at both ends.

    >>> from dssl.training.objective import sigmoid_ramp
    >>> [round(sigmoid_ramp(4)(step), 3) for step in (0, 2, 4, 9)]
    [0.007, 0.287, 1.0, 1.0]
    """
    return lambda step: math.exp(-5 * (1 - min(1.0, max(0.0, step / steps))) ** 2)


# ---- the loss ----


@dataclass(frozen=True)
class Loss:
    """What to minimise, and the parts that add up to it (weights included)."""

    total: Tensor
    parts: Mapping[str, Tensor]

    def backward(self) -> None:
        self.total.backward()

    def __float__(self) -> float:
        return float(self.total.detach())

    def logs(self) -> dict[str, float]:
        """The parts and the total as plain numbers."""
        return {name: float(part.detach()) for name, part in self.parts.items()} | {"total": float(self)}


_GONE = {
    "align": "balance=1.0, which holds predictions to label frequencies, or align=True of a term such as FixMatch",
    "label_frequencies": "frequencies=…",
}


class Objective(nn.Module):
    """Supervised loss + λ · prior on unlabelled rows + λ_l · prior on labelled rows + balance + μ · consistency.

    >>> import torch
    >>> from dssl.priors import DeterministicPrior
    >>> from dssl.training.objective import Objective
    >>> space = LabelSpace.classes(["cat", "dog", "trout"])
    >>> objective = Objective(space, DeterministicPrior(space))
    >>> loss = objective(torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), torch.tensor([0, -1]))
    >>> {name: round(value, 3) for name, value in loss.logs().items()}
    {'supervised': 0.12, 'prior': 0.276, 'total': 0.395}

    The loss is Eq. DSSL, negated and divided by the number of rows of the batch, labelled or not, so it is the mean of
    its rows' losses. With ``mean="terms"`` each part is divided by the number of rows it applies to instead: λ then
    does not depend on how many labels a batch has, but batches of different sizes no longer average to the same loss.

    * `prior`: a `Prior` of this space, or one without a space, or None to learn from labels only. `prior_weight` is λ,
      `labelled_prior_weight` λ_l. `ramp` maps the step to a factor of both, and of balance and consistency. If
      `rising`, the T of a deterministic prior rises with it from 1: a large T from the start would fix whatever the
      network says first.
    * `constrained`: the likelihood of labels is log p(y | V), given that labels are valid. Labels that break a rule are
      then an error; with ``strict=False`` such rows have the likelihood of θ alone. `circuit` replaces the circuit of
      the space's rules, for example by `Circuit.paths`.
    * `balance`: how strongly the mean prediction of unlabelled rows is held to label `frequencies`, against collapse;
      see `Balance`. Frequencies are learned from the labels seen unless given.
    * `components`: how many predictions the model is a `Mixture` of. Logits are then those of the components and of
      their weights w. On unlabelled rows it maximises Σ_m w_m log q(θ_m) − H(w), a lower bound of log q of the
      mixture for priors at their own scale: each component should be sure, and one of them should be
      chosen. Consistency
      terms are for one component only.
    * `consistency`: a term of `dssl.training.terms`, or several; `consistency_weight` is μ. Terms
      look at rows again, so they need x and the network. `augment` gives their weak and strong views, see
      `make_views`.

    A row is *complete* if its label leaves one value for every variable: its prior is weighted with λ_l and sees θ
    only. Any other row has the likelihood of what is observed, if anything is, and its prior, weighted with λ, gives
    weight zero to what the observation contradicts. It sees θ given the observation, so nothing is counted twice: a
    known variable is certain, and asks nothing more of the network.

    For one thread only: each call updates running means and shuffles views.
    """

    @says_where(_GONE)
    def __init__(
        self,
        space: LabelSpace,
        prior: Prior | Unbound | None,
        prior_weight: float = 1.0,
        labelled_prior_weight: float = 0.0,
        *,
        ramp: Ramp | None = None,
        rising: bool = False,
        constrained: bool = False,
        circuit: Answers | None = None,
        strict: bool = True,
        balance: float = 0.0,
        frequencies: Any = None,
        consistency: Consistency | Sequence[Consistency] | None = None,
        consistency_weight: float = 1.0,
        augment: Any = None,
        mean: str = "rows",
        components: int = 1,
    ) -> None:
        super().__init__()
        prior = prior(space) if isinstance(prior, Unbound) else prior
        if prior is not None and prior.space != space:
            raise ValueError(f"the prior is of {prior.space!r}, and the objective of {space!r}: use one space for both")
        if mean not in ("rows", "terms"):
            raise ValueError(f"there is no mean over '{mean}': choose rows or terms")
        if components < 1:
            raise ValueError(f"components={components}: a model has at least one")
        self.space, self.prior = space, prior
        self.prior_weight, self.labelled_prior_weight = prior_weight, labelled_prior_weight
        self.ramp, self.rising, self.mean = ramp, rising, mean
        self.constrained, self.circuit, self.strict = constrained, circuit, strict
        self.blocks = Blocks(space)
        self.balance_weight, self.balance = balance, Balance(space, frequencies)
        self.consistency, self.consistency_weight = _named(consistency), consistency_weight
        self.views = make_views(augment)
        self.components = components
        _refuse_blind(self.consistency, self.views)
        _refuse_mixed(self.consistency, components)
        if constrained:
            _ = self._given_rules  # compiled now, not in the first step

    def prepare(self, network: nn.Module, data: Data) -> None:
        """Shows consistency terms and views, once, the network and the data they will be used with."""
        for term in self.consistency.values():
            term.prepare(self.space, network, data)  # type: ignore[operator]
        self.views.prepare(data)

    def forward(
        self, logits: Tensor, y: Any, *, step: int | None = None, sample_weight: Tensor | None = None, **seen: Any
    ) -> Loss:
        """The loss of logits (batch, width) with labels y.

        `y`: columns (batch, width) of 1, 0 and NaN as `space.encode` gives them, or value indices (batch, variables),
        or (batch,) for a single variable, −1 or NaN where unknown. In a categorical block, zeros exclude values: those
        left NaN are the candidates. `sample_weight` (batch,) multiplies each row's loss.

        Consistency terms also need `x` (batch, …) and `network`; some of them `rows`, the rows' numbers in the data.
        `seen`: the view of x that gave the logits, if not x itself. `within`: a context for passes of the network, such
        as autocast. `ranks`: given if logits and y are those of all processes, and the rest is this one's.
        """
        width = output_width(self.space.width, self.components)
        if logits.dim() != 2 or logits.shape[1] != width:
            raise DataError(f"logits have shape {tuple(logits.shape)}, and must have (batch, {width})")
        logits = wide(logits)
        rows = ByKind.of(self.blocks, logits, as_columns(self.space, y, logits[:, : self.space.width]), sample_weight)
        looks = self._look(rows, **seen)
        scale = self._ramp(step) if self.prior is not None or self.balance_weight or looks else 1.0
        parts = {"supervised": self._supervised(rows, looks)}
        for name, part in {**self._prior(rows, scale), **self._balance(rows), **self._consistency(rows, looks)}.items():
            parts[name] = part if self._in_full(name) else scale * part
        self._remember(rows)
        return Loss(torch.stack(list(parts.values())).sum(), parts)

    # ---- the parts ----

    def _supervised(self, rows: ByKind, looks: dict[str, Tensor]) -> Tensor:
        loss = -self.log_likelihood(rows.logits[rows.labelled], rows.y[rows.labelled])
        for name, losses in looks.items():
            if self.consistency[name].supervised:
                loss = torch.where(rows.is_complete[rows.labelled], losses[rows.labelled], loss)
        return self._mean(rows, loss, rows.labelled)

    def log_likelihood(self, logits: Tensor, y: Tensor) -> Tensor:
        """log p of what columns y (batch, width) say, 0 where they say nothing; shape (batch,)."""
        if not self.constrained:
            return predicted(logits, self._free, self.components).log_prob(y, rules=False)
        p = predicted(logits, self._given_rules, self.components, strict=self.strict)
        given = p.log_prob(y)
        return given if self.strict else torch.where(given == -math.inf, p.log_prob(y, rules=False), given)

    def _prior(self, rows: ByKind, scale: float) -> dict[str, Tensor]:
        """The prior of open rows, given what is known of them, and of complete ones, with θ alone."""
        parts: dict[str, Tensor] = {}
        prior = self._risen(scale)
        if prior is not None and self.prior_weight:
            logits, known = rows.logits[rows.open], rows.y[rows.open] if rows.partial else None
            term = -self._log_q(prior, logits, known)
            if known is not None:
                _refuse_impossible(term, known)
            parts["prior"] = self.prior_weight * self._mean(rows, term, rows.open)
        if prior is not None and self.labelled_prior_weight:
            term = -self._log_q(prior, rows.logits[rows.complete])
            parts["labelled_prior"] = self.labelled_prior_weight * self._mean(rows, term, rows.complete)
        return parts

    def _log_q(self, prior: Prior, logits: Tensor, known: Tensor | None = None) -> Tensor:
        """log q of rows (n,), given what is known of them; for a mixture its bound Σ_m w_m log q(θ_m) − H(w)."""
        if self.components == 1:
            return prior(logits if known is None else given(self.blocks, logits, known), known)
        log_weights = Mixture(logits, self._free, known).log_weights  # (n, M)
        each = logits[:, : -self.components].reshape(-1, self.space.width)
        if known is not None:
            known = known.repeat_interleave(self.components, 0)
            each = given(self.blocks, each, known)
        unlikely = log_weights.exp() == 0  # whose logarithm may be −inf
        log_q = prior(each, known).view_as(log_weights) + log_weights.masked_fill(unlikely, 0)
        return (log_weights.exp() * log_q.masked_fill(unlikely, 0)).sum(-1)

    def _risen(self, scale: float) -> Prior | None:
        """The prior, with a T that rises from 1 with the ramp if asked to."""
        if not self.rising or scale == 1 or not isinstance(self.prior, DeterministicPrior) or self.prior.learns_power:
            return self.prior
        return self.prior.at(1 + (float(self.prior.power) - 1) * scale)

    def _balance(self, rows: ByKind) -> dict[str, Tensor]:
        if not self.balance_weight:
            return {}
        part = rows.logits.new_zeros(())
        if len(rows.open):
            part = self.balance.divergence(self._theta(rows.logits[rows.open]), rows.weight[rows.open])
        return {"balance": self.balance_weight * part}

    def _consistency(self, rows: ByKind, looks: dict[str, Tensor]) -> dict[str, Tensor]:
        parts = {}
        for name, losses in looks.items():
            term: Any = self.consistency[name]
            join = slice(None) if term.labelled and not term.supervised else rows.open
            parts[name] = self.consistency_weight * term.weight * self._mean(rows, losses[join], join)
        return parts

    def _in_full(self, name: str) -> bool:
        """Whether a part is a term that the ramp does not apply to."""
        return name in self.consistency and not self.consistency[name].ramped

    def _mean(self, rows: ByKind, term: Tensor, which: Tensor | slice) -> Tensor:
        """The mean of a term's losses, over all rows or over those that it applies to."""
        return (term * rows.weight[which]).sum() / (len(rows.y) if self.mean == "rows" else max(1, len(term)))

    @torch.no_grad()
    def _remember(self, rows: ByKind) -> None:
        """Moves the running means that balance and alignment need."""
        aligns = any(getattr(term, "align", False) for term in self.consistency.values())
        if self.training and (aligns or (self.balance_weight and self.balance.learns)):
            theta, weight = self._theta(rows.logits[rows.open]), rows.weight
            self.balance.move(theta, rows.y[rows.labelled], weight[rows.open], weight[rows.labelled])

    # ---- what they are about ----

    @property
    def _free(self) -> Family:
        """Predictions without rules."""
        return Family(self.blocks, None)

    @cached_property
    def _given_rules(self) -> Family:
        """Predictions given the rules, compiled when first needed."""
        compiled = self.space.compile() if self.circuit is None and self.space.rules else self.circuit
        return Family(self.blocks, compiled)

    def _theta(self, logits: Tensor) -> list[Tensor]:
        """Probabilities of values by group: θ, or given the rules where the likelihood is."""
        family = self._given_rules if self.constrained else self._free
        return predicted(logits, family, self.components).value_marginals

    def _look(
        self,
        batch: ByKind,
        *,
        x: Tensor | None = None,
        network: nn.Module | None = None,
        rows: Tensor | None = None,
        seen: Tensor | None = None,
        ranks: Ranks | None = None,
        within: AbstractContextManager[Any] | None = None,
    ) -> dict[str, Tensor]:
        """The losses of all rows (batch,) for each consistency term, by name."""
        if not self.consistency:
            return {}
        if x is None or network is None:
            raise ValueError(
                f"{', '.join(self.consistency)}: consistency terms look at rows again, and need x and the network\n"
                "Call objective(logits, y, x=x, network=network)."
            )
        ranks, size = ranks or Ranks(), len(batch.y)
        own = ranks.share(size)
        if len(x) != own.stop - own.start:
            raise DataError(f"{len(x)} rows of x for {own.stop - own.start} rows of logits\nGive those of the logits.")
        look = Look(
            self.space, self._free, lambda: self._given_rules, self.balance, network, x, x if seen is None else seen,
            batch.logits[own], batch.y[own], batch.is_complete[own], rows,
            views=self.views, ranks=ranks, size=size, within=within or nullcontext(),
        )  # fmt: skip
        return {name: ranks.gather(_losses(name, term, look)[:, None], size)[:, 0]
                for name, term in self.consistency.items()}  # fmt: skip

    def _ramp(self, step: int | None) -> float:
        if self.ramp is None:
            return 1.0
        if step is None:
            raise ValueError("this objective has a ramp: call it with the step, objective(logits, y, step=step)")
        return self.ramp(step)


def _losses(name: str, term: Any, look: Look) -> Tensor:
    """What a term says of each row that this process has (n,)."""
    found: Tensor = term(look)
    if found.shape != look.complete.shape:
        raise ValueError(
            f"'{name}' gave a loss of shape {tuple(found.shape)}\nGive one for each row: ({len(look.x)},)."
        )
    return found


def _refuse_blind(terms: nn.ModuleDict, views: Views) -> None:
    """An error for terms that compare views, where there is only one."""
    for name, term in terms.items():
        needs: Any = term.needs
        if needs and not views.changes(needs):
            raise ValueError(
                f"'{name}' compares a row with a {needs} view of it, and without `augment` that is the row itself\n"
                'Give augment="table", "image" or "digits", or a function of rows that keeps labels; or use another '
                "term, such as VAT."
            )


def _refuse_mixed(terms: nn.ModuleDict, components: int) -> None:
    """An error for terms that compare two predictions, where predictions are mixtures."""
    if terms and components > 1:
        raise ValueError(
            f"{', '.join(terms)}: consistency terms compare predictions of one component, and there are {components}\n"
            "Leave out the consistency terms, or use components=1."
        )


def _refuse_impossible(term: Tensor, y: Tensor) -> None:
    impossible = term.detach() == math.inf
    if bool(impossible.any()):
        known = y[impossible][0].tolist()
        raise DataError(
            f"{int(impossible.sum())} partial labels contradict the rules; the first is {known}\n"
            "Find them with space.check(y), and correct or drop them."
        )


def _named(consistency: Consistency | Sequence[Consistency] | None) -> nn.ModuleDict:
    """Terms by name; a second term of the same kind gets a number: "vat", "vat_2"."""
    named: dict[str, nn.Module] = {}
    given = [] if consistency is None else consistency if isinstance(consistency, list | tuple) else [consistency]
    for term in given:
        if not isinstance(term, Consistency):
            raise ValueError(
                f"{term!r} is not a consistency term: give objects of dssl.training.terms.consistency or .matching"
            )
        count = sum(other.name == term.name for other in named.values())
        named[f"{term.name}_{count + 1}" if count else term.name] = term
    taught = [name for name, term in named.items() if term.supervised]
    if len(taught) > 1:
        raise ValueError(f"{' and '.join(taught)} each replace the supervised loss: choose one of them")
    return nn.ModuleDict(named)
