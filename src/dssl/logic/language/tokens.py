"""Rule text ⇄ the tokens of each logical line, and errors that point into the text."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from dssl.errors import RuleError
from dssl.logic.language.formula import MAX_DEPTH, MAX_DIGITS
from dssl.logic.language.quoting import RESERVED
from dssl.logic.language.variables import shown

_FIRST = "->, with the premise first: a -> b"
_MISTAKES = {  # other notations, and what to write instead
    "&&": "&", "||": "|", "=>": "->, or >= to compare numbers", "<=>": "<->", "==": "=", "<>": "!=", ":=": ":",
    "...": "..", ">>": "->", ">>>": "->", "<<": _FIRST, "<<<": _FIRST, "<-": _FIRST, "<--": _FIRST, "-->": "->",
    "==>": "->", "->>": "->", "~>": "->", "<==": _FIRST, "<-->": "<->", "<==>": "<->", "===": "=", "!==": "!=",
    "~=": "!=", "=<": "<=", "^^": "^", "//": "div", "/\\": "&", "\\/": "|", "→": "->", "⇒": "->", "⟶": "->", "⟹": "->",
    "⊃": "->", "←": _FIRST, "⇐": _FIRST, "↔": "<->", "⇔": "<->", "⟷": "<->", "⟺": "<->", "≡": "<->", "¬": "!",
    "∧": "&", "⋀": "&", "∨": "|", "⋁": "|", "⊕": "^", "⊻": "^", "≤": "<=", "≥": ">=", "≠": "!=", "∈": "in",
}  # fmt: skip
_MISTAKE = "|".join(  # longer ones first; `n <-3` compares with a negative number, `a <- b` does not
    re.escape(word) + (r"(?=\s)" if word == "<-" else "") for word in sorted(_MISTAKES, key=len, reverse=True)
)
_TOKEN = re.compile(
    rf"""(?P<space>[ \t\r\f\v\u00a0]+|\\[ \t\r]*(?:\#[^\n]*)?(?:\n|\Z))
      | (?P<comment>\#[^\n]*)
      | (?P<newline>\n)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<number>[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?(?!\w)|[0-9]+(?![.\w])|[0-9]+(?=\.\.)|[0-9]+[eE][+-]?[0-9]+(?!\w))
      | (?P<name>[^\W\d]\w*)
      | (?P<mistake>{_MISTAKE})
      | (?P<op><->|->|::|\.\.|!=|<=|>=|[!~&|^=<>+\-*(){{}}\[\],:])
      | (?P<other>.)
    """,
    re.VERBOSE,
)
_KEPT = frozenset(["name", "string", "number", "op"])
_WORDS = {"not": "!", "and": "&", "or": "|", "xor": "^", "implies": "->", "iff": "<->"}
_MEANT = _WORDS | {"is": "=", "equals": "="}  # words that are operators, in small letters or elsewhere
_OPENING = {"(": ")", "{": "}", "[": "]"}
_CLOSING = {closing: opening for opening, closing in _OPENING.items()}
_BRACKETS = frozenset([*_OPENING, *_CLOSING])


@dataclass(slots=True, unsafe_hash=True)  # not frozen, which would take twice as long to make; nobody changes one
class Token:
    kind: str  # name, string, number, op, end
    text: str
    at: int  # offset in the text


class Source:
    """The whole text, and errors that point into it."""

    def __init__(self, text: str, folder: str | Path | None = None) -> None:
        self.text = unicodedata.normalize("NFC", text)
        self.folder = folder  # of the files that it names; None: it may name none
        self.files: dict[str, Any] = {}  # what was read from them

    def fail(self, at: int, reason: str, remedy: str = "") -> NoReturn:
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        line = self.text.count("\n", 0, at) + 1
        source = self.text[start : len(self.text) if end < 0 else end]
        raise RuleError(reason, remedy=remedy, line=line, column=at - start + 1, source=source)

    def word(self, token: Token) -> str:
        """The token as it was written: `and`, where the parser sees &."""
        written = re.match(r"\w+", self.text[token.at : token.at + 10])
        return written.group() if token.kind == "op" and written else token.text

    def line(self, at: int) -> int:
        return bisect_left(self._breaks, at) + 1

    @cached_property
    def _breaks(self) -> list[int]:
        return [i for i, character in enumerate(self.text) if character == "\n"]

    def indent(self, at: int) -> int:
        """How far a place is from the start of its line."""
        return at - (self.text.rfind("\n", 0, at) + 1)


def statements(source: Source) -> list[list[Token]]:
    """The tokens of each logical line, each closed by an `end` token."""
    out: list[list[Token]] = []
    current: list[Token] = []
    brackets: list[Token] = []
    for match in _TOKEN.finditer(source.text):
        kind, word, at = str(match.lastgroup), match.group(), match.start()
        if kind in _KEPT:
            if word == "[" and not _may_index(current, brackets):
                _bad_character(source, at)
            token = Token("op", _WORDS[word], at) if word in _WORDS else Token(kind, word, at)
            if word in _BRACKETS:
                _match_bracket(source, token, brackets)
            current.append(token)
        elif kind == "newline" and current and not brackets:
            current.append(Token("end", "", at))
            out.append(current)
            current = []
        elif kind == "mistake":
            source.fail(at, f"'{word}' is not an operator of the rule language", f"Write {_MISTAKES[word]}")
        elif kind == "other":
            _bad_character(source, at)
    if brackets:
        opening = brackets[-1].text
        source.fail(brackets[-1].at, f"'{opening}' is never closed", f"Add the missing '{_OPENING[opening]}'.")
    if current:
        out.append([*current, Token("end", "", len(source.text))])
    return out


def _may_index(before: list[Token], brackets: list[Token]) -> bool:
    """Whether '[' can stand here: after the name of an array, or where a list begins."""
    if not before or before[-1].text == "in" or before[-1].kind == "number":
        return False
    last = before[-1]
    return last.kind in ("name", "string") or last.text == "=" or (bool(brackets) and brackets[-1].text == "[")


def _match_bracket(source: Source, token: Token, brackets: list[Token]) -> None:
    if token.text in _OPENING:
        brackets.append(token)
        if len(brackets) > MAX_DEPTH + (token.text != "("):  # braces around values may stand in the innermost
            source.fail(token.at, f"brackets nested deeper than {MAX_DEPTH}", "Split the rule into several lines.")
    else:
        if not brackets:
            source.fail(token.at, f"'{token.text}' closes nothing", f"Remove it or add a '{_CLOSING[token.text]}'.")
        opening = brackets.pop().text
        if _OPENING[opening] != token.text:
            source.fail(token.at, f"'{token.text}' cannot close '{opening}'", f"Write '{_OPENING[opening]}' here.")


def _bad_character(source: Source, at: int) -> NoReturn:
    character = source.text[at]
    if character == '"':
        source.fail(at, "this quote is never closed on its line", 'Close it with ", and write \\" for a quote inside.')
    if character in "'`‘’“”":
        source.fail(at, f"{character} does not quote a name here", 'Use plain double quotes: "has tail".')
    if character == "[":
        word = source.text[:at].rpartition("\n")[2].replace(",", " ").split(" ")[-1]
        if word in RESERVED:
            source.fail(
                at - len(word), f"'{word}' is a word of the language", f'Rename the array, or quote it: "{word}"[1].'
            )
        source.fail(at, "'[' is not used in rules", "Use ( ) around formulas and { } around values.")
    if character in "%/":
        source.fail(at, f"'{character}' is not used in rules", "Write a mod b, a div b, and # before a comment.")
    if character == ";":
        source.fail(at, "';' does not separate rules", "Write one rule per line.")
    if character == "\\":
        source.fail(at, "'\\' continues a line only at its end", "Remove it, or what follows it.")
    if character.isdigit() or character == ".":
        source.fail(at, "this is neither a number nor a name", 'Names that start with a digit are quoted: "2legs".')
    source.fail(
        at, f"the character {character!r} has no meaning here", 'Names with other characters are quoted: "a-b".'
    )


# ---- tokens → text ----

_TIGHT_BEFORE = frozenset([",", ")", "]", "}", ":"])
_TIGHT_AFTER = frozenset(["(", "[", "{"])
_TIGHT = frozenset(["..", "*"])
_OPERAND = frozenset([")", "]", "}"])
_BETWEEN = frozenset(["in", "where", "for", "then", "else", "if", "div", "mod"])


def formatted(tokens: Sequence[Token]) -> str:
    """The tokens of a statement as text.

    >>> formatted(statements(Source("for i  in 1 .. 9 : x [ i-1 ]and y->- 2 * z<3"))[0])
    'for i in 1..9: x[i-1] & y -> -2*z < 3'
    """
    out = ""
    brackets: list[str] = []
    kept = [token for token in tokens if token.kind != "end"]
    unary = False  # the token before was a sign or a negation
    for i, token in enumerate(kept):
        before = kept[i - 1] if i else None
        sign = token.kind == "op" and token.text in "-!~" and not _ends_operand(before)
        inside = bool(brackets) and brackets[-1] == "["
        out += " " if before is not None and _spaced(before, token, unary, sign, inside) else ""
        after = kept[i + 1] if i + 1 < len(kept) else None
        out += _written(token, sign, after)
        unary = sign
        if token.kind == "op" and token.text in _TIGHT_AFTER:
            brackets.append(token.text)
        elif token.kind == "op" and token.text in _OPERAND and brackets:
            brackets.pop()
    return out


def _written(token: Token, sign: bool, after: Token | None) -> str:
    if token.kind != "op" or token.text not in "!~":
        return token.text
    return "!" if sign or after is None or after.text != "in" else "not"


def tidied(source: Source) -> str:
    """The whole text with the usual spaces; comments, indents and statements of several lines stay as they are.

    >>> tidied(Source("a,b   # two\\n\\na   implies b"))
    'a, b   # two\\n\\na -> b'
    """
    out = source.text
    for tokens in reversed(statements(source)):
        start, last = tokens[0].at, tokens[-2]
        line_end = out.find("\n", start) if "\n" in out[start:] else len(out)
        end = last.at + len(source.word(last) if last.kind == "op" else last.text)
        if end <= line_end:
            out = out[:start] + formatted(tokens) + out[end:]
    return out


def _ends_operand(token: Token | None) -> bool:
    if token is None or token.kind == "op":
        return token is not None and token.text in _OPERAND
    return token.kind != "name" or token.text not in _BETWEEN


def _spaced(before: Token, token: Token, unary: bool, sign: bool, inside: bool) -> bool:
    """Whether a space stands between two tokens."""
    if token.kind == "op":
        if token.text in _TIGHT_BEFORE or (token.text in _TIGHT and not _stands_for_everything(before)):
            return False
        if token.text in ("(", "[") and before.kind != "op" and _ends_operand(before):
            return False
        if inside and token.text in "+-" and not sign:
            return False
    if before.kind != "op":
        return True
    return not (unary or before.text in _TIGHT_AFTER or before.text in _TIGHT or (inside and before.text in "+-"))


def _stands_for_everything(before: Token) -> bool:
    """Whether ``*`` after this token is an index."""
    return before.kind == "op" and before.text in (",", "[")


# ---- a place in the tokens of a statement ----

FUNCTIONS = {
    "all": "all(a, b)", "any": "any(a, b)", "none": "none(a, b)", "exactly_one": "exactly_one(a, b, c)",
    "exactly": "exactly(2, a, b, c)", "at_most": "at_most(1, a, b)", "at_least": "at_least(1, a, b)",
}  # fmt: skip


class Cursor:
    """The tokens of one statement, and how far they are read."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source, self.tokens, self.at = source, tokens, 0

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    @property
    def next(self) -> Token:
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def fail(self, reason: str, remedy: str = "", token: Token | None = None) -> NoReturn:
        self.source.fail((token or self.token).at, reason, remedy)

    def take(self, *texts: str) -> Token | None:
        """The next token if it is one of these operators."""
        token = self.tokens[self.at]
        if token.text in texts:  # nothing but operators has their texts: names in quotes keep the quotes
            self.at += 1
            return token
        return None

    def take_word(self, word: str) -> Token | None:
        """The next token if it is this word, unquoted."""
        token = self.token
        if token.kind == "name" and token.text == word:
            self.at += 1
            return token
        return None

    def expect(self, text: str, where: str, remedy: str) -> None:
        if not self.take(text):
            self.fail(f"expected '{text}' {where}, found {self.found()}", remedy)

    def found(self) -> str:
        return "the end of the line" if self.token.kind == "end" else f"'{shown(self.source.word(self.token))}'"

    def closing(self, at: int) -> int:
        """The position of the bracket that closes the one at `at`."""
        depth = 0
        for i in range(at, len(self.tokens)):
            token = self.tokens[i]
            if token.kind == "op":
                depth += (token.text in "([{") - (token.text in ")]}")
            if depth == 0:
                return i
        return len(self.tokens) - 1

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
        if len(token.text) > MAX_DIGITS:
            self.fail(f"a number of {len(token.text)} digits", f"Use at most {MAX_DIGITS} digits.")
        self.at += 1
        return sign * int(token.text)

    def name(self, what: str) -> str:
        token = self.token
        if token.kind not in ("name", "string"):
            self.fail(
                f"expected the name of {what}, found {self.found()}", 'Names with other characters are quoted: "a-b".'
            )
        if token.kind == "name" and token.text in FUNCTIONS:
            self.fail(f"'{token.text}' needs its formulas in brackets", f"Write {FUNCTIONS[token.text]}.")
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
            meant = _MEANT.get(token.text.lower()) if token.kind == "name" else None
            remedy = f"Write {meant}." if meant else "Put & | -> <-> or ^ between, or start a new line."
            self.fail(f"{self.found()} follows without an operator", remedy)
        if token.text == "::":
            self.fail("'::' stands after a probability only", "Write a soft rule as 0.9 :: formula.")
        if token.text == ",":
            self.fail("',' does not join rules", "Use & or write one rule per line; lists belong in all(…), any(…).")
        if token.text in ("<", "<=", ">", ">=", "=", "!="):
            self.fail(
                "a comparison cannot be compared again",
                "Only < and <= follow each other, or > and >=, as in 2 <= a < 5; join others by &.",
            )
        self.fail(f"{self.found()} is not expected here", "Remove it, or check the brackets before it.")
