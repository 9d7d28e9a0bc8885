"""Budget: how much processor time, how many nodes and bytes compiling may use, and reports of progress.

Seconds are those of the processor, so that a busy machine does not change what can be compiled; those that a new
machine needs to compile its loops do not count. Bytes are those of all arrays that a search holds, whether in use or
kept free for its next step.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from dssl.circuits.jit import thread_time
from dssl.errors import BudgetError

NO_LIMIT = sys.maxsize
SHARE = 2  # the default is the memory divided by this
UNKNOWN = 4 << 30  # bytes allowed where a machine does not say how much memory it has
_REPORT_S = 0.5  # between two reports of progress
_CONTAINER = Path("/sys/fs/cgroup/memory.max")


class Progress(NamedTuple):
    """How far the compiler has come."""

    seconds: float  # of the processor
    decisions: int
    nodes: int  # of the largest search
    components: int  # solved and kept
    share: float  # of all choices gone through, however long those left may take


class Searching(Protocol):
    """What a budget asks of a search."""

    @property
    def decisions(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def components(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def share(self) -> float: ...


class Budget:
    """Seconds, nodes and bytes allowed, of which `nodes` holds for each search and the others for all together.

    >>> budget = Budget(60.0, 1000, 1 << 30)
    >>> budget.afford(1 << 20)  # or a BudgetError
    >>> budget.progress().nodes
    0
    """

    def __init__(
        self,
        seconds: float = float("inf"),
        nodes: int = NO_LIMIT,
        nbytes: int | None = NO_LIMIT,
        report: Callable[[Progress], None] | None = None,
    ) -> None:
        self.seconds, self.nodes, self.report = seconds, nodes, report
        self.bytes = share_of_memory() if nbytes is None else nbytes
        self.searches: Sequence[Searching] = ()
        self.began = self.reported = thread_time()

    @property
    def spent(self) -> float:
        """Seconds since it began; what compiling loops took was taken off, and may round to less than nothing."""
        return max(0.0, thread_time() - self.began)

    def tick(self) -> None:
        """Raise `BudgetError` once the seconds are used up."""
        if self.spent >= self.seconds:
            raise BudgetError(self._message(f"{self.seconds:g} s"))

    def afford(self, more: int) -> None:
        """Raise `BudgetError` if this many more bytes are too many."""
        if sum(search.nbytes for search in self.searches) + more > self.bytes:
            raise BudgetError(self._message(said(self.bytes)))

    def allow(self, nodes: int) -> None:
        """Raise `BudgetError` if a circuit has too many nodes."""
        if nodes > self.nodes:
            raise BudgetError(self._message(f"{self.nodes:,} nodes"))

    def check(self, search: Searching) -> None:
        """Raise `BudgetError` once a search has used anything up, and report progress now and then."""
        self.tick()
        self.afford(0)
        self.allow(search.nodes)
        if self.report is not None and thread_time() - self.reported > _REPORT_S:
            self.reported = thread_time()
            self.report(self.progress())

    def progress(self) -> Progress:
        """How far the searches have come."""
        return Progress(
            self.spent,
            sum(search.decisions for search in self.searches),
            max((search.nodes for search in self.searches), default=0),
            sum(search.components for search in self.searches),
            max((search.share for search in self.searches), default=0.0),
        )

    def _message(self, over: str) -> str:
        p = self.progress()
        return (
            f"compiling the rules takes more than the budget of {over}. It got to {p.decisions:,} decisions, "
            f"{p.nodes:,} nodes and {p.components:,} components kept in {p.seconds:.1f} s, with {p.share:.1%} of the "
            "choices gone through. Raise budget_s, budget_nodes or budget_bytes, drop or split rules, or ask for "
            'relaxation="clauses".'
        )


def said(nbytes: int) -> str:
    """A number of bytes for people.

    >>> said(3 << 29), said(5 << 19)
    ('1.5 GiB', '2.5 MiB')
    """
    return f"{nbytes / (1 << 30):.1f} GiB" if nbytes >= 1 << 30 else f"{nbytes / (1 << 20):.1f} MiB"


@cache
def share_of_memory() -> int:
    """The bytes allowed by default: half of what the machine, or the container, has."""
    sizes = []
    with suppress(AttributeError, ValueError, OSError):  # not on Windows
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(ValueError, OSError):  # "max", or no container
        sizes.append(int(_CONTAINER.read_text()))
    return min(sizes, default=SHARE * UNKNOWN) // SHARE
