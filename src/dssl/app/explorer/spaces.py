"""What the page says about a rule text: its errors, its numbers, its circuit, its warnings. All of it bounded."""

from __future__ import annotations

import math
import re
import time
from functools import lru_cache
from typing import Any, NamedTuple

from dssl.circuits.circuit import Circuit
from dssl.errors import BudgetError, RuleError
from dssl.logic.language.parser import Rule, parse
from dssl.logic.language.tokens import Source, statements
from dssl.logic.language.variables import Variable
from dssl.logic.reasoning.normalisation import normalise
from dssl.logic.reasoning.solver import Solver
from dssl.logic.space import LabelSpace

MOST_TEXT = 20_000  # characters
MOST_COLUMNS = 600
MOST_RULES = 1_000
BUDGET_S, BUDGET_NODES = 2.0, 200_000  # of compiling
DRAWN_NODES = 120
LISTED = 12  # valid labels
FINDINGS = 50
KEPT = 16  # compiled texts a worker remembers


class Refused(Exception):
    """The page does not do work of this size; the message says what to do instead."""


class Malformed(ValueError):
    """The request does not have the form that the page sends."""


class Opened(NamedTuple):
    """A rule text that was read and compiled."""

    space: LabelSpace
    circuit: Circuit
    seconds: float  # that compiling took


def text_in(request: dict[str, Any]) -> str:
    """The rule text of a request, if it is short enough."""
    text = request.get("text")
    if not isinstance(text, str):
        raise Malformed('the request needs rule text: {"text": "legs, fins"}')
    if len(text) > MOST_TEXT:
        raise Refused(f"the text has {len(text):,} characters, and this page reads up to {MOST_TEXT:,}. {_ELSEWHERE}")
    return text


_ELSEWHERE = "Use dssl rules check in a terminal, or LabelSpace in Python."


@lru_cache(maxsize=KEPT)
def open_text(text: str) -> Opened:
    """The space of a text and its circuit; `RuleError` if it is wrong, `Refused` if it is too large."""
    space = read_text(text)
    began = time.perf_counter()
    try:
        circuit = space.compile(budget_s=BUDGET_S, budget_nodes=BUDGET_NODES)
    except BudgetError as error:
        raise Refused(
            f"too large for this page: compiling took more than {BUDGET_S:g} s or {BUDGET_NODES:,} nodes. "
            "Drop or split rules, or compile them in Python with a larger budget."
        ) from error
    if circuit.nodes > BUDGET_NODES:
        raise Refused(f"too large for this page: a circuit of {circuit.nodes:,} nodes. {_ELSEWHERE}")
    return Opened(space, circuit, time.perf_counter() - began)


def read_text(text: str) -> LabelSpace:
    """The space of a text whose variables are few enough."""
    _refuse_wide(text)
    variables, rules = parse(text)
    columns = sum(len(variable.columns) for variable in variables)
    if columns > MOST_COLUMNS or len(rules) > MOST_RULES:
        raise Refused(
            f"{columns:,} columns and {len(rules):,} rules are more than this page takes "
            f"({MOST_COLUMNS} and {MOST_RULES:,}). {_ELSEWHERE}"
        )
    return LabelSpace.of(variables, rules)


def _refuse_wide(text: str) -> None:
    """Ranges are measured before they are written out: a line of 15 characters can declare 100,000 values."""
    values = 0
    for tokens in statements(Source(text)):
        for low, dots, high in zip(tokens, tokens[1:], tokens[2:]):
            if dots.text == ".." and low.text.isdigit() and high.text.isdigit():
                values += max(0, int(high.text[:9]) - int(low.text[:9]))
    if values > MOST_COLUMNS:
        raise Refused(f"ranges with {values:,} values are more than the {MOST_COLUMNS} columns this page takes.")


# ---- answers ----


def rules(request: dict[str, Any]) -> dict[str, Any]:
    """Errors of a rule text, or its variables, its number of valid labels and its circuit."""
    text = text_in(request)
    try:
        space, circuit, seconds = open_text(text)
    except RuleError as error:
        return {"error": _error(error, text)}
    everything = math.prod(len(variable.values) for variable in space.variables)
    return {
        **described(space),
        "count": str(circuit.count()),
        "all": str(everything),
        "labels": [_label(label) for label in space.valid(LISTED)],
        "circuit": {
            "nodes": circuit.nodes,
            "edges": circuit.edges,
            "depth": circuit.depth,
            "milliseconds": round(1000 * seconds, 2),
            "svg": _picture(circuit) if circuit.nodes <= DRAWN_NODES else None,
            "drawn": DRAWN_NODES,
        },
    }


def _picture(circuit: Circuit) -> str:
    """The circuit's picture without its style, which the page has in its own."""
    return re.sub(r"\s*<style>.*?</style>", "", circuit.to_svg(), count=1, flags=re.DOTALL)


def diagnosis(request: dict[str, Any]) -> dict[str, Any]:
    """What the rules say that their author may not have meant."""
    try:
        space = open_text(text_in(request)).space
    except RuleError:
        return {"findings": []}
    found = space.diagnose().findings
    shown = [
        {"kind": f.kind, "message": f.message, "rules": [_rule(rule) for rule in f.rules]} for f in found[:FINDINGS]
    ]
    return {"findings": shown, "more": max(0, len(found) - FINDINGS)}


def described(space: LabelSpace) -> dict[str, Any]:
    """Variables and rules for the page."""
    return {
        "variables": [_variable(space, i) for i in range(len(space.variables))],
        "rules": [_rule(rule) for rule in space.rules],
    }


def _variable(space: LabelSpace, i: int) -> dict[str, Any]:
    variable, (start, stop) = space.variables[i], space.spans[i]
    return {
        "name": variable.name,
        "kind": variable.kind,
        "values": [str(value).lower() if variable.binary else str(value) for value in variable.values],
        "start": start,
        "stop": stop,
    }


def _rule(rule: Rule) -> dict[str, Any]:
    return {"text": rule.text, "line": rule.line}


def _label(label: dict[str, Any]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in label.items()}


def _error(error: RuleError, text: str) -> dict[str, Any]:
    out: dict[str, Any] = {
        "reason": error.reason,
        "remedy": error.remedy,
        "line": error.line,
        "column": error.column,
        "source": error.source,
        "conflict": [],
    }
    if error.line is None:
        out["conflict"] = [_rule(rule) for rule in _conflict(*parse(text))]
        if out["conflict"]:
            out["reason"] = "these rules contradict each other: no label obeys them all"
    return out


def _conflict(variables: tuple[Variable, ...], rules: tuple[Rule, ...]) -> list[Rule]:
    """A minimal set of rules that contradict each other, if that is what is wrong."""
    if not variables or not rules:
        return []
    try:
        found = Solver(normalise(variables, rules)).conflict()
    except BudgetError:  # a rule is too large for the solver
        return []
    return [rules[i] for i in found or ()]
