"""Fit and predict, thousands of times in one process: does anything stay behind?

A cycle is one of `KINDS` of label spaces with new rules, a prior, a consistency term and a network, in turn, so that
every pair of them comes up; it fits, predicts, and every few cycles saves and loads the model, writes checkpoints and
logs, goes on from a fitted model, and fails in a way that users fail.
"""

from __future__ import annotations

import ctypes
import gc
import os
import random
import shutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dssl
from dssl.data.stored.images import ImageFolderData
from dssl.data.stored.parquet import ParquetData
from dssl.errors import DataError
from dssl.models.names import PRIORS, TERMS
from dssl.training.loop import Settings, train

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Cycles:
    cycles: int = 10_000
    look_every: int = 100
    rows: int = 24
    labelled: int = 10
    features: int = 3
    steps: int = 2
    seed: int = 0


# ---- a cycle ----


def clauses(rng: random.Random, names: list[str], count: int) -> Iterator[str]:
    """Random clauses of three variables that one hidden label obeys, so that they never contradict each other."""
    hidden = {name: rng.random() < 0.5 for name in names}
    for _ in range(count):
        chosen = rng.sample(names, 3)
        kept = rng.choice(chosen)
        yield " | ".join(
            name if hidden[name] == (name == kept or rng.random() < 0.5) else f"!{name}" for name in chosen
        )


def classes(rng: random.Random) -> str:
    return "species: {" + ", ".join(f"s{rng.randrange(10**6)}_{i}" for i in range(rng.randint(2, 5))) + "}"


def binary(rng: random.Random) -> str:
    names = [f"v{i}" for i in range(rng.randint(4, 8))]
    return "\n".join([", ".join(names), *clauses(rng, names, 6), f"at_most({len(names) - 1}, {', '.join(names)})"])


def mixed(rng: random.Random) -> str:
    """Variables of every kind under hard and soft rules."""
    top = rng.randint(3, 6)
    return (
        f"legs, fins, wings\nkind: {{cat, dog, carp}}\nage: 0..{top}\n"
        f"kind = carp -> fins & !legs\nwings -> age <= {rng.randint(1, top)}\n"
        f"{rng.uniform(0.6, 0.95):.4f} :: legs -> !fins\nage + {rng.randint(1, 3)} * wings <= {top + 1}"
    )


def wide(rng: random.Random) -> str:
    """Rules that take long enough to compile to be kept on disk."""
    names = [f"w{i}" for i in range(40)]
    return "\n".join([", ".join(names), *clauses(rng, names, 70)])


KINDS = (classes, binary, mixed)
NETWORKS = ("linear", "mlp")
QUICK = (None, *(name for name in PRIORS if name != "learned"))  # the learned prior takes as long as ten others


def cycle(number: int, given: Cycles, folder: Path) -> None:
    """One cycle; which one follows from its number alone."""
    if number % 50 == 31:
        from_files(number, folder)
        return
    rng = random.Random(f"{given.seed} {number}")
    text = wide(rng) if number % 100 == 50 else KINDS[number % len(KINDS)](rng)
    space = dssl.LabelSpace(text)
    x = np.random.default_rng(number).normal(size=(given.rows, given.features))
    y = labels(space, given.rows, number)
    y[given.labelled :] = np.nan
    network = NETWORKS[number // 7 % len(NETWORKS)]
    model = dssl.DSSLClassifier(
        space if number % 2 else text,
        prior="learned" if number % 50 == 6 else QUICK[number % len(QUICK)],
        consistency=[None, *TERMS][number // len(QUICK) % (len(TERMS) + 1)],
        augment="table",
        objective={"constrained": number % 5 == 0},
        network=network,
        steps=given.steps,
        settings=files(number, folder),
        random_state=number,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of collapse and the like: these models are hardly trained
        model.fit(x, y)
        if number % 10 == 3:
            model.set_params(warm_start=True, settings=None).fit(x, y)
    said = model.predict(x)
    assert not model.space_.check(said), f"cycle {number} predicted an invalid label"
    model.predict_proba(x), model.score(x[: given.labelled], y[: given.labelled])
    if number % 10 == 0:
        dssl.save(model, folder / "model")
        assert np.array_equal(dssl.load(folder / "model").predict(x), said), f"cycle {number}: loaded, it predicts else"
    if number % 10 == 7:
        model.sample(x, 2, random_state=number), model.violations(x)
    if number % 5 == 4:
        fails(number, model, x, y)
    for left in ("checkpoint", "board"):
        shutil.rmtree(folder / left, ignore_errors=True)
    (folder / "log.csv").unlink(missing_ok=True)


def from_files(number: int, folder: Path) -> None:
    """A run of the loop alone, on images or Parquet files that a thread in the background reads ahead."""
    import polars as pl
    from PIL import Image

    rng, space = np.random.default_rng(number), dssl.LabelSpace.classes(["a", "b"])
    shutil.rmtree(folder / "data", ignore_errors=True)
    (folder / "data" / "a").mkdir(parents=True)
    if number % 100 == 31:
        for i in range(12):
            pixels = rng.integers(0, 256, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "data" / ("a" if i < 4 else "") / f"{i}.png")
        data: Any = ImageFolderData(folder / "data", space, size=(8, 8), channels=1)
    else:
        frame = pl.DataFrame({"u": rng.normal(size=24), "v": rng.normal(size=24), "y": ["a", "b", None] * 8})
        frame.write_parquet(folder / "data" / "rows.parquet")
        data = ParquetData(folder / "data" / "rows.parquet", ["u", "v"], "y", space)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(space.width))
    network(data.batch(np.arange(2)).x)
    settings = Settings(steps=3, labelled_batch=2, unlabelled_batch=4, seed=number)
    train(network, dssl.Objective(space, dssl.EntropyPrior(space)), data, settings)


def labels(space: dssl.LabelSpace, rows: int, seed: int) -> Any:
    """Valid labels (rows, width), drawn evenly."""
    even = torch.full((1, space.width), 0.5).log()
    drawn = space.compile().sample(even, even, rows, torch.Generator().manual_seed(seed))
    return drawn[:, 0].numpy().astype(np.float64)


def files(number: int, folder: Path) -> dict[str, Any] | None:
    """Settings under which a run writes files, now and then."""
    if number % 20 == 5:
        return {"checkpoint": folder / "checkpoint", "checkpoint_every": 1, "log": folder / "log.csv"}
    return {"tensorboard": folder / "board"} if number % 500 == 499 else None


def fails(number: int, model: dssl.DSSLClassifier, x: Any, y: Any) -> None:
    """What users do wrong: an error leaves nothing behind either."""
    wrong = ((x * np.nan, y), (x, np.full_like(y, np.nan)), (x[:-1], y), (x, y + 7.0))[number // 5 % 4]
    try:
        model.fit(*wrong)
    except (DataError, ValueError):
        return
    raise AssertionError(f"cycle {number}: wrong input was taken")


# ---- what is left ----


@dataclass(frozen=True)
class Look:
    """What a process holds."""

    cycle: int
    seconds: float
    resident_mb: float
    handles: int
    threads: int
    children: int
    objects: int  # of ours


def look(number: int = 0, began: float = 0.0) -> Look:
    """What this process holds, once rubbish is collected and free memory given back."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    tasks = list(Path("/proc/self/task").iterdir())
    children = sum(len((task / "children").read_text().split()) for task in tasks)
    handles = len(os.listdir("/proc/self/fd")) - 1  # without that of the listing
    seconds = time.perf_counter() - began
    return Look(number, round(seconds, 1), resident / MEGABYTE, handles, len(tasks), children, sum(ours().values()))


def ours() -> Counter[str]:
    """How many objects of each of our types are alive."""
    kinds = Counter(map(type, gc.get_objects()))
    return Counter({kind.__qualname__: n for kind, n in kinds.items() if str(kind.__module__).startswith("dssl.")})


def growth(looks: list[Look], name: str) -> tuple[float, float]:
    """The slope of a line through the second half, a 1,000 cycles, and its standard error."""
    half = looks[len(looks) // 2 :]
    t = np.array([each.cycle for each in half]) / 1000
    v = np.array([getattr(each, name) for each in half], dtype=np.float64)
    t = t - t.mean()
    slope = t @ (v - v.mean()) / (t @ t)
    left = v - v.mean() - slope * t
    return float(slope), float(np.sqrt(left @ left / max(1, len(v) - 2) / (t @ t)))


def run(given: Cycles, folder: Path) -> dict[str, Any]:
    """All cycles, with a look now and then."""
    torch.set_num_threads(1)
    os.environ["DSSL_CACHE"] = str(folder / "cache")
    began, looks = time.perf_counter(), []
    for number in range(given.cycles):
        cycle(number, given, folder)
        if (number + 1) % given.look_every == 0:
            looks.append(look(number + 1, began))
            if (number + 1) % (10 * given.look_every) == 0:
                print(looks[-1], flush=True)
    measured = ("resident_mb", "handles", "threads", "children", "objects")
    return {
        "seconds": looks[-1].seconds,
        "first": vars(looks[0]), "middle": vars(looks[len(looks) // 2]), "last": vars(looks[-1]),
        "growth_per_1000": {name: growth(looks, name) for name in measured},
        "resident_mb": [round(each.resident_mb, 2) for each in looks],
        "kept_on_disk": len(list((folder / "cache").glob("*.npz"))),
    }  # fmt: skip
