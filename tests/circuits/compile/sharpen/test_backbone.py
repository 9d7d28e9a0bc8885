"""Values that no solution chooses: all of them are found, solutions stay, and hard problems become easy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import oracle
from circuits.compile.test_compiler import cnf, compiled, constraints_of_all_kinds, count_models
from dssl.circuits.compile import compiler, turns
from dssl.circuits.compile.sharpen import backbone
from dssl.circuits.compile.sharpen.backbone import without_idle_values
from dssl.logic.reasoning.constraints import Constraints


@settings(max_examples=150, deadline=None)
@given(constraints_of_all_kinds())
def test_values_that_no_solution_chooses_are_ruled_out_and_no_others(constraints: Constraints) -> None:
    before = set(oracle.choices(constraints))
    sharpened = without_idle_values(constraints)
    assert set(oracle.choices(sharpened)) == before
    added = sharpened.clauses[len(constraints.clauses) :]
    assert len(sharpened.clause_owners) == (len(sharpened.clauses) if added else len(constraints.clause_owners))
    chosen = {constraints.offsets[b] + v for choice in before for b, v in enumerate(choice)}
    assert all(set(clause) <= chosen for clause in added)


def planted(seed: int, n: int) -> tuple[Constraints, int]:
    """Clauses with one solution or few, which propagation alone does not find, and how many they have."""
    pyganak = pytest.importorskip("pyganak")
    random = np.random.default_rng(seed)
    secret = random.integers(0, 2, n)
    clauses = []
    while len(clauses) < 5 * n:
        picked = random.choice(n, 3, replace=False)
        signs = random.integers(0, 2, 3)
        if (secret[picked] == signs).any():
            clauses.append([int(v + 1) if s else -int(v + 1) for v, s in zip(picked, signs)])
    counter = pyganak.Counter()
    counter.new_vars(n)
    counter.add_clauses(clauses)
    return cnf(n, clauses), counter.count()


@pytest.mark.parametrize("seed", range(5))
def test_counts_after_sharpening_equal_those_of_a_second_counter(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    constraints, count = planted(seed, 40)
    compiled(cnf(1, [[1]]))  # warm
    monkeypatch.setattr(turns, "FIRST_TRY", 2)  # hard from the beginning
    sharpened = []
    monkeypatch.setattr(
        "dssl.circuits.compile.compiler.without_idle_values",
        lambda given: sharpened.append(without_idle_values(given)) or sharpened[-1],
    )
    assert count_models(compiled(constraints)) == count > 0
    assert len(sharpened) == 1
    assert len(sharpened[0].clauses) > len(constraints.clauses) + 10


@pytest.mark.parametrize(("largest", "builds"), [(5000, 2), (10, 1)])
def test_the_problem_is_built_again_only_if_more_is_known(
    largest: int, builds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraints, count = planted(0, 40)
    compiled(cnf(1, [[1]]))  # warm
    built = []
    monkeypatch.setattr(turns, "FIRST_TRY", 2)
    monkeypatch.setattr(backbone, "LARGEST", largest)
    build = compiler.build
    monkeypatch.setattr(compiler, "build", lambda *given: built.append(1) or build(*given))
    assert count_models(compiled(constraints)) == count
    assert len(built) == builds


def test_a_contradiction_found_by_the_solver_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "FIRST_TRY", 1)
    signs = [(1, 2, 3), (1, 2, -3), (1, -2, 3), (1, -2, -3), (-1, 2, 3), (-1, 2, -3), (-1, -2, 3), (-1, -2, -3)]
    circuit = compiled(cnf(3, [list(clause) for clause in signs]))
    assert circuit.kind.tolist() == [0]


def test_large_problems_and_what_propagation_knows_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    known = cnf(3, [[1], [-1, 2], [2, 3]])
    assert without_idle_values(known) is known
    hidden = cnf(2, [[1, 2], [1, -2]])
    assert without_idle_values(hidden).clauses[2:] == ((1,),)
    monkeypatch.setattr(backbone, "LARGEST", 3)
    assert without_idle_values(hidden) is hidden
