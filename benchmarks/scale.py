"""More rows than memory holds: `DSSLClassifier.fit` on a folder of Parquet parts, beside the same rows in memory.

Each run is a process of its own, so that its peak of memory is its own. Rows are written part by part to a temporary
folder, or to the one that --folder names, and kept there. Rows per second are those of the training loop alone: the
same fit with few and with many steps, and the difference of their times, by the clock and of the processor: on a busy
machine only the latter says much. Writes benchmarks/results/scale.json.

    python benchmarks/scale.py                      # 200,000 rows, a minute
    python benchmarks/scale.py --rows 10000000
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dssl import DSSLClassifier, LabelSpace
from dssl.data.rows import ArrayData, Data
from dssl.data.stored.parquet import ParquetData

RESULTS = Path(__file__).parent / "results" / "scale.json"
COLUMNS, PART, LABELLED = 20, 250_000, 2000
NAMES = [f"x{i}" for i in range(COLUMNS)]
CLASSES = ("left", "middle", "right")
SPACE = LabelSpace("side: {left, middle, right}\nouter\nouter <-> side != middle")
FEW, MANY, UNLABELLED = 200, 1700, 1024  # steps, and unlabelled rows of each


def part(number: int, rows: int, every: int) -> pl.DataFrame:
    """Some rows, of which one in `every` is labelled."""
    random = np.random.default_rng((0, number))
    side = random.integers(0, 3, rows)
    x = random.normal(size=(rows, COLUMNS)).astype(np.float32)
    x[:, :2] += 2.0 * np.eye(3, 2, dtype=np.float32)[side]
    known = np.arange(rows) % every == 0
    labels = [CLASSES[s] if k else None for s, k in zip(side, known)]
    return pl.DataFrame(x, schema=NAMES).with_columns(side=pl.Series(labels, dtype=pl.String))


def write(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    every = max(1, rows // LABELLED)
    for number, start in enumerate(range(0, rows, PART)):
        size = min(PART, rows - start)
        part(number, size, every).write_parquet(folder / f"part-{number:04}.parquet", row_group_size=1 << 13)


def opened(folder: Path, way: str) -> Data:
    stored = ParquetData(folder, NAMES, ["side"], SPACE)
    if way == "streamed":
        return stored
    x, y = np.empty((len(stored), COLUMNS), np.float32), np.empty((len(stored), SPACE.width), np.float32)
    for rows, batch in stored.parts():
        x[rows], y[rows] = batch.x.numpy(), batch.y.numpy()
    return ArrayData(x, y)


def run(folder: Path, way: str, steps: int) -> None:
    """One fit; prints what it took."""
    began = time.perf_counter()
    data = opened(folder, way)
    read = time.perf_counter() - began
    settings = {"unlabelled_batch": UNLABELLED, "accelerator": "cpu"}
    model = DSSLClassifier(SPACE, steps=steps, calibrate=False, random_state=0, settings=settings)
    began, busy = time.perf_counter(), time.process_time()
    model.fit(data)
    fit, busy = time.perf_counter() - began, time.process_time() - busy
    new = part(10**6, 5000, 1)
    score = model.score(new.select(NAMES) if hasattr(model, "feature_names_in_") else new.select(NAMES).to_numpy(),
                        [{"side": side} for side in new["side"]])  # fmt: skip
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    said = str(model.plan_)
    near = "drawn together" in said
    print(
        json.dumps({"read": read, "fit": fit, "busy": busy, "megabytes": peak, "accuracy": score, "neighbours": near})
    )


def asked(folder: Path, way: str, steps: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--run", way, "--folder", str(folder), "--steps", str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measured(folder: Path, way: str, repeats: int) -> dict[str, Any]:
    """Rows per second of the loop, and what the longer fit took; the best of several, as others use the machine."""
    pairs = [(asked(folder, way, FEW), asked(folder, way, MANY)) for _ in range(repeats)]
    rows, last = (MANY - FEW) * (UNLABELLED + 64), pairs[-1][1]
    seconds, busy = (min(long[what] - short[what] for short, long in pairs) for what in ("fit", "busy"))
    before = min(short["read"] + short["fit"] for short, _ in pairs) - seconds * FEW / (MANY - FEW)
    return {
        "rows per second": round(rows / seconds), "rows per second of processor time": round(rows / busy),
        "seconds before the first step": round(before),
        "megabytes": round(max(long["megabytes"] for _, long in pairs)),
        "accuracy": last["accuracy"], "neighbours": last["neighbours"],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--run", choices=["streamed", "in memory"], help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, default=FEW, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run(given.folder, given.run, given.steps)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        if not list(folder.glob("*.parquet")):
            write(folder, given.rows)
        size = sum(file.stat().st_size for file in folder.glob("*.parquet")) / 1e6
        found: dict[str, Any] = {"rows": given.rows, "columns": COLUMNS, "megabytes on disk": round(size)}
        for way in ("streamed", "in memory"):
            found[way] = measured(folder, way, given.repeats)
            print(way, found[way], flush=True)
    for what in ("rows per second", "rows per second of processor time"):
        found[f"times fewer {what}"] = round(found["in memory"][what] / found["streamed"][what], 2)
    held = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**held, f"{given.rows:,} rows": found}, indent=1) + "\n")
    print({name: value for name, value in found.items() if name.startswith("times")})


if __name__ == "__main__":
    main()
