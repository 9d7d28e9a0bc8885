"""Clauses that say less than another: all of them go, solutions stay, and definitions stay with their blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from circuits.compile.test_compiler import cnf, compiled, constraints_of_all_kinds, count_models
from dssl.circuits.compile.sharpen import subsumption
from dssl.circuits.compile.sharpen.subsumption import may_speak_for, without_subsumed
from dssl.logic.reasoning.constraints import Constraints


@st.composite
def wordy(draw: st.DrawFn) -> Constraints:
    """Constraints of all kinds, some of whose clauses are said again with more values, owned by anyone or none."""
    c = draw(constraints_of_all_kinds())
    more, owners = [], []
    for clause in draw(st.lists(st.sampled_from(c.clauses), max_size=4)) if c.clauses else ():
        extra = draw(st.lists(st.integers(0, c.offsets[-1] - 1), max_size=3))
        more.append(tuple(dict.fromkeys((*extra, *clause))))
        owners.append(-1)
    return replace(c, clauses=c.clauses + tuple(more), clause_owners=c.clause_owners + tuple(owners))


@settings(max_examples=150, deadline=None)
@given(wordy())
def test_solutions_stay_and_no_clause_is_left_that_another_speaks_for(constraints: Constraints) -> None:
    short = without_subsumed(constraints)
    assert set(oracle.choices(short)) == set(oracle.choices(constraints))
    assert set(short.clauses) <= set(constraints.clauses)
    if len({len(set(clause)) for clause in constraints.clauses}) > 1:
        said = list(zip(map(frozenset, short.clauses), short.clause_owners))
        for k, (clause, owner) in enumerate(said):
            assert not any(other < clause and may_speak_for(by, owner) for other, by in said[:k] + said[k + 1 :])


@settings(max_examples=150, deadline=None)
@given(wordy())
def test_circuits_of_wordy_constraints_are_exact(constraints: Constraints) -> None:
    """Hidden blocks are dropped with what defines them, so a definition must not lose a clause to another block's."""
    assert count_models(compiled(constraints)) == len(oracle.valid_columns(constraints))


def test_a_definition_is_not_left_to_another_block() -> None:
    assert may_speak_for(-1, 7)
    assert may_speak_for(7, -1)
    assert may_speak_for(7, 7)
    assert not may_speak_for(6, 7)
    owned = Constraints((2, 2, 2), (False,) * 3, ((1, 3), (1, 3, 5)), (), visible=1, clause_owners=(1, 2))
    assert without_subsumed(owned) is owned
    assert without_subsumed(replace(owned, clause_owners=(-1, 2))).clause_owners == (-1,)


def test_rules_go_with_their_clauses_and_clauses_of_one_length_are_not_compared() -> None:
    wordy = replace(cnf(3, [[1, 2, 3], [1, 2], [2, 3]]), clause_rules=(5, 6, 7))
    assert without_subsumed(wordy).clause_rules == (6, 7)
    same = cnf(2, [[1, 2], [1, 2]])
    assert without_subsumed(same) is same


def test_comparing_ends_where_it_leads_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    sizes = draw.integers(3, 7, 300).tolist()
    many = cnf(12, [(draw.choice(12, n, replace=False) + 1).tolist() for n in sizes])
    few = without_subsumed(many)
    assert len(few.clauses) < 150
    monkeypatch.setattr(subsumption, "PATIENCE", 1)
    assert len(few.clauses) < len(without_subsumed(many).clauses) < 300
