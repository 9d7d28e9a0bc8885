"""How a SAT solver is run: in slices, between which Python can react to Ctrl-C.

python-sat's own `solve` takes Ctrl-C for itself: it jumps out of the solver with an error of its own, and from then on
the process never reacts to Ctrl-C again. So it is not used. A slice is a number of conflicts and propagations, never a
time, so that the same questions always have the same answers. Of the solvers that can be run this way, MiniSat stops
where it is told to; Glucose checks only when it restarts, which can take fifty times as long.
"""

from __future__ import annotations

from collections.abc import Sequence

from pysat.solvers import Minisat22

CONFLICTS, PROPAGATIONS = 2000, 1_000_000  # of a slice
FEW = 100  # conflicts in a slice below which the next may propagate more, or a large problem would never be answered
_NO_LIMIT = 1 << 60


class Sat(Minisat22):  # python-sat has no types
    """A solver that can be interrupted.

    >>> sat = Sat(bootstrap_with=[[1, 2], [-1, 2]])
    >>> sat.decide([]), sat.decide([-2])
    (True, False)
    """

    def decide(self, assumptions: Sequence[int]) -> bool:
        """Whether there is a solution with these literals."""
        propagations, conflicts = PROPAGATIONS, self.accum_stats()["conflicts"]
        while (found := self._slice(assumptions, CONFLICTS, propagations)) is None:
            before, conflicts = conflicts, self.accum_stats()["conflicts"]
            if conflicts - before < FEW:
                propagations = min(2 * propagations, _NO_LIMIT)
        return found

    def decide_within(self, conflicts: int, assumptions: Sequence[int]) -> bool | None:
        """Whether there is a solution with these literals; None where so many conflicts do not tell."""
        return self._slice(assumptions, conflicts, _NO_LIMIT)

    def _slice(self, assumptions: Sequence[int], conflicts: int, propagations: int) -> bool | None:
        self.conf_budget(conflicts)
        self.prop_budget(propagations)
        found: bool | None = self.solve_limited(assumptions=assumptions, expect_interrupt=True)
        return found
