"""The training loop against a bare PyTorch loop that does the same arithmetic, and its rows per second.

Both train the same network on the same kind of batches with the same objective, clipping, fused Adam and averaged
weights; the bare loop does nothing else. Runs alternate and medians are compared, so a machine that is busy now and
then slows both. Writes benchmarks/results/training.json. MNIST is read from the folder that DSSL_DATA names.
"""

from __future__ import annotations

import copy
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from dssl import LabelSpace
from dssl.data.published import load_mnist
from dssl.data.rows import ArrayData
from dssl.priors import DeterministicPrior
from dssl.training.loop import Settings, train
from dssl.training.networks import fit_inputs, make_network
from dssl.training.objective import Objective

RESULTS = Path(__file__).parent / "results" / "training.json"


@dataclass(frozen=True)
class Plan:
    """Settings of the benchmark."""

    labels: int = 100
    steps: int = 300
    repeats: int = 15
    threads: int = 1
    ema: float = 0.99
    clip: float = 5.0


def digits() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x, y = load_digits(return_X_y=True)
    return x, y


def mnist() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    part = load_mnist().train
    return part.x.reshape(len(part.x), -1), part.y


def prepared(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], labels: int) -> ArrayData:
    hidden = y.astype(float)
    hidden[np.random.default_rng(0).permutation(len(y))[labels:]] = np.nan
    return ArrayData(x, LabelSpace.classes(range(10)).encode(hidden))


def bare(network: nn.Module, objective: Objective, data: ArrayData, settings: Settings) -> None:
    """What one writes by hand: draw rows, forward, loss, backward, clip, step, average."""
    every = data.batch(np.arange(len(data)))
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.lr, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.steps)
    weights = list(network.parameters())
    average = [p.detach().clone() for p in weights]
    streams = [
        (torch.from_numpy(data.labelled), settings.labelled_batch),
        (torch.from_numpy(data.unlabelled), settings.unlabelled_batch),
    ]
    orders = [torch.empty(0, dtype=torch.int64) for _ in streams]
    network.train()
    for step in range(settings.steps):
        drawn = []
        for i, (rows, size) in enumerate(streams):
            if len(orders[i]) < size:
                orders[i] = rows[torch.randperm(len(rows))]
            drawn.append(orders[i][:size])
            orders[i] = orders[i][size:]
        rows = torch.cat(drawn)
        loss = objective(network(every.x[rows]), every.y[rows], step=step, sample_weight=every.weight[rows])
        optimizer.zero_grad()
        loss.total.backward()
        nn.utils.clip_grad_norm_(weights, settings.clip or 0.0)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            torch._foreach_lerp_(average, weights, 1 - (settings.ema or 0.0))


def ours(network: nn.Module, objective: Objective, data: ArrayData, settings: Settings) -> None:
    train(network, objective, data, settings)


def measured(data: ArrayData, plan: Plan) -> dict[str, Any]:
    """Milliseconds per step of each loop, their ratio, and rows per second."""
    space = LabelSpace.classes(range(10))
    objective = Objective(space, DeterministicPrior(space), 0.1)
    network = make_network("mlp", data.batch([0]).x, space.width, seed=0)
    fit_inputs(network, data)
    settings = Settings(steps=plan.steps, ema=plan.ema, clip=plan.clip, accelerator="cpu", eval_every=100)
    loops: dict[str, Callable[..., None]] = {"bare": bare, "ours": ours}
    wall: dict[str, list[float]] = {name: [] for name in loops}
    cpu: dict[str, list[float]] = {name: [] for name in loops}
    for repeat in range(plan.repeats + 1):
        for name, loop in loops.items():
            fresh = copy.deepcopy(network)
            began, used = time.perf_counter(), time.process_time()
            loop(fresh, objective, data, settings)
            if repeat:  # the first round warms up
                wall[name].append((time.perf_counter() - began) / plan.steps * 1e3)
                cpu[name].append((time.process_time() - used) / plan.steps * 1e3)
    milliseconds = {name: statistics.median(times) for name, times in wall.items()}
    ratios = [a / b for a, b in zip(cpu["ours"], cpu["bare"])]
    return {
        "ms per step": milliseconds,
        "cpu ms per step": {name: statistics.median(times) for name, times in cpu.items()},
        "ours / bare": milliseconds["ours"] / milliseconds["bare"],
        "ours / bare, cpu, median of pairs": statistics.median(ratios),
        "ours / bare, fastest of each": min(wall["ours"]) / min(wall["bare"]),
        "rows per second": (settings.labelled_batch + settings.unlabelled_batch) / milliseconds["ours"] * 1e3,
    }


def main() -> None:
    plan = Plan()
    torch.set_num_threads(plan.threads)
    sets = {"digits": digits} | ({"mnist": mnist} if "DSSL_DATA" in os.environ else {})
    found = {name: measured(prepared(*load(), plan.labels), plan) for name, load in sets.items()}
    machine = {"processor": platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"plan": asdict(plan), "machine": machine, "results": found}, indent=1) + "\n")
    for name, result in found.items():
        times, rows = result["ms per step"], result["rows per second"]
        ratios = ", ".join(f"{name} {value:.3f}" for name, value in result.items() if name.startswith("ours"))
        print(f"{name}: {times['ours']:.2f} ms per step, bare loop {times['bare']:.2f}, {rows:,.0f} rows/s; {ratios}")


if __name__ == "__main__":
    main()
