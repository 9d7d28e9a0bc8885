"""Counts of meetings against loops over rows, and labels in every form."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from dssl.logic.induction.tally import Tally, literals, meetings, read
from dssl.logic.space import LabelSpace
from logic.messages import BadCall, calls_about, check_call

codes = st.integers(1, 5).flatmap(
    lambda width: st.lists(
        st.lists(st.sampled_from([0, 1, -1]), min_size=width, max_size=width), min_size=1, max_size=12
    )
)
complete = st.lists(st.lists(st.sampled_from([0, 1]), min_size=4, max_size=4), min_size=1, max_size=12)


def holds(row: list[int], literal: int) -> bool:
    return row[literal // 2] == literal % 2


def tally(rows: Any) -> Tally:
    array = np.array(rows, dtype=np.int8)
    return Tally(LabelSpace.attributes([f"y{i}" for i in range(array.shape[1])]), array)


@given(codes, st.data())
def test_a_cell_holds_where_all_its_literals_do(rows: list[list[int]], data: st.DataObject) -> None:
    t = tally(rows)
    cell = data.draw(st.lists(st.integers(0, 2 * t.width - 1), min_size=1, max_size=4))
    expected = [0 if any(holds(r, x ^ 1) for x in cell) else 1 if all(holds(r, x) for x in cell) else -1 for r in rows]
    assert t.joint(cell).tolist() == expected


@given(st.one_of(codes, complete))
def test_pairs_and_triples_are_counted_row_by_row(rows: list[list[int]]) -> None:
    t = tally(rows)
    width = range(2 * t.width)
    for x, y in itertools.product(width, width):
        if x // 2 != y // 2:
            assert t.pairs[x, y] == sum(holds(r, x) and holds(r, y) for r in rows)
    assert np.diagonal(t.pairs).tolist() == [sum(holds(r, x) for r in rows) for x in width]
    for i, counts in t.triples(range(t.width)):
        for s, y, z in itertools.product((0, 1), width, width):
            if i < y // 2 < z // 2:
                found = counts[s, y - 2 * i - 2, z - 2 * i - 2]
                assert found == sum(holds(r, 2 * i + s) and holds(r, y) and holds(r, z) for r in rows)


@given(codes)
def test_meetings_of_cells_with_literals(rows: list[list[int]]) -> None:
    t = tally(rows)
    cells = np.array([(0, 1), (1, 2 * t.width - 1)])
    expected = [[sum(all(holds(r, c) for c in (*cell, x)) for r in rows) for x in range(2 * t.width)] for cell in cells]
    assert t.meeting(cells).tolist() == expected
    first = np.array([r[0] == 1 for r in rows])
    assert t.meeting_rows(first).tolist() == [sum(r[0] == 1 and holds(r, x) for r in rows) for x in range(2 * t.width)]


def test_many_rows_are_counted_in_blocks() -> None:
    many = np.random.default_rng(0).integers(0, 2, (20_000, 3)).astype(np.int8)
    assert meetings(many).tolist() == (literals(many).T.astype(float) @ literals(many)).tolist()
    many[::7, 1] = -1
    assert meetings(many).tolist() == (literals(many).T.astype(float) @ literals(many)).tolist()


# ---- reading ----

NAN = float("nan")


@pytest.mark.parametrize(
    "y",
    [
        np.array([[0, 1], [1, -1]]),
        np.array([[0, 1], [1, NAN]]),
        [[0.0, 1.0], [1.0, NAN]],
        [[False, True], [True, None]],
        {"label0": [0, 1], "label1": [1, None]},
        {"label0": ["false", "True"], "label1": ["1", ""]},
        [{"label0": 0, "label1": 1}, {"label0": 1}],
        pandas.DataFrame({"label0": [0, 1], "label1": [1, NAN]}),
        polars.DataFrame({"label0": [0, 1], "label1": [1, None]}),
    ],
)
def test_forms_of_binary_labels(y: Any) -> None:
    t = read(y)
    assert t.codes.tolist() == [[0, 1], [1, -1]]
    assert [(v.name, v.binary) for v in t.space.variables] == [("label0", True), ("label1", True)]


def test_sparse_and_boolean_matrices() -> None:
    for y in (csr_matrix([[0, 1], [1, 0]]), np.array([[False, True], [True, False]])):
        assert read(y, ["a", "b"]).codes.tolist() == [[0, 1], [1, 0]]


def test_other_columns_become_variables_over_the_values_that_occur() -> None:
    t = read(
        {"kind": ["dog", "cat", None], "legs": [4, 2.0, NAN], "wings": ["3", "1", "3"], "tail": [True, False, None]}
    )
    assert str(t.space).split("\n")[:4] == ["kind: {cat, dog}", "legs: {2, 4}", "wings: {1, 3}", "tail"]
    assert t.codes.tolist() == [[0, 1, 0, 1, 0, 1, 1], [1, 0, 1, 0, 1, 0, 0], [-1, -1, -1, -1, 0, 1, -1]]
    assert t.owner.tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert t.assignments.indices["kind"].tolist() == [1, 0, -1]
    assert t.assignments.indices["tail"].tolist() == [1, 0, -1]


def test_numbers_in_a_matrix_and_names_for_a_frame() -> None:
    assert str(read(np.array([[0, 3], [1, 5]])).space.variables[1]) == "label1: {3, 5}"
    assert read({"a": [0], "b": [1]}, ["c", "d"]).space.columns == ("c", "d")


def test_a_space_reads_its_own_labels() -> None:
    space = LabelSpace("kind: {cat, dog, eel}\ntail\nkind = cat -> tail")
    t = read([{"kind": "dog"}, {"kind": "cat", "tail": 1}], space=space)
    assert t.space is space
    assert t.codes.tolist() == [[0, 1, 0, -1], [1, 0, 0, 1]]


def test_tensors_are_read() -> None:
    import torch

    assert read(torch.tensor([[0, 1], [1, 1]])).codes.tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize("case", calls_about("tally"), ids=lambda case: case.reason)
def test_errors(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)
