"""Names for priors and consistency terms."""

from __future__ import annotations

import pytest

from dssl import DeterministicPrior, EntropyPrior, LabelSpace
from dssl.priors.learned import LearnedPrior
from dssl.training.consistency import VAT, MeanTeacher
from dssl.training.names import PRIORS, TERMS, make_prior, make_terms

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
        prior = make_prior(name, SPACE, 3.0, LABELS)
        assert isinstance(prior, LearnedPrior) if name == "learned" else type(prior) is kind
    assert float(make_prior("deterministic", SPACE, 3.0, LABELS).power) == 3.0  # type: ignore[union-attr, arg-type]
    own = EntropyPrior(SPACE)
    assert make_prior(own, SPACE, 3.0, LABELS) is own
    assert isinstance(make_prior(DeterministicPrior, SPACE, 3.0, LABELS), DeterministicPrior)
    assert make_prior(None, SPACE, 3.0, LABELS) is None
