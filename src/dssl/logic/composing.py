"""Spaces put together out of spaces and rules: whose variables, which weights, rules in any form."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dssl.errors import ContradictionError, RuleError
from dssl.logic.language.formula import Formula, as_formula
from dssl.logic.language.parser import Rule, parse_rules
from dssl.logic.language.symbols import conjunction, disjunction
from dssl.logic.language.variables import Scope, Variable, shown

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace


def further(variables: tuple[Variable, ...], rules: Iterable[Any], folder: str | Path | None = ".") -> list[Rule]:
    """Rules in any form, about variables that are declared."""
    scope = Scope(variables)
    out: list[Rule] = []
    for rule in rules:
        if isinstance(rule, str):
            out += parse_rules(rule, variables, folder)
        elif isinstance(rule, Rule):
            out.append(Rule(scope.fit(rule.formula), rule.probability, rule.line, rule.origin, rule.why))
        elif isinstance(rule, bool):  # what Python makes of a & b == 1
            raise RuleError(
                f"a rule is {rule}, which says nothing about labels",
                remedy='Put brackets around comparisons: legs & (species == "cat").',
            )
        else:
            out.append(_fitted(scope, Rule(as_formula(rule)).formula))
    return out


def _fitted(scope: Scope, formula: Formula) -> Rule:
    try:
        return Rule(scope.fit(formula))
    except RuleError as error:
        raise RuleError(error.reason, remedy=error.remedy, source=str(formula)) from None


def require_distinct(variables: Iterable[Variable]) -> None:
    """Refuse variables, or columns of them, that share a name."""
    twice = _repeated(variable.name for variable in variables)
    if twice is not None:
        raise RuleError(f"two variables have the name '{twice}'", remedy="Rename one of them.")
    twice = _repeated(column for variable in variables for column in variable.columns)
    if twice is not None:
        raise RuleError(f"two columns have the name '{twice}'", remedy="Rename one of the variables.")


def contradiction(rules: list[Rule], remedy: str) -> ContradictionError:
    """The error about rules that no label obeys."""
    culprits = "\n".join(f"  {rule}" for rule in rules)
    reason = f"these rules contradict each other: no label obeys them all\n{culprits}"
    return ContradictionError(reason, remedy=remedy, rules=tuple(rules))


def either(a: LabelSpace, b: LabelSpace) -> Rule:
    """The rule that the rules of one of two spaces hold."""
    for rule in (*a.rules, *b.rules):
        if rule.probability is not None:
            raise RuleError(
                f"a union cannot keep the soft rule '{rule.text}'", remedy="Unite first, then add it with where(…)."
            )
    return Rule(disjunction([conjunction([rule.formula for rule in space.rules]) for space in (a, b)]))


def _repeated(names: Iterable[str]) -> str | None:
    """The first name that comes twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def together(a: LabelSpace, b: LabelSpace) -> list[Variable]:
    """The variables of two spaces; those they share must have the same declaration."""
    out = {variable.name: variable for variable in a.variables}
    for variable in b.variables:
        if out.setdefault(variable.name, variable) != variable:
            raise RuleError(
                f"'{variable.name}' is declared differently in the two spaces: {out[variable.name]} and {variable}",
                remedy="Give it the same values in both, or rename it in one.",
            )
    return list(out.values())


def checked_weights(weights: NDArray[Any], width: int) -> NDArray[np.float64]:
    """Literal weights as a read-only array (width, 2), so that a space stays a value."""
    out = np.array(weights, dtype=np.float64)
    if out.shape != (width, 2) or not (np.isfinite(out) & (out >= 0)).all():
        raise RuleError(
            f"literal weights of shape {out.shape} for {width} columns",
            remedy="Give an array (columns, 2) of the weights of true and false: finite numbers, none below 0.",
        )
    out.flags.writeable = False
    return out


def weights_of_both(a: LabelSpace, b: LabelSpace) -> NDArray[np.float64] | None:
    """The literal weights of two spaces over the variables of both; those they share must have the same weights."""
    given = [space for space in (a, b) if space.literal_weights is not None]
    if not given:
        return None
    rows: dict[str, tuple[float, float]] = dict.fromkeys((*a.columns, *b.columns), (1.0, 1.0))
    said: dict[str, tuple[float, float]] = {}
    for space in given:
        assert space.literal_weights is not None
        for name, (true, false) in zip(space.columns, space.literal_weights.tolist()):
            if said.setdefault(name, (true, false)) != (true, false):
                raise RuleError(
                    f"'{shown(name)}' is weighed differently in the two spaces: {said[name]} and {(true, false)}",
                    remedy="Give its literals the same weights in both, or rename it in one.",
                )
    return np.array(list((rows | said).values()))
