"""ClauseRelaxation (`relaxation="clauses"`): a small circuit for each rule, where one for all is out of reach."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Generator, Tensor

from dssl.circuits.circuit import Circuit
from dssl.circuits.compile.budget import share_of_memory
from dssl.circuits.evaluate.layered import sum_of_others
from dssl.errors import BudgetError
from dssl.logic.language.parser import Rule
from dssl.logic.space import LabelSpace


class ClauseRelaxation:
    """An approximation of a circuit: Σ_r log P(rule r), as if the rules were independent of each other.

    >>> import torch
    >>> from dssl.circuits.relaxation import ClauseRelaxation
    >>> space = LabelSpace('''
    ... legs, fins, wings
    ... legs -> !fins
    ... fins -> !wings
    ... ''')
    >>> half = torch.full((3,), 0.5).log()
    >>> relaxed, exact = ClauseRelaxation(space), space.compile()
    >>> f"{relaxed.log_wmc(half, half).exp():.4f} for {exact.log_wmc(half, half).exp():.4f}"
    '0.5625 for 0.6250'

    Each P(rule r) is exact, and soft rules count with their odds. The sum is exact where no two rules share a variable,
    and zero exactly where some rule is broken for certain. It answers no other question. All its circuits
    together are compiled within one budget, see `LabelSpace.compile`.
    """

    def __init__(
        self,
        space: LabelSpace,
        *,
        budget_s: float = 60.0,
        budget_nodes: int = 20_000_000,
        budget_bytes: int | None = None,
        progress: bool = False,
    ) -> None:
        self.space = space
        left = _Left(budget_s, budget_nodes, share_of_memory() if budget_bytes is None else budget_bytes, progress)
        self.parts = tuple(_RuleAlone(space, rule, left) for rule in space.rules)

    def __repr__(self) -> str:
        return f"ClauseRelaxation({len(self.parts)} rules as if independent: an approximation)"

    @property
    def width(self) -> int:
        return self.space.width

    def log_wmc(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """Approximate log of the sum, over valid labels, of the product of literal weights; shape (...).

        The constant Σ_k a_k of MATH §4, identity 1, and the log probability of each rule under weights that sum to one.
        """
        log_pos, log_neg = torch.broadcast_tensors(log_pos, log_neg)
        positive, negative, constant = [], [], log_pos.new_zeros(log_pos.shape[:-1])
        for variable, (start, stop) in zip(self.space.variables, self.space.spans):
            pos, neg = log_pos[..., start:stop], log_neg[..., start:stop]
            values = torch.cat([neg, pos], -1) if variable.binary else pos + sum_of_others(neg)
            values, a = _normalised(values)
            constant = constant + a
            positive.append(values[..., 1:] if variable.binary else values)
            negative.append(values[..., :1] if variable.binary else torch.zeros_like(values))
        literals = torch.cat(positive, -1), torch.cat(negative, -1)
        total = constant
        for part in self.parts:
            total = total + part.log_probability(*literals, strict=strict)
        # Filling anew cuts the gradient of rows without a valid label.
        return total.masked_fill(total == -math.inf, -math.inf)

    # ---- what it cannot answer ----

    def marginals(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        self._refuse("marginals")

    def mpe(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> tuple[Tensor, Tensor]:
        self._refuse("the most probable label")

    def top_k(self, log_pos: Tensor, log_neg: Tensor, k: int, *, strict: bool = False) -> tuple[Tensor, Tensor]:
        self._refuse("the k most probable labels")

    def sample(self, log_pos: Tensor, log_neg: Tensor, n: int = 1, generator: Generator | None = None) -> Tensor:
        self._refuse("samples")

    def entropy(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        self._refuse("the entropy")

    def count(self) -> int:
        self._refuse("the number of valid labels")

    def _refuse(self, what: str) -> NoReturn:
        raise RuntimeError(
            f"{self!r} cannot give {what}: it knows each rule alone, not the labels that obey them all. "
            "Use the exact circuit, space.compile(), with a larger budget or fewer rules; "
            "of the priors, ExclusivityPrior and DeterministicPrior need log_wmc only."
        )


@dataclass
class _Left:
    """What is left of a budget after the rules so far."""

    seconds: float
    nodes: int
    nbytes: int
    progress: bool

    def compiled(self, space: LabelSpace) -> Circuit:
        if self.seconds <= 0:
            raise self._used_up(space, "its seconds are used up")
        began = time.thread_time()
        try:
            circuit = space.compile(
                budget_s=self.seconds, budget_nodes=self.nodes, budget_bytes=self.nbytes, progress=self.progress
            )
        except BudgetError as error:
            raise self._used_up(space, str(error).partition(". Raise")[0]) from None
        self.seconds -= time.thread_time() - began
        self.nodes -= circuit.nodes
        self.nbytes -= sum(array.nbytes for array in (circuit.kind, circuit.literal, circuit.ptr, circuit.child))
        if min(self.nodes, self.nbytes) < 0:
            raise self._used_up(space, f"its circuit has {circuit.nodes:,} nodes")
        return circuit

    def _used_up(self, space: LabelSpace, reason: str) -> BudgetError:
        return BudgetError(
            f"'{space.rules[0].text}' on its own takes more than other rules left of the budget: {reason}\n"
            "Raise budget_s, budget_nodes or budget_bytes, or drop or split rules."
        )


class _RuleAlone:
    """One rule and its circuit over the variables it mentions."""

    def __init__(self, space: LabelSpace, rule: Rule, left: _Left) -> None:
        names = rule.formula.names() or {space.variables[0].name}  # a constant rule mentions none
        kept = [i for i, variable in enumerate(space.variables) if variable.name in names]
        self.circuit = left.compiled(LabelSpace.of([space.variables[i] for i in kept], (rule,)))
        self.columns = torch.tensor([column for i in kept for column in range(*space.spans[i])])

    def log_probability(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool) -> Tensor:
        columns = self.columns.to(log_pos.device)
        return self.circuit.log_wmc(log_pos.index_select(-1, columns), log_neg.index_select(-1, columns), strict=strict)


def _normalised(values: Tensor) -> tuple[Tensor, Tensor]:
    """Log weights (..., K) that sum to one, and the log of what they summed to, (...); a zero sum is left alone."""
    none = (values == -math.inf).all(-1, keepdim=True)
    a = values.masked_fill(none, 0).logsumexp(-1, keepdim=True)
    return values - a.masked_fill(none, 0), a.masked_fill(none, -math.inf).squeeze(-1)
