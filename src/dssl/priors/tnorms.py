"""Fuzzy relaxations of the same rules, for comparison: each rule's formula is evaluated with a t-norm.

Unlike a circuit's, these values depend on how a rule is written, and where a variable occurs twice they are not
probabilities. A truth value t is held as the pair (log t, log(1−t)), so nothing cancels at either end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import torch
from torch import Tensor

from dssl.logic.language import formula as form
from dssl.logic.language.formula import Formula, Truth, compare_holds
from dssl.logic.language.parser import Rule
from dssl.logic.language.quoting import Value
from dssl.logic.language.structures.patterns import Structure
from dssl.logic.space import LabelSpace
from dssl.priors.prior import Prior

_NEVER = -1e15  # log of "impossible": finite, so that gradients beside it stay numbers

Degree = tuple[Tensor, Tensor]  # log t and log(1−t) of a truth value t, each (...)


# ---- three logics ----


@dataclass(frozen=True)
class Logic:
    """A t-norm: conjunction, and "at least k of these"; the rest follows by negation, 1 − t."""

    conjunction: Callable[[list[Degree]], Degree]
    at_least: Callable[[int, list[Degree]], Degree]

    def disjunction(self, parts: list[Degree]) -> Degree:
        return _not(self.conjunction([_not(part) for part in parts]))

    def iff(self, a: Degree, b: Degree) -> Degree:
        return self.conjunction([self.disjunction([_not(a), b]), self.disjunction([_not(b), a])])


def _not(a: Degree) -> Degree:
    return a[1], a[0]


def _product(parts: list[Degree]) -> Degree:
    def both(a: Degree, b: Degree) -> Degree:
        return a[0] + b[0], torch.logaddexp(a[1], a[0] + b[1])

    return reduce(both, parts)


def _product_at_least(k: int, parts: list[Degree]) -> Degree:
    """P(at least k) of independent events: counts 0, …, k−1, and k or more."""
    log_p = [torch.zeros_like(parts[0][0])]
    for true, false in parts:
        grown = [log_p[0] + false]
        grown += [torch.logaddexp(stay + false, up + true) for up, stay in pairwise(log_p)]
        grown.append(log_p[-1] + true)
        if len(grown) > k + 1:  # k or more stay k or more
            grown[k:] = [torch.logaddexp(grown[k], grown[k + 1])]
        log_p = grown
    return log_p[k], torch.stack(log_p[:k]).logsumexp(0)


def _goedel(parts: list[Degree]) -> Degree:
    return reduce(torch.minimum, (t for t, _ in parts)), reduce(torch.maximum, (f for _, f in parts))


def _goedel_at_least(k: int, parts: list[Degree]) -> Degree:
    """The k-th largest truth value: the best of all conjunctions of k."""
    true, false = (torch.stack(side) for side in zip(*parts))
    odd = true.isnan().any(0)  # which sorting would put at the wrong end
    true, false = true.masked_fill(odd, math.nan), false.masked_fill(odd, math.nan)
    return true.sort(0, descending=True).values[k - 1], false.sort(0).values[k - 1]


def _lukasiewicz(parts: list[Degree]) -> Degree:
    """max(0, Σ t − n + 1), that is 1 − min(1, Σ (1−t))."""
    return _bounded(torch.stack([f for _, f in parts]).logsumexp(0))


def _lukasiewicz_at_least(k: int, parts: list[Degree]) -> Degree:
    """Σ t − k + 1 between 0 and 1: the disjunction for k = 1, the conjunction for k = n."""
    missing = torch.stack([f.exp() for _, f in parts]).sum(0) - (len(parts) - k)  # 1 − t before it is bounded
    tiny = torch.finfo(missing.dtype).tiny
    return _bounded(torch.where(missing <= 0, _NEVER, missing.clamp_min(tiny).log()))


def _bounded(log_false: Tensor) -> Degree:
    """The degree whose complement has this logarithm, cut at 1."""
    tiny = torch.finfo(log_false.dtype).tiny
    inside = log_false.clamp_max(0)
    true = -torch.expm1(inside)
    return torch.where(true <= 0, _NEVER, true.clamp_min(tiny).log()), inside  # NaN is neither, and stays NaN


LOGICS = {
    "product": Logic(_product, _product_at_least),
    "goedel": Logic(_goedel, _goedel_at_least),
    "lukasiewicz": Logic(_lukasiewicz, _lukasiewicz_at_least),
}


# ---- formulas ----


class _Reading:
    """One batch of predictions: the log probability of every value by variable, and the degree of formulas."""

    def __init__(self, logic: Logic, space: LabelSpace, values: dict[str, list[Tensor]]) -> None:
        self.logic, self.values = logic, values
        self.numbers = {v.name: v.values for v in space.variables}
        self.like = next(iter(values.values()))[0]

    def degree(self, formula: Formula) -> Degree:
        read = self.degree
        match formula:
            case Truth(value):
                return self.constant(value)
            case form.Is(name):
                return self.values[name][1], self.values[name][0]
            case form.In(name, wanted):
                inside = [value in wanted for value in self.numbers[name]]
                return self.split(zip(inside, self.values[name]))
            case form.Compare():
                return self.compare(formula)
            case form.Not(part):
                return _not(read(part))
            case form.And(parts):
                return self.logic.conjunction([read(part) for part in parts])
            case form.Or(parts):
                return self.logic.disjunction([read(part) for part in parts])
            case form.Implies(premise, conclusion):
                return self.logic.disjunction([_not(read(premise)), read(conclusion)])
            case form.Iff(left, right):
                return self.logic.iff(read(left), read(right))
            case form.Xor(parts):
                return reduce(lambda a, b: _not(self.logic.iff(a, b)), [read(part) for part in parts])
            case form.Count(op, k, parts):
                return self.count(op, k, [read(part) for part in parts])
            case Structure():
                return read(formula.lowered(self.numbers))
        raise TypeError(f"{type(formula).__name__} has no fuzzy reading")

    def constant(self, value: bool) -> Degree:
        sure, never = torch.zeros_like(self.like), torch.full_like(self.like, _NEVER)
        return (sure, never) if value else (never, sure)

    def split(self, cases: Iterable[tuple[bool, Tensor]]) -> Degree:
        """The log probability of the cases that hold and of those that do not, from pairs (holds, log p)."""
        sides: dict[bool, list[Tensor]] = {True: [], False: []}
        for holds, log_p in cases:
            sides[holds].append(log_p)
        never = torch.full_like(self.like, _NEVER)
        true, false = (torch.stack([never, *sides[key]]).logsumexp(0) for key in (True, False))
        return true, false

    def compare(self, formula: form.Compare) -> Degree:
        """An atom: its probability, with the variables independent. Sums are built up variable by variable."""
        weights, constant = formula.weights()
        log_p: dict[int, Tensor] = {constant: torch.zeros_like(self.like)}
        for counted, c in weights.items():
            terms: dict[int, list[Tensor]] = {}
            cases = self.cases(counted)
            for so_far, p in log_p.items():
                for number, log_value in cases:
                    terms.setdefault(so_far + c * int(number), []).append(p + log_value)
            log_p = {value: torch.stack(parts).logsumexp(0) for value, parts in terms.items()}
        return self.split((compare_holds(formula.op, value), p) for value, p in log_p.items())

    def cases(self, counted: str | Formula) -> list[tuple[Value, Tensor]]:
        """The numbers that a variable can be, or 0 and 1 for a formula, each with its log probability."""
        if isinstance(counted, Formula):
            true, false = self.degree(counted)
            return [(False, false), (True, true)]
        return list(zip(self.numbers[counted], self.values[counted]))

    def count(self, op: str, k: int, parts: list[Degree]) -> Degree:
        def at_least(m: int) -> Degree:
            if m <= 0 or m > len(parts):
                return self.constant(m <= 0)
            return self.logic.at_least(m, parts)

        if op == ">=":
            return at_least(k)
        at_most = _not(at_least(k + 1))
        return at_most if op == "<=" else self.logic.conjunction([at_least(k), at_most])

    def rule(self, rule: Rule) -> Degree:
        """A rule's degree; a soft one holds with probability p and is broken with 1 − p."""
        true, false = self.degree(rule.formula)
        if rule.probability is None:
            return true, false
        yes, no = math.log(rule.probability), math.log1p(-rule.probability)
        return torch.logaddexp(true + yes, false + no), torch.logaddexp(false + yes, true + no)


class TNormPrior(Prior):
    """Fuzzy rules: the conjunction of all rules by a t-norm.

    log q(θ) = log ⊗_r t_r(θ)

    * `logic`: "product" (and: ab, or: a+b−ab), "goedel" (min, max) or "lukasiewicz" (max(0, a+b−1), min(1, a+b)).

    Negation is 1−t and a → b is ¬a ∨ b. Atoms have their probability: θ_k, or the sum of θ over the values that
    satisfy a statement about categorical or integer variables. Observed values replace θ. Łukasiewicz truth is exactly
    0 over large regions; log q is then the log of the smallest float and its gradient 0.
    """

    def __init__(self, space: LabelSpace, logic: str = "product") -> None:
        super().__init__(space)
        if logic not in LOGICS:
            raise ValueError(f"there is no logic '{logic}': choose one of {', '.join(LOGICS)}")
        if not space.rules:
            raise ValueError(f"TNormPrior relaxes rules, and {space!r} has none: add rules, or use DeterministicPrior")
        self.logic = logic

    def log_prob(self, logits: Tensor, evidence: Tensor | None = None) -> Tensor:
        values = self.predictive(logits, evidence).observed
        if evidence is not None:
            values = [_given(value) for value in values]
        by_name = {
            self.space.variables[i].name: list(log_p.unbind(-1))
            for group, value in zip(self.blocks.groups, values)
            for i, log_p in zip(group.variables, value.unbind(-2))
        }
        reading = _Reading(LOGICS[self.logic], self.space, by_name)
        degrees = [reading.rule(rule) for rule in self.space.rules]
        log_q = LOGICS[self.logic].conjunction(degrees)[0]
        floor = math.log(torch.finfo(log_q.dtype).tiny) if self.logic == "lukasiewicz" else -math.inf
        return log_q.masked_fill(log_q < _NEVER / 2, floor)


def _given(value: Tensor) -> Tensor:
    """log θ (..., K) given what was observed, with impossible values at a finite log."""
    none = (value == -math.inf).all(-1, keepdim=True)
    known = value.masked_fill(none, 0).log_softmax(-1)
    return known.masked_fill((value == -math.inf), _NEVER)
