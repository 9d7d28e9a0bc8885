"""What the closed-form priors cost: beside a WRN-28-2 training step, and for many classes.

    python benchmarks/priors.py

Two bounds: under 5 % of a training step at batch 128 and K = 10, and under 1 µs·K a sample at K = 1,000.
Forward and backward from logits; the best of several runs. Results go to benchmarks/results/priors.json.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from dssl.logic.space import LabelSpace
from dssl.priors import DeterministicPrior, EntropyPrior, ExclusivityPrior, Prior, PseudoLabelPrior
from dssl.training.objective import Objective


@dataclass(frozen=True)
class Settings:
    batch: int = 128
    classes: int = 10
    many_classes: int = 1000
    image: int = 32
    steps: int = 5  # training steps timed
    runs: int = 200  # runs of a prior timed
    threads: int = torch.get_num_threads()


PRIORS: dict[str, Callable[[LabelSpace], Prior]] = {
    "entropy": EntropyPrior,
    "exclusivity": ExclusivityPrior,
    "pseudo-label": PseudoLabelPrior,
    "deterministic": DeterministicPrior,
}


class Block(nn.Module):
    """Two 3×3 convolutions around a shortcut, each after batch norm and leaky ReLU."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(inside), nn.BatchNorm2d(outside)
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        same = inside == outside and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = nn.functional.leaky_relu(self.norm1(x), 0.1)
        return self.shortcut(x) + self.conv2(nn.functional.leaky_relu(self.norm2(self.conv1(h)), 0.1))


def wrn_28_2(classes: int) -> nn.Module:
    widths = (16, 32, 64, 128)
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)]
    for i in range(3):
        layers += [
            Block(widths[i] if j == 0 else widths[i + 1], widths[i + 1], 2 if i and j == 0 else 1) for j in range(4)
        ]
    return nn.Sequential(
        *layers,
        nn.BatchNorm2d(widths[3]),
        nn.LeakyReLU(0.1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(widths[3], classes),
    )


def best(run: Callable[[], None], runs: int) -> float:
    """Seconds of the fastest of some runs, after one to warm up."""
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def training_step(settings: Settings) -> float:
    """Seconds of one step of supervised training."""
    network = wrn_28_2(settings.classes)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(settings.batch, 3, settings.image, settings.image)
    y = torch.randint(settings.classes, (settings.batch,))

    def step() -> None:
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimiser.step()

    return best(step, settings.steps)


def cost(prior: Prior, classes: int, settings: Settings) -> float:
    """Seconds of log q and its gradient for a batch."""
    z = torch.randn(settings.batch, classes, requires_grad=True)

    def run() -> None:
        z.grad = None
        (-prior(z).mean()).backward()

    return best(run, settings.runs)


def objective_cost(space: LabelSpace, settings: Settings) -> float:
    """Seconds of the whole objective for a batch of which a quarter is labelled."""
    objective = Objective(space, DeterministicPrior(space))
    z = torch.randn(settings.batch, settings.classes, requires_grad=True)
    y = torch.randint(settings.classes, (settings.batch,))
    y[settings.batch // 4 :] = -1

    def run() -> None:
        z.grad = None
        objective(z, y).backward()

    return best(run, settings.runs)


def main() -> None:
    settings = Settings()
    torch.manual_seed(0)
    few, many = (LabelSpace.classes(range(k)) for k in (settings.classes, settings.many_classes))
    step = training_step(settings)
    print(f"WRN-28-2 training step, batch {settings.batch}: {step * 1e3:.0f} ms")
    rows = {}
    for name, make in PRIORS.items():
        small, large = cost(make(few), settings.classes, settings), cost(make(many), settings.many_classes, settings)
        per_class = large / settings.batch / settings.many_classes
        rows[name] = {
            "ms": small * 1e3,
            "share_of_step": small / step,
            "ms_many_classes": large * 1e3,
            "us_per_sample_and_class": per_class * 1e6,
        }
        print(f"{name:14} {small * 1e6:7.0f} µs, {small / step:.3%} of a step; {per_class * 1e6:.4f} µs·K a sample")
    whole = objective_cost(few, settings)
    print(f"{'objective':14} {whole * 1e6:7.0f} µs, {whole / step:.3%} of a step")
    result = {
        "settings": asdict(settings),
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "load_average": os.getloadavg()[0],  # of other work on the machine: it slows the step more than the priors
        "step_ms": step * 1e3,
        "objective": {"ms": whole * 1e3, "share_of_step": whole / step},
        "priors": rows,
        "bounds": {"share_of_step": 0.05, "us_per_sample_and_class": 1.0},
        "met": all(row["share_of_step"] < 0.05 and row["us_per_sample_and_class"] < 1 for row in rows.values()),
    }
    path = Path(__file__).parent / "results" / "priors.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"bounds met: {result['met']}; written to {path}")


if __name__ == "__main__":
    main()
