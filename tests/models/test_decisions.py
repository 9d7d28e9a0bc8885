"""Decisions against enumeration: the best valid label by entries and by F1, on every kind of space."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

import oracle
from dssl import LabelSpace, Predictive
from dssl.models.decisions import DECISIONS, by_f1, by_marginals, most_probable
from dssl.priors.mixture import Mixture
from models.test_decoding import enumerated, soft_weight
from training.rule_sets import RULE_SETS

every_rule_set = pytest.mark.parametrize("text", RULE_SETS.values(), ids=RULE_SETS)


def cases(text: str) -> tuple[LabelSpace, Predictive, np.ndarray, np.ndarray]:
    """A space, predictions, all valid labels, and the marginals of enumeration."""
    space = LabelSpace(text)
    z = np.random.default_rng(2).normal(scale=1.5, size=(30, space.width)).astype(np.float32)
    rows, p = enumerated(space, z)
    p = p * soft_weight(space, rows)
    return space, Predictive(torch.from_numpy(z), space), rows, (p / p.sum(axis=1, keepdims=True)) @ rows


@every_rule_set
def test_by_marginals_most_entries_are_right_in_expectation(text: str) -> None:
    space, p, rows, marginals = cases(text)
    gains = np.stack(
        [oracle.expected_right(space.spans, [v.binary for v in space.variables], rows, m) for m in marginals]
    )
    label = by_marginals(p).numpy()
    chosen = (label[:, None] == rows[None].astype(bool)).all(axis=2)
    assert (chosen.sum(axis=1) == 1).all()
    np.testing.assert_allclose((gains * chosen).sum(axis=1), gains.max(axis=1), atol=1e-3)


@every_rule_set
def test_by_f1_the_ratio_is_the_largest(text: str) -> None:
    _, p, rows, marginals = cases(text)
    ratios = np.stack([oracle.f1_ratio(rows, m) for m in marginals])
    label = by_f1(p).numpy()
    chosen = (label[:, None] == rows[None].astype(bool)).all(axis=2)
    assert (chosen.sum(axis=1) == 1).all()
    np.testing.assert_allclose((ratios * chosen).sum(axis=1), ratios.max(axis=1), atol=1e-3)


def test_f1_answers_where_the_most_probable_label_is_empty() -> None:
    """Twenty columns at .4: none of them is probable, and yet eight hold."""
    p = Predictive(torch.full((1, 20), -0.4), LabelSpace.attributes([f"a{i}" for i in range(20)]))
    assert not most_probable(p).any()
    assert not by_marginals(p).any()
    assert by_f1(p).all()


def test_decisions_have_their_names() -> None:
    assert list(DECISIONS) == ["most probable", "marginals", "f1"]


@every_rule_set
def test_decisions_on_a_mixture_are_the_best_of_all_valid_labels(text: str) -> None:
    space, _, rows, _ = cases(text)
    z = 2 * torch.randn(20, 3 * space.width + 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    p, binary = Mixture(z, space), [v.binary for v in space.variables]
    entries, f1 = by_marginals(p).numpy().astype(float), by_f1(p).numpy().astype(float)
    for i, mu in enumerate(p.marginals.numpy()):
        right = partial(oracle.expected_right, space.spans, binary, marginals=mu)
        assert right(rows=entries[i : i + 1])[0] >= right(rows=rows).max() - 1e-3
        assert oracle.f1_ratio(f1[i : i + 1], mu)[0] >= oracle.f1_ratio(rows, mu).max() - 1e-3
    assert torch.equal(most_probable(p), p.best()[0])
    assert not space.check(entries)
