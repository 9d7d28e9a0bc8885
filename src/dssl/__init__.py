"""dssl: a few labels, plenty of unlabelled data, and a page of rules about what labels can look like.

    space = LabelSpace("legs, fins, wings\\nlegs -> !fins")   # what labels may be
    space.check(Y), space.diagnose(), space.count()          # does it make sense, do the labels fit
    circuit = space.compile()                                # exact answers about valid labels
    circuit.log_wmc(log_pos, log_neg)                        # log Σ over valid y of Π literal weights
    prior = DeterministicPrior(space)                        # log q(θ) of predictions, θ = f(x)
    objective = Objective(space, prior)                      # Σ log p(y|θ) + λ Σ log q(θ): Eq. DSSL
    objective(network(x), y).backward()                      # y: 1, 0, NaN for unknown
    DSSLClassifier(space).fit(X, y).predict(X)               # all of it: predictions that never break a rule

The rooms, in the order of the data: logic, circuits, priors, data, training, models, app; each imports only from those
before it. All of them use errors (what users meet), files (written whole or not at all), collector (pauses of
Python's garbage collector) and spellings (parameters that have a new home).

Notation: x data, y label, z logits, θ = softmax or sigmoid of z, V the valid labels, T the power, π weights, λ the
prior's weight. Importing dssl is light: numba and torch are loaded by the first name that needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dssl.circuits.circuit import Circuit
    from dssl.errors import DataError, RuleError
    from dssl.logic.induction.learning import learn_rules
    from dssl.logic.language.symbols import symbols
    from dssl.logic.space import LabelSpace
    from dssl.models.estimators import DSSLClassifier
    from dssl.models.files.saved import load, save
    from dssl.models.generative import GenerativeClassifier
    from dssl.models.splitting import LabelledSplit, labelled_scorer
    from dssl.priors.gaussian import GaussianPrior
    from dssl.priors.learned import LearnedPrior, learn_prior
    from dssl.priors.predictive import Predictive
    from dssl.priors.relaxations import DeterministicPrior, EntropyPrior, ExclusivityPrior, PseudoLabelPrior
    from dssl.training.objective import Objective

_HOME = {
    "Circuit": "dssl.circuits.circuit",
    "DSSLClassifier": "dssl.models.estimators",
    "DataError": "dssl.errors",
    "DeterministicPrior": "dssl.priors.relaxations",
    "EntropyPrior": "dssl.priors.relaxations",
    "ExclusivityPrior": "dssl.priors.relaxations",
    "GaussianPrior": "dssl.priors.gaussian",
    "GenerativeClassifier": "dssl.models.generative",
    "LabelSpace": "dssl.logic.space",
    "LabelledSplit": "dssl.models.splitting",
    "LearnedPrior": "dssl.priors.learned",
    "Objective": "dssl.training.objective",
    "Predictive": "dssl.priors.predictive",
    "PseudoLabelPrior": "dssl.priors.relaxations",
    "RuleError": "dssl.errors",
    "labelled_scorer": "dssl.models.splitting",
    "learn_prior": "dssl.priors.learned",
    "learn_rules": "dssl.logic.induction.learning",
    "load": "dssl.models.files.saved",
    "save": "dssl.models.files.saved",
    "symbols": "dssl.logic.language.symbols",
}
__all__ = [
    "Circuit",
    "DSSLClassifier",
    "DataError",
    "DeterministicPrior",
    "EntropyPrior",
    "ExclusivityPrior",
    "GaussianPrior",
    "GenerativeClassifier",
    "LabelSpace",
    "LabelledSplit",
    "LearnedPrior",
    "Objective",
    "Predictive",
    "PseudoLabelPrior",
    "RuleError",
    "labelled_scorer",
    "learn_prior",
    "learn_rules",
    "load",
    "save",
    "symbols",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dssl' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
