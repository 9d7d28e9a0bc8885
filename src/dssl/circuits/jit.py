"""How the compiler's loops are compiled: `entry` for functions called from Python, `inner` for those called by them.

Reference counting is off (`_nrt`), which doubles the speed: these functions only read and write arrays that the caller
holds and make none of their own. Inner functions have no wrapper for Python, which saves half the compile time.

numba keeps compiled entries on disk and takes them as fresh while the file of the entry itself is unchanged. Ours call
functions of other files, so they are stamped with all sources of this folder.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import event

# numba's type stubs do not list all of its options
_entry = njit(cache=True, _nrt=False, no_cfunc_wrapper=True)  # type: ignore[call-overload]
inner = njit(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]


@cache
def source_stamp(folder: Path) -> str:
    """A fingerprint of all Python sources in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called, and keep it on disk until any source of the folder changes."""
    compiled = _entry(function)
    compiled._cache._cache_file._source_stamp = source_stamp(Path(__file__).parent)
    return compiled


class _Announce(event.Listener):
    """Says once a process that compiling has begun; what is loaded from disk does not count."""

    said = False

    def on_start(self, event: event.Event) -> None:
        if not self.said:
            self.said = True
            print("dssl: compiling kernels, once for this machine …", file=sys.stderr, flush=True)

    def on_end(self, event: event.Event) -> None:
        pass


_announce = _Announce()


def announced() -> AbstractContextManager[Any]:
    """A context in which compiling, which takes seconds, is announced on stderr."""
    return event.install_listener("numba:compile", _announce)
