"""The SAT solver over the normal form: satisfiable, conflicts and models equal enumeration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle
from dssl.errors import BudgetError
from dssl.logic.reasoning.constraints import Constraints, Sum
from dssl.logic.reasoning.normalisation import normalise
from dssl.logic.reasoning.solver import Solver, Solvers
from logic.messages import BadCall, calls_about, check_call
from logic.strategies import Drawn, drawn_spaces

Literals = list[tuple[int, int, bool]]  # block, value index, chosen or not


@st.composite
def questions(draw: Any) -> tuple[Drawn, Literals, list[int]]:
    """A space, some values demanded or forbidden, and some of its rules."""
    drawn = draw(drawn_spaces(rules=5))
    literals = []
    for block, variable in enumerate(drawn.variables):
        if draw(st.integers(0, 2)) == 0:
            literals.append((block, draw(st.integers(0, len(variable.values) - 1)), draw(st.booleans())))
    hard = [i for i, p in enumerate(drawn.probabilities) if p is None]
    return drawn, literals, [i for i in hard if draw(st.booleans())]


def allowed(drawn: Drawn, literals: Literals, rules: list[int]) -> bool:
    """The oracle: whether some label obeys some rules and has what is demanded."""
    rows = oracle.obeying([drawn.rules()[i] for i in rules], oracle.records(drawn.variables))
    for block, value, chosen in literals:
        variable = drawn.variables[block]
        rows = [row for row in rows if (row[variable.name] == variable.values[value]) is chosen]
    return bool(rows)


def in_sat(solver: Solver, literals: Literals) -> list[int]:
    offsets = solver.constraints.offsets
    return [solver.literal(offsets[b] + v) * (1 if chosen else -1) for b, v, chosen in literals]


@settings(deadline=None, max_examples=50)
@given(questions())
def test_satisfiable_equals_enumeration(question: tuple[Drawn, Literals, list[int]]) -> None:
    drawn, literals, some = question
    solver = Solver(normalise(drawn.variables, drawn.rules()))
    hard = [i for i, p in enumerate(drawn.probabilities) if p is None]
    assumed = in_sat(solver, literals)
    assert solver.satisfiable(assumed, some) == allowed(drawn, literals, some)
    assert solver.satisfiable(assumed) == allowed(drawn, literals, hard)
    for rule in solver.switches:
        others = [i for i in hard if i != rule]
        if rule in hard:
            assert solver.satisfiable_without(rule, assumed) == allowed(drawn, literals, others)


@settings(deadline=None, max_examples=50)
@given(questions())
def test_a_conflict_is_a_conflict_and_minimal(question: tuple[Drawn, Literals, list[int]]) -> None:
    drawn, literals, some = question
    solver = Solver(normalise(drawn.variables, drawn.rules()))
    conflict = solver.conflict(in_sat(solver, literals), some)
    if allowed(drawn, literals, some):
        assert conflict is None
        return
    assert conflict is not None
    assert conflict == sorted(set(conflict))
    assert set(conflict) <= set(some)
    assert not allowed(drawn, literals, conflict)
    assert all(allowed(drawn, literals, [r for r in conflict if r != rule]) for rule in conflict)


@settings(deadline=None, max_examples=50)
@given(questions())
def test_a_model_obeys_the_rules_and_chooses_one_value_a_block(question: tuple[Drawn, Literals, list[int]]) -> None:
    drawn, literals, _ = question
    solver = Solver(normalise(drawn.variables, drawn.rules()))
    if not solver.satisfiable(in_sat(solver, literals)):
        return
    model = solver.model()
    record = {v.name: v.values[i] for v, i in zip(drawn.variables, model)}
    assert record in drawn.valid
    assert all((model[block] == value) is chosen for block, value, chosen in literals)
    assert int(solver.chosen().sum()) == len(solver.constraints.sizes) == len(model)
    soft = [s for s, p in zip(drawn.statements, drawn.probabilities) if p is not None]
    assert [bool(x) for x in model[len(record) : len(record) + len(soft)]] == [s.holds(record) for s in soft]


def test_preferred_values_are_chosen_where_nothing_speaks_against_it() -> None:
    solver = Solver(Constraints((2, 2, 2), (False,) * 3, ((0, 2),), (), 3, clause_rules=(0,), clause_owners=(-1,)))
    solver.prefer([1, 4])
    assert solver.satisfiable()
    assert solver.model() in ([1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0])
    assert solver.model()[2] == 0
    solver.prefer([1, 5])
    assert solver.satisfiable()
    assert solver.model()[2] == 1


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=3),
    st.lists(st.integers(-3, 3), min_size=24, max_size=24),
    st.lists(st.integers(-8, 8), min_size=2, max_size=4, unique=True).map(sorted),
)
def test_sums_and_their_negations(sizes: list[int], coefficients: list[int], edges: list[int]) -> None:
    """Blocks above and below the size where pairs give way to a ladder; a sum holds, or its negation does."""
    total = sum(sizes)
    s = Sum(tuple(range(total)), tuple(coefficients[:total]), tuple(zip(edges[::2], edges[1::2])))
    c = Constraints(tuple(sizes), (True,) * len(sizes), (), (s,), len(sizes), sum_rules=(0,), sum_owners=(-1,))
    free = Constraints(c.sizes, c.categorical, (), (), c.visible)
    holding = set(oracle.choices(c))
    solver = Solver(c)
    fails = solver.add_negation(s)
    for choice in oracle.choices(free):
        path = [solver.literal(c.offsets[block] + value) for block, value in enumerate(choice)]
        assert solver.satisfiable(path) == (choice in holding)
        assert solver.satisfiable([*path, fails], ()) == (choice not in holding)
        assert solver.satisfiable(path, ())


def test_no_rules_are_all_satisfiable() -> None:
    solver = Solver(Constraints((2, 3), (False, True), (), (), 2))
    assert solver.satisfiable()
    assert solver.conflict() is None
    assert not solver.satisfiable([solver.literal(2), solver.literal(3)])


@pytest.mark.parametrize("case", calls_about("solver"), ids=lambda case: case.reason[:40])
def test_errors_of_calls(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)


# ---- solvers to borrow ----

FREE = Constraints((2, 3), (False, True), (), (), 2)


def test_a_borrowed_solver_is_nobody_elses() -> None:
    solvers = Solvers(FREE)
    with solvers.borrowed() as one, solvers.borrowed() as two:
        assert one is not two
    with solvers.borrowed() as again:
        assert again in (one, two)


def test_an_interrupted_solver_is_not_used_again() -> None:
    solvers = Solvers(FREE)
    with pytest.raises(KeyboardInterrupt), solvers.borrowed() as broken:
        raise KeyboardInterrupt
    with solvers.borrowed() as other:
        assert other is not broken


@settings(deadline=None, max_examples=25)
@given(questions())
def test_ways_to_fail_are_all_ways(question: tuple[Drawn, Literals, list[int]]) -> None:
    """A hard rule fails in a label exactly if one of its ways to fail agrees with it, its definitions kept."""
    drawn, _, _ = question
    solver = Solver(normalise(drawn.variables, drawn.rules()))
    ways = solver.ways_to_fail()
    hard = [i for i, p in enumerate(drawn.probabilities) if p is None]
    for row in oracle.records(drawn.variables)[:20]:
        path = [
            solver.literal(offset + v.values.index(row[v.name]))
            for v, offset in zip(drawn.variables, solver.constraints.offsets)
        ]
        for i in hard:
            fails = any(solver.satisfiable([*path, *way], ()) for way in ways.get(i, []))
            if not table_rows(solver, i):
                assert fails == (not oracle.holds(drawn.rules()[i].formula, row))


def table_rows(solver: Solver, rule: int) -> bool:
    """Whether a rule is a table, whose row exists for valid labels only."""
    c = solver.constraints
    owned = {*c.clause_owners, *c.sum_owners}
    rows = {c.offsets[block] for block in c.hidden if block not in owned}
    return any(r == rule and not rows.isdisjoint(clause) for clause, r in zip(c.clauses, c.clause_rules))


# ---- sums too large to be written as clauses ----


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sum is too large."""
    monkeypatch.setattr("dssl.logic.reasoning.solver._MAX_PLACES", 0)


@pytest.mark.usefixtures("watching")
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.integers(-3, 3), min_size=16, max_size=16),
    st.lists(st.integers(-8, 8), min_size=2, max_size=4, unique=True).map(sorted),
)
def test_watched_sums_are_kept_like_encoded_ones(sizes: list[int], coefficients: list[int], edges: list[int]) -> None:
    total = sum(sizes)
    s = Sum(tuple(range(total)), tuple(coefficients[:total]), tuple(zip(edges[::2], edges[1::2])))
    c = Constraints(tuple(sizes), (True,) * len(sizes), (), (s,), len(sizes), sum_rules=(0,), sum_owners=(-1,))
    free = Constraints(c.sizes, c.categorical, (), (), c.visible)
    holding = set(oracle.choices(c))
    solver = Solver(c)
    fails = solver.add_negation(s)
    assert solver.satisfiable() == bool(holding)
    assert solver.conflict() == (None if holding else [0])
    for choice in oracle.choices(free):
        path = [solver.literal(c.offsets[block] + value) for block, value in enumerate(choice)]
        assert solver.satisfiable(path) == (choice in holding)
        assert solver.satisfiable([*path, fails], ()) == (choice not in holding)


@pytest.mark.usefixtures("watching")
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(questions())
def test_questions_are_answered_alike_with_watched_sums(question: tuple[Drawn, Literals, list[int]]) -> None:
    for test in (
        test_satisfiable_equals_enumeration,
        test_a_conflict_is_a_conflict_and_minimal,
        test_a_model_obeys_the_rules_and_chooses_one_value_a_block,
        test_ways_to_fail_are_all_ways,
    ):
        test.hypothesis.inner_test(question)  # type: ignore[attr-defined]


def test_a_large_sum_is_met_after_few_lessons(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 30 of 2,000, whatever the solver would like best."""
    n = 2000
    s = Sum(tuple(range(1, 2 * n, 2)), (1,) * n, ((0, 30),))
    solver = Solver(Constraints((2,) * n, (False,) * n, (), (s,), n, sum_rules=(0,), sum_owners=(-1,)))
    assert solver._watched
    monkeypatch.setattr("dssl.logic.reasoning.solver._MAX_LESSONS", 3)
    for preferred in (0, 1):
        solver.prefer(range(preferred, 2 * n, 2))
        assert solver.satisfiable()
        assert sum(solver.model()) <= 30
    true = [solver.literal(v) for v in range(1, 2 * n, 2)]
    assert solver.satisfiable(true[:30])
    assert solver.conflict(true[:31]) == [0]


@pytest.mark.usefixtures("watching")
def test_what_is_not_decided_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    s = Sum((1, 3, 5), (2, 3, 4), ((7, 7),))
    c = Constraints((2, 2, 2), (False,) * 3, (), (s,), 3, sum_rules=(0,), sum_owners=(-1,))
    monkeypatch.setattr("dssl.logic.reasoning.solver._MAX_LESSONS", 1)
    with pytest.raises(
        BudgetError, match="not decided after 1 attempts: a sum of 3 variables with more than 0 different"
    ):
        Solver(c).satisfiable()
    monkeypatch.setattr("dssl.logic.reasoning.solver._MAX_LESSONS", 10)
    assert Solver(c).satisfiable()
