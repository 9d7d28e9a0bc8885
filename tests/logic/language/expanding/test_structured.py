"""Structures in text: the formula that they become, and what is refused with a place."""

from __future__ import annotations

import pytest

from dssl.errors import RuleError
from dssl.logic.language.parser import parse
from dssl.logic.language.structures.automata import Regular
from dssl.logic.language.structures.graphs import Chosen
from dssl.logic.language.structures.patterns import Pattern, Tuples

HEAD = "x[1..3]: 1..3\nq[1..2, 1..2]\ne[a, b], e[b, c]\nk: {red, blue}\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("all_different(x[*])", Pattern), ("permutation(q[*, *])", Pattern), ("table(x[1], k) in {(1, red)}", Tuples),
        ('regular(x[*], "1 2 3")', Regular), ("path(e[*, *], a, c)", Chosen), ("tree(e[*, *])", Chosen),
    ],
)  # fmt: skip
def test_a_structure_is_one_formula(text: str, kind: type) -> None:
    (rule,) = parse(HEAD + text)[1]
    assert isinstance(rule.formula, kind)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("permutation(x[*])", "not binary|of 3 variables"),
        ("all_different(x[1] + x[2], x[3])", "all_different"),
        ("table(x[1], k) in {(1)}", "a row of 1 values for 2 variables"),
        ("table(x[1], k) in {(1, green)}", "no value"),
        ("path(e[*, *], a, a)", "without two ends"),
        ("tree(x[*])", "is not an edge"),
        ('regular(x[*], "1 7")', "has the value '7'"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_stands(text: str, said: str) -> None:
    with pytest.raises(RuleError, match=said) as caught:
        parse(HEAD + text)
    assert caught.value.line == 5
