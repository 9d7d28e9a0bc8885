"""Every kind of label space and every kind of prior, for the tests that hold on all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

import oracle
from dssl.logic.space import LabelSpace
from dssl.priors import DeterministicPrior, EntropyPrior, ExclusivityPrior, Prior, PseudoLabelPrior, SpikePrior
from dssl.priors.learned import LearnedPrior, learn_prior
from dssl.priors.null_category import NullCategoryPrior
from dssl.priors.tnorms import TNormPrior

ANIMALS = """
species: {cat, dog, trout}
legs, fins
wings
legs -> !fins
species = trout <-> fins
0.9 :: wings -> legs
"""
SPACES = {
    "classes": LabelSpace.classes(["cat", "dog", "trout", "eagle"]),
    "two classes": LabelSpace.classes(["cat", "dog"]),
    "one class": LabelSpace.classes(["cat"]),
    "several categoricals": LabelSpace("a: {x, y, z}\nb: 0..4\nc: {u, v, w}"),
    "binaries": LabelSpace.attributes(["legs", "fins", "wings"]),
    "mix": LabelSpace("legs\na: {x, y, z}\nfins\nb: {u, v}\nc: {p, q, r}"),
    "rule": LabelSpace.attributes(["legs", "fins"], "legs -> !fins"),
    "rules": LabelSpace("a, b, c, d\nexactly(2, a, b, c, d)\na ^ b ^ c\n(a | c) <-> d"),
    "rules and soft rules": LabelSpace(ANIMALS),
    "sums": LabelSpace("a: 0..2\nb: 0..2\nt: 0..4\nodd\na + b = t\nodd <-> t in {1, 3}\nat_most(1, a = 0, b = 0, odd)"),
}
RULED = [name for name, space in SPACES.items() if space.rules]
FUZZY = ("product", "goedel", "lukasiewicz")

PRIORS: dict[str, Callable[[LabelSpace], Prior]] = {
    "entropy": EntropyPrior,
    "entropy, semantic": lambda space: EntropyPrior(space, semantic=True),
    "exclusivity": ExclusivityPrior,
    "pseudo-label": PseudoLabelPrior,
    "deterministic": DeterministicPrior,
    "deterministic, raw": lambda space: DeterministicPrior(space, 3.0, scale="none"),
    "deterministic, q": lambda space: DeterministicPrior(space, 2.0, objective="q"),
    "deterministic, weighted": lambda space: DeterministicPrior(space, 2.0, weights=weights_of(space)),
    "deterministic, normalised": lambda space: DeterministicPrior(
        space, 4.0, scale="none", weights=weights_of(space), normalised=True, learn_power=True
    ),
    "learned": lambda space: learned(space),
    "learned, jointly": lambda space: learned(space, learn=True, normalised=True, learn_power=True, scale="none"),
    "spike": lambda space: SpikePrior(space, smoothstep),
    "null category": lambda space: NullCategoryPrior(space, 3.0),
    "product": lambda space: TNormPrior(space, "product"),
    "goedel": lambda space: TNormPrior(space, "goedel"),
    "lukasiewicz": lambda space: TNormPrior(space, "lukasiewicz"),
}
PAIRS = [(prior, space) for prior in PRIORS for space in SPACES if prior not in FUZZY or space in RULED]


def smoothstep(log_t: torch.Tensor, log_rest: torch.Tensor) -> torch.Tensor:
    """log of 3t² − 2t³."""
    return 2 * log_t + torch.log(3 - 2 * log_t.exp())


def weights_of(space: LabelSpace) -> torch.Tensor:
    return torch.linspace(0.25, 0.75, space.width)


def learned(space: LabelSpace, **options: Any) -> LearnedPrior:
    """A prior of labels drawn unevenly from the valid ones."""
    valid = oracle.valid_columns(space.constraints)[:, : space.width].astype(float)
    return learn_prior(valid[[i * i % len(valid) for i in range(9)]], space, backoff=1.0, power=3.0, **options)


def make(prior: str, space: str | LabelSpace, dtype: torch.dtype = torch.float64) -> Prior:
    """A prior without the warnings that some combinations give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return PRIORS[prior](SPACES[space] if isinstance(space, str) else space).to(dtype)


def logits_of(space: LabelSpace, rows: int, seed: int = 0, scale: float = 2.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(rows, space.width, dtype=torch.float64, generator=generator)


def evidence_of(space: LabelSpace, rows: int, seed: int = 0) -> torch.Tensor:
    """Parts of valid labels: columns of 1, 0 and NaN; in categorical blocks also values that are excluded."""
    generator = torch.Generator().manual_seed(seed)
    valid = torch.from_numpy(oracle.valid_columns(space.constraints)[:, : space.width]).double()
    picked = valid[torch.randint(len(valid), (rows,), generator=generator)]
    hidden = torch.rand(rows, space.width, generator=generator) < 0.6
    return picked.masked_fill(hidden, float("nan"))
