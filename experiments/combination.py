"""Priors, consistency terms and their sums on five data sets, and on a set of many labels with rules.

    DSSL_DATA=… python experiments/combination.py                       # everything; what is done is not done again
    python experiments/combination.py --sets digits wine --jobs 2       # some sets
    python experiments/combination.py --draw                            # the figure out of the stored results

A score is accuracy on test rows; for the FunCat classes of cellcycle it is the area under the micro-averaged precision
and recall curve. Every variant of a set has the same network, steps, batches, augmentation and seeds; nothing is tuned
to a set. MNIST and CIFAR-10 are read from the folder that DSSL_DATA names.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split
from torch import nn

import dssl
from dssl.training.estimators import DSSLClassifier
from dssl.training.published import Part, load_cifar10, load_hmc, load_mnist

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Task:
    labels: int
    test: int  # rows, where the set has no test part of its own
    steps: int
    consistency: tuple[str, ...]
    augment: str | None
    options: dict[str, Any] = field(default_factory=dict)


_TABLE = (
    "neighbours",
    "vat",
    "pi-model",
    "temporal-ensembling",
    "mean-teacher",
    "mixup",
    "mixmatch",
    "remixmatch",
    "fixmatch",
)
_IMAGE = tuple(name for name in _TABLE if name != "neighbours")
_SMALL = {"labelled_batch": 50, "unlabelled_batch": 200, "learning_rate": 2e-3}


@dataclass(frozen=True)
class Settings:
    first_seed: int = 0
    seeds: int = 5
    ema: float = 0.99
    priors: tuple[str, ...] = ("deterministic", "entropy", "exclusivity", "pseudo-label")
    summed: str = "deterministic"  # the prior of the sums
    tasks: dict[str, Task] = field(
        default_factory=lambda: {
            "digits": Task(20, 500, 400, _TABLE, "table"),
            "wine": Task(15, 60, 400, _TABLE, "table"),
            "breast cancer": Task(20, 190, 400, _TABLE, "table"),
            "mnist": Task(100, 0, 1500, _IMAGE, "digits", _SMALL),
            "cifar10": Task(1000, 0, 1000, _IMAGE, "image", _SMALL),
            "cellcycle": Task(10, 0, 400, ("vat", "neighbours"), "table"),  # labels: per cent
        }
    )


# ---- data ----


@cache
def read(name: str) -> tuple[Part, Part | None, Any]:
    """The training part, the test part if there is one, and rules if labels have any."""
    built_in: dict[str, Callable[..., Any]] = {
        "digits": load_digits,
        "wine": load_wine,
        "breast cancer": load_breast_cancer,
    }
    if name in built_in:
        return Part(*built_in[name](return_X_y=True)), None, None
    if name == "cellcycle":
        found = load_hmc("cellcycle_FUN")
        return found.train, found.test, found.space
    found = {"mnist": load_mnist, "cifar10": load_cifar10}[name]()
    return found.train, found.test, None


def split(name: str, task: Task, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training rows with all but some labels hidden, and test rows."""
    train, test, _ = read(name)
    rows = np.arange(len(train.x))
    if test is None:
        rows, held = train_test_split(rows, test_size=task.test, random_state=seed, stratify=train.y)
        test = Part(train.x[held], train.y[held])
    if train.y.ndim == 1:
        kept, _ = train_test_split(rows, train_size=task.labels, random_state=seed, stratify=train.y[rows])
        shown = np.full(train.y.shape, -1)
    else:
        kept = np.random.RandomState(seed).permutation(rows)[: len(rows) * task.labels // 100]
        shown = np.full(train.y.shape, np.nan)
    shown[kept] = train.y[kept]
    return train.x[rows], shown[rows], test.x, test.y


# ---- what is compared ----


def variants(task: Task, settings: Settings) -> dict[str, dict[str, Any]]:
    """Parameters of DSSLClassifier for each row of the table."""
    out: dict[str, dict[str, Any]] = {"supervised": {"prior": None, "consistency": None}}
    out |= {prior: {"prior": prior, "consistency": None} for prior in settings.priors}
    out |= {term: {"prior": None, "consistency": term} for term in task.consistency}
    return out | {
        f"{settings.summed} + {term}": {"prior": settings.summed, "consistency": term} for term in task.consistency
    }


def small_network(channels: int) -> nn.Module:
    """A small network of strided convolutions: images at a size that fits two cores."""
    stages: list[nn.Module] = []
    for before, after in ((channels, 16), (16, 32), (32, 64)):
        stages += [nn.Conv2d(before, after, 5, 2, padding=2)]
        stages += [nn.GroupNorm(8, after), nn.ReLU()]
    return nn.Sequential(*stages, nn.Flatten(), nn.LazyLinear(10))


def one(name: str, variant: str, seed: int, settings: Settings) -> dict[str, Any]:
    """The score of one run."""
    torch.set_num_threads(1)
    task = settings.tasks[name]
    x, y, x_test, truth = split(name, task, seed)
    options = dict(task.options)
    if x.ndim == 4:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            options["network"] = small_network(x.shape[1])
            options["network"](torch.zeros(1, *x.shape[1:]))
    parameters = variants(task, settings)[variant]
    needs_views = parameters["consistency"] not in (None, "vat", "neighbours", "mixup")
    model = DSSLClassifier(
        rules=read(name)[2],
        steps=task.steps,
        ema=settings.ema,
        augment=task.augment if needs_views or x.ndim == 4 else None,  # images are augmented in every variant
        random_state=seed,
        **options,
        **parameters,
    )
    begin = time.perf_counter()
    model.fit(x, y)
    seconds = time.perf_counter() - begin
    if truth.ndim == 1:
        score = model.score(x_test, truth)
    else:
        score = average_precision_score(truth.ravel(), model.predict_proba(x_test).ravel())
    return {
        "set": name,
        "variant": variant,
        "seed": seed,
        "score": round(float(score), 5),
        "seconds": round(seconds, 1),
    }


# ---- records ----


def table(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard error over seeds of each set and variant."""
    out = []
    for name, variant in dict.fromkeys((run["set"], run["variant"]) for run in runs):
        scores = np.array([run["score"] for run in runs if (run["set"], run["variant"]) == (name, variant)])
        error = scores.std(ddof=1) / len(scores) ** 0.5 if len(scores) > 1 else 0.0
        row = {"set": name, "variant": variant, "seeds": len(scores)}
        out.append(row | {"score": round(float(scores.mean()), 4), "error": round(float(error), 4)})
    return out


def order(runs: list[dict[str, Any]], settings: Settings) -> list[dict[str, Any]]:
    names = [(name, variant) for name, task in settings.tasks.items() for variant in variants(task, settings)]
    kept = [run for run in runs if (run["set"], run["variant"]) in names]
    return sorted(kept, key=lambda run: (names.index((run["set"], run["variant"])), run["seed"]))


def write(path: Path, runs: list[dict[str, Any]], settings: Settings) -> None:
    versions = {
        "dssl": dssl.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
    }
    runs = order(runs, settings)
    record = {"settings": asdict(settings), "versions": versions, "results": table(runs), "runs": runs}
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(record, indent=1) + "\n")
    beside.replace(path)


def draw(results: list[dict[str, Any]], settings: Settings, path: Path) -> None:
    """One panel a set: each term alone, and summed with the prior."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["set"] for row in results))
    figure = Figure(figsize=(11, 3.2 * ((len(names) + 2) // 3)), layout="constrained")
    for place, name in enumerate(names, 1):
        axes = figure.add_subplot((len(names) + 2) // 3, 3, place)
        rows = {row["variant"]: row for row in results if row["set"] == name}
        terms = [term for term in settings.tasks[name].consistency if term in rows]
        for prefix, label, shift in (("", "alone", -0.12), (f"{settings.summed} + ", "with the prior", 0.12)):
            shown = [(i + shift, rows[prefix + term]) for i, term in enumerate(terms) if prefix + term in rows]
            axes.errorbar(
                [row["score"] for _, row in shown],
                [at for at, _ in shown],
                xerr=[row["error"] for _, row in shown],
                fmt="o",
                label=label,
            )
        for variant, style in (("supervised", ":"), (settings.summed, "--")):
            if variant in rows:
                axes.axvline(rows[variant]["score"], linestyle=style, color="grey", label=variant)
        axes.set_yticks(range(len(terms)), terms)
        axes.invert_yaxis()
        axes.set_title(f"{name}, {settings.tasks[name].labels} {'% of ' if name == 'cellcycle' else ''}labels")
        if place == 1:
            axes.legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    settings = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(settings.tasks), default=list(settings.tasks))
    parser.add_argument("--seeds", type=int, default=settings.seeds)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--out", type=Path, default=_HERE / "results" / "combination.json")
    parser.add_argument("--draw", action="store_true", help="only draw the figure from what is stored")
    chosen = parser.parse_args()
    runs = json.loads(chosen.out.read_text())["runs"] if chosen.out.exists() else []
    figure = _HERE.parent / "docs" / "pictures" / "combination.svg"
    if not chosen.draw:
        done = {(run["set"], run["variant"], run["seed"]) for run in runs}
        wanted = [
            (name, variant, seed)
            for seed in range(settings.first_seed, settings.first_seed + chosen.seeds)
            for name in chosen.sets
            for variant in variants(settings.tasks[name], settings)
            if name in ("digits", "wine", "breast cancer") or "DSSL_DATA" in os.environ
        ]
        chosen.out.parent.mkdir(exist_ok=True)
        with ProcessPoolExecutor(chosen.jobs) as pool:
            waiting = [pool.submit(one, *run, settings) for run in wanted if run not in done]
            for number, future in enumerate(as_completed(waiting), 1):
                run = future.result()
                runs.append(run)
                write(chosen.out, runs, settings)
                print(
                    f"{number}/{len(waiting)} {run['set']:14} {run['variant']:36} {run['seed']} {run['score']:.4f}",
                    flush=True,
                )
    for row in table(order(runs, settings)):
        print(f"{row['set']:>14} {row['variant']:36} {row['score']:.4f} ± {row['error']:.4f} ({row['seeds']} seeds)")
    draw(table(order(runs, settings)), settings, figure)


if __name__ == "__main__":
    main()
