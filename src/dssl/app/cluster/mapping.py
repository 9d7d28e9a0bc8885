"""A saved model mapped over rows by Ray: actors load it once, and each answers for one chunk of rows after another.

A task that is lost with its machine or process runs again, and only its second answer is seen: no row is lost or
doubled.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dssl.app.trained import Question, Trained
from dssl.data.tables import CHUNK, Table, parquet_files, parquet_rows, parquet_slice
from dssl.errors import DataError

_SLICES = 8  # chunks of one task


def frames(trained: Trained, model: Path, data: Path, question: Question) -> Iterator[pl.DataFrame]:
    """Answers for the rows of Parquet files, in their order; `trained` collects what had to be corrected in them."""
    ray = require_ray()
    if not all(file.suffix == ".parquet" and file.is_file() for file in parquet_files(data)):
        raise DataError(
            f"'{data}' is not Parquet, which several machines can read at once\n"
            "Give Parquet files, or leave out --engine ray."
        )
    starts = range(0, parquet_rows(data), CHUNK)
    if not len(starts):
        raise DataError(f"'{data}' has no rows\nGive a file with one row per sample.")
    items = [{"number": number, "start": start} for number, start in enumerate(starts)]
    with _quiet(ray):
        dataset = ray.data.from_items(items, override_num_blocks=-(-len(items) // _SLICES))
        found = dataset.map_batches(
            _Slices,
            fn_constructor_args=(str(model.resolve()), str(data.resolve()), question),
            batch_size=_SLICES,
            **_pool(ray, -(-len(items) // _SLICES), beside=0),
        )
        yield from _in_order(found.iter_rows(), trained)


def predict(
    dataset: Any, model: str | Path, *, proba: bool = False, actors: int | None = None, rows: int = CHUNK
) -> Any:
    """The dataset with the most probable valid label of each row, given a Ray Dataset and the folder of a model.

    Its columns stay, with those of labels added, named as in training; with `proba`, also one for the probability of
    each label. `actors` load the model: by default one for each processor of the cluster but one, which reads. Each
    takes so many `rows` at a time. The folder must be where every machine can read it.
    """
    ray = require_ray()
    return dataset.map_batches(
        _Rows,
        fn_constructor_args=(str(Path(model).resolve()), proba),
        batch_size=rows,
        batch_format="pyarrow",
        **_pool(ray, actors, beside=1),
    )


def require_ray() -> Any:
    """Ray, or an error that says how to install it."""
    try:
        import ray.data
    except ImportError:
        raise DataError("Ray is not installed\nInstall it: pip install 'dssl[ray]'") from None
    return ray


# ---- actors ----


class _Slices:
    """An actor that answers for slices of Parquet files."""

    def __init__(self, model: str, data: str, question: Question) -> None:
        self.trained, self.data, self.question = Trained.open(Path(model)), Path(data), question

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Of each slice its number, the answers in bytes, what was corrected, and what is wrong with it."""
        out: dict[str, list[Any]] = {"number": [], "answers": [], "notes": [], "error": []}
        for number, start in zip(batch["number"].tolist(), batch["start"].tolist()):
            answers, error = b"", ""
            self.trained.notes.counts.clear()
            self.trained.notes.examples.clear()
            try:
                table = parquet_slice(self.data, start, CHUNK)
                answers = _packed(self.question.answer(self.trained, table, number))
            except DataError as wrong:  # Ray would wrap it in its own errors, and run the task again
                error = str(wrong)
            notes = {"counts": self.trained.notes.counts, "examples": self.trained.notes.examples}
            for name, value in zip(out, (number, answers, json.dumps(notes), error)):
                out[name].append(value)
        return {name: np.array(values, dtype=object) for name, values in out.items()}


class _Rows:
    """An actor that adds labels to rows of a dataset."""

    def __init__(self, model: str, proba: bool) -> None:
        self.trained, self.proba = Trained.open(Path(model)), proba

    def __call__(self, batch: Any) -> Any:
        frame = pl.DataFrame(pl.from_arrow(batch))
        labels = self.trained.predict(Table(Path("dataset"), "Ray", frame), None, proba=self.proba).drop("row")
        taken = [name for name in labels.columns if name in frame.columns]
        return frame.drop(taken).hstack(labels).to_arrow()


def _packed(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_ipc(file, compression="zstd")
    return file.getvalue()


def _in_order(rows: Iterator[dict[str, Any]], trained: Trained) -> Iterator[pl.DataFrame]:
    """Answers by the numbers of their chunks, whichever actor was ready first."""
    waiting: dict[int, dict[str, Any]] = {}
    following = 0
    for row in rows:
        waiting[int(row["number"])] = row
        while following in waiting:
            ready = waiting.pop(following)
            if ready["error"]:
                raise DataError(ready["error"])
            notes = json.loads(ready["notes"])
            for what, count in notes["counts"].items():
                trained.notes.add(what, count, notes["examples"][what])
            yield pl.read_ipc(io.BytesIO(ready["answers"]))
            following += 1


# ---- the cluster ----


def _pool(ray: Any, most: int | None, beside: int) -> dict[str, Any]:
    """As many actors as there are processors, without those that reading takes, and no more than there is work for."""
    if not ray.is_initialized():
        ray.init(logging_level="warning", log_to_driver=False, include_dashboard=False)
    processors = int(ray.cluster_resources().get("CPU", 1))
    free = max(1, processors - beside)
    own = 1 if processors > beside else 0  # one processor has to do both
    return {"compute": ray.data.ActorPoolStrategy(size=min(free, most or free)), "num_cpus": own}


@contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """Without Ray's bars, and without a cluster afterwards that was not there before."""
    context = ray.data.DataContext.get_current()
    before, running = context.enable_progress_bars, ray.is_initialized()
    context.enable_progress_bars = False
    try:
        yield
    finally:
        context.enable_progress_bars = before
        if not running:
            ray.shutdown()
