"""Folders of images, files that are none, and published sets: damaged, made up, or never ending."""

from __future__ import annotations

import gzip
import io
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dssl.data import published
from dssl.data.stored.images import ImageFolderData
from dssl.data.tables import read
from dssl.logic.space import LabelSpace
from trust.bad import Bad, Content, Make, both, link, put


def reads(name: str, file: str, content: Content, reader: Callable[[Path], Any], said: str) -> Bad:
    return Bad(f"{file}: {name}", put(file, content), lambda folder: reader(folder / file), said)


def tree(*files: tuple[str, bytes]) -> Make:
    return both(*(put(f"images/{name}", content) for name, content in files))


def images(name: str, make: Make, said: str) -> Bad:
    return Bad(f"images: {name}", make, lambda folder: read(folder / "images"), said)


def png(width: int = 2, height: int = 2) -> bytes:
    """A picture that says it is this large."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(width)) * height if width * height < 100 else b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def fifo(folder: Path) -> None:
    (folder / "images").mkdir()
    os.mkfifo(folder / "images" / "a.png")


IMAGES = [
    images(
        "an empty folder",
        lambda f: (f / "images").mkdir(),
        "there are no images in … They are recognised by .bmp, .gif,",
    ),
    images("texts", tree(("a.txt", b"x")), "there are no images in … They are recognised by .bmp, .gif,"),
    images(
        "a text with the name of an image",
        tree(("a/a.png", b"text")),
        "cannot be read: cannot identify image file … Replace or remove it.",
    ),
    images(
        "cut short", tree(("a/a.png", png()[:43])), "cannot be read: image file is truncated … Replace or remove it."
    ),
    images(
        "the second is cut short",
        tree(("a/a.png", png()), ("b/b.png", png()[:40])),
        "cannot be read: cannot identify image file … Replace or remove it.",
    ),
    images(
        "a bomb of 10^10 pixels",
        tree(("a/a.png", png(100_000, 100_000))),
        "cannot be read: Image size (10000000000 pixels) exceeds … Replace or remove it.",
    ),
    images(
        "the second is a bomb",
        tree(("a/a.png", png()), ("b/b.png", png(100_000, 100_000))),
        "cannot be read: Image size (10000000000 pixels) exceeds … Replace or remove it.",
    ),
    images(
        "a link to nowhere",
        both(tree(("a/a.png", png())), link("images/b.png", "nowhere.png")),
        "has the name of an image, but is not a file … Replace or remove it.",
    ),
    images(
        "a link to itself",
        both(tree(("a/a.png", png())), link("images/b.png", "b.png")),
        "has the name of an image, but is not a file … Replace or remove it.",
    ),
    images("a pipe, which never ends", fifo, "has the name of an image, but is not a file … Replace or remove it."),
    images(
        "a folder with the name of an image",
        lambda f: (f / "images" / "a.png").mkdir(parents=True),
        "has the name of an image, but is not a file … Replace or remove it.",
    ),
    images(
        "a list of what is not there",
        tree(("a.png", png()), ("labels.csv", b"file,y\n../../etc/passwd,1\n")),
        "lists '../../etc/passwd', which is not an image in that folder … Give paths within the folder.",
    ),
    Bad(
        "images: five channels",
        tree(("a/a.png", png())),
        lambda f: ImageFolderData(f / "images", LabelSpace.classes("a"), size=(2, 2), channels=5),
        "images with 5 channels … Use 1 (grey), 3 (RGB) or 4 (RGBA).",
    ),
    Bad(
        "images: a list that is no text",
        tree(("a.png", png()), ("l.csv", b"\xff\xfe")),
        lambda f: ImageFolderData(f / "images", LabelSpace.classes("a"), f / "images" / "l.csv", size=(2, 2)),
        "cannot be read: 'utf-8' codec can't decode byte 0xff in … Give a CSV file in UTF-8.",
    ),
    Bad(
        "images: a folder that is no class",
        tree(("zebra/a.png", png())),
        lambda f: ImageFolderData(f / "images", LabelSpace.classes("ab"), size=(2, 2)),
        "row 0: 'class' cannot be 'zebra … Allowed: a, b; None, NaN or -1 for",
    ),
]


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "d.csv")


ODD = [
    Bad(
        "d.csv: a pipe, which never ends",
        pipe,
        lambda f: read(f / "d.csv"),
        "is not a regular file … Give CSV (.csv, .tsv), Parquet",
    ),
    Bad(
        "d.csv: a link to a device without end",
        link("d.csv", "/dev/zero"),
        lambda f: read(f / "d.csv"),
        "is not a regular file … Give CSV (.csv, .tsv), Parquet",
    ),
    Bad(
        "d.csv: a folder by that name",
        lambda f: (f / "d.csv").mkdir(),
        lambda f: read(f / "d.csv"),
        "there are no images in … They are recognised by .bmp, .gif,",
    ),
]


def idx(name: str, content: Content, said: str) -> Bad:
    return reads(name, "i.gz" if "packed" in name else "i", content, published.read_idx, said)


def mat(**arrays: Any) -> Callable[[], bytes]:
    def content() -> bytes:
        from scipy.io import savemat

        held = io.BytesIO()
        savemat(held, arrays, do_compression=True)
        return held.getvalue()

    return content


X = np.zeros((32, 32, 3, 2), np.uint8)
PUBLISHED = [
    idx("empty", b"", "is not an idx file of bytes, or it is cut short … Get the file again from where it is"),
    idx(
        "numbers of another type",
        b"\0\0\x0d\x01\0\0\0\1abcd",
        "is not an idx file of bytes, or it is cut short … Get the file again from where it is",
    ),
    idx(
        "255 dimensions",
        b"\0\0\x08\xff" + bytes(100),
        "is not an idx file of bytes, or it is cut short … Get the file again from where it is",
    ),
    idx(
        "4 billion images",
        b"\0\0\x08\x01\xff\xff\xff\xffabc",
        "is not an idx file of (4294967295,), or it is cut short … Get the file again from where it is",
    ),
    idx(
        "packed, cut short",
        lambda: gzip.compress(b"\0\0\x08\x01\0\0\0\4abcd")[:-10],
        "cannot be unpacked: Compressed file ended before the … Get the file again from where it is",
    ),
    idx(
        "packed, which it is not",
        b"\0\0\x08\x01\0\0\0\4abcd",
        "cannot be unpacked: Not a gzipped file (b'\\x00\\x00') … Get the file again from where it is",
    ),
    reads(
        "empty",
        "c.bin",
        b"",
        published.read_cifar,
        "is not a CIFAR-10 batch in the binary format, or it is cut … Get the file again from where it is",
    ),
    reads(
        "a byte too many",
        "c.bin",
        bytes(3074),
        published.read_cifar,
        "is not a CIFAR-10 batch in the binary format, or it is cut … Get the file again from where it is",
    ),
    reads(
        "a label of 255",
        "c.bin",
        b"\xff" + bytes(3072),
        published.read_cifar,
        "is not a CIFAR-10 batch in the binary format, or it is cut … Get the file again from where it is",
    ),
    reads(
        "empty",
        "s.mat",
        b"",
        published.read_svhn,
        "is not a Matlab file of version 5, or it is cut short … Get the file again from where it is",
    ),
    reads(
        "the newer format",
        "s.mat",
        b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(400),
        published.read_svhn,
        "is not a Matlab file of version 5, or it is cut short … Get the file again from where it is",
    ),
    reads(
        "cut short",
        "s.mat",
        lambda: mat(X=X, y=[[1], [2]])()[:-9],
        published.read_svhn,
        "is not a Matlab file of version 5, or it is cut short … Get the file again from where it is",
    ),
    reads(
        "images of another size",
        "s.mat",
        mat(X=X[:16], y=[[1], [2]]),
        published.read_svhn,
        "has no X (32, 32, 3, n) of bytes … Use the cropped digits, format 2, of",
    ),
    reads(
        "a digit of 77",
        "s.mat",
        mat(X=X, y=[[1], [77]]),
        published.read_svhn,
        "has no y with a digit for each image … Use the cropped digits, format 2, of",
    ),
    reads(
        "fewer digits than images",
        "s.mat",
        mat(X=X, y=[[1]]),
        published.read_svhn,
        "has no y with a digit for each image … Use the cropped digits, format 2, of",
    ),
    reads(
        "a cell for a number",
        "s.mat",
        mat(X=X, y=np.array([["a"]], object)),
        published.read_svhn,
        "has no X and y … Use the cropped digits, format 2, of",
    ),
    reads(
        "not XML",
        "m.xml",
        b"labels: a, b",
        published.read_label_names,
        "is not XML: syntax error: line 1, column 0 … Use the label file of a Mulan set.",
    ),
    reads(
        "a label without a name",
        "m.xml",
        b"<labels><label/></labels>",
        published.read_label_names,
        "has no labels, or one without a name … Use the label file of a Mulan set.",
    ),
    reads(
        "no labels",
        "m.xml",
        b"<html/>",
        published.read_label_names,
        "has no labels, or one without a name … Use the label file of a Mulan set.",
    ),
    reads(
        "a bomb of entities",
        "m.xml",
        "<!DOCTYPE l [<!ENTITY a0 'haha'>"
        + "".join(f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>" for i in range(1, 12))
        + "]><l><label name='x'>&a11;</label></l>",
        published.read_label_names,
        "is not XML: limit on input amplification factor (from DTD … Use the label file of a Mulan set.",
    ),
    reads(
        "a file from elsewhere",
        "m.xml",
        b"<!DOCTYPE l [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><l>&e;</l>",
        published.read_label_names,
        "is not XML: undefined entity &e;: line 1, column 57 … Use the label file of a Mulan set.",
    ),
    Bad(
        "zoo: empty",
        put("zoo.csv", b""),
        lambda f: published.load_zoo(f),
        "begins with '' and ends with … Use UCI's zoo with a header.",
    ),
    Bad(
        "zoo: another header",
        put("zoo.csv", "a,b\n1,2\n"),
        lambda f: published.load_zoo(f),
        "begins with 'a' and ends with 'b … Use UCI's zoo with a header.",
    ),
    Bad(
        "zoo: a type of 9",
        put("zoo.csv", "animal_name,legs,type\nbear,4,9\n"),
        lambda f: published.load_zoo(f),
        "is not UCI's zoo, with numbers and types from 1 to 7, or it … Get the file again from where it is",
    ),
    Bad(
        "zoo: a row cut short",
        put("zoo.csv", "animal_name,legs,type\nbear,4,1\nhawk\n"),
        lambda f: published.load_zoo(f),
        "is not UCI's zoo, with numbers and types from 1 to 7, or it … Get the file again from where it is",
    ),
    Bad(
        "zoo: a word for a number",
        put("zoo.csv", "animal_name,legs,type\nbear,four,1\n"),
        lambda f: published.load_zoo(f),
        "is not UCI's zoo, with numbers and types from 1 to 7, or it … Get the file again from where it is",
    ),
    Bad(
        "zoo: not there",
        lambda f: None,
        lambda f: published.load_zoo(f),
        "there is no 'zoo.csv' or 'zoo.csv.gz' of zoo in … Put it there, or name its folder.",
    ),
]
CASES = IMAGES + ODD + PUBLISHED
