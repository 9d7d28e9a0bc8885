"""When unlabelled rows are used: few labels, much to gain, many of them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dssl.logic.space import LabelSpace
from dssl.training.safeguard import Verdict, _left_out, judge

CLASSES = LabelSpace.classes(["a", "b"])


def rows(n: int, labelled: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes along a line, labels of a share `noise` of them exchanged."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    x = np.stack([np.where(y == 1, 2.0, -2.0), np.zeros(n)], 1) + 0.1 * random.normal(size=(n, 2))
    shown = np.where(random.random(n) < noise, 1 - y, y)
    columns = np.full((n, 2), np.nan)
    columns[:labelled] = np.eye(2)[shown[:labelled]]
    return x, columns


def test_few_labels_of_many_rows_are_helped() -> None:
    assert judge(CLASSES, *rows(100, 6, 0.0)).helps


def test_few_unlabelled_rows_are_left_out() -> None:
    found = judge(CLASSES, *rows(100, 40, 0.3))
    assert not found.helps
    assert found.reason == "60 unlabelled rows are few beside 40 labelled ones"


def test_labels_that_a_linear_model_gets_right_are_left_alone() -> None:
    found = judge(CLASSES, *rows(200, 40, 0.0))
    assert not found.helps
    assert "error of 0.0 %" in found.reason


def test_labels_that_leave_errors_are_helped() -> None:
    found = judge(CLASSES, *rows(200, 40, 0.3))
    assert found.helps
    assert "much to gain" in found.reason


def test_rules_are_reason_enough() -> None:
    space = LabelSpace("kind: {a, b}\nflag\nkind = a -> flag")
    assert judge(space, np.zeros((4, 1)), np.ones((4, 3))) == Verdict(True, "rules say what labels can look like")


@pytest.mark.parametrize("text", ["legs, fins", "legs"])
def test_labels_of_other_kinds_are_judged_by_their_number(text: str) -> None:
    space = LabelSpace(text)
    columns = np.full((12, space.width), np.nan)
    columns[:3] = 1.0
    assert judge(space, np.zeros((12, 1)), columns).helps
    columns[:4] = 1.0
    assert not judge(space, np.zeros((12, 1)), columns).helps


@pytest.mark.parametrize("ridge", [0.01, 0.1, 1.0, 10.0])
def test_the_error_is_that_of_leaving_each_row_out_in_turn(ridge: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dssl.training.safeguard._RIDGES", (ridge,))
    x, columns = rows(24, 24, 0.25, seed=3)
    features = np.concatenate([x / np.sqrt(x.shape[1]), np.ones((24, 1))], 1)
    wrong = 0
    for i in range(24):
        others = np.delete(np.arange(24), i)
        f, t = features[others], 2 * columns[others] - 1
        weights = np.linalg.solve(f.T @ f + ridge * np.eye(3), f.T @ t)
        wrong += int((features[i] @ weights).argmax() != columns[i].argmax())
    assert wrong > 0
    assert _left_out(x, columns) == pytest.approx(wrong / 24)
    assert _left_out(sp.csr_array(x), columns) == pytest.approx(wrong / 24)
    assert _left_out(x.reshape(24, 1, 1, 2), columns) == pytest.approx(wrong / 24)
