"""The tree of a statement as it was written: names not yet looked up, loops not yet gone through.

`reading.py` makes these trees out of tokens, `expansion.py` turns them into formulas. Every node keeps the token that
an error about it points at.
"""

from __future__ import annotations

from dataclasses import dataclass

from dssl.logic.language.structures.rowfiles import Listing
from dssl.logic.language.tokens import Token


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a statement, and where it stands."""

    token: Token


@dataclass(frozen=True, slots=True)
class Word(Node):
    """A name, perhaps with an index: a variable, a bound name, a constant or a value."""

    text: str
    index: tuple[Node, ...] | None = None


@dataclass(frozen=True, slots=True)
class Number(Node):
    value: int


@dataclass(frozen=True, slots=True)
class Flag(Node):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True)
class Star(Node):
    """``*`` in an index: everything."""


@dataclass(frozen=True, slots=True)
class Span(Node):
    """``low..high``."""

    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class Values(Node):
    """``{a, b, 3}``; the items are words, numbers and spans."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Items(Node):
    """``[3, 1, 4]``; the items may be lists themselves."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Addition(Node):
    """Terms added, each with its sign."""

    terms: tuple[tuple[int, Node], ...]


@dataclass(frozen=True, slots=True)
class Product(Node):
    """``first * second``, and so on with ``*``, ``div`` and ``mod``, from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Membership(Node):
    """A name, and the values that it may take."""

    left: Word
    values: Node


@dataclass(frozen=True, slots=True)
class Negation(Node):
    part: Node


@dataclass(frozen=True, slots=True)
class Joined(Node):
    """Parts joined by ``&``, ``|``, ``^``, ``->`` or ``<->``."""

    symbol: str
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function and its arguments."""

    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """``if condition then one else other``: formulas or numbers."""

    condition: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Listed(Node):
    """``table(x, y) in {(1, a), (2, b)}``."""

    columns: tuple[Node, ...]
    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class FileRows(Node):
    """``table(x, y) in "rows.csv"``."""

    columns: tuple[Node, ...]
    listing: Listing


@dataclass(frozen=True, slots=True)
class Sequence(Node):
    """``regular(x[*], "a b*")``: variables in a row, and the expression that describes their values."""

    columns: tuple[Node, ...]
    pattern: str
    pattern_token: Token


@dataclass(frozen=True, slots=True)
class Use(Node):
    """``kin(x, 3)``: a rule with parameters, used."""

    name: str
    args: tuple[Node, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Loops:
    """``i in 1..9, j in 1..9 where i < j``: names with what they go through, and conditions on them."""

    names: tuple[Token, ...]
    domains: tuple[Node, ...]
    where: tuple[Node, ...] = ()

    def __add__(self, other: Loops) -> Loops:
        return Loops(self.names + other.names, self.domains + other.domains, self.where + other.where)


@dataclass(frozen=True, slots=True)
class Each(Node):
    """``body for i in 1..9``: one copy of the body for each binding."""

    body: Node
    loops: Loops


@dataclass(frozen=True, slots=True)
class Statement(Node):
    """A rule as it was written: a formula for each binding of its loops."""

    formula: Node
    probability: float | None
    loops: Loops
    why: str | None


def words(node: Node) -> list[str]:
    """The names that stand in a sum, a range or a set."""
    if isinstance(node, Word):
        return [node.text, *(word for part in node.index or () for word in words(part))]
    parts: tuple[Node, ...] = ()
    if isinstance(node, Addition):
        parts = tuple(part for _, part in node.terms)
    elif isinstance(node, Product):
        parts = (node.first, *(part for _, part in node.rest))
    elif isinstance(node, Span):
        parts = (node.low, node.high)
    elif isinstance(node, Values):
        parts = node.items
    return [word for part in parts for word in words(part)]
