"""Constants: numbers, sets and lists, and arithmetic that is done beforehand."""

from __future__ import annotations

import pytest

from dssl.errors import RuleError
from dssl.logic.language.constants import Constants
from dssl.logic.language.parser import parse
from dssl.logic.language.reading import Reader
from dssl.logic.language.tokens import Source, statements
from dssl.logic.space import LabelSpace


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2*3", 7), ("-4 + 1", -3), ("7 div 2", 3), ("(0 - 7) div 2", -4), ("7 mod 3*2", 2), ("2*(3 - 5)", -4),
        ("-(1 + 2)*3", -9), ("2 - 3 - 4", -5),
    ],
)  # fmt: skip
def test_arithmetic(text: str, value: int) -> None:
    source = Source(text)
    assert Constants(source).number(Reader(source, statements(source)[0]).addition()) == value


@pytest.mark.parametrize(
    ("line", "used", "same"),
    [
        ("n = 3", "x[n] = 1", "x[3] = 1"),
        ("n = m - 1\nm = 4", "x[n] = 1", "x[3] = 1"),
        ("w = [3, 1]", "x[w[1]] = w[2]", "x[3] = 1"),
        ("w[0..1] = [3, 1]", "x[w[0]] = w[1]", "x[3] = 1"),
        ("w = [[3, 1], [2, 0]]", "x[w[1, 1]] = w[1,2]", "x[3] = 1"),
        ("w[{a, b}] = [3, 1]", "x[w[a]] = w[b]", "x[3] = 1"),
        ("some = {1, 3}", "x[3] in some", "x[3] in {1, 3}"),
        ("some = {0..1, 3}", "for i in some: x[3] != i", "x[3] != 0\nx[3] != 1\nx[3] != 3"),
        ("w = [1, 0]", "for i in w: x[3] != i", "x[3] != 1\nx[3] != 0"),
        ("n = 2", "at_most(n - 1, x[1] = n, x[2] > n*n - 3)", "at_most(1, x[1] = 2, x[2] > 1)"),
        ("n = 1", "x[1] + n < x[2]", "x[1] + 1 < x[2]"),
    ],
)
def test_a_constant_stands_for_its_value(line: str, used: str, same: str) -> None:
    head = "x[1..3]: 0..3\n"
    assert parse(f"{head}{line}\n{used}")[1] == parse(f"{head}{used}\n{line}")[1] == parse(head + same)[1]


def test_arrays_and_values_by_constants() -> None:
    variables, _ = parse("n = 2\nkinds = {p, q}\nx[1..n, kinds]: 0..n\ny: kinds\nz: n..n+1")
    assert [v.name for v in variables] == ["x[1,p]", "x[1,q]", "x[2,p]", "x[2,q]", "y", "z"]
    assert [variables[0].values, variables[4].values, variables[5].values] == [(0, 1, 2), ("p", "q"), (2, 3)]


def test_a_number_under_a_name_that_stands_nowhere_else_is_an_undeclared_variable() -> None:
    with pytest.raises(RuleError, match="'agee' is not declared"):
        parse("age: 0..9\nagee = 3")


def test_a_name_of_a_loop_wins_over_a_value_and_other_names_stand_for_themselves() -> None:
    head = "x: {n, m}\ny[{n, m}]\n"
    assert parse(head + "for n in {m}: x = n")[1] == parse(head + "x = m")[1]
    assert parse(head + "for s in {n, m} where s != n: s = x")[1] == parse(head + "x = m")[1]
    assert parse(head + "for s in {n, m}: y[s] -> s = m")[1] == parse(head + "y[n] -> false\ny[m] -> true")[1]


def test_a_slice_of_a_list_is_its_numbers() -> None:
    head = "w = [3, 1, 4]\ng = [[1, 2], [30, 40]]\ni: 1..3\nx: 0..99\n"
    same = {
        "element(i, w[*]) = x": "element(i, 3, 1, 4) = x",
        "element(i, w[*]) = 3": "i = 1",
        "x = sum(w[*])": "x = 8",
        "x = sum(w[2..3])": "x = 5",
        "x = sum(g[*, 2])": "x = 42",
        "x = max(w[*]) + min(g[2, *])": "x = 34",
        "x = sum(g[{1, 2}, 1])": "x = 31",
    }
    for short, long in same.items():
        space = LabelSpace(head + short)
        assert list(space.valid()) == list(LabelSpace(head + long).valid()), short
        assert LabelSpace(str(space)) == space
