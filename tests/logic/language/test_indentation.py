"""Statements of several lines: what hierarchies declare and say, how they print, and where their errors point."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.errors import RuleError
from dssl.logic.language.parser import parse, parse_rules, text_of
from dssl.logic.space import LabelSpace
from logic.messages import CLASSES, BadText
from logic.stopwatch import LOADED, best_of_three

ANIMALS = """hierarchy one path:
    animal
        mammal
            cat, dog
        fish
            trout
    plant
"""


def test_indented_and_chained_classes_say_the_same() -> None:
    indented = LabelSpace(ANIMALS)
    chained = LabelSpace(
        "animal, mammal, cat, dog, fish, trout, plant\n"
        "hierarchy one path:\n    cat, dog < mammal < animal\n    trout < fish < animal\n    plant\n"
    )
    assert list(indented.valid()) == list(chained.valid())
    assert indented.count() == 7
    parents = {"mammal": "animal", "cat": "mammal", "dog": "mammal", "fish": "animal", "trout": "fish", "plant": None}
    made = LabelSpace.hierarchy(parents, labels="one path")
    assert made.count() == 7
    assert {rule.formula for rule in made.rules} >= {rule.formula for rule in indented.rules[:5]}


def test_rules_know_their_lines() -> None:
    rules = LabelSpace(ANIMALS).rules
    assert [str(rule) for rule in rules[:3]] == [
        "line 3: mammal -> animal",
        "line 4: cat -> mammal",
        "line 4: dog -> mammal",
    ]
    assert str(rules[-1]) == "line 1: exactly_one(animal, plant)"


@pytest.mark.parametrize(
    "text",
    [
        ANIMALS,
        "hierarchy: cat, dog < mammal < animal\nlegs\ncat -> legs\n",
        "legs\nsize: 0..3\nhierarchy leaf: cat, dog < animal\nsize > 1 -> cat\n",
        "hierarchy: tomato < fruit, vegetable\n",
        'hierarchy:\n    "big cat" < cat\n    cat < animal\nx[1..2]\nx[1] -> cat\n',
        "x[1..3]\nhierarchy: x[1], x[2] < x[3]\n",
        "hierarchy: a < b\nhierarchy leaf: c, d < e\n",
        "n = 2\nx[1..3]\nat_most(n, x[*])\nhierarchy: x[n] < top\n",
    ],
)
def test_the_short_form_is_printed(text: str) -> None:
    space = LabelSpace(text)
    assert LabelSpace(str(space)) == space
    assert str(space).split() == text.split() or "x[" in text
    assert "hierarchy" in str(space)
    assert "hierarchy" not in text_of(space.variables, space.rules, written_out=True)
    assert LabelSpace(text_of(space.variables, space.rules, written_out=True)) == space


def test_classes_that_are_declared_keep_their_place() -> None:
    space = LabelSpace("legs\nlegs -> cat\nhierarchy: cat < animal\nanimal, cat, plant")
    assert [variable.name for variable in space.variables] == ["legs", "animal", "cat", "plant"]
    assert str(space) == "legs, animal, cat, plant\nlegs -> cat\nhierarchy: cat < animal\n"


def test_part_of_a_hierarchy_is_written_out() -> None:
    space = LabelSpace(ANIMALS)
    part = LabelSpace.of(space.variables, space.rules[1:])
    assert "hierarchy" not in str(part)
    assert LabelSpace(str(part)) == part


def test_further_rules_may_hold_a_hierarchy() -> None:
    space = LabelSpace("cat, animal, legs").where("hierarchy: cat < animal", "cat -> legs")
    assert space.count() == 5
    assert LabelSpace(str(space)) == space
    with pytest.raises(RuleError, match="'dog' is not declared"):
        parse_rules("hierarchy: dog < animal", space.variables)


def test_hierarchy_is_a_name_like_any_other() -> None:
    assert LabelSpace("hierarchy, leaf\nhierarchy -> leaf").count() == 3
    assert LabelSpace("hierarchy: {flat, deep}\nhierarchy = deep").count() == 1
    assert LabelSpace("hierarchy: 1..3\nhierarchy in {1, 2}").count() == 2


@st.composite
def trees(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]]]:
    """An indented hierarchy, and its edges."""
    lines, edges = ["hierarchy:"], []
    path: list[str] = []
    step = draw(st.sampled_from(["  ", "    ", "\t"]))
    for i in range(draw(st.integers(1, 8))):
        del path[draw(st.integers(0, len(path))) :]
        lines.append(step * (len(path) + 1) + f"c{i}")
        edges += [(f"c{i}", path[-1])] if path else []
        path.append(f"c{i}")
    return "\n".join(lines), edges


@settings(deadline=None)
@given(trees())
def test_indents_are_read_as_edges(tree: tuple[str, list[tuple[str, str]]]) -> None:
    text, edges = tree
    variables, rules = parse(text)
    assert [str(rule.formula) for rule in rules] == [f"{child} -> {parent}" for child, parent in edges]
    chains = "hierarchy:\n" + "\n".join([f"  {v.name}" for v in variables] + [f"  {a} < {b}" for a, b in edges])
    assert parse(chains) == (variables, rules)
    space = LabelSpace(text)
    assert LabelSpace(str(space)) == space


@pytest.mark.parametrize("case", CLASSES, ids=lambda case: case.reason[:40])
def test_errors_point_and_help(case: BadText) -> None:
    with pytest.raises(RuleError) as caught:
        parse(case.text)
    assert case.reason in caught.value.reason
    assert case.remedy in caught.value.remedy
    assert (caught.value.line, caught.value.column) == case.place
    parse(case.fixed)


def test_thousands_of_classes_are_read_and_printed_in_a_moment() -> None:
    groups = ["\n        ".join([f"    group{i}", *(f"leaf{i}_{j}" for j in range(10))]) for i in range(300)]
    text = "\n".join(["hierarchy leaf:", *groups])
    space = LabelSpace(text)
    assert (len(space.variables), len(str(space).splitlines())) == (3300, 3301)
    assert best_of_three(lambda: str(LabelSpace(text))) < 2 * LOADED
