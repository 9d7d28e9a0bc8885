"""The rule language: text ⇄ variables and rules.

One statement a line: ``name, name`` declares binary variables, ``name: {a, b}`` and ``name: 0..9`` others,
``0.9 :: formula`` is a soft rule and everything else a rule. A hand-written parser, so that every error can point
at its place and name a remedy; declarations are read first, so their order does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from dssl.errors import RuleError
from dssl.logic.formula import (
    RESERVED,
    And,
    Count,
    Formula,
    Iff,
    Implies,
    Is,
    Not,
    Or,
    Term,
    Truth,
    Value,
    Xor,
    quoted,
)
from dssl.logic.tokens import MAX_DEPTH, Source, Token, statements
from dssl.logic.variables import MAX_VALUES, Scope, Variable, nearest, shown

_MAX_DIGITS = 15
T = TypeVar("T")


@dataclass(frozen=True)
class Rule:
    """A formula that labels obey: always, or with odds p : 1−p where a probability p is given."""

    formula: Formula
    probability: float | None = None
    line: int | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """The rule as rule text."""
        bare = isinstance(self.formula, Is)  # a name alone on a line would declare it
        text = f"{self.formula} = true" if bare and self.probability is None else str(self.formula)
        return text if self.probability is None else f"{self.probability!r} :: {text}"

    def __str__(self) -> str:
        return self.text if self.line is None else f"line {self.line}: {self.text}"


def parse(text: str) -> tuple[tuple[Variable, ...], tuple[Rule, ...]]:
    """The variables and rules of a rule text."""
    if not isinstance(text, str):
        raise RuleError(
            f"rules are text, not {type(text).__name__}", remedy="Give a str; LabelSpace.read reads a file."
        )
    source = Source(text.removeprefix("\ufeff"))
    variables: dict[str, Variable] = {}
    rest: list[_Parser] = []
    for tokens in statements(source):
        parser = _Parser(source, tokens)
        if parser.is_declaration():
            parser.declare(variables)
        else:
            rest.append(parser)
    scope = Scope(variables.values())
    return tuple(variables.values()), tuple(parser.rule(scope) for parser in rest)


def parse_rules(text: str, variables: Iterable[Variable]) -> tuple[Rule, ...]:
    """Rules about variables that are declared already."""
    source, scope = Source(text), Scope(variables)
    parsers = [_Parser(source, tokens) for tokens in statements(source)]
    for parser in parsers:
        if parser.is_declaration():
            source.fail(
                parser.token.at,
                "a declaration, where only rules can stand",
                f"Here all variables are declared already; to state a fact write {parser.token.text} = true.",
            )
    return tuple(parser.rule(scope) for parser in parsers)


class _Parser:
    """One logical line: a declaration or a rule, by recursive descent."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source, self.tokens, self.at, self.depth = source, tokens, 0, 0
        self.scope = Scope(())

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def fail(self, reason: str, remedy: str = "", token: Token | None = None) -> NoReturn:
        self.source.fail((token or self.token).at, reason, remedy)

    def take(self, *texts: str) -> Token | None:
        """The next token if it is one of these operators."""
        token = self.token
        if token.kind == "op" and token.text in texts:
            self.at += 1
            return token
        return None

    def expect(self, text: str, where: str, remedy: str) -> None:
        if not self.take(text):
            self.fail(f"expected '{text}' {where}, found {self.found()}", remedy)

    def found(self) -> str:
        return "the end of the line" if self.token.kind == "end" else f"'{shown(self.source.word(self.token))}'"

    # declarations

    def is_declaration(self) -> bool:
        """Whether the line is names separated by commas, alone or before a colon."""
        names = 0
        for i, token in enumerate(self.tokens):
            if i % 2 == 0 and token.kind in ("name", "string"):
                names += 1
            elif i % 2 == 1 and token.kind == "op" and token.text == ",":
                continue
            else:
                return names > 0 and (token.text == ":" or (token.kind == "end" and not self._one_constant()))
        return False

    def _one_constant(self) -> bool:
        return len(self.tokens) == 2 and self.token.kind == "name" and self.token.text in ("true", "false")

    def declare(self, variables: dict[str, Variable]) -> None:
        named: list[Token] = []
        while True:
            named.append(self.token)
            name = self.name("a variable")
            if name in variables:
                value = variables[name].values[-1]
                fact = f"{quoted(shown(name))} = {'true' if value is True else quoted(value)}"
                self.fail(f"'{shown(name)}' is declared twice", f"Remove one; a fact is written {fact}.", named[-1])
            variables[name] = Variable(name)
            if not self.take(","):
                break
            if self.token.kind == "end":
                self.fail("a name is missing after the last ','", "Remove the comma or add a name.")
        if self.take(":"):
            values = self.domain()
            for token in named:
                name = self.unquoted(token)
                variables[name] = Variable.choice(name, values)
        self.finish()

    def domain(self) -> tuple[str | int, ...]:
        start = self.token
        if self.take("{"):
            values = self.values("}")
            seen: set[Value] = set()
            for value, token in values:
                if value in seen:
                    self.fail(f"the value '{shown(value)}' is listed twice", "Remove one.", token)
                seen.add(value)
            if not values:
                self.fail("a variable needs at least one value", "List its values: {cat, dog}.", start)
            if len(values) > MAX_VALUES:
                self.fail(f"a variable of more than {MAX_VALUES:,} values", "Bin them into fewer values.", start)
            return tuple(value for value, _ in values)
        low = self.integer("a range such as 0..9 or values such as {cat, dog}")
        self.expect("..", "in a range", "Write a range as 0..9 or values as {cat, dog}.")
        high = self.integer("the end of the range")
        if high < low:
            self.fail(f"the range {low}..{high} is empty", f"Write {high}..{low}.", start)
        if high - low >= MAX_VALUES:
            self.fail(
                f"the range {low}..{high} has more than {MAX_VALUES:,} values",
                "Each value is one output of the network: bin the numbers into fewer values.",
                start,
            )
        return tuple(range(low, high + 1))

    def values(self, closing: str) -> list[tuple[str | int, Token]]:
        """Values separated by commas up to the closing bracket."""
        out: list[tuple[str | int, Token]] = []
        while not self.take(closing):
            token = self.token
            out.append((self.value(), token))
            if not self.take(",") and self.token.text != closing:
                self.fail(
                    f"expected ',' or '{closing}' between values, found {self.found()}", "Separate values by ','."
                )
        return out

    def value(self) -> str | int:
        token = self.token
        if token.kind == "number" or (token.kind == "op" and token.text == "-"):
            if not token.text.isdigit() and token.text != "-":
                self.fail(f"'{token.text}' is not an integer", f'Quote it to use it as a name: "{token.text}".')
            return self.integer("a value")
        return self.name("a value")

    def integer(self, what: str) -> int:
        sign = -1 if self.take("-") else 1
        token = self.token
        if token.kind != "number":
            self.fail(f"expected {what}, found {self.found()}", "Write an integer, as in 0..9 or at_most(1, a, b).")
        if not token.text.isdigit():
            self.fail(f"'{shown(token.text)}' is not an integer", "Use whole numbers here.")
        if len(token.text) > _MAX_DIGITS:
            self.fail(f"a number of {len(token.text)} digits", f"Use at most {_MAX_DIGITS} digits.")
        self.at += 1
        return sign * int(token.text)

    def name(self, what: str) -> str:
        token = self.token
        if token.kind not in ("name", "string"):
            self.fail(
                f"expected the name of {what}, found {self.found()}", 'Names with other characters are quoted: "a-b".'
            )
        if token.kind == "name" and token.text in _FUNCTIONS:
            self.fail(f"'{token.text}' needs its formulas in brackets", f"Write {_FUNCTIONS[token.text]}.")
        if token.kind == "name" and token.text in RESERVED:
            self.fail(
                f"'{token.text}' is a word of the rule language", f'Quote it to use it as a name: "{token.text}".'
            )
        self.at += 1
        return self.unquoted(token)

    def unquoted(self, token: Token) -> str:
        if token.kind == "name":
            return token.text
        text = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], token.text[1:-1])
        if not text:
            self.fail("a name cannot be empty", "Write a name between the quotes.", token)
        return text

    def finish(self) -> None:
        if self.token.kind != "end":
            self._leftover()

    def _leftover(self) -> NoReturn:
        token = self.token
        if token.kind in ("name", "string", "number") or token.text in ("(", "{"):
            self.fail(
                f"{self.found()} follows without an operator", "Put & | -> <-> or ^ between, or start a new line."
            )
        if token.text == "::":
            self.fail("'::' stands after a probability only", "Write a soft rule as 0.9 :: formula.")
        if token.text == ",":
            self.fail("',' does not join rules", "Use & or write one rule a line; lists belong in all(…), any(…).")
        if token.text in ("<", "<=", ">", ">=", "=", "!="):
            self.fail("a comparison cannot be compared again", "Join two comparisons by &: 2 <= a & a <= 5.")
        self.fail(f"{self.found()} is not expected here", "Remove it, or check the brackets before it.")

    # rules

    def rule(self, scope: Scope) -> Rule:
        self.scope = scope
        line = self.source.line(self.token.at)
        probability = None
        first = self.token
        if first.kind == "number" and self.tokens[self.at + 1].text == "::":
            self.at += 2
            probability = float(first.text) if len(first.text) < 40 else 2.0
            if not 0 < probability < 1:
                self.fail(
                    f"the probability of a soft rule is between 0 and 1, not {shown(first.text)}",
                    "A rule that always holds is written without a probability; one that never holds with !( ).",
                    first,
                )
        if self.token.kind == "end":
            self.fail("a rule is missing after '::'", "Write a soft rule as 0.9 :: formula.")
        formula = self.formula()
        self.finish()
        return Rule(formula, probability, line)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > 2 * MAX_DEPTH:  # brackets are limited to MAX_DEPTH; each may hold a ! or a ->
            self.fail(f"a formula nested deeper than {2 * MAX_DEPTH}", "Split the rule into several lines.")

    def formula(self) -> Formula:
        self.deeper()
        left, chain = self.implication(), 0
        while self.take("<->"):
            chain += 1
            if self.depth + chain > MAX_DEPTH:
                self.fail(f"a chain of more than {MAX_DEPTH} '<->'", "Split the rule into several lines.")
            left = Iff(left, self.implication())
        self.depth -= 1
        return left

    def implication(self) -> Formula:
        left = self.joined(0)
        if not self.take("->"):
            return left
        self.deeper()
        right = self.implication()
        self.depth -= 1
        return Implies(left, right)

    _LEVELS: tuple[tuple[str, Callable[..., Formula]], ...] = (("^", Xor.of), ("|", Or.of), ("&", And.of))

    def joined(self, level: int) -> Formula:
        if level == len(self._LEVELS):
            return self.negation()
        symbol, join = self._LEVELS[level]
        parts = [self.joined(level + 1)]
        while self.take(symbol):
            parts.append(self.joined(level + 1))
        return join(*parts)

    def negation(self) -> Formula:
        if not self.take("!", "~"):
            return self.primary()
        self.deeper()
        arg = self.negation()
        self.depth -= 1
        return Not(arg)

    def primary(self) -> Formula:
        token = self.token
        if self.take("("):
            inner = self.formula()
            self.expect(")", "after a formula in brackets", "Close the bracket, or put & | -> between formulas.")
            return inner
        if token.kind == "name" and token.text in _FUNCTIONS and self.tokens[self.at + 1].text == "(":
            return self.function()
        if token.kind == "name" and token.text in ("true", "false"):
            self.at += 1
            return Truth(token.text == "true")
        if token.kind in ("name", "string", "number") or token.text == "-":
            return self.atom()
        self.fail(
            f"expected a formula, found {self.found()}",
            "A formula is a name, a comparison, a cardinality such as at_most(1, a, b), or ( … ).",
        )

    def function(self) -> Formula:
        token = self.token
        self.at += 2
        k = None
        if token.text in _COUNTED:
            k = self.count(token)
        args: list[Formula] = []
        while not self.take(")"):
            args.append(self.formula())
            if not self.take(",") and self.token.text != ")":
                self.fail(f"expected ',' or ')' in {token.text}(…), found {self.found()}", "Separate formulas by ','.")
        if not args:
            self.fail(f"{token.text}(…) needs at least one formula", f"Name them: {_FUNCTIONS[token.text]}.", token)
        return _build(token.text, k, args)

    def count(self, function: Token) -> int:
        if self.token.kind != "number":
            self.fail(
                f"{function.text}(…) starts with a number, found {self.found()}",
                f"Write {_FUNCTIONS[function.text]}.",
            )
        k = self.integer("a number")
        if not self.take(",") and self.token.text != ")":
            self.fail(f"expected ',' after the number, found {self.found()}", f"Write {_FUNCTIONS[function.text]}.")
        return k

    # atoms

    def atom(self) -> Formula:
        start = self.token
        left = self.sum()
        single = left[0][1] if len(left) == 1 and left[0][0] == 1 else None
        if single is not None and self.token.kind == "name" and self.token.text == "in":
            self.at += 1
            return self.membership(start, single)
        if single is not None and self.token.text == "!" and self.tokens[self.at + 1].text == "in":
            self.at += 2
            return Not(self.membership(start, single))
        op = self.take("<", "<=", ">", ">=", "=", "!=")
        if op is None:
            if single is None:
                self.fail("a sum or number alone is not a formula", "Compare it: a + b <= 3.", start)
            return self.placed(start, lambda: self.scope.truth(single))
        if single is not None and op.text in ("=", "!="):
            atom = self.equality(start, single)
            if atom is not None:
                return atom if op.text == "=" else Not(atom)
        right = self.sum()
        return self.placed(start, lambda: self.scope.compare(left, op.text, right))

    def membership(self, start: Token, name: str) -> Formula:
        if not self.take("{"):
            self.fail(f"expected '{{' after 'in', found {self.found()}", "Write the values in braces: in {cat, dog}.")
        values = self.values("}")
        if not values:
            self.fail("an empty set of values", "List at least one value.", start)
        self.placed(start, lambda: self.scope.member(name, ()))
        for value, token in values:
            self.placed(token, lambda value=value: self.scope.member(name, (value,)))  # type: ignore[misc]
        return self.scope.member(name, [value for value, _ in values])

    def equality(self, start: Token, name: str) -> Formula | None:
        """``name = value``; None if the right side is a sum or another variable."""
        token, after = self.token, self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        variable = self.placed(start, lambda: self.scope[name])
        if token.kind == "name" and token.text in ("true", "false"):
            self.at += 1
            return self.placed(start, lambda: self.scope.member(name, (token.text == "true",)))
        if after.text in ("+", "-", "*") or (token.text == "-" and after.kind in ("name", "string")):
            return None
        if token.kind == "number" or token.text == "-":
            before, value = self.at, self.value()
            if self.token.text in ("+", "-", "*"):
                self.at = before
                return None
            return self.placed(token, lambda: self.scope.member(name, (value,)))
        if token.kind not in ("name", "string"):
            self.fail(f"expected a value after the comparison, found {self.found()}", f"Write {quoted(name)} = value.")
        word = self.unquoted(token)
        if word in variable.positions or word not in self.scope.variables:
            self.name("a value")
            return self.placed(token, lambda: self.scope.member(name, (word,)))
        return None

    def sum(self) -> tuple[Term, ...]:
        terms = [self.term(-1 if self.take("-") else 1)]
        while sign := self.take("+", "-"):
            terms.append(self.term(1 if sign.text == "+" else -1))
        return tuple(terms)

    def term(self, sign: int) -> Term:
        if self.token.kind == "number":
            number = sign * self.integer("a number")
            if not self.take("*"):
                return number, None
            return number, self.known("a variable")
        name = self.known("a variable")
        if self.take("*"):
            return sign * self.integer("a number"), name
        return sign, name

    def known(self, what: str) -> str:
        token = self.token
        name = self.name(what)
        if name not in self.scope.variables and self.token.text == "(":
            self.fail(
                f"there is no function '{shown(name)}'",
                nearest(name, _FUNCTIONS) + f"The functions are {', '.join(_FUNCTIONS)}.",
                token,
            )
        self.placed(token, lambda: self.scope[name])
        return name

    def placed(self, token: Token, make: Callable[[], T]) -> T:
        """What `make` gives; its error, if any, pointing at `token`."""
        try:
            return make()
        except RuleError as error:
            self.source.fail(token.at, error.reason, error.remedy)


_FUNCTIONS = {
    "all": "all(a, b)", "any": "any(a, b)", "none": "none(a, b)", "exactly_one": "exactly_one(a, b, c)",
    "exactly": "exactly(2, a, b, c)", "at_most": "at_most(1, a, b)", "at_least": "at_least(1, a, b)",
}  # fmt: skip
_COUNTED = {"exactly": "=", "at_most": "<=", "at_least": ">="}


def _build(function: str, k: int | None, args: list[Formula]) -> Formula:
    if k is not None:
        return Count(_COUNTED[function], k, tuple(args))
    if function == "exactly_one":
        return Count("=", 1, tuple(args))
    if function == "any":
        return Or.of(*args)
    return And.of(*(Not(arg) for arg in args)) if function == "none" else And.of(*args)


def text_of(variables: Iterable[Variable], rules: Iterable[Rule]) -> str:
    """Rule text that parses back to these variables and rules."""
    lines: list[str] = []
    binaries: list[str] = []
    for variable in [*variables, None]:
        if variable is not None and variable.binary:
            binaries.append(str(variable))
            continue
        if binaries:
            lines.append(", ".join(binaries))
            binaries = []
        if variable is not None:
            lines.append(str(variable))
    return "\n".join(lines + [rule.text for rule in rules]) + "\n"
