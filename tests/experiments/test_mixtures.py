"""Mixtures against one product: the rankings are what they are said to be, and the page shows what was run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import mixtures
import numpy as np
import pytest
import torch
from ledger import KEPT, load
from mixtures import RANKED, TASKS, Settings, ranked, ranking, two_modes

from dssl import Predictive
from dssl.models.auto.outputs import coherent_outputs

PAGE = Path(__file__).parents[2] / "docs" / "mixtures.md"
SMALL = Settings(seeds=1, steps=4, ranked=30)


@pytest.mark.parametrize("task", RANKED)
def test_rankings_are_valid_and_every_row_has_one(task: str) -> None:
    split = ranked(task, 0, SMALL)
    assert ranking(5).count() == 120
    assert not ranking(5).check(split.y_train)
    assert not ranking(5).check(split.y_test)
    assert (len(split.X_train), len(split.X_test)) == (30, 1000)


def test_of_two_modes_the_order_is_the_most_probable_label_and_one_product_can_hardly_tell() -> None:
    score = np.tile([3.0, 1.0, 4.0, 1.5, 2.0], (8000, 1))
    drawn = two_modes(np.random.default_rng(0), score)
    counts = Counter(map(tuple, drawn.tolist()))
    order = (1, 4, 0, 3, 2)
    assert counts[order] / 8000 == pytest.approx(0.45, abs=0.03)
    assert len(counts) == 5
    assert sorted(counts.values())[-2] / 8000 == pytest.approx(0.55 / 4, abs=0.03)
    y = np.eye(5, dtype=np.float32)[drawn].reshape(8000, -1)
    product = Predictive(torch.from_numpy(coherent_outputs(ranking(5), y)), ranking(5))  # the likeliest of all
    labels, log_p = product.top_k(2)
    found = [tuple(label) for label in labels.reshape(2, 5, 5).int().argmax(-1).tolist()]
    assert float(log_p.exp().max()) < 0.2  # of .45
    assert set(found) - set(counts)  # a crossing that never occurs, about as probable as the order


def test_shared_noise_moves_items_together() -> None:
    drawn = RANKED["shared noise"](np.random.default_rng(0), np.zeros((4000, 5)))
    apart = np.corrcoef(drawn.T)
    assert apart[0, 2] > 0.2 > -0.2 > apart[0, 1]


@pytest.mark.parametrize("components", [1, 2])
def test_a_small_run(components: int) -> None:
    found = mixtures.one("product", components, 0, SMALL)
    assert 0 <= found["exact"] <= 1
    assert found["log_p"] < 0
    assert 1 <= found["effective"] <= components


def test_gains_are_of_the_same_task_and_seed() -> None:
    cases = [(task, m, seed) for task in "ab" for m in (1, 2) for seed in (0, 1)]
    runs = [{"task": t, "components": m, "seed": s, "exact": m * (s + 1) + 5 * (t == "b")} for t, m, s in cases]
    assert [run["gain"] for run in mixtures.gains(runs, "exact")] == [0, 0, 1, 2] * 2


def test_the_page_shows_what_was_run() -> None:
    record = load("mixtures", KEPT)
    assert mixtures.table(record) in PAGE.read_text()
    assert record["settings"] == {**record["settings"], **{"seeds": Settings().seeds, "steps": Settings().steps}}
    wanted = {(case["task"], case["components"], case["seed"]) for case in mixtures.cases(Settings())}
    assert {(run["task"], run["components"], run["seed"]) for run in record["runs"]} == wanted
    assert set(TASKS) == {run["task"] for run in record["runs"]}
    assert mixtures.table({**record, "runs": [run | {"exact": 0.0} for run in record["runs"]]}) not in PAGE.read_text()
