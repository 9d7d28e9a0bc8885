"""Networks from x to logits z (n, width): "linear", "mlp", "cnn", "wrn-28-2", or a module of the user's.

Those made here standardise their inputs: `Standardise` holds mean and standard deviation as buffers, fitted once to
training data and saved with the weights. A user's module gets x as it is.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from dssl.data.features import Standardiser
from dssl.data.rows import Data
from dssl.errors import DataError

_SAMPLED = 10_000  # rows that mean and standard deviation are taken from


class Standardise(nn.Module):
    """A `Standardiser` as a layer, which is saved with the weights: (x − mean) / std."""

    mean: Tensor
    std: Tensor
    fitted: Tensor

    def __init__(self, example: Tensor) -> None:
        super().__init__()
        shape = (1, *example.shape[1:]) if example.ndim == 2 else (1, example.shape[1], *[1] * (example.ndim - 2))
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("std", torch.ones(shape))
        self.register_buffer("fitted", torch.tensor(False))

    def forward(self, x: Tensor) -> Tensor:  # (n, …) → (n, …)
        return (x - self.mean) / self.std

    @torch.no_grad()
    def fit(self, x: Tensor) -> None:
        """Mean and standard deviation of rows x (n, …)."""
        self.hold(Standardiser.fit(x.cpu().numpy(), shared=False))

    def hold(self, given: Standardiser) -> None:
        """Takes over mean and scale."""
        for buffer, values in ((self.mean, given.mean), (self.std, given.scale)):
            buffer.copy_(torch.from_numpy(values).float().reshape(buffer.shape))  # not every device has float64
        self.fitted.fill_(True)


def fit_inputs(network: nn.Module, data: Data) -> None:
    """Fits each `Standardise` of the network that is not yet fitted, on labelled and unlabelled rows."""
    for module in network.modules():
        if isinstance(module, Standardise) and not module.fitted:
            sampled = _SAMPLED if module.mean.ndim == 2 else _SAMPLED // 10  # an image has many pixels
            module.fit(data.some(sampled))


# ---- the networks ----


def _linear(example: Tensor, width: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(example[0].numel(), width))


def _mlp(example: Tensor, width: int) -> nn.Module:
    """Two hidden layers. No batch norm: a batch holds labelled and unlabelled rows in proportions of our choosing."""
    features = example[0].numel()
    hidden = min(512, max(256, 2 ** math.ceil(math.log2(max(features, width)))))
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(features, hidden),
        nn.Sequential(nn.ReLU(), nn.Dropout(0.0)),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(hidden, width),
    )


def _cnn(example: Tensor, width: int) -> nn.Module:
    """Three stages of convolutions, halving the image while it is larger than 4 pixels; then the mean over pixels."""
    channels, *size = _image(example, "cnn")
    stages: list[nn.Module] = []
    for wide in (32, 64, 128):
        stages += [nn.Conv2d(channels, wide, 3, padding=1), nn.GroupNorm(8, wide), nn.ReLU()]
        if min(size) > 4:
            stages.append(nn.MaxPool2d(2))
            size = [s // 2 for s in size]
        channels = wide
    return nn.Sequential(
        *stages, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.1), nn.Linear(4 * channels, width)
    )


class _WideBlock(nn.Module):
    """A pre-activation residual block of Zagoruyko & Komodakis (2016)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(before, momentum=0.01), nn.BatchNorm2d(after, momentum=0.01)
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.shortcut = None if before == after else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = functional.leaky_relu(self.norm1(x), 0.1)
        kept = x if self.shortcut is None else self.shortcut(active)
        return kept + self.conv2(functional.leaky_relu(self.norm2(self.conv1(active)), 0.1))


def _wide_resnet(example: Tensor, width: int, depth: int = 28, widen: int = 2) -> nn.Module:
    """Wide ResNet, leaky as in the semi-supervised literature (Oliver et al. 2018): 28-2 has 1.5 M weights."""
    channels, *_ = _image(example, f"wrn-{depth}-{widen}")
    blocks: list[nn.Module] = [nn.Conv2d(channels, 16, 3, padding=1, bias=False)]
    before = 16
    for stage in range(3):
        after = 16 * widen * 2**stage
        for i in range((depth - 4) // 6):
            blocks.append(_WideBlock(before, after, 2 if stage and i == 0 else 1))
            before = after
    tail = [nn.BatchNorm2d(before, momentum=0.01), nn.LeakyReLU(0.1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    network = nn.Sequential(*blocks, *tail, nn.Linear(before, width))
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="leaky_relu", a=0.1)
    return network


def _remedy(example: Tensor) -> str:
    if example.ndim == 3:
        return "Give images without channels one: x[:, None]. Or use 'mlp'."
    return "Reshape x, or use 'mlp'."


def _image(example: Tensor, network: str) -> tuple[int, ...]:
    if example.ndim != 4:
        raise DataError(
            f"'{network}' wants images (n, channels, height, width), but a row of x has shape "
            f"{tuple(example.shape[1:])}\n{_remedy(example)}"
        )
    return tuple(example.shape[1:])


_NETWORKS: dict[str, Callable[[Tensor, int], nn.Module]] = {
    "linear": _linear,
    "mlp": _mlp,
    "cnn": _cnn,
    "wrn-28-2": _wide_resnet,
}


# ---- the one way in ----


def make_network(network: str | nn.Module, example: Tensor, width: int, *, seed: int | None = None) -> nn.Module:
    """A network from x like `example` to `width` logits.

    >>> import torch
    >>> from dssl.training.networks import make_network
    >>> make_network("mlp", torch.zeros(1, 64), 10, seed=0)(torch.zeros(5, 64)).shape
    torch.Size([5, 10])

    `network`: a name, or a module, which is copied. If a module's output has another width, its last `nn.Linear` is
    replaced by a fresh one of the right width; anything else about it stays, pretrained weights included. `example`
    (n, …): a few rows of x. `seed` fixes the initial weights and leaves torch's own generator alone.
    """
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        if isinstance(network, nn.Module):
            return _with_head(copy.deepcopy(network), example, width)
        if network not in _NETWORKS:
            raise DataError(f"there is no network '{network}'\nUse {', '.join(_NETWORKS)}, or give an nn.Module.")
        return nn.Sequential(Standardise(example), _NETWORKS[network](example, width))


def _with_head(network: nn.Module, example: Tensor, width: int) -> nn.Module:
    """The module with `width` outputs, its last linear layer replaced if need be."""
    got = _output(network, example)
    if got.ndim == 2 and got.shape[1] == width:
        return network
    heads = [(name, module) for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    if got.ndim != 2 or not heads or heads[-1][1].out_features != got.shape[1]:
        raise DataError(
            f"the network turns a row of shape {tuple(example.shape[1:])} into {tuple(got.shape[1:])}, but the label "
            f"space needs ({width},)\nEnd it in an nn.Linear, which is then sized for the space, or size it."
        )
    name, old = heads[-1]
    head = nn.Linear(old.in_features, width, bias=old.bias is not None).to(old.weight.device, old.weight.dtype)
    if not name:
        return head
    network.set_submodule(name, head)
    return _checked(network, example, width)


def _checked(network: nn.Module, example: Tensor, width: int) -> nn.Module:
    """Refuses a module whose last linear layer, in order of definition, is not its head."""
    try:
        fits = _output(network, example).shape == (len(example), width)
    except RuntimeError:
        fits = False
    if not fits:
        raise DataError(
            f"the network's last nn.Linear is not the layer that makes its outputs\nGive a module with {width} outputs."
        )
    return network


@torch.no_grad()
def _output(network: nn.Module, example: Tensor) -> Tensor:
    training = network.training
    weight = next(iter(network.parameters()), example)
    out = network.eval()(example.to(weight.device))
    network.train(training)
    if not isinstance(out, Tensor):
        raise DataError(f"the network returns {type(out).__name__}\nIt must return a tensor of logits (n, width).")
    return out
