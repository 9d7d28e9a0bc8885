"""Public objects shared by threads: the attack of `attacks/threads.py` on a small scale, and that it can fail."""

from __future__ import annotations

import inspect
import re
import time
from pathlib import Path
from typing import Any

import pytest
from attacks.shared_objects import Case, cases, faults

import dssl

PAGE = Path(__file__).parents[2] / "docs" / "threads.md"
CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answers_do_not_depend_on_who_else_asks(case: Case) -> None:
    assert faults(case, threads=4, rounds=1) == []


class Careless:
    """Looks like a value and keeps its last question in itself."""

    def double(self, number: int) -> int:
        self.number = number
        time.sleep(1e-3)
        return 2 * self.number


def test_a_careless_object_is_found() -> None:
    def asking(number: int) -> Any:
        return lambda careless: careless.double(number)

    questions = tuple(asking(i) for i in range(20))
    assert faults(Case("careless", Careless, questions), threads=4, rounds=1)
    assert not faults(Case("careless", Careless, questions, shared=False), threads=4, rounds=1)


def test_an_error_in_one_thread_is_found() -> None:
    said: list[int] = []

    def second(_: Any) -> None:
        said.append(0)
        if len(said) > 1:
            raise RuntimeError("no more")

    assert faults(Case("once", object, (second,)), threads=2, rounds=1)[0] == "RuntimeError: no more"


def test_every_public_name_is_attacked_and_says_whether_threads_may_share_it() -> None:
    attacked = {case.name.partition(".")[0] for case in CASES}
    assert attacked == set(dssl.__all__)
    table = set(re.findall(r"`(\w+)`", "\n".join(line for line in PAGE.read_text().splitlines() if line[:1] == "|")))
    assert set(dssl.__all__) <= table
    for name in dssl.__all__:
        text = inspect.getdoc(getattr(dssl, name)) or ""
        assert re.search(r"\b[Tt]hreads?\b", text.rsplit("\n\n", 1)[-1]), f"{name} says nothing of threads"
