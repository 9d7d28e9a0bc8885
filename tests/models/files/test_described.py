"""Parameters as JSON and back."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dssl import DataError, DeterministicPrior, EntropyPrior, LabelSpace, learn_prior
from dssl.models.files.described import Unsaved, described, made, refuse_unsaved
from dssl.models.names import PRIORS, TERMS
from dssl.priors import Prior
from dssl.training.terms.consistency import VAT, MeanTeacher, Neighbours
from dssl.training.terms.matching import FixMatch, Mixup

SPACE = LabelSpace("a, b\na -> b")


def again(value: Any) -> Any:
    return made(json.loads(json.dumps(described(value))), SPACE)


@pytest.mark.parametrize("value", [None, True, 3, 0.5, "vat", [1, "a"], {"ema": None, "log": "x"}])
def test_plain_values_come_back(value: Any) -> None:
    assert again(value) == value


def test_numpy_and_paths_become_plain() -> None:
    assert again({"n": np.int64(-9), "p": np.array([0.5, 0.5]), "f": Path("a") / "b"}) == {
        "n": -9, "p": [0.5, 0.5], "f": str(Path("a") / "b")
    }  # fmt: skip


@pytest.mark.parametrize("term", [
    VAT(epsilon=0.1, iterations=2, weight=3.0), MeanTeacher(decay=0.5, labelled=False), Neighbours(k=3, share=0.5),
    FixMatch(threshold=0.7, per="label", align=True), Mixup(alpha=0.3, decay=None),
    *[kind() for kind in TERMS.values()],
], ids=lambda term: term.name)  # fmt: skip
def test_terms_come_back_with_their_options(term: Any) -> None:
    found = again([term])[0]
    assert type(found) is type(term)
    plain = {k: v for k, v in vars(term).items() if isinstance(v, bool | int | float | str | None.__class__)}
    assert {k: vars(found)[k] for k in plain} == plain


@pytest.mark.parametrize("prior", [
    EntropyPrior(SPACE, semantic=True), DeterministicPrior(SPACE, 3.0, scale="none", objective="q"),
    DeterministicPrior(SPACE, 3.0, scale="none", normalised=True, learn_power=True),
], ids=lambda prior: type(prior).__name__)  # fmt: skip
def test_priors_come_back_with_their_options(prior: Prior) -> None:
    z = torch.randn(5, 2)
    assert torch.equal(again(prior)(z), prior(z))


@pytest.mark.parametrize("name", sorted(PRIORS))
def test_classes_and_partials_come_back(name: str) -> None:
    maker: Any = PRIORS[name]
    if name == "learned":
        assert again(partial(learn_prior, power=3.0)).func is maker
    else:
        assert again(maker) == again(partial(maker)) == maker()  # of no space yet
    sharp = again(DeterministicPrior(power=7.0))
    assert float(sharp(SPACE).power) == 7.0


@pytest.mark.parametrize("value", [
    lambda space: EntropyPrior(space), [VAT(), lambda x: x], {"ramp": lambda step: 1.0}, np.random.RandomState(0),
    DeterministicPrior(SPACE, weights=[0.5, 0.5]), partial(DeterministicPrior, weights=torch.ones(2)),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_what_has_no_form_has_to_be_given_again(value: Any) -> None:
    found = again(value)
    with pytest.raises(DataError, match=r"saved without its prior, an? .*\nTo train .*set_params\(prior=…\)"):
        refuse_unsaved({"steps": 3, "prior": found})
    refuse_unsaved({"steps": 3, "prior": "entropy"})
    assert described(found) == described(value)  # and it can be saved once more


def test_a_file_cannot_call_anything_else() -> None:
    with pytest.raises(KeyError):
        made({"dssl": "partial", "of": "system", "with": {}})
    assert "which was not saved" in repr(Unsaved("a function"))
    with pytest.raises(DataError, match="a function was not saved"):
        Unsaved("a function")(SPACE)
