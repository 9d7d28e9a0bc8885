"""Files that are larger than memory: a sample to decide on, and `Data` to learn from."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dssl.data.labelling import Labelling, alike, find_labels
from dssl.data.preprocessing import Preprocessing, TableData
from dssl.data.rows import Batch, Rows
from dssl.data.stored.images import ImageFolderData
from dssl.data.tables import Table, parquet_cells, parquet_files, picture_folder, sample_parquet, stream
from dssl.data.transformer import Notes
from dssl.logic.sources import read_text
from dssl.logic.space import LabelSpace

_MOST_CELLS = 40_000_000  # of Parquet files that are read as a whole
_MOST_BYTES = 1 << 28  # of pixels of a folder of images that are decoded at once
_SAMPLE = 20_000  # labelled rows, and others, of larger ones that decide what columns mean
_WORKERS = 4  # processes that decode images, at most


def is_larger(path: Path, size: tuple[int, int] | None = None) -> bool:
    """Whether rows of these files are read when they are needed, and not all at once."""
    if not path.is_dir() or parquet_files(path) != [path]:
        return parquet_cells(path) > _MOST_CELLS
    data, _ = picture_folder(path, size)
    return len(data) * math.prod(data.shape) > _MOST_BYTES


def sample(path: Path, label: Sequence[str] | None, rules: Path | None, separator: str | None, seed: int) -> Table:
    """A sample of Parquet files, of rows of which a label is known and of others."""
    head = next(stream(path, chunk=1000))
    if label:
        wanted = list(label)
    elif rules is not None:
        space = LabelSpace(read_text(rules))
        wanted = [*(v.name for v in space.variables), *space.columns]
    else:
        wanted = []
    found = [column for name in dict.fromkeys(wanted) for column in alike(name, head.names)]
    if not found:
        find_labels(head, label, rules, separator)  # says what is wrong
    return sample_parquet(path, list(dict.fromkeys(found)), _SAMPLE, _SAMPLE, seed)


def sample_pictures(path: Path, size: tuple[int, int] | None, seed: int) -> tuple[Table, Table]:
    """All images of a folder without their pixels, and a sample with them, as many of those with a label as others."""
    data, frame = picture_folder(path, size)
    labels = tuple(name for name in frame.columns if name != "file")
    every = Table(path, "images", frame, np.zeros((0, *data.shape), np.uint8), labels)
    told = np.zeros(len(frame), np.bool_)
    for name in labels:
        told |= frame[name].is_not_null().to_numpy()
    random, most = np.random.default_rng(seed), max(1, _MOST_BYTES // (4 * math.prod(data.shape)))
    drawn = [
        rows if len(rows) <= most else random.choice(rows, most, replace=False)
        for rows in (np.flatnonzero(told), np.flatnonzero(~told))
    ]
    rows = np.sort(np.concatenate(drawn))
    some = replace(every, frame=frame[rows.tolist()], images=data.pixels(rows), rows=rows)
    return every, some


def larger_data(path: Path, every: Table, preprocessing: Preprocessing, labelling: Labelling, without: Rows) -> Any:
    """All rows of files that are larger than memory, to learn from."""
    if every.images is None:
        return TableData(path, preprocessing, labelling, without)
    return PictureData(every, preprocessing, labelling, without)


class PictureData(ImageFolderData):
    """Images of a folder as `dssl fit` reads them, in bytes, with the labels of a table of them.

    `without`: numbers of rows that are not learned from. Some processes decode, unless there is one processor alone.
    """

    def __init__(self, every: Table, preprocessing: Preprocessing, labelling: Labelling, without: Rows) -> None:
        size, channels = preprocessing.picture
        assert size is not None
        assert channels is not None
        space = LabelSpace.classes(sorted(p.name for p in every.path.iterdir() if p.is_dir()) or ["image"])
        workers = min(_WORKERS, os.cpu_count() or 1)
        super().__init__(every.path, space, size=size, channels=channels, workers=workers if workers > 1 else 0)
        self.space, self.notes = labelling.space, Notes()
        self._y = torch.from_numpy(np.asarray(labelling.encode(every), np.float32))
        self._split((~self._y.isnan()).any(1).numpy())
        self.labelled = np.setdiff1d(self.labelled, without, assume_unique=True)

    def batch(self, indices: Any) -> Batch:
        rows: NDArray[np.int64] = np.asarray(indices, np.int64)
        x = torch.from_numpy(self.pixels(rows)).float()  # as bytes are elsewhere
        return Batch(x, self._y[torch.from_numpy(rows)], torch.ones(len(rows)))
