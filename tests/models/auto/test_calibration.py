"""Calibration: the scale is found, carried over, saved; predictions stay valid and never fall behind the constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dssl import DSSLClassifier, LabelSpace, load, save
from dssl.models.auto.calibration import (
    Calibrated,
    Fold,
    Outputs,
    calibrate,
    calibration_rows,
    fold_steps,
    joined,
    parts,
    uncalibrated,
)
from dssl.models.fitting.lessons import Lesson
from dssl.priors.predictive import Family, Predictive

SPACE = LabelSpace.classes(["cat", "dog", "trout"])


def drawn(rows: int, sharper: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, `sharper` times as large as those that labels were drawn from, and the labels."""
    random = torch.Generator().manual_seed(seed)
    z = 1.5 * torch.randn(rows, SPACE.width, generator=random)
    return sharper * z, Predictive(z, SPACE).sample(1, random)[0].float()


@pytest.mark.parametrize("sharper", [0.5, 1.0, 4.0])
def test_the_scale_undoes_what_made_predictions_too_sure(sharper: float) -> None:
    z, y = drawn(2000, sharper)
    found = calibrate(Family.of(SPACE), torch.zeros(3), [Fold(z, y, torch.ones(len(z)), z[:0])], Outputs(z[:0]))
    assert found.network == pytest.approx(1 / sharper, rel=0.2)
    assert found.after <= found.before
    assert found.sure == 1


def test_the_scale_is_carried_over_by_how_sure_networks_are_elsewhere() -> None:
    """The network that saw all labels is twice as sure as those of the folds: it gets half their scale."""
    z, y = drawn(2000, 4.0)
    elsewhere = drawn(500, 4.0, seed=1)[0]
    fold = Fold(z, y, torch.ones(len(z)), elsewhere)
    alone = calibrate(Family.of(SPACE), torch.zeros(3), [fold], Outputs(z[:0]))
    found = calibrate(Family.of(SPACE), torch.zeros(3), [fold], Outputs(2 * elsewhere))
    assert found.network == pytest.approx(alone.network / 2, rel=0.15)


def test_the_share_of_a_ridge_model_is_what_left_out_labels_say() -> None:
    """A network that says nothing beside a ridge model that knows, and the other way round."""
    z, y = drawn(500, 1.0)
    noise = torch.randn(z.shape, generator=torch.Generator().manual_seed(3))
    for network, ridge, least, most in ((noise, z, 0.7, 1.0), (z, noise, 0.0, 0.3)):
        fold = Fold(network, y, torch.ones(500), network[:0], ridge)
        found = calibrate(Family.of(SPACE), torch.zeros(3), [fold], Outputs(network[:0], ridge[:0]))
        assert least <= found.share <= most
        assert found.after < found.before or found.share == 0


def test_left_out_labels_count_by_their_weight() -> None:
    """Labels of weight w are w labels; wrong ones of weight 1e-9 are none."""
    z, y = drawn(60, 4.0)
    times = torch.randint(1, 4, (60,), generator=torch.Generator().manual_seed(1))

    def found(*rows: torch.Tensor) -> Any:
        return calibrate(Family.of(SPACE), torch.zeros(3), [Fold(*rows, z[:0])], Outputs(z[:0]))

    repeated = found(z.repeat_interleave(times, 0), y.repeat_interleave(times, 0), torch.ones(int(times.sum())))
    weighted = found(z, y, times.float())
    light = found(torch.cat([z, z]), torch.cat([y, y.roll(1, 1)]), torch.cat([times.float(), torch.full((60,), 1e-9)]))
    for one in (weighted, light):
        assert (one.network, one.rows) == pytest.approx((repeated.network, repeated.rows), rel=1e-6)
        assert (one.before, one.after) == pytest.approx((repeated.before, repeated.after), rel=1e-5)
    wrong = found(torch.cat([z, z]), torch.cat([y, y.roll(1, 1)]), torch.ones(120))
    assert wrong.network < 0.7 * repeated.network


def test_where_rows_tell_nothing_label_frequencies_are_left() -> None:
    z, _ = drawn(60, 3.0)
    y = torch.eye(3)[torch.multinomial(torch.tensor([0.6, 0.2, 0.2]), 60, replacement=True)]
    base = torch.tensor([0.8, -0.4, -0.4])
    found = calibrate(Family.of(SPACE), base, [Fold(z, y, torch.ones(60), z[:0])], Outputs(z[:0]))
    assert found.sure == 0
    assert found.said()[0] == "label frequencies"
    p = Predictive(Calibrated(base, found.network).eval()(z), SPACE).marginals
    assert (p.argmax(1) == 0).all()


def test_a_temperature_never_changes_the_most_probable_label_given_rules() -> None:
    space = LabelSpace("kind: 0..3\na, b, c\nkind = 0 -> a & !b\nexactly_one(a, b, c)\n0.9 :: a -> kind = 0")
    hard = LabelSpace("kind: 0..3\na, b, c\nkind = 0 -> a & !b\nexactly_one(a, b, c)")
    z = torch.randn(200, space.width, generator=torch.Generator().manual_seed(0))
    cool = Calibrated(torch.zeros(space.width), 0.3).eval()(z)
    assert torch.equal(Predictive(z, hard).best()[0], Predictive(cool, hard).best()[0])


def test_it_is_the_identity_in_training_and_is_taken_off_to_go_on() -> None:
    core, layer = nn.Linear(2, 3), Calibrated(torch.ones(3), 0.5)
    network = joined(core, layer)
    assert parts(network) == [core, layer]
    x = torch.randn(4, 2)
    assert torch.equal(network.train()(x), core(x))
    assert not torch.equal(network.eval()(x), core(x))
    assert uncalibrated(network) is core
    assert joined(core) is core


def lesson(labels: int, classes: int = 3) -> Lesson:
    y = np.full((100, classes), np.nan)
    y[:labels] = np.eye(classes)[np.arange(labels) % classes]
    return Lesson(LabelSpace.classes(range(classes)), np.zeros((100, 2)), y, np.ones(100), np.arange(0))


def test_few_labels_say_too_little() -> None:
    assert calibration_rows("auto", lesson(19)) is None
    assert len(calibration_rows("auto", lesson(20))) == 20
    assert calibration_rows("auto", lesson(20, classes=10)) is None  # two of each class
    assert len(calibration_rows(True, lesson(10))) == 10
    assert calibration_rows(False, lesson(50)) is None


def test_soft_rules_and_wide_labels_are_left_as_they_are_unless_asked() -> None:
    y = np.zeros((40, 60))
    for space in (LabelSpace.attributes([f"a{i}" for i in range(60)]), LabelSpace("a, b\n0.9 :: a -> b")):
        some = Lesson(space, np.zeros((40, 2)), y[:, : space.width], np.ones(40), np.arange(0))
        assert calibration_rows("auto", some) is None
        assert len(calibration_rows(True, some)) == 40


def test_all_folds_together_take_about_as_long_as_the_network() -> None:
    assert [fold_steps(steps) for steps in (60, 400, 4000)] == [60, 100, 1000]


# ---- through the estimator ----


def clouds(seed: int, n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two classes that overlap: 76 % can be told. 120 labels in thirty features invite overconfidence."""
    random = np.random.default_rng(seed)
    y = random.integers(2, size=n)
    x = random.normal(size=(n, 30))
    x[:, 0] += 1.4 * (y - 0.5)
    return x, np.where(np.arange(n) < 120, y, -1), y


def gap(model: DSSLClassifier, x: np.ndarray, y: np.ndarray) -> float:
    p = model.predict_proba(x)
    return float(p.max(axis=1).mean() - (p.argmax(axis=1) == y).mean())


def test_overconfidence_is_mended_and_the_plan_says_so(tmp_path: Path) -> None:
    x, y, _ = clouds(0)
    x_test, _, truth = clouds(1, 1000)
    plain: dict[str, Any] = {"prior": None, "consistency": None, "random_state": 0}
    sure, calm = (DSSLClassifier(calibrate=how, **plain).fit(x, y) for how in (False, "auto"))
    assert gap(sure, x_test, truth) > 0.15
    assert abs(gap(calm, x_test, truth)) < gap(sure, x_test, truth) / 2
    assert "calibration" in str(calm.plan_)
    assert "calibration" not in str(sure.plan_)
    again = load(save(calm, tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(x_test), calm.predict_proba(x_test))
    twin = DSSLClassifier(**plain).fit(x, y)
    np.testing.assert_array_equal(twin.predict_proba(x_test), calm.predict_proba(x_test))


def test_a_model_that_cannot_learn_is_the_constant_one() -> None:
    """Chance alone passes a standard error once in six draws, and here it does in the first."""
    assert sum(_is_constant(seed) for seed in range(4)) >= 3


def _is_constant(seed: int) -> bool:
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(300, 20)), random.choice(3, 300, p=[0.6, 0.2, 0.2])
    model = DSSLClassifier(random_state=0).fit(x, np.where(np.arange(300) < 60, y, -1))
    return bool((model.predict(random.normal(size=(200, 20))) == 0).all())


def test_predictions_that_are_hardly_ahead_are_drawn_to_label_frequencies() -> None:
    """The less sure their lead, the closer; in proportion to it."""
    z, y = drawn(400, 1.0)
    base = torch.tensor([0.8, -0.4, -0.4])
    noise = 4 * torch.randn(z.shape, generator=torch.Generator().manual_seed(5))
    found = {}
    for rows in (20, 400):
        fold = Fold(z[:rows] + noise[:rows], y[:rows], torch.ones(rows), z[:0])
        found[rows] = calibrate(Family.of(SPACE), base, [fold], Outputs(z[:0]))
    assert 0 <= found[20].sure < 1 == found[400].sure
    assert ("drawn to the label frequencies" in found[20].said()[1]) == (found[20].sure > 0)
