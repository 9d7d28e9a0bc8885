"""Settings: checked when they are set, and schedules by their formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dssl.training.settings import Settings


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"steps": -1}, "steps=-1: it must be a whole number, 0 or more"),
        ({"labelled_batch": 1.5}, "labelled_batch=1.5"),
        ({"devices": 0}, "1 or more"),
        ({"eval_every": True}, "eval_every=True"),
        ({"patience": 0}, "or None"),
        ({"lr": "big"}, "lr='big'"),
        ({"clip": 0}, "above 0, or None"),
        ({"ema": 1.0}, "from 0 to below 1"),
        ({"optimizer": "lion"}, "one of adam, adamw, sgd"),
        ({"schedule": "linear"}, "one of cosine, constant, step"),
        ({"amp": "always"}, '"auto", True or False'),
        ({"accelerator": "tpu"}, '"auto", "cpu", "cuda" or "mps"'),
        ({"timeout": 0}, "minutes above 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match="it must be") as caught:
        Settings(**changes)
    assert says in str(caught.value)


def test_schedules_follow_their_formulas() -> None:
    cosine = Settings(steps=110, warmup=10, lr=2.0)
    assert [cosine.learning_rate(s) for s in (0, 4, 9, 10)] == pytest.approx([0.2, 1.0, 2.0, 2.0])
    assert cosine.learning_rate(60) == pytest.approx(1.0)
    assert cosine.learning_rate(109) == pytest.approx(1 + math.cos(math.pi * 0.99))
    step = Settings(steps=100, schedule="step", lr=1.0)
    assert [step.learning_rate(s) for s in (0, 29, 30, 60, 80, 99)] == pytest.approx([1, 1, 0.2, 0.04, 0.008, 0.008])
    assert Settings(schedule="constant", lr=3.0).learning_rate(999) == 3.0


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_weights_decay_but_those_of_the_objective_do_not(name: str) -> None:
    network, other = nn.Linear(2, 2), nn.Parameter(torch.ones(1))
    network.bias.requires_grad_(False)
    optimizer = Settings(optimizer=name, weight_decay=0.1).make_optimizer(network, [other])
    groups = optimizer.param_groups
    assert [(len(g["params"]), g["weight_decay"]) for g in groups] == [(1, 0.1), (1, 0.0)]


def test_a_network_without_weights_cannot_be_trained() -> None:
    with pytest.raises(ValueError, match="no weights to train"):
        Settings().make_optimizer(nn.ReLU())


def test_what_does_not_change_the_weights_is_not_part_of_the_identity() -> None:
    assert Settings(progress=True, log="a.csv", devices=2).identity() == Settings().identity()
    assert Settings(lr=0.5).identity() != Settings().identity()


def test_numbers_of_numpy_are_numbers() -> None:
    """A search over np.arange gives them."""
    settings = Settings(steps=np.int64(4), labelled_batch=np.int32(8), lr=np.float32(0.01), ema=np.float32(0.5))
    assert (settings.steps, settings.labelled_batch, settings.ema) == (4, 8, 0.5)
    assert all(type(value) in (int, float, str, bool, type(None)) for value in vars(settings).values())
