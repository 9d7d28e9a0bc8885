"""Why a label was changed: the rules that the raw prediction breaks, and for each changed variable what forbids it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dssl.app.measures import rules_broken
from dssl.logic.reasoning.solver import Solver
from dssl.logic.space import LabelSpace
from dssl.priors.mixture import Mixture
from dssl.priors.predictive import Predictive

MOST = 20  # changed variables that are explained


@dataclass(frozen=True)
class Reason:
    """Why one variable did not keep its raw value.

    `forced`: by `rules`, the raw value contradicts `kept`, variables that kept theirs; both are minimal.
    Otherwise the raw value could have stayed, at a price: `rules` are those that the raw label breaks together, soft
    ones if there are no others, and the most probable valid label that keeps the value is `times` less probable than
    the final one.
    """

    variable: int
    forced: bool
    rules: tuple[int, ...]
    kept: tuple[int, ...] = ()
    times: float | None = None


def broken(space: LabelSpace, label: Sequence[int], *, soft: bool = False) -> list[int]:
    """The hard, or the soft, rules that a label breaks; the label has one value index per variable."""
    found = rules_broken(space, np.array([label]))[0] if space.rules else ()
    return [i for i, bad in enumerate(found) if bad and (space.rules[i].probability is not None) == soft]


def reasons(space: LabelSpace, p: Predictive | Mixture, raw: Sequence[int], final: Sequence[int]) -> list[Reason]:
    """A reason for each variable whose value differs, for the first few; `p` is the prediction for one row."""
    same = [v for v in range(len(raw)) if raw[v] == final[v]]
    changed = [v for v in range(len(raw)) if raw[v] != final[v]]
    out = []
    with space.solvers.borrowed() as solver:
        says = [solver.literal(offset + value) for offset, value in zip(space.constraints.offsets, raw)]
        for variable in changed[:MOST]:
            rules = solver.conflict([*(says[v] for v in same), says[variable]])
            if rules is not None:
                needed = _needed(space, solver, rules, variable, same, says)
                out.append(Reason(variable, True, tuple(rules), needed))
                continue
            together = solver.conflict(says) or broken(space, raw, soft=True)
            times = _price(space, p, variable, raw[variable])
            out.append(Reason(variable, False, tuple(together), times=times))
    return out


def _needed(
    space: LabelSpace, solver: Solver, rules: Sequence[int], variable: int, same: Sequence[int], says: Sequence[int]
) -> tuple[int, ...]:
    """The fewest kept variables (none of them can be spared) with which the rules forbid the raw value."""
    mentioned = {name for r in rules for name in space.rules[r].formula.names()}
    needed = [v for v in same if space.variables[v].name in mentioned]
    for v in tuple(needed):
        rest = [w for w in needed if w != v]
        if not solver.satisfiable([says[w] for w in (*rest, variable)], rules):
            needed = rest
    return tuple(needed)


def _price(space: LabelSpace, p: Predictive | Mixture, variable: int, value: int) -> float | None:
    """How many times less probable the best valid label is that keeps a value (by its index) of a variable."""
    known = p.theta.new_full((1, space.width), math.nan)
    start = space.spans[variable][0]
    if space.variables[variable].binary:
        known[0, start] = value
    else:
        known[0, start + value] = 1
    kept = p.given(known).best()[1] + p.log_prob(known)
    times = float((p.best()[1] - kept).exp())
    return times if math.isfinite(times) else None
