"""What the page says about one prediction θ: log q under every prior, and what the rules make of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dssl.app.explorer.spaces import Malformed, Opened, Refused, open_text, text_in
from dssl.circuits.circuit import Circuit
from dssl.errors import RuleError
from dssl.logic.space import LabelSpace
from dssl.priors import DeterministicPrior, EntropyPrior, ExclusivityPrior, Prior, PseudoLabelPrior
from dssl.priors.blocks import Blocks

MOST_COLUMNS = 200  # with a slider each
MOST_DRAWN = 50  # samples, and most probable labels
LOGITS = 30.0  # of categorical values, at most
POWERS = (0.5, 100.0)
TIED = 1e-9  # logits closer than this are equal

PRIORS: dict[str, Callable[..., Prior]] = {
    "entropy": EntropyPrior,
    "entropy, semantic": lambda space, **given: EntropyPrior(space, semantic=True, **given),
    "exclusivity": ExclusivityPrior,
    "pseudo-label": PseudoLabelPrior,
    "deterministic": DeterministicPrior,
}


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
    return {
        "priors": log_priors(opened, z, power),
        **judged(opened.space, opened.circuit, z, top),
        "samples": _samples(opened, z, samples, seed),
    }


def logits_in(request: dict[str, Any], space: LabelSpace) -> Tensor:
    """The logits (1, width) of slider positions: θ of each binary column, the logit of each other one."""
    if space.width > MOST_COLUMNS:
        raise Refused(f"sliders are shown for up to {MOST_COLUMNS} columns, and these rules have {space.width}.")
    values = request.get("values")
    good = isinstance(values, list) and len(values) == space.width
    if not good or not all(isinstance(v, int | float) and math.isfinite(v) for v in values or ()):
        raise Malformed(f"'values' must be a list of {space.width} numbers, one a column")
    z = torch.tensor([values], dtype=torch.float64)
    binary = torch.tensor([variable.binary for variable in space.variables for _ in variable.columns])
    if bool((binary & ((z <= 0) | (z >= 1))).any()) or bool((~binary & (z.abs() > LOGITS)).any()):
        raise Malformed(f"'values' of binary columns lie between 0 and 1, others between −{LOGITS:g} and {LOGITS:g}")
    return torch.where(binary, z.logit(), z)


def log_priors(opened: Opened, z: Tensor, power: float) -> list[dict[str, Any]]:
    """log q under every prior, and what training maximises where that is something else."""
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


def judged(space: LabelSpace, circuit: Circuit, z: Tensor, top: int) -> dict[str, Any]:
    """θ, the raw label, marginals given the rules and the most probable valid labels of logits (1, width)."""
    literals = log_literals(space, z)
    with torch.no_grad():
        log_valid = circuit.log_wmc(*literals)
        marginals = circuit.marginals(*literals)[0].clamp(0, 1)
        labels, weights = circuit.top_k(*literals, top)
    best = [chosen(space, label) for label in labels[0]]
    return {
        "theta": literals[0][0].exp().tolist(),
        "marginals": marginals.tolist(),
        "raw": raw(space, z, best[0]),
        "valid": log_valid.exp().item(),
        "top": [
            {"label": label, "log_p": float(weight - log_valid)}
            for label, weight in zip(best, weights[0])
            if weight > -math.inf
        ],
    }


def log_literals(space: LabelSpace, z: Tensor) -> tuple[Tensor, Tensor]:
    """Log weights of columns being true and false, as circuits take them."""
    blocks = Blocks(space)
    return blocks.literals([part.log_softmax(-1) for part in blocks.logits(z)])


def raw(space: LabelSpace, z: Tensor, tied: list[int]) -> list[int]:
    """What the network alone would say: the index of each variable's most probable value; of equals that of `tied`."""
    out = []
    for variable, (start, stop), value in zip(space.variables, space.spans, tied):
        block = torch.cat([z.new_zeros(1), z[0, start:stop]]) if variable.binary else z[0, start:stop]
        out.append(value if block.max() - block[value] < TIED else int(block.argmax()))
    return out


def chosen(space: LabelSpace, label: Tensor) -> list[int]:
    """The index of each variable's value in a label of bool columns (width,)."""
    return [
        int(label[start]) if variable.binary else int(label[start:stop].int().argmax())
        for variable, (start, stop) in zip(space.variables, space.spans)
    ]


def _samples(opened: Opened, z: Tensor, n: int, seed: int) -> list[list[int]]:
    drawn = opened.circuit.sample(
        *log_literals(opened.space, z), n, torch.Generator().manual_seed(seed)
    )  # (n, 1, width)
    return [chosen(opened.space, label) for label in drawn[:, 0]]


def finite(x: float) -> float | None:
    """A number as JSON has it: None stands for −inf."""
    return x if math.isfinite(x) else None
