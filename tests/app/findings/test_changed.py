"""What rules changed, against a loop over rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl import LabelSpace
from dssl.app.findings.changed import Changed, changed_by_rules
from dssl.app.measures import Part
from dssl.models.decoding import Decoder

SPACE = LabelSpace("kind: {a, b, c}\nlegs, fins\nkind = a -> legs\nlegs -> !fins")


def part(space: LabelSpace, seed: int, rows: int = 30) -> Part:
    random = np.random.default_rng(seed)
    decoder = Decoder(space)
    truth = decoder.best(random.normal(0, 2, (rows, space.width)))
    for start, stop in space.spans:
        truth[random.random(rows) > 0.7, start:stop] = np.nan
    logits = torch.from_numpy(random.normal(0, 2, (rows, space.width)).astype(np.float32))
    return Part("test", rows, np.arange(rows), truth, logits, decoder)


@given(seed=st.integers(0, 10_000), missing=st.booleans())
@settings(max_examples=25, deadline=None)
def test_changes_are_those_that_a_loop_counts(seed: int, missing: bool) -> None:
    p = part(SPACE, seed)
    if missing:
        p = replace(p, missed=np.random.default_rng(seed).integers(0, 2, len(p)))
    changed = known = better = worse = 0
    for i in range(len(p)):
        raw, final, truth = p.raw[i].tolist(), p.final[i].tolist(), p.known[i].tolist()
        changed += raw != final
        told = [k for k, value in enumerate(truth) if value == value]
        known += bool(told)
        found = p.missed is None or p.missed[i] == 0
        before, after = (found and all(columns[k] == truth[k] for k in told) for columns in (raw, final))
        better += bool(told) and after and not before
        worse += bool(told) and before and not after
    assert changed_by_rules(p) == Changed(len(p), changed, known, better, worse)


def test_without_rules_nothing_is_changed() -> None:
    assert changed_by_rules(part(LabelSpace("kind: {a, b}"), 0)) is None
    found = changed_by_rules(part(SPACE, 1, 200))
    assert found is not None
    assert found.changed > 0
