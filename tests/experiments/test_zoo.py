"""Zoo: the rules hold, the peer's truth values, the measures, and what the page says."""

from __future__ import annotations

import os
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
import zoo
from zoo import GIVEN, SPACE, Settings

from dssl.app.measures import Part
from dssl.logic.space import LabelSpace
from dssl.models.decoding import Decoder
from dssl.training.objective import linear_ramp

needs_data = pytest.mark.skipif("DSSL_DATA" not in os.environ, reason="DSSL_DATA names no folder with the data sets")


def test_rules_leave_more_than_one_label_and_say_nothing_twice() -> None:
    assert SPACE.count() == 7296
    assert not SPACE.diagnose()


@needs_data
def test_every_animal_obeys_the_rules() -> None:
    y = zoo.read()
    assert y.shape == (101, SPACE.width)
    assert len(SPACE.check(y)) == 0
    frogs = y[:, SPACE.columns.index("type=amphibian")]
    assert frogs.sum() == 4
    assert y[:, SPACE.columns.index("fins")].sum() == 17


@needs_data
def test_splits_are_apart_and_of_the_sizes_asked_for() -> None:
    known, unknown, held = zoo.split(20, 3, 34)
    assert (len(known), len(unknown), len(held)) == (13, 54, 34)
    assert len(np.unique(np.concatenate([known, unknown, held]))) == 101


def test_the_network_is_sure_of_what_is_given() -> None:
    x = np.zeros((3, GIVEN), dtype=np.float32)
    x[1, 2] = 1
    logits = zoo.Network(x, Settings(hidden=4))(torch.from_numpy(x))
    assert logits.shape == (3, SPACE.width)
    assert ((logits[:, :GIVEN] > 0).numpy() == x).all()
    assert logits[:, :GIVEN].abs().min() == zoo.SURE


def test_measures_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows: the first is right after decoding only, the second in type only."""
    monkeypatch.setattr(zoo, "GIVEN", 0)
    space = LabelSpace("type: {fish, cat}\nfins\ntype = fish <-> fins")
    logits = torch.tensor([[2.0, 0.0, -1.0], [3.0, 0.0, 1.0]])
    known = np.array([[1, 0, 1], [1, 0, 0]], dtype=np.float32)
    found = zoo.measured(Part("test", 2, np.arange(2), known, logits, Decoder(space)))
    assert (found["raw_valid"], found["raw_type"], found["raw_exact"]) == (0.5, 1.0, 0.0)
    assert (found["valid"], found["type"], found["exact"]) == (1.0, 1.0, 0.5)


def test_the_peer_reads_rules_as_real_logic() -> None:
    """a → b is 1 − a + ab, and 1 − √(mean of (1 − t)²) aggregates over rows, then over rules."""
    pytest.importorskip("ltn", reason="the peer is installed by the extra `bench`")
    space = LabelSpace("kind: {x, y, z}\na, b\na -> b\nkind in {x, y} <-> !a | b")
    peer = zoo.LogicTensorNetwork(space, 1.0, linear_ramp(1))
    logits = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    theta = logits.detach().double()
    kind, a, b = theta[:, :3].softmax(-1)[:, :2].sum(-1), theta[:, 3].sigmoid(), theta[:, 4].sigmoid()

    def implies(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        return 1 - p + p * q

    def every(t: torch.Tensor) -> torch.Tensor:
        return 1 - (1 - t).square().mean().sqrt()

    right = (1 - a) + b - (1 - a) * b
    rules = torch.stack([every(implies(a, b)), every(implies(kind, right) * implies(right, kind))])
    found = peer.satisfaction(logits)
    assert found.item() == pytest.approx(every(rules).item(), abs=2e-3)  # LTNtorch keeps values 1e-4 from 0 and 1
    found.backward()
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())


def test_without_the_peer_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ltn", None)
    with pytest.raises(ImportError, match=r"dssl\[bench\]"):
        zoo.LogicTensorNetwork(SPACE, 1.0, linear_ramp(1))


def _record() -> dict:
    runs = [
        {"labels": labels, "method": method, "seed": seed, "seconds": 1.0}
        | dict.fromkeys(zoo._MEASURES, 0.5 + 0.1 * (method == "dp2"))
        for labels in (10, 50)
        for method in zoo.METHODS
        for seed in (0, 1)
    ]
    return {"settings": asdict(Settings(seeds=2)), "versions": {"LTNtorch": "1.0.2"}, "runs": runs}


def test_the_page_compares_with_no_rules_and_with_the_peer() -> None:
    page = zoo.page(_record())
    assert "DP, T = 2, the best of our" in page
    assert "differs by +10.0 points from no rules in training and by +10.0 from LTNtorch" in page.replace("\n", " ")
    assert "| DP, T = 2 | 60.0 ± 0.0 |" in page
    assert "LTNtorch 1.0.2" in page


def test_the_figure_is_drawn(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(zoo, "PICTURES", tmp_path)
    zoo.figures(_record())
    assert "<svg" in (tmp_path / "zoo.svg").read_text()


@needs_data
@pytest.mark.parametrize("method", ["none", "dp2", "ltn"])
def test_a_run_decodes_only_valid_labels(method: str) -> None:
    if method == "ltn":
        pytest.importorskip("ltn", reason="the peer is installed by the extra `bench`")
    found = zoo.one(50, method, 0, replace(Settings(), steps=30))
    assert found["valid"] == 1
    assert found["type"] > 0.4
