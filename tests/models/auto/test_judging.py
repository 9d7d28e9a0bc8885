"""Ways of predicting judged by leaving rows out, against leaving them out one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dssl import LabelSpace
from dssl.models.auto import ground
from dssl.models.auto.ground import Ground, Way
from dssl.models.auto.judging import Judged, _left_out, judge


def classes(n: int, seed: int = 0) -> tuple[LabelSpace, np.ndarray, np.ndarray]:
    """Two clouds, the rows of each labelled alike."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    x = random.normal(size=(n, 3)) + 4 * y[:, None]
    return LabelSpace.classes(["a", "b"]), x.astype(np.float32), np.eye(2, dtype=np.float32)[y]


def judged(space: LabelSpace, x: Any, columns: np.ndarray) -> Judged | None:
    return judge(space, x, columns, Ground.of(x, columns))


def hidden(y: np.ndarray, shown: int) -> np.ndarray:
    out = np.full_like(y, np.nan)
    out[:shown] = y[:shown]
    return out


def test_left_out_predictions_are_those_of_ridge_regression_without_the_row() -> None:
    random = np.random.default_rng(1)
    half, target = random.normal(size=(9, 5)), random.normal(size=(9, 2))
    similar, rows, counts = half @ half.T, np.arange(9), random.integers(1, 4, 9)
    for times in (np.ones(9, int), counts):
        found = _left_out(Way(similar, 0.3 / times, lambda weights, x: weights), target)
        for i in range(9):
            others = np.repeat(rows[rows != i], times[rows != i])  # a row of weight w is w rows
            weights = np.linalg.solve(similar[np.ix_(others, others)] + 0.3 * np.eye(len(others)), target[others])
            np.testing.assert_allclose(found[i], similar[i, others] @ weights, atol=1e-10)


def test_weighted_rows_predict_as_repeated_ones_do() -> None:
    random = np.random.default_rng(1)
    half, target, counts = random.normal(size=(9, 5)), random.normal(size=(9, 2)), random.integers(1, 4, 9)
    times = np.repeat(np.arange(9), counts)

    def way(rows: np.ndarray, ridge: np.ndarray | float) -> Way:
        return Way(half[rows] @ half[rows].T, ridge, lambda weights, x: x @ half[rows].T @ weights)

    once = way(np.arange(9), 0.3 / counts).predict(target, half)
    np.testing.assert_allclose(once, way(times, 0.3).predict(target[times], half), atol=1e-10)


def test_rows_of_hardly_any_weight_are_not_heard() -> None:
    """Wrong labels of weight 1e-9, and odd rows of it without labels, leave what is found as it was."""
    space, x, y = classes(200)
    shown = hidden(y, 60)
    weight = np.ones(200)
    odd = np.arange(30, 60)
    shown[odd], weight[odd] = 1 - y[odd], 1e-9
    x[150:] += 50 * np.random.default_rng(9).normal(size=(50, 3))
    weight[150:] = 1e-9
    kept = np.flatnonzero(weight == 1)
    heavy = judge(space, x[kept], shown[kept], Ground.of(x[kept], shown[kept], 0, np.ones(len(kept))))
    found = judge(space, x, shown, Ground.of(x, shown, 0, weight))
    assert found is not None
    assert heavy is not None
    assert found.best == heavy.best
    assert found.wrong == heavy.wrong
    np.testing.assert_allclose(found.marginals[kept], heavy.marginals, atol=1e-9)
    assert np.mean(found.marginals[:150].argmax(1) == y[:150].argmax(1)) > 0.97


def test_light_rows_are_heard_a_little() -> None:
    """Wrong labels of weight 1, 1/10 and 1/50: the less they weigh, the less is left of the right ones' error."""
    space, x, y = classes(200)
    shown = hidden(y, 60)
    shown[30:60] = 1 - y[30:60]
    wrong = []
    for light in (1.0, 0.1, 0.02):
        weight = np.where((np.arange(200) >= 30) & (np.arange(200) < 60), light, 1.0)
        found = judge(space, x, shown, Ground.of(x, shown, 0, weight))
        assert found is not None
        wrong.append(float(np.abs(found.marginals - y).mean()))
    assert wrong[0] > 2 * wrong[1] > 2 * wrong[2]


def test_labels_that_follow_clouds_are_predicted_and_random_ones_are_not() -> None:
    space, x, y = classes(200)
    found = judged(space, x, hidden(y, 40))
    assert found is not None
    assert found.error(found.best) < 0.1
    noise = np.eye(2, dtype=np.float32)[np.random.default_rng(5).integers(0, 2, 200)]
    nothing = judged(space, x, hidden(noise, 40))
    assert nothing is not None
    assert nothing.error(nothing.best) > 0.8


def test_a_teacher_is_right_about_rows_it_has_no_labels_of() -> None:
    space, x, y = classes(300)
    found = judged(space, x, hidden(y, 20))
    assert found is not None
    assert np.mean(found.marginals.argmax(1) == y.argmax(1)) > 0.97
    np.testing.assert_allclose(found.marginals.sum(1), 1, atol=1e-6)
    assert found.left_out.shape == (20, 2)


def test_a_row_is_left_out_of_its_own_prediction() -> None:
    """One wrong label among many right ones is not believed of its own row."""
    space, x, y = classes(60)
    wrong = hidden(y, 60)
    wrong[7] = 1 - wrong[7]
    found = judged(space, x, wrong)
    assert found is not None
    place = int(np.flatnonzero(found.rows == 7)[0])
    assert found.left_out[place].argmax() == y[7].argmax()


def test_neighbours_win_where_labels_follow_the_shape_of_the_data() -> None:
    random = np.random.default_rng(3)
    angle = random.uniform(0, 2 * np.pi, 400)
    radius = np.where(np.arange(400) % 2, 1.0, 2.5)
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1) + 0.05 * random.normal(size=(400, 2))
    y = np.eye(2, dtype=np.float32)[np.arange(400) % 2]
    found = judged(LabelSpace.classes(["in", "out"]), x.astype(np.float32), hidden(y, 30))
    assert found is not None
    assert found.behind("graph", "linear")[1] < -2


def test_rules_hold_in_the_teachers_probabilities_where_they_sharpen() -> None:
    space = LabelSpace("kind: {a, b}\nlegs\nkind = a <-> legs")
    _, x, y = classes(200)
    columns = np.concatenate([y, y[:, :1]], 1)
    found = judged(space, x, hidden(columns, 30))
    assert found is not None
    assert np.mean((found.marginals[:, 2] > 0.5) == (columns[:, 2] == 1)) > 0.95


def test_sparse_rows_are_judged_as_dense_ones() -> None:
    space, x, y = classes(80)
    dense, sparse = judged(space, x, hidden(y, 30)), judged(space, sp.csr_array(x), hidden(y, 30))
    assert dense is not None
    assert sparse is not None
    assert dense.best == sparse.best
    np.testing.assert_allclose(dense.marginals, sparse.marginals, atol=1e-3)


def test_rows_beyond_the_graph_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ground, "_ROWS", 60)
    space, x, y = classes(300)
    found = judged(space, x, hidden(y, 20))
    assert found is not None
    assert found.marginals.shape == (300, 2)
    assert np.mean(found.marginals.argmax(1) == y.argmax(1)) > 0.95


@pytest.mark.parametrize("shown", [0, 3])
def test_too_few_labels_say_nothing(shown: int) -> None:
    space, x, y = classes(50)
    assert judged(space, x, hidden(y, shown)) is None


def test_labels_all_alike_say_nothing() -> None:
    space, x, y = classes(50)
    y[:] = [1, 0]
    assert judged(space, x, hidden(y, 20)) is None


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_labels_left_out_later_are_judged_as_if_they_had_never_been_there(kind: str) -> None:
    """The ground of all labels, asked about some of them, against a ground whose other rows it has drawn alike."""
    space, x, y = classes(120)
    rows = sp.csr_array(x) if kind == "sparse" else x
    all_, some = hidden(y, 40), hidden(y, 40)
    some[:10] = np.nan
    whole = Ground.of(rows, all_, 3)
    assert whole is not None
    again = Ground(rows, whole.known[~np.isnan(some[whole.known]).any(axis=1)], np.random.default_rng(0))
    once, twice = judge(space, rows, some, whole), judge(space, rows, some, again)
    assert once is not None
    assert twice is not None
    np.testing.assert_array_equal(once.rows, twice.rows)
    for way in ("linear", "smooth", "graph"):
        np.testing.assert_allclose(once.errors[way], twice.errors[way], rtol=0.05, atol=1e-3)
