"""Budgets: what is counted, what is said, and how much there is by default."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dssl.circuits.compile import budget as module
from dssl.circuits.compile.budget import UNKNOWN, Budget, Progress, said, share_of_memory
from dssl.errors import BudgetError


def search(nodes: int = 0, nbytes: int = 0) -> Any:
    return SimpleNamespace(decisions=3, nodes=nodes, components=2, nbytes=nbytes, share=0.25)


def test_nothing_is_used_up_by_default() -> None:
    budget = Budget()
    budget.searches = [search(10**12, 10**15)]
    budget.check(budget.searches[0])


def test_seconds_are_those_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with other things does not change what can be compiled."""
    budget = Budget(seconds=0.05)
    time.sleep(0.1)
    budget.check(search())
    now = module.thread_time() + 0.06
    monkeypatch.setattr(module, "thread_time", lambda: now)
    with pytest.raises(BudgetError, match=r"budget of 0\.05 s"):
        budget.tick()


def test_no_seconds_are_used_up_at_once_even_if_the_clock_rounds_down(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(seconds=0.0)
    began = budget.began
    monkeypatch.setattr(module, "thread_time", lambda: began - 1e-12)
    with pytest.raises(BudgetError, match=r"budget of 0 s"):
        budget.tick()
    assert budget.progress().seconds == 0


def test_nodes_are_counted_for_each_search_and_bytes_for_all() -> None:
    budget = Budget(nodes=10, nbytes=100)
    budget.searches = [search(10, 50), search(10, 50)]
    budget.check(budget.searches[0])
    with pytest.raises(BudgetError, match=r"budget of 0\.0 MiB\. It got to 6 decisions, 10 nodes and 4 components"):
        budget.afford(1)
    budget.searches = [search(11), search(5)]
    budget.check(budget.searches[1])
    with pytest.raises(
        BudgetError, match=r"budget of 10 nodes.* with 25\.0% of the choices .*budget_bytes.*relaxation"
    ):
        budget.check(budget.searches[0])


def test_progress_is_reported_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Progress] = []
    budget = Budget(report=heard.append)
    budget.searches = [search(7), search(4)]
    budget.check(budget.searches[0])
    assert heard == []
    monkeypatch.setattr(module, "_REPORT_S", 0.0)
    budget.check(budget.searches[0])
    assert [(p.decisions, p.nodes, p.components, p.share) for p in heard] == [(6, 7, 4, 0.25)]


def test_the_default_is_half_of_the_memory_of_machine_or_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(module.os, "sysconf", pages.__getitem__, raising=False)
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(module, "_CONTAINER", limit)
    for text, expected in ((None, 2_048_000), ("max\n", 2_048_000), ("1000000\n", 500_000), ("9000000\n", 2_048_000)):
        if text is not None:
            limit.write_text(text)
        assert share_of_memory.__wrapped__() == expected
    monkeypatch.delattr(module.os, "sysconf")
    limit.unlink()
    assert share_of_memory.__wrapped__() == UNKNOWN
    assert Budget(nbytes=None).bytes == share_of_memory()


def test_bytes_are_said_as_people_say_them() -> None:
    assert [said(1 << 30), said((1 << 30) - 1), said(0)] == ["1.0 GiB", "1024.0 MiB", "0.0 MiB"]
