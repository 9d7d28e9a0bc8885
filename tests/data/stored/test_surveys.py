"""Surveys: sums as numpy has them, labels that obey the rules, a bounded sample that stands for all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dssl import LabelSpace
from dssl.data.features import Standardiser
from dssl.data.mending import completed
from dssl.data.rows import ArrayData
from dssl.data.stored import surveys
from dssl.data.stored.surveys import Survey, survey
from dssl.errors import DataError

SPACE = LabelSpace("legs, fins\nlegs -> !fins")
RANDOM = np.random.default_rng(0)
N = 20_000
X = (RANDOM.normal(size=(N, 3)) * [1, 10, 0.1] + [1e4, 0, 5]).astype(np.float32)
Y = np.full((N, 2), np.nan, np.float32)
Y[::4, 0] = RANDOM.integers(0, 2, len(Y[::4]))
WEIGHT = RANDOM.uniform(0.5, 2, N)


def found() -> Survey:
    return survey(ArrayData(X, Y, WEIGHT), lambda y: completed(SPACE, y), seed=0)


def test_sums_are_those_of_all_rows() -> None:
    slow = Standardiser.fit(X.astype(np.float64), WEIGHT.astype(np.float32).astype(np.float64))
    fast = found().standardiser
    np.testing.assert_allclose(fast.mean, slow.mean, rtol=1e-9)
    np.testing.assert_allclose(fast.scale, slow.scale, rtol=1e-6)
    images = RANDOM.integers(0, 255, (50, 2, 4, 4)).astype(np.uint8)
    slow = Standardiser.fit(images.astype(np.float64))
    fast = survey(ArrayData(images, np.eye(2)[np.arange(50) % 2]), lambda y: y, 0).standardiser
    np.testing.assert_allclose((fast.mean, fast.scale), (slow.mean, slow.scale), rtol=1e-9)


def test_labels_are_completed_once() -> None:
    expected = completed(SPACE, Y[::4])
    np.testing.assert_array_equal(found().known, expected)
    assert (expected[expected[:, 0] == 1, 1] == 0).all()


def test_a_bounded_sample_stands_for_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveys, "_SAMPLE", 1000)
    seen = found()
    assert len(seen.rows) == 2000
    np.testing.assert_array_equal(seen.x, X[seen.rows])
    np.testing.assert_array_equal(seen.columns, completed(SPACE, Y)[seen.rows])
    labelled = seen.rows % 4 == 0
    assert seen.counts[labelled].sum() == pytest.approx(WEIGHT[::4].sum(), rel=0.05)
    assert seen.counts.sum() == pytest.approx(WEIGHT.sum(), rel=0.05)


def test_batches_are_standardised_weighted_and_without_what_is_held_out() -> None:
    seen = found()
    held = np.flatnonzero(seen.rows % 4 == 0)[:7]
    stream = seen.stream(seen.standardiser, held, np.ones(len(seen.weights)))
    assert len(stream) == N
    assert len(stream.labelled) == N // 4 - 7
    assert not np.isin(seen.rows[held], stream.labelled).any()
    batch = stream.batch([5, 0, 4])
    np.testing.assert_allclose(batch.x.numpy(), seen.standardiser(X[[5, 0, 4]]), rtol=1e-6)
    np.testing.assert_array_equal(batch.y.numpy(), completed(SPACE, Y)[[5, 0, 4]])
    every = stream.batch(np.arange(N)).weight.numpy()
    free = np.arange(N) % 4 != 0
    assert every[~free].mean() == pytest.approx(1, rel=1e-4)
    assert every[free].mean() == pytest.approx(WEIGHT[free].sum() / WEIGHT.sum(), rel=1e-4)


def test_labels_that_were_dropped_leave_unlabelled_rows() -> None:
    def drop(y: Any) -> Any:
        return np.where(np.arange(len(y))[:, None] < 10, np.nan, y).astype(np.float32)

    seen = survey(ArrayData(X, Y), drop, seed=0)
    stream = seen.stream(seen.standardiser, np.arange(0), np.ones(len(seen.weights)))
    assert stream.unlabelled[:4].tolist() == [0, 1, 2, 3]
    assert (len(stream.labelled), len(stream.unlabelled)) == (N // 4 - 10, 3 * N // 4 + 10)


def test_data_that_cannot_be_learned_from() -> None:
    with pytest.raises(DataError, match="none of the 20,000 rows is labelled"):
        survey(ArrayData(X, np.full((N, 2), np.nan)), lambda y: y, 0)
    with pytest.raises(DataError, match="the data have no rows"):
        survey(ArrayData(X[:0], Y[:0]), lambda y: y, 0)

    def refuse(y: Any) -> Any:
        raise DataError("labels: row 3 breaks a rule")

    with pytest.raises(DataError, match=r"row 3 breaks a rule\nRows are counted among the 5,000 labelled ones."):
        survey(ArrayData(X, Y), refuse, 0)
