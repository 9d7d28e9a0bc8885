"""The rows that a model gets wrong, the most confident mistakes first: these teach most about data and rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dssl.app.findings.pictures import picture
from dssl.app.measures import Part, label_probability, label_text, row_hits

_LONGEST = 96  # pixels of a picture


@dataclass(frozen=True)
class Mistake:
    """A row that is predicted wrong: what is known of it, what is predicted, and how sure that was.

    `cells`: its own columns; `picture`: the row as an image, in a data address.
    """

    row: int
    name: str | None
    truth: str
    label: str
    probability: float
    cells: dict[str, str]
    picture: str | None


def mistakes(
    part: Part,
    most: int,
    number: Callable[[int], int],
    names: Sequence[str] | None,
    cells: Callable[[int], dict[str, str]],
    X: Any,
) -> tuple[Mistake, ...]:
    """At most so many wrong rows of a part. `X` holds its rows as the model takes them."""
    hits, known = row_hits(part)
    wrong = np.flatnonzero(known & ~hits)
    if not len(wrong):
        return ()
    chance = label_probability(part, wrong.tolist())
    order = np.argsort(-chance, kind="stable")[:most]
    out = []
    for at, p in zip(wrong[order].tolist(), chance[order].tolist()):
        row = int(part.rows[at])
        out.append(
            Mistake(
                number(row),
                None if names is None else str(names[row]),
                _truth(part, at),
                label_text(part.space, part.final[at]),
                p,
                cells(row),
                _image(X, at),
            )
        )
    return tuple(out)


def _truth(part: Part, at: int) -> str:
    """What is known of a row, on one line."""
    if not np.isnan(part.known[at]).any():
        return label_text(part.space, part.known[at])
    said = []
    for variable, value in zip(part.space.variables, part.truth[at].tolist()):
        if value >= 0:
            said.append(("" if value else "not ") + variable.name if variable.binary else str(variable.values[value]))
    unlike = [name for name, value in zip(part.space.columns, part.known[at].tolist()) if value == 0]
    return ", ".join(said) or ", ".join(f"not {name}" for name in unlike[:8])


def _image(X: Any, at: int) -> str | None:
    pixels = np.asarray(X[at]) if getattr(X, "ndim", 0) in (3, 4) else None
    return None if pixels is None else picture(pixels, _LONGEST)
