"""Element networks: what one reader says of every element of a row, put together as the logits of its label."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.training.elements.readers import IN_CONTEXT, alone, among_others


class ElementNetwork(nn.Module):
    """Rows of elements x (n, k, …) → logits (n, width): what one reader says of each element, put in its place.

    `places` (k, outputs): the columns of the logits that an element's outputs belong to. Columns that are `unread`,
    since they belong to no element, are `constants`: the same for every row, begun at 0, and learned. `axes` of x
    number the elements. A reader gets elements (n·k, …) one by one, and images without channels get one; if it is
    `in_context`, whole rows (n, k, …).
    """

    order: Tensor

    def __init__(
        self, reader: nn.Module, places: NDArray[np.int64], width: int, *, axes: int = 1, in_context: bool = False
    ) -> None:
        super().__init__()
        self.axes, self.in_context = axes, in_context
        self.unread = np.setdiff1d(np.arange(width), places)
        self.constants = nn.Parameter(torch.zeros(len(self.unread)))
        order = torch.from_numpy(np.argsort(np.concatenate([places.ravel(), self.unread])))
        self.register_buffer("order", order, persistent=False)
        self.reader = reader  # last, so that its last layer is the network's

    def forward(self, x: Tensor) -> Tensor:
        seen = self.reader(elements_of(x, self.axes, apart=not self.in_context)).reshape(x.shape[0], -1)
        both = torch.cat([seen, self.constants.to(seen.dtype).expand(x.shape[0], -1)], dim=1)
        return both.index_select(1, self.order)


def elements_of(x: Tensor, axes: int = 1, *, apart: bool = True) -> Tensor:
    """Elements of rows x (n, k, …), or with more axes of elements: apart (n·k, …), or in their rows (n, k, …)."""
    x = x.flatten(1, axes)
    if x.ndim == 2 and x.is_floating_point():
        x = x.unsqueeze(-1)  # one feature each
    if not apart:
        return x
    x = x.flatten(0, 1)
    return x.unsqueeze(1) if x.ndim == 3 else x  # an image without channels has one


# ---- the one way in ----


def make_element_network(
    network: str | nn.Module,
    example: Tensor,
    places: NDArray[np.int64],
    width: int,
    *,
    axes: int = 1,
    vocabulary: int | None = None,
    seed: int | None = None,
) -> ElementNetwork:
    """A network that reads each element of rows like `example` (n, k, …) with the same weights.

    >>> import numpy as np, torch
    >>> places = np.arange(20).reshape(2, 10)                       # two digits; the other 19 columns are their sum
    >>> network = make_element_network("mlp", torch.zeros(1, 2, 64), places, 39, seed=0)
    >>> network(torch.zeros(5, 2, 64)).shape
    torch.Size([5, 39])

    `network`: "linear", "mlp", "cnn", "wrn-28-2", "sequence", "transformer", or a module that reads one element. With a
    `vocabulary` elements are tokens, numbers from 0 up to it. See `ElementNetwork` and `make_network`.
    """
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        outputs, among = places.shape[1], False
        if isinstance(network, str) and network in IN_CONTEXT:
            reader, among = among_others(network, elements_of(example, axes, apart=False), outputs, vocabulary), True
        else:
            reader = alone(network, elements_of(example, axes), outputs, vocabulary)
    return ElementNetwork(reader, places, width, axes=axes, in_context=among)
