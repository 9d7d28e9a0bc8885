"""Tails, corrections and bounds against scipy's distributions and against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dssl.logic.induction.surprise import convolved, log_few, log_never, log_tail, rate_bound, tarone


@pytest.mark.parametrize(("n", "a", "b"), [(6, 2, 3), (6, 3, 3), (7, 1, 6), (5, 0, 4), (6, 4, 3)])
def test_never_is_the_share_of_arrangements_without_a_meeting(n: int, a: int, b: int) -> None:
    first = set(range(a))
    apart = [not first & set(chosen) for chosen in itertools.combinations(range(n), b)]
    assert math.exp(log_never(n, a, b)) == pytest.approx(np.mean(apart))


@given(st.integers(1, 400), st.data())
def test_never_is_hypergeometric(n: int, data: st.DataObject) -> None:
    a, b = data.draw(st.integers(0, n)), data.draw(st.integers(0, n))
    exact = stats.hypergeom.logpmf(0, n, a, b)
    if a + b > n:
        assert log_never(n, a, b) == -np.inf
    else:
        assert float(log_never(n, a, b)) == pytest.approx(exact, abs=1e-8)


@given(st.integers(2, 400), st.data())
def test_the_tail_with_failures_is_above_the_exact_one(n: int, data: st.DataObject) -> None:
    a, b = data.draw(st.integers(1, n)), data.draw(st.integers(1, n))
    f = data.draw(st.integers(0, 30))
    exact = stats.hypergeom.cdf(f, n, a, b)
    assert math.exp(log_tail(f, n, a, b)) >= exact * (1 - 1e-9)


def test_the_tail_of_few_failures_is_useful_and_finite() -> None:
    assert float(log_few(5, 50)) == pytest.approx(stats.poisson.logcdf(5, 50))
    assert float(log_few(50, 20)) == 0
    assert -1e5 < float(log_few(3, 9e4)) < -8e4  # far beyond what a float can hold outside logarithms


def plain_tarone(least: list[float], level: float) -> int:
    return next(k for k in itertools.count(1) if sum(p <= level / k * (1 + 1e-12) for p in least) <= k)


@given(st.lists(st.floats(1e-12, 1), max_size=40))
def test_tarone_is_the_first_number_that_covers_its_tests(least: list[float]) -> None:
    assert tarone(np.log(np.array(least)), math.log(0.05)) == plain_tarone(least, 0.05)


def test_a_null_sample_is_seldom_significant_after_tarone() -> None:
    """Independent columns: the share of samples with any cell below level / k stays below the level."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(200):
        y = rng.random((60, 6)) < rng.random(6)
        n1 = y.sum(axis=0)
        pairs = list(itertools.combinations(range(6), 2))
        least = np.array([float(log_never(60, n1[i], n1[j])) for i, j in pairs])
        p = [v for v, (i, j) in zip(least, pairs) if not (y[:, i] & y[:, j]).any()]
        alarms += any(v <= math.log(0.05 / tarone(least, math.log(0.05))) for v in p)
    assert alarms / 200 <= 0.05


@given(st.integers(0, 20), st.integers(1, 300), st.floats(1e-12, 0.5))
def test_the_bound_is_clopper_pearsons(failures: int, chances: int, level: float) -> None:
    if failures >= chances:
        assert rate_bound(failures, chances, math.log(level)) == 1
    else:
        bound = rate_bound(failures, chances, math.log(level))
        assert stats.binom.cdf(failures, chances, bound) == pytest.approx(level, rel=1e-6)


def test_sums_of_independent_numbers() -> None:
    p = [0.1, 0.5, 0.9]
    by_hand = np.zeros(4)
    for bits in itertools.product((0, 1), repeat=3):
        by_hand[sum(bits)] += math.prod(q if bit else 1 - q for q, bit in zip(p, bits))
    assert convolved([np.array([1 - q, q]) for q in p]) == pytest.approx(by_hand)
