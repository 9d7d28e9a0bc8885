"""How to train: every setting of the loop, checked when it is set, and what follows from them at each step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from dssl.training.optimisers import plain


def _cosine(t: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * t))


def _constant(t: float) -> float:
    return 1.0


def _step(t: float) -> float:
    return float(0.2 ** sum(t >= at for at in (0.3, 0.6, 0.8)))


_SCHEDULES: dict[str, Callable[[float], float]] = {"cosine": _cosine, "constant": _constant, "step": _step}
_OPTIMISERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "sgd": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
}
# what may change between a run and its continuation without changing the weights
_FREE = {
    "checkpoint",
    "checkpoint_every",
    "log",
    "tensorboard",
    "callbacks",
    "progress",
    "devices",
    "accelerator",
    "timeout",
}


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    * `steps` updates, each on `labelled_batch` labelled and `unlabelled_batch` unlabelled rows, over all processes.
    * `optimizer` "adam", "adamw" or "sgd" (Nesterov .9) with `lr`, `weight_decay`; `lr` rises over `warmup` steps, then
      follows `schedule`: "cosine" to zero, "constant", or "step" (a fifth of it after 30, 60 and 80 % of the steps).
    * `clip`: the largest norm of the gradient, None for any. `ema`: weights averaged with this decay are used, not the
      last. `amp`: bfloat16 where the device is made for it ("auto"), always (True) or never (False).
    * Every `eval_every` steps the run is validated and logged; after `patience` validations without a better score it
      stops. The weights of the best validation are used.
    * `checkpoint`: a folder; the run is saved there every `checkpoint_every` steps, and resumed from there.
    * `log`: a .csv or .jsonl file; `tensorboard`: a folder; `progress`: a bar. `callbacks`: functions that are called
      with each row of the log, a dict, and closed at the end if they have `close`; see `dssl.training.logs.MLflow`.
    * `devices`: processes, each with its device, see `dssl.training.processes`; `accelerator` "auto", "cpu", "cuda",
      "mps"; `timeout`: the minutes after which a process that waits for another gives up.
    """

    steps: int = 2000
    labelled_batch: int = 64
    unlabelled_batch: int = 256
    lr: float = 1e-3
    weight_decay: float = 0.0
    optimizer: str = "adam"
    schedule: str = "cosine"
    warmup: int = 0
    clip: float | None = 5.0
    ema: float | None = None
    amp: bool | str = "auto"
    seed: int = 0
    devices: int = 1
    accelerator: str = "auto"
    eval_every: int = 100
    patience: int | None = None
    checkpoint: str | Path | None = None
    checkpoint_every: int = 500
    log: str | Path | None = None
    tensorboard: str | Path | None = None
    callbacks: Sequence[Callable[[dict[str, Any]], object]] | None = None
    progress: bool = False
    timeout: float = 30.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.generic):  # as a search over np.arange gives them
                object.__setattr__(self, name, value.item())
        for names, holds, what in _CHECKS:
            for name in names.split():
                value = getattr(self, name)
                if not holds(value):
                    raise ValueError(f"{name}={value!r}: it must be {what}")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """Settings by name; an unknown name is an error that lists them."""
        known = [field.name for field in fields(cls)]
        odd = next((name for name in given if name not in known), None)
        if odd is not None:
            raise ValueError(f"there is no setting {odd!r}: choose among {', '.join(known)}")
        return cls(**given)

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step, numbered from 0."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        t = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * _SCHEDULES[self.schedule](t)

    def make_optimizer(self, network: nn.Module, others: Iterable[nn.Parameter] = ()) -> torch.optim.Optimizer:
        """The optimiser of the network's weights, and of `others` without weight decay."""
        kind, options = _OPTIMISERS[self.optimizer]
        held = [p for p in network.parameters() if p.requires_grad]
        groups = [{"params": held, "weight_decay": self.weight_decay}, {"params": list(others), "weight_decay": 0.0}]
        groups = [group for group in groups if group["params"]]
        if not groups:
            raise ValueError("the network has no weights to train: set requires_grad on some")
        fused = all(p.device.type in ("cpu", "cuda") for p in held)
        make: Callable[..., torch.optim.Optimizer] = plain(kind)
        return make(groups, lr=self.lr, fused=fused, **options)

    def identity(self) -> dict[str, Any]:
        """The settings that the weights depend on."""
        return {name: value for name, value in vars(self).items() if name not in _FREE}


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least


def _at_least(least: float, strictly: bool = False) -> Callable[[Any], bool]:
    def holds(value: Any) -> bool:
        return (
            isinstance(value, int | float)
            and math.isfinite(value)
            and (value > least or (value == least and not strictly))
        )

    return holds


def _or_none(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or holds(value)


def _callables(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(callable, value))


_CHECKS: list[tuple[str, Callable[[Any], bool], str]] = [
    ("steps labelled_batch unlabelled_batch warmup seed", _whole(0), "a whole number, 0 or more"),
    ("devices eval_every checkpoint_every", _whole(1), "a whole number, 1 or more"),
    ("patience", _or_none(_whole(1)), "a whole number, 1 or more, or None"),
    ("lr weight_decay", _at_least(0), "a number, 0 or more"),
    ("timeout", _at_least(0, strictly=True), "a number of minutes above 0"),
    ("clip", _or_none(_at_least(0, strictly=True)), "a number above 0, or None"),
    ("ema", _or_none(lambda value: isinstance(value, float) and 0 <= value < 1), "from 0 to below 1, or None"),
    ("optimizer", tuple(_OPTIMISERS).__contains__, f"one of {', '.join(_OPTIMISERS)}"),
    ("schedule", tuple(_SCHEDULES).__contains__, f"one of {', '.join(_SCHEDULES)}"),
    ("callbacks", _or_none(_callables), "a list of functions of a row of the log"),
    ("amp", ("auto", True, False).__contains__, '"auto", True or False'),
    ("accelerator", ("auto", "cpu", "cuda", "mps").__contains__, '"auto", "cpu", "cuda" or "mps"'),
]
