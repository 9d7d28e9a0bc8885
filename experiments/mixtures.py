"""Mixtures against one product: does a model of several components get more labels wholly right?

    DSSL_DATA=… python experiments/mixtures.py                     # everything; what is done is not done again
    DSSL_DATA=… python experiments/mixtures.py --tasks "two modes"  # some tasks

A run trains one network by the likelihood of labels given the rules, and nothing else: no prior, no consistency term,
no calibration. Runs of a task and a seed have the same rows, network and steps, and differ in the number M of
components. "Exact" is the share of test rows whose most probable label is the label, all of it; "log p" the mean
log probability of the label.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import grid
import numpy as np
import torch
from ledger import Case, Ledger, markdown, percent, summary
from made_cases import branches
from numpy.typing import NDArray
from published_cases import functions
from sklearn.metrics import average_precision_score
from splits import Split, cut
from torch import Tensor, nn

from dssl.logic.space import LabelSpace
from dssl.models.auto.outputs import begin_at, of_components
from dssl.models.estimators import DSSLClassifier
from dssl.priors.mixture import output_width, predicted
from dssl.priors.predictive import Predictive


@dataclass(frozen=True)
class Settings:
    components: tuple[int, ...] = (1, 2, 4, 8)
    seeds: int = 5
    gene_seeds: int = 3  # which take the longest
    steps: int = 600
    items: int = 5  # of a ranking
    ranked: int = 1500  # labelled rankings
    tree: int = 1000  # labelled rows of the made tree
    genes: str = "cellcycle"
    grid_batch: int = 128
    grid_lr: float = 3e-3


TASKS = {
    "grid paths": "shortest paths in a 4×4 grid",
    "genes": "functions of genes, FunCat tree of 499 classes",
    "tree": "made tree of 39 classes, independent given the class above",
    "two modes": "rankings, by scores or about the other way round",
    "shared noise": "rankings by scores whose noise two groups of items share",
    "product": "rankings drawn from one product",
}


# ---- rankings: the place of each item, 0 for the first ----


@cache
def ranking(items: int) -> LabelSpace:
    names = [f"place{i}" for i in range(items)]
    return LabelSpace("\n".join([*(f"{n}: 0..{items - 1}" for n in names), f"all_different({', '.join(names)})"]))


def _places(score: NDArray[Any]) -> NDArray[np.int64]:
    return (-score).argsort(axis=1).argsort(axis=1)


def two_modes(random: np.random.Generator, score: NDArray[Any]) -> NDArray[np.int64]:
    """The order of the scores in 45 % of rows; in others about its reverse, with two random neighbours swapped.

    The most probable label is the order, with .45. The likeliest product gives it .16, and as much to a crossing of the
    two modes that never occurs.
    """
    places, (rows, items) = _places(score), score.shape
    first = random.integers(items - 1, size=rows)[:, None]
    back = items - 1 - places
    swapped = np.where(back == first, first + 1, np.where(back == first + 1, first, back))
    return np.where(random.random(rows)[:, None] < 0.45, places, swapped)


def shared_noise(random: np.random.Generator, score: NDArray[Any]) -> NDArray[np.int64]:
    """The order of scores to which half of the items get one large random number, and others another."""
    shock = 2 * random.normal(size=(len(score), 2))
    group = np.arange(score.shape[1]) % 2
    return _places(score + shock[:, group] + 0.3 * random.normal(size=score.shape))


def product(random: np.random.Generator, score: NDArray[Any]) -> NDArray[np.int64]:
    """Drawn from p(y | V) of one product of θ, whose logits of places follow the scores."""
    items = score.shape[1]
    logits = -score[:, :, None] * np.linspace(-1.5, 1.5, items)  # high scores come first
    p = Predictive(torch.from_numpy(logits.reshape(len(score), -1)), ranking(items))
    drawn = p.sample(1, torch.Generator().manual_seed(int(random.integers(2**31))))[0]
    return drawn.reshape(-1, items, items).int().argmax(-1).numpy()


RANKED: dict[str, Callable[..., NDArray[np.int64]]] = {
    "two modes": two_modes,
    "shared noise": shared_noise,
    "product": product,
}


def ranked(task: str, seed: int, settings: Settings) -> Split:
    """Rows of ten features; scores of items are linear in them."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(settings.ranked + 1000, 10))
    score = x @ random.normal(size=(10, settings.items)) / 10**0.5
    places = RANKED[task](random, score)
    y = np.eye(settings.items, dtype=np.float32)[places].reshape(len(x), -1)
    count = settings.ranked
    return cut(x, y, ranking(settings.items), seed, labels=count, train=count, test=1000)


# ---- runs ----


def one(task: str, components: int, seed: int, settings: Settings) -> dict[str, Any]:
    if task == "grid paths":
        return on_grid(components, seed, settings)
    if task == "genes":
        return fitted(functions(seed, name=settings.genes, share=100), components, seed, settings)
    if task == "tree":
        return fitted(branches(seed, labels=settings.tree), components, seed, settings)
    return fitted(ranked(task, seed, settings), components, seed, settings)


def fitted(split: Split, components: int, seed: int, settings: Settings) -> dict[str, Any]:
    rows = split.known.all(axis=1)
    model = DSSLClassifier(
        split.rules, prior=None, consistency=None, objective={"constrained": True, "components": components},
        calibrate=False, steps=settings.steps, random_state=seed,
    ).fit(split.X_train[rows], split.y_train[rows])  # fmt: skip
    logits = model._logits(split.X_test)
    p = model.decoder_.predictive(logits.double())
    y = torch.from_numpy(split.y_test).double()
    area = average_precision_score(split.y_test, model.decoder_.marginals(logits), average="micro")
    return {
        "exact": float((model.decoder_.best(logits) == split.y_test).all(axis=1).mean()),
        "log_p": float(p.log_prob(y).mean()),
        "area": float(area),
        **certainty(p),
    }


def certainty(p: Any) -> dict[str, float]:
    """The share of rows whose label is proved the most probable, and the effective number of components."""
    if isinstance(p, Predictive):
        return {"proved": 1.0, "effective": 1.0}
    entropy = -(p.log_weights.exp() * p.log_weights).nan_to_num(0).sum(-1)
    return {"proved": float(p.best()[2].double().mean()), "effective": float(entropy.exp().mean())}


def on_grid(components: int, seed: int, settings: Settings) -> dict[str, Any]:
    """The wider network of `grid_paths`, all labels; the step that was best on the validation rows counts."""
    parts = grid.read()
    torch.manual_seed(seed)
    first, second = ([nn.ReLU(), nn.Dropout(0.2)] for _ in range(2))
    layers = [nn.Linear(40, 256), *first, nn.Linear(256, 256), *second]
    network = nn.Sequential(*layers, nn.Linear(256, output_width(24, components)))
    begin_at(network, of_components(np.full(24, -1.0), components, seed))
    train, optimiser = parts["train"], torch.optim.Adam(network.parameters(), lr=settings.grid_lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.grid_lr, settings.steps)
    score, state = -1.0, network.state_dict()
    for step in range(1, settings.steps + 1):
        batch = train[torch.randint(len(train), (settings.grid_batch,))]
        loss = -on_paths(network.train()(batch.x), batch, components).log_prob(batch.labels()).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 100 == 0:
            now = right_paths(network, parts["valid"], components)["exact"]
            if now >= score:
                score, state = now, {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(state)
    return right_paths(network, parts["test"], components)


def on_paths(logits: Tensor, rows: grid.Rows, components: int) -> Any:
    """The prediction of edges (n, 24), or of several components, as one of paths between the ends."""
    if components == 1:
        return predicted(rows.columns(logits), grid.paths())
    each = [rows.columns(logits[:, 24 * m : 24 * (m + 1)]) for m in range(components)]
    return predicted(torch.cat([*each, logits[:, 24 * components :]], 1), grid.paths(), components)


@torch.no_grad()
def right_paths(network: nn.Module, rows: grid.Rows, components: int) -> dict[str, Any]:
    p = on_paths(network.eval()(rows.x), rows, components)
    found = p.best()[0][:, grid.EDGE_COLUMNS]
    return {
        "exact": float((found == rows.y.bool()).all(1).double().mean()),
        "log_p": float(p.log_prob(rows.labels()).mean()),
        **certainty(p),
    }


# ---- what is shown ----


def cases(settings: Settings, tasks: Any = TASKS) -> list[Case]:
    return [
        {"task": task, "components": m, "seed": seed}
        for task in tasks
        for m in settings.components
        for seed in range(settings.gene_seeds if task == "genes" else settings.seeds)
    ]


def gains(runs: list[Case], measure: str) -> list[Case]:
    """Each run's measure above that of the run with one component, the same task and the same seed."""
    alone = {(run["task"], run["seed"]): run[measure] for run in runs if run["components"] == 1}
    return [run | {"gain": run[measure] - alone[run["task"], run["seed"]]} for run in runs]


def table(record: dict[str, Any]) -> str:
    """Exact matches by task and components, and beside each M > 1 the gain over M = 1 of the same seed."""
    rows = summary(gains(record["runs"], "exact"), by=("task", "components"), of=("exact", "gain", "log_p"))
    by = {(row["task"], row["components"]): row for row in rows}
    counts = record["settings"]["components"]
    lines = []
    for task, title in TASKS.items():
        cells = [percent(by[task, 1], "exact")]
        cells += [f"{100 * by[task, m]['exact']:.1f} ({_signed(by[task, m])})" for m in counts[1:]]
        cells += [" → ".join(f"{by[task, m]['log_p']:.2f}" for m in (counts[0], counts[-1]))]
        lines.append([title, *cells])
    head = ["labels wholly right, %", "M = 1", *(f"M = {m}" for m in counts[1:]), f"log p, M = 1 → {counts[-1]}"]
    return markdown(head, lines)


def _signed(row: Case) -> str:
    return f"{100 * row['gain']:+.1f} ± {100 * row['gain_error']:.1f}"


def main() -> None:
    settings = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time; 0: one a processor")
    chosen = parser.parse_args()
    if "DSSL_DATA" not in os.environ:
        parser.error("set DSSL_DATA to the data folder")
    ledger = Ledger("mixtures", settings)
    ledger.complete(partial(one, settings=settings), cases(settings, chosen.tasks), jobs=chosen.jobs)
    if len(ledger.runs) >= len(cases(settings)):
        ledger.keep(cases(settings))
        print(table({"runs": ledger.runs, "settings": ledger.settings}))


if __name__ == "__main__":
    main()
