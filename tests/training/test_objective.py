"""Eq. DSSL: likelihood of what is observed, priors by rows, ramps, alignment, collapse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import oracle
from dssl.data.rows import ArrayData
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors import DeterministicPrior, EntropyPrior, PseudoLabelPrior
from dssl.priors.mixture import Mixture
from dssl.training.balance import collapse
from dssl.training.objective import Objective, linear_ramp, sigmoid_ramp
from dssl.training.terms.augmentation import Augmentation
from dssl.training.terms.consistency import VAT, Consistency, Look, MeanTeacher
from dssl.training.terms.matching import FixMatch
from priors.cases import SPACES, evidence_of, logits_of, make

NAN = math.nan
CLASSES = LabelSpace.classes(["cat", "dog", "trout"])
every_space = pytest.mark.parametrize("space", SPACES)


def observed(space: LabelSpace, z: torch.Tensor, known: torch.Tensor, rules: bool) -> float:
    """log probability of the labels that agree with what is known; with rules, given that they are valid."""
    kept = space if rules else LabelSpace.of(space.variables)
    rows = oracle.valid_columns(kept.constraints)
    pos, neg = oracle.log_literals(space.variables, z)
    soft = oracle.soft_log_weights(kept.constraints)
    e = known.numpy()
    seen = [
        np.concatenate(x)
        for x in ((np.where(e == 0, -np.inf, pos), soft[0]), (np.where(e == 1, -np.inf, neg), soft[1]))
    ]
    whole = [np.concatenate(x) for x in ((pos, soft[0]), (neg, soft[1]))]
    return oracle.log_wmc(rows, *seen) - oracle.log_wmc(rows, *whole)


def _complete(space: LabelSpace, known: torch.Tensor) -> bool:
    """Whether one value of each variable is left."""
    return all(
        not known[start].isnan() if v.binary else int((known[start:stop] != 0).sum()) == 1 or 1.0 in known[start:stop]
        for v, (start, stop) in zip(space.variables, space.spans)
    )


# ---- the likelihood ----


@every_space
@pytest.mark.parametrize("constrained", [False, True])
def test_likelihood_of_partial_labels_against_enumeration(space, constrained):
    s, z, known = SPACES[space], logits_of(SPACES[space], 8), evidence_of(SPACES[space], 8)
    found = Objective(s, None, constrained=constrained).log_likelihood(z, known)
    expected = [observed(s, z[i], known[i], constrained) for i in range(8)]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_complete_labels_are_cross_entropy():
    z, y = logits_of(CLASSES, 6), torch.tensor([0, 1, 2, 0, 1, 2])
    loss = Objective(CLASSES, None)(z, y)
    torch.testing.assert_close(loss.total, torch.nn.functional.cross_entropy(z, y))
    binaries = SPACES["binaries"]
    z, y = logits_of(binaries, 6), torch.randint(2, (6, 3), generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.binary_cross_entropy_with_logits(z, y.double(), reduction="none").sum(-1).mean()
    torch.testing.assert_close(Objective(binaries, None)(z, y).total, expected)


def test_excluded_values_and_candidate_sets():
    z = logits_of(CLASSES, 1)
    theta = z.softmax(-1)[0]
    objective = Objective(CLASSES, None)
    not_trout = torch.tensor([[NAN, NAN, 0.0]])
    torch.testing.assert_close(objective(z, not_trout).total, -torch.log(1 - theta[2]))
    cat_or_trout = torch.tensor([[NAN, 0.0, NAN]])
    torch.testing.assert_close(objective(z, cat_or_trout).total, -torch.log(theta[0] + theta[2]))
    only_one_left = torch.tensor([[0.0, 0.0, NAN]])
    torch.testing.assert_close(objective(z, only_one_left).total, -torch.log(theta[2]))
    with pytest.raises(DataError, match=r"rows \[0\] leave no value"):
        objective(z, torch.tensor([[0.0, 0.0, 0.0]]))
    with pytest.raises(DataError, match=r"rows \[0, 1, 2, 3, 4, 5, 6, 7, 8, 9\] leave no value"):
        objective(z.expand(12, -1), torch.zeros(12, 3))


def test_finite_and_accurate_at_huge_logits():
    z = torch.tensor([[1e4, -1e4, 0.0], [30.0, 0.0, 0.0]], requires_grad=True)
    loss = Objective(CLASSES, None)(z, torch.tensor([1, 0]))
    loss.backward()
    assert float(loss) == pytest.approx(1e4, rel=1e-6)
    assert z.grad.isfinite().all()
    assert z.grad[1, 0].item() == pytest.approx(-math.exp(-30), rel=1e-4)  # not lost against 1


def test_the_unhelpful_model_of_eq_2_gives_unlabelled_rows_no_gradient():
    for space in (CLASSES, SPACES["mix"], SPACES["rules and soft rules"]):
        z = logits_of(space, 6).float().requires_grad_()
        nothing = torch.full((6, space.width), NAN)
        objective = Objective(space, None)
        assert torch.equal(objective.log_likelihood(z, nothing), torch.zeros(6))
        objective.log_likelihood(z, nothing).sum().backward()
        assert torch.equal(z.grad, torch.zeros_like(z))
        loss = objective(z, nothing)
        assert float(loss) == 0
        z.grad = None
        loss.backward()
        assert z.grad is None or not z.grad.any()
        assert not Objective(space, None, constrained=True).log_likelihood(z, nothing).detach().abs().max() > 1e-6


# ---- priors by rows ----


def labels_of_all_kinds(space: LabelSpace, rows: int) -> torch.Tensor:
    """A third complete, a third partial, a third unknown."""
    valid = torch.from_numpy(oracle.valid_columns(space.constraints)[:, : space.width]).double()
    y = evidence_of(space, rows)
    y[::3] = valid[torch.arange(len(y[::3])) % len(valid)]
    y[1::3] = NAN
    return y


@every_space
def test_the_loss_of_a_batch_is_the_mean_of_its_rows(space):
    s = SPACES[space]
    z, y = logits_of(s, 9), labels_of_all_kinds(s, 9)
    weight = torch.linspace(0.5, 2, 9, dtype=torch.float64)
    objective = Objective(s, DeterministicPrior(s), prior_weight=0.3, labelled_prior_weight=0.2)
    rows = [objective(z[i : i + 1], y[i : i + 1], sample_weight=weight[i : i + 1]) for i in range(9)]
    for size in (1, 2, 5, 9):
        batch = objective(z[:size], y[:size], sample_weight=weight[:size])
        torch.testing.assert_close(batch.total, torch.stack([row.total for row in rows[:size]]).mean())
        torch.testing.assert_close(batch.total, sum(batch.parts.values()))
        for name in batch.parts:
            expected = torch.stack([row.parts[name] for row in rows[:size]]).mean()
            torch.testing.assert_close(batch.parts[name], expected)


def test_who_gets_which_prior():
    space = SPACES["rules and soft rules"]
    prior = DeterministicPrior(space)
    z, y = logits_of(space, 9), labels_of_all_kinds(space, 9)
    complete = ~y.isnan().any(-1)
    loss = Objective(space, prior, prior_weight=0.5, labelled_prior_weight=0.25)(z, y)
    open_ = (prior(z, y) - Objective(space, None).log_likelihood(z, y))[~complete]  # what is known counts once
    expected = -(0.5 * open_.sum() + 0.25 * prior(z)[complete].sum()) / 9
    torch.testing.assert_close(loss.parts["prior"] + loss.parts["labelled_prior"], expected)
    assert set(Objective(space, prior)(z, y).parts) == {"supervised", "prior"}
    assert set(Objective(space, None)(z, y).parts) == {"supervised"}
    assert loss.logs().keys() == {"supervised", "prior", "labelled_prior", "total"}


def test_means_over_terms():
    z, y = logits_of(CLASSES, 4), torch.tensor([0, -1, -1, -1])
    prior = DeterministicPrior(CLASSES)
    loss = Objective(CLASSES, prior, mean="terms")(z, y)
    torch.testing.assert_close(loss.parts["supervised"], torch.nn.functional.cross_entropy(z[:1], y[:1]))
    torch.testing.assert_close(loss.parts["prior"], -prior(z[1:]).mean())
    unlabelled = Objective(CLASSES, prior, mean="terms")(z[1:], y[1:])
    assert float(unlabelled.parts["supervised"]) == 0


def test_rules_with_full_supervision():
    space = SPACES["rule"]
    z = logits_of(space, 4).requires_grad_()
    y = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]).double()
    given = Objective(space, None, constrained=True)(z, y).total
    plain = Objective(space, None)(z, y).total
    broken = torch.log1p(-z.sigmoid().prod(-1)).mean()  # log P(V)
    torch.testing.assert_close(given, plain + broken)
    with pytest.raises(DataError, match="no valid label"):
        Objective(space, None, constrained=True)(z, torch.ones(4, 2))


@pytest.mark.parametrize("prior", [DeterministicPrior, EntropyPrior, PseudoLabelPrior])
def test_what_is_observed_is_not_counted_again_by_the_prior(prior):
    """Without rules the prior of a partly labelled row is that of its other variables (MATH §1)."""
    space, rest = SPACES["mix"], LabelSpace.of([v for v in SPACES["mix"].variables if v.name not in ("legs", "a")])
    z = logits_of(space, 5).requires_grad_()
    y = torch.full((5, space.width), NAN)
    (legs, _), (start, stop) = (space.spans[[v.name for v in space.variables].index(name)] for name in ("legs", "a"))
    y[:, legs], y[:, start:stop] = 1.0, torch.tensor([0.0, 1.0, 0.0])
    other = [c for c in range(space.width) if c != legs and not start <= c < stop]
    loss = Objective(space, prior(space))(z, y).parts["prior"]
    torch.testing.assert_close(loss, -prior(rest)(z[:, other]).mean())
    (gradient,) = torch.autograd.grad(loss, z)
    assert float(gradient[:, [legs, *range(start, stop)]].abs().max()) == 0
    assert float(gradient[:, other].abs().max()) > 0


def test_candidates_share_what_is_theirs():
    z = logits_of(CLASSES, 4)
    y = torch.tensor([[NAN, 0.0, NAN]] * 4)
    found = Objective(CLASSES, DeterministicPrior(CLASSES))(z, y).parts["prior"]
    two = LabelSpace.classes(["cat", "trout"])
    torch.testing.assert_close(found, -DeterministicPrior(two)(z[:, [0, 2]]).mean())


@every_space
def test_the_prior_of_partial_rows_against_enumeration(space):
    """log q(θ, y) / T − log p(y | θ), with rules or without: log q of θ given what is observed."""
    s, z, known = SPACES[space], logits_of(SPACES[space], 8), evidence_of(SPACES[space], 8)
    prior = DeterministicPrior(s, 3.0)
    rows = ~known.isnan().all(-1)
    objective = Objective(s, prior, mean="terms")
    for i in rows.nonzero().flatten().tolist():
        parts = objective(z[i : i + 1], known[i : i + 1]).logs()
        expected = float(prior(z[i : i + 1], known[i : i + 1])) - observed(s, z[i], known[i], rules=False)
        complete = bool(_complete(s, known[i]))
        assert parts["prior"] == pytest.approx(0 if complete else -expected, rel=1e-6, abs=1e-9)


def test_partial_labels_that_contradict_the_rules_are_named():
    space = LabelSpace.attributes(["legs", "fins", "wings"], "legs -> !fins")
    y = torch.tensor([[1.0, 1.0, NAN], [NAN, NAN, NAN]])
    with pytest.raises(DataError, match=r"1 partial labels contradict the rules.*\n.*space.check"):
        Objective(space, DeterministicPrior(space))(torch.zeros(2, 3), y)
    space = LabelSpace.attributes(["legs", "fins", "wings", "tail"], "legs -> !fins")
    y = torch.tensor([[NAN, NAN, NAN, NAN], [1.0, 1.0, 0.0, NAN], [1.0, 1.0, NAN, 1.0]])
    with pytest.raises(DataError, match=r"2 partial labels .* the first is \[1\.0, 1\.0, 0\.0, nan\]"):
        Objective(space, DeterministicPrior(space))(torch.zeros(3, 4), y)


def test_it_learns_from_unlabelled_rows():
    """Two blobs, one label each: the prior keeps the boundary away from the data, the labels alone do not."""
    generator = torch.Generator().manual_seed(0)
    side = torch.arange(200) % 2
    x = torch.randn(200, 2, generator=generator) * 0.5 + torch.stack([4.0 * side - 2, torch.zeros(200)], -1)
    y = torch.full((200,), -1)
    y[0], y[1] = 0, 1
    space = LabelSpace.classes("ab")
    accuracy = {}
    for name, prior in (("labels", None), ("prior", DeterministicPrior(space, 4.0))):
        network = torch.nn.Linear(2, 2)
        torch.nn.init.zeros_(network.weight)
        torch.nn.init.zeros_(network.bias)
        objective = Objective(space, prior, mean="terms")
        optimiser = torch.optim.Adam(network.parameters(), lr=0.05)
        for _ in range(150):
            optimiser.zero_grad()
            objective(network(x), y).backward()
            optimiser.step()
        confident = network(x).softmax(-1)[torch.arange(200), side]
        accuracy[name] = confident.mean().item()
    assert accuracy["prior"] > accuracy["labels"]
    assert accuracy["prior"] > 0.98


# ---- ramps, state ----


def test_ramps():
    z, y = logits_of(CLASSES, 4), torch.full((4,), -1)
    prior = EntropyPrior(CLASSES)
    full = float(Objective(CLASSES, prior)(z, y))
    ramped = Objective(CLASSES, prior, ramp=linear_ramp(10))
    assert float(ramped(z, y, step=5)) == pytest.approx(full / 2)
    assert float(ramped(z, y, step=0)) == 0
    assert float(Objective(CLASSES, prior, ramp=sigmoid_ramp(10))(z, y, step=99)) == pytest.approx(full)
    with pytest.raises(ValueError, match="step=step"):
        ramped(z, y)


def test_misfits_are_refused():
    with pytest.raises(ValueError, match="use one space for both"):
        Objective(CLASSES, EntropyPrior(SPACES["mix"]))
    with pytest.raises(ValueError, match="choose rows or terms"):
        Objective(CLASSES, None, mean="batch")
    with pytest.raises(DataError, match=r"must have \(batch, 3\)"):
        Objective(CLASSES, None)(torch.zeros(3), torch.tensor([0]))
    half = Objective(CLASSES, DeterministicPrior(CLASSES))(torch.zeros(2, 3, dtype=torch.float16), [0, -1])
    assert half.total.dtype == torch.float32


def test_state_dict_keeps_the_prior_and_the_balance():
    prior = DeterministicPrior(CLASSES, 3.0)
    objective = Objective(CLASSES, prior, balance=1.0)
    objective(logits_of(CLASSES, 4), torch.tensor([0, 1, -1, -1]))
    other = Objective(CLASSES, DeterministicPrior(CLASSES), balance=1.0, frequencies=[1, 1, 1])
    other.load_state_dict(objective.state_dict())
    assert other.prior.power.item() == 3.0
    torch.testing.assert_close(other.balance.mean, objective.balance.mean)
    torch.testing.assert_close(other.balance.target, objective.balance.target)
    assert not torch.allclose(objective.balance.mean, objective.balance.target)


# ---- against collapse ----


def test_balance_keeps_predictions_from_collapsing():
    start = logits_of(CLASSES, 90, scale=0.5).float() + torch.tensor([1.0, 0.0, 0.0])
    y = torch.full((90,), -1)
    labels = torch.eye(3)
    share = {}
    for name, balance in (("plain", 0.0), ("balanced", 90.0)):
        z = start.clone().requires_grad_()
        objective = Objective(CLASSES, DeterministicPrior(CLASSES, 10.0), 90, balance=balance, frequencies=[1, 1, 1])
        optimiser = torch.optim.SGD([z], lr=0.2)
        for _ in range(200):
            optimiser.zero_grad()
            objective(z, y).backward()
            optimiser.step()
        share[name] = collapse(CLASSES, z, labels).share
    assert share["plain"] < 0.7
    assert share["balanced"] > 0.8


# ---- components ----


def mixed(space, rows, components, seed=0):
    return logits_of(space, rows * components, seed=seed).reshape(rows, -1), torch.randn(
        rows, components, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )


@pytest.mark.parametrize("constrained", [False, True])
def test_the_likelihood_of_components_is_that_of_their_mixture(constrained):
    space = SPACES["rules and soft rules"]
    z = torch.cat(mixed(space, 4, 3), 1)
    y = evidence_of(space, 4, seed=2)
    loss = Objective(space, None, constrained=constrained, components=3)(z, y)
    expected = Mixture(z, space).log_prob(y, rules=constrained)
    torch.testing.assert_close(loss.total, -expected.sum() / 4)


@pytest.mark.parametrize("name", ["deterministic", "entropy, semantic", "exclusivity", "pseudo-label"])
@pytest.mark.parametrize("space", ["rules", "several categoricals"])
def test_the_prior_of_components_bounds_that_of_their_mixture(name, space):
    """log q of the joint distribution over all labels, valid or not, which enumeration adds up."""
    space, power = SPACES[space], float(DeterministicPrior(CLASSES).power)
    log_q = {
        "deterministic": lambda p, valid: math.log((p[valid] ** power).sum()) / power,
        "pseudo-label": lambda p, valid: math.log(p[valid].max()),
        "exclusivity": lambda p, valid: math.log(p[valid].sum()),
        "entropy, semantic": lambda p, valid: (
            math.log(p[valid].sum()) + (p[valid] / p[valid].sum() * np.log(p[valid] / p[valid].sum())).sum()
        ),
    }[name]
    if name == "exclusivity" and not space.rules:
        pytest.skip("without rules it is about the values of one variable, not about labels")
    records = [space.encode([record])[0] for record in oracle.records(space.variables)]
    allowed = oracle.valid_columns(space.constraints)[:, : space.width].tolist()
    valid = np.array([(row == 1).tolist() in allowed for row in records])
    logits, weights = mixed(space, 6, 3)
    objective = Objective(space, make(name, space), components=3)
    found = objective(torch.cat([logits, weights], 1), torch.full((6, space.width), math.nan)).parts["prior"]
    total = 0.0
    for row, w in zip(logits.reshape(6, 3, -1), weights.softmax(-1)):
        p = sum(
            float(share)
            * np.exp(oracle.log_weights(np.array(records) == 1, *oracle.log_literals(space.variables, one)))
            for share, one in zip(w, row)
        )
        total += log_q(p, valid)
    assert float(found) > -total / 6  # a loss is minus log q


def test_the_prior_of_one_sure_component_is_its_own():
    space = SPACES["rules"]
    logits, weights = mixed(space, 4, 3)
    weights = torch.tensor([1e4, -1e4, 0.0], dtype=torch.float64).expand(4, 3)
    y = evidence_of(space, 4, seed=2)
    prior = DeterministicPrior(space).double()
    several = Objective(space, prior, components=3)(torch.cat([logits, weights], 1), y)
    alone = Objective(space, prior)(logits[:, : space.width], y)
    for name in ("supervised", "prior"):
        torch.testing.assert_close(several.parts[name], alone.parts[name])


@pytest.mark.parametrize("space", ["rules", "mix"])
def test_gradients_of_components(space):
    space = SPACES[space]
    y = evidence_of(space, 4, seed=2)
    y[2:] = math.nan
    prior = DeterministicPrior(space).double()
    objective = Objective(space, prior, constrained=True, balance=1.0, components=2, mean="terms").double().eval()
    z = torch.cat(mixed(space, 4, 2), 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: objective(z, y).total, (z,))
    extreme = (1e4 * z.detach().sign()).requires_grad_()
    loss = objective(extreme, y)
    loss.backward()
    assert bool(loss.total.isfinite())
    assert bool(extreme.grad.isfinite().all())


def test_components_and_consistency_do_not_go_together():
    with pytest.raises(ValueError, match=r"vat: consistency terms compare .* and there are 2\nLeave out"):
        Objective(CLASSES, None, consistency=VAT(), components=2)
    with pytest.raises(ValueError, match="components=0: a model has at least one"):
        Objective(CLASSES, None, components=0)
    former: dict[str, Any] = {"align": True}
    with pytest.raises(TypeError, match="Objective has no parameter 'align' any more\nWrite balance="):
        Objective(CLASSES, None, **former)
    assert Objective(CLASSES, DeterministicPrior(power=3.0)).prior.space == CLASSES
    with pytest.raises(DataError, match=r"must have \(batch, 8\)"):
        Objective(CLASSES, None, components=2)(torch.zeros(2, 3), torch.tensor([0, 1]))


# ---- consistency ----


class Given(Consistency):
    """Losses that were given."""

    name = "given"

    def __init__(self, losses: list[float], **options: Any) -> None:
        super().__init__(**options)
        self.losses = losses

    def forward(self, look: Look) -> torch.Tensor:
        return torch.tensor(self.losses) + 0 * look.logits.sum(1)


def test_consistency_is_a_weighted_mean_over_the_rows_that_join():
    """total = supervised + λ·(−log q) + μ·consistency (MATH §7), by rows and by terms."""
    z, y = logits_of(CLASSES, 4).float(), torch.tensor([0, -1, -1, -1])
    weight = torch.tensor([1.0, 2.0, 1.0, 0.5])
    seen = {"x": z, "network": torch.nn.Identity(), "step": 1, "sample_weight": weight}
    for labelled, mean, expected in (
        (True, "rows", (1 + 2 * 2 + 3 + 2) / 4),
        (True, "terms", (1 + 2 * 2 + 3 + 2) / 4),
        (False, "rows", (2 * 2 + 3 + 2) / 4),
        (False, "terms", (2 * 2 + 3 + 2) / 3),
    ):
        term = Given([1.0, 2.0, 3.0, 4.0], weight=5.0, labelled=labelled)
        prior = DeterministicPrior(CLASSES)
        both = Objective(CLASSES, prior, consistency=term, consistency_weight=0.1, ramp=linear_ramp(2), mean=mean)
        loss, plain = both(z, y, **seen), Objective(CLASSES, prior, ramp=linear_ramp(2), mean=mean)(z, y, **seen)
        assert float(loss.parts["given"]) == pytest.approx(0.5 * 0.1 * 5 * expected)
        assert float(loss.total) == pytest.approx(float(plain.total) + float(loss.parts["given"]))
        assert plain.parts.keys() == {"supervised", "prior"}


def test_several_terms_and_their_names():
    objective = Objective(CLASSES, None, consistency=[Given([1.0]), VAT(), Given([2.0], weight=10.0)])
    z = torch.zeros(1, 3)
    parts = objective(z, torch.tensor([-1]), x=z, network=torch.nn.Identity()).logs()
    assert list(parts) == ["supervised", "given", "vat", "given_2", "total"]
    assert (parts["given"], parts["given_2"]) == (1.0, 20.0)


def test_what_consistency_needs_is_asked_for():
    z, y = torch.zeros(2, 3), torch.tensor([-1, 0])
    objective = Objective(CLASSES, None, consistency=Given([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"given: consistency terms look at rows again.*\n.*x=x, network=network"):
        objective(z, y)
    for half in ({"x": z}, {"network": torch.nn.Identity()}):
        with pytest.raises(ValueError, match="need x and the network"):
            objective(z, y, **half)
    with pytest.raises(DataError, match="3 rows of x for 2 rows of logits"):
        objective(z, y, x=torch.zeros(3, 1), network=torch.nn.Identity())
    wrong = Given([1.0, 2.0])
    wrong.forward = lambda look: torch.zeros(3)  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"'given' gave a loss of shape \(3,\)\nGive one for each row: \(2,\)"):
        Objective(CLASSES, None, consistency=wrong)(z, y, x=z, network=torch.nn.Identity())
    with pytest.raises(ValueError, match="'vat' is not a consistency term"):
        Objective(CLASSES, None, consistency="vat")  # type: ignore[arg-type]


class Taught(Given):
    """Given losses that also stand in for the supervised ones."""

    name = "taught"
    supervised = True


def test_a_supervised_term_replaces_the_likelihood_of_complete_rows():
    z, y = logits_of(CLASSES, 3).float(), torch.tensor([[1.0, 0.0, 0.0], [0.0, NAN, NAN], [NAN] * 3])
    seen = {"x": z, "network": torch.nn.Identity()}
    loss = Objective(CLASSES, None, consistency=Taught([5.0, 6.0, 7.0]))(z, y, **seen)
    partial = -Objective(CLASSES, None).log_likelihood(z, y)[1]
    torch.testing.assert_close(loss.parts["supervised"], (5.0 + partial) / 3)
    assert float(loss.parts["taught"]) == pytest.approx((6.0 + 7.0) / 3)
    with pytest.raises(ValueError, match="taught and taught_2 each replace the supervised loss"):
        Objective(CLASSES, None, consistency=[Taught([]), Given([]), Taught([])])


def test_batches_of_any_size_are_looked_at():
    z = torch.zeros(300, 3)
    loss = Objective(CLASSES, None, consistency=Given([1.0] * 300))(z, [-1] * 300, x=z, network=torch.nn.Identity())
    assert float(loss) == 1.0


def test_views_and_terms_are_told_of_the_data():
    told = []

    class View(Augmentation):
        def prepare(self, data):
            told.append(("view", data))

    class Term(Given):
        def prepare(self, space, network, data):
            told.append((space, network, data))

    network, data = torch.nn.Identity(), ArrayData(torch.zeros(4, 3), torch.full((4, 3), NAN))
    Objective(CLASSES, None, consistency=Term([]), augment=(None, View())).prepare(network, data)
    assert told == [(CLASSES, network, data), ("view", data)]


def test_rules_are_compiled_once_for_all_batches():
    animals = SPACES["rules and soft rules"]
    z, y = torch.zeros(2, animals.width), torch.full((2, animals.width), NAN)
    objective = Objective(animals, None, consistency=FixMatch(), augment=lambda x: x)
    objective(z, y, x=z, network=torch.nn.Identity())
    given_rules = objective._given_rules
    objective(z, y, x=z, network=torch.nn.Identity())
    assert objective._given_rules is given_rules
    assert given_rules.circuit is not None
    plain = Objective(CLASSES, None, consistency=FixMatch(), augment=lambda x: x)
    plain(z[:, :3], y[:, :3], x=z, network=torch.nn.Linear(animals.width, 3))
    assert plain._given_rules.circuit is None


def test_rules_are_compiled_only_for_terms_that_ask():
    animals = SPACES["rules and soft rules"]
    z, y = torch.zeros(2, animals.width), torch.full((2, animals.width), NAN)
    for term, asks in ((VAT(), False), (FixMatch(), True)):
        objective = Objective(animals, None, consistency=term, augment=lambda x: x)
        objective(z, y, x=z, network=torch.nn.Identity())
        assert ("_given_rules" in vars(objective)) == asks


def test_terms_move_and_are_saved_with_the_objective():
    network = torch.nn.Linear(2, 3)
    x, y = torch.zeros(4, 2), torch.full((4,), -1)
    objective = Objective(CLASSES, None, consistency=[MeanTeacher(), FixMatch(align=True)], augment=lambda x: x)
    for _ in range(3):
        objective(network(x), y, x=x, network=network)
    fresh = Objective(CLASSES, None, consistency=[MeanTeacher(), FixMatch(align=True)], augment=lambda x: x)
    fresh.prepare(network, ArrayData(x, torch.full((4, 3), NAN)))
    fresh.load_state_dict(objective.state_dict())
    assert int(fresh.state_dict()["consistency.mean_teacher.teacher._extra_state"]) == 3
    assert not [p for p in objective.parameters() if p.requires_grad]


def test_the_power_of_a_prior_rises_with_the_ramp() -> None:
    """At step 0 T is 1, where the prior without rules asks for nothing; the prior itself stays as it was given."""
    space = LabelSpace("a, b\na | b")
    prior = DeterministicPrior(space, power=5.0)
    z, y = torch.tensor([[0.5, -1.0]]), torch.full((1, 2), torch.nan)
    ramp = lambda step: 0.5 + step / 20  # noqa: E731
    rising = Objective(space, prior, ramp=ramp, rising=True)
    for step, power in ((0, 3.0), (5, 4.0), (10, 5.0)):
        expected = -ramp(step) * DeterministicPrior(space, power=power)(z).item()
        assert rising(z, y, step=step).parts["prior"].item() == pytest.approx(expected)
    assert float(prior.power) == 5.0
    steady = Objective(space, prior, ramp=ramp)
    assert steady(z, y, step=0).parts["prior"].item() == pytest.approx(-0.5 * prior(z).item())


def test_a_circuit_of_another_source_answers_for_the_rules() -> None:
    """A space without rules, and a circuit that knows some: the likelihood is that of the circuit's labels."""
    free, ruled = LabelSpace("a, b, c"), LabelSpace("a, b, c\nexactly_one(a, b, c)")
    z, y = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.eye(3).repeat(2, 1)
    given = Objective(free, None, constrained=True, circuit=ruled.compile()).log_likelihood(z, y)
    torch.testing.assert_close(given, Objective(ruled, None, constrained=True).log_likelihood(z, y))
    assert not torch.allclose(given, Objective(free, None, constrained=True).log_likelihood(z, y))
