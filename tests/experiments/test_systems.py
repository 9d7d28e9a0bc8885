"""Systems answer in columns of the case's space, and scores are what a slow count says."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import systems
from cases import ACCURACY, AREA, CASES, CHOOSE, EXACT, Case
from sklearn.preprocessing import StandardScaler
from splits import Split
from systems import (
    CONSTANT,
    DEFAULT,
    FREE,
    LOGISTIC,
    PEERS,
    SUPERVISED,
    SYSTEMS,
    UNLABELLED_TOO,
    Answer,
    Task,
    answer_of,
    applies,
)

from dssl.logic.space import LabelSpace

SPACE = LabelSpace("kind: {a, b, c}\nround, heavy\nkind = a -> round")
TRUTH = np.array([[1, 0, 0, 1, 0], [0, 1, 0, 0, 1], [0, 0, 1, 0, 0], [0, 1, 0, 1, 1]], dtype=np.float32)


def small(seed: int, known: np.ndarray) -> Split:
    x = np.arange(4.0)[:, None] + seed
    return Split(x, known, x, TRUTH, SPACE)


def task(metric: str, targets: tuple[str, ...] = (), known: np.ndarray = TRUTH) -> Task:
    case = Case("small", CHOOSE, (), partial(small, known=known), metric, targets, lambda: SPACE)
    return Task.of(case, 0)


def test_scores() -> None:
    found = TRUTH.copy()
    found[0] = [0, 1, 0, 1, 0]  # another kind
    found[1, 4] = 0  # another weight
    answer = Answer(found, 0.2 + 0.6 * found)
    assert systems.score(task(EXACT), answer) == 0.5
    assert systems.score(task(ACCURACY, ("kind",)), answer) == 0.75
    assert systems.score(task(ACCURACY, ("kind", "heavy")), answer) == 0.75
    assert systems.score(task(ACCURACY), answer) == pytest.approx(10 / 12)
    assert systems.score(task(AREA), Answer(found, TRUTH)) == 1


def test_calibration_is_of_the_most_probable_values() -> None:
    p = np.array([[0.8, 0.1, 0.1, 0.9, 0.3]] * 4)
    kind, heavy = task(ACCURACY, ("kind",)), task(ACCURACY, ("heavy",))
    assert systems.calibration(kind, Answer(TRUTH, p)) == pytest.approx(0.8 - 1 / 4)
    assert systems.calibration(heavy, Answer(TRUTH, p)) == pytest.approx(0.7 - 2 / 4)  # "not heavy" is right in two
    assert systems.calibration(kind, Answer(TRUTH, None)) is None


def test_the_constant_is_the_most_frequent_label_or_value() -> None:
    known = np.vstack([TRUTH[[1, 1]], TRUTH[[3]], np.full((1, 5), np.nan)])
    whole = answer_of(CONSTANT, task(EXACT, known=known))
    np.testing.assert_array_equal(whole.labels, np.repeat(TRUTH[[1]], 4, axis=0))
    assert whole.probabilities is not None
    np.testing.assert_allclose(whole.probabilities[0], [0, 1, 0, 1 / 3, 1])
    nothing = answer_of(CONSTANT, task(ACCURACY, ("kind",), known=np.where(np.arange(5) < 3, np.nan, TRUTH)))
    assert nothing.probabilities is not None
    np.testing.assert_allclose(nothing.probabilities[:, :3], 1 / 3)


def test_a_tie_is_broken_by_chance() -> None:
    rare = Task.of(CASES["rare cloud, 10 + 10"], 0)
    assert systems.score(rare, answer_of(CONSTANT, rare)) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("name", systems.SKLEARN)
def test_a_peer_is_the_classifier_of_scikit_learn(name: str) -> None:
    """The same score as by its own `fit` and `score`, and better than a constant."""
    iris = Task.of(CASES["iris, 15"], 0)
    assert applies(name, iris.case)
    cut, scaler = iris.cut, StandardScaler().fit(iris.cut.X_train)
    x, rows = scaler.transform(cut.X_train), (cut.y_train >= 0) | (name in UNLABELLED_TOO)
    model = systems.SKLEARN[name](x, 0).fit(x[rows], cut.y_train[rows])
    found = systems.score(iris, answer_of(name, iris))
    assert found == pytest.approx(model.score(scaler.transform(cut.X_test), cut.y_test))
    assert found > systems.score(iris, answer_of(CONSTANT, iris))


def test_each_variable_is_learned_from_the_rows_that_know_it() -> None:
    """Of digit sums only totals are known: digits are then a guess."""
    sums = Task.of(CASES["digit sums"], 0)
    assert systems.score(sums, answer_of(LOGISTIC, sums)) == pytest.approx(0.1, abs=0.05)
    told = Task.of(CASES["digit sums, 40 pairs told"], 0)
    assert systems.score(told, answer_of(LOGISTIC, told)) > 0.5


@pytest.mark.parametrize("name", [SUPERVISED, FREE, DEFAULT])
def test_ours_answers_in_columns(name: str, data_folder: object) -> None:
    zoo = Task.of(CASES["zoo, 34"], 0)
    answer = answer_of(name, zoo)
    assert answer.labels.shape == answer.probabilities.shape == zoo.truth.shape
    assert systems.score(zoo, answer) > systems.score(zoo, answer_of(CONSTANT, zoo))
    assert (len(zoo.space.check(answer.labels)) == 0) or name == FREE


def test_classes_that_no_label_has_are_never_answered() -> None:
    """Labels at random may miss a class: answers have a column for it all the same."""
    case = CASES["uneven digits, labels at random"]
    seed = next(s for s in range(50) if len(np.unique(case.make(s).y_train)) < 11)
    uneven = Task.of(case, seed)
    missed = np.setdiff1d(np.arange(10), uneven.cut.y_train)
    for name in (LOGISTIC, "forest", SUPERVISED):
        answer = answer_of(name, uneven)
        assert answer.labels.shape == (len(uneven.truth), 10)
        assert answer.probabilities is not None
        assert not answer.probabilities[:, missed].any()


def test_which_systems_apply() -> None:
    assert {name for name in SYSTEMS if applies(name, CASES["digits, 20"])} == set(SYSTEMS) - {FREE}
    assert {name for name in SYSTEMS if applies(name, CASES["animals, 100"])} == set(SYSTEMS)
    for several in ("emotions, 50", "tree, 100", "sudoku", "digit sums"):
        assert not any(applies(name, CASES[several]) for name in PEERS)


def test_a_run_says_what_it_was_made_of() -> None:
    first, again, other = (systems.measured(name, CASES["moons"], s) for name, s in
                           ((CONSTANT, 0), (LOGISTIC, 0), (CONSTANT, 1)))  # fmt: skip
    assert (first["labelled"], first["unlabelled"]) == (10, 990)
    assert first["data"] == again["data"] != other["data"]
    assert set(first) == {"score", "calibration", "took", "labelled", "unlabelled", "data"}
