"""How loops are compiled: `entry` for functions called from Python, `inner` for those called by them.

Compiling takes seconds, once on each machine. Until that is done, a process lets Python itself run the loops of small
problems, for about a second in all: a first circuit is there at once, and a large one waits for the compiler. These
loops compute with whole numbers, so both ways give the same, bit for bit. What computes with floats is `always`
compiled.

Reference counting is off (`_nrt`), which doubles the speed: these functions only read and write arrays that the caller
holds and make none of their own; `allocating` is for inner ones that do. Inner functions have no wrapper for Python,
which saves half the compile time.

numba keeps compiled entries on disk and takes them as fresh while the file of the entry itself is unchanged. Ours call
functions of other files, so they are stamped with every source that theirs imports, however far. Where there is no
place to keep them, or no space, they are compiled in every process.

Machines and processes share the folder. So the name of kept code says all that it depends on: sources, signature,
numba's version and its target, which is the processor of this machine unless NUMBA_CPU_NAME and NUMBA_CPU_FEATURES say
otherwise.

Everything that we rely on and numba does not promise is in this file: the option `_nrt`, the event of compiling, the
place of the cache's files, and the target's description. numba has no public form of them.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import config, njit
from numba.core import event, serialize
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target

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


def always(function: Callable[..., Any], **options: Any) -> Any:
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
    _keep_by_name(compiled._cache, source_stamp(Path(function.__code__.co_filename)))
    return compiled


def _keep_by_name(cache: Any, stamp: str) -> None:
    """Let a function's code be kept on a shelf, and carry on where it cannot be kept."""
    cache._cache_file, save = _Shelf(cache, stamp), cache.save_overload

    def save_if_possible(signature: Any, data: Any) -> None:
        with suppress(OSError):
            save(signature, data)

    cache.save_overload = save_if_possible


class _Shelf:
    """The files of one function's compiled code, one file for each signature, target and set of sources.

    It stands where numba has an index beside numbered files. Two processes that write such an index at once give
    different code the same number, and one of them then finds the other's. Here nothing is looked up: the name says
    what is inside. Code made from sources that have changed since is removed when new code is kept.
    """

    def __init__(self, cache: Any, stamp: str) -> None:
        self._folder, self._base, self._stamp = Path(cache.cache_path), cache._impl.filename_base, stamp[:12]

    def path(self, key: object) -> Path:
        """Where code is kept for a key: signature, target, and what the function's own bytes and closure are."""
        # numba's types print all that they are
        digest = hashlib.sha256(repr((numba.__version__, self._stamp, key)).encode()).hexdigest()
        return self._folder / f"{self._base}.{self._stamp}-{digest[:24]}.nbc"

    def load(self, key: object) -> Any:
        try:
            return pickle.loads(self.path(key).read_bytes())
        except (OSError, EOFError, pickle.UnpicklingError):  # not there, or not whole
            return None

    def save(self, key: object, data: Any) -> None:
        for old in self._folder.glob(f"{self._base}.*"):
            if f".{self._stamp}-" not in old.name:
                old.unlink(missing_ok=True)
        from dssl.files import write_whole  # not among the sources that kernels are made from

        write_whole(self.path(key), serialize.dumps(data))


class Target(NamedTuple):
    """What numba compiles for: the triple of the platform, the processor's name and its features."""

    triple: str
    processor: str
    features: str  # such as "+avx2,-avx512f"; those that the processor's name implies need not be there

    def has(self, feature: str) -> bool:
        """Whether a feature is stated."""
        return f"+{feature}" in self.features.split(",")


def target_of(context: Any) -> Target:
    """The target of one of numba's contexts."""
    return Target(*context.codegen().magic_tuple())


class Entry:
    """A loop over whole numbers that Python calls: compiled, or run by Python itself while that is soon done."""

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled
        self.loaded = False  # whether compiled code is in this process

    def __call__(self, *args: Any) -> Any:
        if self.loaded:
            return self.compiled(*args)
        if _patience.left > 0 and _LIKE_COMPILED and _length(args) <= _SHORT and not self._is_kept(args):
            with _lent(), _patience.used(), np.errstate(all="ignore"):
                return _unboxed(self._python(*args))
        with _lent(), announced():
            answer = self.compiled(*args)
        self.loaded = True
        return answer

    def _is_kept(self, args: tuple[Any, ...]) -> bool:
        """Whether compiled code is on disk."""
        cache = self.compiled._cache
        if not hasattr(cache, "_cache_file"):  # nothing can be kept
            return False
        signature = tuple(numba.typeof(x) for x in args)
        key = cache._index_key(signature, cpu_target.target_context.codegen())
        return bool(cache._cache_file.path(key).exists())

    @cached_property
    def _python(self) -> Callable[..., Any]:
        return in_python(self.compiled)


_SHORT = 100_000  # numbers in the arguments of a call, up to which Python may run it
# whole numbers are of 64 bits unless said otherwise, and keep their type beside Python's, as in compiled code
_LIKE_COMPILED = np.array([0]).dtype == np.int64 and int(np.__version__.split(".")[0]) >= 2


class _Patience:
    """The seconds that this process will still leave to Python before it compiles."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    @contextmanager
    def used(self) -> Iterator[None]:
        began = time.thread_time()
        try:
            yield
        finally:
            self.left -= time.thread_time() - began


_patience = _Patience(1.0)


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """In this context Python may run loops for so many seconds before they are compiled; none if 0."""
    before, _patience.left = _patience.left, seconds
    try:
        yield
    finally:
        _patience.left = before


class _Lent(threading.local):
    seconds = 0.0


_lent_here = _Lent()


@contextmanager
def _lent() -> Iterator[None]:
    began = time.thread_time()
    try:
        yield
    finally:
        _lent_here.seconds += time.thread_time() - began


def thread_time() -> float:
    """Processor seconds of this thread, less those for compiling loops and for running them without."""
    return time.thread_time() - _lent_here.seconds


def _length(x: Any) -> int:
    """Numbers in arrays, however deep in tuples."""
    return sum(map(_length, x)) if isinstance(x, tuple) else getattr(x, "size", 1)


def _unboxed(x: Any) -> Any:
    """What compiled code would have returned: Python's own numbers in place of numpy's."""
    if isinstance(x, tuple):
        return tuple(map(_unboxed, x))
    return x.item() if isinstance(x, np.generic) else x


def in_python(compiled: Any, made: dict[Any, Callable[..., Any]] | None = None) -> Callable[..., Any]:
    """A compiled function, and those that it calls, as Python runs them."""
    made = {} if made is None else made
    function, names = compiled.py_func, dict(compiled.py_func.__globals__)
    made[compiled] = out = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    for name in function.__code__.co_names:
        other = names.get(name)
        if isinstance(other, Dispatcher):
            names[name] = made[other] if other in made else in_python(other, made)
    return out


def kept(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function when that is worth it, and keep it."""
    return always(function, **options) if PLAIN else Entry(always(function, **options))


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that inner ones are called from when that is worth it, and keep it."""
    return kept(function, _nrt=False, no_cfunc_wrapper=True)


UNLOCKED = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}  # to run without the interpreter's lock


def unlocked(function: Callable[..., Any]) -> Any:
    """Compile a function when that is worth it, to run without the interpreter's lock, and keep it."""
    return kept(function, **UNLOCKED)


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
