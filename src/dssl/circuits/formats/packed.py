"""Packed files: arrays from .npz, bytes from .gz. Plain data only, and of bounded size.

Nothing in a file is executed: arrays of Python objects, which would be unpickled, are refused. Names of members are
only looked up, so they cannot lead anywhere. What unpacks to a hundred times its size and more than a gibibyte, or says
that it holds more than it does, is refused before memory is spent on it.
"""

from __future__ import annotations

import gzip
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.lib import format as npy
from numpy.typing import NDArray

from dssl import files

PLENTY = 1 << 30  # bytes that any file may unpack to
RATIO = 100  # and how many for each of its own beyond that
_STEP = 1 << 24  # bytes unpacked at a time
_HEADERS: dict[tuple[int, int], Callable[..., Any]] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}
_FAULTS = (  # of zipfile, zlib, gzip and numpy on bytes that are not theirs
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError, TypeError,
    ValueError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class Damaged(ValueError):
    """A packed file that is not whole, or not what it says. The reason only: readers add the file and the remedy."""


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except Damaged:
        raise
    except _FAULTS as error:
        raise Damaged(f"{' '.join(str(error).split())[:200] or type(error).__name__}") from error


def arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file by name; `Damaged` if it is not one."""
    with files.present(path).open("rb") as file, _told(), zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        refuse_plenty(sum(member.file_size for member in members), Path(path).stat().st_size)
        names = [member.filename.removesuffix(".npy") for member in members]
        if len(set(names)) < len(names):
            raise Damaged("it holds two arrays of one name")
        return {name: _array(archive, member) for name, member in zip(names, members)}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as file:
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise Damaged(f"it holds an array in version {version} of numpy's format")
        shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise Damaged("it holds Python objects, which are never read")
    if not dtype.itemsize or math.prod(shape) * dtype.itemsize > member.file_size:
        raise Damaged(f"an array of shape {shape} is cut short")
    with archive.open(member) as file:
        out: NDArray[Any] = npy.read_array(file, allow_pickle=False)
        return out


def unpacked(path: Path) -> bytes:
    """The bytes of a file, unpacked if its name ends in .gz; `Damaged` if they cannot be."""
    if files.present(path).suffix != ".gz":
        return path.read_bytes()
    out = bytearray()
    with open(path, "rb") as packed, _told(), gzip.open(packed) as file:
        while part := file.read(_STEP):
            out += part
            refuse_plenty(len(out), path.stat().st_size)
    return bytes(out)


def refuse_plenty(size: int, packed: int) -> None:
    """`Damaged` if a few bytes unpack to far too many."""
    if size > PLENTY and size > RATIO * packed:
        raise Damaged(f"{packed:,} bytes unpack to {size:,} or more")
