"""Formulas over the variables of a label space: frozen nodes with ``& | ^ ~ >>``, evaluation and printing.

    >>> from dssl.logic.language.symbols import symbols
    >>> legs, fins = symbols("legs, fins")
    >>> print(legs >> ~fins)
    legs -> !fins

Evaluation is three-valued (Kleene): `Assignments` hold one array of value indices per variable, −1 where unknown, and
each formula gives two masks, *surely true* and *surely false*. On complete rows one is the other's complement.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.errors import RuleError
from dssl.logic.language.quoting import Value, quoted

MAX_DEPTH = 50  # connectives above an atom: text nested so deep can still be read by recursion
MAX_DIGITS = 15  # of a number
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Assignments:
    """What a formula is evaluated on: value indices (−1 unknown) and the values they stand for, by name."""

    indices: Mapping[str, NDArray[np.integer]]
    values: Mapping[str, tuple[Value, ...]]
    rows: int


class Formula:
    """A statement about a label. Combine with ``&``, ``|``, ``^``, ``~``, ``>>`` (implies) and `iff`."""

    __slots__ = ()
    level: int = 0  # how tightly it binds when printed: higher is tighter

    @property
    def parts(self) -> tuple[Formula, ...]:
        return ()

    def with_parts(self, parts: tuple[Formula, ...]) -> Formula:
        """The same connective over other parts."""
        return self

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        """Masks of the rows where the formula is surely true and surely false."""
        raise TypeError(f"{type(self).__name__} cannot be evaluated")

    def names(self) -> frozenset[str]:
        """The variables it speaks of."""
        return frozenset(name for atom in self.atoms() for name in atom.names())

    def atoms(self) -> Iterator[Formula]:
        """Its atoms, from left to right."""
        stack: list[Formula] = [self]
        while stack:
            node = stack.pop()
            if node.parts:
                stack.extend(reversed(node.parts))
            elif not isinstance(node, Truth):
                yield node

    def numbers(self) -> tuple[int, ...]:
        """The numbers written in it, without those of its parts."""
        return ()

    def map_atoms(self, change: Callable[[Formula], Formula]) -> Formula:
        """The same formula with every atom replaced."""
        if self.parts:
            return self.with_parts(tuple(part.map_atoms(change) for part in self.parts))
        return self if isinstance(self, Truth) else change(self)

    def rename(self, names: Mapping[str, str]) -> Formula:
        """The same formula about other variables."""
        return self.map_atoms(lambda atom: atom._renamed(names))

    def _renamed(self, names: Mapping[str, str]) -> Formula:
        return self

    def iff(self, other: Any) -> Formula:
        return Iff(self, as_formula(other))

    def __and__(self, other: Any) -> Formula:
        return And.of(*_operands("&", self, as_formula(other)))

    def __or__(self, other: Any) -> Formula:
        return Or.of(*_operands("|", self, as_formula(other)))

    def __xor__(self, other: Any) -> Formula:
        joined = Xor.of(*_operands("^", self, as_formula(other)))
        return Xor(joined.parts, by_operator=True)

    def __rshift__(self, other: Any) -> Formula:
        _operands(">>", self)
        return Implies(self, as_formula(other), by_operator=True)

    __rand__ = __and__
    __ror__ = __or__
    __rxor__ = __xor__

    def __rrshift__(self, other: Any) -> Formula:
        return as_formula(other) >> self

    def __invert__(self) -> Formula:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError(
            "a formula has no truth value of its own: combine with & | ~ >> instead of 'and', 'or', 'not', "
            "and compare one variable at a time"
        )


def _operands(symbol: str, *formulas: Formula) -> tuple[Formula, ...]:
    """The formulas, refused where Python groups them differently from rule text: brackets cannot be seen.

    Python's ``>>`` binds tighter than ``& ^ |`` and groups from the left, its ``^`` tighter than ``|``; the language
    has it the other way round. So what an operator made is refused next to one that binds tighter in rule text.
    """
    for formula in formulas:
        if isinstance(formula, Implies) and formula.by_operator:
            meant = "a >> (b >> c)" if symbol == ">>" else f"a >> (b {symbol} c)"
            raise RuleError(
                f"'{formula}' beside {symbol}: Python groups >> before {symbol}, rule text groups it after",
                remedy=f"Say which is meant: {meant}, or implies(a, b) {symbol} c, with implies from dssl.logic.",
            )
        if symbol == "|" and isinstance(formula, Xor) and formula.by_operator:
            raise RuleError(
                f"'{formula}' beside |: Python groups ^ before |, rule text groups it after",
                remedy="Say which is meant: a ^ (b | c), or xor(a, b) | c, with xor from dssl.logic.",
            )
    return formulas


@dataclass(frozen=True)
class Truth(Formula):
    """`true` or `false`."""

    value: bool
    level = 9

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        return np.full(labels.rows, self.value), np.full(labels.rows, not self.value)

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True)
class Is(Formula):
    """A binary variable is true."""

    name: str
    level = 9

    def names(self) -> frozenset[str]:
        return frozenset((self.name,))

    def _renamed(self, names: Mapping[str, str]) -> Formula:
        return Is(names.get(self.name, self.name))

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        index = labels.indices[self.name]
        return index == 1, index == 0

    def __str__(self) -> str:
        return quoted(self.name)


@dataclass(frozen=True)
class In(Formula):
    """A categorical or integer variable takes one of some values."""

    name: str
    values: tuple[str | int, ...]
    level = 9

    def names(self) -> frozenset[str]:
        return frozenset((self.name,))

    def _renamed(self, names: Mapping[str, str]) -> Formula:
        return In(names.get(self.name, self.name), self.values)

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        index, values = labels.indices[self.name], labels.values[self.name]
        member = np.zeros(len(values) + 1, dtype=bool)  # the last entry answers for −1
        member[[values.index(value) for value in self.values]] = True
        true = member[index]
        if member[:-1].all():
            true = np.ones_like(true)
        return true, ~true & (index >= 0)

    def __str__(self) -> str:
        if len(self.values) == 1:
            return f"{quoted(self.name)} = {quoted(self.values[0])}"
        return f"{quoted(self.name)} in {{{', '.join(map(quoted, self.values))}}}"


Term = tuple[int, str | Formula | None]  # a coefficient and what is counted; None stands for the constant 1
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Compare(Formula):
    """Two sums of integer variables compared; a binary variable counts as 0 or 1, and so does a formula."""

    left: tuple[Term, ...]
    op: str
    right: tuple[Term, ...]
    level = 9

    def names(self) -> frozenset[str]:
        counted = [x for _, x in self.left + self.right if x is not None]
        own = {x for x in counted if isinstance(x, str)}
        return frozenset(own.union(*(x.names() for x in counted if isinstance(x, Formula))))

    def numbers(self) -> tuple[int, ...]:
        return tuple(c for c, _ in self.left + self.right)

    def _renamed(self, names: Mapping[str, str]) -> Formula:
        def renamed(x: str | Formula | None) -> str | Formula | None:
            return x.rename(names) if isinstance(x, Formula) else x if x is None else names.get(x, x)

        left, right = (tuple((c, renamed(x)) for c, x in side) for side in (self.left, self.right))
        return Compare(left, self.op, right)

    def weights(self) -> tuple[dict[str | Formula, int], int]:
        """left − right as coefficients by what is counted and a constant: it says ``Σ c·counted + constant op 0``."""
        weights: dict[str | Formula, int] = {}
        constant = 0
        for sign, side in ((1, self.left), (-1, self.right)):
            for c, name in side:
                if name is None:
                    constant += sign * c
                else:
                    weights[name] = weights.get(name, 0) + sign * c
        return weights, constant

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        weights, constant = self.weights()
        most = abs(constant)
        for x, c in weights.items():
            most += abs(c) * (max(abs(int(v)) for v in labels.values[x]) if isinstance(x, str) else 1)
        dtype = np.int64 if most < 2**62 else object  # Python's own integers where 64 bits would wrap around
        low = np.full(labels.rows, constant, dtype=dtype)
        high = low.copy()
        for x, c in weights.items():
            index = labels.indices[x] if isinstance(x, str) else _truth_index(x, labels)
            scaled = np.array([c * int(v) for v in (labels.values[x] if isinstance(x, str) else (0, 1))], dtype=dtype)
            low += np.append(scaled, scaled.min())[index]  # index −1 takes the last entry
            high += np.append(scaled, scaled.max())[index]
        true, false = _bounds_hold(self.op, low, high)
        return true.astype(bool), false.astype(bool)

    def __str__(self) -> str:
        return f"{sum_text(self.left)} {self.op} {sum_text(self.right)}"


def _truth_index(formula: Formula, labels: Assignments) -> NDArray[np.integer]:
    """1 where a formula surely holds, 0 where it surely fails, −1 elsewhere."""
    true, false = formula.kleene(labels)
    return np.where(true, 1, np.where(false, 0, -1))


def _bounds_hold(op: str, low: Any, high: Any) -> tuple[Mask, Mask]:
    """``x op 0`` for every, and for no, x in [low, high]."""
    if op in ("=", "!="):
        equal, apart = (low == 0) & (high == 0), (low > 0) | (high < 0)
        return (equal, apart) if op == "=" else (apart, equal)
    compare = _COMPARE[op]
    both = compare(low, 0), compare(high, 0)
    return both[0] & both[1], np.logical_not(both[0] | both[1])


def compare_holds(op: str, value: int) -> bool:
    """``value op 0``."""
    return bool(_COMPARE[op](value, 0))


def sum_text(terms: tuple[Term, ...]) -> str:
    """A sum as rule text."""
    out = ""
    for c, x in terms:
        text = f"count({x})" if isinstance(x, Formula) else "" if x is None else quoted(x)
        size = str(abs(c)) if x is None else text if abs(c) == 1 else f"{abs(c)}*{text}"
        out += (("-" if c < 0 else "") if not out else (" - " if c < 0 else " + ")) + size
    return out


@dataclass(frozen=True)
class Count(Formula):
    """At most, at least or exactly k of some formulas hold."""

    op: str  # "<=", ">=", "="
    k: int
    args: tuple[Formula, ...]
    level = 9

    @property
    def parts(self) -> tuple[Formula, ...]:
        return self.args

    def with_parts(self, parts: tuple[Formula, ...]) -> Formula:
        return Count(self.op, self.k, parts)

    def numbers(self) -> tuple[int, ...]:
        return (self.k,)

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        low = np.full(labels.rows, -self.k, dtype=np.int64)
        high = low + len(self.args)
        for arg in self.args:
            true, false = arg.kleene(labels)
            low += true
            high -= false
        return _bounds_hold(self.op, low, high)

    def __str__(self) -> str:
        args = ", ".join(map(str, self.args))
        if self.op == "=" and self.k == 1:
            return f"exactly_one({args})"
        name = {"<=": "at_most", ">=": "at_least", "=": "exactly"}[self.op]
        return f"{name}({self.k}, {args})"


@dataclass(frozen=True)
class Not(Formula):
    arg: Formula
    level = 8

    @property
    def parts(self) -> tuple[Formula, ...]:
        return (self.arg,)

    def with_parts(self, parts: tuple[Formula, ...]) -> Formula:
        return Not(parts[0])

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        true, false = self.arg.kleene(labels)
        return false, true

    def __str__(self) -> str:
        if isinstance(self.arg, In):
            text = str(self.arg)
            cut = len(quoted(self.arg.name))
            if len(self.arg.values) == 1:
                return f"{text[:cut]} != {text[cut + 3 :]}"
            return f"{text[:cut]} not{text[cut:]}"
        if isinstance(self.arg, Compare):
            return f"!({self.arg})"
        return f"!{_bracketed(self.arg, self.level)}"


@dataclass(frozen=True)
class _Joined(Formula):
    """A connective over two or more parts; parts of the same kind are merged into it."""

    args: tuple[Formula, ...]
    symbol = ""

    @classmethod
    def of(cls, *args: Formula) -> Formula:
        """The connective over `args`, flat."""
        flat: list[Formula] = []
        for arg in args:
            flat += arg.args if type(arg) is cls else [arg]
        return flat[0] if len(flat) == 1 else cls(tuple(flat))

    @property
    def parts(self) -> tuple[Formula, ...]:
        return self.args

    def with_parts(self, parts: tuple[Formula, ...]) -> Formula:
        return type(self).of(*parts)

    def _folded(self, labels: Assignments, of_true: np.ufunc, of_false: np.ufunc) -> tuple[Mask, Mask]:
        """The parts' masks joined, one part at a time: table(…) may have thousands."""
        true, false = (mask.copy() for mask in self.args[0].kleene(labels))
        for arg in self.args[1:]:
            surely, never = arg.kleene(labels)
            of_true(true, surely, out=true)
            of_false(false, never, out=false)
        return true, false

    def __str__(self) -> str:
        return f" {self.symbol} ".join(_bracketed(arg, self.level + 1) for arg in self.args)


@dataclass(frozen=True)
class And(_Joined):
    level = 7
    symbol = "&"

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        return self._folded(labels, np.logical_and, np.logical_or)


@dataclass(frozen=True)
class Or(_Joined):
    level = 6
    symbol = "|"

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        return self._folded(labels, np.logical_or, np.logical_and)


@dataclass(frozen=True)
class Xor(_Joined):
    """An odd number of the parts hold."""

    by_operator: bool = field(default=False, compare=False, repr=False)  # made by Python's ^
    level = 5
    symbol = "^"

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        known, odd = np.ones(labels.rows, dtype=bool), np.zeros(labels.rows, dtype=bool)
        for arg in self.args:  # one part at a time: table(…) may have thousands
            true, false = arg.kleene(labels)
            known &= true | false
            odd ^= true
        return known & odd, known & ~odd


@dataclass(frozen=True)
class Implies(Formula):
    premise: Formula
    conclusion: Formula
    by_operator: bool = field(default=False, compare=False, repr=False)  # made by Python's >>
    level = 4

    @property
    def parts(self) -> tuple[Formula, ...]:
        return self.premise, self.conclusion

    def with_parts(self, parts: tuple[Formula, ...]) -> Formula:
        return Implies(parts[0], parts[1])

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        return Or((Not(self.premise), self.conclusion)).kleene(labels)

    def __str__(self) -> str:
        return f"{_bracketed(self.premise, self.level + 1)} -> {_bracketed(self.conclusion, self.level)}"


@dataclass(frozen=True)
class Iff(Formula):
    left: Formula
    right: Formula
    level = 3

    @property
    def parts(self) -> tuple[Formula, ...]:
        return self.left, self.right

    def with_parts(self, parts: tuple[Formula, ...]) -> Formula:
        return Iff(*parts)

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        true, false = Xor((self.left, self.right)).kleene(labels)
        return false, true

    def __str__(self) -> str:
        return f"{_bracketed(self.left, self.level)} <-> {_bracketed(self.right, self.level + 1)}"


def _bracketed(part: Formula, level: int) -> str:
    return str(part) if part.level >= level else f"({part})"


def as_formula(value: Any) -> Formula:
    """A formula from a formula, a symbol or a bool."""
    if isinstance(value, Formula):
        return value
    if hasattr(value, "formula"):  # a Symbol
        return as_formula(value.formula())
    if isinstance(value, bool | np.bool_):
        return Truth(bool(value))
    raise RuleError(
        f"{value!r} is not a formula", remedy="Use symbols(...), formulas combined with & | ~ >>, or True and False."
    )
