"""Python's collector of cyclic garbage, paused while large things without cycles are built.

A collection looks at every object there is. With millions of them that takes seconds, again and again while they are
made, and in all that time Ctrl-C is not heard.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """A context, or a decorator, within which no garbage is collected unless asked for.

    >>> with paused():
    ...     gc.isenabled()
    False

    What was built is then taken as old, or the next collection, which is of what is young, would look at all of it at
    once. Threads may overlap in it: the first to leave lets collections begin again, and none leaves them off.
    """
    enabled = gc.isenabled()
    try:
        gc.disable()  # here, as Ctrl-C may come right after it
        yield
    finally:
        if enabled:
            gc.enable()
            if gc.get_freeze_count() == 0:  # nothing that someone else wants to stay frozen
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
