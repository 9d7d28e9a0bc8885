"""Closures: the heaviest set of classes in which every class has those above it, row by row.

If every class that holds adds a gain of its own, the heaviest set is a maximum closure, which is a minimum cut (Picard
1976), and exact. In a `Cascade` a class that fails costs something only if all classes above it hold. With one class
above it that is a gain of that class, too. With several it is not, and finding the best is a search: a bound leaves
these costs out, which again is a closure, and branches say of a class above whether it holds. The search ends with a
proof, or after so many closures with the best label found; it says which.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from dssl.logic.reasoning.implications import Implications

_WHOLE = 1 << 30  # of all gains, in the whole numbers that flows have
_MOST = 100  # closures of one row
_SAME = 1e-7  # nats

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class _State(NamedTuple):
    """Classes that hold and that fail for certain, the best set given the bound, and what the bound left out."""

    holds: Mask
    fails: Mask
    label: Mask
    bound: float
    value: float
    left_out: Floats  # (width,) costs of classes that fail though all above them hold, which the bound ignores


class Closures:
    """Looks for the heaviest labels that obey implications.

    >>> import numpy as np
    >>> from dssl.logic.space import LabelSpace
    >>> closures = Closures(LabelSpace("cat, pet, animal\\ncat -> pet\\ncat -> animal").implications)
    >>> nothing = np.zeros((2, 3), bool)
    >>> closures.heaviest(np.array([[3.0, -1, -1], [3, -2, -2]]), nothing, nothing).tolist()
    [[True, True, True], [False, False, False]]
    """

    def __init__(self, implications: Implications) -> None:
        self.implications, self.width = implications, implications.width
        self.child, self.parent = np.unique(np.stack([implications.child, implications.parent]), axis=1)
        self.above = np.bincount(self.child, minlength=self.width)  # classes right above each

    def heaviest(self, gain: Floats, holds: Mask, fails: Mask) -> Mask:
        """The labels with the largest sums of gains, (n, width) all; classes known to hold or fail stay so."""
        holds, fails = self.implications.upward(holds), self.implications.downward(fails)
        live = ~holds & ~fails
        wanted = live & (gain > 0)
        out: Mask = holds | (self.implications.upward(wanted) & live)
        for row in np.flatnonzero((out & live & (gain < 0)).any(axis=1)):  # elsewhere all that gains can be had
            out[row] = holds[row] | self._closure(gain[row], out[row] & live[row])
        return out

    def most_probable(self, log_pos: Floats, log_neg: Floats, holds: Mask, fails: Mask) -> tuple[Mask, Mask]:
        """The most probable labels of a cascade (n, width), and whether each is proven so (n,)."""
        holds, fails = self.implications.upward(holds), self.implications.downward(fails)
        out, proven = holds.copy(), np.ones(len(holds), dtype=bool)
        for row in np.flatnonzero(~(holds & fails).any(axis=1)):
            out[row], proven[row] = self._search(log_pos[row], log_neg[row], holds[row], fails[row])
        return out, proven

    # ---- one row ----

    def _search(self, pos: Floats, neg: Floats, holds: Mask, fails: Mask) -> tuple[Mask, bool]:
        """Best first: the state with the largest bound is split, until none is above the best label found."""
        best = self._bounded(pos, neg, holds, fails)
        line, count = [(-best.bound, 0, best)], 1
        while line and count < _MOST:
            _, _, state = heapq.heappop(line)
            if state.bound <= best.value + _SAME:
                return best.label, True
            for part in self._split(state):
                found = self._bounded(pos, neg, *part)
                best = max(best, found, key=lambda s: s.value)
                heapq.heappush(line, (-found.bound, count, found))
                count += 1
        return best.label, not line or -line[0][0] <= best.value + _SAME

    def _split(self, state: _State) -> list[tuple[Mask, Mask]]:
        """Two states: a class above the one whose cost was left out holds, or it fails."""
        dear = int(state.left_out.argmin())
        above = self.parent[self.child == dear]
        at = np.zeros((1, self.width), dtype=bool)
        at[0, above[~state.holds[above]][0]] = True
        up, down = self.implications.upward(at)[0], self.implications.downward(at)[0]
        return [(state.holds | up, state.fails), (state.holds, state.fails | down)]

    def _bounded(self, pos: Floats, neg: Floats, holds: Mask, fails: Mask) -> _State:
        """The best set by a bound that charges a class with several undecided above it only if it holds."""
        undecided = np.bincount(self.child[~holds[self.parent]], minlength=self.width)
        blocked = np.bincount(self.child[fails[self.parent]], minlength=self.width) > 0
        costs = ~holds & ~blocked  # classes that may fail while all above them hold
        gain = np.where(undecided <= 1, pos - neg, pos)
        one = costs[self.child] & (undecided[self.child] == 1) & ~holds[self.parent]
        gain = gain + np.bincount(self.parent[one], neg[self.child[one]], minlength=self.width)
        live = ~holds & ~fails
        wanted = self.implications.upward((live & (gain > 0))[None])[0] & live
        chosen = self._closure(gain, wanted) if (wanted & (gain < 0)).any() else wanted
        label = holds | chosen
        bound = float(pos[holds].sum() + neg[costs & (undecided == 0)].sum() + gain[chosen].sum())
        missing = np.bincount(self.child[~label[self.parent]], minlength=self.width)
        left_out = np.where(costs & ~label & (undecided > 1) & (missing == 0), neg, 0.0)
        return _State(holds, fails, label, bound, bound + float(left_out.sum()), left_out)

    def _closure(self, gain: Floats, among: Mask) -> Mask:
        """The subset of some classes, closed among them, with the largest sum of gains."""
        nodes = np.flatnonzero(among)
        weight = gain[nodes]
        most = float(weight[weight > 0].sum())
        whole = np.rint(np.clip(weight, -1.5 * most, None) / most * _WHOLE).astype(np.int64)  # less is never worth it
        place = np.full(self.width, -1)
        place[nodes] = np.arange(len(nodes))
        edge = among[self.child] & among[self.parent]
        source, sink = len(nodes), len(nodes) + 1
        has, lacks = np.flatnonzero(whole > 0), np.flatnonzero(whole < 0)
        start = np.concatenate([np.full(len(has), source), lacks, place[self.child[edge]]])
        end = np.concatenate([has, np.full(len(lacks), sink), place[self.parent[edge]]])
        size = np.concatenate([whole[has], -whole[lacks], np.full(int(edge.sum()), _WHOLE + 1)])
        graph = sp.csr_array((size.astype(np.int32), (start, end)), shape=(len(nodes) + 2,) * 2)
        rest = graph - maximum_flow(graph, source, sink).flow
        rest.eliminate_zeros()
        reached = breadth_first_order(rest, source, return_predecessors=False)
        out = np.zeros(self.width, dtype=bool)
        out[nodes[reached[reached < len(nodes)]]] = True
        return out
