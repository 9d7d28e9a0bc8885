"""Learning in workers of Ray Train on a cluster of two nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dssl.app.cluster.workers import fit
from dssl.models.estimators import DSSLClassifier

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


def test_a_workers_death_resumes(cluster: Any, tmp_path: Path) -> None:
    """Two workers learn what one process does; one of them dies at step 25, and training goes on from step 20."""
    marker, steps = tmp_path / "killed", tmp_path / "steps"

    def mortal(row: dict[str, Any]) -> None:
        import os
        import signal

        with open(steps, "a") as file:
            file.write(f"{row['step']}\n")
        if row["step"] >= 25 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.where(np.arange(120) < 60, X[:, 0] > 0, -1).astype(int)
    settings = {"accelerator": "cpu", "checkpoint_every": 10, "eval_every": 5}
    plain = {
        "random_state": 0,
        "steps": 40,
        "calibrate": False,
        "prior": None,
        "consistency": None,
        "network": "linear",
    }  # without dropout, which differs between processes
    alone = DSSLClassifier(**plain, settings=settings).fit(X, y)
    found = fit(DSSLClassifier(**plain, settings={**settings, "callbacks": [mortal]}), X, y, folder=tmp_path / "run")
    assert marker.exists()
    heard = [int(line) for line in steps.read_text().split()]
    assert heard[-1] == 40
    assert heard.count(20) == 1  # was not gone through again
    assert heard.count(25) == 2
    np.testing.assert_allclose(found.predict_proba(X), alone.predict_proba(X), atol=1e-4)
