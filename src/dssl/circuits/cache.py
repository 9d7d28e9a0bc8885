"""Cache: compiled circuits on disk, found again by the content of the constraints.

One file a circuit, named by the SHA-256 of what was compiled, written beside its place and moved there in one step, so
two processes or a killed one never leave half a file under that name. What cannot be read, or is not what it says, is
ignored. The folder is `DSSL_CACHE`, or ``dssl`` in the user's cache folder; if it cannot be written, nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dssl.circuits import packed
from dssl.circuits.emission import Arrays
from dssl.logic.constraints import Constraints

VERSION = "1"  # of the file and of what the compiler makes of given constraints: raise it when either changes
_FIELDS = {"kind": np.int8, "literal": np.int32, "ptr": np.int64, "child": np.int32}
_STALE_S = 3600.0  # a temporary file older than this was left by a process that is gone


def folder() -> Path:
    """Where circuits are kept."""
    if chosen := os.environ.get("DSSL_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "dssl"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dssl"


def content_key(constraints: Constraints) -> str:
    """A name for what the circuit depends on: rules' numbers and the odds of soft rules are left out."""
    content = (
        VERSION,
        constraints.sizes,
        constraints.categorical,
        constraints.clauses,
        [(s.values, s.coefficients, s.intervals) for s in constraints.sums],
        constraints.visible,
        len(constraints.soft),
        constraints.clause_owners,
        constraints.sum_owners,
    )
    return hashlib.sha256(repr(content).encode()).hexdigest()


def load(key: str) -> Arrays | None:
    """The arrays kept under a key, or None."""
    try:
        held = packed.arrays(folder() / f"{key}.npz")
        arrays = tuple(held[name] for name in _FIELDS)
        checksum = str(held["checksum"])
    except (OSError, KeyError, packed.Damaged):
        return None
    if [a.dtype for a in arrays] != [np.dtype(t) for t in _FIELDS.values()] or _checksum(key, arrays) != checksum:
        return None
    kind, literal, ptr, child = arrays
    return kind, literal, ptr, child


def save(key: str, arrays: Arrays) -> None:
    """Keep the arrays under a key, if the folder can be written."""
    with contextlib.suppress(OSError):
        place = folder()
        place.mkdir(parents=True, exist_ok=True)
        _remove_stale(place)
        handle, name = tempfile.mkstemp(prefix=f"{key[:16]}-", suffix=".tmp", dir=place)
        try:
            with os.fdopen(handle, "wb") as file:
                kind, literal, ptr, child = arrays
                checksum = np.array(_checksum(key, arrays))
                np.savez(file, checksum=checksum, kind=kind, literal=literal, ptr=ptr, child=child)
            os.replace(name, place / f"{key}.npz")
        except BaseException:
            os.unlink(name)
            raise


def _checksum(key: str, arrays: tuple[np.ndarray, ...]) -> str:
    digest = hashlib.sha256(key.encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _remove_stale(place: Path) -> None:
    for left in place.glob("*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE_S:
                left.unlink()
