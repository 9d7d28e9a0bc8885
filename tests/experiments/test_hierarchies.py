"""Gene functions in a tree: labels shown, the tree's outputs, the measures, and what the page says."""

from __future__ import annotations

import os
from dataclasses import asdict

import hierarchies
import numpy as np
import pytest
import torch
from hierarchies import Settings, Tree, Tuned

from dssl.logic.space import LabelSpace
from dssl.models.decoding import Decoder

COLUMNS = ["01", "01/01", "01/01/02", "01/03", "02"]
ABOVE = np.array([-1, 0, 1, 0, -1])


def test_parents_are_read_from_names() -> None:
    assert hierarchies.parents(COLUMNS).tolist() == ABOVE.tolist()


def test_labels_are_shown_of_as_many_rows_as_asked() -> None:
    y = np.arange(40).reshape(20, 2) % 2
    found = hierarchies.shown(y, 30, seed=1)
    known = ~np.isnan(found).any(axis=1)
    assert known.sum() == 6
    assert (found[known] == y[known]).all()
    assert np.isnan(found[~known]).all()
    assert (hierarchies.shown(y, 100, seed=1) == y).all()


def test_the_tree_gives_logits_whose_marginals_are_products_of_conditionals() -> None:
    """p(y_k = 1 | V) = Π σ(u_j) over k and all above it."""
    space = LabelSpace.hierarchy({name: [COLUMNS[i]] if i >= 0 else [] for name, i in zip(COLUMNS, ABOVE)})
    assert list(space.columns) == COLUMNS
    u = torch.randn(7, 5, generator=torch.Generator().manual_seed(0)) * 3
    p = u.sigmoid().numpy()
    expected = np.stack([p[:, 0], p[:, 0] * p[:, 1], p[:, 0] * p[:, 1] * p[:, 2], p[:, 0] * p[:, 3], p[:, 4]], axis=1)
    np.testing.assert_allclose(Decoder(space).marginals(Tree(ABOVE)(u)), expected, rtol=1e-4, atol=1e-6)


def test_outputs_begin_at_log_odds_given_the_parent() -> None:
    y = np.array([[1, 1, 0, 0, 0], [1, 0, 0, 1, 0], [0, 0, 0, 0, 1], [np.nan] * 5])
    given = hierarchies.log_odds(y, ABOVE).sigmoid().numpy()
    np.testing.assert_allclose(given, [2.5 / 4, 1.5 / 3, 0.5 / 2, 1.5 / 3, 1.5 / 4], rtol=1e-5)
    alone = hierarchies.log_odds(y).sigmoid().numpy()
    np.testing.assert_allclose(alone, [2.5 / 4, 1.5 / 4, 0.5 / 4, 1.5 / 4, 1.5 / 4], rtol=1e-5)


def test_the_area_is_over_all_pairs() -> None:
    """Ranked: right, wrong, right. Precision 1 at recall ½, ⅔ at recall 1."""
    y, p = np.array([[1, 0], [0, 1]]), np.array([[0.9, 0.6], [0.1, 0.5]])
    assert hierarchies.area(y, p) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_coherence_counts_rows() -> None:
    space = LabelSpace("a, b\nb -> a")
    assert hierarchies.coherent(space, np.array([[1, 1], [0, 1], [0, 0], [1, 0]])) == 0.75


def test_surprise_is_in_nats_a_row() -> None:
    found = hierarchies.surprise(np.array([[1, 0], [0, 0]]), np.array([[0.5, 0.5], [0.75, 0.0]]))
    assert found == pytest.approx((2 * np.log(2) + np.log(4)) / 2, abs=1e-5)


def test_where_all_have_labels_fewer_methods_are_run() -> None:
    settings = Settings()
    found = hierarchies.cases(settings)
    few, swept = len(hierarchies.METHODS) - 2, 2
    assert len(found) == 5 * (2 * (3 * few + swept) + 3 * len(hierarchies.WITH_ALL))
    assert {case["method"] for case in found if case["labels"] == 100} == set(hierarchies.WITH_ALL)
    assert {case["set"] for case in found if case["method"] == "dp10"} == {"cellcycle"}


def _record(area: float) -> dict:
    settings = asdict(Settings(sets={"eisen": Tuned(0.5, 1e-3, "cosine", 0.99, 1)}, seeds=2))
    same = {"raw_area": 0.25, "coherent": 1.0, "raw_coherent": 0.9, "f1": 0.1, "calibration": 0.01}
    same |= {"raw_calibration": 0.02, "surprise": 30.0}
    runs = [
        {"set": "eisen", "labels": labels, "method": method, "seed": seed, "area": area + 0.01 * seed, **same}
        for labels in (100, 30)
        for method in ("none", "semantic", "dp2", "likelihood")
        for seed in (0, 1)
    ]
    return {"settings": settings, "runs": runs}


def test_the_page_says_whether_the_goal_is_met() -> None:
    page = hierarchies.page(_record(0.305))
    assert "| eisen | 0.306 | 0.3100 ± 0.0050 | 100 % | met |" in page
    assert "is met on 1 of 1 sets." in page
    assert "**eisen, 30 % of the labels**" in page
    page = hierarchies.page(_record(0.295))
    assert "| eisen | 0.306 | 0.3000 ± 0.0050 | 100 % | missed |" in page
    assert "is met on 0 of 1 sets." in page


def test_the_figure_is_drawn(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(hierarchies, "PICTURES", tmp_path)
    hierarchies.figures(_record(0.3))
    assert "<svg" in (tmp_path / "hierarchies.svg").read_text()


@pytest.mark.skipif("DSSL_DATA" not in os.environ, reason="DSSL_DATA names no folder with the data sets")
@pytest.mark.parametrize("method", ["likelihood", "dp2"])
def test_a_run_decodes_only_what_is_coherent(method: str) -> None:
    settings = Settings(sets={"eisen": Tuned(0.5, 1e-3, "cosine", 0.99, 3)}, hidden=16, valid=True)
    found = hierarchies.one("eisen", 10, method, 0, settings)
    assert found["coherent"] == 1
    assert 0.02 < found["area"] < 0.3
