"""Implications without a circuit: every answer against enumeration, and what is a bound is one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

import oracle
from dssl.circuits.beyond.cascade import Cascade
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from logic.hierarchies import hierarchy

WIDTH = 7


def cascade(space: LabelSpace) -> Cascade:
    assert space.implications is not None
    return Cascade(space.implications)


def weights(u: Tensor, known: Tensor | None = None) -> tuple[Tensor, Tensor]:
    pos, neg = logsigmoid(u), logsigmoid(-u)
    if known is not None:
        pos, neg = pos.masked_fill(known == 0, -torch.inf), neg.masked_fill(known == 1, -torch.inf)
    return pos, neg


def listed(space: LabelSpace, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All valid labels, and their probabilities."""
    rows = oracle.valid_columns(space.constraints)
    return rows, np.exp([oracle.from_the_top(space, row, u) for row in rows])


@pytest.mark.parametrize("seed", range(25))
def test_answers_without_evidence(seed: int) -> None:
    space, u = hierarchy(seed), 2 * torch.randn(3, WIDTH, dtype=torch.float64, generator=torch.manual_seed(seed))
    answers, both = cascade(space), weights(u)
    for i in range(3):
        rows, p = listed(space, u[i].numpy())
        assert p.sum() == pytest.approx(1)
        np.testing.assert_allclose(answers.marginals(*both)[i], p @ rows)
        assert float(answers.entropy(*both)[i]) == pytest.approx(-(p * np.log(p)).sum())
        label, log_p = answers.mpe(*both)
        assert float(log_p[i]) == pytest.approx(np.log(p.max()), abs=1e-6)
        assert not space.check(label.double().numpy())
    np.testing.assert_array_equal(answers.log_wmc(*both), 0)


@pytest.mark.parametrize("seed", range(25))
def test_the_likelihood_of_labels(seed: int) -> None:
    """Exact for whole labels and where what is known is closed upward; otherwise never above the truth."""
    random, space = np.random.default_rng(seed), hierarchy(seed)
    answers, u = cascade(space), 2 * random.normal(size=WIDTH)
    rows, p = listed(space, u)
    assert space.implications is not None
    for row in rows[random.integers(len(rows), size=8)]:
        for known, exact in (
            (np.ones(WIDTH, bool), True),
            (space.implications.upward(random.random((1, WIDTH)) < 0.3)[0], True),
            (random.random(WIDTH) < 0.4, False),
        ):
            y = np.where(known, row, np.nan)
            chance = p[(rows[:, known] == row[known]).all(axis=1)].sum()
            found = float(answers.log_wmc(*weights(torch.from_numpy(u), torch.from_numpy(y))).exp())
            assert found <= chance + 1e-9
            if exact:
                assert found == pytest.approx(chance)


def test_a_bound_that_is_not_tight() -> None:
    """Two classes fail below one that may hold: their failing is not independent."""
    space = LabelSpace("a, b, c\nb -> a\nc -> a")
    y = torch.tensor([torch.nan, 0.0, 0.0])
    found = cascade(space).log_wmc(*weights(torch.zeros(3), y)).exp()
    assert float(found) == pytest.approx(0.75 * 0.75)
    assert float(found) < 0.5 + 0.5 * 0.25


@pytest.mark.parametrize("seed", range(15))
def test_answers_given_evidence(seed: int) -> None:
    random, space = np.random.default_rng(seed), hierarchy(seed)
    answers, u = cascade(space), 2 * random.normal(size=WIDTH)
    rows, p = listed(space, u)
    assert space.implications is not None
    row = rows[random.integers(len(rows))]
    known = space.implications.upward(random.random((1, WIDTH)) < 0.3)[0]
    y = np.where(known, row, np.nan)
    both = weights(torch.from_numpy(u), torch.from_numpy(y))
    q = np.where((rows[:, known] == row[known]).all(axis=1), p, 0)
    q /= q.sum()
    np.testing.assert_allclose(answers.marginals(*both), q @ rows, atol=1e-12)
    some = q[q > 0]
    assert float(answers.entropy(*both)) == pytest.approx(-(some * np.log(some)).sum())
    label, log_p = answers.mpe(*both)
    assert float(log_p) == pytest.approx(np.log(np.where(q > 0, p, 0).max()), abs=1e-6)
    assert (label.numpy()[known] == row[known]).all()


def test_samples() -> None:
    space, u = hierarchy(4), torch.tensor([0.5, -0.2, 1.0, 0.3, 2.0, -1.0, 0.8])
    answers = cascade(space)
    rows, p = listed(space, u.double().numpy())
    for y in (torch.full((WIDTH,), torch.nan), torch.tensor([torch.nan] * 4 + [0.0, 0.0, torch.nan])):
        q = np.where(((rows == y.numpy()) | np.isnan(y.numpy())).all(axis=1), p, 0)
        drawn = answers.sample(*weights(u, y), 20_000, torch.Generator().manual_seed(0)).numpy()
        share = [(drawn == row).all(axis=1).mean() for row in rows]
        np.testing.assert_allclose(share, q / q.sum(), atol=0.015)


def test_gradients() -> None:
    space = hierarchy(1)
    answers = cascade(space)
    u = torch.randn(2, WIDTH, dtype=torch.float64, requires_grad=True, generator=torch.manual_seed(0))
    y = torch.from_numpy(oracle.valid_columns(space.constraints)[[0, -1]].astype(float))
    part, fixed = y.clone(), u.detach() + 1
    part[:, ::2] = torch.nan
    for query in (
        lambda z: answers.log_wmc(*weights(z, y)),
        lambda z: answers.log_wmc(*weights(z, part)),
        lambda z: answers.marginals(*weights(z)),
        lambda z: answers.entropy(*weights(z)),
        lambda z: answers.divergence(*weights(z), *weights(fixed)),
    ):
        assert torch.autograd.gradcheck(query, (u,))


def test_divergence() -> None:
    space = hierarchy(2)
    u, v = torch.randn(2, WIDTH, dtype=torch.float64, generator=torch.manual_seed(0))
    (_, p), (_, q) = listed(space, u.numpy()), listed(space, v.numpy())
    found = cascade(space).divergence(*weights(u), *weights(v))
    assert float(found) == pytest.approx(oracle.divergence(p, q))


def test_several_labels_are_valid_different_and_in_order() -> None:
    near = 0
    for seed in range(20):
        space, u = hierarchy(seed), torch.randn(1, WIDTH, dtype=torch.float64, generator=torch.manual_seed(seed))
        labels, log_p = cascade(space).top_k(*weights(u), 4)
        assert not space.check(labels[0].double().numpy())
        assert len(labels[0].unique(dim=0)) == 4
        assert (log_p[0].diff() <= 0).all()
        _, p = listed(space, u[0].numpy())
        assert float(log_p[0, 0]) == pytest.approx(np.log(p.max()), abs=1e-6)
        near += bool(np.allclose(log_p[0].exp(), np.sort(p)[::-1][:4]))
    assert near >= 18  # not proven, though mostly so


def test_gains_of_all_classes() -> None:
    space, gain = hierarchy(5), torch.randn(4, WIDTH, dtype=torch.float64, generator=torch.manual_seed(0))
    rows = oracle.valid_columns(space.constraints)
    label, weight = cascade(space).plain.mpe(gain, torch.zeros_like(gain))
    assert not space.check(label.double().numpy())
    np.testing.assert_allclose(weight, (gain.numpy() @ rows.T).max(axis=1), atol=1e-6)


def test_refusals() -> None:
    space = LabelSpace("a, b, c\nb -> a\nc -> a")
    answers, u = cascade(space), torch.zeros(1, 3)
    against = weights(u, torch.tensor([[0.0, 1.0, torch.nan]]))
    assert answers.log_wmc(*against).item() == answers.mpe(*against)[1].item() == -torch.inf
    assert not answers.mpe(*against)[0].any()
    for query in ("log_wmc", "mpe", "marginals", "entropy"):
        with pytest.raises(DataError, match="no valid label that agrees"):
            getattr(answers, query)(*against, strict=True)
    with pytest.raises(DataError, match="no valid label that agrees"):
        answers.sample(*against)
    whole = weights(u, torch.tensor([[0.0, 1.0, 0.0]]))
    assert answers.log_wmc(*whole).item() == -torch.inf
    doubtful = weights(u, torch.tensor([[torch.nan, 0.0, torch.nan]]))
    for query in ("marginals", "entropy"):
        with pytest.raises(DataError, match="not known whether the classes above it hold"):
            getattr(answers, query)(*doubtful)
    with pytest.raises(DataError, match="not probabilities"):
        answers.log_wmc(2 * logsigmoid(u), 2 * logsigmoid(-u))


def test_samples_that_would_take_for_ever_are_refused() -> None:
    wide = LabelSpace("a, b[1..40]\nfor i in 1..40: b[i] -> a")
    u = torch.full((41,), 2.0)
    u[0] = 9.0
    with pytest.raises(DataError, match="none agrees"):
        cascade(wide).sample(*weights(u, torch.tensor([torch.nan] + [0.0] * 40)))


def test_a_pickled_one_answers_alike() -> None:
    answers, u = cascade(hierarchy(6)), torch.randn(2, 1, WIDTH, generator=torch.manual_seed(0))
    before = answers.marginals(*weights(u))
    assert before.shape == (2, 1, WIDTH)
    torch.testing.assert_close(pickle.loads(pickle.dumps(answers)).marginals(*weights(u)), before)
    assert "no circuit is needed" in repr(answers)
