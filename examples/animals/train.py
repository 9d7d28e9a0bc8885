"""Learns what animals have from measurements: few rows examined in full, more seen from afar, and three rules.

    python examples/animals/train.py

Of the 150 labelled rows, 15 are used as they are. Of 75 only wings and gills are kept, as if seen on a photograph: the
rules know what follows for legs and fins. The other 60 are for testing, and 450 rows have no label at all.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from dssl import DSSLClassifier, LabelSpace

HERE = Path(__file__).parent


def main() -> None:
    """Compares labels alone with labels and rules, and with unlabelled rows besides."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one split, where it is four")
    args = parser.parse_args()
    torch.set_num_threads(1)  # such small matrices gain nothing from more

    space = LabelSpace.read(HERE / "animals.rules")
    table = pl.read_csv(HERE / "animals.csv")
    names = [variable.name for variable in space.variables]
    X, Y = inputs(table.drop(names)), table.select(names).to_numpy().astype(float)  # empty cells become NaN
    unlabelled = np.isnan(Y).all(axis=1)
    print(space)

    common = {"steps": 150, "learning_rate": 3e-3, "random_state": 0}
    models = {
        "labels": DSSLClassifier(prior=None, **common),
        "labels, rules": DSSLClassifier(space, prior=None, **common),
        "labels, rules, unlabelled rows": DSSLClassifier(space, objective={"constrained": True}, **common),
    }
    splits = range(1 if args.quick else 4)
    print(f"{'learned from':32}{'right':>8}{'invalid, raw':>14}{'invalid':>9}      mean of {len(splits)} splits")
    for name, model in models.items():
        found = []
        for seed in splits:
            known, test = split(Y, seed)
            model.fit(X, known)
            raw = broken(space, model.predict_theta(X[unlabelled]) > 0.5)
            final = broken(space, model.predict(X[unlabelled]))
            found.append((model.score(X[test], Y[test]), raw, final))
        right, raw, final = np.mean(found, axis=0)
        print(f"{name:32}{right:8.1%}{raw:14.1%}{final:9.1%}")


def split(Y: NDArray[np.float64], seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Labels of which 15 rows are kept, and wings and gills of 75; and the rows to test on."""
    labelled = np.flatnonzero(~np.isnan(Y).all(axis=1))
    whole, seen, test = np.split(np.random.default_rng(seed).permutation(labelled), [15, 90])
    known = np.full_like(Y, np.nan)
    known[whole], known[seen, 2:] = Y[whole], Y[seen, 2:]
    return known, test


def inputs(table: pl.DataFrame) -> NDArray[np.float64]:
    """Numbers with gaps filled in, and a column for each value of the others."""
    numeric = [name for name, kind in table.schema.items() if kind.is_numeric()]
    return make_column_transformer(
        (SimpleImputer(add_indicator=True), numeric),
        (make_pipeline(SimpleImputer(strategy="most_frequent", missing_values=None), OneHotEncoder(drop="if_binary")),
         [name for name in table.columns if name not in numeric]),
    ).fit_transform(table)  # fmt: skip


def broken(space: LabelSpace, found: Any) -> float:
    """The share of predictions that break a rule."""
    return len(space.check(np.asarray(found, dtype=float))) / len(found)


if __name__ == "__main__":
    main()
