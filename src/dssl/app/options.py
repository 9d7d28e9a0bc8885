"""Options of `dssl fit`: one table for flags, settings files and the record of a run."""

from __future__ import annotations

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
_MANY: dict[str, Any] = {"consume_multiple": True, "negative": ""}
FLAG: dict[str, Any] = {"negative": ""}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run is told. None stands for "not said": a settings file may say it, else the default holds."""

    label: Annotated[list[str] | None, _data("Columns that hold labels; empty cells are unknown.", **_MANY)] = None
    rules: Annotated[Path | None, _data("File of rules; its variables are looked for among the columns.")] = None
    unlabelled: Annotated[Path | None, _data("Further rows without labels.")] = None
    test: Annotated[Path | None, _data("Labelled rows to measure on.")] = None
    test_share: Annotated[float | None, _data("Or: the share of the labelled rows to hold out for it.")] = None
    id: Annotated[str | None, _data("Column that names the rows; it is not learnt from.")] = None
    ignore: Annotated[list[str] | None, _data("Columns to leave out.", **_MANY)] = None
    categorical: Annotated[list[str] | None, _data("Columns to read as categories.", **_MANY)] = None
    image_size: Annotated[int | None, _data("Height and width that images are brought to.")] = None
    on_violation: Annotated[
        Literal["error", "warn", "drop", "repair"] | None, _data("What to do with labels that break a rule.")
    ] = None

    prior: Annotated[
        Literal["deterministic", "entropy", "exclusivity", "pseudo-label", "learned", "none"] | None,
        _learning("What to expect of predictions on unlabelled rows; none: learn from labels only."),
    ] = None
    prior_weight: Annotated[float | None, _learning("Its weight λ.")] = None
    power: Annotated[float | None, _learning("T of the deterministic prior.")] = None
    balance: Annotated[float | None, _learning("How strongly mean predictions keep to label frequencies.")] = None
    ramp: Annotated[float | None, _learning("Share of training in which these weights rise.")] = None
    consistency: Annotated[
        list[Terms] | None,
        _learning(
            "Terms that ask for equal predictions on changed rows, or none; by default chosen by the data.", **_MANY
        ),
    ] = None
    consistency_weight: Annotated[float | None, _learning("Their weight μ.")] = None
    augment: Annotated[
        Literal["image", "digits", "table"] | None, _learning("Changes of rows that leave their labels as they are.")
    ] = None
    network: Annotated[Literal["linear", "mlp", "cnn", "wrn-28-2"] | None, _learning("What predicts.")] = None
    steps: Annotated[int | None, _learning("Updates of the network.")] = None
    learning_rate: Annotated[float | None, _learning("Size of an update.")] = None
    weight_decay: Annotated[float | None, _learning("Pull of weights towards 0.")] = None
    labelled_batch: Annotated[int | None, _learning("Labelled rows of an update.")] = None
    unlabelled_batch: Annotated[int | None, _learning("Unlabelled rows of an update.")] = None
    ema: Annotated[float | None, _learning("Decay of averaged weights, which are then used.")] = None
    constrained: Annotated[bool | None, _learning("Likelihood of labels given that they are valid.", **FLAG)] = None
    early_stopping: Annotated[bool | None, _learning("Stop when held-out labels get no better.", **FLAG)] = None
    validation_fraction: Annotated[float | None, _learning("Share of labelled rows held out for that.")] = None
    patience: Annotated[int | None, _learning("Evaluations without progress before it stops.")] = None
    seed: Annotated[int | None, _learning("The same seed gives the same model. Default 0.")] = None

    devices: Annotated[int | None, machine("Processes to train in, each with its device.")] = None
    accelerator: Annotated[Literal["auto", "cpu", "cuda", "mps"] | None, machine("What to compute on.")] = None
    checkpoint_every: Annotated[int | None, machine("Steps between checkpoints. Default 100.")] = None
    out: Annotated[Path | None, machine("Folder of the run: model, log, report.")] = None
    overwrite: Annotated[bool | None, machine("Replace the run in that folder.", **FLAG)] = None

    def with_file(self, path: Path | None) -> Options:
        """These options, and where they say nothing, those of a TOML file."""
        if path is None:
            return self
        found = _read_toml(path)
        return replace(self, **{name: value for name, value in found.items() if getattr(self, name) is None})

    def said(self) -> dict[str, Any]:
        """The options that were said, as JSON has them."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: str(v) if isinstance(v, Path) else v for k, v in given.items() if v is not None}

    def checked(self) -> Options:
        """These options, or an error about flags that do not go together."""
        if self.test is not None and self.test_share is not None:
            raise UsageError("--test and --test-share both say what to measure on\nGive one of them.")
        if self.test_share is not None and not 0 < self.test_share <= 0.5:
            raise UsageError(f"--test-share {self.test_share:g} is not above 0 and at most 0.5\nGive .2, say.")
        for name in ("checkpoint_every", "image_size"):
            if (number := getattr(self, name)) is not None and number < 1:
                raise UsageError(f"--{name.replace('_', '-')} {number} is below 1\nGive a number from 1.")
        return self


def _read_toml(path: Path) -> dict[str, Any]:
    """The options of a file, with every name and type checked."""
    from dssl.logic.variables import nearest, shown

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # bad TOML, bad text, numbers too long, lists too deep
        raise DataError(f"'{path}' is not TOML: {error}\nWrite one setting a line, as in: steps = 500") from None
    kinds = _kinds()
    out: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in kinds:
            raise DataError(
                f"'{path}' has a setting '{shown(key)}' that dssl fit does not know\n"
                f"{nearest(name, kinds)}Settings are called as the flags: dssl fit --help"
            )
        out[name] = _fitting(kinds[name], value, f"'{path}': {key}")
    return out


def _kinds() -> Mapping[str, Any]:
    """The type of each option, without None."""
    hints = get_type_hints(Options)
    return {name: next(t for t in get_args(kind) if t is not type(None)) for name, kind in hints.items()}


def _fitting(kind: Any, value: Any, where: str) -> Any:
    """A value of a TOML file as the option's type, or an error."""
    from dssl.logic.variables import shown

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
        return "one of " + ", ".join(f'"{choice}"' for choice in get_args(kind))
    names: dict[Any, str] = {
        str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false",
        Path: "a path in quotes",
    }  # fmt: skip
    return names[kind]
