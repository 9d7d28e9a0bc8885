"""Names for priors and consistency terms."""

from __future__ import annotations

from functools import partial

import pytest

from dssl import DeterministicPrior, EntropyPrior, LabelSpace
from dssl.models.names import PRIORS, TERMS, make_prior, make_terms
from dssl.priors.learned import LearnedPrior, learn_prior
from dssl.training.terms.consistency import VAT, MeanTeacher

SPACE = LabelSpace.classes(["a", "b"])
LABELS = SPACE.encode(["a", "a", "b", None])


def test_every_name_gives_its_term() -> None:
    for name in TERMS:
        (term,) = make_terms(name)
        assert term.name == name.replace("-", "_")
        assert term is not make_terms(name)[0]


def test_terms_are_copied_and_joined() -> None:
    own = VAT(epsilon=0.7)
    terms = make_terms((own, "mean-teacher"))
    assert [type(term) for term in terms] == [VAT, MeanTeacher]
    assert terms[0] is not own
    assert terms[0].epsilon == 0.7
    assert make_terms(None) == []


def test_what_is_no_term_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no consistency term 'vats': choose fixmatch, "):
        make_terms(["vat", "vats"])
    with pytest.raises(ValueError, match=r"consistency=3: give a name \(fixmatch"):
        make_terms(3)


def test_priors_by_name_as_they_are_and_by_function() -> None:
    for name, kind in PRIORS.items():
        prior = make_prior(name, SPACE, LABELS)
        assert isinstance(prior, LearnedPrior) if name == "learned" else type(prior) is kind
    auto = make_prior("auto", SPACE, LABELS)
    assert isinstance(auto, DeterministicPrior)
    assert float(auto.power) == 2.0
    sharp = make_prior(partial(learn_prior, power=3.0), SPACE, LABELS)
    assert isinstance(sharp, LearnedPrior)
    assert float(sharp.power) == 3.0
    own = EntropyPrior(SPACE)
    assert make_prior(own, SPACE, LABELS) is own
    assert isinstance(make_prior(DeterministicPrior, SPACE, LABELS), DeterministicPrior)
    assert make_prior(None, SPACE, LABELS) is None
