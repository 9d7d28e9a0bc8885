"""The normal form of a label space: what the SAT solver and the circuit compiler read.

Every variable is a *block* of values of which exactly one is chosen; a binary variable is a block of two
values, false then true. Values are numbered through: value v of block b has the id ``offsets[b] + v``.

A *clause* is a set of value ids: at least one of them is chosen. A *sum* adds the coefficients of the chosen
values and demands that the total lies in one of a few intervals; cardinality, comparisons, sums of integer
variables and parity all take this form. Blocks come in three groups, in this order:

* the variables of the space, in its order;
* one binary block a soft rule, true exactly when its formula holds;
* *hidden* blocks that stand for a part of a rule. The constraints that define a hidden block are listed with it
  in ``owner``; they fix its value for every choice of the others, so a hidden block never changes a count,
  and where nothing else asks for it, it may be dropped together with what defines it. The block that says which row
  of a table a label is has no such constraints: it is fixed for valid labels only, and is never dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Sum:
    """The coefficients of the chosen values add up to a number inside one of `intervals`.

    `values` are distinct value ids; a value not listed adds 0. `intervals` are inclusive, sorted and disjoint.
    """

    values: tuple[int, ...]
    coefficients: tuple[int, ...]
    intervals: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Constraints:
    """Blocks of values, clauses and sums over them. See the module's docstring for the form."""

    sizes: tuple[int, ...]  # values of each block, at least 1
    categorical: tuple[bool, ...]  # True: one column a value; False: a single column, true or false
    clauses: tuple[tuple[int, ...], ...]
    sums: tuple[Sum, ...]
    visible: int  # blocks of the space's own variables
    soft: tuple[float, ...] = ()  # probability p of each soft rule; their blocks follow the visible ones
    clause_rules: tuple[int, ...] = ()  # the rule each clause came from
    sum_rules: tuple[int, ...] = ()
    clause_owners: tuple[int, ...] = ()  # the hidden or soft block that a clause defines, or -1
    sum_owners: tuple[int, ...] = ()

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First value id of each block, and one past the last of all."""
        out = [0]
        for size in self.sizes:
            out.append(out[-1] + size)
        return tuple(out)

    @property
    def hidden(self) -> range:
        """The hidden blocks."""
        return range(self.visible + len(self.soft), len(self.sizes))
