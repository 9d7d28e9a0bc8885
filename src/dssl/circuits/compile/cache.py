"""Cache: compiled circuits on disk, found again by the content of the constraints and of the compiler's sources.

One file per circuit, named by the SHA-256 of what was compiled and by what, and written as `dssl.files` does, so two
processes or a killed one never leave half a file under that name. Files that cannot be read or are damaged are
ignored. The folder is `DSSL_CACHE`, or ``dssl`` in the user's cache folder; if there is none or it cannot be written,
nothing is kept. Above a gigabyte the least recently used circuits go.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dssl import files
from dssl.circuits.compile.emission import Arrays
from dssl.circuits.formats import packed
from dssl.circuits.jit import source_stamp
from dssl.logic.reasoning.constraints import Constraints

PRODUCER = Path(__file__).with_name("compiler.py")  # it imports every source that a circuit depends on
LIMIT = 1 << 30  # bytes of all circuits
SLICE = 10_000  # items of a key that are written at a time
_NAME = re.compile(r"[0-9a-f]{64}\.npz")  # the folder may hold other things
_FIELDS = {"kind": np.int8, "literal": np.int32, "ptr": np.int64, "child": np.int32}


def folder() -> Path:
    """Where circuits are kept. RuntimeError if this user has no home."""
    if chosen := os.environ.get("DSSL_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "dssl"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dssl"


def content_key(constraints: Constraints) -> str:
    """A name for what the circuit depends on: the constraints, and the sources of the compiler that made it.

    So a corrected compiler never finds what an earlier version made. Rules' numbers and odds of soft rules are left
    out.
    """
    digest = hashlib.sha256()
    for part in (
        (source_stamp(PRODUCER), constraints.visible, len(constraints.soft)),
        *_slices(constraints.sizes),
        *_slices(constraints.categorical),
        *_slices(constraints.clauses),
        *_slices([(s.values, s.coefficients, s.intervals) for s in constraints.sums]),
        *_slices(constraints.clause_owners),
        *_slices(constraints.sum_owners),
    ):
        digest.update(repr(part).encode())
    return digest.hexdigest()


def _slices(items: Sequence[object]) -> Iterator[Sequence[object]]:
    """How many there are, and then some at a time: one text of a million clauses takes more than a second."""
    yield (len(items),)
    yield from (items[first : first + SLICE] for first in range(0, len(items), SLICE))


def load(key: str) -> Arrays | None:
    """The arrays kept under a key, or None."""
    try:
        path = folder() / f"{key}.npz"
        held = packed.arrays(path)
        arrays = tuple(held[name] for name in _FIELDS)
        checksum = str(held["checksum"])
    except (OSError, RuntimeError, KeyError, packed.Damaged):
        return None
    if [a.dtype for a in arrays] != [np.dtype(t) for t in _FIELDS.values()] or _checksum(key, arrays) != checksum:
        return None
    with contextlib.suppress(OSError):  # perhaps someone else's, which we may only read
        os.utime(path)
    kind, literal, ptr, child = arrays
    return kind, literal, ptr, child


def save(key: str, arrays: Arrays) -> None:
    """Keep the arrays under a key, if the folder can be written."""
    kind, literal, ptr, child = arrays
    checksum = np.array(_checksum(key, arrays))
    with contextlib.suppress(OSError, RuntimeError):
        path = folder() / f"{key}.npz"
        with files.whole_file(path, parents=True) as file:
            np.savez(file, checksum=checksum, kind=kind, literal=literal, ptr=ptr, child=child)
        _trim(path)


def _trim(newest: Path) -> None:
    """Remove the least recently used circuits until the rest are within the limit, but never the newest."""
    with os.scandir(newest.parent) as entries:
        others = [(Path(entry), entry.stat()) for entry in entries if _NAME.fullmatch(entry.name)]
    total = newest.stat().st_size
    for path, held in sorted(others, key=lambda other: other[1].st_mtime, reverse=True):
        if path != newest:
            total += held.st_size
            if total > LIMIT:
                path.unlink(missing_ok=True)


def _checksum(key: str, arrays: tuple[np.ndarray, ...]) -> str:
    digest = hashlib.sha256(key.encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
