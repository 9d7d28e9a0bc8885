"""Data files, or folders of them, → tables of raw columns: CSV, Parquet, NPZ, ARFF and images, whole or in chunks.

Cells of CSV files stay text here; what a column means is decided over all its rows, by `columns`.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssl import files
from dssl.circuits.formats.packed import Damaged, unpacked
from dssl.circuits.formats.packed import arrays as packed_arrays
from dssl.data.cells import cells
from dssl.errors import DataError
from dssl.logic.language.variables import listed, shown

if TYPE_CHECKING:
    from dssl.data.stored.images import ImageFolderData

FORMATS = "CSV (.csv, .tsv), Parquet (.parquet), NPZ (.npz), ARFF (.arff), or a folder of images or Parquet files"
CHUNK = 8192  # rows read at a time where a file is not read as a whole
# Polars reads CSV files ahead, hundreds of megabytes with its own blocks; blocks of this size hold it back.
os.environ.setdefault("POLARS_CSV_CHUNK_SIZE", str(1 << 18))
_UNLABELLED = ("unlabelled", "unlabeled")
_MEND = "Correct that line: every opening quote needs a closing one."
_ROW = "number of the row, as dssl counts"  # unlike any column
_FILE, _CLASS, _LABELS = "file", "class", "labels.csv"


@dataclass(frozen=True)
class Table:
    """Rows of a file: `frame` has its columns; images are separate, as `images` (n, channels, height, width) of bytes.

    Arrays of NPZ files that are no tables are `images` too, in the shape they have: (n, height, width) or
    (n, elements, …).

    `labels`: the columns that the format itself marks as labels. `first`: the number of the first row; for text files,
    its line as an editor shows it. `rows`: the numbers of the rows, if these are part of a larger table. `separator`:
    what stands between the cells of a text file. `hierarchy`: the classes above each class, if the format gives them;
    cells of its one label column then name a row's classes, with @ between them.
    """

    path: Path
    format: str
    frame: pl.DataFrame
    images: NDArray[Any] | None = None
    labels: tuple[str, ...] = ()
    first: int = 1
    rows: NDArray[np.int64] | None = None
    separator: str = ""
    hierarchy: Mapping[str, list[str]] | None = None

    def __len__(self) -> int:
        return self.frame.height

    def slice(self, start: int, stop: int) -> Table:
        """Some consecutive rows, counted from 0."""
        images = None if self.images is None else self.images[start:stop]
        rows = None if self.rows is None else self.rows[start:stop]
        first = self.first + start if rows is None else self.first
        return replace(self, frame=self.frame[start:stop], images=images, first=first, rows=rows)

    def take(self, rows: NDArray[np.int64]) -> Table:
        """Some rows, counted from 0; they keep their places in the file."""
        images = None if self.images is None else self.images[rows]
        numbers = rows if self.rows is None else self.rows[rows]
        return replace(self, frame=self.frame[rows.tolist()], images=images, rows=numbers)

    def place(self, row: int) -> str:
        """Where a row, counted from 0, is found in the file."""
        what = "line" if self.format in ("CSV", "TSV") else "row"
        return f"{what} {int(row if self.rows is None else self.rows[row]) + self.first}"

    @property
    def names(self) -> list[str]:
        return list(self.frame.columns)


def read(path: Path, image_size: tuple[int, int] | None = None, channels: int | None = None) -> Table:
    """A file as a table."""
    chunks = list(stream(path, image_size, channels, chunk=None))
    return chunks[0]


def stream(
    path: Path, image_size: tuple[int, int] | None = None, channels: int | None = None, chunk: int | None = CHUNK
) -> Iterator[Table]:
    """A file as tables of about `chunk` rows, read one after the other: None for all rows at once."""
    if not path.is_dir():
        files.present(path)
    parts = parquet_files(path) != [path]
    if path.is_dir() and not parts:
        yield from _images(path, image_size, channels, chunk)
        return
    if not path.is_file() and not parts:  # a pipe or a device may never end
        raise DataError(f"'{path}' is not a regular file\nGive {FORMATS}.")
    suffix = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    readers: dict[str, Any] = {
        ".csv": _csv, ".tsv": _csv, ".txt": _csv, ".parquet": _parquet, ".npz": _npz, ".arff": _arff,
    }  # fmt: skip
    suffix = ".parquet" if parts else suffix.lower()
    if suffix not in readers:
        raise DataError(f"'{path}' has a format that dssl does not read\nGive {FORMATS}.")
    found = False
    for table in readers[suffix](path, chunk):
        found = found or len(table) > 0
        yield table
    if not found:
        raise DataError(f"'{path}' has no rows\nGive a file with one row per sample.")


# ---- CSV ----


def _csv(path: Path, chunk: int | None) -> Iterator[Table]:
    packed = _unpacked(path) if path.suffix == ".gz" else None
    separator = _separator(path, packed)
    frame = pl.scan_csv(path if packed is None else packed, separator=separator, infer_schema=False)
    name, first, whole = "TSV" if separator == "\t" else "CSV", 2, False  # line 1 is the header
    try:
        for batch in [frame.collect()] if chunk is None else _resized(frame.collect_batches(chunk_size=chunk), chunk):
            if not whole and batch.width > 1 and batch[batch.columns[-1]].null_count():  # polars fills up short lines
                _refuse_short(path, packed, separator)
                whole = True
            yield Table(path, name, _named(_refuse_repeats(batch, path)), first=first, separator=separator)
            first += batch.height
    except pl.exceptions.NoDataError:
        raise DataError(f"'{path}' is empty\nGive a file with a header and rows.") from None
    except OSError as error:
        if error.errno is not None:  # from the system, not from the content
            raise
        raise DataError(
            f"'{path}' cannot be read: it begins like a compressed file ({shown(str(error))})\n"
            "If it is one, unpack it; if it is not, rename its first column."
        ) from None
    except pl.exceptions.PolarsError as error:
        fault = _csv_fault(path, packed, separator) or f"{shown(str(error))}\n{_MEND}"
        raise DataError(f"'{path}' cannot be read: {fault}") from None


def _resized(batches: Iterable[pl.DataFrame], chunk: int) -> Iterator[pl.DataFrame]:
    """Batches of at most `chunk` rows: a reader may give larger ones."""
    for batch in batches:
        yield from batch.iter_slices(chunk)


def _unpacked(path: Path) -> bytes:
    try:
        return unpacked(path)
    except Damaged as error:
        raise DataError(f"'{path}' cannot be unpacked: {error}\nGet the file again, or unpack it.") from None


def _separator(path: Path, packed: bytes | None) -> str:
    """What stands between the columns: whichever mark is most frequent in the header."""
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


def _refuse_short(path: Path, packed: bytes | None, separator: str) -> None:
    """An error about the first line with too few cells. Lines without any are ignored."""
    with _lines(path, packed) as file:
        rows = csv.reader(file, delimiter=separator)
        width = len(next(rows))
        try:
            short = next((row for row in rows if row and len(row) < width), None)
        except (csv.Error, UnicodeDecodeError):  # polars has read it
            return
    if short is not None:
        raise DataError(
            f"'{path}' cannot be read: line {rows.line_num} has {len(short)} cell{'' if len(short) == 1 else 's'} for "
            f"{width} columns\nWrite a '{separator}' for each cell that is empty, or remove the line."
        )


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


def parquet_files(path: Path) -> list[Path]:
    """The Parquet files of a folder, in the order of their names; if there are none, the path itself."""
    return sorted(path.glob("*.parquet")) or [path]


@contextmanager
def reading_parquet(path: Path) -> Iterator[None]:
    """Turns what the reader raises on a damaged file into a `DataError`; on damaged pages it panics."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DataError(f"'{path}' cannot be read as Parquet: {str(error)[:200]}\nCheck the file.") from None


def _parquet(path: Path, chunk: int | None) -> Iterator[Table]:
    rows = parquet_rows(path)
    size = chunk or max(rows, 1)
    for start in range(0, rows, size):
        yield parquet_slice(path, start, size)


def parquet_rows(path: Path) -> int:
    """How many rows Parquet files have."""
    with reading_parquet(path):
        return int(pl.scan_parquet(parquet_files(path)).select(pl.len()).collect().item())


def parquet_slice(path: Path, start: int, size: int) -> Table:
    """So many rows of Parquet files, or what is left of them, from `start` on."""
    with reading_parquet(path):
        return Table(
            path, "Parquet", pl.scan_parquet(parquet_files(path)).slice(start, size).collect(), first=start + 1
        )


def parquet_cells(path: Path) -> int:
    """How many cells the Parquet files of a path have; 0 for other files."""
    files_ = parquet_files(path)
    if not all(file.suffix == ".parquet" and file.is_file() for file in files_):
        return 0
    with reading_parquet(path):
        frame = pl.scan_parquet(files_)
        return int(frame.select(pl.len()).collect().item()) * len(frame.collect_schema().names())


def sample_parquet(path: Path, labels: Sequence[str], labelled: int, others: int, seed: int = 0) -> Table:
    """At most so many rows of which a label is known, and other rows, drawn at random from Parquet files."""
    random = np.random.default_rng(seed)
    with reading_parquet(path):
        frame = pl.scan_parquet(parquet_files(path))
        told = frame.select(labels).collect(engine="streaming")
        known = np.zeros(told.height, np.bool_)
        for name in told.columns:
            known |= cells(told[name]).is_not_null().to_numpy()
        drawn = [
            rows if len(rows) <= most else random.choice(rows, most, replace=False)
            for rows, most in ((np.flatnonzero(known), labelled), (np.flatnonzero(~known), others))
        ]
        rows = np.sort(np.concatenate(drawn))
        chosen = pl.col(_ROW).is_in(pl.Series(rows, dtype=pl.UInt32).implode())
        sample = frame.with_row_index(_ROW).filter(chosen).collect(engine="streaming").sort(_ROW)
    return Table(path, "Parquet", sample.drop(_ROW), rows=rows)


def _arff(path: Path, chunk: int | None) -> Iterator[Table]:
    from dssl.data.formats.arff import parents_of, read_arff, with_parents

    arff = read_arff(path)
    if len(set(arff.features)) < len(arff.features):
        twice = max(arff.features, key=arff.features.count)
        raise DataError(f"'{path}' has two attributes '{shown(twice)}'\nRename one of them.")
    columns = {}
    for i, (name, values) in enumerate(zip(arff.features, arff.values)):
        x = arff.x[:, i]
        nominal = [None if np.isnan(v) else values[int(v)] for v in x] if values else None
        columns[name] = pl.Series(name, nominal, pl.String) if values else pl.Series(name, x).fill_nan(None)
    if arff.hierarchy is None:
        yield from _chunks(Table(path, "ARFF", pl.DataFrame(columns)), chunk)
        return
    if arff.target in columns:
        raise DataError(f"'{path}' has two attributes '{shown(arff.target)}'\nRename one of them.")
    parents = parents_of(arff.hierarchy, f"'{path}'")
    every = enumerate(arff.labels, 1)
    closed = ["@".join(with_parents(y, parents, f"'{path}': row {i}")) if y != "?" else None for i, y in every]
    frame = pl.DataFrame({**columns, arff.target: pl.Series(closed, dtype=pl.String).replace("", "[]")})
    yield from _chunks(Table(path, "ARFF", frame, labels=(arff.target,), hierarchy=parents), chunk)


def _npz(path: Path, chunk: int | None) -> Iterator[Table]:
    try:
        arrays = packed_arrays(path)
    except Damaged as error:
        raise DataError(f"'{path}' is not an NPZ file of plain arrays: {error}\nWrite it with numpy.savez.") from None
    if "X" not in arrays:
        raise DataError(
            f"'{path}' has no array X; its arrays: {listed(arrays) or 'none'}\nSave with savez(path, X=…, y=…)."
        )
    x, y = arrays["X"], arrays.get("y")
    if x.ndim not in (2, 3, 4, 5) or x.dtype.kind not in "biuf":
        raise DataError(
            f"'{path}': X has shape {x.shape} of {x.dtype}\n"
            "Give numbers (n, features), (n, c, h, w) or (n, elements, …)."
        )
    if y is not None and (y.ndim not in (1, 2) or len(y) != len(x)):
        raise DataError(
            f"'{path}': y has shape {y.shape} for {len(x)} rows of X\nGive one label, or one row of labels, for each."
        )
    if y is not None and y.dtype.kind not in "biufUS":
        raise DataError(f"'{path}': y holds {y.dtype}\nGive classes as numbers or texts.")
    columns = {f"x{i}": x[:, i] for i in range(x.shape[1])} if x.ndim == 2 else {}
    labels = {} if y is None else {"y": y} if y.ndim == 1 else {f"y{i}": y[:, i] for i in range(y.shape[1])}
    known = {name: _known(column) for name, column in labels.items()}
    frame = pl.DataFrame({**columns, **known}) if columns or known else pl.DataFrame({"row": range(len(x))})
    images = None if x.ndim == 2 else x
    yield from _chunks(Table(path, "NPZ", frame, images, tuple(labels)), chunk)


def _known(y: NDArray[Any]) -> pl.Series:
    """Labels with null for NaN and empty texts."""
    if y.dtype.kind in "US":
        return pl.Series([str(v) or None for v in y])
    return pl.Series(y).fill_nan(None) if y.dtype.kind == "f" else pl.Series(y)


def _chunks(table: Table, chunk: int | None) -> Iterator[Table]:
    """A table that is in memory, in chunks."""
    step = chunk or max(len(table), 1)
    for start in range(0, len(table), step):
        yield table.slice(start, start + step)


# ---- images ----


def _images(path: Path, size: tuple[int, int] | None, channels: int | None, chunk: int | None) -> Iterator[Table]:
    data, frame = picture_folder(path, size, channels)
    step = len(frame) if chunk is None else min(chunk, data.at_once)
    for start in range(0, len(frame), step):
        rows = np.arange(start, min(start + step, len(frame)))
        labels = tuple(name for name in frame.columns if name != _FILE)
        yield Table(path, "images", frame[rows.tolist()], data.pixels(rows), labels, start + 1)


def picture_folder(
    path: Path, size: tuple[int, int] | None = None, channels: int | None = None
) -> tuple[ImageFolderData, pl.DataFrame]:
    """A folder of images, to be decoded in the size of the first one, and the name and labels of each."""
    from dssl.data.stored.images import ImageFolderData
    from dssl.logic.space import LabelSpace

    folders = sorted(p.name for p in path.iterdir() if p.is_dir() and p.name not in _UNLABELLED)
    space = LabelSpace.classes(folders or ["image"])
    probe = ImageFolderData(path, space, size=(1, 1))
    found_size, found_channels = _shape(probe.paths[0])
    data = ImageFolderData(path, space, size=size or found_size, channels=channels or found_channels)
    names = [p.relative_to(path).as_posix() for p in data.paths]
    frame = _listed_labels(path / _LABELS, names) if (path / _LABELS).is_file() else _folder_classes(names)
    return data, frame


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
        raise DataError(
            f"'{path}' lists '{strange[_FILE][0]}', which is not an image in that folder\nGive paths within the folder."
        )
    return pl.DataFrame({_FILE: names}).join(listed, on=_FILE, how="left", maintain_order="left")
