"""Shortest paths in a 4×4 grid, learned from examples: with and without the rule that edges form a path.

    DSSL_DATA=… python experiments/grid_paths.py                    # everything; what is done is not done again
    DSSL_DATA=… python experiments/grid_paths.py --tasks published  # some tasks

Data, split and label are those of the semantic loss paper (Xu et al. 2018): a row has a grid without eight of its 24
edges and two nodes, and its label is the first shortest path listed, though others may be as short. The rule is theirs
as well: the edges form one simple path between the two nodes. It is one circuit of `Circuit.paths` for all pairs of
nodes, of which each row's two are known. Two of the tasks have more inputs, drawn at random and without labels: of
these it is known, as a partial label, that missing edges are not taken.

λ is chosen for each task and method by the validation rows at the first seed, and the step at which a run ends by the
validation rows of each seed; test rows are looked at once. "Exact" always means equal to the label.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from grid import EDGE_COLUMNS, Rows, by_degree, draw, free, is_path, paths, read
from ledger import Case, Ledger, calibration_error, markdown, percent, summary
from torch import Tensor, nn

from dssl.priors import DeterministicPrior, ExclusivityPrior, Prior, PseudoLabelPrior, TNormPrior
from dssl.priors.predictive import Predictive
from dssl.training.objective import Objective, linear_ramp

_HERE = Path(__file__).parent
PUBLISHED = {"satisfied": 0.6989, "exact": 0.2851}  # with the semantic loss; 0.0699 and 0.0562 without
GOAL = 1.5 * PUBLISHED["exact"]


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
    batch: int = 256  # labelled rows per step, and as many without labels where there are any
    lr: float = 3e-3
    ramp: float = 0.25  # share of the steps in which the prior's weight rises
    every: int = 100  # steps between looks at the validation rows
    weights: tuple[float, ...] = (1.0, 3.0)  # λ, of which one is chosen
    tasks: dict[str, Task] = field(
        default_factory=lambda: {
            "published": Task("sigmoid", 1000),
            "wider": Task("wider", 600),
            "drawn": Task("wider", 600, drawn=5000),
            "few": Task("wider", 600, labels=0.1, drawn=5000),
        }
    )


TITLES = {
    "published": "The published network, all labels",
    "wider": "A wider network, all labels",
    "drawn": "The wider network, all labels and more inputs",
    "few": "The wider network, a tenth of the labels and more inputs",
}
METHODS = {
    "none": "no rules",
    "t-norm": "t-norm, product",
    "semantic": "semantic loss, T = 1",
    "dp2": "DP, T = 2",
    "dp10": "DP, T = 10",
    "pl": "PL, the best path",
    "constrained": "likelihood given the rules",
}
WEIGHTED = ("t-norm", "semantic", "dp2", "dp10", "pl")  # methods with a λ
WHOLE = ("wider", "few")  # tasks with all methods; the others have these:
FEWER = ("none", "semantic", "dp2", "constrained")
UNTRAINED: Case = {"task": "untrained", "method": "none", "weight": "0", "seed": 0}


# ---- networks and methods ----


class Sigmoid(nn.Sequential):
    """The published network: five hidden layers of 50 sigmoid units, weights from a truncated normal N(.1, 1)."""

    def __init__(self) -> None:
        sizes = [40, 50, 50, 50, 50, 50]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.Sigmoid()]
        super().__init__(*layers, nn.Linear(50, 24))
        for parameter in self.parameters():
            nn.init.trunc_normal_(parameter, 0.1, 1.0, -1.9, 2.1)


class Wider(nn.Sequential):
    """Two hidden layers of 256 rectified units, with dropout."""

    def __init__(self) -> None:
        first, second = ([nn.ReLU(), nn.Dropout(0.2)] for _ in range(2))
        super().__init__(nn.Linear(40, 256), *first, nn.Linear(256, 256), *second, nn.Linear(256, 24))


NETWORKS: dict[str, Callable[[], nn.Module]] = {"sigmoid": Sigmoid, "wider": Wider}


class Constant(nn.Module):
    """Finds every edge equally improbable."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.full((len(x), 24), -1.0)


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
    given = method == "constrained"  # log p(y | V); the space has no rules of which to compile it
    return Objective(
        space, prior, weight, on_labelled, mean="terms", ramp=linear_ramp(ramp), constrained=given,
        circuit=paths() if given else None,
    )  # fmt: skip


# ---- one run ----


def one(task: str, method: str, weight: str, seed: int, settings: Settings) -> dict[str, Any]:
    """What a network does on the test rows at the step that was best on the validation rows."""
    parts = read()
    if task == UNTRAINED["task"]:
        return measure(Constant(), parts["test"])
    what = settings.tasks[task]
    torch.manual_seed(seed)
    network = NETWORKS[what.network]()
    order = torch.randperm(len(parts["train"]))
    shown = round(what.labels * len(order))
    labelled = parts["train"][order[:shown]]
    pool = parts["train"][order[shown:]].hidden() + draw(what.drawn) if what.drawn else None
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
    taken, sure = {"": logits > 0}, {"": torch.sigmoid(logits)}
    for name in ("rules_", "graph_"):
        p = Predictive(rows.columns(logits, missing=name == "graph_"), paths(), strict=True)
        taken[name], sure[name] = p.heaviest()[0][:, EDGE_COLUMNS], p.marginals[:, EDGE_COLUMNS]
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


# ---- records ----


def cases(
    tasks: Sequence[str], settings: Settings, seeds: Sequence[int], weights: dict[tuple[str, str], str] | None = None
) -> list[Case]:
    """Runs of these seeds: with the chosen λ by task and method, or with each."""
    out = []
    for task in tasks:
        for method in METHODS if task in WHOLE else FEWER:
            tried = [f"{weight:g}" for weight in settings.weights] if method in WEIGHTED else ["0"]
            for weight in tried if weights is None else [weights[task, method]]:
                out += [{"task": task, "method": method, "weight": weight, "seed": seed} for seed in seeds]
    return out


def choose(runs: Sequence[Case]) -> dict[tuple[str, str], str]:
    """λ by task and method: the best on the validation rows at the first seed."""
    best: dict[tuple[str, str], Case] = {}
    for run in runs:
        key = run["task"], run["method"]
        if run["seed"] == 0 and "valid" in run and (key not in best or run["valid"] > best[key]["valid"]):
            best[key] = run
    return {key: run["weight"] for key, run in best.items()}


WHAT = ("satisfied", "exact", "shortest", "edges", "calibration")
MEASURES = [f"{way}{what}" for way in ("", "rules_", "graph_") for what in WHAT]


def rows_shown(record: dict[str, Any]) -> list[Case]:
    """A row a task and method, at its λ."""
    chosen = choose(record["runs"])
    runs = [run for run in record["runs"] if chosen.get((run["task"], run["method"])) == run["weight"]]
    return summary(runs, by=("task", "method", "weight"), of=(*MEASURES, "seconds"))


def page(record: dict[str, Any]) -> str:
    """The part of docs/results.md."""
    settings, rows = record["settings"], rows_shown(record)
    untrained = next(run for run in record["runs"] if run["task"] == UNTRAINED["task"])
    found = {(row["task"], row["method"]): row for row in rows}
    top = max(rows, key=lambda row: row["rules_exact"])
    alone = max(rows, key=lambda row: row["exact"])
    invalid = sum(run[f"{way}satisfied"] < 1 for run in record["runs"] for way in ("rules_", "graph_"))
    goals = [
        f"* Exact paths at {100 * GOAL:.1f} % or above when decoding with the rules, 1.5 times the published rate: "
        f"{'met' if top['rules_exact'] >= GOAL else 'missed'}. {percent(top, 'rules_exact')} % by {_named(top)}; "
        f"{sum(row['rules_exact'] >= GOAL for row in rows)} of {len(rows)} rows of the tables reach it"
        f"{', and so does decoding without learning' if untrained['rules_exact'] >= GOAL else ''}.",
        f"* Every path decoded with the rules is a path, which walking along its edges shows: "
        f"{'met' if not invalid else f'missed in {invalid} cases'}.",
        f"* Without decoding, each edge by itself, the best is {percent(alone, 'exact')} % exact by {_named(alone)}, "
        f"{'above' if alone['exact'] > PUBLISHED['exact'] else 'not above'} the published "
        f"{100 * PUBLISHED['exact']:.2f} %.",
    ]
    tables = []
    for task, title in TITLES.items():
        lines = [_line(found[task, method], settings["seeds"]) for method in METHODS if (task, method) in found]
        if lines:
            tables.append(f"**{title}**\n\n{markdown(HEAD, lines)}")
    return f"""## Shortest paths in a grid

`dssl reproduce grid_paths`. The data, split and label of the semantic loss paper: a 4×4 grid without eight of its edges
and two nodes go in, the 24 edges of a shortest path come out; *exact* means equal to the first path listed, *shortest*
equal to any that is listed. The rule is that edges form one simple path between the two nodes, compiled by
`Circuit.paths`. With the semantic loss the paper has {100 * PUBLISHED["satisfied"]:.2f} % paths and
{100 * PUBLISHED["exact"]:.2f} % exact, without it 6.99 % and 5.62 %. Its network has five layers of 50 sigmoid units;
the wider one has two of 256. *More inputs* are {settings["tasks"]["drawn"]["drawn"]:,} random grids and pairs of nodes:
inputs cost nothing, but labels do. In every row of the table these inputs have the partial label that missing edges are
not taken, and the prior; without more inputs the prior is on the labelled rows, as in the paper. λ is the better of
{" and ".join(f"{weight:g}" for weight in settings["weights"])} on the validation rows, which also choose the step at
which to stop. {settings["seeds"]} seeds. "With rules" decodes the most probable path between the two nodes, "and
missing edges" the most probable one that takes no missing edge. The t-norm has a rule at each node (no edge or two),
which leaves loops possible; a run takes {_slower(found)} times as long as with the circuit. Two tasks have all methods.
Calibration is the expected error of the probability of single edges, by themselves and given the rules.

{chr(10).join(f"{table}{chr(10)}" for table in tables)}
![Exact paths by task and method](pictures/grid_paths.svg)

What does decoding alone achieve? An untrained network that finds every edge equally improbable gets
{100 * untrained["rules_exact"]:.1f} % exact with the rules, and with missing edges
{100 * untrained["graph_exact"]:.1f} % exact and {100 * untrained["graph_shortest"]:.1f} % shortest, since the most
probable path is then a shortest one. What is left to learn there is which of several shortest paths is listed first. So
the columns without rules say what the network learned, and "with rules" whether it saw which edges are missing.

{chr(10).join(goals)}
* The published network with the semantic loss, {_against_paper(found.get(("published", "semantic")))}
* With a tenth of the labels, exact paths without decoding: {_gain(found, "few", "exact")}
* Calibrated best given the rules, over all tasks: {_named(min(rows, key=lambda row: row["rules_calibration"]))}.
"""


HEAD = (
    "",
    "λ",
    "paths",
    "exact",
    "exact, with rules",
    "shortest, with rules",
    "exact, and missing edges",
    "edges right",
    "calibration",
    "calibration, with rules",
)


_SHOWN = (
    "satisfied",
    "exact",
    "rules_exact",
    "rules_shortest",
    "graph_exact",
    "edges",
    "calibration",
    "rules_calibration",
)


def _line(row: Case, seeds: int) -> list[str]:
    few = "" if row["seeds"] == seeds else f" (seeds so far: {row['seeds']})"
    weight = row["weight"] if row["method"] in WEIGHTED else ""
    return [METHODS[row["method"]] + few, weight, *(percent(row, measure) for measure in _SHOWN)]


def _named(row: Case) -> str:
    title = TITLES[row["task"]]
    return f"*{METHODS[row['method']]}* ({title[0].lower()}{title[1:]})"


def _gain(found: dict[tuple[str, str], Case], task: str, measure: str) -> str:
    """How the best method with a prior compares to none."""
    without = found.get((task, "none"))
    given = [row for (of, method), row in found.items() if of == task and method in WEIGHTED]
    if without is None or not given:
        return "not run."
    best = max(given, key=lambda row: row[measure])
    return f"{percent(without, measure)} % without rules, {percent(best, measure)} % with *{METHODS[best['method']]}*."


def _against_paper(row: Case | None) -> str:
    """The paper's own network and method here, without decoding, and what the paper has."""
    if row is None:
        return "not run."
    sides = []
    for measure, name in (("satisfied", "paths"), ("exact", "exact")):
        beside = "at or above" if row[measure] >= PUBLISHED[measure] else "below"
        sides.append(f"{percent(row, measure)} % {name}, {beside} the paper's")
    return f"without decoding: {' and '.join(sides)}. The paper trains on full batches and stops by the loss."


def _slower(found: dict[tuple[str, str], Case]) -> str:
    pairs = [(found.get((task, "t-norm")), found.get((task, "semantic"))) for task in WHOLE]
    ratios = [slow["seconds"] / fast["seconds"] for slow, fast in pairs if slow and fast]
    return f"{np.mean(ratios):.0f}" if ratios else "several"


def figures(record: dict[str, Any]) -> None:
    """One panel a task: exact paths by method, each edge by itself and decoded with the rules."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "dssl"
    rows = rows_shown(record)
    figure = Figure(figsize=(9, 6.4), layout="constrained")
    for place, (task, title) in enumerate(TITLES.items(), 1):
        axes = figure.add_subplot(2, 2, place)
        shown = [row for row in rows if row["task"] == task]
        shown.sort(key=lambda row: list(METHODS).index(row["method"]))
        for measure, label, marker in (
            ("exact", "each edge by itself", "o"),
            ("rules_exact", "with rules", "s"),
            ("graph_exact", "and missing edges", "^"),
        ):
            axes.errorbar(
                [100 * row[measure] for row in shown],
                range(len(shown)),
                xerr=[100 * row[f"{measure}_error"] for row in shown],
                fmt=marker,
                label=label,
            )
        axes.axvline(100 * PUBLISHED["exact"], linestyle=":", color="grey", label="published")
        axes.set_yticks(range(len(shown)), [METHODS[row["method"]] for row in shown])
        axes.invert_yaxis()
        axes.set_xlim(-3, 103)
        axes.set_title(title.replace(", ", ",\n"), fontsize="medium")
        axes.set_xlabel("exact paths, %")
    figure.legend(*axes.get_legend_handles_labels(), fontsize="small", loc="outside lower center", ncols=4)
    figure.savefig(_HERE.parent / "docs" / "pictures" / "grid_paths.svg", metadata={"Date": None})


def main() -> None:
    settings = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(settings.tasks), default=list(settings.tasks))
    parser.add_argument("--seeds", type=int, default=settings.seeds, help="how many of the seeds to do")
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time; 0: one a processor")
    chosen = parser.parse_args()
    if "DSSL_DATA" not in os.environ:
        parser.error("set DSSL_DATA to the data folder")
    ledger = Ledger("grid_paths", settings)
    work = partial(one, settings=settings)
    first = [UNTRAINED, *cases(chosen.tasks, settings, [0])]
    ledger.complete(work, first, jobs=chosen.jobs)
    rest = cases(chosen.tasks, settings, range(1, chosen.seeds), choose(ledger.runs))
    ledger.complete(work, rest, jobs=chosen.jobs)
    done = [task for task in settings.tasks if any(run["task"] == task for run in ledger.runs)]
    ledger.keep(
        [UNTRAINED, *cases(done, settings, [0]), *cases(done, settings, range(1, settings.seeds), choose(ledger.runs))]
    )
    for row in rows_shown({"runs": ledger.runs}):
        print(f"{row['task']:>10} {METHODS[row['method']]:28} λ {row['weight']:4}", *(percent(row, m) for m in _SHOWN))


if __name__ == "__main__":
    main()
