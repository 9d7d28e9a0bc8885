"""Labels without a space: which entries are unknown, and what the others are values of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars
import pytest

from dssl import LabelSpace, learn_prior
from dssl.data.targets import Targets, space_of
from dssl.errors import DataError
from dssl.logic.induction.tally import read
from dssl.logic.inferred import column_names, space_of_labels, unknown
from logic.messages import BadCall, calls_about, check_call

NAN = float("nan")


def test_unknown_entries() -> None:
    assert unknown(np.array([1.0, np.nan, -1.0])).tolist() == [False, True, True]
    assert unknown(np.array(["-1", "1"])).tolist() == [True, False]
    assert unknown(np.array([True, False])).tolist() == [False, False]
    assert unknown(np.array([None, True, -1, pd.NA], dtype=object)).tolist() == [True, False, True, True]
    assert unknown(np.array([0, 1]), "?").tolist() == [False, False]


def test_spaces_of_labels() -> None:
    assert space_of_labels(np.array([3, 1, -1, 3])) == LabelSpace.classes([1, 3])
    assert space_of_labels([1.0, NAN, 0.0]) == LabelSpace.classes([0, 1])
    assert space_of_labels([[1, 0, NAN]]) == LabelSpace.attributes(["label0", "label1", "label2"])
    assert space_of_labels(polars.DataFrame({"legs": [1], "fins": [0]})) == LabelSpace.attributes(["legs", "fins"])
    with pytest.raises(DataError, match="no label is known"):
        space_of_labels([None, -1])
    with pytest.raises(DataError, match=r"shape \(1, 1, 1\)"):
        space_of_labels(np.zeros((1, 1, 1)))


def test_classes_stay_in_numerical_order() -> None:
    assert space_of_labels(np.array([10, 9, 2])) == LabelSpace.classes([2, 9, 10])


def test_measured_numbers_are_no_classes() -> None:
    with pytest.raises(DataError, match=r"hold 0\.5\nUse whole numbers or names"):
        space_of_labels([0.5, 1.0])


def test_another_mark_for_unknown_makes_minus_one_a_class() -> None:
    assert space_of_labels(np.array([3, -1]), unlabelled=None) == LabelSpace.classes([-1, 3])


@pytest.mark.parametrize("labels", [["cat", "dog", None], [2, 7, -1], [0.0, 1.0, NAN], [True, False, None]])
def test_estimators_and_learned_priors_see_the_same_space(labels: list[object]) -> None:
    assert Targets.of(labels).space == space_of_labels(labels) == learn_prior(labels).space


@pytest.mark.parametrize("values", [[1, 0, None], ["true", "", "false"], ["7", "12", None], ["cat", "dog", "cat"]])
def test_rules_estimators_and_priors_infer_the_same_variables_from_named_columns(values: list[object]) -> None:
    frame = {"a": values, "b": [0, 1, 1]}
    records = [dict(zip(frame, row)) for row in zip(*frame.values())]
    space = space_of_labels(frame)
    assert read(frame).space == Targets.of(records).space == space
    assert space_of("b | !b", records).variables == space.variables


def test_columns_without_names_are_called_the_same_everywhere() -> None:
    matrix = np.array([[0, 1], [1, 1]])
    assert column_names(2) == [v.name for v in read(matrix).space.variables] == list(space_of_labels(matrix).columns)


@pytest.mark.parametrize("case", calls_about("inferred"), ids=lambda case: case.reason)
def test_errors(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)
