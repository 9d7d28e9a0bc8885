"""Branch probabilities out of labels: counts, backed off to independent variables as far as held-out labels ask for it.

A complete label takes one branch of every choice it meets, so maximum likelihood is counting (Kisa et al. 2014). With
few labels counts are mostly chance, and each choice gets α more of them in the proportions of a *base*: variables that
are independent given the rules, π_y ∝ Π_v b_v(y_v) on V. α → ∞ is the base itself. What labels leave unknown is filled
in by EM, whose expected counts are a gradient (`WeightedCircuit.flows`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csgraph
from torch import Tensor

from dssl.circuits.choices import Choices, with_choices
from dssl.circuits.circuit import Circuit
from dssl.circuits.weighted import WeightedCircuit
from dssl.logic.labels import Columns
from dssl.priors.blocks import Blocks

Floats = NDArray[np.float64]
_FOLDS, _ROUNDS, _CLOSE = 5, 200, 1e-7
_SEARCH = {"gtol": 1e-7, "ftol": 1e-14, "maxiter": 200}
_LEAST = 1e-12  # share of a value that never occurs, so that its logarithm is finite


class Strength(NamedTuple):
    """How far counts are held to the base, and which share of the base gives way to even weights on V."""

    backoff: float
    even: float


STRENGTHS = [Strength(a, e) for e in (0.0, 0.1, 0.3, 1.0) for a in (*(2.0**k for k in range(-2, 9)), math.inf)]
_SIMPLE = Strength(math.inf, 1.0), Strength(math.inf, 0.0)


@dataclass(frozen=True)
class Rows:
    """Distinct labels and how often each occurs; `log_pos`, `log_neg` are 0, or −inf for what a label contradicts."""

    columns: Columns  # (n, width)
    log_pos: Tensor  # (n, width)
    log_neg: Tensor
    weight: Tensor  # (n,)
    complete: NDArray[np.bool_]  # (n,)
    place: NDArray[np.int64]  # of each label as it was given, and its weight
    each: Floats

    @classmethod
    def of(cls, blocks: Blocks, columns: Columns, weight: Floats | None = None) -> Rows:
        """Of label columns of 1, 0 and NaN; labels of which nothing is known, or of no weight, are left out."""
        each = np.ones(len(columns)) if weight is None else weight
        kept = ~np.isnan(columns).all(axis=1) & (each > 0)
        columns, each = columns[kept], each[kept]
        distinct, place = np.unique(np.where(np.isnan(columns), -1, columns), axis=0, return_inverse=True)
        distinct, place = np.where(distinct < 0, np.nan, distinct), place.reshape(-1)
        allowed = blocks.allowed(torch.from_numpy(distinct))
        logs = [torch.zeros(a.shape, dtype=torch.float64).masked_fill(~a, -math.inf) for a in allowed]
        complete = torch.stack([(a.sum(-1) == 1).all(-1) for a in allowed]).all(0)
        total = torch.from_numpy(np.bincount(place, each, len(distinct)))
        return cls(distinct, *blocks.literals(logs), total, complete.numpy(), place, each)

    def weighted(self, weight: Floats) -> Rows:
        """The labels whose new weight is not zero."""
        kept = np.flatnonzero(weight)
        pos, neg, w = (x[torch.from_numpy(kept)] for x in (self.log_pos, self.log_neg, torch.from_numpy(weight)))
        return Rows(self.columns[kept], pos, neg, w, self.complete[kept], self.place[:0], self.each[:0])

    @property
    def number(self) -> float:
        return float(self.weight.sum())


@dataclass(frozen=True)
class Learner:
    """What learning needs of a space: its blocks and circuit, and pseudo-labels to add."""

    blocks: Blocks
    circuit: Circuit
    smoothing: float

    @property
    def pseudo(self) -> float:
        """Labels to add, spread evenly over V: `smoothing` for each value of the largest variable."""
        return self.smoothing * max(group.size for group in self.blocks.groups)

    def learn(self, rows: Rows, backoff: float | None) -> tuple[Choices, Tensor]:
        """Choices and log φ (branches,); α by cross-validation where none is given."""
        choices, base, even = self.prepared(rows)
        if choices.alone.all():
            return choices, torch.from_numpy(base)
        strength = self.validated(rows) if backoff is None else Strength(backoff, 0.0)
        shares = mixed(choices, base, even, strength.even)
        return choices, self.fitted(choices, shares, rows, strength.backoff)

    def prepared(self, rows: Rows) -> tuple[Choices, Floats, Floats]:
        """Choices for these labels, and the log shares of the base and of even weights."""
        choices = with_choices(self.circuit, forest(self.circuit, rows))
        flat = [torch.zeros(len(g.variables), g.size, dtype=torch.float64).log_softmax(-1) for g in self.blocks.groups]
        weights = (self.base(rows), self.blocks.literals(flat))
        base, even = (choices.log_shares(self.circuit, pos.numpy(), neg.numpy()) for pos, neg in weights)
        return choices, base, even

    # ---- independent variables, given the rules ----

    def base(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """log b of literals (width,), the maximum likelihood of π_y ∝ Π b_v(y_v) on V and rows and pseudo-labels."""
        zero = torch.zeros(1, self.blocks.width, dtype=torch.float64)
        even = self.circuit.marginals(zero, zero)[0]
        values = [torch.zeros(len(g.variables), g.size, dtype=torch.float64) for g in self.blocks.groups]
        share = self.pseudo / (rows.number + self.pseudo) if 0 < self.pseudo < math.inf else float(self.pseudo > 0)
        former = torch.full_like(even, -1)
        for _ in range(_ROUNDS):
            pos, neg = self.blocks.literals([v.log_softmax(-1) for v in values])
            seen = self.circuit.marginals(rows.log_pos + pos, rows.log_neg + neg)  # given what is known of each row
            target = torch.lerp(rows.weight @ seen / rows.number, even, share) if rows.number else even
            if float((target - former).abs().max()) < _CLOSE:
                break
            former, values = target, self.matched(target)
        return self.blocks.literals([v.log_softmax(-1) for v in values])

    def matched(self, target: Tensor) -> list[Tensor]:
        """Log weights of values by group whose marginals given the rules are `target` (width,)."""
        parts = zip(self.blocks.groups, self.blocks.columns(target))
        wanted = torch.cat([(torch.cat([1 - t, t], -1) if group.binary else t).flatten() for group, t in parts])

        def loss(x: Floats) -> tuple[float, Floats]:
            flat = torch.from_numpy(x).requires_grad_()
            total = self.circuit.log_wmc(*self.blocks.literals(self._split(flat)))
            value = total - flat @ wanted
            return float(value.detach()), torch.autograd.grad(value, flat)[0].numpy()

        start = wanted.clamp_min(_LEAST).log().numpy()
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options=_SEARCH)
        return self._split(torch.from_numpy(found.x))

    def _split(self, flat: Tensor) -> list[Tensor]:
        sizes = [len(group.variables) * group.size for group in self.blocks.groups]
        return [part.unflatten(0, (-1, g.size)) for part, g in zip(flat.split(sizes), self.blocks.groups)]

    # ---- branches ----

    def fitted(self, choices: Choices, shares: Floats, rows: Rows, backoff: float) -> Tensor:
        """log φ that maximises the likelihood of rows and of α further labels in the base's proportions."""
        log_phi, former = torch.from_numpy(shares), -math.inf
        if backoff == math.inf:
            return log_phi
        for _ in range(_ROUNDS):
            counts, value = WeightedCircuit(choices, log_phi).flows(rows.log_pos, rows.log_neg, rows.weight)
            score = float(rows.weight @ value) + backoff * _cross(np.exp(shares), log_phi.numpy())
            if score - former < _CLOSE * max(1.0, rows.number):
                break
            log_phi, former = torch.from_numpy(backed_off(choices, counts.numpy(), shares, backoff)), score
            if rows.complete.all():
                break
        return log_phi

    def validated(self, rows: Rows) -> Strength:
        """Under which labels that were left out are likeliest, over folds of the complete labels.

        Even weights, or the base alone, are kept unless the best beats them by more than twice the gain's standard
        error.
        """
        complete = rows.complete[rows.place]
        owners, each = rows.place[complete], rows.each[complete]
        if len(owners) < 2 * _FOLDS:
            return Strength(1.0, 0.0)
        fold = np.random.default_rng(0).permutation(len(owners)) % _FOLDS
        scores = np.zeros((_FOLDS, len(STRENGTHS)))
        for k in range(_FOLDS):
            parts = (fold != k, fold == k)
            counted = [np.bincount(owners[p], each[p], len(rows.weight)).astype(np.float64) for p in parts]
            train, test = map(rows.weighted, counted)
            choices, base, even = self.prepared(train)
            model = WeightedCircuit(choices, torch.from_numpy(even))
            counts, left = (model.flows(r.log_pos, r.log_neg, r.weight)[0].numpy() for r in (train, test))
            for i, strength in enumerate(STRENGTHS):
                shares = mixed(choices, base, even, strength.even)
                scores[k, i] = _cross(left, backed_off(choices, counts, shares, strength.backoff))
        total = scores.sum(axis=0)
        best = int(np.argmax(total))
        simple = max(map(STRENGTHS.index, _SIMPLE), key=lambda i: total[i])
        gain = scores[:, best] - scores[:, simple]
        return STRENGTHS[best if gain.mean() > 2 * gain.std(ddof=1) / _FOLDS**0.5 else simple]


def mixed(choices: Choices, base: Floats, even: Floats, share: float) -> Floats:
    """Log shares of the base with a part of even weights; variables on their own keep the base."""
    with np.errstate(divide="ignore"):
        out = np.logaddexp(base + np.log1p(-share), even + np.log(share))
    return np.where(choices.alone, base, out)


def backed_off(choices: Choices, counts: Floats, shares: Floats, backoff: float) -> Floats:
    """log φ = log (count + α·share) / (all counts of the choice + α); the share where there is nothing to divide."""
    if backoff == math.inf:
        return shares
    whole = np.bincount(choices.owner, counts, choices.count)[choices.owner] + backoff
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.log((counts + backoff * np.exp(shares)) / whole)
    return np.where((whole > 0) & ~choices.alone, out, shares)


def _cross(weight: Floats, log_phi: Floats) -> float:
    """Σ weight · log φ, where nothing times −inf is nothing."""
    return float(np.sum(weight * np.where(weight > 0, log_phi, 0)))


# ---- a forest over variables that no rule mentions ----


def forest(circuit: Circuit, rows: Rows) -> list[int]:
    """The block each block depends on, −1 for none: the forest of greatest likelihood (Chow & Liu 1968).

    An edge must gain more than it costs by Schwarz's criterion: n · MI > ½ (K−1)(K′−1) log n.
    """
    number = len(circuit.categorical) - len(circuit.soft)
    parents = [-1] * number
    mentioned = set(circuit.block_of_column[np.abs(circuit.literal[circuit.literal != 0]) - 1].tolist())
    free = [block for block in range(number) if block not in mentioned]
    if len(free) < 2 or rows.number < 2:
        return parents
    gain = _gains(circuit, free, rows)
    tree = csgraph.minimum_spanning_tree(-gain)
    links = tree + tree.T
    seen: set[int] = set()
    for root in range(len(free)):
        if root not in seen:
            order, before = csgraph.breadth_first_order(links, root, directed=False)
            seen.update(order.tolist())
            for child in order[1:].tolist():
                parents[free[child]] = free[before[child]]
    return parents


def _gains(circuit: Circuit, free: list[int], rows: Rows) -> Floats:
    """What an edge between two variables gains in log likelihood less its cost, 0 where it costs more."""
    hot = []
    for block in free:
        column = rows.columns[:, circuit.starts[block] : circuit.starts[block + 1]]
        hot.append((column == 1) if circuit.categorical[block] else np.hstack([column == 0, column == 1]))
    first = np.cumsum([0, *(part.shape[1] for part in hot)])
    flat = np.hstack(hot).astype(float)  # (n, values): nothing where a value is unknown
    joint = (flat * rows.weight.numpy()[:, None]).T @ flat
    out = np.zeros((len(free), len(free)))
    for i, j in itertools.combinations(range(len(free)), 2):
        table = joint[first[i] : first[i + 1], first[j] : first[j + 1]]
        n = table.sum()
        alone = np.outer(table.sum(1), table.sum(0))
        seen = table > 0
        cost = 0.5 * (table.shape[0] - 1) * (table.shape[1] - 1) * np.log(max(n, 1.0))
        out[i, j] = max(0.0, float(np.sum(table[seen] * np.log(table[seen] * n / alone[seen]))) - cost)
    return out
