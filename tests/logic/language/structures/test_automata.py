"""Regular expressions over values: automata against Python's own, and the spaces that they make."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.errors import RuleError
from dssl.logic.language.formula import Assignments
from dssl.logic.language.parser import parse
from dssl.logic.language.structures.automata import Regular, automaton, layers
from dssl.logic.space import LabelSpace
from logic.messages import EXPRESSIONS, BadCall, BadText, calls_about, check_call
from logic.stopwatch import LOADED, best_of_three

VALUES = ("a", "b", "c")


def pieces() -> st.SearchStrategy[str]:
    single = st.sampled_from(["a", "b", "c", ".", "!a", "!c"])
    return st.recursive(
        single,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(" ".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(" + " | ".join(parts) + ")"),
            st.builds(lambda part, sign: f"({part}){sign}", inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}"])),
        ),
        max_leaves=6,
    )


@settings(deadline=None, max_examples=150)
@given(pieces())
def test_automata_accept_what_pythons_expressions_do(pattern: str) -> None:
    found = automaton(pattern, VALUES)
    for n in range(4):
        for word in itertools.product(range(3), repeat=n):
            state = 0
            for value in word:
                state = found.step[state, value]
            assert found.accepts[state] == oracle._matches(pattern, [VALUES[i] for i in word])


@settings(deadline=None, max_examples=40)
@given(pieces(), st.integers(1, 4), st.sampled_from(["", "!", "flag <-> ", "x[1] = a -> "]))
def test_spaces_agree_with_the_plain_meaning(pattern: str, n: int, before: str) -> None:
    text = f'flag\nx[1..{n}]: {{a, b, c}}\n{before}regular(x[*], "{pattern}")'
    variables, rules = parse(text)
    records = oracle.records(variables)
    wanted = [oracle.holds(rules[0].formula, record) for record in records]
    if not any(wanted):
        return
    space = LabelSpace(text)
    assert space.count() == sum(wanted)
    assert list(space.valid()) == [record for record, good in zip(records, wanted) if good]
    assert (~space.check(records).invalid).tolist() == wanted
    assert LabelSpace(str(space)) == space


@settings(deadline=None, max_examples=40)
@given(pieces(), st.lists(st.integers(-1, 2), min_size=3, max_size=3))
def test_what_is_unknown_is_decided_where_all_or_no_completions_match(pattern: str, known: list[int]) -> None:
    formula = Regular(("x", "y", "z"), pattern)
    table = Assignments({name: np.array([i]) for name, i in zip("xyz", known)}, dict.fromkeys("xyz", VALUES), 1)
    ways = itertools.product(*([i] if i >= 0 else range(3) for i in known))
    truths = {oracle._matches(pattern, [VALUES[i] for i in way]) for way in ways}
    (true,), (false,) = formula.kleene(table)
    assert (bool(true), bool(false)) == (truths == {True}, truths == {False})


def test_variables_may_differ_in_their_values() -> None:
    space = LabelSpace('a\nn: 0..2\ns: {p, "q r", 1}\nregular(a, n, s, a, "1 (0 | 2) (\'q r\' | 1) ." )')
    assert [tuple(r.values()) for r in space.valid()] == [
        (True, 0, "q r"), (True, 0, 1), (True, 2, "q r"), (True, 2, 1),
    ]  # fmt: skip
    assert LabelSpace(str(space.rename({"n": "m"}))).count() == 4


def test_states_that_accept_the_same_ends_are_one() -> None:
    domains = dict.fromkeys("vwxyz", VALUES)
    groups = [n for _, n in layers(Regular(tuple("vwxyz"), "a* b a* | c*").diagram(domains))]
    assert groups[-1] == 2
    assert max(groups) <= len(automaton("a* b a* | c*", VALUES).accepts)
    assert [n for _, n in layers(Regular(tuple("xyz"), ". . .").diagram(domains))] == [1, 1, 1]


@pytest.mark.parametrize(("pattern", "count"), [(". .", 4), (". . .", 0), ("", 0), (".*", 4)])
def test_expressions_that_always_or_never_hold(pattern: str, count: int) -> None:
    text = f'x[1..2]: {{a, b}}\nflag\nflag <-> regular(x[*], "{pattern}")'
    if pattern:
        space = LabelSpace(text)
        assert space.count() == 4
        assert space.decode(space.complete([{}]))[0]["flag"] is (count == 4)
    else:
        with pytest.raises(RuleError, match="a name cannot be empty"):
            LabelSpace(text)


def test_the_circuit_grows_with_the_length() -> None:
    text = 't[1..{}]: {{O, B, I}}\nregular(t[*], "(O | B I*)*")'
    small, large = (LabelSpace(text.format(n)).compile() for n in (300, 900))
    assert 2.9 < large.nodes / small.nodes < 3.1
    assert best_of_three(lambda: LabelSpace(text.format(1000))) < 1.5 * LOADED
    assert best_of_three(lambda: LabelSpace(text.format(1000)).compile()) < 4 * LOADED


@pytest.mark.parametrize("case", EXPRESSIONS, ids=lambda case: case.reason[:40])
def test_errors_point_and_help(case: BadText) -> None:
    with pytest.raises(RuleError) as caught:
        parse(case.text)
    assert case.reason in caught.value.reason
    assert case.remedy in caught.value.remedy
    assert (caught.value.line, caught.value.column) == case.place


@pytest.mark.parametrize("case", calls_about("automata"), ids=lambda case: case.reason[:40])
def test_errors_of_calls(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)
