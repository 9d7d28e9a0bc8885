"""The protocol of the paper's experiments: who is shown what, when the learning rate falls, and SVHN's files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import protocol
import pytest
import table2
import torch
from protocol import Falling, Protocol, Task, changed, evenly, network_of, split, trained
from scipy.io import savemat

from dssl.data.published import Published, Split
from dssl.logic.space import LabelSpace

TASK = Task(6, 1, held=10)


def numbered() -> Published:
    """Sixty rows that hold their own number, in three classes, and nine to test."""
    parts = [
        Split(np.arange(start, start + n, dtype=np.float32)[:, None], np.arange(n) % 3)
        for start, n in ((0, 60), (100, 9))
    ]
    return Published(LabelSpace.classes(["a", "b", "c"]), *parts)


def test_labels_are_spread_evenly() -> None:
    y = np.array([0] * 50 + [1] * 5 + [2] * 9)
    rows = evenly(y, 6, np.random.default_rng(0))
    assert np.bincount(y[rows]).tolist() == [2, 2, 2]
    assert len(set(rows)) == 6
    with pytest.raises(ValueError, match="7 labels cannot be spread evenly over 3"):
        evenly(y, 7, np.random.default_rng(0))


def test_a_split_shows_some_labels_and_measures_on_test_rows() -> None:
    whole, data, measured = split(numbered(), TASK, seed=3)
    assert (len(data), len(data.labelled), len(data.unlabelled)) == (60, 6, 54)
    assert np.bincount(whole.y[data.labelled]).tolist() == [2, 2, 2]
    shown = data.batch(data.labelled)
    assert shown.y.argmax(1).tolist() == whole.y[data.labelled].tolist() == (shown.x[:, 0] % 3).tolist()
    assert measured.x[:, 0].tolist() == list(range(100, 109))
    assert not np.array_equal(data.labelled, split(numbered(), TASK, seed=4)[1].labelled)
    np.testing.assert_array_equal(data.labelled, split(numbered(), TASK, seed=3)[1].labelled)


def test_λ_is_chosen_on_training_rows_that_are_held_out() -> None:
    whole, data, measured = split(numbered(), TASK, seed=3, choosing=True)
    assert (len(data), len(measured.y)) == (50, 10)
    assert sorted([*whole.x[:, 0], *measured.x[:, 0]]) == list(range(60))  # no test row, and none twice


def test_full_supervision_shows_all_labels() -> None:
    assert len(split(numbered(), TASK, seed=0, all_labels=True)[1].unlabelled) == 0


def test_the_learning_rate_is_a_fifth_after_four_fifths() -> None:
    settings = Falling(steps=10, lr=3e-3)
    np.testing.assert_allclose([settings.learning_rate(step) for step in range(10)], [3e-3] * 8 + [6e-4] * 2)


@pytest.mark.parametrize("size", [28, 32])
def test_images_move_by_up_to_two_pixels(size: int) -> None:
    assert changed("") is None
    view = changed("shift")
    assert view is not None
    x = torch.zeros(500, 1, size, size)
    x[:, :, 10, 10] = 1
    places = view(x).nonzero()[:, 2:]
    assert len(places) == 500
    assert (places.amin(0).tolist(), places.amax(0).tolist()) == ([8, 8], [12, 12])


def test_networks_are_fixed_by_the_seed() -> None:
    x = torch.zeros(2, 1, 28, 28)
    state = torch.get_rng_state()
    nets = [network_of(Task(10, 1), x, 10, seed) for seed in (0, 0, 1)]
    assert torch.equal(state, torch.get_rng_state())
    first = [torch.cat([p.flatten() for p in net.parameters()]) for net in nets]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])
    assert 33_000 < len(first[0]) < 35_000  # as its docstring says


def weights(method: str, weight: float, **form: float) -> torch.Tensor:
    task = Task(20, 12, "mlp", "")
    found = protocol.read("digits")
    data = split(found, task, seed=0)[1]
    network = trained(method, found.space, task, data, Protocol(amp=False, batch=20), weight=weight, seed=0, **form)
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def test_a_prior_acts_unless_it_is_flat_or_has_no_weight() -> None:
    without = weights("E", 0.0)
    torch.testing.assert_close(weights("DP", 1.0, power=1.0), without, rtol=0, atol=1e-3)  # log Σ θ is 0
    assert (weights("DP", 1.0, power=10.0) - without).abs().max() > 0.01


# ---- SVHN, which is not here: a small file of its format ----


@pytest.fixture
def svhn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    random = np.random.default_rng(0)
    for kind, n in (("train", 40), ("test", 10)):
        y = (np.arange(n) % 10 + 1).astype(np.uint8)[:, None]  # 10 stands for 0
        x = random.integers(0, 255, (32, 32, 3, n), dtype=np.uint8)
        savemat(tmp_path / f"{kind}_32x32.mat", {"X": x, "y": y})
    monkeypatch.setenv("DSSL_DATA", str(tmp_path))
    protocol.read.cache_clear()
    yield tmp_path
    protocol.read.cache_clear()


def test_the_full_version_runs_on_svhn(svhn: Path) -> None:
    small = replace(table2.FULL.tasks["svhn"], labels=10, steps=2)
    settings = replace(table2.FULL, tasks={"svhn": small}, protocol=replace(table2.FULL.protocol, batch=4))
    case = table2.case("test", "svhn", "DP", 10.0, "log q / T", 1.0, 0)
    got = table2.one(**case, settings=settings, checkpoints=svhn / "kept")
    assert got["accuracy"] in [k / 10 for k in range(11)]
    assert [folder.name for folder in (svhn / "kept").iterdir()] == ["test-svhn-DP-10-log q_by_T-1-0"]
    network = network_of(small, torch.zeros(2, 3, 32, 32), 10, 0)
    assert 1.4e6 < sum(p.numel() for p in network.parameters()) < 1.5e6  # WRN-28-2
