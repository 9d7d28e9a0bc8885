"""Where predictions begin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import oracle
from dssl import LabelSpace, Predictive
from dssl.circuits.beyond.cascade import Cascade
from dssl.models.auto.outputs import (
    Conditional,
    begin_at,
    coherent_outputs,
    drop,
    first_outputs,
    forest,
    of_components,
    open_outputs,
)
from dssl.training.networks import make_network

TREE = LabelSpace("thing, animal, cat, dog\nanimal -> thing\ncat -> animal\ndog -> animal")


def test_a_hierarchy_of_rule_text_is_a_forest() -> None:
    written = LabelSpace("hierarchy:\n    animal\n        cat\n        dog\n    stone")
    above = forest(written)
    assert above is not None
    assert above.tolist() == [-1, 0, 0, -1]
    assert forest(LabelSpace("hierarchy: tomato < fruit, vegetable")) is None
    assert forest(LabelSpace("hierarchy leaf: cat, dog < animal")) is None  # p(y | V) is not that of a forest


def test_forests_are_found() -> None:
    above = forest(TREE)
    assert above is not None
    assert above.tolist() == [-1, 0, 1, 1]


@pytest.mark.parametrize(
    "text",
    ["a, b", "a, b\n0.9 :: a -> b", "a, b, c\na -> b\na -> c", "a, b\na -> b\nb -> a", "a: {x, y}\nb\nb -> a = x"],
)
def test_what_is_no_forest(text: str) -> None:
    assert forest(LabelSpace(text)) is None


def test_outputs_given_the_class_above_are_the_log_odds_of_the_model() -> None:
    """p(y | V) of z has P(class | class above) = σ(u), against enumeration (MATH §8)."""
    above = forest(TREE)
    assert above is not None
    u = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z = Conditional(above)(u)
    rows = oracle.valid_columns(TREE.constraints)
    for i in range(3):
        p = oracle.probabilities(rows, *oracle.log_literals(TREE.variables, z[i]))
        for k, parent in enumerate(above):
            have = rows[:, parent] if parent >= 0 else np.ones(len(rows), bool)
            conditional = p[have & rows[:, k]].sum() / p[have].sum()
            np.testing.assert_allclose(conditional, torch.sigmoid(u[i, k]).item(), rtol=1e-9)


def test_predictions_begin_at_label_frequencies() -> None:
    space = LabelSpace("kind: {a, b}\nlegs")
    y = space.encode([{"kind": "a", "legs": 1}] * 6 + [{"kind": "b", "legs": 0}] * 2)
    network = make_network("mlp", torch.zeros(1, 5), space.width, seed=0)
    begin_at(network, first_outputs(space, y))
    theta = Predictive(network.eval()(torch.randn(50, 5)), space).theta.mean(0)
    np.testing.assert_allclose(theta.detach().numpy(), [0.72, 0.28, 0.72], atol=0.05)


def test_frequencies_given_the_class_above() -> None:
    y = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [np.nan] * 4], dtype=np.float32)
    found = first_outputs(TREE, y, above=forest(TREE))
    np.testing.assert_allclose(found, np.log([3.5 / 1.5, 2.5 / 1.5, 1.5 / 1.5, 0.5 / 2.5]))


def test_dropout_is_set_by_layer() -> None:
    network = make_network("mlp", torch.zeros(1, 5), 2, seed=0)
    shares = lambda: [m.p for m in network.modules() if isinstance(m, torch.nn.Dropout)]  # noqa: E731
    drop(network, 0.5)
    assert shares() == [0.0, 0.5]
    drop(network, 0.6, 0.4)
    assert shares() == [0.4, 0.6]


@pytest.mark.parametrize("text", [
    "a, b, c\na -> b\nexactly(1, b, c)", "kind: 0..3\nx, y\nkind = 0 -> x\nx <-> y", "a, b, c\nat_most(2, a, b, c)",
])  # fmt: skip
def test_coherent_outputs_have_the_frequencies_of_labels(text: str) -> None:
    """The dual of maximum entropy: at its optimum, marginals given the rules are the frequencies (MATH §8)."""
    space = LabelSpace(text)
    valid = space.encode(list(space.valid()))
    labels = valid[np.random.default_rng(0).integers(len(valid), size=200)]
    b = coherent_outputs(space, labels)
    wanted = (labels.sum(axis=0) + valid.mean(axis=0)) / 201  # the even row counts once
    np.testing.assert_allclose(Predictive(torch.from_numpy(b), space).marginals.numpy(), wanted, atol=2e-3)


def test_coherent_outputs_stay_finite_where_known_parts_contradict_each_other() -> None:
    space = LabelSpace("a, b\na -> b")
    labels = np.array([[1.0, np.nan]] * 5 + [[np.nan, 0.0]] * 5)
    assert np.isfinite(coherent_outputs(space, labels)).all()


def test_components_begin_near_the_frequencies_and_apart() -> None:
    first = np.array([1.0, -2.0, 0.5])
    assert of_components(first, 1, seed=0) is first
    alike, apart = of_components(first, 3), of_components(first, 3, seed=0)
    np.testing.assert_array_equal(alike, [*first, *first, *first, 0, 0, 0])
    np.testing.assert_array_equal(apart[9:], 0)
    each = apart[:9].reshape(3, 3)
    assert len(np.unique(each[:, 0])) == 3
    assert np.abs(each - first).max() < 2
    np.testing.assert_array_equal(apart, of_components(first, 3, seed=0))


def test_log_odds_given_the_class_above_in_each_component() -> None:
    above = np.array([-1, 0, 0, 1])
    u = torch.randn(5, 4 * 3 + 3, generator=torch.Generator().manual_seed(0))
    found = Conditional(above, 3)(u)
    for m in range(3):
        part = slice(4 * m, 4 * (m + 1))
        torch.testing.assert_close(found[:, part], Conditional(above)(u[:, part]))
    torch.testing.assert_close(found[:, 12:], u[:, 12:])


@pytest.mark.parametrize("outputs", [
    first_outputs,
    coherent_outputs,
    lambda space, columns, weight=None: first_outputs(space, columns, weight, forest(space)),
    lambda space, columns, weight=None: open_outputs(Cascade(space.implications), columns, weight),
], ids=["first", "coherent", "above", "open"])  # fmt: skip
def test_rows_count_by_their_weight(outputs: Any) -> None:
    """A row of weight w is w rows, and a row of weight 1e-9 is none."""
    y = oracle.valid_columns(TREE.constraints).astype(np.float32)
    y[1, 2] = np.nan
    times = np.random.default_rng(0).integers(1, 5, len(y))
    repeated = outputs(TREE, np.repeat(y, times, axis=0))
    np.testing.assert_allclose(outputs(TREE, y, times.astype(np.float64)), repeated, atol=1e-6)
    with_light = np.concatenate([y, np.zeros((50, 4), np.float32)])
    weight = np.concatenate([times, np.full(50, 1e-9)])
    np.testing.assert_allclose(outputs(TREE, with_light, weight), repeated, atol=1e-6)
    assert np.abs(outputs(TREE, y) - repeated).max() > 0.1
