"""The JSON form of a space: what is in it, that it reads back as the same, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from dssl.logic.json_form import facts
from dssl.logic.language.parser import Rule
from dssl.logic.language.variables import Variable
from dssl.logic.space import LabelSpace
from logic.messages import BadCall, calls_about, check_call
from logic.strategies import Drawn, valid_spaces

STRUCTURED = """n = 3
x[1..n]: 1..n
t[1..4]: {O, B, I}
e[a,b], e[b,c], e[a,c]
legs, "has tail", "not"
"all apart": all_different(x[*])
for i in 1..2: 0.75 :: x[i] < x[i+1]
regular(t[*], "(O | B I*)*")
tree(e[*, *])
table(x[1], legs) in {(1, true), (3, false)}
lex(x[1], x[2])
max(x[*]) + count(legs, "not" & "has tail") >= 2
hierarchy leaf:
    animal
        cat, dog
"""


@pytest.mark.parametrize("case", calls_about("json_form"), ids=lambda case: case.reason[:40])
def test_errors_say_what_to_do(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)


def test_what_is_in_it() -> None:
    space = LabelSpace('legs, fins\npet: {cat, 7}\nage: 0..2\n"they swim": 0.9 :: fins -> !legs\nlegs = true')
    assert json.loads(space.to_json()) == {
        "format": "dssl rules",
        "version": 1,
        "variables": [
            {"name": "legs", "kind": "binary"},
            {"name": "fins", "kind": "binary"},
            {"name": "pet", "kind": "categorical", "values": ["cat", 7]},
            {"name": "age", "kind": "integer", "values": [0, 1, 2]},
        ],
        "rules": [
            {"rule": "fins -> !legs", "probability": 0.9, "why": "they swim", "line": 4},
            {"rule": "legs = true", "line": 5},
        ],
    }


def same(space: LabelSpace) -> None:
    """Equal, and equal in what equality of spaces leaves out."""
    again = LabelSpace.from_json(space.to_json())
    assert again == space
    assert [(rule.line, rule.why) for rule in again.rules] == [(rule.line, rule.why) for rule in space.rules]
    assert again.to_json() == space.to_json()


@given(valid_spaces())
@settings(max_examples=150, deadline=None)
def test_any_space_reads_back_as_the_same(drawn: Drawn) -> None:
    same(drawn.space())


def test_structures_loops_and_remarks_read_back_as_the_same() -> None:
    same(LabelSpace(STRUCTURED))


def test_weights_of_literals_read_back_to_the_last_bit() -> None:
    weights = np.random.default_rng(0).random((3, 2)) ** 20
    space = LabelSpace.of(LabelSpace("a, b, c").variables, LabelSpace("a, b, c\na | b").rules, weights)
    same(space)
    again = LabelSpace.from_json(space.to_json()).literal_weights
    assert again is not None
    assert again.tobytes() == weights.tobytes()


def test_a_space_without_rules_and_an_odd_probability() -> None:
    same(LabelSpace("a"))
    same(LabelSpace.of([Variable("a")], [Rule(LabelSpace("a\n!a").rules[0].formula, 1 / 3)]))


def test_a_file_that_ends_in_json_is_read_as_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    space = LabelSpace(STRUCTURED)
    path.write_text(space.to_json())
    assert LabelSpace.read(path) == space
    path.write_text("{")
    with pytest.raises(ValueError, match=r"a\.json', line 1, column 2: this is not JSON"):
        LabelSpace.read(path)


def test_what_other_programs_add_is_left_alone() -> None:
    held = {"file": "a.rules", "text": "a", **facts([Variable("a")], [], None)}
    assert LabelSpace.from_json(json.dumps(held)) == LabelSpace("a")
