"""`dssl predict` and `dssl evaluate`: a trained model and a file in, labels or scores out."""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, cast

from cyclopts import Parameter

from dssl.app.terminal import JSON, Terminal, UsageError

if TYPE_CHECKING:
    import polars as pl

    from dssl.app.trained import Question, Trained

_MODEL = Parameter(help="Folder of a run, or of a saved model.")
_DATA = Parameter(help="CSV, Parquet, NPZ or ARFF file, or a folder of images or Parquet files.")
_SUFFIXES = (".csv", ".parquet", ".jsonl")
_ROW_GROUP = 1 << 16  # rows of a Parquet file that are held until they are written together


def predict(
    model: Annotated[Path, _MODEL],
    data: Annotated[Path, _DATA],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(help="File for the labels: .csv, .parquet or .jsonl. Default: stdout.")
    ] = None,
    proba: Annotated[bool, Parameter(help="Add the probability of each label, given the rules.", negative="")] = False,
    sample: Annotated[
        int | None, Parameter(help="Draw this many labels per row from the predicted distribution.")
    ] = None,
    seed: Annotated[int, Parameter(help="Seed of the draws.")] = 0,
    evidence_columns: Annotated[
        list[str] | None,
        Parameter(
            help="Label columns of the file that are known: the other labels are predicted given these.",
            consume_multiple=True,
            negative="",
        ),
    ] = None,
    id: Annotated[str | None, Parameter(help="Column that names the rows. Default: as in training.")] = None,
    engine: Annotated[
        Literal["local", "ray"],
        Parameter(help="Where to compute: in this process, or on a Ray cluster (Parquet files only)."),
    ] = "local",
    json: Annotated[bool, JSON] = False,
) -> None:
    """Give every row of a file its most probable valid label. Files are read a chunk at a time."""
    if sample is not None and (sample < 1 or proba):
        raise UsageError(
            "--sample needs a number of at least 1, and cannot be combined with --proba\nGive one of them."
        )
    if out is not None and out.suffix not in _SUFFIXES:
        raise UsageError(
            f"--out {out} is neither {', '.join(_SUFFIXES[:-1])} nor {_SUFFIXES[-1]}\n"
            "Give the file one of these endings."
        )
    if out is not None and out.exists() and data.exists() and out.samefile(data):
        raise UsageError(f"--out {out} is the input file\nGive another name: writing to it would destroy the data.")
    terminal = Terminal(as_json=json)
    from dssl.app.trained import Question, Trained

    trained = Trained.open(model)
    question = Question(id, proba, sample, seed, tuple(evidence_columns or ()))
    if engine == "ray":
        from dssl.app.cluster import mapping

        frames = mapping.frames(trained, model, data, question)
    else:
        frames = _frames(trained, data, question)
    if json and out is None:
        records = [record for frame in frames for record in frame.to_dicts()]
        facts: dict[str, Any] = {"rows": len(records), "predictions": records}
    else:
        rows = _to_stdout(frames) if out is None else _to_file(terminal.counted(frames), out)
        facts = {"rows": rows, "out": out and str(out)}
    for sentence in trained.notes.sentences():
        terminal.warn(f"'{data}': {sentence}")
    if out is not None:
        terminal.say(f"{facts['rows']:,} rows written to {out}")
    terminal.result(facts)


def _frames(trained: Trained, data: Path, question: Question) -> Iterator[pl.DataFrame]:
    for number, table in enumerate(trained.chunks(data)):
        yield question.answer(trained, table, number)


def _to_stdout(frames: Iterator[pl.DataFrame]) -> int:
    rows = 0
    for number, frame in enumerate(frames):
        sys.stdout.write(frame.write_csv(include_header=number == 0))
        rows += frame.height
    return rows


def _to_file(frames: Iterator[pl.DataFrame], out: Path) -> int:
    """All rows in a file, which appears only when it is complete."""
    from dssl.files import whole_file

    rows = 0
    with whole_file(out) as file:
        if out.suffix == ".parquet":
            return _to_parquet(frames, file)
        for number, frame in enumerate(frames):
            text = frame.write_ndjson() if out.suffix == ".jsonl" else frame.write_csv(include_header=not number)
            file.write(text.encode())
            rows += frame.height
    return rows


class _Handed(io.RawIOBase):
    """The file that polars writes to: it keeps the system's errors, which polars would replace by its own."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            return self.file.write(data)
        except OSError as error:
            self.error = error
            raise


def _to_parquet(frames: Iterator[pl.DataFrame], file: BinaryIO) -> int:
    """All rows as Parquet; polars asks for them, and writes them, a chunk at a time."""
    import polars as pl
    from polars.io.plugins import register_io_source

    first, handed, rows = next(frames), _Handed(file), 0

    def given(*_: object) -> Iterator[pl.DataFrame]:
        nonlocal rows
        for frame in itertools.chain([first], frames):
            rows += frame.height
            yield frame

    try:
        source = register_io_source(given, schema=first.schema, is_pure=False)
        source.sink_parquet(cast(BinaryIO, handed), row_group_size=_ROW_GROUP)
    except pl.exceptions.PolarsError:
        if handed.error is None:
            raise
    if handed.error is not None:
        raise handed.error
    return rows


def evaluate(
    model: Annotated[Path, _MODEL], data: Annotated[Path, _DATA], /, *, json: Annotated[bool, JSON] = False
) -> None:
    """Measure a model on a file of labelled rows: how often it is right, and which rules raw predictions break."""
    terminal = Terminal(as_json=json)
    from dssl.app import measures
    from dssl.app.trained import Trained

    trained = Trained.open(model)
    part = trained.measure(data)
    for sentence in trained.notes.sentences():
        terminal.warn(f"'{data}': {sentence}")
    hits, of = measures.right(part)
    low, high = measures.interval(hits, of)
    rules, broken = measures.broken_rules(part.space, [part])
    by_variable = [score for score in measures.variable_scores(part) if score.known]
    by_column = [score for score in measures.scores(part) if score.support]
    terminal.say(
        f"{hits:,} of {of:,} labelled rows are predicted right: {hits / of:.1%} "
        f"(95 % interval: {low:.1%} to {high:.1%})"
    )
    overall = measures.overall_f1(part)
    if overall is not None:
        terminal.say(f"F1 of all labels together: {overall:.1%}")
    if len(by_variable) > 1:
        terminal.table(
            "variable", "rows", "right", rows=[(s.variable, s.known, f"{s.accuracy:.1%}") for s in by_variable]
        )
    terminal.table(
        "label", "rows", "precision", "recall", "F1",
        rows=[(s.column, s.support, _share(s.precision), _share(s.recall), _share(s.f1)) for s in by_column],
    )  # fmt: skip
    for rule in rules:
        terminal.say(f"  {rule.broken['test'].raw:>6,} rows would break: {rule.text}")
    if rules:
        raw, final = broken["test"].raw, broken["test"].final
        terminal.say(
            f"the network alone would break a rule in {raw:,} of {len(part):,} rows, the final predictions in {final:,}"
        )
    terminal.result(
        {
            "rows": len(part), "labelled": of, "accuracy": hits / of, "interval": [low, high], "f1": overall,
            "variables": {s.variable: s.accuracy for s in by_variable},
            "labels": {s.column: {"rows": s.support, "precision": s.precision, "recall": s.recall, "f1": s.f1}
                       for s in by_column},
            "raw_violations": broken["test"].raw if rules else 0,
            "violations": broken["test"].final if rules else 0,
        }
    )  # fmt: skip


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
