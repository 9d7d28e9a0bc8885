"""The rows that are listed as wrong are wrong, all of them if they fit, the most confident first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from test_changed import SPACE, part

from dssl import LabelSpace
from dssl.app.findings.mistakes import mistakes
from dssl.app.measures import label_probability, label_text


def test_wrong_rows_are_listed_by_confidence() -> None:
    p = part(SPACE, 3)
    wrong = {
        i for i in range(len(p)) if any(t == t and t != f for t, f in zip(p.known[i].tolist(), p.final[i].tolist()))
    }
    found = mistakes(p, 100, lambda row: row + 2, [f"n{i}" for i in range(30)], lambda row: {"at": str(row)}, None)
    assert {m.row - 2 for m in found} == wrong
    assert [m.probability for m in found] == sorted((m.probability for m in found), reverse=True)
    for m in found:
        at = m.row - 2
        assert m.name == f"n{at}"
        assert m.cells == {"at": str(at)}
        assert m.picture is None
        assert m.label == label_text(p.space, p.final[at])
        assert m.probability == label_probability(p, [at])[0]
    assert mistakes(p, 4, lambda row: row + 2, None, lambda row: {}, None) == tuple(
        replace(m, name=None, cells={}) for m in found[:4]
    )


def test_nothing_wrong_is_an_empty_list() -> None:
    p = part(SPACE, 3)
    assert mistakes(replace(p, known=p.final.copy()), 9, int, None, lambda row: {}, None) == ()
    assert mistakes(replace(p, known=np.full_like(p.known, np.nan)), 9, int, None, lambda row: {}, None) == ()


def test_what_is_known_in_part_is_told_in_part() -> None:
    space = LabelSpace("kind: {a, b, c}\nlegs, fins")
    p = part(space, 0, 3)
    known = np.array([[0, 1, 0, np.nan, 0], [0, np.nan, np.nan, np.nan, np.nan], [1, 0, 0, 1, 0]])
    opposite = replace(p, known=known, logits=p.logits.new_tensor([[9.0, -9, -9, -9, 9]] * 3))
    found = {m.row: m.truth for m in mistakes(opposite, 9, int, None, lambda row: {}, None)}
    assert found == {0: "b, not fins", 1: "not kind=a", 2: "kind=a, legs"}


def test_rows_that_are_images_are_shown() -> None:
    p = part(SPACE, 3)
    found = mistakes(p, 3, int, None, lambda row: {}, np.random.default_rng(0).random((30, 1, 200, 100)))
    assert all(m.picture is not None and m.picture.startswith("data:image/png") for m in found)
