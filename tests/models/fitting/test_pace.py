"""Steps and batches, as told or by what rows and labels are like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dssl.models.fitting.pace import Course, Pace


def columns(labelled: int, unlabelled: int = 0) -> np.ndarray:
    return np.concatenate([np.ones((labelled, 2)), np.full((unlabelled, 2), np.nan)]).astype(np.float32)


@pytest.mark.parametrize(("options", "labelled", "expected"), [
    ({}, 50, 400),  # at least
    ({}, 6400, 1000),  # ten passes of batches of 64
    ({"parts": 10}, 64_000, 1000),  # each row shows its reader ten elements
    ({"wide": True}, 6400, 2000),  # forty passes of batches of 128
    ({"texts": True}, 6400, 2000),  # twenty of 64
    ({"batch_size": 128}, 6400, 500),
    ({"steps": 7}, 6400, 7),
], ids=str)  # fmt: skip
def test_steps_of_training(options: dict[str, Any], labelled: int, expected: int) -> None:
    told = {"steps": None, "batch_size": None, "learning_rate": None, "told": None}
    assert Pace(**{**told, **options}).whole(columns(labelled, 99)) == expected


def test_steps_of_one_pass() -> None:
    pace = Pace(100, 10, None, {"unlabelled_batch": 20})
    assert pace.once(columns(25, 10)) == 3
    assert pace.once(columns(25, 100)) == 5
    assert pace.once(columns(1)) == 1
    assert Pace(None, 10, None, {"unlabelled_batch": 0}).once(columns(10, 7)) == 7  # nothing is divided by 0


def test_settings_of_the_loop() -> None:
    pace = Pace(None, None, 0.1, {"ema": None, "unlabelled_batch": 30})
    found = pace.settings(Course(200), 3, alone=False)
    assert (found.steps, found.seed, found.lr, found.schedule, found.eval_every) == (200, 3, 0.1, "cosine", 10)
    assert (found.labelled_batch, found.unlabelled_batch, found.ema, found.weight_decay) == (64, 30, None, 1e-4)
    part = pace.settings(Course(5, 40, whole=False), 3, alone=True)
    assert (part.schedule, part.eval_every, part.unlabelled_batch) == ("constant", 1, 0)
    assert Pace(None, None, None, {"schedule": "step"}).settings(Course(5), 0, alone=False).schedule == "step"


def test_many_rare_columns_are_learned_faster_from_labels_alone() -> None:
    def found(*, alone: bool = True, **options: Any) -> tuple[float, float]:
        told = {"steps": None, "batch_size": None, "learning_rate": None, "told": None, "wide": True}
        settings = Pace(**{**told, **options}).settings(Course(200), 0, alone=alone)
        return settings.lr, settings.weight_decay

    assert found() == (4e-3, 1e-2)
    assert found(alone=False) == found(wide=False) == found(texts=True) == (2e-3, 1e-4)
    assert found(learning_rate=0.1, told={"weight_decay": 0.0}) == (0.1, 0.0)
