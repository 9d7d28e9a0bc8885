"""Data files → tables of raw columns: CSV, Parquet, NPZ, ARFF and folders of images, whole or a part at a time.

Cells of CSV files stay text here; what a column means is decided over all its rows, by `columns`.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssl.circuits.packed import Damaged, unpacked
from dssl.circuits.packed import arrays as packed_arrays
from dssl.errors import DataError
from dssl.logic.variables import listed, shown

FORMATS = "CSV (.csv, .tsv), Parquet (.parquet), NPZ (.npz), ARFF (.arff), or a folder of images"
PART = 8192  # rows read at a time where a file is not read as a whole
# Polars reads CSV files ahead, hundreds of megabytes with its own blocks; blocks of this size hold it back.
os.environ.setdefault("POLARS_CSV_CHUNK_SIZE", str(1 << 18))
_UNLABELLED = ("unlabelled", "unlabeled")
_MEND = "Mend that line: a quote that is opened must be closed."
_FILE, _CLASS, _LABELS = "file", "class", "labels.csv"


@dataclass(frozen=True)
class Table:
    """Rows of a file: `frame` has its columns; images are apart, as `images` (n, channels, height, width) of bytes.

    `labels`: the columns that the format itself knows to be labels. `first`: the number of the first row, as an
    editor would show it: the line of the file, where it has lines.
    """

    path: Path
    format: str
    frame: pl.DataFrame
    images: NDArray[Any] | None = None
    labels: tuple[str, ...] = ()
    first: int = 1

    def __len__(self) -> int:
        return self.frame.height

    def place(self, row: int) -> str:
        """Where a row, counted from 0, is found in the file."""
        what = "line" if self.format in ("CSV", "TSV") else "row"
        return f"{what} {row + self.first}"

    @property
    def names(self) -> list[str]:
        return list(self.frame.columns)


def read(path: Path, image_size: tuple[int, int] | None = None, channels: int | None = None) -> Table:
    """A file as a table."""
    parts = list(stream(path, image_size, channels, part=None))
    return parts[0]


def stream(
    path: Path, image_size: tuple[int, int] | None = None, channels: int | None = None, part: int | None = PART
) -> Iterator[Table]:
    """A file as tables of about `part` rows, read one after the other: None for all rows at once."""
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    if path.is_dir():
        yield from _images(path, image_size, channels, part)
        return
    if not path.is_file():  # a pipe or a device may never end
        raise DataError(f"'{path}' is no regular file\nGive {FORMATS}.")
    suffix = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    readers: dict[str, Any] = {
        ".csv": _csv, ".tsv": _csv, ".txt": _csv, ".parquet": _parquet, ".npz": _npz, ".arff": _arff,
    }  # fmt: skip
    if suffix.lower() not in readers:
        raise DataError(f"'{path}' is of a kind dssl does not read\nGive {FORMATS}.")
    found = False
    for table in readers[suffix.lower()](path, part):
        found = found or len(table) > 0
        yield table
    if not found:
        raise DataError(f"'{path}' has no rows\nGive a file with a row for each sample.")


# ---- CSV ----


def _csv(path: Path, part: int | None) -> Iterator[Table]:
    packed = _unpacked(path) if path.suffix == ".gz" else None
    separator = _separator(path, packed)
    frame = pl.scan_csv(path if packed is None else packed, separator=separator, infer_schema=False)
    name, first = "TSV" if separator == "\t" else "CSV", 2  # line 1 is the header
    try:
        for batch in [frame.collect()] if part is None else _resized(frame.collect_batches(chunk_size=part), part):
            yield Table(path, name, _named(_refuse_repeats(batch, path)), first=first)
            first += batch.height
    except pl.exceptions.NoDataError:
        raise DataError(f"'{path}' is empty\nGive a file with a header and rows.") from None
    except pl.exceptions.PolarsError as error:
        fault = _csv_fault(path, packed, separator) or f"{shown(str(error))}\n{_MEND}"
        raise DataError(f"'{path}' cannot be read: {fault}") from None


def _resized(batches: Iterable[pl.DataFrame], part: int) -> Iterator[pl.DataFrame]:
    """Batches of at most `part` rows: a reader may give larger ones."""
    for batch in batches:
        yield from batch.iter_slices(part)


def _unpacked(path: Path) -> bytes:
    try:
        return unpacked(path)
    except Damaged as error:
        raise DataError(f"'{path}' cannot be unpacked: {error}\nGet the file again, or unpack it.") from None


def _separator(path: Path, packed: bytes | None) -> str:
    """What stands between the columns: whatever the header has most of."""
    try:
        with _lines(path, packed) as file:
            header = file.readline()
    except UnicodeDecodeError as error:
        raise DataError(f"'{path}' cannot be read: {_not_text(error)}") from None
    if "\0" in header:
        raise DataError(f"'{path}' has zero bytes in its header\nIf it is UTF-16, save it as UTF-8.")
    return max(",;\t", key=header.count)


def _lines(path: Path, packed: bytes | None) -> TextIO:
    file = path.open("rb") if packed is None else io.BytesIO(packed)
    return io.TextIOWrapper(file, encoding="utf-8-sig", newline="")


def _not_text(error: UnicodeDecodeError) -> str:
    return f"it is not UTF-8 text (byte {error.start})\nSave it as UTF-8."


def _named(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with quotes in its header read as in cells, where two stand for one; polars leaves them."""
    return frame.rename({name: name.replace('""', '"') for name in frame.columns if '""' in name})


def _refuse_repeats(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    twice = next((name for name in frame.columns if "_duplicated_" in name), None)
    if twice is not None:
        raise DataError(f"'{path}' has two columns '{shown(twice.rpartition('_duplicated_')[0])}'\nRename one of them.")
    return frame


def _csv_fault(path: Path, packed: bytes | None, separator: str) -> str:
    """The line at which a CSV file goes wrong, found by reading it slowly."""
    try:
        with _lines(path, packed) as file:
            rows = csv.reader(file, delimiter=separator)
            width = len(next(rows))
            for row in rows:
                if len(row) > width:
                    return (
                        f"line {rows.line_num} has {len(row)} cells for {width} columns\n"
                        f"Put texts that contain '{separator}' in double quotes."
                    )
    except UnicodeDecodeError as error:
        return _not_text(error)
    except csv.Error as error:
        return f"line {rows.line_num}: {error}\n{_MEND}"
    return ""


# ---- Parquet, ARFF, NPZ ----


PARQUET_FAULTS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)  # the second of damaged pages


def _parquet(path: Path, part: int | None) -> Iterator[Table]:
    try:
        frame = pl.scan_parquet(path)
        rows = int(frame.select(pl.len()).collect().item())
        size = part or max(rows, 1)
        for start in range(0, rows, size):
            yield Table(path, "Parquet", frame.slice(start, size).collect(), first=start + 1)
    except PARQUET_FAULTS as error:
        raise DataError(f"'{path}' is no Parquet file: {str(error)[:200]}\nCheck the file.") from None


def _arff(path: Path, part: int | None) -> Iterator[Table]:
    from dssl.training.arff import read_arff

    arff = read_arff(path)
    if arff.hierarchy is not None:
        raise DataError(
            f"'{path}' has a hierarchical class attribute, which dssl fit does not read\n"
            "Write a column for each class and the hierarchy as rules (child -> parent), or use Python: "
            "LabelSpace.hierarchy."
        )
    if len(set(arff.features)) < len(arff.features):
        twice = max(arff.features, key=arff.features.count)
        raise DataError(f"'{path}' has two attributes '{shown(twice)}'\nRename one of them.")
    columns = {}
    for i, (name, values) in enumerate(zip(arff.features, arff.values)):
        x = arff.x[:, i]
        nominal = [None if np.isnan(v) else values[int(v)] for v in x] if values else None
        columns[name] = pl.Series(name, nominal, pl.String) if values else pl.Series(name, x).fill_nan(None)
    yield from _parts(Table(path, "ARFF", pl.DataFrame(columns)), part)


def _npz(path: Path, part: int | None) -> Iterator[Table]:
    try:
        arrays = packed_arrays(path)
    except Damaged as error:
        raise DataError(f"'{path}' is no NPZ file of plain arrays: {error}\nWrite it with numpy.savez.") from None
    if "X" not in arrays:
        raise DataError(f"'{path}' has no array X, but {listed(arrays) or 'none'}\nSave with savez(path, X=…, y=…).")
    x, y = arrays["X"], arrays.get("y")
    if x.ndim not in (2, 3, 4) or x.dtype.kind not in "biuf":
        raise DataError(f"'{path}': X has shape {x.shape} of {x.dtype}\nGive numbers (n, features) or (n, c, h, w).")
    if y is not None and (y.ndim not in (1, 2) or len(y) != len(x)):
        raise DataError(f"'{path}': y has shape {y.shape} for {len(x)} rows of X\nGive a label, or a row, for each.")
    if y is not None and y.dtype.kind not in "biufUS":
        raise DataError(f"'{path}': y holds {y.dtype}\nGive classes as numbers or texts.")
    columns = {f"x{i}": x[:, i] for i in range(x.shape[1])} if x.ndim == 2 else {}
    labels = {} if y is None else {"y": y} if y.ndim == 1 else {f"y{i}": y[:, i] for i in range(y.shape[1])}
    known = {name: _known(column) for name, column in labels.items()}
    frame = pl.DataFrame({**columns, **known}) if columns or known else pl.DataFrame({"row": range(len(x))})
    images = None if x.ndim == 2 else x if x.ndim == 4 else x[:, None]
    yield from _parts(Table(path, "NPZ", frame, images, tuple(labels)), part)


def _known(y: NDArray[Any]) -> pl.Series:
    """Labels with null for NaN and empty texts."""
    if y.dtype.kind in "US":
        return pl.Series([str(v) or None for v in y])
    return pl.Series(y).fill_nan(None) if y.dtype.kind == "f" else pl.Series(y)


def _parts(table: Table, part: int | None) -> Iterator[Table]:
    """A table that is in memory, in parts."""
    for start in range(0, len(table), part or max(len(table), 1)):
        rows = slice(start, start + (part or len(table)))
        yield Table(
            table.path, table.format, table.frame[rows], None if table.images is None else table.images[rows],
            table.labels, table.first + start,
        )  # fmt: skip


# ---- images ----


def _images(path: Path, size: tuple[int, int] | None, channels: int | None, part: int | None) -> Iterator[Table]:
    from dssl.logic.space import LabelSpace
    from dssl.training.data import ImageFolderData

    folders = sorted(p.name for p in path.iterdir() if p.is_dir() and p.name not in _UNLABELLED)
    space = LabelSpace.classes(folders or ["image"])
    probe = ImageFolderData(path, space, size=(1, 1))
    found_size, found_channels = _shape(probe.paths[0])
    data = ImageFolderData(path, space, size=size or found_size, channels=channels or found_channels)
    names = [p.relative_to(path).as_posix() for p in data.paths]
    frame = _listed_labels(path / _LABELS, names) if (path / _LABELS).is_file() else _folder_classes(names)
    for start in range(0, len(names), part or len(names)):
        rows = np.arange(start, min(start + (part or len(names)), len(names)))
        x = (data.batch(rows).x * 255).round().byte().numpy()
        labels = tuple(name for name in frame.columns if name != _FILE)
        yield Table(path, "images", frame[rows.tolist()], x, labels, start + 1)


def _shape(path: Path) -> tuple[tuple[int, int], int]:
    """The size of an image, and whether it is grey (1 channel) or in colours (3)."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return (image.height, image.width), 1 if image.mode in ("1", "L", "I;16") else 3
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"the image '{path}' cannot be read: {error}\nReplace or remove it.") from None


def _folder_classes(names: list[str]) -> pl.DataFrame:
    above = [name.split("/")[0] if "/" in name else None for name in names]
    classes = [None if folder in _UNLABELLED else folder for folder in above]
    return pl.DataFrame({_FILE: names, _CLASS: pl.Series(classes, dtype=pl.String)})


def _listed_labels(path: Path, names: list[str]) -> pl.DataFrame:
    listed = read(path).frame
    listed = listed.rename({listed.columns[0]: _FILE})
    strange = listed.filter(~pl.col(_FILE).is_in(names))
    if strange.height:
        raise DataError(f"'{path}' lists '{strange[_FILE][0]}', which is no image there\nGive paths within the folder.")
    return pl.DataFrame({_FILE: names}).join(listed, on=_FILE, how="left", maintain_order="left")
