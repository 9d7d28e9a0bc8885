"""Ridge models answer as the regressions they come from, leave out what they must, and are saved with the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from dssl import DSSLClassifier, LabelSpace, load, save
from dssl.models.auto import judging
from dssl.models.auto.beside import Beside, Blended
from dssl.models.auto.ground import Ground, Way, similarities
from dssl.models.auto.judging import Judged, judge
from dssl.models.auto.ridge import KINDS, RidgeModel, similarity

SPACE = LabelSpace("kind: 0..2\nbig, red\nkind = 0 -> big")


def rows(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows in three groups, labels that depend on them, a third of them unknown."""
    random = np.random.default_rng(seed)
    kind = random.integers(3, size=n)
    x = random.normal(size=(n, 5)) + 2 * np.eye(5)[kind]
    big = (kind == 0) | (x[:, 3] > 0)
    y = np.column_stack([np.eye(3)[kind], big, x[:, 4] > 0]).astype(float)
    y[2 * n // 3 :] = np.nan
    return x, y


@pytest.mark.parametrize("kind", KINDS)
def test_similarities_are_those_of_double_precision(kind: str) -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(size=(7, 3)), random.normal(size=(4, 3))
    slow = np.array([[_by_hand(kind, p, q, 2.5) for q in b] for p in a])
    np.testing.assert_allclose(similarities(kind, a, b, 2.5), slow, rtol=1e-12)
    found = similarity(kind, *(torch.from_numpy(rows).float() for rows in (a, b)), torch.tensor(2.5))
    np.testing.assert_allclose(found.numpy(), slow, rtol=1e-4, atol=1e-6)


def _by_hand(kind: str, p: np.ndarray, q: np.ndarray, scale: float) -> float:
    apart = float(((p - q) ** 2).sum()) / scale
    return {
        "linear": float(p @ q) / scale,
        "wide": np.exp(-apart),
        "narrow": np.exp(-4 * apart),
        "laplace": np.exp(-(apart**0.5)),
    }[kind]


def test_rows_of_a_fold_are_predicted_by_the_others_alone() -> None:
    """The closed form against ridge regression solved anew without each fold."""
    random = np.random.default_rng(1)
    x, target = random.normal(size=(30, 4)), random.normal(size=(30, 2))
    way = Way(x @ x.T, 0.7, lambda weights, x: weights)
    fold = random.integers(3, size=30)
    found = judging._left_out_in_folds(way, target, fold)
    for k in range(3):
        kept, out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        weights = np.linalg.solve((x @ x.T)[np.ix_(kept, kept)] + 0.7 * np.eye(len(kept)), target[kept])
        np.testing.assert_allclose(found[out], (x @ x.T)[np.ix_(out, kept)] @ weights, rtol=1e-8)


def judged_by_ridge(x: np.ndarray, y: np.ndarray) -> tuple[Judged, Beside]:
    """Trees are not grown on sparse rows."""
    judged = judge(SPACE, csr_array(x), y, Ground.of(x, y))
    assert judged is not None
    assert judged.beside is not None
    return judged, judged.beside(0)


def test_a_machine_of_the_judge_says_what_its_regression_says() -> None:
    x, y = rows()
    judged, ridge = judged_by_ridge(x, y)
    assert ridge.name == "a ridge model"
    z = ridge.machine(torch.from_numpy(x).float())
    right = z[:40, :3].argmax(1).numpy() == y[:40, :3].argmax(1)
    assert right.mean() > 0.8
    alone = ridge.left_out(np.arange(len(judged.rows)))  # each row a fold of its own
    assert alone.shape == (40, SPACE.width)
    assert (alone[:, :3].argmax(1).numpy() == y[judged.rows, :3].argmax(1)).mean() > 0.6
    assert not torch.allclose(alone, z[torch.from_numpy(judged.rows)], atol=1e-3)


def test_answers_are_finite_far_outside() -> None:
    x, y = rows()
    machine = judged_by_ridge(x, y)[1].machine
    assert isinstance(machine, RidgeModel)
    assert machine(torch.full((2, 5), 1e4)).isfinite().all()
    assert machine.logits(torch.tensor([[-1e4] * 5, [1e4] * 5])).isfinite().all()


def test_an_unknown_similarity_is_refused() -> None:
    with pytest.raises(ValueError, match="no similarity 'cubic'"):
        RidgeModel(SPACE, "cubic", 3, 2)


@pytest.fixture(scope="module")
def fitted() -> tuple[DSSLClassifier, Any]:
    x, y = rows(90)
    return DSSLClassifier(SPACE, steps=100, random_state=0).fit(x, y), x


def test_a_ridge_model_that_helps_is_planned_saved_and_taken_off_to_go_on(fitted: Any, tmp_path: Path) -> None:
    model, x = fitted
    assert "of a ridge model" in str(model.plan_)
    assert isinstance(model.network_, Blended)
    again = load(save(model, tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    assert not SPACE.check(model.predict(x))
    plain = DSSLClassifier(SPACE, network="mlp", steps=100, random_state=0).fit(*rows(90))
    assert "of a ridge model" not in str(plain.plan_)  # a network that was asked for answers alone


def test_labels_alone_have_no_ridge_model() -> None:
    x, y = rows(90)
    model = DSSLClassifier(SPACE, prior=None, consistency=None, steps=50, random_state=0).fit(x, y)
    assert not isinstance(model.network_, Blended)
