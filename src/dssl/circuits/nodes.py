"""Kinds of nodes, and loops over the arrays of a circuit that several modules need.

Compiled code imports the kinds from here and not from `circuit`, so that it is compiled anew only when it has changed.
"""

from __future__ import annotations

import numpy as np

from dssl.circuits.jit import always, kept

FALSE, TRUE, LITERAL, AND, OR = range(5)


@kept
def levels(ptr, child):  # type: ignore[no-untyped-def]
    """Longest path from each node down to a leaf."""
    out = np.zeros(len(ptr) - 1, np.int32)
    for node in range(len(out)):
        for edge in range(ptr[node], ptr[node + 1]):
            out[node] = max(out[node], out[child[edge]] + 1)
    return out


@always
def log_values(kind, literal, ptr, child, log_pos, log_neg):  # type: ignore[no-untyped-def]
    """The log weight of each node; what a node does not mention weighs 1."""
    out = np.empty(len(kind))
    for n in range(len(kind)):
        if kind[n] == LITERAL:
            column = abs(literal[n]) - 1
            out[n] = log_pos[column] if literal[n] > 0 else log_neg[column]
        elif kind[n] == AND or kind[n] == TRUE:
            out[n] = 0.0
            for j in range(ptr[n], ptr[n + 1]):
                out[n] += out[child[j]]
        else:
            out[n] = -np.inf
            for j in range(ptr[n], ptr[n + 1]):
                out[n] = np.logaddexp(out[n], out[child[j]])
    return out
