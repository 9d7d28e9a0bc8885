"""Numbers in the tree of a statement → terms: coefficients, and the variables and formulas that they count."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from dssl.logic.language.formula import And, Compare, Formula, In, Is, Not, Or, Term, Truth, compare_holds
from dssl.logic.language.quoting import Value
from dssl.logic.language.structures.patterns import Operand
from dssl.logic.language.syntax import Addition, Call, Conditional, Each, Node, Product, Word, words
from dssl.logic.language.tokens import Token
from dssl.logic.language.variables import shown

if TYPE_CHECKING:
    from dssl.logic.language.expanding.expansion import Expander

EXTREMES = ("max", "min", "abs")  # numbers that are compared by comparing what they are made of
MAX_PAIRS = 10_000  # of steps of two factors
MAX_STEPS = 1_000  # from the least to the largest value of max(…) or min(…) inside a sum


class Sums:
    """Reads numbers for an expander, which knows names, loops and formulas."""

    def __init__(self, expander: Expander) -> None:
        self.expander, self.constants = expander, expander.constants
        self._functions: dict[str, Callable[[Call], Iterator[Term]]] = {
            "sum": self.added, "count": self.counted, "element": self.chosen, **dict.fromkeys(EXTREMES, self.steps),
        }  # fmt: skip

    def terms(self, node: Node) -> tuple[Term, ...]:
        """A sum as coefficients and variables, in the order in which they are written."""
        if isinstance(node, Addition):
            known = self.expander.static(node) if words(node) else None
            if known is not None:
                return ((self.constants.number(node), None),)
            return tuple((sign * c, name) for sign, part in node.terms for c, name in self.terms(part))
        if isinstance(node, Product):
            return self.product(node)
        if isinstance(node, Call):
            return tuple(self._functions[node.token.text](node)) or ((0, None),)
        if isinstance(node, Conditional):
            condition = self.expander.formula(node.condition)
            return (
                *self.gated(condition, self.terms(node.then)),
                *self.gated(Not(condition), self.terms(node.otherwise)),
            )
        value = self.expander.static(node)
        if value is not None:
            return ((self.constants.number(node), None),)
        assert isinstance(node, Word)
        if self.constants.varies(node):
            return tuple(
                term for when, one in self.expander.choices(node) for term in self.gated(when, self.terms(one))
            )
        name = self.expander.variable(node)
        self.expander.placed(node.token, lambda: self.expander.scope[name])
        return ((1, name),)

    def product(self, node: Product) -> tuple[Term, ...]:
        """A product, from left to right; numbers that are not known beforehand can be divided by those that are."""
        found = self.terms(node.first)
        for op, part in node.rest:
            if op == "*":
                found = self._times(found, self.terms(part), part)
            elif all(x is None for _, x in found):
                total = sum(c for c, _ in found)
                found = ((self.constants.multiplied(total, op, self.constants.number(part), part), None),)
            else:
                found = tuple(self._divided(found, op, part))
        return found or ((0, None),)

    def _times(self, left: tuple[Term, ...], right: tuple[Term, ...], part: Node) -> tuple[Term, ...]:
        """Each term of one side times each of the other, a variable being split into steps between its values."""
        for known, other in ((left, right), (right, left)):
            if all(x is None for _, x in known):
                factor = sum(c for c, _ in known)
                return tuple((self.constants.multiplied(c, "*", factor, part), x) for c, x in other)
        name = left[0][1] if len(left) == 1 else None
        if isinstance(name, str) and left == right:  # a square
            self.expander.longer = True
            return self.expander.placed(part.token, lambda: tuple(self._mapped(name, lambda v: (left[0][0] * v) ** 2)))
        sides = [self.expander.placed(part.token, lambda side=side: [*self._steps_of(side)]) for side in (left, right)]  # type: ignore[misc]
        if len(sides[0]) * len(sides[1]) > MAX_PAIRS:
            count = f"{len(sides[0]):,} times {len(sides[1]):,}"
            self.expander.fail(part.token, f"a product of {count} steps", f"Up to {MAX_PAIRS:,}: use shorter ranges.")
        self.expander.longer = True
        return tuple((a * b, _both(x, y)) for (a, x), (b, y) in itertools.product(*sides) if a * b)

    def _steps_of(self, terms: Iterable[Term]) -> Iterator[tuple[int, Formula | None]]:
        """A number as steps, each a formula that adds something where it holds; None adds it always."""
        for c, x in terms:
            if isinstance(x, str):
                yield from ((c * d, f) for d, f in self._mapped(x, lambda value: value))
            else:
                yield c, x

    def _mapped(self, name: str, function: Callable[[int], int]) -> Iterator[tuple[int, Formula | None]]:
        """A function of a variable, in steps from each of its values to the next."""
        values = sorted(int(value) for value in self._numbers(name))
        if function(values[0]):
            yield function(values[0]), None
        for below, value in itertools.pairwise(values):
            reached = self.expander.scope.compare(((1, name),), ">=", ((value, None),))
            yield function(value) - function(below), reached

    def _divided(self, found: tuple[Term, ...], op: str, part: Node) -> Iterator[Term]:
        """``found div n`` in steps, from each multiple of n to the next; ``found mod n`` is what is left."""
        self.expander.longer = True
        n = self.expander.static(part)
        if not isinstance(n, int) or n < 1:
            text = shown(part.token.text) if n is None else n
            self.expander.fail(
                part.token, f"'{op}' by '{text}'", "Divide by a number above 0 that is known beforehand."
            )
        function: Callable[[int], int] = (lambda v: v // n) if op == "div" else (lambda v: v % n)
        by_value = self.expander.placed(part.token, lambda: self._by_value(found, function))
        if by_value is not None:
            yield from by_value
            return
        low, high = self._ends(found)
        self._require_few(part.token, op, low // n, high // n)
        if op == "mod":
            yield from found
        factor = -n if op == "mod" else 1
        if low // n:
            yield factor * (low // n), None
        for k in range(low // n + 1, high // n + 1):
            yield factor, self.expander.scope.compare(found, ">=", ((k * n, None),))

    def _by_value(self, found: tuple[Term, ...], function: Callable[[int], int]) -> list[Term] | None:
        """A function of a number that speaks of one variable: what it adds for each set of values."""
        names = [(c, x) for c, x in found if isinstance(x, str)]
        constants = [c for c, x in found if x is None]
        if len(names) != 1 or len(constants) + 1 != len(found):
            return None
        (factor, name), constant = names[0], sum(constants)
        groups: dict[int, list[Value]] = {}
        for value in self._numbers(name):
            groups.setdefault(function(factor * int(value) + constant), []).append(value)
        least = min(groups)
        terms: list[Term] = [(least, None)] if least else []
        member = self.expander.scope.member
        return terms + [(value - least, member(name, group)) for value, group in groups.items() if value != least]

    def _require_few(self, token: Token, what: str, low: int, high: int) -> None:
        if high - low > MAX_STEPS:
            self.expander.fail(token, f"{what} between {low:,} and {high:,}", "Use shorter ranges.")

    def totals(self, node: Node, terms: tuple[Term, ...]) -> range:
        """The numbers that a sum may be."""
        low, high = self._ends(terms)
        self._require_few(node.token, "a number", low, high)
        return range(low, high + 1)

    def added(self, call: Call) -> Iterator[Term]:
        return (term for arg in call.args for term in self.summands(arg))

    def counted(self, call: Call) -> Iterator[Term]:
        """One for each formula that holds; a binary variable counts by itself."""
        for arg in call.args:
            for formula in self.expander.several(arg):
                yield _counting(1, formula)

    def chosen(self, call: Call) -> Iterator[Term]:
        """``element(i, a, b, c)``: the i-th of some numbers, i being a variable."""
        if not isinstance(call.args[0], Word):
            self.expander.fail(call.token, "element(…) starts with a variable", "Write element(i, x[*]).")
        name = self.expander.variable(call.args[0])
        places = self.expander.placed(call.args[0].token, lambda: self.expander.scope[name]).values
        operands = [operand for arg in call.args[1:] for operand in self.operands(arg)]
        for place in places:
            if isinstance(place, bool) or not isinstance(place, int) or not 1 <= place <= len(operands):
                self.expander.fail(
                    call.token,
                    f"element(…) chooses among {len(operands)}, and '{shown(name)}' can be {shown(place)}",
                    f"Declare {shown(name)}: 1..{len(operands)}.",
                )
            yield from self.gated(In(name, (place,)), operands[place - 1])

    def gated(self, condition: Formula, terms: Iterable[Term]) -> Iterator[Term]:
        """The terms where a condition holds, 0 elsewhere; a variable is split into steps between its values."""
        for c, x in terms:
            if not isinstance(x, str):
                yield _counting(c, condition if x is None else And.of(condition, x))
                continue
            values = sorted(int(value) for value in self._numbers(x))
            if values[0]:
                yield _counting(c * values[0], condition)
            for below, value in itertools.pairwise(values):
                yield c * (value - below), And.of(condition, Compare(((1, x),), ">=", ((value, None),)))

    def _numbers(self, name: str) -> Iterable[Value]:
        self.expander.scope.compare(((1, name),), "<=", ((1, name),))  # an error for names
        return self.expander.scope[name].values

    def extreme(self, call: Call, op: str, other: tuple[Term, ...]) -> Formula:
        """``max(…) op other``, or ``min``: by comparisons of each with the other side."""
        operands = self._compared_with(call)
        if op in ("=", "!="):
            both = And.of(self.extreme(call, "<=", other), self.extreme(call, ">=", other))
            return both if op == "=" else Not(both)
        parts = [self._compared(call, operand, op, other) for operand in operands]
        bounds_all = (call.token.text != "min") == (op in ("<", "<="))
        return And.of(*parts) if bounds_all else Or.of(*parts)

    def _compared_with(self, call: Call) -> list[Operand]:
        """The numbers of which ``max(…)`` or ``min(…)`` is one; ``abs(e)`` is the larger of e and -e."""
        operands = [operand for arg in call.args for operand in self.operands(arg)]
        if call.token.text != "abs":
            return operands
        if len(operands) != 1:
            self.expander.fail(call.token, f"abs(…) of {len(operands)} numbers", "Write abs(x - y).")
        return [operands[0], tuple((-c, x) for c, x in operands[0])]

    def _compared(self, call: Call, left: Operand, op: str, right: Operand) -> Formula:
        if all(x is None for _, x in left + right):
            return Truth(compare_holds(op, sum(c for c, _ in left) - sum(c for c, _ in right)))
        return self.expander.placed(call.token, lambda: self.expander.scope.compare(left, op, right))

    def steps(self, call: Call) -> Iterator[Term]:
        """``max(…)`` or ``min(…)`` inside a sum: its least value, and one more for each number that it reaches."""
        ends = [self._ends(operand) for operand in self._compared_with(call)]
        best = min if call.token.text == "min" else max
        low, high = best(low for low, _ in ends), best(high for _, high in ends)
        self._require_few(call.token, f"{call.token.text}(…)", low, high)
        yield low, None
        for number in range(low + 1, high + 1):
            yield 1, self.extreme(call, ">=", ((number, None),))

    def _ends(self, terms: Iterable[Term]) -> tuple[int, int]:
        """The least and the largest number that a sum can be."""
        low = high = 0
        for c, x in terms:
            numbers = [c] if x is None else [c * int(v) for v in (self._numbers(x) if isinstance(x, str) else (0, 1))]
            low, high = low + min(numbers), high + max(numbers)
        return low, high

    def summands(self, node: Node) -> Iterator[Term]:
        if isinstance(node, Each):
            for _ in self.expander.bindings(node.loops):
                yield from self.summands(node.body)
        elif isinstance(node, Word) and self.expander.is_slice(node):
            yield from self.elements(node)
        else:
            yield from self.terms(node)

    def elements(self, word: Word) -> Iterator[Term]:
        """The variables of a slice, or the numbers of a list."""
        if word.text in self.expander.constants:
            return ((number, None) for number in self.constants.slice(word))
        return ((1, name) for name in self.expander.elements(word))

    def operands(self, node: Node) -> Iterator[Operand]:
        """The operands of one argument of a pattern, each checked."""
        if isinstance(node, Each):
            for _ in self.expander.bindings(node.loops):
                yield from self.operands(node.body)
        elif isinstance(node, Word) and self.expander.is_slice(node):
            yield from ((term,) for term in self.elements(node))
        else:
            yield self.terms(node)


def _both(x: Formula | None, y: Formula | None) -> Formula | None:
    """What holds where both do; None holds always."""
    if x is None or y is None:
        return y if x is None else x
    return And.of(x, y)


def _counting(c: int, formula: Formula) -> Term:
    """c where a formula holds; a binary variable counts by itself."""
    return c, formula.name if isinstance(formula, Is) else formula
