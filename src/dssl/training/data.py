"""Rows of x with labels, however they are stored: arrays, Parquet files, folders of images.

Data are asked for rows by number and give a `Batch`. What is too large for memory stays on disk: Parquet files and
images are read when a batch needs them, and `order` keeps rows that are read together close to each other.
"""

from __future__ import annotations

import csv
import multiprocessing
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dssl.errors import DataError

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Some rows: x (n, …), y (n, width) with 1, 0 or NaN for unknown, weight (n,); their numbers (n,), if known."""

    x: Tensor
    y: Tensor
    weight: Tensor
    rows: Tensor | None = None

    def to(self, device: torch.device) -> Batch:
        """The same rows on a device."""
        if self.x.device == device:
            return self
        held = (self.x, self.y, self.weight, self.rows)
        return Batch(*(None if t is None else t.to(device, non_blocking=True) for t in held))  # type: ignore[arg-type]


class Data(ABC):
    """Rows of x with labels. Rows without any known label are `unlabelled`, all others `labelled`."""

    labelled: Rows
    unlabelled: Rows
    ahead: int = 0  # batches to fetch in the background while the network is busy

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, indices: Any) -> Batch:
        """The rows with these numbers, in this order."""

    def order(self, rows: Rows, generator: np.random.Generator) -> Rows:
        """The order in which an epoch visits `rows`: any, unless some orders are cheaper to read."""
        return generator.permutation(rows)

    def _split(self, known: NDArray[np.bool_]) -> None:
        self.labelled, self.unlabelled = np.flatnonzero(known), np.flatnonzero(~known)


# ---- arrays ----


class ArrayData(Data):
    """Rows in memory.

    >>> import numpy as np
    >>> from dssl.training.data import ArrayData
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
                "Give y as columns of the label space (space.encode does) and one weight a row."
            )
        if bool(self._y.isinf().any()) or not bool((self._weight.isfinite() & (self._weight >= 0)).all()):
            raise DataError(
                "y or weight has entries that are no labels or weights\n"
                "Give 1, 0 or NaN for unknown as y, and finite weights that are not negative."
            )
        self._split((~self._y.isnan()).any(1).numpy())

    def __len__(self) -> int:
        return len(self._y)

    def batch(self, indices: Any) -> Batch:
        rows = torch.from_numpy(np.array(indices, np.int64))
        if isinstance(self._x, Tensor):
            x = self._x.index_select(0, rows)
            x = x.float() if x.dtype == torch.uint8 else x
        else:
            held = self._x[rows.numpy()]
            x = torch.from_numpy(held.toarray() if hasattr(held, "toarray") else held.astype(np.float32))
        return Batch(x, self._y.index_select(0, rows), self._weight.index_select(0, rows))


def _stored(x: Any) -> Any:
    """x as a tensor or a sparse matrix in rows; float32 unless it is bytes or an integer tensor.

    An array that cannot be written to, as those mapped from a file, stays what it is: it may be larger than memory.
    """
    if hasattr(x, "tocsr"):
        x = x.tocsr().astype(np.float32)
        _refuse_gaps(x.data)
        return x
    if isinstance(x, Tensor):
        x = x.detach()
        if x.is_floating_point() and x.numel():
            _refuse_gaps(torch.stack(x.aminmax()).float().cpu().numpy())
        return x.float() if x.dtype == torch.float64 else x
    x = np.asarray(x)
    if x.dtype.kind not in "biuf" or x.ndim < 2:
        raise DataError(
            f"x is an array of {x.dtype} with shape {x.shape}\n"
            "Give numbers with one row a sample: (n, features), or (n, channels, height, width) for images."
        )
    _refuse_gaps(x)
    if not x.flags.writeable:
        return x
    return torch.from_numpy(np.ascontiguousarray(x if x.dtype == np.uint8 else x.astype(np.float32, copy=False)))


def _refuse_gaps(x: NDArray[Any], where: str = "x") -> None:
    # the least and the largest entry tell of NaN and infinity without a mask as large as x
    if x.size and x.dtype.kind == "f" and not np.isfinite([x.min(), x.max()]).all():
        raise DataError(
            f"{where} has missing or infinite entries\nFill them in (say, with column means) or drop the rows."
        )


# ---- Parquet ----


class _Block(NamedTuple):
    """Consecutive rows of one file."""

    file: int
    offset: int
    length: int


_READING = threading.Lock()  # one thread fetches ahead while another may validate


class ParquetData(Data):
    """Rows in Parquet files, read block by block: a file may be larger than memory.

    `features`: the columns of x. `labels`: the column of a single variable, or columns named like the space's
    variables or columns, or a mapping from columns to those names; null is unknown. An epoch visits `window` blocks of
    `block` rows at a time, in random order, and shuffles the rows within them; so about three windows of x are held in
    memory, besides 24 bytes a row for the order of rows. Files whose rows are sorted by label want a larger window.
    """

    ahead = 2

    def __init__(
        self,
        paths: str | Path | Sequence[str | Path],
        features: Sequence[str],
        labels: str | Sequence[str] | Mapping[str, str],
        space: LabelSpace,
        *,
        weight: str | None = None,
        block: int = 8192,
        window: int = 16,
    ) -> None:
        self._files = [Path(p) for p in ([paths] if isinstance(paths, str | Path) else paths)]
        self._features, self._space, self._weight, self._window = list(features), space, weight, window
        self._labels = _label_names(labels, space)
        self._blocks = [
            _Block(i, offset, min(block, n - offset))
            for i, n in enumerate(self._count(file) for file in self._files)
            for offset in range(0, n, block)
        ]
        self._starts = np.cumsum([0, *(b.length for b in self._blocks)])  # the first row of each block, and the end
        self._cache: OrderedDict[int, Batch] = OrderedDict()
        self._kept: tuple[Rows, Batch] | None = None
        known = [~np.isnan(self._read_labels(b)).all(1) for b in self._blocks]
        self._split(np.concatenate(known) if known else np.zeros(0, np.bool_))
        if 0 < len(self.labelled) <= block * window:  # few labelled rows lie scattered: read them once
            self._kept = self.labelled, self._gather(self.labelled)

    def _count(self, file: Path) -> int:
        import polars as pl

        if not file.is_file():
            raise DataError(f"there is no file '{file}'\nGive the paths of Parquet files.")
        with _reading(file):
            frame = pl.scan_parquet(file)
            have = set(frame.collect_schema().names())
            rows = int(frame.select(pl.len()).collect().item())
        wanted = [*self._features, *self._labels, *([self._weight] if self._weight else [])]
        absent = [name for name in wanted if name not in have]
        if absent:
            raise DataError(f"'{file}' has no column {absent[0]!r}\nIts columns: {', '.join(sorted(have))[:200]}")
        return rows

    def _columns(self, block: _Block, names: Sequence[str]) -> Any:
        import polars as pl

        file = self._files[block.file]
        with _reading(file):
            return pl.scan_parquet(file).select(names).slice(block.offset, block.length).collect()

    def _read_labels(self, block: _Block) -> NDArray[np.float32]:
        import polars.selectors as cs

        # numbers with NaN for null are encoded as arrays, objects with None one by one
        plain = (cs.boolean() | cs.integer()).cast(float).fill_null(float("nan"))
        return self._space.encode(self._columns(block, list(self._labels)).with_columns(plain).rename(self._labels))

    def _read(self, number: int) -> Batch:
        """A block, from the few that are held or from its file."""
        if number in self._cache:
            self._cache.move_to_end(number)
            return self._cache[number]
        block = self._blocks[number]
        x = self._columns(block, self._features).to_numpy().astype(np.float32)
        _refuse_gaps(x, f"'{self._files[block.file]}', rows {block.offset} to {block.offset + block.length - 1},")
        weight = self._columns(block, [self._weight]).to_numpy()[:, 0] if self._weight else np.ones(block.length)
        y = self._read_labels(block)
        read = Batch(torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(np.array(weight, np.float32)))
        self._cache[number] = read
        while len(self._cache) > 2 * self._window:  # a window for each of the two streams
            self._cache.popitem(last=False)
        return read

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": OrderedDict()}

    def batch(self, indices: Any) -> Batch:
        with _READING:
            return self._batch(np.asarray(indices, np.int64))

    def _batch(self, rows: Rows) -> Batch:
        if self._kept is None:
            return self._gather(rows)
        kept, held = self._kept
        place = np.searchsorted(kept, rows)
        is_held = kept[np.minimum(place, len(kept) - 1)] == rows
        out = _empty(len(rows), held)
        _put(out, np.flatnonzero(is_held), held, place[is_held])
        _put(out, np.flatnonzero(~is_held), self._gather(rows[~is_held]), slice(None))
        return out

    def _gather(self, rows: Rows) -> Batch:
        """Rows out of their blocks, each block read once."""
        number = np.searchsorted(self._starts, rows, "right") - 1
        out = _empty(len(rows), self._read(int(number[0]) if len(rows) else 0))
        for block in np.unique(number):
            where = np.flatnonzero(number == block)
            _put(out, where, self._read(int(block)), rows[where] - self._starts[block])
        return out

    def order(self, rows: Rows, generator: np.random.Generator) -> Rows:
        """Blocks in random order, rows in random order within each window of blocks."""
        turns = generator.permutation(len(self._blocks))
        edges = np.searchsorted(rows, self._starts)  # where each block begins among the rows, which are sorted
        out, done = np.empty_like(rows), 0
        for first in range(0, len(turns), self._window):
            part = np.concatenate([rows[edges[b] : edges[b + 1]] for b in turns[first : first + self._window]])
            out[done : done + len(part)] = generator.permutation(part)
            done += len(part)
        return out


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """What the reader says of a damaged file, as an error of ours; of damaged pages it panics."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DataError(f"'{file}' is no Parquet file: {str(error)[:200]}\nCheck the file.") from None


def _label_names(labels: str | Sequence[str] | Mapping[str, str], space: LabelSpace) -> dict[str, str]:
    if isinstance(labels, str):
        if len(space.variables) != 1:
            raise DataError(
                f"one label column, '{labels}', for {len(space.variables)} variables\n"
                "Give a list of columns, or a mapping from columns to variables."
            )
        return {labels: space.variables[0].name}
    return dict(labels) if isinstance(labels, Mapping) else {name: name for name in labels}


def _empty(n: int, like: Batch) -> Batch:
    return Batch(*(t.new_empty((n, *t.shape[1:])) for t in (like.x, like.y, like.weight)))


def _put(out: Batch, where: Rows, source: Batch, rows: Any) -> None:
    for target, values in ((out.x, source.x), (out.y, source.y), (out.weight, source.weight)):
        target[where] = values[rows]


# ---- images ----

_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


class ImageFolderData(Data):
    """Images in a folder, decoded when a batch needs them: x (n, channels, height, width) in [0, 1].

    Labels: by default an image's sub-folder names its class; images in the folder itself or in sub-folders called as in
    `unlabelled` have none. Or `labels` is a CSV file whose first column is a path within the folder and whose others
    are named like the space's variables; images it does not list, and empty entries, are unknown. `workers` processes
    decode; with 0, the default, a thread in the background does. A script that asks for workers needs the usual
    ``if __name__ == "__main__":``.
    """

    ahead = 4

    def __init__(
        self,
        folder: str | Path,
        space: LabelSpace,
        labels: str | Path | None = None,
        *,
        size: tuple[int, int],
        channels: int = 3,
        workers: int = 0,
        unlabelled: Sequence[str] = ("unlabelled", "unlabeled"),
    ) -> None:
        self._folder = Path(folder)
        if channels not in _MODES:
            raise DataError(f"images with {channels} channels\nUse 1 (grey), 3 (RGB) or 4 (RGBA).")
        self._decode = partial(_decode, size=size, mode=_MODES[channels])
        self.paths = sorted(p for p in self._folder.rglob("*") if p.suffix.lower() in _SUFFIXES)
        if not self.paths:
            raise DataError(
                f"there are no images in '{folder}'\nThey are recognised by {', '.join(sorted(_SUFFIXES))}."
            )
        odd = next((path for path in self.paths if not path.is_file()), None)
        if odd is not None:  # a pipe would never end, a link may lead nowhere
            raise DataError(f"'{odd}' is called as an image and is no file\nReplace or remove it.")
        names = [p.relative_to(self._folder).as_posix() for p in self.paths]
        self._y = torch.from_numpy(
            _folder_labels(names, space, unlabelled) if labels is None else _csv_labels(names, space, Path(labels))
        )
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._split((~self._y.isnan()).any(1).numpy())

    def __len__(self) -> int:
        return len(self.paths)

    def batch(self, indices: Any) -> Batch:
        rows = np.asarray(indices, np.int64)
        paths = [self.paths[i] for i in rows]
        if self._workers:
            images = self._decoded(paths)
        else:
            images = [self._decode(path) for path in paths]
        x = torch.from_numpy(np.stack(images)).float().div_(255)
        return Batch(x, self._y[torch.from_numpy(rows)], torch.ones(len(rows)))

    def _decoded(self, paths: list[Path]) -> list[NDArray[np.uint8]]:
        try:
            pool = self._processes()
            return list(pool.map(self._decode, paths, chunksize=max(1, len(paths) // (2 * self._workers))))
        except BrokenProcessPool:
            self.close()
            raise DataError(
                f"a process that decodes images of '{self._folder}' was ended, perhaps for want of memory\n"
                "With a checkpoint folder the same call resumes from the last checkpoint. Use fewer workers, or none."
            ) from None

    def _processes(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._workers, mp_context=multiprocessing.get_context("spawn"))
        return self._pool

    def close(self) -> None:
        """Ends the worker processes; the next batch starts them again."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}


def _decode(path: Path, size: tuple[int, int], mode: str) -> NDArray[np.uint8]:
    """One image as (channels, height, width)."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            image.draft(mode if mode != "RGBA" else None, (size[1], size[0]))  # JPEG: decode no larger than needed
            upright = ImageOps.exif_transpose(image).convert(mode)
            pixels = np.asarray(upright.resize((size[1], size[0]), Image.Resampling.BILINEAR))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"the image '{path}' cannot be read: {error}\nReplace or remove it.") from None
    return np.ascontiguousarray(pixels.reshape(*size, -1).transpose(2, 0, 1))


def _folder_labels(names: Sequence[str], space: LabelSpace, unlabelled: Sequence[str]) -> NDArray[np.float32]:
    if len(space.variables) != 1:
        raise DataError(
            f"sub-folders can only name values of one variable, not of {len(space.variables)}\n"
            "Give `labels`: a CSV file with a column for each variable."
        )
    above = [name.split("/")[0] if "/" in name else None for name in names]
    return space.encode(np.array([None if a in unlabelled else a for a in above], dtype=object))


def _csv_labels(names: Sequence[str], space: LabelSpace, path: Path) -> NDArray[np.float32]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *records = [row for row in csv.reader(file) if row] or [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"'{path}' cannot be read: {error}\nGive a CSV file in UTF-8.") from None
    y = np.full((len(names), space.width), np.nan, np.float32)
    if not records:
        return y
    place = {name: i for i, name in enumerate(names)}
    absent = next((row[0] for row in records if row[0] not in place), None)
    if absent is not None:
        raise DataError(f"'{path}' lists '{absent}', which is no image in the folder\nGive paths within the folder.")
    ragged = next((i for i, row in enumerate(records) if len(row) != len(header)), None)
    if ragged is not None:
        raise DataError(
            f"row {ragged + 1} of '{path}' has {len(records[ragged])} entries for {len(header)} columns\n"
            "Give every row an entry for each column."
        )
    columns = {name: [row[i] or None for row in records] for i, name in enumerate(header) if i}
    y[[place[row[0]] for row in records]] = space.encode(columns)
    return y
