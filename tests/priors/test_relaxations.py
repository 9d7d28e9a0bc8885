"""The relaxations against enumeration, and the identities of MATH §2–4."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import oracle
from dssl.circuits.relaxation import ClauseRelaxation
from dssl.logic.space import LabelSpace
from dssl.priors import (
    DeterministicPrior,
    EntropyPrior,
    ExclusivityPrior,
    PseudoLabelPrior,
    SpikePrior,
    WeightedLabels,
)
from dssl.priors.relaxations import CountingPrior
from priors.cases import RULED, SPACES, evidence_of, logits_of, make, smoothstep

every_space = pytest.mark.parametrize("space", SPACES)


class Enumerated:
    """All valid labels of a space, with one sample's log weights of literals."""

    def __init__(self, space: LabelSpace, logits: torch.Tensor, evidence: torch.Tensor | None = None) -> None:
        self.space, self.rows = space, oracle.valid_columns(space.constraints)
        self.pos, self.neg = oracle.log_literals(space.variables, logits)
        self.soft = oracle.soft_log_weights(space.constraints)
        self.known = np.full(space.width, np.nan) if evidence is None else evidence.numpy()

    def weights(self, power: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        pos = np.where(self.known == 0, -np.inf, power * self.pos)
        neg = np.where(self.known == 1, -np.inf, power * self.neg)
        return np.concatenate([pos, self.soft[0]]), np.concatenate([neg, self.soft[1]])

    def log_wmc(self, power: float = 1.0) -> float:
        return oracle.log_wmc(self.rows, *self.weights(power))

    def entropy(self) -> float:
        return oracle.entropy(self.rows, *self.weights())

    def best(self) -> float:
        return float(oracle.best(self.rows, *self.weights(), 1)[1][0])


def enumerated(space: str, seen: bool) -> tuple[torch.Tensor, torch.Tensor | None, list[Enumerated]]:
    z = logits_of(SPACES[space], 4, seed=5)
    known = evidence_of(SPACES[space], 4, seed=6) if seen else None
    return z, known, [Enumerated(SPACES[space], z[i], None if known is None else known[i]) for i in range(4)]


@every_space
@pytest.mark.parametrize("seen", [False, True])
def test_against_enumeration(space, seen):
    z, known, rows = enumerated(space, seen)
    close = {"rtol": 1e-9, "atol": 1e-9}

    def check(prior: str, expected: list[float]) -> None:
        q = make(prior, space)
        np.testing.assert_allclose(q.log_prob(z, known).detach(), expected, **close, err_msg=prior)

    check("deterministic", [row.log_wmc(10) for row in rows])
    check("deterministic, raw", [row.log_wmc(3) for row in rows])
    check("entropy", [-row.entropy() for row in rows])
    check("entropy, semantic", [row.log_wmc() - row.entropy() for row in rows])
    check("pseudo-label", [row.best() for row in rows])
    if SPACES[space].rules:
        check("exclusivity", [row.log_wmc() for row in rows])


@every_space
def test_a_spike_of_ones_own_against_enumeration(space):
    z, _, rows = enumerated(space, False)
    found = make("spike", space).log_prob(z)
    for value, row in zip(found, rows):
        categorical = np.array([not v.binary for v in SPACES[space].variables for _ in v.columns])
        g = [smoothstep(torch.tensor(x), torch.tensor(0.0)).numpy() for x in (row.pos, row.neg)]
        g[1] = np.where(categorical, 0.0, g[1])
        weights = (np.concatenate([x, s]) for x, s in zip(g, row.soft))
        assert value.item() == pytest.approx(oracle.log_wmc(row.rows, *weights), rel=1e-9, abs=1e-9)


def test_scale_and_objective():
    space, z = SPACES["rules"], logits_of(SPACES["rules"], 5)
    log_q = DeterministicPrior(space, 4.0).log_prob(z)
    for scale, by in (("power", 4), ("none", 1)):
        torch.testing.assert_close(DeterministicPrior(space, 4.0, scale=scale)(z), log_q / by)
        q = DeterministicPrior(space, 4.0, scale=scale, objective="q")
        torch.testing.assert_close(q(z), log_q.exp() / by)
        torch.testing.assert_close(q.log_prob(z), log_q)
    for option in ({"scale": "t"}, {"objective": "p"}):
        with pytest.raises(ValueError, match="choose one of"):
            DeterministicPrior(space, **option)
    for power in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="power must be a positive number"):
            DeterministicPrior(space, power)
    for option in ({}, {"normalised": True}, {"scale": "none"}):
        with pytest.raises(ValueError, match="learn_power=True needs normalised=True and scale='none'"):
            DeterministicPrior(space, learn_power=True, **option)


def test_power_can_be_scheduled_and_learned():
    space, z = SPACES["classes"], logits_of(SPACES["classes"], 5)
    q = DeterministicPrior(space, 2.0)
    q.power = 7.0
    torch.testing.assert_close(q(z), DeterministicPrior(space, 7.0)(z))
    other = DeterministicPrior(space)
    other.load_state_dict(q.state_dict())
    assert other.power.item() == 7.0
    assert not list(q.parameters())
    learned = DeterministicPrior(space, 2.0, scale="none", normalised=True, learn_power=True)
    learned.log_prob(z).sum().backward()
    assert learned.log_power.grad != 0
    learned.power = 3.0
    assert learned.power.item() == pytest.approx(3.0)


def test_maximum_likelihood_finds_the_power_that_samples_were_drawn_with():
    space = SPACES["mix"]
    theta = DeterministicPrior(space, 6.0).sample(4000, torch.Generator().manual_seed(0)).double()
    columns = torch.tensor([v.binary for v in space.variables for _ in v.columns])
    z = torch.where(columns, theta.logit(), theta.log())
    q = DeterministicPrior(space, 1.0, scale="none", normalised=True, learn_power=True)
    optimiser = torch.optim.Adam(q.parameters(), lr=0.1)
    for _ in range(80):
        optimiser.zero_grad()
        (-q(z).mean()).backward()
        optimiser.step()
    assert q.power.item() == pytest.approx(6.0, rel=0.05)


def test_exclusivity_without_rules_says_that_binaries_give_no_signal():
    with pytest.warns(UserWarning, match="no signal for any variable"):
        q = ExclusivityPrior(SPACES["binaries"])
    z = logits_of(SPACES["binaries"], 4).requires_grad_()
    q(z).sum().backward()
    np.testing.assert_allclose(q(z).detach(), 0, atol=1e-12)
    np.testing.assert_allclose(z.grad, 0, atol=1e-12)
    with pytest.warns(UserWarning, match="2 variables that are binary") as told:
        ExclusivityPrior(SPACES["mix"])
    assert [warning.filename for warning in told] == [__file__]  # the line that made the prior, not one of ours


def test_a_spike_must_be_0_at_0_and_1_at_1():
    SpikePrior(SPACES["mix"], lambda t, rest: 3 * t - torch.logaddexp(3 * t, 3 * rest))
    with pytest.raises(ValueError, match=r"g\(0\) = 0.*has 0 and 0.5"):
        SpikePrior(SPACES["mix"], lambda t, rest: t - math.log(2))
    with pytest.raises(ValueError, match=r"has 0 and 2"):
        SpikePrior(SPACES["mix"], lambda t, rest: t + math.log(2))
    with pytest.raises(ValueError, match=r"has 0.5 and 1"):
        SpikePrior(SPACES["mix"], lambda t, rest: torch.log1p(t.exp()) - math.log(2))
    with pytest.raises(ValueError, match="nan"):
        SpikePrior(SPACES["mix"], lambda t, rest: t - rest + rest)
    with pytest.raises(TypeError, match="spike"):
        CountingPrior(SPACES["mix"])  # type: ignore[abstract]


def test_entropy_where_evidence_leaves_no_value():
    space = SPACES["classes"]
    z = logits_of(space, 2).requires_grad_()
    known = torch.full((2, space.width), math.nan)
    known[0] = 0.0
    log_q = EntropyPrior(space)(z, known)
    log_q.sum().backward()
    theta = z.detach()[1].softmax(-1)
    assert log_q[0] == 0
    torch.testing.assert_close(log_q[1].detach(), (theta * theta.log()).sum())
    assert not z.grad[0].any()
    assert z.grad[1].any()
    assert EntropyPrior(space, semantic=True)(z, known)[0] == -math.inf


# ---- MATH §2 ----


def test_the_renyi_family_has_entropy_and_pseudo_label_as_limits():
    space, z = SPACES["classes"], logits_of(SPACES["classes"], 6)
    theta = z.softmax(-1)
    for power in (0.5, 2.0, 3.0, 10.0):
        renyi = theta.pow(power).sum(-1).log() / (1 - power)
        torch.testing.assert_close(-DeterministicPrior(space, power).log_prob(z), (power - 1) * renyi)
    near_one = DeterministicPrior(space, 1 + 2**-16).log_prob(z) * 2**16
    torch.testing.assert_close(near_one, EntropyPrior(space)(z), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(DeterministicPrior(space, 2.0**12)(z), PseudoLabelPrior(space)(z), rtol=1e-3, atol=1e-3)


def test_gradient_of_the_deterministic_prior_is_t_times_that_of_the_others():
    space, power = SPACES["classes"], 10.0
    z = logits_of(SPACES["classes"], 6).requires_grad_()
    (raw,) = torch.autograd.grad(DeterministicPrior(space, power, scale="none")(z).sum(), z)
    torch.testing.assert_close(raw, (power * ((power * z).softmax(-1) - z.softmax(-1))).detach())
    (scaled,) = torch.autograd.grad(DeterministicPrior(space, power)(z).sum(), z)
    torch.testing.assert_close(scaled, raw / power)


def test_exclusivity_is_the_semantic_loss_of_exactly_one_identity_4():
    space, z = SPACES["classes"], logits_of(SPACES["classes"], 6)
    theta = z.softmax(-1).numpy()
    expected = [oracle.exclusivity(row) for row in theta]
    np.testing.assert_allclose(ExclusivityPrior(space)(z), expected, rtol=1e-12)
    names = ["a", "b", "c", "d"]
    binaries = LabelSpace.attributes(names, f"exactly_one({', '.join(names)})")
    at_theta = torch.tensor(theta).logit()
    np.testing.assert_allclose(ExclusivityPrior(binaries)(at_theta), expected, rtol=1e-9)
    on_simplex, on_binaries = DeterministicPrior(space, 3.0)(z), DeterministicPrior(binaries, 3.0)(at_theta)
    assert (on_simplex - on_binaries).abs().min() > 1e-3


@pytest.mark.parametrize("k", [2, 10, 1000])
def test_float32_exclusivity_keeps_its_digits(k):
    space = LabelSpace.classes(range(k))
    z = logits_of(space, 20, scale=3.0)
    z[:5] *= 10
    theta = z.softmax(-1)
    log_rest = torch.log1p(-theta)
    expected = (theta.log() + log_rest.sum(-1, keepdim=True) - log_rest)[5:].logsumexp(-1)
    torch.testing.assert_close(ExclusivityPrior(space)(z.float())[5:].double(), expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(
        ExclusivityPrior(space)(z.float()).double(), ExclusivityPrior(space)(z), rtol=1e-3, atol=1e-6
    )


# ---- MATH §4 ----


@pytest.mark.parametrize("space", [name for name in RULED if not SPACES[name].constraints.soft])
def test_identity_2_deterministic_prior_is_semantic_loss_and_renyi_entropy(space):
    z, _, rows = enumerated(space, False)
    for power in (2.0, 5.0):
        found = -DeterministicPrior(SPACES[space], power).log_prob(z)
        for value, row in zip(found, rows):
            p = oracle.probabilities(row.rows, *row.weights())
            renyi = math.log((p**power).sum()) / (1 - power)
            assert value.item() == pytest.approx(-power * row.log_wmc() + (power - 1) * renyi, rel=1e-9)


@pytest.mark.parametrize("space", ["rule", "rules"])
def test_identity_3_gradient(space):
    power = 3.0
    z = logits_of(SPACES[space], 4).requires_grad_()
    (gradient,) = torch.autograd.grad(DeterministicPrior(SPACES[space], power, scale="none")(z).sum(), z)
    for i in range(4):
        row = Enumerated(SPACES[space], z[i].detach())
        expected = power * (oracle.marginals(row.rows, *row.weights(power)) - np.exp(row.pos))
        np.testing.assert_allclose(gradient[i], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("space", ["classes", "several categoricals", "binaries", "mix"])
def test_identity_5_everything_valid_at_power_1_gives_nothing(space):
    tautology = SPACES[space].where(_tautology(SPACES[space]))
    for q in (DeterministicPrior(SPACES[space], 1.0), DeterministicPrior(tautology, 1.0), ExclusivityPrior(tautology)):
        z = logits_of(SPACES[space], 5).requires_grad_()
        log_q = q(z)
        log_q.sum().backward()
        np.testing.assert_allclose(log_q.detach(), 0, atol=1e-12)
        np.testing.assert_allclose(z.grad, 0, atol=1e-12)


def _tautology(space: LabelSpace) -> str:
    variable = space.variables[0]
    atom = variable.name if variable.binary else f"{variable.name} = {variable.values[0]}"
    return f"{atom} | !({atom})"


def test_identity_5_a_rule_and_its_negation_share_the_probability_and_rules_never_add():
    names, z = ["a", "b", "c"], logits_of(LabelSpace.attributes(["a", "b", "c"]), 5)
    rule = "(a -> b) & (b ^ c)"
    q = [ExclusivityPrior(LabelSpace.attributes(names, r))(z).exp() for r in (rule, f"!({rule})", "a -> b")]
    torch.testing.assert_close(q[0] + q[1], torch.ones(5, dtype=torch.float64))
    assert (q[0] <= q[2]).all()


def test_identity_8_no_underflow():
    space = LabelSpace.attributes([f"x{i}" for i in range(40)])
    assert DeterministicPrior(space, 10.0).log_prob(torch.zeros(40)).item() == pytest.approx(40 * math.log(2 * 0.5**10))
    assert SpikePrior(space, lambda t, rest: 10 * t)(torch.zeros(40)).item() == pytest.approx(-249.53, abs=0.01)


# ---- where gradient ascent on log q alone ends ----

PAPER = LabelSpace.attributes(["legs", "fins", "wings"], "legs -> !fins")


def ascend(prior: torch.nn.Module, rows: int = 100, steps: int = 400) -> torch.Tensor:
    z = logits_of(prior.space, rows, seed=11, scale=1.0).requires_grad_()
    optimiser = torch.optim.Adam([z], lr=0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        (-prior(z).sum()).backward()
        optimiser.step()
    theta = [v.softmax(-1) for v in prior.blocks.logits(z.detach())]
    return prior.blocks.literals(theta)[0]  # (rows, width)


def at_vertices(theta: torch.Tensor) -> torch.Tensor:
    return ((theta < 0.02) | (theta > 0.98)).all(-1)


def valid(space: LabelSpace, theta: torch.Tensor) -> torch.Tensor:
    rows = {tuple(row) for row in oracle.valid_columns(space.constraints)[:, : space.width].tolist()}
    return torch.tensor([tuple(row) in rows for row in (theta > 0.5).tolist()])


@pytest.mark.parametrize("prior", [EntropyPrior, ExclusivityPrior, PseudoLabelPrior, DeterministicPrior])
def test_ascent_on_three_classes_ends_at_vertices(prior):
    theta = ascend(prior(LabelSpace.classes("abc")))
    assert at_vertices(theta).all()
    assert len((theta > 0.5).unique(dim=0)) == 3


@pytest.mark.parametrize(
    "prior",
    [PseudoLabelPrior, DeterministicPrior, lambda space: EntropyPrior(space, semantic=True)],
    ids=["pseudo-label", "deterministic", "entropy, semantic"],
)
def test_ascent_with_rules_ends_at_valid_vertices_only(prior):
    theta = ascend(prior(PAPER))
    assert at_vertices(theta).all()
    assert valid(PAPER, theta).all()
    assert len((theta > 0.5).unique(dim=0)) == 6


def test_ascent_that_does_not_end_at_valid_vertices():
    """The twin: the semantic loss is flat between adjacent labels, and entropy given V knows no others."""
    assert not at_vertices(ascend(ExclusivityPrior(PAPER))).all()
    assert not at_vertices(ascend(EntropyPrior(PAPER))).all()


# ---- other circuits ----


def test_clause_relaxation_serves_the_priors_that_only_count():
    space = SPACES["rules and soft rules"]
    relaxed = ClauseRelaxation(space)
    z = logits_of(space, 4).requires_grad_()
    for prior in (ExclusivityPrior, DeterministicPrior):
        log_q = prior(space, circuit=relaxed)(z)
        log_q.sum().backward()
        assert log_q.isfinite().all()
    with pytest.raises(RuntimeError, match=r"space.compile\(\)"):
        PseudoLabelPrior(space, circuit=relaxed)(z)
    with pytest.raises(ValueError, match="needs an exact circuit"):
        DeterministicPrior(space, normalised=True, circuit=relaxed)


def test_weighted_labels_stand_in_for_a_circuit():
    space = SPACES["rule"]
    labels = oracle.valid_columns(space.constraints)[:, : space.width]
    z = logits_of(space, 4)
    for prior in (EntropyPrior, ExclusivityPrior, PseudoLabelPrior, DeterministicPrior):
        found = prior(space, circuit=WeightedLabels(space, labels))(z)
        torch.testing.assert_close(found, prior(space)(z))


def test_weighted_labels_are_the_only_ones_counted_as_circuit_or_as_weights():
    space = SPACES["rule"]
    labels = oracle.valid_columns(space.constraints)[:2, : space.width]
    z = logits_of(space, 4)
    table = WeightedLabels(space, labels, [0.3, 0.7])
    log_theta = [np.where(labels, *oracle.log_literals(space.variables, row)).sum(-1) for row in z]
    expected = [np.logaddexp.reduce(np.log([0.3, 0.7]) + 5 * row) for row in log_theta]
    for given in ({"circuit": table}, {"weights": table}):
        np.testing.assert_allclose(DeterministicPrior(space, 5.0, **given).log_prob(z), expected, rtol=1e-6)
        assert DeterministicPrior(space, 5.0, **given).log_weights is None


def test_a_prior_at_another_power_shares_the_rest() -> None:
    space = LabelSpace("a, b\na | b")
    prior = DeterministicPrior(space, power=10.0, weights=[0.2, 0.7])
    z = torch.tensor([[0.3, -0.8]])
    assert torch.equal(prior.at(3.0)(z), DeterministicPrior(space, power=3.0, weights=[0.2, 0.7])(z))
    assert float(prior.power) == 10.0
    with pytest.raises(ValueError, match="learns its power"):
        DeterministicPrior(space, normalised=True, scale="none", learn_power=True).at(2.0)
