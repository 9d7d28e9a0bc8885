"""An estimator that learns in workers of Ray Train, with the training loop's own checkpoints.

Ray starts the workers, on one machine or several, and connects them; each then calls `fit` as under torchrun. If one
dies, Ray starts all of them again, and the loop goes on from its last checkpoint.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dssl.app.cluster.mapping import require_ray
from dssl.errors import DataError
from dssl.models.estimators import DSSLClassifier


def fit(
    model: DSSLClassifier, X: Any, y: Any = None, *, folder: str | Path, workers: int = 2, retries: int = 3
) -> DSSLClassifier:
    """The estimator, fitted by several workers to rows X and labels y, or to a `Data`, as `model.fit` would.

    `folder` must be where every machine can read and write it: checkpoints, the result and Ray's own notes are kept
    there, and the same call resumes from it. Workers that die are started again, at most `retries` times. A `Data` is
    read by each worker, so its files must be in reach of all.
    """
    require_ray()
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    from dssl.models.files.saved import load

    place = Path(folder).resolve()
    place.mkdir(parents=True, exist_ok=True)
    settings = {**(model.settings or {}), "checkpoint": place / "checkpoints"}
    settings.pop("devices", None)  # their number is Ray's
    given = {"model": model, "X": X, "y": y, "settings": settings, "result": str(place / "model")}
    trainer = TorchTrainer(
        _learn,
        train_loop_config=given,
        scaling_config=ScalingConfig(num_workers=workers, placement_strategy="SPREAD"),
        run_config=RunConfig(name="ray", storage_path=str(place), failure_config=FailureConfig(max_failures=retries)),
    )
    result = trainer.fit()
    if result.error is not None:
        raise DataError(f"training in {workers} workers failed: {result.error}\nThe last checkpoint is in '{place}'.")
    return load(place / "model")


def _learn(given: dict[str, Any]) -> None:
    """What each worker does; the first one writes the result."""
    from dssl.models.files.saved import save

    model = given["model"].set_params(settings=given["settings"])
    model.fit(given["X"]) if given["y"] is None else model.fit(given["X"], given["y"])
    if int(os.environ.get("RANK", "0")) == 0:
        save(model, given["result"])
