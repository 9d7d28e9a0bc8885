"""Counts by way of primes, against counting in integers."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings

from circuits.compile.test_compiler import compiled, constraints_of_all_kinds, count_models
from dssl.circuits import counting
from dssl.circuits.counting import models, primes
from dssl.logic.reasoning.constraints import Constraints
from dssl.logic.space import LabelSpace


@settings(max_examples=100, deadline=None)
@given(constraints_of_all_kinds())
def test_the_same_as_in_integers(constraints: Constraints) -> None:
    circuit = compiled(constraints)
    assert models(circuit) == count_models(circuit)  # which takes soft rules as columns, settled by the others
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "MOST_BITS", 0)
        assert models(circuit) == count_models(circuit)


@pytest.mark.parametrize("n", [1, 30, 31, 32, 62, 63, 300])
def test_counts_of_any_size(n: int) -> None:
    """Of all labels, and of all but one: the largest number that one prime, or two, can tell."""
    names = ", ".join(f"x{i}" for i in range(n))
    assert LabelSpace(names).count() == 2**n
    assert LabelSpace(names, f"any({names})").count() == 2**n - 1


def test_blocks_of_any_size() -> None:
    space = LabelSpace("a: 0..999\nb: {p, q, r}\nc\na = 7 -> b = p\na = 8 <-> c")
    assert space.count() == sum(1 for a, b, c in itertools.product(range(1000), range(3), range(2))
                                if (a != 7 or b == 0) and ((a == 8) == bool(c)))  # fmt: skip


def test_slices_do_not_change_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ", ".join(f"x{i}" for i in range(40))
    circuit = LabelSpace(names, f"at_most(7, {names})").compile()
    monkeypatch.setattr(counting, "SLICE", 11)
    assert models(circuit) == sum(math.comb(40, k) for k in range(8))


def test_primes_are_prime() -> None:
    """By trial division; and none is left out."""
    found = list(itertools.islice(primes(), 20))
    small = [k for k in range(2, 46342) if all(k % d for d in range(2, math.isqrt(k) + 1))]
    expected = (n for n in range(2**31 - 1, 2**31 - 1000, -1) if all(n % p for p in small))
    assert found == list(itertools.islice(expected, 20))
