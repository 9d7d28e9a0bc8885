"""Backbone: values that no solution chooses, found by a SAT solver, for problems that the search finds hard.

A search that only propagates can spend most of its time in parts without a solution. A SAT solver learns from them.
What it finds to be never chosen is taken out of the problem; solutions stay the same, and so does the meaning of the
circuit.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from dssl.logic.reasoning.constraints import Constraints
from dssl.logic.reasoning.solver import Solver

CONFLICTS = 2000  # that one question may cost: a number, not a time, so that the same rules give the same circuit
LARGEST = 5000  # values of a problem, at most, for which this is tried


def without_idle_values(constraints: Constraints) -> Constraints:
    """The same constraints, and clauses for the values that no solution chooses, if propagation does not find them all.

    >>> odd = Constraints((2, 2), (False, False), ((0, 2), (0, 3)), (), visible=2)
    >>> without_idle_values(odd).clauses  # block 0 is never true
    ((0, 2), (0, 3), (0,))
    """
    offsets = constraints.offsets
    if offsets[-1] > LARGEST or len(constraints.clauses) + len(constraints.sums) < 2:  # one alone is soon searched
        return constraints
    solver = _solver(constraints)
    known = solver.propagated()  # before it learns more
    never = set(solver.never(offsets[-1], CONFLICTS))
    if never <= known:
        return constraints
    spans = [range(a, b) for a, b in pairwise(offsets)]
    found = tuple(tuple(v for v in span if v not in never) for span in spans if not never.isdisjoint(span))
    owners = constraints.clause_owners or (-1,) * len(constraints.clauses)
    return replace(constraints, clauses=constraints.clauses + found, clause_owners=owners + (-1,) * len(found))


def _solver(constraints: Constraints) -> Solver:
    """A solver over constraints of which it does not matter which rule they came from."""
    clauses, sums = len(constraints.clauses), len(constraints.sums)
    return Solver(
        replace(
            constraints,
            clause_rules=(0,) * clauses,
            sum_rules=(0,) * sums,
            clause_owners=constraints.clause_owners or (-1,) * clauses,
            sum_owners=constraints.sum_owners or (-1,) * sums,
        )
    )
