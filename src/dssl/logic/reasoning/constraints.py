"""The normal form of a label space: what the SAT solver and the circuit compiler read.

Every variable is a *block* of values of which exactly one is chosen; a binary variable is a block of two
values, false then true. Values are numbered consecutively: value v of block b has the id ``offsets[b] + v``.

A *clause* is a set of value ids: at least one of them is chosen. A *sum* adds the coefficients of the chosen
values and requires the total to lie in one of a few intervals; cardinality, comparisons, sums of integer
variables and parity all take this form. Blocks come in three groups, in this order:

* the variables of the space, in its order;
* one binary block per soft rule, true exactly when its formula holds;
* *hidden* blocks that stand for a part of a rule. The constraints that define a hidden block are listed with it
  in ``owner``; they fix its value for every choice of the others, so a hidden block never changes a count,
  and where nothing else uses it, it may be dropped together with what defines it. The block that says which row of a
  table a label is has no such constraints: it is fixed for valid labels only, and is never dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Member = tuple[int, ...]  # value ids of one block


@dataclass(frozen=True)
class Sum:
    """The coefficients of the chosen values add up to a number inside one of `intervals`.

    `values` are distinct value ids; a value not listed adds 0. `intervals` are inclusive, sorted and disjoint.
    """

    values: tuple[int, ...]
    coefficients: tuple[int, ...]
    intervals: tuple[tuple[int, int], ...]


def merged(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted intervals, empty ones dropped and neighbours joined.

    >>> merged([(7, 9), (1, 3), (4, 5), (6, 2)])
    [(1, 5), (7, 9)]
    """
    out: list[tuple[int, int]] = []
    for low, high in sorted(interval for interval in intervals if interval[0] <= interval[1]):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out


@dataclass(frozen=True)
class Chain:
    """A walk through states, one step for each of some blocks, that has to end in one of them.

    Its clauses say the same by hidden blocks; who decides the blocks in their order needs neither.
    """

    blocks: tuple[int, ...]
    steps: tuple[NDArray[np.int32], ...]  # for each block (states before, its values) → state after; the first is 0
    accepted: int
    hidden: range  # the hidden blocks of its states

    @property
    def width(self) -> int:
        """The most states between two blocks."""
        return max(len(step) for step in self.steps)


@dataclass(frozen=True, eq=False)
class Listed:
    """Some blocks take the values of one of some rows. Its clauses say the same by a hidden block, the row."""

    blocks: tuple[int, ...]
    rows: NDArray[np.int64]  # (rows, blocks) → the value's position in its block


@dataclass(frozen=True)
class Constraints:
    """Blocks of values, clauses and sums over them. See the module's docstring for the form."""

    sizes: tuple[int, ...]  # values of each block, at least 1
    categorical: tuple[bool, ...]  # True: one column per value; False: a single column, true or false
    clauses: tuple[tuple[int, ...], ...]
    sums: tuple[Sum, ...]
    visible: int  # blocks of the space's own variables
    soft: tuple[float, ...] = ()  # probability p of each soft rule; their blocks follow the visible ones
    clause_rules: tuple[int, ...] = ()  # the rule each clause came from
    sum_rules: tuple[int, ...] = ()
    clause_owners: tuple[int, ...] = ()  # the hidden or soft block that a clause defines, or -1
    sum_owners: tuple[int, ...] = ()
    chains: tuple[Chain, ...] = field(default=(), compare=False)  # rules that are decided step by step
    tables: tuple[Listed, ...] = field(default=(), compare=False)  # rules that list rows

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First value id of each block, and one past the last of all."""
        out = [0]
        for size in self.sizes:
            out.append(out[-1] + size)
        return tuple(out)

    @property
    def plain(self) -> bool:
        """Whether it is a count within one interval at most, which some label is in."""
        alone = not self.clauses and not self.soft and len(self.sums) <= 1
        return alone and all(set(s.coefficients) == {1} and s.intervals for s in self.sums)

    @property
    def hidden(self) -> range:
        """The hidden blocks."""
        return range(self.visible + len(self.soft), len(self.sizes))
