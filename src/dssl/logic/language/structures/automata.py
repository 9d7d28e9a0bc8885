"""Regular expressions over the values of variables in a row, as automata: ``regular(tag[*], "O* (B I* O+)*")``.

An expression joins values: ``a b`` one after the other, ``a | b`` either, ``a*`` any number, ``a+`` at least one,
``a?`` at most one, ``a{3}`` and ``a{2,4}`` that many, ``.`` any value, ``!a`` any value but a, ``( )`` for grouping.
Values with other characters stand in single quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from dssl.errors import RuleError
from dssl.logic.language.formula import Assignments, Formula, Mask
from dssl.logic.language.quoting import Value, in_quotes, quoted
from dssl.logic.language.structures.arrows import Arrows, has_arrows
from dssl.logic.language.structures.patterns import Domains, Structure

Steps = NDArray[np.int32]
MAX_STATES = 2_000
MAX_POSITIONS = 2_000  # values in an expression, repetitions written out
MAX_NESTING = 50
_TOKEN = re.compile(r"\s*(?:(-?[0-9]+)(?!\w)|([^\W\d]\w*)|'([^']*)'|(\{[0-9]+(?:,[0-9]+)?\})|([.*+?|()!]))")


@dataclass(frozen=True)
class Fragment:
    """A part of an expression: whether it may be empty, and the positions with which it begins and ends."""

    empty: bool
    first: frozenset[int]
    last: frozenset[int]


class _Expression:
    """Reads an expression by recursive descent into positions; each stands for a set of values."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.tokens = self._tokens()
        self.meant: list[tuple[bool, Value | None]] = []  # of each position: "but" and the value; (False, None) is any
        self.follow: list[set[int]] = []
        self.whole = self.alternatives()
        if self.at < len(self.tokens):
            self.fail(f"'{self.tokens[self.at]}' is not expected")

    def fail(self, why: str) -> NoReturn:
        raise RuleError(
            f"the expression {in_quotes(self.text)} cannot be read: {why}",
            remedy='Write values with spaces between, and * + ? | ( ) . ! {2,4}: "O* (B I*)*".',
        )

    def _tokens(self) -> list[str | int | tuple[str]]:
        """Operators as text, values as a number or a tuple of their name."""
        out: list[str | int | tuple[str]] = []
        at, end = 0, len(self.text.rstrip())
        while at < end:
            match = _TOKEN.match(self.text, at)
            if match is None:
                self.fail(f"'{self.text[at:].strip()[:1]}' has no meaning in it")
            number, name, odd, repeat, operator = match.groups()
            if number is not None:
                out.append(int(number))
            elif operator or repeat:
                out.append(operator or repeat)
            else:
                out.append((name if name is not None else odd,))
            at = match.end()
        return out

    @property
    def token(self) -> str | int | tuple[str] | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def alternatives(self) -> Fragment:
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail(f"it is nested deeper than {MAX_NESTING}")
        out = self.chain()
        while self.token == "|":
            self.at += 1
            other = self.chain()
            out = Fragment(out.empty or other.empty, out.first | other.first, out.last | other.last)
        self.depth -= 1
        return out

    def chain(self) -> Fragment:
        out = Fragment(True, frozenset(), frozenset())
        while self.token is not None and self.token not in ("|", ")"):
            out = self._then(out, self.repeated())
        return out

    def _then(self, a: Fragment, b: Fragment) -> Fragment:
        for position in a.last:
            self.follow[position] |= b.first
        first = a.first | b.first if a.empty else a.first
        return Fragment(a.empty and b.empty, first, a.last | b.last if b.empty else b.last)

    def repeated(self) -> Fragment:
        start = self.at
        part = self.single()
        while isinstance(self.token, str) and self.token[0] in "*+?{":
            sign, end = self.token, self.at
            if sign[0] == "{":
                part = self._times(start, end, sign)
            elif sign in "*+":
                self._then(part, part)
            self.at = end + 1
            if sign in "*?":
                part = Fragment(True, part.first, part.last)
        return part

    def _times(self, start: int, end: int, sign: str) -> Fragment:
        """Copies of what stands between two places, each read anew."""
        least, _, most = sign[1:-1].partition(",")
        low, high = int(least), int(most or least)
        if high < low or high > MAX_POSITIONS:
            self.fail(f"'{sign}' is not a number of times")
        out = Fragment(True, frozenset(), frozenset())
        for i in range(high):
            self.at = start
            copy = self.single()
            while self.at < end:  # signs between the part and the number
                inner = self.tokens[self.at]
                assert isinstance(inner, str)
                if inner[0] == "{":
                    self.fail("two numbers of times in a row")
                if inner in "*+":
                    self._then(copy, copy)
                if inner in "*?":
                    copy = Fragment(True, copy.first, copy.last)
                self.at += 1
            out = self._then(out, Fragment(True, copy.first, copy.last) if i >= low else copy)
        return out

    def single(self) -> Fragment:
        token = self.token
        if token == "(":
            self.at += 1
            inner = self.alternatives()
            if self.token != ")":
                self.fail("'(' is never closed")
            self.at += 1
            return inner
        but = token == "!"
        self.at += but
        token = self.token
        if token == "." and not but:
            return self._position(False, None)
        if token is None or isinstance(token, str):
            self.fail(f"a value is missing {'at its end' if token is None else f'before {token!r}'}")
        return self._position(but, token[0] if isinstance(token, tuple) else token)

    def _position(self, but: bool, value: Value | None) -> Fragment:
        self.at += 1
        if len(self.meant) == MAX_POSITIONS:
            self.fail(f"it has more than {MAX_POSITIONS:,} values, repetitions written out")
        self.meant.append((but, value))
        self.follow.append(set())
        here = frozenset([len(self.meant) - 1])
        return Fragment(False, here, here)


@dataclass(frozen=True)
class Automaton:
    """A deterministic automaton. It starts in state 0."""

    values: tuple[Value, ...]
    step: Steps  # (states, values) → state
    accepts: Mask  # (states,)


@lru_cache(maxsize=64)
def automaton(pattern: str, values: tuple[Value, ...]) -> Automaton:
    """The automaton of an expression over some values, or the one that is written out.

    >>> found = automaton("a* b", ("a", "b", "c"))
    >>> found.step.tolist(), found.accepts.tolist()
    ([[0, 1, 2], [2, 2, 2], [2, 2, 2]], [False, True, False])
    """
    if has_arrows(pattern):
        return _walked(Arrows.read(pattern), values)
    read = _Expression(pattern)
    matches = [frozenset(p for p, m in enumerate(read.meant) if _matches(m, value)) for value in values]
    end = -1  # the set of positions that may come next; −1 in it: the expression may end here
    start = read.whole.first | ({end} if read.whole.empty else set())
    after = [frozenset(follow) | ({end} if p in read.whole.last else set()) for p, follow in enumerate(read.follow)]
    number = {start: 0}
    todo, steps = [start], []
    for state in todo:  # grows while it is gone through
        row = []
        for match in matches:
            following = frozenset().union(*(after[p] for p in state & match))
            if following not in number:
                if len(number) == MAX_STATES:
                    read.fail(f"its automaton has more than {MAX_STATES:,} states")
                number[following] = len(number)
                todo.append(following)
            row.append(number[following])
        steps.append(row)
    return Automaton(values, np.array(steps, dtype=np.int32), np.array([end in state for state in todo]))


def _walked(arrows: Arrows, values: tuple[Value, ...]) -> Automaton:
    """An automaton with one more state, the last: that of walks that have ended badly."""
    number = {state: i for i, state in enumerate(arrows.leads)}
    steps = [
        [number.get(leads.get(value, leads.get(None, "")), len(number)) for value in values]
        for leads in (*arrows.leads.values(), {})
    ]
    accepts = [state in arrows.ends for state in (*number, None)]
    return Automaton(values, np.array(steps, dtype=np.int32), np.array(accepts))


def _matches(meant: tuple[bool, Value | None], value: Value) -> bool:
    but, wanted = meant
    return wanted is None or (value == wanted and isinstance(value, str) == isinstance(wanted, str)) != but


def values_of(pattern: str) -> list[Value]:
    """The values that an expression names."""
    if has_arrows(pattern):
        leads = Arrows.read(pattern).leads.values()
        return [value for arrows in leads for value in arrows if value is not None]
    return [value for _, value in _Expression(pattern).meant if value is not None]


class Diagram(NamedTuple):
    """A walk through states, one step for each variable, from state 0 on."""

    names: tuple[str, ...]
    steps: list[Steps]  # for each variable (states before, its values) → state after
    accepts: Mask  # (states after the last,)

    def ends_well(self) -> bool:
        """Whether the first values of all variables are accepted; all are, or none, where that is known beforehand."""
        state = 0
        for step in self.steps:
            state = int(step[state, 0])
        return bool(self.accepts[state])


class Layered(Structure):
    """A constraint that is decided variable by variable, with a state in between."""

    columns: tuple[str, ...]

    def names(self) -> frozenset[str]:
        return frozenset(self.columns)

    def diagram(self, values: Domains) -> Diagram:
        """Its states, for variables of these values."""
        raise NotImplementedError

    def lowered(self, values: Domains) -> Formula:
        raise RuleError(
            f"{str(self).partition('(')[0]}(…) has no fuzzy reading", remedy="Use a prior that asks the circuit."
        )

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        """States that can be reached, row by row: an unknown value may lead anywhere."""
        names, steps, accepts = self.diagram(labels.values)
        reached = np.ones((labels.rows, 1), dtype=bool)
        for i, (name, step) in enumerate(zip(names, steps)):
            states = len(steps[i + 1]) if i + 1 < len(steps) else len(accepts)
            index, onward = labels.indices[name], np.zeros((labels.rows, states), dtype=bool)
            for value in range(step.shape[1]):
                rows = np.flatnonzero((index == value) | (index < 0))
                for state in np.flatnonzero(reached[rows].any(axis=0)) if len(rows) else ():
                    onward[rows, step[state, value]] |= reached[rows, state]
            reached = onward
        return np.asarray(~(reached & ~accepts).any(axis=1)), np.asarray(~(reached & accepts).any(axis=1))


@dataclass(frozen=True)
class Regular(Layered):
    """The values of some variables, in their order, are what an expression describes."""

    columns: tuple[str, ...]
    pattern: str

    def _renamed(self, names: Mapping[str, str]) -> Formula:
        return Regular(tuple(names.get(name, name) for name in self.columns), self.pattern)

    def automaton(self, values: Domains) -> Automaton:
        """The automaton over all values that the variables have."""
        every = dict.fromkeys(value for name in dict.fromkeys(self.columns) for value in values[name])
        return automaton(self.pattern, tuple(int(v) if isinstance(v, bool) else v for v in every))

    def diagram(self, values: Domains) -> Diagram:
        found = self.automaton(values)
        place = {value: i for i, value in enumerate(found.values)}
        by_domain: dict[tuple[Value, ...], Steps] = {}
        for name in self.columns:
            if values[name] not in by_domain:
                by_domain[values[name]] = found.step[:, [place[value] for value in values[name]]]
        steps = [by_domain[values[name]] for name in self.columns]
        return Diagram(self.columns, [steps[0][:1], *steps[1:]], found.accepts)

    def __str__(self) -> str:
        return f"regular({', '.join(map(quoted, self.columns))}, {in_quotes(self.pattern)})"


def layers(diagram: Diagram) -> list[tuple[Steps, int]]:
    """For each variable its steps between groups of states, (groups before, values) → group after, and how many after.

    States of one group accept the same ends. Those that cannot be reached are left out; the last groups are those that
    fail and those that accept, or one of them.
    """
    reached: list[Steps] = [np.array([0], dtype=np.int32)]
    for step in diagram.steps:
        reached.append(np.unique(step[reached[-1]]).astype(np.int32))
    group = np.full(len(diagram.accepts), -1, dtype=np.int32)
    group[reached[-1]] = _numbered(diagram.accepts[reached[-1]].astype(np.int32)[:, None])
    out: list[tuple[Steps, int]] = []
    for step, before in zip(reversed(diagram.steps), reversed(reached[:-1])):
        onward = group[step[before]]  # (states before, values)
        kinds = _numbered(onward)
        rows = np.zeros((kinds.max() + 1, onward.shape[1]), dtype=np.int32)
        rows[kinds] = onward
        out.append((rows, int(group.max()) + 1))
        group = np.full(len(step), -1, dtype=np.int32)
        group[before] = kinds
    return out[::-1]


def _numbered(rows: Steps) -> Steps:
    """Equal rows have equal numbers, counted from 0."""
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)
