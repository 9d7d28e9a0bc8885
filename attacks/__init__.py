"""Attacks on the library at full size, each by a command of its own; `docs/trust.md` has their figures.

    python attacks/precision.py     numbers against mpmath
    python attacks/threads.py       public objects shared by threads; operations that depend on their number
    python attacks/kills.py         kill -9 at random instants
    python attacks/load.py          many cycles, many rows, many clients
    python attacks/mutants.py       faults put into the source: do the tests notice?

The test suite (`tests/trust`) runs the same functions on a smaller scale.
"""
