"""Label columns: found by name, by rules or by the format; read, encoded, and refused with their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dssl import LabelSpace
from dssl.app.labelling import Labelling, broken, find_labels, label_frame
from dssl.app.tables import Table
from dssl.errors import DataError


def table(labels: tuple[str, ...] = (), **columns: Any) -> Table:
    return Table(Path("d.csv"), "CSV", pl.DataFrame(columns), labels=labels, first=2)


def rules(folder: Path, text: str) -> Path:
    path = folder / "a.rules"
    path.write_text(text)
    return path


ANIMALS = {"weight": ["1", "2", "3"], "legs": ["1", "0", None], "fins": ["0", "1.0", ""]}


def test_one_column_holds_classes() -> None:
    found = find_labels(table(kind=["cat", "dog", None]), ["kind"], None)
    assert found.space.columns == ("kind=cat", "kind=dog")
    np.testing.assert_array_equal(found.encode(table(kind=["dog", None])), [[0, 1], [np.nan, np.nan]])
    numbers = find_labels(table(digit=["3", "10", "-1", None]), ["digit"], None)
    assert numbers.space.variables[0].values == (3, 10)  # −1 is unknown, as empty cells are
    floats = find_labels(table(digit=[3.0, 10.0, None]), ["digit"], None)
    assert floats.space == numbers.space
    names = find_labels(table(code=["007", "7"]), ["code"], None)
    assert names.space.variables[0].values == ("007", "7")


def test_several_columns_are_variables() -> None:
    found = find_labels(table(**ANIMALS, kind=["cat", "dog", "cat"]), ["legs", "fins", "kind"], None)
    assert str(found.space) == "legs, fins\nkind: {cat, dog}\n"
    assert found.encode(table(**ANIMALS))[1].tolist()[:2] == [0, 1]


def test_rules_find_their_columns(tmp_path: Path) -> None:
    file = rules(tmp_path, "legs, fins, wings\nlegs -> !fins\n")
    found = find_labels(table(**ANIMALS), None, file)
    assert (found.columns, found.space.count()) == (("legs", "fins"), 6)
    unlabelled = found.encode(table(weight=["1"]))
    assert np.isnan(unlabelled).all()


def test_rules_may_leave_declaring_to_the_columns(tmp_path: Path) -> None:
    file = rules(tmp_path, "legs -> !fins\n")
    assert find_labels(table(**ANIMALS), ["legs", "fins"], file).space.count() == 3
    with pytest.raises(DataError, match=r"a\.rules', line 1, column 1: 'legs' is not declared"):
        find_labels(table(**ANIMALS), None, file)


def test_one_label_may_be_called_otherwise(tmp_path: Path) -> None:
    file = rules(tmp_path, "species: {cat, dog}\nspecies != dog\n")
    found = find_labels(table(kind=["cat", None]), ["kind"], file)
    assert (found.columns, found.names) == (("kind",), ("species",))
    assert found.read(table(kind=["cat"])).to_dicts() == [{"species": "cat"}]


def test_arrays_follow_the_order_of_the_rules(tmp_path: Path) -> None:
    file = rules(tmp_path, "legs, fins\nlegs -> !fins\n")
    found = find_labels(table(("y0", "y1"), x0=[1.0], y0=[1], y1=[0]), None, file)
    assert (found.columns, found.names) == (("y0", "y1"), ("legs", "fins"))


def test_minus_one_is_a_value_where_it_is_declared() -> None:
    found = Labelling(("shift",), ("shift",), LabelSpace("shift: -1..1"))
    np.testing.assert_array_equal(found.encode(table(shift=["-1", "0"])), [[1, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (None, "nothing says which column of 'd.csv' is the label"),
        (["leg"], r"has no column 'leg' \(--label\)\nDid you mean 'legs'\?"),
        (["same"], "every label in column 'same' is 1"),
        (["none"], "the label column 'none' is empty"),
    ],
)
def test_labels_that_cannot_be(label: list[str] | None, said: str) -> None:
    with pytest.raises(DataError, match=said):
        find_labels(table(**ANIMALS, same=["1"] * 3, none=pl.Series([None] * 3, dtype=pl.String)), label, None)


def test_rules_about_something_else(tmp_path: Path) -> None:
    file = rules(tmp_path, "paws, claws\n")
    with pytest.raises(DataError, match=r"speaks of paws, claws, and 'd.csv' has no such column"):
        find_labels(table(**ANIMALS), None, file)
    with pytest.raises(DataError, match=r"and not of the label column 'legs'"):
        find_labels(table(**ANIMALS), ["legs", "fins"], file)


def test_an_entry_that_fits_no_value_is_named_with_its_place() -> None:
    found = Labelling(("kind",), ("kind",), LabelSpace("kind: {cat, dog}"))
    with pytest.raises(DataError) as caught:
        found.encode(table(kind=["cat", None, "dgo"]))
    assert str(caught.value) == (
        "'d.csv', line 4, column 'kind': 'kind' cannot be 'dgo'\n"
        "Did you mean 'dog'? Allowed: cat, dog; empty for unknown."
    )


def test_broken_rules_are_told_by_lines_of_the_file() -> None:
    space = LabelSpace("legs, fins\nlegs -> !fins")
    found = space.check([[0, 1], [1, 1], [1, 1]])
    assert broken(found, table(**ANIMALS), np.array([5, 7, 9])) == (
        "'d.csv': the labels of 2 of 3 rows break the rules\n  line 2: legs -> !fins\n    line 9, line 11"
    )


def test_label_frames_are_typed() -> None:
    frame = label_frame(table(a=["1", "0", None], b=["x", None, "y"], c=["1.0", "2.0", "3"]), ["a", "b", "c"])
    assert frame.to_dict(as_series=False) == {"a": [1, 0, None], "b": ["x", None, "y"], "c": [1, 2, 3]}
