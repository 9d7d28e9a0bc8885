"""Constants of a rule text: numbers, sets and lists under a name, and arithmetic that can be done when rules are read.

``n = 9`` is a number, ``pets = {cat, dog}`` a set, ``w = [3, 1, 4]`` a list: w[1] is 3. ``w[0..2] = [3, 1, 4]`` says
its indices, as an array of variables does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import NoReturn

from dssl.errors import RuleError
from dssl.logic.language.arrays import Arrays, Index, can_index
from dssl.logic.language.formula import MAX_DEPTH, MAX_DIGITS
from dssl.logic.language.syntax import Addition, Items, Node, Number, Product, Span, Star, Values, Word, words
from dssl.logic.language.tokens import Source, Token
from dssl.logic.language.variables import MAX_VALUES, T, shown

Scalar = int | str
Constant = Scalar | tuple[Scalar, ...] | dict[Index, Scalar]


class Constants:
    """The constants of a text, evaluated when first asked for: the order of lines does not matter."""

    def __init__(self, source: Source, definitions: Mapping[str, tuple[Word, Node]] | None = None) -> None:
        self.source = source
        self.definitions = definitions or {}
        self.known: dict[str, Constant] = {}
        self.binding: dict[str, Scalar] = {}  # names of loops, and what they stand for now
        self.variables: Container[str] = ()  # declared names, and the arrays among them, once they are known
        self.arrays = Arrays(())
        self._axes: dict[tuple[str, int], frozenset[str]] = {}  # names among the indices of an axis
        self._open: list[str] = []

    def fail(self, token: Token, reason: str, remedy: str) -> NoReturn:
        """An error at a token, with the binding of the loops around it."""
        self.source.fail(token.at, reason + self.said(), remedy)

    def said(self) -> str:
        """For which binding: ``, for i = 3``."""
        pairs = ", ".join(f"{name} = {shown(value)}" for name, value in self.binding.items())
        return f", for {pairs}" if pairs else ""

    def __contains__(self, name: str) -> bool:
        return name in self.definitions

    def __getitem__(self, name: str) -> Constant:
        if name not in self.known:
            word, node = self.definitions[name]
            if name in self._open:
                self.fail(word.token, f"'{shown(name)}' is defined by itself", "Give it a number.")
            if len(self._open) > MAX_DEPTH:
                self.fail(word.token, f"constants nested deeper than {MAX_DEPTH}", "Give some of them a number.")
            self._open.append(name)
            binding, self.binding = self.binding, {}
            self.known[name] = self._defined(word, node)
            self.binding = binding
            self._open.pop()
        return self.known[name]

    def check(self) -> None:
        """Evaluate all constants, so that errors in those that nothing uses are found too."""
        for name in self.definitions:
            self[name]

    def _defined(self, word: Word, node: Node) -> Constant:
        if isinstance(node, Items):
            return self._list(word, node)
        if isinstance(node, Values | Span):
            return tuple(self.values(node))
        return self.number(node)

    def _list(self, word: Word, node: Items) -> dict[Index, Scalar]:
        entries = list(self._entries(node))
        if word.index is None:
            return {tuple(i + 1 for i in place): value for place, value in entries}
        axes = [self.values(part) for part in word.index]
        places = list(itertools.product(*axes))
        if len(places) != len(entries):
            self.fail(node.token, f"{len(entries)} values for {len(places)} indices", "Give one value for each index.")
        return {place: value for place, (_, value) in zip(places, entries)}

    def _entries(self, node: Items) -> Iterator[tuple[tuple[int, ...], Scalar]]:
        for i, item in enumerate(node.items):
            if isinstance(item, Items):
                yield from (((i, *rest), value) for rest, value in self._entries(item))
            else:
                yield (i,), self.scalar(item)

    # ---- what is known beforehand ----

    def static(self, node: Node) -> Scalar | None:
        """The number or name that a node stands for; None if it speaks of variables."""
        if isinstance(node, Word):
            return self._word(node)
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Addition | Product):
            return self._arithmetic(node)
        return None

    def _word(self, word: Word) -> Scalar | None:
        if word.index is None:
            if word.text in self.binding:
                return self.binding[word.text]
            found = self[word.text] if word.text in self.definitions else None
            return found if isinstance(found, int | str) else None
        if word.text not in self.definitions or self.varies(word):
            return None
        entries, index = self[word.text], tuple(self.scalar(part) for part in word.index)
        if not isinstance(entries, dict):
            self.fail(word.token, f"the constant '{shown(word.text)}' has no elements", "Write it without an index.")
        if index not in entries:
            self.fail(
                word.token,
                f"'{shown(word.text)}' has no element [{', '.join(map(str, index))}]",
                "The first element of a list has the index 1; w[0..2] = [3, 1, 4] says other indices.",
            )
        return entries[index]

    # ---- indices that speak of variables ----

    def varies(self, word: Word) -> bool:
        """Whether variables choose the element that a word means: ``w[i]``, i being a variable and no index of w."""
        return any(
            self.is_variable(part) and not (isinstance(part, Word) and self._is_index(word.text, axis, part))
            for axis, part in enumerate(word.index or ())
        )

    def is_variable(self, part: Node) -> bool:
        """Whether an index speaks of variables."""
        if isinstance(part, Star | Span | Values | Number) or self.static(part) is not None:
            return False
        if not isinstance(part, Word):
            return any(
                word in self.variables or word in self.arrays or word in self.definitions for word in words(part)
            )
        if part.index is None:
            return part.text in self.variables
        return self.varies(part) or part.text in self.arrays

    def _is_index(self, array: str, axis: int, part: Word) -> bool:
        """Whether a name is itself an index of a list or an array of variables."""
        return part.index is None and part.text in self._names(array, axis)

    def _names(self, array: str, axis: int) -> frozenset[str]:
        if (array, axis) not in self._axes:
            found = self[array] if array in self.definitions else self.arrays.elements.get(array, {})
            places = found if isinstance(found, dict) else ()
            names = (place[axis] for place in places if axis < len(place))
            self._axes[array, axis] = frozenset(name for name in names if isinstance(name, str))
        return self._axes[array, axis]

    def has_element(self, array: str, index: Index) -> bool:
        found = self[array] if array in self.definitions else self.arrays.elements.get(array, {})
        return isinstance(found, dict) and index in found

    def slice(self, word: Word) -> list[int]:
        """The numbers that a slice of a list means, ``w[*]``, in the order of the list."""
        entries, index = self[word.text], word.index or ()
        if not isinstance(entries, dict):
            self.fail(word.token, f"the constant '{shown(word.text)}' has no elements", "Write it without an index.")
        allowed = [None if isinstance(part, Star) else self.values(part) for part in index]
        found = [
            value
            for place, value in entries.items()
            if len(place) == len(allowed) and all(of is None or part in of for part, of in zip(place, allowed))
        ]
        if not found:
            self.fail(
                word.token, f"{shown(word.text)}[…] has no elements", "The first element of a list has the index 1."
            )
        return [self._whole(value, word) for value in found]

    def _arithmetic(self, node: Addition | Product) -> int | None:
        parts = (
            [part for _, part in node.terms] if isinstance(node, Addition) else [node.first, *(p for _, p in node.rest)]
        )
        values = [self.static(part) for part in parts]
        if None in values:
            return None
        numbers = [self._whole(value, part) for value, part in zip(values, parts)]
        if isinstance(node, Addition):
            return sum(sign * number for (sign, _), number in zip(node.terms, numbers))
        total = numbers[0]
        for (op, part), number in zip(node.rest, numbers[1:]):
            total = self.multiplied(total, op, number, part)
        return total

    def multiplied(self, total: int, op: str, number: int, part: Node) -> int:
        if op != "*" and number == 0:
            self.fail(part.token, f"'{op}' by 0", "Divide by another number.")
        total = total * number if op == "*" else total // number if op == "div" else total % number
        if abs(total) >= 10**MAX_DIGITS:
            self.fail(part.token, f"a number of {len(str(abs(total)))} digits", f"Use at most {MAX_DIGITS} digits.")
        return total

    def _whole(self, value: Scalar | None, node: Node) -> int:
        if isinstance(value, int):
            return value
        self.fail(node.token, f"'{shown(str(value))}' is a name, not a number", "Use numbers in arithmetic.")

    def number(self, node: Node) -> int:
        """A whole number that is known beforehand."""
        value = self.static(node)
        if value is None:
            self.fail(
                node.token,
                f"expected a number, found '{shown(node.token.text)}'",
                "Use numbers, constants and names bound by for.",
            )
        return self._whole(value, node)

    def scalar(self, node: Node) -> Scalar:
        """A number, or a name: that of a constant or a loop stands for its value, any other for itself."""
        value = self.static(node)
        if value is not None:
            return value
        if isinstance(node, Word) and node.index is None:
            return node.text
        return self.number(node)

    def values(self, node: Node) -> Sequence[Scalar]:
        """The values of a set, a range, or a constant that is one of them."""
        if isinstance(node, Span):
            return self.span(node)
        if isinstance(node, Values):
            return [value for item in node.items for value in self.values(item)]
        if isinstance(node, Word) and node.index is None and node.text in self.definitions:
            found = self[node.text]
            if isinstance(found, tuple):
                return found
            if isinstance(found, dict):
                return list(found.values())
        return [self.scalar(node)]

    def span(self, node: Span) -> range:
        low, high = self.number(node.low), self.number(node.high)
        if high < low - 1:  # 1..0 is a range of nothing
            self.fail(node.token, f"the range {low}..{high} is empty", f"Write {high}..{low}.")
        if high - low >= 10 * MAX_VALUES:
            self.fail(node.token, f"the range {low}..{high} has {high - low + 1:,} values", "Use a shorter range.")
        return range(low, high + 1)

    def axis(self, node: Node) -> list[Scalar]:
        """The values of one index of an array."""
        if isinstance(node, Star):
            self.fail(node.token, "'*' in a declaration", "Say which indices there are: cell[1..9].")
        out = list(dict.fromkeys(self.values(node)))
        for value in out:
            if isinstance(value, str) and not can_index(value):
                self.fail(
                    node.token,
                    f"'{shown(value)}' cannot be an index",
                    "Index by numbers, or by plain names: {cat, dog}.",
                )
        return out

    def placed(self, token: Token, make: Callable[[], T]) -> T:
        """What `make` gives; its error, if any, pointing at `token`."""
        try:
            return make()
        except RuleError as error:
            self.fail(token, error.reason, error.remedy)
