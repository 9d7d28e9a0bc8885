"""The solver that is asked in slices: it answers as one without slices does, and hears Ctrl-C between them."""

from __future__ import annotations

import itertools
import signal
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pysat.formula import CNF
from pysat.solvers import Minisat22

from dssl.logic.reasoning import sat
from dssl.logic.reasoning.sat import Sat

LITERALS = st.integers(1, 5).flatmap(lambda v: st.sampled_from([v, -v]))
CLAUSES = st.lists(st.lists(LITERALS, min_size=1, max_size=3), max_size=12)


def satisfiable(clauses: list[list[int]], assumed: list[int]) -> bool:
    """By trying all assignments."""
    return any(
        all(any(row[abs(v) - 1] == (v > 0) for v in clause) for clause in [*clauses, *([a] for a in assumed)])
        for row in itertools.product([False, True], repeat=5)
    )


@given(CLAUSES, st.lists(LITERALS, max_size=3))
def test_answers_are_those_of_enumeration(clauses: list[list[int]], assumed: list[int]) -> None:
    with Sat(bootstrap_with=clauses) as solver:
        assert solver.decide(assumed) == satisfiable(clauses, assumed)
        assert solver.decide([]) == satisfiable(clauses, [])


def pigeons(n: int) -> CNF:
    """n + 1 pigeons in n holes: no solution, and a hard proof."""
    hole = [[p * n + h + 1 for h in range(n)] for p in range(n + 1)]
    apart = [[-hole[p][h], -hole[q][h]] for h in range(n) for p in range(n + 1) for q in range(p)]
    return CNF(from_clauses=[*hole, *apart])


def test_slices_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    clauses = pigeons(6).clauses
    with Minisat22(bootstrap_with=clauses) as whole:
        assert whole.solve() is False
    monkeypatch.setattr(sat, "CONFLICTS", 10)
    monkeypatch.setattr(sat, "PROPAGATIONS", 50)
    with Sat(bootstrap_with=clauses) as solver:
        assert solver.decide([]) is False


def test_within_few_conflicts_the_answer_may_be_open() -> None:
    with Sat(bootstrap_with=pigeons(8).clauses) as solver:
        assert solver.decide_within(5, []) is None
    with Sat(bootstrap_with=[[1, 2], [-1]]) as solver:
        assert solver.decide_within(100, []) is True
        assert solver.decide_within(100, [-2]) is False


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_is_heard_again_and_again() -> None:
    with Sat(bootstrap_with=pigeons(12).clauses) as solver:  # takes far longer than anyone waits
        for _ in range(2):
            timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
            began = time.perf_counter()
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                solver.decide([])
            assert time.perf_counter() - began < 20
