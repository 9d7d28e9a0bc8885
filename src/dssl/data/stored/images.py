"""Folders of images: pictures are decoded when a batch needs them."""

from __future__ import annotations

import csv
import math
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from dssl.data.rows import Batch, Data, Rows
from dssl.errors import DataError

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace

_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
_BYTES = 1 << 23  # of pixels that are decoded at a time where all are gone through
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


class ImageFolderData(Data):
    """Images in a folder, decoded when a batch needs them: x (n, channels, height, width) in [0, 1].

    Labels: by default an image's sub-folder names its class; images in the folder itself, or in sub-folders that
    `unlabelled` names, have none. Or `labels` is a CSV file whose first column is a path within the folder and whose
    others are named like the space's variables; images it does not list, and empty entries, are unknown. `workers`
    processes decode; with 0, the default, a thread in the background does. A script that asks for workers needs the
    usual ``if __name__ == "__main__":``.
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
        self._folder, self.space = Path(folder), space
        if channels not in _MODES:
            raise DataError(f"images with {channels} channels\nUse 1 (grey), 3 (RGB) or 4 (RGBA).")
        self._decode = partial(_decode, size=size, mode=_MODES[channels])
        self.shape = (channels, *size)
        self.paths = sorted(p for p in self._folder.rglob("*") if p.suffix.lower() in _SUFFIXES)
        if not self.paths:
            raise DataError(
                f"there are no images in '{folder}'\nThey are recognised by {', '.join(sorted(_SUFFIXES))}."
            )
        odd = next((path for path in self.paths if not path.is_file()), None)
        if odd is not None:  # a pipe would never end, a link may lead nowhere
            raise DataError(f"'{odd}' has the name of an image, but is not a file\nReplace or remove it.")
        names = [p.relative_to(self._folder).as_posix() for p in self.paths]
        self._y = torch.from_numpy(
            _folder_labels(names, space, unlabelled) if labels is None else _csv_labels(names, space, Path(labels))
        )
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._split((~self._y.isnan()).any(1).numpy())

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def at_once(self) -> int:
        """How many images may be decoded at a time."""
        return max(1, _BYTES // math.prod(self.shape))

    def parts(self) -> Iterator[tuple[Rows, Batch]]:
        """All rows in order, as many at a time as may be in memory."""
        for start in range(0, len(self), self.at_once):
            rows = np.arange(start, min(start + self.at_once, len(self)))
            yield rows, self.batch(rows)

    def batch(self, indices: Any) -> Batch:
        rows = np.asarray(indices, np.int64)
        x = torch.from_numpy(self.pixels(rows)).float().div_(255)
        return Batch(x, self._y[torch.from_numpy(rows)], torch.ones(len(rows)))

    def pixels(self, rows: Rows) -> NDArray[np.uint8]:
        """Some images as bytes (n, channels, height, width)."""
        paths = [self.paths[i] for i in rows]
        return np.stack(self._decoded(paths) if self._workers else [self._decode(path) for path in paths])

    def _decoded(self, paths: list[Path]) -> list[NDArray[np.uint8]]:
        try:
            pool = self._processes()
            return list(pool.map(self._decode, paths, chunksize=max(1, len(paths) // (2 * self._workers))))
        except BrokenProcessPool:
            self.close()
            raise DataError(
                f"a process that decodes images of '{self._folder}' was ended, perhaps because memory ran out\n"
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
        raise DataError(
            f"'{path}' lists '{absent}', which is not an image in the folder\nGive paths within the folder."
        )
    ragged = next((i for i, row in enumerate(records) if len(row) != len(header)), None)
    if ragged is not None:
        raise DataError(
            f"row {ragged + 1} of '{path}' has {len(records[ragged])} entries for {len(header)} columns\n"
            "Give every row an entry for each column."
        )
    columns = {name: [row[i] or None for row in records] for i, name in enumerate(header) if i}
    y[[place[row[0]] for row in records]] = space.encode(columns)
    return y
