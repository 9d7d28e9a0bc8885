"""Turns: which ways to branch are tried, how far each runs, and whose results are kept.

A fixed order from an elimination of the constraint graph suits rules with structure, and the block with most open
constraints suits those without. Problems that neither ends soon are searched from the middle of a tree of bags, too.
All take turns, measured in steps, never in time, so that the same constraints always give the same circuit. Each runs
in short slices; between them the budget is checked, progress is reported and Ctrl-C is noticed. What is finished
counts: no later attempt can use up the budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from dssl.circuits.compile.budget import Budget
from dssl.circuits.compile.order.decomposition import rank_from_centre
from dssl.circuits.compile.order.ordering import rank_by_degree, rank_by_fill
from dssl.circuits.compile.records import B_RANK, Ints, Problem, copy
from dssl.circuits.compile.search import DECISIONS, DONE, FULL, STEPS, Search, bytes_needed, run, start
from dssl.circuits.compile.store import ENTRIES, NODES
from dssl.circuits.jit import PLAIN
from dssl.errors import BudgetError

SLICE_S = 0.03  # how long the search runs before Python looks up
FIRST_SLICE, LEAST_SLICE = 200_000, 1000  # of work
FIRST_TRY = 1000  # steps before values that no solution takes are looked for
HEAD_START = 20_000  # steps before a rival way to branch joins
TELLING = 30  # times the steps it has done, at most, that a search may have left to be ahead of others
FAR = 1.5  # times the steps left of the leader, and an attempt is far behind
QUICK = 200_000_000  # steps times size below which other ways are tried too, and the smallest circuit kept
LEEWAY = 1000  # steps that these may take more than the first, or an eighth of its own


class Attempt:
    """One way to branch: a search that is begun when its turn comes and runs in slices of about `SLICE_S`."""

    def __init__(self, problem: Problem, rank: Ints, weight: int) -> None:
        self.problem, self.rank, self.weight = problem, rank, weight
        self.search: Search | None = None
        self.slice = FIRST_SLICE
        self.steps = self.decisions = self.nodes = self.components = self.nbytes = 0
        self.left, self._looks = float("inf"), [(0, 0.0)]

    @property
    def share(self) -> float:
        """The share of all choices that is behind the search; what is left may take longer."""
        return 0.0 if self.search is None else self.search.share()

    def give_up(self) -> None:
        """Free the memory; the figures stay."""
        self.search, self.nbytes = None, 0

    def look(self) -> None:
        """Bring `left` up to date: the steps still to go, if the share grows as it did on the whole, or in the second
        half, if that was slower. One that has hardly moved since then is stuck, however large it is.
        """
        steps, before = next(look for look in reversed(self._looks) if 2 * look[0] <= self.steps)
        share = max(self.share, self._looks[-1][1])
        if self.steps > self._looks[-1][0]:
            slowest = (
                max((self.steps - steps) / (share - before), self.steps / share) if share > before else float("inf")
            )
            self.left = (1 - share) * slowest
            self._looks.append((self.steps, share))

    def go_on(self, until: int, budget: Budget) -> bool:
        """Run until that many steps are done in all; whether the search came to an end."""
        search = self._begun(budget)
        while self.steps < until:
            began = time.perf_counter()
            work = self.slice if PLAIN or run.loaded else LEAST_SLICE  # Python may be the one to run it
            status = run(*search[:3], until - self.steps, work, search.margin)
            self._note(search)
            if status == DONE:
                return True
            if status == FULL:
                self._note(search := search.with_room(budget))
            elif self.steps < until and work == self.slice:  # a shorter one says nothing of it
                self._adjust(time.perf_counter() - began)
            budget.check(self)
        return False

    def _begun(self, budget: Budget) -> Search:
        if self.search is None:
            budget.afford(bytes_needed(self.problem))
            own = copy(self.problem)
            own.block[:-1, B_RANK] = self.rank
            self.search = start(own, self.weight)
            self._note(self.search)
        return self.search

    def _note(self, search: Search) -> None:
        counts, sizes = search.stack.counts, search.store.sizes
        self.search, self.nbytes = search, search.nbytes
        self.steps, self.decisions = int(counts[STEPS]), int(counts[DECISIONS])
        self.nodes, self.components = int(sizes[NODES]), int(sizes[ENTRIES])

    def _adjust(self, took: float) -> None:
        """Double a slice that was short, and quarter one that was long."""
        if took < SLICE_S / 2:
            self.slice *= 2
        elif took > 2 * SLICE_S:
            self.slice = max(self.slice // 4, LEAST_SLICE)


def solve(problem: Problem, budget: Budget, sharpened: Callable[[], Problem | None]) -> list[Search]:
    """Searches that came to an end: the first that did, and others where that was quick.

    A problem that is not solved in the first try is replaced by what `sharpened` makes of it; if that is None, the
    problem has no solution, and there are no searches.
    """
    budget.searches = every = attempts(problem, budget)
    winner = _alone(every[0], FIRST_TRY, budget)
    if winner is None:
        better = sharpened()
        if better is None:
            return []
        budget.tick()
        if len(better.clause) > len(problem.clause):  # it knows more than before
            problem = better
            budget.searches = every = attempts(problem, budget)
    winner = winner or _alone(every[0], HEAD_START, budget)
    if winner is None:
        budget.searches = every = rivals(every, problem, budget)
        winner = _race(every, budget)
    budget.searches = done = _finished(winner, every, problem, budget)
    return [attempt.search for attempt in done if attempt.search is not None]


def _finished(winner: Attempt, every: list[Attempt], problem: Problem, budget: Budget) -> list[Attempt]:
    """The winner, and after a quick win the others that need few steps more."""
    done = [winner]
    if winner.steps * (len(problem.share) + len(problem.term)) < QUICK:
        until = winner.steps + max(LEEWAY, winner.steps // 8)
        for other in every:
            budget.searches = [*done, other]
            with suppress(BudgetError):  # there is a result
                if other is not winner and other.go_on(until, budget):
                    done.append(other)
    return done


def _alone(favourite: Attempt, steps: int, budget: Budget) -> Attempt | None:
    """The favourite, if it ends within that many steps."""
    with suppress(BudgetError):  # what is used up is found again when others have had their turn
        if favourite.go_on(steps, budget):
            return favourite
    return None


def _race(every: list[Attempt], budget: Budget) -> Attempt:
    """Whichever ends first; one that uses up the budget leaves the rest of it to the others."""
    running, until = list(every), HEAD_START
    while True:
        leader, after = ahead(running), until + until // 2
        others = [(a, until // (8 if far_behind(a, leader) else 2)) for a in running if a is not leader]
        for attempt, steps in (*others, (leader, after)):
            try:
                if attempt.go_on(steps, budget):
                    return attempt
            except BudgetError:
                if len(running) == 1:
                    raise
                running.remove(attempt)
                attempt.give_up()
        until = after


def ahead(running: list[Attempt]) -> Attempt:
    """Who has the fewest steps left, or the first while that says nothing of any of them."""
    for attempt in running:
        attempt.look()
    best = min(running, key=lambda attempt: attempt.left)
    return best if tells(best) else running[0]


def tells(attempt: Attempt) -> bool:
    """Whether the end of a search is near enough to be seen."""
    return attempt.left <= TELLING * attempt.steps


def far_behind(attempt: Attempt, leader: Attempt) -> bool:
    """Whether an attempt has many more steps left than one that is ahead, as far as that can be seen."""
    return tells(leader) and attempt.left > FAR * leader.left


def rivals(every: list[Attempt], problem: Problem, budget: Budget) -> list[Attempt]:
    """Who races when the favourite does not end soon, the most promising first: it, and others that begin.

    The favourite goes on. Where it keeps to an order, a search from the centre of the graph that heeds open constraints
    a little joins, and one that heeds them above all. Where it heeds them above all, they are as good as one. The wider
    a graph is for its size, the less its centre says, and the more open constraints are to be heeded.
    """
    favourite, rival = every[0], every[-1]
    centre, width = rank_from_centre(problem, budget)
    if centre is None:
        return [favourite, rival]
    blocks = len(centre)
    central = Attempt(problem, centre, 1 + 8 * width // blocks)
    if favourite.weight == 0:
        return [favourite, central, Attempt(problem, centre, blocks)]
    return [central, favourite] if 2 * width < blocks else [favourite, central, rival]


def attempts(problem: Problem, budget: Budget) -> list[Attempt]:
    """The ways to branch, the most promising first, its rival last.

    A graph nearly as wide as it is large has no order worth keeping to, unless it is complete: then one large
    constraint says so, and the order in which it was written is as good as any.
    """
    blocks = len(problem.block) - 1
    by_degree, width = rank_by_degree(problem, budget)
    by_fill = rank_by_fill(problem, budget)
    if by_fill is None:
        by_fill = by_degree
    ways = [(by_fill, 0), (by_degree, 0), (by_fill, blocks)]
    if 3 * width > blocks and width < blocks - 1:
        ways.reverse()
    return [Attempt(problem, rank, weight) for rank, weight in ways]
