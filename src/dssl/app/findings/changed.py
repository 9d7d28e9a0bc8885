"""What the rules changed: final predictions against those of the network alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dssl.app.measures import Part


@dataclass(frozen=True)
class Changed:
    """Of `rows` rows, how many are predicted differently because of the rules; of `known` rows with labels among all
    of them, how many became right by it, and how many wrong."""

    rows: int
    changed: int
    known: int
    better: int
    worse: int


def changed_by_rules(part: Part) -> Changed | None:
    """Final predictions against the network's most probable values; None without rules."""
    if not part.space.rules or not len(part):
        return None
    differs = (part.raw != part.final).any(axis=1)
    told = ~np.isnan(part.known)
    known = told.any(axis=1)
    before, after = (((columns == part.known) | ~told).all(axis=1) & known for columns in (part.raw, part.final))
    if part.missed is not None:
        before, after = before & (part.missed == 0), after & (part.missed == 0)
    return Changed(
        len(part), int(differs.sum()), int(known.sum()), int((after & ~before).sum()), int((before & ~after).sum())
    )
