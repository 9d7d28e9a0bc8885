"""Vectors for numba: a register's worth of float32 or float64 lanes, with the few operations the kernels need.

A `Vector` value lives in LLVM vector registers; LLVM splits it into what the machine has (AVX-512, AVX2, NEON, …),
so `lanes` may be 64 everywhere. ``a + b``, ``a - b``, ``a * b``, ``a / b`` work between vectors, and between a vector
and a number. No operation assumes that NaN or infinity is absent: log weights of −inf pass through.

Positive numbers of any size are held as a pair (m, e), standing for m·2^e: a mantissa m in [1, 2) and a whole number e,
kept as a float so that e = −inf is zero and 2^-1e30 is still a number. `exp_parts` makes such a pair,
`normalise` restores it after products and sums, `log_parts` takes its logarithm. Zero times anything is zero, and zero
plus anything is that thing, without a branch.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.extending import lower_builtin, models, register_model, type_callable

from dssl.circuits.evaluate import plain
from dssl.circuits.jit import PLAIN, inner, target_of

intrinsic: Any = extending.intrinsic  # the functions below are called with vectors, not with what they are written for


class Vector(types.Type):
    """The numba type of `lanes` floats of type `element`."""

    def __init__(self, element: types.Float, lanes: int) -> None:
        self.element, self.lanes = element, lanes
        super().__init__(name=f"{element}x{lanes}")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, _llvm(vector))


def _llvm(vector: Vector) -> ir.VectorType:
    return ir.VectorType(ir.FloatType() if vector.element == types.float32 else ir.DoubleType(), vector.lanes)


def _llvm_int(vector: Vector) -> ir.VectorType:
    return ir.VectorType(ir.IntType(vector.element.bitwidth), vector.lanes)


def _constant(kind: ir.VectorType, number: float) -> ir.Constant:
    return ir.Constant(kind, [ir.Constant(kind.element, number)] * kind.count)


def _splat(builder: Any, kind: ir.VectorType, scalar: Any) -> Any:
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.IntType(32)(0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), lanes)


def _arithmetic(symbol: Callable[..., Any], instruction: str) -> None:
    """Give `symbol` (such as operator.add) a meaning between vectors, and between a vector and a number."""

    @type_callable(symbol)
    def typing(context: Any) -> Callable[[Any, Any], Any]:
        def typer(left: Any, right: Any) -> Any:
            vectors = [kind for kind in (left, right) if isinstance(kind, Vector)]
            known = all(isinstance(kind, types.Number) or kind == vectors[0] for kind in (left, right) if vectors)
            return vectors[0] if vectors and known else None

        return typer

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector, operands = sig.return_type, []
        for kind, value in zip(sig.args, args):
            if kind != vector:
                value = _splat(builder, _llvm(vector), context.cast(builder, value, kind, vector.element))
            operands.append(value)
        # a product may be fused with a sum: one rounding in place of two
        return getattr(builder, instruction)(*operands, flags=("contract",))

    for left, right in ((Vector, Vector), (Vector, types.Number), (types.Number, Vector)):
        lower_builtin(symbol, left, right)(lower)


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _arithmetic(_symbol, _instruction)


def _literal_int(kind: Any) -> int:
    return int(kind.literal_value)


@intrinsic(prefer_literal=True)
def zeros(typing: Any, lanes: Any, bits: Any, source: Any) -> Any:
    """A vector of `lanes` zeros of `bits` bits each: the pattern (`like`) other operations take their type from.

    `source` only makes a number that stands for the source code part of the caller's closure, and so of the key under
    which numba keeps the compiled caller; on its own numba looks at the age of the caller's file alone.
    """
    vector = Vector(types.float32 if _literal_int(bits) == 32 else types.float64, _literal_int(lanes))

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _constant(_llvm(vector), 0.0)

    return vector(lanes, bits, source), generate


@intrinsic
def splat(typing: Any, like: Any, number: Any) -> Any:
    """A vector like `like` with `number` in every lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _splat(builder, _llvm(like), context.cast(builder, args[1], number, like.element))

    return like(like, number), generate


def _address(builder: Any, base: Any, index: Any, element: Any, target: Any) -> Any:
    """A pointer of type `target` to element `index` after the address `base`."""
    return builder.bitcast(builder.gep(builder.inttoptr(base, element.as_pointer()), [index]), target.as_pointer())


@intrinsic
def load(typing: Any, like: Any, base: Any, index: Any) -> Any:
    """The vector that begins at element `index` after the address `base`."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = _llvm(like)
        loaded = builder.load(_address(builder, args[1], args[2], kind.element, kind))
        loaded.align = like.element.bitwidth // 8
        return loaded

    return like(like, types.int64, types.int64), generate


@intrinsic
def store(typing: Any, base: Any, index: Any, vector: Any) -> Any:
    """Write `vector` from element `index` after the address `base` on."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = _llvm(vector)
        stored = builder.store(args[2], _address(builder, args[0], args[1], kind.element, kind))
        stored.align = vector.element.bitwidth // 8
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, vector), generate


@intrinsic
def peek(typing: Any, like: Any, base: Any, index: Any) -> Any:
    """The single number at element `index` after the address `base`."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        element = _llvm(like).element
        return builder.load(_address(builder, args[1], args[2], element, element))

    return like.element(like, types.int64, types.int64), generate


@intrinsic
def poke_byte(typing: Any, base: Any, index: Any, number: Any) -> Any:
    """Write an integer as a byte at `index` after the address `base`."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        byte = ir.IntType(8)
        builder.store(builder.trunc(args[2], byte), _address(builder, args[0], args[1], byte, byte))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def poke(typing: Any, like: Any, base: Any, index: Any, number: Any) -> Any:
    """Write a single number at element `index` after the address `base`."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        element = _llvm(like).element
        number_ = context.cast(builder, args[3], number, like.element)
        builder.store(number_, _address(builder, args[1], args[2], element, element))
        return context.get_dummy_value()

    return types.void(like, types.int64, types.int64, number), generate


def _compare(builder: Any, a: Any, b: Any) -> Any:
    return builder.fcmp_ordered(">", a, b)  # False where either is NaN


@intrinsic
def larger(typing: Any, a: Any, b: Any) -> Any:
    """max(a, b); b where a is NaN."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(_compare(builder, *args), *args)

    return a(a, a), generate


@intrinsic
def smaller(typing: Any, a: Any, b: Any) -> Any:
    """min(a, b); b where a is NaN."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return a(a, a), generate


@intrinsic
def where_larger(typing: Any, a: Any, b: Any, yes: Any, no: Any) -> Any:
    """`yes` in lanes where a > b, `no` elsewhere."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(_compare(builder, args[0], args[1]), args[2], args[3])

    return a(a, a, a, a), generate


@intrinsic
def or_nan(typing: Any, a: Any, b: Any) -> Any:
    """`a`, but NaN where `b` is NaN."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_unordered("uno", args[1], args[1]), args[1], args[0])

    return a(a, a), generate


@intrinsic
def lanes_of(typing: Any, like: Any) -> Any:
    """The number of lanes."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.IntType(64)(like.lanes)

    return types.int64(like), generate


@intrinsic
def bytes_of(typing: Any, like: Any) -> Any:
    """The size of one lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.IntType(64)(like.element.bitwidth // 8)

    return types.int64(like), generate


@intrinsic
def keep_if(typing: Any, flag: Any, vector: Any) -> Any:
    """`vector` if the integer `flag` is not zero, else zeros, whatever bits `vector` holds (without a branch)."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = _llvm_int(vector)
        mask = builder.sext(builder.icmp_unsigned("!=", args[0], flag_kind(0)), bits.element)
        kept = builder.and_(builder.bitcast(args[1], bits), _splat(builder, bits, mask))
        return builder.bitcast(kept, _llvm(vector))

    flag_kind = ir.IntType(flag.bitwidth)
    return vector(flag, vector), generate


def _llvm_call(builder: Any, name: str, vector: Vector, args: Any) -> Any:
    kind = _llvm(vector)
    function = ir.FunctionType(kind, [kind] * len(args))
    full = f"llvm.{name}.v{vector.lanes}f{vector.element.bitwidth}"
    return builder.call(builder.module.declare_intrinsic(full, (), function), args)


@intrinsic
def fused(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a·b + c with a single rounding."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _llvm_call(builder, "fma", a, args)

    return a(a, a, a), generate


@intrinsic
def rounded(typing: Any, a: Any) -> Any:
    """The nearest whole number."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _llvm_call(builder, "rint", a, args)

    return a(a), generate


def _form(vector: Vector) -> tuple[int, int, int, int]:
    return plain.FORMS[str(vector.element)]


def _power_of_two(builder: Any, vector: Vector, k: Any) -> Any:
    mantissa, bias, *_ = _form(vector)
    kind, bits = _llvm(vector), _llvm_int(vector)
    floor = _constant(kind, -float(bias))
    clamped = builder.select(_compare(builder, k, floor), k, floor)
    # adding 1.5·2^mantissa leaves the whole number in the low bits; the shift drops all above the exponent field
    shifted = builder.fadd(clamped, _constant(kind, 1.5 * 2.0**mantissa + bias))
    return builder.bitcast(builder.shl(builder.bitcast(shifted, bits), _constant(bits, mantissa)), kind)


@intrinsic
def power_of_two(typing: Any, k: Any) -> Any:
    """2^k for whole k up to 127; 0 where k is below -126 or NaN."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _power_of_two(builder, k, args[0])

    return k(k), generate


@intrinsic
def scaled(typing: Any, m: Any, k: Any) -> Any:
    """m·2^k for whole k ≤ 0, 0 if that is too small for a float; one instruction where the target has it."""
    chunk = 512 // m.element.bitwidth
    letter = "ps" if m.element == types.float32 else "pd"

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if not target_of(context).has("avx512f") or m.lanes % chunk:
            return builder.fmul(args[0], _power_of_two(builder, m, args[1]), flags=("contract",))
        kind = _llvm(m)
        part, mask = ir.VectorType(kind.element, chunk), ir.IntType(chunk)
        function = ir.FunctionType(part, [part, part, part, mask, ir.IntType(32)])
        name = f"llvm.x86.avx512.mask.scalef.{letter}.512"
        scalef = builder.module.declare_intrinsic(name, (), function)
        rounding = ir.IntType(32)(4)  # the current mode
        done = []
        for start in range(0, m.lanes, chunk):
            lanes = ir.Constant(ir.VectorType(ir.IntType(32), chunk), list(range(start, start + chunk)))
            a, b = (builder.shuffle_vector(x, ir.Constant(kind, ir.Undefined), lanes) for x in args)
            done.append(builder.call(scalef, [a, b, a, mask(-1), rounding]))
        while len(done) > 1:
            lanes = ir.Constant(
                ir.VectorType(ir.IntType(32), 2 * done[0].type.count), list(range(2 * done[0].type.count))
            )
            done = [builder.shuffle_vector(a, b, lanes) for a, b in zip(done[::2], done[1::2])]
        return done[0]

    return m(m, k), generate


@intrinsic
def exponent(typing: Any, m: Any) -> Any:
    """The whole number k with 2^k ≤ m < 2^(k+1), for m > 0; about -127 for zero."""
    mantissa, bias, *_ = _form(m)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind, bits = _llvm(m), _llvm_int(m)
        field = builder.ashr(builder.bitcast(args[0], bits), _constant(bits, mantissa))
        return builder.fsub(builder.sitofp(field, kind), _constant(kind, float(bias)))

    return m(m), generate


@intrinsic
def mantissa(typing: Any, m: Any) -> Any:
    """m / 2^exponent(m), a number in [1, 2); 1 for zero."""
    width, bias, *_ = _form(m)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = _llvm_int(m)
        low = builder.and_(builder.bitcast(args[0], bits), _constant(bits, (1 << width) - 1))
        return builder.bitcast(builder.or_(low, _constant(bits, bias << width)), _llvm(m))

    return m(m), generate


@intrinsic(prefer_literal=True)
def _series(typing: Any, x: Any, which: Any) -> Any:
    """Polynomial in x by Horner's rule: `which` 0 gives exp's Taylor series, 1 gives Σ x^k/(2k+1)."""
    *_, exp_terms, log_terms = _form(x)
    table = [[1 / math.factorial(k) for k in range(exp_terms)], [1 / (2 * k + 1) for k in range(log_terms)]]

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind, terms = _llvm(x), table[_literal_int(which)]
        total = _constant(kind, terms[-1])
        for term in reversed(terms[:-1]):
            total = _llvm_call(builder, "fma", x, [total, args[0], _constant(kind, term)])
        return total

    return x(x, which), generate


@intrinsic(prefer_literal=True)
def _ln2(typing: Any, like: Any, part: Any) -> Any:
    """ln 2 rounded to the element (`part` 0), and what the rounding left over (1)."""
    high, low = (
        (0.693147182464599609375, -1.904654299957768e-09)
        if like.element == types.float32
        else (0.6931471805599453094, 2.319046813846299558e-17)
    )

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _constant(_llvm(like), (high, low)[_literal_int(part)])

    return like(like, part), generate


@intrinsic
def flush_tiny(typing: Any, on: Any) -> Any:
    """Treat denormal numbers as zero on x86 (they cost a hundred cycles there); returns the former setting.

    The argument is 1 to begin and the former setting to end. On other machines nothing happens.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        word, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        if not target_of(context).triple.startswith(("x86_64", "i686")):
            return word(0)
        cell = builder.alloca(word)
        kind = ir.FunctionType(ir.VoidType(), [pointer])
        read = builder.module.declare_intrinsic("llvm.x86.sse.stmxcsr", (), kind)
        write = builder.module.declare_intrinsic("llvm.x86.sse.ldmxcsr", (), kind)
        builder.call(read, [builder.bitcast(cell, pointer)])
        former = builder.load(cell)
        begin = builder.icmp_unsigned("==", args[0], word(1))
        builder.store(builder.select(begin, builder.or_(former, word(0x8040)), args[0]), cell)
        builder.call(write, [builder.bitcast(cell, pointer)])
        return former

    return types.uint32(types.uint32), generate


@intrinsic
def atomic_add(typing: Any, base: Any, amount: Any) -> Any:
    """Add to the 64-bit integer at the address `base`, for all threads at once; returns what it was."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        cell = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", cell, args[1], "acq_rel")

    return types.int64(types.int64, types.int64), generate


@inner
def exp_parts(x: Any) -> Any:
    """exp(x) for x ≤ 0 as a pair (m, e) that still has to be normalised; exp(−inf) is (m, −inf)."""
    n = rounded(x * 1.4426950408889634)
    r = fused(n, _ln2(x, 1) * -1.0, fused(n, _ln2(x, 0) * -1.0, x))
    # beyond 2^24 (2^53) the fraction is lost in x itself; −inf gives NaN, which `larger` replaces
    r = smaller(larger(r, splat(x, -0.35)), splat(x, 0.35))
    return _series(r, 0), n


@inner
def log1p(t: Any) -> Any:
    """log(1 + t) for t in [0, 1]: twice the inverse hyperbolic tangent of t / (2 + t)."""
    s = t / (t + 2.0)
    return s * 2.0 * _series(s * s, 1)


@inner
def log_parts(m: Any, e: Any) -> Any:
    """log(m·2^e) for m in [1, 2)."""
    return fused(e, _ln2(m, 0), log1p(m - 1.0))


@inner
def normalise(m: Any, e: Any) -> Any:
    """The pair of m·2^e with the mantissa back in [1, 2)."""
    return mantissa(m), e + exponent(m)


if PLAIN:
    globals().update({operation.__name__: operation for operation in plain.OPERATIONS})
