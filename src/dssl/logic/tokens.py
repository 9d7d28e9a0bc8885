"""Rule text → the tokens of each logical line, and errors that point into the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from dssl.errors import RuleError

MAX_DEPTH = 50  # brackets, ! and -> nested deeper than this are refused
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v\u00a0]+|\\[ \t\r]*(?:\#[^\n]*)?(?:\n|\Z))
      | (?P<comment>\#[^\n]*)
      | (?P<newline>\n)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<number>[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?(?!\w)|[0-9]+(?![.\w])|[0-9]+(?=\.\.)|[0-9]+[eE][+-]?[0-9]+(?!\w))
      | (?P<name>[^\W\d]\w*)
      | (?P<op><->|->|::|\.\.|!=|<=|>=|[!~&|^=<>+\-*(){},:])
    """,
    re.VERBOSE,
)
_MISTAKES = {  # other notations, and what to write instead
    "&&": "&", "||": "|", "=>": "->", "<=>": "<->", "==": "=", "<>": "!=", "→": "->", "⇒": "->", "↔": "<->",
    "⇔": "<->", "¬": "!", "∧": "&", "∨": "|", "⊕": "^", "≤": "<=", "≥": ">=", "≠": "!=", ":=": ":", "...": "..",
}  # fmt: skip
_WORDS = {"not": "!", "and": "&", "or": "|", "xor": "^", "implies": "->", "iff": "<->"}
_OPENING, _CLOSING = {"(": ")", "{": "}"}, {")": "(", "}": "{"}


@dataclass(frozen=True, slots=True)
class Token:
    kind: str  # name, string, number, op, end
    text: str
    at: int  # offset in the text


class Source:
    """The whole text, and errors that point into it."""

    def __init__(self, text: str) -> None:
        self.text = text

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
        return self.text.count("\n", 0, at) + 1


def statements(source: Source) -> list[list[Token]]:
    """The tokens of each logical line, each closed by an `end` token."""
    out: list[list[Token]] = []
    current: list[Token] = []
    brackets: list[Token] = []
    text, at = source.text, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            _bad_character(source, at)
        kind, word = str(match.lastgroup), match.group()
        if kind == "newline" and not brackets:
            if current:
                out.append([*current, Token("end", "", at)])
            current = []
        elif kind in ("name", "string", "number", "op"):
            _refuse_mistake(source, word, at)
            token = Token("op", _WORDS[word], at) if word in _WORDS and kind == "name" else Token(kind, word, at)
            _match_bracket(source, token, brackets)
            current.append(token)
        at = match.end()
    if brackets:
        opening = brackets[-1].text
        source.fail(brackets[-1].at, f"'{opening}' is never closed", f"Add the missing '{_OPENING[opening]}'.")
    if current:
        out.append([*current, Token("end", "", len(text))])
    return out


def _match_bracket(source: Source, token: Token, brackets: list[Token]) -> None:
    if token.kind != "op":
        return
    if token.text in _OPENING:
        brackets.append(token)
        if len(brackets) > MAX_DEPTH:
            source.fail(token.at, f"brackets nested deeper than {MAX_DEPTH}", "Split the rule into several lines.")
    elif token.text in _CLOSING:
        if not brackets:
            source.fail(token.at, f"'{token.text}' closes nothing", f"Remove it or add a '{_CLOSING[token.text]}'.")
        opening = brackets.pop().text
        if _OPENING[opening] != token.text:
            source.fail(token.at, f"'{token.text}' cannot close '{opening}'", f"Write '{_OPENING[opening]}' here.")


def _refuse_mistake(source: Source, word: str, at: int) -> None:
    for mistake in (source.text[at : at + 3], source.text[at : at + 2], word):
        if mistake in _MISTAKES:
            source.fail(at, f"'{mistake}' is not an operator of the rule language", f"Write {_MISTAKES[mistake]}")


def _bad_character(source: Source, at: int) -> NoReturn:
    character = source.text[at]
    if character in _MISTAKES:
        _refuse_mistake(source, character, at)
    if character == '"':
        source.fail(at, "this quote is never closed on its line", 'Close it with ", and write \\" for a quote inside.')
    if character in "'`‘’“”":
        source.fail(at, f"{character} does not quote a name here", 'Use plain double quotes: "has tail".')
    if character == "[":
        source.fail(at, "'[' is not used in rules", "Use ( ) around formulas and { } around values.")
    if character == ";":
        source.fail(at, "';' does not separate rules", "Write one rule a line.")
    if character == "\\":
        source.fail(at, "'\\' continues a line only at its end", "Remove it, or what follows it.")
    if character.isdigit() or character == ".":
        source.fail(at, "this is neither a number nor a name", 'Names that start with a digit are quoted: "2legs".')
    source.fail(
        at, f"the character {character!r} has no meaning here", 'Names with other characters are quoted: "a-b".'
    )
