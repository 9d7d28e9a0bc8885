"""Every case is cut as it says: few labels, valid ones, the same by the same seed, and nothing of the test rows."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import cases
import numpy as np
import pytest
import splits
from cases import ACCURACY, AREA, CASES, CHOOSE, EXACT, REPORT, SEEDS, Case

from dssl.logic.space import LabelSpace


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    if not request.param.here:
        request.getfixturevalue("data_folder")
    return request.param


def test_a_case_is_cut_as_it_says(case: Case) -> None:
    cut = case.make(3)
    assert (cut.rules is None) == (case.rules is None) == (case.space is None)
    assert len(cut.X_train) == len(cut.y_train) <= 3000
    assert len(cut.X_test) == len(cut.y_test) <= 1500
    assert cut.X_train.shape[1:] == cut.X_test.shape[1:]
    assert np.isfinite(cut.X_train).all()
    assert np.isfinite(cut.X_test).all()
    assert (cut.y_test >= 0).all()  # all of it is known
    assert cut.labelled + cut.partial > 0
    if cut.rules is not None:
        assert cut.y_test.shape[1] == cut.y_train.shape[1] == cut.rules.width
        assert not cut.rules.check(cut.y_test)
        assert not cut.rules.check(cut.y_train)
        assert set(case.targets) <= {variable.name for variable in cut.rules.variables}
        assert ("partial" in case.kind) == (cut.partial > 0)
    elif case.metric == ACCURACY:
        assert cut.y_test.ndim == 1
    if "many labels" not in case.kind and "partial" not in case.kind:
        assert cut.unlabelled >= 0.9 * cut.labelled  # the smallest sets have half their rows labelled


def test_a_seed_says_all(case: Case) -> None:
    first, again, other = case.make(0), case.make(0), case.make(1)
    for name in ("X_train", "y_train", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    if "100 %" not in case.name:  # published rows, all with labels
        assert not np.array_equal(first.y_train, other.y_train, equal_nan=True)


def test_there_are_cases_of_every_kind_on_both_sides() -> None:
    assert len(CASES) >= 40
    assert set(SEEDS[CHOOSE]).isdisjoint(SEEDS[REPORT])
    by_side = {side: Counter(kind for c in CASES.values() if c.side == side for kind in c.kind) for side in SEEDS}
    assert set(by_side[CHOOSE]) == set(by_side[REPORT])
    sides = Counter(case.side for case in CASES.values())
    assert abs(sides[CHOOSE] - sides[REPORT]) <= 2
    assert {case.metric for case in CASES.values()} == {ACCURACY, EXACT, AREA}


def test_without_the_folder_there_are_cases_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSSL_DATA", raising=False)
    here = [case for case in CASES.values() if case.here]
    assert {"digits, 20", "moons", "sudoku", "taxonomy 0, 150"} <= {case.name for case in here}
    assert not {"grid paths", "cellcycle, 10 %", "animals, ten unseen"} & {case.name for case in here}
    for case in here:
        case.make(5)


def test_rare_classes_are_rare_and_labels_by_hand_even() -> None:
    for name in ("rare digit, 10 + 10", "rare cloud, 10 + 10"):
        cut = CASES[name].make(0)
        assert np.bincount(cut.y_train[cut.y_train >= 0]).tolist() == [10, 10]
        assert 0.02 < cut.y_test.mean() < 0.06
    by_hand = CASES["uneven digits, labels by hand"].make(0).y_train
    assert np.bincount(by_hand[by_hand >= 0]).tolist() == [6] * 10


def test_unseen_animals_have_no_labels(data_folder: Path) -> None:
    cut = CASES["animals, ten unseen"].make(0)
    assert (cut.y_train[cut.known.any(axis=1)][:, :50].sum(axis=0) > 0).tolist() == [True] * 40 + [False] * 10
    assert (cut.y_test[:, :50].sum(axis=0) > 0).all()


def test_rows_are_cut_without_overlap_and_told_in_part() -> None:
    x, y = np.arange(20.0)[:, None], np.eye(4, dtype=np.float32)[np.arange(20) % 4]
    space = LabelSpace("a: 0..3")
    tells = np.array([False, False, True, True])
    cut = splits.cut(x, y, space, 1, labels=4, train=12, test=5, even=np.arange(20) % 4, tells=tells, partial=3)
    assert (cut.labelled, cut.partial, cut.unlabelled) == (4, 3, 5)
    assert not set(cut.X_train.ravel()) & set(cut.X_test.ravel())
    whole = cut.known.all(axis=1)
    assert cut.y_train[whole].sum(axis=0).tolist() == [1] * 4
    np.testing.assert_array_equal(
        np.where(cut.known, cut.y_train, 0), np.where(cut.known, y[cut.X_train.ravel().astype(int)], 0)
    )


def test_the_list() -> None:
    script = Path(cases.__file__)
    done = subprocess.run(
        [sys.executable, script, "--kind", "imbalanced"], capture_output=True, text=True, check=True, cwd=script.parent
    )
    assert "rare cloud, 10 + 10" in done.stdout
    assert "blobs" not in done.stdout
