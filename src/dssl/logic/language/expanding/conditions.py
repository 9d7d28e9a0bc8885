"""What stands after ``where``, as a function of the names that loops bind: tried a million times in seconds.

Comparisons of numbers and names, and ``& | !`` of them, are worked out here. Anything else, and whatever goes wrong,
is left to the expander, which knows how to say it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from dssl.logic.language.constants import Constants, Scalar
from dssl.logic.language.formula import compare_holds
from dssl.logic.language.syntax import Addition, Comparison, Joined, Negation, Node, Number, Product, Word, words

Binding = Mapping[str, Scalar]
Known = Callable[[Binding], bool]
_Number = Callable[[Binding], Scalar]
_TIMES: dict[str, Callable[[int, int], int]] = {"*": operator.mul, "div": operator.floordiv, "mod": operator.mod}


def known(node: Node, constants: Constants) -> Known | None:
    """Whether a condition holds for a binding, or None if it is not of the simple kind.

    The function raises TypeError or ZeroDivisionError where the condition makes no sense.
    """
    if isinstance(node, Negation):
        part = known(node.part, constants)
        return None if part is None else lambda binding: not part(binding)
    if isinstance(node, Joined) and node.symbol in ("&", "|"):
        parts = [known(part, constants) for part in node.parts]
        wanted = node.symbol == "|"
        return None if None in parts else lambda binding: any(p(binding) is wanted for p in parts) is wanted  # type: ignore[misc]
    if isinstance(node, Comparison) and (words(node.left) or words(node.right)):
        return _compared(node, _number(node.left, constants), _number(node.right, constants))
    return None


def _compared(node: Comparison, left: _Number | None, right: _Number | None) -> Known | None:
    if left is None or right is None:
        return None
    if node.op in ("=", "!="):
        same = node.op == "="
        return lambda binding: (left(binding) == right(binding)) is same
    op = node.op
    return lambda binding: compare_holds(op, left(binding) - right(binding))  # type: ignore[operator]


def _number(node: Node, constants: Constants) -> _Number | None:
    """A number, or the name that a loop goes through, as a function of the binding; None if it may be a variable."""
    if isinstance(node, Number):
        value = node.value
        return lambda binding: value
    if isinstance(node, Word) and node.index is None:
        name = node.text
        if name in constants.binding:
            return operator.itemgetter(name)
        if name not in constants:
            return None
        found = constants[name]
        return (lambda binding: found) if isinstance(found, int | str) else None
    if isinstance(node, Addition):
        terms = [(sign, _number(part, constants)) for sign, part in node.terms]
        if any(part is None for _, part in terms):
            return None
        return lambda binding: sum(sign * part(binding) for sign, part in terms)  # type: ignore[misc]
    if isinstance(node, Product):
        return _product(_number(node.first, constants), [(_TIMES[op], _number(p, constants)) for op, p in node.rest])
    return None


def _product(first: _Number | None, rest: list[tuple[Callable[[int, int], int], _Number | None]]) -> _Number | None:
    if first is None or any(part is None for _, part in rest):
        return None

    def value(binding: Binding) -> Scalar:
        total: int = 0 + first(binding)  # type: ignore[operator]
        for times, part in rest:
            total = times(total, 0 + part(binding))  # type: ignore[misc, operator]
        return total

    return value
