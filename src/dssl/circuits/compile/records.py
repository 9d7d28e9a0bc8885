"""Records: the columns of the flat arrays that hold a problem (see `problem`) and the state of its search.

They are plain columns with names for their numbers. numpy's structured arrays would read better (`block[b].first`);
tried on the table of blocks, compiling took 1.04 times as long on a 3-CNF of 60 variables, and as long on others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]
Hashes = NDArray[np.uint64]

# Columns of the tables. A start is where an item's list begins; it ends where the next item's begins.
V_BLOCK, V_USES, V_ALIVE, V_TRAIL = range(4)  # values; V_USES: start of the shares that list the value
B_FIRST, B_SHARES, B_TERMS, B_FREE, B_HIDDEN = range(5)  # blocks; B_FIRST: first value; B_FREE: not a selection
B_RANK, B_DOMAIN, B_GONE, B_QUEUED, B_SEEN, B_SCORE, B_QUEUE, B_ASSIGNED, B_RETIRED = range(5, 14)
S_CLAUSE, S_BLOCK, S_OUTSIDE, S_VALUES, S_LISTED = range(5)  # shares; S_OUTSIDE: the list is of values outside
C_SHARES, C_OWNER, C_SATISFIED, C_LIVE, C_QUEUED, C_SEEN, C_QUEUE = range(7)  # clauses; C_OWNER: block defined, or -1
T_SUM, T_BLOCK, T_COEFFICIENTS, T_LOW, T_HIGH = range(5)  # terms
Z_TERMS, Z_INTERVALS, Z_OWNER, Z_GAP, Z_SPREAD = range(5)  # sums; widest gap between intervals, widest term
Z_LOW, Z_HIGH, Z_DROPPED, Z_QUEUED, Z_SEEN, Z_QUEUE = range(5, 11)


class Problem(NamedTuple):
    """Tables of values, blocks, shares, clauses, terms and sums, with one row per item and one more; and their lists.

    The first columns never change; the others are the state of a search (see `propagation`).
    """

    value: Ints
    block: Ints
    share: Ints
    clause: Ints
    term: Longs
    total: Longs
    lists: Ints  # shares of values, shares of blocks, terms of blocks, values of shares
    coefficient: Longs
    interval: Longs  # (intervals, 2)
    key: Hashes  # (n, 2): of values, blocks (the sum of its living values'), clauses and sums
    changed: Longs  # (n, 3): trail of terms with their range before
    marks: Longs  # lengths of trails and queues, and work done


def copy(p: Problem) -> Problem:
    """The same problem with a state of its own."""
    return Problem(*(array.copy() for array in p))  # type: ignore[arg-type]
