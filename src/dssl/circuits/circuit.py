"""Circuit: a deterministic, decomposable circuit over the columns of a label space, as flat arrays.

Nodes stand in topological order, children before parents, the root last. `kind` is one of FALSE, TRUE, LITERAL,
AND, OR; `literal` holds ``column + 1`` for "column is true" and ``-(column + 1)`` for "column is false"
(0 for other kinds); the children of node n are ``child[ptr[n]:ptr[n + 1]]``.

Columns are those of the space, followed by one column a soft rule (true exactly when the rule holds).
A binary column stands alone. The columns of a categorical variable form a block of which exactly one is true:
its literals are positive only, and two of them exclude each other. A variable that a branch does not mention is
free there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FALSE, TRUE, LITERAL, AND, OR = range(5)


@dataclass(frozen=True, eq=False)
class Circuit:
    """A deterministic, decomposable circuit; see the module's docstring for the form of its arrays."""

    kind: NDArray[np.int8]
    literal: NDArray[np.int32]
    ptr: NDArray[np.int64]
    child: NDArray[np.int32]
    starts: NDArray[np.int32]  # first column of each block, and one past the last: soft rules are binary blocks
    categorical: NDArray[np.bool_]  # of each block
    names: tuple[str, ...]  # of the space's columns (soft rules' columns follow and have no name)
    soft: tuple[float, ...] = ()  # probability p of each soft rule

    @property
    def width(self) -> int:
        """Columns of the space: what `log_pos` and `log_neg` have last."""
        return len(self.names)

    @property
    def nodes(self) -> int:
        return len(self.kind)

    @property
    def edges(self) -> int:
        return len(self.child)
