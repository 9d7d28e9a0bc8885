"""The heaviest labels that obey implications, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from dssl.circuits.beyond import closures
from dssl.circuits.beyond.closures import Closures
from logic.hierarchies import hierarchy

WIDTH = 8


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gains of six rows, and evidence on some classes that one valid label agrees with."""
    random = np.random.default_rng(seed)
    rows = oracle.valid_columns(hierarchy(seed, WIDTH).constraints)
    agrees = rows[random.integers(len(rows), size=6)]
    known = random.random((6, WIDTH)) < 0.2
    return 2 * random.normal(size=(6, WIDTH)), known & agrees, known & ~agrees


def allowed(rows: np.ndarray, holds: np.ndarray, fails: np.ndarray) -> np.ndarray:
    return rows[(rows >= holds).all(axis=1) & ~(rows & fails).any(axis=1)]


@pytest.mark.parametrize("seed", range(40))
def test_the_heaviest_sum_of_gains(seed: int) -> None:
    space = hierarchy(seed, WIDTH)
    assert space.implications is not None
    gain, holds, fails = drawn(seed)
    found = Closures(space.implications).heaviest(gain, holds, fails)
    assert not space.check(found.astype(float))
    rows = oracle.valid_columns(space.constraints)
    for i in range(6):
        best = (allowed(rows, holds[i], fails[i]) @ gain[i]).max()
        assert found[i] @ gain[i] == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_the_most_probable_label_is_proven(seed: int) -> None:
    space = hierarchy(seed, WIDTH)
    assert space.implications is not None
    u, holds, fails = drawn(seed)
    pos, neg = -np.logaddexp(0, -u), -np.logaddexp(0, u)
    found, proven = Closures(space.implications).most_probable(pos, neg, holds, fails)
    assert proven.all()
    rows = oracle.valid_columns(space.constraints)
    for i in range(6):
        each = [oracle.from_the_top(space, row, u[i]) for row in allowed(rows, holds[i], fails[i])]
        assert oracle.from_the_top(space, found[i], u[i]) == pytest.approx(max(each), abs=1e-6)


def test_a_search_that_ends_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Valid labels all the same, and never more probable than the best."""
    monkeypatch.setattr(closures, "_MOST", 1)
    doubted = 0
    for seed in range(30):
        space = hierarchy(seed, WIDTH, share=0.5)
        assert space.implications is not None
        u, nothing = 3 + np.random.default_rng(seed).normal(size=(4, WIDTH)), np.zeros((4, WIDTH), bool)
        pos, neg = -np.logaddexp(0, -u), -np.logaddexp(0, u)
        found, proven = Closures(space.implications).most_probable(pos, neg - 3, nothing, nothing)
        assert not space.check(found.astype(float))
        doubted += int((~proven).sum())
    assert doubted


def test_gains_of_very_different_sizes() -> None:
    space = hierarchy(0, WIDTH)
    assert space.implications is not None
    gain, nothing = np.full((1, WIDTH), -1e300), np.zeros((1, WIDTH), bool)
    gain[0, 0] = 1e-300
    found = Closures(space.implications).heaviest(gain, nothing, nothing)
    assert not found.any() or found[0] @ gain[0] >= 0
