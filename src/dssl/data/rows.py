"""Rows of x with labels, however they are stored, and those of arrays.

Data are asked for rows by number and give a `Batch`. What is too large for memory stays on disk (`stored`): Parquet
files and images are read when a batch needs them, and `order` keeps rows that are read together close to each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dssl.errors import DataError

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace

Rows = NDArray[np.int64]
_PART = 8192  # rows that are looked at together


@dataclass(frozen=True)
class Batch:
    """Some rows: x (n, …), y (n, width) with 1, 0 or NaN for unknown, weight (n,); their numbers (n,), if known."""

    x: Tensor
    y: Tensor
    weight: Tensor
    rows: Tensor | None = None

    def to(self, device: torch.device) -> Batch:
        """The same rows on a device."""
        held = (self.x, self.y, self.weight, self.rows)  # x may be there already, the rest may not
        return Batch(*(None if t is None else t.to(device, non_blocking=True) for t in held))  # type: ignore[arg-type]


class Data(ABC):
    """Rows of x with labels. Rows without any known label are `unlabelled`, all others `labelled`."""

    labelled: Rows
    unlabelled: Rows
    space: LabelSpace | None = None  # of the labels, if the data know it
    names: Sequence[str] | None = None  # of features, if they have any
    ahead: int = 0  # batches to fetch in the background while the network is busy

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, indices: Any) -> Batch:
        """The rows with these numbers, in this order."""

    def whole(self, device: torch.device) -> Tensor | None:
        """x of all rows on a device, (n, …), if it is held as one tensor; None if rows are read when needed."""
        return None

    def parts(self) -> Iterator[tuple[Rows, Batch]]:
        """All rows in the order of their numbers, some thousand at a time."""
        for start in range(0, len(self), _PART):
            rows = np.arange(start, min(start + _PART, len(self)))
            yield rows, self.batch(rows)

    def some(self, most: int) -> Tensor:
        """x of at most so many rows, picked at random, the same at every call."""
        return self.batch(np.sort(self.order(np.arange(len(self)), np.random.default_rng(0))[:most])).x

    def order(self, rows: Rows, generator: np.random.Generator) -> Rows:
        """The order in which an epoch visits `rows`: any, unless some orders are cheaper to read."""
        return generator.permutation(rows)

    def _split(self, known: NDArray[np.bool_]) -> None:
        self.labelled, self.unlabelled = np.flatnonzero(known), np.flatnonzero(~known)


# ---- arrays ----


class ArrayData(Data):
    """Rows in memory.

    >>> import numpy as np
    >>> from dssl.data.rows import ArrayData
    >>> data = ArrayData(np.eye(3), np.array([[1, 0], [0, 1], [np.nan, np.nan]]))
    >>> len(data), data.labelled.tolist(), data.unlabelled.tolist()
    (3, [0, 1], [2])

    `x` (n, …): a numpy array or scipy sparse matrix of numbers, or a tensor. The network gets float32 (sparse rows,
    pixels of one byte and arrays mapped from a file are converted batch by batch); only integer tensors stay as they
    are, for embeddings.
    `y` (n, width): columns of the space. `weight` (n,): how much a row counts, 1 by default.
    """

    def __init__(self, x: Any, y: Any, weight: Any = None) -> None:
        self._x = _stored(x)
        y = y.detach().cpu().numpy() if isinstance(y, Tensor) else y
        self._y = torch.from_numpy(np.array(y, np.float32))
        n = self._x.shape[0]
        self._weight = torch.from_numpy(np.ones(n, np.float32) if weight is None else np.array(weight, np.float32))
        if self._y.ndim != 2 or len(self._y) != n or self._weight.shape != (n,):
            raise DataError(
                f"x has {n} rows, y has shape {tuple(self._y.shape)}, weight {tuple(self._weight.shape)}\n"
                "Give y as columns of the label space (space.encode does) and one weight per row."
            )
        if bool(self._y.isinf().any()) or not bool((self._weight.isfinite() & (self._weight >= 0)).all()):
            raise DataError(
                "y or weight has entries that are not labels or weights\n"
                "Give 1, 0 or NaN for unknown as y, and finite weights that are not negative."
            )
        self._split((~self._y.isnan()).any(1).numpy())

    def __len__(self) -> int:
        return len(self._y)

    def batch(self, indices: Any) -> Batch:
        rows = torch.from_numpy(np.array(indices, np.int64))
        if isinstance(self._x, Tensor):
            x = self._x.index_select(0, rows.to(self._x.device))
            x = x.float() if x.dtype == torch.uint8 else x
        else:
            held = self._x[rows.numpy()]
            x = torch.from_numpy(held.toarray() if hasattr(held, "toarray") else held.astype(np.float32))
        return Batch(x, self._y.index_select(0, rows), self._weight.index_select(0, rows))

    def whole(self, device: torch.device) -> Tensor | None:
        held = isinstance(self._x, Tensor) and self._x.dtype != torch.uint8
        return self._x.to(device) if held else None


def _stored(x: Any) -> Any:
    """x as a tensor or a sparse matrix in rows; float32 unless it is bytes or an integer tensor.

    A read-only array, such as one mapped from a file, stays as it is: it may be larger than memory.
    """
    if hasattr(x, "tocsr"):
        x = x.tocsr().astype(np.float32)
        refuse_gaps(x.data)
        return x
    if isinstance(x, Tensor):
        x = x.detach()
        if x.is_floating_point() and x.numel():
            refuse_gaps(torch.stack(x.aminmax()).float().cpu().numpy())
        return x.float() if x.dtype == torch.float64 else x
    x = np.asarray(x)
    if x.dtype.kind not in "biuf" or x.ndim < 2:
        raise DataError(
            f"x is an array of {x.dtype} with shape {x.shape}\n"
            "Give numbers with one row per sample: (n, features), or (n, channels, height, width) for images."
        )
    refuse_gaps(x)
    if not x.flags.writeable:
        return x
    return torch.from_numpy(np.ascontiguousarray(x if x.dtype == np.uint8 else x.astype(np.float32, copy=False)))


def refuse_gaps(x: NDArray[Any], where: str = "x") -> None:
    # the least and the largest entry reveal NaN and infinity without a mask as large as x
    if x.size and x.dtype.kind == "f" and not np.isfinite([x.min(), x.max()]).all():
        raise DataError(
            f"{where} has missing or infinite entries\nFill them in (say, with column means) or drop the rows."
        )
