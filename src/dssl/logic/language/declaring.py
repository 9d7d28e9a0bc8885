"""Lines that declare variables, arrays of them, and constants."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from dssl.logic.language.arrays import element
from dssl.logic.language.constants import Constants
from dssl.logic.language.quoting import RESERVED, Value, quoted
from dssl.logic.language.reading import Reader
from dssl.logic.language.syntax import Node, Number, Span, Values, Word
from dssl.logic.language.tokens import Source, Token
from dssl.logic.language.variables import MAX_VALUES, Variable, shown

MAX_ELEMENTS = 1_000_000  # of an array


def heads(tokens: Sequence[Token]) -> list[Token]:
    """The names that a line declares; none if it is not names separated by commas, alone or before a colon."""
    out: list[Token] = []
    at = 0
    while tokens[at].kind in ("name", "string"):
        out.append(tokens[at])
        at += 1
        if tokens[at].kind == "op" and tokens[at].text == "[":
            while tokens[at].kind != "op" or tokens[at].text != "]":
                at += 1
            at += 1
        if tokens[at].kind == "op" and tokens[at].text == ",":
            at += 1
            continue
        ended = tokens[at].kind == "end" and not _one_flag(tokens)
        before_values = tokens[at].kind == "op" and tokens[at].text == ":" and not is_remark(tokens)
        return out if ended or before_values else []
    return out if out and tokens[at].kind == "end" else []


def is_remark(tokens: Sequence[Token]) -> bool:
    """Whether a text in quotes and a colon come before a rule, not before the values of a variable."""
    if tokens[0].kind != "string" or tokens[1].kind != "op" or tokens[1].text != ":":
        return False
    rest = tokens[2:]
    if rest[0].text == "{" or len(rest) <= 2:  # a single word may be a constant
        return False
    texts = {token.text for token in rest if token.kind == "op"}
    words = {token.text for token in rest if token.kind == "name"}
    return not (".." in texts and texts <= {"+", "-", "*", "(", ")", ".."} and "for" not in words)


def _one_flag(tokens: Sequence[Token]) -> bool:
    return len(tokens) == 2 and tokens[0].kind == "name" and tokens[0].text in ("true", "false")


class Declarer(Reader):
    """A line that declares variables."""

    def __init__(self, source: Source, tokens: list[Token], constants: Constants) -> None:
        super().__init__(source, tokens, (), constants.definitions)
        self.constants = constants

    def declare(self, variables: dict[str, Variable], arrays: set[str]) -> None:
        """Add the variables of this line, and the names of its arrays."""
        named: list[str] = []
        while True:
            token = self.token
            word = self.word()
            if word.index is not None:
                arrays.add(word.text)
            if word.text in (arrays if word.index is None else variables):
                self.fail(f"'{shown(word.text)}' is a variable and an array", "Rename one of them.", token)
            for name in self._elements(word):
                self._refuse_twice(name, token, variables)
                variables[name] = Variable(name)
                named.append(name)
            if not self.take(","):
                break
            if self.token.kind == "end":
                self.fail("a name is missing after the last ','", "Remove the comma or add a name.")
        if self.take(":"):
            first = Variable.choice(named[0], self._domain())
            for name in named:  # elements of an array share their values
                variables[name] = Variable(name, first.kind, first.values)
        self.finish()

    def _elements(self, word: Word) -> Iterable[str]:
        if word.index is None:
            return (word.text,)
        axes = [self.constants.axis(part) for part in word.index]
        count = 1
        for axis in axes:
            count *= len(axis)
        if not 0 < count <= MAX_ELEMENTS:
            self.fail(f"an array of {count:,} elements", f"Declare from 1 to {MAX_ELEMENTS:,} elements.", word.token)
        return (element(word.text, index) for index in itertools.product(*axes))

    def _refuse_twice(self, name: str, token: Token, variables: Mapping[str, Variable]) -> None:
        if name in variables:
            value = variables[name].values[-1]
            fact = f"{quoted(shown(name))} = {'true' if value is True else quoted(value)}"
            self.fail(f"'{shown(name)}' is declared twice", f"Remove one; a fact is written {fact}.", token)

    def _domain(self) -> Sequence[str | int]:
        start = self.token
        if self.token.kind == "op" and self.token.text == "{":
            node: Node = self.braces()
        elif self.token.kind == "name" and self.token.text in self.defined:
            node = self.domain()
        else:
            low = self._end("a range such as 0..9 or values such as {cat, dog}")
            self.expect("..", "in a range", "Write a range as 0..9 or values as {cat, dog}.")
            node = Span(start, low, self._end("the end of the range"))
        if isinstance(node, Span):
            return self._range(node, start)
        return self._set(node, start)

    def _end(self, what: str) -> Node:
        """One end of a range: a number, or arithmetic of constants."""
        at, token = self.at, self.token
        if token.kind != "name" or token.text not in self.defined:
            value = self.integer(what)
            if self.token.kind != "op" or self.token.text not in ("+", "-", "*"):
                return Number(token, value)
            self.at = at
        return self.addition()

    def _range(self, node: Span, start: Token) -> range:
        low, high = self.constants.number(node.low), self.constants.number(node.high)
        if high < low:
            self.fail(f"the range {low}..{high} is empty", f"Write {high}..{low}.", start)
        if high - low >= MAX_VALUES:
            self.fail(
                f"the range {low}..{high} has more than {MAX_VALUES:,} values",
                "Each value is one output of the network: bin the numbers into fewer values.",
                start,
            )
        return range(low, high + 1)

    def _set(self, node: Node, start: Token) -> Sequence[str | int]:
        items = node.items if isinstance(node, Values) else (node,)
        out: list[str | int] = []
        seen: set[Value] = set()
        for item in items:
            for value in self.constants.values(item):
                if value in seen:
                    self.fail(f"the value '{shown(value)}' is listed twice", "Remove one.", item.token)
                seen.add(value)
                out.append(value)
        if not out:
            self.fail("a variable needs at least one value", "List its values: {cat, dog}.", start)
        if len(out) > MAX_VALUES:
            self.fail(f"a variable of more than {MAX_VALUES:,} values", "Bin them into fewer values.", start)
        return out


# ---- constants ----


class Definition(NamedTuple):
    """A line that defines a constant."""

    word: Word
    node: Node
    tokens: list[Token]


def definitions(source: Source, lines: Iterable[list[Token]], declared: Container[str]) -> dict[str, Definition]:
    """The constants among some lines. ``name = …`` defines one if no variable has the name.

    A number whose name is used nowhere else is not a constant but an undeclared or misspelled variable.
    """
    candidates = [tokens for tokens in lines if _assigns(tokens) and name_of(tokens[0]) not in declared]
    if not candidates:
        return {}
    numbers = {id(tokens) for tokens in candidates if tokens[2].text not in ("[", "{") and tokens[1].text == "="}
    uses: dict[str, int] = {}
    for tokens in lines:
        for token in tokens:
            if token.kind == "name":
                uses[token.text] = uses.get(token.text, 0) + 1
    out: dict[str, Definition] = {}
    names = {name_of(tokens[0]) for tokens in candidates}
    for tokens in candidates:
        if id(tokens) in numbers and (uses.get(tokens[0].text, 0) < 2 or not _arithmetic(tokens, names)):
            continue
        reader = Reader(source, tokens, (), names)
        word = reader.word()
        if word.text in out:
            reader.fail(f"'{shown(word.text)}' is defined twice", "Remove one.", word.token)
        reader.expect("=", "after the name of a constant", "Write n = 9 or w = [3, 1, 4].")
        out[word.text] = Definition(word, _defining(reader), tokens)
        reader.finish()
    return out


def name_of(token: Token) -> str:
    """What a name token names, precisely enough to tell variables from constants."""
    return token.text.strip('"')


def _assigns(tokens: Sequence[Token]) -> bool:
    """Whether a line is a name, perhaps with an index before a list, and ``=``."""
    if tokens[0].kind != "name" or tokens[0].text in RESERVED or len(tokens) < 4:
        return False
    if tokens[1].text != "[":
        return tokens[1].kind == "op" and tokens[1].text == "="
    closing = next((i for i, token in enumerate(tokens) if token.kind == "op" and token.text == "]"), len(tokens) - 3)
    return tokens[closing + 1].text == "=" and tokens[closing + 2].text == "["


def _arithmetic(tokens: Sequence[Token], names: Container[str]) -> bool:
    """Whether only numbers, constants and + - * ( ) stand after the ``=``."""
    return all(
        token.kind in ("number", "end")
        or (token.kind == "name" and (token.text in names or token.text in ("div", "mod")))
        or (token.kind == "op" and token.text in "+-*()")
        for token in tokens[2:]
    )


def _defining(reader: Reader) -> Node:
    if reader.token.text == "[":
        return reader.brackets()
    if reader.token.text == "{":
        return reader.braces()
    return reader.addition()
