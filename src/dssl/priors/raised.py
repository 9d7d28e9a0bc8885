"""Raised: the sum over valid labels with what the rules themselves weigh raised to a power, as p(y | V)^T needs it.

Soft rules and learned probabilities give labels weights π_y beside those of the network. In a circuit a soft rule is a
column with constant weights p and 1 − p. Here these columns are opened, so that their weights can be p^T and (1 − p)^T.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from dssl.circuits.circuit import Circuit
from dssl.circuits.proof import require_deterministic, trust

_OPENED: WeakKeyDictionary[Circuit, Circuit] = WeakKeyDictionary()  # gone when their circuit is


def log_wmc_raised(
    rules: Any, log_pos: Tensor, log_neg: Tensor, power: float | Tensor, *, strict: bool = False
) -> Tensor:
    """log Σ over valid y of π_y^power times the product of literal weights (..., width), which are taken as given.

    >>> import torch
    >>> from dssl import LabelSpace
    >>> rules = LabelSpace("a\\n0.9 :: a").compile()
    >>> log_wmc_raised(rules, torch.zeros(1), torch.zeros(1), 2.0).exp()  # .9² + .1²
    tensor(0.8200)
    """
    if not isinstance(rules, Circuit):
        if not hasattr(rules, "log_phi") and not hasattr(rules, "log_weights"):
            raise TypeError(f"{rules!r} cannot raise the weights of labels to a power\nUse space.compile().")
        return rules.log_wmc(log_pos, log_neg, strict=strict, power=power)
    if not rules.soft:
        return rules.log_wmc(log_pos, log_neg, strict=strict)
    p = torch.tensor(rules.soft, dtype=torch.float64)
    shape = torch.broadcast_shapes(log_pos.shape[:-1], log_neg.shape[:-1])
    columns = [
        torch.cat([x.expand(*shape, -1), (power * soft.to(x)).expand(*shape, -1)], -1)
        for x, soft in ((log_pos, p.log()), (log_neg, (-p).log1p()))
    ]
    return _opened(rules).log_wmc(*columns, strict=strict)


def _opened(circuit: Circuit) -> Circuit:
    """The circuit with a column of its own for each soft rule, behind those of the space."""
    found = _OPENED.get(circuit)
    if found is None:
        require_deterministic(circuit)
        names = (*circuit.names, *(f"soft rule {i + 1}" for i in range(len(circuit.soft))))
        found = _OPENED[circuit] = trust(replace(circuit, names=names, soft=()))
    return found
