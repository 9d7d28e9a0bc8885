"""Circuits on disk: found again, never half written, never trusted blindly."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dssl.circuits import jit
from dssl.circuits.compile import cache
from dssl.logic.reasoning.constraints import Constraints, Sum

ARRAYS = (
    np.array([2, 2, 4], dtype=np.int8),
    np.array([1, -1, 0], dtype=np.int32),
    np.array([0, 0, 0, 2], dtype=np.int64),
    np.array([0, 1], dtype=np.int32),
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_what_was_saved_is_loaded(place: Path) -> None:
    assert cache.load("a" * 64) is None
    cache.save("a" * 64, ARRAYS)
    loaded = cache.load("a" * 64)
    assert loaded is not None
    assert all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(loaded, ARRAYS))
    assert [path.name for path in place.iterdir()] == ["a" * 64 + ".npz"]


def test_a_damaged_file_is_ignored(place: Path) -> None:
    cache.save("a" * 64, ARRAYS)
    file = place / ("a" * 64 + ".npz")
    whole = file.read_bytes()
    for damaged in (b"", b"not a circuit", whole[: len(whole) // 2]):
        file.write_bytes(damaged)
        assert cache.load("a" * 64) is None


def test_a_file_under_the_wrong_name_is_ignored(place: Path) -> None:
    cache.save("a" * 64, ARRAYS)
    os.rename(place / ("a" * 64 + ".npz"), place / ("b" * 64 + ".npz"))
    assert cache.load("b" * 64) is None


def test_changed_numbers_are_noticed(place: Path) -> None:
    cache.save("a" * 64, ARRAYS)
    with np.load(place / ("a" * 64 + ".npz")) as file:
        content = dict(file)
    content["child"] = content["child"][::-1].copy()
    np.savez(place / ("a" * 64 + ".npz"), **content)
    assert cache.load("a" * 64) is None


def test_a_folder_that_cannot_be_made_means_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path / "file" / "below"))
    cache.save("a" * 64, ARRAYS)
    assert cache.load("a" * 64) is None


def test_a_failed_write_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.save("a" * 64, ARRAYS)
    assert list(place.iterdir()) == []


def test_files_of_processes_that_are_gone_are_removed(place: Path) -> None:
    place.mkdir()
    left = place / f".{'b' * 64}.npz.0123abcd.dssl-partial"
    left.touch()
    cache.save("a" * 64, ARRAYS)
    assert not left.exists()


def test_above_the_limit_what_was_not_used_for_longest_goes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [letter * 64 for letter in "abcd"]
    for age, key in enumerate(keys[:3]):
        cache.save(key, ARRAYS)
        os.utime(place / f"{key}.npz", (1000 + age, 1000 + age))
    (place / "mine.npz").write_text("no circuit")
    os.utime(place / "mine.npz", (0, 0))
    size = (place / f"{keys[0]}.npz").stat().st_size
    assert cache.load(keys[0]) is not None  # the oldest, but used
    monkeypatch.setattr(cache, "LIMIT", 3 * size)
    cache.save(keys[3], ARRAYS)
    assert {path.name for path in place.iterdir()} == {f"{keys[i]}.npz" for i in (0, 2, 3)} | {"mine.npz"}
    monkeypatch.setattr(cache, "LIMIT", 0)
    cache.save(keys[1], ARRAYS)
    assert {path.name for path in place.iterdir()} == {f"{keys[1]}.npz", "mine.npz"}  # the newest stays, however large


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("DSSL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    cache.save("a" * 64, ARRAYS)
    assert cache.load("a" * 64) is None


def test_the_key_follows_the_content() -> None:
    base = Constraints((2, 2), (False, False), ((1, 3),), (), visible=2)
    same = Constraints((2, 2), (False, False), ((1, 3),), (), visible=2, clause_rules=(7,))
    others = [
        Constraints((2, 2), (False, False), ((1, 2),), (), visible=2),
        Constraints((2, 2), (False, False), ((1, 3),), (), visible=1),
        Constraints((2, 2), (True, False), ((1, 3),), (), visible=2),
        Constraints((2, 2), (False, False), ((1, 3),), (Sum((1, 3), (1, 1), ((0, 1),)),), visible=2),
        Constraints((2, 2), (False, False), ((1, 3),), (), visible=1, clause_owners=(1,)),
    ]
    keys = [cache.content_key(c) for c in [base, *others]]
    assert cache.content_key(same) == keys[0]
    assert len(set(keys)) == len(keys)


def test_a_changed_compiler_does_not_find_what_it_made_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade that mends the compiler must not return yesterday's circuits."""
    constraints = Constraints((2, 2), (False, False), ((1, 3),), (), visible=2)
    cache.save(cache.content_key(constraints), ARRAYS)
    assert cache.load(cache.content_key(constraints)) is not None
    monkeypatch.setattr(cache, "source_stamp", lambda path: f"{path.name} was changed")
    assert cache.load(cache.content_key(constraints)) is None


def test_the_key_depends_on_every_source_of_the_compiler() -> None:
    """All of the room, but for its map and for what builds circuits of graphs, which are not kept."""
    folder = cache.PRODUCER.parent
    others = {folder / "__init__.py", folder / "paths.py"}
    assert set(folder.glob("*.py")) - others <= jit._reached(cache.PRODUCER, jit._ROOT)


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache.folder() == tmp_path / "kept"
    monkeypatch.delenv("DSSL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setattr("sys.platform", "linux")
    assert cache.folder() == Path("/somewhere/dssl")
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert cache.folder() == Path("/local/dssl")
