"""The Python form of rules: the same formulas as the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from dssl.errors import RuleError
from dssl.logic import at_least, at_most, conjunction, disjunction, exactly, exactly_one, implies, xor
from dssl.logic.language.formula import Formula, Truth, as_formula
from dssl.logic.language.parser import parse_rules
from dssl.logic.language.symbols import symbols
from dssl.logic.language.variables import Scope, Variable
from dssl.logic.space import LabelSpace
from logic.messages import BadCall, calls_about, check_call
from logic.strategies import Drawn, drawn_spaces

legs, fins, species, age, size = symbols("legs, fins, species, age, size")
HEAD = "legs, fins\nspecies: {cat, dog, trout}\nage: 0..9\nsize: 0..9\n"


@settings(deadline=None, max_examples=60)
@given(drawn_spaces())
def test_the_python_form_is_the_same_formula_as_the_text(drawn: Drawn) -> None:
    scope = Scope(drawn.variables)
    for rule, statement in zip(drawn.rules(), drawn.statements):
        assert scope.fit(statement.python) == rule.formula


@pytest.mark.parametrize(
    ("python", "text"),
    [
        (legs >> ~fins, "legs -> !fins"),
        ((legs & fins) | xor(~legs, fins), "legs & fins | (!legs ^ fins)"),
        (legs.iff(fins), "legs <-> fins"),
        (legs == True, "legs = true"),  # noqa: E712
        (legs != True, "legs = false"),  # noqa: E712
        (species == "cat", "species = cat"),
        (species != "cat", "species != cat"),
        (species.isin(["cat", "dog"]), "species in {cat, dog}"),
        (~species.isin(["cat", "dog"]), "species not in {cat, dog}"),
        (age == 3, "age = 3"),
        (age == np.int64(3), "age = 3"),
        (age != np.int64(3), "age != 3"),
        (legs == np.True_, "legs = true"),
        (age < 3, "age < 3"),
        (age >= np.int64(3), "age >= 3"),
        (3 >= age, "age <= 3"),  # noqa: SIM300
        (age == size, "age = size"),
        (age != size, "age != size"),
        (age == -1 * size, "age = -size"),
        (age + size <= 9, "age + size <= 9"),
        (1 + age - 2 * size > 3 - age, "1 + age - 2*size > 3 - age"),
        (age * 2 == 4, "2*age = 4"),
        (2 * (age - size) >= 1, "2*age - 2*size >= 1"),
        (exactly_one(legs, fins, species == "cat"), "exactly_one(legs, fins, species = cat)"),
        (exactly(2, legs, fins, age > 3), "exactly(2, legs, fins, age > 3)"),
        (at_most(1, legs, fins), "at_most(1, legs, fins)"),
        (at_least(1, legs, ~fins), "at_least(1, legs, !fins)"),
        (conjunction([legs, fins]), "all(legs, fins)"),
        (disjunction([legs, fins]), "any(legs, fins)"),
        (conjunction([~legs, ~fins]), "none(legs, fins)"),
        (legs & True, "legs & true"),
    ],
)
def test_python_and_text_agree(python: Any, text: str) -> None:
    assert LabelSpace(HEAD, python).rules == LabelSpace(HEAD, text).rules
    assert LabelSpace(str(LabelSpace(HEAD, python))) == LabelSpace(HEAD, python)


def test_nothing_joined() -> None:
    assert conjunction([]) == Truth(True)
    assert disjunction([]) == Truth(False)


@pytest.mark.parametrize("names", ["legs, fins", "legs fins", " legs,fins ", "legs,\n fins"])
def test_names_are_split_at_commas_and_spaces(names: str) -> None:
    assert [str(as_formula(symbol)) for symbol in symbols(names)] == ["legs", "fins"]


def test_a_symbol_prints_as_its_sum() -> None:
    assert repr(2 * age - size + 1) == "2*age - size + 1"
    assert repr(legs) == "legs"


def test_symbols_are_hashable() -> None:
    assert len({legs: 1, fins: 2}) == 2


def test_a_product_of_variables_is_refused() -> None:
    with pytest.raises(TypeError):
        age * size


def test_python_and_text_compose() -> None:
    space = LabelSpace(HEAD + "legs -> !fins", legs | fins, "age >= 2")
    assert [rule.text for rule in space.rules] == ["legs -> !fins", "legs | fins", "age >= 2"]
    assert LabelSpace(HEAD, space["age"] <= 3).rules[0].text == "age <= 3"


@pytest.mark.parametrize("case", calls_about("symbols"), ids=lambda case: case.reason[:40])
def test_errors(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)


def test_a_symbol_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError, match="combine with"):
        bool(legs)


# ---- operators group as rule text does, or are refused ----

NAMES = "a b c d"
OPERATORS = ("&", "|", "^", ">>")


def in_python(text: str) -> Formula | None:
    """What Python makes of an expression; None if it is refused."""
    try:
        return as_formula(eval(text, dict(zip(NAMES.split(), symbols(NAMES)))))
    except RuleError as error:
        if "Say which is meant" not in error.remedy:
            raise
        return None


def in_text(text: str) -> Formula:
    (rule,) = parse_rules(text.replace(">>", "->").replace("~", "!"), [Variable(name) for name in NAMES.split()])
    return rule.formula


@pytest.mark.parametrize("third", OPERATORS)
@pytest.mark.parametrize("second", OPERATORS)
@pytest.mark.parametrize("first", OPERATORS)
def test_without_brackets_python_means_what_the_text_means_or_is_refused(first: str, second: str, third: str) -> None:
    for text in (f"a {first} b {second} c {third} d", f"~a {first} b {second} ~c {third} d"):
        found = in_python(text)
        assert found is None or found == in_text(text)
    short = f"a {first} b {second} c"
    mixed = (">>" in (first, second) and (first != second or first == ">>")) or {first, second} == {"|", "^"}
    assert (in_python(short) is None) == mixed


def test_mixes_that_group_alike_need_no_brackets() -> None:
    for text in ("a & b | c", "a | b & c", "a & b ^ c", "a ^ b & c", "~a & b | ~c", "a | b | c", "a ^ b ^ c"):
        assert in_python(text) == in_text(text)
    for text in ("a >> (b & c)", "a >> (b >> c)", "(a & b) >> c", "(a | b) ^ c", "a ^ (b | c)", "~(a >> b) & c"):
        assert in_python(text) == in_text(text)


def test_functions_say_where_they_end() -> None:
    a, b, c, _ = symbols(NAMES)
    assert str(implies(a, b) & c) == "(a -> b) & c"
    assert str(implies(a, b) >> c) == "(a -> b) -> c"
    assert str(xor(a, b) | c) == "(a ^ b) | c"
    assert str(conjunction([a >> b, b >> c])) == "(a -> b) & (b -> c)"
    assert (a >> b) == implies(a, b)
    assert hash(a ^ b) == hash(xor(a, b))
