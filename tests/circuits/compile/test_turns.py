"""How the compiler's searches take turns: who runs how far, in which slices, and whose circuit is kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from circuits.compile.test_compiler import check_form, cnf, compiled, count_models, random_cnf
from dssl.circuits.compile import compiler, turns
from dssl.circuits.compile.budget import Budget
from dssl.circuits.compile.order import decomposition
from dssl.circuits.compile.records import B_RANK
from dssl.circuits.compile.search import DONE, FULL, MORE, STEPS
from dssl.errors import BudgetError

# ---- results do not depend on turns ----


@pytest.mark.parametrize("head_start", [2, 40, 300])
@pytest.mark.parametrize("quick", [0, turns.QUICK])
def test_searches_that_take_turns_find_the_same_models(
    head_start: int, quick: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes to the end first, and after however many turns."""
    problems = [cnf(*random_cnf(seed)) for seed in (0, 1, 2, 3, 4, 12, 14)]
    expected = [count_models(compiled(constraints)) for constraints in problems]
    assert [count > 0 for count in expected] == [True] * 5 + [False] * 2
    monkeypatch.setattr(decomposition, "TRIES", 3)
    monkeypatch.setattr(turns, "FIRST_TRY", head_start // 2)
    monkeypatch.setattr(turns, "HEAD_START", head_start)
    monkeypatch.setattr(turns, "QUICK", quick)
    for constraints, count in zip(problems, expected):
        circuit = compiled(constraints)
        check_form(circuit)
        assert count_models(circuit) == count


def test_the_circuit_with_fewest_edges_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([(3, 9), (9, 4), (5, 6)])  # nodes and edges, in the order of the searches

    def emit(*arguments: object) -> tuple[np.ndarray, ...]:
        nodes, edges = next(sizes)
        return np.zeros(nodes), np.zeros(nodes), np.zeros(nodes + 1), np.zeros(edges)

    monkeypatch.setattr(compiler, "emit", emit)
    assert len(compiler._compile(cnf(4, [[1, 2], [2, 3], [3, 4]]), Budget())[3]) == 4
    assert next(sizes, None) is None


# ---- whose turn it is ----


class Runner:
    """Stands in for an attempt: comes to its end after so many steps, and writes down how far it was to run."""

    decisions, components, nbytes, share, left = 0, 0, 0, 0.0, float("inf")

    def __init__(self, name: str, length: int, log: list[tuple[str, int]], cost: int = 0) -> None:
        self.name, self.length, self.log, self.steps, self.cost = name, length, log, 0, cost
        self.search: str | None = name

    @property
    def nodes(self) -> int:
        return self.cost * self.steps

    def go_on(self, until: int, budget: Budget) -> bool:
        self.log.append((self.name, until))
        self.steps = max(self.steps, min(until, self.length))
        if self.steps < self.length:
            budget.check(self)
        return self.steps == self.length

    def look(self) -> None:
        """What is left is as it was told."""

    def give_up(self) -> None:
        self.log.append((self.name, -1))
        self.search = None


def solve(
    lengths: tuple[int, int, int],
    size: int,
    monkeypatch: pytest.MonkeyPatch,
    costs: tuple[int, int, int] = (0, 0, 0),
    nodes: int = 0,
) -> tuple[list[Any], list[Any]]:
    """Whose searches `solve` returns, and who was told to run how far, after a head start of 100."""
    log: list[tuple[str, int]] = []
    names = ("favourite", "other", "rival")
    runners = [Runner(name, length, log, cost) for name, length, cost in zip(names, lengths, costs)]
    monkeypatch.setattr(turns, "attempts", lambda problem, budget: runners)
    monkeypatch.setattr(turns, "rivals", lambda every, problem, budget: [every[0], every[-1]])
    monkeypatch.setattr(turns, "FIRST_TRY", 30)
    monkeypatch.setattr(turns, "HEAD_START", 100)
    problem: Any = SimpleNamespace(share=[0] * (size - 1), term=[0], clause=[])
    return turns.solve(problem, Budget(nodes=nodes), lambda: problem), log


LARGE = turns.QUICK  # no search of such a size is quick


def test_the_rival_runs_half_as_far_and_all_go_half_as_far_again(monkeypatch: pytest.MonkeyPatch) -> None:
    done, log = solve((300, 10, 10**6), LARGE, monkeypatch)
    assert log == [
        *(("favourite", 30), ("favourite", 100)),
        *(("rival", 50), ("favourite", 150), ("rival", 75), ("favourite", 225), ("rival", 112), ("favourite", 337)),
    ]
    assert done == ["favourite"]


def test_the_rival_may_win(monkeypatch: pytest.MonkeyPatch) -> None:
    done, log = solve((10**6, 10, 60), LARGE, monkeypatch)
    assert log == [("favourite", 30), ("favourite", 100), ("rival", 50), ("favourite", 150), ("rival", 75)]
    assert done == ["rival"]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ((90, 1090, 1091), ["favourite", "other"]),
        ((90, 1091, 1090), ["favourite", "rival"]),
        ((90, 1091, 1091), ["favourite"]),
    ],
)
def test_after_a_quick_win_the_others_get_a_thousand_steps_more(
    lengths: tuple[int, int, int], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done, log = solve(lengths, 10, monkeypatch)
    assert done == expected
    assert [until for _, until in log[-2:]] == [lengths[0] + 1000] * 2


def test_after_a_quick_race_those_that_ran_get_more_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    done, log = solve((1040, 10, 40), 10, monkeypatch)
    assert (done, log[-1]) == (["rival", "favourite"], ("favourite", 1040))
    monkeypatch.setattr(turns, "LEEWAY", 0)
    assert solve((80, 90, 91), 10, monkeypatch)[0] == ["favourite", "other"]  # an eighth more


def test_quick_is_steps_times_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "QUICK", 900)
    assert solve((90, 10, 10), 9, monkeypatch)[0] == ["favourite", "other", "rival"]
    assert solve((90, 10, 10), 10, monkeypatch)[0] == ["favourite"]


# ---- a closer look at what is hard ----


def test_a_problem_that_takes_more_than_one_turn_is_sharpened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And begun anew only if more is known of it."""
    log: list[tuple[str, int]] = []
    plain: Any = SimpleNamespace(share=[0] * LARGE, term=[], clause=[1])
    better: Any = SimpleNamespace(share=[0] * LARGE, term=[], clause=[1, 2])
    asked: list[Any] = []

    def attempts(problem: Any, budget: Budget) -> list[Any]:
        length = 300 if problem is plain else 20
        return [Runner("plain" if problem is plain else "better", length, log), Runner("rival", 10**6, log)]

    monkeypatch.setattr(turns, "attempts", attempts)
    monkeypatch.setattr(turns, "rivals", lambda every, problem, budget: [every[0], every[-1]])
    monkeypatch.setattr(turns, "FIRST_TRY", 30)
    monkeypatch.setattr(turns, "HEAD_START", 100)
    assert turns.solve(plain, Budget(), lambda: asked.append(1) or better) == ["better"]
    assert log == [("plain", 30), ("better", 100)]
    assert turns.solve(plain, Budget(), lambda: plain) == ["plain"]
    assert turns.solve(plain, Budget(), lambda: None) == []
    assert turns.solve(better, Budget(), lambda: asked.append(1) or None) == ["better"]
    assert len(asked) == 1


# ---- what is finished counts ----


def test_what_comes_after_a_result_cannot_use_up_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    done, log = solve((90, 10**6, 95), 10, monkeypatch, costs=(1, 1000, 1), nodes=100)
    assert ("other", 1090) in log  # it was tried, and cost too much
    assert done == ["favourite", "rival"]


def test_one_that_uses_up_the_budget_leaves_the_rest_to_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    done, log = solve((10**6, 10, 300), LARGE, monkeypatch, costs=(1, 1, 0), nodes=120)
    assert done == ["rival"]
    assert log[:7] == [
        ("favourite", 30),
        ("favourite", 100),
        ("rival", 50),
        ("favourite", 150),
        ("favourite", -1),
        ("rival", 225),
        ("rival", 337),
    ]
    done, _ = solve((300, 10, 10**6), LARGE, monkeypatch, costs=(0, 1, 1), nodes=20)
    assert done == ["favourite"]
    with pytest.raises(BudgetError, match="budget of 20 nodes"):
        solve((300, 10, 10**6), LARGE, monkeypatch, costs=(1, 1, 1), nodes=20)


@pytest.mark.parametrize("seed", [0, 3])
def test_any_budget_that_holds_the_first_result_is_enough(seed: int) -> None:
    """The first way to branch alone decides, not how many nodes the others make beside and after it."""
    constraints = cnf(*random_cnf(seed))
    problem = compiler.build(constraints, compiler.lay_out(constraints, []))
    assert problem is not None
    first = turns.attempts(problem, Budget())[0]
    assert first.go_on(turns.HEAD_START, Budget())
    assert count_models(compiled(constraints, budget_nodes=first.nodes)) == count_models(compiled(constraints))
    with pytest.raises(BudgetError, match="nodes"):
        compiled(constraints, budget_nodes=len(problem.value))


# ---- ways to branch ----


@pytest.mark.parametrize(
    ("blocks", "width", "turned"), [(9, 1, False), (9, 3, False), (9, 4, True), (9, 7, True), (9, 8, False)]
)
def test_a_graph_nearly_as_wide_as_large_has_no_order_worth_keeping(
    blocks: int, width: int, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is complete: then it is as wide as it can be, one less than its blocks."""
    by_fill, by_degree = np.arange(blocks), np.arange(blocks)[::-1]
    chain = cnf(blocks, [[k, k + 1] for k in range(1, blocks)])
    problem = compiler.build(chain, compiler.lay_out(chain, []))
    assert problem is not None
    monkeypatch.setattr(turns, "rank_by_degree", lambda problem, budget: (by_degree, width))
    monkeypatch.setattr(turns, "rank_by_fill", lambda problem, budget: by_fill)
    expected = [(by_fill, 0), (by_degree, 0), (by_fill, blocks)]
    found = [(attempt.rank, attempt.weight) for attempt in turns.attempts(problem, Budget())]
    assert found == (expected[::-1] if turned else expected)
    monkeypatch.setattr(turns, "rank_by_fill", lambda problem, budget: None)
    assert all(attempt.rank is by_degree for attempt in turns.attempts(problem, Budget()))


@pytest.mark.parametrize(
    ("weight", "width", "expected"),
    [
        (0, 1, ["favourite", (1, "centre"), (9, "centre")]),
        (0, 3, ["favourite", (3, "centre"), (9, "centre")]),
        (9, 4, [(4, "centre"), "favourite"]),
        (9, 5, ["favourite", (5, "centre"), "rival"]),
        (9, None, ["favourite", "rival"]),
    ],
)
def test_hard_problems_are_searched_from_the_centre_too(
    weight: int, width: int | None, expected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    centre = np.arange(9) if width is not None else None
    monkeypatch.setattr(turns, "rank_from_centre", lambda problem, budget: (centre, width or 0))
    favourite, other, rival = (turns.Attempt(None, np.zeros(9), weight) for _ in range(3))  # type: ignore[arg-type]
    known = {favourite: "favourite", other: "other", rival: "rival"}
    found = turns.rivals([favourite, other, rival], None, Budget())  # type: ignore[arg-type]
    assert [known.get(a) or (a.weight, "centre" if a.rank is centre else "") for a in found] == expected


class Seen(turns.Attempt):
    """An attempt of which only steps and share are known."""

    def __init__(self, *looks: tuple[int, float]) -> None:
        super().__init__(None, np.zeros(0, np.int32), 0)  # type: ignore[arg-type]
        for self.steps, self.done in looks:
            self.look()

    @property
    def share(self) -> float:
        return self.done


def test_what_is_left_follows_from_the_last_gain_or_the_whole_if_that_was_slower() -> None:
    assert Seen((100, 0.4), (200, 0.6)).left == pytest.approx(200)
    assert Seen((100, 0.4), (200, 0.6), (200, 0.6)).left == pytest.approx(200)  # not a step since
    assert Seen((100, 0.2), (200, 0.8)).left == pytest.approx(50)  # on the whole
    assert Seen((100, 0.4), (200, 0.4)).left == float("inf")
    assert Seen((100, 0.4), (190, 0.4), (200, 0.6)).left == pytest.approx(200)  # a short stop is none
    assert Seen((100, 0.4), (200, 0.1)).left == float("inf")
    assert Seen((100, 0.4), (200, 0.1), (400, 0.5)).left == pytest.approx(1000)  # it is no gain to come back
    idle = Seen()
    idle.steps, idle.done = 0, 0.0
    idle.look()
    assert idle.left == float("inf")


def test_who_has_fewest_steps_left_is_ahead_once_that_can_be_seen() -> None:
    quick, slow = Seen((100, 0.15), (200, 0.3)), Seen((100, 0.25), (200, 0.3))  # 467 and 1,400 left
    assert turns.ahead([slow, quick]) is quick
    assert turns.far_behind(slow, quick)
    assert not turns.far_behind(quick, slow)
    close = Seen((100, 0.17), (200, 0.3))
    assert not turns.far_behind(close, quick)
    stuck = Seen((100, 0.8), (200, 0.801))  # the larger share, and nearly all of its time before it
    assert turns.ahead([stuck, quick]) is quick
    unseen = Seen((100, 0.0), (200, 0.0))
    assert turns.ahead([unseen, stuck]) is unseen
    hopeless = Seen((100, 0.1), (200, 0.101))
    assert turns.ahead([unseen, hopeless]) is unseen
    assert not turns.far_behind(unseen, hopeless)


def test_the_lead_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[tuple[str, int]] = []
    runners: list[Any] = [Runner("favourite", 10**6, log), Runner("rival", 200, log)]
    runners[0].steps, runners[1].steps, runners[1].left = 100, 40, 160.0
    monkeypatch.setattr(turns, "HEAD_START", 100)
    assert turns._race(runners, Budget()) is runners[1]
    assert log == [("favourite", 12), ("rival", 150), ("favourite", 18), ("rival", 225)]  # far behind, it runs less


def test_a_search_begins_when_its_turn_comes_and_has_its_own_order() -> None:
    chain = cnf(6, [[k, k + 1] for k in range(1, 6)])
    problem = compiler.build(chain, compiler.lay_out(chain, []))
    assert problem is not None
    attempt = turns.Attempt(problem, np.arange(6)[::-1], 3)
    assert (attempt.search, attempt.nbytes, attempt.share) == (None, 0, 0.0)
    with pytest.raises(BudgetError, match="MiB"):
        attempt.go_on(1, Budget(nbytes=1000))
    assert attempt.go_on(10**6, Budget())
    assert attempt.search is not None
    assert attempt.search.problem.block[:-1, B_RANK].tolist() == [5, 4, 3, 2, 1, 0]
    assert not problem.block[:-1, B_RANK].any()
    assert attempt.nbytes == attempt.search.nbytes > 0
    nodes = attempt.nodes
    attempt.give_up()
    assert (attempt.search, attempt.nbytes, attempt.nodes) == (None, 0, nodes)


# ---- slices ----


def run_slices(
    took: list[float],
    until: int,
    monkeypatch: pytest.MonkeyPatch,
    full: tuple[int, ...] = (),
    done: int | None = None,
    late: int = 0,
) -> tuple[list[int], bool, int]:
    """The work allowed in each slice that takes so many seconds, whether the search ended, and how often it grew.

    A slice does a step for every thousand units of work. Compiled code is there after `late` slices.
    """
    counts, allowed, grown = {STEPS: 0, turns.DECISIONS: 0}, [], []
    clock, now = iter(took), [100.0]

    class Fake:
        stack, margin, nbytes = SimpleNamespace(counts=counts), 5, 0
        store = SimpleNamespace(sizes=[0, 0, 0])

        def __getitem__(self, key: slice) -> tuple[Any, ...]:
            return "problem", "store", "stack"

        def with_room(self, budget: Any) -> Fake:
            grown.append(len(allowed))
            return self

    def run_slice(problem: str, store: str, stack: str, steps: int, work: int, margin: int) -> int:
        assert (problem, store, stack, margin) == ("problem", "store", "stack", 5)
        assert steps == until - counts[STEPS]
        allowed.append(work)
        counts[STEPS] += min(steps, work // 1000)
        now[0] += next(clock)
        run.loaded = len(allowed) >= late
        return DONE if len(allowed) == done else FULL if len(allowed) in full else MORE

    run: Any = run_slice
    run.loaded = late == 0
    monkeypatch.setattr(turns, "PLAIN", False)
    monkeypatch.setattr(turns, "run", run)
    monkeypatch.setattr(turns, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    checked: list[Any] = []
    budget: Any = SimpleNamespace(check=checked.append)
    attempt = turns.Attempt(None, np.zeros(0, np.int32), 0)  # type: ignore[arg-type]
    attempt.search, attempt.slice = Fake(), 1_000_000  # type: ignore[assignment]
    ended = attempt.go_on(until, budget)
    assert checked == [attempt] * (len(allowed) - ended)
    return [work // 1000 for work in allowed], ended, len(grown)


def test_slices_double_when_short_and_shrink_to_a_quarter_when_long(monkeypatch: pytest.MonkeyPatch) -> None:
    s = turns.SLICE_S
    took = [0.4 * s, 0.6 * s, 1.9 * s, 2.1 * s, 0.4 * s, 9 * s, 9 * s, 9 * s, 9 * s, 9 * s, s]
    allowed, ended, _ = run_slices(took, 8812, monkeypatch)
    assert allowed == [1000, 2000, 2000, 2000, 500, 1000, 250, 62]
    assert not ended


def test_a_slice_never_allows_less_than_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed, _, _ = run_slices([9.0] * 9, 1000 + 250 + 62 + 15 + 3 + 1 + 1, monkeypatch)
    assert allowed == [1000, 250, 62, 15, 3, 1, 1]


def test_a_slice_cut_short_says_nothing_of_the_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed, ended, grown = run_slices([0.0, 0.0, 9.0, 0.0, 0.0], 10**6, monkeypatch, full=(2, 3), done=4)
    assert allowed == [1000, 2000, 2000, 2000]
    assert (ended, grown) == (True, 2)


def test_short_slices_before_there_is_compiled_code_do_not_make_later_ones_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allowed, _, _ = run_slices([0.0] * 60, 50 + 1000 + 2000, monkeypatch, late=50)
    assert allowed == [turns.LEAST_SLICE // 1000] * 50 + [1000, 2000]
