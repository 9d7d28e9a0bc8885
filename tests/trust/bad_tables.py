"""Data files that are damaged, made up, or of another kind than they say."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.lib import format as npy

from dssl.data.formats.arff import read_arff
from dssl.data.stored.parquet import ParquetData
from dssl.data.tables import read
from dssl.logic.space import LabelSpace
from trust.bad import Bad, Content, put

LONG = "x" * 1_000_000
HEAD = "@relation r\n@attribute x numeric\n@attribute k {a,b}\n@data\n"


def table(name: str, file: str, content: Content, said: str) -> Bad:
    return Bad(f"{file}: {name}", put(file, content), lambda folder: read(folder / file), said)


def arff(name: str, content: Content, said: str) -> Bad:
    return table(name, "d.arff", content, said)


def reads(name: str, file: str, content: Content, reader: Callable[[Path], Any], said: str) -> Bad:
    return Bad(f"{file}: {name}", put(file, content), lambda folder: reader(folder / file), said)


def npz(**arrays: Any) -> Callable[[], bytes]:
    def content() -> bytes:
        held = io.BytesIO()
        np.savez(held, **arrays)
        return held.getvalue()

    return content


def zipped(*members: tuple[str, bytes], kind: int = zipfile.ZIP_STORED) -> Callable[[], bytes]:
    def content() -> bytes:
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w", kind) as archive:
            for name, data in members:
                archive.writestr(name, data)
        return held.getvalue()

    return content


def header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    held = io.BytesIO()
    npy.write_array_header_1_0(held, {"descr": kind, "fortran_order": False, "shape": shape})
    return held.getvalue()


def encrypted() -> bytes:
    data = bytearray(npz(X=np.eye(3))())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + place] |= 1
    return bytes(data)


def bomb() -> bytes:
    """A member that says it unpacks to 4 GB, which its directory has to promise before anything is read."""
    data = bytearray(zipped(("X.npy", header((1 << 29,)) + bytes(1000)), kind=zipfile.ZIP_DEFLATED)())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 0xFFFFFFF0)
    return bytes(data)


def parquet(**columns: Any) -> Callable[[], bytes]:
    def content() -> bytes:
        held = io.BytesIO()
        pl.DataFrame(columns).write_parquet(held)
        return held.getvalue()

    return content


def harmed(content: Callable[[], bytes], at: int, value: int = 0xFF) -> Callable[[], bytes]:
    def harm() -> bytes:
        data = bytearray(content())
        data[at] = value
        return bytes(data)

    return harm


CSV = [
    table("a mark of order alone", "d.csv", b"\xef\xbb\xbf", "is empty … Give a file with a header and rows."),
    table("line ends alone", "d.csv", "\n\n\n\n", "is empty … Give a file with a header and rows."),
    table(
        "UTF-16",
        "d.csv",
        "a,b\n1,2\n".encode("utf-16"),
        "cannot be read: it is not UTF-8 text (byte 0) … Save it as UTF-8.",
    ),
    table(
        "Latin-1 in the header",
        "d.csv",
        "größe,b\n1,2\n".encode("latin-1"),
        "cannot be read: it is not UTF-8 text (byte 2) … Save it as UTF-8.",
    ),
    table(
        "a quote that is never closed",
        "d.csv",
        'a,b\n"1,2\n3,4\n',
        'cannot be read: could not parse `"1,2 … Correct that line: every opening quote',
    ),
    table(
        "a cell too many, late",
        "d.csv",
        "a,b\n" + "1,2\n" * 5000 + "1,2,3\n",
        "cannot be read: line 5002 has 3 cells for 2 columns … Put texts that contain ',' in double",
    ),
    table(
        "a line of a million cells",
        "d.csv",
        "a,b\n" + "1," * 1_000_000 + "\n",
        "cannot be read: line 2 has 1000001 cells for 2 columns … Put texts that contain ',' in double",
    ),
    table("columns called alike", "d.csv", "a,b,a\n1,2,3\n", "has two columns 'a … Rename one of them."),
    table(
        "columns of a million letters, called alike",
        "d.csv",
        f"{LONG},{LONG}\n1,2\n",
        "has two columns … Rename one of them.",
    ),
    table("a header alone", "d.tsv", "a\tb\n", "has no rows … Give a file with one row per sample."),
    table(
        "not packed",
        "d.csv.gz",
        b"a,b\n1,2\n",
        "cannot be unpacked: Not a gzipped file (b'a,') … Get the file again, or unpack it.",
    ),
    table(
        "packed and cut short",
        "d.csv.gz",
        lambda: gzip.compress(b"a,b\n1,2\n")[:-9],
        "cannot be unpacked: Compressed file ended before the … Get the file again, or unpack it.",
    ),
    table(
        "packed with a bit flipped",
        "d.csv.gz",
        harmed(lambda: gzip.compress(b"a,b\n1,2\n"), -6),
        "cannot be unpacked: CRC check failed … Get the file again, or unpack it.",
    ),
    table("packed and empty", "d.csv.gz", lambda: gzip.compress(b""), "is empty … Give a file with a header and rows."),
    table(
        "packed and not text",
        "d.csv.gz",
        lambda: gzip.compress(b"a,b\n\xff\xfe,1,2\n"),
        "cannot be read: it is not UTF-8 text (byte 4) … Save it as UTF-8.",
    ),
    table(
        "a kind by another name",
        "d.xlsx",
        b"PK\x03\x04",
        "has a format that dssl does not read … Give CSV (.csv, .tsv), Parquet",
    ),
    table(
        "packed by another kind",
        "d.gz",
        lambda: gzip.compress(b"a,b\n"),
        "has a format that dssl does not read … Give CSV (.csv, .tsv), Parquet",
    ),
    table(
        "no ending at all",
        "data",
        "a,b\n1,2\n",
        "has a format that dssl does not read … Give CSV (.csv, .tsv), Parquet",
    ),
    table("a pickle", "d.pkl", b"\x80\x04.", "has a format that dssl does not read … Give CSV (.csv, .tsv), Parquet"),
]
NPZ = [
    table(
        "empty", "d.npz", b"", "is not an NPZ file of plain arrays: File is not a zip file … Write it with numpy.savez."
    ),
    table(
        "an array without an archive",
        "d.npz",
        lambda: header((2, 2)) + bytes(32),
        "is not an NPZ file of plain arrays: File is not a zip file … Write it with numpy.savez.",
    ),
    table(
        "a pickle",
        "d.npz",
        b"\x80\x04\x95\x0f\0\0\0\0\0\0\0\x8c\x05posix\x94.",
        "is not an NPZ file of plain arrays: File is not a zip file … Write it with numpy.savez.",
    ),
    table(
        "an archive of nothing",
        "d.npz",
        zipped(),
        "has no array X; its arrays: none … Save with savez(path, X=…, y=…).",
    ),
    table(
        "a text in the archive",
        "d.npz",
        zipped(("X.npy", b"1, 2, 3")),
        "is not an NPZ file of plain arrays: EOF: reading magic string, … Write it with numpy.savez.",
    ),
    table(
        "objects",
        "d.npz",
        npz(X=np.array([[1, None]], dtype=object)),
        "is not an NPZ file of plain arrays: it holds Python objects, … Write it with numpy.savez.",
    ),
    table(
        "a shape of 10^15 rows",
        "d.npz",
        zipped(("X.npy", header((10**15, 3)))),
        "is not an NPZ file of plain arrays: an array of shape … Write it with numpy.savez.",
    ),
    table(
        "a negative shape",
        "d.npz",
        zipped(("X.npy", header((-5, 3)) + bytes(99))),
        "is not an NPZ file of plain arrays: negative dimensions are not … Write it with numpy.savez.",
    ),
    table(
        "a header that is code",
        "d.npz",
        zipped(("X.npy", b"\x93NUMPY\x01\x00\x14\x00{'descr': exit(3)}  \n")),
        "is not an NPZ file of plain arrays: malformed node or string on … Write it with numpy.savez.",
    ),
    table(
        "a header nested deep",
        "d.npz",
        zipped(("X.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 9000) + b"(" * 9000)),
        "is not an NPZ file of plain arrays: ('EOF in multi-line … Write it with numpy.savez.",
    ),
    table(
        "encrypted",
        "d.npz",
        encrypted,
        "is not an NPZ file of plain arrays: File <ZipInfo … Write it with numpy.savez.",
    ),
    table(
        "a bomb", "d.npz", bomb, "is not an NPZ file of plain arrays: 192 bytes unpack to … Write it with numpy.savez."
    ),
    table(
        "a path out of the folder",
        "d.npz",
        zipped(("../X.npy", header((1, 1)) + bytes(8))),
        "has no array X; its arrays: ../X … Save with savez(path, X=…, y=…).",
    ),
    table(
        "names a million letters long",
        "d.npz",
        zipped(("n" * 60_000 + ".npy", header((1, 1)) + bytes(8))),
        "has no array X; its arrays: … Save with savez(path, X=…, y=…).",
    ),
    table(
        "cut short",
        "d.npz",
        lambda: npz(X=np.eye(9))()[:-50],
        "is not an NPZ file of plain arrays: File is not a zip file … Write it with numpy.savez.",
    ),
    table("no rows", "d.npz", npz(X=np.zeros((0, 3))), "has no rows … Give a file with one row per sample."),
    table(
        "six dimensions",
        "d.npz",
        npz(X=np.zeros((2, 1, 2, 2, 2, 2))),
        "X has shape (2, 1, 2, 2, 2, 2) of float64 … Give numbers (n, features), (n, c, h, w) or",
    ),
    table(
        "complex numbers",
        "d.npz",
        npz(X=np.eye(3, dtype=complex)),
        "X has shape (3, 3) of complex128 … Give numbers (n, features), (n, c, h, w) or",
    ),
    table(
        "dates",
        "d.npz",
        npz(X=np.zeros((2, 2), "datetime64[s]")),
        "X has shape (2, 2) of datetime64[s] … Give numbers (n, features), (n, c, h, w) or",
    ),
    table(
        "records",
        "d.npz",
        npz(X=np.zeros((2, 2), [("a", "f8")])),
        "X has shape (2, 2) of [('a', '<f8')] … Give numbers (n, features), (n, c, h, w) or",
    ),
    table(
        "labels in three dimensions",
        "d.npz",
        npz(X=np.eye(3), y=np.zeros((3, 1, 1))),
        "y has shape (3, 1, 1) for 3 rows of X … Give one label, or one row of labels, for each.",
    ),
    table(
        "labels of other rows",
        "d.npz",
        npz(X=np.eye(3), y=np.zeros(7)),
        "y has shape (7,) for 3 rows of X … Give one label, or one row of labels, for each.",
    ),
    table(
        "labels that are complex",
        "d.npz",
        npz(X=np.eye(3), y=np.zeros(3, complex)),
        "y holds complex128 … Give classes as numbers or texts.",
    ),
    table(
        "labels that are records",
        "d.npz",
        npz(X=np.eye(3), y=np.zeros(3, [("a", "f8")])),
        "y holds [('a', '<f8')] … Give classes as numbers or texts.",
    ),
]
PARQUET = [
    table(
        "empty", "d.parquet", b"", "cannot be read as Parquet: parquet: File out of specification: A … Check the file."
    ),
    table(
        "marks alone",
        "d.parquet",
        b"PAR1" + bytes(8) + b"PAR1",
        "cannot be read as Parquet: parquet: File out of specification: … Check the file.",
    ),
    table(
        "a footer of 4 GB",
        "d.parquet",
        b"PAR1" + b"\xff\xff\xff\xff" + b"PAR1",
        "cannot be read as Parquet: parquet: File out of specification: The … Check the file.",
    ),
    table(
        "cut short",
        "d.parquet",
        lambda: parquet(a=[1, 2])()[:-20],
        "cannot be read as Parquet: parquet: File out of specification: The … Check the file.",
    ),
    table(
        "no rows",
        "d.parquet",
        parquet(a=pl.Series([], dtype=pl.Int64)),
        "has no rows … Give a file with one row per sample.",
    ),
    table(
        "a CSV file by another name",
        "d.parquet",
        "a,b\n1,2\n",
        "cannot be read as Parquet: parquet: File out of specification: A … Check the file.",
    ),
    reads(
        "damaged, for training",
        "d.parquet",
        b"PAR1junkPAR1",
        lambda p: ParquetData(p, ["a"], "y", LabelSpace.classes("ab")),
        "cannot be read as Parquet: parquet: File out of specification: The … Check the file.",
    ),
    reads(
        "a column is missing, for training",
        "d.parquet",
        parquet(a=[1.0], y=["b"]),
        lambda p: ParquetData(p, ["z"], "y", LabelSpace.classes("ab")),
        "has no column 'z … Its columns: a, y",
    ),
    reads(
        "a label outside the space, for training",
        "d.parquet",
        parquet(a=[1.0], y=["zebra"]),
        lambda p: ParquetData(p, ["a"], "y", LabelSpace.classes("ab")),
        "row 0: 'class' cannot be 'zebra … Allowed: a, b; None, NaN or -1 for",
    ),
    reads(
        "an infinite feature, for training",
        "d.parquet",
        parquet(a=[float("inf")], y=["a"]),
        lambda p: ParquetData(p, ["a"], "y", LabelSpace.classes("ab")),
        "rows 0 to 0, has missing or infinite entries … Fill them in (say, with column means)",
    ),
]
ARFF = [
    arff("empty", b"", "has no … Give a whole ARFF file."),
    arff("no data", "@relation r\n@attribute x numeric\n", "has no … Give a whole ARFF file."),
    arff(
        "not text",
        b"@relation r\n@attribute x\xff numeric\n@data\n1\n",
        "is not UTF-8 text (byte 24) … Save it as UTF-8.",
    ),
    arff(
        "a date",
        "@attribute d date 'yyyy'\n@data\n1\n",
        "line 1: attributes of the type 'date 'yyyy'' are not … Use numeric or nominal ones.",
    ),
    arff("an entry too few", HEAD + "1\n", "line 5: 1 entries for 2 attributes … Correct or remove the line."),
    arff(
        "an entry that is no number",
        HEAD + "one,a\n",
        "line 5: the entry 'one' does not fit its attribute … Correct or remove it.",
    ),
    arff(
        "a value that is not listed",
        HEAD + "1,zebra\n",
        "line 5: the entry 'zebra' does not fit its attribute … Correct or remove it.",
    ),
    arff(
        "a value listed twice",
        "@attribute k {a,b,a}\n@data\na\n",
        "line 1: the value 'a' is listed twice … Remove one of them.",
    ),
    arff(
        "attributes called alike",
        "@attribute x real\n@attribute x real\n@data\n1,2\n",
        "has two attributes 'x … Rename one of them.",
    ),
    arff(
        "sparse: a number that is none",
        HEAD + "{zero 1}\n",
        "line 5: there is no attribute number 'zero' … Give numbers from 0 to 1, each with its",
    ),
    arff(
        "sparse: a number too high",
        HEAD + "{7 1}\n",
        "line 5: there is no attribute number '7' … Give numbers from 0 to 1, each with its",
    ),
    arff(
        "sparse: a negative number",
        HEAD + "{-1 1}\n",
        "line 5: there is no attribute number '-1' … Give numbers from 0 to 1, each with its",
    ),
    arff("sparse: no value", HEAD + "{0}\n", "line 5: the entry '' does not fit its attribute … Correct or remove it."),
    arff(
        "a cell of a million letters",
        HEAD + LONG + ",a\n",
        "line 5: field larger than field limit (131072) … Correct or remove the line.",
    ),
    arff(
        "an attribute of a million letters",
        f"@attribute {LONG} {LONG}\n@data\n",
        "line 1: attributes of the type … Use numeric or nominal ones.",
    ),
    arff("no rows", HEAD, "has no rows … Give a file with one row per sample."),
    table(
        "packed and cut short",
        "d.arff.gz",
        lambda: gzip.compress(HEAD.encode())[:-9],
        "cannot be unpacked: Compressed file ended before the … Get the file again, or unpack it.",
    ),
    table(
        "not packed",
        "d.arff.gz",
        HEAD + "1,a\n",
        "cannot be unpacked: Not a gzipped file (b … Get the file again, or unpack it.",
    ),
    reads(
        "two hierarchies",
        "h.arff",
        "@attribute c hierarchical a\n@attribute d hierarchical b\n@data\na,b\n",
        read_arff,
        "has 2 hierarchical attributes … One is supported.",
    ),
]
CASES = CSV + NPZ + PARQUET + ARFF
