"""Users' labels to columns and back, in every form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from sklearn.exceptions import DataConversionWarning

from dssl import DataError, LabelSpace, RuleError, symbols
from dssl.data.targets import Targets, plain, space_of

RULES = "species: {cat, trout}\nlegs, fins\nspecies = cat -> legs\nlegs -> !fins"


# ---- classes ----


@pytest.mark.parametrize(
    ("y", "classes", "known"),
    [
        ([0, 1, -1, 1], [0, 1], [1, 1, 0, 1]),
        (np.array([3, 7, -1]), [3, 7], [1, 1, 0]),
        (["b", "a", None, "b"], ["a", "b"], [1, 1, 0, 1]),
        ([4, 2, None, 4], [2, 4], [1, 1, 0, 1]),
        (["b", "a", float("nan")], ["a", "b"], [1, 1, 0]),
        (["b", "a", -1], ["a", "b"], [1, 1, 0]),
        (np.array(["b", "a", -1]), ["a", "b"], [1, 1, 0]),
        (np.array([0.0, 1.0, np.nan]), [0.0, 1.0], [1, 1, 0]),
        (np.array([True, False]), [False, True], [1, 1]),
        (pd.Series(["b", None, "a"]), ["a", "b"], [1, 0, 1]),
        (pd.Series([1, None, 2], dtype="Int64"), [1, 2], [1, 0, 1]),
        (pd.Series(pd.Categorical(["x", None, "y"])), ["x", "y"], [1, 0, 1]),
        (pl.Series(["b", None, "a"]), ["a", "b"], [1, 0, 1]),
        (torch.tensor([2, -1, 5]), [2, 5], [1, 0, 1]),
        (pd.DataFrame({"y": ["b", None]}), ["b"], [1, 0]),
    ],
    ids=str,
)
def test_classes_in_every_form(y: Any, classes: list[Any], known: list[int]) -> None:
    targets = Targets.of(y)
    assert targets.form == "classes"
    assert targets.classes.tolist() == classes
    columns = targets.encode(y)
    assert (~np.isnan(columns).all(axis=1)).astype(int).tolist() == known
    mask = np.array(known, dtype=bool)
    wanted = [value for value, kept in zip(plain(y).tolist(), known) if kept]
    assert targets.decode(columns[mask]).tolist() == wanted


def test_minus_one_can_be_a_class() -> None:
    y = np.array([-1, 1, -1])
    assert Targets.of(y, unlabelled=None).classes.tolist() == [-1, 1]
    assert Targets.of(["no", "?", "yes"], unlabelled="?").classes.tolist() == ["no", "yes"]
    assert not np.isnan(Targets.of(y, unlabelled=None).encode(y)).any()


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([-1, -1], "no row is labelled"),
        (np.array([0.5, 1.7]), "Unknown label type"),
        (np.array([0.0, np.inf]), "infinity"),
        ([1, "a"], "Unknown label type|mix"),
        (np.zeros((2, 2, 2)), "shape"),
    ],
    ids=str,
)
def test_labels_that_make_no_classes(y: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Targets.of(y)


def test_a_new_class_is_named() -> None:
    with pytest.raises(DataError, match=r"row 1: the class 'c' is not among"):
        Targets.of(["a", "b"]).encode(["a", "c"])


def test_a_class_is_not_cut_to_the_length_of_another() -> None:
    """Nor is a number rounded: labels of another type are compared whole."""
    names = Targets.of(["x", "y", None])
    with pytest.raises(DataError, match=r"row 1: the class 'yes' is not among"):
        names.encode(["x", "yes", None])
    numbers = Targets.of(np.array([0, 1, -1]))
    with pytest.raises(DataError, match=r"row 0: the class 0.5 is not among"):
        numbers.encode([0.5, None, 1])
    with pytest.raises(DataError, match=r"row 2: the class 'one' is not among"):
        numbers.encode(["1", None, "one"])
    assert numbers.encode(["1", None, True])[:, 1].tolist()[::2] == [1, 1]  # the same number, written otherwise
    assert Targets.of(["0", "1"]).encode(np.array([1, 0])).argmax(axis=1).tolist() == [1, 0]


def test_a_column_vector_is_taken_with_a_warning() -> None:
    with pytest.warns(DataConversionWarning, match="1d array"):
        assert Targets.of(np.array([[0], [1]])).form == "classes"


# ---- several labels ----


@pytest.mark.parametrize("form", [np.asarray, list, torch.as_tensor, lambda y: sp.csr_array(np.nan_to_num(y))])
def test_a_matrix_of_labels(form: Any) -> None:
    y = np.array([[1, 0, 1], [0, np.nan, 1]])
    targets = Targets.of(form(y))
    assert targets.form == "matrix"
    assert targets.classes.tolist() == [0, 1, 2]
    assert targets.encode(form(y))[0].tolist() == [1, 0, 1]
    assert targets.decode(np.array([[1.0, 0, 1]])).tolist() == [[1, 0, 1]]
    with pytest.raises(DataError, match=r"matrix \(n, 3\)"):
        targets.encode(np.zeros((2, 2)))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_come_back_as_frames(frame: Any) -> None:
    y = frame({"legs": [1, 0], "fins": [0, 1]})
    for rules in (None, "legs -> !fins"):
        targets = Targets.of(y, rules)
        assert targets.classes.tolist() == ["legs", "fins"]
        assert type(targets.decode(targets.encode(y))) is type(y)
        assert targets.decode(targets.encode(y)).equals(y)


@pytest.mark.parametrize(
    ("y", "form"),
    [
        (np.array([["cat", 1, 0], ["trout", 0, None]], dtype=object), "values"),
        (np.array([[0, 1, 0], [1, 0, np.nan]]), "indices"),
        (np.array([[1, 0, 1, 0], [0, 1, 0, np.nan]]), "columns"),
        ([{"species": "cat", "legs": True, "fins": False}, {"species": "trout", "legs": 0}], "records"),
        (pd.DataFrame({"species": ["cat", "trout"], "legs": [1, 0], "fins": [0, None]}), "pandas"),
        (pl.DataFrame({"species": ["cat", "trout"], "legs": [1, 0], "fins": [0, None]}), "polars"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_spaces_in_every_form(y: Any, form: str) -> None:
    targets = Targets.of(y, RULES)
    assert targets.form == form
    columns = targets.encode(y)
    assert columns[0].tolist() == [1, 0, 1, 0]
    back = targets.encode(targets.decode(columns[:1]))
    assert back.tolist() == columns[:1].tolist()
    assert targets.probabilities(columns).shape == (2, 4)


def test_whole_numbers_come_back_as_numbers() -> None:
    targets = Targets.of(np.array([[0, 1], [3, 0]]), "x: 0..3\neven\neven -> x in {0, 2}")
    assert targets.decode(np.array([[0, 0, 1, 0, 1.0]])).tolist() == [[2, 1]]


@pytest.mark.parametrize(
    ("rules", "y", "classes"),
    [("x: {a, b}", ["b", None], ["a", "b"]), ("x: 0..2", [2, -1], [0, 1, 2]), ("x", [1, 0], [0, 1])],
)
def test_a_single_variable_is_a_vector(rules: str, y: list[Any], classes: list[Any]) -> None:
    targets = Targets.of(y, rules)
    assert targets.form == "vector"
    assert targets.classes.tolist() == classes
    assert targets.decode(targets.encode(y)[:1]).tolist() == y[:1]
    assert targets.probabilities(targets.encode(y)[:1]).shape == (1, len(classes))


def test_another_mark_for_unknown_in_matrices() -> None:
    targets = Targets.of(np.array([[1, 9], [0, 1]]), unlabelled=9)
    assert np.isnan(targets.encode(np.array([[1, 9]]))).tolist() == [[False, True]]


def test_state_comes_back() -> None:
    for y, rules in ((["b", "a"], None), ([[1, 0]], None), ([{"legs": 1, "fins": 0}], "legs -> !fins")):
        targets = Targets.of(y, rules)
        again = Targets.from_state(targets.state())
        assert again.space == targets.space
        assert again.classes.tolist() == targets.classes.tolist()
        assert again.form == targets.form


# ---- rules ----


def test_rules_in_every_form(tmp_path: Path) -> None:
    y = [{"legs": 1, "fins": 0}]
    legs, fins = symbols("legs, fins")
    text = "legs, fins\nlegs -> !fins"
    file = tmp_path / "animals.rules"
    file.write_text(text)
    for rules in (text, file, str(file), LabelSpace(text), "legs -> !fins", legs >> ~fins, [legs >> ~fins]):
        assert space_of(rules, y).count() == 3


def test_names_and_values_come_from_the_labels() -> None:
    y = pd.DataFrame({"kind": ["cat", "dog", None], "age": [3, 7, -1], "tame": [1, None, 0]})
    space = space_of("kind = cat -> tame", y)
    assert [variable.kind for variable in space.variables] == ["categorical", "integer", "binary"]


def test_formulas_need_names() -> None:
    legs, fins = symbols("legs, fins")
    with pytest.raises(RuleError, match="which variables there are"):
        space_of(legs >> ~fins, np.zeros((2, 2)))
    with pytest.raises(RuleError, match="not declared"):
        space_of("legs -> !fins", np.zeros((2, 2)))


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame])
def test_one_column_of_several_variables_is_told_by_its_name(frame: Any) -> None:
    targets = Targets.of(frame({"fins": [1, None, 0]}), "legs, fins\nlegs -> !fins")
    np.testing.assert_array_equal(
        targets.encode(frame({"fins": [1, None, 0]})), [[np.nan, 1], [np.nan, np.nan], [np.nan, 0]]
    )
    decoded = targets.decode(np.array([[1.0, 0.0]]))
    assert list(decoded.columns) == ["legs", "fins"]


# ---- series ----


def test_a_series_comes_back_as_one_with_the_index_of_the_rows() -> None:
    y = pd.Series(["cat", "dog", None], name="kind")
    columns = np.array([[0.0, 1.0], [1.0, 0.0]])
    rows = pd.DataFrame({"x": [1, 2]}, index=["p", "q"])
    for targets in (Targets.of(y), Targets.of(y, "kind: {cat, dog}")):
        for again in (targets, Targets.from_state(targets.state())):
            found = again.decode(columns, rows)
            pd.testing.assert_series_equal(found, pd.Series(["dog", "cat"], index=["p", "q"], name="kind"))
            assert isinstance(again.decode(columns, np.zeros((2, 1))), np.ndarray)
    polars = Targets.of(pl.Series("kind", [3, 4, None]))
    found = polars.decode(columns, pl.DataFrame({"x": [1, 2]}))
    assert found.equals(pl.Series("kind", [4, 3]))
    assert isinstance(polars.decode(columns, rows), np.ndarray)
    assert isinstance(Targets.of(np.array([0, 1])).decode(columns, rows), np.ndarray)


@pytest.mark.parametrize("edited", [["numpy", "kind"], ["pandas"], "pandas", ["pandas", 3]])
def test_an_edited_series_is_refused(edited: object) -> None:
    state = Targets.of(pd.Series(["cat", "dog"])).state()
    with pytest.raises(DataError, match="labels that came as"):
        Targets.from_state({**state, "series": edited})


# ---- labels of another type than the classes ----

LEARNED = {"whole": [0, 1], "names": ["a", "b"], "truths": [False, True], "floats": [0.0, 1.0], "digits": ["0", "1"]}


@pytest.mark.parametrize("learned", LEARNED)
@pytest.mark.parametrize("strange", [2**70, 1.5, "abcdef", "11", -7, 2])
def test_a_label_that_no_cast_may_change_is_strange(learned: str, strange: object) -> None:
    """As an object it would be cast to the type of the classes: 1.5 to 1, "abcdef" to "a", 2 to true."""
    targets = Targets.of_classes(np.array(LEARNED[learned]))
    y = np.array([LEARNED[learned][0], strange], object)
    with pytest.raises(DataError, match=r"row 1: the class .* is not among those of the first fit"):
        targets.encode(y)


@pytest.mark.parametrize("learned", LEARNED)
def test_equal_labels_of_another_type_are_known(learned: str) -> None:
    targets = Targets.of_classes(np.array(LEARNED[learned]))
    other = {"whole": [0.0, True, "1"], "truths": [0, 1.0, "True"], "floats": [0, True, 1]}
    y = other.get(learned, [LEARNED[learned][i] for i in (0, 1, 1)])
    assert targets.encode(np.array(y, object)).argmax(1).tolist() == [0, 1, 1]


def test_a_class_beyond_64_bits_is_our_error() -> None:
    with pytest.raises(DataError, match="the label 1180591620717411303424 is too large for a class\n"):
        Targets.of_classes(np.array([1, 2**70], object))


def test_a_frame_comes_back_in_the_library_of_the_rows() -> None:
    targets = Targets.of(pd.DataFrame({"legs": [1, 0], "fins": [0, 1]}))
    columns = np.array([[1, 0]], np.float32)
    found = targets.decode(columns, pl.DataFrame({"x": [1]}))
    assert isinstance(found, pl.DataFrame)
    assert found.rows() == [(1, 0)]
    assert isinstance(targets.decode(columns, np.zeros((1, 1))), pd.DataFrame)
