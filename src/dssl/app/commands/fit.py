"""`dssl fit`: files and rules in, a folder with a model and a report out."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from dssl.app.options import FLAG, Options, machine
from dssl.app.terminal import Terminal, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dssl.app.preparation import Preparation
    from dssl.app.runs import RunFolder
    from dssl.models.estimators import DSSLClassifier

INTERRUPTED = 130
_SMALL = 500_000  # weights
_WATCHED = 1_000  # test rows, at most


def fit(
    data: Annotated[Path, Parameter(help="CSV, Parquet, NPZ or ARFF file, or a folder of images or Parquet files.")],
    /,
    *,
    options: Options = Options(),  # noqa: B008
    config: Annotated[
        Path | None, machine("TOML file of settings, named like these flags; a flag wins over the file.")
    ] = None,
    dry_run: Annotated[bool, machine("Show what would be done, without doing it.", **FLAG)] = False,
    json: Annotated[bool, machine("Print one JSON object, and nothing else, on stdout.", **FLAG)] = False,
    quiet: Annotated[bool, machine("Print only warnings and errors.", **FLAG)] = False,
) -> int:
    """Learn a model from a file: labelled rows, unlabelled rows, and rules about labels."""
    terminal = Terminal(as_json=json, quiet=quiet)
    options = options.with_file(config).checked()
    if options.out is None and not dry_run:
        raise UsageError("there is no folder for the run\nGive --out FOLDER, or --dry-run to see what would be done.")
    from dssl.app.preparation import prepare
    from dssl.app.runs import refuse_taken

    if options.out is not None and not dry_run:
        refuse_taken(options.out, overwrite=bool(options.overwrite))
    prepared = prepare(data, options)
    for note in prepared.notes:
        terminal.warn(note)
    prepared.show(terminal)
    if dry_run:
        terminal.result(prepared.facts())
        return 0
    return run_prepared(prepared, Path(str(options.out)), terminal)


def run_prepared(prepared: Preparation, out: Path, terminal: Terminal) -> int:
    """Train, and write the folder of the run."""
    from dssl.app.runs import RunFolder

    folder = RunFolder.open(out, prepared.identity(), overwrite=bool(prepared.options.overwrite))
    if folder.resumed and folder.resumable:
        terminal.say(f"resuming from the last checkpoint, after step {folder.step:,}")
    began = time.monotonic()
    try:
        with _kept_or_gone(folder):
            model = _train(prepared, folder, terminal)
        if folder.interrupted():
            print(f"to resume, run the same command again: {_command()}", file=sys.stderr)
            return INTERRUPTED
        earlier_too = max((row["seconds"] for row in model.history_), default=0.0)  # of a run that was resumed
        facts = _finish(prepared, model, folder, terminal, max(time.monotonic() - began, earlier_too))
    except KeyboardInterrupt:  # a second Ctrl-C
        kept = f"to resume from the last checkpoint, run the same command again: {_command()}"
        print(kept if folder.resumable else "nothing was saved", file=sys.stderr)
        if not folder.resumable:
            folder.give_up()
        return INTERRUPTED
    terminal.result(facts)
    return 0


@contextmanager
def _kept_or_gone(folder: RunFolder) -> Iterator[None]:
    """On an error, a run leaves nothing behind but checkpoints that can be resumed."""
    from dssl.errors import DataError, WriteError

    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        wrong = isinstance(error, ValueError) and not isinstance(error, WriteError)
        if wrong or not folder.resumable:
            folder.give_up()
        if isinstance(error, RuntimeError) and str(error).startswith("rank "):
            raise DataError(str(error)) from error
        raise


def _train(prepared: Preparation, folder: RunFolder, terminal: Terminal) -> DSSLClassifier:
    import os
    import warnings

    import torch

    from dssl.data.mending import LabelWarning

    if prepared.weights() < _SMALL and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # matrices this small gain nothing from more, and lose on a busy machine
    every = prepared.options.checkpoint_every or 100
    files = {"checkpoint": folder.checkpoint, "checkpoint_every": every, "log": folder.log}
    model = prepared.model(progress=not terminal.silent, **files)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", LabelWarning)  # already said by the preparation, with places in the file
        watched = _watched(prepared)
        if prepared.stream is None:
            model.fit(prepared.train.x, prepared.train.y, watched=watched)
        else:
            model.fit(prepared.stream, watched=watched)
    for sentence in prepared.stream.notes.sentences() if prepared.stream is not None else ():
        terminal.warn(f"'{prepared.data}': {sentence}")
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            terminal.warn(str(warning.message))
    return model


def _watched(prepared: Preparation) -> tuple[Any, Any] | None:
    """Some labelled test rows, whose accuracy is shown over the steps of training."""
    if prepared.test is None:
        return None
    rows = prepared.test.labelled.nonzero()[0][:_WATCHED]
    return prepared.test.x[rows], prepared.test.y[rows.tolist()]


def _finish(
    prepared: Preparation, model: DSSLClassifier, folder: RunFolder, terminal: Terminal, seconds: float
) -> dict[str, Any]:
    """The model, its record and its report, in the run's folder all at once."""
    from dssl.app import runs
    from dssl.app.report import write_report
    from dssl.app.summary import Origin, summarise
    from dssl.files import write_whole
    from dssl.models.files.saved import save

    facts = {key: value for key, value in prepared.facts().items() if key not in ("columns", "known", "megabytes")}
    summary = summarise(
        model, prepared.train.x, prepared.train.y,
        X_test=prepared.test.x if prepared.test else None, y_test=prepared.test.y if prepared.test else None,
        missed=prepared.test.missed if prepared.test else None,
        rows=prepared.train.origin(),
        test_rows=prepared.test.origin(prepared.labelling.columns) if prepared.test else Origin(),
        inputs_of=prepared.preprocessing.inputs_of or None,
        fresh=_rival(prepared),
        feature_names=prepared.preprocessing.inputs or None,
        settings=_settings(model), command=_command(), seconds=seconds,
        data={"file": prepared.data.name, "format": prepared.format, "labels": ", ".join(prepared.labelling.columns),
              **({"rules": str(prepared.options.rules)} if prepared.options.rules else {})},
    )  # fmt: skip
    metrics = {f"accuracy, {part}": hits / of for part, (hits, of) in summary.right.items() if of}
    with folder.finished() as fresh:
        save(model, fresh / runs.MODEL, metrics=metrics)
        prepared.preprocessing.save(fresh / runs.PREPROCESSING)
        if folder.log.exists():
            write_whole(fresh / runs.LOG, folder.log.read_bytes())
        summary.save(fresh / runs.SUMMARY)
        write_report(summary, fresh / runs.REPORT)
        facts |= {"command": _command(), "seconds": round(seconds, 2), "steps": model.n_steps_, "metrics": metrics}
        facts |= {"created": summary.created, "versions": summary.versions}
        runs.write_run(fresh, facts)
    _tell(prepared, model, metrics, folder.path, terminal, seconds)
    return {"out": str(folder.path), **facts}


def _rival(prepared: Preparation) -> DSSLClassifier | None:
    """What learns simpler ways to compare with; not where a model goes on, or learns from more rows than are here."""
    wanted = prepared.options.compare is not False and prepared.start is None and prepared.stream is None
    return prepared.model() if wanted else None


def _settings(model: DSSLClassifier) -> dict[str, Any]:
    hidden = ("rules", "settings", "warm_start", "unlabelled")
    return {name: value for name, value in model.get_params().items() if name not in hidden and value is not None}


def _tell(
    prepared: Preparation,
    model: DSSLClassifier,
    metrics: dict[str, float],
    path: Path,
    terminal: Terminal,
    seconds: float,
) -> None:
    terminal.say(f"\ntrained in {seconds:.1f} s, {model.n_steps_:,} steps")
    terminal.say(f"\nthe plan, as the labels decided it\n{indent(str(model.plan_), '  ')}\n")
    for name, value in metrics.items():
        terminal.say(f"{name.split(', ')[1]} rows predicted right: {value:.1%}")
    if prepared.test is None:
        terminal.say("no test rows: give --test FILE or --test-share .2 to measure the model on rows it has not seen")
    terminal.say(f"\nreport   {path / 'report.html'}\npredict  dssl predict {path} FILE")


def _command() -> str:
    return shlex.join(["dssl", *sys.argv[1:]])
