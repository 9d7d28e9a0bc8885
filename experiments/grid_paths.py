"""Shortest paths in a 4×4 grid, learned from examples: with and without the rule that edges form a path.

    DSSL_DATA=… python experiments/grid_paths.py                    # everything; what is done is not done again
    DSSL_DATA=… python experiments/grid_paths.py --tasks published  # some tasks

Data, split and label are those of the semantic loss paper (Xu et al. 2018): a row has a grid without eight of its 24
edges and two nodes, and its label is the first shortest path listed, though others may be as short. The rule is theirs
as well: the edges form one simple path between the two nodes. It is one circuit of `Circuit.paths` for all pairs of
nodes, of which each row's two are known. Two of the tasks have more inputs, drawn at random and without labels: of these
it is known, as a partial label, that missing edges are not taken.

λ is chosen for each task and method by the validation rows at the first seed, and the step at which a run ends by the
validation rows of each seed; test rows are looked at once. "Exact" always means equal to the label.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ledger import Case, Ledger, markdown, percent, summary
from torch import Tensor, nn

from dssl.circuits.circuit import Circuit
from dssl.logic.space import LabelSpace
from dssl.priors import DeterministicPrior, ExclusivityPrior, Prior, PseudoLabelPrior, TNormPrior
from dssl.training.objective import Objective, linear_ramp

_HERE = Path(__file__).parent
PUBLISHED = {"satisfied": 0.6989, "exact": 0.2851}  # with the semantic loss; 0.0699 and 0.0562 without
GOAL = 1.5 * PUBLISHED["exact"]
SURE = 50.0  # the logit of what is known


@dataclass(frozen=True)
class Task:
    """A network and what it learns from."""

    network: str
    steps: int
    labels: float = 1.0  # share of the training rows
    drawn: int = 0  # more inputs, drawn at random, without labels


@dataclass(frozen=True)
class Settings:
    seeds: int = 5
    batch: int = 256  # labelled rows a step, and as many without labels where there are any
    lr: float = 3e-3
    ramp: float = 0.25  # share of the steps in which the prior's weight rises
    every: int = 100  # steps between looks at the validation rows
    weights: tuple[float, ...] = (0.3, 1.0, 3.0)  # λ
    tasks: dict[str, Task] = field(
        default_factory=lambda: {
            "published": Task("sigmoid", 1200),
            "mlp": Task("relu", 600),
            "inputs": Task("relu", 600, drawn=5000),
            "few": Task("relu", 600, labels=0.1, drawn=5000),
        }
    )


TITLES = {
    "published": "the published network, all labels",
    "mlp": "a wider network, all labels",
    "inputs": "the wider network, all labels and drawn inputs",
    "few": "the wider network, a tenth of the labels and drawn inputs",
}
METHODS = {
    "none": "no rules",
    "t-norm": "t-norm (product)",
    "semantic": "semantic loss, T = 1",
    "dp2": "DP, T = 2",
    "dp10": "DP, T = 10",
    "pl": "PL, the best path",
    "constrained": "likelihood given the rules",
}
WEIGHTED = ("t-norm", "semantic", "dp2", "dp10", "pl")  # methods with a λ


# ---- the grid: node v = 4·row + column ----

EDGES = tuple((4 * r + c, 4 * r + c + 1) for r in range(4) for c in range(3)) + tuple(
    (4 * r + c, 4 * r + c + 4) for c in range(4) for r in range(3)
)


def _columns() -> dict[str, tuple[Any, Any]]:
    """Edges e0, …, and one of a start s and of an end t to each node, in an order that keeps the frontier narrow."""
    named: dict[str, tuple[Any, Any]] = {}
    for v in range(16):
        named |= {f"s{v}": ("s", v), f"t{v}": ("t", v)}
        named |= {f"e{i}": edge for i, edge in enumerate(EDGES) if max(edge) == v}
    return named


NAMES = tuple(_columns())
ORDER = torch.tensor([*map([*(f"e{i}" for i in range(24)), *(f"{k}{v}" for k in "st" for v in range(16))].index, NAMES)])
EDGE_COLUMNS = torch.tensor([NAMES.index(f"e{i}") for i in range(24)])


@cache
def paths() -> Circuit:
    """All simple paths from s to t: a start, an end and a path between them, both ways round.

    Where the lower of a row's two nodes is the start and the other one the end, they are the paths between the two.
    """
    return Circuit.paths(_columns(), "s", "t")


@cache
def free() -> LabelSpace:
    """The columns of the circuit, without rules."""
    return LabelSpace.attributes(list(NAMES))


@cache
def by_degree() -> LabelSpace:
    """What a rule at each node can say: an end has one edge, another node none or two. Loops remain possible."""
    rules = []
    for v in range(16):
        there = ", ".join(f"e{i}" for i, edge in enumerate(EDGES) if v in edge)
        rules.append(f"s{v} | t{v} -> exactly(1, {there})")
        rules.append(f"!s{v} & !t{v} -> none({there}) | exactly(2, {there})")
    return LabelSpace.attributes(list(NAMES), "\n".join(rules))


def joined(edges: Tensor, ends: Tensor) -> Tensor:
    """Edges (n, 24) and ends (n, 32) as columns (n, 56) of the circuit."""
    return torch.cat([edges, ends], 1)[:, ORDER]


def is_path(taken: np.ndarray, start: int, end: int) -> bool:
    """Whether the taken edges (24,) are a simple path between two nodes, found by walking along them."""
    left = [EDGES[i] for i in np.flatnonzero(taken)]
    here, seen = start, {start}
    while here != end:
        ways = [edge for edge in left if here in edge]
        if len(ways) != 1:
            return False
        left.remove(ways[0])
        here = sum(ways[0]) - here
        if here in seen:
            return False
        seen.add(here)
    return not left


# ---- data ----


@dataclass(frozen=True)
class Rows:
    x: Tensor  # (n, 40): edges that are there, the two nodes
    ends: Tensor  # (n, 32): the lower node as start, the other as end
    y: Tensor  # (n, 24): the first path listed; NaN where it is not known
    shortest: tuple[frozenset[tuple[int, ...]], ...] = ()  # all paths listed

    def __len__(self) -> int:
        return len(self.x)

    @property
    def missing(self) -> Tensor:
        return self.x[:, :24] == 0

    def columns(self, logits: Tensor, missing: bool = False) -> Tensor:
        """Logits of edges (n, 24) as those of the circuit's columns, the ends as sure; if asked, missing edges too."""
        if missing:
            logits = logits.masked_fill(self.missing, -SURE)
        return joined(logits, SURE * (2 * self.ends - 1))

    def labels(self) -> Tensor:
        """What is known, as columns of the circuit (n, 56) of 1, 0 and NaN."""
        return joined(self.y, self.ends)

    def __getitem__(self, rows: Tensor) -> Rows:
        return Rows(self.x[rows], self.ends[rows], self.y[rows])

    def __add__(self, more: Rows) -> Rows:
        return Rows(*(torch.cat(pair) for pair in ((self.x, more.x), (self.ends, more.ends), (self.y, more.y))))

    def hidden(self) -> Rows:
        """The same inputs without labels, but for the missing edges: these are not taken."""
        return Rows(self.x, self.ends, torch.where(self.missing, 0.0, torch.nan))


def rows_of(lines: Sequence[str]) -> Rows:
    """Lines of `removed edges,two nodes,path,…`, numbers joined by '-'."""
    x, ends, y, listed = np.zeros((len(lines), 40)), np.zeros((len(lines), 32)), np.zeros((len(lines), 24)), []
    x[:, :24] = 1
    for i, line in enumerate(lines):
        removed, nodes, *found = ([int(n) for n in part.split("-") if n] for part in line.strip().split(","))
        x[i, removed] = 0
        x[i, 24 + np.array(nodes)] = 1
        ends[i, [min(nodes), 16 + max(nodes)]] = 1
        y[i, found[0]] = 1
        listed.append(frozenset(tuple(sorted(path)) for path in found))
    return Rows(*(torch.from_numpy(part).float() for part in (x, ends, y)), tuple(listed))


@cache
def read() -> dict[str, Rows]:
    """The published parts: 60 % to train, 20 % to validate, 20 % to test."""
    lines = (Path(os.environ["DSSL_DATA"]) / "grid" / "paths.data").read_text().splitlines()
    order = np.random.RandomState(0).permutation(len(lines))
    cuts = np.split(order, [int(len(lines) * 0.6), int(len(lines) * 0.8)])
    return {name: rows_of([lines[i] for i in rows]) for name, rows in zip(("train", "valid", "test"), cuts)}


def draw(count: int, seed: int) -> Rows:
    """Inputs like those of the data, at random: eight edges removed, two nodes that a path still joins. No labels."""
    rng = np.random.default_rng(seed)
    lines: list[str] = []
    while len(lines) < count:
        removed = rng.choice(24, 8, replace=False).tolist()
        a, b = rng.choice(16, 2, replace=False).tolist()
        if b in reached(a, [edge for i, edge in enumerate(EDGES) if i not in removed]):
            lines.append(f"{'-'.join(map(str, removed))},{a}-{b},")
    return rows_of(lines).hidden()


def reached(start: int, edges: Sequence[tuple[int, int]]) -> set[int]:
    seen, waiting = {start}, [start]
    for v in waiting:
        new = {sum(edge) - v for edge in edges if v in edge} - seen
        seen |= new
        waiting += new
    return seen


# ---- networks and methods ----


class Sigmoid(nn.Sequential):
    """The published network: five hidden layers of 50 sigmoid units, weights from a truncated normal N(.1, 1)."""

    def __init__(self) -> None:
        sizes = [40, 50, 50, 50, 50, 50]
        layers: list[nn.Module] = []
        for before, after in zip(sizes, sizes[1:]):
            layers += [nn.Linear(before, after), nn.Sigmoid()]
        super().__init__(*layers, nn.Linear(50, 24))
        for parameter in self.parameters():
            nn.init.trunc_normal_(parameter, 0.1, 1.0, -1.9, 2.1)


class Wider(nn.Sequential):
    """Two hidden layers of 256 rectified units, with dropout."""

    def __init__(self) -> None:
        first, second = ([nn.ReLU(), nn.Dropout(0.2)] for _ in range(2))
        super().__init__(nn.Linear(40, 256), *first, nn.Linear(256, 256), *second, nn.Linear(256, 24))


NETWORKS: dict[str, Callable[[], nn.Module]] = {"sigmoid": Sigmoid, "relu": Wider}


def prior_of(method: str) -> Prior | None:
    if method == "t-norm":
        return TNormPrior(by_degree())
    if method == "semantic":
        return ExclusivityPrior(free(), circuit=paths())
    if method == "pl":
        return PseudoLabelPrior(free(), circuit=paths())
    return DeterministicPrior(free(), float(method[2:]), circuit=paths()) if method.startswith("dp") else None


def objective_of(method: str, weight: float, task: Task, ramp: int) -> Objective:
    """Likelihood and λ · prior: on the inputs without labels where there are any, else on the labelled rows."""
    prior = prior_of(method)
    space = free() if prior is None else prior.space
    on_labelled = 0.0 if task.drawn else weight
    objective = Objective(space, prior, weight, on_labelled, mean="terms", ramp=linear_ramp(ramp))
    if method == "constrained":
        objective.circuit = paths()  # log p(y | V); the space has no rules of which to compile it
    return objective


# ---- one run ----


def one(task: str, method: str, weight: str, seed: int, settings: Settings) -> dict[str, Any]:
    """What a network does on the test rows at the step that was best on the validation rows."""
    what, parts = settings.tasks[task], read()
    torch.manual_seed(seed)
    network = NETWORKS[what.network]()
    order = torch.randperm(len(parts["train"]))
    shown = round(what.labels * len(order))
    labelled = parts["train"][order[:shown]]
    pool = parts["train"][order[shown:]].hidden() + draw(what.drawn, seed) if what.drawn else None
    objective = objective_of(method, float(weight), what, round(settings.ramp * what.steps))
    optimiser = torch.optim.Adam(network.parameters(), lr=settings.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.lr, what.steps)
    score, state = -1.0, network.state_dict()
    for step in range(1, what.steps + 1):
        batch = labelled[torch.randint(len(labelled), (settings.batch,))]
        if pool is not None:
            batch = batch + pool[torch.randint(len(pool), (settings.batch,))]
        loss = objective(batch.columns(network.train()(batch.x)), batch.labels(), step=step)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % settings.every == 0 or step == what.steps:
            found = measure(network, parts["valid"])
            now = (found["exact"] + found["rules_exact"]) / 2
            if now >= score:
                score, state = now, {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(state)
    return {"valid": round(score, 5)} | measure(network, parts["test"])


def measure(network: nn.Module, rows: Rows) -> dict[str, float]:
    """Shares of rows, of edges for `edges`, and calibration errors.

    Decoded one by one at probability ½ (no prefix), as the most probable path between the ends ("rules_"), and as the
    most probable one without missing edges ("graph_").
    """
    with torch.no_grad():
        logits = network.eval()(rows.x)
    log_sigmoid = nn.functional.logsigmoid
    taken, sure = {"": logits > 0}, {"": torch.sigmoid(logits)}
    for name in ("rules_", "graph_"):
        z = rows.columns(logits, missing=name == "graph_")
        taken[name] = paths().mpe(log_sigmoid(z), log_sigmoid(-z), strict=True)[0][:, EDGE_COLUMNS]
        sure[name] = paths().marginals(log_sigmoid(z), log_sigmoid(-z))[:, EDGE_COLUMNS]
    truth = rows.y.bool()
    ends = rows.ends.view(-1, 2, 16).argmax(-1).tolist()
    out = {}
    for name, edges in taken.items():
        hits = edges == truth
        confidence = torch.where(edges, sure[name], 1 - sure[name])
        listed = [tuple(np.flatnonzero(row)) in found for row, found in zip(edges.numpy(), rows.shortest)]
        out[f"{name}satisfied"] = float(np.mean([is_path(row, *pair) for row, pair in zip(edges.numpy(), ends)]))
        out[f"{name}exact"] = float(hits.all(1).float().mean())
        out[f"{name}shortest"] = float(np.mean(listed))
        out[f"{name}edges"] = float(hits.float().mean())
        out[f"{name}calibration"] = calibration_error(confidence.flatten().numpy(), hits.flatten().numpy())
    return {name: round(value, 5) for name, value in out.items()}


def calibration_error(confidence: np.ndarray, hits: np.ndarray, levels: int = 10) -> float:
    """Expected calibration error Σ (n_b / n) |right_b − confidence_b| over equal levels of confidence (Guo et al.)."""
    place = np.minimum((confidence * levels).astype(int), levels - 1)
    gaps = [abs(float((hits[place == level] - confidence[place == level]).sum())) for level in range(levels)]
    return sum(gaps) / len(confidence)
