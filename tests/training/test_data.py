"""Data of every kind give the same rows: arrays, sparse matrices, Parquet files, images."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse
import torch
from PIL import Image

from dssl import LabelSpace
from dssl.errors import DataError
from dssl.training.data import ArrayData, ImageFolderData, ParquetData

SPACE = LabelSpace("kind: {cat, dog, eel}\nlegs\nkind = eel -> !legs")

# ---- arrays ----


def test_rows_without_any_known_label_are_unlabelled() -> None:
    y = SPACE.encode([{"kind": "cat"}, {}, {"legs": True}])
    data = ArrayData(np.zeros((3, 2)), y)
    assert (len(data), data.labelled.tolist(), data.unlabelled.tolist()) == (3, [0, 2], [1])


@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "uint8", "bool", "sparse", "tensor", "byte tensor"])
def test_x_of_every_kind_becomes_float32(kind: str) -> None:
    x = np.arange(12).reshape(4, 3) % 2
    held = {
        "sparse": lambda: scipy.sparse.coo_matrix(x),
        "tensor": lambda: torch.tensor(x, dtype=torch.float64),
        "byte tensor": lambda: torch.tensor(x, dtype=torch.uint8),
    }.get(kind, lambda: x.astype(kind))()
    batch = ArrayData(held, np.zeros((4, 1)), weight=[1, 2, 3, 4]).batch([2, 0])
    assert batch.x.dtype == batch.y.dtype == batch.weight.dtype == torch.float32
    assert batch.x.tolist() == x[[2, 0]].tolist()
    assert batch.weight.tolist() == [3, 1]


def test_an_array_mapped_from_a_file_stays_there(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(12.0).reshape(4, 3))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    data = ArrayData(x, np.zeros((4, 1)))
    assert np.shares_memory(data._x, x)
    assert data.batch([1]).x.tolist() == [[3, 4, 5]]


def test_integer_tensors_stay_integers_for_embeddings() -> None:
    assert ArrayData(torch.arange(6).view(3, 2), np.zeros((3, 1))).batch([0]).x.dtype == torch.int64


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (np.zeros((3, 2)), np.zeros((4, 1)), "x has 3 rows, y has shape (4, 1)"),
        (np.zeros((3, 2)), np.zeros(3), "columns of the label space"),
        (np.array([["a"]]), np.zeros((1, 1)), "Give numbers"),
        (np.zeros(3), np.zeros((3, 1)), "one row a sample"),
        (np.array([[np.nan]]), np.zeros((1, 1)), "missing or infinite"),
        (torch.tensor([[1.0], [torch.nan]]), np.zeros((2, 1)), "missing or infinite"),
        (torch.tensor([[-torch.inf]], dtype=torch.bfloat16), np.zeros((1, 1)), "missing or infinite"),
        (np.zeros((1, 1)), np.array([[np.inf]]), "no labels or weights"),
        (np.array([[-np.inf]]), np.zeros((1, 1)), "missing or infinite"),
        (scipy.sparse.csr_matrix([[np.nan]]), np.zeros((1, 1)), "missing or infinite"),
    ],
)
def test_arrays_that_cannot_be_learnt_from_are_refused(x: object, y: object, says: str) -> None:
    with pytest.raises(DataError) as caught:
        ArrayData(x, y)
    assert says in str(caught.value)


# ---- Parquet ----


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
from dssl.training.data import ParquetData
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


# ---- images ----


def picture(path: Path, value: int, size: tuple[int, int] = (6, 4)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, 0, 255)).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    picture(tmp_path / "cat" / "1.png", 10)
    picture(tmp_path / "dog" / "2.PNG", 20, (12, 12))
    picture(tmp_path / "unlabelled" / "3.png", 30)
    picture(tmp_path / "4.bmp", 40)
    (tmp_path / "notes.txt").write_text("not an image")
    return tmp_path


def test_sub_folders_name_classes(folder: Path) -> None:
    data = ImageFolderData(folder, LabelSpace.classes(["cat", "dog"]), size=(4, 6))
    assert [path.name for path in data.paths] == ["4.bmp", "1.png", "2.PNG", "3.png"]
    batch = data.batch([1, 2, 3])
    assert batch.x.shape == (3, 3, 4, 6)
    assert batch.x[:, 0, 0, 0].tolist() == pytest.approx([10 / 255, 20 / 255, 30 / 255])
    assert batch.x[:, 2].min() == 1
    np.testing.assert_array_equal(batch.y, [[1, 0], [0, 1], [np.nan, np.nan]])
    assert (data.labelled.tolist(), data.unlabelled.tolist()) == ([1, 2], [0, 3])


def test_a_table_names_labels_of_several_variables(folder: Path) -> None:
    csv = folder / "labels.csv"
    csv.write_text("file,kind,legs\n4.bmp,eel,0\ncat/1.png,cat,\n")
    data = ImageFolderData(folder, SPACE, labels=csv, size=(4, 4), channels=1)
    np.testing.assert_array_equal(data.batch([0, 1]).y, SPACE.encode([{"kind": "eel", "legs": 0}, {"kind": "cat"}]))
    assert data.batch([0]).x.shape == (1, 1, 4, 4)
    assert data.labelled.tolist() == [0, 1]


def test_worker_processes_decode_the_same_pixels(folder: Path) -> None:
    space = LabelSpace.classes(["cat", "dog"])
    alone = ImageFolderData(folder, space, size=(4, 6))
    team = ImageFolderData(folder, space, size=(4, 6), workers=1)
    try:
        assert torch.equal(team.batch([3, 0, 1]).x, alone.batch([3, 0, 1]).x)
        assert len(pickle.loads(pickle.dumps(team))) == 4  # goes to other processes without its own
    finally:
        team.close()


def test_folders_that_do_not_fit_are_refused(folder: Path, tmp_path: Path) -> None:
    space = LabelSpace.classes(["cat", "dog"])
    with pytest.raises(DataError, match="no images"):
        ImageFolderData(tmp_path / "nothing", space, size=(2, 2))
    with pytest.raises(DataError, match="one variable, not of 2"):
        ImageFolderData(folder, SPACE, size=(2, 2))
    with pytest.raises(DataError, match="2 channels"):
        ImageFolderData(folder, space, size=(2, 2), channels=2)
    with pytest.raises(DataError, match="dog"):
        ImageFolderData(folder, LabelSpace.classes(["cat", "cow"]), size=(2, 2))
    for text, says in (("file,kind\nnone.png,cat\n", "'none.png', which is no image"), ("file,kind\n4.bmp\n", "row 1")):
        (folder / "bad.csv").write_text(text)
        with pytest.raises(DataError, match=says):
            ImageFolderData(folder, SPACE, labels=folder / "bad.csv", size=(2, 2))
    (folder / "4.bmp").write_bytes(b"BM not really")
    with pytest.raises(DataError, match=r"4.bmp' cannot be read"):
        ImageFolderData(folder, space, size=(2, 2)).batch([0])
