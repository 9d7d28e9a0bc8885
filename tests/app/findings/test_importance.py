"""Columns matter as far as accuracy on held-out rows falls without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dssl import DSSLClassifier
from dssl.app.findings.importance import _shuffled, importances
from dssl.app.measures import Part


def case(sparse: bool = False, seed: int = 0) -> tuple[DSSLClassifier, Any, Part]:
    """Three columns: of two inputs that tell the label, of one that says nothing, of one that is always the same."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(300, 4))
    x[:, 3] = 1
    y = (x[:, 0] + x[:, 1] > 0).astype(int)
    model = DSSLClassifier(steps=60, random_state=0).fit(x[:100], y[:100])
    held: Any = sp.csr_matrix(x[100:]) if sparse else x[100:]
    known = model.targets_.encode(y[100:])
    return model, held, Part("test", 200, np.arange(200), known, model._logits(held), model.decoder_)


COLUMNS = {"noise": [2], "both": [0, 1], "same": [3]}


@pytest.mark.parametrize("sparse", [False, True])
def test_what_tells_the_label_comes_first_and_noise_is_not_clear(sparse: bool) -> None:
    model, x, part = case(sparse)
    found = importances(model, x, part, COLUMNS)
    assert found[0].column == "both"
    assert found[0].clear
    assert 0.3 < found[0].lost < 0.6  # half of the rows are right by chance
    by_name = {i.column: i for i in found}
    assert not by_name["noise"].clear
    assert (by_name["same"].lost, by_name["same"].spread, by_name["same"].clear) == (0.0, 0.0, False)


def test_the_loss_is_that_of_a_loop_over_shuffles() -> None:
    model, x, part = case()
    (found,) = importances(model, x, part, {"both": [0, 1]})
    random, lost = np.random.default_rng(0), []
    score = model.score(x, model.targets_.decode(part.known, None))
    for _ in range(5):
        order, changed = random.permutation(200), x.copy()
        for row in range(200):
            changed[row, 0], changed[row, 1] = x[order[row], 0], x[order[row], 1]
        lost.append(score - model.score(changed, model.targets_.decode(part.known, None)))
    assert found.lost == pytest.approx(np.mean(lost))
    assert found.spread == pytest.approx(np.std(lost))


def test_shuffling_moves_only_the_inputs_of_the_column() -> None:
    x = np.arange(20.0).reshape(5, 4)
    for given in (x, sp.csr_matrix(x)):
        out = _shuffled(given, [1, 3], np.random.default_rng(1))
        out = out.toarray() if sp.issparse(out) else out
        assert (out[:, [0, 2]] == x[:, [0, 2]]).all()
        assert (out[:, 3] - out[:, 1] == 2).all()  # both from the same row
        assert sorted(out[:, 1]) == sorted(x[:, 1])
        assert (out != x).any()


def test_few_rows_say_nothing() -> None:
    model, x, part = case()
    few = Part("test", 9, np.arange(9), part.known[:9], part.logits[:9], part.decoder)
    assert importances(model, x[:9], few, COLUMNS) == ()
    assert importances(model, x, part, {}) == ()
