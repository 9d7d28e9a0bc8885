"""Conditions of loops: the quick way says what the slow one says, and is quick."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.errors import RuleError
from dssl.logic.language.expanding import expansion
from dssl.logic.language.parser import parse
from logic.stopwatch import LOADED, within

NUMBERS = st.sampled_from(["i", "j", "n", "2", "i + j", "i - 2*j", "j mod 3", "(i + 1) div 2", "n - i"])
COMPARED = (
    st.tuples(NUMBERS, st.sampled_from(["<", "<=", "=", "!=", ">", ">="]), NUMBERS)
    .map(" ".join)
    .filter(lambda text: text.strip("2 <=!>"))
)
CONDITIONS = st.recursive(
    COMPARED,
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from([" & ", " | ", " -> "]), part).map(lambda t: f"({''.join(t)})"),
        part.map(lambda p: f"!({p})"),
    ),
    max_leaves=5,
)


def pairs(where: str) -> list[tuple[object, ...]]:
    """The bindings that pass."""
    rules = parse(f"n = 2\nx[-1..5]\nfor i, j in -1..5 where {where}: x[i] -> x[j]\nx[n] = true")[1]
    return [tuple(value for _, value in rule.origin.binding) for rule in rules[:-1] if rule.origin is not None]


def by_python(where: str) -> list[tuple[int, int]]:
    """The same by Python's own arithmetic."""
    text = where.replace("->", "<=").replace("div", "//").replace("mod", "%").replace("!(", "not (")
    for symbol, word in ((" & ", " and "), (" | ", " or ")):
        text = text.replace(symbol, word)
    text = " ".join("==" if word == "=" else word for word in text.split(" "))
    return [(i, j) for i, j in itertools.product(range(-1, 6), repeat=2) if eval(text, {"i": i, "j": j, "n": 2})]


@settings(max_examples=150, deadline=None)
@given(CONDITIONS.filter(lambda text: "->" not in text))
def test_conditions_are_pythons(where: str) -> None:
    assert pairs(where) == by_python(where)


@settings(max_examples=60, deadline=None)
@given(CONDITIONS)
def test_the_quick_way_is_the_slow_way(where: str) -> None:
    quick = pairs(where)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expansion, "known", lambda node, constants: None)
        assert pairs(where) == quick


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("i mod (j - 1) = 0", "'mod' by 0"),
        ("s < i", "compares names"),
        ("s + 1 = 2", "is a name, not a number"),
        ("s * 2 = i", "is a name, not a number"),
        ("x[i]", "'where' asks about variables"),
    ],
)
def test_what_makes_no_sense_is_said_as_ever(where: str, said: str) -> None:
    with pytest.raises(RuleError, match=said):
        parse(f"x[1..2]\nfor i, j in 1..2, s in {{cat, dog}} where {where}: x[i]")


def test_a_million_bindings_are_tried_in_seconds() -> None:
    text = "x[1..1000]\nfor i, j in 1..1000 where i < j & j < i + 4: x[i] -> !x[j]"
    with within(8 * LOADED):
        assert len(parse(text)[1]) == 999 + 998 + 997


def test_more_than_can_be_tried_are_refused_with_their_count() -> None:
    with pytest.raises(RuleError, match="loops with 4,000,000 instances") as caught:
        parse("x[1..2000]\nfor i, j in 1..2000 where i < j & j < i + 4: x[i] -> !x[j]")
    assert "Up to 2,000,000 are tried" in str(caught.value)
