"""Superset: some rules in a circuit, all of them in every label, where one circuit for all is out of reach.

The labels V′ that obey the rules in the circuit include all valid ones, V ⊆ V′. Numbers are those of V′: log WMC,
marginals, entropy. They are sound for training (the paper's Eq. 6), and exact for the rules that are in the circuit.

Labels obey all rules. Labels of V′ are looked at in order of weight, and the first that obeys the others is exactly the
heaviest of V (MATH §8). Where many come before it, a search goes on with V′ as its bound: it decides whether a variable
in a broken rule keeps its value, a SAT solver propagates what follows, and the circuit gives the heaviest label
of V′ that is left. It ends with a proof, or after so many of these with the best valid label found.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from dssl.circuits.circuit import Circuit
from dssl.errors import BudgetError, DataError
from dssl.logic.language.formula import And
from dssl.logic.language.parser import Rule
from dssl.logic.reasoning.solver import Solver
from dssl.logic.space import LabelSpace

FIRST, SEARCHED, UNPROVEN = range(3)  # how a label was found

_IN_ORDER = 32  # labels of V′ that are looked at in order
_MOST = 300  # steps of a search
_DRAWN, _AT_ONCE = 20_000, 1000  # samples of V′ for one of V, at most, and at a time
_SAME = 1e-9
_NODES = 100_000  # of a circuit: training asks it at every step


class Superset:
    """Answers for a space of which only some rules are compiled. Numbers are those of V′; labels obey every rule.

    >>> import torch
    >>> space = LabelSpace("a, b, c\\na | b\\nexactly(1, a, b, c)")
    >>> half = Superset(space, (0,), LabelSpace("a, b, c\\na | b").compile())
    >>> half
    Superset(1 of 2 rules in the circuit, all rules in labels)
    >>> pos, neg = torch.tensor([0.9, 0.8, 0.3]).log(), torch.tensor([0.1, 0.2, 0.7]).log()
    >>> half.mpe(pos, neg)[0]
    tensor([ True, False, False])

    `kept`: which of `parts_of(space.rules)` the circuit has. Weights and shapes are those of a `Circuit`. Soft rules
    that are left out have no weight.
    """

    def __init__(self, space: LabelSpace, kept: Iterable[int], circuit: Circuit) -> None:
        self.space, self.kept, self.circuit = space, tuple(kept), circuit
        self.parts = len(parts_of(space.rules))

    def __repr__(self) -> str:
        return f"Superset({self.said}, all rules in labels)"

    @property
    def said(self) -> str:
        return f"{len(self.kept):,} of {self.parts:,} rules in the circuit"

    @property
    def width(self) -> int:
        return self.space.width

    # ---- numbers: those of V′ ----

    def log_wmc(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """log of the sum of weights over V′, never below that over V; shape (...)."""
        return self.circuit.log_wmc(log_pos, log_neg, strict=strict)

    def marginals(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """P(column is true | V′) of each column; shape (..., width). Samples tell those of V."""
        return self.circuit.marginals(log_pos, log_neg, strict=strict)

    def entropy(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """Entropy of the distribution over V′ in nats; shape (...)."""
        return self.circuit.entropy(log_pos, log_neg, strict=strict)

    # ---- labels: those of V ----

    def mpe(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> tuple[Tensor, Tensor]:
        """The heaviest label of V found, bool (..., width), and its log weight (...), see `search`."""
        label, weight, _ = self.search(log_pos, log_neg)
        _strictly(weight, strict)
        return label, weight

    def search(self, log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The heaviest label of V found, its log weight, and how it was found (...).

        FIRST: it is the heaviest of V′. SEARCHED: proven to be the heaviest of V. UNPROVEN: valid, and the best found
        before the search was stopped. Where no label is left, the weight is −inf.
        """
        pos, neg, shape = _rows(log_pos, log_neg)
        label, weight = self.circuit.mpe(pos, neg)
        how = torch.full(weight.shape, FIRST)
        bad = self._broken(label, weight)
        if len(bad):
            labels, weights = self.circuit.top_k(pos[bad], neg[bad], _IN_ORDER)
            for row, several, heavy in zip(bad.tolist(), labels, weights):
                fine = self._first(several, heavy)
                if fine is None:
                    found = _Search(self, pos[row], neg[row], label[row], float(weight[row])).run()
                    label[row], weight[row], how[row] = found
                else:
                    label[row], weight[row], how[row] = several[fine], heavy[fine], SEARCHED
        return label.view(shape), weight.view(shape[:-1]), how.view(shape[:-1])

    def _first(self, labels: Tensor, weights: Tensor) -> int | None:
        """The place of the first valid label; of the first that is none, if V′ has no more; None if it goes on."""
        used = weights > -math.inf
        fine = (~self.invalid(labels, used) | ~used).nonzero().flatten()
        return int(fine[0]) if len(fine) else None

    def top_k(self, log_pos: Tensor, log_neg: Tensor, k: int, *, strict: bool = False) -> tuple[Tensor, Tensor]:
        """Up to k of the heaviest labels of V, bool (..., k, width), heaviest first, and their log weights (..., k).

        They are those among the heaviest of V′, and the one of `mpe`. Where fewer are found, the rest have −inf.
        """
        pos, neg, shape = _rows(log_pos, log_neg)
        best, weight, _ = self.search(pos, neg)
        _strictly(weight, strict)
        labels, weights = self.circuit.top_k(pos, neg, k + _IN_ORDER)
        out = torch.zeros(len(pos), k, self.width, dtype=torch.bool)
        heavy = weights.new_full((len(pos), k), -math.inf)
        for row in range(len(pos)):
            used = weights[row] > -math.inf
            fine = (~self.invalid(labels[row], used) & used).nonzero().flatten()[:k]
            some, much = labels[row][fine], weights[row][fine]
            if not len(fine) and weight[row] > -math.inf:
                some, much = best[row, None], weight[row, None]
            out[row, : len(some)], heavy[row, : len(some)] = some, much
        return out.view(*shape[:-1], k, self.width), heavy.view(*shape[:-1], k)

    def sample(self, log_pos: Tensor, log_neg: Tensor, n: int = 1, generator: Generator | None = None) -> Tensor:
        """n independent labels of V for each row, exactly in proportion to weight; bool (n, ..., width).

        Labels of V′ are drawn until so many obey all rules; if hardly any does, that is a `DataError`.
        """
        pos, neg, shape = _rows(log_pos.detach(), log_neg.detach())
        out = torch.zeros(n, len(pos), self.width, dtype=torch.bool)
        for row in range(len(pos)):
            found = tried = 0
            while found < n:
                if tried >= _DRAWN * max(1, found):
                    raise DataError(
                        f"of {tried:,} labels drawn for a row, only {found} obey the rules that are not in the circuit"
                        "\nAsk for the most probable label, which always obeys them, or compile with a larger "
                        "budget: space.compile(budget_s=600)."
                    )
                drawn = self.circuit.sample(pos[row], neg[row], _AT_ONCE, generator)
                drawn = drawn[~self.invalid(drawn)][: n - found]
                out[found : found + len(drawn), row] = drawn
                found, tried = found + len(drawn), tried + _AT_ONCE
        return out.view(n, *shape)

    # ---- shared ----

    def invalid(self, labels: Tensor, used: Tensor | None = None) -> Tensor:
        """Which labels (n, width) break a rule, bool (n,). Those that are not `used` (n,) are none, and break none."""
        out = torch.zeros(len(labels), dtype=torch.bool)
        rows = torch.arange(len(labels)) if used is None else used.cpu().nonzero().flatten()
        out[rows] = torch.from_numpy(self.space.check(labels.cpu()[rows].float().numpy()).broken.any(axis=1))
        return out

    def _broken(self, label: Tensor, weight: Tensor) -> Tensor:
        """The numbers of the rows whose label breaks a rule."""
        return self.invalid(label, weight > -math.inf).nonzero().flatten()

    @cached_property
    def values(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The value ids that say of each column that it is true, and that it is false; −1 for categorical ones."""
        offsets, true, false = self.space.constraints.offsets, [], []
        for i, variable in enumerate(self.space.variables):
            ids = [offsets[i] + v for v in range(len(variable.values))]
            true += ids[1:] if variable.binary else ids
            false += ids[:1] if variable.binary else [-1] * len(ids)
        return np.array(true), np.array(false)

    @cached_property
    def scopes(self) -> list[list[int]]:
        """The variables that each rule speaks of."""
        place = {variable.name: i for i, variable in enumerate(self.space.variables)}
        return [sorted(place[name] for name in rule.formula.names()) for rule in self.space.rules]


class _Search:
    """Branch and bound for one row of weights (width,); the heaviest label of V′ bounds what a branch can have."""

    def __init__(self, of: Superset, pos: Tensor, neg: Tensor, label: Tensor, weight: float) -> None:
        self.of, self.pos, self.neg, self.label, self.weight = of, pos, neg, label, weight
        self.true, self.false = of.values
        self.best, self.most = torch.zeros_like(label), -math.inf

    def run(self) -> tuple[Tensor, float, int]:
        """The best label, its log weight, and how it was found."""
        with self.of.space.solvers.borrowed() as solver:
            known = self._evidence(solver)
            if not solver.satisfiable(known):
                return self.best, -math.inf, SEARCHED
            self._dive(solver, known)
            line, count = [(-self.weight, 0, known, self.label)], 1
            while line and count < _MOST:
                bound, _, literals, label = heapq.heappop(line)
                if -bound <= self.most + _SAME:
                    return self.best, self.most, SEARCHED
                for branch, found, weight in self._branches(solver, literals, label):
                    if weight > self.most + _SAME:
                        heapq.heappush(line, (-weight, count, branch, found))
                    count += 1
            proven = not line or -line[0][0] <= self.most + _SAME
        return self.best, self.most, SEARCHED if proven else UNPROVEN

    def _evidence(self, solver: Solver) -> list[int]:
        """What weights of zero say, as SAT literals."""
        holds, fails = (self.neg == -math.inf).numpy(), (self.pos == -math.inf).numpy()
        yes = [solver.literal(v) for v in self.true[holds].tolist()]
        return yes + [-solver.literal(v) for v in self.true[fails].tolist()]

    def _dive(self, solver: Solver, known: list[int]) -> None:
        """A first valid label: values of the heaviest label of V′ are kept one after another, surest first."""
        literals = list(known)
        for variable in self._by_regret(range(len(self.of.space.variables)), self.label, None):
            start, stop = self.of.space.spans[variable]
            literal = self._kept(solver, self.label, start, stop)
            if solver.satisfiable([*literals, literal]):
                literals.append(literal)
        assert solver.satisfiable(literals)
        self._offer(self._columns(solver.model()))

    def _branches(self, solver: Solver, literals: list[int], label: Tensor) -> list[tuple[list[int], Tensor, float]]:
        """Two branches: a variable of a broken rule keeps its value, or it does not; those that can have labels."""
        broken = self.of.space.check(label.float().numpy()[None]).broken[0]
        out = solver.ruled_out(literals) or set()
        scope = {v for rule in np.flatnonzero(broken) for v in self.of.scopes[rule]}
        chosen = self._by_regret(sorted(scope), label, out)
        if not chosen:  # all variables of a broken rule are settled
            return []
        literal = self._kept(solver, label, *self.of.space.spans[chosen[0]])
        told = [([*literals, sign * literal], solver.ruled_out([*literals, sign * literal])) for sign in (1, -1)]
        told = [(branch, gone) for branch, gone in told if gone is not None]
        if not told:
            return []
        weights = [self._without(gone) for _, gone in told if gone is not None]
        labels, heavy = self.of.circuit.mpe(torch.stack([p for p, _ in weights]), torch.stack([n for _, n in weights]))
        for one, bad in zip(labels, self.of.invalid(labels).tolist()):
            if not bad:
                self._offer(one)
        return [(branch, one, float(w)) for (branch, _), one, w in zip(told, labels, heavy)]

    def _without(self, gone: set[int]) -> tuple[Tensor, Tensor]:
        """Weights with some values at zero."""
        at = np.zeros(self.of.space.constraints.offsets[-1] + 1, dtype=bool)  # the last is for −1
        at[list(gone)] = True
        true, false = torch.from_numpy(at[self.true]), torch.from_numpy(at[self.false])
        return self.pos.masked_fill(true, -math.inf), self.neg.masked_fill(false, -math.inf)

    def _by_regret(self, variables: Iterable[int], label: Tensor, gone: set[int] | None) -> list[int]:
        """Variables by how much weight is lost if they leave their value in a label, most first; settled ones not."""
        pos, neg = self._without(gone) if gone else (self.pos, self.neg)
        regret = {}
        for variable in variables:
            start, stop = self.of.space.spans[variable]
            if self.of.space.variables[variable].binary:
                this, other = (pos, neg) if label[start] else (neg, pos)
                regret[variable] = float(this[start] - other[start])
            else:
                values = pos[start:stop] + neg[start:stop].sum() - neg[start:stop]
                at = label[start:stop]
                others = values[~at]
                regret[variable] = float(values[at].max() - others.max()) if len(others) else math.inf
        order = sorted(regret, key=lambda v: -regret[v])
        return order if gone is None else [v for v in order if regret[v] < math.inf]

    def _kept(self, solver: Solver, label: Tensor, start: int, stop: int) -> int:
        """The SAT literal that a variable has its value in a label."""
        at = start + int(label[start:stop].int().argmax())
        literal = solver.literal(int(self.true[at]))
        return literal if bool(label[at]) else -literal

    def _columns(self, model: Sequence[int]) -> Tensor:
        """The columns of a solution."""
        out = torch.zeros_like(self.label)
        for variable, (start, _), index in zip(self.of.space.variables, self.of.space.spans, model):
            out[start + (0 if variable.binary else index)] = bool(index) if variable.binary else True
        return out

    def _offer(self, label: Tensor) -> None:
        """Keeps a valid label if it is the heaviest so far."""
        pos, neg = self.pos.masked_fill(~label, -math.inf), self.neg.masked_fill(label, -math.inf)
        weight = float(self.of.circuit.log_wmc(pos, neg))
        if weight > self.most:
            self.best, self.most = label, weight


# ---- as many rules as a budget holds ----


def parts_of(rules: Sequence[Rule]) -> list[Rule]:
    """Rules, with hard conjunctions taken apart: each part may be compiled without the others.

    >>> [part.text for part in parts_of(LabelSpace("a, b, c\\n(a | b) & (b | c)").rules)]
    ['a | b', 'b | c']
    """
    out = []
    for rule in rules:
        if rule.probability is None and isinstance(rule.formula, And):
            out += parts_of([Rule(part, None, rule.line, rule.origin, rule.why) for part in rule.formula.parts])
        else:
            out.append(rule)
    return out


def grow(space: LabelSpace, seconds: float, budget_nodes: int = _NODES) -> Superset:
    """As many rules as can be compiled within these seconds and nodes.

    Rules that share no variables come first, since they multiply no circuits; among those the short ones. Ever more of
    them are compiled together; where that takes too much, fewer; a rule that is too much alone is left out.
    """
    parts, began = parts_of(space.rules), time.thread_time()
    kept: list[int] = []
    circuit, todo = LabelSpace.of(space.variables).compile(), _in_order(parts)
    step = len(todo)
    while todo and (left := seconds - (time.thread_time() - began)) > 0:
        step = min(step, len(todo))
        tried = _compiled(space, [parts[i] for i in sorted([*kept, *todo[:step]])], left / 3, budget_nodes)
        if tried is not None:
            circuit, kept, todo, step = tried, kept + todo[:step], todo[step:], 2 * step
        elif step > 1:
            step = (step + 1) // 2
        else:
            todo = todo[1:]
    return Superset(space, sorted(kept), circuit)


def _compiled(space: LabelSpace, rules: list[Rule], seconds: float, nodes: int) -> Circuit | None:
    try:
        circuit = LabelSpace.of(space.variables, rules).compile(budget_s=seconds, budget_nodes=nodes)
    except BudgetError:
        return None
    return circuit if circuit.nodes <= nodes else None


def _in_order(parts: Sequence[Rule]) -> list[int]:
    """Soft rules, which weigh; then rules in rounds: in each round none shares a variable with another."""
    names = [part.formula.names() for part in parts]
    todo = sorted(range(len(parts)), key=lambda i: (parts[i].probability is None, len(names[i])))
    out: list[int] = []
    while todo:
        seen: set[str] = set()
        later = []
        for i in todo:
            if parts[i].probability is None and seen & names[i]:
                later.append(i)
            else:
                out.append(i)
                seen |= names[i]
        todo = later
    return out


def _rows(log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, Tensor, torch.Size]:
    """Weights as matrices (n, width), and the shape they had."""
    pos, neg = torch.broadcast_tensors(log_pos, log_neg)
    return pos.reshape(-1, pos.shape[-1]).cpu(), neg.reshape(-1, pos.shape[-1]).cpu(), pos.shape


def _strictly(weight: Tensor, strict: bool) -> None:
    if strict and bool((weight == -math.inf).any()):
        row = int((weight == -math.inf).flatten().int().argmax())
        raise DataError(f"no valid label agrees with the evidence of row {row}\nFind such rows with space.check(y).")
