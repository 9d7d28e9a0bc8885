"""Statements with loops, arrays and constants: what is refused, where, and with which remedy."""

from __future__ import annotations

import pytest

from dssl.errors import RuleError
from dssl.logic.language.parser import parse
from dssl.logic.language.reading import Reader
from dssl.logic.language.syntax import Call, Comparison, Each, Product, Statement, Word
from dssl.logic.language.tokens import Source, statements
from logic.messages import LOOPS, STRUCTURES, BadText


def read(text: str, *declared: str) -> Statement:
    source = Source(text)
    return Reader(source, statements(source)[0], declared).statement()


@pytest.mark.parametrize("case", LOOPS + STRUCTURES, ids=lambda case: case.reason[:40])
def test_errors_point_and_help(case: BadText) -> None:
    with pytest.raises(RuleError) as caught:
        parse(case.text)
    error = caught.value
    assert case.reason in error.reason
    assert case.remedy in error.remedy
    assert (error.line, error.column) == case.place
    parse(case.fixed)


def test_a_tree_keeps_loops_and_names_as_they_were_written() -> None:
    found = read("for i in 1..3, j in i..3 where i < j: 0.9 :: exactly_one(x[i, k] for k in {a, b})")
    assert [token.text for token in found.loops.names] == ["i", "j"]
    assert found.probability == 0.9
    assert isinstance(found.formula, Call)
    (each,) = found.formula.args
    assert isinstance(each, Each)
    assert isinstance(each.body, Word)
    assert each.body.text == "x"


def test_brackets_around_a_sum_are_told_from_brackets_around_a_formula() -> None:
    assert isinstance(read("(a + b) * 2 <= 3").formula, Comparison)
    assert isinstance(read("(i + j) mod 2 = 0").formula.left, Product)
    assert isinstance(read("(a <= b) & c").formula.parts[0], Comparison)


def test_words_of_loops_are_names_elsewhere() -> None:
    variables, rules = parse("for, where, sum, div, mod\nfor -> where\nfor in {1}\nsum + div <= mod")
    assert [v.name for v in variables] == ["for", "where", "sum", "div", "mod"]
    assert len(rules) == 3
