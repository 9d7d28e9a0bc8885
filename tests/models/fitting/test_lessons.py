"""Lessons: how much labelled, partly labelled and unlabelled rows count."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_sample_weight

from dssl import DataError, DSSLClassifier, LabelSpace
from dssl.models.fitting.lessons import Lesson, by_class, counting, held_out

NAN = np.nan
SPACE = LabelSpace("a, b")
COLUMNS = np.array([[1, 0], [1, NAN], [NAN, NAN], [NAN, NAN]], dtype=np.float32)


def lesson(weight: list[float], held: list[int] | None = None) -> Lesson:
    return Lesson(
        SPACE, np.zeros((4, 1)), COLUMNS, np.array(weight, dtype=np.float64), np.array(held or [], dtype=np.int64)
    )


def test_kinds_of_rows() -> None:
    rows = lesson([1, 1, 1, 1])
    assert rows.labelled.tolist() == [True, True, False, False]
    assert rows.open.tolist() == [False, True, True, True]
    assert lesson([1, 1, 1, 1], [0]).kept.tolist() == [1, 2, 3]


def test_a_row_of_weight_two_is_two_rows() -> None:
    """Labelled rows weigh 1 in the mean, unlabelled ones their share of all rows."""
    assert lesson([1, 1, 1, 1]).data().batch(np.arange(4)).weight.tolist() == [1, 1, 0.5, 0.5]
    weighed = lesson([2, 2, 2, 6]).data().batch(np.arange(4)).weight
    np.testing.assert_allclose(weighed, [1, 1, 8 / 12 * 0.5, 8 / 12 * 1.5], rtol=1e-6)
    assert lesson([1, 1, 1, 1]).share(lesson([1, 1, 1, 1]).open) == 0.75


def test_unlabelled_rows_of_no_weight_hardly_count() -> None:
    assert lesson([1, 1, 1e-4, 1e-4]).data().batch(np.arange(4)).weight[2:].max() < 2e-4


def test_open_rows_of_a_batch() -> None:
    assert lesson([1, 1, 1, 1]).open_in_a_batch(2, 2) == 3
    assert lesson([1, 1, 1, 1]).open_in_a_batch(2, 0) == 1
    assert lesson([1, 1, 1, 1], [1, 2, 3]).open_in_a_batch(2, 2) == 1  # at least


def test_rows_to_validate_on_are_labelled() -> None:
    columns = np.repeat(COLUMNS, 5, axis=0)
    held = held_out(columns, 0.2, np.random.RandomState(0))
    assert len(held) == 2
    assert (held < 10).all()
    with pytest.raises(DataError, match=r"2 labelled rows are too few to hold out a fraction of 0\.2\nLeave"):
        held_out(COLUMNS, 0.2, np.random.RandomState(0))


# ---- weights of classes ----


def test_balanced_classes_are_scikit_learns() -> None:
    y = np.random.default_rng(0).choice(["a", "b", "c"], 50, p=[0.7, 0.2, 0.1])
    space = LabelSpace.classes(["a", "b", "c", "d"])
    found = by_class(space, space.encode(y), np.ones(50), "balanced")
    np.testing.assert_allclose(found, compute_sample_weight("balanced", y))
    twice = by_class(space, space.encode(y[:25]), np.full(25, 2.0), "balanced")
    np.testing.assert_allclose(twice, compute_sample_weight("balanced", y[:25]))


def test_weights_of_several_variables_are_multiplied_and_unknown_ones_count_as_one() -> None:
    space = LabelSpace("kind: {cat, dog}\nlegs\nage: 1..3")
    y = space.encode(
        [{"kind": "cat", "legs": 1, "age": 2}, {"kind": "dog", "legs": None}, {"legs": 1}, {"kind": "dog", "age": 3}]
    )
    asked = {"kind": {"dog": 3}, "legs": {True: 2, 0: 5}, "age": {3: 7}}
    assert by_class(space, y, np.ones(4), asked).tolist() == [2, 3, 2, 21]
    assert by_class(space, y, np.ones(4), None).tolist() == [1] * 4
    numbers = LabelSpace.classes([0, 1])  # as float classes are held
    assert by_class(numbers, numbers.encode([0, 1]), np.ones(2), {1.0: 4}).tolist() == [1, 4]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("balanced", "is for one variable, and there are 2\nGive it by variable"),
        ({"kind": {"cow": 2}}, "'kind' cannot be 'cow'\n"),
        ({"kind": {"cat": -1}}, "-1 for 'cat' is not a weight\nGive a number"),
        ({"kind": {"cat": float("nan")}}, "nan for 'cat' is not a weight"),
        ({"kind": "even"}, "class_weight of 'kind' is 'even'\nGive"),
        ({"kinds": "balanced"}, "is for one variable"),
    ],
)
def test_weights_that_do_not_fit_are_refused(asked: object, said: str) -> None:
    space = LabelSpace("kind: {cat, dog}\nlegs")
    with pytest.raises(DataError, match=said):
        by_class(space, space.encode([{"kind": "cat", "legs": 1}]), np.ones(1), asked)


def test_a_class_that_weighs_more_is_predicted_more_often() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(200, 1)), np.where(random.random(200) < 0.8, "often", "rarely")
    x[y == "rarely"] += 0.7

    def rare(weight: object) -> int:
        told = {"class_weight": weight} if weight else None
        model = DSSLClassifier(steps=100, prior=None, calibrate=False, objective=told, random_state=0)
        return int((model.fit(x, y).predict(x) == "rarely").sum())

    assert rare({"rarely": 20}) > rare("balanced") > rare(None)


def test_rows_that_count_for_something() -> None:
    weight = np.array([1.0] * 5 + [0.005] * 1000)
    assert counting(weight)[:5].all()
    assert not counting(weight[:100]).all()
    assert counting(np.array([1.0] + [0.005] * 10_000)).all()  # together they are the usual ones
    assert counting(np.full(3, 1e200)).all()
