"""How the compiler's loops are compiled: `entry` for functions called from Python, `inner` for those called by them.

Reference counting is off (`_nrt`), which doubles the speed: these functions only read and write arrays that the caller
holds and make none of their own. Inner functions have no wrapper for Python, which saves half the compile time.

numba keeps compiled entries on disk and takes them as fresh while the file of the entry itself is unchanged. Ours call
functions of other files, so they are stamped with all sources of this folder. Where there is no place to keep them, or
no space, they are compiled in every process.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import event

# numba's type stubs do not list all of its options
inner = njit(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]


@cache
def source_stamp(folder: Path) -> str:
    """A fingerprint of all Python sources in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def kept(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function when it is first called, and keep it on disk until any source of the folder changes."""
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError:  # no folder that could be written: neither ours, nor one of the user
        _announce.kept = False
        return njit(**options)(function)
    _keep_safely(compiled._cache, source_stamp(Path(__file__).parent))
    return compiled


def _keep_safely(cache: Any, stamp: str) -> None:
    """Stamp what numba keeps, in its name too, and carry on where it cannot be kept.

    numba writes the index of a function before the code that it names. A process killed in between, after an upgrade,
    would leave a fresh index that names old code, if the code of all versions were called alike.
    """
    file, save = cache._cache_file, cache.save_overload
    file._source_stamp = stamp
    numbered, others = file._data_name_pattern, file._data_name_pattern.format(number=0).replace(".0.", ".*.")
    file._data_name_pattern = numbered.replace("{number", f"{stamp[:12]}-{{number")

    def save_if_possible(signature: Any, data: Any) -> None:
        with suppress(OSError):
            for old in Path(file._cache_path).glob(others):
                if f".{stamp[:12]}-" not in old.name:
                    old.unlink()
            save(signature, data)

    cache.save_overload = save_if_possible


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that inner ones are called from when it is first called, and keep it."""
    return kept(function, _nrt=False, no_cfunc_wrapper=True)


class _Announce(event.Listener):
    """Says once a process that compiling has begun; what is loaded from disk does not count."""

    said, kept = False, True

    def on_start(self, event: event.Event) -> None:
        if not self.said:
            self.said = True
            how = "once for this machine" if self.kept else "which cannot be kept: set NUMBA_CACHE_DIR to a folder"
            print(f"dssl: compiling kernels, {how} …", file=sys.stderr, flush=True)

    def on_end(self, event: event.Event) -> None:
        pass


_announce = _Announce()


def announced() -> AbstractContextManager[Any]:
    """A context in which compiling, which takes seconds, is announced on stderr."""
    return event.install_listener("numba:compile", _announce)
