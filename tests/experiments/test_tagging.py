"""Tags of words: the sentences, the measures, one short run, and the page's table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tagging
from ledger import KEPT, load

PAGE = Path(__file__).parents[2] / "docs" / "elements.md"


def test_sentences_obey_the_rule_and_names_are_of_their_words() -> None:
    x, tags = tagging.sentences(200, np.random.default_rng(0), 0.5)
    assert x.shape == tags.shape == (200, tagging.LENGTH)
    assert not tagging.space(True).check(np.array(tagging.TAGS, dtype=object)[tags]).invalid.any()
    assert np.isin(x[tags == 0], [*tagging.COMMON, tagging.MR, tagging.IN]).all()
    assert not np.isin(x[tags > 0], tagging.COMMON).any()
    assert set(np.unique(tags)) == set(range(5))


def test_names_are_found_in_tags() -> None:
    tags = np.array([[0, 1, 2, 0, 3, 3, 4, 0, 0, 2, 4, 1]])
    assert tagging.names(tags) == [
        (0, 1, 3, 1), (0, 4, 5, 2), (0, 5, 7, 2), (0, 9, 10, 1), (0, 10, 11, 2), (0, 11, 12, 1),
    ]  # fmt: skip


def test_measures_by_hand() -> None:
    truth = np.zeros((2, 12), dtype=int)
    truth[:, 3:5] = [1, 2]
    found = truth.copy()
    found[1, 3] = 0  # an I without its B
    got = tagging.measures(found, truth)
    assert got == {"tags": pytest.approx(23 / 24, abs=1e-5), "names": 0.5, "invalid": 0.5}


@pytest.mark.parametrize("method", tagging.METHODS)
def test_a_short_run(method: str) -> None:
    found = tagging.one(method, 0, replace(tagging.Settings(), sentences=100, test=50))
    assert found["tags"] > 0.5
    assert (found["invalid"] == 0) or method == tagging.NO_RULES


def test_the_page_has_the_table() -> None:
    assert tagging.table(load("tagging", KEPT)) in PAGE.read_text()
