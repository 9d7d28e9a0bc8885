"""Formulas: three-valued evaluation equals the oracle, printing brackets what it must, nodes are plain values."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.logic.language.formula import (
    And,
    Assignments,
    Compare,
    Count,
    Formula,
    Iff,
    Implies,
    In,
    Is,
    Not,
    Or,
    Truth,
    Xor,
    as_formula,
    compare_holds,
)
from dssl.logic.language.quoting import quoted
from dssl.logic.language.symbols import implies, symbols, xor
from logic.messages import BadCall, calls_about, check_call
from logic.strategies import Drawn, drawn_spaces

a, b, c = Is("a"), Is("b"), Is("c")


def table(variables: Any, rows: list[dict[str, Any]]) -> Assignments:
    """Records as a table; a variable that a record lacks is unknown."""
    indices = {v.name: np.array([v.values.index(r[v.name]) if v.name in r else -1 for r in rows]) for v in variables}
    return Assignments(indices, {v.name: v.values for v in variables}, len(rows))


@settings(deadline=None, max_examples=60)
@given(drawn_spaces())
def test_on_complete_rows_evaluation_equals_the_oracle(drawn: Drawn) -> None:
    rows = oracle.records(drawn.variables)
    for rule, statement in zip(drawn.rules(), drawn.statements):
        true, false = rule.formula.kleene(table(drawn.variables, rows))
        assert true.tolist() == [oracle.holds(rule.formula, row) for row in rows]
        assert true.tolist() == [statement.holds(row) for row in rows]
        assert (true ^ false).all()


@settings(deadline=None, max_examples=60)
@given(drawn_spaces(labels=32, rules=2), st.data())
def test_on_partial_rows_what_is_sure_holds_for_every_completion(drawn: Drawn, data: st.DataObject) -> None:
    rows = oracle.records(drawn.variables)
    partial = {k: v for k, v in data.draw(st.sampled_from(rows)).items() if data.draw(st.booleans())}
    agreeing = oracle.completions(rows, {name: [value] for name, value in partial.items()})
    for rule in drawn.rules():
        (true,), (false,) = rule.formula.kleene(table(drawn.variables, [partial]))
        truths = {oracle.holds(rule.formula, row) for row in agreeing}
        assert not (true and false)
        assert not true or truths == {True}
        assert not false or truths == {False}


@pytest.mark.parametrize(
    ("formula", "known", "true", "false"),
    [
        (a & b, {"a": False}, False, True),
        (a & b, {"a": True}, False, False),
        (a | b, {"a": True}, True, False),
        (a >> b, {"a": False}, True, False),
        (a >> b, {"b": True}, True, False),
        (a ^ b, {"a": True}, False, False),
        (a.iff(b), {"a": True, "b": True}, True, False),
        (Count("<=", 1, (a, b, c)), {"a": True, "b": True}, False, True),
        (Count(">=", 1, (a, b, c)), {"a": True}, True, False),
        (Count("=", 1, (a, b, c)), {"a": True}, False, False),
        (Compare(((1, "a"), (1, "b")), "<=", ((1, "c"),)), {"a": True, "b": True}, False, True),
        (Compare(((1, "a"),), "!=", ((2, "b"), (2, None))), {}, True, False),
        (Compare(((1, "a"),), ">", ((0, None),)), {}, False, False),
        (Compare(((1, "a"),), "<", ((1, None),)), {}, False, False),
        (Compare(((1, "a"),), ">=", ((1, "b"),)), {"b": False}, True, False),
        (Compare(((1, "a"),), "<", ((1, "b"),)), {"b": False}, False, True),
        (Truth(True), {}, True, False),
    ],
)
def test_what_little_is_known_can_settle(formula: Formula, known: dict[str, bool], true: bool, false: bool) -> None:
    from dssl.logic.language.variables import Variable

    masks = formula.kleene(table([Variable(name) for name in "abc"], [known]))
    assert [mask.tolist() for mask in masks] == [[true], [false]]


def test_all_values_of_an_unknown_variable_are_a_tautology() -> None:
    from dssl.logic.language.variables import Variable

    x = Variable.choice("x", ["p", "q"])
    true, false = In("x", ("q", "p")).kleene(table([x], [{}]))
    assert (true.all(), false.any()) == (True, False)
    for value in "pq":
        true, false = In("x", (value,)).kleene(table([x], [{}, {"x": "p"}, {"x": "q"}]))
        assert true.tolist() == [False, value == "p", value == "q"]
        assert false.tolist() == [False, value == "q", value == "p"]


# ---- printing ----


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ((a & b) | c, "a & b | c"),
        (a & (b | c), "a & (b | c)"),
        ((a | b) ^ c, "a | b ^ c"),
        (a | xor(b, c), "a | (b ^ c)"),
        ((a ^ b) >> c, "a ^ b -> c"),
        (a >> (b >> c), "a -> b -> c"),
        (implies(a, b) >> c, "(a -> b) -> c"),
        (a.iff(b).iff(c), "a <-> b <-> c"),
        (a.iff(b.iff(c)), "a <-> (b <-> c)"),
        ((a >> b).iff(c), "a -> b <-> c"),
        (a.iff(b >> c), "a <-> b -> c"),
        (a.iff(b) >> c, "(a <-> b) -> c"),
        (a >> b.iff(c), "a -> (b <-> c)"),
        (And((a & b, c)), "(a & b) & c"),
        (Xor((a, b ^ c)), "a ^ (b ^ c)"),
        (~(a & b), "!(a & b)"),
        (~~a, "!!a"),
        (~In("x", ("p",)), "x != p"),
        (~In("x", ("p", "q")), "x not in {p, q}"),
        (~~In("x", ("p",)), "!x != p"),
        (~Compare(((1, "x"),), "<", ((2, None),)), "!(x < 2)"),
        (~Count("<=", 1, (a, b)), "!at_most(1, a, b)"),
        (Count("=", 1, (a, b & c)), "exactly_one(a, b & c)"),
        (Count("=", 2, (a, b, c)), "exactly(2, a, b, c)"),
        (Count(">=", 0, (a,)), "at_least(0, a)"),
        (Compare(((-1, "x"), (2, "y"), (-3, None)), ">=", ((0, "z"),)), "-x + 2*y - 3 >= 0*z"),
        (Truth(True) & Truth(False), "true & false"),
        (In("has tail", ("a-b", 3, -2)), '"has tail" in {"a-b", 3, -2}'),
    ],
)
def test_printing_brackets_only_what_it_must(formula: Formula, text: str) -> None:
    assert str(formula) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("legs", "legs"),
        ("naïve", "naïve"),
        ("_x1", "_x1"),
        ("has tail", '"has tail"'),
        ("2x", '"2x"'),
        ("not", '"not"'),
        ("at_most", '"at_most"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("two\nlines", '"two\\nlines"'),
        (7, "7"),
        (-7, "-7"),
        (True, "True"),
    ],
)
def test_names_are_quoted_where_they_must_be(name: str | int, text: str) -> None:
    assert quoted(name) == text


# ---- nodes ----


def test_joins_of_one_kind_are_flat() -> None:
    assert (a & b) & c == a & (b & c) == And((a, b, c))
    assert (a | b) | c == Or((a, b, c))
    assert (a ^ b) ^ c == Xor((a, b, c))
    assert And.of(a) is a


def test_booleans_stand_on_either_side() -> None:
    assert (True & a).args == (a, Truth(True))
    assert (False | a).args == (a, Truth(False))
    assert True >> a == Implies(Truth(True), a)
    assert (True ^ a).args == (a, Truth(True))
    assert a.iff(True) == Iff(a, Truth(True))
    assert as_formula(np.True_) == Truth(True)


def test_names_atoms_and_renaming() -> None:
    x, y = symbols("x, y")
    formula = (a & (x + 2 * y <= 3)) >> Count("<=", 1, (Not(b), In("z", ("p",)), Truth(True)))
    assert formula.names() == {"a", "b", "x", "y", "z"}
    assert [str(atom) for atom in formula.atoms()] == ["a", "x + 2*y <= 3", "b", "z = p"]
    renamed = formula.rename({"a": "b", "b": "a", "y": "w"})
    assert str(renamed) == "b & x + 2*w <= 3 -> at_most(1, !a, z = p, true)"
    assert formula.map_atoms(lambda atom: atom) == formula


def test_formulas_are_values() -> None:
    assert hash(a & b) == hash(Is("a") & Is("b"))
    assert len({a & b, Is("a") & Is("b"), b & a}) == 2
    with pytest.raises(AttributeError):
        a.name = "b"  # type: ignore[misc]


def test_a_formula_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError, match=r"combine with & \| ~ >> instead of 'and', 'or', 'not'"):
        bool(a)
    (x,) = symbols("x")
    with pytest.raises(TypeError, match="compare one variable at a time"):
        2 <= x <= 5  # noqa: B015


def test_a_bare_formula_has_no_meaning() -> None:
    with pytest.raises(TypeError, match="Formula cannot be evaluated"):
        Formula().kleene(Assignments({}, {}, 1))
    with pytest.raises(AssertionError, match="no meaning"):  # the oracle knows no more connectives than there are
        oracle.holds(Formula(), {})


def test_weights_gather_both_sides() -> None:
    formula = Compare(((2, "x"), (1, None), (1, "y")), "<=", ((1, "x"), (4, None), (1, "y")))
    assert formula.weights() == ({"x": 1, "y": 0}, -3)


@settings(max_examples=30)
@given(st.integers(-3, 3))
def test_compare_holds(value: int) -> None:
    signs = {"<": value < 0, "<=": value <= 0, ">": value > 0, ">=": value >= 0, "=": value == 0, "!=": value != 0}
    assert {op: compare_holds(op, value) for op in signs} == signs


@pytest.mark.parametrize("case", calls_about("formula"), ids=lambda case: case.reason[:40])
def test_errors(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)


def test_large_coefficients_do_not_overflow() -> None:
    from dssl.logic.language.variables import Variable

    x = Variable.choice("x", [0, 300_000_000_000_000])
    true, _ = Compare(((31_000, "x"),), ">=", ((0, None),)).kleene(table([x], [{"x": 300_000_000_000_000}]))
    assert true.all()


@pytest.mark.parametrize("kind", [And, Or, Xor])
def test_masks_of_many_parts_are_not_all_held_at_once(kind: Any) -> None:
    """Two thousand parts of 20,000 rows are 80 MB of masks; a few at a time are enough."""
    rows = 20_000
    formula = kind(tuple(In("n", (i, i + 1)) for i in range(2_000)))
    table = Assignments({"n": np.arange(rows) % 2_001}, {"n": tuple(range(2_001))}, rows)
    tracemalloc.start()
    true, false = formula.kleene(table)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (true ^ false).all()
    assert peak < 20 * rows
