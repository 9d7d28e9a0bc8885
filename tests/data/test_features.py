"""Standardising, finding what is not finite, and counting equal rows once."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dssl import DataError
from dssl.data import features
from dssl.data.features import Standardiser, distinct, require_finite


def test_features_of_different_units_get_a_scale_each() -> None:
    x = np.random.default_rng(0).normal(size=(500, 3)) * [1, 100, 0.01] + [5, -3, 0]
    z = Standardiser.fit(x)(x)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(z.std(axis=0), 1, atol=1e-5)


def test_features_of_one_unit_share_a_scale() -> None:
    """Pixels at the border vary little; their noise must not be blown up."""
    x = np.random.default_rng(0).normal(size=(500, 4)) * [4, 4, 4, 0.01]
    z = Standardiser.fit(x)(x)
    assert z[:, 3].std() < 0.01
    assert np.square(z).mean() == pytest.approx(1, rel=1e-3)


def test_a_constant_feature_is_only_centred() -> None:
    x = np.array([[1e9, 0.0], [1e9, 1.0]])
    assert Standardiser.fit(x)(x).tolist() == [[0, -1], [0, 1]]


def test_weights_count_like_repeated_rows() -> None:
    x = np.random.default_rng(0).normal(size=(10, 2)) * [1, 50]
    times = np.arange(10) % 3
    weighted, repeated = Standardiser.fit(x, times.astype(float)), Standardiser.fit(x.repeat(times, axis=0))
    np.testing.assert_allclose(weighted.mean, repeated.mean)
    np.testing.assert_allclose(weighted.scale, repeated.scale)


def test_rare_categories_stay_a_step_of_one() -> None:
    """A category of one row in a hundred, divided by its spread, would be ten spreads away from all others."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(5, 30, 400), np.arange(400) % 100 == 0, np.arange(400) % 2 == 0])
    fitted = Standardiser.fit(x)
    np.testing.assert_allclose(fitted.scale, [x[:, 0].std(), 1, 1])
    np.testing.assert_allclose(Standardiser.fit(x, shared=False).scale, fitted.scale)
    np.testing.assert_allclose(Standardiser.fit(x, shared=True).scale, np.sqrt(x.var(axis=0).mean()))
    of_moments = Standardiser.of_moments(x.mean(axis=0), x.var(axis=0), 2)
    np.testing.assert_allclose(of_moments.scale, fitted.scale)


def test_a_table_of_zeros_and_ones_has_one_scale() -> None:
    x = (np.arange(1000)[:, None] % np.array([2, 7, 500]) == 0).astype(float)
    np.testing.assert_allclose(Standardiser.fit(x).scale, np.sqrt(x.var(axis=0).mean()))


def test_images_are_standardised_by_channel() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2, 4, 4)) * np.array([1, 90])[:, None, None] + 7
    z = Standardiser.fit(x)(x)
    assert Standardiser.fit(x).mean.shape == (2, 1, 1)
    np.testing.assert_allclose(z.std(axis=(0, 2, 3)), 1, atol=1e-4)


def test_sparse_rows_stay_sparse() -> None:
    x = sp.random_array((50, 20), density=0.1, format="csr", rng=np.random.default_rng(0))
    standardiser = Standardiser.fit(x)
    z = standardiser(x)
    assert sp.issparse(z)
    assert z.dtype == np.float32
    np.testing.assert_allclose(z.toarray(), standardiser(x.toarray()), rtol=1e-6)
    centred = Standardiser.fit(x.toarray())
    np.testing.assert_allclose(centred(x), centred(x.toarray()))


def test_standardising_can_be_left_out() -> None:
    x = np.array([[3.0, 4.0]])
    assert Standardiser.none(x)(x).tolist() == x.tolist()


def test_large_values_survive() -> None:
    x = np.array([[1e100, 0.0], [-1e100, 1.0]])
    assert np.isfinite(Standardiser.fit(x)(x)).all()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_what_is_not_finite_is_located(form: type) -> None:
    x = np.ones((4, 3))
    x[2, 1] = np.nan
    with pytest.raises(DataError, match=r"NaN: 1 entries, first in row 2, feature 'b'\n.*SimpleImputer"):
        require_finite(form(x), ["a", "b", "c"])
    x[2, 1] = np.inf
    with pytest.raises(DataError, match=r"inf .*row 2, feature 1"):
        require_finite(form(x))
    require_finite(form(np.full((2, 2), 3e38)))  # whose sum float32 could not hold
    with pytest.raises(DataError, match="X contains numbers beyond float32: 4 entries, first in row 0, feature 0"):
        require_finite(form(np.full((2, 2), 1e39)))


def test_rows_are_counted_once_in_any_order() -> None:
    random = np.random.default_rng(0)
    x, y = random.integers(0, 2, size=(40, 3)).astype(float), random.integers(0, 2, size=(40, 1)).astype(float)
    rows, weight = distinct(x, y, np.ones(40))
    order = random.permutation(40)
    again, same = distinct(x[order], y[order], np.ones(40))
    assert (x[rows] == x[order][again]).all()
    assert weight.tolist() == same.tolist()
    assert weight.sum() == 40
    assert len(np.unique(np.hstack([x, y])[rows], axis=0)) == len(rows)


def test_weight_zero_is_left_out_and_labels_tell_rows_apart() -> None:
    x, y = np.zeros((3, 1)), np.array([[1.0], [0.0], [np.nan]])
    rows, weight = distinct(sp.csr_array(x), y, np.array([1.0, 0.0, 2.0]))
    assert sorted(rows.tolist()) == [0, 2]
    assert sorted(weight.tolist()) == [1, 2]


def test_features_of_one_unit_share_a_scale_unless_told_otherwise() -> None:
    x = np.array([[0.0, 0.0], [2.0, 4.0]])
    assert Standardiser.fit(x).scale.tolist() == [2.5**0.5] * 2
    assert Standardiser.fit(x, shared=False).scale.tolist() == [1, 2]


def test_large_rows_are_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(50, 2, 3, 4)).astype(np.float32)
    whole = Standardiser.fit(x)
    monkeypatch.setattr("dssl.data.features._NUMBERS", 7 * 24 + 5)
    assert [s.stop - s.start for s in features._slices(x)][:2] == [7, 7]
    few = Standardiser.fit(x)
    np.testing.assert_allclose(few.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(few(x), whole(x), rtol=1e-6)
