"""How kernels are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from dssl.circuits.jit import entry, inner, source_stamp


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
