"""Automata written out, for ``regular(x[*], "out: O -> out, B -> in; in: I -> in, O -> out; end: out")``.

Each state names the values that lead on from it, and where to. The first state is where a walk begins; a value without
an arrow ends it badly, and ``.`` stands for every value that has no arrow of its own. After ``end:`` stand the states
in which a walk may end; without it, all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from dssl.errors import RuleError
from dssl.logic.language.quoting import Value, in_quotes

_TOKEN = re.compile(r"\s*(?:(-?[0-9]+)(?!\w)|([^\W\d]\w*)|'([^']*)'|(->|[:,;.]))")
_QUOTED = re.compile(r"'[^']*'")
Token = tuple[str, Value]  # "sign", "name" or "value", and what it is


def has_arrows(text: str) -> bool:
    """Whether a text is an automaton, not an expression."""
    return "->" in _QUOTED.sub("", text)


@dataclass(frozen=True)
class Arrows:
    """From each state by which value to which; the value None is any other. The first state is where it begins."""

    leads: dict[str, dict[Value | None, str]]
    ends: frozenset[str]

    @classmethod
    def read(cls, text: str) -> Arrows:
        """The automaton that a text describes, or an error that says what is wrong with it."""
        return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.tokens = list(self._tokens())

    def fail(self, why: str) -> NoReturn:
        raise RuleError(
            f"the automaton {in_quotes(self.text)} cannot be read: {why}",
            remedy='Write the arrows of each state, and where it may end: "s: a -> s, b -> t; t: a -> s; end: s".',
        )

    def _tokens(self) -> list[Token]:
        out: list[Token] = []
        at, end = 0, len(self.text.rstrip())
        while at < end:
            match = _TOKEN.match(self.text, at)
            if match is None:
                self.fail(f"'{self.text[at:].strip()[:1]}' has no meaning in it")
            number, name, odd, sign = match.groups()
            kind = "sign" if sign else "name" if name is not None else "value"
            out.append((kind, int(number) if number is not None else name if name is not None else odd or sign))
            at = match.end()
        return out

    def take(self, *signs: str) -> str | None:
        found = self.tokens[self.at] if self.at < len(self.tokens) else ("sign", "")
        if found[0] != "sign" or found[1] not in signs:
            return None
        self.at += 1
        return str(found[1])

    def expect(self, sign: str, where: str) -> None:
        if self.take(sign) is None:
            self.fail(f"'{sign}' is missing {where}")

    def state(self) -> str:
        kind, word = self.tokens[self.at] if self.at < len(self.tokens) else ("sign", "its end")
        if kind != "name":
            self.fail(f"a state must be a name, not '{word}'")
        self.at += 1
        return str(word)

    def value(self) -> Value | None:
        if self.take("."):
            return None
        kind, word = self.tokens[self.at] if self.at < len(self.tokens) else ("sign", "its end")
        if kind == "sign":
            self.fail(f"a value is missing before '{word}'")
        self.at += 1
        return word

    def read(self) -> Arrows:
        leads: dict[str, dict[Value | None, str]] = {}
        ends: list[str] | None = None
        while self.at < len(self.tokens):
            state = self.state()
            self.expect(":", f"after the state '{state}'")
            if state == "end":
                ends = [self.state()]
                while self.take(","):
                    ends.append(self.state())
            elif state in leads:
                self.fail(f"the state '{state}' is listed twice")
            else:
                leads[state] = self.arrows(state)
            if self.at < len(self.tokens):
                self.expect(";", "between two states")
        named = [*(to for arrows in leads.values() for to in arrows.values()), *(ends or ())]
        odd = next((state for state in named if state not in leads), None)
        if odd is not None or not leads:
            self.fail(
                f"the state '{odd}' has no arrows of its own; write '{odd}:' if it has none" if odd else "no states"
            )
        return Arrows(leads, frozenset(leads if ends is None else ends))

    def arrows(self, state: str) -> dict[Value | None, str]:
        """``O -> out, B -> in``; a state may have none."""
        out: dict[Value | None, str] = {}
        while self.at < len(self.tokens) and self.tokens[self.at] != ("sign", ";"):
            value = self.value()
            self.expect("->", f"after the value '{'.' if value is None else value}'")
            if value in out:
                self.fail(f"the state '{state}' has two arrows for '{'.' if value is None else value}'")
            out[value] = self.state()
            if not self.take(","):
                break
        return out
