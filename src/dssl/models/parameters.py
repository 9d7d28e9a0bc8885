"""Parameters of the estimator: where each setting lives, the new names of older ones, and what is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# how scikit-learn's own estimators constrain parameters, with its messages; there is no public form
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_non_negative
from torch import nn

from dssl.errors import DataError
from dssl.models.decisions import DECISIONS
from dssl.models.files.described import Unsaved
from dssl.models.names import PRIORS, TERMS
from dssl.priors import DeterministicPrior, Prior
from dssl.training.elements.readers import IN_CONTEXT
from dssl.training.settings import Settings
from dssl.training.terms.augmentation import AUGMENTATIONS, Views
from dssl.training.terms.consistency import Consistency

MOST_COMPONENTS = 1000
CONSTRAINTS: dict[str, Any] = {
    "rules": "no_validation",
    "prior": [StrOptions({*PRIORS, "auto"}), Prior, callable, None],
    "network": [StrOptions({"auto", "linear", "mlp", "cnn", "wrn-28-2", *IN_CONTEXT}), nn.Module],
    "elements": [str, list, tuple, None],
    "prior_weight": [Interval(Real, 0, None, closed="left"), None],
    "consistency": [StrOptions({*TERMS, "auto"}), Consistency, list, tuple, None],
    "augment": [StrOptions({*AUGMENTATIONS, "auto"}), callable, Views, list, tuple, None],
    "objective": [dict, None],
    "decision": [StrOptions(set(DECISIONS))],
    "calibrate": [StrOptions({"auto"}), "boolean"],
    "steps": [Interval(Integral, 1, None, closed="left"), None],
    "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
    "batch_size": [Interval(Integral, 1, None, closed="left"), None],
    "settings": [dict, None],
    "unlabelled": "no_validation",
    "on_violation": [StrOptions({"error", "warn", "drop", "repair"})],
    "warm_start": ["boolean"],
    "random_state": ["random_state"],
}

PLACES = ("checkpoint", "log", "tensorboard", "callbacks")  # settings that name files to write, or who is told


def checked_weight(sample_weight: Any, x: Any) -> NDArray[np.float64]:
    """Weights of rows x, none of them negative and not all of them zero; 1 each if none are given.

    A row of weight w counts as w rows. Weights that are all below 1, such as shares, are raised until the heaviest row
    counts as one.
    """
    rows = x.shape[0]
    if sample_weight is None or isinstance(sample_weight, Real):
        weight = np.full(rows, 1.0 if sample_weight is None else float(sample_weight))
    else:
        weight = check_array(sample_weight, dtype=np.float64, ensure_2d=False, input_name="sample_weight")
    if weight.shape != (rows,):
        raise DataError(f"sample_weight of shape {weight.shape} does not fit\nGive {rows:,} weights, one per row.")
    check_non_negative(weight, "`sample_weight`")
    if not weight.any():
        raise DataError("all sample weights are zero, so no row counts\nGive some rows a positive weight.")
    return weight / min(1.0, float(weight.max()))


# ---- one home for each ----

GONE: dict[str, str] = {
    "power": "prior=DeterministicPrior(power=…)",
    "label_frequencies": 'objective={"frequencies": …}',
    "verbose": 'settings={"progress": True}, which shows progress',
    "labelled_batch": "batch_size=…",
    "early_stopping": 'settings={"patience": 5}, which stops early',
    **{name: f"objective={{{name!r}: …}}" for name in (
        "labelled_prior_weight", "constrained", "balance", "ramp", "consistency_weight", "components"
    )},
    **{name: f"settings={{{name!r}: …}}" for name in (
        "weight_decay", "unlabelled_batch", "ema", "patience", "validation_fraction", "standardise"
    )},
}  # fmt: skip
_HOMES = {
    "steps": "steps",
    "lr": "learning_rate",
    "labelled_batch": "batch_size",
    "seed": "random_state",
}  # settings of the loop that are parameters of the estimator


def _number(least: float) -> tuple[Callable[[Any], bool], str]:
    return lambda value: _real(value) and value >= least, f"a number, {least:g} or more"


def _real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and abs(float(value)) < float("inf")


def _frequencies(value: Any) -> bool:
    return value in ("auto", "labels", "uniform", "unknown") if isinstance(value, str) else np.iterable(value)


def _components(value: Any) -> bool:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return 1 <= int(value) <= MOST_COMPONENTS if whole else isinstance(value, str) and value == "auto"


_OPTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "labelled_prior_weight": _number(0),
    "balance": _number(0),
    "consistency_weight": _number(0),
    "class_weight": (
        lambda value: value is None or value == "balanced" or isinstance(value, Mapping),
        '"balanced", a dict of weights by class, or a dict of these by variable',
    ),
    "constrained": (lambda value: isinstance(value, bool), "True or False"),
    "rising": (lambda value: isinstance(value, bool), "True or False"),
    "ramp": (
        lambda value: callable(value) or (_real(value) and 0 <= value <= 1),
        "a share of training from 0 to 1, or a function from the step to a factor",
    ),
    "frequencies": (_frequencies, '"auto", "labels", "uniform", "unknown", or numbers: one per column, or by variable'),
    "components": (_components, f'a whole number from 1 to {MOST_COMPONENTS}, or "auto"'),
}  # of the objective


def objective_options(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What an estimator was told about its objective, checked."""
    for name, value in (given or {}).items():
        if name not in _OPTIONS:
            raise ValueError(f"there is no option {name!r} of the objective: choose among {', '.join(_OPTIONS)}")
        holds, what = _OPTIONS[name]
        if not holds(value):
            raise ValueError(f"objective={{{name!r}: {value!r}}}: it must be {what}")
    return dict(given or {})


class Around(NamedTuple):
    """Settings of what is around the loop: the share of labelled rows held out to validate on, and scaling first."""

    validation_fraction: float = 0.2
    standardise: bool = True


def loop_settings(given: Mapping[str, Any] | None) -> tuple[dict[str, Any], Around]:
    """What an estimator was told about the loop, and about what is around it, checked."""
    told = dict(given or {})
    for name in told:
        if name in _HOMES:
            raise ValueError(f"settings={{{name!r}: …}}: {name} is a parameter of its own here, {_HOMES[name]}=…")
    around = Around(**{name: told.pop(name) for name in Around._fields if name in told})
    share = around.validation_fraction
    if not _real(share) or not 0 < share <= 0.5:
        raise ValueError(f"validation_fraction={share!r}: it must be above 0 and at most 0.5")
    if not isinstance(around.standardise, bool):
        raise ValueError(f"standardise={around.standardise!r}: it must be True or False")
    known = {field.name for field in fields(Settings)}
    odd = next((name for name in told if name not in known), None)
    if odd is not None:
        names = sorted(known - {*_HOMES} | {*Around._fields})
        raise ValueError(f"there is no setting {odd!r}: choose among {', '.join(names)}")
    Settings.of(told)
    return told, around


# ---- older spellings ----


def present(old: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a saved model by their present names: some were the estimator's own when it was saved.

    >>> present({"steps": 50, "components": 2, "standardise": False, "objective": None})
    {'steps': 50, 'objective': {'components': 2}, 'settings': {'standardise': False}}
    """
    out = {name: value for name, value in old.items() if name not in _MOVED}
    for name, (home, now, default) in _MOVED.items():
        if name in old and not (isinstance(old[name], type(default)) and old[name] == default):
            out[home] = {**(out.get(home) or {}), now: bool(old[name]) if home == "settings" else old[name]}
    return out


_MOVED: dict[str, tuple[str, str, Any]] = {
    "label_frequencies": ("objective", "frequencies", "auto"),
    "components": ("objective", "components", "auto"),
    "standardise": ("settings", "standardise", True),
    "verbose": ("settings", "progress", False),
}  # parameter: its home, its name there, and what it was by default


def from_0_1(old: Mapping[str, Any], learned: Prior | None = None) -> dict[str, Any]:
    """The parameters of a model that dssl 0.1.0 saved, by their present names.

    It wrote objects by their type alone: a learned prior is the one `learned`, others have to be given again.
    """
    given = dict(old)
    out = {name: value for name, value in given.items() if name in CONSTRAINTS or name in _MOVED}
    kept = ("labelled_prior_weight", "constrained", "balance", "ramp", "consistency_weight")
    out["objective"] = {name: given[name] for name in kept if name in given} or None
    settings = dict(given.get("settings") or {})
    settings |= {name: given[name] for name in ("weight_decay", "unlabelled_batch", "ema") if name in given}
    if given.get("early_stopping"):
        settings |= {name: given[name] for name in ("patience", "validation_fraction") if name in given}
    out["settings"] = {name: value for name, value in settings.items() if name not in _HOMES} or None
    if "labelled_batch" in given:
        out["batch_size"] = given["labelled_batch"]
    if given.get("prior") == "deterministic" and "power" in given:
        out["prior"] = DeterministicPrior(power=given["power"])
    elif given.get("prior") not in (None, *PRIORS):
        out["prior"] = learned or Unsaved(f"an object of {given['prior']}")
    for name, known in (("consistency", {*TERMS, "auto"}), ("augment", {*AUGMENTATIONS, "auto"})):
        held = given.get(name)
        odd = [one for one in (held if isinstance(held, list) else [held]) if one not in (None, *known)]
        if odd:
            out[name] = Unsaved(f"an object of {odd[0]}")
    return present(out)
