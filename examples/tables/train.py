"""Fits four data sets by one command each, and compares with logistic regression on the same columns.

    python examples/tables/train.py

Logistic regression gets the labelled rows with the very features that the command makes, or with pixels.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from make import make
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from dssl.app.cli import main as dssl
from dssl.app.options import Options
from dssl.app.preparation import Examples, prepare

SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "shop": ("shop.csv", {"rules": "shop.rules", "test": "shop_test.csv"}),
    "tickets": ("tickets.csv", {"label": ["tags"], "test": "tickets_test.csv"}),
    "shapes": ("shapes", {"test": "shapes_test"}),
    "meters": ("meter.parquet", {"label": ["building"], "test": "meter_test.parquet"}),
}


def main() -> None:
    """One line for each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps of training")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other data")
    asked = parser.parse_args()
    print(f"{'all labels right on test rows':34} {'dssl fit':>9} {'logistic regression':>20}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make(folder, asked.seed)
        for name, (data, options) in SETS.items():
            command = ["fit", str(folder / data), "--out", str(folder / f"run-{name}")]
            command += [word for flag, value in options.items() for word in (f"--{flag}", _said(value, folder))]
            ours = _fitted([*command, *(["--steps", "60"] if asked.quick else [])])
            theirs = _logistic(folder / data, Options(**{k: _path(v, folder) for k, v in options.items()}))
            print(f"{name:34} {ours:>9.1%} {theirs:>20.1%}")


def _said(value: Any, folder: Path) -> str:
    return value[0] if isinstance(value, list) else str(folder / value)


def _path(value: Any, folder: Path) -> Any:
    return value if isinstance(value, list) else folder / value


def _fitted(command: list[str]) -> float:
    """Accuracy on test rows of what the command learns."""
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()) as errors:
        code = dssl([*command, "--json"])
    if code:
        raise SystemExit(errors.getvalue())
    return float(json.loads(said.getvalue())["metrics"]["accuracy, test"])


def _logistic(data: Path, options: Options) -> float:
    """Accuracy of one logistic regression for each variable."""
    ready = prepare(data, options)
    assert ready.test is not None
    train, test = ready.train, ready.test
    labelled = np.flatnonzero(~np.isnan(train.known).any(axis=1))
    x, new = _features(train)[labelled], _features(test)
    if isinstance(x, np.ndarray):
        scaler = StandardScaler().fit(x)
        x, new = scaler.transform(x), scaler.transform(new)
    right = np.ones(len(test), bool)
    for start, stop in ready.space.spans:
        y, truth = (_values(rows.known[:, start:stop]) for rows in (train, test))
        right &= LogisticRegression(max_iter=2000).fit(x, y[labelled]).predict(new) == truth
    return float(right.mean())


def _features(rows: Examples) -> Any:
    return rows.x.reshape(len(rows), -1).astype(float) if isinstance(rows.x, np.ndarray) else rows.x


def _values(block: Any) -> Any:
    return block[:, 0] if block.shape[1] == 1 else block.argmax(axis=1)


if __name__ == "__main__":
    main()
