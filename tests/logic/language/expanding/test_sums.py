"""Numbers made of formulas and choices: count, max, min, element, if; against their plain meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import oracle
from dssl.errors import RuleError
from dssl.logic.language.parser import parse
from dssl.logic.space import LabelSpace

HEAD = "a, b, c\nx[1..2]: 0..2\ny: -1..2\nk: 1..2\nw = [3, 1]\n"
Record = dict[str, Any]


def pick(r: Record) -> int:
    return r[f"x[{r['k']}]"]


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("count(a, b, c) = 2", lambda r: r["a"] + r["b"] + r["c"] == 2),
        ("count(a & b, b | c) + y <= 1", lambda r: (r["a"] and r["b"]) + (r["b"] or r["c"]) + r["y"] <= 1),
        ("2*count(x[i] = 1 for i in 1..2) > y + 1", lambda r: 2 * ((r["x[1]"] == 1) + (r["x[2]"] == 1)) > r["y"] + 1),
        ("max(x[*]) = y", lambda r: max(r["x[1]"], r["x[2]"]) == r["y"]),
        ("y < min(x[*])", lambda r: r["y"] < min(r["x[1]"], r["x[2]"])),
        ("min(x[1], y, 1) != 0", lambda r: min(r["x[1]"], r["y"], 1) != 0),
        ("max(x[*]) - min(x[*]) >= 1 + y", lambda r: abs(r["x[1]"] - r["x[2]"]) >= 1 + r["y"]),
        ("if a then b else c", lambda r: r["b"] if r["a"] else r["c"]),
        ("if a then if b then c else !c else x[1] = 2", lambda r: (r["c"] is r["b"]) if r["a"] else r["x[1]"] == 2),
        ("(if a then x[1] else y) = x[2]", lambda r: (r["x[1]"] if r["a"] else r["y"]) == r["x[2]"]),
        ("y = if a & b then 2 else -1", lambda r: r["y"] == (2 if r["a"] and r["b"] else -1)),
        ("sum(if x[i] = 2 then i else 0 for i in 1..2) >= 2", lambda r: (r["x[1]"] == 2) + 2 * (r["x[2]"] == 2) >= 2),
        ("element(k, x[*]) = y", lambda r: pick(r) == r["y"]),
        ("element(k, w[1], w[2]) + y = 3", lambda r: (3 if r["k"] == 1 else 1) + r["y"] == 3),
        ("a -> element(k, x[*], ) < 1", lambda r: pick(r) < 1 if r["a"] else True),
        ("abs(x[1] - x[2]) <= 1", lambda r: abs(r["x[1]"] - r["x[2]"]) <= 1),
        ("abs(y) + x[1] = 2", lambda r: abs(r["y"]) + r["x[1]"] == 2),
        ("x[1] * x[2] = 2 & y * y = 1", lambda r: r["x[1]"] * r["x[2]"] == 2 and r["y"] ** 2 == 1),
        ("(x[1] + y) * (k - 2*a) >= y", lambda r: (r["x[1]"] + r["y"]) * (r["k"] - 2 * r["a"]) >= r["y"]),
        ("a * b * y = c", lambda r: r["a"] * r["b"] * r["y"] == r["c"]),
        ("x[1] mod 2 = y mod 3", lambda r: r["x[1]"] % 2 == r["y"] % 3),
        ("(y - 3) div 2 = -2", lambda r: (r["y"] - 3) // 2 == -2),
        (
            "sum(x[*]) + y = 3 * (sum(x[*]) div 2)",
            lambda r: r["x[1]"] + r["x[2]"] + r["y"] == 3 * ((r["x[1]"] + r["x[2]"]) // 2),
        ),
        ("(x[1] + y - k) mod 2 = 1", lambda r: (r["x[1]"] + r["y"] - r["k"]) % 2 == 1),
        ("count(a & b) = 1", lambda r: r["a"] and r["b"]),
        ("x[1] != 5 & x[2] != 1", lambda r: r["x[2]"] != 1),
    ],
)
def test_what_numbers_mean(text: str, meaning: Callable[[Record], bool]) -> None:
    space = LabelSpace(HEAD + text)
    records = oracle.records(space.variables)
    wanted = [bool(meaning(record)) for record in records]
    assert [oracle.holds(space.rules[0].formula, record) for record in records] == wanted
    assert space.count() == sum(wanted)
    assert (~space.check(records).invalid).tolist() == wanted
    assert LabelSpace(str(space)) == space


def test_what_is_longer_written_out_prints_as_it_was_written() -> None:
    text = "a, b\nx[1..2]: 0..2\nmax(x[*]) <= 1\nif a then b else x[1] = 0\n"
    text += "x[1]*x[2] = 0\nabs(x[1] - x[2]) = 1\n(x[1] + x[2]) mod 3 = 1\nx[1] != 5\n"
    assert str(LabelSpace(text)) == text


def test_large_products_are_refused_with_their_size() -> None:
    with pytest.raises(RuleError, match="a product of 500 times 500 steps"):
        LabelSpace("x, y: 0..500\nx * y = 12")
    with pytest.raises(RuleError, match=r"div between 0 and 20,000"):
        LabelSpace("x, y: 0..10000\n(x + y) div 1 = 12")
    assert LabelSpace("x: 0..500\nx * x = 81").count() == 1


def test_binary_variables_count_by_themselves() -> None:
    assert parse("a, b\ncount(a, b) <= 1")[1] == parse("a, b\na + b <= 1")[1]
