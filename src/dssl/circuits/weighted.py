"""WeightedCircuit: labels weighted by π_y = Π φ_b, a probability at every branch, answering what a circuit answers.

The kernels know columns only, so a branch is a column (see `branches`). Where φ is fixed, branches are constants of the
circuit, as soft rules are; where φ is learned, they are columns of the weights, and the gradient comes with them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Generator, Tensor, nn

from dssl.circuits.branches import Choices
from dssl.circuits.circuit import Circuit
from dssl.errors import DataError

_HELD = 1 << 22  # numbers that one pass over rows may hold


class WeightedCircuit(nn.Module):
    """A circuit with a probability at every branch; `branches` holds their logits, softmax within each choice.

    Queries are those of `Circuit`, with the weight of each label multiplied by π_y. `learn` makes `branches` a
    parameter that receives gradients.
    """

    owner: Tensor

    def __init__(self, choices: Choices, log_phi: Tensor, *, learn: bool = False) -> None:
        super().__init__()
        if log_phi.shape != choices.owner.shape:
            raise ValueError(f"{choices!r} needs a probability for each branch, not {tuple(log_phi.shape)} of them.")
        self.choices = choices
        self.branches = nn.Parameter(log_phi.detach().clone(), requires_grad=learn)
        self.register_buffer("owner", torch.from_numpy(choices.owner), persistent=False)
        self._fixed: tuple[Tensor, Circuit] | None = None

    def extra_repr(self) -> str:
        return repr(self.choices)

    @property
    def width(self) -> int:
        """Columns of the space."""
        return self.choices.width

    @property
    def log_phi(self) -> Tensor:
        """log φ of all branches, shape (branches,)."""
        return self._normalised(self.branches)

    def _normalised(self, logits: Tensor) -> Tensor:
        if not len(logits):
            return logits
        owner = self.owner.to(logits.device)
        top = logits.detach().new_full((self.choices.count,), -math.inf)
        top = top.scatter_reduce(0, owner, logits.detach(), "amax")
        total = torch.zeros_like(top).index_add(0, owner, (logits - top[owner]).exp())
        return logits - (top + total.log())[owner]

    # ---- questions ----

    def log_wmc(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False, power: float | Tensor = 1.0) -> Tensor:
        """log of the sum, over valid labels, of π_y^power times the product of literal weights; shape (...)."""
        if isinstance(power, Tensor) or power != 1:
            return self._log_wmc(log_pos, log_neg, power * self.log_phi.to(log_pos), strict=strict)
        return self._ask("log_wmc", log_pos, log_neg, strict)

    def marginals(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """P(column is true) of each column; shape (..., width)."""
        return self._ask("marginals", log_pos, log_neg, strict)[..., : self.width]

    def mpe(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> tuple[Tensor, Tensor]:
        """The heaviest valid label, bool (..., width), and its log weight (...), log π_y included."""
        log_phi = self.log_phi.to(log_pos)
        pos, neg = self._columns(log_pos, log_neg, log_phi, torch.zeros_like(log_phi))  # a branch not taken weighs 1
        labels, weight = self.choices.circuit.mpe(pos, neg, strict=strict)
        return labels[..., : self.width], weight

    def top_k(self, log_pos: Tensor, log_neg: Tensor, k: int, *, strict: bool = False) -> tuple[Tensor, Tensor]:
        """The k heaviest valid labels, bool (..., k, width), heaviest first, and their log weights (..., k).

        Where fewer than k labels are valid, the rest are all false and weigh −inf. The circuit's own `top_k` would give
        a label once for each way to set the branches that it does not meet; so labels are found by `mpe`, one after the
        other (Lawler 1972). What is left without a label falls into `width` parts: those that agree with it in all
        columns before the i-th, and differ there.
        """
        if k < 1:
            raise DataError(f"top_k was asked for k = {k} labels. Ask for at least one.")
        shape = torch.broadcast_shapes(log_pos.shape, log_neg.shape)
        pos, neg = (x.expand(shape).reshape(-1, self.width) for x in (log_pos, log_neg))
        step = max(1, _HELD // (k * self.width**2))
        found = [self._k_best(p, n, k, strict) for p, n in zip(pos.split(step), neg.split(step))]
        labels, weight = (torch.cat(part) for part in zip(*found))
        return labels.view(*shape[:-1], k, self.width), weight.view(*shape[:-1], k)

    def _k_best(self, pos: Tensor, neg: Tensor, k: int, strict: bool) -> tuple[Tensor, Tensor]:
        """`top_k` of rows (n, width)."""
        pool = [part.unsqueeze(1) for part in (*self.mpe(pos, neg, strict=strict), pos, neg)]  # (n, parts, …)
        upper = torch.ones(self.width, self.width, dtype=torch.bool, device=pos.device)
        before, here = upper.tril(-1), upper.tril().triu()  # (part, column)
        labels, weights = [], []
        for _ in range(k):
            weight, at = pool[1].max(1)
            labels.append(_at(pool[0], at) & (weight > -math.inf).unsqueeze(-1))
            weights.append(weight)
            held = labels[-1].unsqueeze(1)
            true = _at(pool[2], at).unsqueeze(1).masked_fill((before & ~held) | (here & held), -math.inf)
            false = _at(pool[3], at).unsqueeze(1).masked_fill((before & held) | (here & ~held), -math.inf)
            left = pool[1].scatter(1, at.unsqueeze(1), -math.inf)  # it has been found
            label, most = self.mpe(true, false)
            rest = (label, most.masked_fill((weight == -math.inf).unsqueeze(1), -math.inf), true, false)
            pool = [torch.cat([old, new], 1) for old, new in zip((pool[0], left, *pool[2:]), rest)]
        return torch.stack(labels, 1), torch.stack(weights, 1)

    def sample(self, log_pos: Tensor, log_neg: Tensor, n: int = 1, generator: Generator | None = None) -> Tensor:
        """n labels for each row in proportion to weight; bool (n, ..., width)."""
        return self._constant().sample(log_pos, log_neg, n, generator)

    def entropy(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """Entropy in nats of the distribution over valid labels in proportion to weight; shape (...).

        H = log Z − Σ f log w over literals and branches, with f = ∂ log Z / ∂ log w (MATH §4, identity 6).
        """
        shape = torch.broadcast_shapes(log_pos.shape, log_neg.shape)
        log_phi = self.log_phi.to(log_pos).expand(*shape[:-1], -1)
        given = [log_pos.expand(shape), log_neg.expand(shape), log_phi]
        again = torch.is_grad_enabled() and any(x.requires_grad for x in given)
        with torch.enable_grad():
            logs = [x if again and x.requires_grad else x.detach().requires_grad_() for x in given]
            total = self._log_wmc(*logs, strict=strict)
            flows = torch.autograd.grad(total.sum(), logs, create_graph=again)
            none = total == -math.inf
            out = total.masked_fill(none, 0)
            for log, flow in zip(logs, flows):
                out = out - (flow * log.masked_fill(log == -math.inf, 0)).sum(-1)
        out = out.masked_fill(none, 0)
        return out if again else out.detach()

    def flows(self, log_pos: Tensor, log_neg: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """How often branches are taken, in expectation: Σ over rows (n, width) of weight · P(branch), (branches,).

        Also log WMC of each row (n,). These are the expected counts of EM: ∂ log WMC / ∂ log φ.
        """
        total, values = torch.zeros_like(self.branches), []
        step = max(1, _HELD // (self.width + len(total)))
        for pos, neg, w in zip(log_pos.split(step), log_neg.split(step), weight.split(step)):
            log_phi = self.log_phi.detach().requires_grad_()
            with torch.enable_grad():
                value = self._log_wmc(pos, neg, log_phi)
                total += torch.autograd.grad((value * w).sum(), log_phi)[0]
            values.append(value.detach())
        return total.clamp_min(0), torch.cat(values) if values else weight.new_zeros(0)

    # ---- branches as columns, or as constants ----

    def _ask(self, query: str, log_pos: Tensor, log_neg: Tensor, strict: bool) -> Any:
        if torch.is_grad_enabled() and self.branches.requires_grad:
            log_phi = self.log_phi.to(log_pos)
            columns = self._columns(log_pos, log_neg, log_phi, log_rest(log_phi))
            return getattr(self.choices.circuit, query)(*columns, strict=strict)
        return getattr(self._constant(), query)(log_pos, log_neg, strict=strict)

    def _log_wmc(self, log_pos: Tensor, log_neg: Tensor, log_phi: Tensor, *, strict: bool = False) -> Tensor:
        columns = self._columns(log_pos, log_neg, log_phi, log_rest(log_phi))
        return self.choices.circuit.log_wmc(*columns, strict=strict)

    def _columns(self, log_pos: Tensor, log_neg: Tensor, on: Tensor, off: Tensor) -> tuple[Tensor, Tensor]:
        shape = torch.broadcast_shapes(log_pos.shape[:-1], log_neg.shape[:-1])
        return tuple(  # type: ignore[return-value]
            torch.cat([x.expand(*shape, self.width), branch.expand(*shape, -1)], -1)
            for x, branch in ((log_pos, on), (log_neg, off))
        )

    def _constant(self) -> Circuit:
        """The circuit with φ as it is now, made again when φ has changed."""
        now = self.branches.detach().cpu()  # some devices have no float64
        if self._fixed is None or not torch.equal(self._fixed[0], now):  # by content: versions miss writes to .data
            phi = self._normalised(now.double()).exp().clamp(0, 1)  # exact whatever type the module has now
            self._fixed = now.clone(), self.choices.fixed(phi.tolist())
        return self._fixed[1]


def _at(parts: Tensor, index: Tensor) -> Tensor:
    """One of the parts (n, parts, width) for each row: (n, width)."""
    return parts[torch.arange(len(parts), device=parts.device), index]


def log_rest(log_p: Tensor) -> Tensor:
    """log(1 − p) from log p, accurate at both ends; p = 1 counts as 1 − 1e-30, which keeps gradients finite."""
    log_p = log_p.clamp_max(-1e-30)
    near = log_p > -0.69
    few = torch.log(-torch.expm1(log_p.masked_fill(~near, -0.5)))
    return torch.where(near, few, torch.log1p(-log_p.masked_fill(near, -1.0).exp()))
