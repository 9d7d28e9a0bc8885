"""Terms: how numbers, names and sets are grouped, seen in the trees that they become."""

from __future__ import annotations

import pytest

from dssl.errors import RuleError
from dssl.logic.language.reading import Reader
from dssl.logic.language.syntax import Addition, Call, Conditional, Each, Number, Product, Span, Values, Word
from dssl.logic.language.terms import ALL, TERMS
from dssl.logic.language.tokens import Source, statements


def reader(text: str) -> Reader:
    source = Source(text)
    (tokens,) = statements(source)
    return Reader(source, list(tokens), ("x", "y"), ("n",))


def test_products_bind_before_sums() -> None:
    tree = reader("2*x - y + 3").addition()
    assert isinstance(tree, Addition)
    assert [sign for sign, _ in tree.terms] == [1, -1, 1]
    first, second, third = (part for _, part in tree.terms)
    assert isinstance(first, Product)
    assert isinstance(second, Word)
    assert isinstance(third, Number)


def test_what_stands_before_a_loop_is_repeated() -> None:
    tree = reader("sum(n * x[i] for i in 1..3, j in {1, 2} where i < j)").addition()
    assert isinstance(tree, Call)
    (each,) = tree.args
    assert isinstance(each, Each)
    assert [token.text for token in each.loops.names] == ["i", "j"]
    assert isinstance(each.loops.domains[0], Span)
    assert isinstance(each.loops.domains[1], Values)
    assert len(each.loops.where) == 1


def test_a_conditional_is_a_number() -> None:
    assert isinstance(reader("if x then 3 else y").addition(), Conditional)


def test_every_function_of_numbers_is_a_function() -> None:
    assert set(TERMS) <= set(ALL)


@pytest.mark.parametrize("text", ["x[", "x[]", "sum()", "(1 + 2", "element(1", "if x then 3"])
def test_what_is_not_closed_is_an_error(text: str) -> None:
    with pytest.raises(RuleError):
        reader(text).addition()
