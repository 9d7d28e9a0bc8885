"""A network that has learned nothing says what label frequencies say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from dssl import LabelSpace, Predictive
from dssl.models.auto.beginning import new_network, outputs_of
from dssl.models.auto.calibration import parts
from dssl.models.auto.outputs import Conditional, coherent_outputs, first_outputs, forest
from dssl.models.auto.plan import Plan
from dssl.models.fitting.lessons import Lesson
from dssl.models.inference import run

TREE = LabelSpace("thing, animal, cat\nanimal -> thing\ncat -> animal")


def lesson(space: LabelSpace = TREE) -> Lesson:
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    columns = space.encode([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]] * 15)
    return Lesson(space, x, columns, np.random.default_rng(1).integers(1, 5, 60).astype(float), np.arange(5))


def test_outputs_are_those_of_the_rows_to_learn_from_by_weight() -> None:
    told = lesson()
    labels, weight = told.columns[5:], told.weight[5:]
    above = forest(TREE)
    np.testing.assert_array_equal(outputs_of(told, Plan(True)), first_outputs(TREE, labels, weight))
    coherent = outputs_of(told, Plan(True, given_rules=True))
    np.testing.assert_array_equal(coherent, coherent_outputs(TREE, labels, weight))
    wide = outputs_of(told, Plan(True, given_rules=True, above=above))
    np.testing.assert_array_equal(wide, first_outputs(TREE, labels, weight, above))


@pytest.mark.parametrize("wide", [False, True])
def test_predictions_begin_near_the_frequencies(wide: bool) -> None:
    told = lesson()
    plan = Plan(True, given_rules=True, above=forest(TREE) if wide else None, dropout=(0.4, 0.2))
    network = new_network("mlp", None, told, plan, seed=0)
    assert isinstance(parts(network)[-1], Conditional) == wide
    assert {layer.p for layer in network.modules() if isinstance(layer, nn.Dropout)} <= {0.4, 0.2}
    found = Predictive(run(network, told.x), TREE).marginals.mean(0).numpy()
    np.testing.assert_allclose(found, np.average(told.columns[5:], axis=0, weights=told.weight[5:]), atol=0.05)


def test_a_module_is_taken_as_it_is() -> None:
    own = nn.Linear(3, 3)
    made = new_network(own, None, lesson(), Plan(True), seed=0)
    x = torch.randn(4, 3)
    torch.testing.assert_close(run(made, x.numpy()), own(x).detach())
