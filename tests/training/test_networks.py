"""Networks: shapes, standardised inputs, and heads sized for the space."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from dssl.data.rows import ArrayData
from dssl.errors import DataError
from dssl.training.networks import Standardise, fit_inputs, make_network

SHAPES = {"linear": (5,), "mlp": (5,), "cnn": (1, 8, 8), "wrn-28-2": (3, 16, 16)}


@pytest.mark.parametrize("name", SHAPES)
def test_each_gives_a_logit_for_every_column_and_learns(name: str) -> None:
    x = torch.randn(4, *SHAPES[name])
    network = make_network(name, x[:1], 7, seed=0)
    logits = network(x)
    assert logits.shape == (4, 7)
    logits.square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in network.parameters())


@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_images_are_flattened_where_need_be(name: str) -> None:
    assert make_network(name, torch.zeros(1, 3, 4, 4), 2)(torch.zeros(5, 3, 4, 4)).shape == (5, 2)


@pytest.mark.parametrize("size", [(2, 2), (5, 9), (28, 28)])
def test_a_cnn_takes_images_of_any_size(size: tuple[int, int]) -> None:
    assert make_network("cnn", torch.zeros(1, 2, *size), 3)(torch.zeros(2, 2, *size)).shape == (2, 3)


def test_a_wide_resnet_has_the_published_number_of_weights() -> None:
    """28 layers, widened by 2, ten classes on CIFAR-10: 1.47 million (Oliver et al. 2018 say 1.5 M)."""
    network = make_network("wrn-28-2", torch.zeros(1, 3, 32, 32), 10)
    assert sum(p.numel() for p in network.parameters()) == 1_467_610
    assert sum(isinstance(m, nn.Conv2d) for m in network.modules()) == 25 + 3  # and three shortcuts


def test_a_seed_fixes_the_weights_and_leaves_the_generator_alone() -> None:
    example = torch.zeros(1, 5)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    a, b, c = (make_network("mlp", example, 3, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(a[1][1].weight, b[1][1].weight)  # type: ignore[index]
    assert not torch.equal(a[1][1].weight, c[1][1].weight)  # type: ignore[index]


# ---- standardising ----


def test_inputs_are_standardised_by_feature() -> None:
    x = np.random.default_rng(0).normal(5, 3, size=(200, 4))
    x[:, 2] = 1e4 + 0.1  # never varies, but not exactly in floating point
    network = make_network("linear", torch.zeros(1, 4), 2)
    fit_inputs(network, ArrayData(x, np.zeros((200, 1))))
    out = network[0](torch.tensor(x).float())  # type: ignore[index]
    assert out.mean(0).numpy() == pytest.approx(0, abs=1e-4)
    assert out[:, [0, 1, 3]].std(0, correction=0).numpy() == pytest.approx(1, abs=1e-4)
    assert out[:, 2].abs().max() < 1e-2


def test_images_are_standardised_by_channel_and_only_once() -> None:
    x = np.random.default_rng(0).integers(0, 255, size=(50, 3, 6, 6), dtype=np.uint8)
    data = ArrayData(x, np.zeros((50, 1)))
    network = make_network("cnn", data.batch([0]).x, 2)
    fit_inputs(network, data)
    inputs = next(m for m in network.modules() if isinstance(m, Standardise))
    assert inputs.mean.shape == (1, 3, 1, 1)
    assert inputs.mean.flatten().numpy() == pytest.approx(x.mean((0, 2, 3)), rel=1e-5)
    before = inputs.mean.clone()
    fit_inputs(network, ArrayData(x * 0, np.zeros((50, 1))))
    assert torch.equal(inputs.mean, before)
    assert "0.mean" in network.state_dict()


# ---- modules of users ----


def test_a_module_that_fits_is_copied_and_left_as_it_is() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    network = make_network(module, torch.zeros(2, 4), 3)
    assert network is not module
    assert all(torch.equal(p, q) for p, q in zip(network.parameters(), module.parameters()))
    assert not network.training


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.heads = nn.ModuleDict({"main": nn.Linear(8, 1000, bias=False)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.heads["main"](self.body(x).relu())
        return out


@pytest.mark.parametrize("module", [nn.Linear(4, 9), nn.Sequential(nn.Linear(4, 9)), Nested()])
def test_the_head_is_sized_for_the_space(module: nn.Module) -> None:
    network = make_network(module, torch.zeros(2, 4), 3, seed=0)
    assert network(torch.zeros(5, 4)).shape == (5, 3)
    if isinstance(network, Nested):
        assert torch.equal(network.body.weight, module.body.weight)  # type: ignore[union-attr]
        assert network.heads["main"].bias is None


class Reversed(nn.Module):
    """Its last linear layer is not its head."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.body = nn.Linear(8, 8), nn.Linear(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.body(x))
        return out


class Listed(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return [super().forward(x)]  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("network", "shape", "says"),
    [
        ("resnet", (4,), "there is no network 'resnet'"),
        ("cnn", (4,), "wants images"),
        ("wrn-28-2", (3, 4), "wants images"),
        (nn.ReLU(), (4,), "End it in an nn.Linear"),
        (nn.Sequential(nn.Linear(4, 6), nn.Unflatten(1, (2, 3))), (4,), r"into \(2, 3\)"),
        (Reversed(), (4,), "is not the layer that makes its outputs"),
        (Listed(4, 3), (4,), "returns list"),
    ],
)
def test_networks_that_do_not_fit_are_refused(network: str | nn.Module, shape: tuple[int, ...], says: str) -> None:
    with pytest.raises(DataError, match=says):
        make_network(network, torch.zeros(1, *shape), 3)
