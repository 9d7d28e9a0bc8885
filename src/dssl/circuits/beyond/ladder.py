"""The ladder: who answers for the rules of a space, decided before anything is trained. No rule set is without a model.

1. The exact circuit, wherever it can be compiled within a budget.
2. Implications without a circle need none: a `Cascade` answers, exactly, about labels decided from the top down.
3. A `Superset`: as many rules in the circuit as the budget holds. Numbers are those of the labels that obey these.

Labels obey every rule on every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dssl.circuits.beyond.cascade import Cascade
from dssl.circuits.beyond.superset import Superset, grow, parts_of
from dssl.circuits.circuit import Circuit
from dssl.errors import BudgetError, DataError
from dssl.logic.space import LabelSpace

BUDGET_S = 20.0  # of compiling all rules, and again of finding out which can be compiled
IMPLICATIONS_S = 3.0  # of compiling implications, which need no circuit
_AGAIN_S = 600.0  # of compiling rules that were compiled before, on a machine that may be slower


class Step(NamedTuple):
    """Who answers for the rules, and for a plan in words what that is, and why."""

    answers: Circuit | Cascade | Superset
    value: str
    reason: str


def climb(space: LabelSpace, budget_s: float | None = None) -> Step:
    """The first step that a space with rules can stand on.

    >>> climb(LabelSpace("a, b\\na -> b")).value
    'exact circuit'
    >>> climb(LabelSpace("a, b\\na -> b"), budget_s=0).value
    'implications, no circuit needed'
    >>> climb(LabelSpace("a, b\\na | b"), budget_s=0).value
    '0 of 1 rules in the circuit'
    """
    seconds = BUDGET_S if budget_s is None else budget_s
    of_all = seconds if space.implications is None else min(seconds, IMPLICATIONS_S)
    try:
        circuit = space.compile(budget_s=of_all)
    except BudgetError:
        pass
    else:
        return Step(circuit, "exact circuit", f"{circuit.nodes:,} nodes")
    if space.implications is not None:
        return Step(
            Cascade(space.implications), "implications, no circuit needed", "classes are decided from the top down"
        )
    with space.solvers.borrowed() as solver:
        solver.satisfiable()  # or an error now: every prediction will ask for a valid label
    found = grow(space, seconds)
    return Step(found, found.said, "probabilities are those of labels that obey these; predicted labels obey all rules")


# ---- kept with a model ----


def told(answers: Any) -> dict[str, Any]:
    """Who answers, for a file: enough to have it again with the same space."""
    if isinstance(answers, Cascade):
        return {"step": "implications"}
    return {"step": "superset", "kept": list(answers.kept)} if isinstance(answers, Superset) else {"step": "circuit"}


def again(space: LabelSpace, kept: Mapping[str, Any] | None) -> Cascade | Superset | None:
    """Who answered, from what `told` said; None is the circuit of all rules."""
    step = (kept or {}).get("step", "circuit")
    if step == "implications" and space.implications is not None:
        return Cascade(space.implications)
    if step == "superset" and kept is not None:
        parts, numbers = parts_of(space.rules), kept["kept"]
        if all(type(i) is int and 0 <= i < len(parts) for i in numbers):
            some = LabelSpace.of(space.variables, [parts[i] for i in numbers])
            return Superset(space, numbers, some.compile(budget_s=_AGAIN_S))
    if step != "circuit":
        raise DataError(f"there is no way '{step}' to answer for the rules\nTrain the model again.")
    return None
