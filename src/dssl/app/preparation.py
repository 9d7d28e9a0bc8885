"""Preparation of a run: files and options in, everything that training needs out, checked before it begins."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

import dssl
from dssl.app.options import Options
from dssl.app.terminal import Terminal
from dssl.data.columns import Column, require
from dssl.data.labelling import Labelling, broken, find_labels, folded
from dssl.data.leaks import copies, groups, leaking, perfect
from dssl.data.preprocessing import Preprocessing, TableData, as_array
from dssl.data.stored.larger import PictureData, is_larger, larger_data, sample, sample_pictures
from dssl.data.tables import Table, parquet_cells, read
from dssl.data.transformer import Notes, TableTransformer
from dssl.errors import DataError
from dssl.logic.labels import Columns
from dssl.logic.language.variables import listed
from dssl.logic.space import LabelSpace

if TYPE_CHECKING:
    from dssl.app.summary import Origin
    from dssl.models.auto.elements import Elements
    from dssl.models.estimators import DSSLClassifier

_SHOWN = 24  # columns of a table that are listed
_DIRECT = [
    *"prior_weight augment network elements decision calibrate".split(),
    *"steps learning_rate batch_size on_violation".split(),
]  # the estimator's own
_OBJECTIVE = "balance ramp consistency_weight constrained components".split()
_LOOP = "weight_decay unlabelled_batch ema patience validation_fraction devices accelerator".split()
_FREE = ("out", "overwrite", "devices", "checkpoint_every", "accelerator", "compare")  # that leave the model as it is


@dataclass(frozen=True)
class Examples:
    """Some rows, ready to learn from or to measure on: features, labels as given, and where each is found."""

    x: Any  # an array, or a sparse matrix in rows
    y: pl.DataFrame  # as the estimator takes it
    known: Columns  # (n, width), in the space
    names: list[str]
    numbers: NDArray[np.int64]  # (n,): lines of the file, or rows; 0 for a row of the file of unlabelled rows
    cells: pl.DataFrame  # all columns of the file, as it has them
    missed: NDArray[np.int64] | None = None  # (n,): labels that the space does not have

    def __len__(self) -> int:
        return len(self.known)

    def origin(self, without: Sequence[str] = ()) -> Origin:
        """Where they come from, for a summary, which may show their columns without some."""
        from dssl.app.summary import Origin

        cells = self.cells.drop(without, strict=False)  # arrays have no others than their labels
        return Origin(self.numbers.tolist(), self.names, cells if cells.width else None)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        return np.asarray((~np.isnan(self.known)).any(axis=1))


@dataclass(frozen=True)
class Preparation:
    """Everything a run needs: what it learns from, what it is measured on, and how."""

    data: Path
    format: str
    options: Options
    preprocessing: Preprocessing
    labelling: Labelling
    train: Examples
    test: Examples | None
    notes: tuple[str, ...]
    start: DSSLClassifier | None = None  # a model of the same space and columns to go on from
    beside: Mapping[str, Any] = field(default_factory=dict)  # what else the record of the run says
    stream: TableData | PictureData | None = None  # where `train` is only a sample of the rows to learn from

    @property
    def space(self) -> LabelSpace:
        return self.labelling.space

    def model(self, *, progress: bool = False, **files: Any) -> DSSLClassifier:
        """The estimator that learns; `files` are settings of the loop."""
        from dssl.models.estimators import DSSLClassifier
        from dssl.priors.relaxations import DeterministicPrior

        o = self.options
        given = _said(o, _DIRECT)
        if o.prior is not None:
            given["prior"] = None if o.prior == "none" else o.prior
        if o.power is not None:
            given["prior"] = DeterministicPrior(power=o.power)
        if o.consistency is not None:
            terms = [term for term in o.consistency if term != "none"]
            given["consistency"] = terms[0] if len(terms) == 1 else terms or None
        model = DSSLClassifier(
            rules=self.labelling.space,
            random_state=o.seed or 0,
            objective=_said(o, _OBJECTIVE) or None,
            settings={**_said(o, _LOOP), **files, **({"progress": True} if progress else {})},
            **given,
        )
        return model if self.start is None else self.start.set_params(**{**model.get_params(), "warm_start": True})

    def identity(self) -> dict[str, Any]:
        """What the model depends on: the same identity gives the same model."""
        said = {name: value for name, value in self.options.said().items() if name not in _FREE}
        digest = hashlib.sha256(str(self.space).encode())
        for rows in (self.train, *([self.test] if self.test else [])):
            for part in (rows.x.data, rows.x.indices) if sp.issparse(rows.x) else (rows.x,):
                digest.update(np.ascontiguousarray(part).data)
            digest.update(np.ascontiguousarray(rows.known).data)
        return {**said, "data": str(self.data), "contents": digest.hexdigest()[:16]}

    def facts(self) -> dict[str, Any]:
        """What will be done, for machines."""
        labelled, rows = int(self.train.labelled.sum()), len(self.train)
        if self.stream is not None:
            labelled, rows = len(self.stream.labelled), len(self.stream.labelled) + len(self.stream.unlabelled)
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
                "unlabelled": rows - labelled,
                "test": len(self.test) if self.test else 0,
            },
            "known": self.known_counts(),
            "network": self.network,
            "weights": self.weights(),
            "settings": {**self.options.said(), "seed": self.options.seed or 0},
            "megabytes": round((self.train.x.size * 4 + 16 * self.weights()) / 1e6, 1),
            "versions": {"dssl": dssl.__version__, "python": platform.python_version()},
            **self.beside,
        }

    def known_counts(self) -> dict[str, int]:
        """How many training rows are labelled with each column of the space."""
        return dict(zip(self.space.columns, (self.train.known == 1).sum(axis=0).tolist()))

    @property
    def network(self) -> str:
        from dssl.models.auto.elements import network_name

        return network_name(self.options.network or "auto", self._elements(), self.train.x.shape[1:])

    def _elements(self) -> Elements | None:
        from dssl.models.auto.elements import with_tokens

        return with_tokens(_elements(self.space, self.train.x.shape[1:], self.options), self.train.x, "auto")

    def weights(self) -> int:
        """Numbers that the network learns."""
        from dssl.models.auto.elements import build_network
        from dssl.models.inference import as_tensor

        elements, example = self._elements(), as_tensor(self.train.x[:2])
        example = example.long() if elements and elements.vocabulary else example.float()
        built = build_network(
            self.network, elements, example, self.space, components=self.options.components or 1, seed=0
        )
        return sum(p.numel() for p in built.parameters())

    def show(self, terminal: Terminal) -> None:
        """What will be done, for people."""
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


def _said(options: Options, names: list[str]) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def _column_facts(column: Column) -> dict[str, Any]:
    return {"name": column.name, "kind": column.kind, "missing": column.missing, "inputs": len(column.inputs),
            **({"why": column.why} if column.why else {})}  # fmt: skip


def _column_row(column: Column) -> tuple[Any, ...]:
    return column.name, column.kind, column.shown, column.missing or "", len(column.inputs) or ""


def _settings(settings: dict[str, Any]) -> str:
    elsewhere = ("label", "rules", "out", "ignore", "categorical", "text", "id")
    told = {name: value for name, value in settings.items() if name not in elsewhere}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in told.items()) + "; defaults otherwise"


# ---- making it ----


def prepare(data: Path, options: Options) -> Preparation:
    """Read the files, find out what their columns mean, and check that a model can learn from them."""
    size = (options.image_size, options.image_size) if options.image_size else None
    large = is_larger(data, size)
    whole, table = _sample(data, size, options) if large else [read(data, size)] * 2
    for flag in ("ignore", "categorical", "text"):
        require(table, getattr(options, flag) or (), f"--{flag}")
    for flag in ("id", "group"):
        require(table, [name] if (name := getattr(options, flag)) else (), f"--{flag}")
    table = replace(table, frame=table.frame.drop(options.ignore or []))
    labelling = find_labels(
        whole if table.images is not None else table, options.label, options.rules, options.label_separator
    )
    own = labelling.columns
    table = _in_elements(table, labelling.space, options)
    notes: list[str] = []
    if labelling.separator and not options.label_separator and table.hierarchy is None:
        notes.append(
            f"cells of '{own[0]}' are read as several names with '{labelling.separator}' between them, "
            f"{len(labelling.names)} in all: give --label-separator '' if each cell is one name"
        )
    notes += _spelt_alike(labelling.space)
    every = _with_unlabelled(table, options, own, notes)
    row_id = options.id or ("file" if table.format == "images" else None)
    y, known = labelling.read(every), labelling.encode(every)
    _check_labels(known, table, labelling.space, options, notes)
    held, beside = _held_out(known, every, options)
    if len(beside):
        notes.append(f"{len(beside):,} unlabelled rows are left out: rows of their '{options.group}' are held out")
    learned = np.setdiff1d(np.arange(len(every)), [*held, *beside])
    names = [n for n in table.names if n not in (*own, row_id, options.group)]
    asked = [*(options.categorical or ()), *(options.text or ())]
    leaks = {} if table.images is not None else leaking(table, names, labelling, known[: len(table)], asked)
    notes += [f"column '{name}' is left out: {why}" for name, why in leaks.items()]
    names = [name for name in names if name not in leaks]
    same = _copied(every, [n for n in names if n not in asked], labelling, known, notes)
    names = [name for name in names if name not in same]
    columns = _columns(every.take(learned), names, options, notes)
    if options.rules is None and any(column.kind == "text" for column in columns):
        plain, labelling = labelling, labelling.never_empty(every.take(learned))
        if labelling is not plain:
            notes.append(
                f"every labelled cell of '{own[0]}' has a name, so every prediction will: a rule was learned for it; "
                "write [] into a cell if its row has none"
            )
    image = None if table.images is None else _shape(table.images.shape[1:], labelling.space, options)
    preprocessing = Preprocessing(columns, image, own, labelling.names, row_id, labelling.separator)
    if (not columns and image is None) or (columns and not preprocessing.used):
        copied = f" and {listed(same)}, which tells the label" if same else ""
        raise DataError(f"'{data}' has no column to learn from besides {listed(own)}{copied}\nAdd feature columns.")
    called = _names(every, table, row_id)
    said = Notes()
    train = _examples(every, learned, preprocessing, y, known, called, len(table), Notes())
    test = _examples(every, held, preprocessing, y, known, called, len(table), said) if len(held) else None
    notes += [f"among the rows held out: {sentence}" for sentence in said.sentences()]
    test = test or _test_file(options, labelling, preprocessing, notes)
    told = set(labelling.names)
    lacking = [v.name for v in labelling.space.variables if not told & {v.name, *v.columns}]
    notes += [f"no column gives '{name}': it is learned from the rules alone" for name in lacking]
    parts = None
    if large:
        parts = larger_data(data, whole, preprocessing, labelling, every.take(held).rows)  # type: ignore[arg-type]
        what = "what columns mean was decided" if table.images is None else "plan and report are based"
        notes.append(f"{what} on {len(every):,} of {len(parts):,} rows; all are learned from")
    prepared = Preparation(
        data, table.format, options, preprocessing, labelling, train, test, tuple(notes), stream=parts
    )
    _check_settings(prepared)
    return prepared


def _sample(data: Path, size: tuple[int, int] | None, options: Options) -> tuple[Table, Table]:
    """Files that are too large to be read as a whole: what tells their labels, and a sample."""
    if options.unlabelled is not None or options.group is not None:
        flag = "--unlabelled" if options.unlabelled is not None else "--group"
        raise DataError(
            f"'{data}' is too large for {flag}, which is for rows in memory\n"
            "Put unlabelled rows among the parts; give a --test file instead of groups."
        )
    seed = options.seed or 0
    if not parquet_cells(data):
        return sample_pictures(data, size, seed)
    table = sample(data, options.label, options.rules, options.label_separator, seed)
    return table, table


def _spelt_alike(space: LabelSpace) -> list[str]:
    """Classes that differ only in capitals and spaces: often they are meant to be one."""
    return [
        f"'{first}' and '{second}' are two values of '{v.name}': write them alike if they are one"
        for v in space.variables
        for first, second in pairwise(sorted(map(str, v.values), key=folded))
        if not v.binary and folded(first) == folded(second) and len(first) > 1
    ][:3]


def _copied(every: Table, names: list[str], labelling: Labelling, known: Columns, notes: list[str]) -> dict[str, str]:
    """Columns that are left out as copies of a label; others that tell it as well are kept, and pointed out."""
    if every.images is not None:
        return {}
    same = copies(every, names, labelling, known)
    notes += [
        f"column '{name}' is left out: it holds names of the rules and tells the label '{label}' in every labelled "
        f'row, as a copy does; give --categorical "{name}" to keep it'
        for name, label in same.items()
    ]
    others = perfect(every, [name for name in names if name not in same], labelling, known)
    notes += [
        f"column '{name}' alone tells the label '{label}' in every labelled row; give --ignore \"{name}\" if it was "
        "made from the label, or is known only with it"
        for name, label in others.items()
    ]
    return same


def _columns(train: Table, names: list[str], options: Options, notes: list[str]) -> tuple[Column, ...]:
    """What columns mean, decided from the rows to learn from; none for images."""
    if train.images is not None:
        return ()
    asked: dict[str, Any] = {
        flag: [n for n in getattr(options, flag) or () if n in names] for flag in ("categorical", "text")
    }
    fitted = TableTransformer(**asked).fit(replace(train, frame=train.frame.select(names)))
    notes += [f"column '{c.name}' is left out: {c.why}" for c in fitted.columns_ if c.kind == "left out"]
    return fitted.columns_


def _examples(
    table: Table,
    rows: NDArray[np.int64],
    preprocessing: Preprocessing,
    y: pl.DataFrame,
    known: Columns,
    names: list[str],
    own: int,
    said: Notes,
) -> Examples:
    some = table.take(rows)
    numbers = np.where(rows < own, rows + table.first, 0)
    return Examples(
        preprocessing(some, said), y[rows.tolist()], known[rows], [names[i] for i in rows], numbers, some.frame
    )


def _elements(space: LabelSpace, shape: Sequence[int], options: Options) -> Elements | None:
    from dssl.models.auto.elements import find_elements

    return find_elements(space, shape, options.elements or "auto", options.network or "auto")


def _in_elements(table: Table, space: LabelSpace, options: Options) -> Table:
    """A table whose columns are tokens or numbers of elements, as an array instead."""
    x = as_array(table)
    if x is None or not (options.elements or options.network in ("sequence", "transformer")):
        return table
    return replace(table, images=x, frame=table.frame.select(table.labels) if table.labels else table.frame)


def _shape(shape: tuple[int, ...], space: LabelSpace, options: Options) -> tuple[int, ...]:
    """Of rows, as the network gets them: of elements, or of images, which have a channel."""
    return (1, *shape) if len(shape) == 2 and _elements(space, shape, options) is None else shape


def _with_unlabelled(table: Table, options: Options, labels: tuple[str, ...], notes: list[str]) -> Table:
    """The rows of the data and of the file of unlabelled rows."""
    if options.unlabelled is None:
        return table
    picture = table.images is not None and table.images.ndim == 4
    more = read(options.unlabelled, table.images.shape[2:] if picture else None,  # type: ignore[union-attr]
                table.images.shape[1] if picture else None)  # type: ignore[union-attr]  # fmt: skip
    if table.images is not None and table.images.ndim == 2:  # tokens
        more = replace(more, images=as_array(more))
    if (more.images is None) != (table.images is None):
        raise DataError(
            f"'{more.path}' and '{table.path}' do not go together: only one has images\n"
            "Give images for both, or tables for both."
        )
    features = [n for n in table.names if n not in labels]
    require(more, [n for n in features if n != options.id and table.images is None], "--unlabelled")
    extra = [n for n in more.names if n not in table.names]
    if extra and table.images is None:
        notes.append(f"'{more.path}' has columns that '{table.path}' does not have; they are left out: {listed(extra)}")
    unknown = {name: pl.Series([None] * len(more), dtype=table.frame.schema[name]) for name in labels}
    own = pl.DataFrame({**{n: more.frame[n] for n in more.names if n in features}, **unknown})
    try:
        frame = pl.concat([table.frame, own], how="diagonal_relaxed")
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"'{more.path}' and '{table.path}' differ in the type of a column: {error}\n"
            "Save the column with the same type in both."
        ) from None
    images = None if table.images is None else np.concatenate([table.images, more.images])
    return replace(table, frame=frame, images=images)


def _names(table: Table, first: Table, row_id: str | None) -> list[str]:
    if row_id is not None and row_id in table.names:
        return [str(v) for v in table.frame[row_id].to_list()]
    return [first.place(i) if i < len(first) else f"unlabelled {i - len(first) + 1}" for i in range(len(table))]


def _check_labels(known: Columns, table: Table, space: LabelSpace, options: Options, notes: list[str]) -> None:
    if np.isnan(known).all():
        raise DataError(f"'{table.path}': no row is labelled\nLabel some rows; empty cells are unknown labels.")
    found = space.check(known) if space.rules else None
    if not found:
        return
    said = broken(found, table, np.arange(len(known)))
    if options.on_violation in (None, "error"):
        raise DataError(f"{said}\nCorrect these rows or rules; or give --on-violation warn, drop or repair.")
    done = {
        "warn": "They are used as they are.",
        "drop": "Their labels are dropped.",
        "repair": "Each is replaced by the valid label nearest to it.",
    }
    notes.append(f"{said}\n{done[str(options.on_violation)]}")


def _held_out(known: Columns, table: Table, options: Options) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Labelled rows to measure on, if a share is held out, and unlabelled rows of their groups."""
    if options.test_share is None:
        return np.arange(0), np.arange(0)
    from dssl.models.splitting import folds

    labelled, count = (~np.isnan(known)).any(axis=1), round(1 / options.test_share)
    group = groups(table, options.group)
    own = np.unique(group[labelled])
    if len(own) < 2 * count:
        what = "labelled rows" if options.group is None else f"values of '{options.group}' with labelled rows"
        raise DataError(
            f"{len(own)} {what} are too few to hold out a share of {options.test_share:g}\n"
            "Label more rows, or give a --test file."
        )
    place = np.searchsorted(own, group[labelled])
    told = np.zeros((len(own), known.shape[1]))
    np.maximum.at(told, place, known[labelled] == 1)
    chosen = own[folds(told.astype(np.float32), count, np.random.RandomState(options.seed or 0)) == 0]
    inside = np.isin(group, chosen)
    return np.flatnonzero(inside & labelled), np.flatnonzero(inside & ~labelled)


def _test_file(
    options: Options, labelling: Labelling, preprocessing: Preprocessing, notes: list[str]
) -> Examples | None:
    """Rows to measure on from a separate file."""
    if options.test is None:
        return None
    said = Notes()
    table = read(options.test, *preprocessing.picture)
    require(table, labelling.columns, "--test")
    x = preprocessing(table, said)
    y, known = labelling.read(table, measured=True), labelling.encode(table, measured=True)
    called, numbers = _names(table, table, preprocessing.id), table.first + np.arange(len(table))
    test = Examples(x, y, known, called, numbers, table.frame, labelling.missed(table, said))
    notes += [f"'{options.test}': {sentence}" for sentence in said.sentences()]
    if not test.labelled.any():
        raise DataError(f"'{options.test}' has no labelled row to measure on\nGive labelled rows.")
    return test


def _check_settings(prepared: Preparation) -> None:
    """Errors about numbers out of their range, before anything is written."""
    try:
        prepared.model()._validate_params()
    except ValueError as error:
        raise DataError(f"{error}\nSee dssl fit --help.") from None
