"""Files and folders: whole or absent, at every failing call, at every kill, with several writers at once."""

from __future__ import annotations

import ast
import contextlib
import errno
import os
import pickle
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attacks.failing import Disk, failing

from dssl import files
from dssl.errors import DataError, WriteError
from test_architecture import SOURCE, modules


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug here: what was written is seen, whether or not it has reached the disk."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def content(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file()}


def fill(place: Path, text: bytes) -> None:
    with files.whole_folder(place) as fresh:
        files.write_whole(fresh / "a", text)
        files.write_whole(fresh / "below" / "b", text * 2, parents=True)


def test_a_file_appears_with_the_rights_that_the_user_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_whole(tmp_path / "a" / "b", b"1", parents=True)
        fill(tmp_path / "c", b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o750
    assert names(tmp_path) == ["a", "c"]


def test_an_error_while_writing_leaves_what_was_there(tmp_path: Path) -> None:
    files.write_whole(tmp_path / "file", b"old")
    fill(tmp_path / "folder", b"old")
    before = content(tmp_path)
    for interruption in (KeyboardInterrupt, ValueError):
        with contextlib.suppress(interruption), files.whole_file(tmp_path / "file") as file:
            file.write(b"half")
            raise interruption
        with contextlib.suppress(interruption), files.whole_folder(tmp_path / "folder") as fresh:
            files.write_whole(fresh / "a", b"half")
            raise interruption
    assert content(tmp_path) == before


def test_errors_about_other_files_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"\[Errno 2\].*data.csv") as caught, files.whole_file(tmp_path / "out"):
        (tmp_path / "data.csv").read_bytes()
    assert not isinstance(caught.value, DataError)
    assert names(tmp_path) == []


def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(WriteError, match=f"{name}' cannot be written: there is something other than a file\n"):
            files.write_whole(tmp_path / name, b"")
    assert names(tmp_path) == ["folder", "pipe"]


def test_the_error_travels_between_processes() -> None:
    error = files.write_error("x", OSError(errno.ENOSPC, "No space left on device"))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.errno) == (str(error), errno.ENOSPC)
    assert str(error) == (
        "'x' cannot be written: No space left on device\n"
        "What was there before is untouched. Free some space, and try again."
    )


# ---- left-overs ----


def test_what_a_living_writer_has_begun_is_left_alone_and_what_a_dead_one_left_is_removed(tmp_path: Path) -> None:
    with files.whole_file(tmp_path / "a") as file, files.whole_folder(tmp_path / "b") as fresh:
        file.write(b"1")
        files.write_whole(fresh / "x", b"1")
        assert len(names(tmp_path)) == 2
        files.write_whole(tmp_path / "c", b"1")  # clears the folder
        files.clear(tmp_path)
        assert len(names(tmp_path)) == 3
    assert content(tmp_path) == {"a": b"1", "b/x": b"1", "c": b"1"}
    (tmp_path / ".a.0123abcd.dssl-partial").write_bytes(b"half")
    (tmp_path / ".b.0123abcd.dssl-partial" / "below").mkdir(parents=True)
    (tmp_path / ".mine.partial").write_bytes(b"of another program")
    assert files.is_partial(tmp_path / ".b.0123abcd.dssl-partial")
    files.write_whole(tmp_path / "a", b"2")
    assert names(tmp_path) == [".mine.partial", "a", "b", "c"]


def killed_at(number: int, write: Callable[[], None], disk: Disk) -> bool:
    """Whether a child that writes dies at its call of that number, as by kill −9."""
    if not (child := os.fork()):
        disk.call = lambda name: disk.calls.append(name) if len(disk.calls) < number else os.kill(os.getpid(), 9)  # type: ignore[method-assign]
        with failing(disk):
            write()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("swaps", [True, False])
def test_killed_at_any_call_a_folder_is_old_or_new_and_the_next_writer_clears_up(tmp_path: Path, swaps: bool) -> None:
    place = tmp_path / "folder"
    fill(place, b"old")
    old, seen = content(place), set()
    fill(place, b"new")
    new = content(place)
    for number in range(100):
        fill(place, b"old")
        died = killed_at(number, lambda: fill(place, b"new"), Disk(tmp_path, swaps=swaps))
        if not swaps:
            files.clear(tmp_path)  # between its two renames nothing is there
        assert content(place) in (old, new), number
        assert [p for p in tmp_path.iterdir() if p != place and not files.is_partial(p)] == []
        seen.add(content(place) == old)
        fill(place, b"new")
        assert (content(place), names(tmp_path)) == (new, ["folder"])
        if not died:
            break
    assert number > 12
    assert seen == {True, False}


def test_killed_at_any_call_a_file_is_old_or_new(tmp_path: Path) -> None:
    place = tmp_path / "file"
    for number in range(20):
        place.write_bytes(b"old")
        died = killed_at(number, lambda: files.write_whole(place, b"new" * 10_000), Disk(tmp_path))
        assert place.read_bytes() in (b"old", b"new" * 10_000)
        files.clear(tmp_path)
        assert names(tmp_path) == ["file"]
        if not died:
            break
    assert number >= 6


def test_a_killed_remover_leaves_a_folder_whole_or_gone(tmp_path: Path) -> None:
    place = tmp_path / "folder"
    for number in range(20):
        fill(place, b"1")
        died = killed_at(number, lambda: files.remove_folder(place), Disk(tmp_path))
        assert not place.exists() or len(content(place)) == 2
        files.clear(tmp_path)
        if not died:
            break
    assert number >= 4
    files.remove_folder(place)  # nothing to do
    assert names(tmp_path) == []


def test_eight_processes_write_one_file_and_one_folder(tmp_path: Path) -> None:
    """Each makes the folder anew and clears up after the others all the time."""
    fill(tmp_path / "folder", b"0")
    children = []
    for number in range(8):
        if not (child := os.fork()):
            for _ in range(20):
                files.write_whole(tmp_path / "file", bytes([65 + number]) * 50_000)
                fill(tmp_path / "folder", bytes([65 + number]) * 1000)
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    assert names(tmp_path) == ["file", "folder"]
    assert len((tmp_path / "file").read_bytes()) == 50_000
    assert len(set((tmp_path / "file").read_bytes())) == 1
    found = content(tmp_path / "folder")
    assert found["a"] * 2 == found["below/b"]


# ---- a disk that fails ----


def refusal(write: Callable[[], None], disk: Disk) -> WriteError | None:
    """Our error when something is written to a disk that fails, or None if that was no matter."""
    try:
        with failing(disk):
            write()
    except WriteError as error:
        return error
    return None


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("swaps", [True, False])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_at_every_failing_call_old_or_new_and_our_error(tmp_path: Path, code: int, swaps: bool, lasting: bool) -> None:
    place = tmp_path / "folder"
    fill(place, b"old")
    old, raised = content(place), 0
    for number in range(100):
        disk = Disk(tmp_path, number, code, lasting, swaps)
        error = refusal(lambda: fill(place, b"new"), disk)
        if error is not None:
            raised += 1
            assert error.errno == code
            assert str(error).startswith(f"'{tmp_path}/")
            assert f"cannot be written: {os.strerror(code)}\n" in str(error)
            if swaps or not lasting:
                assert content(place) == old
        strays = [p for p in tmp_path.iterdir() if p != place]
        assert all(map(files.is_partial, strays))
        assert not strays or code != errno.ENOSPC
        fill(place, b"new")
        assert names(tmp_path) == ["folder"]
        assert set(content(place).values()) == {b"new", b"newnew"}
        fill(place, b"old")
        if len(disk.calls) <= number:
            break
    assert raised >= 8


def test_adding_to_a_file_adds_all_or_nothing(tmp_path: Path) -> None:
    files.append(tmp_path / "log", b"one\n")
    for number in range(2):
        with pytest.raises(WriteError, match="log' cannot be written"), failing(Disk(tmp_path, number)):
            files.append(tmp_path / "log", b"two\n")
        assert (tmp_path / "log").read_bytes() == b"one\n"
    files.append(tmp_path / "log", b"two\n")
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


# ---- one way ----

ELSEWHERE = {
    "app/explorer/worker.py:os.fdopen",  # its standard output
    "training/processes.py:tempfile.TemporaryDirectory",  # where ranks meet, gone with the run
    "training/processes.py:(folder / f'error-{rank}').write_bytes",
}
CALLS = (
    "os.replace",
    "os.rename",
    "os.fsync",
    "shutil.copy",
    "shutil.copyfile",
    "shutil.move",
    "np.save",
    "torch.save",
)
METHODS = ("write_text", "write_bytes", "touch", "to_csv", "save_file")
MODES = ("w", "wb", "a", "ab", "x", "xb", "r+b", "w+b")


def writers(source: str) -> Iterator[str]:
    """Calls that write files, by name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name, last = ast.unparse(node.func), getattr(node.func, "attr", "")
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            modes = [value.value for value in given if isinstance(value, ast.Constant)]
            opened = name.split(".")[-1] in ("open", "fdopen") and any(mode in MODES for mode in modes)
            if opened or last in METHODS or name in CALLS or name.startswith("tempfile."):
                yield name


def test_there_is_one_way_to_write() -> None:
    found = {
        f"{path.relative_to(SOURCE).as_posix()}:{name}" for path in modules() for name in writers(path.read_text())
    }
    assert {name for name in found if not name.startswith("files.py:")} == ELSEWHERE


@pytest.mark.parametrize(
    "line", ["open(p, 'w')", "p.open(mode='ab')", "p.write_text('')", "os.replace(a, b)", "tempfile.mkstemp()"]
)
def test_another_way_is_found(line: str) -> None:
    assert list(writers(line))
