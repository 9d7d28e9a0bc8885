"""The operations of `vectors` on numpy arrays: what kernels run on where numba is told not to compile.

With ``NUMBA_DISABLE_JIT=1`` every kernel is plain Python, thousands of times slower, which a debugger can enter and
coverage can count. A vector is an array of `lanes` floats; addresses are those the compiled kernels use. Each function
is described where its compiled twin is, in `vectors`.
"""

from __future__ import annotations

import ctypes
import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[Any]

# of each element: bits of the mantissa, exponent bias, terms of exp on [-ln2/2, ln2/2], terms of log1p on [0, 1]
FORMS = {"float32": (23, 127, 8, 9), "float64": (52, 1023, 14, 18)}
_WIDER = {"float32": np.float64, "float64": np.longdouble}
_lock = threading.Lock()


def _memory(base: int, index: int, kind: Any, count: int) -> Vector:
    """An array over `count` numbers at element `index` after an address."""
    kind = np.dtype(kind)
    place = (ctypes.c_char * (count * kind.itemsize)).from_address(int(base) + int(index) * kind.itemsize)
    return np.ndarray((count,), kind, place)


def zeros(lanes: int, bits: int, source: int) -> Vector:
    return np.zeros(lanes, np.float32 if bits == 32 else np.float64)


def splat(like: Vector, number: float) -> Vector:
    return np.full_like(like, number)


def load(like: Vector, base: int, index: int) -> Vector:
    return _memory(base, index, like.dtype, len(like)).copy()


def store(base: int, index: int, vector: Vector) -> None:
    _memory(base, index, vector.dtype, len(vector))[:] = vector


def peek(like: Vector, base: int, index: int) -> float:
    return float(_memory(base, index, like.dtype, 1)[0])


def poke(like: Vector, base: int, index: int, number: float) -> None:
    _memory(base, index, like.dtype, 1)[0] = number


def poke_byte(base: int, index: int, number: int) -> None:
    _memory(base, index, np.uint8, 1)[0] = number


def larger(a: Vector, b: Vector) -> Vector:
    return np.where(a > b, a, b)


def smaller(a: Vector, b: Vector) -> Vector:
    return np.where(a < b, a, b)


def where_larger(a: Vector, b: Vector, yes: Vector, no: Vector) -> Vector:
    return np.where(a > b, yes, no)


def or_nan(a: Vector, b: Vector) -> Vector:
    return np.where(np.isnan(b), b, a)


def lanes_of(like: Vector) -> int:
    return len(like)


def bytes_of(like: Vector) -> int:
    return like.itemsize


def keep_if(flag: int, vector: Vector) -> Vector:
    return vector if flag else np.zeros_like(vector)


def fused(a: Vector, b: Vector, c: Vector) -> Vector:
    wider = _WIDER[a.dtype.name]
    return (a.astype(wider) * b.astype(wider) + c.astype(wider)).astype(a.dtype)


def rounded(a: Vector) -> Vector:
    return np.rint(a)


def power_of_two(k: Vector) -> Vector:
    bias = FORMS[k.dtype.name][1]
    inside = k > -bias
    return np.where(inside, np.ldexp(np.ones_like(k), np.where(inside, k, 0).astype(np.int64)), np.zeros_like(k))


def scaled(m: Vector, k: Vector) -> Vector:
    return m * power_of_two(k)


def _bits(m: Vector) -> Vector:
    return m.view(np.int32 if m.itemsize == 4 else np.int64)


def exponent(m: Vector) -> Vector:
    width, bias, *_ = FORMS[m.dtype.name]
    return ((_bits(m) >> width) - bias).astype(m.dtype)


def mantissa(m: Vector) -> Vector:
    width, bias, *_ = FORMS[m.dtype.name]
    return (_bits(m) & ((1 << width) - 1) | (bias << width)).view(m.dtype)


def _series(x: Vector, which: int) -> Vector:
    *_, exp_terms, log_terms = FORMS[x.dtype.name]
    table = [[1 / math.factorial(k) for k in range(exp_terms)], [1 / (2 * k + 1) for k in range(log_terms)]]
    total = splat(x, table[which][-1])
    for term in reversed(table[which][:-1]):
        total = fused(total, x, splat(x, term))
    return total


def _ln2(like: Vector, part: int) -> Vector:
    single = like.dtype == np.float32
    high, low = (
        (0.693147182464599609375, -1.904654299957768e-09)
        if single
        else (0.6931471805599453094, 2.319046813846299558e-17)
    )
    return splat(like, (high, low)[part])


def flush_tiny(on: int) -> int:
    return 0


def atomic_add(base: int, amount: int) -> int:
    with _lock:
        cell = _memory(base, 0, np.int64, 1)
        former = int(cell[0])
        cell[0] += amount
    return former


OPERATIONS = (
    zeros, splat, load, store, peek, poke, poke_byte, larger, smaller, where_larger, or_nan, lanes_of, bytes_of,
    keep_if, fused, rounded, power_of_two, scaled, exponent, mantissa, _series, _ln2, flush_tiny, atomic_add,
)  # fmt: skip
