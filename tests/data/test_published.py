"""Published sets: known sizes and counts where the files are there, small files of the same formats everywhere."""

from __future__ import annotations

import gzip
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from dssl.data import published
from dssl.data.published import load_cifar10, load_hmc, load_mnist, load_mulan, load_svhn, load_zoo, read_idx
from dssl.errors import DataError

# ---- the published files ----


def test_mnist(data_folder: Path) -> None:
    mnist = load_mnist(data_folder)
    assert mnist.train.x.shape == (60000, 1, 28, 28)
    assert np.bincount(mnist.train.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert mnist.test is not None
    assert mnist.test.x.shape == (10000, 1, 28, 28)
    assert mnist.test.y[:4].tolist() == [7, 2, 1, 0]
    assert mnist.space.width == 10


def test_cifar10(data_folder: Path) -> None:
    cifar = load_cifar10(data_folder)
    assert cifar.test is not None
    assert cifar.test.x.shape == (10000, 3, 32, 32)
    assert len(cifar.train.x) % 10000 == 0
    assert cifar.train.y[:3].tolist() == [6, 9, 9]  # frog, truck, truck
    assert cifar.space.columns[6] == "class=frog"
    assert np.bincount(cifar.test.y).tolist() == [1000] * 10


@pytest.mark.parametrize(
    ("name", "width", "edges", "rows"),
    [
        ("cellcycle_FUN", 499, 481, (1628, 848, 1281)),
        ("eisen_FUN", 461, 443, (1058, 529, 837)),
        ("cellcycle_GO", 4125, 5827 - 3, (1625, 848, 1278)),  # three edges come from the root
    ],
)
def test_hierarchies(data_folder: Path, name: str, width: int, edges: int, rows: tuple[int, ...]) -> None:
    yeast = load_hmc(name, data_folder)
    assert (yeast.space.width, len(yeast.space.rules)) == (width, edges)
    parts = [part for part in (yeast.train, yeast.valid, yeast.test) if part is not None]
    assert tuple(len(part.x) for part in parts) == rows
    place = {column: i for i, column in enumerate(yeast.space.columns)}
    pairs = [str(rule).split(" -> ") for rule in yeast.space.rules]
    child, parent = ([place[pair[side].strip('"')] for pair in pairs] for side in (0, 1))
    for part in parts:
        assert np.isfinite(part.x).all()
        assert (part.y[:, child] <= part.y[:, parent]).all()  # closed upward
        assert part.y.any(1).all()


def test_mulan(data_folder: Path) -> None:
    emotions, birds = load_mulan("emotions", data_folder), load_mulan("birds", data_folder)
    assert (emotions.train.x.shape, emotions.train.y.shape) == ((593, 72), (593, 6))
    assert emotions.train.y.sum() == 1108  # cardinality 1.869 (Mulan)
    assert (birds.train.x.shape, birds.train.y.shape) == ((645, 258 + 1 + 18), (645, 19))  # 18 places, one column each
    assert birds.train.y.sum() / 645 == pytest.approx(1.014, abs=1e-3)
    assert "Swainson's Thrush" in birds.space.columns


def test_zoo(data_folder: Path) -> None:
    zoo = load_zoo(data_folder)
    assert np.bincount(zoo.train.y).tolist() == [41, 20, 5, 13, 4, 8, 10]
    assert zoo.train.x.shape == (101, 16)
    assert sorted(set(zoo.train.x[:, zoo.features.index("legs")])) == [0, 2, 4, 5, 6, 8]


# ---- small files of the same formats ----


def idx(array: np.ndarray[Any, Any]) -> bytes:
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_mnist_files_with_and_without_compression_directly_in_the_folder(tmp_path: Path) -> None:
    images = np.arange(2 * 28 * 28).astype(np.uint8).reshape(2, 28, 28)
    for kind in ("train", "t10k"):
        (tmp_path / f"{kind}-images-idx3-ubyte").write_bytes(idx(images))
        (tmp_path / f"{kind}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.array([3, 7], np.uint8))))
    mnist = load_mnist(tmp_path)
    np.testing.assert_array_equal(mnist.train.x[:, 0], images)
    assert mnist.train.y.tolist() == [3, 7]


@pytest.mark.parametrize("data", [b"", b"\0\0\x0d\x01", idx(np.zeros(5, np.uint8))[:-1], b"\0\0\x08\x03\0\0"])
def test_an_idx_file_that_is_cut_short_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(DataError, match="cut short"):
        read_idx(tmp_path / "a")


def test_svhn(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.integers(0, 255, (32, 32, 3, 4), dtype=np.uint8)
    for kind in ("train", "test"):
        savemat(tmp_path / f"{kind}_32x32.mat", {"X": x, "y": np.array([[10], [1], [9], [5]], np.uint8)})
    svhn = load_svhn(tmp_path)
    assert svhn.train.x.shape == (4, 3, 32, 32)
    np.testing.assert_array_equal(svhn.train.x[2, 1], x[:, :, 1, 2])
    assert svhn.train.y.tolist() == [0, 1, 9, 5]  # 10 stands for 0
    savemat(tmp_path / "test_32x32.mat", {"other": 1})
    with pytest.raises(DataError, match="has no X and y"):
        load_svhn(tmp_path)


def record(label: int) -> bytes:
    return bytes([label]) + bytes(range(256)) * 12


def test_cifar_reads_the_batches_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1.bin").write_bytes(record(3) + record(9))
    (tmp_path / "data_batch_4.bin.gz").write_bytes(gzip.compress(record(0)))
    (tmp_path / "test_batch.bin").write_bytes(record(1))
    cifar = load_cifar10(tmp_path)
    assert cifar.train.y.tolist() == [3, 9, 0]
    assert cifar.train.x[0, 1, 0, :3].tolist() == [0, 1, 2]  # 1024 = 4 · 256: each plane begins with 0
    (tmp_path / "test_batch.bin").write_bytes(record(1)[:-1])
    with pytest.raises(DataError, match="CIFAR-10 batch"):
        load_cifar10(tmp_path)


def small_hmc(folder: Path, hierarchy: str, labels: list[str]) -> None:
    for part, rows in (("train", labels), ("valid", labels[:1]), ("test", labels[:1])):
        data = "\n".join(f"{i if i else '?'},{label}" for i, label in enumerate(rows))
        text = f"@relation r\n@attribute a numeric\n@attribute class hierarchical {hierarchy}\n@data\n{data}\n"
        (folder / f"small.{part}.arff").write_text(text)


def test_labels_are_closed_upward_and_gaps_get_the_training_mean(tmp_path: Path) -> None:
    small_hmc(tmp_path, "01,01/02,01/02/07,05", ["01/02/07", "05", "01@05"])
    tree = load_hmc("small", tmp_path)
    assert tree.space.columns == ("01", "01/02", "01/02/07", "05")
    assert tree.train.y.tolist() == [[1, 1, 1, 0], [0, 0, 0, 1], [1, 0, 0, 1]]
    assert tree.train.x[:, 0].tolist() == [1.5, 1, 2]
    assert tree.test is not None
    assert tree.test.x.tolist() == [[1.5]]  # the mean is the training part's, not its own
    small_hmc(tmp_path, "root/a,a/b,root/c,c/b", ["b", "c", "a"])
    graph = load_hmc("small", tmp_path)
    assert dict(zip(graph.space.columns, graph.train.y.T.tolist())) == {"a": [1, 0, 1], "b": [1, 0, 0], "c": [1, 1, 0]}
    small_hmc(tmp_path, "01", ["07"])
    with pytest.raises(DataError, match="class '07'"):
        load_hmc("small", tmp_path)


# ---- files that are not there ----


def test_a_file_that_is_missing_names_the_places_and_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"no 'train-images-idx3-ubyte'.* of mnist in .*\n.*download=True"):
        load_mnist(tmp_path)
    with pytest.raises(DataError, match="no permanent address"):
        load_zoo(tmp_path, download=True)
    monkeypatch.delenv("DSSL_DATA", raising=False)
    with pytest.raises(DataError, match="DSSL_DATA, which is not set"):
        load_mulan("emotions")
    monkeypatch.setenv("DSSL_DATA", str(tmp_path))
    with pytest.raises(DataError, match=str(tmp_path)):
        load_mulan("emotions")


def test_an_archive_that_was_unpacked_in_part_is_unpacked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the batches those that are found are read: the last to be written must be the one that is looked for."""
    archive = tmp_path / "archive.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("test_batch.bin", "data_batch_2.bin", "data_batch_1.bin"):
            (tmp_path / name).write_bytes(record(2))
            tar.add(tmp_path / name, name)
            (tmp_path / name).unlink()
    real = published.files.write_whole

    def killed(path: Path, data: bytes) -> None:
        if len(list(tmp_path.iterdir())) == 3:
            raise KeyboardInterrupt
        real(path, data)

    monkeypatch.setattr(published.files, "write_whole", killed)
    with pytest.raises(KeyboardInterrupt):
        published._unpack(archive)
    assert not (tmp_path / "test_batch.bin").exists()


def test_downloads_go_to_the_folder_with_their_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network: what would be asked for, and an archive made here in its place."""
    asked = []

    def retrieve(url: str, known_hash: str, fname: str, path: Path) -> str:
        asked.append((url, known_hash))
        path.mkdir(exist_ok=True)
        for name, data in (("data_batch_1.bin", record(2)), ("test_batch.bin", record(5))):
            (path / name).write_bytes(data)
        with tarfile.open(path / fname, "w:gz") as tar:
            for name in ("data_batch_1.bin", "test_batch.bin"):
                tar.add(path / name, f"cifar-10-batches-bin/{name}")
                (path / name).unlink()
        return str(path / fname)

    monkeypatch.setattr("pooch.retrieve", retrieve)
    assert load_cifar10(tmp_path, download=True).train.y.tolist() == [2]
    assert load_cifar10(tmp_path, download=True).train.y.tolist() == [2]  # and not again
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    assert asked == [(url, "md5:c32a1d4ab5d03f1284b67883e8d87530")]
    assert all(
        len(h.split(":")[1]) == {"md5": 32, "sha256": 64}[h.split(":")[0]] for h in published._CHECKSUMS.values()
    )
