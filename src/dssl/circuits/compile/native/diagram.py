"""Diagram: the nodes of a circuit that decides one block after another, as they are made from the last block up."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from dssl.circuits.compile.emission import Arrays
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE

Arms = tuple[tuple[int, int], ...]  # the literal of a value, 0 if it is not shown, and the node that follows from it


class Diagram:
    """Nodes in lists, children before parents; the nodes FALSE and TRUE have the numbers of their kinds.

    >>> diagram = Diagram()
    >>> second = diagram.decisions([-2, 2])(((2, TRUE),))
    >>> first = diagram.decisions([-1, 1])(((-1, TRUE), (1, second)))
    >>> diagram.below(first)[1].tolist()  # ¬1 ∨ 1 ∧ 2
    [2, -1, 1, 0, 0]
    """

    def __init__(self) -> None:
        self.kind, self.literal, self.ptr = [FALSE, TRUE], [0, 0], [0, 0, 0]
        self.child: list[int] = []

    def add(self, kind: int, literal: int, *children: int) -> int:
        """A new node; its number."""
        self.kind.append(kind)
        self.literal.append(literal)
        self.child.extend(children)
        self.ptr.append(len(self.child))
        return len(self.kind) - 1

    def decisions(self, literals: Iterable[int]) -> Callable[[Arms], int]:
        """A function that makes the nodes of one block: one of its arms, equal ones once. No arms are FALSE."""
        leaf = {of: self.add(LITERAL, of) for of in literals if of}
        known: dict[Arms, int] = {(): FALSE}

        def term(of: int, node: int) -> int:
            if not of:
                return node
            return leaf[of] if node == TRUE else self.add(AND, 0, leaf[of], node)

        def decide(arms: Arms) -> int:
            if arms not in known:
                terms = [term(of, node) for of, node in arms]
                known[arms] = self.add(OR, 0, *terms) if len(terms) > 1 else terms[0]
            return known[arms]

        return decide

    def below(self, root: int) -> Arrays:
        """The arrays of the nodes that lie below the root, which becomes the last."""
        used = np.zeros(len(self.kind), dtype=bool)
        used[root] = True
        for node in range(root, -1, -1):
            if used[node]:
                used[self.child[self.ptr[node] : self.ptr[node + 1]]] = True
        new, keep = np.cumsum(used) - 1, np.flatnonzero(used)
        sizes = np.diff(np.array(self.ptr))
        return (
            np.array(self.kind, np.int8)[keep],
            np.array(self.literal, np.int32)[keep],
            np.concatenate([[0], np.cumsum(sizes[keep])]),
            new[np.array(self.child, np.int64)[np.repeat(used, sizes)]].astype(np.int32),
        )
