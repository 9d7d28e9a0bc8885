"""Right models, runs and data, made once a session, for bad ones to be made from."""

from __future__ import annotations

import atexit
import contextlib
import io
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import dssl

RULES = "legs, fins\nlegs -> !fins\n"
DATA = "weight,home,legs,fins\n" + "".join(
    f"{i % 7}.5,{'sea' if i % 2 else 'wood'},{'' if i > 12 else 1 - i % 2},{'' if i > 12 else i % 2}\n"
    for i in range(24)
)


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="dssl-right-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def model() -> Path:
    """A model saved from Python."""
    x = np.random.default_rng(0).normal(size=(12, 2))
    y = [[1, 0], [0, 1], [0, 0], [None, None]] * 3
    fitted = dssl.DSSLClassifier(RULES, prior="learned", steps=2, network="linear", random_state=0).fit(x, y)
    return dssl.save(fitted, _folder() / "model")


@cache
def run() -> Path:
    """A run of `dssl fit`."""
    from dssl.app.cli import main

    data, rules = _folder() / "data.csv", _folder() / "a.rules"
    data.write_text(DATA)
    rules.write_text(RULES)
    words = ["fit", data, "--rules", rules, "--out", _folder() / "run", "--steps", 3, "--network", "linear"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        assert main([str(word) for word in words]) == 0, said.getvalue()
    return _folder() / "run"
