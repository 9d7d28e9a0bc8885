"""Automata written out: against a walk by hand, against the expression that says the same, and what is refused."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.errors import RuleError
from dssl.logic.language.structures.arrows import Arrows, has_arrows
from dssl.logic.language.structures.automata import automaton, values_of
from dssl.logic.space import LabelSpace

BIO = "out: O -> out, B -> in; in: I -> in, O -> out, B -> in"


@st.composite
def automata(draw: st.DrawFn) -> str:
    states = [f"s{i}" for i in range(draw(st.integers(1, 4)))]
    lines = []
    for state in states:
        values = draw(st.lists(st.sampled_from(["a", "b", "."]), unique=True))
        lines.append(f"{state}: " + ", ".join(f"{value} -> {draw(st.sampled_from(states))}" for value in values))
    if draw(st.booleans()):
        lines.append("end: " + ", ".join(draw(st.lists(st.sampled_from(states), min_size=1, unique=True))))
    return "; ".join(lines)


@settings(deadline=None, max_examples=100)
@given(automata())
def test_walks_end_where_they_do_by_hand(text: str) -> None:
    if "->" not in text:  # no arrows: an expression
        return
    found = automaton(text, ("a", "b", "c"))
    for n in range(4):
        for word in itertools.product(range(3), repeat=n):
            state = 0
            for value in word:
                state = found.step[state, value]
            assert found.accepts[state] == oracle._walks(text, ["abc"[i] for i in word])


@pytest.mark.parametrize("ends", ["", "; end: out", "; end: out, in"])
def test_an_automaton_and_its_expression_are_the_same_space(ends: str) -> None:
    tags = "tag[1..5]: {O, B, I}\n"
    expression = "(O | B I* O)*" if ends == "; end: out" else "(O | B I*)*"
    if ends == "; end: out":  # the last tag is O
        expression = "((O | B I*)* O)?"
    assert LabelSpace(f'{tags}regular(tag[*], "{BIO}{ends}")').equivalent(
        LabelSpace(f'{tags}regular(tag[*], "{expression}")')
    )


def test_it_prints_and_reads_back_and_has_values_of_any_kind() -> None:
    space = LabelSpace('n[1..3]: {1, 2}\nregular(n[*], "one: 1 -> two; two: 2 -> one; end: one, two")')
    assert LabelSpace(str(space)) == space
    assert [list(label.values()) for label in space.valid()] == [[1, 2, 1]]
    assert values_of("s: 'x -> y' -> s, -3 -> s") == ["x -> y", -3]


def test_an_arrow_in_quotes_is_a_value() -> None:
    assert not has_arrows("'a->b'* c")
    assert has_arrows("s: 'a->b' -> s")


def test_without_end_every_state_may_be_the_last() -> None:
    assert Arrows.read(BIO).ends == {"out", "in"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s: a -> t", "the state 't' has no arrows of its own"),
        ("s: a -> s; s: b -> s", "is listed twice"),
        ("s: a -> s, a -> s", "two arrows for 'a'"),
        ("s a -> s", "':' is missing after the state 's'"),
        ("s: a -> s t: b -> s", "';' is missing"),
        ("s: -> s", "a value is missing before '->'"),
        ("s: a -> 3", "a state must be a name, not '3'"),
        ("s: a ->", "a state must be a name, not 'its end'"),
        ("s: a s -> s", "'->' is missing after the value 'a'"),
        ("s: a -> s; end: t", "the state 't' has no arrows"),
        ("s: a -> s # t", "'#' has no meaning in it"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, said: str) -> None:
    with pytest.raises(RuleError, match="cannot be read") as caught:
        LabelSpace(f'x[1..2]: {{a, b}}\nregular(x[*], "{text}")')
    assert said in str(caught.value)
    assert caught.value.line == 2
