"""Parameters as JSON and back: priors and consistency terms by name and options, never users' code."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from dssl.errors import DataError
from dssl.models.names import PRIORS, TERMS
from dssl.priors import LearnedPrior
from dssl.priors.prior import Unbound
from dssl.training.terms.consistency import Consistency

_KIND = "dssl"  # the key that distinguishes a description from a user's dict
_NAMED: list[Any] = [*PRIORS.values(), *TERMS.values()]  # what may be named in a file: nothing else is ever called
_MADE_OF: dict[str, Callable[..., Any]] = {kind.__name__: kind for kind in _NAMED}
_TERMS: set[Any] = set(TERMS.values())
_SPACE = "space"


class Unsaved:
    """Stands in a loaded model for something of the user's that files cannot hold."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __repr__(self) -> str:
        return f"<{self.what}, which was not saved>"

    def __call__(self, *args: Any, **options: Any) -> Any:
        raise DataError(f"{self.what} was not saved with the model\nGive it again, as a parameter.")


def refuse_unsaved(parameters: dict[str, Any]) -> None:
    """An error for the first parameter that has to be given again before a loaded model can be trained."""
    for name, value in parameters.items():
        found = _unsaved(value)
        if found is not None:
            raise DataError(
                f"the model was saved without its {name}, {found.what}: code is never saved\n"
                f"To train it again, give it again: model.set_params({name}=…)."
            )


def _unsaved(value: Any) -> Unsaved | None:
    if isinstance(value, Unsaved):
        return value
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return next((found for found in map(_unsaved, inside) if found is not None), None)


def described(value: Any) -> Any:
    """A parameter as JSON; what JSON cannot hold is described by its type."""
    if isinstance(value, np.generic):
        return described(value.item())
    if isinstance(value, float) and value != value:
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufUS":
        return described(value.tolist())
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [described(v) for v in value]
    if isinstance(value, dict):
        return {str(k): described(v) for k, v in value.items()}
    return _of_object(value)


def _of_object(value: Any) -> dict[str, Any]:
    unsaved = {_KIND: "unsaved", "what": value.what if isinstance(value, Unsaved) else _named(value)}
    if isinstance(value, functools.partial):
        options = described(value.keywords)
        known = _MADE_OF.get(getattr(value.func, "__name__", "")) is value.func and not value.args
        return {_KIND: "partial", "of": value.func.__name__, "with": options} if known and _whole(options) else unsaved
    if isinstance(value, Unbound):
        return _of_object(functools.partial(value.kind, **value.options))
    if isinstance(value, type) and _MADE_OF.get(value.__name__) is value:
        return {_KIND: "partial", "of": value.__name__, "with": {}}
    if isinstance(value, LearnedPrior):
        return {_KIND: "learned prior"}
    if _MADE_OF.get(type(value).__name__) is not type(value):
        return unsaved
    options = described(_options(value))
    return {_KIND: "made", "of": type(value).__name__, "with": options} if _whole(options) else unsaved


def _whole(options: Any) -> bool:
    """Whether all options are complete: none is described only by its type."""
    if isinstance(options, dict):
        return options.get(_KIND) != "unsaved" and all(map(_whole, options.values()))
    return all(map(_whole, options)) if isinstance(options, list) else True


def _named(value: Any) -> str:
    return f"a function ({value.__name__})" if inspect.isfunction(value) else f"an object of {type(value).__name__}"


def _options(made: nn.Module) -> dict[str, Any]:
    """The arguments that an object was made with, which are attributes of the same names."""
    out: dict[str, Any] = {}
    for kind in type(made).__mro__:
        if kind in (Consistency, nn.Module):
            break
        for name in inspect.signature(kind).parameters:
            out.setdefault(name, getattr(made, name, None))
    for name in ("self", _SPACE, "options", "circuit", "weights"):
        out.pop(name, None)
    if "power" in out:
        out["power"] = float(out["power"].detach())
        out["learn_power"] = "log_power" in dict(made.named_parameters())
    if getattr(made, "log_weights", None) is not None:
        out["weights"] = Unsaved("label weights")
    if isinstance(made, Consistency):
        out |= {"weight": made.weight, "labelled": made.labelled}
    return out


def made(description: Any, space: Any = None, learned: LearnedPrior | None = None) -> Any:
    """The parameter that `described` described; priors are of the space."""
    if isinstance(description, list):
        return [made(v, space, learned) for v in description]
    if not isinstance(description, dict):
        return description
    kind = description.get(_KIND)
    if kind not in ("unsaved", "partial", "made", "learned prior"):
        return {k: made(v, space, learned) for k, v in description.items()}
    if kind == "unsaved":
        return Unsaved(str(description["what"]))
    if kind == "learned prior":
        return learned
    maker, options = _MADE_OF[description["of"]], made(description["with"])
    if kind == "partial":
        return Unbound(maker, options) if isinstance(maker, type) else functools.partial(maker, **options)
    return maker(**options) if maker in _TERMS else maker(space, **options)
