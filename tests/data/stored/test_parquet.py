"""Rows of Parquet files, which stay there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dssl import LabelSpace
from dssl.data.stored.parquet import ParquetData
from dssl.errors import DataError

SPACE = LabelSpace("kind: {cat, dog, eel}\nlegs\nkind = eel -> !legs")

# ---- arrays ----


@pytest.fixture
def table(tmp_path: Path) -> list[Path]:
    """Two files of 250 rows; every fifth row has a label, every tenth a whole one."""
    paths = []
    for part in range(2):
        rows = np.arange(250) + 250 * part
        frame = pl.DataFrame(
            {
                "a": rows.astype(np.float32),
                "b": -rows.astype(np.float64),
                "species": [["cat", "dog", "eel"][r % 3] if r % 5 == 0 else None for r in rows],
                "legs": [r % 3 != 2 if r % 10 == 0 else None for r in rows],
                "w": rows / 500,
            }
        )
        paths.append(tmp_path / f"part-{part}.parquet")
        frame.write_parquet(paths[-1], row_group_size=60)
    return paths


LABELS = {"species": "kind", "legs": "legs"}


@pytest.mark.parametrize("block", [7, 64, 1000])  # few rows fit a window of 2·7: labelled ones are then not held
def test_parquet_gives_the_rows_that_are_asked_for(table: list[Path], block: int) -> None:
    data = ParquetData(table, ["a", "b"], LABELS, SPACE, weight="w", block=block, window=2)
    assert len(data) == 500
    assert data.labelled.tolist() == list(range(0, 500, 5))
    rows = np.random.default_rng(0).permutation(500)
    batch = data.batch(rows)
    assert batch.x.tolist() == [[r, -r] for r in rows]
    assert batch.weight.numpy() == pytest.approx(rows / 500)
    full = data.batch([10, 11, 15])
    expected = SPACE.encode([{"kind": "dog", "legs": True}, {}, {"kind": "cat"}])
    np.testing.assert_array_equal(full.y, expected)
    assert len(data._cache) <= 4
    folder = ParquetData(table[0].parent, ["a", "b"], LABELS, SPACE, block=block)
    assert folder.batch(rows).x.tolist() == batch.x.tolist()


def test_an_epoch_visits_every_row_once_and_few_blocks_at_a_time(table: list[Path]) -> None:
    data = ParquetData(table, ["a"], LABELS, SPACE, block=10, window=3)
    order = data.order(data.unlabelled, np.random.default_rng(1))
    assert sorted(order) == data.unlabelled.tolist()
    blocks = order // 10
    for start in range(0, len(order) - 24, 24):  # three blocks have 24 unlabelled rows
        assert len(set(blocks[start : start + 24])) <= 6
    assert (np.diff(order[:24]) < 0).sum() > 5  # shuffled within
    assert not np.array_equal(order, data.order(data.unlabelled, np.random.default_rng(2)))


def test_parquet_files_that_do_not_fit_are_refused(table: list[Path], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no file"):
        ParquetData(tmp_path / "none.parquet", ["a"], LABELS, SPACE)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="there is no file"):
        ParquetData(tmp_path / "empty", ["a"], LABELS, SPACE)
    with pytest.raises(DataError, match="no column 'c'"):
        ParquetData(table, ["c"], LABELS, SPACE)
    with pytest.raises(DataError, match="one label column, 'legs', for 2 variables"):
        ParquetData(table, ["a"], "legs", SPACE)
    pl.DataFrame({"a": [1.0, None], "legs": [True, False]}).write_parquet(tmp_path / "gap.parquet")
    gap = ParquetData(tmp_path / "gap.parquet", ["a"], "legs", LabelSpace("legs"), block=1, window=1)
    with pytest.raises(DataError, match=r"gap.parquet', rows 1 to 1, has missing"):
        gap.batch([1])


def test_one_label_column_and_columns_of_the_spaces_own_names(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1.0, 2.0], "legs": [1, None]}).write_parquet(tmp_path / "a.parquet")
    for labels in ("legs", ["legs"]):
        data = ParquetData(tmp_path / "a.parquet", ["a"], labels, LabelSpace("legs"))
        assert data.labelled.tolist() == [0]


STREAM = """
import resource, sys
import numpy as np
from dssl import LabelSpace
from dssl.data.stored.parquet import ParquetData
from dssl.training.streams import Streams

paths = [sys.argv[1]] * int(sys.argv[2])
data = ParquetData(paths, [f"f{i}" for i in range(32)], "y", LabelSpace("y"), block=4096, window=4)
streams = Streams(data, 16, 64, 0)
seen = set()
for step in range(40):
    rows = streams.at(step * len(data) // 64 // 40)
    assert data.batch(rows).x.shape == (len(rows), 32)
print(len(data), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Twice and eighteen times 8 MB of features, batches from all over them: the peak differs by a fraction of that."""
    random = np.random.default_rng(0)
    n = 65536
    columns = {f"f{i}": random.normal(size=n).astype(np.float32) for i in range(32)}
    frame = pl.DataFrame({**columns, "y": [bool(i % 2) if i % 100 == 0 else None for i in range(n)]})
    frame.write_parquet(tmp_path / "a.parquet", row_group_size=8192)
    peaks = []
    for copies in (2, 18):
        done = subprocess.run(
            [sys.executable, "-c", STREAM, str(tmp_path / "a.parquet"), str(copies)],
            capture_output=True,
            text=True,
            check=True,
        )
        rows, kilobytes = map(int, done.stdout.split())
        assert rows == copies * n
        peaks.append(kilobytes / 1024)
    assert peaks[1] - peaks[0] < 0.5 * 16 * 8
