"""The console script as users run it, small data, and one trained run for all who need one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dssl.app.cli import main

Done = subprocess.CompletedProcess[str]
RULES = "legs, fins, wings\nlegs -> !fins\nwings -> legs\n"


@pytest.fixture(scope="session")
def dssl() -> Callable[..., Done]:
    """Runs the installed `dssl` in a process of its own."""
    script = Path(sys.executable).with_name("dssl")

    def run(*words: object, cwd: Path | None = None) -> Done:
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [script, *map(str, words)], capture_output=True, text=True, check=False, cwd=cwd, env=env, timeout=300
        )

    return run


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command line in this process, and gives what it says on stderr; stdout must stay empty."""

    def run(*words: object, code: int = 1) -> str:
        assert main([str(word) for word in words]) == code
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "Traceback" not in shown.err
        return shown.err

    return run


def animals(rows: int = 90, labelled: int = 40, seed: int = 0) -> pl.DataFrame:
    """Rows whose labels obey the rules and depend on the features."""
    random = np.random.default_rng(seed)
    legs = random.random(rows) < 0.5
    fins, wings = ~legs & (random.random(rows) < 0.8), legs & (random.random(rows) < 0.5)
    known = np.arange(rows) < labelled
    frame = pl.DataFrame(
        {
            "name": [f"animal {i}" for i in range(rows)],
            "weight": np.round(2.0 * legs + random.normal(size=rows), 3),
            "speed": np.round(2.0 * wings - 2.0 * fins + random.normal(size=rows), 3),
            "home": np.where(fins, "sea", np.where(random.random(rows) < 0.5, "wood", "field")),
            **{label: y.astype(int) for label, y in (("legs", legs), ("fins", fins), ("wings", wings))},
        }
    )
    labels = [pl.when(pl.Series(known)).then(pl.col(name)).alias(name) for name in ("legs", "fins", "wings")]
    gaps = pl.when(pl.Series(np.arange(rows) % 17 != 3)).then(pl.col("weight")).alias("weight")
    return frame.with_columns(*labels, gaps)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with animals.csv and animals.rules."""
    path = tmp_path_factory.mktemp("animals")
    animals().write_csv(path / "animals.csv")
    (path / "animals.rules").write_text(RULES)
    return path


@pytest.fixture(scope="session")
def trained(dssl: Callable[..., Done], folder: Path) -> Path:
    """A run on animals.csv."""
    out = folder / "run"
    data, rules = folder / "animals.csv", folder / "animals.rules"
    done = dssl("fit", data, "--rules", rules, "--out", out, "--steps", 40, "--test-share", 0.2, "--id", "name")
    assert done.returncode == 0, done.stderr
    (folder / "said.txt").write_text(done.stdout)
    return out
