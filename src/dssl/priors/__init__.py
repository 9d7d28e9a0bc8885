"""Scores for predictions. In: logits z (hence θ). Out: p(y | x, V) and log q(θ).

May use label spaces and circuits; knows nothing of data or training loops. Start at `predictive.py`, then `prior.py`.

    predictive, mixture            p(y | x, V), which answers every question, and a weighted sum of several
    blocks, weights, raised        columns by variable, users' weights of labels, and rules' weights to a power
    prior, relaxations             what priors share, and those of the paper: entropy, exclusivity, deterministic, …
    null_category                  the null-category noise model, as a prior
    learned, estimation            the deterministic prior with π learned from labels
    gaussian, dirichlet, tnorms    the stochastic case, normalised densities, fuzzy rules
    plots                          what they look like
"""

from dssl.priors.gaussian import GaussianPrior, mixture_density
from dssl.priors.learned import LearnedPrior, learn_prior
from dssl.priors.null_category import NullCategoryPrior
from dssl.priors.predictive import Predictive
from dssl.priors.prior import Prior
from dssl.priors.relaxations import (
    DeterministicPrior,
    EntropyPrior,
    ExclusivityPrior,
    PseudoLabelPrior,
    SpikePrior,
)
from dssl.priors.tnorms import TNormPrior
from dssl.priors.weights import WeightedLabels

__all__ = [
    "DeterministicPrior",
    "EntropyPrior",
    "ExclusivityPrior",
    "GaussianPrior",
    "LearnedPrior",
    "NullCategoryPrior",
    "Predictive",
    "Prior",
    "PseudoLabelPrior",
    "SpikePrior",
    "TNormPrior",
    "WeightedLabels",
    "learn_prior",
    "mixture_density",
]
