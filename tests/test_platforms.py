"""Systems unlike this one: what only POSIX has is used in known places, each with a twin, and all works without it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from dssl import files

SOURCE = Path(files.__file__).parent
MODULES = set("crypt curses fcntl grp posix pty pwd readline resource spwd syslog termios tty".split())
NAMES = {
    "os": set(
        "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_SYNC chown confstr ctermid fchmod fchown fork forkpty getegid "
        "geteuid getgid getgroups getloadavg getpgid getpgrp getpriority getsid getuid initgroups killpg lchown "
        "memfd_create mkfifo mknod nice openpty pathconf posix_fadvise posix_spawn pread pwrite register_at_fork "
        "sched_getaffinity sched_setaffinity sched_yield sendfile setgid setpgid setpriority setsid setuid statvfs "
        "sync sysconf tcgetpgrp ttyname uname wait wait3 wait4 waitid".split()
    ),
    "select": {"devpoll", "epoll", "kevent", "kqueue", "poll"},
    "shutil": {"chown"},
    "socket": {"AF_UNIX", "SO_REUSEPORT", "recv_fds", "send_fds"},
    "time": {"clock_getres", "clock_gettime", "clock_gettime_ns", "clock_settime", "pthread_getcpuclockid", "tzset"},
    "signal": set(
        "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 alarm getitimer pause "
        "pthread_kill pthread_sigmask setitimer siginterrupt sigpending sigwait".split()
    ),
}
OTHERWISE = {"os": {"kill", "link", "rename", "symlink"}}  # Windows has them, and they do something else there
KEYWORDS = {"pass_fds", "preexec_fn", "process_group", "start_new_session"}
KNOWN = {  # where it is used, and what happens elsewhere
    ("files.py", "fcntl"): "locks of msvcrt; of unfinished files none, so that none is taken for left behind",
    (
        "files.py",
        "os.rename",
    ): "to names that are free: Windows refuses all others",
    ("files.py", "os.O_NOFOLLOW"): "only where fcntl is",
    ("app/explorer/worker.py", "resource"): "only where /proc is",
    ("app/explorer/worker.py", "/proc/self/statm"): "the worker's memory is not bounded",
    ("app/explorer/worker.py", "signal.alarm"): "asked for by hasattr; its parent ends a worker that takes too long",
    ("app/explorer/worker.py", "text without encoding"): "numbers that the system writes",
    ("circuits/compile/budget.py", "/sys/fs/cgroup/memory.max"): "the machine's own memory counts",
    ("circuits/compile/budget.py", "text without encoding"): "a number that the system writes",
    ("circuits/compile/budget.py", "os.sysconf"): "4 GiB are allowed",
    ("circuits/evaluate/threads.py", "os.register_at_fork"): "asked for by hasattr; there are no forks",
    ("training/processes.py", "send_signal"): "not called: Ctrl-C reaches all processes of a window",
    ("training/processes.py", "start_new_session"): "False, as Windows wants it",
}
USES = {module: names | OTHERWISE.get(module, set()) for module, names in NAMES.items()}
PLACE = re.compile(r"/(proc|dev|sys|tmp|etc|var)(/.*)?")


def without_encoding(call: ast.Call) -> bool:
    """Whether text is read or written in the encoding of the system, which on Windows is not UTF-8."""
    if any(keyword.arg in ("encoding", None) for keyword in call.keywords):
        return False
    match call:
        case ast.Call(func=ast.Attribute(attr="read_text"), args=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="write_text"), args=[_]):
            return True
        case ast.Call(func=ast.Name(id="open") | ast.Attribute(value=ast.Name(id="os"), attr="fdopen"), args=args):
            modes = [*args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
            return not any(isinstance(mode, ast.Constant) and "b" in str(mode.value) for mode in modes)
    return False


def only_posix(source: str) -> set[str]:
    """What a source uses that only POSIX systems have, or that means something else on Windows."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names} & MODULES
                found |= {f"{alias.name} as {alias.asname}" for alias in names if alias.asname and alias.name in USES}
            case ast.ImportFrom(module=module, names=names) if module in MODULES:
                found.add(module)
            case ast.ImportFrom(module=module, names=names) if module in USES:
                found |= {f"{module}.{alias.name}" for alias in names if alias.name in USES[module] | {"*"}}
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in USES.get(module, ()):
                found.add(f"{module}.{name}")
            case ast.Attribute(attr="send_signal"):
                found.add("send_signal")
            case ast.keyword(arg=str(name)) if name in KEYWORDS:
                found.add(name)
            case ast.Call() if without_encoding(node):
                found.add("text without encoding")
            case ast.Constant(value=str(text)) if PLACE.fullmatch(text) or text in ("fork", "forkserver"):
                found.add(text)
    return found


def test_what_only_posix_has_is_used_in_known_places() -> None:
    paths = sorted(SOURCE.rglob("*.py"))
    found = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in paths
        for name in only_posix(path.read_text(encoding="utf-8"))
    }
    assert found == set(KNOWN)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import os\nos.fork()", "os.fork"),
        ("from signal import SIGKILL", "signal.SIGKILL"),
        ("import resource", "resource"),
        ("from fcntl import flock", "fcntl"),
        ("run(x, preexec_fn=f)", "preexec_fn"),
        ("process.send_signal(2)", "send_signal"),
        ("open('/dev/null', 'rb')", "/dev/null"),
        ("import signal\nsignal.signal(signal.SIGALRM, f)", "signal.SIGALRM"),
        ("import os\nos.open(a, os.O_DIRECTORY)", "os.O_DIRECTORY"),
        ("import os\nos.killpg(1, 2)", "os.killpg"),
        ("import os\nos.rename(a, b)", "os.rename"),
        ("import os as system", "os as system"),
        ("from os import *", "os.*"),
        ("import pwd", "pwd"),
        ("import socket\nsocket.socket(socket.AF_UNIX)", "socket.AF_UNIX"),
        ("multiprocessing.get_context('fork')", "fork"),
        ("open(path)", "text without encoding"),
        ("open(path, mode='w')", "text without encoding"),
        ("path.read_text()", "text without encoding"),
        ("path.write_text(text)", "text without encoding"),
    ],
)
def test_such_a_use_is_found(source: str, name: str) -> None:
    assert only_posix(source) == {name}
    assert only_posix("import os, signal\nos.replace(a, b)\nsignal.SIGINT\n'/develop'") == set()
    assert only_posix("open(a, 'rb'), open(a, encoding='utf-8'), path.read_text('utf-8'), open(a, **how)") == set()


WITHOUT = """
import asyncio, multiprocessing, os, select, selectors, shutil, signal, socket, subprocess, sys, tempfile, time
import numpy as np, torch, numba, sklearn.base, polars  # others have their own ways
modules, names, folder = eval(sys.argv[1]), eval(sys.argv[2]), sys.argv[3]
for name in modules:
    sys.modules[name] = None
for module, gone in names.items():
    for name in gone:
        if hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
from pathlib import Path
from dssl import DSSLClassifier, LabelSpace, files, load, save
from dssl.app.cli import main
from dssl.app.explorer import worker
from dssl.circuits.compile.budget import share_of_memory
assert files.fcntl is None
place = Path(folder)
files.write_whole(place / "a", b"1")
files.append(place / "a", b"2", durable=True)
assert (place / "a").read_bytes() == b"12"
assert worker._alarm(5) is None
share_of_memory()
space = LabelSpace("a, b, c\\na -> b\\nb -> !c")
assert space.compile().count() == 4
x = np.eye(6, 3)
y = space.encode([*space.valid()])[[0, 1, 2, 3, 0, 1]]
model = DSSLClassifier(space, network="linear", steps=3, random_state=0).fit(x, y)
save(model, place / "model")
save(model, place / "model")  # takes the place of the first
assert (load(place / "model").predict_proba(x) == model.predict_proba(x)).all()
(place / "rows.csv").write_text("x,y\\n" + "".join(f"{i * 37 % 20 / 7:.3f},{i % 2}\\n" for i in range(20)))
sys.exit(main(["fit", str(place / "rows.csv"), "--label", "y", "--steps", "3", "--out", str(place / "run"), "--quiet"]))
"""


def test_the_package_works_without_what_only_posix_has(tmp_path: Path) -> None:
    asked = [sys.executable, "-c", WITHOUT, repr(sorted(MODULES)), repr(NAMES), str(tmp_path)]
    done = subprocess.run(asked, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "run" / "model" / "model.json").exists()


class Windows(types.SimpleNamespace):
    """Locks as Windows has them: the first attempts find the file held by another."""

    LK_LOCK = 1

    def __init__(self, held: int) -> None:
        super().__init__(held=held, locked=[])

    def locking(self, handle: int, mode: int, size: int) -> None:
        if self.held:
            self.held -= 1
            raise OSError(36, "Resource deadlock avoided")
        self.locked.append((mode, size))


def test_windows_locks_a_place_beyond_the_file_and_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = Windows(held=2)
    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setattr(files, "msvcrt", windows)
    with open(tmp_path / "a", "a+b", buffering=0) as file:
        file.write(b"abc")
        files.hold(file)
        assert file.tell() == 3
    assert windows.locked == [(1, 1)]
    assert (tmp_path / "a").read_bytes() == b"abc"


def test_without_any_lock_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setattr(files, "msvcrt", None)
    with open(tmp_path / "a", "a+b", buffering=0) as file, pytest.raises(OSError, match="no locks"):
        files.hold(file)


# ---- a process that ignores Ctrl-C ----

IN_BACKGROUND = """
import signal, sys, pytest
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as nohup and a script's & leave it
code = pytest.main(["-q", "-p", "no:xdist", "-p", "no:cacheprovider", *sys.argv[1:]])
sys.exit(code or signal.getsignal(signal.SIGINT) != signal.SIG_IGN)
"""
INTERRUPTED = (
    "logic/reasoning/test_sat.py::test_ctrl_c_is_heard_again_and_again",
    "circuits/evaluate/test_threads.py::test_a_long_call_hears_an_interruption_while_helpers_work",
)


def test_tests_of_ctrl_c_do_not_wait_for_ever_in_the_background() -> None:
    here = Path(__file__).parent
    words = [sys.executable, "-c", IN_BACKGROUND, *(str(here / test) for test in INTERRUPTED)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=here.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_whoever_waits_for_ctrl_c_makes_sure_that_it_is_heard() -> None:
    """A test that sends it to its own process, and takes it from no handler of its own, hangs where it is ignored."""
    here = Path(__file__).parent
    sending = re.compile(r"interrupt_main\(\)|signal\.raise_signal, \[signal\.SIGINT\]")
    found = {
        p.relative_to(here).as_posix(): p.read_text() for p in here.rglob("test_*.py") if p.name != "test_systems.py"
    }
    senders = {name for name, text in found.items() if sending.search(text)}
    assert senders == {test.partition("::")[0] for test in INTERRUPTED}
    assert all('usefixtures("ctrl_c")' in found[name] for name in senders)
