"""Operations on spaces: known values set, variables forgotten, two spaces compared label by label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING

from dssl.errors import ContradictionError, RuleError
from dssl.logic.language.formula import (
    And,
    Compare,
    Count,
    Formula,
    Iff,
    Implies,
    In,
    Is,
    Not,
    Or,
    Term,
    Truth,
    Xor,
    compare_holds,
)
from dssl.logic.language.parser import Rule
from dssl.logic.language.quoting import Value
from dssl.logic.language.structures.automata import Layered
from dssl.logic.language.structures.patterns import Domains, Structure, Tuples
from dssl.logic.language.variables import Scope, Variable, listed, shown

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace

MAX_ATOMS = 10_000  # of one rule that forgetting leaves
MAX_ROWS = 20_000  # labels that are gone through where rules cannot be rewritten


# ---- two spaces ----


@dataclass(frozen=True)
class Equivalence:
    """Whether two spaces have the same valid labels; it is true if they do.

    If not, `label` is valid in the `valid_in` space, "first" or "second", and breaks the rules `broken` of the other.
    """

    label: dict[str, Value] | None = None
    valid_in: str | None = None
    broken: tuple[Rule, ...] = ()

    def __bool__(self) -> bool:
        return self.label is None

    def __str__(self) -> str:
        if self.label is None:
            return "the same labels are valid in both"
        pairs = ", ".join(f"{name}={value}" for name, value in self.label.items())
        rules = "".join(f"\n  {rule}" for rule in self.broken)
        return f"valid in the {self.valid_in} only: {pairs}\nwhich breaks{rules}"


def equivalence(a: LabelSpace, b: LabelSpace) -> Equivalence:
    """Compare the valid labels of two spaces over the same variables, in any order."""
    first, second = ({v.name: v for v in space.variables} for space in (a, b))
    if first != second:
        odd = listed(sorted(name for name in first | second if first.get(name) != second.get(name)))
        raise RuleError(
            f"the two spaces differ in variables: {odd}",
            remedy="Declare the same variables in both, with the same values; forget(…) leaves some out.",
        )
    for one, other, which in ((a, b, "first"), (b, a, "second")):
        label = _outside(one, other)
        if label is not None:
            broken = tuple(rule for _, rules in other.check([label]) for rule in rules)
            return Equivalence(label, which, broken)
    return Equivalence()


def _outside(one: LabelSpace, other: LabelSpace) -> dict[str, Value] | None:
    """A label that is valid in one space and breaks a hard rule of the other."""
    hard = [rule.formula for rule in other.rules if rule.probability is None]
    if not hard:
        return None
    try:
        return next(one.where(Rule(Or.of(*(Not(formula) for formula in hard)))).valid(1), None)
    except ContradictionError:
        return None


# ---- forgetting ----


def forget(space: LabelSpace, names: Iterable[str]) -> tuple[tuple[Variable, ...], tuple[Rule, ...]]:
    """Variables and rules without some variables: a label is valid if the left-out ones can complete it."""
    scope = Scope(space.variables)
    left = {scope[name].name: scope[name] for name in ([names] if isinstance(names, str) else names)}
    kept = tuple(variable for variable in space.variables if variable.name not in left)
    if not kept:
        raise RuleError("forget(…) got all variables", remedy="Keep at least one.")
    if space.literal_weights is not None:
        raise RuleError("literals have weights, which forget(…) cannot keep", remedy="Use a space without weights.")
    for rule in space.rules:
        if rule.probability is not None and not left.keys().isdisjoint(rule.formula.names()):
            raise RuleError(
                f"the soft rule '{rule.text}' mentions a variable to forget",
                remedy="Leave it out: a weight of whole labels is no weight of what is left of them.",
            )
    rules = _About(space.rules, left)
    for name in [name for name in left if not rules.about[name]]:
        del left[name]
    while left:
        name = min(left, key=lambda name: len(rules.about[name]))
        variable, touched = left.pop(name), rules.taken(name)
        values = {v.name: v.values for v in (*kept, *left.values(), variable)}
        for rule in _without(space, variable, touched, values):
            rules.add(rule)
    return kept, tuple(rules.rules.values())


class _About:
    """Rules in their order, and of some names the numbers of the rules about them."""

    def __init__(self, rules: Iterable[Rule], names: Iterable[str]) -> None:
        self.rules: dict[int, Rule] = {}
        self.about: dict[str, set[int]] = {name: set() for name in names}
        self.number = count()
        for rule in rules:
            self.add(rule)

    def add(self, rule: Rule) -> None:
        number = next(self.number)
        self.rules[number] = rule
        for name in self.about.keys() & rule.formula.names():
            self.about[name].add(number)

    def taken(self, name: str) -> list[Rule]:
        """The rules about a name, which are removed."""
        found = {number: self.rules.pop(number) for number in sorted(self.about[name])}
        for about in {name for rule in found.values() for name in self.about.keys() & rule.formula.names()}:
            self.about[about] -= found.keys()
        return list(found.values())


class _TooLarge(Exception):
    """A rule that cannot be rewritten, or grows too much."""


def _without(space: LabelSpace, variable: Variable, rules: list[Rule], values: Domains) -> list[Rule]:
    """What rules say of the others: for one of the values of the variable, they hold."""
    if all(rule.formula.names() == {variable.name} for rule in rules):
        return []  # some value obeys them, as the space is not empty
    try:
        options = [_all(_fixed(rule.formula, variable.name, v, values) for rule in rules) for v in variable.values]
        found = _any(options)
        if sum(1 for _ in found.atoms()) > MAX_ATOMS:
            raise _TooLarge
        parts = found.args if isinstance(found, And) else () if found == Truth(True) else (found,)
        return [Rule(part) for part in parts]
    except (_TooLarge, RuleError):  # RuleError: nested too deep to be written
        return [_rows(space, variable, rules, values)]


def _rows(space: LabelSpace, variable: Variable, rules: list[Rule], values: Domains) -> Rule:
    """The same as a table of what is left of their labels."""
    named = frozenset().union(*(rule.formula.names() for rule in rules))
    inside = [one for one in space.variables if one.name in named]
    columns = tuple(one.name for one in inside if one.name != variable.name)
    labels = list(islice(type(space).of(inside, rules).valid(), MAX_ROWS + 1))
    if len(labels) > MAX_ROWS:
        raise RuleError(
            f"forgetting '{shown(variable.name)}' leaves a rule that cannot be written down: its rules are about "
            f"{len(columns)} other variables, with more than {MAX_ROWS:,} labels",
            remedy="Forget other variables first or together with it, or use count(over=…), which needs no rules.",
        )
    return Rule(Tuples(columns, tuple(dict.fromkeys(tuple(label[name] for name in columns) for label in labels))))


# ---- formulas in which a variable has a value ----


def _fixed(formula: Formula, name: str, value: Value, values: Domains) -> Formula:
    if name not in formula.names():
        return formula
    if isinstance(formula, Layered):
        raise _TooLarge
    if isinstance(formula, Structure):
        return _fixed(formula.lowered(values), name, value, values)
    if isinstance(formula, Is):
        return Truth(bool(value))
    if isinstance(formula, In):
        return Truth(value in formula.values)
    if isinstance(formula, Compare):
        return _compared(formula, name, value, values)
    return _folded(formula, [_fixed(part, name, value, values) for part in formula.parts])


def _compared(formula: Compare, name: str, value: Value, values: Domains) -> Formula:
    def terms(side: tuple[Term, ...]) -> tuple[Term, ...]:
        out: list[Term] = []
        for c, x in side:
            if isinstance(x, Formula):
                x = _fixed(x, name, value, values)
            number = int(value) if x == name else int(x.value) if isinstance(x, Truth) else None
            out.append((c, x) if number is None else (c * number, None))
        return tuple(out)

    found = Compare(terms(formula.left), formula.op, terms(formula.right))
    weights, constant = found.weights()
    return found if weights else Truth(compare_holds(found.op, constant))


def _folded(formula: Formula, parts: list[Formula]) -> Formula:
    """A connective of these parts, of which some are known."""
    if isinstance(formula, Not):
        return _negated(parts[0])
    if isinstance(formula, Implies):
        return (
            _any([_negated(parts[0]), parts[1]])
            if any(isinstance(p, Truth) for p in parts)
            else Implies(parts[0], parts[1])
        )
    if isinstance(formula, Or):
        return _any(parts)
    if isinstance(formula, And):
        return _all(parts)
    unknown = [part for part in parts if not isinstance(part, Truth)]
    true = sum(part == Truth(True) for part in parts)
    if isinstance(formula, Count):
        return _counted(formula.op, formula.k - true, unknown)
    assert isinstance(formula, Xor | Iff)
    flipped = bool(true & 1) ^ (isinstance(formula, Iff) and len(unknown) < 2)  # of two parts that are the same
    if isinstance(formula, Iff) and len(unknown) == 2:
        return Iff(*unknown)
    if not unknown:
        return Truth(flipped)
    odd = Xor.of(*unknown) if len(unknown) > 1 else unknown[0]
    return _negated(odd) if flipped else odd


def _counted(op: str, k: int, unknown: list[Formula]) -> Formula:
    low, high = (compare_holds(op, -k), compare_holds(op, len(unknown) - k))
    if k < 0 or not unknown:
        return Truth(low)
    if op != "=" and low == high:
        return Truth(low)
    return Count(op, k, tuple(unknown))


def _negated(formula: Formula) -> Formula:
    if isinstance(formula, Truth):
        return Truth(not formula.value)
    return formula.arg if isinstance(formula, Not) else Not(formula)


def _all(parts: Iterable[Formula]) -> Formula:
    kept = [part for part in dict.fromkeys(parts) if part != Truth(True)]
    if Truth(False) in kept:
        return Truth(False)
    return And.of(*kept) if len(kept) > 1 else kept[0] if kept else Truth(True)


def _any(parts: Iterable[Formula]) -> Formula:
    kept = [part for part in dict.fromkeys(parts) if part != Truth(False)]
    if Truth(True) in kept:
        return Truth(True)
    return Or.of(*kept) if len(kept) > 1 else kept[0] if kept else Truth(False)


# ---- what is known ----


def facts(space: LabelSpace, known: Mapping[str, Value]) -> list[Rule]:
    """Rules that state values."""
    if not isinstance(known, Mapping):
        raise RuleError(
            f"known values of type {type(known).__name__}",
            remedy='Give values by name: given({"legs": True}). Rules go to where().',
        )
    scope = Scope(space.variables)
    return [Rule(scope.member(name, (value,))) for name, value in known.items()]
