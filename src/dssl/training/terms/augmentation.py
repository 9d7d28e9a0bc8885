"""Augmentation: other views of rows x, weak or strong, that keep their labels.

A view is called with x (n, …) and gives rows of the same shape. Every row gets its own random numbers, from
torch's global generator. Any function of x is a view too; one with a parameter `rows` is given row numbers as well.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dssl.data.rows import ArrayData, Data
from dssl.errors import DataError

View = Callable[..., Tensor]


class Augmentation(nn.Module):
    """A view that may need to know the data: `prepare` is called with it once before training."""

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Another view of rows x (n, …), which have these numbers in the data."""
        return x

    def prepare(self, data: Data) -> None:
        """Does nothing unless a view overrides it."""


class Chain(Augmentation):
    """Views one after the other."""

    def __init__(self, *views: View) -> None:
        super().__init__()
        self.views = views
        self.modules_ = nn.ModuleList([view for view in views if isinstance(view, nn.Module)])

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        for view in self.views:
            x = _call(view, x, rows)
        return x

    def prepare(self, data: Data) -> None:
        for view in self.views:
            if isinstance(view, Augmentation):
                view.prepare(data)


def _call(view: View, x: Tensor, rows: Tensor | None) -> Tensor:
    """What the view makes of x, checked."""
    seen = view(x, rows=rows) if _takes_rows(view) else view(x)
    if not isinstance(seen, Tensor) or seen.shape != x.shape:
        got = f"shape {tuple(seen.shape)}" if isinstance(seen, Tensor) else type(seen).__name__
        raise DataError(
            f"the augmentation {_name(view)} turned a batch of shape {tuple(x.shape)} into {got}\n"
            "Return a tensor of the same shape."
        )
    return seen


def _takes_rows(view: View) -> bool:
    called = view.forward if isinstance(view, nn.Module) else view
    try:
        return "rows" in inspect.signature(called).parameters
    except ValueError:  # some builtins have none
        return False


def _name(view: View) -> str:
    return getattr(view, "__name__", type(view).__name__)


# ---- tables, and anything else of floats ----


class Noise(Augmentation):
    """Gaussian noise of `scale` times each feature's spread in the batch."""

    def __init__(self, scale: float = 0.1) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        return x + self.scale * x.std(0, correction=0) * torch.randn_like(x) if len(x) else x


class Mask(Augmentation):
    """Feature dropout: a `share` of a row's features is replaced by the batch's mean, or by zero."""

    def __init__(self, share: float = 0.2, fill: str = "mean") -> None:
        super().__init__()
        if fill not in ("mean", "zero"):
            raise ValueError(f"fill='{fill}': choose mean or zero")
        self.share, self.fill = share, fill

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        other = x.mean(0) if self.fill == "mean" and len(x) else torch.zeros_like(x)
        return torch.where(torch.rand_like(x) < self.share, other, x)


class Swap(Augmentation):
    """A `share` of a row's features takes the values of other rows, drawn anew for each (Bahri et al. 2022)."""

    def __init__(self, share: float = 0.2) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        if not len(x):
            return x
        other = x.gather(0, torch.randint(len(x), x.shape, device=x.device))
        return torch.where(torch.rand_like(x) < self.share, other, x)


class NearestNeighbours(Augmentation):
    """A row moves towards one of its k nearest neighbours in the data, drawn at random.

    >>> import torch
    >>> from dssl.training.terms.augmentation import NearestNeighbours
    >>> x = torch.tensor([[0.0], [1.0], [5.0], [6.0]])
    >>> NearestNeighbours(k=1, share=0.5).fit(x)(x, torch.arange(4)).flatten().tolist()
    [0.5, 0.5, 5.5, 5.5]

    `share` of the way: 1 puts it where the neighbour is; a pair (least, most) draws the share. Neighbours are nearest
    by Euclidean distance. Up to `pool` rows, they are found once; beyond that, a sample of `pool` rows is kept in
    memory, and a batch's neighbours are searched there.
    """

    def __init__(self, k: int = 10, *, share: float | tuple[float, float] = (0.0, 0.5), pool: int = 10_000) -> None:
        super().__init__()
        self.k, self.pool = k, pool
        self.least, self.most = share if isinstance(share, tuple) else (share, share)
        self._data: Data | None = None
        self._near: NDArray[np.int64] | None = None
        self._sample: tuple[NDArray[np.int64], Tensor] | None = None
        self._here: tuple[Tensor, Tensor] | None = None  # all rows and their neighbours on the device they are used on

    def fit(self, x: Any) -> NearestNeighbours:
        """Learn the neighbours of rows x (n, …), to be asked for by their numbers."""
        self.prepare(ArrayData(x, np.zeros((x.shape[0], 1))))
        return self

    def prepare(self, data: Data) -> None:
        if data is not self._data:
            self._data, self._near, self._sample, self._here = data, None, None, None  # found when first needed

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        if self._data is None or rows is None:
            raise ValueError(
                "NearestNeighbours must know the data, and which of its rows these are\n"
                "Call fit(x) on it or objective.prepare(network, data), and give rows=their_numbers."
            )
        other = self._neighbour(self._data, x, rows).to(x)
        share = self.least + (self.most - self.least) * torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device)
        return torch.lerp(x, other, share.to(x))

    def _neighbour(self, data: Data, x: Tensor, rows: Tensor) -> Tensor:
        """A neighbour of each row, drawn at random (n, …)."""
        if len(data) <= self.pool:
            if self._here is None or self._here[0].device != x.device:
                held = data.whole(x.device)
                self._here = None if held is None else (held, torch.from_numpy(self._all(data)).to(x.device))
            if self._here is not None:  # nothing leaves the device
                held, table = self._here
                column = torch.randint(table.shape[1], rows.shape, device=x.device)
                return held[table[rows.to(x.device), column]]
        numbers = rows.cpu().numpy()
        if len(data) > self.pool:
            near, pool = self._sampled(data, x, numbers)  # (n, k)
            return pool[near[np.arange(len(near)), torch.randint(near.shape[1], rows.shape)]].reshape(x.shape)
        near = self._all(data)[numbers]
        column_ = torch.randint(near.shape[1], rows.shape).numpy()  # on the CPU, where the table is
        return data.batch(near[np.arange(len(near)), column_]).x

    def _all(self, data: Data) -> NDArray[np.int64]:
        """The nearest rows to each row (n, k), itself left out."""
        if self._near is None:
            from sklearn.neighbors import NearestNeighbors

            x = data.batch(np.arange(len(data))).x.flatten(1).cpu().numpy()
            k = min(self.k, len(x) - 1)
            if k < 1:  # a single row is its own neighbour
                self._near = np.zeros((len(x), 1), dtype=np.int64)
                return self._near
            found = NearestNeighbors(n_neighbors=k + 1).fit(x).kneighbors(x, return_distance=False)
            own = found == np.arange(len(x))[:, None]
            own[~own.any(1), -1] = True  # among equal rows it may not find itself: the farthest is dropped
            self._near = found[~own].reshape(len(x), k)
        return self._near

    def _sampled(self, data: Data, x: Tensor, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], Tensor]:
        """Places in the sample (n, k) nearest to rows x of these numbers, but not themselves; and the sample."""
        if self._sample is None:
            kept = np.sort(np.random.default_rng(0).choice(len(data), self.pool, replace=False))
            self._sample = kept, data.batch(kept).x.flatten(1)
        kept, pool = self._sample
        distance = torch.cdist(x.detach().flatten(1).to(pool), pool)  # (n, pool)
        own = torch.from_numpy(numbers[:, None] == kept).to(pool.device)
        nearest = distance.masked_fill(own, torch.inf).topk(min(self.k, self.pool - 1), largest=False).indices
        return nearest.cpu().numpy(), pool


# ---- images (n, channels, height, width) ----


class _ImageView(Augmentation, ABC):
    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        if x.ndim != 4:
            raise DataError(
                f"{type(self).__name__} is for images (n, channels, height, width), and a row of x has shape "
                f"{tuple(x.shape[1:])}\n"
                'Reshape x, or use augment="table".'
            )
        return self.of_images(x) if len(x) else x

    @abstractmethod
    def of_images(self, x: Tensor) -> Tensor:
        """Another view of at least one image."""


class Shift(_ImageView):
    """Moved by whole pixels, up to a `share` of the size each way; the border is repeated."""

    def __init__(self, share: float = 0.125) -> None:
        super().__init__()
        self.share = share

    def of_images(self, x: Tensor) -> Tensor:
        for dim in (2, 3):
            size = x.shape[dim]
            most = max(1, round(self.share * size))
            by = torch.randint(-most, most + 1, (len(x), 1), device=x.device)
            place = (torch.arange(size, device=x.device) + by).clamp(0, size - 1)  # (n, size)
            place = place[:, None, :, None] if dim == 2 else place[:, None, None, :]
            x = x.gather(dim, place.expand_as(x))
        return x


class Flip(_ImageView):
    """Left and right swapped, in every second image."""

    def of_images(self, x: Tensor) -> Tensor:
        return torch.where(_uniform(x, 0, 1) < 0.5, x.flip(-1), x)


class Affine(_ImageView):
    """Turned by up to `degrees`, and resized and sheared by up to these shares; the border is repeated."""

    def __init__(self, degrees: float = 15.0, scale: float = 0.15, shear: float = 0.15) -> None:
        super().__init__()
        self.degrees, self.scale, self.shear = degrees, scale, shear

    def of_images(self, x: Tensor) -> Tensor:
        h, w = x.shape[2:]
        angle = _uniform(x, -self.degrees, self.degrees).flatten() * math.pi / 180
        size = _uniform(x, -self.scale, self.scale).flatten().exp()
        shear = _uniform(x, -self.shear, self.shear).flatten()
        cos, sin = angle.cos() * size, angle.sin() * size
        # turn ∘ shear in pixels; grid_sample counts from −1 to 1, whatever height and width are
        rows = [cos, (shear * cos - sin) * h / w, sin * w / h, shear * sin + cos]
        matrix = torch.stack(rows, -1).view(-1, 2, 2)
        grid = functional.affine_grid(functional.pad(matrix, (0, 1)), list(x.shape), align_corners=False)
        return functional.grid_sample(x, grid, padding_mode="border", align_corners=False)


class Lighting(_ImageView):
    """Contrast multiplied by up to e^±`contrast`, brightness moved by up to `brightness` of the image's spread."""

    def __init__(self, brightness: float = 0.3, contrast: float = 0.3) -> None:
        super().__init__()
        self.brightness, self.contrast = brightness, contrast

    def of_images(self, x: Tensor) -> Tensor:
        mean = x.mean((1, 2, 3), keepdim=True)
        spread = x.std((1, 2, 3), correction=0, keepdim=True)
        by = _uniform(x, -self.brightness, self.brightness) * spread
        return mean + by + (x - mean) * _uniform(x, -self.contrast, self.contrast).exp()


class Cutout(_ImageView):
    """A square of up to `share` of the size, anywhere, filled with the image's mean (DeVries & Taylor 2017)."""

    def __init__(self, share: float = 0.5) -> None:
        super().__init__()
        self.share = share

    def of_images(self, x: Tensor) -> Tensor:
        side = _uniform(x, 0, self.share)
        inside = torch.ones_like(x[:, :1], dtype=torch.bool)
        for dim in (2, 3):
            place = (torch.arange(x.shape[dim], device=x.device) + 0.5) / x.shape[dim]
            place = place[:, None] if dim == 2 else place
            inside = inside & ((place - _uniform(x, 0, 1)).abs() <= side / 2)
        return torch.where(inside, x.mean((2, 3), keepdim=True), x)


class RandAugment(_ImageView):
    """kornia's RandAugment (Cubuk et al. 2020): `n` operations of strength `m` of 30.

    Needs ``pip install 'dssl[augment]'``. Its operations expect pixels from 0 to 1: the batch's range is mapped there
    and back. It draws operations for a whole batch; so that images differ, they are split into `groups` at random.
    """

    def __init__(self, n: int = 2, m: int = 10, *, groups: int = 8) -> None:
        super().__init__()
        self.n, self.m, self.groups = n, m, groups
        self._made: list[Any] = []  # no submodule: it has nothing to save

    def of_images(self, x: Tensor) -> Tensor:
        if not self._made:
            try:
                from kornia.augmentation.auto import RandAugment as Kornia
            except ImportError:
                raise ImportError("RandAugment is kornia's: pip install 'dssl[augment]'") from None
            self._made.append(Kornia(n=self.n, m=self.m))
        low, high = x.amin(), x.amax()
        span = (high - low).clamp_min(torch.finfo(x.dtype).tiny)
        order = torch.randperm(len(x), device=x.device)
        parts = [self._made[0](part) for part in ((x - low) / span)[order].chunk(self.groups)]
        return torch.cat(parts).to(x)[order.argsort()] * span + low


def _uniform(x: Tensor, low: float, high: float) -> Tensor:
    """A number for each row, (n, 1, 1, 1)."""
    return low + (high - low) * torch.rand(len(x), 1, 1, 1, device=x.device, dtype=x.dtype)


# ---- weak and strong ----


class Views(nn.Module):
    """A weak and a strong view; by default x as it is."""

    def __init__(self, weak: View | None = None, strong: View | None = None) -> None:
        super().__init__()
        self._weak = Chain(*(() if weak is None else (weak,)))
        self._strong = Chain(*(() if strong is None else (strong,)))

    def changes(self, kind: str) -> bool:
        """Whether the "weak" or the "strong" view is anything but x as it is."""
        return bool((self._weak if kind == "weak" else self._strong).views)

    def all_strong(self) -> Views:
        """Views of which the weak one is as strong as the other."""
        return Views(*[self._strong] * 2) if self._strong.views else Views()

    def weak(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Slightly changed rows: what labels are learned on and guessed from."""
        return self._weak(x, rows)

    def strong(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Strongly changed rows, whose predictions should be the same."""
        return self._strong(x, rows)

    def prepare(self, data: Data) -> None:
        self._weak.prepare(data)
        self._strong.prepare(data)


def _image() -> Views:
    return Views(Chain(Flip(), Shift()), Chain(Flip(), Shift(), Affine(), Lighting(), Cutout()))


def _digits() -> Views:
    """For digits, letters and the like, which mirroring changes."""
    return Views(Shift(0.1), Chain(Shift(), Affine(), Lighting(), Cutout()))


def _table() -> Views:
    return Views(Noise(0.1), Chain(Noise(0.2), Mask(0.2), Swap(0.1)))


AUGMENTATIONS: dict[str, Callable[[], Views]] = {"image": _image, "digits": _digits, "table": _table}


def make_views(augment: Any) -> Views:
    """Views from a name, a function for both, a pair (weak, strong), `Views`, or None for x as it is.

    >>> from dssl.training.terms.augmentation import make_views
    >>> make_views((None, lambda x: -x)).strong(torch.ones(1, 2)).tolist()
    [[-1.0, -1.0]]
    """
    if isinstance(augment, Views):
        return augment
    if isinstance(augment, str):
        if augment not in AUGMENTATIONS:
            raise ValueError(f"there is no augmentation '{augment}': choose {', '.join(AUGMENTATIONS)}, or give one")
        return AUGMENTATIONS[augment]()
    if isinstance(augment, tuple | list) and len(augment) == 2:
        return Views(*augment)
    if augment is None or callable(augment):
        return Views(augment, augment)
    raise ValueError(f"augment={augment!r}: give a name, a function of x, or a pair of a weak and a strong one")
