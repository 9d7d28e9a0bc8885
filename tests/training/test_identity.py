"""A checkpoint is continued only by the run that wrote it: every change of consequence is seen."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from torch import nn

from dssl import LabelSpace
from dssl.errors import DataError
from dssl.priors import DeterministicPrior
from dssl.training.identity import identity, refuse_other
from dssl.training.objective import Objective
from training.tiny_runs import TINY, TinyObjective, tiny_data, tiny_network


def of(**changes: Any) -> dict[str, Any]:
    parts = {"network": tiny_network(), "objective": TinyObjective(), "data": tiny_data(), "settings": TINY, **changes}
    return identity(**parts)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"network": tiny_network(seed=9)}, {"initial weights"}),
        ({"objective": TinyObjective(scale=0.2)}, {"objective"}),
        ({"data": tiny_data(seed=9)}, {"data"}),
        ({"data": tiny_data(labelled=19)}, {"data", "labelled rows"}),
        ({"settings": replace(TINY, lr=0.5)}, {"lr"}),
    ],
)
def test_a_change_of_consequence_is_another_run(changes: dict[str, Any], names: set[str]) -> None:
    ours, theirs = of(), of(**changes)
    with pytest.raises(DataError, match="another run") as caught:
        refuse_other(ours, theirs, "runs", finished=True)
    assert set(re.findall(r"^  ([a-z ]+):", str(caught.value), re.MULTILINE)) == names


def test_the_same_run_is_recognised() -> None:
    refuse_other(of(), of(settings=replace(TINY, progress=True)), "runs", finished=True)


def test_initial_weights_count_for_finished_runs_only_and_shapes_always() -> None:
    refuse_other(of(), of(network=tiny_network(seed=9)), "runs", finished=False)
    with pytest.raises(DataError, match="network"):
        refuse_other(of(), of(network=nn.Linear(6, 3)), "runs", finished=False)


def test_the_numbers_of_an_objective_and_its_prior_count() -> None:
    space = LabelSpace.classes("abc")
    made = [
        of(objective=Objective(space, DeterministicPrior(space, power=power), weight))["objective"]
        for power, weight in ((10.0, 1.0), (10.0, 1.0), (5.0, 1.0), (10.0, 0.5))
    ]
    assert made[0] == made[1]
    assert len(set(made)) == 3


def test_an_objective_may_be_a_plain_function() -> None:
    assert of(objective=lambda logits, y, step, sample_weight: None)["objective"]
