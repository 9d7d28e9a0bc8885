"""Scores for predictions. In: logits z (hence θ). Out: log q(θ).

May use label spaces and circuits; knows nothing of data or training loops.
"""

from dssl.priors.gaussian import GaussianPrior, mixture_density
from dssl.priors.learned import LearnedPrior, learn_prior
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
    "Prior",
    "PseudoLabelPrior",
    "SpikePrior",
    "TNormPrior",
    "WeightedLabels",
    "learn_prior",
    "mixture_density",
]
