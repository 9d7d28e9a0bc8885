"""Names as rule text: what is quoted is read back as the same name, and nothing is quoted without need."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.logic.language.quoting import ELEMENT, RESERVED, in_quotes, quoted
from dssl.logic.language.variables import canonical
from dssl.logic.space import LabelSpace


@pytest.mark.parametrize("name", ["legs", "naïve", "cell[1,9]", "has[cat,-2]", "_x1", "ünï"])
def test_plain_names_and_elements_stand_as_they_are(name: str) -> None:
    assert quoted(name) == name


@pytest.mark.parametrize("name", [*sorted(RESERVED), "has tail", "1st", "x[01]", "x[any]", 'a"b', "a\\b", "x[1"])
def test_other_names_are_quoted(name: str) -> None:
    assert quoted(name) == in_quotes(name) != name


def test_numbers_and_flags_are_values() -> None:
    assert (quoted(-3), quoted(True)) == ("-3", "True")


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=12))
def test_a_quoted_name_is_read_back(name: str) -> None:
    if "\r" in name or canonical(name) != name:
        return
    assert LabelSpace(f"{quoted(name)}, other_name_of_mine").variables[0].name == name


def test_elements_are_told_from_other_names() -> None:
    assert ELEMENT.match("cell[1,9]")
    assert not ELEMENT.match("cell[1, 9]")
    assert not ELEMENT.match("cell[]")
