"""The Gene Ontology by the estimator, on a few rows of a small hierarchy in place of the files."""

from __future__ import annotations

import go
import numpy as np
import pytest

from dssl.circuits.beyond import ladder
from dssl.data.published import Published, Split
from logic.hierarchies import hierarchy


def test_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "BUDGET_S", 0.0)
    monkeypatch.setattr(go, "TOPS", ("k0",))
    space = hierarchy(3, classes=6)
    labels = space.encode(list(space.valid()))
    random = np.random.default_rng(0)

    def split(rows: int) -> Split:
        x = random.normal(size=(rows, 3)).astype(np.float32)
        return Split(x, labels[(x[:, 0] > 0) * (len(labels) - 1)].astype(np.uint8))

    found = go.one(Published(space, split(40), split(20), split(20)), seed=0, steps=40)
    assert found["broken"] == 0
    assert found["constant"] < found["area"] <= 1
