"""Rules with a name and parameters: ``rule kin(a, b) = parent[a, b] | parent[b, a]``, defined once and used in rules.

An argument is a number, a name, an element of an array or a part of one. What is known beforehand is bound to its
parameter as a loop binds its name; what names variables takes the place of its parameter.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from dssl.logic.language.formula import MAX_DEPTH
from dssl.logic.language.reading import Reader, is_function
from dssl.logic.language.syntax import Node, Use, Word
from dssl.logic.language.terms import Signature
from dssl.logic.language.tokens import Cursor, Source, Token
from dssl.logic.language.variables import Scope, shown

_EXAMPLE = "Write rule kin(a, b) = formula."


class Predicate(NamedTuple):
    """A rule with parameters: its head, what it says, and its line."""

    signature: Signature
    body: Node
    tokens: list[Token]


def is_predicate(tokens: Sequence[Token]) -> bool:
    """Whether a line defines a rule, and is not about a variable called rule."""
    first, second = tokens[:2]
    return first.kind == second.kind == "name" and first.text == "rule" and second.text not in ("in", "div", "mod")


def predicates(
    source: Source, lines: Iterable[list[Token]], declared: Container[str], constants: Mapping[str, Any], scope: Scope
) -> dict[str, Predicate]:
    """The rules with parameters among some lines; `declared` are the names of variables and arrays."""
    heads: dict[str, tuple[Signature, Cursor]] = {}
    for tokens in lines:
        if is_predicate(tokens):
            signature, cursor = _head(source, tokens)
            name = signature.name
            if name in declared or name in constants:
                what = "a variable" if name in declared else "a constant"
                cursor.fail(f"'{shown(name)}' is {what} and a rule", "Rename one of them.", tokens[1])
            if name in heads:
                line = heads[name][0].line
                cursor.fail(
                    f"the rule '{shown(name)}' is defined twice, first in line {line}", "Remove one.", tokens[1]
                )
            heads[name] = signature, cursor
    signatures = {name: signature for name, (signature, _) in heads.items()}
    out: dict[str, Predicate] = {}
    for name, (signature, cursor) in heads.items():
        known = {*constants, *signature.parameters}
        reader = Reader(source, cursor.tokens, declared, known, scope, signatures)
        reader.at = cursor.at
        body = reader.formula()
        reader.finish()
        out[name] = Predicate(signature, body, cursor.tokens)
    _refuse_circles(source, out)
    return out


def _head(source: Source, tokens: list[Token]) -> tuple[Signature, Cursor]:
    """``rule kin(a, b) =``, and a cursor behind it."""
    cursor = Cursor(source, tokens)
    cursor.at = 1
    name = cursor.name("a rule")
    if is_function(name):
        cursor.fail(f"'{name}' is a function of the rule language", "Give the rule another name.", tokens[1])
    cursor.expect("(", "after the name of a rule", _EXAMPLE)
    parameters: list[str] = []
    while not cursor.take(")"):
        token = cursor.token
        if token.kind != "name":
            cursor.fail(f"expected the name of a parameter, found {cursor.found()}", _EXAMPLE)
        parameter = cursor.name("a parameter")
        if parameter in parameters:
            cursor.fail(f"the parameter '{shown(parameter)}' is named twice", "Rename one.", token)
        parameters.append(parameter)
        if not cursor.take(",") and cursor.token.text != ")":
            cursor.fail(f"expected ',' or ')' between parameters, found {cursor.found()}", _EXAMPLE)
    cursor.expect("=", "before what a rule says", _EXAMPLE)
    return Signature(name, tuple(parameters), source.line(tokens[0].at)), cursor


def _refuse_circles(source: Source, found: Mapping[str, Predicate]) -> None:
    """Refuse rules that use themselves, by way of others too, and chains of uses that are too long."""
    depth: dict[str, int] = {}
    for start in found:
        stack = [(start, uses(found[start].body))]
        path = {start}
        while stack:
            name, rest = stack[-1]
            use = next((use for use in rest if use.name not in depth), None)
            if use is None:
                stack.pop()
                path.discard(name)
                depth[name] = 1 + max((depth[use.name] for use in uses(found[name].body)), default=0)
            elif use.name in path:
                source.fail(
                    use.token.at,
                    f"the rule '{shown(use.name)}' of line {found[use.name].signature.line} is defined by itself",
                    "A rule can use others, but not itself.",
                )
            else:
                path.add(use.name)
                stack.append((use.name, uses(found[use.name].body)))
        if depth[start] > MAX_DEPTH:
            at = found[start].tokens[1].at
            source.fail(at, f"rules that use each other deeper than {MAX_DEPTH}", "Write some of them out.")


def uses(node: Any) -> Iterator[Use]:
    """The uses of rules in a tree, from left to right."""
    if isinstance(node, Use):
        yield node
    if isinstance(node, tuple):
        for part in node:
            yield from uses(part)
    elif is_dataclass(node) and not isinstance(node, Token | type):
        for field in fields(node):
            yield from uses(getattr(node, field.name))


def replaced(node: Any, words: Mapping[str, Word]) -> Any:
    """The tree with other words in the place of some. An index goes on: row[*] is cell[1, *] where row is cell[1]."""
    if isinstance(node, Word) and node.text in words:
        word = words[node.text]
        if node.index is None:
            return word
        return Word(node.token, word.text, (*(word.index or ()), *replaced(node.index, words)))
    if isinstance(node, tuple):
        return tuple(replaced(part, words) for part in node)
    if isinstance(node, Token) or not is_dataclass(node) or isinstance(node, type):
        return node
    return type(node)(**{field.name: replaced(getattr(node, field.name), words) for field in fields(node)})
