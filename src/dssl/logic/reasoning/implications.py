"""Implications: rules that all say "this class only with that one", without a circle, and what follows in linear time.

Hierarchies are such rules, also where a class has several classes above it. Nothing needs to be searched: what is true
makes all above it true, what is false makes all below it false, and the rest is free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dssl.logic.language.formula import Implies, Is
from dssl.logic.language.parser import Rule
from dssl.logic.language.variables import Variable

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Implications:
    """Rule i says that class `child[i]` holds only if class `parent[i]` does; `depth` is the longest way from a top.

    >>> from dssl.logic.space import LabelSpace
    >>> space = LabelSpace("cat, pet, animal\\ncat -> pet\\ncat -> animal")
    >>> found = Implications.of(space.variables, space.rules)
    >>> found.depth.tolist()
    [1, 0, 0]
    >>> found.upward(np.array([[True, False, False]])).tolist()
    [[True, True, True]]
    """

    width: int
    child: Ints
    parent: Ints
    depth: Ints

    @staticmethod
    def of(variables: Sequence[Variable], rules: Sequence[Rule]) -> Implications | None:
        """The rules as implications between binary variables; None if any is something else, or they go in a circle."""
        if not rules or not all(variable.binary for variable in variables):
            return None
        place = {variable.name: i for i, variable in enumerate(variables)}
        edges = []
        for rule in rules:
            formula = rule.formula
            if rule.probability is not None or not isinstance(formula, Implies):
                return None
            below, above = formula.premise, formula.conclusion
            if not (isinstance(below, Is) and isinstance(above, Is)):
                return None
            edges.append((place[below.name], place[above.name]))
        child, parent = np.array(edges, dtype=np.int64).T
        depth = _depths(len(variables), child, parent)
        return None if depth is None else Implications(len(variables), child, parent, depth)

    @cached_property
    def single(self) -> bool:
        """Whether no class has two others right above it."""
        return len(np.unique(self.child)) == len(np.unique(np.stack([self.child, self.parent]), axis=1).T)

    # ---- what follows ----

    def upward(self, holds: Mask) -> Mask:
        """Classes (rows, width) with all above them."""
        return self._spread(holds, self._by_parent)

    def downward(self, fails: Mask) -> Mask:
        """Classes (rows, width) with all below them."""
        return self._spread(fails, self._by_child)

    def path(self, holds: Mask, fails: Mask) -> list[int] | None:
        """A shortest chain of rules from a class that holds (width,) to one that fails; None if there is none."""
        came: dict[int, tuple[int, int]] = {}  # class → the rule by which it holds, and the class below
        seen = set(np.flatnonzero(holds).tolist())
        line = deque(sorted(seen))
        while line:
            here = line.popleft()
            if fails[here]:
                rules = []
                while here in came:
                    rule, here = came[here]
                    rules.append(rule)
                return sorted(rules)
            for rule, above in self._ways_up.get(here, ()):
                if above not in seen:
                    seen.add(above)
                    came[above] = rule, here
                    line.append(above)
        return None

    # ---- shared ----

    @staticmethod
    def _spread(marks: Mask, steps: Sequence[_Step]) -> Mask:
        """Marks (rows, width) carried along the steps, in their order."""
        out = np.array(marks.T, order="C").view(np.uint8)  # classes by rows: a step reads whole classes
        for step in steps:
            out[step.to] |= np.bitwise_or.reduceat(out[step.source], step.starts, axis=0)
        return np.ascontiguousarray(out.view(np.bool_).T)

    @cached_property
    def _by_parent(self) -> list[_Step]:
        """Edges from child to parent, deepest children first."""
        return list(_steps(self.child, self.parent, -self.depth[self.child]))

    @cached_property
    def _by_child(self) -> list[_Step]:
        """Edges from parent to child, highest children first."""
        return list(_steps(self.parent, self.child, self.depth[self.child]))

    @cached_property
    def _ways_up(self) -> dict[int, list[tuple[int, int]]]:
        """The rules and classes right above each class."""
        out: dict[int, list[tuple[int, int]]] = {}
        for rule, (below, above) in enumerate(zip(self.child.tolist(), self.parent.tolist())):
            out.setdefault(below, []).append((rule, above))
        return out


@dataclass(frozen=True)
class _Step:
    """Edges that can be followed at once: those from source[starts[i]] on lead to to[i]."""

    source: Ints
    to: Ints
    starts: Ints


def _steps(source: Ints, target: Ints, order: Ints) -> Iterator[_Step]:
    """Edges in rising order, those of one number together."""
    for number in np.unique(order):
        which = np.flatnonzero(order == number)
        which = which[np.argsort(target[which], kind="stable")]
        to, starts = np.unique(target[which], return_index=True)
        yield _Step(source[which], to, starts)


def _depths(width: int, child: Ints, parent: Ints) -> Ints | None:
    """The longest way of each class from a top; None if edges go in a circle."""
    below: dict[int, list[int]] = {}
    waiting = np.bincount(child, minlength=width)
    for c, p in zip(child.tolist(), parent.tolist()):
        below.setdefault(p, []).append(c)
    depth = np.zeros(width, dtype=np.int64)
    line = np.flatnonzero(waiting == 0).tolist()
    for here in line:  # which grows meanwhile
        for c in below.get(here, ()):
            depth[c] = max(depth[c], depth[here] + 1)
            waiting[c] -= 1
            if not waiting[c]:
                line.append(c)
    return depth if len(line) == width else None
