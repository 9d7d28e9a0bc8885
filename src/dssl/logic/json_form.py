"""Label spaces as JSON, for other programs: variables with their values, rules one by one, weights of literals.

Loops, hierarchies and files of rows are written out; remarks, probabilities and lines stay with their rules.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dssl.errors import RuleError
from dssl.logic.language.parser import Rule, parse_rules
from dssl.logic.language.variables import Variable, shown

FORMAT, VERSION = "dssl rules", 1
_ANEW = "Write it with to_json() or dssl rules show --json."
_KINDS = ("binary", "categorical", "integer")
Parts = tuple[list[Variable], list[Rule], NDArray[np.float64] | None]


def facts(variables: Sequence[Variable], rules: Sequence[Rule], weights: NDArray[Any] | None) -> dict[str, Any]:
    """What the JSON holds, as dicts and lists."""
    out: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "variables": [_variable_facts(variable) for variable in variables],
        "rules": [_rule_facts(rule) for rule in rules],
    }
    return out if weights is None else {**out, "literal_weights": weights.tolist()}


def _variable_facts(variable: Variable) -> dict[str, Any]:
    out: dict[str, Any] = {"name": variable.name, "kind": variable.kind}
    return out if variable.binary else {**out, "values": list(variable.values)}


def _rule_facts(rule: Rule) -> dict[str, Any]:
    given = {"probability": rule.probability, "why": rule.why, "line": rule.line}
    return {"rule": Rule(rule.formula).text, **{key: value for key, value in given.items() if value is not None}}


# ---- reading ----


def parts(text: str) -> Parts:
    """The variables, rules and weights of literals in a JSON text."""
    held = _loaded(text)
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise RuleError(f'this JSON does not say "format": "{FORMAT}"', remedy=_ANEW)
    if held.get("version") != VERSION:
        found = shown(str(held.get("version")))
        raise RuleError(f"this JSON has version {found}, and this dssl reads {VERSION}", remedy=_ANEW)
    variables = [_variable(i, each) for i, each in enumerate(_list(held, "variables"), 1)]
    return variables, _rules(_list(held, "rules"), variables), _weights(held.get("literal_weights"))


def _loaded(text: str) -> Any:
    if not isinstance(text, str):
        raise RuleError(f"JSON is text, not {type(text).__name__}", remedy=_ANEW)
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        source = text.split("\n")[error.lineno - 1]
        raise RuleError(
            f"this is not JSON: {error.msg}", remedy=_ANEW, line=error.lineno, column=error.colno, source=source
        ) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists nested as deep
        raise RuleError("this JSON is nested too deep, or has a number that is too long", remedy=_ANEW) from None


def _list(held: dict[str, Any], key: str) -> list[Any]:
    found = held.get(key)
    if not isinstance(found, list):
        raise RuleError(f'this JSON has no list "{key}"', remedy=_ANEW)
    return found


def _variable(i: int, held: Any) -> Variable:
    if not isinstance(held, dict) or not isinstance(held.get("name"), str) or held.get("kind") not in _KINDS:
        raise RuleError(f"variable {i} has no name or no kind", remedy=f"The kinds are {', '.join(_KINDS)}.")
    name, kind, values = held["name"], held["kind"], held.get("values")
    if kind == "binary":
        if values is not None:
            _refuse_variable(i, name, "is binary and has values", "Leave them out, or call it categorical.")
        return Variable(name)
    if not isinstance(values, list) or not values:
        _refuse_variable(i, name, "has no values", 'List them: "values": ["cat", "dog"].')
    allowed = (int,) if kind == "integer" else (int, str)
    for value in values:
        if isinstance(value, bool) or not isinstance(value, allowed):
            what = "whole numbers" if kind == "integer" else "names and whole numbers"
            _refuse_variable(i, name, f"has the value {shown(json.dumps(value))}", f"The values are {what}.")
    return Variable(name, kind, tuple(values))


def _refuse_variable(i: int, name: str, reason: str, remedy: str) -> NoReturn:
    raise RuleError(f"variable {i}, '{shown(name)}', {reason}", remedy=remedy)


def _rules(held: list[Any], variables: Sequence[Variable]) -> list[Rule]:
    """All rules, read at once; each is one line of its own."""
    for i, each in enumerate(held, 1):
        if not isinstance(each, dict) or not isinstance(each.get("rule"), str):
            raise RuleError(f"rule {i} has no text", remedy='Write {"rule": "legs -> !fins"}.')
    texts = [each["rule"] for each in held]
    try:
        found = parse_rules("\n".join(texts), variables)
    except RuleError as error:
        raise RuleError(
            f"rule {error.line}: {error.reason}", remedy=error.remedy, column=error.column, source=error.source
        ) from None
    lines = [rule.line for rule in found]
    if lines != list(range(1, len(texts) + 1)):
        odd = next(i for i in range(1, len(texts) + 1) if lines[i - 1 : i] != [i] or lines[i : i + 1] == [i])
        raise RuleError(f"rule {odd} is not exactly one rule", remedy="Write loops out, one rule per entry.")
    return [_rule(i, rule, each) for i, (rule, each) in enumerate(zip(found, held), 1)]


def _rule(i: int, rule: Rule, held: dict[str, Any]) -> Rule:
    if rule.probability is not None or rule.why is not None:
        raise RuleError(
            f"rule {i} has a probability or a remark in its text",
            remedy='Write them beside it: {"rule": "legs -> !fins", "probability": 0.9, "why": "seen so"}.',
        )
    probability, why, line = held.get("probability"), held.get("why"), held.get("line")
    if probability is not None and (isinstance(probability, bool) or not isinstance(probability, int | float)):
        raise RuleError(f"rule {i} has no number as its probability", remedy="Write a number between 0 and 1.")
    if why is not None and not (isinstance(why, str) and why):
        raise RuleError(f"rule {i} has no text as its remark", remedy='Write "why": "seen so", or leave it out.')
    if line is not None and (isinstance(line, bool) or not isinstance(line, int) or not 0 < line < 10**9):
        raise RuleError(f"rule {i} has no line number as its line", remedy="Count lines from 1, or leave it out.")
    return Rule(rule.formula, probability, line, why=why)


def _weights(held: Any) -> NDArray[np.float64] | None:
    if held is None:
        return None
    pairs = isinstance(held, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in held)
    try:
        numbers = pairs and all(type(weight) in (int, float) for pair in held for weight in pair)
        return np.array(held if numbers else None, dtype=np.float64).reshape(len(held), 2)
    except (TypeError, ValueError, OverflowError):
        raise RuleError(
            "literal_weights are not pairs of numbers", remedy="Give the weights of true and false for each column."
        ) from None
