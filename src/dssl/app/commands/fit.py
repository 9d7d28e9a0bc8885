"""`dssl fit`: files and rules in, a folder with a model and a report out."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from dssl.app.options import FLAG, Options, machine
from dssl.app.terminal import Terminal, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dssl.app.plan import Plan
    from dssl.app.runs import RunFolder
    from dssl.training.estimators import DSSLClassifier

INTERRUPTED = 130
_SMALL = 500_000  # weights


def fit(
    data: Annotated[Path, Parameter(help="CSV, Parquet, NPZ or ARFF file, or a folder of images.")],
    /,
    *,
    options: Options = Options(),  # noqa: B008
    config: Annotated[Path | None, machine("TOML file with settings called as these flags, which win over it.")] = None,
    dry_run: Annotated[bool, machine("Show what would be done, and do nothing.", **FLAG)] = False,
    json: Annotated[bool, machine("Print one JSON object, and nothing else, on stdout.", **FLAG)] = False,
    quiet: Annotated[bool, machine("Say nothing but warnings and errors.", **FLAG)] = False,
) -> int:
    """Learn a model from a file: labelled rows, unlabelled rows, and rules about labels."""
    terminal = Terminal(as_json=json, quiet=quiet)
    options = options.with_file(config).checked()
    if options.out is None and not dry_run:
        raise UsageError("nothing says where the run goes\nGive --out FOLDER, or --dry-run to see the plan only.")
    from dssl.app.plan import make_plan
    from dssl.app.runs import refuse_taken

    if options.out is not None and not dry_run:
        refuse_taken(options.out, overwrite=bool(options.overwrite))
    plan = make_plan(data, options)
    for note in plan.notes:
        terminal.warn(note)
    plan.show(terminal)
    if dry_run:
        terminal.result(plan.facts())
        return 0
    return _run(plan, Path(str(options.out)), terminal)


def _run(plan: Plan, out: Path, terminal: Terminal) -> int:
    from dssl.app.runs import RunFolder

    folder = RunFolder.open(out, plan.identity(), overwrite=bool(plan.options.overwrite))
    if folder.resumed and folder.resumable:
        terminal.say("going on from the last checkpoint")
    began = time.monotonic()
    try:
        with _kept_or_gone(folder):
            model = _train(plan, folder, terminal)
        if folder.interrupted():
            print(f"to go on, run the same again: {_command()}", file=sys.stderr)
            return INTERRUPTED
        earlier_too = max((row["seconds"] for row in model.history_), default=0.0)  # of a run that was resumed
        facts = _finish(plan, model, folder, terminal, max(time.monotonic() - began, earlier_too))
    except KeyboardInterrupt:  # a second Ctrl-C
        kept = f"to go on from the last checkpoint, run the same again: {_command()}"
        print(kept if folder.resumable else "nothing was kept", file=sys.stderr)
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


def _train(plan: Plan, folder: RunFolder, terminal: Terminal) -> DSSLClassifier:
    import os
    import warnings

    import torch

    from dssl.training.mending import LabelWarning

    if plan.weights() < _SMALL and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # such small matrices gain nothing from more, and lose on a busy machine
    every = plan.options.checkpoint_every or 100
    files = {"checkpoint": folder.checkpoint, "checkpoint_every": every, "log": folder.log}
    model = plan.model(progress=not terminal.silent, **files)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", LabelWarning)  # the plan has said it, with places in the file
        model.fit(plan.train.x, plan.train.y)
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            terminal.warn(str(warning.message))
    return model


def _finish(plan: Plan, model: DSSLClassifier, folder: RunFolder, terminal: Terminal, seconds: float) -> dict[str, Any]:
    """The model, its record and its report, in the run's folder all at once."""
    from dssl.app import runs
    from dssl.app.report import write_report
    from dssl.app.summary import summarise
    from dssl.files import write_whole
    from dssl.training.model import save

    facts = {key: value for key, value in plan.facts().items() if key not in ("columns", "known", "megabytes")}
    summary = summarise(
        model, plan.train.x, plan.train.y,
        X_test=plan.test.x if plan.test else None, y_test=plan.test.y if plan.test else None,
        row_names=plan.train.names, feature_names=plan.preprocessing.inputs or None,
        settings=_settings(model), command=_command(), seconds=seconds,
        data={"file": plan.data.name, "format": plan.format, "labels": ", ".join(plan.labelling.columns),
              **({"rules": str(plan.options.rules)} if plan.options.rules else {})},
    )  # fmt: skip
    metrics = {f"accuracy, {part}": hits / of for part, (hits, of) in summary.right.items() if of}
    with folder.finished() as fresh:
        save(model, fresh / runs.MODEL, metrics=metrics)
        plan.preprocessing.save(fresh / runs.PREPROCESSING)
        if folder.log.exists():
            write_whole(fresh / runs.LOG, folder.log.read_bytes())
        summary.save(fresh / runs.SUMMARY)
        write_report(summary, fresh / runs.REPORT)
        facts |= {"command": _command(), "seconds": round(seconds, 2), "steps": model.n_steps_, "metrics": metrics}
        facts |= {"created": summary.created, "versions": summary.versions}
        runs.write_run(fresh, facts)
    _tell(plan, model, metrics, folder.path, terminal, seconds)
    return {"out": str(folder.path), **facts}


def _settings(model: DSSLClassifier) -> dict[str, Any]:
    hidden = ("rules", "settings", "verbose", "warm_start", "unlabelled")
    shown = {name: value for name, value in model.get_params().items() if name not in hidden and value is not None}
    return {**shown, "unlabelled rows": _use_of_unlabelled(model)}


def _use_of_unlabelled(model: DSSLClassifier) -> str:
    return f"{'used' if model.verdict_.helps else 'left out'}: {model.verdict_.reason}"


def _tell(
    plan: Plan, model: DSSLClassifier, metrics: dict[str, float], path: Path, terminal: Terminal, seconds: float
) -> None:
    terminal.say(f"\ntrained in {seconds:.1f} s, {model.n_steps_:,} steps")
    if not plan.train.labelled.all():
        terminal.say(f"unlabelled rows were {_use_of_unlabelled(model)}")
    for name, value in metrics.items():
        terminal.say(f"{name.split(', ')[1]} rows predicted right: {value:.1%}")
    if plan.test is None:
        terminal.say("no test rows: give --test FILE or --test-share .2 to measure the model on rows it has not seen")
    terminal.say(f"\nreport   {path / 'report.html'}\npredict  dssl predict {path} FILE")


def _command() -> str:
    return shlex.join(["dssl", *sys.argv[1:]])
