"""The collector of garbage is paused, and goes on afterwards, whatever happens."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from dssl import LabelSpace
from dssl.collector import paused

NAMES = [f"x{i}" for i in range(3000)]
TEXT = ", ".join(NAMES) + "\n" + "\n".join(f"{a} -> {b}" for a, b in pairwise(NAMES))


class Runs:
    """How often the collector ran."""

    def __enter__(self) -> Runs:
        self.count = 0
        gc.callbacks.append(self._note)
        return self

    def _note(self, phase: str, _info: dict[str, int]) -> None:
        self.count += phase == "start"

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._note)


def test_it_goes_on_after_an_error() -> None:
    def interrupted() -> None:
        with paused():
            assert not gc.isenabled()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert gc.isenabled()


def test_ctrl_c_while_it_is_being_paused_leaves_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gc.isenabled()
    pause = gc.disable

    def interrupted() -> None:
        pause()
        raise KeyboardInterrupt

    monkeypatch.setattr(gc, "disable", interrupted)
    with pytest.raises(KeyboardInterrupt), paused():
        pass
    assert gc.isenabled()


def test_one_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def calls(folder: Path) -> dict[str, Callable[[], object]]:
    (folder / "chain.cnf").write_text("p cnf 3000 2999\n" + "".join(f"-{i} {i + 1} 0\n" for i in range(1, 3000)))
    space = LabelSpace(TEXT)
    return {
        "text": lambda: LabelSpace(TEXT),
        "dimacs": lambda: LabelSpace.dimacs(folder / "chain.cnf"),
        "where": lambda: space.where("x0 -> x2999"),
        "compile": space.compile,
        "complete": lambda: space.complete([{"x2990": False}]),
    }


@pytest.mark.parametrize("name", ["text", "dimacs", "where", "compile", "complete"])
def test_nothing_is_collected_meanwhile(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path))
    call = calls(tmp_path)[name]
    gc.collect()
    with Runs() as runs:
        held = call()
    assert runs.count == 0
    assert held is not None
    assert gc.isenabled()


def test_what_was_built_is_old() -> None:
    with paused():
        held = [[i] for i in range(10_000)]
    young = {id(x) for generation in (0, 1) for x in gc.get_objects(generation=generation)}
    assert not young & {id(x) for x in held}


def test_what_someone_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        with paused():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_building_makes_enough_objects_for_many_collections() -> None:
    """The test above can fail."""
    with Runs() as runs:
        held = [(i, [i]) for i in range(20_000)]
    assert runs.count > 10
    assert len(held) == 20_000
