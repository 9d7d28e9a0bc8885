"""Elements that variables choose: ``w[i]`` is the element at the place that i says, in every label."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from dssl.logic.language.constants import Scalar
from dssl.logic.language.formula import And, Formula, Or
from dssl.logic.language.quoting import Value
from dssl.logic.language.syntax import Node, Number, Word
from dssl.logic.language.variables import shown

if TYPE_CHECKING:
    from dssl.logic.language.expanding.expansion import Expander

MAX_CHOICES = 10_000  # elements that one word can stand for


class Indices:
    """Reads indices that speak of variables, for an expander."""

    def __init__(self, expander: Expander) -> None:
        self.expander = expander

    def choices(self, word: Word) -> Iterator[tuple[Formula, Word]]:
        """Each element that the word can be, and when it is that one. The conditions exclude each other."""
        axes = [self._places(part) for part in self._parts(word)]
        if (count := prod(map(len, axes))) > MAX_CHOICES:
            self.expander.fail(
                word.token, f"an index with {count:,} values", f"Up to {MAX_CHOICES:,} are written out: use fewer."
            )
        self.expander.longer = True
        for combination in itertools.product(*(axis.items() for axis in axes)):
            index = tuple(value for value, _ in combination)
            self._require(word, index)
            when = And.of(*(condition for _, condition in combination if condition is not None))
            yield when, Word(word.token, word.text, tuple(self._literal(word, value) for value in index))

    def _parts(self, word: Word) -> tuple[Node, ...]:
        assert word.index is not None
        return word.index

    def _literal(self, word: Word, value: Scalar) -> Node:
        return Number(word.token, value) if isinstance(value, int) else Word(word.token, value)

    def _require(self, word: Word, index: tuple[Scalar, ...]) -> None:
        """An error if there is no such element: labels in which an index leads nowhere would mean nothing."""
        if self.expander.constants.has_element(word.text, index):
            return
        whole = f"{shown(word.text)}[{', '.join(map(str, index))}]"
        self.expander.fail(
            word.token,
            f"there is no element {whole}, which the index of '{shown(word.text)}[…]' can mean",
            "Give the variable in the index only values that are indices.",
        )

    def _places(self, part: Node) -> dict[Scalar, Formula | None]:
        """The values of one index, each with when it has that value; None for always."""
        constants = self.expander.constants
        if not constants.is_variable(part):
            return {constants.scalar(part): None}
        out: dict[Scalar, Formula | None] = {}
        for value, when in self._values(part):
            before = out.get(value)
            out[value] = when if before is None else Or.of(before, when)
        return out

    def _values(self, part: Node) -> Iterator[tuple[Scalar, Formula]]:
        expander = self.expander
        if not isinstance(part, Word):
            terms = expander.sums.terms(part)
            for total in expander.sums.totals(part, terms):
                right = ((total, None),)
                yield total, expander.placed(part.token, lambda right=right: expander.scope.compare(terms, "=", right))  # type: ignore[misc]
        elif expander.constants.varies(part):
            for when, word in self.choices(part):
                known = expander.static(word)
                inner = [(known, None)] if known is not None else self._values(word)
                for value, condition in inner:
                    yield value, when if condition is None else And.of(when, condition)
        else:
            name = expander.variable(part)
            for value in expander.placed(part.token, lambda: expander.scope[name]).values:
                yield _scalar(value), expander.scope.member(name, (value,))


def _scalar(value: Value) -> Scalar:
    return int(value) if isinstance(value, bool) else value
