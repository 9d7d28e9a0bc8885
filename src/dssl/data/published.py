"""Readers of published data sets, from the files their authors distribute.

Files are looked for in `folder`, otherwise in the folder that the environment variable DSSL_DATA names, there or in a
sub-folder with the set's name; compressed (.gz) or not. With ``download=True`` a file that is missing is fetched from
where it is published and checked against its checksum; sets without a permanent address say so instead.
"""

from __future__ import annotations

import csv
import math
import os
import struct
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from dssl import files
from dssl.circuits.formats.packed import Damaged, unpacked
from dssl.data.formats.arff import Arff, parents_of, read_arff, with_parents
from dssl.data.formats.matlab import read_matlab
from dssl.errors import DataError
from dssl.logic.language.variables import shown
from dssl.logic.space import LabelSpace


@dataclass(frozen=True)
class Split:
    """x (n, …) and y: classes (n,) as indices into the space's values, or columns (n, width) of 0 and 1."""

    x: NDArray[Any]
    y: NDArray[Any]


@dataclass(frozen=True)
class Published:
    """A published set: what its labels may be, its splits, and the names of its features if they have any."""

    space: LabelSpace
    train: Split
    test: Split | None = None
    valid: Split | None = None
    features: tuple[str, ...] = ()


# ---- finding files ----

_DIGITS = [str(digit) for digit in range(10)]
_MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_CIFAR_URL = "https://www.cs.toronto.edu/~kriz/"
_SVHN_URL = "http://ufldl.stanford.edu/housenumbers/"
_CHECKSUMS = {
    "train-images-idx3-ubyte.gz": "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    "cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530",
    "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
}


def _folders(folder: str | Path | None, name: str) -> list[Path]:
    given = folder if folder is not None else os.environ.get("DSSL_DATA")
    return [] if given is None else [Path(given) / name, Path(given)]


def _find(folder: str | Path | None, name: str, file: str, url: str | None = None, download: bool = False) -> Path:
    """A file of a set, with or without .gz; downloaded if that is asked for and known to be possible."""
    plain = file.removesuffix(".gz")
    for place in _folders(folder, name):
        for candidate in (place / plain, place / f"{plain}.gz"):
            if candidate.is_file():
                return candidate
    if download and url is not None:
        return _downloaded(folder, name, file, url)
    where = " or ".join(f"'{place}'" for place in _folders(folder, name)) or "DSSL_DATA, which is not set"
    if download:
        how = "It has no permanent address to download it from: get it from its authors, and put it there."
    else:
        how = "Put it there" + (", or use download=True." if url is not None else ", or name its folder.")
    raise DataError(f"there is no '{plain}' or '{plain}.gz' of {name} in {where}\n{how}")


def _downloaded(folder: str | Path | None, name: str, file: str, url: str) -> Path:
    import pooch

    places = _folders(folder, name)
    path = places[0] if places else Path(pooch.os_cache("dssl")) / name
    return Path(pooch.retrieve(url + file, known_hash=_CHECKSUMS[file], fname=file, path=path))


def _bytes(path: Path) -> bytes:
    try:
        return unpacked(path)
    except Damaged as error:
        raise DataError(
            f"'{path}' cannot be unpacked: {error}\nGet the file again from where it is published."
        ) from None


def _truncated(path: Path, wanted: str) -> DataError:
    return DataError(f"'{path}' is not {wanted}, or it is cut short\nGet the file again from where it is published.")


# ---- images ----


def load_mnist(folder: str | Path | None = None, download: bool = False) -> Published:
    """Handwritten digits: x (60000, 1, 28, 28) of bytes, and 10,000 to test."""
    parts = []
    for kind in ("train", "t10k"):
        images = _find(folder, "mnist", f"{kind}-images-idx3-ubyte.gz", _MNIST_URL, download)
        labels = _find(folder, "mnist", f"{kind}-labels-idx1-ubyte.gz", _MNIST_URL, download)
        parts.append(Split(read_idx(images)[:, None], read_idx(labels).astype(np.int64)))
    return Published(LabelSpace.classes(_DIGITS, "digit"), parts[0], parts[1])


_AXES = 32  # of an array, at most: what every numpy can hold


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes in MNIST's format: two zeros, the type (8), the number of dimensions, sizes, data."""
    data = _bytes(path)
    if len(data) < 4 or data[:3] != b"\0\0\x08" or data[3] > _AXES or len(data) < 4 + 4 * data[3]:
        raise _truncated(path, "an idx file of bytes")
    shape = struct.unpack(f">{data[3]}I", data[4 : 4 + 4 * data[3]])
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * data[3])
    if not values.size or values.size != math.prod(shape):  # exact, where numpy's product would wrap around
        raise _truncated(path, f"an idx file of {shape}")
    return values.reshape(shape).copy()


_CIFAR_BATCH = 10_000 * 3073  # bytes
_CIFAR_CLASSES = "airplane automobile bird cat deer dog frog horse ship truck".split()


def load_cifar10(folder: str | Path | None = None, download: bool = False) -> Published:
    """Photographs of ten kinds of things: x (50000, 3, 32, 32) of bytes, and 10,000 to test.

    Reads those of the five training batches that are found.
    """
    if download and not any(list(f.glob("test_batch.bin*")) for f in _folders(folder, "cifar10")):
        _unpack(_downloaded(folder, "cifar10", "cifar-10-binary.tar.gz", _CIFAR_URL))
        folder = folder if _folders(folder, "cifar10") else _cache()
    first = _find(folder, "cifar10", "data_batch_1.bin.gz", _CIFAR_URL)
    batches = [f for i in range(1, 6) for f in sorted(first.parent.glob(f"data_batch_{i}.bin*"))[:1]]
    read = [read_cifar(path) for path in batches]
    train = Split(np.concatenate([part.x for part in read]), np.concatenate([part.y for part in read]))
    test = read_cifar(_find(folder, "cifar10", "test_batch.bin.gz", _CIFAR_URL))
    return Published(LabelSpace.classes(_CIFAR_CLASSES), train, test)


def _cache() -> Path:
    import pooch

    return Path(pooch.os_cache("dssl"))


def _unpack(archive: Path) -> None:
    """The batches of the archive, beside it: known names only, each a plain file no longer than a batch."""
    wanted = {"test_batch.bin", *(f"data_batch_{i}.bin" for i in range(1, 6))}
    try:
        with tarfile.open(archive) as tar:
            members = {Path(m.name).name: m for m in tar if m.isreg() and m.size <= _CIFAR_BATCH}
            found = {name: tar.extractfile(m) for name, m in members.items() if name in wanted}
            held = {name: file.read() for name, file in found.items() if file is not None}
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(f"'{archive}' cannot be unpacked: {error}\nRemove it, and download it again.") from None
    if not {"test_batch.bin", "data_batch_1.bin"} <= set(held):
        raise DataError(f"'{archive}' is not an archive of CIFAR-10\nRemove it, and download it again.")
    for name, content in sorted(held.items()):  # the test batch last: if it is there, all are
        files.write_whole(archive.parent / name, content)


def read_cifar(path: Path) -> Split:
    """A batch in the binary format: a byte of label, then the red, green and blue planes of 32×32."""
    data = np.frombuffer(_bytes(path), np.uint8)
    if data.size == 0 or data.size % 3073 or data[::3073].max() > 9:
        raise _truncated(path, "a CIFAR-10 batch in the binary format")
    records = data.reshape(-1, 3073)
    return Split(records[:, 1:].reshape(-1, 3, 32, 32).copy(), records[:, 0].astype(np.int64))


def load_svhn(folder: str | Path | None = None, download: bool = False) -> Published:
    """House numbers, cropped to digits: x (73257, 3, 32, 32) of bytes, and 26,032 to test."""
    names = [f"{kind}_32x32.mat" for kind in ("train", "test")]
    parts = [read_svhn(_find(folder, "svhn", name, _SVHN_URL, download)) for name in names]
    return Published(LabelSpace.classes(_DIGITS, "digit"), parts[0], parts[1])


def read_svhn(path: Path) -> Split:
    """A Matlab file with X (32, 32, 3, n) and y (n, 1), in which 10 stands for the digit 0."""
    try:
        held = read_matlab(path)
    except Damaged:
        raise _truncated(path, "a Matlab file of version 5") from None
    if "X" not in held or "y" not in held:
        raise DataError(f"'{path}' has no X and y\nUse the cropped digits, format 2, of SVHN.")
    x, y = held["X"], held["y"]
    if x.ndim != 4 or x.shape[:3] != (32, 32, 3) or x.dtype != np.uint8:
        raise DataError(f"'{path}' has no X (32, 32, 3, n) of bytes\nUse the cropped digits, format 2, of SVHN.")
    if y.shape != (x.shape[3], 1) or y.dtype.kind not in "iuf" or not np.isin(y, range(11)).all():
        raise DataError(f"'{path}' has no y with a digit for each image\nUse the cropped digits, format 2, of SVHN.")
    return Split(np.ascontiguousarray(x.transpose(3, 2, 0, 1)), y.ravel().astype(np.int64) % 10)


# ---- hierarchies: the yeast sets of Clus-HMC ----


def load_hmc(name: str, folder: str | Path | None = None, download: bool = False) -> Published:
    """Functions of yeast genes, in the FunCat tree or the Gene Ontology: "cellcycle_FUN", "cellcycle_GO", …

    Labels are closed upward: a gene has every class above one it has. Missing features get their column's mean in the
    training part. The name of the hierarchy's root, which every gene would have, is left out.
    """
    parts = [read_arff(_find(folder, "hmc", f"{name}.{kind}.arff.gz", None, download)) for kind in _HMC_PARTS]
    train = parts[0]
    if train.hierarchy is None:
        raise DataError(f"the {name} files have no hierarchical class\nUse files with '@ATTRIBUTE class hierarchical'.")
    parents = parents_of(train.hierarchy)
    space = LabelSpace.hierarchy(parents)
    means = np.nansum(train.x, axis=0) / np.maximum(1, (~np.isnan(train.x)).sum(axis=0))
    read = [
        Split(np.where(np.isnan(p.x), means, p.x).astype(np.float32), _closed(p.labels, parents, space.columns))
        for p in parts
    ]
    return Published(space, read[0], read[2], read[1], train.features)


_HMC_PARTS = ("train", "valid", "test")


def _closed(labels: Sequence[str], parents: dict[str, list[str]], columns: Sequence[str]) -> NDArray[np.uint8]:
    """Rows of '@'-joined classes as columns (n, width), with all classes above them."""
    place = {name: i for i, name in enumerate(columns)}
    y = np.zeros((len(labels), len(columns)), np.uint8)
    for row, joined in enumerate(labels):
        y[row, [place[name] for name in with_parents(joined, parents, f"row {row}")]] = 1
    return y


# ---- multi-label sets of Mulan ----


def load_mulan(name: str, folder: str | Path | None = None, download: bool = False) -> Published:
    """A multi-label set in Mulan's format, such as "emotions" or "birds": an ARFF file, and labels named in XML.

    Features with more than two nominal values become one column per value.
    """
    table = read_arff(_find(folder, "mulan", f"{name}.arff.gz", None, download))
    labels = read_label_names(_find(folder, "mulan", f"{name}.xml", None, download))
    absent = [label for label in labels if label not in table.features]
    if absent:
        raise DataError(
            f"the label '{absent[0]}' is not an attribute of {name}.arff\nUse the XML file of the same set."
        )
    is_label = np.array([feature in set(labels) for feature in table.features])
    order = [table.features.index(label) for label in labels]
    x, features = _expanded(table, np.flatnonzero(~is_label))
    return Published(LabelSpace.attributes(labels), Split(x, table.x[:, order].astype(np.uint8)), features=features)


def read_label_names(path: Path) -> list[str]:
    """The names in a Mulan label file, nested ones included."""
    try:
        root = ElementTree.fromstring(_bytes(path))
    except ElementTree.ParseError as error:
        raise DataError(f"'{path}' is not XML: {error}\nUse the label file of a Mulan set.") from None
    labels = [node for node in root.iter() if node.tag.split("}")[-1] == "label"]
    if not labels or any("name" not in node.attrib for node in labels):
        raise DataError(f"'{path}' has no labels, or one without a name\nUse the label file of a Mulan set.")
    return [node.attrib["name"] for node in labels]


def _expanded(table: Arff, columns: NDArray[Any]) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    parts, names = [], []
    for i in columns:
        values = table.values[i]
        if len(values) <= 2:
            parts.append(table.x[:, i : i + 1])
            names.append(table.features[i])
        else:
            parts.append(table.x[:, i : i + 1] == np.arange(len(values)))
            names += [f"{table.features[i]}={value}" for value in values]
    return np.concatenate(parts, axis=1).astype(np.float32), tuple(names)


# ---- UCI Zoo ----

_ZOO_TYPES = "mammal bird reptile fish amphibian insect invertebrate".split()
_ZOO_NUMBERS = {str(i + 1): i for i in range(len(_ZOO_TYPES))}


def load_zoo(folder: str | Path | None = None, download: bool = False) -> Published:
    """101 animals: 15 boolean attributes and the number of legs as x, seven types as y."""
    path = _find(folder, "zoo", "zoo.csv", None, download)
    try:
        header, *rows = [row for row in csv.reader(_bytes(path).decode().splitlines()) if row] or [[""]]
    except (UnicodeDecodeError, csv.Error):
        raise _truncated(path, "UCI's zoo with a header") from None
    if header[0] != "animal_name" or header[-1] != "type":
        raise DataError(
            f"'{path}' begins with '{shown(header[0])}' and ends with '{shown(header[-1])}'\n"
            "Use UCI's zoo with a header."
        )
    try:
        x = np.array([row[1:-1] for row in rows], np.float32).reshape(len(rows), len(header) - 2)
        y = np.array([_ZOO_NUMBERS[row[-1]] for row in rows])
    except (ValueError, KeyError):
        raise _truncated(path, "UCI's zoo, with numbers and types from 1 to 7") from None
    return Published(LabelSpace.classes(_ZOO_TYPES, "type"), Split(x, y), features=tuple(header[1:-1]))
