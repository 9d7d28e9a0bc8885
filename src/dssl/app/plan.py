"""The plan of a run: files and options in, everything that training needs out, decided and checked before it begins."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import dssl
from dssl.app.columns import Column, find_columns, require
from dssl.app.labelling import Labelling, broken, find_labels
from dssl.app.options import Options
from dssl.app.preprocessing import Findings, Preprocessing
from dssl.app.tables import Table, read
from dssl.app.terminal import Terminal
from dssl.errors import DataError
from dssl.logic.labels import Columns
from dssl.logic.space import LabelSpace
from dssl.logic.variables import listed

if TYPE_CHECKING:
    from dssl.training.estimators import DSSLClassifier

_SHOWN = 24  # columns of a table that are listed
_DIRECT = (
    "prior_weight power balance ramp consistency_weight augment network steps learning_rate weight_decay "
    "labelled_batch unlabelled_batch ema constrained early_stopping validation_fraction patience on_violation"
).split()  # options that are parameters of the estimator
_FREE = ("out", "overwrite", "devices", "checkpoint_every", "accelerator")  # that leave the model as it is


@dataclass(frozen=True)
class Rows:
    """Some rows, ready to learn from or to measure on: features, labels as given, and where each is found."""

    x: NDArray[Any]
    y: pl.DataFrame  # as the estimator takes it
    known: Columns  # (n, width), in the space
    names: list[str]

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """Some of the rows."""
        return Rows(self.x[rows], self.y[rows.tolist()], self.known[rows], [self.names[i] for i in rows])

    @property
    def labelled(self) -> NDArray[np.bool_]:
        return np.asarray((~np.isnan(self.known)).any(axis=1))


@dataclass(frozen=True)
class Plan:
    """What a run will do."""

    data: Path
    format: str
    options: Options
    preprocessing: Preprocessing
    labelling: Labelling
    train: Rows
    test: Rows | None
    notes: tuple[str, ...]

    @property
    def space(self) -> LabelSpace:
        return self.labelling.space

    def model(self, *, progress: bool = False, **files: Any) -> DSSLClassifier:
        """The estimator that learns; `files` are settings of the loop."""
        from dssl.training.estimators import DSSLClassifier

        o = self.options
        given: dict[str, Any] = {name: getattr(o, name) for name in _DIRECT if getattr(o, name) is not None}
        if o.prior is not None:
            given["prior"] = None if o.prior == "none" else o.prior
        if o.consistency is not None:
            terms = [term for term in o.consistency if term != "none"]
            given["consistency"] = terms[0] if len(terms) == 1 else terms or None
        machine = {"devices": o.devices, "accelerator": o.accelerator}
        settings = {**{name: value for name, value in machine.items() if value is not None}, **files}
        return DSSLClassifier(
            rules=self.labelling.space, random_state=o.seed or 0, settings=settings, verbose=progress, **given
        )

    def identity(self) -> dict[str, Any]:
        """What the model depends on: the same identity gives the same model."""
        said = {name: value for name, value in self.options.said().items() if name not in _FREE}
        digest = hashlib.sha256(str(self.space).encode())
        for rows in (self.train, *([self.test] if self.test else [])):
            digest.update(np.ascontiguousarray(rows.x).data)
            digest.update(np.ascontiguousarray(rows.known).data)
        return {**said, "data": str(self.data), "contents": digest.hexdigest()[:16]}

    def facts(self) -> dict[str, Any]:
        """The plan for machines."""
        labelled = int(self.train.labelled.sum())
        return {
            "data": str(self.data),
            "data_format": self.format,
            "columns": [_column_facts(column) for column in self.preprocessing.columns],
            "inputs": list(self.train.x.shape[1:]),
            "labels": list(self.labelling.columns),
            "space": str(self.space),
            "valid_labels": self.space.count(),
            "rows": {
                "labelled": labelled,
                "unlabelled": len(self.train) - labelled,
                "test": len(self.test) if self.test else 0,
            },
            "known": self.known_counts(),
            "network": self.network,
            "weights": self.weights(),
            "settings": {**self.options.said(), "seed": self.options.seed or 0},
            "megabytes": round((self.train.x.size * 4 + 16 * self.weights()) / 1e6, 1),
            "versions": {"dssl": dssl.__version__, "python": platform.python_version()},
        }

    def known_counts(self) -> dict[str, int]:
        """How many training rows are labelled with each column of the space."""
        return dict(zip(self.space.columns, (self.train.known == 1).sum(axis=0).tolist()))

    @property
    def network(self) -> str:
        return self.options.network or ("mlp" if self.train.x.ndim == 2 else "cnn")

    def weights(self) -> int:
        """Numbers that the network learns."""
        import torch

        from dssl.training.networks import make_network

        example = torch.from_numpy(np.array(self.train.x[:2], np.float32))
        return sum(p.numel() for p in make_network(self.network, example, self.space.width, seed=0).parameters())

    def show(self, terminal: Terminal) -> None:
        """The plan for people."""
        columns = self.preprocessing.columns
        if columns:
            terminal.table(
                "column", "kind", "holds", "missing", "inputs",
                rows=[_column_row(c) for c in columns[:_SHOWN]], title=f"{self.data} ({self.format})",
            )  # fmt: skip
        if len(columns) > _SHOWN:
            terminal.say(f"… and {len(columns) - _SHOWN} more columns\n")
        facts = self.facts()
        rows = facts["rows"]
        shape = " × ".join(map(str, facts["inputs"]))
        counts = listed((f"{name} {count}" for name, count in facts["known"].items()), 10)
        terminal.say(
            f"rows      {rows['labelled']:,} labelled, {rows['unlabelled']:,} unlabelled, {rows['test']:,} test"
        )
        terminal.say(f"labels    {listed(facts['labels'], 10)}: {facts['valid_labels']:,} valid")
        terminal.say(f"          {counts}")
        terminal.say(
            f"network   {self.network}: {shape} inputs, {self.space.width} outputs, {facts['weights']:,} weights"
        )
        terminal.say(f"settings  {_settings(facts['settings'])}")
        terminal.say(f"memory    about {facts['megabytes']:g} MB for rows and weights\n")


def _column_facts(column: Column) -> dict[str, Any]:
    return {"name": column.name, "kind": column.kind, "missing": column.missing, "inputs": len(column.inputs),
            **({"why": column.why} if column.why else {})}  # fmt: skip


def _column_row(column: Column) -> tuple[Any, ...]:
    return column.name, column.kind, column.shown, column.missing or "", len(column.inputs) or ""


def _settings(settings: dict[str, Any]) -> str:
    told = {k: v for k, v in settings.items() if k not in ("label", "rules", "out", "ignore", "categorical", "id")}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in told.items()) + "; defaults otherwise"


# ---- making it ----


def make_plan(data: Path, options: Options) -> Plan:
    """Read the files, find out what their columns mean, and check that a model can be learnt from them."""
    table = read(data, _size(options))
    labelling = find_labels(table, options.label, options.rules)
    own = labelling.columns
    require(table, options.ignore or (), "--ignore")
    require(table, options.categorical or (), "--categorical")
    require(table, [options.id] if options.id else (), "--id")
    notes: list[str] = []
    every = _with_unlabelled(table, options, own, notes)
    row_id = options.id or ("file" if table.format == "images" else None)
    names = [n for n in table.names if n not in (*own, row_id, *(options.ignore or ()))]
    columns = () if table.images is not None else tuple(find_columns(every, names, options.categorical or ()))
    image = None if table.images is None else table.images.shape[1:]
    preprocessing = Preprocessing(columns, image, own, labelling.names, row_id)
    notes += [f"column '{c.name}' is left out: {c.why}" for c in columns if c.kind == "left out"]
    if (not columns and image is None) or (columns and not preprocessing.used):
        raise DataError(f"'{data}' has no column to learn from besides {listed(own)}\nAdd columns of features.")
    train = _rows(every, table, labelling, preprocessing, Findings())
    _check_labels(train, table, labelling.space, options, notes)
    train, test = _test_rows(train, options, labelling, preprocessing, notes)
    told = set(labelling.names)
    lacking = [v.name for v in labelling.space.variables if not told & {v.name, *v.columns}]
    notes += [f"no column tells '{name}': it is learnt from the rules alone" for name in lacking]
    plan = Plan(data, table.format, options, preprocessing, labelling, train, test, tuple(notes))
    _check_settings(plan)
    return plan


def _size(options: Options) -> tuple[int, int] | None:
    return (options.image_size, options.image_size) if options.image_size else None


def _with_unlabelled(table: Table, options: Options, labels: tuple[str, ...], notes: list[str]) -> Table:
    """The rows of the data and of the file of further rows."""
    if options.unlabelled is None:
        return table
    more = read(options.unlabelled, table.images.shape[2:] if table.images is not None else None,
                table.images.shape[1] if table.images is not None else None)  # fmt: skip
    if (more.images is None) != (table.images is None):
        raise DataError(f"'{more.path}' and '{table.path}' are not of one kind\nGive images for both, or tables.")
    features = [n for n in table.names if n not in labels and n not in (options.ignore or ())]
    require(more, [n for n in features if n != options.id and table.images is None], "--unlabelled")
    extra = [n for n in more.names if n not in table.names]
    if extra and table.images is None:
        notes.append(f"'{more.path}' has columns that '{table.path}' has not, which are left out: {listed(extra)}")
    unknown = {name: pl.Series([None] * len(more), dtype=table.frame.schema[name]) for name in labels}
    own = pl.DataFrame({**{n: more.frame[n] for n in more.names if n in features}, **unknown})
    try:
        frame = pl.concat([table.frame, own], how="diagonal_relaxed")
    except pl.exceptions.PolarsError as error:
        raise DataError(f"'{more.path}' and '{table.path}' differ in the type of a column: {error}") from None
    images = None if table.images is None else np.concatenate([table.images, more.images])
    return replace(table, frame=frame, images=images)


def _rows(table: Table, first: Table, labelling: Labelling, preprocessing: Preprocessing, findings: Findings) -> Rows:
    x = preprocessing(table, findings)
    return Rows(x, labelling.read(table), labelling.encode(table), _names(table, first, preprocessing.id))


def _names(table: Table, first: Table, row_id: str | None) -> list[str]:
    if row_id is not None and row_id in table.names:
        return [str(v) for v in table.frame[row_id].to_list()]
    return [first.place(i) if i < len(first) else f"unlabelled {i - len(first) + 1}" for i in range(len(table))]


def _check_labels(rows: Rows, table: Table, space: LabelSpace, options: Options, notes: list[str]) -> None:
    if not rows.labelled.any():
        raise DataError(f"'{table.path}': no row is labelled\nLabel some rows; empty cells are unknown labels.")
    found = space.check(rows.known) if space.rules else None
    if not found:
        return
    said = broken(found, table, np.arange(len(rows)))
    if options.on_violation in (None, "error"):
        raise DataError(f"{said}\nCorrect these rows or rules; or say --on-violation warn, drop or repair.")
    done = {
        "warn": "They are used as they are.",
        "drop": "Their labels are dropped.",
        "repair": "Each is replaced by the valid label nearest to it.",
    }
    notes.append(f"{said}\n{done[str(options.on_violation)]}")


def _test_rows(
    rows: Rows, options: Options, labelling: Labelling, preprocessing: Preprocessing, notes: list[str]
) -> tuple[Rows, Rows | None]:
    """Rows to learn from, and rows to measure on."""
    if options.test is not None:
        image = preprocessing.image
        table = read(options.test, image[1:] if image else None, image[0] if image else None)
        require(table, labelling.columns, "--test")
        findings = Findings()
        test = _rows(table, table, labelling, preprocessing, findings)
        notes += [f"'{options.test}': {sentence}" for sentence in findings.sentences()]
        if not test.labelled.any():
            raise DataError(f"'{options.test}' has no labelled row to measure on\nGive labelled rows.")
        return rows, test
    if options.test_share is None:
        return rows, None
    from dssl.training.splitting import folds

    labelled = np.flatnonzero(rows.labelled)
    count = round(1 / options.test_share)
    if len(labelled) < 2 * count:
        raise DataError(
            f"{len(labelled)} labelled rows are too few to hold out a share of {options.test_share:g}\n"
            "Label more rows, or give a --test file."
        )
    held = labelled[folds(rows.known[labelled], count, np.random.RandomState(options.seed or 0)) == 0]
    return rows.take(np.setdiff1d(np.arange(len(rows)), held)), rows.take(held)


def _check_settings(plan: Plan) -> None:
    """Errors about numbers out of their range, before anything is written."""
    from dssl.training.settings import Settings

    try:
        model = plan.model()
        model._validate_params()
        Settings.of(model.settings or {})
    except ValueError as error:
        raise DataError(f"{error}\nSee dssl fit --help.") from None
