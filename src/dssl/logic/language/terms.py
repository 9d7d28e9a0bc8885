"""Terms of the rule language: numbers, sums, names, sets of values, and loops over what stands before them."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from dssl.errors import RuleError
from dssl.logic.language.formula import MAX_DEPTH
from dssl.logic.language.structures.graphs import GRAPHS
from dssl.logic.language.structures.patterns import PATTERNS
from dssl.logic.language.syntax import (
    Addition,
    Call,
    Conditional,
    Each,
    Flag,
    Items,
    Loops,
    Node,
    Number,
    Product,
    Span,
    Star,
    Values,
    Word,
)
from dssl.logic.language.tokens import FUNCTIONS, Cursor, Source, Token
from dssl.logic.language.variables import Scope, nearest, shown

TERMS = {  # functions that stand for a number
    "sum": "sum(w[i] * x[i] for i in 1..9)", "count": "count(a, b & c)", "max": "max(x[*])", "min": "min(x[*])",
    "abs": "abs(x - y)", "element": "element(i, x[*])",
}  # fmt: skip
ALL = {
    **FUNCTIONS,
    **{name: pattern.example for name, pattern in PATTERNS.items()},
    "table": "table(x, y) in {(1, a)}",
    "regular": 'regular(x[*], "a b*")',
    **GRAPHS,
    **TERMS,
}
_ELSEWHERE = {  # functions of other languages, and how to say the same
    "forall": "for i in 1..9: rule",
    "exists": "any(x[i] for i in 1..9)",
    "bool2int": "count(a)",
    "alldifferent": "all_different(x[*])",
    "among": "count(x[i] in {1, 2} for i in 1..9)",
    "global_cardinality": "count(x[i] = 3 for i in 1..9) = 2",
    "inverse": "for i, j in 1..9: x[i] = j <-> y[j] = i",
}
ADDING = ("+", "-", "*")
_ARITHMETIC = frozenset([*ADDING, "div", "mod"])


class Signature(NamedTuple):
    """The head of a rule with parameters: ``kin(a, b)``."""

    name: str
    parameters: tuple[str, ...]
    line: int

    def __str__(self) -> str:
        return f"{shown(self.name)}({', '.join(map(shown, self.parameters))})"


class Terms(Cursor):
    """What stands inside formulas. `declared` are the names of variables and arrays, `defined` those of constants.

    A name that is neither is refused by `scope` where it is met, unless a loop may bind it.
    """

    def __init__(
        self,
        source: Source,
        tokens: list[Token],
        declared: Container[str] = (),
        defined: Container[str] = (),
        scope: Scope | None = None,
        predicates: Mapping[str, Signature] | None = None,
    ) -> None:
        super().__init__(source, tokens)
        self.predicates = predicates or {}
        self.declared, self.defined, self.depth = declared, defined, 0
        self.scope = None if "for" in [token.text for token in tokens] else scope

    def deeper(self) -> None:
        """Keep the recursion shallow. A formula that `Rule` accepts never gets here: two steps per level are enough."""
        self.depth += 1
        if self.depth > 2 * MAX_DEPTH:
            self.fail(f"a formula nested deeper than {MAX_DEPTH}", "Split the rule into several lines.")

    def formula(self) -> Node:
        """A formula, which stands inside terms too: ``count(a & b)``, ``if a then 1 else 2``, ``where i < j``."""
        raise NotImplementedError

    # ---- loops ----

    def each(self, body: Node) -> Node:
        """The body, or one copy of it for each binding of the loop that follows."""
        if not self.at_loop():
            return body
        start = self.token
        return Each(start, body, self.loops())

    def at_loop(self) -> bool:
        """Whether ``for`` stands here and begins a loop."""
        here, after = self.token, self.next
        return here.kind == after.kind == "name" and here.text == "for" and after.text != "in"

    def loops(self) -> Loops:
        self.at += 1
        out = self._generators()
        while self.token.text == "," and self._another_generator():
            self.at += 1
            out += self._generators()
        if self.take_word("where"):
            out += Loops((), (), (self.formula(),))
        return out

    def _another_generator(self) -> bool:
        """Whether names and ``in`` follow the comma here."""
        at = self.at
        while self.tokens[at].text == "," and self.tokens[at + 1].kind == "name":
            at += 2
        return at > self.at and self.tokens[at].text == "in"

    def _generators(self) -> Loops:
        """``i, j in domain``."""
        names: list[Token] = []
        while True:
            names.append(self.token)
            if self.token.kind == "string":
                self.fail("an index in quotes", "Use a plain name: for i in 1..9.")
            name = self.name("an index")
            if name in self.declared or name in self.defined:
                what = "a variable" if name in self.declared else "a constant"
                self.fail(f"'{shown(name)}' is {what} already", "Give the index another name.", names[-1])
            if not self.take(","):
                break
        if not self.take_word("in"):
            self.fail(f"expected 'in' after the names of a loop, found {self.found()}", "Write for i in 1..9: rule.")
        domain = self.domain()
        return Loops(tuple(names), (domain,) * len(names))

    def domain(self) -> Node:
        """What a name goes through: ``1..9``, ``{cat, dog}``, or a constant."""
        if self.token.text == "{" and self.token.kind == "op":
            return self.braces()
        start = self.token
        low = self.addition()
        if self.take(".."):
            return Span(start, low, self.addition())
        if isinstance(low, Word):
            return low
        self.fail(f"expected '..' in a range, found {self.found()}", "Write a range as 0..9 or values as {cat, dog}.")

    # ---- values ----

    def braces(self) -> Values:
        """``{a, b, 1..3}``."""
        opening = self.token
        self.at += 1
        return Values(opening, self._items("}"))

    def brackets(self) -> Items:
        """``[3, 1, 4]``, or a list of lists."""
        opening = self.token
        self.at += 1
        return Items(opening, self._items("]"))

    def _items(self, closing: str) -> tuple[Node, ...]:
        out: list[Node] = []
        while not self.take(closing):
            token = self.token
            if closing == "]" and token.text == "[" and token.kind == "op":
                out.append(self.brackets())
            elif closing == ")" and token.kind == "name" and token.text in ("true", "false"):  # in a row of a table
                out.append(Flag(token, token.text == "true"))
                self.at += 1
            else:
                out.append(self._item())
            if not self.take(",") and self.token.text != closing:
                self.fail(
                    f"expected ',' or '{closing}' between values, found {self.found()}", "Separate values by ','."
                )
        return tuple(out)

    def _goes_on(self) -> bool:
        """Whether an operator of arithmetic stands here."""
        return self.token.text in _ARITHMETIC

    def _item(self) -> Node:
        """A value, or a few: ``cat``, ``3``, ``i + 1``, ``1..3``."""
        start, token = self.at, self.token
        if token.text != "(" or token.kind != "op":
            value = self.value()
            if not self._goes_on() and not (self.token.kind == "op" and self.token.text in ("..", "[")):
                return Number(token, value) if isinstance(value, int) else Word(token, value)
        self.at = start
        low = self.addition()
        return Span(token, low, self.addition()) if self.take("..") else low

    # ---- sums ----

    def addition(self) -> Node:
        start = self.token
        negative = self.take("-") is not None
        first = self.product()
        if not negative and not self._goes_on():
            return first
        terms = [(-1 if negative else 1, first)]
        while sign := self.take("+", "-"):
            terms.append((1 if sign.text == "+" else -1, self.product()))
        return Addition(start, tuple(terms))

    def product(self) -> Node:
        start = self.token
        first = self.factor()
        if not self._goes_on():
            return first
        rest: list[tuple[str, Node]] = []
        while (op := self.take("*") or self.take_word("div") or self.take_word("mod")) is not None:
            rest.append((op.text, self.factor()))
        return Product(start, first, tuple(rest)) if rest else first

    def factor(self) -> Node:
        token = self.token
        if token.kind == "number":
            return Number(token, self.integer("a number"))
        if token.kind == "op" and token.text == "(":
            self.deeper()
            self.at += 1
            inner = self.addition()
            self.expect(")", "after a sum in brackets", "Close the bracket, or put + - * between numbers.")
            self.depth -= 1
            return inner
        if self.at_if():
            return self.conditional(self.addition)
        if token.text in TERMS and token.kind == "name" and self.next.text == "(":
            return self.call(self.formula if token.text == "count" else self.addition)
        return self.word()

    def call(self, argument: Callable[[], Node]) -> Call:
        """A function whose arguments are read by `argument`, each perhaps with a loop."""
        token = self.token
        self.at += 2
        self.deeper()
        args: list[Node] = []
        while not self.take(")"):
            args.append(self.each(argument()))
            if not self.take(",") and self.token.text != ")":
                self.fail(f"expected ',' or ')' in {token.text}(…), found {self.found()}", f"Write {ALL[token.text]}.")
        self.depth -= 1
        if not args:
            self.fail(f"{token.text}(…) is empty", f"Write {ALL[token.text]}.", token)
        return Call(token, tuple(args))

    def at_if(self) -> bool:
        return self.token.text == "if" and "if" not in self.declared

    def conditional(self, branch: Callable[[], Node]) -> Conditional:
        token = self.token
        self.at += 1
        self.deeper()
        condition = self.formula()
        branches = []
        for word in ("then", "else"):
            if not self.take_word(word):
                self.fail(f"expected '{word}', found {self.found()}", "Write if condition then one else other.")
            branches.append(branch())
        self.depth -= 1
        return Conditional(token, condition, *branches)

    # ---- names ----

    def word(self) -> Word:
        token = self.token
        name = self.name("a variable")
        after = self.token.text
        if after == "(" and name in self.predicates:
            self.fail(f"{shown(name)}(…) is true or false, not a number", f"Write count({shown(name)}(…)).", token)
        if after == "(" and name not in self.declared:
            known = [*ALL, *self.predicates]
            said = f"Write {_ELSEWHERE[name]}." if name in _ELSEWHERE else f"The functions are {', '.join(known)}."
            near = "" if name in _ELSEWHERE else nearest(name, known)
            self.fail(f"there is no function '{shown(name)}'", near + said, token)
        if after == "[":
            return Word(token, name, self.index())
        if self.scope is not None and name not in self.declared and name not in self.defined:
            try:
                self.scope[name]
            except RuleError as error:
                self.fail(error.reason, error.remedy, token)
        return Word(token, name)

    def _index_part(self) -> Node:
        if self.token.kind == "op" and self.token.text == "{":
            return self.braces()
        star = self.take("*")
        return Star(star) if star else self._item()

    def index(self) -> tuple[Node, ...]:
        """``[i, *, 3]``."""
        opening = self.token
        self.at += 1
        self.deeper()
        out: list[Node] = []
        while not self.take("]"):
            out.append(self._index_part())
            if not self.take(",") and self.token.text != "]":
                self.fail(f"expected ',' or ']' in an index, found {self.found()}", "Write an element as cell[1, 2].")
        self.depth -= 1
        if not out:
            self.fail("an index without a number or name", "Write an element as cell[1, 2].", opening)
        return tuple(out)
