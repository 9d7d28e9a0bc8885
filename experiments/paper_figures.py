"""Figures 3 to 6 of the paper: the relaxations, p(θ) of two Gaussians, histograms of predictions, rules as a prior.

    DSSL_DATA=… python experiments/paper_figures.py           # what is done is not done again
    python experiments/paper_figures.py --draw                # the figures out of the stored results

Figures 3, 4 and 6 are formulas, drawn by `dssl.priors`; beside the formula of figure 4 stands a histogram of draws.
Figure 5 needs trained networks: those of the small Table 2 on MNIST (the paper's are of SVHN), see `protocol.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ledger import KEPT, RESULTS, Case, Ledger, load, markdown, percent, summary
from protocol import NAMES, PRIORS, SUPERVISED, TITLES, Protocol, Task, logits_of, read, split, trained

from dssl.logic.space import LabelSpace
from dssl.priors import DeterministicPrior, GaussianPrior, Prior, plots

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SPLITS = ("labelled", "unlabelled", "test")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000")


@dataclass(frozen=True)
class Settings:
    seeds: int = 5
    power: float = 10.0
    slopes_at: tuple[float, ...] = (0.6, 0.8, 0.95)  # figure 3: θ
    gaussians: dict[str, tuple[float, float]] = field(  # figure 4: means, with variance 1
        default_factory=lambda: {"close": (0.0, 2.0), "far": (0.0, 4.0)}
    )
    weights: tuple[float, float] = (0.7, 0.3)
    draws: int = 200_000
    data: str = "mnist"  # figure 5
    task: Task = Task(100, 500)  # noqa: RUF009 — it is frozen
    protocol: Protocol = Protocol()  # noqa: RUF009
    prior_weight: float = 0.1  # λ, as Table 2 chooses it
    bins: int = 20
    rules: str = "legs, fins\nlegs -> !fins"  # figure 6


# ---- what the figures show, as numbers ----


def relaxations(power: float) -> dict[str, Prior]:
    """The relaxations of two classes."""
    space = LabelSpace.classes(["first", "second"])
    return {name: kind(space, **({"power": power} if name == "DP" else {})) for name, kind in PRIORS.items()}


def slopes(method: str, seed: int, settings: Settings) -> Case:
    """dq/dθ and d log q/dθ at some θ, with the rest of the probability on the other class (figure 3)."""
    theta = torch.tensor(settings.slopes_at, dtype=torch.float64, requires_grad=True)
    log_q = relaxations(settings.power)[method].log_prob(torch.stack([theta, 1 - theta], -1).log())
    (slope,) = torch.autograd.grad(log_q.sum(), theta)
    return {"slope_q": (slope * log_q.exp()).tolist(), "slope_log_q": slope.tolist()}


def gaussian(method: str, seed: int, settings: Settings) -> Case:
    """The mass of bins of θ: by the formula, and by draws of x and Bayes' rule (figure 4)."""
    means = np.array(settings.gaussians[method])
    pi = np.array(settings.weights)
    random = np.random.default_rng(seed)
    y = (random.random(settings.draws) < pi[1]).astype(int)
    x = random.normal(means[y])
    joint = pi * np.exp(-0.5 * (x[:, None] - means) ** 2)  # (draws, 2)
    counts, edges = np.histogram(joint[:, 1] / joint.sum(1), settings.bins, (0, 1))
    prior = GaussianPrior(tuple(means), 1.0, settings.weights).double()
    mass = prior.mass(torch.from_numpy(edges)).sum(-1).diff()
    return {"drawn": (counts / settings.draws).tolist(), "formula": mass.tolist()}


def histograms(method: str, seed: int, settings: Settings) -> Case:
    """Counts of θ of the true class, by split, and the share of predictions between .05 and .95 (figure 5)."""
    found = read(settings.data)
    whole, data, test = split(found, settings.task, seed)
    options: Case = {"weight": settings.prior_weight, "seed": seed, "power": settings.power}
    network = trained(method, found.space, settings.task, data, settings.protocol, **options)
    out: Case = {"counts": {}}
    for name, x, y in (
        ("labelled", whole.x[data.labelled], whole.y[data.labelled]),
        ("unlabelled", whole.x[data.unlabelled], whole.y[data.unlabelled]),
        ("test", test.x, test.y),
    ):
        theta = logits_of(network, x).softmax(-1).numpy()
        true = theta[np.arange(len(y)), y]
        out["counts"][name] = np.histogram(true, settings.bins, (0, 1))[0].tolist()
        out[f"between_{name}"] = round(float(((true > 0.05) & (true < 0.95)).mean()), 5)
        out[f"accuracy_{name}"] = round(float((theta.argmax(1) == y).mean()), 5)
    return out


def corners(method: str, seed: int, settings: Settings) -> Case:
    """q at the feasible labels and half-way between them (figure 6)."""
    space = LabelSpace(settings.rules)
    prior = DeterministicPrior(space, settings.power)
    labels = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * space.width)
    logits = torch.where(labels == 1, 30.0, -30.0)
    q = prior.log_prob(logits).exp().tolist()
    middle = float(prior.log_prob(torch.zeros(1, space.width)).exp())
    return {"labels": labels.int().tolist(), "q": [round(value, 6) for value in q], "middle": middle}


KINDS: dict[str, Callable[[str, int, Settings], Case]] = {"3": slopes, "4": gaussian, "5": histograms, "6": corners}


def one(figure: str, method: str, seed: int, *, settings: Settings) -> Case:
    """What a figure shows of one method."""
    torch.set_num_threads(1)
    return KINDS[figure](method, seed, settings)


def cases(settings: Settings) -> list[Case]:
    formulas = [("3", name) for name in PRIORS] + [("4", name) for name in settings.gaussians] + [("6", "DP")]
    found: list[Case] = [{"figure": figure, "method": method, "seed": 0} for figure, method in formulas]
    networks = [(method, seed) for seed in range(settings.seeds) for method in (SUPERVISED, *PRIORS)]
    return found + [{"figure": "5", "method": method, "seed": seed} for method, seed in networks]


# ---- the page ----


def page(record: Case) -> str:
    """The section of docs/results.md."""
    settings, runs = record["settings"], record["runs"]
    parts = [
        "## Figures 3 to 6 of the paper",
        "`dssl reproduce paper_figures`. Figures 3, 4 and 6 are formulas of `dssl.priors`; figure 5 shows predictions "
        f"of the networks of Table 2 on {TITLES[settings['data']]} (the paper's are of SVHN), trained anew with "
        f"λ = {settings['prior_weight']:g}.",
    ]
    texts = {"3": _relaxations, "4": _gaussians, "5": _predictions, "6": _rules}
    for number, text in texts.items():
        kept = [run for run in runs if run["figure"] == number]
        if kept:
            parts += [text(kept, settings), f"![Figure {number}](pictures/figure{number}.svg)"]
    return "\n\n".join(parts) + "\n"


def _relaxations(runs: Sequence[Case], settings: Case) -> str:
    at = settings["slopes_at"]
    head = ["slope at θ =", *(f"{theta:g}" for theta in at), *(f"{theta:g}" for theta in at)]
    rows = [
        [NAMES[run["method"]], *(f"{value:.2f}" for value in [*run["slope_q"], *run["slope_log_q"]])] for run in runs
    ]
    head[1] = f"q: {head[1]}"
    head[1 + len(at)] = f"log q: {head[1 + len(at)]}"
    falls = [run["method"] for run in runs if run["slope_log_q"] == sorted(run["slope_log_q"])[::-1]]
    rises = [run["method"] for run in runs if run["method"] not in falls]
    return (
        f"**Figure 3**, two classes, T = {settings['power']:g}. The paper wants confident predictions to move most and "
        "argues with the slope of q. What is maximised is log q, and its slope falls with θ for "
        f"{' and '.join(falls) or 'none'}, and rises for {' and '.join(rises) or 'none'}.\n\n" + markdown(head, rows)
    )


def _gaussians(runs: Sequence[Case], settings: Case) -> str:
    apart = max(np.abs(np.subtract(run["drawn"], run["formula"])).max() for run in runs)
    noise = 0.5 / settings["draws"] ** 0.5
    verdict = "as close as draws can be" if apart < 4 * noise else "further apart than draws explain"
    return (
        f"**Figure 4**, two Gaussians with π = {settings['weights']}. The formula for p(θ) against a histogram of "
        f"{settings['draws']:,} draws: no bin of {settings['bins']} differs by more than {apart:.4f} of the mass, "
        f"{verdict} (the standard error is at most {noise:.4f}). The formula is that of `GaussianPrior`; the paper "
        "prints one that is right for symmetric means only."
    )


def _predictions(runs: Sequence[Case], settings: Case) -> str:
    of = [f"{measure}_{name}" for name in SPLITS[1:] for measure in ("between", "accuracy")]
    rows = {row["method"]: row for row in summary(runs, by=("method",), of=of)}
    body = [[NAMES[method], *(percent(row, name) for name in of)] for method, row in rows.items()]
    head = ["per cent", *(f"{measure}, {name}" for name in SPLITS[1:] for measure in ("between", "right"))]
    fewer = [m for m in rows if m != SUPERVISED and rows[m]["between_test"] < rows[SUPERVISED]["between_test"]]
    all_fewer = len(fewer) == len(rows) - 1
    few = sorted(rows, key=lambda m: rows[m]["between_test"])
    good = sorted(rows, key=lambda m: -rows[m]["accuracy_test"])
    follows = "follows" if few == good else "does not follow"
    return (
        "**Figure 5**, θ of the true class, on a log scale. “Between” are predictions with .05 < θ < .95, mean ± "
        f"standard error over {settings['seeds']} seeds. As the paper says, "
        f"{'every prior makes' if all_fewer else 'of the priors ' + ', '.join(fewer) + ' make'} fewer of them than "
        f"supervised training. It also says that fewer of them go with higher accuracy; here the order by accuracy "
        f"({', '.join(good)}) {follows} the order by how few there are ({', '.join(few)}).\n\n" + markdown(head, body)
    )


def _rules(runs: Sequence[Case], settings: Case) -> str:
    (run,) = runs
    space = LabelSpace(settings["rules"])
    valid = [label for label, q in zip(run["labels"], run["q"]) if q > 0.5]
    names = [", ".join(n for n, on in zip(space.columns, label) if on) or "none" for label in valid]
    return (
        f"**Figure 6**, {len(run['labels'])} feasible labels of {' and '.join(space.columns)}, the rule "
        f"`{settings['rules'].splitlines()[-1]}`, the {len(valid)} valid labels it leaves ({'; '.join(names)}), their "
        f"support, and its relaxation: q is 1 at these, 0 at the other, and {run['middle']:.1g} in the middle."
    )


# ---- figures ----


def figures(record: Case) -> None:
    """docs/pictures/figure3.svg to figure6.svg."""
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "dssl"
    settings, runs = record["settings"], record["runs"]
    drawn = {
        "3": plots.curves(list(relaxations(settings["power"]).values())),
        "4": _draw_gaussians([run for run in runs if run["figure"] == "4"], settings),
        "5": _draw_histograms([run for run in runs if run["figure"] == "5"], settings),
        "6": plots.rules(DeterministicPrior(LabelSpace(settings["rules"]), settings["power"])),
    }
    for number, figure in drawn.items():
        figure.savefig(PICTURES / f"figure{number}.svg", metadata={"Date": None})


def _draw_gaussians(runs: Sequence[Case], settings: Case) -> Any:
    """A row a separation: the classes, θ of x, and p(θ) with its components over the histogram."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3 * len(runs)), layout="constrained")
    for run, row in zip(runs, figure.subplots(len(runs), 3, squeeze=False)):
        means = settings["gaussians"][run["method"]]
        prior = GaussianPrior(means, 1.0, settings["weights"]).double()
        x = np.linspace(min(means) - 3.5, max(means) + 3.5, 200)
        density = prior.weights.numpy() * np.exp(-0.5 * (x[:, None] - np.array(means)) ** 2) / (2 * np.pi) ** 0.5
        theta = np.linspace(0, 1, 302)[1:-1]
        parts = prior.components(torch.from_numpy(theta)).numpy()
        left, middle, right = row
        for k in (0, 1):
            left.fill_between(x, density[:, k], color=COLOURS[k], alpha=0.35, label=f"p(x, y={k})")
            right.fill_between(theta, parts[:, k], color=COLOURS[k], alpha=0.35, label=f"p(θ, y={k})")
        left.plot(x, density.sum(1), color="0.2", label="p(x)")
        middle.plot(x, density[:, 1] / density.sum(1), color="0.2")
        right.plot(theta, parts.sum(1), color="0.2", label="p(θ)")
        heights = np.array(run["drawn"]) * settings["bins"]
        edges = np.linspace(0, 1, settings["bins"] + 1)
        right.stairs(heights, edges, color="#009e73", linewidth=1.4, label="draws")
        right.set_yscale("log")
        right.set_ylim(0.5 * min(h for h in heights if h), 2 * parts.sum(1).max())
        left.set(xlabel="x", title=f"classes, s = {float(prior.separation):g}")
        middle.set(xlabel="x", title="θ = p(y=1 | x)")
        right.set(xlabel="θ", title="p(θ), log scale", xlim=(0, 1))
        for axes in row:
            axes.spines[["top", "right"]].set_visible(False)
        for axes in (left, right):
            axes.legend(frameon=False, fontsize=8)
    return figure


def _draw_histograms(runs: Sequence[Case], settings: Case) -> Any:
    """One row per split, one column per method; the last column has all methods together."""
    from matplotlib.figure import Figure

    methods = list(dict.fromkeys(run["method"] for run in runs))
    edges = np.linspace(0, 1, settings["bins"] + 1)
    figure = Figure(figsize=(2.3 * (len(methods) + 1), 6), layout="constrained")
    panels = figure.subplots(len(SPLITS), len(methods) + 1, sharex=True, sharey="row", squeeze=False)
    for name, row in zip(SPLITS, panels):
        for method, axes, colour in zip(methods, row, COLOURS):
            counts = [np.array(run["counts"][name]) for run in runs if run["method"] == method]
            share = np.mean([count / count.sum() for count in counts], axis=0)
            axes.stairs(share, edges, fill=True, color=colour, alpha=0.7)
            row[-1].stairs(share, edges, color=colour, linewidth=1.3, label=method)
            axes.set_title(f"{method}, {name}", fontsize=9)
        row[-1].set_title(f"all, {name}", fontsize=9)
        row[0].set_yscale("log")
        row[0].set_ylim(top=2)
        row[0].set_ylabel("share, log scale", fontsize=9)
        for axes in row:
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=8)
    for axes in panels[-1]:
        axes.set_xlabel("θ of the true class", fontsize=9)
    panels[-1, -1].legend(frameon=False, fontsize=7, loc="upper center")
    return figure


def main() -> None:
    settings = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time (0: one a processor)")
    parser.add_argument("--draw", action="store_true", help="only draw the figures from what is stored")
    asked = parser.parse_args()
    if not asked.draw:
        ledger = Ledger("paper_figures", settings)
        ledger.complete(partial(one, settings=settings), cases(settings), jobs=asked.jobs)
        ledger.keep(cases(settings))
    record = load("paper_figures")
    if RESULTS == KEPT:
        figures(record)
    print(page(record))


if __name__ == "__main__":
    main()
