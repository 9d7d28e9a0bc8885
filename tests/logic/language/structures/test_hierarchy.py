"""What a hierarchy says, against all sets of classes tried one by one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.logic.language.structures.hierarchy import OPTIONS, circle, formulas
from dssl.logic.space import LabelSpace
from logic.messages import BadCall, calls_about, check_call
from logic.stopwatch import LOADED, best_of_three


@st.composite
def hierarchies(draw: st.DrawFn) -> dict[str, list[str]]:
    """Up to seven classes, each below any of those before it."""
    out: dict[str, list[str]] = {}
    for i in range(draw(st.integers(1, 7))):
        above = draw(st.lists(st.sampled_from([*out]), max_size=3, unique=True)) if out else []
        out[f"c{i}"] = above
    return out


@settings(deadline=None, max_examples=80)
@given(hierarchies(), st.sampled_from([*OPTIONS]))
def test_labels_are_those_of_the_plain_meaning(parents: dict[str, list[str]], option: str) -> None:
    space = LabelSpace.hierarchy(parents, labels=option)
    found = {frozenset(name for name, value in record.items() if value) for record in space.valid()}
    assert found == oracle.hierarchy_labels(parents, option)
    assert space.count() == len(found)


def test_several_parents_are_all_on_the_one_path() -> None:
    space = LabelSpace.hierarchy({"tomato": ["fruit", "vegetable"], "apple": "fruit"}, labels="leaf")
    found = [{name for name, value in record.items() if value} for record in space.valid()]
    assert sorted(map(sorted, found)) == [["apple", "fruit"], ["fruit", "tomato", "vegetable"]]


@pytest.mark.parametrize("option", [*OPTIONS])
def test_a_thousand_classes_compile_at_once(option: str) -> None:
    random.seed(0)
    parents = {f"c{i}": [f"c{random.randrange(i)}"] for i in range(1, 1000)}
    space = LabelSpace.hierarchy(parents, labels=option)
    assert best_of_three(lambda: LabelSpace.of(space.variables, space.rules).compile()) < 2 * LOADED
    inner = {above[0] for above in parents.values()}
    wanted = {"one path": 1000, "leaf": 1000 - len(inner), "any": space.count()}
    assert space.count() == wanted[option]


def test_circles() -> None:
    assert circle({"a": ["b"], "b": ["c", "d"], "d": ["a"]}) == ["a", "b", "d", "a"]
    assert circle({"a": ["a"]}) == ["a", "a"]
    assert circle({"a": ["b", "c"], "b": ["d"], "c": ["d"]}) == []


def test_implications_come_first() -> None:
    parents = {"cat": ["animal"], "dog": ["animal"]}
    assert [str(f) for f in formulas(parents)] == ["cat -> animal", "dog -> animal"]
    assert [str(f) for f in formulas(parents, "one path")][2:] == ["at_most(1, cat, dog)", "exactly_one(animal)"]


@pytest.mark.parametrize("case", calls_about("hierarchy"), ids=lambda case: case.reason[:40])
def test_errors_of_calls(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)
