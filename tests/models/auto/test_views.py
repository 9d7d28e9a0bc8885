"""Labels say which changes of images they withstand."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from dssl import DSSLClassifier, LabelSpace
from dssl.models.auto.plan import make_plan
from dssl.models.auto.views import Seen, judge_views
from dssl.training.terms.augmentation import Flip, Shift, Views

Task = tuple[LabelSpace, NDArray[Any], NDArray[Any]]


def columns(kind: NDArray[np.int64]) -> tuple[LabelSpace, NDArray[np.float32]]:
    return LabelSpace.classes([str(k) for k in range(kind.max() + 1)]), np.eye(kind.max() + 1, dtype=np.float32)[kind]


@cache
def places(n: int = 160) -> Task:
    """A bright column anywhere in an image of noise; which of eight it is, is the label."""
    random = np.random.default_rng(0)
    at = np.arange(n) % 8
    x = 0.2 * random.normal(size=(n, 1, 8, 8))
    x[np.arange(n), 0, :, at] += 1
    space, y = columns(at)
    return space, x.astype(np.float32), y


@cache
def bars(n: int = 60) -> Task:
    """A short bar anywhere, upright or lying: wherever it is, and mirrored too, it is what it was."""
    random = np.random.default_rng(1)
    x, kind = 0.3 * random.normal(size=(n, 1, 10, 10)), np.arange(n) % 2
    for row, (a, b) in enumerate(random.integers(7, size=(n, 2))):
        x[row, 0, *((slice(a, a + 4), b) if kind[row] else (a, slice(b, b + 4)))] += 1
    space, y = columns(kind)
    return space, x.astype(np.float32), y


@cache
def judged(task: Any) -> Seen | None:
    space, x, y = task()
    return judge_views(space, x, y, np.ones(len(x)))


def test_a_change_that_keeps_labels_is_taken() -> None:
    seen = judged(bars)
    assert seen is not None
    assert "shifted" in seen.taken
    assert seen.errors["shifted"] < seen.plain
    assert seen.views.changes("weak")
    assert seen.views.changes("strong")


def test_a_change_that_changes_labels_is_refused() -> None:
    seen = judged(places)
    assert seen is not None
    assert not {"shifted", "mirrored", "turned and resized"} & set(seen.taken)
    assert seen.errors["shifted"] > seen.plain
    assert not seen.views.changes("weak")


def test_the_plan_has_every_change_and_its_figure() -> None:
    seen = judged(bars)
    assert seen is not None
    value, reason = seen.said()
    assert value.split(", ") == list(seen.taken)
    for name in ("shifted", "mirrored", "turned and resized", "lit otherwise", "cut out"):
        assert f"{name} {seen.errors[name]:.2f}" in reason
    assert f"60 left-out labels {seen.plain:.2f}" in reason


@pytest.mark.parametrize(
    ("rows", "size", "kinds"), [(19, 8, 2), (40, 3, 2), (40, 8, 1)], ids=["few labels", "tiny", "one class"]
)
def test_nothing_is_said_where_nothing_can_be(rows: int, size: int, kinds: int) -> None:
    space, y = LabelSpace.classes(["a", "b"]), np.eye(2, dtype=np.float32)[np.arange(rows) % kinds]
    x = np.random.default_rng(0).normal(size=(rows, 1, size, size)).astype(np.float32)
    assert judge_views(space, x, y, np.ones(rows)) is None


def test_rows_of_no_weight_say_nothing() -> None:
    space, x, y = bars()
    weight = np.where(np.arange(len(x)) < 15, 1.0, 1e-9)
    assert judge_views(space, x, y, weight) is None


def test_judging_leaves_random_numbers_alone() -> None:
    space, x, y = (part if isinstance(part, LabelSpace) else part[:24] for part in bars())
    torch.manual_seed(3)
    before = torch.get_rng_state()
    judge_views(space, x, y, np.ones(24))
    assert torch.equal(torch.get_rng_state(), before)


# ---- in a plan ----


def plan_of(task: Task, shown: int, **options: Any) -> Any:
    space, x, y = task
    known = np.where(np.arange(len(y))[:, None] < shown, y, np.nan)
    return make_plan(space, x, known, **options)


def test_guesses_are_matched_where_views_are_taken() -> None:
    space, x, y = bars()
    task = space, np.concatenate([x, x]), np.concatenate([y, y])
    plan = plan_of(task, 60, augment="auto", asked="it was asked for")
    assert plan.matching
    assert not plan.neighbours
    assert {"views", "matching"} <= {decision.what for decision in plan.decisions}


def test_labels_alone_are_learned_under_every_change_that_is_taken() -> None:
    plan = plan_of(bars(), 60, augment="auto")
    seen = judged(bars)
    assert seen is not None
    assert not plan.matching
    assert {type(view).__name__ for view in plan.views._weak.modules()} == {
        type(view).__name__ for view in seen.views._strong.modules()
    }


@pytest.mark.parametrize("augment", [None, Shift(), (Flip(), None), Views()])
def test_what_is_asked_for_is_kept_and_not_judged(augment: Any) -> None:
    plan = plan_of(bars(), 60, augment=augment)
    assert "views" not in {decision.what for decision in plan.decisions}
    assert plan.views.changes("weak") == (augment is not None and not isinstance(augment, Views))


def test_tables_have_no_views() -> None:
    space, x, y = bars()
    plan = plan_of((space, x.reshape(len(x), -1), y), 60, augment="auto")
    assert not plan.views.changes("weak")
    assert "views" not in {decision.what for decision in plan.decisions}


def test_an_estimator_says_what_it_saw() -> None:
    x, y = load_digits(return_X_y=True)
    images, shown = x[:120].reshape(-1, 1, 8, 8).astype(np.float32), np.where(np.arange(120) < 30, y[:120], -1)
    model = DSSLClassifier(augment="auto", steps=20, calibrate=False, random_state=0).fit(images, shown)
    assert "left-out labels" in next(d.reason for d in model.plan_.decisions if d.what == "views")
    twin = DSSLClassifier(augment="auto", steps=20, calibrate=False, random_state=0).fit(images, shown)
    np.testing.assert_array_equal(twin.predict_proba(images), model.predict_proba(images))
    assert DSSLClassifier(steps=20, random_state=0).fit(images, shown).plan_.views.changes("weak") is False
