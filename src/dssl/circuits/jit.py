"""How loops are compiled: `entry` for functions called from Python, `inner` for those called by them.

Reference counting is off (`_nrt`), which doubles the speed: these functions only read and write arrays that the caller
holds and make none of their own; `allocating` is for inner ones that do. Inner functions have no wrapper for Python,
which saves half the compile time.

numba keeps compiled entries on disk and takes them as fresh while the file of the entry itself is unchanged. Ours call
functions of other files, so they are stamped with every source that theirs imports, however far. Where there is no
place to keep them, or no space, they are compiled in every process.

Everything that we rely on and numba does not promise is in this file: the option `_nrt`, the event of compiling, and
the fields of the cache that a stamp is put in. It has no public form of them.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from numba import config, njit
from numba.core import event

PLAIN = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]  # kernels are to stay Python functions
# numba's type stubs do not list all of its options
inner: Any = njit(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]
allocating: Any = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]

_ROOT = Path(__file__).parents[2]  # the folder that packages are imported from
_IMPORT = re.compile(r"^(?:from (dssl[\w.]*) import (\([^)]*\)|.*)|import (.*))", re.MULTILINE)


@cache
def source_stamp(path: Path, root: Path = _ROOT) -> str:
    """A fingerprint of a source and of every source of dssl under `root` that it imports, however far."""
    digest = hashlib.sha256()
    for source in sorted(_reached(path, root)):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _reached(path: Path, root: Path) -> set[Path]:
    seen, waiting = {path}, [path]
    while waiting:
        for source in _imported(waiting.pop().read_text(encoding="utf-8"), root) - seen:
            seen.add(source)
            waiting.append(source)
    return seen


def _imported(text: str, root: Path) -> set[Path]:
    """The files of the modules that a source imports at its top; kernels see no others."""
    names = set()
    for package, listed, whole in _IMPORT.findall(text):
        names |= {package, *re.findall(r"dssl[\w.]*", whole)}
        names |= {f"{package}.{name}" for name in re.findall(r"\w+", listed)}
    files = (root / f"{name.replace('.', '/')}.py" for name in names)
    return {file for file in files if file.exists()}


def kept(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function when it is first called, and keep it on disk until a source it depends on changes.

    With NUMBA_DISABLE_JIT=1 it stays a Python function, in which numbers overflow as silently as in compiled ones.
    """
    if PLAIN:
        return np.errstate(all="ignore")(function)
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written, neither ours nor the user's
        _announce.kept = False
        return njit(**options)(function)
    _keep_safely(compiled._cache, source_stamp(Path(function.__code__.co_filename)))
    return compiled


def _keep_safely(cache: Any, stamp: str) -> None:
    """Stamp what numba keeps, in its name too, and carry on where it cannot be kept.

    numba writes the index of a function before the code that it names. A process killed in between, after an upgrade,
    would leave a fresh index that names old code, if the code of all versions had the same name.
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


def unlocked(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called, to run without the interpreter's lock, and keep it."""
    return kept(function, nogil=True, error_model="numpy", no_cfunc_wrapper=True)


def stand_in(function: Callable[..., Any], place: Callable[..., Any], **names: Any) -> Callable[..., Any]:
    """The same function with some of its globals given, as if it stood in the file of `place` and had its name.

    numba keeps code by file and name, and only of functions that find those they call among their globals.
    """
    code = function.__code__.replace(co_filename=place.__code__.co_filename, co_name=place.__name__)
    out = FunctionType(code, {**function.__globals__, **names}, closure=function.__closure__)
    out.__qualname__ = place.__name__
    return out


class _Announce(event.Listener):
    """Says once per process that compiling has begun; what is loaded from disk does not count."""

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
