"""How kernels are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from attacks.failing import Disk, failing

from dssl.circuits import jit
from dssl.circuits.jit import entry, inner, kept, source_stamp


@inner
def doubled(x):  # type: ignore[no-untyped-def]
    return 2 * x


@entry
def double_all(array):  # type: ignore[no-untyped-def]
    for k in range(len(array)):
        array[k] = doubled(array[k])


def test_an_entry_calls_inner_functions_on_the_callers_array() -> None:
    array = np.arange(4)
    double_all(array)
    assert array.tolist() == [0, 2, 4, 6]


def test_the_stamp_changes_with_any_source(tmp_path: Path) -> None:
    """An upgrade that changes an inner function must not find yesterday's kernel on disk."""
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "b.py").write_text("y = 1\n")
    before = source_stamp(tmp_path)
    source_stamp.cache_clear()
    assert source_stamp(tmp_path) == before
    (tmp_path / "b.py").write_text("y = 2\n")
    source_stamp.cache_clear()
    assert source_stamp(tmp_path) != before


def test_numba_judges_entries_by_the_stamp() -> None:
    """The index on disk holds the stamp, where numba would have put the time and size of one file."""
    double_all(np.arange(2))
    index = double_all._cache._cache_file
    with open(index._index_path, "rb") as file:
        assert index._source_stamp.encode() in file.read()


def test_compiling_is_announced_once_and_loading_never(tmp_path: Path) -> None:
    code = 'from dssl import LabelSpace\nLabelSpace("a, b\\na -> b").compile()\nLabelSpace("a, b\\nb -> a").compile()'
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [run.stderr.count("compiling kernels") for run in runs] == [1, 0]


# ---- where nothing can be kept ----


def tripled(x):  # type: ignore[no-untyped-def]
    return 3 * x


def test_code_of_another_version_is_never_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process leaves an index that names code which was not written; older code has another name."""
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit, "source_stamp", lambda folder: "older-version")
    assert kept(tripled)(1) == 3
    (old,) = tmp_path.rglob("*.nbc")
    assert ".older-versio-1." in old.name
    monkeypatch.setattr(jit, "source_stamp", lambda folder: "newer-version")

    def killed(name: str, data: bytes) -> None:
        raise KeyboardInterrupt

    newer = kept(tripled)
    monkeypatch.setattr(newer._cache._cache_file, "_save_data", killed)
    with pytest.raises(KeyboardInterrupt):
        newer(1)
    assert not old.exists()
    again = kept(tripled)
    assert again(1) == 3
    assert dict(again.stats.cache_hits) == {}
    (new,) = tmp_path.rglob("*.nbc")
    assert ".newer-versio-1." in new.name
    last = kept(tripled)
    assert last(1) == 3
    assert list(last.stats.cache_hits.values()) == [1]


def test_a_full_disk_only_means_that_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    function = kept(tripled)
    with failing(Disk(tmp_path, 0, lasting=True)):
        assert function(2) == 6
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_without_any_place_to_write_kernels_are_compiled_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("numba.core.caching.CacheImpl._locator_classes", [])
    monkeypatch.setattr(jit, "_announce", jit._Announce())
    function = kept(tripled)
    with jit.announced():
        assert function(2) == 6
    assert "which cannot be kept: set NUMBA_CACHE_DIR" in capsys.readouterr().err
