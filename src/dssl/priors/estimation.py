"""Branch probabilities from labels: counts, backed off to independent variables as far as left-out labels suggest.

A complete label takes one branch of every choice it meets, so maximum likelihood is counting (Kisa et al. 2014). With
few labels counts are mostly chance, and each choice gets α more of them in the proportions of a *base*: variables that
are independent given the rules, π_y ∝ Π_v b_v(y_v) on V. α → ∞ is the base itself. What labels leave unknown is filled
in by EM, whose expected counts are a gradient (`WeightedCircuit.flows`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csgraph
from torch import Tensor

from dssl.circuits.branches import Choices, with_choices
from dssl.circuits.circuit import Circuit
from dssl.circuits.weighted import WeightedCircuit
from dssl.logic.labels import Columns
from dssl.priors.blocks import Blocks
from dssl.priors.predictive import Family, Predictive

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
class Counts:
    """Distinct labels and how often each occurs."""

    columns: Columns  # (n, width)
    weight: Tensor  # (n,)
    complete: NDArray[np.bool_]  # (n,)
    place: NDArray[np.int64]  # of each label as it was given, and its weight
    each: Floats

    @classmethod
    def of(cls, blocks: Blocks, columns: Columns, weight: Floats | None = None) -> Counts:
        """From label columns of 1, 0 and NaN; labels of which nothing is known, or without weight, are left out."""
        each = np.ones(len(columns)) if weight is None else weight
        kept = ~np.isnan(columns).all(axis=1) & (each > 0)
        columns, each = columns[kept], each[kept]
        distinct, place = np.unique(np.where(np.isnan(columns), -1, columns), axis=0, return_inverse=True)
        distinct, place = np.where(distinct < 0, np.nan, distinct), place.reshape(-1)
        complete = blocks.complete(torch.from_numpy(distinct)).numpy()
        total = np.bincount(place, each, len(distinct)).astype(np.float64)
        return cls(distinct, torch.from_numpy(total), complete, place, each)

    def weighted(self, weight: Floats) -> Counts:
        """The labels whose new weight is not zero."""
        kept = np.flatnonzero(weight)
        new = torch.from_numpy(weight[kept])
        return Counts(self.columns[kept], new, self.complete[kept], self.place[:0], self.each[:0])

    def predictive(self, family: Family) -> Predictive:
        """The labels as evidence of what weighs the same otherwise."""
        return Predictive.even(family, self.weight, torch.from_numpy(self.columns))

    @property
    def number(self) -> float:
        return float(self.weight.sum())


@dataclass(frozen=True)
class Learner:
    """What learning needs of a space: its blocks and its rules, a circuit, and pseudo-labels to add."""

    family: Family
    smoothing: float

    @property
    def blocks(self) -> Blocks:
        return self.family.blocks

    @property
    def circuit(self) -> Circuit:
        return cast(Circuit, self.family.circuit)

    @property
    def pseudo(self) -> float:
        """Labels to add, spread evenly over V: `smoothing` for each value of the largest variable."""
        return self.smoothing * max(group.size for group in self.blocks.groups)

    def learn(self, labelled: Counts, backoff: float | None) -> tuple[Choices, Tensor]:
        """Choices and log φ (branches,); α by cross-validation where none is given."""
        choices, base, even = self.prepared(labelled)
        if choices.alone.all():
            return choices, torch.from_numpy(base)
        strength = self.validated(labelled) if backoff is None else Strength(backoff, 0.0)
        shares = mixed(choices, base, even, strength.even)
        return choices, self.fitted(choices, shares, labelled, strength.backoff)

    def prepared(self, labelled: Counts) -> tuple[Choices, Floats, Floats]:
        """Choices for these labels, and the log shares of the base and of even weights."""
        choices = with_choices(self.circuit, forest(self.circuit, labelled))
        flat = Predictive(torch.zeros(self.blocks.width, dtype=torch.float64), self.family)
        literals = (p.literals for p in (self.base(labelled), flat))
        base, even = (choices.log_shares(self.circuit, pos.numpy(), neg.numpy()) for pos, neg in literals)
        return choices, base, even

    # ---- independent variables, given the rules ----

    def base(self, labelled: Counts) -> Predictive:
        """b, the maximum likelihood of π_y ∝ Π b_v(y_v) on V, from labels and pseudo-labels."""
        p = Predictive.even(self.family, labelled.weight)
        even = p.marginals
        p, known = p.weighing(_normal), torch.from_numpy(labelled.columns)
        share = self.pseudo / (labelled.number + self.pseudo) if 0 < self.pseudo < math.inf else float(self.pseudo > 0)
        former = torch.full_like(even, -1)
        for _ in range(_ROUNDS):
            target = even
            if labelled.number:
                target = torch.lerp(labelled.weight @ p.given(known).marginals / labelled.number, even, share)
            if float((target - former).abs().max()) < _CLOSE:
                break
            former, p = target, self.matched(target).weighing(_normal)
        return p

    def matched(self, target: Tensor) -> Predictive:
        """The weights of values whose marginals given the rules are `target` (width,)."""
        wanted = self.blocks.flat(self.blocks.of_values(target))

        def weighed(flat: Tensor) -> Predictive:
            return Predictive.of_weights(self.blocks.cut(flat), self.family)

        def loss(x: Floats) -> tuple[float, Floats]:
            flat = torch.from_numpy(x).requires_grad_()
            value = weighed(flat).log_valid - flat @ wanted
            return float(value.detach()), torch.autograd.grad(value, flat)[0].numpy()

        start = wanted.clamp_min(_LEAST).log().numpy()
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options=_SEARCH)
        return weighed(torch.from_numpy(found.x))

    # ---- branches ----

    def fitted(self, choices: Choices, shares: Floats, labelled: Counts, backoff: float) -> Tensor:
        """log φ that maximises the likelihood of rows and of α further labels in the base's proportions."""
        log_phi, former = torch.from_numpy(shares), -math.inf
        if backoff == math.inf:
            return log_phi
        known = labelled.predictive(self.family).literals
        for _ in range(_ROUNDS):
            counts, value = WeightedCircuit(choices, log_phi).flows(*known, labelled.weight)
            score = float(labelled.weight @ value) + backoff * _cross(np.exp(shares), log_phi.numpy())
            if score - former < _CLOSE * max(1.0, labelled.number):
                break
            log_phi, former = torch.from_numpy(backed_off(choices, counts.numpy(), shares, backoff)), score
            if labelled.complete.all():
                break
        return log_phi

    def validated(self, labelled: Counts) -> Strength:
        """The strength under which left-out labels are likeliest, over folds of the complete labels.

        Even weights, or the base alone, are kept unless the best beats them by more than twice the gain's standard
        error.
        """
        complete = labelled.complete[labelled.place]
        owners, each = labelled.place[complete], labelled.each[complete]
        if len(owners) < 2 * _FOLDS:
            return Strength(1.0, 0.0)
        fold = np.random.default_rng(0).permutation(len(owners)) % _FOLDS
        scores = np.zeros((_FOLDS, len(STRENGTHS)))
        for k in range(_FOLDS):
            parts = (fold != k, fold == k)
            counted = [np.bincount(owners[p], each[p], len(labelled.weight)).astype(np.float64) for p in parts]
            train, test = map(labelled.weighted, counted)
            choices, base, even = self.prepared(train)
            model = WeightedCircuit(choices, torch.from_numpy(even))
            counts, left = (
                model.flows(*r.predictive(self.family).literals, r.weight)[0].numpy() for r in (train, test)
            )
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


def _normal(values: list[Tensor]) -> list[Tensor]:
    return [value.log_softmax(-1) for value in values]


# ---- a forest over variables that no rule mentions ----


def forest(circuit: Circuit, labelled: Counts) -> list[int]:
    """The block each block depends on, −1 for none: the forest of greatest likelihood (Chow & Liu 1968).

    An edge must gain more than it costs by Schwarz's criterion: n · MI > ½ (K−1)(K′−1) log n.
    """
    number = len(circuit.categorical) - len(circuit.soft)
    parents = [-1] * number
    mentioned = set(circuit.block_of_column[np.abs(circuit.literal[circuit.literal != 0]) - 1].tolist())
    free = [block for block in range(number) if block not in mentioned]
    if len(free) < 2 or labelled.number < 2:
        return parents
    gain = _gains(circuit, free, labelled)
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


def _gains(circuit: Circuit, free: list[int], labelled: Counts) -> Floats:
    """What an edge between two variables gains in log likelihood less its cost, 0 where it costs more."""
    hot = []
    for block in free:
        column = labelled.columns[:, circuit.starts[block] : circuit.starts[block + 1]]
        hot.append((column == 1) if circuit.categorical[block] else np.hstack([column == 0, column == 1]))
    first = np.cumsum([0, *(part.shape[1] for part in hot)])
    flat = np.hstack(hot).astype(float)  # (n, values): nothing where a value is unknown
    joint = (flat * labelled.weight.numpy()[:, None]).T @ flat
    out = np.zeros((len(free), len(free)))
    for i, j in itertools.combinations(range(len(free)), 2):
        table = joint[first[i] : first[i + 1], first[j] : first[j + 1]]
        n = table.sum()
        alone = np.outer(table.sum(1), table.sum(0))
        seen = table > 0
        cost = 0.5 * (table.shape[0] - 1) * (table.shape[1] - 1) * np.log(max(n, 1.0))
        out[i, j] = max(0.0, float(np.sum(table[seen] * np.log(table[seen] * n / alone[seen]))) - cost)
    return out
