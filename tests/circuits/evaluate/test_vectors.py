"""Vector operations against numpy, in both precisions and several widths."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from dssl.circuits.evaluate.vectors import (
    exp_parts,
    keep_if,
    lanes_of,
    larger,
    load,
    log1p,
    log_parts,
    normalise,
    or_nan,
    power_of_two,
    scaled,
    smaller,
    store,
    where_larger,
    zeros,
)

OPERATIONS = {}


def operation(function):
    """Make f(x, y) of vectors a function of two arrays."""
    function = numba.njit(function)

    def on(lanes: int, bits: int):
        @numba.njit
        def run(x, y, out):
            like = zeros(lanes, bits, 0)
            for i in range(0, len(x), lanes_of(like)):
                result = function(load(like, x.ctypes.data, i), load(like, y.ctypes.data, i))
                store(out.ctypes.data, i, result)

        def call(x, y):
            out = np.empty_like(x)
            with np.errstate(all="ignore"):  # where kernels are not compiled
                run(x, y, out)
            return out

        return call

    return on


@operation
def arithmetic(x, y):
    return (x + y) * x - y / 2.0 + 1


@operation
def choose(x, y):
    return where_larger(x, y, larger(x, y) + 1.0, smaller(x, y) - 1.0)


@operation
def larger_of(x, y):
    return larger(x, y)


@operation
def poison(x, y):
    return or_nan(x, y)


@operation
def kept(x, y):
    return keep_if(np.uint32(4), x) + keep_if(np.uint32(0), y)


@operation
def power(x, y):
    return power_of_two(x)


@operation
def scale(x, y):
    return scaled(y, x)


@operation
def exp_and_back(x, y):
    m, e = exp_parts(x)
    m, e = normalise(m, e)
    return log_parts(m, e)


@operation
def log_one_plus(x, y):
    return log1p(x)


forms = pytest.mark.parametrize(
    ("lanes", "dtype"), [(1, np.float32), (16, np.float32), (64, np.float32), (16, np.float64)]
)


def on(make, lanes, dtype):
    return make(lanes, np.dtype(dtype).itemsize * 8)


@forms
def test_arithmetic_and_choices(lanes, dtype):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 64)).astype(dtype)
    tight = 20 * np.finfo(dtype).eps
    np.testing.assert_allclose(on(arithmetic, lanes, dtype)(x, y), (x + y) * x - y / 2 + 1, atol=tight)
    chosen = np.where(x > y, np.maximum(x, y) + 1, np.minimum(x, y) - 1)
    np.testing.assert_allclose(on(choose, lanes, dtype)(x, y), chosen, atol=tight)
    np.testing.assert_array_equal(on(kept, lanes, dtype)(x, np.full_like(y, np.nan)), x)


@forms
def test_nan_is_replaced_only_on_the_left(lanes, dtype):
    x, y = np.zeros((2, 64), dtype)
    x[::2], y[1::4] = np.nan, np.nan
    np.testing.assert_array_equal(on(larger_of, lanes, dtype)(x, y), np.where(np.isnan(y), np.nan, 0).astype(dtype))
    np.testing.assert_array_equal(on(poison, lanes, dtype)(np.zeros_like(x), x), x)


@forms
def test_powers_of_two_down_to_zero(lanes, dtype):
    k = np.resize(np.array([0, -1, -20, -126, -5000, -1e30, -np.inf, 3], dtype), 64)
    expected = (
        np.where(k < -126, 0, np.exp2(np.maximum(k, -126))) if dtype == np.float32 else np.exp2(np.maximum(k, -2000))
    )
    np.testing.assert_array_equal(on(power, lanes, dtype)(k, k), expected.astype(dtype))
    k[k > 0] = 0
    m = np.full(64, 1.5, dtype)
    np.testing.assert_allclose(on(scale, lanes, dtype)(k, m), 1.5 * np.exp2(k.astype(float)), atol=1e-37)


@forms
def test_exp_and_log_are_inverse_at_every_size(lanes, dtype):
    x = -np.resize(np.array([0, 1e-9, 0.3, 1, 20, 87.5, 88, 700, 1e3, 1e5, 3e6, 1e20, 1e38, np.inf]), 64).astype(dtype)
    back = on(exp_and_back, lanes, dtype)(x, x)
    np.testing.assert_allclose(back, x, rtol=4 * np.finfo(dtype).eps, atol=2 * np.finfo(dtype).eps)


@forms
def test_log1p(lanes, dtype):
    t = np.concatenate([np.linspace(0, 1, 44), np.logspace(-30, -1, 20)]).astype(dtype)
    np.testing.assert_allclose(on(log_one_plus, lanes, dtype)(t, t), np.log1p(t), rtol=3 * np.finfo(dtype).eps)
