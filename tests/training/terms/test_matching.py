"""Terms that guess labels: guesses against enumeration, original formulas by hand, and no guess that breaks a rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import oracle
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.training.objective import Objective
from dssl.training.terms.consistency import Look
from dssl.training.terms.matching import FixMatch, MixMatch, Mixup, ReMixMatch, best_guess, soft_guess
from priors.cases import SPACES, evidence_of, logits_of
from training.looks import look_at

NAN = math.nan
TWO = LabelSpace.classes(["a", "b"])
EITHER = LabelSpace.attributes(["a", "b"], "a -> !b")


def softmax(z: list[float]) -> list[float]:
    e = [math.exp(v) for v in z]
    return [v / sum(e) for v in e]


def columns_of(look: Look, values: list[Tensor]) -> Tensor:
    """What terms have by group, as columns."""
    return look.blocks.literals(values)[0]


# ---- guesses ----


def enumerated(space: LabelSpace, z: Tensor, known: Tensor, power: float) -> tuple[np.ndarray, np.ndarray]:
    """Labels that are valid and agree with what is known, and their probabilities, p(y)^power normalised."""
    rows = oracle.valid_columns(space.constraints)
    pos, neg = oracle.log_literals(space.variables, z)
    soft = oracle.soft_log_weights(space.constraints)
    e = known.numpy()
    pos, neg = np.where(e == 0, -np.inf, power * pos), np.where(e == 1, -np.inf, power * neg)
    pos, neg = np.concatenate([pos, soft[0]]), np.concatenate([neg, soft[1]])
    return rows[:, : space.width], oracle.probabilities(rows, pos, neg)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(SPACES)), st.integers(0, 10_000), st.sampled_from([1.0, 2.0, 5.0]))
def test_guesses_against_enumeration(name: str, seed: int, power: float) -> None:
    """Marginals of p(y)^power, the most probable label, its variables' probabilities and its own: all given V."""
    space = SPACES[name]
    z, known = logits_of(space, 3, seed=seed), evidence_of(space, 3, seed=seed)
    known[0] = NAN
    look = look_at(space, z, known)
    sharp = columns_of(look, soft_guess(look, look.log_theta(z), power))
    best, sure, label = best_guess(look, look.log_theta(z))
    chosen = columns_of(look, best).numpy().astype(bool)
    for i in range(3):
        rows, p = enumerated(space, z[i], known[i], power)
        np.testing.assert_allclose(sharp[i], p @ rows, atol=1e-6)
        rows, p = enumerated(space, z[i], known[i], 1.0)
        mass = p[(rows == chosen[i]).all(1)].sum()
        assert mass == pytest.approx(p.max(), rel=1e-5)
        assert float(label[i]) == pytest.approx(mass, rel=1e-5)
        marginals = p @ rows
        for group, s in zip(look.blocks.groups, sure):
            for j, variable in enumerate(group.variables):
                start, stop = space.spans[variable]
                block, own = marginals[start:stop], chosen[i, start:stop]
                expected = (block[0] if own[0] else 1 - block[0]) if group.binary else block[own][0]
                assert float(s[i, j]) == pytest.approx(expected, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([name for name in sorted(SPACES) if SPACES[name].rules]), st.integers(0, 10_000))
def test_no_guess_breaks_a_rule_or_contradicts_a_label(name: str, seed: int) -> None:
    space = SPACES[name]
    z, known = logits_of(space, 8, seed=seed, scale=6), evidence_of(space, 8, seed=seed)
    look = look_at(space, z, known)
    guess = columns_of(look, best_guess(look, look.log_theta(z))[0])
    assert not space.check(guess.float().numpy())
    assert bool(((guess == known) | known.isnan()).all())


def test_raw_guesses_would_break_the_rule() -> None:
    """The twin: without the circuit both would be guessed."""
    z = torch.tensor([[3.0, 2.0]])
    ruled, free = look_at(EITHER, z), look_at(LabelSpace.attributes(["a", "b"]), z)
    assert columns_of(ruled, best_guess(ruled, ruled.log_theta(z))[0]).tolist() == [[1, 0]]
    assert columns_of(free, best_guess(free, free.log_theta(z))[0]).tolist() == [[1, 1]]


TERMS: dict[str, Any] = {
    "fixmatch": FixMatch,
    "fixmatch, by label": lambda: FixMatch(per="label", align=True),
    "mixmatch": MixMatch,
    "remixmatch": ReMixMatch,
    "mixup": Mixup,
}


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("space", SPACES)
def test_every_space_and_logits_of_ten_thousand(name: str, space: str) -> None:
    """Rows that are unlabelled, partly and wholly labelled; the strong view contradicts the weak one."""
    s = SPACES[space]
    z = logits_of(s, 4).float()
    x = torch.cat([z, z.sign() * 1e4, -z.sign() * 1e4])
    y = evidence_of(s, 12).float()
    y[::2] = NAN
    y[1::4] = torch.from_numpy(oracle.valid_columns(s.constraints)[0, : s.width]).float()
    network = nn.Linear(s.width, s.width, bias=False)
    with torch.no_grad():
        network.weight.copy_(torch.eye(s.width))
    objective = Objective(s, None, consistency=TERMS[name](), augment=(lambda x: x, lambda x: -x))
    for _ in range(2):
        loss = objective(network(x), y, x=x, network=network)
        loss.backward()
    assert math.isfinite(float(loss))
    assert bool(network.weight.grad.isfinite().all())  # type: ignore[union-attr]


# ---- FixMatch ----


def strong(z: list[list[float]]) -> tuple[Any, Any]:
    return None, lambda x: torch.tensor(z, dtype=x.dtype)


def test_fixmatch_is_the_cross_entropy_of_confident_guesses() -> None:
    """Sohn et al. (2020), Eq. 4, at τ = .95: σ(3) = .953 counts, σ(2.9) = .948 does not."""
    look = look_at(TWO, torch.tensor([[3.0, 0.0], [2.9, 0.0], [0.0, 4.0]]), augment=strong([[1.0, 0], [1, 0], [1, 0]]))
    expected = [-math.log(softmax([1, 0])[0]), 0.0, -math.log(softmax([1, 0])[1])]
    assert FixMatch()(look).tolist() == pytest.approx(expected)
    assert FixMatch(threshold=0.9)(look).tolist()[1] == pytest.approx(expected[0])


def test_fixmatch_has_gradient_through_the_strong_view_only() -> None:
    logits = torch.tensor([[4.0, 0.0]], requires_grad=True)
    seen = torch.tensor([[1.0, 0.0]], requires_grad=True)
    look = look_at(TWO, torch.zeros(1, 2), logits=logits, augment=(None, lambda x: seen))
    FixMatch()(look).sum().backward()
    assert logits.grad is None
    theta = softmax([1, 0])
    assert seen.grad is not None
    assert seen.grad[0].tolist() == pytest.approx([theta[0] - 1, theta[1]])


def test_confidence_by_variable_and_by_label() -> None:
    """a → ¬b: p(y* | V) = p(a ¬b) / (1 − p(ab)); the marginals of a and of ¬b are larger."""
    z = torch.tensor([[2.0, 0.0]])
    a, b = 1 / (1 + math.exp(-2)), 0.5
    valid = 1 - a * b
    label, of_a, of_b = a * (1 - b) / valid, a * (1 - b) / valid, (1 - b) / valid
    look = look_at(EITHER, z, augment=strong([[0.0, 1.0]]))
    _, (sure,), whole = best_guess(look, look.log_theta(z))
    assert sure[0].tolist() == pytest.approx([of_a, of_b])
    assert float(whole) == pytest.approx(label)
    cost_a, cost_b = math.log(2), math.log(1 + math.e)
    between = (of_a + of_b) / 2
    assert float(FixMatch(threshold=between)(look)) == pytest.approx(cost_b)
    assert float(FixMatch(threshold=between, per="label")(look)) == 0
    assert float(FixMatch(threshold=label - 1e-4, per="label")(look)) == pytest.approx(cost_a + cost_b)


def test_what_is_known_is_not_guessed() -> None:
    """A complete label is its own guess, sure; a partial one leaves fewer values to guess among."""
    three = LabelSpace.classes(["a", "b", "c"])
    z = torch.tensor([[5.0, 0.0, 0.0], [5.0, 4.0, 0.0]])
    y = torch.tensor([[0.0, 0.0, 1.0], [0.0, NAN, NAN]])
    look = look_at(three, z, y, augment=strong([[0.0, 0, 0], [0, 0, 0]]))
    guess, sure, _ = best_guess(look, look.log_theta(z))
    assert guess[0][:, 0].argmax(-1).tolist() == [2, 1]
    assert sure[0][:, 0].tolist() == pytest.approx([1.0, softmax([4.0, 0.0])[0]])
    assert FixMatch()(look).tolist() == pytest.approx([math.log(3)] * 2)


def test_labels_that_contradict_the_rules_are_refused() -> None:
    with pytest.raises(DataError):
        FixMatch()(look_at(EITHER, torch.zeros(1, 2), torch.tensor([[1.0, 1.0]])))


def test_no_such_confidence() -> None:
    with pytest.raises(ValueError, match="per='row': choose variable or label"):
        FixMatch(per="row")


# ---- alignment ----


def test_guesses_are_aligned_by_the_balance_of_the_objective() -> None:
    """Berthelot et al. (2020), Eq. 1: normalise(q · p(y) / p̃(y)), p̃ a running mean of predictions."""
    z = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    y = torch.tensor([[NAN, NAN], [0.0, 1.0]])  # the second is labelled: its prediction is not in the mean
    term, kept = Keeps(align=True), 0.99
    objective = Objective(TWO, None, consistency=term, frequencies=[0.8, 0.2], augment=lambda x: x)
    theta, mean = softmax([0, 1]), [0.8, 0.2]
    for _ in range(3):
        objective(z, y, x=z, network=nn.Identity())
        expected = [t * p / m for t, p, m in zip(theta, [0.8, 0.2], mean)]
        expected = [e / sum(expected) for e in expected]
        assert term.seen[0].softmax(-1).tolist() == pytest.approx(expected, rel=1e-5)
        mean = [kept * m + (1 - kept) * t for m, t in zip(mean, theta)]
    objective.eval()(z, y, x=z, network=nn.Identity())
    assert objective.state_dict()["balance.mean"].tolist() == pytest.approx(mean, rel=1e-5)


def test_the_running_mean_moves_once_a_step_however_many_terms_align() -> None:
    z, y = torch.tensor([[0.0, 1.0]]), torch.tensor([[NAN, NAN]])
    means = []
    for terms in ([Keeps(align=True)], [Keeps(align=True), FixMatch(align=True)]):
        objective = Objective(TWO, None, consistency=terms, frequencies=[0.8, 0.2], augment=lambda x: x)
        objective(z, y, x=z, network=nn.Identity())
        means.append(objective.balance.mean.tolist())
    assert means[0] == means[1] != [0.8, 0.2]


class Keeps(FixMatch):
    """Keeps what it guesses from."""

    seen: Tensor

    def forward(self, look: Any) -> Tensor:
        self.__dict__["seen"] = self.aligned(look, look.logits)
        return super().forward(look)


# ---- mixing ----


def half(monkeypatch: pytest.MonkeyPatch, share: float, order: list[int] | None = None) -> None:
    """Makes chance give this share of each row, and this order of all rows."""

    class Beta:
        def __init__(self, *alpha: Tensor, validate_args: bool) -> None: ...

        def sample(self, shape: tuple[int, ...]) -> Tensor:
            return torch.full(shape, share)

    monkeypatch.setattr(torch.distributions, "Beta", Beta)
    if order is not None:
        monkeypatch.setattr("dssl.training.terms.matching._shuffled", lambda rows: torch.tensor(order))


def test_mixmatch_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Berthelot et al. (2019), Algorithm 1 with K = 2, T = .5, λ = .3, so λ′ = .7: a labelled and an unlabelled row."""
    half(monkeypatch, 0.3, [1, 2, 0])
    x = torch.tensor([[0.0, 2.0], [1.0, 0.0]])
    y = torch.tensor([[1.0, 0.0], [NAN, NAN]])
    look = look_at(TWO, x, y, augment=(lambda x: 3 * x, None))
    found = MixMatch()(look).tolist()
    mean = [(a + b) / 2 for a, b in zip(softmax([1, 0]), softmax([3, 0]))]
    q = [m * m / sum(v * v for v in mean) for m in mean]  # Eq. 7
    rows = [([0.0, 2.0], [1.0, 0.0]), ([1.0, 0.0], q), ([3.0, 0.0], q)]  # labelled, and two views of the other
    mixed = []
    for (z, p), (z2, p2) in zip(rows, [rows[1], rows[2], rows[0]]):
        theta = softmax([0.7 * a + 0.3 * b for a, b in zip(z, z2)])
        mixed.append((theta, [0.7 * a + 0.3 * b for a, b in zip(p, p2)]))
    labelled = -sum(p * math.log(t) for t, p in zip(*mixed[0]))  # Eq. 3
    guessed = [sum((p - t) ** 2 for t, p in zip(*m)) / 2 for m in mixed[1:]]  # Eq. 4
    assert found == pytest.approx([labelled, sum(guessed) / 2], rel=1e-5)


def test_mixmatch_gives_the_supervised_part_and_keeps_the_likelihood_of_partial_labels() -> None:
    space = LabelSpace("a, b")
    x = torch.tensor([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])
    y = torch.tensor([[1.0, 0.0], [1.0, NAN], [NAN, NAN]])
    torch.manual_seed(0)
    rows = MixMatch()(look_at(space, x, y))
    torch.manual_seed(0)
    objective = Objective(
        space, None, consistency=MixMatch(2.0), consistency_weight=3.0, mean="terms", augment=lambda x: x
    )
    loss = objective(x, y, x=x, network=nn.Identity()).logs()
    assert loss["supervised"] == pytest.approx((float(rows[0]) + math.log(1 + math.exp(-1))) / 2, rel=1e-5)
    assert loss["mixmatch"] == pytest.approx(6.0 * float(rows[1:].mean()), rel=1e-5)


def test_remixmatch_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Berthelot et al. (2020), Algorithm 1 with K = 1 and no alignment: anchored to the weak guess, all mixed."""
    half(monkeypatch, 0.2, [2, 0, 1])
    x = torch.tensor([[0.0, 2.0], [1.0, 0.0]])
    y = torch.tensor([[1.0, 0.0], [NAN, NAN]])
    look = look_at(TWO, x, y, augment=(None, lambda x: -x))
    found = ReMixMatch(views=1, align=False, unmixed=0.5)(look).tolist()
    q = [t * t / sum(v * v for v in softmax([1, 0])) for t in softmax([1, 0])]
    rows = [([0.0, -2.0], [1.0, 0.0]), ([-1.0, 0.0], q), ([1.0, 0.0], q)]  # strong, strong, weak
    costs = []
    for (z, p), (z2, p2) in zip(rows, [rows[2], rows[0], rows[1]]):
        theta = softmax([0.8 * a + 0.2 * b for a, b in zip(z, z2)])
        costs.append(-sum((0.8 * a + 0.2 * b) * math.log(t) for a, b, t in zip(p, p2, theta)))
    unmixed = -sum(p * math.log(t) for p, t in zip(q, softmax([-1, 0])))
    assert found == pytest.approx([costs[0], (costs[1] + costs[2]) / 2 + 0.5 * unmixed], rel=1e-5)


def test_mixup_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zhang et al. (2018), Eq. 1 on two labelled rows; Verma et al. (2019), Eq. 2 on two others; λ = .3."""
    half(monkeypatch, 0.3, [1, 0])
    x = torch.tensor([[0.0, 2.0], [1.0, 0.0], [3.0, 0.0], [0.0, 0.5]])
    y = torch.tensor([[1.0, 0.0], [0.0, 1.0], [NAN, NAN], [NAN, NAN]])
    found = Mixup(decay=None)(look_at(TWO, x, y)).tolist()
    own = [[1.0, 0.0], [0.0, 1.0], softmax([3, 0]), softmax([0, 0.5])]
    for i, j in ((0, 1), (1, 0), (2, 3), (3, 2)):
        theta = softmax([0.3 * a + 0.7 * b for a, b in zip(x[i].tolist(), x[j].tolist())])
        p = [0.3 * a + 0.7 * b for a, b in zip(own[i], own[j])]
        cost = -sum(a * math.log(t) for a, t in zip(p, theta))
        square = sum((a - t) ** 2 for a, t in zip(p, theta)) / 2
        assert found[i] == pytest.approx(cost if i < 2 else square, rel=1e-5)


@pytest.mark.parametrize("term", [MixMatch(), ReMixMatch(), Mixup(decay=None), FixMatch(align=True)])
def test_guesses_get_no_gradient(term: Any) -> None:
    logits = torch.tensor([[4.0, 0.0], [0.0, 5.0]], requires_grad=True)
    seen = torch.zeros(2, 2, requires_grad=True)
    look = look_at(TWO, torch.zeros(2, 2), logits=logits, augment=(lambda x: seen, lambda x: seen), seen=seen)
    term(look).sum().backward()
    assert logits.grad is None
    assert float(seen.grad.abs().max()) > 0  # type: ignore[union-attr]


def test_mixup_trusts_its_teacher() -> None:
    network = nn.Linear(2, 2)
    term = Mixup(decay=0.5)
    for _ in range(2):
        term(look_at(TWO, torch.randn(4, 2), network=network)).sum().backward()
    assert term.teacher is not None
    assert all(p.grad is None and not p.requires_grad for p in term.teacher.parameters())
    assert int(term.teacher.updates) == 2


def test_whole_numbers_cannot_be_mixed() -> None:
    with pytest.raises(DataError, match=r"x is of torch.int64\nUse a term that does not mix"):
        Mixup(decay=None)(look_at(TWO, torch.zeros(2, 2, dtype=torch.int64), logits=torch.zeros(2, 2)))


def test_two_terms_cannot_both_be_the_supervised_loss() -> None:
    with pytest.raises(ValueError, match="mixmatch and mixup each replace the supervised loss"):
        Objective(TWO, None, consistency=[MixMatch(), Mixup()])
