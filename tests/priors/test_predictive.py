"""p(y | x, V) against enumeration, on every kind of space, with and without evidence (MATH §8)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import oracle
from dssl import DataError, LabelSpace, Predictive
from dssl.priors import WeightedLabels, learn_prior
from dssl.priors.blocks import Blocks
from dssl.priors.predictive import Family
from priors.cases import RULED, SPACES, evidence_of, logits_of

every_space = pytest.mark.parametrize("space", SPACES)
seen_or_not = pytest.mark.parametrize("seen", [False, True])
ROWS = 4


class Enumerated:
    """All valid labels of a space with one row's probabilities, by adding up."""

    def __init__(self, space: LabelSpace, logits: torch.Tensor, evidence: torch.Tensor | None) -> None:
        self.width, self.rows = space.width, oracle.valid_columns(space.constraints)
        pos, neg = oracle.log_literals(space.variables, logits)
        soft = oracle.soft_log_weights(space.constraints)
        known = np.full(space.width, np.nan) if evidence is None else evidence.numpy()
        self.pos = np.concatenate([np.where(known == 0, -np.inf, pos), soft[0]])
        self.neg = np.concatenate([np.where(known == 1, -np.inf, neg), soft[1]])

    @property
    def weights(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.rows, self.pos, self.neg

    @property
    def p(self) -> np.ndarray:
        return oracle.probabilities(*self.weights)

    def log_prob(self, y: np.ndarray) -> float:
        fits = ((self.rows[:, : self.width] == y) | np.isnan(y)).all(1)
        return oracle.log_sum(np.log(np.maximum(self.p[fits], 1e-300)))


class Independent(Enumerated):
    """The same, with every label valid."""

    def __init__(self, space: LabelSpace, logits: torch.Tensor, evidence: torch.Tensor | None) -> None:
        super().__init__(LabelSpace.of(space.variables), logits, evidence)


def cases(space: str, seen: bool) -> tuple[Predictive, list[Enumerated]]:
    z = logits_of(SPACES[space], ROWS, seed=3)
    known = evidence_of(SPACES[space], ROWS, seed=4) if seen else None
    slow = [Enumerated(SPACES[space], z[i], None if known is None else known[i]) for i in range(ROWS)]
    return Predictive(z, SPACES[space], known), slow


def same(found: torch.Tensor, expected: list[float]) -> None:
    np.testing.assert_allclose(found.double().numpy(), np.array(expected, dtype=float), rtol=1e-9, atol=1e-9)


@every_space
@seen_or_not
def test_numbers_are_those_of_enumeration(space: str, seen: bool) -> None:
    p, slow = cases(space, seen)
    same(p.log_valid, [oracle.log_wmc(*s.weights) for s in slow])
    same(p.marginals, [oracle.marginals(*s.weights)[: s.width] for s in slow])
    same(p.entropy(), [oracle.entropy(*s.weights) for s in slow])
    for power in (0.5, 1.0, 2.0, 7.0):
        same(p.power(power), [oracle.power_sum(s.p, power) for s in slow])


@every_space
@seen_or_not
def test_labels_are_those_of_enumeration(space: str, seen: bool) -> None:
    p, slow = cases(space, seen)
    label, log_prob = p.best()
    labels, log_probs = p.top_k(3)
    for i, s in enumerate(slow):
        order = np.argsort(-s.p, kind="stable")[:3]
        same(log_prob[i], np.log(s.p[order[0]]))
        assert label[i].tolist() == s.rows[order[0], : s.width].tolist()
        possible = order[s.p[order] > 0]
        same(log_probs[i, : len(possible)], np.log(s.p[possible]).tolist())
        assert labels[i, : len(possible)].tolist() == s.rows[possible, : s.width].tolist()
        assert bool((log_probs[i, len(possible) :] == -math.inf).all())


@every_space
@seen_or_not
def test_log_prob_of_whole_and_partial_labels(space: str, seen: bool) -> None:
    p, slow = cases(space, seen)
    whole = p.best()[0].double()
    same(p.log_prob(whole), [s.log_prob(y) for s, y in zip(slow, whole.numpy())])
    part = whole.masked_fill(torch.rand(whole.shape, generator=torch.Generator().manual_seed(0)) < 0.5, math.nan)
    same(p.log_prob(part), [s.log_prob(y) for s, y in zip(slow, part.numpy())])
    known = evidence_of(SPACES[space], ROWS, seed=4) if seen else None
    z = logits_of(SPACES[space], ROWS, seed=3)
    alone = [Independent(SPACES[space], z[i], None if known is None else known[i]) for i in range(ROWS)]
    for y in (whole, part):
        same(p.log_prob(y, rules=False), [s.log_prob(one) for s, one in zip(alone, y.numpy())])


@pytest.mark.parametrize("space", RULED)
def test_a_row_whose_evidence_leaves_nothing_has_no_probable_label(space: str) -> None:
    given = SPACES[space]
    z, nothing = logits_of(given, 1), torch.zeros(1, given.width, dtype=torch.float64)
    if any(not v.binary for v in given.variables):  # a variable without a value
        p = Predictive(z, given, nothing)
        assert p.log_valid.tolist() == p.best()[1].tolist() == [-math.inf]
        assert p.log_prob(nothing).tolist() == p.log_prob(nothing, rules=False).tolist() == [-math.inf]
        assert p.top_k(2)[1].tolist() == [[-math.inf] * 2]


@pytest.mark.parametrize("space", RULED)
def test_learned_and_tabled_weights_answer_everything(space: str) -> None:
    given = SPACES[space]
    rows = oracle.valid_columns(given.constraints)[:, : given.width]
    pi = np.random.default_rng(0).uniform(0.2, 1, len(rows))
    table = Family(Blocks(given), WeightedLabels(given, rows.astype(float), pi))
    prior = learn_prior(rows[:5].astype(float), given).double()
    learned = np.exp(prior.log_prob_labels(rows.astype(float)).detach().double().numpy())
    z = logits_of(given, 2)
    for family, weights in ((table, pi), (Family(Blocks(given), prior.labels), learned)):
        p = Predictive(z, family)
        for i in range(len(z)):
            pos, neg = oracle.log_literals(given.variables, z[i])
            each = np.exp(oracle.log_weights(rows, pos, neg)) * weights
            each /= each.sum()
            np.testing.assert_allclose(p.marginals[i].detach(), each @ rows, atol=1e-6)
            np.testing.assert_allclose(p.power(2.5)[i].item(), oracle.power_sum(each, 2.5), rtol=1e-5, atol=1e-6)
            top = np.sort(each)[::-1][:3]
            np.testing.assert_allclose(p.top_k(3)[1][i, : len(top)].detach().exp(), top, rtol=1e-5)


@pytest.mark.parametrize("space", RULED)
def test_a_label_that_breaks_a_rule_has_no_probability(space: str) -> None:
    given = SPACES[space]
    valid = {tuple(row) for row in oracle.valid_columns(given.constraints)[:, : given.width].tolist()}
    possible = [given.encode([record])[0] for record in oracle.records(given.variables)]
    broken = next(row for row in possible if tuple(row == 1) not in valid)
    y = torch.from_numpy(broken).double()[None]
    z = logits_of(given, 1)
    assert Predictive(z, given).log_prob(y).tolist() == [-math.inf]
    assert bool(Predictive(z, given).log_prob(y, rules=False).isfinite())
    with pytest.raises(DataError, match="no valid label"):
        Predictive(z, given, strict=True).log_prob(y)


@every_space
@seen_or_not
def test_divergences_are_those_of_the_joint_distributions(space: str, seen: bool) -> None:
    p, slow = cases(space, seen)
    z = logits_of(SPACES[space], ROWS, seed=9)
    known = evidence_of(SPACES[space], ROWS, seed=4) if seen else None
    there = [Enumerated(SPACES[space], z[i], None if known is None else known[i]) for i in range(ROWS)]
    q = Predictive(z, SPACES[space])  # without the evidence: that of the first counts
    forth = [oracle.divergence(s.p, t.p) for s, t in zip(slow, there)]
    back = [oracle.divergence(t.p, s.p) for s, t in zip(slow, there)]
    same(p.divergence(q), forth)
    same(p.divergence(q, symmetric=True), [(a + b) / 2 for a, b in zip(forth, back)])


def test_copies_of_a_variable_count_nothing_extra() -> None:
    alone, linked = LabelSpace("a"), LabelSpace("a, b, c\na <-> b\nb <-> c")
    z = torch.tensor([[1.2]], dtype=torch.float64), torch.tensor([[-0.4]], dtype=torch.float64)
    split = [torch.cat([x / 3] * 3, -1) for x in z]
    once = Predictive(z[0], alone), Predictive(z[1], alone)
    thrice = Predictive(split[0], linked), Predictive(split[1], linked)
    torch.testing.assert_close(once[0].marginals, thrice[0].marginals[:, :1])
    for symmetric in (False, True):
        torch.testing.assert_close(
            once[0].divergence(once[1], symmetric=symmetric), thrice[0].divergence(thrice[1], symmetric=symmetric)
        )


@every_space
def test_samples_are_valid_and_as_frequent_as_they_should_be(space: str) -> None:
    given = SPACES[space]
    p = Predictive(logits_of(given, 2, seed=1), given)
    drawn = p.sample(4000, torch.Generator().manual_seed(0))
    assert drawn.shape == (4000, 2, given.width)
    assert not len(given.check(drawn[:, 0].numpy().astype(float)))
    np.testing.assert_allclose(drawn.double().mean(0), p.marginals, atol=0.04)


@every_space
@seen_or_not
def test_gradients(space: str, seen: bool) -> None:
    given = SPACES[space]
    known = evidence_of(given, 2, seed=4) if seen else None
    z = logits_of(given, 2, seed=5).requires_grad_()
    other = logits_of(given, 2, seed=6).requires_grad_()
    y = Predictive(z.detach(), given, known).best()[0].double()
    for number in (
        lambda z: Predictive(z, given, known).log_valid,
        lambda z: Predictive(z, given, known).log_prob(y),
        lambda z: Predictive(z, given, known).marginals,
        lambda z: Predictive(z, given, known).entropy(),
        lambda z: Predictive(z, given, known).power(3.0),
    ):
        assert torch.autograd.gradcheck(number, (z,))
    for symmetric in (False, True):
        assert torch.autograd.gradcheck(
            lambda a, b, s=symmetric: Predictive(a, given, known).divergence(Predictive(b, given), symmetric=s),
            (z, other),
        )


@every_space
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_extreme_logits_give_finite_numbers(space: str, size: float) -> None:
    given = SPACES[space]
    z = (size * torch.sign(logits_of(given, 3))).float().requires_grad_()
    p, q = Predictive(z, given), Predictive(z.detach() / 2, given)
    numbers = [p.log_valid, p.marginals, p.entropy(), p.power(4.0), p.best()[1], p.divergence(q)]
    numbers += [p.divergence(q, symmetric=True)]
    for number in numbers:
        assert bool(number.isfinite().all())
    torch.stack([number.sum() for number in numbers]).sum().backward()
    assert z.grad is not None
    assert bool(z.grad.isfinite().all())


def test_a_circuit_will_do_for_its_space() -> None:
    space = SPACES["rules and soft rules"]
    z = logits_of(space, 3)
    a, b = Predictive(z, space), Predictive(z, space.compile())
    torch.testing.assert_close(a.marginals, b.marginals)
    torch.testing.assert_close(
        a.log_prob(a.best()[0].double(), rules=False), b.log_prob(b.best()[0].double(), rules=False)
    )


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_any_leading_shape(shape: tuple[int, ...]) -> None:
    space = SPACES["rules"]
    z = logits_of(space, 6)
    p = Predictive(z[: max(1, math.prod(shape))].reshape(*shape, space.width), space)
    assert p.log_valid.shape == p.entropy().shape == p.power(2.0).shape == shape
    assert p.marginals.shape == p.best()[0].shape == (*shape, space.width)
    assert p.sample(5).shape == (5, *shape, space.width)


def test_half_precision_is_widened() -> None:
    assert Predictive(torch.zeros(1, 4, dtype=torch.bfloat16), SPACES["rules"]).log_valid.dtype == torch.float32


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match=r"one column for each"):
        Predictive(torch.zeros(2, 3), SPACES["rules"])
    with pytest.raises(TypeError, match="LabelSpace or a Circuit, not a str"):
        Predictive(torch.zeros(2, 4), "a, b")  # type: ignore[arg-type]


@pytest.mark.parametrize("other", ["c: {x, y}", "a, c", "b, a", "a, b, c", "a, b\na | b"])
def test_predictions_about_two_spaces_have_no_divergence(other: str) -> None:
    here, there = LabelSpace("a, b"), LabelSpace(other)
    p, q = Predictive(torch.zeros(1, 2), here), Predictive(torch.zeros(1, there.width), there)
    for one, two in ((p, q), (q, p)):
        with pytest.raises(ValueError, match=r"(?s)a, b.*[Uu]se one space, or one circuit, for both"):
            one.divergence(two)
    assert p.divergence(Predictive(torch.ones(1, 2), LabelSpace("a, b"))).item() > 0  # an equal space will do
