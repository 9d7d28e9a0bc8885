"""Optimisers of torch without the decorators that load torch's compiler."""

from __future__ import annotations

from inspect import unwrap
from typing import Any, TypeVar

import torch

Optimizer = TypeVar("Optimizer", bound=torch.optim.Optimizer)
_DECORATED = ("add_param_group", "load_state_dict", "state_dict", "step", "zero_grad")


def plain(kind: type[Optimizer]) -> type[Optimizer]:
    """An optimiser that computes the same numbers and never imports torch's compiler.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = plain(torch.optim.SGD)([weight], lr=0.5)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.])

    torch decorates these methods to keep its compiler from following them. For that each imports the compiler, which
    takes longer than a small fit. Where the training loop itself is not compiled, there is nothing to keep it from.
    """
    methods: dict[str, Any] = {name: unwrap(getattr(kind, name)) for name in _DECORATED}
    methods["step"] = torch.no_grad()(methods["step"])
    return type(kind.__name__, (kind,), methods)
