"""The index tensors with which `layered` evaluates a circuit: layers of nodes, families of blocks.

All nodes of one level and kind form a *layer*; layer 0 holds the leaves. After a layer is computed its values are
gathered once for all edges that leave it and cut into *pieces*, one for each layer they go to; a layer reads the
pieces meant for it. So forward and backward are linear in the edges, however deep the circuit is.

Leaves are *values*, numbered through block by block: a binary block has the values false and true, a categorical
block one value per column. The constants TRUE and FALSE come after the last value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dssl.circuits.circuit import Circuit
from dssl.circuits.nodes import AND, LITERAL, OR, TRUE

Put = Callable[[NDArray[np.integer]], Tensor]


@dataclass(frozen=True)
class Layer:
    """Nodes of one level and kind, the edges into them and the edges out of them."""

    kind: int  # AND or OR; LITERAL for the leaves
    size: int  # nodes
    sources: tuple[tuple[int, int], ...]  # (layer, piece) of the edges in, in order
    parent: Tensor  # (edges in,) the node of this layer each edge leads to
    uses: Tensor  # (edges out,) the node of this layer each edge reads, by the layer it goes to
    pieces: tuple[int, ...]  # how many go to each of those layers


@dataclass(frozen=True)
class Family:
    """All blocks of one kind with the same number of values d."""

    categorical: bool
    columns: Tensor  # (blocks, d), or (blocks, 1) for binary blocks
    values: Tensor  # (blocks, d)


@dataclass(frozen=True)
class Layers:
    """A circuit's index tensors on one device."""

    layers: tuple[Layer, ...]
    root: tuple[int, int]  # (layer, node in it)
    families: tuple[Family, ...]
    unsort: Tensor  # (values,) where each value stands when the families are laid end to end
    block_of_value: Tensor  # (values,)
    true_value: Tensor  # (columns,) the value that makes a column true
    edges: int


_made: WeakKeyDictionary[Circuit, dict[torch.device, Layers]] = WeakKeyDictionary()


def layers_of(circuit: Circuit, device: torch.device) -> Layers:
    """The circuit's index tensors on `device`, made once."""
    made = _made.setdefault(circuit, {})
    if device not in made:
        made[device] = _make(circuit, lambda array: torch.from_numpy(array.astype(np.int64)).to(device))
    return made[device]


def _make(c: Circuit, put: Put) -> Layers:
    sizes = np.where(c.categorical, np.diff(c.starts), 2)
    first = np.concatenate([[0], np.cumsum(sizes)])  # (blocks + 1,) first value of each block
    block = c.block_of_column
    true_value = first[block] + np.where(c.categorical[block], np.arange(len(block)) - c.starts[block], 1)
    families, order = [], [np.zeros(0, np.int64)]
    for categorical, size in sorted(set(zip(c.categorical.tolist(), sizes.tolist()))):
        members = np.flatnonzero((c.categorical == categorical) & (sizes == size))
        columns = c.starts[members][:, None] + np.arange(size if categorical else 1)
        values = first[members][:, None] + np.arange(size)
        families.append(Family(categorical, put(columns), put(values)))
        order.append(values.ravel())
    layer, place, kinds = _places(c, true_value, int(first[-1]))
    return Layers(
        layers=_connect(c, layer, place, kinds, put),
        root=(int(layer[-1]), int(place[-1])),
        families=tuple(families),
        unsort=put(np.argsort(np.concatenate(order))),
        block_of_value=put(np.repeat(np.arange(len(sizes)), sizes)),
        true_value=put(true_value),
        edges=c.edges,
    )


def _places(
    c: Circuit, true_value: NDArray[np.int64], values: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[tuple[int, int]]]:
    """Each node's layer and its place in it, and each layer's kind and size."""
    inner = np.flatnonzero(c.kind >= AND)
    key = c.levels[inner].astype(np.int64) * 2 + (c.kind[inner] == OR)
    keys, rank, counts = np.unique(key, return_inverse=True, return_counts=True)
    layer, place = np.zeros(c.nodes, np.int64), np.zeros(c.nodes, np.int64)
    layer[inner] = 1 + rank
    by_layer = np.argsort(rank, kind="stable")
    place[inner[by_layer]] = np.arange(len(inner)) - np.repeat(np.cumsum(counts) - counts, counts)
    place[c.kind < AND] = values + (c.kind[c.kind < AND] != TRUE)
    literals = np.flatnonzero(c.kind == LITERAL)
    # In a binary block the value false stands just before the value true.
    place[literals] = true_value[np.abs(c.literal[literals]) - 1] - (c.literal[literals] < 0)
    kinds = [(LITERAL, values + 2)] + [(OR if k % 2 else AND, n) for k, n in zip(keys.tolist(), counts.tolist())]
    return layer, place, kinds


def _connect(
    c: Circuit, layer: NDArray[np.int64], place: NDArray[np.int64], kinds: list[tuple[int, int]], put: Put
) -> tuple[Layer, ...]:
    """The edges sorted both ways: by the layer they leave and by the layer they enter."""
    upper = np.repeat(np.arange(c.nodes), np.diff(c.ptr))
    leaves, enters = layer[c.child], layer[upper]
    out = np.lexsort((enters, leaves))  # stable: edges of one piece stand in the same order both ways
    into = np.lexsort((leaves, enters))
    pairs, counts = np.unique(leaves[out] * len(kinds) + enters[out], return_counts=True)
    pieces: list[list[int]] = [[] for _ in kinds]
    sources: list[list[tuple[int, int]]] = [[] for _ in kinds]
    for pair, count in zip(pairs.tolist(), counts.tolist()):
        low, high = divmod(pair, len(kinds))
        sources[high].append((low, len(pieces[low])))
        pieces[low].append(count)
    uses = np.split(place[c.child][out], np.cumsum(np.bincount(leaves, minlength=len(kinds)))[:-1])
    parents = np.split(place[upper][into], np.cumsum(np.bincount(enters, minlength=len(kinds)))[:-1])
    return tuple(
        Layer(kind, size, tuple(sources[i]), put(parents[i]), put(uses[i]), tuple(pieces[i]))
        for i, (kind, size) in enumerate(kinds)
    )
