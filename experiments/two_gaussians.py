"""Generative against discriminative semi-supervised learning where everything is known: two Gaussians (paper, Fig. 4).

    python experiments/two_gaussians.py                   # all of it: results/two_gaussians.json
    python experiments/two_gaussians.py --tables          # the tables of docs/generative.md, from that file
    python experiments/two_gaussians.py --pictures        # its pictures, from that file and one draw of the data

x | y=k ~ N(±d/2, 1) with both classes equally frequent. A few labels, as many of each class; 500 unlabelled points.
Every method gives θ(x) = p(y=1 | x); error and log loss are integrals over the true p(x, y), so that nothing but the
draw of the training data is random. Both are shown above those of the true posterior. Two other worlds break the
assumption that all methods but one share: class variances .4 and 1.6, and Student's t with 3 degrees of freedom scaled
to variance 1. There p(θ) is still that of two Gaussians of variance 1.
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
import sklearn
import torch
from ledger import RESULTS
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

import dssl
from dssl import DeterministicPrior, GaussianPrior, GenerativeClassifier, LabelSpace, Objective
from dssl.priors import Prior

HERE = Path(__file__).parent
PICTURES = HERE.parent / "docs" / "pictures"
SPACE = LabelSpace("y")


@dataclass(frozen=True)
class Settings:
    seeds: int = 50
    # the separations d of each world, in standard deviations
    worlds: dict[str, tuple[float, ...]] = field(
        default_factory=lambda: {
            "gaussian": (1.0, 2.0, 3.0),
            "unequal variances": (2.0, 3.0),
            "heavy tails": (2.0, 3.0),
        }
    )
    labels: tuple[int, ...] = (2, 4, 10, 30)
    unlabelled: int = 500
    power: float = 2.0  # T of the deterministic prior
    slope_precision: float = 0.1  # of the weak Gaussian prior on the slope of every logistic model
    steps: int = 300
    learning_rate: float = 0.05
    grid: tuple[float, int] = (40.0, 16_001)  # the integrals' half width and points
    threads: int = 1


# ---- worlds ----


@dataclass(frozen=True)
class World:
    """Two classes at ±d/2, each with its own distribution around there."""

    d: float
    noise: tuple[Any, Any]  # frozen distributions of scipy

    def draw(self, labels: int, unlabelled: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """x and y (labels + unlabelled,), y NaN where unlabelled."""
        random = np.random.default_rng(seed)
        y = np.concatenate([np.arange(labels) % 2, random.integers(2, size=unlabelled)])
        around = np.stack([noise.rvs(len(y), random_state=random) for noise in self.noise])
        x = (y - 0.5) * self.d + around[y, np.arange(len(y))]
        return x, np.where(np.arange(len(y)) < labels, y, np.nan)

    def log_joint(self, x: np.ndarray) -> np.ndarray:
        """log p(x, y=k) (2, n)."""
        return np.log(0.5) + np.stack([n.logpdf(x - side * self.d / 2) for n, side in zip(self.noise, (-1, 1))])


def world_of(name: str, d: float) -> World:
    normal, t = scipy.stats.norm, scipy.stats.t
    noise = {
        "gaussian": (normal(), normal()),
        "unequal variances": (normal(scale=0.4**0.5), normal(scale=1.6**0.5)),
        "heavy tails": (t(3, scale=3**-0.5),) * 2,
    }
    return World(d, noise[name])


# ---- methods: training data of all seeds (S, n) and a grid (G,) → logit θ on the grid (S, G) ----

Method = Callable[[np.ndarray, np.ndarray, np.ndarray, float, Settings], np.ndarray]


def generative(**parameters: Any) -> Method:
    def run(x: np.ndarray, y: np.ndarray, grid: np.ndarray, d: float, settings: Settings) -> np.ndarray:
        models = [GenerativeClassifier(**parameters).fit(xs[:, None], ys) for xs, ys in zip(x, y)]
        return np.stack([np.diff(m.predict_joint_log_proba(grid[:, None]), axis=1)[:, 0] for m in models])

    return run


def logistic(prior_of: Callable[[float, Settings], Prior] | None, extra: str = "") -> Method:
    """logit θ = ax + b by Eq. DSSL with λ = 1, all seeds at once; starts at the supervised solution."""

    def run(x: np.ndarray, y: np.ndarray, grid: np.ndarray, d: float, settings: Settings) -> np.ndarray:
        start = torch.stack([torch.full((len(x),), 0.1), torch.zeros(len(x))]).double()
        line = train(torch.tensor(x), torch.tensor(y), start, None, "", settings)
        if prior_of is not None:
            line = train(torch.tensor(x), torch.tensor(y), line, prior_of(d, settings), extra, settings)
        return (line[0, :, None] * torch.tensor(grid) + line[1, :, None]).numpy()

    return run


def train(x: Tensor, y: Tensor, line: Tensor, prior: Prior | None, extra: str, settings: Settings) -> Tensor:
    """Slopes and intercepts (2, S) of all seeds: their losses are sums over rows, so one batch trains them all."""
    line = line.clone().requires_grad_()
    optimiser = torch.optim.Adam([line], settings.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, settings.steps)
    stochastic = isinstance(prior, GaussianPrior)  # a deterministic one has no middle term (MATH §1)
    objective = Objective(SPACE, prior, prior_weight=1.0, labelled_prior_weight=float(stochastic))
    for _ in range(settings.steps):
        optimiser.zero_grad()
        z = line[0, :, None] * x + line[1, :, None]  # (S, n)
        loss = objective(z.reshape(-1, 1), y.reshape(-1, 1)).total * z.numel()
        loss = loss + settings.slope_precision / 2 * line[0].square().sum()
        loss = loss - _EXTRA[extra](z, line[0, :, None].abs().clamp_min(1e-9), y.isnan())
        loss.backward()
        optimiser.step()
        schedule.step()
    return line.detach()


def spread(z: Tensor, slope: Tensor, unlabelled: Tensor) -> Tensor:
    """The entropy of the predictions' distribution, which Eq. DSSL leaves out: that of x plus the mean of log dθ/dx."""
    return (logsigmoid(z) + logsigmoid(-z) + slope.log()).sum()


def balance(z: Tensor, slope: Tensor, unlabelled: Tensor) -> Tensor:
    """A coarse form of it: −KL(π ‖ mean prediction) of each seed, as often as it has unlabelled rows (`Balanced`)."""
    mean = z.sigmoid().where(unlabelled, torch.nan).nanmean(1)
    return (unlabelled.sum(1) * 0.5 * (4 * mean * (1 - mean)).clamp_min(1e-30).log()).sum()


_EXTRA: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "": lambda z, slope, unlabelled: z.new_zeros(()),
    "entropy": spread,
    "balance": balance,
}


def known(d: float, settings: Settings) -> Prior:
    return GaussianPrior((-d / 2, d / 2), 1.0, space=SPACE).double()


def deterministic(d: float, settings: Settings) -> Prior:
    return DeterministicPrior(SPACE, settings.power).double()


METHODS: dict[str, Method] = {
    "logistic, labels only": logistic(None),
    "Gaussians, labels only": generative(covariance="tied", unlabelled_weight=0),
    "Gaussians, EM": generative(covariance="tied"),
    "Gaussians, EM, own variances": generative(covariance="full"),
    "logistic, deterministic prior": logistic(deterministic),
    "logistic, deterministic prior, balanced": logistic(deterministic, "balance"),
    "logistic, known p(θ)": logistic(known),
    "logistic, known p(θ) and entropy": logistic(known, "entropy"),
}


# ---- measuring ----


def losses(logits: np.ndarray, log_joint: np.ndarray, step: float) -> dict[str, np.ndarray]:
    """Error, log loss, and mean distance to the true posterior, (S,) each, of logits (S, G) under p(x, y) (2, G)."""
    joint, p, z = np.exp(log_joint), np.exp(log_joint).sum(axis=0), torch.from_numpy(logits)
    truth = torch.from_numpy(log_joint[1] - log_joint[0]).sigmoid()
    parts = {
        "error": np.where(logits > 0, joint[0], joint[1]),
        "log_loss": softplus(z).numpy() * joint[0] + softplus(-z).numpy() * joint[1],
        "theta": (z.sigmoid() - truth).abs().numpy() * p,
    }
    return {name: part.sum(axis=1) * step for name, part in parts.items()}


def measure(world_name: str, d: float, labels: int, settings: Settings) -> Iterator[dict[str, Any]]:
    world = world_of(world_name, d)
    grid = np.linspace(-settings.grid[0], settings.grid[0], settings.grid[1])
    log_joint, step = world.log_joint(grid), float(grid[1] - grid[0])
    data = [world.draw(labels, settings.unlabelled, seed) for seed in range(settings.seeds)]
    x, y = (np.stack(part) for part in zip(*data))
    best = losses(log_joint[1:] - log_joint[:1], log_joint, step)
    for name, method in METHODS.items():
        begin = time.perf_counter()
        found = losses(method(x, y, grid, d, settings), log_joint, step)
        row = {"world": world_name, "d": d, "labels": labels, "method": name}
        for measure_name, values in found.items():
            above = values - best[measure_name]
            row[measure_name] = round(float(above.mean()), 5)
            row[f"{measure_name}_se"] = round(float(above.std(ddof=1) / len(above) ** 0.5), 5)
        row |= {"median_error": round(float(np.median(found["error"] - best["error"])), 5)}
        row |= {"best_error": round(float(best["error"][0]), 5), "best_log_loss": round(float(best["log_loss"][0]), 5)}
        yield row | {"seconds": round(time.perf_counter() - begin, 1)}


def run(settings: Settings) -> dict[str, Any]:
    torch.set_num_threads(settings.threads)
    begin, results = time.perf_counter(), []
    for world, separations in settings.worlds.items():
        for d in separations:
            for labels in settings.labels:
                for row in measure(world, d, labels, settings):
                    print(
                        f"{world:18} d={d:g} {labels:3} {row['method']:40} error +{100 * row['error']:5.2f} ± "
                        f"{100 * row['error_se']:.2f} %   log loss +{row['log_loss']:.3f} ± {row['log_loss_se']:.3f}"
                        f"   {row['seconds']:.1f} s",
                        flush=True,
                    )
                    results.append(row)
    versions = {"dssl": dssl.__version__, "python": platform.python_version(), "torch": torch.__version__}
    versions |= {"numpy": np.__version__, "scikit-learn": sklearn.__version__}
    seconds = round(time.perf_counter() - begin)
    return {"settings": asdict(settings), "versions": versions, "seconds": seconds, "results": results}


# ---- tables ----


def tables(record: dict[str, Any], world: str) -> str:
    """Markdown: error above Bayes in per cent, and log loss above Bayes, by method and number of labels."""
    out = []
    for d in record["settings"]["worlds"][world]:
        rows = [r for r in record["results"] if r["world"] == world and r["d"] == d]
        sizes = sorted({r["labels"] for r in rows})
        title = f"{world}, d = {d:g}: error above {100 * rows[0]['best_error']:.1f} % · log loss above"
        head = [f"{title} {rows[0]['best_log_loss']:.3f}", *(f"{n} labels" for n in sizes)]
        out += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        for method in METHODS:
            cells = {r["labels"]: r for r in rows if r["method"] == method}
            out.append(" | ".join([f"| {method}", *(_cell(cells[n]) for n in sizes)]) + " |")
        out.append("")
    return "\n".join(out)


def _cell(row: dict[str, Any]) -> str:
    return f"{100 * row['error']:.2f} ± {100 * row['error_se']:.2f} · {row['log_loss']:.2f} ± {row['log_loss_se']:.2f}"


# ---- pictures ----

_COLOURS = {
    "logistic, labels only": "#999999",
    "Gaussians, EM": "#0072b2",
    "logistic, deterministic prior": "#e69f00",
    "logistic, known p(θ)": "#cc79a7",
    "logistic, known p(θ) and entropy": "#009e73",
}


def _save(figure: Any, name: str) -> None:
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    lines = (line.rstrip() for line in re.sub(r"(\.\d\d)\d+", r"\1", text.getvalue()).splitlines())
    (PICTURES / name).write_text("\n".join(lines) + "\n")  # hundredths of a point are enough


def picture_of_densities(settings: Settings, separations: tuple[float, float], labels: int, seed: int) -> None:
    """The paper's Fig. 4: p(x), θ(x) and p(θ) for two separations, with what methods learn from one draw."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5.6), layout="constrained")
    grid = np.linspace(-4.5, 4.5, 91)
    theta = torch.linspace(0, 1, 93, dtype=torch.float64)[1:-1]
    for half, d in zip(figure.subfigures(1, 2), separations):
        axes = half.subplot_mosaic([["x", "."], ["curve", "theta"]], width_ratios=[2.2, 1], height_ratios=[1, 1.7])
        world = world_of("gaussian", d)
        x, y = world.draw(labels, settings.unlabelled, seed)
        joint, parts = np.exp(world.log_joint(grid)), known(d, settings).components(theta)
        for k, colour in enumerate(("#0072b2", "#d55e00")):
            axes["x"].fill_between(grid, joint[k], color=colour, alpha=0.3, linewidth=0)
            axes["x"].plot(x[y == k], np.zeros((y == k).sum()), "o", color=colour, clip_on=False, zorder=3)
            axes["theta"].fill_betweenx(theta, parts[:, k], color=colour, alpha=0.3, linewidth=0)
        axes["x"].plot(grid, joint.sum(axis=0), color="0.2", linewidth=1.2)
        axes["theta"].plot(parts.sum(-1), theta, color="0.2", linewidth=1.2)
        axes["curve"].plot(grid, joint[1] / joint.sum(axis=0), color="0.2", linewidth=3, label="true θ(x)")
        for name, colour in _COLOURS.items():
            logits = METHODS[name](x[None], y[None], grid, d, settings)[0]
            axes["curve"].plot(grid, 1 / (1 + np.exp(-logits)), color=colour, linewidth=1.4, label=name)
        half.suptitle(f"d = {d:g}, s = {d * d:g}", fontsize=12)
        axes["theta"].set_xlim(0, min(5.0, 1.15 * float(parts.sum(-1).max())))
        for where, (title, label) in {
            "x": ("p(x), p(x, y)", ""),
            "curve": ("θ(x)", "x"),
            "theta": ("p(θ)", ""),
        }.items():
            axes[where].set_title(title, fontsize=10, loc="left")
            axes[where].set_xlabel(label)
            axes[where].spines[["top", "right"]].set_visible(False)
            axes[where].tick_params(labelsize=8)
        axes["x"].set_yticks([])
        axes["x"].sharex(axes["curve"])
        axes["theta"].sharey(axes["curve"])
    figure.legend(
        *axes["curve"].get_legend_handles_labels(), ncols=6, fontsize=8, frameon=False, loc="outside lower center"
    )
    _save(figure, "two_gaussians.svg")


def picture_of_results(record: dict[str, Any]) -> None:
    """Error above Bayes by number of labels, a panel for each separation."""
    from matplotlib.figure import Figure

    settings = record["settings"]
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = figure.subplots(1, len(settings["worlds"]["gaussian"]), sharey=True)
    for ax, d in zip(panels, settings["worlds"]["gaussian"]):
        for name, colour in _COLOURS.items():
            rows = [r for r in record["results"] if (r["world"], r["d"], r["method"]) == ("gaussian", d, name)]
            means = np.array([100 * r["error"] for r in rows])
            errors = np.array([100 * r["error_se"] for r in rows])
            ax.errorbar([r["labels"] for r in rows], means, errors, color=colour, marker="o", markersize=3, label=name)
        ax.set_title(f"d = {d:g}: error above {100 * rows[0]['best_error']:.1f} %", fontsize=10, loc="left")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(settings["labels"], [str(n) for n in settings["labels"]], minor=False)
        ax.set_xticks([], minor=True)
        ax.set_yticks([0.03, 0.1, 0.3, 1, 3, 10], ["0.03", "0.1", "0.3", "1", "3", "10"])
        ax.set_xlabel("labels")
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
    figure.legend(*ax.get_legend_handles_labels(), ncols=5, fontsize=8, frameon=False, loc="outside lower center")
    _save(figure, "two_gaussians_results.svg")


def main() -> None:
    settings = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=settings.seeds)
    parser.add_argument("--out", type=Path, default=RESULTS / "two_gaussians.json")
    parser.add_argument("--tables", action="store_true", help="print the tables of an earlier run")
    parser.add_argument("--pictures", action="store_true", help="draw the pictures of an earlier run")
    chosen = parser.parse_args()
    if not (chosen.tables or chosen.pictures):
        record = run(replace(settings, seeds=chosen.seeds))
        chosen.out.parent.mkdir(exist_ok=True)
        chosen.out.write_text(json.dumps(record, indent=1) + "\n")
        return
    record = json.loads(chosen.out.read_text())
    if chosen.tables:
        print("\n".join(tables(record, world) for world in settings.worlds))
    if chosen.pictures:
        picture_of_densities(settings, (1.0, 3.0), labels=4, seed=0)
        picture_of_results(record)


if __name__ == "__main__":
    main()
