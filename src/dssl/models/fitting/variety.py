"""Variety: a warning where predictions on unlabelled rows are far less varied than labels."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import nn

from dssl.models.auto.calibration import uncalibrated
from dssl.models.fitting.lessons import Lesson
from dssl.models.inference import run
from dssl.training.balance import collapse

_VARIED = 0.5  # share of the labels' entropy below which predictions count as collapsed
_LABELS = 0.1  # nats of it, at least, that labels must have
_LOOKED_AT = 10_000  # unlabelled rows, at most, on which collapse is measured


class CollapseWarning(UserWarning):
    """Predictions on unlabelled rows are far less varied than the labels."""


def warn_if_collapsed(lesson: Lesson, network: nn.Module, components: int, *, above: int) -> None:
    """Warns of a trained network's predictions; `above`: how many calls above this one the warning is about."""
    rows = np.flatnonzero(lesson.open & lesson.counting)[:_LOOKED_AT]
    if len(rows) < 2:
        return
    known = torch.from_numpy(lesson.columns[lesson.labelled & lesson.counting])
    found = collapse(lesson.space, run(uncalibrated(network), lesson.x[rows]), known, components)
    if float(found.labelled.sum()) > _LABELS and found.share < _VARIED:
        warnings.warn(
            f"predictions on unlabelled rows have collapsed: their labels are {found.share:.0%} as varied as those "
            'of labelled rows\nLower prior_weight, raise "balance" or "ramp" of the objective, or label more rows. '
            "If unlabelled rows truly are this uniform, ignore this.",
            CollapseWarning,
            stacklevel=above + 2,
        )
