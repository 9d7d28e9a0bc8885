"""Names: what the words of an estimator stand for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from dssl.logic.labels import Columns
from dssl.logic.space import LabelSpace
from dssl.priors import DeterministicPrior, EntropyPrior, ExclusivityPrior, Prior, PseudoLabelPrior, learn_prior
from dssl.training.consistency import VAT, Consistency, MeanTeacher, Neighbours, PiModel, TemporalEnsembling
from dssl.training.matching import FixMatch, MixMatch, Mixup, ReMixMatch

PRIORS: dict[str, Callable[..., Prior]] = {
    "deterministic": DeterministicPrior,
    "entropy": EntropyPrior,
    "exclusivity": ExclusivityPrior,
    "learned": learn_prior,
    "pseudo-label": PseudoLabelPrior,
}
TERMS: dict[str, Callable[[], Consistency]] = {
    "fixmatch": FixMatch,
    "mean-teacher": MeanTeacher,
    "mixmatch": MixMatch,
    "mixup": Mixup,
    "neighbours": Neighbours,
    "pi-model": PiModel,
    "remixmatch": ReMixMatch,
    "temporal-ensembling": TemporalEnsembling,
    "vat": VAT,
}


def make_prior(prior: Any, space: LabelSpace, power: float, labels: Columns, weight: Any = None) -> Prior | None:
    """A prior out of a name, a prior, a function from space to one, or None; "learned" from labels and their weights.

    A prior that goes on learning is copied, so that the one given stays as it is.
    """
    if prior == "learned":
        return learn_prior(labels, space, power=power, sample_weight=weight)
    if isinstance(prior, str):
        return PRIORS[prior](space, **({"power": power} if prior == "deterministic" else {}))
    if isinstance(prior, Prior):
        return copy.deepcopy(prior) if any(p.requires_grad for p in prior.parameters()) else prior
    return None if prior is None else prior(space)


def make_terms(consistency: Any) -> list[Consistency]:
    """New terms out of a name, a term, or several of them; those given are copied, so that they stay as they are.

    >>> from dssl.training.names import make_terms
    >>> [term.name for term in make_terms(["vat", "mean-teacher"])]
    ['vat', 'mean_teacher']
    """
    if consistency is None:
        return []
    several = consistency if isinstance(consistency, list | tuple) else [consistency]
    terms = []
    for one in several:
        if isinstance(one, str) and one not in TERMS:
            raise ValueError(f"there is no consistency term '{one}': choose {', '.join(TERMS)}, or give one")
        if not isinstance(one, str | Consistency):
            raise ValueError(f"consistency={one!r}: give a name ({', '.join(TERMS)}), a term, or a list of them")
        terms.append(TERMS[one]() if isinstance(one, str) else copy.deepcopy(one))
    return terms
