"""Predictions that have collapsed are reported, others are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from torch import nn

from dssl import LabelSpace
from dssl.models.fitting.lessons import Lesson
from dssl.models.fitting.variety import CollapseWarning, warn_if_collapsed

SPACE = LabelSpace.classes(["cat", "dog"])


def lesson(light: bool = False) -> Lesson:
    """Rows that are their own logits: half of the labelled ones cats; of the others all, or all that weigh anything."""
    columns = np.full((40, 2), np.nan, dtype=np.float32)
    columns[:10] = np.eye(2)[np.arange(10) % 2]
    x = np.tile(np.array([5.0, -5.0], np.float32), (40, 1))
    x[25:] *= -1 if light else 1
    weight = np.where((np.arange(40) >= 25) & light, 1e-9, 1.0)
    return Lesson(SPACE, x, columns, weight, np.arange(0))


@pytest.mark.parametrize("light", [False, True])
def test_predictions_that_are_all_alike(light: bool) -> None:
    with pytest.warns(CollapseWarning, match="their labels are 0% as varied as those of labelled rows") as said:
        warn_if_collapsed(lesson(light), nn.Identity(), 1, above=0)
    assert said[0].filename == __file__


def test_predictions_as_varied_as_labels() -> None:
    varied = lesson()
    varied.x[10:25] *= -1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_collapsed(varied, nn.Identity(), 1, above=0)


def test_labels_that_are_all_alike_say_nothing() -> None:
    alike = lesson()
    alike.columns[:10] = [1, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_collapsed(alike, nn.Identity(), 1, above=0)
