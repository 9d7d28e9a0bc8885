"""Prediction of many rows: does its memory grow with them?

Each prediction is a process of its own, which tells its peak of resident memory (VmHWM, libraries included) when it is
done.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

BLOCK = 100_000  # rows written at a time: a short file is the beginning of a long one
RULES = "legs, fins, wings\nlegs -> !fins\nlegs | fins | wings\n"
TOLD = (
    "\nstatus = open('/proc/self/status').read().split('VmHWM:')[1].split()[0]\nprint('PEAK', status, file=sys.stderr)"
)
COMMAND = "import sys\nfrom dssl.app.cli import main\nassert main(sys.argv[1:]) == 0" + TOLD
PYTHON = (  # parts of a file, as a program would read them, and what it keeps of each
    "import sys\nfrom pathlib import Path\nimport dssl\nfrom dssl.app.trained import Trained\n"
    "model = dssl.load(Path(sys.argv[1]) / 'model')\nread = Trained.open(Path(sys.argv[1]))\nlegs = 0\n"
    "for part in read.chunks(Path(sys.argv[2])):\n"
    "    legs += int(model.predict(read.preprocessing(part))['legs'].sum())" + TOLD
)


@dataclass(frozen=True)
class Rows:
    rows: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    slack_mb: float = 40.0  # by which the peak for most rows may exceed that for fewest
    ways: tuple[tuple[str, str], ...] = (
        (".csv", ".csv"),
        (".csv", ".parquet"),
        (".parquet", ".csv"),
        (".csv", "Python"),
    )
    seed: int = 0


# ---- files and a model ----


def block(rows: int, rng: np.random.Generator) -> pl.DataFrame:
    numbers = {name: rng.normal(size=rows).round(3) for name in ("weight", "speed")}
    return pl.DataFrame({**numbers, "home": rng.choice(["land", "sea", "air"], rows)})


def write(path: Path, rows: int, seed: int) -> Path:
    """A file of so many rows: a number of blocks, or less than one."""
    rng = np.random.default_rng(seed)
    with path.open("wb") as file:
        for start in range(0, rows, BLOCK):
            block(BLOCK, rng)[: rows - start].write_csv(file, include_header=not start)
    return path


def fit(folder: Path, command: Callable[[list[str]], object]) -> Path:
    """The run of a small model, fitted by a command line."""
    rows = block(200, np.random.default_rng(1))
    heavy, quick = rows["weight"] > 0, rows["speed"] > 0
    labels = {"legs": heavy, "fins": ~heavy & quick, "wings": ~heavy & ~quick}
    rows.with_columns(**{name: y.cast(pl.Int8) for name, y in labels.items()}).write_csv(folder / "train.csv")
    (folder / "train.rules").write_text(RULES)
    data, rules, out = (str(folder / name) for name in ("train.csv", "train.rules", "run"))
    command(["fit", data, "--rules", rules, "--out", out, "--steps", "30", "--network", "linear"])
    return folder / "run"


def script(words: list[str]) -> tuple[int, str]:
    """Run a command line; its code, and what it says on stderr."""
    done = subprocess.run([sys.executable, "-m", "dssl", *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def measured(code: str, words: list[str]) -> tuple[float, float]:
    """The peak of memory in MB, and the seconds, of a process. One that had to compile kernels is run again."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    while True:
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, env=env
        )
        assert done.returncode == 0, done.stderr[-2000:]
        if "compiling kernels" not in done.stderr:
            return int(done.stderr.rsplit("PEAK", 1)[1]) / 1024, time.perf_counter() - began


# ---- measuring ----


@dataclass(frozen=True)
class Peak:
    way: str
    rows: int
    peak_mb: float
    seconds: float


def measure(run: Path, data: Path, rows: int, to: str) -> Peak:
    """The peak of one prediction, whose answers are counted."""
    out = data.with_name(f"labels{to}")
    if to == "Python":
        peak, seconds = measured(PYTHON, [str(run), str(data)])
    else:
        peak, seconds = measured(COMMAND, ["predict", str(run), str(data), "--out", str(out)])
        seen = pl.scan_csv(out) if to == ".csv" else pl.scan_parquet(out)
        assert seen.select(pl.len()).collect().item() == rows, f"{out} has not {rows} rows"
    return Peak(f"{data.suffix} → {to}", rows, round(peak, 1), round(seconds, 1))


def begins(long: Path, short: Path) -> bool:
    """Whether a file begins with another: the rows of a short file are the first of a long one."""
    with long.open() as a, short.open() as b:
        lines = b.readlines()
        return lines == list(islice(a, len(lines)))


def refused_halfway(run: Path, data: Path, command: Callable[[list[str]], tuple[int, str]]) -> bool:
    """Whether a file whose last line is wrong is refused, and nothing is left of the labels of all lines before.

    `command` gives the code and stderr of a command line.
    """
    with data.open("a") as file:
        file.write("1.0,fast,sea\n")
    before = set(data.parent.iterdir())
    code, said = command(["predict", str(run), str(data), "--out", str(data.with_name("none.csv"))])
    told = "column 'speed' held numbers in training, but here 'fast'" in said
    return code == 1 and told and set(data.parent.iterdir()) == before


def run(given: Rows, folder: Path) -> dict[str, Any]:
    """All ways, from few rows to many."""
    model, found, whole = fit(folder, script), [], True
    for rows in given.rows:
        place = folder / str(rows)
        place.mkdir()
        data = {".csv": write(place / "rows.csv", rows, given.seed)}
        if any(kind == ".parquet" for kind, _ in given.ways):
            pl.scan_csv(data[".csv"]).sink_parquet(place / "rows.parquet")
            data[".parquet"] = place / "rows.parquet"
        for kind, to in given.ways:
            found.append(measure(model, data[kind], rows, to))
            print(f"{found[-1].way:22}{rows:12,} rows{found[-1].peak_mb:9.1f} MB{found[-1].seconds:8.1f} s", flush=True)
        whole = whole and begins(place / "labels.csv", folder / str(given.rows[0]) / "labels.csv")
        for file in place.iterdir():  # one size at a time is on disk, and the first for comparing
            if rows != given.rows[0]:
                file.unlink()
    most, least = max(given.rows), min(given.rows)
    grown = {
        p.way: round(p.peak_mb - next(q.peak_mb for q in found if q.way == p.way and q.rows == least), 1)
        for p in found if p.rows == most
    }  # fmt: skip
    started = {p.way: p.seconds for p in found if p.rows == least}  # nearly all of it is spent on starting
    rate = {p.way: round((most - least) / max(0.1, p.seconds - started[p.way])) for p in found if p.rows == most}
    halfway = refused_halfway(model, folder / str(least) / "rows.csv", script)
    fine = whole and halfway and max(grown.values()) <= given.slack_mb
    return {
        "holds": fine, "peaks": [vars(p) for p in found], "grown_mb": grown, "rows_per_s": rate,
        "same_first_rows": whole, "refused_halfway": halfway,
    }  # fmt: skip
