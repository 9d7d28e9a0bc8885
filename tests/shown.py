"""Commands shown in pages: run as they stand, and what they print compared with what the page says.

A block of language `console` has commands behind `$ ` and, below each, what it prints, with `...` for what may vary;
a command with nothing below it need only succeed. A block of language `bash` has nothing but commands, to be pasted.
All blocks of a page run in one folder of its own, in which `examples` is that of the repository. `dssl` runs in this
process, to spare it the start of another.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from sybil import Example

ROOT = Path(__file__).parent.parent
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def evaluate(example: Example) -> str | None:
    """What is wrong with a block, or None; for Sybil."""
    if "_folder" not in example.namespace:
        example.namespace["_folder"] = tempfile.TemporaryDirectory(prefix="dssl-page-")
        (Path(example.namespace["_folder"].name) / "examples").symlink_to(ROOT / "examples")
    folder = example.namespace["_folder"]
    source = str(example.parsed)
    if example.region.lexemes["arguments"] == "bash":
        source = "\n".join(f"$ {line}" for line in source.replace("\\\n", " ").splitlines())
    return fault(source, Path(folder.name))


def forget(namespace: dict[str, object]) -> None:
    """Removes the folder of a page that has been run through."""
    folder = namespace.pop("_folder", None)
    if isinstance(folder, tempfile.TemporaryDirectory):
        folder.cleanup()


def fault(source: str, folder: Path) -> str | None:
    """The first command of a block that fails or prints something else, with what it printed."""
    for command, expected in _commands(source):
        code, printed = _run(command, folder)
        if code:
            return f"$ {command}\nended with {code} and said:\n{printed}"
        if expected.strip() and not doctest.OutputChecker().check_output(expected, printed, _FLAGS):
            return f"$ {command}\nshould print:\n{expected}\nbut prints:\n{printed}"
    return None


def _commands(source: str) -> Iterator[tuple[str, str]]:
    for part in ("\n" + source).split("\n$ ")[1:]:
        command, _, expected = part.replace("\\\n", " ").partition("\n")
        yield command, expected


def _run(command: str, folder: Path) -> tuple[int, str]:
    program, *words = shlex.split(command)
    if program == "dssl":
        return _run_here(words, folder)
    if program != "python":
        raise ValueError(f"'{command}' cannot be tried: show dssl or python, or use a block of another language")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + (done.stderr if done.returncode else "")


def _run_here(words: list[str], folder: Path) -> tuple[int, str]:
    from dssl.app.cli import main

    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        mock.patch.object(sys, "argv", ["dssl", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main()
    return code, out.getvalue() + (err.getvalue() if code else "")
