"""Devices, without one: how often a step asks for numbers, and that tensors meet on one device.

Counts are of the operations by which Python reads from a tensor; on an accelerator each waits for the device.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from dssl import DeterministicPrior, LabelSpace, Predictive
from dssl.circuits.branches import with_choices
from dssl.circuits.weighted import WeightedCircuit
from dssl.data.rows import ArrayData, Batch
from dssl.training import processes
from dssl.training.averaging import Average
from dssl.training.loop import Settings, train
from dssl.training.networks import Standardise
from dssl.training.objective import Objective
from dssl.training.terms.augmentation import NearestNeighbours
from dssl.training.terms.consistency import VAT, MeanTeacher, Neighbours
from dssl.training.terms.matching import MixMatch, Mixup, ReMixMatch
from training.tiny_runs import FEATURES, tiny_data, tiny_network

READS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::_unique2")
SPACE = LabelSpace.classes(["a", "b", "c"])
VIEWS = (lambda x: x + 0.1, lambda x: -x)


class Reads(TorchDispatchMode):
    """Counts what would wait for a device. Small tensors that were copied to the host on purpose count once."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        by_mask = name == "aten::index" and any(t is not None and t.dtype == torch.bool for t in args[1])
        if name in READS or by_mask:
            self.count[name] += 1
        return func(*args, **(kwargs or {}))


def reads(objective: Objective, steps: int) -> int:
    """Reads of a run of so many steps."""
    settings = Settings(
        steps=steps, labelled_batch=8, unlabelled_batch=16, eval_every=10**6, ema=0.9, accelerator="cpu"
    )
    with Reads() as seen:
        train(tiny_network(), objective, tiny_data(), settings)
    return sum(seen.count.values())


@pytest.mark.parametrize(
    "terms",
    [[], [MeanTeacher()], [Neighbours()], [VAT()], [Mixup()], [MixMatch()], [ReMixMatch()]],
    ids=["none", "teacher", "near", "vat", "mixup", "mixmatch", "remixmatch"],
)
def test_a_step_asks_the_device_a_few_times_only(terms: list[Any]) -> None:
    """One read for the kinds of rows (three masks, on the host), one for the finite loss and gradient."""
    options = {"balance": 1.0, "consistency": terms, "mean": "terms", "augment": VIEWS}
    made = [Objective(SPACE, DeterministicPrior(SPACE), **options) for _ in range(2)]
    few, many = (reads(objective, steps) for objective, steps in zip(made, (5, 25)))
    assert (many - few) / 20 <= 8


def test_the_count_can_fail() -> None:
    with Reads() as seen:
        x = torch.arange(4.0)
        float(x.sum()), x[x > 1]
    assert sum(seen.count.values()) >= 2


def test_rows_are_asked_for_where_they_are() -> None:
    data = ArrayData(np.eye(3), np.eye(3))
    data._x = torch.eye(3, device="meta")  # as a tensor of CUDA would be kept
    asked: list[str] = []
    with _Watch(asked):
        batch = data.batch([2, 0])
    assert batch.x.device.type == "meta"
    assert asked == ["meta"]
    assert batch.y.tolist() == [[0, 0, 1], [1, 0, 0]]


class _Watch(TorchDispatchMode):
    """Notes where the indices are that x on `meta` is asked with."""

    def __init__(self, asked: list[str]) -> None:
        super().__init__()
        self.asked = asked

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name == "aten::index_select" and args[0].device.type == "meta":
            self.asked.append(args[2].device.type)
        return func(*args, **(kwargs or {}))


def test_a_batch_goes_to_the_device_whole() -> None:
    meta = torch.device("meta")
    batch = Batch(torch.zeros(2, 1, device=meta), torch.zeros(2, 3), torch.ones(2), torch.arange(2)).to(meta)
    assert {t.device for t in (batch.x, batch.y, batch.weight, batch.rows) if t is not None} == {meta}


def test_predictions_meet_the_columns_of_a_space_on_any_device() -> None:
    space = LabelSpace("a: {x, y, z}\nb\nc: {u, v, w}\nd")  # columns of one kind lie apart
    p = Predictive(torch.zeros(4, space.width, device="meta"), space)
    assert p.theta.device.type == p.entropy().device.type == p.marginals.device.type == "meta"


def test_standardising_never_needs_float64_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """MPS has no float64: numpy counts, on the CPU."""
    cast = Tensor.double
    where: list[str] = []
    monkeypatch.setattr(Tensor, "double", lambda t: (where.append(t.device.type), cast(t))[1])
    layer = Standardise(torch.zeros(2, 3))
    layer.fit(torch.randn(50, 3) * 4 + 2)
    assert where == []
    assert layer(torch.full((1, 3), 2.0)).abs().max() < 0.5


def test_weighted_branches_never_need_float64_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed in float64 is copied to the CPU before."""
    cast, casts, copied = Tensor.double, [], []
    copy = Tensor.cpu
    monkeypatch.setattr(Tensor, "cpu", lambda t: copied.append(found := copy(t).clone()) or found)
    monkeypatch.setattr(Tensor, "double", lambda t: (casts.append(t), cast(t))[1])
    choices = with_choices(LabelSpace("a, b\na | b").compile())
    WeightedCircuit(choices, torch.zeros(len(choices.owner))).log_wmc(torch.zeros(1, 2), torch.zeros(1, 2))
    assert casts
    assert all(any(t is held for held in copied) for t in casts)


def test_ranks_agree_without_float64_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Tensor] = []
    monkeypatch.setattr(torch.distributed, "broadcast", lambda tensor, rank: sent.append(tensor))
    place = next(c for c in vars(processes).values() if isinstance(c, type) and hasattr(c, "agreed"))
    team = SimpleNamespace(world=2, device=torch.device("cpu"))
    for value in (0.1, -1e300, float("inf")):
        assert place.agreed(team, value) == value
    assert all(tensor.dtype == torch.uint8 for tensor in sent)


def test_neighbours_stay_where_rows_are() -> None:
    x = torch.randn(30, FEATURES)
    data = ArrayData(x, np.zeros((30, 1)))
    view = NearestNeighbours(2, share=1.0).fit(x)
    with Reads() as seen:
        view(x[:5], torch.arange(5))
    first = sum(seen.count.values())
    with Reads() as seen:
        near = view(x[:5], torch.arange(5))
    assert sum(seen.count.values()) == 0 <= first
    assert view._here is not None
    assert view._here[0] is view._data.whole(x.device)  # type: ignore[union-attr]
    assert all(any(torch.equal(row, other) for other in x) for row in near)
    assert data.whole(torch.device("meta")).device.type == "meta"  # type: ignore[union-attr]
    assert ArrayData(np.zeros((3, 2), np.uint8), np.zeros((3, 1))).whole(torch.device("cpu")) is None


def test_averages_ask_nothing() -> None:
    network, average = nn.Linear(3, 3), Average(0.9)
    average.of(network)
    with Reads() as seen:
        average.update(network)
        average.with_buffers(network)
    assert not seen.count
