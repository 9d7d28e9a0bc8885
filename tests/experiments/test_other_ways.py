"""Other ways on MNIST: every method runs."""

from __future__ import annotations

import os

import other_ways
import pytest
from other_ways import METHODS, Settings

SMALL = Settings(labels=20, steps=4, rows=300)
needs_data = pytest.mark.skipif("DSSL_DATA" not in os.environ, reason="DSSL_DATA names no folder with the data sets")


@needs_data
@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_runs(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_ways, "_components", lambda steps, seed: other_ways.MixturePosteriors(5, random_state=0))
    found = other_ways.one(method, 0, SMALL)
    assert 0 <= found["accuracy"] <= 1


def test_a_table_has_the_methods_that_were_run() -> None:
    runs = [{"method": "M2", "seed": seed, "accuracy": 0.5 + seed / 10, "seconds": 1.0} for seed in (0, 2)]
    (line,) = other_ways.table(runs).splitlines()[2:]
    assert line == "| M2 | 60.0 ± 10.0 | 1 | 11.97 ± 1.71 (Kingma et al. 2014) |"
