"""What the page says about one prediction θ: log q under every prior, and what follows given the rules."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dssl.app.explorer.spaces import Malformed, Opened, Refused, open_text, text_in
from dssl.errors import RuleError
from dssl.logic.space import LabelSpace
from dssl.models.names import PRIORS as PRIORS_BY_NAME
from dssl.priors import EntropyPrior, Prior
from dssl.priors.mixture import Mixture
from dssl.priors.predictive import Predictive

MOST_COLUMNS = 200  # at most, with one slider each
MOST_DRAWN = 50  # samples, and most probable labels
LOGITS = 30.0  # of categorical values, at most
POWERS = (0.5, 100.0)
TIED = 1e-9  # values of θ that differ by a smaller share are equal

PRIORS: dict[str, Callable[..., Prior]] = {name: PRIORS_BY_NAME[name] for name in PRIORS_BY_NAME if name != "learned"}
PRIORS["entropy, semantic"] = partial(EntropyPrior, semantic=True)


def number(request: dict[str, Any], name: str, low: float, high: float, default: float) -> float:
    """A number of a request, within its bounds."""
    value = request.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise Malformed(f"'{name}' must be a number from {low:g} to {high:g}, not {str(value)[:40]}")
    return float(value)


def whole(request: dict[str, Any], name: str, low: int, high: int, default: int) -> int:
    """A whole number of a request, within its bounds."""
    value = number(request, name, low, high, default)
    if value != int(value):
        raise Malformed(f"'{name}' must be a whole number, not {value:g}")
    return int(value)


def beliefs(request: dict[str, Any]) -> dict[str, Any]:
    """log q, marginals, the most probable valid labels and samples at given slider positions."""
    try:
        opened = open_text(text_in(request))
    except RuleError as error:
        return {"error": {"reason": error.reason}}
    z = logits_in(request, opened.space)
    power = number(request, "power", *POWERS, 10.0)
    top = whole(request, "top", 1, MOST_DRAWN, 5)
    samples = whole(request, "samples", 0, MOST_DRAWN, 5)
    seed = whole(request, "seed", 0, 2**31 - 1, 0)
    p = Predictive(z, opened.circuit)
    drawn = p.sample(samples, torch.Generator().manual_seed(seed))  # (samples, 1, width)
    return {
        "priors": log_priors(opened, z, power),
        **judged(opened.space, p, top),
        "samples": [chosen(opened.space, label) for label in drawn[:, 0]],
    }


def logits_in(request: dict[str, Any], space: LabelSpace) -> Tensor:
    """The logits (1, width) of slider positions: θ for binary columns, logits for the others."""
    if space.width > MOST_COLUMNS:
        raise Refused(f"sliders are shown for up to {MOST_COLUMNS} columns, and these rules have {space.width}.")
    values = request.get("values")
    good = isinstance(values, list) and len(values) == space.width
    if not good or not all(isinstance(v, int | float) and math.isfinite(v) for v in values or ()):
        raise Malformed(f"'values' must be a list of {space.width} numbers, one per column")
    z = torch.tensor([values], dtype=torch.float64)
    binary = torch.tensor([variable.binary for variable in space.variables for _ in variable.columns])
    if bool((binary & ((z <= 0) | (z >= 1))).any()) or bool((~binary & (z.abs() > LOGITS)).any()):
        raise Malformed(f"'values' of binary columns lie between 0 and 1, others between −{LOGITS:g} and {LOGITS:g}")
    return torch.where(binary, z.logit(), z)


def log_priors(opened: Opened, z: Tensor, power: float) -> list[dict[str, Any]]:
    """log q under every prior, and what training maximises where that differs."""
    space = opened.space
    given = {"circuit": opened.circuit} if space.rules else {}
    out = []
    for name, make in PRIORS.items():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            prior = make(space, **given, **({"power": power} if name == "deterministic" else {}))
        with torch.no_grad():
            log_q, maximised = float(prior.log_prob(z)), float(prior(z))
        note = "No signal for binary variables without rules." if said else ""
        out.append({"name": name, "log_q": finite(log_q), "maximised": finite(maximised), "note": note})
    return out


def judged(space: LabelSpace, p: Predictive | Mixture, top: int) -> dict[str, Any]:
    """θ, the raw label, marginals given the rules and the most probable valid labels of one row."""
    labels, log_p = p.top_k(top)
    best = [chosen(space, label) for label in labels[0]]
    return {
        "theta": p.theta[0].tolist(),
        "marginals": p.marginals[0].tolist(),
        "raw": raw(p, best[0]),
        "valid": p.log_valid.exp().item(),
        "top": [{"label": label, "log_p": x} for label, x in zip(best, log_p[0].tolist()) if x > -math.inf],
    }


def raw(p: Predictive | Mixture, tied: list[int]) -> list[int]:
    """What the network alone would say: the index of each variable's most probable value; if tied, that of `tied`."""
    out, blocks = list(tied), p.family.blocks
    for group, values in zip(blocks.groups, blocks.of_values(p.theta)):
        for variable, theta in zip(group.variables, values[0]):
            if theta[tied[variable]] < theta.max() * (1 - TIED):
                out[variable] = int(theta.argmax())
    return out


def chosen(space: LabelSpace, label: Tensor) -> list[int]:
    """The index of each variable's value in a label of bool columns (width,)."""
    return [
        int(label[start]) if variable.binary else int(label[start:stop].int().argmax())
        for variable, (start, stop) in zip(space.variables, space.spans)
    ]


def finite(x: float) -> float | None:
    """A number for JSON: None stands for −inf."""
    return x if math.isfinite(x) else None
