"""Spaces from names, hierarchies, tables, class-attribute matrices and DIMACS files."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.errors import ContradictionError, RuleError
from dssl.logic.language.symbols import symbols
from dssl.logic.language.variables import Variable
from dssl.logic.reasoning.solver import Solver
from dssl.logic.space import LabelSpace
from logic.messages import BadCall, calls_about, check_call
from logic.stopwatch import LOADED, best_of_three

NAN = float("nan")


@pytest.mark.parametrize("case", calls_about("sources"), ids=lambda case: case.reason[:40])
def test_errors(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)


# ---- names ----


def test_classes() -> None:
    assert LabelSpace.classes(["cat", "dog"]).variables == (Variable.choice("class", ["cat", "dog"]),)
    assert LabelSpace.classes(range(3), name="digit").columns == ("digit=0", "digit=1", "digit=2")
    assert LabelSpace.classes(np.array(["a", "b"])) == LabelSpace("class: {a, b}")
    assert LabelSpace.classes(np.arange(3)) == LabelSpace("class: 0..2")


def test_attributes_with_rules_in_any_form() -> None:
    legs, fins = symbols("legs, fins")
    expected = LabelSpace("legs, fins\nlegs -> !fins")
    for rules in ("legs -> !fins", legs >> ~fins, ["legs -> !fins"], [legs >> ~fins], expected.rules):
        assert LabelSpace.attributes(["legs", "fins"], rules) == expected
    assert LabelSpace.attributes(["legs", "fins"]).rules == ()


def test_a_file_of_rules(tmp_path: Path) -> None:
    path = tmp_path / "animals.rules"
    path.write_text("\ufefflegs, fins\r\nlegs -> !fins\r\n", encoding="utf-8")
    assert LabelSpace.read(path) == LabelSpace.read(str(path)) == LabelSpace("legs, fins\nlegs -> !fins")
    with pytest.raises(FileNotFoundError):
        LabelSpace.read(tmp_path / "other.rules")


# ---- hierarchies ----

TREE = [("cat", "animal"), ("dog", "animal"), ("trout", "fish"), ("fish", "animal")]


@pytest.mark.parametrize(
    "edges",
    [
        TREE,
        np.array(TREE),
        {"cat": "animal", "dog": "animal", "trout": "fish", "fish": "animal"},
        {"cat": ["animal"], "dog": ("animal",), "trout": "fish", "fish": ["animal"], "animal": None},
        [*TREE, ("cat", "animal")],  # an edge twice is one edge
    ],
)
def test_a_child_implies_its_parents(edges: Any) -> None:
    space = LabelSpace.hierarchy(edges)
    assert {rule.text for rule in space.rules} == {f"{child} -> {parent}" for child, parent in TREE}
    assert len(space.rules) == 4
    assert {v.name for v in space.variables} == {"cat", "dog", "trout", "fish", "animal"}


def test_several_parents_and_single_roots() -> None:
    space = LabelSpace.hierarchy({"tomato": ["fruit", "vegetable"], "fruit": [], "stone": None})
    assert [rule.text for rule in space.rules] == ["tomato -> fruit", "tomato -> vegetable"]
    assert [v.name for v in space.variables] == ["tomato", "fruit", "vegetable", "stone"]


def test_exclusive_siblings() -> None:
    space = LabelSpace.hierarchy(TREE, exclusive_siblings=True)
    assert [rule.text for rule in space.rules[4:]] == ["at_most(1, cat, dog, fish)"]
    assert len(list(space.valid())) == 6


@pytest.mark.parametrize(
    ("edges", "circle"),
    [
        ([("a", "a")], "a → a"),
        ([("x", "a"), ("a", "b"), ("b", "a")], "a → b → a"),
        ({"a": ["b", "c"], "b": "d", "c": "d", "d": "c"}, "d → c → d"),
    ],
)
def test_a_circle_is_shown(edges: Any, circle: str) -> None:
    with pytest.raises(ValueError, match=f"has a cycle: {circle}\n"):
        LabelSpace.hierarchy(edges)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_hierarchies_by_enumeration(pairs: list[tuple[int, int]]) -> None:
    """A graph has a circle exactly if no order puts children before parents; else its labels are closed upward."""
    names = sorted({x for pair in pairs for x in pair})
    order = any(all(p.index(child) < p.index(parent) for child, parent in pairs) for p in itertools.permutations(names))
    edges = [(f"n{child}", f"n{parent}") for child, parent in pairs]
    if not order:
        with pytest.raises(ValueError, match="has a cycle"):
            LabelSpace.hierarchy(edges)
        return
    valid = list(LabelSpace.hierarchy(edges).valid())
    expected = [
        row for row in itertools.product((False, True), repeat=len(names))
        if all(row[names.index(parent)] for child, parent in pairs if row[names.index(child)])
    ]  # fmt: skip
    assert sorted(tuple(record[f"n{x}"] for x in names) for record in valid) == expected


def test_a_hierarchy_of_five_thousand_nodes_in_a_second() -> None:
    edges = [(f"n{i}", f"n{(i - 1) // 3}") for i in range(1, 5000)]
    assert len(LabelSpace.hierarchy(edges).variables) == 5000
    assert best_of_three(lambda: LabelSpace.hierarchy(edges)) < 1 * LOADED
    chain = [(f"n{i}", f"n{i - 1}") for i in range(1, 5000)]
    assert best_of_three(lambda: LabelSpace.hierarchy(chain)) < 1 * LOADED


# ---- tables ----


@pytest.mark.parametrize(
    ("names", "rows", "text"),
    [
        (["a", "b"], [(True, False), (False, True)], "a, b"),
        (["a", "b"], [(0, 1), (1.0, 0)], "a, b"),
        (["a", "n"], np.array([[0, 3], [1, 5], [0, 3]]), "a\nn: {3, 5}"),
        (["shape", "n"], [("ball", 2), ("box", 1), ("ball", 1)], "shape: {ball, box}\nn: 1..2"),
        (["m"], [("a",), (7,)], "m: {a, 7}"),
        (["x"], [("only",)], "x: {only}"),
        (["x", "y"], itertools.product(range(3), range(3)), "x: 0..2\ny: 0..2"),
    ],
)
def test_a_table_allows_exactly_its_rows(names: list[str], rows: Any, text: str) -> None:
    rows = [tuple(row) for row in rows]
    space = LabelSpace.table(names, rows)
    assert space.variables == LabelSpace(text).variables
    assert sorted(tuple(map(str, r.values())) for r in space.valid()) == sorted(
        {tuple(str(bool(v)) if space[n] is not None and len(var.columns) == 1 and var.binary else str(v)
               for n, v, var in zip(names, row, space.variables)) for row in rows}
    )  # fmt: skip


@settings(deadline=None, max_examples=50)
@given(st.sets(st.tuples(*[st.sampled_from("pqr"), st.integers(0, 3), st.sampled_from("xy")]), min_size=1, max_size=20))
def test_random_tables(rows: set[tuple[str, int, str]]) -> None:
    space = LabelSpace.table(["a", "b", "c"], sorted(rows))
    assert {tuple(record.values()) for record in space.valid()} == rows
    assert not space.check(sorted(rows))


# ---- classes and attributes ----


def test_a_class_fixes_its_attributes() -> None:
    space = LabelSpace.class_attributes([[1, 0], [0, 1], [1, 1]], ["cat", "trout", "frog"], ["legs", "swims"])
    assert list(space.valid()) == [
        {"class": "cat", "legs": True, "swims": False},
        {"class": "trout", "legs": False, "swims": True},
        {"class": "frog", "legs": True, "swims": True},
    ]


def test_open_entries_leave_an_attribute_free() -> None:
    space = LabelSpace.class_attributes([[1, NAN], [NAN, NAN], [0, 0]], ["a", "b", "c"], ["p", "q"], name="kind")
    assert [rule.text for rule in space.rules] == ["kind = a -> p", "kind = c -> !p", "kind = c -> !q"]
    assert len(list(space.valid())) == 2 + 4 + 1


def test_an_attribute_that_no_class_has_is_false() -> None:
    space = LabelSpace.class_attributes([[0, 1], [0, 0]])
    assert [rule.text for rule in space.rules] == ["attribute0 <-> false", "attribute1 <-> class = class0"]
    assert len(list(space.valid())) == 2


def test_a_data_frame_brings_its_names() -> None:
    expected = LabelSpace.class_attributes([[1, 0], [0, 1]], ["cat", "trout"], ["legs", "fins"])
    frame = pd.DataFrame([[1, 0], [0, 1]], index=["cat", "trout"], columns=["legs", "fins"])
    assert LabelSpace.class_attributes(frame) == expected
    assert LabelSpace.class_attributes(pl.DataFrame({"legs": [1, 0], "fins": [0, 1]}), ["cat", "trout"]) == expected
    assert LabelSpace.class_attributes(frame.astype(bool)) == expected
    assert LabelSpace.class_attributes(frame, classes=["a", "b"]).columns[:2] == ("class=a", "class=b")


@pytest.mark.parametrize("matrix", [[["a"]], [[1], [0, 1]]])
def test_what_is_no_matrix_is_refused_in_words(matrix: Any) -> None:
    from dssl.errors import RuleError

    with pytest.raises(RuleError):
        LabelSpace.class_attributes(matrix)


def test_every_error_in_a_file_of_rules_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    for text, kind, said in (
        ("a\na -> b", RuleError, "', line 2, column 6: 'b' is not declared"),
        ("a\na = true\n!a", ContradictionError, "': these rules contradict each other"),
        ("# nothing", RuleError, "': no variables are declared"),
    ):
        path.write_text(text)
        with pytest.raises(kind) as caught:
            LabelSpace.read(path)
        assert str(caught.value).startswith(f"'{path}{said}")
        assert caught.value.file == path


def test_a_contradiction_has_its_rules() -> None:
    with pytest.raises(ContradictionError) as caught:
        LabelSpace("a, b\na -> b\na = true\n!b\na | b")
    assert [rule.text for rule in caught.value.rules] == ["a -> b", "a = true", "!b"]


def test_contradictions_name_their_file(tmp_path, monkeypatch):
    """Found at once or late, in rule text or in DIMACS."""
    text, cnf = tmp_path / "a.rules", tmp_path / "a.cnf"
    text.write_text("a, b\na & b\n!a\n")
    cnf.write_text("p cnf 1 2\n1 0\n-1 0\n")
    for read, path in ((LabelSpace.read, text), (LabelSpace.dimacs, cnf)):
        with pytest.raises(ContradictionError) as caught:
            read(path)
        assert str(caught.value).startswith(f"'{path}'")
        with monkeypatch.context() as patch:
            patch.setattr(Solver, "conflict", lambda *_: None)
            space = read(path)
        with pytest.raises(ContradictionError) as caught:
            space.compile()
        assert str(caught.value).startswith(f"'{path}'")
