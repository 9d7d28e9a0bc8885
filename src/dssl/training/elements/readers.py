"""Readers: networks that say what they see in an element, by itself or among its neighbours in the row."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dssl.errors import DataError
from dssl.training.networks import Standardise, make_network

_SIZE = 64  # features of an element inside a reader that sees its neighbours, and of a token
_HEADS, _LAYERS = 4, 2
_FORGOTTEN = 0.05  # share of the tokens that are read as unknown in training, so that unknown ones are known


# ---- readers of an element by itself ----


class Tokens(nn.Module):
    """Whole numbers (…) → their learned features (…, size).

    Numbers below 0, and from `vocabulary` on, are unknown. In training some others are taken for unknown too.
    """

    def __init__(self, vocabulary: int, size: int = _SIZE) -> None:
        super().__init__()
        self.vocabulary, self.size = vocabulary, size
        self.features = nn.Embedding(vocabulary + 1, size)

    def forward(self, x: Tensor) -> Tensor:
        unknown = (x < 0) | (x >= self.vocabulary)
        if self.training:
            unknown = unknown | (torch.rand(x.shape, device=x.device) < _FORGOTTEN)
        out: Tensor = self.features(x.masked_fill(unknown, self.vocabulary))
        return out


def _small_cnn(example: Tensor, outputs: int) -> nn.Module:
    """Three strided convolutions: a row has many elements, so a twelfth of the work of "cnn" for a whole row."""
    if example.ndim != 4:
        raise DataError(
            f"'cnn' wants elements that are images, (height, width) or (channels, height, width), but an element of x "
            f"has shape {tuple(example.shape[1:])}\nUse 'mlp'; or 'sequence', which sees neighbours too."
        )
    layers: list[nn.Module] = []
    channels, size = example.shape[1], min(example.shape[2:])
    for wide in (16, 32, 64):
        kernel, stride = (5 if size > 16 else 3), (2 if size > 4 else 1)
        layers += [nn.Conv2d(channels, wide, kernel, stride, kernel // 2), nn.GroupNorm(4, wide), nn.ReLU()]
        channels, size = wide, math.ceil(size / stride)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * channels, outputs))


def alone(network: str | nn.Module, example: Tensor, outputs: int, vocabulary: int | None) -> nn.Module:
    """A reader of elements like `example` (m, …)."""
    if isinstance(network, nn.Module):
        return make_network(network, example, outputs)
    if vocabulary is not None:
        tokens = Tokens(vocabulary)
        return nn.Sequential(tokens, make_network(network, torch.zeros(2, tokens.size), outputs))
    if network == "cnn":
        return nn.Sequential(Standardise(example), _small_cnn(example, outputs))
    return make_network(network, example, outputs)


# ---- readers of elements in their row ----


class _InContext(nn.Module):
    """Elements (n, k, …) → outputs (n, k, outputs): features of each, what its neighbours add, and a last layer."""

    def __init__(self, encoder: nn.Module, body: nn.Module, outputs: int) -> None:
        super().__init__()
        self.encoder, self.body, self.drop = encoder, body, nn.Dropout(0.1)
        self.head = nn.Linear(_SIZE, outputs)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.drop(self.body(self.encoder(x))))
        return out


class _Convolutions(nn.Module):
    """Features (n, k, size) of elements and of the two on either side."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(_SIZE, _SIZE, 3, padding=1) for _ in range(_LAYERS))

    def forward(self, h: Tensor) -> Tensor:
        for layer in self.layers:
            h = h + torch.relu(layer(h.transpose(1, 2))).transpose(1, 2)
        return h


class _Transformer(nn.Module):
    """Features (n, k, size) of elements and of all others in the row; waves tell where an element stands."""

    waves: Tensor

    def __init__(self, elements: int) -> None:
        super().__init__()
        speed = torch.exp(torch.arange(0, _SIZE, 2) * (-math.log(10_000) / _SIZE))
        angle = torch.arange(elements)[:, None] * speed
        self.register_buffer("waves", torch.cat([angle.sin(), angle.cos()], dim=1), persistent=False)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(_SIZE, _HEADS, 2 * _SIZE, 0.0, batch_first=True, norm_first=True)
            for _ in range(_LAYERS)
        )

    def forward(self, h: Tensor) -> Tensor:
        h = h + self.waves.to(h.dtype)
        for layer in self.layers:
            h = layer(h)
        return h


_IN_CONTEXT: dict[str, Callable[[int], nn.Module]] = {
    "sequence": lambda elements: _Convolutions(),
    "transformer": _Transformer,
}
IN_CONTEXT = tuple(_IN_CONTEXT)  # names of the readers that see neighbours


def among_others(network: str, example: Tensor, outputs: int, vocabulary: int | None) -> nn.Module:
    """A reader of rows like `example` (n, k, …)."""
    encoder: nn.Module = Tokens(vocabulary or 0)
    if vocabulary is None:
        encoder = nn.Sequential(nn.Flatten(2), nn.Linear(math.prod(example.shape[2:]), _SIZE), nn.ReLU())
    return _InContext(encoder, _IN_CONTEXT[network](example.shape[1]), outputs)
