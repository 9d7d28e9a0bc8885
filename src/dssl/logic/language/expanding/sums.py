"""Numbers in the tree of a statement → terms: coefficients, and the variables and formulas that they count."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from dssl.logic.language.formula import And, Compare, Formula, In, Is, Not, Or, Term, Truth, compare_holds
from dssl.logic.language.quoting import Value
from dssl.logic.language.structures.patterns import Operand
from dssl.logic.language.syntax import Addition, Call, Conditional, Each, Node, Product, Word, words
from dssl.logic.language.variables import shown

if TYPE_CHECKING:
    from dssl.logic.language.expanding.expansion import Expander

MAX_STEPS = 1_000  # from the least to the largest value of max(…) or min(…) inside a sum


class Sums:
    """Reads numbers for an expander, which knows names, loops and formulas."""

    def __init__(self, expander: Expander) -> None:
        self.expander = expander
        self._functions: dict[str, Callable[[Call], Iterator[Term]]] = {
            "sum": self.added, "count": self.counted, "element": self.chosen, "max": self.steps, "min": self.steps,
        }  # fmt: skip

    def terms(self, node: Node) -> tuple[Term, ...]:
        """A sum as coefficients and variables, in the order in which they are written."""
        if isinstance(node, Addition):
            known = self.expander.static(node) if words(node) else None
            if known is not None:
                return ((self.expander.constants.number(node), None),)
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
            return ((self.expander.constants.number(node), None),)
        assert isinstance(node, Word)
        name = self.expander.variable(node)
        self.expander.placed(node.token, lambda: self.expander.scope[name])
        return ((1, name),)

    def product(self, node: Product) -> tuple[Term, ...]:
        """A product with at most one factor that speaks of variables."""
        factor, inner = 1, None
        for op, part in (("*", node.first), *node.rest):
            value = self.expander.static(part)
            if value is not None and (inner is None or op == "*"):
                factor = self.expander.constants.multiplied(factor, op, self.expander.constants.number(part), part)
            elif value is None and inner is None and op == "*":
                inner = part
            elif value is None:
                self.expander.fail(
                    part.token,
                    f"expected a number, found '{shown(part.token.text)}'",
                    "Write an integer, as in 0..9 or at_most(1, a, b).",
                )
            else:
                self.expander.fail(
                    part.token, f"'{op}' after a variable", "Only numbers known beforehand can be divided."
                )
        return tuple((factor * c, name) for c, name in self.terms(inner)) if inner is not None else ((factor, None),)

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
        operands = [operand for arg in call.args for operand in self.operands(arg)]
        if op in ("=", "!="):
            both = And.of(self.extreme(call, "<=", other), self.extreme(call, ">=", other))
            return both if op == "=" else Not(both)
        parts = [self._compared(call, operand, op, other) for operand in operands]
        bounds_all = (call.token.text == "max") == (op in ("<", "<="))
        return And.of(*parts) if bounds_all else Or.of(*parts)

    def _compared(self, call: Call, left: Operand, op: str, right: Operand) -> Formula:
        if all(x is None for _, x in left + right):
            return Truth(compare_holds(op, sum(c for c, _ in left) - sum(c for c, _ in right)))
        return self.expander.placed(call.token, lambda: self.expander.scope.compare(left, op, right))

    def steps(self, call: Call) -> Iterator[Term]:
        """``max(…)`` or ``min(…)`` inside a sum: its least value, and one more for each number that it reaches."""
        operands = [operand for arg in call.args for operand in self.operands(arg)]
        ends = [self._ends(operand) for operand in operands]
        best = max if call.token.text == "max" else min
        low, high = best(low for low, _ in ends), best(high for _, high in ends)
        if high - low > MAX_STEPS:
            self.expander.fail(call.token, f"{call.token.text}(…) between {low:,} and {high:,}", "Use shorter ranges.")
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
            return ((number, None) for number in self.expander.constants.slice(word))
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


def _counting(c: int, formula: Formula) -> Term:
    """c where a formula holds; a binary variable counts by itself."""
    return c, formula.name if isinstance(formula, Is) else formula
