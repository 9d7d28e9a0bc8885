"""Options of `dssl fit`: one table for flags, settings files and the record of a run."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from cyclopts import Group, Parameter

from dssl.app.terminal import UsageError
from dssl.errors import DataError

_DATA = Group("Data", sort_key=1)
_LEARNING = Group("Learning", sort_key=2)
_MACHINE = Group("Machine and output", sort_key=3)


def _data(help: str, **more: Any) -> Parameter:
    return Parameter(help=help, group=_DATA, **more)


def _learning(help: str, **more: Any) -> Parameter:
    return Parameter(help=help, group=_LEARNING, **more)


def machine(help: str, **more: Any) -> Parameter:
    return Parameter(help=help, group=_MACHINE, **more)


Terms = Literal[
    "fixmatch",
    "ladder",
    "m2",
    "mean-teacher",
    "mixmatch",
    "mixup",
    "neighbours",
    "none",
    "pi-model",
    "remixmatch",
    "temporal-ensembling",
    "vat",
]
_GONE = {"early_stopping": "--patience 5, which stops early", "labelled_batch": "--batch-size"}
_MANY: dict[str, Any] = {"consume_multiple": True, "negative": ""}
FLAG: dict[str, Any] = {"negative": ""}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run is asked to do. None means "not given": a settings file may give it, otherwise the default applies."""

    label: Annotated[list[str] | None, _data("Columns that hold labels; empty cells are unknown.", **_MANY)] = None
    label_separator: Annotated[
        str | None, _data("Separator of the names in a label cell; '' if each cell holds one name.")
    ] = None
    rules: Annotated[Path | None, _data("File of rules; its variables are looked for among the columns.")] = None
    unlabelled: Annotated[Path | None, _data("File of further rows without labels.")] = None
    test: Annotated[Path | None, _data("File of labelled rows to measure on.")] = None
    test_share: Annotated[
        float | None, _data("Share of the labelled rows to hold out and measure on, in place of --test.")
    ] = None
    group: Annotated[
        str | None,
        _data("Column of groups: rows of one group are held out together, or not at all. It is not a feature."),
    ] = None
    id: Annotated[str | None, _data("Column that names the rows; it is not a feature.")] = None
    ignore: Annotated[list[str] | None, _data("Columns to leave out.", **_MANY)] = None
    categorical: Annotated[list[str] | None, _data("Columns to read as categories.", **_MANY)] = None
    text: Annotated[list[str] | None, _data("Columns to read as texts, by their words.", **_MANY)] = None
    image_size: Annotated[
        int | None, _data("Height and width to which images are resized. Default: the size of the first image.")
    ] = None
    on_violation: Annotated[
        Literal["error", "warn", "drop", "repair"] | None,
        _data("What to do with labels that break a rule. Default error."),
    ] = None

    prior: Annotated[
        Literal["auto", "deterministic", "entropy", "exclusivity", "pseudo-label", "null-category", "learned", "none"]
        | None,
        _learning("What to expect of predictions on unlabelled rows; with none, learn from labels only. Default auto."),
    ] = None
    prior_weight: Annotated[float | None, _learning("Weight λ of the prior. Default: as planned, or .3.")] = None
    power: Annotated[float | None, _learning("T of the deterministic prior. Default 2.")] = None
    balance: Annotated[
        float | None, _learning("How strongly mean predictions keep to label frequencies. Default 1.")
    ] = None
    ramp: Annotated[
        float | None,
        _learning("Share of training in which the weights of prior, balance and consistency rise. Default .4."),
    ] = None
    consistency: Annotated[
        list[Terms] | None,
        _learning(
            "Terms that ask for equal predictions on changed rows, or none; by default chosen by the data.", **_MANY
        ),
    ] = None
    consistency_weight: Annotated[float | None, _learning("Weight μ of the consistency terms. Default 1.")] = None
    augment: Annotated[
        Literal["auto", "image", "digits", "table"] | None,
        _learning("Changes of rows that leave their labels as they are; with 'auto', labels decide. Default: none."),
    ] = None
    network: Annotated[
        Literal["linear", "mlp", "cnn", "wrn-28-2", "sequence", "transformer"] | None,
        _learning("Network that predicts. Default mlp; cnn for images, sequence for tokens."),
    ] = None
    elements: Annotated[
        list[str] | None,
        _learning(
            "Array of the rules, or variables, that the parts of a row show, all read by one network. "
            "Default: found by itself, if it is clear.",
            **_MANY,
        ),
    ] = None
    components: Annotated[
        int | None,
        _learning("Mix this many predictions: for labels with correlations that rules do not explain. Default 1."),
    ] = None
    decision: Annotated[
        Literal["most probable", "marginals", "f1"] | None,
        _learning(
            "Which valid label to predict: the most probable, the one with the most entries right, or the one with the "
            "best F1. Default most probable."
        ),
    ] = None
    calibrate: Annotated[
        bool | None, _learning("Calibrate on labelled rows left out in folds. The default if there are enough of them.")
    ] = None
    steps: Annotated[
        int | None, _learning("Updates of the network. Default 400, or ten passes over the labelled rows.")
    ] = None
    learning_rate: Annotated[float | None, _learning("Size of an update. Default .002.")] = None
    weight_decay: Annotated[float | None, _learning("Pull of weights towards 0. Default .0001.")] = None
    batch_size: Annotated[
        int | None, _learning("Labelled rows per update. Default 64; 128 if labels have many rare columns.")
    ] = None
    unlabelled_batch: Annotated[int | None, _learning("Unlabelled rows per update. Default 256.")] = None
    ema: Annotated[float | None, _learning("Decay of averaged weights, which are then used. Default .99.")] = None
    constrained: Annotated[
        bool | None, _learning("Use the likelihood of labels given that they are valid. Default: as planned.", **FLAG)
    ] = None
    patience: Annotated[
        int | None,
        _learning("Stop after this many evaluations without a better score on held-out labels. Default: never."),
    ] = None
    validation_fraction: Annotated[
        float | None, _learning("Share of labelled rows held out for --patience. Default .2.")
    ] = None
    early_stopping: Annotated[bool | None, Parameter(show=False, **FLAG)] = None  # removed, see _GONE
    labelled_batch: Annotated[int | None, Parameter(show=False)] = None
    compare: Annotated[
        bool | None,
        _learning(
            "Where there are test rows, learn from labels alone too, without and with the rules, to compare. "
            "The default; it adds about half of the time."
        ),
    ] = None
    seed: Annotated[int | None, _learning("The same seed gives the same model. Default 0.")] = None

    devices: Annotated[int | None, machine("Processes to train in, each with its own device. Default 1.")] = None
    accelerator: Annotated[
        Literal["auto", "cpu", "cuda", "mps"] | None, machine("What to compute on. Default auto.")
    ] = None
    checkpoint_every: Annotated[int | None, machine("Steps between checkpoints. Default 100.")] = None
    out: Annotated[Path | None, machine("Folder of the run: model, log, report.")] = None
    overwrite: Annotated[bool | None, machine("Replace the run in that folder.", **FLAG)] = None

    def with_file(self, path: Path | None) -> Options:
        """These options, completed by those of a TOML file."""
        if path is None:
            return self
        found = _read_toml(path)
        return replace(self, **{name: value for name, value in found.items() if getattr(self, name) is None})

    def said(self) -> dict[str, Any]:
        """The options that were given, as JSON."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: str(v) if isinstance(v, Path) else v for k, v in given.items() if v is not None}

    def checked(self) -> Options:
        """These options, or an error about flags that do not go together."""
        if self.test is not None and self.test_share is not None:
            raise UsageError("--test and --test-share both say what to measure on\nGive one of them.")
        if self.test_share is not None and not 0 < self.test_share <= 0.5:
            raise UsageError(
                f"--test-share {self.test_share:g} is not above 0 and at most 0.5\nGive a share such as .2."
            )
        if self.group is not None and self.test_share is None:
            raise UsageError(
                "--group says which rows are held out together, and no rows are held out\nGive --test-share .2 with it."
            )
        for name, now in _GONE.items():
            if getattr(self, name) is not None:
                raise UsageError(f"there is no --{name.replace('_', '-')} any more\nSay {now}.")
        if self.power is not None and not 0 < self.power < math.inf:
            raise UsageError(f"--power {self.power:g} is not above 0\nGive 2, say.")
        if self.power is not None and self.prior not in (None, "deterministic"):
            raise UsageError(f"--power belongs to the deterministic prior, not {self.prior}\nLeave out one of them.")
        for name in ("checkpoint_every", "image_size", "components", "steps", "batch_size"):
            if (number := getattr(self, name)) is not None and number < 1:
                raise UsageError(f"--{name.replace('_', '-')} {number} is below 1\nGive 1 or more.")
        return self


def _read_toml(path: Path) -> dict[str, Any]:
    """The options of a file, with every name and type checked."""
    from dssl.files import present
    from dssl.logic.language.variables import nearest, shown

    try:
        table = tomllib.loads(present(path).read_text(encoding="utf-8"))
    except DataError:
        raise
    except (ValueError, RecursionError) as error:  # bad TOML, bad text, numbers too long, lists too deep
        raise DataError(f"'{path}' is not TOML: {error}\nWrite one setting per line, as in: steps = 500") from None
    kinds = _kinds()
    out: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in kinds:
            raise DataError(
                f"'{path}' has a setting '{shown(key)}' that dssl fit does not know\n"
                f"{nearest(name, kinds)}Settings have the names of the flags: see dssl fit --help"
            )
        out[name] = _fitting(kinds[name], value, f"'{path}': {key}")
    return out


def _kinds() -> Mapping[str, Any]:
    """The type of each option, without None."""
    hints = get_type_hints(Options)
    return {name: next(t for t in get_args(kind) if t is not type(None)) for name, kind in hints.items()}


def _fitting(kind: Any, value: Any, where: str) -> Any:
    """A value of a TOML file as the option's type, or an error."""
    from dssl.logic.language.variables import shown

    if get_origin(kind) is Literal and value in get_args(kind):
        return value
    if get_origin(kind) is list:
        (inner,) = get_args(kind)
        return [_fitting(inner, v, where) for v in (value if isinstance(value, list) else [value])]
    if kind is Path and isinstance(value, str) and "\0" not in value:
        return Path(value)
    if kind is float and type(value) is int and abs(value) < 1 << 1000:
        return float(value)
    if kind in (str, int, float, bool) and type(value) is kind:
        return value
    raise DataError(f"{where} = {shown(repr(value))} does not fit\nGive {_named(kind)}.")


def _named(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f'"{option}"' for option in get_args(kind))
    names: dict[Any, str] = {
        str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false",
        Path: "a path in quotes",
    }  # fmt: skip
    return names[kind]
