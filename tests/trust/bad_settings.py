"""Settings of the estimator, the loop, priors and circuits that are out of range."""

from __future__ import annotations

from typing import Any

from sklearn.utils._param_validation import InvalidParameterError

import dssl
from dssl.training.settings import Settings
from trust.bad import Bad, nothing
from trust.bad_labels import INF, NAN, SPACE, X, Y, fitted, made


def option(name: str, value: Any, said: str, kind: type[Exception] | None = None) -> Bad:
    """A parameter of the estimator; scikit-learn's own error names it and what it may be."""
    own = ValueError if isinstance(value, dict) else InvalidParameterError
    return fitted(f"{name}={str(value)[:20]}", X, Y, said, kind or own, **{name: value})


def setting(said: str, **given: Any) -> Bad:
    ((name, value),) = given.items()
    return Bad(f"settings: {name}={str(value)[:20]}", nothing, lambda _: Settings(**given), said, ValueError)


def _ones(*shape: int) -> Any:
    import torch

    return torch.ones(*shape)


OPTIONS = [
    option("prior", "magic", "The 'prior' parameter of DSSLClassifier must be a str among … Got 'magic' instead."),
    option("prior", 3, "The 'prior' parameter of DSSLClassifier must be a str among … Got 3 instead."),
    option("prior_weight", -1.0, "The 'prior_weight' parameter of DSSLClassifier must be a … Got -1.0 instead."),
    option("prior_weight", NAN, "The 'prior_weight' parameter of DSSLClassifier must be a … Got nan instead."),
    option("power", 2.0, "DSSLClassifier has no parameter 'power' any … Write prior=DeterministicPrior(", TypeError),
    option("ema", 0.9, "DSSLClassifier has no parameter 'ema' any more … Write settings={'ema': …}.", TypeError),
    option("balance", 1, "DSSLClassifier has no parameter 'balance' any … Write objective={'balance': …}.", TypeError),
    option("early_stopping", True, 'DSSLClassifier has no parameter … Write settings={"patience": 5}', TypeError),
    option("objective", {"ramp": 1.5}, "objective={'ramp': 1.5}: it must be a share of training from 0 to 1"),
    option("objective", {"balance": -0.1}, "objective={'balance': -0.1}: it must be a number, 0 or more"),
    option("objective", {"balance": NAN}, "objective={'balance': nan}: it must be a number, 0 or more"),
    option("objective", {"constrained": "maybe"}, "objective={'constrained': 'maybe'}: it must be True or False"),
    option("objective", {"power": 2}, "there is no option 'power' of the objective: choose among"),
    option("objective", {"frequencies": "even"}, "objective={'frequencies': 'even'}: it must be"),
    option("objective", {"components": 0}, "objective={'components': 0}: it must be a whole number from 1 to 1000"),
    option("decision", "best", "The 'decision' parameter of DSSLClassifier must be a str … Got 'best' instead."),
    option("calibrate", "yes", "The 'calibrate' parameter of DSSLClassifier must be a str … Got 'yes' instead."),
    option(
        "consistency", "magic", "The 'consistency' parameter of DSSLClassifier must be a str … Got 'magic' instead."
    ),
    option("augment", "magic", "The 'augment' parameter of DSSLClassifier must be a str … Got 'magic' instead."),
    option(
        "network", "resnet-9000", "The 'network' parameter of DSSLClassifier must be a str … Got 'resnet-9000' instead."
    ),
    option("steps", 0, "The 'steps' parameter of DSSLClassifier must be an int in … Got 0 instead."),
    option("steps", 1.5, "The 'steps' parameter of DSSLClassifier must be an int in … Got 1.5 instead."),
    option("learning_rate", 0.0, "The 'learning_rate' parameter of DSSLClassifier must be a … Got 0.0 instead."),
    option("learning_rate", NAN, "The 'learning_rate' parameter of DSSLClassifier must be a … Got nan instead."),
    option("batch_size", 0, "The 'batch_size' parameter of DSSLClassifier must be an … Got 0 instead."),
    option("settings", {"steps": 5}, "settings={'steps': …}: steps is a parameter of its own here, steps=…"),
    option("settings", {"lr": 0.1}, "settings={'lr': …}: lr is a parameter of its own here, learning_rate=…"),
    option("settings", {"unlabelled_batch": "all"}, "unlabelled_batch='all': it must be a whole number, 0 or more"),
    option("settings", {"ema": 1.0}, "ema=1.0: it must be from 0 to below 1, or None"),
    option("settings", {"weight_decay": -1.0}, "weight_decay=-1.0: it must be a number, 0 or more"),
    option("settings", {"patience": 0}, "patience=0: it must be a whole number, 1 or more, or None"),
    option("settings", {"validation_fraction": 0.9}, "validation_fraction=0.9: it must be above 0 and at most 0.5"),
    option("settings", {"speed": 2}, "there is no setting 'speed': choose among accelerator,"),
    option("settings", [1], "The 'settings' parameter of DSSLClassifier must be an … Got [1] instead."),
    option(
        "on_violation", "ignore", "The 'on_violation' parameter of DSSLClassifier must be a … Got 'ignore' instead."
    ),
    option("random_state", "seed", "The 'random_state' parameter of DSSLClassifier must be an … Got 'seed' instead."),
    option("verbose", "loud", "no parameter 'verbose' any more … Write settings={\"progress\": True}", TypeError),
    option("label_frequencies", "even", "no parameter 'label_frequencies' any more … Write objective=", TypeError),
    fitted(
        "a list of terms with a stranger",
        X,
        Y,
        "there is no consistency term 'magic': choose fixmatch,",
        ValueError,
        consistency=["vat", "magic"],
    ),
]
SETTINGS = [
    setting("steps=-1: it must be a whole number, 0 or more", steps=-1),
    setting("steps=True: it must be a whole number, 0 or more", steps=True),
    setting("labelled_batch=0.5: it must be a whole number, 0 or more", labelled_batch=0.5),
    setting("lr=nan: it must be a number, 0 or more", lr=NAN),
    setting("lr=inf: it must be a number, 0 or more", lr=INF),
    setting("weight_decay=-1: it must be a number, 0 or more", weight_decay=-1),
    setting("ema=1.0: it must be from 0 to below 1, or None", ema=1.0),
    setting("optimizer='magic': it must be one of adam, adamw, sgd", optimizer="magic"),
    setting("optimizer=['adam']: it must be one of adam, adamw, sgd", optimizer=["adam"]),
    setting("schedule=None: it must be one of cosine, constant, step", schedule=None),
    setting("warmup=-3: it must be a whole number, 0 or more", warmup=-3),
    setting("clip=0: it must be a number above 0, or None", clip=0),
    setting("amp='sometimes': it must be \"auto\", True or False", amp="sometimes"),
    setting("devices=0: it must be a whole number, 1 or more", devices=0),
    setting('accelerator=\'quantum\': it must be "auto", "cpu", "cuda" or', accelerator="quantum"),
    setting("patience=0: it must be a whole number, 1 or more, or None", patience=0),
    setting("timeout=0: it must be a number of minutes above 0", timeout=0),
    setting("seed=-1: it must be a whole number, 0 or more", seed=-1),
]
PRIORS = [
    made(
        "prior: a power of 0",
        lambda: dssl.DeterministicPrior(SPACE, power=0),
        "power must be a positive number, not 0",
    ),
    made(
        "prior: a power of NaN",
        lambda: dssl.DeterministicPrior(SPACE, power=NAN),
        "power must be a positive number, not nan",
    ),
    made(
        "prior: a strange scale",
        lambda: dssl.DeterministicPrior(SPACE, scale="big"),
        "there is no scale 'big': choose one of power, none",
    ),
    made(
        "prior: a strange objective",
        lambda: dssl.DeterministicPrior(SPACE, objective="max"),
        "there is no objective 'max': choose one of log, q",
    ),
    made(
        "prior: text for a space",
        lambda: dssl.EntropyPrior("a, b"),
        "a prior needs a LabelSpace, not str … Write LabelSpace(text).",
        TypeError,
    ),  # type: ignore[arg-type]
    made(
        "prior: logits of another width",
        lambda: dssl.EntropyPrior(SPACE)(_ones(2, 3)),
        "logits, labels and evidence of shape (2, 3) and type torch.float32 … Give floats of shape (..., 14): one",
    ),
    made(
        "prior: learned from nothing",
        lambda: dssl.learn_prior([]),
        "no label is known, so there is nothing to learn … Give some labels, or a space.",
    ),
    made(
        "prior: a negative smoothing",
        lambda: dssl.learn_prior(["a", "b"], smoothing=-1),
        "smoothing and backoff must be 0 or more, not -1 and None",
    ),
    made(
        "prior: weights of other labels",
        lambda: dssl.learn_prior(["a", "b"], sample_weight=[1]),
        "sample_weight of shape (1,) does not fit … Give 2 weights, none of them negative.",
    ),
    made(
        "prior: labels that break its rules",
        lambda: dssl.learn_prior([[1, 1]], dssl.LabelSpace("a, b\na -> !b")),
        "1 labels break the rules; one is {'a': True, 'b': True} … Find them with space.check(Y), and",
    ),
    made(
        "splitter: too few labelled rows",
        lambda: list(dssl.LabelledSplit(5).split(X, Y)),
        "4 labelled rows for 5 folds … Use fewer folds.",
    ),
    made(
        "circuit: weights of another width",
        lambda: SPACE.compile().log_wmc(_ones(2, 3), _ones(2, 3)),
        "log_pos has shape (2, 3), but the circuit has 14 columns … Give it the shape (..., 14).",
    ),
    made(
        "circuit: whole numbers for weights",
        lambda: SPACE.compile().log_wmc(_ones(14).long(), _ones(14).long()),
        "log_pos is torch.int64, but log weights are float32 or … Convert it, as in log_pos.float().",
    ),
    made(
        "circuit: no labels asked for",
        lambda: SPACE.compile().top_k(_ones(14), _ones(14), 0),
        "top_k was asked for k = 0 labels … Ask for at least one.",
    ),
    made(
        "circuit: no samples asked for",
        lambda: SPACE.compile().sample(_ones(14), _ones(14), -1),
        "sample was asked for n = -1 labels … Ask for 0 or more.",
    ),
    made(
        "circuit: weights that leave no label",
        lambda: SPACE.compile().sample(_ones(14) * -INF, _ones(14) * -INF),
        "no valid label has a weight above zero with the weights … Check the evidence (weights of −inf) of",
    ),
]
CASES = OPTIONS + SETTINGS + PRIORS
