"""Variables, and the scope that fits atoms to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from dssl.errors import RuleError
from dssl.logic.language.formula import And, Compare, In, Is, Not, Or, Truth
from dssl.logic.language.parser import parse
from dssl.logic.language.quoting import Value
from dssl.logic.language.variables import Scope, Variable, listed, nearest, shown
from dssl.logic.space import LabelSpace
from logic.messages import TYPES, BadCall, BadText, calls_about, check_call
from logic.strategies import declaration, variable_lists

LEGS, PET, AGE = Variable("legs"), Variable.choice("pet", ["cat", "dog"]), Variable.choice("age", range(4))
KID = Variable.choice("kid", ["dog", "cow"])
scope = Scope([LEGS, PET, AGE, KID])


@pytest.mark.parametrize(
    ("variable", "kind", "columns", "text"),
    [
        (LEGS, "binary", ("legs",), "legs"),
        (Variable("has tail"), "binary", ("has tail",), '"has tail"'),
        (PET, "categorical", ("pet=cat", "pet=dog"), "pet: {cat, dog}"),
        (AGE, "integer", ("age=0", "age=1", "age=2", "age=3"), "age: 0..3"),
        (Variable.choice("n", [-2, -1, 0]), "integer", ("n=-2", "n=-1", "n=0"), "n: -2..0"),
        (Variable.choice("n", [3, 1]), "integer", ("n=3", "n=1"), "n: {3, 1}"),
        (Variable.choice("n", [5]), "integer", ("n=5",), "n: 5..5"),
        (Variable.choice("m", ["a", 1]), "categorical", ("m=a", "m=1"), "m: {a, 1}"),
        (Variable.choice("m", ["1", "in"]), "categorical", ("m=1", "m=in"), 'm: {"1", "in"}'),
    ],
)
def test_kinds_columns_and_text(variable: Variable, kind: str, columns: tuple[str, ...], text: str) -> None:
    assert (variable.kind, variable.columns, str(variable)) == (kind, columns, text)
    assert variable.binary == (kind == "binary")
    assert [variable.positions[value] for value in variable.values] == list(range(len(variable.values)))


@given(variable_lists())
def test_declarations_round_trip(variables: tuple[Variable, ...]) -> None:
    assert parse("\n".join(map(str, variables)))[0] == variables
    assert parse("\n".join(map(declaration, variables)))[0] == variables


@pytest.mark.parametrize(
    ("name", "values", "atom"),
    [
        ("pet", ["dog"], In("pet", ("dog",))),
        ("pet", ["dog", "cat", "dog"], In("pet", ("dog", "cat"))),
        ("pet", [], Truth(False)),
        ("age", [3, 0], In("age", (3, 0))),
        ("legs", [True], Is("legs")),
        ("legs", [0], Not(Is("legs"))),
        ("legs", [1, False], Truth(True)),
        ("legs", [], Truth(False)),
    ],
)
def test_members(name: str, values: list[Value], atom: object) -> None:
    assert scope.member(name, values) == atom


def test_equal_categoricals_are_written_out() -> None:
    same = scope.compare(((1, "pet"),), "=", ((1, "kid"),))
    assert same == And((In("pet", ("dog",)), In("kid", ("dog",))))
    assert scope.compare(((1, "pet"),), "!=", ((1, "kid"),)) == Not(same)
    assert isinstance(scope.compare(((1, "pet"),), "=", ((1, "pet"),)), Or)
    apart = Scope([PET, Variable.choice("bird", ["owl"])])
    assert apart.compare(((1, "pet"),), "=", ((1, "bird"),)) == Truth(False)


def test_integers_and_binaries_compare() -> None:
    assert scope.compare(((1, "age"),), "<", ((2, "legs"),)) == Compare(((1, "age"),), "<", ((2, "legs"),))


@pytest.mark.parametrize("value", [True, False, "3", 1.5])
def test_what_is_no_value_is_refused(value: Value) -> None:
    with pytest.raises(RuleError, match="'age' has no value"):
        scope.member("age", [value])


# ---- words for messages ----


def test_the_nearest_name_is_suggested() -> None:
    assert nearest("leg", ["fins", "legs"]) == "Did you mean 'legs'? "
    assert nearest("leg", ["fins"]) == ""
    assert nearest("x" * 61, ["x" * 61]) == ""


def test_long_names_and_lists_are_cut() -> None:
    assert shown("x" * 60) == "x" * 60
    assert shown("x" * 61) == "x" * 60 + "…"
    assert listed(range(8)) == "0, 1, 2, 3, 4, 5, 6, 7"
    assert listed(range(9)) == "0, 1, 2, 3, 4, 5, 6, 7, … (9 in all)"


@pytest.mark.parametrize("case", TYPES, ids=lambda case: case.reason[:40])
def test_what_does_not_fit_is_refused_in_its_place(case: BadText) -> None:
    with pytest.raises(RuleError) as caught:
        LabelSpace(case.text)
    assert case.reason in caught.value.reason
    assert case.remedy in caught.value.remedy
    assert (caught.value.line, caught.value.column) == case.place
    LabelSpace(case.fixed)


@pytest.mark.parametrize("case", calls_about("variables"), ids=lambda case: case.reason[:40])
def test_errors(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)


def test_values_far_apart_are_printed_without_listing_what_lies_between() -> None:
    assert str(Variable.choice("n", (0, 10**14))) == f"n: {{0, {10**14}}}"
    assert str(Variable.choice("n", range(3, 7))) == "n: 3..6"
