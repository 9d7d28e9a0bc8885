"""Elements of arrays: their names, slices of them, and one line for those that belong together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssl.logic.language.arrays import Arrays, axis_text, can_index, declarations, element, place
from dssl.logic.language.parser import parse, text_of
from dssl.logic.language.quoting import quoted
from dssl.logic.language.variables import Variable
from dssl.logic.space import LabelSpace

INDICES = st.lists(st.one_of(st.integers(-30, 30), st.sampled_from(["a", "b", "é"])), min_size=1, max_size=3).map(tuple)


@given(INDICES)
def test_a_name_tells_its_place(index: tuple[int | str, ...]) -> None:
    assert place(element("cell", index)) == ("cell", index)


@pytest.mark.parametrize(
    "name", ["x", "x[]", "x[01]", "x[-0]", "x[a b]", "x[1,]", "x [1]", "2x[1]", "x[1]y", "x[1][2]"]
)
def test_other_names_are_no_elements(name: str) -> None:
    assert place(name) is None
    assert quoted(name) == (name if name == "x" else f'"{name}"')
    assert parse(quoted(name))[0] == (Variable(name),)


@pytest.mark.parametrize("word", ["in", "not", "all", "a b", "", "1", "x]", "a,b"])
def test_what_cannot_be_an_index(word: str) -> None:
    assert not can_index(word)
    assert can_index("cat")


@pytest.mark.parametrize("name", ["not[1]", "x[true]"])
def test_words_of_the_language_are_quoted_inside_names_too(name: str) -> None:
    assert quoted(name) == f'"{name}"'
    assert parse(f'"{name}"\n"{name}" = true')[1][0].formula.names() == {name}


def test_slices_come_in_the_order_of_declaration() -> None:
    arrays = Arrays(["x[2,a]", "x[1,b]", "y", "x[1,a]", "x[3]"])
    assert arrays.slice("x", (1, None)) == ["x[1,b]", "x[1,a]"]
    assert arrays.slice("x", (None, None)) == ["x[2,a]", "x[1,b]", "x[1,a]"]
    assert arrays.slice("x", (None,)) == ["x[3]"]
    assert arrays.slice("x", (7, None)) == []
    assert ("x" in arrays, "y" in arrays, arrays.shape("x")) == (True, False, "x[…]")


@pytest.mark.parametrize(
    ("values", "text"), [([1, 2, 3], "1..3"), ([3], "3"), ([1, 3], "{1, 3}"), (["a"], "a"), ([2, 1], "{2, 1}")]
)
def test_an_index_as_text(values: list[int | str], text: str) -> None:
    assert axis_text(values) == text


@pytest.mark.parametrize(
    "text",
    [
        "x[1..3]\n",
        "a, x[1..3, {cat, dog}], b\n",
        "x[1..2]: 0..4\nx[3..4]: {p, q}\ny[7]: 0..1\n",
        'x[1..2], "x[a b]"\n',
    ],
)
def test_declarations_print_as_they_are_written(text: str) -> None:
    assert text_of(*parse(text)) == text
    assert text_of(*parse("x[1], x[3], x[2]")) == "x[{1, 3, 2}]\n"


def test_only_whole_arrays_are_written_as_one() -> None:
    holes = [Variable(f"x[{i},{j}]") for i in (1, 2) for j in (1, 2)][:3]
    assert [names for names, _ in declarations(holes)] == ["x[1,1]", "x[1,2]", "x[2,1]"]


def test_elements_are_columns_of_a_space() -> None:
    space = LabelSpace("x[1..2]: {p, q}\nx[1] = p")
    assert space.columns == ("x[1]=p", "x[1]=q", "x[2]=p", "x[2]=q")
    assert space.decode(space.complete([{}]))[0] == {"x[1]": "p", "x[2]": None}
    assert str(space.rename({"x[1]": "y[5]"})) == "y[5]: {p, q}\nx[2]: {p, q}\ny[5] = p\n"
