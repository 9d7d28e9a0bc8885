"""Statements of several lines: rules indented below a loop, and hierarchy.

A hierarchy is ``hierarchy:`` and the classes below it, indented below one another or as ``cat, dog < mammal < animal``;
the latter may also stand on the same line. Options stand before the colon: ``hierarchy one path:``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dssl.logic.language.arrays import element
from dssl.logic.language.constants import Constants
from dssl.logic.language.declaring import is_remark
from dssl.logic.language.formula import Formula
from dssl.logic.language.reading import Reader
from dssl.logic.language.structures import hierarchy
from dssl.logic.language.tokens import Source, Token, formatted
from dssl.logic.language.variables import Scope, Variable, nearest, shown

_EXAMPLE = "Write cat, dog < mammal < animal, or classes indented below one another."


class Hierarchy(NamedTuple):
    """The lines of a hierarchy: what stands before the colon, and the classes, each line with its level."""

    header: list[Token]
    lines: list[tuple[int, list[Token]]]

    @property
    def text(self) -> str:
        """The block as tidy rule text."""
        head = formatted(self.header)
        if len(self.lines) == 1 and self.lines[0][0] < 0:  # on the line of the header
            return f"{head} {formatted(self.lines[0][1])}"
        return "\n".join([head, *("    " * (level + 1) + formatted(tokens) for level, tokens in self.lines)])

    @property
    def tokens(self) -> list[Token]:
        return [token for _, line in self.lines for token in line]

    def why(self, source: Source) -> str | None:
        """The remark before the header."""
        return Reader(source, self.header).remark()


def blocks(source: Source, lines: Sequence[list[Token]]) -> Iterator[list[Token] | Hierarchy]:
    """The statements, each with the loops of the lines above it that it is indented under; hierarchies as such."""
    open_: list[list[Token]] = []  # tokens of a line ``for i in 1..9:`` that rules are indented under
    filled = True
    at = 0
    while at < len(lines):
        tokens = lines[at]
        at += 1
        indent = source.indent(tokens[0].at)
        while open_ and indent <= source.indent(open_[-1][0].at):
            if not filled:
                _refuse_empty(source, open_[-1])
            open_.pop()
        after = tokens[2:] if is_remark(tokens) else tokens
        loop = after[0].kind == "name" and after[0].text == "for" and tokens[-2].text == ":"
        filled = not loop
        if loop:
            open_.append(tokens[:-1])
        elif _is_hierarchy(after):
            if open_:
                source.fail(tokens[0].at, "a hierarchy in a loop", "Write it outside, once.")
            end = at
            while end < len(lines) and source.indent(lines[end][0].at) > indent:
                end += 1
            yield _hierarchy(source, tokens, lines[at:end])
            at = end
        else:
            yield [token for header in open_ for token in header] + tokens if open_ else tokens
    if not filled:
        _refuse_empty(source, open_[-1])


def _refuse_empty(source: Source, header: list[Token]) -> None:
    source.fail(header[-1].at, "a loop without a rule", "Write for i in 1..9: rule, or the rules indented below it.")


# ---- hierarchies: lines ----


def _is_hierarchy(tokens: Sequence[Token]) -> bool:
    """Whether a line begins a hierarchy, and is not about a variable of that name."""
    first, second = tokens[:2]
    if first.kind != "name" or first.text != "hierarchy":
        return False
    if second.kind == "op" and second.text == ":":
        return tokens[2].kind == "end" or any(token.kind == "op" and token.text == "<" for token in tokens)
    return second.kind == "name" and second.text not in ("in", "div", "mod")


def _hierarchy(source: Source, tokens: list[Token], below: Sequence[list[Token]]) -> Hierarchy:
    start = 2 if is_remark(tokens) else 0
    colons = (i for i, token in enumerate(tokens) if i >= start and token.kind == "op" and token.text == ":")
    colon = next(colons, 0)
    if not colon:
        source.fail(tokens[-1].at, "a hierarchy without a ':'", "Write hierarchy one path: and the classes below it.")
    header, rest = tokens[: colon + 1], tokens[colon + 1 :]
    if len(rest) > 1:
        if below:
            source.fail(
                below[0][0].at,
                "an indented line below a hierarchy of one line",
                "Write all classes below 'hierarchy:', or none.",
            )
        return Hierarchy(header, [(-1, rest)])
    if not below:
        source.fail(header[-1].at, "a hierarchy without classes", _EXAMPLE)
    return Hierarchy(header, list(zip(_levels(source, below), below)))


def _levels(source: Source, lines: Sequence[list[Token]]) -> Iterator[int]:
    """How deep each line is indented below the first."""
    open_: list[str] = []
    previous = ""
    for tokens in lines:
        start = tokens[0].at
        space = source.text[start - source.indent(start) : start]
        while len(open_) > 1 and len(open_[-1]) > len(space):
            open_.pop()
        if not open_ or space != open_[-1]:
            if open_ and not (space.startswith(open_[-1]) and previous == open_[-1]):
                source.fail(
                    start,
                    "no line above is indented like this one",
                    "Indent it as far as the classes beside it, with the same spaces or tabs.",
                )
            open_.append(space)
        previous = space
        yield len(open_) - 1


# ---- hierarchies: classes ----


class Edge(NamedTuple):
    """A class is right below another, as these tokens say."""

    child: str
    parent: str
    token: Token


class Classes:
    """The classes of a hierarchy, in the order in which they are named, and which are right below which."""

    def __init__(self, source: Source, block: Hierarchy, constants: Constants) -> None:
        self.source, self.block, self.constants = source, block, constants
        self.option = self._option()
        self.tokens: dict[str, Token] = {}  # of each class, where it is named first
        self.edges: dict[tuple[str, str], Edge] = {}
        self._indented: set[tuple[str | None, str]] = set()
        above: list[list[tuple[str, Token]]] = []
        for level, line in block.lines:
            groups = self._groups(line)
            del above[max(level, 0) :]
            self._add(groups, above)
            above.append(groups[0])

    def _option(self) -> str:
        words = self.block.header[3 if self.block.header[0].kind == "string" else 1 : -1]
        option = " ".join(token.text for token in words) or "any"
        if option not in hierarchy.OPTIONS:
            self.source.fail(
                words[0].at,
                f"a hierarchy has no option '{shown(option)}'",
                nearest(option, hierarchy.OPTIONS) + f"Choose {hierarchy.options()}.",
            )
        return option

    def _groups(self, line: list[Token]) -> list[list[tuple[str, Token]]]:
        """The classes between the ``<`` of a line."""
        reader = Reader(self.source, line, (), self.constants.definitions)
        groups: list[list[tuple[str, Token]]] = [[]]
        while True:
            token = reader.token
            name = reader.name("a class") if reader.next.text != "[" else self._element(reader)
            if name in self.constants:
                reader.fail(f"'{shown(name)}' is a constant, not a class", "Rename one of them.", token)
            if any(name == other for other, _ in groups[-1]):
                reader.fail(f"the class '{shown(name)}' is named twice", "Remove one.", token)
            groups[-1].append((name, token))
            self.tokens.setdefault(name, token)
            if reader.take("<"):
                groups.append([])
            elif not reader.take(","):
                break
        if reader.token.kind != "end":
            reader.fail(f"expected ',' or '<' between classes, found {reader.found()}", _EXAMPLE)
        return groups

    def _element(self, reader: Reader) -> str:
        word = reader.word()
        return element(word.text, (self.constants.scalar(part) for part in word.index or ()))

    def _add(self, groups: list[list[tuple[str, Token]]], above: list[list[tuple[str, Token]]]) -> None:
        """The edges of one line: within it, and from its last classes to those it is indented under."""
        if len(groups) == 1:
            for name, token in groups[0]:
                for parent in [name_ for name_, _ in above[-1]] if above else [None]:
                    if (parent, name) in self._indented:
                        self.source.fail(token.at, f"the class '{shown(name)}' is named twice here", "Remove one.")
                    self._indented.add((parent, name))
        for lower, upper in zip(groups, [*groups[1:], *above[-1:]]):
            for child, token in lower:
                for parent, _ in upper:
                    self.edges.setdefault((child, parent), Edge(child, parent, token))

    @property
    def parents(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {name: [] for name in self.tokens}
        for child, parent in self.edges:
            out[child].append(parent)
        return out

    def undeclared(self, declared: Iterable[str], arrays: Iterable[str]) -> list[Variable]:
        """Binary variables for the classes that have none."""
        known, taken = set(declared), set(arrays)
        out = []
        for name, token in self.tokens.items():
            if name in taken:
                self.source.fail(token.at, f"'{shown(name)}' is an array, not a class", f"Name an element: {name}[1].")
            if name not in known and not name.endswith("]"):
                out.append(Variable(name))
        return out

    def formulas(self, scope: Scope) -> list[tuple[Formula, Token]]:
        """What the hierarchy says, each part with the token that says it."""
        parents = self.parents
        if circle := hierarchy.circle(parents):
            last = max((self.edges[pair].token for pair in itertools.pairwise(circle)), key=lambda token: token.at)
            steps = hierarchy.steps_text(circle)
            self.source.fail(last.at, f"the hierarchy has a cycle: {steps}", "Remove one of these steps.")
        for name, token in self.tokens.items():
            self.constants.placed(token, lambda name=name: scope.truth(name))  # type: ignore[misc]
        found = hierarchy.formulas(parents, self.option)
        tokens = [self.edges[pair].token for pair in hierarchy.edges(parents)]
        return list(zip(found, [*tokens, *[self.block.header[0]] * (len(found) - len(tokens))]))
