"""The Python form of rules: symbols for variables, and the cardinality functions.

>>> from dssl.logic import exactly_one
>>> from dssl.logic.language.symbols import symbols
>>> legs, fins, wings = symbols("legs, fins, wings")
>>> print(exactly_one(legs, fins, wings))
exactly_one(legs, fins, wings)
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from dssl.errors import RuleError
from dssl.logic.language.formula import (
    And,
    Compare,
    Count,
    Formula,
    Implies,
    In,
    Is,
    Not,
    Or,
    Term,
    Truth,
    Xor,
    as_formula,
    sum_text,
)
from dssl.logic.language.variables import canonical, shown


class Symbol:
    """A variable named in Python: a formula under ``& | ^ ~ >>``, a term under comparisons and sums.

    >>> species, age = symbols("species, age")
    >>> print(species.isin(["cat", "dog"]) >> (age + 1 <= 9))
    species in {cat, dog} -> age + 1 <= 9
    """

    __slots__ = ("terms",)

    def __init__(self, *terms: Term) -> None:
        self.terms = terms

    def _name(self) -> str:
        if len(self.terms) == 1 and self.terms[0][0] == 1 and isinstance(self.terms[0][1], str):
            return self.terms[0][1]
        raise RuleError(
            f"'{sum_text(self.terms)}' is a sum, not a statement", remedy="Compare it: a sum needs <, <=, =, … ."
        )

    def formula(self) -> Formula:
        return Is(self._name())

    def isin(self, values: Any) -> Formula:
        return In(self._name(), tuple(dict.fromkeys(values)))

    def _compared(self, op: str, other: Any) -> Formula:
        other = other.item() if isinstance(other, np.generic) else other
        if isinstance(other, bool) and op in ("=", "!="):
            atom: Formula = Is(self._name())
            return atom if other == (op == "=") else Not(atom)
        if isinstance(other, str) or (isinstance(other, int) and op in ("=", "!=") and self._single()):
            atom = In(self._name(), (other,))
            return atom if op == "=" else Not(atom)
        return Compare(self.terms, op, _terms(other))

    def _single(self) -> bool:
        return len(self.terms) == 1 and self.terms[0][0] == 1 and self.terms[0][1] is not None

    def __eq__(self, other: Any) -> Any:
        return self._compared("=", other)

    def __ne__(self, other: Any) -> Any:
        return self._compared("!=", other)

    def __lt__(self, other: Any) -> Formula:
        return self._compared("<", other)

    def __le__(self, other: Any) -> Formula:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> Formula:
        return self._compared(">", other)

    def __ge__(self, other: Any) -> Formula:
        return self._compared(">=", other)

    def __add__(self, other: Any) -> Symbol:
        return Symbol(*self.terms, *_terms(other))

    def __radd__(self, other: Any) -> Symbol:
        return Symbol(*_terms(other), *self.terms)

    def __sub__(self, other: Any) -> Symbol:
        return Symbol(*self.terms, *((-c, name) for c, name in _terms(other)))

    def __rsub__(self, other: Any) -> Symbol:
        return Symbol(*_terms(other), *((-c, name) for c, name in self.terms))

    def __mul__(self, factor: int) -> Symbol:
        if not isinstance(factor, int):
            return NotImplemented
        return Symbol(*((c * factor, name) for c, name in self.terms))

    __rmul__ = __mul__

    def __and__(self, other: Any) -> Formula:
        return self.formula() & other

    def __or__(self, other: Any) -> Formula:
        return self.formula() | other

    def __xor__(self, other: Any) -> Formula:
        return self.formula() ^ other

    def __rshift__(self, other: Any) -> Formula:
        return self.formula() >> other

    __rand__ = __and__
    __ror__ = __or__
    __rxor__ = __xor__

    def __rrshift__(self, other: Any) -> Formula:
        return as_formula(other) >> self

    def __invert__(self) -> Formula:
        return ~self.formula()

    def iff(self, other: Any) -> Formula:
        return self.formula().iff(other)

    __bool__ = Formula.__bool__

    def __hash__(self) -> int:
        return hash(self.terms)

    def __repr__(self) -> str:
        return sum_text(self.terms)


def _terms(value: Any) -> tuple[Term, ...]:
    if isinstance(value, Symbol):
        return value.terms
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return ((int(value), None),)
    if isinstance(value, Formula):  # Python groups & | ^ >> before ==, rule text groups them after =
        raise RuleError(
            f"the formula '{value}' cannot stand in a comparison", remedy="Put comparisons in brackets: a & (b == c)."
        )
    raise RuleError(f"{shown(repr(value))} cannot stand in a comparison", remedy="Use integers and variables.")


def symbols(names: str) -> tuple[Symbol, ...]:
    """Symbols for a comma- or space-separated list of names.

    Threads may share symbols and formulas.
    """
    return tuple(Symbol((1, name)) for name in re.split(r"[,\s]+", canonical(names).strip()) if name)


def conjunction(args: Any) -> Formula:
    """All of some formulas."""
    args = [as_formula(arg) for arg in args]
    return And.of(*args) if args else Truth(True)


def disjunction(args: Any) -> Formula:
    """Any of some formulas."""
    args = [as_formula(arg) for arg in args]
    return Or.of(*args) if args else Truth(False)


def implies(premise: Any, conclusion: Any) -> Formula:
    """The conclusion holds wherever the premise does. Unlike ``>>`` it shows where it ends: ``implies(a, b) & c``."""
    return Implies(as_formula(premise), as_formula(conclusion))


def xor(*args: Any) -> Formula:
    """An odd number of some formulas hold. Unlike ``^`` it shows where it ends: ``xor(a, b) | c``."""
    if not args:
        raise RuleError("xor() is empty", remedy="Give at least one formula.")
    return Xor.of(*map(as_formula, args))


def _count(op: str, k: int, args: tuple[Any, ...]) -> Formula:
    if isinstance(k, bool) or not isinstance(k, int) or k < 0 or not args:
        raise RuleError(
            f"a cardinality needs a whole number, not below 0, and a formula, not {k!r} and {len(args)} formulas",
            remedy="Write at_most(1, a, b).",
        )
    return Count(op, k, tuple(map(as_formula, args)))


def at_most(k: int, *args: Any) -> Formula:
    """At most k of some formulas hold."""
    return _count("<=", k, args)


def at_least(k: int, *args: Any) -> Formula:
    """At least k of some formulas hold."""
    return _count(">=", k, args)


def exactly(k: int, *args: Any) -> Formula:
    """Exactly k of some formulas hold."""
    return _count("=", k, args)


def exactly_one(*args: Any) -> Formula:
    """Exactly one of some formulas holds."""
    return exactly(1, *args)
