"""Eq. DSSL: likelihood of what is observed, priors by rows, ramps, alignment, collapse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import oracle
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors import DeterministicPrior, EntropyPrior
from dssl.training.augmentation import Augmentation
from dssl.training.consistency import VAT, Consistency, Look, MeanTeacher
from dssl.training.data import ArrayData
from dssl.training.matching import FixMatch
from dssl.training.objective import Alignment, Objective, as_columns, collapse, linear_ramp, sigmoid_ramp
from priors.cases import SPACES, evidence_of, logits_of

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
    expected = -(0.5 * prior(z, y)[~complete].sum() + 0.25 * prior(z)[complete].sum()) / 9
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


# ---- forms of labels ----


def test_labels_as_classes_indices_and_columns():
    z = torch.zeros(3, 3)
    columns = torch.tensor([[1.0, 0.0, 0.0], [NAN] * 3, [0.0, 0.0, 1.0]])
    for y in ([0, -1, 2], np.array([0, -1, 2]), torch.tensor([0.0, NAN, 2.0]), [[0], [-1], [2]], columns):
        torch.testing.assert_close(as_columns(CLASSES, y, z), columns, equal_nan=True)
    space = SPACES["mix"]
    records = [{"legs": 1, "a": "z", "fins": None, "b": "u", "c": None}]
    encoded = torch.from_numpy(space.encode(records))
    found = as_columns(space, [[1, 2, -1, 0, -1]], torch.zeros(1, space.width))
    torch.testing.assert_close(found, encoded, equal_nan=True)
    sequences = torch.tensor([[0, -1], [2, 1], [1, 1]])  # of two rows each
    found = as_columns(CLASSES, sequences, torch.zeros(3, 2, 3))
    torch.testing.assert_close(found[:, 0], as_columns(CLASSES, sequences[:, 0], z), equal_nan=True)
    torch.testing.assert_close(found[:, 1], as_columns(CLASSES, sequences[:, 1], z), equal_nan=True)
    found = as_columns(space, [[[1, 2, -1, 0, -1]] * 2] * 3, torch.zeros(3, 2, space.width))
    torch.testing.assert_close(found, encoded.expand(3, 2, -1), equal_nan=True)
    for y, message in (([0, 1], "do not fit"), ([0, 3, 4], "3 values, and an index is 3"), ([0, 1, -2], "index is -2")):
        with pytest.raises(DataError, match=message):
            as_columns(CLASSES, y, z)


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


def test_state_dict_keeps_the_prior_and_the_alignment():
    prior = DeterministicPrior(CLASSES, 3.0)
    objective = Objective(CLASSES, prior, align=Alignment(CLASSES, [0.2, 0.3, 0.5], momentum=0.5))
    objective(logits_of(CLASSES, 4), torch.full((4,), -1))
    other = Objective(CLASSES, DeterministicPrior(CLASSES), align=Alignment(CLASSES, [1, 1, 1]))
    other.load_state_dict(objective.state_dict())
    assert other.prior.power.item() == 3.0
    torch.testing.assert_close(other.align.mean, objective.align.mean)
    assert not torch.allclose(objective.align.mean, objective.align.target)


# ---- against collapse ----


@pytest.mark.parametrize("space", ["classes", "binaries", "mix"])
def test_alignment_multiplies_by_target_over_running_mean(space):
    s = SPACES[space]
    target = torch.linspace(0.2, 0.8, s.width)
    align = Alignment(s, target, momentum=0.0)
    z = logits_of(s, 50).float()
    torch.testing.assert_close(align.eval()(z), z, rtol=1e-5, atol=1e-5)  # the running mean starts at the target
    align.train()(z)  # with momentum 0 the mean is now that of the batch
    moved = align.eval()(z)
    for variable, (start, stop) in zip(s.variables, s.spans):
        if variable.binary:
            theta, aligned = z[:, start].sigmoid(), moved[:, start].sigmoid()
            odds = theta / (1 - theta) * target[start] / (1 - target[start]) / (theta.mean() / (1 - theta.mean()))
            torch.testing.assert_close(aligned / (1 - aligned), odds, rtol=1e-3, atol=1e-4)
        else:
            theta = z[:, start:stop].softmax(-1)
            expected = theta * target[start:stop] / target[start:stop].sum() / theta.mean(0)
            expected = expected / expected.sum(-1, keepdim=True)
            torch.testing.assert_close(moved[:, start:stop].softmax(-1), expected, rtol=1e-4, atol=1e-5)


def test_alignment_keeps_predictions_from_collapsing():
    start = logits_of(CLASSES, 90, scale=0.5).float() + torch.tensor([1.0, 0.0, 0.0])
    y = torch.full((90,), -1)
    labels = torch.eye(3)
    share = {}
    for name, align in (("plain", None), ("aligned", Alignment(CLASSES, [1, 1, 1], momentum=0.5))):
        z = start.clone().requires_grad_()
        objective = Objective(CLASSES, DeterministicPrior(CLASSES), prior_weight=90, align=align)
        optimiser = torch.optim.SGD([z], lr=0.2)
        for _ in range(200):
            optimiser.zero_grad()
            objective(z, y).backward()
            optimiser.step()
        share[name] = collapse(CLASSES, z, labels).share
    assert share["plain"] < 0.7
    assert share["aligned"] > 0.8


@pytest.mark.parametrize("options", [{}, {"momentum": 0.4}])
def test_the_running_mean_and_the_target_move_by_what_momentum_leaves(options):
    space = SPACES["mix"]
    given, kept = torch.linspace(0.2, 0.8, space.width), options.get("momentum", 0.99)
    align = Alignment(space, given, **options)
    start, z = align.target.clone(), logits_of(space, 6).float()
    y = torch.from_numpy(space.encode([{"legs": 1, "a": "x", "fins": 0, "b": "v", "c": "r"}] * 2)).float()
    theta = torch.cat([v.softmax(-1).flatten(-2) for v in align.blocks.logits(z)], -1).mean(0)
    seen = torch.cat([a.flatten(-2) for a in align.blocks.allowed(y)], -1)[0].float()
    assert seen.sum() == len(space.variables)
    align.move(z)
    torch.testing.assert_close(align.mean, kept * start + (1 - kept) * theta)
    assert torch.equal(align.target, start)
    align.move_target(y)
    torch.testing.assert_close(align.target, kept * start + (1 - kept) * seen)
    before = align.mean.clone()
    for nothing in (z[:0], y[:0]):
        align.move(nothing)
        align.move_target(nothing)
    assert torch.equal(align.mean, before)
    assert align.target.isfinite().all()


def test_collapse_by_variable():
    space = SPACES["mix"]
    labels = torch.from_numpy(space.encode([{"legs": i % 2, "a": "xyz"[i % 3], "b": "u"} for i in range(6)]))
    found = collapse(space, torch.zeros(4, space.width), labels)
    expected = [math.log(len(v.values)) for v in space.variables]
    np.testing.assert_allclose(found.predicted, expected, rtol=1e-6)
    np.testing.assert_allclose(found.labelled, [math.log(2), math.log(3), 0, 0, 0], atol=1e-6)


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
    with pytest.raises(ValueError, match=r"'given' gave a loss of shape \(3,\)\nGive one a row: \(2,\)"):
        Objective(CLASSES, None, consistency=wrong)(z, y, x=z, network=torch.nn.Identity())
    with pytest.raises(ValueError, match="'vat' is no consistency term"):
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
    objective = Objective(animals, None, consistency=FixMatch())
    objective(z, y, x=z, network=torch.nn.Identity())
    guide = objective._guide
    objective(z, y, x=z, network=torch.nn.Identity())
    assert objective._guide is guide is not None
    constrained = Objective(animals, None, consistency=FixMatch(), constrained=True)
    constrained(z, y, x=z, network=torch.nn.Identity())
    assert constrained._guide is constrained.circuit
    plain = Objective(CLASSES, None, consistency=FixMatch())
    plain(z[:, :3], y[:, :3], x=z, network=torch.nn.Linear(animals.width, 3))
    assert plain._guide is None


def test_rules_are_compiled_only_for_terms_that_ask():
    animals = SPACES["rules and soft rules"]
    z, y = torch.zeros(2, animals.width), torch.full((2, animals.width), NAN)
    for term, asks in ((VAT(), False), (FixMatch(), True)):
        objective = Objective(animals, None, consistency=term)
        objective(z, y, x=z, network=torch.nn.Identity())
        assert (objective._guide is not None) == asks


def test_terms_move_and_are_saved_with_the_objective():
    network = torch.nn.Linear(2, 3)
    x, y = torch.zeros(4, 2), torch.full((4,), -1)
    objective = Objective(CLASSES, None, consistency=[MeanTeacher(), FixMatch(align=True)])
    for _ in range(3):
        objective(network(x), y, x=x, network=network)
    fresh = Objective(CLASSES, None, consistency=[MeanTeacher(), FixMatch(align=True)])
    fresh.prepare(network, ArrayData(x, torch.full((4, 3), NAN)))
    fresh.load_state_dict(objective.state_dict())
    assert int(fresh.state_dict()["consistency.mean_teacher.teacher.updates"]) == 3
    assert not [p for p in objective.parameters() if p.requires_grad]
