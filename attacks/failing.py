"""A disk that fails: every call that writes below a folder can be made to fail, one after the other."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from dssl import files

_PATHS = {"mkdir": os.mkdir, "rename": os.rename, "replace": os.replace, "unlink": os.unlink, "rmdir": os.rmdir}
_HANDLES: dict[str, Callable[..., Any]] = {"fsync": lambda handle: None, "ftruncate": os.ftruncate}  # nothing waits
_SPARED_WHEN_FULL = ("unlink", "rmdir", "rename", "replace", "swap", "ftruncate")  # need no space


@dataclass
class Disk:
    """Counts the calls that write below `root`; fails the one numbered `at` (from 0), or from it on if `lasting`."""

    root: Path
    at: int | None = None
    code: int = errno.ENOSPC
    lasting: bool = False
    swaps: bool = True  # whether the system can swap two folders
    calls: list[str] = field(default_factory=list)

    def call(self, name: str) -> None:
        number = len(self.calls)
        self.calls.append(name)
        if self.at is None or number < self.at or (number > self.at and not self.lasting):
            return
        if self.code != errno.ENOSPC or name not in _SPARED_WHEN_FULL:
            raise OSError(self.code, os.strerror(self.code))

    def has(self, path: Any) -> bool:
        return not isinstance(path, int) and os.path.abspath(os.fsdecode(path)).startswith(str(self.root))


class _File(io.FileIO):
    """What does not fit is written in part first, as on a disk that fills up."""

    disk: Disk

    def write(self, data: Any) -> int:
        try:
            self.disk.call("write")
        except OSError:
            super().write(memoryview(data).cast("B")[: len(data) // 2])
            raise
        return super().write(data)


@contextmanager
def failing(disk: Disk) -> Iterator[Disk]:
    """Within it, the disk is as `disk` says."""
    with mock.patch.multiple(os, **_system(disk)), mock.patch.object(files, "_swapped", _swapped(disk)):
        opened = _opened(disk, io.open)
        with mock.patch.object(io, "open", opened), mock.patch.object(builtins, "open", opened):
            yield disk


def _system(disk: Disk) -> dict[str, Callable[..., Any]]:
    def of_path(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, *args: Any, **kwargs: Any) -> Any:
            if disk.has(path) or kwargs.get("dir_fd") is not None:
                disk.call(name)
            return function(path, *args, **kwargs)

        return called

    def of_handle(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            disk.call(name)
            return function(*args)

        return called

    real = os.open

    def created(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & os.O_CREAT and disk.has(path):
            disk.call("create")
        return real(path, flags, *args, **kwargs)

    paths = {name: of_path(name, function) for name, function in _PATHS.items()}
    return {**paths, **{name: of_handle(name, function) for name, function in _HANDLES.items()}, "open": created}


def _swapped(disk: Disk) -> Callable[[Path, Path], bool]:
    real = files._swapped

    def swapped(a: Path, b: Path) -> bool:
        disk.call("swap")
        return disk.swaps and real(a, b)

    return swapped


def _opened(disk: Disk, real: Callable[..., Any]) -> Callable[..., Any]:
    def opened(path: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
        if not (disk.has(path) and set(mode) & set("wax+")):
            return real(path, mode, buffering, *args, **kwargs)
        assert "b" in mode, f"'{path}' is written as text, by another way than dssl.files"
        disk.call("open")
        file = _File(path, mode.replace("b", ""))
        file.disk = disk
        return file if buffering == 0 else io.BufferedWriter(file)

    return opened
