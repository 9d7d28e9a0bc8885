"""Numeric arrays from Matlab files of version 5, the format of SVHN, checked at every step.

SciPy reads these too, but files that were damaged or made up can crash the whole process in its compiled part.
Format: MathWorks, "MAT-File Format", Level 5.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl import files
from dssl.circuits.formats.packed import Damaged, refuse_plenty

_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}  # as stored
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}  # as meant
_MATRIX, _COMPRESSED = 14, 15
_STEP = 1 << 24  # bytes unpacked at a time


def read_matlab(path: Path) -> dict[str, NDArray[Any]]:
    """The numeric arrays of a file by name; others are passed over. `Damaged` if it is not such a file."""
    data = files.present(path).read_bytes()
    if len(data) < 128 or data[124:126] not in (b"\0\1", b"\1\0") or data[126:128] not in (b"IM", b"MI"):
        raise Damaged("it has no header of version 5")
    order = "<" if data[126:128] == b"IM" else ">"
    try:
        found = [_array(body, order) for kind, body in _elements(data[128:], order, top=True) if kind == _MATRIX]
    except (ValueError, struct.error, zlib.error) as error:
        raise Damaged(str(error)) from error
    return {name: array for name, array in found if array is not None}


def _elements(data: bytes, order: str, *, top: bool = False) -> Iterator[tuple[int, bytes]]:
    """Type and body of each element. A short one has its length in the upper half of its type, and 4 bytes of body."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from(order + "II", data, at)
        start, step = at + 8, size if kind == _COMPRESSED else -(-size // 8) * 8
        if kind >> 16:
            kind, size, start, step = kind & 0xFFFF, kind >> 16, at + 4, 0
        if start + size > len(data) or (size > 4 and start == at + 4):
            raise Damaged("it ends within an element")
        body = data[start : start + size]
        if kind == _COMPRESSED and top:
            yield from _elements(_inflated(body), order)
        else:
            yield kind, body
        at = max(start, at + 8) + step


def _inflated(body: bytes) -> bytes:
    stream, out, rest = zlib.decompressobj(), bytearray(), body
    while rest and not stream.eof:
        out += stream.decompress(rest, _STEP)
        rest = stream.unconsumed_tail
        refuse_plenty(len(out), len(body))
    if not stream.eof:
        raise Damaged("a compressed part is cut short")
    return bytes(out)


def _array(body: bytes, order: str) -> tuple[str, NDArray[Any] | None]:
    """Name and numbers of a matrix: flags, sizes, name and real part, in this order."""
    flags, sizes, name, *parts = [*_elements(body, order), *[(0, b"")] * 4]
    kind = _CLASSES.get(flags[1][0 if order == "<" else 3] if len(flags[1]) == 8 else 0)
    shape = struct.unpack(f"{order}{len(sizes[1]) // 4}i", sizes[1])
    stored = _TYPES.get(parts[0][0])
    title = name[1].decode("latin-1")
    if kind is None or stored is None:
        return title, None
    values = np.frombuffer(parts[0][1], order + stored)
    if min(shape, default=-1) < 0 or math.prod(shape) != values.size:
        raise Damaged(f"'{title[:40]}' has {values.size} numbers for the shape {shape[:8]}")
    return title, values.astype(kind).reshape(shape, order="F")
