"""Forests: what decision trees learned from labels, as a module that answers for any row.

Trees split one feature at a time, so neither the scale of features nor what is between them matters: tables of mixed
columns often ask for just that. Each tree is grown on rows drawn with replacement (Breiman 2001), and the trees that
never saw a row say what is predicted for it without its own label.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dssl.logic.space import LabelSpace
from dssl.models.auto.beside import Machine, digits

_TREES = 100
_NUMBERS = 2_000_000  # in the leaves of all trees, at most


class Size(NamedTuple):
    """How large a forest is: trees, the nodes and leaves of all of them, and splits on the longest way to a leaf."""

    trees: int
    nodes: int
    leaves: int
    depth: int


class Forest(Machine):
    """Logits (n, width) of rows x (n, features) by the mean over trees of the label columns in the leaf they come to.

    A node sends a row `left` if its `feature` is at most `threshold`, else `right`; a leaf sends it to itself.
    """

    roots: Tensor
    feature: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
    leaf: Tensor
    values: Tensor

    def __init__(self, space: LabelSpace, size: Size) -> None:
        super().__init__(space)
        self.size = size
        self.register_buffer("roots", torch.zeros(size.trees, dtype=torch.int32))
        for name in ("feature", "left", "right", "leaf"):
            self.register_buffer(name, torch.zeros(size.nodes, dtype=torch.int32))
        self.register_buffer("threshold", torch.zeros(size.nodes))
        self.register_buffer("values", torch.zeros(size.leaves, space.width))

    def moves(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        at = self.roots + torch.zeros_like(x[:, :1], dtype=torch.int64)
        for _ in range(self.size.depth):
            low = x.gather(1, self.feature[at].long()) <= self.threshold[at]
            at = torch.where(low, self.left[at], self.right[at]).long()  # (n, trees)
        return self.values[self.leaf[at].long()].to(digits(x)).mean(1)

    def sound(self, features: int) -> bool:
        """Whether every number points to what is there, for rows of so many features."""
        ends = ((self.roots, self.size.nodes), (self.left, self.size.nodes), (self.right, self.size.nodes),
                (self.leaf, self.size.leaves), (self.feature, features))  # fmt: skip
        return all(bool(((numbers >= 0) & (numbers < end)).all()) for numbers, end in ends)


class Grown(NamedTuple):
    """Trees as arrays, and what those that did not see a row (m, width) predict for it."""

    size: Size
    arrays: dict[str, NDArray[Any]]
    left_out: NDArray[np.float64]


def grow(x: NDArray[Any], labels: NDArray[np.float64], weight: NDArray[np.float64], seed: int) -> Grown:
    """Trees grown on rows x (m, features) with label columns (m, width), all of them known.

    The squared error of columns that exclude each other is the Gini impurity of a class.
    """
    from sklearn.ensemble import RandomForestRegressor

    leaves = _NUMBERS // (_TREES * labels.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a row that all trees have seen: they say 0, as for any other mistake
        model = RandomForestRegressor(
            _TREES, max_features="sqrt", max_leaf_nodes=leaves if leaves < len(x) else None, oob_score=True,
            random_state=seed,
        ).fit(x, labels, weight)  # fmt: skip
    return Grown(*_flat([tree.tree_ for tree in model.estimators_]), model.oob_prediction_.reshape(labels.shape))


def _flat(trees: list[Any]) -> tuple[Size, dict[str, NDArray[Any]]]:
    """The nodes of all trees behind each other."""
    count = np.array([tree.node_count for tree in trees])
    roots = np.cumsum(count) - count
    left, right, feature, threshold = (
        np.concatenate([getattr(tree, name) for tree in trees])
        for name in ("children_left", "children_right", "feature", "threshold")
    )
    itself, first = np.arange(len(left)), np.repeat(roots, count)
    ends = left < 0
    values = np.concatenate([tree.value[:, :, 0] for tree in trees])
    arrays = {
        "roots": roots,
        "feature": np.where(ends, 0, feature),
        "threshold": _rounded_down(threshold),
        "left": np.where(ends, itself, left + first),
        "right": np.where(ends, itself, right + first),
        "leaf": np.where(ends, np.cumsum(ends) - 1, 0),
        "values": values[ends],
    }
    return Size(len(trees), len(left), int(ends.sum()), max(tree.max_depth for tree in trees)), arrays


def _rounded_down(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest single number that is not above: features are single, and pass it as they pass the double."""
    single = threshold.astype(np.float32)
    return np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
