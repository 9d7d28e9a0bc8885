"""Which lines declare variables, which define constants, and which are rules."""

from __future__ import annotations

import pytest

from dssl.logic.language.declaring import definitions, heads
from dssl.logic.language.parser import parse
from dssl.logic.language.tokens import Source, statements


def lines(text: str) -> list:
    return statements(Source(text))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]), ("a, b", ["a", "b"]), ('a, "b c": 0..1', ["a", '"b c"']), ("x[1..3]", ["x"]),
        ("x[1, {a, b}], y: 0..1", ["x", "y"]), ("x[i-1] -> y", []), ("true", []), ("a -> b", []), ("x[1] = true", []),
        ("for i in 1..3: x[i]", []), ("a b", []), ("3 <= a", []), ("a,", ["a"]),
    ],
)  # fmt: skip
def test_what_a_line_declares(text: str, names: list[str]) -> None:
    assert [token.text for token in heads(lines(text)[0])] == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n = 3\nx[n]", ["n"]), ("n = 3", []), ("n = a\nx[n]", []), ("w = [1]", ["w"]), ("s = {a}", ["s"]),
        ("w[1..2] = [1, 2]", ["w"]), ("w[1] = 2\nw", []), ("d = 3\nd -> e", []), ("n = m\nm = 2\nx[n]", ["n", "m"]),
        ("n = 3 & b\nx[n]", []),
    ],
)  # fmt: skip
def test_what_a_line_defines(text: str, names: list[str]) -> None:
    assert list(definitions(Source(text), lines(text), {"d"})) == names


def test_elements_of_an_array_share_their_values() -> None:
    variables, _ = parse("x[1..1000]: 1..100")
    assert len(variables) == 1000
    assert len({id(variable.values) for variable in variables}) == 1
