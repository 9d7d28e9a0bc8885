"""Preprocessing: what a run keeps about how its files are read, the same for training and for new files.

It is kept beside the model as JSON: nothing in it is executed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dssl.data.columns import Column, unfit
from dssl.data.labelling import Labelling
from dssl.data.rows import Rows
from dssl.data.stored.parquet import Block, ParquetData
from dssl.data.tables import Table
from dssl.data.transformer import Notes, TableTransformer
from dssl.errors import DataError
from dssl.files import present, write_whole
from dssl.logic.language.variables import shown

_FORMAT, _VERSION = "dssl preprocessing", 2
_INTACT = "Fetch an intact copy of the run, or fit again."


@dataclass(frozen=True)
class Preprocessing:
    """How a table becomes x: columns as numbers (n, inputs), or images (n, channels, height, width).

    `image`: channels, height and width of images, for which there are no columns; for rows of elements, their shape.
    `labels` and `id` are the names of
    the label columns and of the column that names rows, `label_names` what the label space calls the former;
    `separator` stands between names where cells of one label column hold several.
    """

    columns: tuple[Column, ...] = ()
    image: tuple[int, ...] | None = None
    labels: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    id: str | None = None
    separator: str | None = None

    @property
    def inputs(self) -> list[str]:
        """Names of the features."""
        return [name for column in self.columns for name in column.inputs]

    @property
    def used(self) -> list[Column]:
        return [column for column in self.columns if column.kind != "left out"]

    def __call__(self, table: Table, notes: Notes | None = None) -> Any:
        """x of a table's rows. What had to be corrected goes to `notes`; what cannot be corrected is an error."""
        if self.image is not None:
            return self._pixels(table)
        return TableTransformer.of(self.columns).rows(table, notes or Notes())

    def _pixels(self, table: Table) -> NDArray[Any]:
        found = as_array(table) if table.images is None and len(self.image or ()) == 1 else table.images
        if found is not None and found.ndim == 3 and len(self.image or ()) == 3:
            found = found[:, None]  # one channel
        if found is None:
            raise DataError(
                f"'{table.path}' has no images, and the model was trained on images\nGive a folder of images."
            )
        if found.shape[1:] != self.image:
            raise DataError(
                f"'{table.path}' has images of shape {found.shape[1:]}, and the model was trained on {self.image}\n"
                "Resize them to match."
            )
        return found

    # ---- files ----

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        state = {"format": _FORMAT, "version": _VERSION, **asdict(self)}
        wide = any(column.vocabulary is not None for column in self.columns)  # thousands of words: not one line each
        write_whole(path, json.dumps(state, indent=None if wide else 1, ensure_ascii=False).encode())

    @classmethod
    def load(cls, path: Path) -> Preprocessing:
        """Read what `save` wrote."""
        try:
            state = json.loads(present(path).read_text(encoding="utf-8"))
            if state["format"] != _FORMAT or state["version"] > _VERSION:
                raise DataError(f"'{path}' was written by another program or a newer dssl\nUpgrade dssl, or fit again.")
            columns = tuple(Column.read(c) for c in state["columns"])
            image = tuple(state["image"]) if state["image"] else None
            labels, separator = (tuple(state["labels"]), tuple(state["label_names"])), state.get("separator")
            read = cls(columns, image, *labels, state["id"], separator)
        except DataError:
            raise
        except (KeyError, TypeError, ValueError, RecursionError) as error:  # numbers of 5,000 digits are refused too
            raise DataError(f"'{path}' is damaged: {shown(str(error))}\n{_INTACT}") from None
        if fault := read._fault():
            raise DataError(f"'{path}' is damaged: {fault}\n{_INTACT}")
        return read

    def _fault(self) -> str:
        """Which entry cannot be used, or nothing: the file may have been edited."""
        if odd := unfit(self.columns):
            return odd
        names = (*self.labels, *self.label_names, *(() if self.id is None else (self.id,)))
        if not all(isinstance(name, str) for name in names):
            return "names of labels, or of rows, are not text"
        if not (self.separator is None or (isinstance(self.separator, str) and self.separator)):
            return f"names cannot be separated by {shown(repr(self.separator))}"
        sizes = self.image or (1,)
        if not 1 <= len(sizes) <= 4 or not all(type(n) is int and n > 0 for n in sizes):
            return f"images cannot have the shape {shown(repr(self.image))}"
        return ""

    @property
    def inputs_of(self) -> dict[str, list[int]]:
        """Places among the inputs of those that are made of each column; nothing for images."""
        out, at = {}, 0
        for column in self.used:
            out[column.name] = list(range(at, at + len(column.inputs)))
            at += len(column.inputs)
        return out

    @property
    def picture(self) -> tuple[tuple[int, int] | None, int | None]:
        """Height and width, and channels, to which pictures of a folder are brought; None where rows are none."""
        if self.image is None or len(self.image) != 3:
            return None, None
        channels, height, width = self.image
        return (height, width), channels

    @classmethod
    def of_names(cls, features: Sequence[str], labels: Sequence[str]) -> Preprocessing:
        """For a model saved from Python: features are columns of numbers, label columns are named after labels."""
        columns = tuple(Column(str(name), "numeric", fill=None) for name in features)
        return cls(columns, labels=tuple(labels), label_names=tuple(labels))


# ---- more rows than memory holds ----

_HELD = 1 << 28  # bytes of x that are held at most, besides what training needs


class TableData(ParquetData):
    """Rows of Parquet files, each block read as a table is, by what was decided on a sample of it.

    `without`: numbers of rows that are not learned from. `notes` collects what had to be corrected.
    """

    def __init__(self, path: Path, preprocessing: Preprocessing, labelling: Labelling, without: Rows) -> None:
        self._path, self._preprocessing, self._labelling, self.notes = path, preprocessing, labelling, Notes()
        used = [column.name for column in preprocessing.used]
        window = 16
        block = int(np.clip(_HELD // (8 * window * max(1, len(preprocessing.inputs))), 256, 8192))
        super().__init__(path, used, {}, labelling.space, block=block, window=window)
        self.names = None  # features are not columns
        self.labelled = np.setdiff1d(self.labelled, without, assume_unique=True)

    def _table(self, block: Block, names: Sequence[str]) -> Table:
        before = sum(b.length for b in self._blocks if b.file < block.file)
        return Table(self._path, "Parquet", self._columns(block, names), first=before + block.offset + 1)

    def _read_features(self, block: Block) -> NDArray[np.float32]:
        x = self._preprocessing(self._table(block, self._features), self.notes)
        return np.asarray(x.toarray() if sp.issparse(x) else x, np.float32)

    def _read_labels(self, block: Block) -> NDArray[np.float32]:
        return np.asarray(self._labelling.encode(self._table(block, self._labelling.columns)), np.float32)


def as_array(table: Table) -> NDArray[Any] | None:
    """The columns x0, x1, … of an NPZ file's table as the array (n, columns) they were; None for other tables."""
    names = [name for name in table.names if name not in table.labels]
    return table.frame.select(names).to_numpy() if table.format == "NPZ" and table.images is None else None
