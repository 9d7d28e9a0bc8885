"""The tree of a statement → flat formulas: loops gone through, names looked up, atoms checked against their variables.

One formula for each binding of a statement's loops. An error points at the token that it is about and says for which
binding: ``for i = 10``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from math import prod
from typing import NamedTuple, NoReturn

from dssl.errors import RuleError
from dssl.logic.language.arrays import Arrays, element
from dssl.logic.language.constants import Constants, Scalar
from dssl.logic.language.expanding.conditions import Known, known
from dssl.logic.language.expanding.indices import Indices
from dssl.logic.language.expanding.structured import Structured
from dssl.logic.language.expanding.sums import EXTREMES, Sums
from dssl.logic.language.formula import (
    And,
    Assignments,
    Count,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Truth,
    Xor,
    compare_holds,
)
from dssl.logic.language.predicates import Predicate, replaced
from dssl.logic.language.reading import COUNTED
from dssl.logic.language.structures.graphs import GRAPHS
from dssl.logic.language.structures.patterns import PATTERNS
from dssl.logic.language.syntax import (
    Call,
    Comparison,
    Conditional,
    Each,
    FileRows,
    Flag,
    Joined,
    Listed,
    Loops,
    Membership,
    Negation,
    Node,
    Number,
    Sequence,
    Span,
    Star,
    Statement,
    Use,
    Values,
    Word,
    words,
)
from dssl.logic.language.tokens import Token
from dssl.logic.language.variables import Scope, negated, shown

MAX_INSTANCES = 200_000  # of all loops of a text together
MAX_TRIED = 2_000_000  # bindings that they go through, those that 'where' leaves out among them
_MAKE: dict[str, Callable[..., Formula]] = {"^": Xor.of, "|": Or.of, "&": And.of, "->": Implies}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_MAKE["<->"] = lambda *parts: reduce(Iff, parts)
Binding = tuple[tuple[str, Scalar], ...]


class Instance(NamedTuple):
    """A formula, and the values of the loops' names that gave it."""

    formula: Formula
    binding: Binding


class Expander:
    """Turns trees into formulas over the declared variables."""

    def __init__(self, scope: Scope, arrays: Arrays, constants: Constants, predicates: Mapping[str, Predicate]) -> None:
        self.scope, self.arrays, self.constants, self.predicates = scope, arrays, constants, predicates
        self.fail, self.placed, self.static = constants.fail, constants.placed, constants.static
        self.constants.variables, self.constants.arrays = scope.variables, arrays
        self.instances = self.tried = 0
        self.longer = False  # whether what was read last is longer as a formula than as it was written
        self.sums, structured = Sums(self), Structured(self)
        self.choices = Indices(self).choices
        self._graph, self._pattern = structured.graph, structured.pattern
        self._formula: dict[type[Node], Callable[..., Formula]] = {
            Word: self.truth,
            Flag: lambda node: Truth(node.value),
            Comparison: self.comparison,
            Membership: self.membership,
            Negation: lambda node: Not(self.formula(node.part)),
            Joined: lambda node: _MAKE[node.symbol](*map(self.formula, node.parts)),
            Call: self.call,
            Conditional: self.conditional,
            Listed: structured.table,
            FileRows: structured.table_of_file,
            Sequence: structured.regular,
            Use: self.use,
        }

    # ---- loops ----

    def statement(self, statement: Statement) -> Iterator[Instance]:
        """The formulas of a statement, one for each binding."""
        self.longer = False
        if not statement.loops.names:
            yield Instance(self.formula(statement.formula), ())
            return
        for _ in self.bindings(statement.loops):
            yield Instance(self.formula(statement.formula), tuple(self.constants.binding.items()))

    def bindings(self, loops: Loops) -> Iterator[None]:
        """Bind the names of loops to all their values in turn."""
        self._refuse_many(loops)
        yield from self._bound(loops, 0, [])

    def _bound(self, loops: Loops, depth: int, where: list[Known | None]) -> Iterator[None]:
        if depth == len(loops.names):
            if self._passes(loops, where):
                yield
            return
        token, binding = loops.names[depth], self.constants.binding
        name = token.text
        if name in binding:
            self.fail(token, f"'{shown(name)}' is bound twice", "Give each loop a name of its own.")
        for value in self.constants.values(loops.domains[depth]):
            binding[name] = value
            yield from self._bound(loops, depth + 1, where)
        binding.pop(name, None)

    def _refuse_many(self, loops: Loops) -> None:
        """Refuse loops before they are gone through, with their count, where no domain depends on another's name."""
        names = {token.text for token in loops.names}
        if any(names & set(words(domain)) for domain in loops.domains):
            return
        count = prod(len(self.constants.values(domain)) for domain in loops.domains)
        most = MAX_TRIED if loops.where else MAX_INSTANCES
        if count > most:
            self._refuse(loops.names[0], f"{count:,} instances", most)

    def _passes(self, loops: Loops, where: list[Known | None]) -> bool:
        """Whether the names, as they are bound now, give an instance; `where` is filled when they are first bound."""
        if not loops.names:
            return True
        self.tried += 1
        if self.tried > MAX_TRIED:
            self._refuse(loops.names[-1], f"more than {MAX_TRIED:,} instances", MAX_TRIED)
        if len(where) < len(loops.where):
            where += [known(node, self.constants) for node in loops.where]
        passes = all(self.condition(node, quick) for node, quick in zip(loops.where, where))
        if passes:
            self._count(loops.names[-1])
        return passes

    def _count(self, token: Token) -> None:
        self.instances += 1
        if self.instances > MAX_INSTANCES:
            self._refuse(token, f"more than {MAX_INSTANCES:,} instances", MAX_INSTANCES)

    def _refuse(self, token: Token, count: str, most: int) -> NoReturn:
        self.constants.binding.clear()
        done = "are written out" if most == MAX_INSTANCES else "are tried, of which 'where' chooses some"
        self.fail(token, f"loops with {count}", f"Up to {most:,} {done}: use shorter ranges.")

    def condition(self, node: Node, quick: Known | None) -> bool:
        """A condition on names of loops: it must be known beforehand."""
        if quick is not None:
            try:
                return quick(self.constants.binding)
            except (TypeError, ZeroDivisionError):
                pass  # what follows says where it is wrong
        found = _folded(self.formula(node))
        if not isinstance(found, Truth):
            self.fail(
                node.token,
                f"'where' asks about variables: {shown(str(found))}",
                "Conditions speak of names bound by for; write premise -> conclusion instead.",
            )
        return found.value

    # ---- formulas ----

    def formula(self, node: Node) -> Formula:
        return self._formula[type(node)](node)

    def truth(self, word: Word) -> Formula:
        value = self.static(word)
        if value is not None:
            self.fail(word.token, f"'{shown(word.text)}' is {shown(value)}, neither true nor false", "Compare it.")
        if self.constants.varies(word):
            return Or.of(*(And.of(when, self.truth(one)) for when, one in self.choices(word)))
        name = self.variable(word)
        try:
            return self.scope.truth(name)
        except RuleError as error:
            self.fail(word.token, error.reason, error.remedy)

    def call(self, node: Call) -> Formula:
        if node.token.text in PATTERNS:
            return self._pattern(node)
        return self._graph(node) if node.token.text in GRAPHS else self.cardinality(node)

    def cardinality(self, call: Call) -> Formula:
        function, args = call.token.text, list(call.args)
        k = self._k(function, args.pop(0)) if function in COUNTED else 1
        parts = [formula for arg in args for formula in self.several(arg)]
        if function in COUNTED or function == "exactly_one":
            op = COUNTED.get(function, "=")
            return Count(op, k, tuple(parts)) if parts else Truth(compare_holds(op, -k))
        if function == "any":
            return Or.of(*parts) if parts else Truth(False)
        if function == "none":
            parts = [Not(part) for part in parts]
        return And.of(*parts) if parts else Truth(True)

    def _k(self, function: str, node: Node) -> int:
        k = self.constants.number(node)
        if k < 0:
            self.fail(node.token, f"{function}({k}, …) has a number below 0", "Give 0 or a larger number.")
        return k

    def several(self, node: Node) -> Iterator[Formula]:
        """The formulas of one argument: of a loop, of all elements of a slice, or the one that it is."""
        if isinstance(node, Each):
            for _ in self.bindings(node.loops):
                yield from self.several(node.body)
        elif isinstance(node, Word) and self.is_slice(node):
            for name in self.elements(node):
                yield self.placed(node.token, lambda name=name: self.scope.truth(name))  # type: ignore[misc]
        else:
            yield self.formula(node)

    def conditional(self, node: Conditional) -> Formula:
        condition, then, otherwise = map(self.formula, (node.condition, node.then, node.otherwise))
        return And.of(Implies(condition, then), Implies(Not(condition), otherwise))

    # ---- rules with parameters ----

    def use(self, node: Use) -> Formula:
        """What a rule says of its arguments. Names of loops around the use are not known inside it."""
        self._count(node.token)
        signature, body, _ = self.predicates[node.name]
        known: dict[str, Scalar] = {}
        words: dict[str, Word] = {}
        for parameter, arg in zip(signature.parameters, node.args):
            self._bind(parameter, arg, known, words)
        outside = f"{self.constants.said()}"
        around, self.constants.binding = self.constants.binding, known
        try:
            return self.formula(replaced(body, words) if words else body)
        except RuleError as error:
            where = "defined" if error.line == self.constants.source.line(node.token.at) else "used"
            line = signature.line if where == "defined" else self.constants.source.line(node.token.at)
            reason = f"{error.reason}; {shown(node.text)}{outside} is {where} in line {line}"
            raise RuleError(
                reason, remedy=error.remedy, line=error.line, column=error.column, source=error.source
            ) from None
        finally:
            self.constants.binding = around

    def _bind(self, parameter: str, arg: Node, known: dict[str, Scalar], words: dict[str, Word]) -> None:
        """Let a parameter stand for a value that is known beforehand, or for a word."""
        value = self.static(arg)
        if value is not None:
            known[parameter] = value
        elif not isinstance(arg, Word):
            self.fail(arg.token, "a sum as an argument", "Arguments are names, numbers and elements of arrays.")
        elif arg.index is not None:
            words[parameter] = Word(arg.token, arg.text, tuple(map(self._closed, arg.index)))
        elif arg.text in self.scope.variables or arg.text in self.arrays or arg.text in self.constants:
            words[parameter] = arg
        else:
            known[parameter] = arg.text

    def _closed(self, part: Node) -> Node:
        """An index in which no name of a loop is left."""
        if isinstance(part, Star):
            return part
        if isinstance(part, Span | Values):
            found = self.constants.values(part)
            return Values(part.token, tuple(self._literal(part.token, value) for value in found))
        return self._literal(part.token, self.constants.scalar(part))

    @staticmethod
    def _literal(token: Token, value: Scalar) -> Node:
        return Number(token, value) if isinstance(value, int) else Word(token, value)

    def columns(self, node: Node) -> list[str]:
        if isinstance(node, Each):
            return [name for _ in self.bindings(node.loops) for name in self.columns(node.body)]
        if not isinstance(node, Word):
            self.fail(node.token, f"expected a variable, found '{shown(node.token.text)}'", "Name a variable.")
        names = self.elements(node) if self.is_slice(node) else [self.variable(node)]
        for name in names:
            self.placed(node.token, lambda name=name: self.scope[name])  # type: ignore[misc]
        return names

    # ---- comparisons ----

    def comparison(self, node: Comparison) -> Formula:
        for side, make in ((node.left, self._with_left), (node.right, self._with_right)):
            if isinstance(side, Word) and self.constants.varies(side):
                return self._one_of((when, self.comparison(make(node, one))) for when, one in self.choices(side))
        left, right = self.static(node.left), self.static(node.right)
        if left is not None and right is not None and (words(node.left) or words(node.right)):
            return Truth(self._holds(node, left, right))
        if node.op in ("=", "!="):
            atom = None
            if left is None and isinstance(node.left, Word):
                atom = self.equality(node.left, node.right, right)
            elif isinstance(left, str) and isinstance(node.right, Word):
                atom = self.equality_of_name(left, node.right)
            if atom is not None:
                return atom if node.op == "=" else negated(atom)
        for side, other, op in ((node.left, node.right, node.op), (node.right, node.left, _FLIPPED[node.op])):
            if isinstance(side, Call) and side.token.text in EXTREMES:
                return self.sums.extreme(side, op, self.sums.terms(other))
        terms = self.sums.terms(node.left), self.sums.terms(node.right)
        unknown = left is None or right is None
        if unknown and all(name is None for _, name in terms[0] + terms[1]):  # a sum of nothing
            return Truth(compare_holds(node.op, sum(c for c, _ in terms[0]) - sum(c for c, _ in terms[1])))
        return self.placed(node.token, lambda: self.scope.compare(terms[0], node.op, terms[1]))

    @staticmethod
    def _with_left(node: Comparison, word: Word) -> Comparison:
        return Comparison(node.token, node.op, word, node.right)

    @staticmethod
    def _with_right(node: Comparison, word: Word) -> Comparison:
        return Comparison(node.token, node.op, node.left, word)

    @staticmethod
    def _one_of(cases: Iterable[tuple[Formula, Formula]]) -> Formula:
        """What holds in the case that is so; cases exclude each other."""
        parts = []
        for when, then in cases:
            if not isinstance(then, Truth):
                parts.append(And.of(when, then))
            elif then.value:
                parts.append(when)
        return Or.of(*parts) if parts else Truth(False)

    def _holds(self, node: Comparison, left: Scalar, right: Scalar) -> bool:
        if node.op in ("=", "!="):
            return (left == right) is (node.op == "=")
        if isinstance(left, int) and isinstance(right, int):
            return compare_holds(node.op, left - right)
        self.fail(node.token, f"'{left} {node.op} {right}' compares names", "Names are equal or not: use = or !=.")

    def equality(self, left: Word, right: Node, value: Scalar | None) -> Formula | None:
        """``name = value``; None if the right side is a sum or another variable."""
        name = self.variable(left)
        variable = self.placed(left.token, lambda: self.scope[name])
        if isinstance(right, Flag):
            return self.placed(left.token, lambda: self.scope.member(name, (right.value,)))
        if value is None and isinstance(right, Word) and not self.is_slice(right):
            word = self.variable_text(right)
            value = word if word in variable.positions or word not in self.scope.variables else None
            if value is not None and right.index is not None and right.text in self.arrays:
                self.variable(right)  # an element that does not exist
        if value is None or not (isinstance(right, Number | Word) or words(right)):
            return None
        return self.placed(right.token, lambda: self.scope.member(name, (value,)))

    def equality_of_name(self, left: str, right: Word) -> Formula:
        """``name = right``, the name being bound by a loop: a value of the variable `right`, or another name."""
        word = self.variable_text(right)
        if word not in self.scope.variables:
            return Truth(left == word)
        return self.placed(right.token, lambda: self.scope.member(word, (left,)))

    def membership(self, node: Membership) -> Formula:
        known = self.static(node.left)
        if known is not None:
            return Truth(known in self.constants.values(node.values))
        if self.constants.varies(node.left):
            cases = ((when, Membership(node.token, one, node.values)) for when, one in self.choices(node.left))
            return self._one_of((when, self.membership(one)) for when, one in cases)
        name, items = self.variable(node.left), [node.values]
        if isinstance(node.values, Values):
            items = list(node.values.items)
            if not items:
                self.fail(node.token, "an empty set of values", "List at least one value.")
        self.placed(node.token, lambda: self.scope.member(name, ()))
        wanted: list[Scalar] = []
        for item in items:
            for value in self.constants.values(item):
                self.placed(item.token, lambda value=value: self.scope.member(name, (value,)))  # type: ignore[misc]
                wanted.append(value)
        return self.scope.member(name, wanted)

    # ---- names ----

    def is_slice(self, word: Word) -> bool:
        return word.index is not None and any(isinstance(part, Star | Span | Values) for part in word.index)

    def variable_text(self, word: Word) -> str:
        """The name of the variable or value that a word means."""
        if word.index is None:
            return word.text
        return element(word.text, (self.constants.scalar(part) for part in word.index))

    def variable(self, word: Word) -> str:
        """The name of a variable, with an error if an array has no such element."""
        if self.is_slice(word):
            self.fail(
                word.token, f"'{self.said(word)}' is several variables", "Name one, or use all(…), any(…), sum(…)."
            )
        name = self.variable_text(word)
        if name in self.scope.variables:
            return name
        if word.text in self.arrays:
            self.fail(word.token, *self._missing(word, name))
        return name

    def _missing(self, word: Word, name: str) -> tuple[str, str]:
        shape = self.arrays.shape(word.text)
        if word.index is None:
            name = shown(name)
            return f"'{name}' is an array", f"Name an element of {shape}, or all of them by {name}[*]: all({name}[*])."
        unknown = self._unknown(word)
        if unknown is not None:
            return (
                f"'{shown(unknown)}' is no index of '{shown(word.text)}'",
                f"It is no variable and no name of a loop either. The array is {shape}.",
            )
        return f"there is no element {shown(name)}", f"The array is {shape}."

    def _unknown(self, word: Word) -> str | None:
        """A name in the index that means nothing, where the array has numbers."""
        shapes = [index for index in self.arrays.elements[word.text] if len(index) == len(word.index or ())]
        for axis, part in enumerate(word.index or ()):
            bare = isinstance(part, Word) and part.index is None and self.static(part) is None
            if bare and shapes and all(isinstance(index[axis], int) for index in shapes):
                return part.text  # type: ignore[attr-defined]
        return None

    def said(self, word: Word) -> str:
        return f"{shown(word.text)}[…]"

    def elements(self, word: Word) -> list[str]:
        """The elements that a slice means, in the order of declaration."""
        assert word.index is not None
        if word.text not in self.arrays:
            self.fail(word.token, f"there is no array '{shown(word.text)}'", f"Declare it: {shown(word.text)}[1..9].")
        parts = [[None] if isinstance(part, Star) else self.constants.values(part) for part in word.index]
        found = [n for index in itertools.product(*parts) for n in self.arrays.slice(word.text, index)]
        if not found:
            self.fail(word.token, f"{self.said(word)} has no elements", f"The array is {self.arrays.shape(word.text)}.")
        return found


def _folded(formula: Formula) -> Formula:
    """A formula whose atoms are all known, as its truth value; any other as it is."""
    if isinstance(formula, Truth) or any(True for _ in formula.atoms()):
        return formula
    return Truth(bool(formula.kleene(Assignments({}, {}, 1))[0][0]))
