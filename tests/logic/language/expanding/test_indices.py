"""Elements whose index is a variable, against the plain meaning of an index."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import oracle
from dssl.errors import RuleError
from dssl.logic.space import LabelSpace

HEAD = """
i: 1..2
j: 1..2
z: 0..1
pet: {cat, dog}
x[1..2]: 0..2
on[0..3]
has[{cat, dog}, 1..2]
colour[1..2]: {red, blue}
w = [3, 1]
m = [[1, 2], [3, 4]]
price[{cat, dog}] = [5, 7]
"""
Record = dict[str, Any]


def at(array: str, *index: object) -> Callable[[Record], Any]:
    return lambda r: r[f"{array}[{','.join(str(r.get(part, part)) for part in index)}]"]


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("w[i] = x[1] + 1", lambda r: [3, 1][r["i"] - 1] == r["x[1]"] + 1),
        ("x[i] > x[j]", lambda r: at("x", "i")(r) > at("x", "j")(r)),
        ("x[i] - 2*x[j] = 1", lambda r: at("x", "i")(r) - 2 * at("x", "j")(r) == 1),
        ("on[i] & !on[j+1]", lambda r: at("on", "i")(r) and not r[f"on[{r['j'] + 1}]"]),
        ("on[i] = true", lambda r: at("on", "i")(r)),
        ("on[i+j-1-z] <-> on[z]", lambda r: r[f"on[{r['i'] + r['j'] - 1 - r['z']}]"] == at("on", "z")(r)),
        ("has[pet, i] -> has[cat, i]", lambda r: not at("has", "pet", "i")(r) or at("has", "cat", "i")(r)),
        ("colour[i] = red", lambda r: at("colour", "i")(r) == "red"),
        ("colour[i] != colour[j]", lambda r: at("colour", "i")(r) != at("colour", "j")(r)),
        ("colour[j] in {blue}", lambda r: at("colour", "j")(r) == "blue"),
        ("colour[j] not in {blue}", lambda r: at("colour", "j")(r) != "blue"),
        ("m[i, j] = 3", lambda r: (r["i"], r["j"]) == (2, 1)),
        ("price[pet] + x[1] <= 6", lambda r: {"cat": 5, "dog": 7}[r["pet"]] + r["x[1]"] <= 6),
        ("on[x[i]]", lambda r: r[f"on[{at('x', 'i')(r)}]"]),
        ("on[w[i]]", lambda r: r[f"on[{[3, 1][r['i'] - 1]}]"]),
        ("max(x[i], x[1]) = 2", lambda r: max(at("x", "i")(r), r["x[1]"]) == 2),
        ("count(on[i], on[j]) = 1", lambda r: at("on", "i")(r) + at("on", "j")(r) == 1),
        (
            "for k in 1..2: x[k] = i -> on[x[k]]",
            lambda r: all(at("on", f"x[{k}]")(r) for k in (1, 2) if r[f"x[{k}]"] == r["i"]),
        ),
    ],
)
def test_what_chosen_elements_mean(text: str, meaning: Callable[[Record], bool]) -> None:
    used = set(re.findall(r"\w+", text))
    head = "".join(f"{line}\n" for line in HEAD.splitlines() if re.split(r"\W", line)[0] in used)
    space = LabelSpace(head + text)
    records = oracle.records(space.variables)
    wanted = [bool(meaning(record)) for record in records]
    found = [all(oracle.holds(rule.formula, record) for rule in space.rules) for record in records]
    assert found == wanted
    assert space.count() == sum(wanted)
    assert LabelSpace(str(space)) == space
    assert text in str(space)
    assert LabelSpace.from_json(space.to_json()).count() == sum(wanted)


def test_rules_with_parameters_take_variables_as_indices() -> None:
    space = LabelSpace("i: 1..3\nx[1..3]\nrule at(p) = x[p]\nat(i)\nfor k in 2..3: !at(k)")
    assert [record["i"] for record in space.valid()] == [1]


def test_a_name_that_is_an_index_means_itself() -> None:
    space = LabelSpace("cat: {dog}\nhas[{cat, dog}]\nhas[cat] = true")
    assert {record["has[cat]"] for record in space.valid()} == {True}


@pytest.mark.parametrize(
    ("text", "reason", "column"),
    [
        ("k: 0..2\nx[1..2]\nx[k] = true", "there is no element x[0], which the index of 'x[…]' can mean", 1),
        ("k: 1..2\nx[1..2]\n!x[k+1]", "there is no element x[3]", 2),
        ("k: {cat, cow}\nx[{cat, dog}]\nx[k] -> x[cat]", "there is no element x[cow]", 1),
        ("k: 0..2\nw = [1, 2]\n3 <= w[k]", "there is no element w[0]", 6),
        ("k: 0..101\nx[0..101, 0..101]\n!x[k, k]", "an index with 10,404 values", 2),
    ],
)
def test_indices_that_lead_nowhere_are_refused(text: str, reason: str, column: int) -> None:
    with pytest.raises(RuleError) as caught:
        LabelSpace(text)
    assert reason in caught.value.reason
    assert (caught.value.line, caught.value.column) == (3, column)
