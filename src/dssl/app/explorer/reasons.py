"""Why a label was changed: the rules that the raw prediction breaks, and for each changed variable what forbids it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dssl.circuits.circuit import Circuit
from dssl.logic.formula import Table
from dssl.logic.space import LabelSpace

MOST = 20  # changed variables that are explained


@dataclass(frozen=True)
class Reason:
    """Why one variable did not keep its raw value.

    `forced`: the raw value contradicts `kept`, variables that did keep theirs, by `rules`; both are as few as can be.
    Otherwise the raw value could have stayed, at a price: `rules` are those that the raw label breaks together, soft
    ones if no other, and the most probable valid label that keeps the value is `times` less probable than the final.
    """

    variable: int
    forced: bool
    rules: tuple[int, ...]
    kept: tuple[int, ...] = ()
    times: float | None = None


def broken(space: LabelSpace, label: Sequence[int], *, soft: bool = False) -> list[int]:
    """The hard, or the soft, rules that a label, one value index a variable, breaks."""
    values = {v.name: v.values for v in space.variables}
    table = Table({v.name: np.array([i]) for v, i in zip(space.variables, label)}, values, 1)
    return [
        i
        for i, rule in enumerate(space.rules)
        if (rule.probability is not None) == soft and rule.formula.kleene(table)[1][0]
    ]


def reasons(
    space: LabelSpace, circuit: Circuit, literals: tuple[Tensor, Tensor], raw: Sequence[int], final: Sequence[int]
) -> list[Reason]:
    """A reason for each variable whose value differs, for the first few; `literals` are log weights (1, width)."""
    same = [v for v in range(len(raw)) if raw[v] == final[v]]
    changed = [v for v in range(len(raw)) if raw[v] != final[v]]
    out = []
    for variable in changed[:MOST]:
        rules = space.solver.conflict([*_literals(space, same, raw), *_literals(space, [variable], raw)])
        if rules is not None:
            out.append(Reason(variable, True, tuple(rules), _needed(space, rules, variable, same, raw)))
            continue
        together = space.solver.conflict(_literals(space, range(len(raw)), raw)) or broken(space, raw, soft=True)
        out.append(Reason(variable, False, tuple(together), times=_price(space, circuit, literals, variable, raw)))
    return out


def _literals(space: LabelSpace, variables: Sequence[int], values: Sequence[int]) -> list[int]:
    """SAT literals "these variables have these values"."""
    offsets = space.constraints.offsets
    return [space.solver.literal(offsets[v] + values[v]) for v in variables]


def _needed(
    space: LabelSpace, rules: Sequence[int], variable: int, same: Sequence[int], raw: Sequence[int]
) -> tuple[int, ...]:
    """The fewest of the kept variables (no one of them can be spared) with which the rules forbid the raw value."""
    mentioned = {name for r in rules for name in space.rules[r].formula.names()}
    needed = [v for v in same if space.variables[v].name in mentioned]
    for v in tuple(needed):
        rest = [w for w in needed if w != v]
        if not space.solver.satisfiable(_literals(space, [*rest, variable], raw), rules):
            needed = rest
    return tuple(needed)


def _price(
    space: LabelSpace, circuit: Circuit, literals: tuple[Tensor, Tensor], variable: int, raw: Sequence[int]
) -> float | None:
    """How many times less probable the best valid label is that keeps the raw value of a variable."""
    start, stop = space.spans[variable]
    log_pos, log_neg = (weights.clone() for weights in literals)
    if space.variables[variable].binary:
        (log_neg if raw[variable] else log_pos)[:, start] = -math.inf
    else:
        others = torch.arange(start, stop) != start + raw[variable]
        log_pos[:, start:stop] = log_pos[:, start:stop].masked_fill(others, -math.inf)
    best, kept = circuit.mpe(*literals)[1], circuit.mpe(log_pos, log_neg)[1]
    times = float((best - kept).exp())
    return times if math.isfinite(times) else None
