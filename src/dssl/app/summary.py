"""Summary: everything a report says about a run, as plain numbers that a JSON file can hold."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl
import sklearn
import torch
from sklearn.utils.validation import check_is_fitted

import dssl
from dssl.app import measures
from dssl.app.findings.changed import Changed, changed_by_rules
from dssl.app.findings.comparison import Way, compare
from dssl.app.findings.importance import Importance, importances
from dssl.app.findings.mistakes import Mistake, mistakes
from dssl.app.measures import Part
from dssl.errors import DataError
from dssl.files import present, write_whole
from dssl.logic.labels import Columns
from dssl.logic.language.variables import shown
from dssl.models.auto.beside import Blended
from dssl.models.auto.calibration import Calibrated, uncalibrated
from dssl.models.auto.elements import network_name
from dssl.models.auto.plan import Decision
from dssl.models.estimators import DSSLClassifier
from dssl.models.inference import count, features_of, run, taken
from dssl.training.balance import collapse

_FORMAT, _VERSION = "dssl summary", 3
_ROWS, _CELLS, _SEED = 20_000, 20_000_000, 0  # rows and cells of a part, at most; seed of the draw
_CURVE = 300  # points of a learning curve, at most
_UNSURE, _WRONG = 20, 20  # rows listed as worth labelling, and as wrong
_COLUMNS, _LONGEST = 60, 500  # of a listed row: columns, and characters of each

Cells = dict[str, str]  # of one row, by column


@dataclass(frozen=True)
class Origin:
    """Where rows come from: their numbers in the file (counted from 0 without), their names, and all their columns."""

    numbers: Sequence[int] | None = None
    names: Sequence[str] | None = None
    cells: pl.DataFrame | None = None

    def number(self, row: int) -> int:
        return row if self.numbers is None else int(self.numbers[row])

    def shown(self, row: int) -> Cells:
        """The cells of a row that are not empty."""
        if self.cells is None:
            return {}
        found = self.cells[:, :_COLUMNS].row(row, named=True)
        return {name: str(value)[:_LONGEST] for name, value in found.items() if value is not None and str(value)}

    def require(self, rows: int) -> None:
        """An error unless there is one of everything for each of so many rows."""
        for what, given in (("row names", self.names), ("row numbers", self.numbers), ("rows of cells", self.cells)):
            if given is not None and len(given) != rows:
                raise DataError(f"{len(given):,} {what} and {rows:,} rows\nGive one for each row.")


@dataclass(frozen=True)
class Counts:
    """Rows: in `labelled` every variable is known, in `partly` some, in `unlabelled` none; `test` is separate."""

    rows: int
    labelled: int
    partly: int
    unlabelled: int
    test: int


@dataclass(frozen=True)
class Variety:
    """Entropy in nats of a variable's mean prediction on unlabelled rows, and of its labels."""

    variable: str
    predicted: float
    labelled: float


@dataclass(frozen=True)
class Summary:
    """What a run did and how well; `save` and `load` keep it as JSON, `dssl.app.report` makes a page of it.

    `looked_at` says how many rows of each part the figures are about; `scored` names the part that scores and
    calibration are about. Figures about parts that a run lacks are empty.
    """

    title: str
    created: str
    seconds: float
    command: str
    data: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]
    space: str  # its text
    network: str
    weights: int
    features: int
    feature_names: tuple[str, ...] | None
    counts: Counts
    looked_at: dict[str, tuple[int, int]]  # rows looked at, of how many
    frequencies: tuple[measures.Frequency, ...]
    rules: tuple[measures.RuleBreaks, ...]
    broken: dict[str, measures.Broken]  # rows that break any hard rule
    curves: tuple[dict[str, float | None], ...]
    histograms: tuple[measures.Histogram, ...]
    scored: str | None
    right: dict[str, tuple[int, int]]  # rows that are right in everything known, of how many
    scores: tuple[measures.Score, ...]
    variable_scores: tuple[measures.VariableScore, ...]
    confusions: tuple[measures.Confusion, ...]
    calibrations: tuple[measures.Calibration, ...]
    collapse: float | None
    varieties: tuple[Variety, ...]
    uncertain: tuple[measures.Uncertain, ...]
    uncertain_cells: tuple[Cells, ...]  # of the same rows; empty where the columns of the file are not known
    comparison: tuple[Way, ...]  # test rows by simpler means, and by the model; empty if they were not tried
    changed: dict[str, Changed]  # by the rules
    mistakes: tuple[Mistake, ...]  # of the part that is scored
    importances: tuple[Importance, ...]  # of the table's columns, on test rows
    plan: tuple[Decision, ...]

    @property
    def score(self) -> float | None:
        """Accuracy on the test rows, as `DSSLClassifier.score` has it; None without any."""
        hits, of = self.right.get("test", (0, 0))
        return hits / of if of else None

    # ---- files ----

    def save(self, path: str | Path) -> Path:
        """Write the summary as JSON: the whole file appears, or none of it."""
        path = Path(path)
        content = {"format": _FORMAT, "version": _VERSION} | asdict(self)
        write_whole(
            path, (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(), parents=True
        )
        return path

    @classmethod
    def load(cls, path: str | Path) -> Summary:
        """Read what `save` wrote; other files are refused."""
        path = Path(path)
        try:
            content = json.loads(present(path).read_bytes())
        except DataError:
            raise
        except (ValueError, RecursionError):
            raise DataError(f"'{path}' is not JSON\nGive the summary.json of a run.") from None
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise DataError(f"'{path}' is not the summary of a run\nGive a summary.json that `dssl fit` wrote.")
        version = content.get("version")
        if isinstance(version, int) and version < _VERSION:
            raise DataError(
                f"'{path}' was written by an earlier dssl: version {version} of the format, not {_VERSION}\n"
                "Fit again to have a new one."
            )
        if not isinstance(version, int) or version > _VERSION:
            raise DataError(
                f"'{path}' has version {shown(repr(version))} of the format, and this dssl reads up to {_VERSION}\n"
                "Update dssl, or write the summary again."
            )
        try:
            return _read(cls, {name: content[name] for name in content if name not in ("format", "version")}, "")
        except (KeyError, TypeError) as error:
            raise DataError(f"'{path}' is damaged: {error.args[0]}\nWrite the summary again.") from None


def _read(kind: Any, value: Any, where: str) -> Any:
    """A value of JSON as an object of a type; TypeError names the place where it does not fit."""
    if kind is Any:
        return value
    if is_dataclass(kind):
        return _read_fields(kind, value, where)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(value, list):
        each = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
        if len(each) == len(value):
            return tuple(_read(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(each, value)))
    elif origin is dict and isinstance(value, dict):
        return {name: _read(inner[1], v, f"{where}.{name}") for name, v in value.items()}
    elif origin is UnionType:
        return None if value is None else _read(inner[0], value, where)
    elif kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif kind in (int, str, bool) and type(value) is kind:
        return value
    raise TypeError(f"{where.lstrip('.')} is {_shown(value)}")


def _read_fields(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{where.lstrip('.') or 'the whole'} is {_shown(value)}")
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    for name in names:
        if name not in value:
            raise TypeError(f"{where.lstrip('.') or 'the file'} has no '{name}'")
    return kind(**{name: _read(hints[name], value[name], f"{where}.{name}") for name in names})


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:60] + "…"


# ---- making one ----


def summarise(
    model: DSSLClassifier,
    X: Any,
    y: Any,
    *,
    X_test: Any = None,
    y_test: Any = None,
    missed: measures.Positions | None = None,
    rows: Origin = Origin(),
    test_rows: Origin = Origin(),
    feature_names: Sequence[str] | None = None,
    inputs_of: Mapping[str, Sequence[int]] | None = None,
    fresh: DSSLClassifier | None = None,
    log_rows: Sequence[Mapping[str, Any]] | None = None,
    settings: Mapping[str, Any],
    command: str,
    data: Mapping[str, Any],
    seconds: float,
) -> Summary:
    """What a fitted model did with the rows and labels it was given, and with test rows if there are any.

    >>> import numpy as np
    >>> X = np.array([[0.0, 0.1], [0.2, 0.0], [3.0, 3.1], [3.2, 2.9]] * 5)
    >>> y = np.array(["near", None, "far", None] * 5)
    >>> model = DSSLClassifier(steps=50, random_state=0).fit(X, y)
    >>> summary = summarise(model, X, y, settings={"steps": 50}, command="", data={}, seconds=0.1)
    >>> summary.counts
    Counts(rows=20, labelled=10, partly=0, unlabelled=10, test=0)

    * `rows`, `test_rows`: where they come from, for the lists of those worth labelling, and of those that are wrong.
    * `inputs_of`: which inputs, by place, were made of each column of a table; by default each is one.
    * `fresh`: an estimator with the same settings that has not learned: simpler ways are tried and compared with it.
    * `log_rows`: the rows of the run's log, by default `model.history_`.
    * `missed`: how many labels each test row has that the space does not have; such a row is never right.
    * `settings`, `command`, `data`: shown as they are. `data["title"]` or `data["file"]` names the run.

    Of labelled and of unlabelled rows at most 20,000 are looked at, drawn at random with a fixed seed; fewer if labels
    are wide. Test rows are all looked at.
    """
    check_is_fitted(model, "network_")
    if (X_test is None) != (y_test is None):
        raise DataError("test rows need labels\nGive both X_test and y_test, or neither.")
    columns = model.targets_.encode(y)
    if count(X) != len(columns):
        raise DataError(f"{count(X):,} rows and {len(columns):,} labels\nGive one label per row.")
    rows.require(len(columns))
    test_rows.require(0 if X_test is None else count(X_test))
    parts = _parts(model, X, columns, X_test, y_test, missed)
    names = feature_names if feature_names is not None else getattr(model, "feature_names_in_", None)
    title = data.get("title", data.get("file", "A run"))
    return Summary(
        title=str(title),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=float(seconds),
        command=str(command),
        data=_plain(dict(data)),
        settings=_plain(dict(settings)),
        versions=_versions(),
        space=str(model.space_),
        network=type(model.network_).__qualname__ if isinstance(model.network, torch.nn.Module) else _network(model),
        weights=sum(p.numel() for p in model.network_.parameters()),
        features=math.prod(model.input_shape_),
        feature_names=None if names is None else tuple(map(str, names)),
        counts=_counts(model, columns, parts.get("test")),
        looked_at={name: (len(part), part.total) for name, part in parts.items()},
        curves=_curves(model.history_ if log_rows is None else log_rows),
        **_measured(model, columns, parts, rows),
        **_found(model, _Rows(X, columns, rows, X_test, test_rows), parts, names, inputs_of, fresh),
        plan=model.plan_.decisions,
    )


def _network(model: DSSLClassifier) -> str:
    return network_name(str(model.network), model.elements_, model.input_shape_)


def _parts(
    model: DSSLClassifier, X: Any, columns: Columns, X_test: Any, y_test: Any, missed: measures.Positions | None
) -> dict[str, Part]:
    """The parts that have rows, in the order of a report."""
    labelled = ~np.isnan(columns).all(axis=1)
    random = np.random.default_rng(_SEED)
    most = max(1, min(_ROWS, _CELLS // columns.shape[1]))
    out = {}
    for name, mask in (("labelled", labelled), ("unlabelled", ~labelled)):
        rows = np.flatnonzero(mask)
        if len(rows):
            drawn = rows if len(rows) <= most else np.sort(random.choice(rows, most, replace=False))
            logits = model._logits(taken(X, drawn))
            out[name] = Part(name, len(rows), drawn, columns[drawn], logits, model.decoder_)
    if X_test is not None and count(X_test):
        known = model.targets_.encode(y_test)
        logits = model._logits(X_test)
        if len(logits) != len(known):
            raise DataError(f"{len(logits):,} test rows and {len(known):,} labels\nGive one label per row.")
        out["test"] = Part("test", len(known), np.arange(len(known)), known, logits, model.decoder_, missed)
    return out


def _counts(model: DSSLClassifier, columns: Columns, test: Part | None) -> Counts:
    labelled = int((~np.isnan(columns).all(axis=1)).sum())
    whole = int(measures.complete(model.space_, columns).sum())
    return Counts(len(columns), whole, labelled - whole, len(columns) - labelled, 0 if test is None else len(test))


def _measured(model: DSSLClassifier, columns: Columns, parts: Mapping[str, Part], rows: Origin) -> dict[str, Any]:
    space = model.space_
    right = {name: measures.right(part) for name, part in parts.items() if name != "unlabelled"}
    scored = next((parts[name] for name in ("test", "labelled") if right.get(name, (0, 0))[1]), None)
    fresh = [parts[name] for name in ("unlabelled", "test") if name in parts] or list(parts.values())
    rules, broken = measures.broken_rules(space, fresh)
    unlabelled = parts.get("unlabelled")
    unsure = () if unlabelled is None else measures.uncertain(unlabelled, _UNSURE, rows.names)
    found = None
    if unlabelled is not None and "labelled" in parts:
        known = torch.from_numpy(parts["labelled"].known)
        found = collapse(space, unlabelled.logits, known, model.decoder_.components)
    return {
        "frequencies": measures.frequencies(space, columns, unlabelled),
        "rules": rules,
        "broken": broken,
        "histograms": tuple(h for part in parts.values() for h in measures.histograms(part)),
        "scored": None if scored is None else scored.name,
        "right": right,
        "scores": () if scored is None else measures.scores(scored),
        "variable_scores": () if scored is None else measures.variable_scores(scored),
        "confusions": () if scored is None else measures.confusions(scored),
        "collapse": None if found is None else found.share,
        "varieties": ()
        if found is None
        else tuple(
            Variety(variable.name, float(p), float(q))
            for variable, p, q in zip(space.variables, found.predicted, found.labelled)
        ),
        "uncertain": tuple(replace(u, row=rows.number(u.row)) for u in unsure),
        "uncertain_cells": tuple(rows.shown(u.row) for u in unsure),
    }


@dataclass(frozen=True)
class _Rows:
    """The rows of a run, as the model takes them, and where they come from."""

    X: Any
    columns: Columns
    rows: Origin
    X_test: Any
    test_rows: Origin

    def of(self, part: Part) -> tuple[Any, Origin]:
        return (self.X_test, self.test_rows) if part.name == "test" else (taken(self.X, part.rows), self.rows)


def _found(
    model: DSSLClassifier,
    every: _Rows,
    parts: Mapping[str, Part],
    names: Sequence[str] | None,
    inputs_of: Mapping[str, Sequence[int]] | None,
    fresh: DSSLClassifier | None,
) -> dict[str, Any]:
    """What labels say about predictions: on test rows, or on labelled ones where there are none."""
    test = parts.get("test")
    scored = next((p for p in (test, parts.get("labelled")) if p is not None and measures.right(p)[1]), None)
    tested = test is not None and scored is test
    if inputs_of is None and len(model.input_shape_) == 1:
        known = names if names is not None else [f"x{i}" for i in range(model.n_features_in_)]
        inputs_of = {str(name): [i] for i, name in enumerate(known)}
    wrong: tuple[Mistake, ...] = ()
    if scored is not None:
        x, origin = every.of(scored)
        wrong = mistakes(scored, _WRONG, origin.number, origin.names, origin.shown, x)
    return {
        "calibrations": () if scored is None else _calibrations(model, every.of(scored)[0], scored),
        "comparison": compare(model, fresh, every.X, every.columns, every.X_test, test)
        if tested and test is not None and fresh is not None
        else (),
        "changed": {
            name: found for name, part in parts.items() if name != "labelled" and (found := changed_by_rules(part))
        },
        "mistakes": wrong,
        "importances": importances(model, every.X_test, test, inputs_of)
        if tested and test is not None and inputs_of
        else (),
    }


def _calibrations(model: DSSLClassifier, X: Any, part: Part) -> tuple[measures.Calibration, ...]:
    """Of predictions as they are; if they were calibrated, of those before that, first."""
    found = measures.calibrations(part)
    if not any(isinstance(layer, Calibrated | Blended) for layer in model.network_.modules()):
        return found
    logits = run(uncalibrated(model.network_), features_of(model, X), model.standardiser_)
    before = measures.calibrations(replace(part, logits=logits))
    return (*(replace(one, stage="before") for one in before[-1:]), *found)


def _curves(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float | None], ...]:
    """The numbers of a log, thinned evenly if it is long; its last row is kept."""
    kept = sorted({round(i) for i in np.linspace(0, len(rows) - 1, min(_CURVE, len(rows)))})
    return tuple({str(name): _number(value) for name, value in rows[i].items()} for i in kept)


def _number(value: Any) -> float | None:
    """A finite number of any type; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _plain(value: Any) -> Any:
    """A value for JSON; what JSON cannot hold becomes text."""
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _versions() -> dict[str, str]:
    return {
        "dssl": dssl.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }
