"""Random hierarchies in which classes may have several others right above them."""

from __future__ import annotations

import numpy as np

from dssl.logic.space import LabelSpace


def edges(seed: int, classes: int = 7, share: float = 0.35) -> list[tuple[int, int]]:
    """Pairs (class, a class above it) without a circle; at least one."""
    random = np.random.default_rng(seed)
    order = random.permutation(classes)
    found = [(int(order[i]), int(order[j])) for i in range(classes) for j in range(i) if random.random() < share]
    return found or [(1, 0)]


def hierarchy(seed: int, classes: int = 7, share: float = 0.35, written: str = "{} -> {}") -> LabelSpace:
    """Classes k0, k1, … and a rule for each edge, in a form of one's choice."""
    rules = "\n".join(written.format(f"k{below}", f"k{above}") for below, above in edges(seed, classes, share))
    return LabelSpace(", ".join(f"k{i}" for i in range(classes)) + "\n" + rules)


def partly_known(seed: int, rows: int, classes: int) -> np.ndarray:
    """Rows of 1, 0 and NaN."""
    random = np.random.default_rng(seed)
    return random.choice([1.0, 0.0, np.nan], (rows, classes), p=[0.25, 0.25, 0.5]).astype(np.float32)
