"""Pace: how many steps training takes and how many rows each step sees, as told or as rows and labels suggest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from dssl.logic.labels import Columns
from dssl.models.parameters import loop_settings
from dssl.training.settings import Settings

_STEPS, _PASSES, _BATCH = 400, 10, 64  # of training at least, passes over the labelled rows at least, rows of a step
_WIDE_PASSES, _WIDE_BATCH = 40, 128  # where labels have many rare columns,
_TEXT_PASSES = 20  # of texts
_IMAGE_STEPS, _IMAGE_BATCH = 600, 128  # steps at least, unlabelled rows of a step: each is seen in two views
_LOOP: dict[str, Any] = {"optimizer": "adamw", "weight_decay": 1e-4, "ema": 0.99, "unlabelled_batch": 256}
_LEARNING_RATE = 2e-3
# Many rare columns learned from labels alone: on the validation rows of three FunCat trees it was +.003 each, beside a
# teacher −.003 to −.005.
_ALONE_RATE, _ALONE_DECAY = 4e-3, 1e-2


@dataclass(frozen=True)
class Course:
    """One call to learn: its steps, those that are past, and whether it is the whole of training or a part of it."""

    steps: int
    done: int = 0
    whole: bool = True


@dataclass(frozen=True)
class Pace:
    """What an estimator was told by the names of its parameters, and what decides where it was told nothing.

    `wide`: labels have many rare columns. `texts`: rows are texts. `images`: they are images. `parts`: elements of a
    row that one reader reads.
    """

    steps: int | None
    batch_size: int | None
    learning_rate: float | None
    told: Mapping[str, Any] | None  # settings of the loop
    wide: bool = False
    texts: bool = False
    images: bool = False
    parts: int = 1

    @property
    def batch(self) -> int:
        """Labelled rows of a step."""
        return self.batch_size or (_WIDE_BATCH if self.wide else _BATCH)

    @property
    def unlabelled_batch(self) -> int:
        """Unlabelled rows of a step."""
        return int((self._loop | dict(self.told or {}))["unlabelled_batch"])

    @property
    def _loop(self) -> dict[str, Any]:
        return _LOOP | ({"unlabelled_batch": _IMAGE_BATCH} if self.images else {})

    def whole(self, columns: Columns) -> int:
        """Steps of training on rows with these label columns (n, width)."""
        passes = _TEXT_PASSES if self.texts else _WIDE_PASSES if self.wide else _PASSES / self.parts
        least = _IMAGE_STEPS if self.images else _STEPS
        return self.steps or max(least, ceil(passes * _labelled(columns) / self.batch))

    def once(self, columns: Columns) -> int:
        """Steps of one pass over rows with these label columns (n, width)."""
        labelled = _labelled(columns)
        passes = (labelled / self.batch, (len(columns) - labelled) / max(1, self.unlabelled_batch))
        return max(1, *map(ceil, passes))

    def settings(self, course: Course, seed: int, *, alone: bool) -> Settings:
        """Settings of the loop; labelled rows are `alone` if nothing learns from others."""
        planned: dict[str, Any] = {
            "schedule": "cosine" if course.whole else "constant",
            "eval_every": max(1, course.steps // 20),
        }
        rate = _LEARNING_RATE
        if alone and self.wide and not self.texts:
            rate, planned["weight_decay"] = _ALONE_RATE, _ALONE_DECAY
        homes = {
            "steps": course.steps,
            "lr": rate if self.learning_rate is None else self.learning_rate,
            "labelled_batch": self.batch,
            "seed": seed,
        }
        given = self._loop | planned | loop_settings(self.told)[0] | homes
        return Settings.of(given | ({"unlabelled_batch": 0} if alone else {}))


def _labelled(columns: Columns) -> int:
    return int((~np.isnan(columns)).any(axis=1).sum())
