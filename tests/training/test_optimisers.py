"""Plain optimisers take the steps of torch's own, and leave its compiler alone."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dssl.training.optimisers import plain

KINDS: list[tuple[type[torch.optim.Optimizer], dict[str, Any]]] = [
    (torch.optim.Adam, {"lr": 0.1, "fused": True}),
    (torch.optim.AdamW, {"lr": 0.1, "weight_decay": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    (torch.optim.LBFGS, {"line_search_fn": "strong_wolfe"}),
]


def after_steps(kind: Any, options: dict[str, Any]) -> list[Tensor]:
    network = nn.Linear(3, 2)
    network.load_state_dict({"weight": torch.arange(6.0).view(2, 3), "bias": torch.ones(2)})
    optimizer = kind(network.parameters(), **options)

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = (network(torch.ones(4, 3)) - 1).square().sum()
        value.backward()
        return value

    for _ in range(5):
        optimizer.step(loss)
    return [weight.detach() for weight in network.parameters()]


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_steps_are_the_same_to_the_bit(kind: type[torch.optim.Optimizer], options: dict[str, Any]) -> None:
    ours, theirs = after_steps(plain(kind), options), after_steps(kind, options)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs))
    assert not torch.equal(ours[1], torch.ones(2))


STEP = """
import sys, torch
from dssl.training.optimisers import plain
weight = torch.nn.Parameter(torch.ones(1))
optimizer = eval(sys.argv[1])([weight], lr=0.1)
weight.sum().backward()
optimizer.step()
optimizer.zero_grad()
optimizer.load_state_dict(optimizer.state_dict())
print("torch._dynamo" in sys.modules)
"""


def compiler_loaded(make: str) -> bool:
    done = subprocess.run([sys.executable, "-c", STEP, make], capture_output=True, text=True, check=True)
    return done.stdout == "True\n"


def test_the_compiler_is_not_loaded() -> None:
    assert not compiler_loaded("plain(torch.optim.AdamW)")
    assert compiler_loaded("torch.optim.AdamW")  # the twin: it would be seen


def test_it_is_still_of_its_kind() -> None:
    assert issubclass(plain(torch.optim.Adam), torch.optim.Adam)


FIT = """
import sys
import numpy as np
from dssl import DSSLClassifier, LabelSpace
x = np.random.default_rng(0).normal(size=(60, 4))
y = np.where(np.arange(60) < 40, np.arange(60) % 2, -1)
DSSLClassifier(steps=5, random_state=0).fit(x, y)
print("torch._dynamo" in sys.modules)
"""


def test_a_whole_fit_leaves_the_compiler_alone() -> None:
    done = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
