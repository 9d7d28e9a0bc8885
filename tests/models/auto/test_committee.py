"""Networks that were trained apart answer together, where most columns are rare and labels are all there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from dssl import DSSLClassifier, LabelSpace
from dssl.models.auto.calibration import parts
from dssl.models.auto.committee import Committee
from dssl.models.inference import run

TREE = LabelSpace.hierarchy({f"c{i}": f"c{i // 3}" for i in range(3, 24)})  # wide: a forest of 24 classes


def rows(n: int = 40) -> tuple[NDArray[Any], NDArray[Any]]:
    valid = TREE.encode([*TREE.valid(12)])
    return np.random.default_rng(0).normal(size=(n, 3)), valid[np.arange(n) % len(valid)]


def fitted(**parameters: Any) -> DSSLClassifier:
    return DSSLClassifier(TREE, **{"steps": 6, "random_state": 0, **parameters}).fit(*rows())


def test_the_mean_of_its_members() -> None:
    committee = Committee(*(nn.Linear(3, 2) for _ in range(3)))
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(committee(x), sum(member(x) for member in committee.members) / 3)


def test_two_networks_of_other_first_weights_answer_together() -> None:
    model = fitted()
    core = parts(model.network_)[0]
    assert isinstance(core, Committee)
    said = [run(member, model.standardiser_(rows()[0])) for member in core.members]
    assert not torch.allclose(*said)
    assert "networks         2" in str(model.plan_)
    assert not len(TREE.check(model.predict(rows()[0])))
    again = fitted()  # and the same ones again
    np.testing.assert_array_equal(model.predict_proba(rows()[0]), again.predict_proba(rows()[0]))


@pytest.mark.parametrize(
    ("parameters", "y"),
    [
        ({"network": "mlp"}, rows()[1]),  # a network that was asked for is the only one
        ({}, np.where(np.arange(40)[:, None] < 30, rows()[1], np.nan)),  # others teach
        ({"objective": {"components": 2}}, rows()[1]),  # a mixture is several by itself
    ],
    ids=["named", "unlabelled rows", "mixture"],
)
def test_elsewhere_one_network_answers(parameters: dict[str, Any], y: NDArray[Any]) -> None:
    model = DSSLClassifier(TREE, steps=6, random_state=0, **parameters).fit(rows()[0], y)
    assert not any(isinstance(module, Committee) for module in model.network_.modules())


def test_a_few_columns_are_left_to_one_network() -> None:
    model = DSSLClassifier("a, b\na -> b", steps=6, random_state=0).fit(np.eye(4), [[1, 1], [0, 1], [0, 0], [0, 1]])
    assert not any(isinstance(module, Committee) for module in model.network_.modules())


def test_training_goes_on_with_all_of_them() -> None:
    model = fitted(warm_start=True)
    before = model.predict_proba(rows()[0])
    model.fit(*rows())
    assert isinstance(parts(model.network_)[0], Committee)
    assert model.n_steps_ == 12
    assert not np.allclose(before, model.predict_proba(rows()[0]))
