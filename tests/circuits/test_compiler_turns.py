"""How the compiler's searches take turns: who runs how far, in which slices, and whose circuit is kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from circuits.test_compiler import check_form, cnf, compiled, count_models, random_cnf
from dssl.circuits import compiler
from dssl.circuits.search import DONE, FULL, MORE, STEPS

NO_LIMIT = compiler._Budget(float("inf"), 10**18, None)


# ---- results do not depend on turns ----


@pytest.mark.parametrize("head_start", [2, 40, 300])
@pytest.mark.parametrize("quick", [0, compiler.QUICK])
def test_searches_that_take_turns_find_the_same_models(
    head_start: int, quick: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes to the end first, and after however many turns."""
    problems = [cnf(*random_cnf(seed)) for seed in (0, 1, 2, 3, 4, 12, 14)]
    expected = [count_models(compiled(constraints)) for constraints in problems]
    assert [count > 0 for count in expected] == [True] * 5 + [False] * 2
    monkeypatch.setattr(compiler, "HEAD_START", head_start)
    monkeypatch.setattr(compiler, "QUICK", quick)
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
    assert len(compiler._compile(cnf(4, [[1, 2], [2, 3], [3, 4]]), NO_LIMIT)[3]) == 4
    assert next(sizes, None) is None


# ---- whose turn it is ----


class Runner:
    """Stands in for an attempt: comes to its end after so many steps, and writes down how far it was to run."""

    def __init__(self, name: str, length: int, log: list[tuple[str, int]]) -> None:
        self.search, self.length, self.log, self.steps = name, length, log, 0

    def go_on(self, until: int, budget: object, all_of_them: list[Any]) -> bool:
        self.log.append((self.search, until))
        self.steps = max(self.steps, min(until, self.length))
        return self.steps == self.length


def solve(lengths: tuple[int, int, int], size: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[Any]]:
    """Whose searches `_solve` returns, and who was told to run how far, after a head start of 100."""
    log: list[tuple[str, int]] = []
    runners = [Runner(name, length, log) for name, length in zip(("favourite", "other", "rival"), lengths)]
    monkeypatch.setattr(compiler, "_attempts", lambda problem: runners)
    monkeypatch.setattr(compiler, "HEAD_START", 100)
    problem = SimpleNamespace(share=[0] * (size - 1), term=[0])
    return compiler._solve(problem, NO_LIMIT), log  # type: ignore[arg-type]


LARGE = compiler.QUICK  # no search of such a size is quick


def test_the_rival_runs_half_as_far_and_all_go_half_as_far_again(monkeypatch: pytest.MonkeyPatch) -> None:
    done, log = solve((300, 10, 10**6), LARGE, monkeypatch)
    assert log == [
        *(("favourite", 100), ("rival", 50), ("favourite", 150), ("rival", 75), ("favourite", 225), ("rival", 112)),
        ("favourite", 337),
    ]
    assert done == ["favourite"]


def test_the_rival_may_win(monkeypatch: pytest.MonkeyPatch) -> None:
    done, log = solve((10**6, 10, 60), LARGE, monkeypatch)
    assert log == [("favourite", 100), ("rival", 50), ("favourite", 150), ("rival", 75)]
    assert done == ["rival"]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ((90, 1090, 1091), ["favourite", "other"]),
        ((90, 1091, 1090), ["favourite", "rival"]),
        ((90, 1091, 1091), ["favourite"]),
        ((10**6, 1040, 40), ["rival", "other"]),
    ],
)
def test_after_a_quick_win_the_others_get_a_thousand_steps_more(
    lengths: tuple[int, int, int], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done, log = solve(lengths, 10, monkeypatch)
    assert done == expected
    steps = lengths[0] if expected[0] == "favourite" else lengths[2]
    assert [until for _, until in log[-2:]] == [steps + 1000] * 2


def test_quick_is_steps_times_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "QUICK", 900)
    assert solve((90, 10, 10), 9, monkeypatch)[0] == ["favourite", "other", "rival"]
    assert solve((90, 10, 10), 10, monkeypatch)[0] == ["favourite"]


# ---- ways to branch ----


@pytest.mark.parametrize(
    ("blocks", "width", "turned"), [(9, 1, False), (9, 3, False), (9, 4, True), (9, 7, True), (9, 8, False)]
)
def test_a_graph_nearly_as_wide_as_large_has_no_order_worth_keeping(
    blocks: int, width: int, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is complete: then it is as wide as it can be, one less than its blocks."""
    ranks = {True: np.arange(blocks), False: np.arange(blocks)[::-1]}
    started: list[tuple[list[int], int]] = []

    def start(problem: Any, weight: int) -> Any:
        started.append((problem.block[:-1, compiler.B_RANK].tolist(), weight))
        return len(started)

    chain = cnf(blocks, [[k, k + 1] for k in range(1, blocks)])
    problem = compiler.build(chain, compiler.lay_out(chain, []))
    assert problem is not None
    monkeypatch.setattr(compiler, "elimination_rank", lambda problem, fill: (ranks[fill], width if not fill else -1))
    monkeypatch.setattr(compiler.kernel, "start", start)
    by_fill, by_degree = ranks[True].tolist(), ranks[False].tolist()
    expected = [(by_fill, 0), (by_degree, 0), (by_fill, blocks)]
    attempts = compiler._attempts(problem)
    assert started == (expected[::-1] if turned else expected)
    assert [attempt.search for attempt in attempts] == [1, 2, 3]
    started.clear()
    monkeypatch.setattr(compiler, "FILL_BLOCKS", blocks - 1)  # too many for orders by fill-in
    compiler._attempts(problem)
    assert sorted(rank for rank, _ in started) == [by_degree] * 3
    started.clear()
    monkeypatch.setattr(compiler, "FILL_BLOCKS", blocks)
    compiler._attempts(problem)
    assert len({tuple(rank) for rank, _ in started}) == 2


# ---- slices ----


def run_slices(
    took: list[float], until: int, monkeypatch: pytest.MonkeyPatch, full: tuple[int, ...] = (), done: int | None = None
) -> tuple[list[int], bool, int]:
    """The steps asked for in each slice that takes so many seconds, whether the search ended, and how often it grew."""
    counts, asked, grown = {STEPS: 0}, [], []
    clock, now = iter(took), [100.0]

    class Fake:
        stack, margin = SimpleNamespace(counts=counts), 5

        def __getitem__(self, key: slice) -> tuple[Any, ...]:
            return "problem", "store", "stack"

        def with_room(self) -> Fake:
            grown.append(len(asked))
            return self

    def run(problem: str, store: str, stack: str, steps: int, margin: int) -> int:
        assert (problem, store, stack, margin) == ("problem", "store", "stack", 5)
        asked.append(steps)
        counts[STEPS] += steps
        now[0] += next(clock)
        return DONE if len(asked) == done else FULL if len(asked) in full else MORE

    monkeypatch.setattr(compiler.kernel, "run", run)
    monkeypatch.setattr(compiler, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    checked: list[Any] = []
    budget: Any = SimpleNamespace(check=checked.append)
    attempt = compiler._Attempt(Fake(), 1000)  # type: ignore[arg-type]
    ended = attempt.go_on(until, budget, ["all"])  # type: ignore[list-item]
    assert checked == [["all"]] * (len(asked) - ended)
    return asked, ended, len(grown)


def test_slices_double_when_short_and_shrink_to_a_quarter_when_long(monkeypatch: pytest.MonkeyPatch) -> None:
    s = compiler.SLICE_S
    took = [0.4 * s, 0.6 * s, 1.9 * s, 2.1 * s, 0.4 * s, 9 * s, 9 * s, 9 * s, 9 * s, 9 * s, s]
    asked, ended, _ = run_slices(took, 8812, monkeypatch)
    assert asked == [1000, 2000, 2000, 2000, 500, 1000, 250, 62]
    assert not ended


def test_a_slice_never_has_fewer_than_16_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, _, _ = run_slices([9.0] * 6, 1000 + 250 + 62 + 16 + 16 + 3, monkeypatch)
    assert asked == [1000, 250, 62, 16, 16, 3]  # and none goes further than it should


def test_a_search_that_is_full_grows_and_one_that_is_done_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ended, grown = run_slices([0.0, 0.0, 9.0, 0.0, 0.0], 10**6, monkeypatch, full=(2, 3), done=4)
    assert asked == [1000, 2000, 2000, 2000]  # a slice that was cut short says nothing of the speed
    assert (ended, grown) == (True, 2)
