"""The tables of a problem."""

from __future__ import annotations

import numpy as np

from dssl.circuits.compile.problem import build, lay_out
from dssl.circuits.compile.records import copy
from dssl.logic.reasoning.constraints import Constraints


def test_a_copy_has_a_state_of_its_own() -> None:
    constraints = Constraints((2, 2), (False, False), ((0, 3), (1, 2)), (), visible=2)
    problem = build(constraints, lay_out(constraints, []))
    assert problem is not None
    own = copy(problem)
    assert all(np.array_equal(a, b) and not np.shares_memory(a, b) for a, b in zip(problem, own) if a.size)
