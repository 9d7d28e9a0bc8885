"""The simulated expert: rows chosen, a short run, and the page's table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import labelling
import numpy as np
import pytest
from ledger import KEPT, load

PAGE = Path(__file__).parents[2] / "docs" / "workbench.md"


def test_products_have_tags_that_obey_the_rules() -> None:
    texts, tags, test_texts, test_tags = labelling.products(0)
    assert (len(texts), len(test_texts)) == (len(tags), len(test_tags)) == (1500, 500)
    space = labelling.LabelSpace.read(labelling.TAXONOMY / "products.rules")
    assert not len(space.check(labelling.matrix(test_tags, space)))


@pytest.mark.parametrize("method", labelling.METHODS)
def test_a_short_run(method: str) -> None:
    found = labelling.one(method, 0, replace(labelling.Settings(), answers=10, steps=40))
    assert list(found["curve"]) == ["0", "10"]
    assert 0.1 < found["curve"]["10"] <= 1


def test_answers_needed_are_those_after_which_a_curve_stays_above() -> None:
    curve = {0: 0.3, 10: 0.7, 20: 0.6, 30: 0.8}
    assert [labelling.needed(curve, a) for a in (0.2, 0.65, 0.9)] == [0, 30, None]


def test_the_page_has_the_table() -> None:
    record = load("labelling", KEPT)
    assert labelling.table(record) in PAGE.read_text()
    assert len({run["seed"] for run in record["runs"]}) == labelling.Settings().seeds
    assert np.isfinite([accuracy for curve in labelling.means(record).values() for accuracy in curve.values()]).all()
