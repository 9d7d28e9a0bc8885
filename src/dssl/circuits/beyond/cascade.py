"""Cascade: labels that obey implications, decided from the top down. Hierarchies of any width need no circuit.

A class is *open* if all classes above it hold: it then holds with its own probability σ(u). Other classes fail. So
p(y) = Π over open classes of σ(±u), which adds up to one (MATH §8). The same in other words: every class has a coin of
its own, all thrown independently, and holds if its coin and those of all classes above it say so.

From this follow the answers, each in time linear in the classes and those above them, for a batch at once:

* the likelihood of a label known in full, and of one known in part wherever each class known to fail is open or below
  another that is known to fail;
* a lower bound of the likelihood of other partial labels: failing of one class makes failing of others more probable
  (Harris 1960), so a product over classes is never too large;
* marginals, the product of σ over a class and all above it, and entropy;
* samples, for any evidence.
* the most probable label, by `closures`: a search that says whether its answer is proven.
"""

from __future__ import annotations

import math
import warnings
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from dssl.circuits.beyond.closures import Closures
from dssl.errors import DataError
from dssl.logic.reasoning.implications import Implications

_ROUNDS = 1000  # of samples that are drawn again where evidence is not met
_OFF = 1e-3  # log of a sum of weights, above which weights are not probabilities
_LIKELY = 64  # classes that do not hold and are tried in further labels
_CHUNK = 1024  # classes whose classes below are looked for at once


class Cascade:
    """Answers about labels that obey implications, with p(y) = Π over open classes of their weights.

    >>> import torch
    >>> from dssl import LabelSpace
    >>> space = LabelSpace("cat, pet, animal\\ncat -> pet\\ncat -> animal")
    >>> cascade = Cascade(space.implications)
    >>> half = torch.full((1, 3), 0.5).log()
    >>> cascade.marginals(half, half)  # a cat needs three coins
    tensor([[0.1250, 0.5000, 0.5000]])
    >>> cascade.log_wmc(half, half)  # it adds up to one
    tensor([0.])

    `log_pos` and `log_neg` (..., width) are log σ(u) and log σ(−u), of a class that is open; −inf is evidence, as it is
    for a `Circuit`. Weights that do not add up to one are refused: questions that need them are for circuits.
    Threads may share it.
    """

    def __init__(self, implications: Implications) -> None:
        self.implications = implications
        self.width = implications.width

    def __repr__(self) -> str:
        return f"Cascade({self.width} classes, {len(self.implications.child)} implications: no circuit is needed)"

    # ---- the structure, as matrices ----

    @cached_property
    def _up(self) -> _Matrix:
        """(class, class above or itself)."""
        found = [self._below(start).T for start in range(0, self.width, _CHUNK)]
        return _Matrix(sp.hstack(found))

    def _below(self, start: int) -> sp.csr_array:
        """(class, class below or itself) of some classes."""
        marks = np.eye(min(_CHUNK, self.width - start), self.width, start, dtype=bool)
        return sp.csr_array(self.implications.downward(marks), dtype=np.float32)

    @cached_property
    def _parents(self) -> _Matrix:
        """(class, class right above it)."""
        child, parent = np.unique(np.stack([self.implications.child, self.implications.parent]), axis=1)
        ones = np.ones(len(child), dtype=np.float32)
        return _Matrix(sp.csr_array((ones, (child, parent)), shape=(self.width, self.width)))

    @cached_property
    def closures(self) -> Closures:
        """Who looks for the most probable label."""
        return Closures(self.implications)

    def open(self, holds: Tensor) -> Tensor:
        """Classes whose classes right above all hold, bool (n, width)."""
        return self._parents(holds.float()) > self._parents.sizes.to(holds.device) - 0.5

    # ---- questions ----

    def log_wmc(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """log P(evidence), or a lower bound where the module's docstring says so; shape (...)."""
        pos, neg, shape = _rows(log_pos, log_neg)
        known = _Known.of(self, pos, neg)
        if known is None:
            return pos.new_zeros(shape[:-1]) + 0 * pos[..., :1].sum(-1).view(shape[:-1])
        _strictly(known.impossible, strict)
        out = pos.masked_fill(~known.holds, 0).sum(-1) + neg.masked_fill(~known.settled, 0).sum(-1)
        if known.doubtful is not None:
            out = out + self._doubts(pos, neg, known)
        return out.masked_fill(known.impossible, -math.inf).view(shape[:-1])

    def _doubts(self, pos: Tensor, neg: Tensor, known: _Known) -> Tensor:
        """Σ log P(a class fails) over classes that fail while it is not known whether they are open: (n,)."""
        assert known.doubtful is not None
        fails = known.doubtful
        coin = torch.where(fails, _log_rest(neg.masked_fill(~fails, -1.0)), pos)  # its own was masked by the evidence
        coin = coin.masked_fill(known.holds | (known.fails & ~fails), 0)
        reached = self._up(coin)
        return _log_rest(reached.masked_fill(~fails, -1.0)).masked_fill(~fails, 0).sum(-1)

    def marginals(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """P(class holds) given the evidence; shape (..., width). Evidence that leaves coins dependent is refused."""
        pos, neg, shape = _rows(log_pos, log_neg)
        known = self._independent(pos, neg, "marginals", strict)
        if known is None:
            return self._up(pos).exp().view(shape)
        reached = self._up(pos.masked_fill(known.holds | known.fails, 0)).exp()
        reached = reached.masked_fill(known.fails | known.impossible[:, None], 0)
        return reached.view(shape)

    def entropy(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """Entropy of the label in nats, Σ_k P(k is open) H(coin of k); shape (...)."""
        pos, neg, shape = _rows(log_pos, log_neg)
        known = self._independent(pos, neg, "the entropy", strict)
        if known is None:
            return (self._opening(pos) * _coin_entropy(pos, neg)).sum(-1).view(shape[:-1])
        fixed = known.holds | known.fails
        opening = self._opening(pos.masked_fill(fixed, 0)).masked_fill(fixed, 0)
        each = _coin_entropy(pos.masked_fill(fixed, -1.0), neg.masked_fill(fixed, -1.0))
        return (opening * each).sum(-1).masked_fill(known.impossible, 0).view(shape[:-1])

    def _opening(self, pos: Tensor) -> Tensor:
        """P(all classes above hold) of each class (n, width)."""
        return (self._up(pos) - pos).exp()

    def divergence(self, log_pos: Tensor, log_neg: Tensor, other_pos: Tensor, other_neg: Tensor) -> Tensor:
        """KL(this ‖ other) in nats, without evidence: Σ_k P(k is open) KL(coin of k ‖ other coin); shape (...)."""
        pos, neg, shape = _rows(log_pos, log_neg)
        there_pos, there_neg, _ = _rows(other_pos, other_neg)
        each = pos.exp() * (pos - there_pos) + neg.exp() * (neg - there_neg)
        return (self._opening(pos) * each).sum(-1).view(shape[:-1])

    def sample(self, log_pos: Tensor, log_neg: Tensor, n: int = 1, generator: Generator | None = None) -> Tensor:
        """n independent labels for each row, exactly in proportion to probability; bool (n, ..., width)."""
        pos, neg, shape = _rows(log_pos.detach(), log_neg.detach())
        pos, neg = pos.repeat(n, 1), neg.repeat(n, 1)
        known = _Known.of(self, pos, neg)
        out = self._thrown(pos, neg, known, generator)
        if known is not None:
            _strictly(known.impossible, True)
            out = self._until_met(out, pos, neg, known, generator)
        return out.view(n, *shape)

    def _thrown(self, pos: Tensor, neg: Tensor, known: _Known | None, generator: Generator | None) -> Tensor:
        """Labels from coins thrown once; coins that evidence settles are not thrown."""
        coins = torch.rand(pos.shape, generator=generator, dtype=pos.dtype, device=pos.device).log() < pos
        if known is not None:
            coins = (coins | known.holds) & ~known.settled
            if known.doubtful is not None:
                again = torch.rand(pos.shape, generator=generator, dtype=pos.dtype, device=pos.device).log() >= neg
                coins = torch.where(known.doubtful, again, coins)
        return self._up((~coins).float()) < 0.5

    def _until_met(self, out: Tensor, pos: Tensor, neg: Tensor, known: _Known, generator: Generator | None) -> Tensor:
        """Labels that break the evidence are drawn again, until none does."""
        for _ in range(_ROUNDS):
            bad = (out & known.fails).any(-1).nonzero().flatten()
            if not len(bad):
                return out
            out[bad] = self._thrown(pos[bad], neg[bad], known.rows(bad), generator)
        raise DataError(
            f"{_ROUNDS:,} labels were drawn for a row, and none agrees with the classes that are known not to hold\n"
            "Say whether the classes above them hold."
        )

    def mpe(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> tuple[Tensor, Tensor]:
        """The most probable label, bool (..., width), and its log probability (...), see `search`."""
        label, weight, _ = self.search(log_pos, log_neg)
        _strictly(weight == -math.inf, strict)
        return label, weight

    def search(self, log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The most probable label found, bool (..., width), its log probability (...), and whether that is proven."""
        pos, neg, shape = _rows(log_pos, log_neg)
        holds, fails = neg == -math.inf, pos == -math.inf
        true, false = (part.detach().double().cpu().numpy() for part in (_coin_of(pos, neg), _coin_of(neg, pos)))
        found, proven = self.closures.most_probable(true, false, holds.cpu().numpy(), fails.cpu().numpy())
        label = torch.from_numpy(found).to(pos.device)
        weight = self._weight(label, pos, neg)
        label = label & (weight > -math.inf).unsqueeze(-1)
        proven_ = torch.from_numpy(proven).to(pos.device)
        return label.view(shape), weight.view(shape[:-1]), proven_.view(shape[:-1])

    def _weight(self, label: Tensor, pos: Tensor, neg: Tensor) -> Tensor:
        """log probability of labels (n, width), −inf for those that break a rule or the evidence."""
        open_ = self.open(label)
        out = pos.masked_fill(~label, 0).sum(-1) + neg.masked_fill(label | ~open_, 0).sum(-1)
        against = (label & (~open_ | (pos == -math.inf))) | (~label & (neg == -math.inf))
        return out.masked_fill(against.any(-1), -math.inf)

    def top_k(self, log_pos: Tensor, log_neg: Tensor, k: int, *, strict: bool = False) -> tuple[Tensor, Tensor]:
        """k labels, bool (..., k, width), and their log probabilities (..., k), the first that of `mpe`.

        The others are the most probable found by changing one class, and what has to follow, in those before: a class
        that holds, or one of the most probable that do not. They are valid, all different and in order, but not proven
        to be the next best. Where fewer are found, the rest have −inf.
        """
        pos, neg, shape = _rows(log_pos.detach(), log_neg.detach())
        best, weight, _ = self.search(pos, neg)
        _strictly(weight == -math.inf, strict)
        labels = pos.new_zeros(len(pos), k, self.width, dtype=torch.bool)
        weights = pos.new_full((len(pos), k), -math.inf)
        for row in range(len(pos)):
            for place, (log_p, label) in enumerate(self._near(best[row], pos[row], neg[row], k)):
                labels[row, place], weights[row, place] = label, log_p
        return labels.view(*shape[:-1], k, self.width), weights.view(*shape[:-1], k)

    def _near(self, best: Tensor, pos: Tensor, neg: Tensor, k: int) -> list[tuple[float, Tensor]]:
        """The best label and the next best found around it, by log probability."""
        found = {best.numpy().tobytes(): (float(self._weight(best[None], pos[None], neg[None])), best)}
        done: set[bytes] = set()
        likely = self._up(pos[None])[0].topk(min(self.width, _LIKELY + int(best.sum()))).indices
        while True:
            ranked = sorted(((p, key) for key, (p, _) in found.items() if p > -math.inf), reverse=True)[:k]
            todo = [key for _, key in ranked if key not in done]
            if not todo:
                return [found[key] for _, key in ranked]
            done.add(todo[0])
            changed = self._changed(found[todo[0]][1], likely)
            weights = self._weight(changed, pos.expand_as(changed), neg.expand_as(changed))
            top = weights.topk(min(k, len(weights)))
            for log_p, i in zip(top.values.tolist(), top.indices.tolist()):
                found.setdefault(changed[i].numpy().tobytes(), (log_p, changed[i]))

    def _changed(self, label: Tensor, likely: Tensor) -> Tensor:
        """Labels with one of the `likely` classes added, or one taken away, and what has to follow: bool (n, width)."""
        held, ones = label.numpy(), np.eye(self.width, dtype=bool)
        fresh = self.implications.upward(ones[likely[~label[likely]].numpy()])
        gone = self.implications.downward(ones[held])
        return torch.from_numpy(np.concatenate([held | fresh, held & ~gone]))

    @cached_property
    def plain(self) -> PlainWeights:
        """The same labels weighed by the product over all classes, open or not: for decisions, which add up gains."""
        return PlainWeights(self)

    # ---- shared ----

    def _independent(self, pos: Tensor, neg: Tensor, what: str, strict: bool) -> _Known | None:
        """The evidence, if coins are independent given it."""
        known = _Known.of(self, pos, neg)
        if known is not None:
            _strictly(known.impossible, strict)
            if known.doubtful is not None:
                row = int(known.doubtful.any(-1).int().argmax())
                raise DataError(
                    f"{what} given that class {int(known.doubtful[row].int().argmax())} of row {row} does not hold: it "
                    "is not known whether the classes above it hold, and then classes depend on each other\n"
                    "Say whether the classes above it hold, or draw samples, which are exact."
                )
        return known


class PlainWeights:
    """Labels that obey implications, weighed by the product of the weights of all classes."""

    def __init__(self, cascade: Cascade) -> None:
        self.cascade = cascade

    def mpe(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> tuple[Tensor, Tensor]:
        """The heaviest label, bool (..., width), and its log weight (...): a maximum closure, by minimum cut."""
        pos, neg, shape = _rows(log_pos.detach(), log_neg.detach())
        holds, fails = neg == -math.inf, pos == -math.inf
        gain = (pos.masked_fill(fails, 0) - neg.masked_fill(holds, 0)).double().cpu().numpy()
        found = self.cascade.closures.heaviest(gain, holds.cpu().numpy(), fails.cpu().numpy())
        label = torch.from_numpy(found).to(pos.device)
        weight = torch.where(label, pos, neg).sum(-1)
        weight = weight.masked_fill((label & ~self.cascade.open(label)).any(-1), -math.inf)
        _strictly(weight == -math.inf, strict)
        label = label & (weight > -math.inf).unsqueeze(-1)
        return label.view(shape), weight.view(shape[:-1])


# ---- evidence ----


class _Known:
    """What evidence says about rows (n, width): classes that hold and fail for certain, and rows it contradicts (n,).

    `settled` classes fail though all above them hold. `doubtful` ones fail, and it is not known whether those above
    hold; None if there are none.
    """

    def __init__(self, holds: Tensor, fails: Tensor, settled: Tensor, doubtful: Tensor | None) -> None:
        self.holds, self.fails, self.settled, self.doubtful = holds, fails, settled, doubtful
        self.impossible = (holds & fails).any(-1)

    @staticmethod
    def of(cascade: Cascade, pos: Tensor, neg: Tensor) -> _Known | None:
        holds, fails = neg.detach() == -math.inf, pos.detach() == -math.inf
        free = ~(holds | fails)
        if bool(free.any()):
            _require_probabilities(pos, neg, free)
            if not bool(holds.any() | fails.any()):
                return None
            spread = cascade.implications
            holds = torch.from_numpy(spread.upward(holds.cpu().numpy())).to(pos.device)
            fails = torch.from_numpy(spread.downward(fails.cpu().numpy())).to(pos.device)
        open_ = cascade.open(holds)
        if not bool(free.any()):
            fails = fails | (holds & ~open_)  # a class without one above it: the row is impossible
            return _Known(holds, fails, fails & open_, None)
        top = fails & ~(cascade._parents(fails.float()) > 0.5)
        doubtful = top & ~open_ & ~(holds & fails).any(-1, keepdim=True)
        return _Known(holds, fails, top & open_, doubtful if bool(doubtful.any()) else None)

    def rows(self, which: Tensor) -> _Known:
        """The same of some rows."""
        doubtful = None if self.doubtful is None else self.doubtful[which]
        return _Known(self.holds[which], self.fails[which], self.settled[which], doubtful)


def _require_probabilities(pos: Tensor, neg: Tensor, free: Tensor) -> None:
    """An error for weights of which those of a class do not add up to one; one row tells for all."""
    row = int(free.any(-1).int().argmax())
    total = torch.logaddexp(pos[row].detach(), neg[row].detach())[free[row]]
    if not bool((total.abs() < _OFF).all()):
        raise DataError(
            "the weights are not probabilities: implications without a circuit are weighted class by class, from the "
            "top down\nUse prior=None or prior='auto' with such rules, or compile them: space.compile(budget_s=600)."
        )


def _strictly(impossible: Tensor, strict: bool) -> None:
    if strict and bool(impossible.any()):
        row = int(impossible.flatten().int().argmax())
        raise DataError(
            f"{int(impossible.sum())} rows have no valid label that agrees with the evidence, first row {row}\n"
            "Find them with space.check(y), and correct or drop them."
        )


# ---- numbers ----


class _Matrix:
    """A sparse matrix S (width, width) of ones that maps rows x (n, width) to x Sᵀ, and gradients back."""

    def __init__(self, matrix: sp.sparray) -> None:
        self.ahead, self.back = sp.csr_array(matrix), sp.csr_array(matrix.T)
        self.sizes = torch.from_numpy(np.diff(self.ahead.indptr)).float()
        self._tensors: dict[tuple[torch.device, torch.dtype, bool], Tensor] = {}

    def __call__(self, x: Tensor) -> Tensor:
        return _Product.apply(x, self, True)

    def tensor(self, like: Tensor, ahead: bool) -> Tensor:
        key = like.device, like.dtype, ahead
        if key not in self._tensors:
            m = self.ahead if ahead else self.back
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
                self._tensors[key] = torch.sparse_csr_tensor(
                    torch.from_numpy(m.indptr.astype(np.int64)), torch.from_numpy(m.indices.astype(np.int64)),
                    torch.from_numpy(m.data), m.shape, dtype=like.dtype, device=like.device, check_invariants=True,
                )  # fmt: skip
        return self._tensors[key]

    def __getstate__(self) -> dict[str, NDArray[np.float32]]:
        return {**self.__dict__, "_tensors": {}}


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix, ahead):  # type: ignore[no-untyped-def]
        ctx.matrix, ctx.ahead = matrix, ahead
        return (matrix.tensor(x, ahead) @ x.t()).t()

    @staticmethod
    def backward(ctx, *gradients):  # type: ignore[no-untyped-def]
        return _Product.apply(gradients[0], ctx.matrix, not ctx.ahead), None, None


def _rows(log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, Tensor, torch.Size]:
    """Weights as matrices (n, width), and the shape they had."""
    pos, neg = torch.broadcast_tensors(log_pos, log_neg)
    return pos.reshape(-1, pos.shape[-1]), neg.reshape(-1, pos.shape[-1]), pos.shape


def _log_rest(log_p: Tensor) -> Tensor:
    """log(1 − p), accurate at both ends, for log p below 0."""
    log_p = log_p.clamp_max(-1e-12)
    near = log_p > -0.69
    return torch.where(
        near, torch.log(-torch.expm1(log_p.masked_fill(~near, -0.5))),
        torch.log1p(-log_p.masked_fill(near, -1.0).exp()),
    )  # fmt: skip


def _coin_of(this: Tensor, other: Tensor) -> Tensor:
    """log weights of one side of coins, also where evidence has set them to −inf and the other side knows."""
    hidden = (this == -math.inf) & (other > -math.inf)
    return torch.where(hidden, _log_rest(other.masked_fill(~hidden, -1.0)), this)


def _coin_entropy(pos: Tensor, neg: Tensor) -> Tensor:
    return -(pos.exp() * pos + neg.exp() * neg)
