"""Other ways to use unlabelled rows, on MNIST with 100 labels: models of x, noise, and couplings, beside the priors.

    DSSL_DATA=… python experiments/other_ways.py             # everything; what is done is not done again
    DSSL_DATA=… python experiments/other_ways.py --tables    # the table of docs/other_ways.md, from what is kept

All methods are given the same rows: 60,000 images as 784 numbers, without changed views of them, ten labels per class.
The network is the "mlp" of the library; M1 and mixtures make features of all rows first. Steps, rate and weights are
the library's own, chosen on none of these rows. Published errors are those of the papers, with their own networks.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from ledger import Case, Ledger, markdown, percent, summary
from sklearn.pipeline import make_pipeline

from dssl import DSSLClassifier
from dssl.data.published import load_mnist
from dssl.models.representations import M1, MixturePosteriors


@dataclass(frozen=True)
class Settings:
    labels: int = 100
    steps: int = 2000
    rows: int = 60_000
    seeds: tuple[int, ...] = (1000, 1001, 1002)


Maker = Callable[[int, int], Any]


def _classifier(prior: Any = None, consistency: Any = None, network: str = "mlp") -> Maker:
    return lambda steps, seed: DSSLClassifier(
        network=network, prior=prior, consistency=consistency, steps=steps, calibrate=False, random_state=seed
    )


def _after(features: Callable[[int, int], Any], then: Maker) -> Maker:
    return lambda steps, seed: make_pipeline(features(steps, seed), then(steps, seed))


def _latents(steps: int, seed: int) -> M1:
    return M1(steps=steps, random_state=seed)


def _components(steps: int, seed: int) -> MixturePosteriors:
    return MixturePosteriors(100, random_state=seed)


SUPERVISED = "labels only"
METHODS: dict[str, tuple[Maker, str]] = {  # what makes it, and its published error in per cent, if any
    SUPERVISED: (_classifier(), "–"),
    "deterministic prior": (_classifier("deterministic"), "–"),
    "minimum entropy": (_classifier("entropy"), "–"),
    "null category": (_classifier("null-category"), "–"),
    "ladder, Γ": (_classifier(consistency="ladder"), "3.06 ± 1.44 (Rasmus et al. 2015)"),
    "M2": (_classifier(consistency="m2"), "11.97 ± 1.71 (Kingma et al. 2014)"),
    "M1, then labels only": (_after(_latents, _classifier()), "11.82 ± 0.25 (Kingma et al. 2014, with a TSVM)"),
    "M1 + M2": (_after(_latents, _classifier(consistency="m2")), "3.33 ± 0.14 (Kingma et al. 2014)"),
    "mixture of p(x), then linear": (_after(_components, _classifier(network="linear")), "–"),
}


def one(method: str, seed: int, settings: Settings) -> Case:
    """Accuracy on the test images."""
    torch.manual_seed(seed)
    data = load_mnist()
    random = np.random.default_rng(seed)
    rows = random.permutation(len(data.train.y))[: settings.rows]
    x = np.asarray(data.train.x)[rows].reshape(len(rows), -1).astype(np.float32) / 255
    truth = np.asarray(data.train.y)[rows]
    each = settings.labels // 10
    shown = np.concatenate([np.flatnonzero(truth == k)[:each] for k in range(10)])
    y = np.full(len(rows), -1)
    y[shown] = truth[shown]
    model = METHODS[method][0](settings.steps, seed).fit(x, y)
    test = np.asarray(data.test.x).reshape(len(data.test.y), -1).astype(np.float32) / 255
    return {"accuracy": float(np.mean(model.predict(test) == np.asarray(data.test.y)))}


def table(runs: list[Case]) -> str:
    """Accuracy by method, and what the papers have."""
    rows = {row["method"]: row for row in summary(runs, by=("method",), of=("accuracy", "seconds"))}
    lines = [
        (name, percent(rows[name], "accuracy"), f"{rows[name]['seconds']:.0f}", METHODS[name][1])
        for name in METHODS
        if name in rows
    ]
    return markdown(("method", "accuracy, per cent", "seconds of a core", "published error, per cent"), lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", action="store_true", help="only print the table")
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0: one per processor")
    given = parser.parse_args()
    settings = Settings()
    ledger = Ledger("other_ways", settings)
    cases = [{"method": method, "seed": seed} for seed in settings.seeds for method in METHODS]
    if not given.tables:
        ledger.complete(partial(one, settings=settings), cases, jobs=given.jobs)
        ledger.keep(cases)
    print(table(ledger.runs))


if __name__ == "__main__":
    main()
