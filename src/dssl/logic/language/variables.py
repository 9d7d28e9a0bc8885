"""Variables of a label space, and the scope that says whether an atom fits them."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from dssl.errors import RuleError
from dssl.logic.language.formula import MAX_DIGITS, And, Compare, Formula, In, Is, Not, Or, Term, Truth
from dssl.logic.language.quoting import RESERVED, Value, quoted
from dssl.logic.language.structures.patterns import Structure

MAX_VALUES = 100_000
T = TypeVar("T")
_KEPT_WHOLE = 60  # names longer than this are cut in messages and get no suggestion


@dataclass(frozen=True)
class Variable:
    """One variable: "binary" (false, true), "categorical", or "integer", whose values can be compared and added."""

    name: str
    kind: str = "binary"
    values: tuple[Value, ...] = (False, True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", canonical(self.name))
        if not isinstance(self.name, str):
            raise RuleError(f"the name {shown(self.name)} is of type {type(self.name).__name__}", remedy="Give a text.")
        if not self.name:
            raise RuleError("a name cannot be empty", remedy="Give every variable a name.")
        if not self.binary:
            values = tuple(map(canonical, self.values))
            if values != self.values:  # elements of an array keep sharing theirs
                object.__setattr__(self, "values", values)
            self._require_writable()

    def _require_writable(self) -> None:
        """Refuse values that could not be read again from the variable's own text."""
        if len(self.values) > MAX_VALUES:
            raise RuleError(
                f"'{shown(self.name)}' has more than {MAX_VALUES:,} values",
                remedy="Each value is one output of the network: bin them into fewer values.",
            )
        if len(set(self.values)) < len(self.values):
            twice = next(v for i, v in enumerate(self.values) if v in self.values[:i])
            raise RuleError(f"'{shown(self.name)}' has the value '{shown(twice)}' twice", remedy="Remove one.")
        for value in self.values:
            if value == "":
                raise RuleError(f"'{shown(self.name)}' has a value without a name", remedy="Give every value a name.")
            if isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
                raise RuleError(
                    f"'{shown(self.name)}' has a value of more than {MAX_DIGITS} digits", remedy="Use smaller numbers."
                )

    @classmethod
    def choice(cls, name: str, values: Iterable[str | int]) -> Variable:
        """A variable over some values: integer if all of them are integers, otherwise categorical."""
        given = tuple(values)
        integer = bool(given) and all(isinstance(value, int) and not isinstance(value, bool) for value in given)
        return cls(name, "integer" if integer else "categorical", given)

    @property
    def binary(self) -> bool:
        return self.kind == "binary"

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of its columns: its own, or one per value."""
        return (self.name,) if self.binary else tuple(f"{self.name}={value}" for value in self.values)

    @cached_property
    def positions(self) -> dict[Value, int]:
        """Index of each value."""
        return {value: i for i, value in enumerate(self.values)}

    def __str__(self) -> str:
        return quoted(self.name) if self.binary else f"{quoted(self.name)}: {self.domain_text}"

    @property
    def domain_text(self) -> str:
        """Its values as rule text."""
        if self.kind == "integer":
            first, last = int(self.values[0]), int(self.values[-1])
            if last - first == len(self.values) - 1 and self.values == tuple(range(first, last + 1)):
                return f"{first}..{last}"
        return "{" + ", ".join(map(quoted, self.values)) + "}"


def canonical(name: T) -> T:
    """A name in Unicode's composed form (NFC): text that looks the same is the same, however it was typed."""
    if not isinstance(name, str) or name.isascii():
        return name
    return unicodedata.normalize("NFC", name)  # type: ignore[return-value]


def nearest(name: object, known: Iterable[str]) -> str:
    """' Did you mean "x"?' with the closest known name, or nothing."""
    if not isinstance(name, str) or len(name) > _KEPT_WHOLE:
        return ""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"Did you mean '{found[0]}'? " if found else ""


def shown(name: Value) -> str:
    """A name for a message, cut if it is very long."""
    text = str(name)
    return text if len(text) <= _KEPT_WHOLE else text[:_KEPT_WHOLE] + "…"


def listed(values: Iterable[Value], most: int = 8) -> str:
    """The first few of some values, for a message."""
    texts = [shown(value) for value in values]
    return ", ".join(texts[:most]) + (f", … ({len(texts)} in all)" if len(texts) > most else "")


def negated(atom: Formula) -> Formula:
    """What holds where an atom of equality does not, as it is usually written: ``x != 5``."""
    return Compare(atom.left, "!=", atom.right) if isinstance(atom, Compare) else Not(atom)


class Scope:
    """The declared variables: turns names and values into atoms that fit them, or says why they do not."""

    def __init__(self, variables: Iterable[Variable]) -> None:
        self.variables = {variable.name: variable for variable in variables}

    def __getitem__(self, name: str) -> Variable:
        found = self.variables.get(name) or self.variables.get(canonical(name))
        if found is None:
            raise RuleError(
                f"'{shown(name)}' is not declared",
                remedy=(f"The operator is written {str(name).lower()}. " if str(name).lower() in RESERVED else "")
                + nearest(name, self.variables)
                + (f"Declared: {listed(self.variables)}. " if self.variables else "Nothing is declared yet. ")
                + f"A line '{quoted(shown(name))}' declares it as binary.",
            )
        return found

    def truth(self, name: str) -> Formula:
        """The atom "binary `name` is true"."""
        variable = self[name]
        if not variable.binary:
            example = quoted(variable.values[0])
            raise RuleError(
                f"'{name}' is {variable.kind}, not binary, and is neither true nor false",
                remedy=f"Compare it with a value: {quoted(name)} = {example}.",
            )
        return Is(variable.name)

    def member(self, name: str, values: Iterable[Value]) -> Formula:
        """The atom "`name` takes one of `values`"."""
        variable, wanted = self[name], tuple(dict.fromkeys(map(canonical, values)))
        if variable.binary:
            return self._binary_member(variable, wanted)
        for value in wanted:
            number = variable.kind == "integer" and isinstance(value, int)  # one out of reach is never taken
            if isinstance(value, bool) or not (number or value in variable.positions):
                raise RuleError(
                    f"'{name}' has no value '{shown(value)}'",
                    remedy=nearest(str(value), map(str, variable.values)) + f"Its values: {listed(variable.values)}.",
                )
        taken = tuple(v for v in wanted if v in variable.positions and not isinstance(v, bool))
        if not taken and len(wanted) == 1 and isinstance(wanted[0], int):
            return Compare(((1, variable.name),), "=", ((wanted[0], None),))
        return In(variable.name, taken) if taken else Truth(False)

    def _binary_member(self, variable: Variable, wanted: tuple[Value, ...]) -> Formula:
        if not set(wanted) <= {0, 1}:  # True and False equal 1 and 0
            raise RuleError(
                f"'{variable.name}' is binary and cannot be '{listed(w for w in wanted if w not in (0, 1))}'",
                remedy=f"Write {quoted(variable.name)} or !{quoted(variable.name)}; "
                f"or declare its values: {quoted(variable.name)}: {{…}}.",
            )
        if len(wanted) == 1:
            return Is(variable.name) if wanted[0] else Not(Is(variable.name))
        return Truth(bool(wanted))

    def compare(self, left: tuple[Term, ...], op: str, right: tuple[Term, ...]) -> Formula:
        """A comparison of sums; equality of two categorical variables is written out value by value."""
        counted = [x for _, x in left + right if x is not None]
        variables = [self[name] for name in counted if isinstance(name, str)]
        names = [
            side[0][1] for side in (left, right) if len(side) == 1 and side[0][0] == 1 and isinstance(side[0][1], str)
        ]
        wordy = [variable for variable in variables if variable.kind == "categorical"]
        if len(names) == 2 and len(wordy) == 2 and op in ("=", "!="):
            return self._same(*wordy, equal=op == "=")
        if wordy:
            name = wordy[0].name
            raise RuleError(
                f"'{name}' is categorical: its values can be neither ordered nor added",
                remedy=f"Use = != or in with its values ({listed(wordy[0].values)}), "
                "or declare it over integers: name: 0..9.",
            )
        if op in ("=", "!=") and len(variables) == 1 and names == [variables[0].name] and len(right) == 1:
            number = right[0][0]
            if right[0][1] is None and (variables[0].kind == "integer" or number in (0, 1)):
                atom = self.member(variables[0].name, (number,))  # 1*x = 3 is x = 3, and is printed like that
                return atom if op == "=" else negated(atom)
        if not counted:
            raise RuleError("a comparison of two numbers says nothing about labels", remedy="Name a variable in it.")
        return Compare(left, op, right)

    def _same(self, a: Variable, b: Variable, *, equal: bool) -> Formula:
        shared = [v for v in a.values if v in b.positions and not isinstance(v, bool)]
        either: list[Formula] = [And((In(a.name, (v,)), In(b.name, (v,)))) for v in shared]
        same = Or.of(*either) if either else Truth(False)
        return same if equal else Not(same)

    def fit(self, formula: Formula) -> Formula:
        """A formula from Python, checked against the declarations."""
        return formula.map_atoms(self._fit_atom)

    def _fit_atom(self, atom: Formula) -> Formula:
        if isinstance(atom, Is):
            return self.truth(atom.name)
        if isinstance(atom, In):
            return self.member(atom.name, atom.values)
        if isinstance(atom, Compare):
            return self.compare(atom.left, atom.op, atom.right)
        if isinstance(atom, Structure):
            for name in sorted(atom.names()):
                self[name]
            return atom
        raise RuleError(f"{atom!r} is not an atom of the rule language", remedy="Use symbols(...) and their operators.")
