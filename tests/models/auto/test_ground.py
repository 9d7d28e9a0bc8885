"""The ground: what is known of rows before labels, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from dssl.models.auto.ground import Ground, similarities, tells


def ground(n: int = 60, known: int = 20) -> tuple[Ground, np.ndarray]:
    random = np.random.default_rng(0)
    x = random.normal(size=(n, 3))
    return Ground(x, np.arange(known), random), x


def test_known_rows_come_first_and_all_rows_are_there() -> None:
    found, _ = ground()
    np.testing.assert_array_equal(found.sample[:20], np.arange(20))
    np.testing.assert_array_equal(np.sort(found.sample), np.arange(60))


@pytest.mark.parametrize("which", [np.arange(20), np.array([3, 4, 7, 8, 11, 19])])
def test_similarities_of_some_rows_are_those_of_all_rows_cut_out(which: np.ndarray) -> None:
    found, _ = ground()
    some, all_ = list(found.ways(which)), list(found.ways(np.arange(20)))
    assert {name for name, _ in some} == {"graph", "linear", "smooth", "manifold"}
    for (name, few), (_, many) in zip(some, all_):
        cut = many.similarity[np.ix_(which, which)]
        np.testing.assert_allclose(
            few.similarity / few.similarity[0, 0], cut / cut[0, 0], rtol=1e-6, atol=1e-9, err_msg=name
        )


def test_the_plain_linear_way_is_ridge_regression() -> None:
    found, x = ground()
    target = np.random.default_rng(1).normal(size=(20, 2))
    scale = (x**2).sum(axis=1).mean()
    linear = [way for name, way in found.ways(np.arange(20)) if name == "linear"]
    for ridge, way in zip((1e-3, 1e-2, 0.1, 1.0, 10.0), linear):
        slow = x[:20].T @ np.linalg.solve(x[:20] @ x[:20].T + ridge * scale * np.eye(20), target)
        np.testing.assert_allclose(way.predict(target, x), x @ slow, rtol=1e-5, atol=1e-8)


def test_a_walk_reaches_near_rows_before_far_ones() -> None:
    x = np.concatenate([np.linspace(0, 1, 30), np.linspace(50, 51, 30)])[:, None]
    found = Ground(x, np.array([0, 59]), np.random.default_rng(0))
    name, way = next(found.ways(np.arange(2)))
    assert name == "graph"
    reached = way.predict(np.array([[1.0], [0.0]]), x)
    assert reached[:30].min() > reached[30:].max()


def test_similarities_of_a_row_with_itself() -> None:
    x = np.array([[1.0, 2.0]])
    assert similarities("linear", x, x, 5.0) == 1.0
    for kind in ("wide", "narrow", "laplace"):
        assert similarities(kind, x, x, 2.0) == 1.0


@pytest.mark.parametrize(
    ("labels", "expected"), [(np.eye(2)[[0] * 4 + [1] * 4], True), (np.ones((20, 1)), False), (np.eye(2), False)]
)
def test_labels_that_tell(labels: np.ndarray, expected: bool) -> None:
    assert tells(labels, np.ones(len(labels))) == expected


def test_labels_tell_by_their_weight() -> None:
    labels = np.eye(2)[[0] * 10 + [1] * 10]
    assert tells(labels, np.where(labels[:, 0] == 1, 1, 0.05))  # together half a row
    assert not tells(labels, np.where(labels[:, 0] == 1, 1, 1e-9))
    assert not tells(labels, np.full(20, 0.1))
