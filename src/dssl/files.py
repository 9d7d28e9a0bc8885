"""Files and folders that appear whole or not at all, whatever happens to the process, the disk or the clock.

A file is first written beside its place, as `.NAME.XXXXXXXX.dssl-partial`, until it is on disk; then it is renamed. A
writer that was killed leaves that behind, and the next writer in the folder removes it. A lock, which the system keeps
for as long as a writer lives, tells the two apart, not clocks or process numbers.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from dssl.errors import DataError, WriteError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]
try:
    import msvcrt
except ImportError:  # not Windows
    msvcrt = None  # type: ignore[assignment]

_OURS = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.dssl-(?P<kind>partial|old)", re.DOTALL)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BEYOND = 1 << 40  # a place that no file reaches: what is locked on Windows, others cannot even read


def write_whole(path: str | Path, data: bytes, *, parents: bool = False) -> None:
    """Write a file so that, whatever happens, either its old content or all of the new is there."""
    with whole_file(path, parents=parents) as file:
        file.write(data)


@contextmanager
def whole_file(path: str | Path, *, parents: bool = False) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place at the end, or vanishes on an error.

    `parents`: make the folders above it.
    """
    place = Path(os.path.abspath(path))
    with _translated(path, place):
        if parents:
            place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists() and not place.is_file():  # a folder, or a device that would be replaced
            raise OSError(errno.EEXIST, "there is something other than a file")
        clear(place.parent)
        with _beside(place, _new_file) as partial:
            with partial.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, place)
        if not is_partial(place.parent):  # otherwise `whole_folder` does it, once for all
            _sync(place.parent)


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """A folder to fill with whole files, which takes the place of all that was there, or vanishes on an error."""
    place = Path(os.path.abspath(path))
    with _translated(path, place):
        place.parent.mkdir(parents=True, exist_ok=True)
        clear(place.parent)
        with _beside(place, os.mkdir) as fresh:
            yield fresh
            _sync(fresh)
            _replace_folder(fresh, place)
        _sync(place.parent)


def append(path: str | Path, data: bytes, *, durable: bool = False) -> None:
    """Add to the end of a file: all of it, or nothing on an error. A killed writer may leave a part.

    With `durable` it is on disk when this returns.
    """
    with _translated(path, Path(os.path.abspath(path))), open(path, "ab", buffering=0) as file:
        before = os.fstat(file.fileno()).st_size
        try:
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durable:
                os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                os.ftruncate(file.fileno(), before)
            raise


def hold(file: BinaryIO | FileIO) -> None:
    """Wait until no other process holds an open file; then it is held here until it is closed."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX)
        return
    if msvcrt is None:
        raise OSError(errno.ENOLCK, "this system has no locks, so another process might write to it at the same time")
    place = file.tell()
    file.seek(_BEYOND)
    while True:
        with suppress(OSError):  # it gives up after ten seconds
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            break
    file.seek(place)


def remove_folder(path: Path) -> None:
    """Remove a folder, if there is one: a killed remover leaves all of it or nothing under its name."""
    with suppress(FileNotFoundError):
        aside = _name(path, "partial")
        os.rename(path, aside)
        _remove(aside)


def clear(folder: Path) -> None:
    """Remove what writers that are gone left in a folder; put back what they had only moved aside."""
    with suppress(OSError):
        for left in sorted(Path(entry) for entry in os.scandir(folder) if _OURS.fullmatch(entry.name)):
            with _lock(left) as held:
                if held:
                    _clear(left)


def is_partial(path: Path) -> bool:
    """Whether a name is that of something unfinished or left behind."""
    return _OURS.fullmatch(path.name) is not None


def present(path: str | Path) -> Path:
    """The path of a file that is to be read: `FileNotFoundError` if nothing is there, `DataError` if it is a folder."""
    place = Path(path)
    place.stat()  # raises where nothing is there, or what is there cannot be reached
    if place.is_dir():
        raise DataError(f"{path} is a folder\nName the file inside it.")
    return place


# ---- names and locks ----


def _name(place: Path, kind: str) -> Path:
    return place.with_name(f".{place.name}.{uuid4().hex[:8]}.dssl-{kind}")


@contextmanager
def _beside(place: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """Something new beside a place, known as a living writer's, and gone at the end if it is still there."""
    while True:
        partial = _name(place, "partial")
        make(partial)
        with _lock(partial) as alone:
            if alone is False or not partial.exists():  # another writer has just taken it for a left-over
                continue
            try:
                yield partial
                return
            finally:
                _remove(partial)


def _new_file(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))


@contextmanager
def _lock(path: Path) -> Iterator[bool | None]:
    """A context with the lock on a file or folder: True, False if another has it, None if there are no locks."""
    handle, held = -1, None
    try:
        if fcntl is not None:
            with suppress(OSError):
                handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
                held = _try_lock(handle)
        yield held
    finally:
        if handle >= 0:
            os.close(handle)


def _try_lock(handle: int) -> bool | None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


# ---- renaming and removing ----


def _replace_folder(fresh: Path, place: Path) -> None:
    """A folder takes another's place, in one step where the system can; the other is then named `fresh`, or gone."""
    if not os.path.lexists(place):
        os.rename(fresh, place)
    elif not _swapped(fresh, place):
        old = _name(place, "old")
        with _lock(place):
            os.rename(place, old)
            try:
                os.rename(fresh, place)
            except BaseException:
                os.rename(old, place)
                raise
        _remove(old)


def _swapped(a: Path, b: Path) -> bool:
    """Swap two names in one step; False where that cannot be done (it can on Linux, with most file systems)."""
    if sys.platform != "linux":
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    return swap is not None and swap(here, os.fsencode(a), here, os.fsencode(b), exchange) == 0


def _clear(left: Path) -> None:
    found = _OURS.fullmatch(left.name)
    if found and found["kind"] == "old" and not os.path.lexists(place := left.with_name(found["name"])):
        os.rename(left, place)
    else:
        _remove(left)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _sync(folder: Path) -> None:
    """Have the names in a folder written to disk too, where the system can; the files themselves are there already."""
    if os.name == "posix":
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


# ---- errors ----


@contextmanager
def _translated(path: str | Path, place: Path) -> Iterator[None]:
    """A context in which the system's errors about this file become ours."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        named = None if error.filename is None else Path(os.path.abspath(os.fsdecode(error.filename)))
        if named is None or named in (place, *place.parents) or any(map(is_partial, (named, *named.parents))):
            raise write_error(path, error) from None
        raise


def write_error(path: str | Path, error: OSError) -> WriteError:
    """Our error for the system's: the file, the reason, what to do."""
    named = (part["name"] if (part := _OURS.fullmatch(name)) else name for name in Path(path).parts)
    todo = "Free some space" if error.errno in _FULL else "Check the folder and its permissions"
    reason = error.strerror or str(error)
    return WriteError(
        error.errno,
        f"'{Path(*named)}' cannot be written: {reason}\nWhat was there before is untouched. {todo}, and try again.",
    )
