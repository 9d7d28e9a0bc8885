"""Names: what the names stand for that an estimator takes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from dssl.logic.labels import Columns
from dssl.logic.space import LabelSpace
from dssl.priors import (
    DeterministicPrior,
    EntropyPrior,
    ExclusivityPrior,
    NullCategoryPrior,
    Prior,
    PseudoLabelPrior,
    learn_prior,
)
from dssl.priors.predictive import Answers
from dssl.training.terms.consistency import VAT, Consistency, MeanTeacher, Neighbours, PiModel, TemporalEnsembling
from dssl.training.terms.deep_generative import M2
from dssl.training.terms.denoising import Ladder
from dssl.training.terms.matching import FixMatch, MixMatch, Mixup, ReMixMatch

# T of priors that are asked for by name, at the end of its rise from 1. A prior that is given keeps its own, by default
# the paper's 10. Both learn equally well, and the weights that plans give a prior were measured at 2.
_POWER = 2.0

PRIORS: dict[str, Callable[..., Prior]] = {
    "deterministic": DeterministicPrior,
    "entropy": EntropyPrior,
    "exclusivity": ExclusivityPrior,
    "learned": learn_prior,
    "null-category": NullCategoryPrior,
    "pseudo-label": PseudoLabelPrior,
}
TERMS: dict[str, Callable[[], Consistency]] = {
    "fixmatch": FixMatch,
    "ladder": Ladder,
    "m2": M2,
    "mean-teacher": MeanTeacher,
    "mixmatch": MixMatch,
    "mixup": Mixup,
    "neighbours": Neighbours,
    "pi-model": PiModel,
    "remixmatch": ReMixMatch,
    "temporal-ensembling": TemporalEnsembling,
    "vat": VAT,
}


def make_prior(
    prior: Any, space: LabelSpace, labels: Columns, weight: Any = None, circuit: Answers | None = None
) -> Prior | None:
    """A prior from a name, a prior, with or without its space, or None; "learned" from labels and their weights.

    ``partial(learn_prior, power=10)`` learns with other options. A prior that keeps learning is copied, so that the
    given one stays as it is. `circuit` answers for the rules in priors made here, except learned ones.
    """
    by: dict[str, Any] = {} if circuit is None else {"circuit": circuit}
    if prior == "learned" or getattr(prior, "func", prior) is learn_prior:
        learn = partial(learn_prior, power=_POWER) if prior == "learned" else prior
        return learn(labels, space, sample_weight=weight)
    if prior in ("auto", "deterministic"):
        return DeterministicPrior(space, power=_POWER, **by)
    if isinstance(prior, str):
        return PRIORS[prior](space, **by)
    if isinstance(prior, Prior):
        return copy.deepcopy(prior) if any(p.requires_grad for p in prior.parameters()) else prior
    return None if prior is None else prior(space)


def make_terms(consistency: Any) -> list[Consistency]:
    """New terms from a name, a term, or several of them; given terms are copied, so that they stay as they are.

    >>> from dssl.models.names import make_terms
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
