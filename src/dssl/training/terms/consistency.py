"""Consistency: a row's prediction should not depend on which view of the row one takes (MATH §7).

A *term* is a module with one method: `forward(look)` gives the loss of each row, (n,). The `Look` has the rows, their
logits, the network, and ways to see the rows again. Here are the terms that smooth: two predictions of one row are
drawn together. Those that guess labels are in `dssl.training.terms.matching`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.data.rows import Data
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import Blocks, over_blocks
from dssl.priors.predictive import Family, Predictive
from dssl.training.averaging import Average
from dssl.training.balance import Balance
from dssl.training.processes import NORMS, Ranks
from dssl.training.terms.augmentation import NearestNeighbours, Views

_DROPS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
_SHOW = "objective(logits, y, x=x, network=network)"


# ---- what a term sees ----


@dataclass(frozen=True)
class Look:
    """One step's rows, as many as this process has, and ways to look at them again.

    `x` (n, …) are the rows, `seen` the view of them that gave `logits` (n, width). `y` (n, width) has 1, 0 and NaN;
    `complete` (n,) says which rows' labels are wholly known. `rows` (n,) are their numbers in the data, if known.
    `size` counts the rows of all processes together.
    """

    space: LabelSpace
    free: Family
    rules: Callable[[], Family]
    balance: Balance
    network: nn.Module
    x: Tensor
    seen: Tensor
    logits: Tensor
    y: Tensor
    complete: Tensor
    rows: Tensor | None = None
    views: Views = field(default_factory=Views)
    ranks: Ranks = field(default_factory=Ranks)
    size: int = 0
    within: AbstractContextManager[Any] = field(default_factory=nullcontext)

    @property
    def blocks(self) -> Blocks:
        """How columns form blocks of values."""
        return self.free.blocks

    def predict(self, logits: Tensor, *, given_rules: bool = False) -> Predictive:
        """The prediction of logits (n, width): θ, or given the rules, which are compiled when first asked for."""
        return Predictive(logits, self.rules() if given_rules else self.free)

    def weak(self) -> Tensor:
        """A new weak view of the rows."""
        return self.views.weak(self.x, self.rows)

    def strong(self) -> Tensor:
        """A new strong view of the rows."""
        return self.views.strong(self.x, self.rows)

    def run(self, x: Tensor, network: nn.Module | None = None, *, calm: bool = False, exact: bool = False) -> Tensor:
        """Logits of another pass of the network, or of another one; batch norm's running statistics stay as they are.

        A `calm` pass is without dropout, an `exact` one without half precision.
        """
        network = self.network if network is None else network
        precision = torch.autocast(x.device.type, enabled=False) if exact else self.within
        with _still(network, calm), precision:
            logits = network(x)
        return logits if logits.dtype == torch.float64 else logits.float()

    @property
    def plain(self) -> bool:
        """Whether `logits` are what a calm and exact pass over `seen` would give."""
        half = isinstance(self.within, torch.autocast) or torch.is_autocast_enabled(self.seen.device.type)
        drops = (m for m in self.network.modules() if isinstance(m, _DROPS))
        return not half and not any(m.training and m.p > 0 for m in drops)

    def log_theta(self, logits: Tensor) -> list[Tensor]:
        """log θ of all values by group of blocks (n, variables, K)."""
        return self.predict(logits).log_values

    def everyone(self, rows: Tensor) -> Tensor:
        """Rows (n, …) of all processes, in the order of the global batch; gradient flows to this process's only."""
        return self.ranks.gather(rows, self.size)

    def numbers(self, term: nn.Module) -> Tensor:
        """The numbers of the rows, or an error that asks for them."""
        if self.rows is None:
            raise ValueError(
                f"{type(term).__name__} has to know which rows of the data these are\n"
                f"Call {_SHOW[:-1]}, rows=their_numbers)."
            )
        return self.rows


@contextmanager
def _still(network: nn.Module, calm: bool) -> Iterator[None]:
    """A context in which batch norm does not update its running statistics; if `calm`, without dropout."""
    norms = [m for m in network.modules() if isinstance(m, NORMS) and m.track_running_stats]
    drops = [m for m in network.modules() if calm and isinstance(m, _DROPS) and m.training]
    for norm in norms:
        norm.track_running_stats = False
    for drop in drops:
        drop.training = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True
        for drop in drops:
            drop.training = True


# ---- how far predictions are apart: by group of blocks (n, variables, K), added up over blocks to (n,) ----


def squared_error(p: list[Tensor], q: list[Tensor]) -> Tensor:
    """Σ over blocks of ‖p − q‖² / K."""
    return over_blocks([(a - b).square().mean(-1) for a, b in zip(p, q)])


def cross_entropy(p: list[Tensor], log_q: list[Tensor]) -> Tensor:
    """Σ over blocks of −Σ_k p_k log q_k."""
    return over_blocks([-(a * b).sum(-1) for a, b in zip(p, log_q)])


# ---- terms ----


class Consistency(nn.Module, ABC):
    """A term of the objective that needs the network and x.

    `weight` multiplies its loss, besides the objective's `consistency_weight`. Rows with a complete label join if
    `labelled`. State belongs in buffers, so that checkpoints have it; if its size depends on the data, make it in
    `prepare`. A term that is `supervised` also gives the loss of complete rows, in place of their likelihood. Its
    arguments are attributes of the same names, so that it can be saved and made again.
    """

    name: str = "consistency"
    supervised: bool = False
    ramped: bool = True  # whether the objective's ramp applies
    needs: str | None = None  # the view, "weak" or "strong", without which it has no effect

    def __init__(self, weight: float = 1.0, *, labelled: bool = True) -> None:
        super().__init__()
        self.weight, self.labelled = weight, labelled

    @abstractmethod
    def forward(self, look: Look) -> Tensor:
        """The loss of each row (n,)."""

    def prepare(self, space: LabelSpace, network: nn.Module, data: Data) -> None:
        """Called once before training, and before a checkpoint is loaded."""


class PiModel(Consistency):
    """Π-model (Laine & Aila 2017): the network under other dropout and another view.

    ‖θ(x) − θ(x′)‖² / K, with gradient through both.
    """

    name = "pi_model"

    def __init__(self, weight: float = 20.0, *, labelled: bool = True) -> None:
        super().__init__(weight, labelled=labelled)

    def forward(self, look: Look) -> Tensor:
        again = look.predict(look.run(look.weak()))
        return squared_error(look.predict(look.logits).value_marginals, again.value_marginals)


class TemporalEnsembling(Consistency):
    """Temporal ensembling (Laine & Aila 2017): a row's prediction, and the mean of its earlier ones.

    ‖θ − Z / (1 − αᵗ)‖² / K, where Z ← α Z + (1 − α) θ is updated at each of the row's t visits. Costs no further pass
    of the network, and memory for a prediction of every row.
    """

    name = "temporal_ensembling"
    ensemble: Tensor | None
    visits: Tensor | None

    def __init__(self, weight: float = 20.0, *, momentum: float = 0.6, labelled: bool = True) -> None:
        super().__init__(weight, labelled=labelled)
        self.momentum = momentum
        self.register_buffer("ensemble", None)
        self.register_buffer("visits", None)

    def prepare(self, space: LabelSpace, network: nn.Module, data: Data) -> None:
        device = next((p.device for p in network.parameters()), None)
        if self.ensemble is None or len(self.ensemble) != len(data):
            values = sum(2 if v.binary else len(v.values) for v in space.variables)
            self.ensemble = torch.zeros(len(data), values, device=device)
            self.visits = torch.zeros(len(data), dtype=torch.int64, device=device)

    def forward(self, look: Look) -> Tensor:
        rows = look.numbers(self)
        if self.ensemble is None or self.visits is None:
            raise ValueError("TemporalEnsembling remembers every row\nCall objective.prepare(network, data) first.")
        theta = look.predict(look.logits).value_marginals
        flat = torch.cat([t.flatten(1) for t in theta], 1)  # (n, values)
        sizes = [t.shape[1:].numel() for t in theta]
        age = self.visits[rows, None]
        mean = self.ensemble[rows] / (1 - self.momentum ** age.clamp_min(1).to(self.ensemble.dtype))
        target = [m.view_as(t) for m, t in zip(mean.to(flat.dtype).split(sizes, 1), theta)]
        if self.training:
            self._remember(self.ensemble, self.visits, look.everyone(rows), look.everyone(flat.detach()))
        return squared_error(theta, target) * (age[:, 0] > 0)

    @torch.no_grad()
    def _remember(self, ensemble: Tensor, visits: Tensor, rows: Tensor, theta: Tensor) -> None:
        # where two epochs meet, a batch may contain a row twice: the last one counts
        once, place = rows.unique(return_inverse=True)
        last = place.new_zeros(len(once)).scatter_reduce(0, place, torch.arange(len(rows), device=rows.device), "amax")
        ensemble[once] = self.momentum * ensemble[once] + (1 - self.momentum) * theta[last].to(ensemble)
        visits[once] += 1


class Teacher(Average):
    """The network with averaged weights, as a source of predictions."""

    @torch.no_grad()
    def logits(self, look: Look, x: Tensor) -> Tensor:
        """The teacher's logits of x, in evaluation mode; in training mode it is updated first."""
        if self.training:
            self.update(look.network)
            return look.run(x, self.with_buffers(look.network))
        return look.run(x, self.of(look.network))


class MeanTeacher(Consistency):
    """Mean teacher (Tarvainen & Valpola 2017, Eq. 1): the prediction for one view, and the teacher's for another.

    ‖θ(x) − θ′(x′)‖² / K. The teacher is the network with averaged weights. Its noise is its own view of x; dropout
    and batch norm are in evaluation mode. No gradient reaches it.
    """

    name = "mean_teacher"

    def __init__(self, weight: float = 20.0, *, decay: float = 0.99, labelled: bool = True) -> None:
        super().__init__(weight, labelled=labelled)
        self.decay, self.teacher = decay, Teacher(decay)

    def prepare(self, space: LabelSpace, network: nn.Module, data: Data) -> None:
        self.teacher.of(network)

    def forward(self, look: Look) -> Tensor:
        target = look.predict(self.teacher.logits(look, look.weak()))
        return squared_error(look.predict(look.logits).value_marginals, target.value_marginals)


class VAT(Consistency):
    """Virtual adversarial training (Miyato et al. 2018): the prediction, and the one at the worst point nearby.

    KL(θ(x) ‖ θ(x + r)), where r of norm ε is the direction in which the divergence grows fastest, found by
    `iterations` of the power method with finite differences of size ξ (Eqs. 5–12). Needs no augmentation, only x of
    floats. If `relative`, ε and ξ are multiplied by √d, the norm of a row of d standardised features. Its passes are
    without dropout, whose noise is no direction of x, and the search is in full precision, since its differences are
    small. No gradient reaches θ(x) or r. `given_rules` takes the divergence of the joint distributions over valid
    labels, in which variables that follow from others count nothing extra.
    """

    name = "vat"

    def __init__(
        self,
        weight: float = 1.0,
        *,
        epsilon: float = 0.3,
        xi: float = 0.01,
        iterations: int = 1,
        relative: bool = True,
        given_rules: bool = False,
        labelled: bool = True,
    ) -> None:
        super().__init__(weight, labelled=labelled)
        self.epsilon, self.xi, self.iterations, self.relative = epsilon, xi, iterations, relative
        self.given_rules = given_rules

    def forward(self, look: Look) -> Tensor:
        x = look.seen
        if not x.is_floating_point():
            raise DataError(f"VAT moves x a little, and x is of {x.dtype}\nGive floats, or use another term.")
        with torch.no_grad():
            logits = look.logits.detach() if look.plain else look.run(x, calm=True, exact=True)
        target = look.predict(logits, given_rules=self.given_rules)
        size = x[0].numel() ** 0.5 if self.relative and len(x) else 1.0
        d = _unit(torch.randn_like(x), torch.zeros_like(x))
        for _ in range(self.iterations):
            d = self._direction(look, target, d, self.xi * size)
        there = look.run(x + self.epsilon * size * d, calm=True)
        return target.divergence(look.predict(there, given_rules=self.given_rules))

    @torch.enable_grad()
    def _direction(self, look: Look, target: Predictive, d: Tensor, xi: float) -> Tensor:
        """Where the divergence grows fastest from ξ d on: one step of the power method."""
        r = (xi * d).requires_grad_()
        there = look.predict(look.run(look.seen + r, calm=True, exact=True), given_rules=self.given_rules)
        (gradient,) = torch.autograd.grad(target.divergence(there).sum(), r)
        return _unit(gradient, d)


def _unit(d: Tensor, otherwise: Tensor) -> Tensor:
    """Rows of d at norm 1; `otherwise` where they vanish."""
    flat = d.flatten(1)
    flat = flat / flat.abs().amax(1, keepdim=True).clamp_min(torch.finfo(d.dtype).tiny)  # squares do not underflow
    norm = flat.norm(dim=1, keepdim=True)
    return torch.where(norm > 0, flat / norm.clamp_min(0.5), otherwise.flatten(1)).view_as(d)


class Neighbours(Consistency):
    """Neighbours: a row's prediction, and the prediction for one of its k nearest neighbours in the data.

    ½ KL(θ(x_i) ‖ θ(x_j)) + ½ KL(θ(x_j) ‖ θ(x_i)), j drawn at random from the neighbours of i, with gradient through
    both: manifold regularisation (Belkin et al. 2006) with a divergence in place of a squared distance. With a
    gradient through one side only, rows follow their neighbours' mistakes: .87 instead of .94 on digits with 20
    labels. With `share`
    below 1, x_j is the point at that share of the way from x_i to it. `given_rules` takes the divergence of the joint
    distributions over valid labels, in which variables that follow from others count nothing extra.
    """

    name = "neighbours"

    def __init__(
        self,
        weight: float = 2.0,
        *,
        k: int = 5,
        share: float = 1.0,
        given_rules: bool = False,
        labelled: bool = True,
    ) -> None:
        super().__init__(weight, labelled=labelled)
        self.k, self.share, self.given_rules = k, share, given_rules
        self.view = NearestNeighbours(k, share=share)

    def prepare(self, space: LabelSpace, network: nn.Module, data: Data) -> None:
        self.view.prepare(data)

    def forward(self, look: Look) -> Tensor:
        near = look.run(self.view(look.x, look.numbers(self)), calm=True)
        here = look.predict(look.logits, given_rules=self.given_rules)
        return here.divergence(look.predict(near, given_rules=self.given_rules), symmetric=True)


class Taught(Consistency):
    """Taught: a row's prediction, and the probabilities m that a teacher gives its columns.

    −Σ_k m_k log θ_k, including the negative literals of binary columns; `given_rules` adds log WMC(θ), which makes
    it the cross-entropy of p(y | V): its gradient is the marginals given the rules minus m, so the network learns the
    prediction whose marginals are the teacher's, coherent even where the teacher's are not.

    `marginals` (rows of the data, width) are those of all rows, in the order of the data. The term counts in full
    from the first step: a teacher is most useful at the start.
    """

    name = "taught"
    ramped = False
    marginals: Tensor

    def __init__(
        self, marginals: Tensor | NDArray, weight: float = 1.0, *, given_rules: bool = False, labelled: bool = False
    ) -> None:
        super().__init__(weight, labelled=labelled)
        self.given_rules = given_rules
        self.register_buffer("marginals", torch.as_tensor(marginals).float(), persistent=False)

    def forward(self, look: Look) -> Tensor:
        p = look.predict(look.logits, given_rules=self.given_rules)
        told = look.blocks.of_values(self.marginals[look.numbers(self)].to(look.logits))
        loss = -over_blocks([(m * value).sum(-1) for m, value in zip(told, p.log_values)])
        return loss + p.log_valid if self.given_rules else loss
