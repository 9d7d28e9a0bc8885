"""The protocol of the paper's experiments: images of which few have labels, a network, and one run with a prior.

It is that of Oliver et al. (2018) as far as the paper states it: Adam with 3e-3, a fifth of it after 80 % of the steps;
the prior's weight rises to λ over the first 40 %; each step sees 100 labelled and 100 unlabelled images.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from dssl.data.published import Published, Split, load_cifar10, load_mnist, load_svhn
from dssl.data.rows import ArrayData
from dssl.logic.space import LabelSpace
from dssl.priors import DeterministicPrior, EntropyPrior, ExclusivityPrior, Prior, PseudoLabelPrior
from dssl.training import settings as training
from dssl.training.loop import train
from dssl.training.networks import Standardise, make_network
from dssl.training.objective import Objective, sigmoid_ramp
from dssl.training.terms.augmentation import Augmentation, Chain, Flip, Noise, Shift

SUPERVISED, ALL = "supervised", "fully supervised"
PRIORS: dict[str, type[Prior]] = {
    "DP": DeterministicPrior,
    "E": EntropyPrior,
    "X": ExclusivityPrior,
    "PL": PseudoLabelPrior,
}
METHODS = (ALL, *PRIORS, SUPERVISED)
NAMES = {
    ALL: ALL,
    "DP": "deterministic prior, DP",
    "E": "minimum entropy, E",
    "X": "mutual exclusivity, X",
    "PL": "pseudo-label, PL",
    SUPERVISED: SUPERVISED,
}
TITLES = {"mnist": "MNIST", "svhn": "SVHN", "cifar10": "CIFAR-10", "digits": "digits"}


@dataclass(frozen=True)
class Task:
    """A set of images: labels shown, and training rows held out to choose λ."""

    labels: int
    steps: int
    network: str = "small"
    changes: str = "shift"  # of images in training: of flip, shift, noise
    held: int = 10_000


@dataclass(frozen=True)
class Protocol:
    batch: int = 100  # labelled images per step, and as many unlabelled ones
    lr: float = 3e-3
    decay: float = 0.2
    decay_at: float = 0.8  # share of the steps
    ramp: float = 0.4
    amp: bool | str = True


# ---- data ----


@cache
def read(name: str) -> Published:
    """A set with its test part; for digits these are 500 rows, always the same."""
    if name != "digits":
        return {"mnist": load_mnist, "cifar10": load_cifar10, "svhn": load_svhn}[name]()
    x, y = load_digits(return_X_y=True)
    test, train = np.split(np.random.default_rng(0).permutation(len(y)), [500])
    first, second = (Split(x[rows].astype(np.float32), y[rows]) for rows in (train, test))
    return Published(LabelSpace.classes([str(k) for k in range(10)], "digit"), first, second)


def evenly(y: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """`count` rows at random, as many of each class as of any other."""
    classes = np.unique(y)
    if count % len(classes):
        raise ValueError(f"{count} labels cannot be spread evenly over {len(classes)} classes")
    return np.concatenate([random.permutation(np.flatnonzero(y == k))[: count // len(classes)] for k in classes])


def columns_of(space: LabelSpace, y: np.ndarray) -> np.ndarray:
    """Classes y (n,), as indices, as columns (n, width)."""
    return np.eye(space.width, dtype=np.float32)[y]


def split(
    found: Published, task: Task, seed: int, *, choosing: bool = False, all_labels: bool = False
) -> tuple[Split, ArrayData, Split]:
    """Rows to train on, the same with the labels of some of them shown, and rows to measure on.

    These are the set's test rows; if λ is being chosen, training rows that are held out instead.
    """
    random = np.random.default_rng(seed)
    held, rows = np.split(random.permutation(len(found.train.y)), [task.held if choosing else 0])
    rows = np.sort(rows)
    whole = Split(found.train.x[rows], found.train.y[rows])
    columns = columns_of(found.space, whole.y)
    if not all_labels:
        columns[np.setdiff1d(np.arange(len(rows)), evenly(whole.y, task.labels, random))] = np.nan
    measured = Split(found.train.x[held], found.train.y[held]) if choosing else found.test
    assert measured is not None  # every set read here has a test part
    return whole, ArrayData(whole.x, columns), measured


def changed(changes: str) -> Augmentation | None:
    """How images are changed in training: two of 32 or 28 pixels are a share of 1/16."""
    known = {"flip": Flip(), "shift": Shift(1 / 16), "noise": Noise(0.15)}
    return Chain(*(known[name] for name in changes.split())) if changes else None


# ---- training ----


@dataclass(frozen=True)
class Falling(training.Settings):
    """Settings with a learning rate that falls once."""

    decay: float = 0.2
    decay_at: float = 0.8

    def learning_rate(self, step: int) -> float:
        return self.lr * (self.decay if step >= self.decay_at * self.steps else 1.0)


def small_network(example: Tensor, width: int) -> nn.Module:
    """Three strided convolutions: 34,000 weights for MNIST."""
    stages: list[nn.Module] = [Standardise(example)]
    before = example.shape[1]
    for after in (16, 32, 64):
        stages += [nn.Conv2d(before, after, 3, 2, padding=1), nn.GroupNorm(8, after), nn.ReLU()]
        before = after
    inside = nn.Sequential(*stages, nn.Flatten())
    return inside.append(nn.Linear(inside(example).shape[1], width))


def network_of(task: Task, example: Tensor, width: int, seed: int) -> nn.Module:
    """The task's network, with weights that the seed fixes."""
    if task.network != "small":
        return make_network(task.network, example, width, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return small_network(example, width)


def trained(
    method: str,
    space: LabelSpace,
    task: Task,
    data: ArrayData,
    protocol: Protocol,
    *,
    weight: float,
    seed: int,
    checkpoint: Path | None = None,
    **form: Any,
) -> nn.Module:
    """The network after training with λ = `weight`; `form` are options of the deterministic prior."""
    prior = PRIORS[method](space, **(form if method == "DP" else {})) if method in PRIORS else None
    objective = Objective(
        space,
        prior,
        weight,
        ramp=sigmoid_ramp(max(1, round(protocol.ramp * task.steps))),
        augment=(changed(task.changes), None),
        mean="terms",
    )
    settings = Falling(
        steps=task.steps,
        labelled_batch=protocol.batch,
        unlabelled_batch=0 if prior is None else protocol.batch,
        lr=protocol.lr,
        decay=protocol.decay,
        decay_at=protocol.decay_at,
        clip=None,
        amp=protocol.amp,
        seed=seed,
        eval_every=max(1, task.steps),
        checkpoint=checkpoint,
        checkpoint_every=10_000,
    )
    network = network_of(task, data.batch([0, 1]).x, space.width, seed)
    return train(network, objective, data, settings).network


@torch.inference_mode()
def logits_of(network: nn.Module, x: np.ndarray) -> Tensor:
    """z of rows x, a thousand at a time."""
    device = next(network.parameters()).device
    parts = (torch.from_numpy(x[i : i + 1000]).float().to(device) for i in range(0, len(x), 1000))
    return torch.cat([network(part).float().cpu() for part in parts])
