"""Constraints on many variables at once, each one formula: all_different, increasing, lex, permutation, ranking, table.

A structure is short to write, to print and to blame. Whoever needs its meaning asks for `lowered`, the same in terms of
the other formulas: normalisation, evaluation and the fuzzy logics do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dssl.logic.language.formula import (
    And,
    Assignments,
    Compare,
    Count,
    Formula,
    In,
    Is,
    Mask,
    Not,
    Or,
    Term,
    Truth,
    sum_text,
)
from dssl.logic.language.quoting import Value, quoted

Operand = tuple[Term, ...]  # one variable, perhaps times a number and plus another
Domains = Mapping[str, tuple[Value, ...]]
MAX_PAIRS = 20_000  # clauses that say that two variables differ; beyond, counts do


class Structure(Formula):
    """A constraint on many variables. It is an atom: what it says is said by `lowered`."""

    level = 9

    def lowered(self, values: Domains) -> Formula:
        """The same constraint by other formulas, for variables of these values."""
        raise NotImplementedError

    def kleene(self, labels: Assignments) -> tuple[Mask, Mask]:
        return self.lowered(labels.values).kleene(labels)


@dataclass(frozen=True)
class Pattern(Structure):
    """A named constraint on a list of operands, such as ``all_different(x, y, z + 1)``."""

    function: str
    operands: tuple[Operand, ...]

    def names(self) -> frozenset[str]:
        return frozenset(name for operand in self.operands for _, name in operand if isinstance(name, str))

    def numbers(self) -> tuple[int, ...]:
        return tuple(c for operand in self.operands for c, _ in operand)

    def _renamed(self, names: Mapping[str, str]) -> Formula:
        renamed = (Compare(operand, "=", ())._renamed(names) for operand in self.operands)
        return Pattern(self.function, tuple(compare.left for compare in renamed))  # type: ignore[attr-defined]

    def lowered(self, values: Domains) -> Formula:
        return PATTERNS[self.function].meaning(self.operands, values)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(sum_text, self.operands))})"


@dataclass(frozen=True)
class Tuples(Structure):
    """Some variables take the values of one of some rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def names(self) -> frozenset[str]:
        return frozenset(self.columns)

    def _renamed(self, names: Mapping[str, str]) -> Formula:
        return Tuples(tuple(names.get(name, name) for name in self.columns), self.rows)

    def lowered(self, values: Domains) -> Formula:
        """A row with a number that a variable cannot take is no label's."""
        known = [set(values[name]) for name in self.columns]
        rows = [row for row in dict.fromkeys(self.rows) if all(value in of for value, of in zip(row, known))]
        options = [And.of(*map(_equals, self.columns, row)) for row in rows]
        return Or.of(*options) if options else Truth(False)

    def __str__(self) -> str:
        rows = ", ".join(f"({', '.join(map(_value_text, row))})" for row in self.rows)
        return f"table({', '.join(map(quoted, self.columns))}) in {{{rows}}}"


def _value_text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else quoted(value)


def _equals(name: str, value: Value) -> Formula:
    if isinstance(value, bool):
        return Is(name) if value else Not(Is(name))
    return In(name, (value,))


# ---- what the patterns mean ----


@dataclass(frozen=True)
class Meaning:
    """How a pattern is written, what it says, and which and how many operands it takes."""

    example: str
    meaning: Callable[[Sequence[Operand], Domains], Formula]
    numeric: bool = True
    binary: bool = False
    count: Callable[[int], bool] = lambda n: n > 0
    count_text: str = "at least one variable"


def _all_different(operands: Sequence[Operand], values: Domains) -> Formula:
    totals = [_totals(operand, values) for operand in operands]
    holders: dict[Value, list[Formula]] = {}
    for places in totals:
        for total, atom in places.items():
            holders.setdefault(total, []).append(atom)
    if len(holders) < len(operands):
        return Truth(False)
    pairs = sum(math.comb(len(atoms), 2) for atoms in holders.values())
    parts: list[Formula] = []
    for atoms in holders.values():
        if len(holders) == len(operands):  # as many values as variables: each is taken
            parts.append(Or.of(*atoms))
        if pairs > MAX_PAIRS and len(atoms) > 1:
            parts.append(Count("<=", 1, tuple(atoms)))
        else:
            parts += [Or((Not(a), Not(b))) for a, b in itertools.combinations(atoms, 2)]
    return And.of(*parts) if parts else Truth(True)


def _totals(operand: Operand, values: Domains) -> dict[Value, Formula]:
    """For each number or name that an operand can be, the atom that says it is."""
    weights, constant = Compare(operand, "=", ()).weights()
    ((name, c),) = weights.items()
    assert isinstance(name, str)
    places: dict[Value, list[Value]] = {}
    for value in values[name]:
        places.setdefault(value if isinstance(value, str) else c * int(value) + constant, []).append(value)
    return {total: _among(name, at) for total, at in places.items()}


def _among(name: str, at: Sequence[Value]) -> Formula:
    if isinstance(at[0], bool):
        return _equals(name, at[0]) if len(at) == 1 else Truth(True)
    return In(name, tuple(value for value in at if not isinstance(value, bool)))


def _neighbours(op: str) -> Callable[[Sequence[Operand], Domains], Formula]:
    def meaning(operands: Sequence[Operand], values: Domains) -> Formula:
        parts = [Compare(a, op, b) for a, b in itertools.pairwise(operands)]
        return And.of(*parts) if parts else Truth(True)

    return meaning


def _lex(operands: Sequence[Operand], values: Domains) -> Formula:
    """The first half, read from the left, is not above the second half."""
    half = len(operands) // 2
    pairs = list(zip(operands[:half], operands[half:]))
    out: Formula = Compare(pairs[-1][0], "<=", pairs[-1][1])
    for a, b in reversed(pairs[:-1]):
        out = And((Compare(a, "<=", b), Or((Compare(a, "<", b), out))))
    return out


def _square(operands: Sequence[Operand]) -> tuple[int, list[Formula]]:
    """The side of a square of binary variables, and the variables row by row."""
    return math.isqrt(len(operands)), [Is(str(operand[0][1])) for operand in operands]


def _permutation(operands: Sequence[Operand], values: Domains) -> Formula:
    """Exactly one in each row and each column."""
    n, cells = _square(operands)
    lines = [cells[i * n : (i + 1) * n] for i in range(n)] + [cells[i::n] for i in range(n)]
    return And.of(*(Count("=", 1, tuple(line)) for line in lines))


def _ranking(operands: Sequence[Operand], values: Domains) -> Formula:
    """x[i,j] says that i comes before j: one of two comes first, and the order is transitive."""
    n, cells = _square(operands)
    before = {(i, j): cells[i * n + j] for i in range(n) for j in range(n)}
    parts: list[Formula] = [Not(before[i, i]) for i in range(n)]
    for i, j in itertools.combinations(range(n), 2):
        parts += [Or((before[i, j], before[j, i])), Or((Not(before[i, j]), Not(before[j, i])))]
    for i, j, k in itertools.permutations(range(n), 3):
        parts.append(Or((Not(before[i, j]), Not(before[j, k]), before[i, k])))
    return And.of(*parts)


def _is_square(n: int) -> bool:
    return n > 0 and math.isqrt(n) ** 2 == n


_SQUARE = "as many binary variables as a square has, row by row"
PATTERNS = {
    "all_different": Meaning("all_different(x[*])", _all_different, numeric=False),
    "increasing": Meaning("increasing(x[*])", _neighbours("<=")),
    "strictly_increasing": Meaning("strictly_increasing(x[*])", _neighbours("<")),
    "lex": Meaning("lex(x[*], y[*])", _lex, count=lambda n: n > 0 and n % 2 == 0, count_text="two equally long lists"),
    "permutation": Meaning("permutation(x[*, *])", _permutation, binary=True, count=_is_square, count_text=_SQUARE),
    "ranking": Meaning("ranking(before[*, *])", _ranking, binary=True, count=_is_square, count_text=_SQUARE),
}
