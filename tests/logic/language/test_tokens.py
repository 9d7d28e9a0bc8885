"""Text → tokens: what is skipped, what continues a line, and what is refused."""

from __future__ import annotations

import pytest

from dssl.errors import RuleError
from dssl.logic.language.formula import MAX_DEPTH
from dssl.logic.language.tokens import _MISTAKES, Cursor, Source, Token, formatted, statements
from dssl.logic.space import LabelSpace
from logic.messages import CHARACTERS, NOTATIONS, BadText


def words(text: str) -> list[list[str]]:
    return [[token.text for token in line[:-1]] for line in statements(Source(text))]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n \t\n# only a comment\n", []),
        ("a -> b", [["a", "->", "b"]]),
        ("a->b<->c", [["a", "->", "b", "<->", "c"]]),
        ("a # comment & more\nb", [["a"], ["b"]]),
        ("a \\\n & b", [["a", "&", "b"]]),
        ("a \\  # why\n & b", [["a", "&", "b"]]),
        ("all(a,\n b)\nc", [["all", "(", "a", ",", "b", ")"], ["c"]]),
        ("x: {a, # first\n b}", [["x", ":", "{", "a", ",", "b", "}"]]),
        ("a\r\nb\r\n", [["a"], ["b"]]),
        ("a\u00a0& b", [["a", "&", "b"]]),
        ("not a and b or c", [["!", "a", "&", "b", "|", "c"]]),
        ("a implies b iff c xor d", [["a", "->", "b", "<->", "c", "^", "d"]]),
        ('"a # b" & "c\\"d"', [['"a # b"', "&", '"c\\"d"']]),
        ("age: 0..9", [["age", ":", "0", "..", "9"]]),
        ("0.9::a", [["0.9", "::", "a"]]),
        (".5 :: a", [[".5", "::", "a"]]),
        ("1e-05 :: a", [["1e-05", "::", "a"]]),
        ("x<-1", [["x", "<", "-", "1"]]),
        ("2*x+3<=y", [["2", "*", "x", "+", "3", "<=", "y"]]),
        ("naïve & 猫 & _x1", [["naïve", "&", "猫", "&", "_x1"]]),
        ("android & orchid", [["android", "&", "orchid"]]),
    ],
)
def test_tokens(text: str, lines: list[list[str]]) -> None:
    assert words(text) == lines


def test_every_line_ends_with_an_end_and_knows_its_place() -> None:
    source = Source("a\n\n  b & c")
    assert statements(source)[1] == [
        Token("name", "b", 5), Token("op", "&", 7), Token("name", "c", 9), Token("end", "", 10),
    ]  # fmt: skip
    assert [source.line(tokens[0].at) for tokens in statements(source)] == [1, 3]


def test_words_are_shown_as_they_were_written() -> None:
    source = Source("a and b")
    token = statements(source)[0][1]
    assert (token.text, source.word(token)) == ("&", "and")


def test_brackets_at_the_limit_are_read() -> None:
    assert statements(Source("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH))


@pytest.mark.parametrize("case", CHARACTERS, ids=lambda case: case.reason[:40])
def test_what_is_no_token_is_refused_in_its_place(case: BadText) -> None:
    with pytest.raises(RuleError) as caught:
        LabelSpace(case.text)
    assert case.reason in caught.value.reason
    assert case.remedy in caught.value.remedy
    assert (caught.value.line, caught.value.column) == case.place
    LabelSpace(case.fixed)


def test_every_other_notation_is_in_the_table() -> None:
    assert set(_MISTAKES) == set(NOTATIONS) | {"¬", ":=", "...", "//", "∈"}
    assert all("the premise first" in _MISTAKES[word] for word in ("<<", "<-", "<==", "←"))


@pytest.mark.parametrize("text", ["age <-3", "age < -size", "age <-size", "age-1 <-1", "0 < --age"])
def test_a_comparison_with_a_negative_number_is_no_arrow(text: str) -> None:
    assert {"<", "-"} <= set(words(text)[0])


def test_other_notations_inside_quotes_and_comments_are_names_and_comments() -> None:
    assert words('"a => b" # a => b') == [['"a => b"']]


# ---- tokens → text ----


def tidy(text: str) -> str:
    return formatted(statements(Source(text))[0])


@pytest.mark.parametrize(
    ("text", "tidied"),
    [
        ("for i in 1 ..9:x[i]and y", "for i in 1..9: x[i] & y"),
        ("for i in -1..- 2 + n where(i)>3 : a", "for i in -1..-2 + n where (i) > 3: a"),
        ("sum(w[ i ] * x[i,* ]for i in{1,2})<=3", "sum(w[i]*x[i, *] for i in {1, 2}) <= 3"),
        ("not a->!b|~(c)", "!a -> !b | !(c)"),
        ("x[*]", "x[*]"),
        ("x[i - 1] = -y*2", "x[i-1] = -y*2"),
        ("x !in{a}", "x not in {a}"),
        ("0.9::at_most( 1,a ,b)", "0.9 :: at_most(1, a, b)"),
        ("(a + b)*(i+1) mod 2 = 0", "(a + b)*(i + 1) mod 2 = 0"),
        ("w[0..1] = [[1,-2] ,[3,4]]", "w[0..1] = [[1, -2], [3, 4]]"),
        ('"a b"[1] -> "c"', '"a b"[1] -> "c"'),
    ],
)
def test_spaces(text: str, tidied: str) -> None:
    assert tidy(text) == tidied
    assert tidy(tidied) == tidied
    kept = [[token.text.replace("~", "!") for token in statements(Source(t))[0]] for t in (text, tidied)]
    assert kept[0] == kept[1]


# ---- a place in the tokens ----


def at(text: str) -> Cursor:
    source = Source(text)
    return Cursor(source, statements(source)[0])


def test_only_what_is_asked_for_is_taken() -> None:
    cursor = at('for "for" & x')
    assert cursor.take("&") is None
    assert cursor.take_word("for") is not None
    assert cursor.take_word("for") is None  # in quotes it is a name
    assert cursor.name("a variable") == "for"
    assert cursor.take("|", "&") is not None
    assert (cursor.token.text, cursor.next.kind, cursor.found()) == ("x", "end", "'x'")


@pytest.mark.parametrize(("text", "closing"), [("(a)", 2), ("(a[b(c)]) & (d)", 8), ("(", 0)])
def test_the_bracket_that_closes(text: str, closing: int) -> None:
    if text == "(":
        with pytest.raises(RuleError, match="never closed"):
            at(text)
    else:
        assert at(text).closing(0) == closing


def test_what_is_left_over_is_refused() -> None:
    cursor = at("a b")
    cursor.name("a variable")
    with pytest.raises(RuleError, match="'b' follows without an operator"):
        cursor.finish()
