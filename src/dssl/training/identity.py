"""What makes two runs the same run: a checkpoint is continued only by the run that wrote it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dssl.data.rows import Data
from dssl.errors import DataError
from dssl.training.settings import Settings

_SAMPLED = 32  # rows sampled to stand for all


def identity(network: nn.Module, objective: Any, data: Data, settings: Settings) -> dict[str, Any]:
    """Everything the final weights depend on: settings by name, the rest as digests."""
    return {
        **settings.identity(),
        "rows": len(data),
        "labelled rows": len(data.labelled),
        "data": _of_data(data),
        "network": _digest([], str([(name, tuple(t.shape)) for name, t in network.state_dict().items()])),
        "initial weights": _digest(network.state_dict().values()),
        "objective": _of_objective(objective),
    }


def refuse_other(ours: Mapping[str, Any], theirs: Mapping[str, Any], folder: Any, *, finished: bool) -> None:
    """An error that names what differs, if the checkpoint is another run's.

    An unfinished run continues from the checkpoint's weights, however the network is initialised here; so a network
    without a seed can be resumed too.
    """
    names = [name for name in {**ours, **theirs} if finished or name != "initial weights"]
    differing = [name for name in names if ours.get(name) != theirs.get(name)]
    if differing:
        shown = "\n".join(f"  {name}: {theirs.get(name)!r} there, {ours.get(name)!r} here" for name in differing)
        raise DataError(
            f"the checkpoints in '{folder}' are of another run:\n{shown}\n"
            "Resume with the settings it began with, or use another folder."
        )


def _of_data(data: Data) -> str:
    rows = np.linspace(0, len(data) - 1, min(_SAMPLED, len(data))).astype(np.int64)
    batch = data.batch(rows)
    return _digest([torch.from_numpy(data.labelled), batch.x, batch.y, batch.weight])


def _of_objective(objective: Any) -> str:
    """Its buffers and weights, and the numbers and words that its modules carry as attributes."""
    modules = list(objective.modules()) if isinstance(objective, nn.Module) else [objective]
    plain = [
        f"{type(module).__name__}.{name}={value!r}"
        for module in modules
        for name, value in sorted(getattr(module, "__dict__", {}).items())
        if isinstance(value, int | float | str) and name != "training"
    ]
    tensors = objective.state_dict().values() if isinstance(objective, nn.Module) else []
    return _digest(tensors, "\n".join(plain))


def _digest(tensors: Iterable[Tensor], text: str = "") -> str:
    digest = hashlib.sha256(text.encode())
    for tensor in tensors:
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{plain.dtype} {tuple(plain.shape)}".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
