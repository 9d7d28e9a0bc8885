"""Formulas over the variables of a label space: frozen nodes with ``& | ^ ~ >>``, evaluation and printing.

    >>> from dssl.logic import symbols
    >>> legs, fins = symbols("legs, fins")
    >>> print(legs >> ~fins)
    legs -> !fins

Evaluation is three-valued (Kleene): a table holds one array of value indices a variable, −1 where unknown, and
each formula gives two masks, *surely true* and *surely false*. On complete rows one is the other's complement.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.errors import RuleError

Value = bool | int | str
Mask = NDArray[np.bool_]
RESERVED = frozenset(
    "not and or xor implies iff in true false all any none exactly_one exactly at_most at_least".split()
)


@dataclass(frozen=True)
class Table:
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

    def kleene(self, table: Table) -> tuple[Mask, Mask]:
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

    def depth(self) -> int:
        """How deep it is nested: 0 for an atom."""
        deepest, stack = 0, [(self, 0)]
        while stack:
            node, at = stack.pop()
            deepest = max(deepest, at)
            stack.extend((part, at + 1) for part in node.parts)
        return deepest

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
        return And.of(self, as_formula(other))

    def __or__(self, other: Any) -> Formula:
        return Or.of(self, as_formula(other))

    def __xor__(self, other: Any) -> Formula:
        return Xor.of(self, as_formula(other))

    def __rshift__(self, other: Any) -> Formula:
        return Implies(self, as_formula(other))

    __rand__ = __and__
    __ror__ = __or__
    __rxor__ = __xor__

    def __rrshift__(self, other: Any) -> Formula:
        return Implies(as_formula(other), self)

    def __invert__(self) -> Formula:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError(
            "a formula has no truth value of its own: combine with & | ~ >> instead of 'and', 'or', 'not', "
            "and compare one variable at a time"
        )


@dataclass(frozen=True)
class Truth(Formula):
    """`true` or `false`."""

    value: bool
    level = 9

    def kleene(self, table: Table) -> tuple[Mask, Mask]:
        return np.full(table.rows, self.value), np.full(table.rows, not self.value)

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

    def kleene(self, table: Table) -> tuple[Mask, Mask]:
        index = table.indices[self.name]
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

    def kleene(self, table: Table) -> tuple[Mask, Mask]:
        index, values = table.indices[self.name], table.values[self.name]
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


Term = tuple[int, str | None]  # coefficient and variable; None stands for the constant 1
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
    """Two sums of integer variables compared; a binary variable counts as 0 or 1."""

    left: tuple[Term, ...]
    op: str
    right: tuple[Term, ...]
    level = 9

    def names(self) -> frozenset[str]:
        return frozenset(name for _, name in self.left + self.right if name is not None)

    def _renamed(self, names: Mapping[str, str]) -> Formula:
        left, right = (
            tuple((c, name if name is None else names.get(name, name)) for c, name in side)
            for side in (self.left, self.right)
        )
        return Compare(left, self.op, right)

    def weights(self) -> tuple[dict[str, int], int]:
        """left − right as coefficients by name and a constant: the comparison is ``Σ c·name + constant op 0``."""
        weights: dict[str, int] = {}
        constant = 0
        for sign, side in ((1, self.left), (-1, self.right)):
            for c, name in side:
                if name is None:
                    constant += sign * c
                else:
                    weights[name] = weights.get(name, 0) + sign * c
        return weights, constant

    def kleene(self, table: Table) -> tuple[Mask, Mask]:
        weights, constant = self.weights()
        most = abs(constant) + sum(abs(c) * max(abs(int(v)) for v in table.values[name]) for name, c in weights.items())
        dtype = np.int64 if most < 2**62 else object  # Python's own integers where 64 bits would wrap around
        low = np.full(table.rows, constant, dtype=dtype)
        high = low.copy()
        for name, c in weights.items():
            scaled = np.array([c * int(v) for v in table.values[name]], dtype=dtype)
            low += np.append(scaled, scaled.min())[table.indices[name]]  # index −1 takes the last entry
            high += np.append(scaled, scaled.max())[table.indices[name]]
        true, false = _bounds_hold(self.op, low, high)
        return true.astype(bool), false.astype(bool)

    def __str__(self) -> str:
        return f"{sum_text(self.left)} {self.op} {sum_text(self.right)}"


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
    out = ""
    for c, name in terms:
        size = str(abs(c)) if name is None else (quoted(name) if abs(c) == 1 else f"{abs(c)}*{quoted(name)}")
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

    def kleene(self, table: Table) -> tuple[Mask, Mask]:
        low = np.full(table.rows, -self.k, dtype=np.int64)
        high = low + len(self.args)
        for arg in self.args:
            true, false = arg.kleene(table)
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

    def kleene(self, table: Table) -> tuple[Mask, Mask]:
        true, false = self.arg.kleene(table)
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

    def __str__(self) -> str:
        return f" {self.symbol} ".join(_bracketed(arg, self.level + 1) for arg in self.args)


@dataclass(frozen=True)
class And(_Joined):
    level = 7
    symbol = "&"

    def kleene(self, table: Table) -> tuple[Mask, Mask]:
        masks = [arg.kleene(table) for arg in self.args]
        return reduce(operator.and_, (t for t, _ in masks)), reduce(operator.or_, (f for _, f in masks))


@dataclass(frozen=True)
class Or(_Joined):
    level = 6
    symbol = "|"

    def kleene(self, table: Table) -> tuple[Mask, Mask]:
        masks = [arg.kleene(table) for arg in self.args]
        return reduce(operator.or_, (t for t, _ in masks)), reduce(operator.and_, (f for _, f in masks))


@dataclass(frozen=True)
class Xor(_Joined):
    """An odd number of the parts hold."""

    level = 5
    symbol = "^"

    def kleene(self, table: Table) -> tuple[Mask, Mask]:
        masks = [arg.kleene(table) for arg in self.args]
        known = reduce(operator.and_, (t | f for t, f in masks))
        odd = reduce(operator.xor, (t for t, _ in masks))
        return known & odd, known & ~odd


@dataclass(frozen=True)
class Implies(Formula):
    premise: Formula
    conclusion: Formula
    level = 4

    @property
    def parts(self) -> tuple[Formula, ...]:
        return self.premise, self.conclusion

    def with_parts(self, parts: tuple[Formula, ...]) -> Formula:
        return Implies(*parts)

    def kleene(self, table: Table) -> tuple[Mask, Mask]:
        return Or((Not(self.premise), self.conclusion)).kleene(table)

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

    def kleene(self, table: Table) -> tuple[Mask, Mask]:
        true, false = Xor((self.left, self.right)).kleene(table)
        return false, true

    def __str__(self) -> str:
        return f"{_bracketed(self.left, self.level)} <-> {_bracketed(self.right, self.level + 1)}"


def _bracketed(part: Formula, level: int) -> str:
    return str(part) if part.level >= level else f"({part})"


_PLAIN = re.compile(r"[^\W\d]\w*\Z")


def quoted(name: Value) -> str:
    """A name or value as rule text: in quotes where it has other characters or is a reserved word."""
    if not isinstance(name, str) or (_PLAIN.match(name) and name not in RESERVED):
        return str(name)
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def as_formula(value: Any) -> Formula:
    """A formula out of a formula, a symbol or a bool."""
    if isinstance(value, Formula):
        return value
    if hasattr(value, "formula"):  # a Symbol
        return as_formula(value.formula())
    if isinstance(value, bool | np.bool_):
        return Truth(bool(value))
    raise RuleError(
        f"{value!r} is not a formula", remedy="Use symbols(...), formulas combined with & | ~ >>, or True and False."
    )
