"""Automata and graphs in the normal form: hidden blocks that say in which state a walk is after each variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dssl.logic.language.structures.automata import Layered, layers
from dssl.logic.reasoning.constraints import Chain, Member

if TYPE_CHECKING:
    from dssl.logic.reasoning.normalisation import Builder

MAX_GROUPS = 100  # states of one hidden block; more are a block each


class Walks:
    """What is decided step by step, for a builder of constraints, which has blocks and clauses."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._accepted: dict[Layered, Member | bool] = {}  # "it ends well"
        self.chains: dict[Layered, Chain] = {}

    def accepted(self, formula: Layered) -> Member | bool:
        """ "The automaton accepts": hidden blocks say its state after each variable, which the variables determine."""
        if formula not in self._accepted:
            diagram = formula.diagram(self.builder.values)
            blocks, found, first = (
                [self.builder.variables[name][0] for name in diagram.names],
                layers(diagram),
                len(self.builder.sizes),
            )
            before: list[Member | bool] = [True]  # of each group of states, that the walk is in one of them
            for block, (step, groups) in zip(blocks, found):
                before = self.advanced(before, block, step, groups)
            self._accepted[formula] = before[1] if len(before) == 2 else diagram.ends_well()
            if len(before) == 2 and len(set(blocks)) == len(blocks):
                hidden = range(first, len(self.builder.sizes))
                self.chains[formula] = Chain(tuple(blocks), tuple(step for step, _ in found), 1, hidden)
        return self._accepted[formula]

    def advanced(
        self, before: list[Member | bool], block: int, step: NDArray[np.int32], groups: int
    ) -> list[Member | bool]:
        """The groups of states after one more variable: a hidden block, given the groups before and the variable.

        For each group after, values that lead to it from the same groups share a clause.
        """
        if groups == 1:
            return [True]
        if groups > MAX_GROUPS:
            return self.spread(before, block, step, groups)
        after = self.builder.add_block(groups)
        for to in range(groups):
            leading: dict[tuple[bool, ...], list[int]] = {}  # from which groups → by which values
            for value, column in enumerate((step == to).T.tolist()):
                leading.setdefault(tuple(column), []).append(value)
            for sources, values in leading.items():
                if any(sources):
                    rest = [value for group, source in zip(before, sources) if not source for value in _values(group)]
                    others = self.builder.whole(block, [v for v in range(self.builder.sizes[block]) if v not in values])
                    self.builder.emit([tuple(rest), _values(others), (self.builder.offsets[after] + to,)], after)
        return [(self.builder.offsets[after] + group,) for group in range(groups)]

    def spread(
        self, before: list[Member | bool], block: int, step: NDArray[np.int32], groups: int
    ) -> list[Member | bool]:
        """The same by one hidden block for each group: as many clauses as steps, each of them short."""
        after = [self.builder.add_block(2) for _ in range(groups)]
        reached: list[Member] = [(self.builder.offsets[one] + 1,) for one in after]
        for value in range(self.builder.sizes[block]):
            others = _values(self.builder.whole(block, [v for v in range(self.builder.sizes[block]) if v != value]))
            sources: list[list[Member | bool]] = [[] for _ in after]
            for group, to in zip(before, step[:, value].tolist()):
                sources[to].append(group)
                left = self.builder.opposite(group) if isinstance(group, tuple) else ()
                self.builder.emit([left, others, reached[to]], after[to])
            for to, groups_before in enumerate(sources):
                if True not in groups_before:
                    self.builder.emit(
                        [self.builder.opposite(reached[to]), others, *map(_values, groups_before)], after[to]
                    )
        return [*reached]


def _values(member: Member | bool) -> Member:
    """The values of a member; none where nothing is left to choose."""
    return () if isinstance(member, bool) else member
