"""Which rows are worth labelling next: those whose labels tell most, without the same kind again and again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
_FLOOR = 0.02  # of novelty: where all rows are alike, information decides
_ZERO = 1e-12


def worth_labelling(information: Numbers, kinds: Numbers, asked: Sequence[int] = (), most: int = 20) -> list[int]:
    """Row numbers from 0, the most worthwhile first; those in `asked` are left out, and their kind counts as seen.

    * `information` (n,): what a label of the row would tell, H(y | x, V) in nats.
    * `kinds` (n, d): what is predicted for the row. Rows with similar predictions are of one kind.

    Each choice is the row with the largest information × novelty, where novelty is 1 minus the largest cosine between
    its prediction (less the mean one) and those asked about or chosen before.

    >>> worth_labelling(np.array([0.9, 0.8, 0.5]), np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), most=2)
    [0, 2]
    """
    unit = kinds - kinds.mean(axis=0)
    unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), _ZERO)
    novelty = np.ones(len(unit))
    open_rows = np.ones(len(unit), dtype=bool)
    for row in asked:
        novelty = np.minimum(novelty, 1 - unit @ unit[row])
        open_rows[row] = False
    out: list[int] = []
    for _ in range(min(most, int(open_rows.sum()))):
        score = np.where(open_rows, information * np.clip(novelty, _FLOOR, 1), -1.0)
        row = int(score.argmax())
        out.append(row)
        open_rows[row] = False
        novelty = np.minimum(novelty, 1 - unit @ unit[row])
    return out
