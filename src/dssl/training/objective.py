"""Objective: Eq. DSSL as a loss with named parts, for labelled, partly labelled and unlabelled rows at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import Blocks
from dssl.priors.prior import Prior
from dssl.priors.weights import value_weights
from dssl.training.augmentation import make_views
from dssl.training.consistency import Consistency, Look
from dssl.training.data import Data
from dssl.training.distributed import Ranks

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
    """What to minimise, and the parts it is the sum of (their weights included)."""

    total: Tensor
    parts: Mapping[str, Tensor]

    def backward(self) -> None:
        self.total.backward()

    def __float__(self) -> float:
        return float(self.total.detach())

    def logs(self) -> dict[str, float]:
        """The parts and the total as plain numbers."""
        return {name: float(part.detach()) for name, part in self.parts.items()} | {"total": float(self)}


class Objective(nn.Module):
    """Supervised loss + λ · prior on unlabelled rows + λ_l · prior on labelled rows + μ · consistency.

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

    * `prior`: a `Prior` of this space, or None to learn from labels only. `prior_weight` is λ, `labelled_prior_weight`
      λ_l. `ramp` maps the step to a factor of both.
    * `constrained`: the likelihood of labels is log p(y | V) = log WMC(y, V) − log WMC(V), given that labels are valid.
    * `align`: an `Alignment`, which shifts what the prior sees of unlabelled rows towards a given label distribution.
    * `consistency`: a term of `dssl.training.consistency` or `.matching`, or several; `consistency_weight` is μ, and
      the ramp applies. Terms look at rows again, so they need x and the network. `augment` is where their weak and
      strong views come from, see `make_views`.

    A row is *complete* if its label leaves one value for every variable: its prior is weighted with λ_l and sees θ
    only. Any other row has the likelihood of what is observed, if anything is, and its prior, weighted with λ, gives
    weight zero to what the observation contradicts.
    """

    def __init__(
        self,
        space: LabelSpace,
        prior: Prior | None,
        prior_weight: float = 1.0,
        labelled_prior_weight: float = 0.0,
        *,
        ramp: Ramp | None = None,
        constrained: bool = False,
        align: Alignment | None = None,
        consistency: Consistency | Sequence[Consistency] | None = None,
        consistency_weight: float = 1.0,
        augment: Any = None,
        mean: str = "rows",
    ) -> None:
        super().__init__()
        if prior is not None and prior.space != space:
            raise ValueError(f"the prior is of {prior.space!r}, and the objective of {space!r}: use one space for both")
        if mean not in ("rows", "terms"):
            raise ValueError(f"there is no mean over '{mean}': choose rows or terms")
        self.space, self.prior, self.align = space, prior, align
        self.prior_weight, self.labelled_prior_weight = prior_weight, labelled_prior_weight
        self.ramp, self.mean = ramp, mean
        self.circuit = space.compile() if constrained and space.rules else None
        self._guide: Any = None
        self.blocks = Blocks(space)
        self.consistency, self.consistency_weight = _named(consistency), consistency_weight
        self.views = make_views(augment)

    def prepare(self, network: nn.Module, data: Data) -> None:
        """Lets consistency terms and views see the network and the data they will be used with, once."""
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
        as autocast. `ranks`: if logits and y are of all processes, and the rest is this one's.
        """
        if logits.dim() != 2 or logits.shape[1] != self.space.width:
            raise DataError(f"logits have shape {tuple(logits.shape)}, and must have (batch, {self.space.width})")
        logits = logits.float() if logits.dtype.itemsize < 4 else logits
        y = as_columns(self.space, y, logits)
        allowed = self.blocks.allowed(y)
        _refuse_empty(allowed)
        labelled = ~y.isnan().all(-1)
        complete = torch.stack([(a.sum(-1) == 1).all(-1) for a in allowed]).all(0)
        weight = torch.ones_like(logits[:, 0]) if sample_weight is None else sample_weight.to(logits)

        def mean(term: Tensor, rows: Tensor) -> Tensor:  # term: of the chosen rows only
            return (term * weight[rows]).sum() / (len(y) if self.mean == "rows" else max(1, len(term)))

        looks = self._look(logits, y, complete, **seen)
        supervised = -self.log_likelihood(logits[labelled], y[labelled])
        for name, losses in looks.items():
            if self.consistency[name].supervised:
                supervised = torch.where(complete[labelled], losses[labelled], supervised)
        parts = {"supervised": mean(supervised, labelled)}
        scale = self._ramp(step) if self.prior is not None or looks else 1.0
        if self.prior is not None:
            if self.prior_weight:
                term = self._unlabelled(self.prior, logits[~complete], y[~complete])
                parts["prior"] = scale * self.prior_weight * mean(term, ~complete)
            if self.labelled_prior_weight:
                term = -self.prior(logits[complete])
                parts["labelled_prior"] = scale * self.labelled_prior_weight * mean(term, complete)
        for name, losses in looks.items():
            asked: Any = self.consistency[name]
            joining = torch.ones_like(complete) if asked.labelled and not asked.supervised else ~complete
            parts[name] = scale * self.consistency_weight * asked.weight * mean(losses[joining], joining)
        return Loss(torch.stack(list(parts.values())).sum(), parts)

    def log_likelihood(self, logits: Tensor, y: Tensor) -> Tensor:
        """log p of what columns y (batch, width) say, 0 where they say nothing; shape (batch,)."""
        allowed, values = self.blocks.allowed(y), self.blocks.logits(logits)
        if self.circuit is None:
            return -sum(_surprise(z, a).sum(-1) for z, a in zip(values, allowed))  # type: ignore[return-value]
        log_theta = [z.log_softmax(-1) for z in values]
        observed = [t.masked_fill(~a, -math.inf) for t, a in zip(log_theta, allowed)]
        joint = self.circuit.log_wmc(*self.blocks.literals(observed), strict=True)
        return joint - self.circuit.log_wmc(*self.blocks.literals(log_theta))

    def _look(
        self,
        logits: Tensor,
        y: Tensor,
        complete: Tensor,
        *,
        x: Tensor | None = None,
        network: nn.Module | None = None,
        rows: Tensor | None = None,
        seen: Tensor | None = None,
        ranks: Ranks | None = None,
        within: AbstractContextManager[Any] | None = None,
    ) -> dict[str, Tensor]:
        """The losses of all rows (batch,) by name of the consistency term."""
        if not self.consistency:
            return {}
        if x is None or network is None:
            raise ValueError(
                f"{', '.join(self.consistency)}: consistency terms look at rows again, and need x and the network\n"
                "Call objective(logits, y, x=x, network=network)."
            )
        ranks = ranks or Ranks()
        own = ranks.share(len(logits))
        if len(x) != own.stop - own.start:
            raise DataError(f"{len(x)} rows of x for {own.stop - own.start} rows of logits\nGive those of the logits.")
        look = Look(
            space=self.space,
            blocks=self.blocks,
            rules=self._rules,
            network=network,
            x=x,
            seen=x if seen is None else seen,
            logits=logits[own],
            y=y[own],
            complete=complete[own],
            rows=rows,
            views=self.views,
            ranks=ranks,
            size=len(logits),
            within=within or nullcontext(),
        )
        losses = {}
        for name, term in self.consistency.items():
            each = term(look)
            if each.shape != look.complete.shape:
                raise ValueError(f"'{name}' gave a loss of shape {tuple(each.shape)}\nGive one a row: ({len(x)},).")
            losses[name] = ranks.gather(each[:, None], len(logits))[:, 0]
        return losses

    def _rules(self) -> Any:
        """A circuit for terms that guess labels, compiled when first needed; None without rules."""
        if self._guide is None and self.space.rules:
            self._guide = self.circuit or self.space.compile()
        return self._guide

    def _unlabelled(self, prior: Prior, logits: Tensor, y: Tensor) -> Tensor:
        """−log q of rows whose label is not complete, with what is known of it as evidence."""
        logits = logits if self.align is None else self.align(logits)
        term = -prior(logits, None if bool(y.isnan().all()) else y)
        impossible = term.detach() == math.inf
        if bool(impossible.any()):
            known = y[impossible][0].tolist()
            raise DataError(
                f"{int(impossible.sum())} partial labels contradict the rules; the first is {known}\n"
                "Find them with space.check(y), and correct or drop them."
            )
        return term

    def _ramp(self, step: int | None) -> float:
        if self.ramp is None:
            return 1.0
        if step is None:
            raise ValueError("this objective has a ramp: call it with the step, objective(logits, y, step=step)")
        return self.ramp(step)


def _named(consistency: Consistency | Sequence[Consistency] | None) -> nn.ModuleDict:
    """Terms by name; the second of a name is called so."""
    named: dict[str, nn.Module] = {}
    given = [] if consistency is None else consistency if isinstance(consistency, list | tuple) else [consistency]
    for term in given:
        if not isinstance(term, Consistency):
            raise ValueError(f"{term!r} is no consistency term: give objects of dssl.training.consistency or .matching")
        count = sum(other.name == term.name for other in named.values())
        named[f"{term.name}_{count + 1}" if count else term.name] = term
    taught = [name for name, term in named.items() if term.supervised]
    if len(taught) > 1:
        raise ValueError(f"{' and '.join(taught)} each replace the supervised loss: choose one of them")
    return nn.ModuleDict(named)


def _surprise(z: Tensor, allowed: Tensor) -> Tensor:
    """−log of the probability that softmax(z) gives to the allowed values (..., K); exactly 0 if all are allowed."""
    kept = z.masked_fill(~allowed, -math.inf).logsumexp(-1)
    out = z.masked_fill(allowed, -math.inf).logsumexp(-1)
    return nn.functional.softplus(out - kept)  # log(1 + excluded / kept), accurate at both ends


def as_columns(space: LabelSpace, y: Any, like: Tensor) -> Tensor:
    """Labels as columns (batch, width) of 1, 0 and NaN, on the device and in the type of `like`."""
    y = torch.as_tensor(y, device=like.device)
    if y.shape == like.shape:
        return y.to(like.dtype).masked_fill(y == -1, math.nan)
    y = y.unsqueeze(-1) if y.dim() == like.dim() - 1 and len(space.variables) == 1 else y
    if y.shape != (*like.shape[:-1], len(space.variables)):
        raise DataError(
            f"labels of shape {tuple(y.shape)} do not fit logits of shape {tuple(like.shape)}\n"
            f"Give columns, one a column of the space ({space.width}), or value indices, one a variable "
            f"({len(space.variables)}); space.encode turns other forms into columns."
        )
    index = torch.where(y.isnan(), -1, y).long() if y.is_floating_point() else y.long()
    parts = []
    for i, variable in enumerate(space.variables):
        size = len(variable.values)
        one = index[..., i].unsqueeze(-1) == torch.arange(size, device=like.device)
        bad = (index[..., i] >= size) | (index[..., i] < -1)
        if bool(bad.any()):
            raise DataError(f"'{variable.name}' has {size} values, and an index is {int(index[..., i][bad][0])}")
        part = one.to(like.dtype).masked_fill((index[..., i] < 0).unsqueeze(-1), math.nan)
        parts.append(part[..., 1:] if variable.binary else part)
    return torch.cat(parts, -1)


def _refuse_empty(allowed: list[Tensor]) -> None:
    """An error for rows whose labels leave a categorical variable without a value, or give it two."""
    for a in allowed:
        empty = ~a.any(-1).all(-1)
        if bool(empty.any()):
            rows = empty.nonzero().flatten().tolist()
            raise DataError(f"the labels of rows {rows[:10]} leave no value of a variable\nLeave unknown ones NaN.")


# ---- against collapse: the prior rewards every confident prediction alike, so all may end at one label (MATH §7) ----


@dataclass(frozen=True)
class Collapse:
    """Entropy in nats of the mean prediction and of the labels, one a variable: (variables,).

    `share` is the first over the second, all variables together: near 1 when predictions are as varied as labels, 0
    when all are the same.
    """

    predicted: Tensor
    labelled: Tensor

    @property
    def share(self) -> float:
        return float(self.predicted.sum() / self.labelled.sum().clamp_min(1e-12))


def collapse(space: LabelSpace, logits: Tensor, y: Tensor) -> Collapse:
    """How varied predictions (n, width) are, against labels y (m, width) as columns; unknown entries do not count.

    >>> import torch
    >>> from dssl.training.objective import collapse
    >>> space = LabelSpace.classes(["cat", "dog"])
    >>> labels = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(collapse(space, torch.tensor([[9.0, 0.0], [9.0, 0.0]]), labels).share, 3)
    0.002
    """
    blocks = Blocks(space)
    predicted = [z.detach().softmax(-1).mean(0) for z in blocks.logits(logits)]  # (n, K) by group
    labelled = []
    for allowed in blocks.allowed(y):
        known = (allowed.sum(-1, keepdim=True) == 1).to(logits.dtype)
        labelled.append((allowed * known).sum(0) / known.sum(0).clamp_min(1))
    order = torch.tensor([i for group in blocks.groups for i in group.variables]).argsort()
    entropies = [torch.cat([torch.special.entr(p).sum(-1) for p in side])[order] for side in (predicted, labelled)]
    return Collapse(*entropies)


class Alignment(nn.Module):
    """Distribution alignment: θ is multiplied by target / running mean of θ, and normalised.

    A value predicted more often than the target says is made less probable. `target` are weights as `CountingPrior`
    takes them (label frequencies, say). The running mean starts at the target, is kept in `state_dict`, and moves only
    in training mode, after it was used.
    """

    mean: Tensor
    target: Tensor

    def __init__(self, space: LabelSpace, target: Any, *, momentum: float = 0.99) -> None:
        super().__init__()
        self.blocks = Blocks(space)
        sizes = [len(group.variables) * group.size for group in self.blocks.groups]
        groups = zip(self.blocks.groups, value_weights(space, self.blocks, target).split(sizes))
        normal = [part.unflatten(0, (-1, group.size)).softmax(-1).flatten() for group, part in groups]
        self.momentum, self._sizes = momentum, sizes
        self.register_buffer("target", torch.cat(normal))
        self.register_buffer("mean", self.target.clone())

    def forward(self, logits: Tensor) -> Tensor:
        """Aligned logits (batch, width); in training mode the running mean moves towards the batch's."""
        aligned = self.shifted(logits)
        if self.training:
            self.move(logits)
        return aligned

    def shifted(self, logits: Tensor) -> Tensor:
        """Aligned logits (batch, width)."""
        tiny = torch.finfo(logits.dtype).tiny
        shift = (self.target.clamp_min(tiny) / self.mean.clamp_min(tiny)).log().split(self._sizes)
        aligned = []
        for group, z, s in zip(self.blocks.groups, self.blocks.logits(logits), shift):
            moved = z + s.unflatten(0, (-1, group.size))
            aligned.append(moved[..., 1:] - moved[..., :1] if group.binary else moved)
        return self.blocks.joined(aligned)

    @torch.no_grad()
    def move(self, logits: Tensor) -> None:
        """Moves the running mean towards the mean prediction of logits (batch, width)."""
        if len(logits):
            theta = torch.cat([z.softmax(-1).flatten(-2) for z in self.blocks.logits(logits)], -1).mean(0)  # (values,)
            self.mean.lerp_(theta.to(self.mean), 1 - self.momentum)

    @torch.no_grad()
    def move_target(self, y: Tensor) -> None:
        """Moves the target towards the frequencies of complete labels y (batch, width), at the same pace."""
        if len(y):
            seen = torch.cat([a.flatten(-2) for a in self.blocks.allowed(y)], -1).to(self.target).mean(0)
            self.target.lerp_(seen, 1 - self.momentum)
