"""Scales: whether features share one scale or have one each, decided by labelled rows that are left out in turn.

The spread of features with one unit (pixels, counts, distances) says how much they matter, and that is lost if each
is divided by its spread. With different units it says nothing, and the largest numbers would drown the others. Spreads
say which is likely, and ridge regression whether left-out labels are predicted better by the other choice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dssl.data.features import Standardiser
from dssl.logic.labels import Columns
from dssl.models.auto.ground import Floats, tells
from dssl.models.auto.judging import left_out_errors
from dssl.models.fitting.lessons import counting

_BETTER = -1.5  # standard errors by which the other choice predicts left-out labels better, at least
_UNITS = 20.0  # times the median spread, above which a feature has a unit of its own, whatever a few labels say
_JUDGED = 300  # labelled rows that are left out in turn


def judge_scales(
    x: Any, columns: Columns, weight: Floats, found: Standardiser
) -> tuple[Standardiser, tuple[str, str] | None]:
    """How to scale rows x (n, features) with label columns (n, width), and what to say about it in a plan.

    `found` is what spreads say. The other choice is made if it clearly predicts left-out labels better, and spreads are
    not so different that units must differ.
    """
    if not isinstance(x, np.ndarray) or x.ndim != 2:
        return found, None
    known = np.flatnonzero(~np.isnan(columns).any(axis=1) & counting(weight))[:_JUDGED]
    one, each = (Standardiser.fit(x, weight, shared=shared) for shared in (True, False))
    apart = each.scale.max() > _UNITS * np.median(each.scale)
    if apart or np.allclose(one.scale, each.scale) or not tells(columns[known], weight[known]):
        return found, None
    left = {
        name: left_out_errors(scaled(x[known]).astype(np.float64), columns[known], weight[known])
        for name, scaled in (("one for all", one), ("one each", each))
    }
    taken, other = ("one for all", "one each") if np.allclose(found.scale, one.scale) else ("one each", "one for all")
    if left[other].behind(left[taken]) <= _BETTER:
        taken, other = other, taken
    share, others = (f"{left[name].share:.0%}" for name in (taken, other))
    figures = f"leaves {share} of the variance of left-out labels unexplained, {other} {others}"
    return (one if taken == "one for all" else each), (taken, figures)
