"""A simulated expert answers the labelling queue of the taxonomy example: accuracy by number of answers.

    python experiments/labelling.py               # everything; what is done is not done again
    python experiments/labelling.py --seeds 2

Products are those of examples/taxonomy, made with another seed for each run. The model begins with a few tagged titles,
drawn at random. The expert then tags ten titles at a time, always rightly, and the model is fitted again from its last
weights. Which ten: *queue*, as `dssl label` chooses them; *least confidence*, those whose most probable set of tags is
least probable; *random*. Rules, network and training are the same for all.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ledger import Case, Ledger, load, markdown
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from dssl import DSSLClassifier, LabelSpace
from dssl.app.worth import worth_labelling

TAXONOMY = Path(__file__).parents[1] / "examples" / "taxonomy"
QUEUE, LEAST, RANDOM = "queue", "least confidence", "random"
METHODS = (QUEUE, LEAST, RANDOM)


@dataclass(frozen=True)
class Settings:
    seeds: int = 10
    first: int = 20  # labels to begin with
    batch: int = 10  # answers between two fits
    answers: int = 160
    steps: int = 150


def products(seed: int) -> tuple[list[str], list[str], list[str], list[str]]:
    """Titles and tags to learn from, and to test on."""
    sys.path.insert(0, str(TAXONOMY))
    try:
        from make import ROWS, TEST, _product
    finally:
        sys.path.pop(0)
    random = np.random.default_rng(1000 + seed)
    made = [_product(random) for _ in range(ROWS + TEST)]
    texts, tags = [text for text, _ in made], [tags for _, tags in made]
    return texts[:ROWS], tags[:ROWS], texts[ROWS:], tags[ROWS:]


def matrix(tags: Sequence[str], space: LabelSpace) -> NDArray[np.float64]:
    return np.array([np.isin(space.columns, each.split()) for each in tags], dtype=np.float64)


def chosen(method: str, model: DSSLClassifier, X: Any, left: NDArray[np.int64], random: Any, n: int) -> list[int]:
    """The rows among those `left` that the expert is asked about next."""
    if method == RANDOM:
        return [int(row) for row in random.choice(left, n, replace=False)]
    p = model.decoder_.predictive(model._logits(X[left]).double())
    if method == LEAST:
        return left[np.argsort(p.best()[1].numpy(), kind="stable")[:n]].tolist()
    picked = worth_labelling(p.entropy().clamp_min(0).numpy(), p.marginals.numpy(), most=n)
    return left[picked].tolist()


def one(method: str, seed: int, settings: Settings) -> Case:
    """One expert, from the first labels to the last answer."""
    random = np.random.default_rng(seed)
    space = LabelSpace.read(TAXONOMY / "products.rules")
    texts, tags, test_texts, test_tags = products(seed)
    words = CountVectorizer(binary=True).fit(texts)
    X, X_test = words.transform(texts), words.transform(test_texts)
    truth, test = matrix(tags, space), matrix(test_tags, space)
    Y = np.full_like(truth, np.nan)
    first = random.choice(len(Y), settings.first, replace=False)
    Y[first] = truth[first]
    model = DSSLClassifier(
        space, steps=settings.steps, learning_rate=3e-3, consistency=None, calibrate=False, warm_start=True,
        objective={"constrained": True}, settings={"standardise": False}, random_state=seed,
    )  # fmt: skip
    curve = {}
    for answers in range(0, settings.answers + 1, settings.batch):
        model.fit(X, Y)
        curve[str(answers)] = round(float(np.mean((model.predict(X_test) == test).all(axis=1))), 4)
        left = np.flatnonzero(np.isnan(Y).all(axis=1))
        rows = chosen(method, model, X, left, random, settings.batch)
        Y[rows] = truth[rows]
    return {"curve": curve}


# ---- records ----


def means(record: dict[str, Any]) -> dict[str, dict[int, float]]:
    """Mean accuracy by method and number of answers, over the seeds that every method has."""
    runs = record["runs"]
    seeds = set.intersection(*({run["seed"] for run in runs if run["method"] == method} for method in METHODS))
    out = {}
    for method in METHODS:
        curves = [run["curve"] for run in runs if run["method"] == method and run["seed"] in seeds]
        out[method] = {int(n): float(np.mean([curve[n] for curve in curves])) for n in curves[0]}
    return out


def needed(curve: dict[int, float], accuracy: float) -> int | None:
    """The fewest answers with which a curve reaches an accuracy and stays there."""
    below = [n for n, a in curve.items() if a < accuracy]
    later = [n for n in curve if not below or n > max(below)]
    return min(later) if later else None


def table(record: dict[str, Any]) -> str:
    """The table of docs/workbench.md: accuracy by number of answers."""
    found = means(record)
    every = [n for n in found[QUEUE] if n % 20 == 0]
    rows = [[method, *(f"{100 * found[method][n]:.1f}" for n in every)] for method in METHODS]
    return markdown(["all tags right, %, after answers", *map(str, every)], rows)


def cases(seeds: int) -> list[Case]:
    return [{"method": method, "seed": seed} for seed in range(seeds) for method in METHODS]


def main(arguments: Sequence[str] | None = None) -> None:
    settings = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=settings.seeds, help="how many of the seeds to do")
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time; 0: one a processor")
    chosen = parser.parse_args(arguments)
    ledger = Ledger("labelling", settings)
    ledger.complete(partial(one, settings=settings), cases(chosen.seeds), jobs=chosen.jobs)
    ledger.keep(cases(settings.seeds))
    record = load("labelling")
    print(table(record))
    found = means(record)
    for accuracy in list(found[RANDOM].values())[4::4]:
        print(f"answers for {accuracy:.1%}:", {method: needed(found[method], accuracy) for method in METHODS})


if __name__ == "__main__":
    main()
