"""The evidence behind the defaults of DSSLClassifier: it against its own supervised version, on seven data sets, and
against scikit-learn's semi-supervised classifiers on digits.

    DSSL_DATA=… python experiments/defaults.py            # all data sets
    python experiments/defaults.py --sets digits iris     # some

Each figure is the mean over seeds of accuracy on held-out rows (for several labels a row: micro-averaged F1), with the
standard error of the mean; a gain is paired by seed. "random" sets draw labelled rows at random, the others evenly from
each class. Zoo, emotions and birds are read from the folder that DSSL_DATA names, and left out where it is not set.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from ledger import RESULTS
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

import dssl
from dssl.training.estimators import DSSLClassifier
from dssl.training.published import load_mulan, load_zoo

Arrays = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Settings:
    first_seed: int = 0
    seeds: int = 6
    more_seeds: int = 16  # on sets whose test rows are few
    threads: int = 1
    # labels given, and rows held out for testing
    sets: dict[str, tuple[tuple[int, ...], int]] = field(
        default_factory=lambda: {
            "digits": ((20, 50, 100), 500),
            "digits, random": ((20, 50, 100), 500),
            "iris": ((6, 15, 30), 50),
            "wine": ((6, 15, 30), 60),
            "breast cancer": ((6, 20, 50), 190),
            "breast cancer, random": ((20, 50), 190),
            "zoo": ((21, 35), 34),
            "emotions": ((50, 150), 200),
            "birds": ((50, 150), 215),
        }
    )
    # what is compared, as parameters that differ from the defaults; the last ones and the peers on digits only
    variants: dict[str, dict[str, Any]] = field(default_factory=lambda: {"supervised": {"prior": None}, "default": {}})
    on_digits: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {
            "prior alone": {"consistency": None},
            "prior alone, T = 10": {"consistency": None, "power": 10.0},
            "no balance": {"balance": 0.0},
            "no prior": {"prior_weight": 0.0},
        }
    )


# scikit-learn's, each with the better of the scalings and kernels tried here: pixels as they are, and from 0 to 1
PEERS: dict[str, Callable[[], Any]] = {
    "LabelSpreading, knn": lambda: LabelSpreading(kernel="knn", n_neighbors=7),
    "LabelSpreading, rbf": lambda: make_pipeline(FunctionTransformer(lambda x: x / 16), LabelSpreading(gamma=10.0)),
    "SelfTraining": lambda: SelfTrainingClassifier(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)), threshold=0.75
    ),
}


# ---- data ----


def read(name: str) -> Arrays | None:
    """The features and labels of a data set, or None if it is not here."""
    built_in: dict[str, Callable[..., Arrays]] = {
        "digits": load_digits,
        "iris": load_iris,
        "wine": load_wine,
        "breast cancer": load_breast_cancer,
    }
    name = name.removesuffix(", random")
    if name in built_in:
        return built_in[name](return_X_y=True)
    if "DSSL_DATA" not in os.environ:
        return None
    part = load_zoo().train if name == "zoo" else load_mulan(name).train
    return part.x, part.y.astype(int)


def split(x: np.ndarray, y: np.ndarray, labels: int, test: int, seed: int, random: bool) -> tuple[np.ndarray, ...]:
    """Training rows with all but `labels` labels hidden, and test rows."""
    even = y.ndim == 1 and np.unique(y, return_counts=True)[1].min() > 4  # zoo's rarest type cannot be spread
    train, held = train_test_split(np.arange(len(x)), test_size=test, random_state=seed, stratify=y if even else None)
    if even and not random:
        kept, _ = train_test_split(train, train_size=labels, random_state=seed, stratify=y[train])
    else:
        kept = np.random.RandomState(seed).permutation(train)[:labels]
    shown = np.full(y.shape, -1)
    shown[kept] = y[kept]
    return x[train], shown[train], x[held], y[held]


# ---- measuring ----


def seeds_of(test: int, settings: Settings) -> int:
    return settings.more_seeds if test < 100 else settings.seeds


def runs(
    name: str, labels: int, test: int, parameters: dict[str, Any], peer: str | None, settings: Settings
) -> Iterator[float]:
    data = read(name)
    assert data is not None
    for seed in range(settings.first_seed, settings.first_seed + seeds_of(test, settings)):
        x, y, x_test, truth = split(*data, labels, test, seed, name.endswith(", random"))
        model = DSSLClassifier(random_state=seed, **parameters) if peer is None else PEERS[peer]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LabelSpreading divides by 0 for rows without labelled neighbours
            predicted = model.fit(x, y).predict(x_test)
        yield accuracy_score(truth, predicted) if truth.ndim == 1 else f1_score(truth, predicted, average="micro")


def measure(name: str, settings: Settings) -> Iterator[dict[str, Any]]:
    sizes, test = settings.sets[name]
    variants = dict(settings.variants)
    if name.startswith("digits"):
        variants |= settings.on_digits | {peer: {} for peer in PEERS}
    for labels in sizes:
        supervised = np.zeros(seeds_of(test, settings))
        for variant, parameters in variants.items():
            begin = time.perf_counter()
            scores = np.array(
                list(runs(name, labels, test, parameters, variant if variant in PEERS else None, settings))
            )
            supervised = scores if variant == "supervised" else supervised
            gain = scores - supervised
            yield {
                "set": name,
                "labels": labels,
                "variant": variant,
                "score": round(float(scores.mean()), 4),
                "error": round(float(scores.std(ddof=1) / len(scores) ** 0.5), 4),
                "gain": round(float(gain.mean()), 4),
                "gain_error": round(float(gain.std(ddof=1) / len(scores) ** 0.5), 4),
                "scores": [round(float(score), 4) for score in scores],
                "seconds_a_fit": round((time.perf_counter() - begin) / len(scores), 2),
            }


def main() -> None:
    settings = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(settings.sets), default=list(settings.sets))
    parser.add_argument("--out", type=Path, default=RESULTS / "defaults.json")
    parser.add_argument("--first-seed", type=int, default=0, help="other seeds than those the defaults were chosen on")
    chosen = parser.parse_args()
    settings = replace(settings, first_seed=chosen.first_seed)
    torch.set_num_threads(settings.threads)
    begin, results = time.perf_counter(), []
    for name in chosen.sets:
        if read(name) is None:
            print(f"{name}: set DSSL_DATA to the data folder to include it")
            continue
        for row in measure(name, settings):
            print(
                f"{row['set']:>22} {row['labels']:4} {row['variant']:16} {row['score']:.3f} ± {row['error']:.3f}"
                f"   gain {row['gain']:+.3f} ± {row['gain_error']:.3f}   {row['seconds_a_fit']:.1f} s",
                flush=True,
            )
            results.append(row)
    versions = {
        "dssl": dssl.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }
    record = {
        "settings": asdict(settings),
        "seeds": f"{settings.first_seed}, {settings.first_seed + 1}, … of each set",
        "versions": versions,
        "defaults": DSSLClassifier().get_params(),
        "seconds": round(time.perf_counter() - begin),
        "results": results,
    }
    chosen.out.parent.mkdir(exist_ok=True)
    chosen.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
