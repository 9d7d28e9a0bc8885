"""Tokens → the tree of a rule, by recursive descent: every error points at its place and names a remedy."""

from __future__ import annotations

from typing import NoReturn

from dssl.logic.language.quoting import quoted
from dssl.logic.language.structures.graphs import GRAPHS
from dssl.logic.language.structures.patterns import PATTERNS
from dssl.logic.language.structures.rowfiles import Listing
from dssl.logic.language.syntax import (
    Call,
    Comparison,
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
    Statement,
    Use,
    Word,
)
from dssl.logic.language.terms import ADDING, ALL, Terms
from dssl.logic.language.tokens import FUNCTIONS, Token, formatted
from dssl.logic.language.variables import shown

COUNTED = {"exactly": "=", "at_most": "<=", "at_least": ">="}
_COMPARING = ("<", "<=", ">", ">=", "=", "!=")
_CHAINS = (("<", "<="), (">", ">="))
_CLOSENESS = {"^": 0, "|": 1, "&": 2}
_NO_LOOPS = Loops((), ())


def is_function(name: str) -> bool:
    """Whether a name before brackets is a function of the language."""
    return name in ALL


_PREFIXED = {  # operators written like functions, and what they are in rule text
    "and": "all(a, b), or a & b", "or": "any(a, b), or a | b", "xor": "a ^ b", "implies": "a -> b", "iff": "a <-> b",
}  # fmt: skip
_PROSE = {  # words that sentences begin with, and how rules are written in place of them
    "if": "premise -> conclusion, or if condition then one else other",
    "when": "premise -> conclusion",
    "whenever": "premise -> conclusion",
    "unless": "condition | rule",
    "every": "premise -> conclusion",
    "either": "a | b, or a ^ b for exactly one of them",
    "neither": "!a & !b",
    "constraint": "the rule alone, without that word",
    "solve": "the rules alone",
    "var": "the name first: x: 1..9, or x[1..9]: 1..9 for an array",
    "array": "the name first: x[1..9]: 1..9",
}


class Reader(Terms):
    """One statement: its remark, loops and probability, and the formula."""

    # ---- statements ----

    def statement(self) -> Statement:
        loops = _NO_LOOPS
        why = self.remark()
        while self.at_loop():
            loops += self.loops()
            self.expect(":", "before the rule of a loop", "Write for i in 1..9: rule.")
            why = self.remark() or why  # the one nearest to the rule
        first = self.token
        if loops.names and first.text == "rule" and self.next.kind == "name" and self.tokens[self.at + 2].text == "(":
            self.fail("a rule with parameters is defined in a loop", "Define it outside, once; loops can use it.")
        if first.kind == "end" and loops.names:
            self.fail("a loop without a rule", "Write for i in 1..9: rule, or the rules indented below it.")
        probability = self.probability()
        if self.token.kind == "end":
            self.fail("a rule is missing after '::'", "Write a soft rule as 0.9 :: formula.")
        if probability is not None and self.at_loop():
            self.fail("a probability before a loop", "Write for i in 1..9: 0.9 :: rule.", first)
        if probability is not None and self.remark():
            self.fail("a probability before a remark", 'Write "why": 0.9 :: rule.', first)
        if first.kind in ("name", "string") and self.next.text == "," and self._names_classes():
            self.fail("several names before '<'", "Classes stand in a hierarchy: cat, dog < mammal < animal.")
        if self.at_prose() and not (self.at_if() and any(token.text == "else" for token in self.tokens)):
            self._refuse_prose()
        formula = self.formula()
        self.finish()
        return Statement(first, formula, probability, loops, why)

    def remark(self) -> str | None:
        """``"why":``, if it stands here."""
        token = self.token
        if token.kind != "string" or self.next.kind != "op" or self.next.text != ":":
            return None
        self.at += 2
        return self.unquoted(token)

    def probability(self) -> float | None:
        first = self.token
        if first.kind != "number" or self.next.text != "::":
            return None
        self.at += 2
        found = float(first.text) if len(first.text) < 40 else 2.0
        if not 0 < found < 1:
            self.fail(
                f"the probability of a soft rule is between 0 and 1, not {shown(first.text)}",
                "A rule that always holds is written without a probability; one that never holds with !( ).",
                first,
            )
        return found

    def _names_classes(self) -> bool:
        """Whether the line is names with commas and ``<`` between, as in a hierarchy."""
        between = {token.text for token in self.tokens if token.kind not in ("name", "string", "end")}
        return between == {",", "<"}

    def at_prose(self) -> bool:
        """Whether the rule begins as a sentence would, with a word that is not a name here."""
        here, after = self.token, self.next
        prose = here.kind == "name" and here.text.lower() in _PROSE and here.text not in self.declared
        declares = here.text in ("var", "array") and (after.kind == "number" or after.text == "[")
        return prose and (declares or after.kind in ("name", "string") or after.text in ("!", "("))

    def _refuse_prose(self) -> NoReturn:
        """``if a then b`` is how many would write a -> b: say so, in their words."""
        first = self.token
        marks = [first, *(t for t in self.tokens if t.kind == "name" and t.text.lower() in ("then", "else"))]
        between = zip(marks, [*(t.at for t in marks[1:]), self.tokens[-1].at])
        said = {mark.text.lower(): self.source.text[mark.at + len(mark.text) : end].strip() for mark, end in between}
        then, word = said.get("then"), first.text.lower()
        remedy = _PROSE[word]
        if "->" in remedy and then and "else" not in said:
            remedy = f"{said[word]} -> {then}"
        self.fail(f"a rule does not begin with '{first.text}'", f"Write {remedy}.")

    # ---- formulas ----

    def formula(self) -> Node:
        self.deeper()
        start = self.token
        parts = [self.implication()]
        while self.take("<->"):
            parts.append(self.implication())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else Joined(start, "<->", tuple(parts))

    def implication(self) -> Node:
        start = self.token
        left = self.joined()
        if not self.take("->"):
            return left
        self.deeper()
        right = self.implication()
        self.depth -= 1
        return Joined(start, "->", (left, right))

    def joined(self, least: int = 0) -> Node:
        """Formulas joined by operators that bind at least as closely as `least`."""
        start = self.token
        out = self.negation()
        while (level := _CLOSENESS.get(symbol := self.token.text, -1)) >= least:
            parts = [out]
            while self.take(symbol):
                parts.append(self.joined(level + 1))
            out = Joined(start, symbol, tuple(parts))
        return out

    def negation(self) -> Node:
        token = self.token
        if token.text not in ("!", "~"):
            return self.primary()
        self.at += 1
        self.deeper()
        part = self.negation()
        self.depth -= 1
        return Negation(token, part)

    def primary(self) -> Node:
        token = self.token
        if token.text == "(" and not self._grouped_sum():
            self.at += 1
            inner = self.formula()
            self.expect(")", "after a formula in brackets", "Close the bracket, or put & | -> between formulas.")
            return inner
        if self.at_if():
            return self.conditional(self.formula)
        if token.kind == "name" and self.tokens[self.at + 1].text == "(":
            if token.text in FUNCTIONS:
                return self.function()
            if token.text in PATTERNS:
                return self.call(self.addition)
            if token.text in GRAPHS:
                return self.call(self._index_part)
            if token.text == "table":
                return self.table()
            if token.text == "regular":
                return self.regular()
            if token.text in self.predicates:
                return self.use()
        if token.text in ("true", "false"):
            self.at += 1
            return Flag(token, token.text == "true")
        if token.kind in ("name", "string", "number") or token.text in ("-", "("):
            return self.atom()
        word = self.source.word(token)
        if word in _PREFIXED and self.next.text == "(":
            self.fail(f"'{word}' stands between formulas, not before them", f"Write {_PREFIXED[word]}.")
        self.fail(
            f"expected a formula, found {self.found()}",
            "A formula is a name, a comparison, a cardinality such as at_most(1, a, b), or ( … ).",
        )

    def _grouped_sum(self) -> bool:
        """Whether the bracket here holds numbers added or multiplied, and not a formula."""
        closing = self.closing(self.at)
        after = self.tokens[min(closing + 1, len(self.tokens) - 1)].text
        if after not in (*_COMPARING, *ADDING, "div", "mod"):
            return False
        if self.next.text == "if" and self.next.kind == "name":
            return True
        inside = {token.text for token in self.tokens[self.at + 1 : closing]}
        formulas = {"&", "|", "^", "->", "<->", "!", "~", "in", *_COMPARING}
        return inside.isdisjoint(formulas) and not inside.isdisjoint((*ADDING, "div", "mod"))

    def function(self) -> Call:
        token = self.token
        self.at += 2
        args: list[Node] = [self.count(token)] if token.text in COUNTED else []
        while not self.take(")"):
            args.append(self.each(self.formula()))
            if not self.take(",") and self.token.text != ")":
                self.fail(f"expected ',' or ')' in {token.text}(…), found {self.found()}", "Separate formulas by ','.")
        if len(args) == (token.text in COUNTED):
            self.fail(f"{token.text}(…) needs at least one formula", f"Name them: {FUNCTIONS[token.text]}.", token)
        return Call(token, tuple(args))

    def count(self, function: Token) -> Node:
        if self.token.kind not in ("number", "name", "string"):
            self._refuse_count(function)
        k = self.addition()
        if isinstance(k, Word) and k.text in self.declared and k.index is None:
            self.at -= 1
            self._refuse_count(function)
        if not self.take(",") and self.token.text != ")":
            self.fail(f"expected ',' after the number, found {self.found()}", f"Write {FUNCTIONS[function.text]}.")
        return k

    def _refuse_count(self, function: Token) -> NoReturn:
        self.fail(
            f"{function.text}(…) starts with a number, found {self.found()}", f"Write {FUNCTIONS[function.text]}."
        )

    # ---- atoms ----

    def atom(self) -> Node:
        start = self.token
        left = self.addition()
        op = self.token
        if op.text not in _COMPARING:
            if not isinstance(left, Word):
                self.fail("a sum or number alone is not a formula", "Compare it: a + b <= 3.", start)
            return self._membership(start, left)
        self.at += 1
        right = self.value_side(left) if isinstance(left, Word) and op.text in ("=", "!=") else self.addition()
        return self._chain([Comparison(start, op.text, left, right)])

    def _chain(self, parts: list[Comparison]) -> Node:
        """``2 <= x < 5``: comparisons in one direction, each with what the one before ends with."""
        ops = next((ops for ops in _CHAINS if parts[0].op in ops), ())
        while self.token.text in ops:
            middle, op = parts[-1].right, self.token.text
            self.at += 1
            parts.append(Comparison(middle.token, op, middle, self.addition()))
        return parts[0] if len(parts) == 1 else Joined(parts[0].token, "&", tuple(parts))

    def _membership(self, start: Token, left: Word) -> Node:
        """``name in {…}`` or ``name not in {…}``; the name alone if neither follows."""
        if self.take_word("in"):
            return Membership(start, left, self.members())
        if self.token.text == "!" and self.next.text == "in":
            self.at += 2
            return Negation(start, Membership(start, left, self.members()))
        return left

    def members(self) -> Node:
        if self.token.text == "{" and self.token.kind == "op":
            return self.braces()
        if self.token.kind == "number" or self.token.text in self.defined:
            return self.domain()
        self.fail(f"expected '{{' after 'in', found {self.found()}", "Write the values in braces: in {cat, dog}.")

    def value_side(self, left: Word) -> Node:
        """The right side of ``name =``: a value, or a sum."""
        token = self.token
        if token.kind == "name" and token.text in ("true", "false"):
            self.at += 1
            return Flag(token, token.text == "true")
        if token.kind == "number" or (token.text == "-" and self.next.kind == "number"):
            start, value = self.at, self.value()
            if not self._goes_on():
                return Number(token, int(value))
            self.at = start
        elif token.kind in ("name", "string") and not self.at_if():
            start, name = self.at, self.name("a value")
            if not self._goes_on() and self.token.text not in ("(", "["):
                return Word(token, name)
            self.at = start
        elif token.text not in ("-", "(", "if"):
            self.fail(
                f"expected a value after the comparison, found {self.found()}", f"Write {quoted(left.text)} = value."
            )
        return self.addition()

    # ---- sums ----

    def use(self) -> Use:
        """``kin(x, 3)``, a rule with parameters that is defined elsewhere."""
        token, start = self.token, self.at
        signature = self.predicates[token.text]
        self.at += 2
        self.deeper()
        args: list[Node] = []
        while not self.take(")"):
            args.append(self._item())
            if not self.take(",") and self.token.text != ")":
                self.fail(
                    f"expected ',' or ')' in {signature.name}(…), found {self.found()}",
                    "Arguments are names, numbers and elements of arrays.",
                )
        self.depth -= 1
        if len(args) != len(signature.parameters):
            self.fail(
                f"{shown(signature.name)}(…) takes {len(signature.parameters)} arguments, not {len(args)}",
                f"Line {signature.line} defines {signature}.",
                token,
            )
        return Use(token, token.text, tuple(args), formatted(self.tokens[start : self.at]))

    def regular(self) -> Sequence:
        """``regular(x[*], "a b*")``."""
        token = self.token
        self.at += 2
        columns: list[Node] = []
        while not (self.token.kind == "string" and self.next.text == ")"):
            columns.append(self.each(self.word()))
            if not self.take(","):
                self.fail(f"expected ',' and an expression in quotes, found {self.found()}", f"Write {ALL['regular']}.")
        pattern = self.token
        self.at += 2
        if not columns:
            self.fail("regular(…) is empty", f"Write {ALL['regular']}.", token)
        return Sequence(token, tuple(columns), self.unquoted(pattern), pattern)

    def table(self) -> Listed | FileRows:
        """``table(x, y) in {(1, a), (2, b)}``, or in a file."""
        columns = self.call(self.word)
        inside, token = self.take_word("in"), self.token
        if inside and isinstance(token, Listing):
            self.at += 1
            return FileRows(columns.token, columns.args, token)
        if not inside or not self.take("{"):
            self.fail(f"expected 'in {{' after table(…), found {self.found()}", f"Write {ALL['table']}.")
        rows: list[tuple[Node, ...]] = []
        while not self.take("}"):
            self.expect("(", "before the values of a row", f"Write {ALL['table']}.")
            rows.append(self._items(")"))
            if not self.take(",") and self.token.text != "}":
                self.fail(f"expected ',' or '}}' between rows, found {self.found()}", "Separate rows by ','.")
        return Listed(columns.token, columns.args, tuple(rows))
