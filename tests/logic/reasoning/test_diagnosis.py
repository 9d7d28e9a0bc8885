"""diagnose: every finding, and no other, by enumeration; the rules behind a finding suffice and are needed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings

import oracle
from dssl.errors import BudgetError
from dssl.logic.language.formula import Implies, Is, Not
from dssl.logic.language.parser import Rule
from dssl.logic.language.quoting import quoted
from dssl.logic.reasoning import normalisation
from dssl.logic.reasoning.diagnosis import Diagnosis, Finding
from dssl.logic.reasoning.solver import Solver
from dssl.logic.space import LabelSpace
from logic.strategies import Drawn, valid_spaces

spaces = valid_spaces(labels=32, rules=5, depth=2)


def diagnosed(drawn: Drawn) -> tuple[LabelSpace, Diagnosis]:
    with mock.patch.object(normalisation, "MIN_TABLE_ROWS", 10**9):
        space = drawn.space()
        return space, space.diagnose()


def said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else quoted(value)


def implied(rules: Sequence[Rule], formula: Any, drawn: Drawn) -> bool:
    """Whether every label that obeys `rules` obeys the formula."""
    return all(oracle.holds(formula, row) for row in oracle.obeying(rules, oracle.records(drawn.variables)))


@settings(deadline=None, max_examples=50)
@given(spaces)
def test_values_that_are_forced_or_never_occur(drawn: Drawn) -> None:
    _, diagnosis = diagnosed(drawn)
    forced, never = set(), set()
    for variable in drawn.variables:
        seen = {row[variable.name] for row in drawn.valid}
        if len(seen) == 1 and len(variable.values) > 1:
            forced.add(f"{quoted(variable.name)} is always {said(*seen)}")
        elif len(seen) > 1:
            never |= {f"{quoted(variable.name)} is never {said(v)}" for v in variable.values if v not in seen}
    assert {f.message.partition(",")[0].rstrip(":") for f in diagnosis.of_kind("forced")} == forced
    assert {f.message.partition(", because")[0].rstrip(":") for f in diagnosis.of_kind("impossible")} == never


@settings(deadline=None, max_examples=50)
@given(spaces)
def test_the_rules_behind_a_value_suffice_and_are_needed(drawn: Drawn) -> None:
    _, diagnosis = diagnosed(drawn)
    everything = oracle.records(drawn.variables)
    for finding in (*diagnosis.of_kind("forced"), *diagnosis.of_kind("impossible")):
        variable = next(v for v in drawn.variables if finding.message.startswith(f"{quoted(v.name)} is "))
        allowed = {row[variable.name] for row in drawn.valid}
        one = finding.kind == "forced"
        gone = [v for v in variable.values if v not in allowed]
        if not one:
            gone = [v for v in gone if finding.message.startswith(f"{quoted(variable.name)} is never {said(v)}")]
        left = [row for row in oracle.obeying(finding.rules, everything) if row[variable.name] in gone]
        assert not left
        for less in itertools.combinations(finding.rules, len(finding.rules) - 1):
            assert any(row[variable.name] in gone for row in oracle.obeying(less, everything))


@settings(deadline=None, max_examples=50)
@given(spaces)
def test_vacuous_and_redundant_rules(drawn: Drawn) -> None:
    space, diagnosis = diagnosed(drawn)
    everything = oracle.records(drawn.variables)
    vacuous, redundant = [], []
    for i, rule in enumerate(space.rules):
        if rule.probability is not None:
            continue
        others = [other for j, other in enumerate(space.rules) if j != i]
        if len(oracle.obeying([rule], everything)) == len(everything):
            vacuous.append(f"'{rule.text}' is always true")
        elif implied(others, rule.formula, drawn):
            redundant.append(f"'{rule.text}' follows from:")
    assert [f.message for f in diagnosis.of_kind("vacuous")] == vacuous
    assert [f.message for f in diagnosis.of_kind("redundant")] == redundant
    for finding in diagnosis.of_kind("redundant"):
        rule = next(r for r in space.rules if finding.message.startswith(f"'{r.text}' follows"))
        assert finding.rules
        assert implied(finding.rules, rule.formula, drawn)


@settings(deadline=None, max_examples=50)
@given(spaces)
def test_premises_that_can_never_hold(drawn: Drawn) -> None:
    space, diagnosis = diagnosed(drawn)
    everything = oracle.records(drawn.variables)
    found = {finding.message.partition(", so '")[2] for finding in diagnosis.of_kind("dead")}
    for i, rule in enumerate(space.rules):
        formula, named = rule.formula, f"{rule.text}' says nothing; because of:"
        if rule.probability is not None or not isinstance(formula, Implies) or isinstance(formula.premise, Is):
            assert named not in found or any(r.text == rule.text for j, r in enumerate(space.rules) if j != i)
            continue
        dead = implied(space.rules, Not(formula.premise), drawn)
        by_itself = implied([], Not(formula.premise), drawn) or implied([rule], Not(formula.premise), drawn)
        assert named not in found or dead
        assert named in found or not dead or by_itself
    for finding in diagnosis.of_kind("dead"):
        premises = [r.formula.premise for r in space.rules if isinstance(r.formula, Implies)]
        premise = next(p for p in premises if finding.message.startswith(f"'{p}' can never hold"))
        assert implied(finding.rules, Not(premise), drawn)
        for less in itertools.combinations(finding.rules, len(finding.rules) - 1):
            assert not implied(less, Not(premise), drawn)
    assert len(everything) >= 1


def test_two_rules_that_meet_surprisingly() -> None:
    """`a -> b` and `a -> !b`: a can never hold."""
    diagnosis = LabelSpace("a, b, c\na -> b\na -> !b\nb -> c").diagnose()
    assert str(diagnosis.of_kind("forced")[0]) == (
        "forced: a is always false, because of these rules together:\n    line 2: a -> b\n    line 3: a -> !b"
    )


def test_findings_in_words() -> None:
    space = LabelSpace("""
a, b, c
x: {p, q, r}
a -> b
b -> c
a -> c
x != r
a | !a
a & x = p -> !b
(a & x = p) -> c
""")
    kinds = {finding.kind: finding for finding in space.diagnose().findings}
    assert str(kinds["impossible"]) == "impossible: x is never r:\n    line 7: x != r"
    assert str(kinds["vacuous"]) == "vacuous: 'a | !a' is always true\n    line 8: a | !a"
    assert "redundant: 'a -> c' follows from:\n    line 4: a -> b\n    line 5: b -> c" in str(space.diagnose())
    assert str(kinds["dead"]).startswith("dead: 'a & x = p' can never hold, so 'a & x = p -> ")


def test_nothing_to_say() -> None:
    diagnosis = LabelSpace("a, b\na -> b").diagnose()
    assert not diagnosis
    assert len(diagnosis) == 0
    assert str(diagnosis) == "nothing stands out: no value is forced, and every rule says something"
    assert bool(Diagnosis((Finding("vacuous", "", ()),)))


def test_a_diagnosis_is_the_same_every_time() -> None:
    space = LabelSpace("a, b, c\nexactly_one(a, b, c)\nat_most(2, a, b, c)\na -> !b\nn: 0..4\nm: 0..4\nn + m >= 8")
    first = space.diagnose()
    assert [f.kind for f in first.findings].count("redundant") == 2
    assert space.diagnose() == first


def test_soft_rules_are_no_findings_of_their_own() -> None:
    assert not LabelSpace("a\n0.9 :: a\n0.8 :: a | !a").diagnose()


def test_a_table_of_all_labels_is_vacuous() -> None:
    rows = " | ".join(
        " & ".join(n if on else f"!{n}" for n, on in zip("abc", row)) for row in itertools.product((0, 1), repeat=3)
    )
    assert [f.kind for f in LabelSpace("a, b, c\n" + rows).diagnose().findings] == ["vacuous"]


def test_questions_do_not_grow_the_solvers_that_a_space_keeps() -> None:
    """Whatever is asked, and how often: the solver that everyone borrows keeps its clauses and variables."""
    space = LabelSpace(
        "a, b, c, d, e\nn: 0..5\nat_most(2, a, b, c, d)\nn + a + b <= 4\na -> b\na -> !c\nat_least(1, a, b, c)"
    )

    def size() -> tuple[int, int]:
        with space.solvers.borrowed() as solver:
            return solver._sat.nof_vars(), solver._sat.nof_clauses()

    before = size()
    for _ in range(3):
        space.diagnose()
        space.complete([{"a": 1}, {"n": 3}])
        space.check([{"a": 1, "c": 1}, {"b": 1}])
        assert len(list(space.valid())) == space.count()
    assert size() == before


@pytest.mark.parametrize(
    "text",
    [
        "a, b, c\na = true\na -> b\nb | c",
        "k: {x, y, z}\na, b\nk != y\na -> b\n!b -> !a\na | !a",
        "a, b, c\na -> b\nb -> !c\na & c -> b",
    ],
)
def test_where_the_solver_gives_up_circuits_find_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but which rules are to blame: sums may be too large for the solver, and not for the compiler."""

    def gives_up(*_: object) -> None:
        raise BudgetError("too many lessons")

    def said(found: Diagnosis) -> list[tuple[str, str]]:
        return [(f.kind, f.message.replace(", because of these rules together", "")) for f in found.findings]

    expected = LabelSpace(text).diagnose()
    monkeypatch.setattr(Solver, "conflict", gives_up)
    monkeypatch.setattr(Solver, "never", gives_up)
    assert said(expected)
    assert said(LabelSpace(text).diagnose()) == said(expected)
