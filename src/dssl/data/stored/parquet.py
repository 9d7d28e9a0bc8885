"""Parquet files: rows that are read block by block, so that files may be larger than memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dssl.data.rows import Batch, Data, Rows, refuse_gaps
from dssl.errors import DataError

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace


class Block(NamedTuple):
    """Consecutive rows of one file."""

    file: int
    offset: int
    length: int


_READING = threading.Lock()  # one thread fetches ahead while another may validate


class ParquetData(Data):
    """Rows in Parquet files, or folders of them, read block by block: a file may be larger than memory.

    `features`: the columns of x. `labels`: the column of a single variable, or columns named like the space's
    variables or columns, or a mapping from columns to those names; null is unknown. An epoch visits `window` blocks of
    `block` rows at a time, in random order, and shuffles the rows within them; so about three windows of x are held in
    memory, besides 24 bytes per row for the order of rows. Files whose rows are sorted by label need a larger window.
    """

    ahead = 2
    space: LabelSpace

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
        from dssl.data.tables import parquet_files

        given = [paths] if isinstance(paths, str | Path) else paths
        self._files = [file for path in given for file in parquet_files(Path(path))]
        self._features, self.space, self._weight, self._window = list(features), space, weight, window
        self.names = self._features
        self._labels = _label_names(labels, space)
        self._blocks = [
            Block(i, offset, min(block, n - offset))
            for i, n in enumerate(self._count(file) for file in self._files)
            for offset in range(0, n, block)
        ]
        self._starts = np.cumsum([0, *(b.length for b in self._blocks)])  # the first row of each block, and the end
        self._cache: OrderedDict[int, Batch] = OrderedDict()
        self._kept: tuple[Rows, Batch] | None = None
        read = [_codes(self._read_labels(b)) for b in self._blocks]
        known = [(codes >= 0).any(1) for codes in read]
        self._split(np.concatenate(known) if known else np.zeros(0, np.bool_))
        # of labelled rows, (n, width) bytes: labels are read once, x as often as it is needed
        self._told = self.labelled
        self._codes = (
            np.concatenate([codes[k] for codes, k in zip(read, known)]) if known else np.zeros((0, 1), np.int8)
        )
        if 0 < len(self.labelled) <= block * window:  # a few labelled rows, scattered: read them once
            self._kept = self.labelled, self._gather(self.labelled)

    def _count(self, file: Path) -> int:
        import polars as pl

        from dssl.data.tables import reading_parquet

        if not file.is_file():
            raise DataError(f"there is no file '{file}'\nGive the paths of Parquet files.")
        with reading_parquet(file):
            frame = pl.scan_parquet(file)
            have = set(frame.collect_schema().names())
            rows = int(frame.select(pl.len()).collect().item())
        wanted = [*self._features, *self._labels, *([self._weight] if self._weight else [])]
        absent = [name for name in wanted if name not in have]
        if absent:
            raise DataError(f"'{file}' has no column {absent[0]!r}\nIts columns: {', '.join(sorted(have))[:200]}")
        return rows

    def _columns(self, block: Block, names: Sequence[str]) -> Any:
        import polars as pl

        from dssl.data.tables import reading_parquet

        file = self._files[block.file]
        with reading_parquet(file):
            return pl.scan_parquet(file).select(names).slice(block.offset, block.length).collect()

    def _read_labels(self, block: Block) -> NDArray[np.float32]:
        import polars.selectors as cs

        # numbers with NaN for null are encoded as arrays, objects with None one by one
        plain = (cs.boolean() | cs.integer()).cast(float).fill_null(float("nan"))
        return self.space.encode(self._columns(block, list(self._labels)).with_columns(plain).rename(self._labels))

    def _read_features(self, block: Block) -> NDArray[np.float32]:
        return np.asarray(self._columns(block, self._features).to_numpy().astype(np.float32))

    def _known(self, first: int, length: int) -> NDArray[np.float32]:
        """The labels (length, width) of consecutive rows."""
        start, stop = np.searchsorted(self._told, [first, first + length])
        y = np.full((length, self._codes.shape[1]), np.nan, np.float32)
        codes = self._codes[start:stop]
        y[self._told[start:stop] - first] = np.where(codes < 0, np.nan, codes)
        return y

    def _read(self, number: int) -> Batch:
        """A block, from the few that are held or from its file."""
        if number in self._cache:
            self._cache.move_to_end(number)
            return self._cache[number]
        block = self._blocks[number]
        x = self._read_features(block)
        refuse_gaps(x, f"'{self._files[block.file]}', rows {block.offset} to {block.offset + block.length - 1},")
        weight = self._columns(block, [self._weight]).to_numpy()[:, 0] if self._weight else np.ones(block.length)
        y = self._known(int(self._starts[number]), block.length)
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
        turn = np.argsort(number, kind="stable")
        blocks, starts = np.unique(number[turn], return_index=True)
        place = torch.from_numpy(rows - self._starts[number])[turn]
        out = _empty(len(rows), self._read(int(number[0]) if len(rows) else 0))
        parts = [
            (self._read(int(block)), place[start:stop])
            for block, start, stop in zip(blocks, starts, [*starts[1:], len(rows)])
        ]
        for what in ("x", "y", "weight") if parts else ():
            found = torch.cat([getattr(read, what).index_select(0, inside) for read, inside in parts])
            getattr(out, what)[turn] = found
        return out

    def order(self, rows: Rows, generator: np.random.Generator) -> Rows:
        """Blocks in random order, rows in random order within each window of blocks."""
        turns = generator.permutation(len(self._blocks))
        edges = np.searchsorted(rows, self._starts)  # where each block begins among the sorted rows
        out, done = np.empty_like(rows), 0
        for first in range(0, len(turns), self._window):
            part = np.concatenate([rows[edges[b] : edges[b + 1]] for b in turns[first : first + self._window]])
            out[done : done + len(part)] = generator.permutation(part)
            done += len(part)
        return out


def _codes(y: NDArray[np.float32]) -> NDArray[np.int8]:
    return np.where(np.isnan(y), -1, y).astype(np.int8)


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
