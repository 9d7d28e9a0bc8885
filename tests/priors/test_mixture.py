"""Mixtures of predictions against enumeration, on every kind of space and random rules, with and without evidence."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import oracle
from dssl import DataError, LabelSpace, Predictive
from dssl.priors.mixture import Mixture, output_width, predicted
from logic.strategies import valid_spaces
from priors.cases import RULED, SPACES, evidence_of

every_space = pytest.mark.parametrize("space", SPACES)
seen_or_not = pytest.mark.parametrize("seen", [False, True])
ROWS, M = 3, 3


def logits_of(space: LabelSpace, rows: int = ROWS, components: int = M, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(rows, components * (space.width + 1), dtype=torch.float64, generator=generator)


class Enumerated:
    """All valid labels of a space with one row's probabilities in a mixture, by adding up."""

    def __init__(self, space: LabelSpace, logits: torch.Tensor, evidence: torch.Tensor | None = None) -> None:
        self.width, valid = space.width, oracle.valid_columns(space.constraints)
        components = len(logits) // (space.width + 1)
        soft, each = oracle.soft_log_weights(space.constraints), []
        for part in logits[: components * space.width].reshape(components, space.width):
            pos, neg = oracle.log_literals(space.variables, part)
            each.append(oracle.probabilities(valid, np.concatenate([pos, soft[0]]), np.concatenate([neg, soft[1]])))
        self.rows = valid[:, : space.width]
        self.p = oracle.mixture(logits[components * space.width :].numpy(), each)
        if evidence is not None:
            self.p = oracle.given_labels(self.rows, self.p, evidence.numpy())

    def probability(self, y: np.ndarray) -> float:
        return float(self.p[((self.rows == y) | np.isnan(y)).all(1)].sum())

    @property
    def entropy(self) -> float:
        return -sum(p * math.log(p) for p in self.p if p > 0)


def cases(space: LabelSpace, seen: bool, seed: int = 3, components: int = M) -> tuple[Mixture, list[Enumerated]]:
    z = logits_of(space, components=components, seed=seed)
    known = evidence_of(space, ROWS, seed=seed + 1) if seen else None
    slow = [Enumerated(space, z[i], None if known is None else known[i]) for i in range(ROWS)]
    return Mixture(z, space, known), slow


def same(found: torch.Tensor, expected: object) -> None:
    np.testing.assert_allclose(found.double().numpy(), np.array(expected, dtype=float), rtol=1e-9, atol=1e-9)


def agree(p: Mixture, slow: list[Enumerated], k: int) -> None:
    """Every answer of a mixture is that of enumeration."""
    same(p.marginals, [s.p @ s.rows for s in slow])
    for group, value in zip(p.family.blocks.of_values(p.marginals), p.value_marginals):
        same(value, group.numpy())
    low, high = p.entropy_bounds()
    for i, s in enumerate(slow):
        assert float(low[i]) - 1e-9 <= s.entropy <= float(high[i]) + 1e-9
    label, log_prob, exact = p.best(k)
    same(log_prob, np.log([s.probability(y) for s, y in zip(slow, label.numpy())]))
    for i, s in enumerate(slow):
        if exact[i]:
            same(log_prob[i], np.log(s.p.max()))
    whole = label.double()
    part = whole.masked_fill(torch.rand(whole.shape, generator=torch.Generator().manual_seed(0)) < 0.5, math.nan)
    for y in (whole, part):
        same(p.log_prob(y).exp(), [s.probability(row) for s, row in zip(slow, y.numpy())])


@every_space
@seen_or_not
def test_answers_are_those_of_enumeration(space: str, seen: bool) -> None:
    agree(*cases(SPACES[space], seen), k=2)


@settings(max_examples=60, deadline=None)
@drawn(valid_spaces(), st.integers(1, 4), st.booleans(), st.integers(1, 6), st.integers(0, 999))
def test_answers_are_those_of_enumeration_on_random_rules(case, components, seen, k, seed) -> None:
    agree(*cases(case.space(), seen, seed, components), k=k)


@every_space
@seen_or_not
def test_with_as_many_candidates_as_labels_the_best_is_always_exact(space: str, seen: bool) -> None:
    p, slow = cases(SPACES[space], seen)
    label, log_prob, exact = p.best(k=len(slow[0].rows) + 1)
    assert bool(exact.all())
    same(log_prob, [np.log(s.p.max()) for s in slow])
    assert [tuple(y) for y in label.tolist()] == [tuple(s.rows[s.p.argmax()].tolist()) for s in slow]


def test_no_label_beyond_the_candidates_passes_the_bound() -> None:
    space = SPACES["several categoricals"]
    beaten = 0
    for seed in range(40):
        p, slow = cases(space, seen=False, seed=seed, components=6)
        labels, _, bound = p.candidates(1)
        for i, s in enumerate(slow):
            among = {tuple(y) for y in labels[i].tolist()}
            others = [q for row, q in zip(s.rows.tolist(), s.p) if tuple(row) not in among]
            assert max(others) <= math.exp(float(bound[i])) + 1e-12
            beaten += max(others) > s.probability(p.best(1)[0][i].numpy())
    assert beaten  # so a best label that is not called exact can be wrong, and the bound is needed


def test_a_sure_candidate_is_not_called_exact_if_it_may_be_beaten() -> None:
    space = LabelSpace.classes(["a", "b", "c"])
    z = torch.tensor([[1.0, 0.9, -9, -9, 0.9, 1.0, 0, 0]], dtype=torch.float64)  # b is second twice, and first in all
    label, _, exact = Mixture(z, space).best(1)
    assert label.tolist() != [[False, True, False]]
    assert exact.tolist() == [False]
    label, _, exact = Mixture(z, space).best(2)
    assert (label.tolist(), exact.tolist()) == ([[False, True, False]], [True])


@every_space
@seen_or_not
def test_the_most_probable_labels_come_once_and_in_order(space: str, seen: bool) -> None:
    p, slow = cases(SPACES[space], seen)
    size = len(slow[0].rows)
    labels, log_probs = p.top_k(size)
    for i, s in enumerate(slow):
        possible = int((s.p > 0).sum())
        same(log_probs[i, :possible].exp(), -np.sort(-s.p)[:possible])
        assert len({tuple(y) for y in labels[i, :possible].tolist()}) == possible
        assert bool((log_probs[i, possible:] == -math.inf).all())


@every_space
@seen_or_not
def test_one_component_is_a_predictive(space: str, seen: bool) -> None:
    given = SPACES[space]
    z = logits_of(given, components=1)
    known = evidence_of(given, ROWS) if seen else None
    a, b = Mixture(z, given, known), Predictive(z[:, :-1], given, known)
    y = b.best()[0].double()
    for one, other in (
        (a.log_prob(y), b.log_prob(y)),
        (a.log_prob(y, rules=False), b.log_prob(y, rules=False)),
        (a.marginals, b.marginals),
        (a.theta, b.theta),
        (a.entropy_bounds()[0], b.entropy()),
        (a.entropy_bounds()[1], b.entropy()),
        (a.log_valid, b.log_valid),
        *zip(a.value_marginals, b.value_marginals),
        (a.best(1)[0], b.best()[0]),
        (a.best(1)[1], b.top_k(1)[1][:, 0]),
    ):
        assert torch.equal(one, other)
    assert bool(a.best(1)[2].all())


@every_space
def test_samples_are_valid_and_as_frequent_as_they_should_be(space: str) -> None:
    given = SPACES[space]
    p, slow = cases(given, seen=False)
    labels = p.sample(4000, torch.Generator().manual_seed(0))
    assert labels.shape == (4000, ROWS, given.width)
    for i, s in enumerate(slow):
        seen = {tuple(row): 0 for row in s.rows.tolist()}
        for row in labels[:, i].tolist():
            seen[tuple(row)] += 1  # a label that is not valid has no place
        np.testing.assert_allclose([seen[tuple(row)] / 4000 for row in s.rows.tolist()], s.p, atol=0.04)


def test_samples_keep_to_the_evidence() -> None:
    p, slow = cases(SPACES["rules"], seen=True)
    labels = p.sample(2000, torch.Generator().manual_seed(0)).double()
    np.testing.assert_allclose(labels.mean(0), p.marginals, atol=0.05)
    assert all(s.probability(row) > 0 for i, s in enumerate(slow) for row in labels[:20, i].numpy())


def test_two_ways_to_label_a_row_are_kept_apart() -> None:
    space = LabelSpace("a, b, c, d\nexactly(2, a, b, c, d)")
    z = torch.tensor([9.0, 9, -9, -9, -9, -9, 9, 9, 0, 0], dtype=torch.float64)
    drawn_labels = {tuple(y) for y in Mixture(z, space).sample(200).int().tolist()}
    assert drawn_labels == {(1, 1, 0, 0), (0, 0, 1, 1)}


def test_new_evidence_replaces_the_old() -> None:
    space = SPACES["rules"]
    first, second = evidence_of(space, ROWS, seed=1), evidence_of(space, ROWS, seed=2)
    z = logits_of(space)
    torch.testing.assert_close(
        Mixture(z, space, first).given(second).marginals, Mixture(z, space, second).marginals, rtol=0, atol=0
    )


@every_space
@seen_or_not
def test_gradients(space: str, seen: bool) -> None:
    given = SPACES[space]
    known = evidence_of(given, 2, seed=4) if seen else None
    z = logits_of(given, rows=2, seed=5).requires_grad_()
    y = Mixture(z.detach(), given, known).best()[0].double()
    for number in (
        lambda z: Mixture(z, given, known).log_prob(y),
        lambda z: Mixture(z, given, known).log_prob(y, rules=False),
        lambda z: Mixture(z, given, known).marginals,
        lambda z: Mixture(z, given, known).entropy_bounds(),
        lambda z: Mixture(z, given, known).best(2)[1],
        lambda z: Mixture(z, given, known).log_valid,
    ):
        assert torch.autograd.gradcheck(number, (z,))


@every_space
@seen_or_not
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_extreme_logits_give_finite_numbers(space: str, seen: bool, size: float) -> None:
    given = SPACES[space]
    known = evidence_of(given, ROWS, seed=4).float() if seen else None
    z = (size * torch.sign(logits_of(given))).float().requires_grad_()
    p = Mixture(z, given, known)
    label, log_prob, _ = p.best()
    numbers = [p.marginals, p.log_prob(label.float()), log_prob, *p.entropy_bounds(), *p.value_marginals, p.log_valid]
    for number in numbers:
        assert bool(number.isfinite().all())
    torch.stack([number.sum() for number in numbers]).sum().backward()
    assert z.grad is not None
    assert bool(z.grad.isfinite().all())


@pytest.mark.parametrize("space", RULED)
def test_a_label_that_breaks_a_rule_has_no_probability_and_no_gradient(space: str) -> None:
    given = SPACES[space]
    valid = {tuple(row) for row in oracle.valid_columns(given.constraints)[:, : given.width].tolist()}
    possible = [given.encode([record])[0] for record in oracle.records(given.variables)]
    broken = torch.from_numpy(next(row for row in possible if tuple(row == 1) not in valid)).double()[None]
    z = logits_of(given, rows=1).requires_grad_()
    found = Mixture(z, given).log_prob(broken)
    assert found.tolist() == [-math.inf]
    (gradient,) = torch.autograd.grad(found.sum(), z)
    assert bool(gradient.isfinite().all())
    assert bool(Mixture(z, given).log_prob(broken, rules=False).isfinite())
    with pytest.raises(DataError, match="no valid label"):
        Mixture(z, given, strict=True).log_prob(broken)


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_any_leading_shape(shape: tuple[int, ...]) -> None:
    space = SPACES["rules"]
    z = logits_of(space, rows=6)[: max(1, math.prod(shape))].reshape(*shape, -1)
    p = Mixture(z, space)
    label, log_prob, exact = p.best()
    assert log_prob.shape == exact.shape == p.entropy_bounds()[0].shape == p.log_prob(label.double()).shape == shape
    assert p.marginals.shape == label.shape == (*shape, space.width)
    assert p.sample(5).shape == (5, *shape, space.width)


def test_as_many_components_as_were_said() -> None:
    space = SPACES["rules"]
    assert isinstance(predicted(torch.zeros(4), space), Predictive)
    p = predicted(torch.zeros(output_width(4, 3)), space, 3)
    assert isinstance(p, Mixture)
    assert p.components == 3
    with pytest.raises(DataError, match=r"are those of 3 components, not of 2\nGive 10 columns"):
        predicted(torch.zeros(15), space, 2)
    with pytest.raises(DataError, match=r"not those of a mixture\nGive floats of shape \(\.\.\., M · 5\)"):
        Mixture(torch.zeros(2, 4), space)


@pytest.mark.parametrize("components", [2, 3, 5])
def test_marginals_are_probabilities(components: int) -> None:
    space = LabelSpace("a, b\nc: {x, y, z}\na -> b")
    torch.manual_seed(0)
    logits = 8 * torch.randn(20_000, components * (space.width + 1))
    p = Mixture(logits, space)
    for found in (p.marginals, p.theta, *p.value_marginals):
        assert 0 <= float(found.min()) <= float(found.max()) <= 1
    torch.nn.functional.binary_cross_entropy(p.marginals, p.marginals)
