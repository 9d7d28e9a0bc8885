"""Loops written out: random programs against a naive expansion, printing, and texts with anything in them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.errors import ContradictionError, RuleError
from dssl.logic.language.expanding.expansion import MAX_INSTANCES
from dssl.logic.language.parser import parse, parse_rules, text_of
from dssl.logic.space import LabelSpace
from logic.stopwatch import LOADED, best_of_three

HEAD = "n = 3\nw = [2, -1, 3]\nx[0..4]\ncell[1..n, 0..3]: 0..3\nhas[{cat, dog}, 0..4]\npet: {cat, dog}\nk: 0..2\n"
FLAT = HEAD.replace("n = 3\nw = [2, -1, 3]\n", "").replace("1..n", "1..3")
Env = dict[str, Any]


# ---- random programs, and the same written out by hand ----


@dataclass(frozen=True)
class Piece:
    """A piece of text with names of loops in it, and the text it stands for under a binding."""

    text: str
    flat: Callable[[Env], str]


def number(draw: Callable, names: list[str], low: int, high: int) -> Piece:
    """A number between low and high: written as one, as a name, or by arithmetic."""
    value = draw(st.integers(low, high))
    kinds = [Piece(str(value), lambda env: str(value))]
    for name in names:
        shift = draw(st.integers(-1, 1))
        sign = "+" if shift >= 0 else "-"
        kinds.append(Piece(f"{name} {sign} {abs(shift)}", lambda env, n=name, s=shift: str(env[n] + s)))
        kinds.append(Piece(f"2*{name} - {name}", lambda env, n=name: str(env[n])))
        kinds.append(Piece(name, lambda env, n=name: str(env[n])))
    return draw(st.sampled_from(kinds))


@st.composite
def atoms(draw: Callable, names: list[str]) -> Piece:
    i, j = number(draw, names, 1, 3), number(draw, names, 0, 3)
    kind = draw(st.integers(0, 5))
    if kind == 5:  # an index that is a variable
        return Piece(
            f"cell[{i.text}, k] = {j.text}",
            lambda env: "(" + " | ".join(f"k = {k} & cell[{i.flat(env)},{k}] = {j.flat(env)}" for k in range(3)) + ")",
        )
    if kind == 0:
        return Piece(f"x[{i.text}]", lambda env: f"x[{i.flat(env)}]")
    if kind == 1:
        op = draw(st.sampled_from(["<=", ">", "<"]))
        return Piece(
            f"cell[{i.text}, {j.text}] {op} x[{j.text}] + 1",
            lambda env: f"cell[{i.flat(env)},{j.flat(env)}] {op} x[{j.flat(env)}] + 1",
        )
    if kind == 2:
        return Piece(f"has[cat, {j.text}]", lambda env: f"has[cat,{j.flat(env)}]")
    if kind == 3:
        return Piece(f"cell[1, 0] = {j.text}", lambda env: f"cell[1,0] = {j.flat(env)}")
    return Piece(
        f"exactly(1, x[{i.text}], x[m] for m in {{0, 2}} where m != {j.text})",
        lambda env: (
            "exactly(1, "
            + ", ".join([f"x[{i.flat(env)}]", *(f"x[{k}]" for k in (0, 2) if k != int(j.flat(env)))])
            + ")"
        ),
    )


@st.composite
def bodies(draw: Callable, names: list[str]) -> Piece:
    a, b = draw(atoms(names)), draw(atoms(names))
    symbol = draw(st.sampled_from(["&", "|", "->", "<->", "^"]))
    return draw(
        st.sampled_from(
            [
                a,
                Piece(f"{a.text} {symbol} ({b.text})", lambda env: f"{a.flat(env)} {symbol} ({b.flat(env)})"),
                Piece(f"!({a.text})", lambda env: f"!({a.flat(env)})"),
            ]
        )
    )


@st.composite
def loops(draw: Callable) -> tuple[str, list[str]]:
    """A line with loops, and the lines it stands for."""
    names = draw(st.sampled_from([["i"], ["i", "j"], ["j", "i"]]))
    domains = [draw(st.sampled_from([("1..3", [1, 2, 3]), ("{1, 3}", [1, 3]), ("1..n-1", [1, 2])])) for _ in names]
    where, keeps = draw(st.sampled_from([("", lambda env: True), (" where i != 2", lambda env: env["i"] != 2)]))
    body = draw(bodies(names))
    form = draw(st.integers(0, 2))
    if form == 0:
        head = "for " + ", ".join(f"{n} in {text}" for n, (text, _) in zip(names, domains)) + where + ": "
    elif form == 1:
        head = "".join(f"for {n} in {text}: " for n, (text, _) in zip(names, domains))
        head = head[:-2] + where + ": "
    else:
        head = "for " + ", ".join(f"{n} in {text}" for n, (text, _) in zip(names, domains)) + where + ":\n  "
    bindings = [dict(zip(names, values)) for values in itertools.product(*(values for _, values in domains))]
    return head + f"({body.text})", [f"({body.flat(env)})" for env in bindings if keeps(env)]


@settings(deadline=None, max_examples=150)
@given(st.lists(loops(), min_size=1, max_size=4))
def test_loops_are_what_a_naive_expansion_gives(program: list[tuple[str, list[str]]]) -> None:
    short = HEAD + "\n".join(text for text, _ in program)
    flat = FLAT + "\n".join(line for _, lines in program for line in lines)
    try:
        wanted: Any = parse(flat)
    except RuleError as error:  # an index that goes too far: in both
        assert "there is no element" in error.reason or "has no value" in error.reason  # noqa: PT017
        with pytest.raises(RuleError, match=r"there is no element|has no value"):
            parse(short)
        return
    found = parse(short)
    assert found == wanted
    assert parse(text_of(*found)) == wanted
    assert text_of(*parse(text_of(*found))) == text_of(*found)


@pytest.mark.parametrize(
    ("short", "flat"),
    [
        ("sum(w[i] * x[i] for i in 1..n) <= 3", "2*x[1] - x[2] + 3*x[3] <= 3"),
        ("sum(x[*]) - 2*sum(x[i] for i in 1..2) = 0", "x[0] + x[1] + x[2] + x[3] + x[4] - 2*x[1] - 2*x[2] = 0"),
        ("sum(x[i] for i in 1..0) <= x[1]", "0 <= x[1]"),
        ("exactly_one(x[*])", "exactly_one(x[0], x[1], x[2], x[3], x[4])"),
        ("none(x[1..2], x[{4}])", "none(x[1], x[2], x[4])"),
        ("any(has[*, 1])", "any(has[cat,1], has[dog,1])"),
        ("for s in {cat, dog}: pet = s -> has[s, 0]", "pet = cat -> has[cat,0]\npet = dog -> has[dog,0]"),
        ("for i in 1..3 where (i + 1) mod 2 = 0: x[i]", "(x[1])\n(x[3])"),
        ("for i in 0..3: x[i] -> x[i+1]", "\n".join(f"x[{i}] -> x[{i + 1}]" for i in range(4))),
        ("for i in 1..2: 0.9 :: x[i]", "0.9 :: x[1]\n0.9 :: x[2]"),
        ("all(x[i] for i in 1..0)", "true"),
        ("any(x[i] for i in 1..0)", "false"),
        ("at_least(1, x[i] for i in 1..0)", "false"),
        ("for i in 1..0: x[i]", ""),
        ("for i in 1..2:\n    x[i]\n    for j in 0..1:\n        cell[i, j] = j\nx[4] = true",
         "(x[1])\n(x[2])\ncell[1,0] = 0\ncell[1,1] = 1\ncell[2,0] = 0\ncell[2,1] = 1\n(x[4])"),
        ("for i in 1..2: cell[i, 0] in {i, i+1}", "cell[1,0] in {1, 2}\ncell[2,0] in {2, 3}"),
        ("cell[1,0] in 1..2", "cell[1,0] in {1, 2}"),
    ],
)  # fmt: skip
def test_what_loops_stand_for(short: str, flat: str) -> None:
    rules = parse(HEAD + short)[1]
    assert rules == parse(FLAT + flat)[1]
    assert [rule.origin for rule in parse(FLAT + flat)[1]] == [None] * len(rules)


def test_printing_gives_the_short_form_back() -> None:
    text = (
        "w = [2, -1]\nx[1..2]\ncell[1..3, {a, b}]: 0..3\n"
        "for i in 1..2, s in {a, b} where i > 1: x[i] -> cell[i, s] = i\n"
        "sum(w[i]*x[i] for i in 1..2) <= 2\nexactly_one(x[*])\n"
    )
    space = LabelSpace(text)
    assert str(space) == text
    assert str(space.where("x[1] = true")) == text + "x[1] = true\n"
    assert str(space.where("for i in 1..2: x[i] -> cell[i, a] > 0")).endswith("for i in 1..2: x[i] -> cell[i, a] > 0\n")


def test_the_short_form_is_not_printed_where_it_would_mean_something_else() -> None:
    small, more = LabelSpace("x[1..2]\nexactly_one(x[*])"), LabelSpace("x[3]")
    assert str(small & more) == "x[1..3]\nexactly_one(x[1], x[2])\n"
    assert LabelSpace(str(small & more)) == small & more
    bound, named = LabelSpace("x[1..2]\nfor i in 1..2: x[i]"), LabelSpace("i, j")
    assert LabelSpace(str(bound & named)) == bound & named
    first, second = LabelSpace("n = 1\nx[1..2]\nx[n] = true"), LabelSpace("n = 2\nx[1..2]\nx[n] = true")
    assert LabelSpace(str(first & second)) == first & second
    part = LabelSpace.of(bound.variables, bound.rules[:1])
    assert str(part) == "x[1..2]\nx[1] = true\n"


def test_messages_say_the_line_and_for_which_index() -> None:
    space = LabelSpace("x[1..3]\n\nfor i in 1..2:\n  x[i] -> x[i+1]")
    assert str(space.rules[1]) == "line 4, for i = 2: x[2] -> x[3]"
    assert "line 4, for i = 2: x[2] -> x[3]" in str(space.check([{"x[1]": 0, "x[2]": 1, "x[3]": 0}]))
    with pytest.raises(ContradictionError, match="line 2, for i = 2: x\\[2\\] = true"):
        LabelSpace("x[1..3]\nfor i in 1..3: x[i]\n!x[2]")


def test_rules_about_declared_arrays() -> None:
    variables = parse(HEAD)[0]
    assert parse_rules("m = 2\nfor i in 1..m: x[i]", variables) == parse(FLAT + "(x[1])\n(x[2])")[1]
    with pytest.raises(RuleError, match="'x' is a variable already"):
        parse_rules("for x in 1..2: pet = cat", variables)


def test_instances_are_written_out_in_seconds_and_more_are_refused_at_once() -> None:
    text = "x[1..1000]\nfor i in 1..1000, j in 1..20: x[i] -> x[j]"
    assert len(parse(text)[1]) == 20_000 <= MAX_INSTANCES / 10
    assert best_of_three(lambda: parse(text)) < 1.5 * LOADED
    with pytest.raises(RuleError, match="loops with 1,000,000 instances"):
        parse("x[1..1000]\nfor i, j in 1..1000: x[i] -> x[j]")


# ---- anything at all ----

SEED = (
    HEAD
    + "for i in 1..n, j in 1..i where i != j:\n  x[i] & cell[i, j-1] = 2 -> has[cat, j]\n"
    + ("sum(w[i] * x[i] for i in 1..n) <= 3\nfor s in {cat, dog}: pet = s -> any(has[s, *])\nexactly_one(x[1..3])\n")
    + "0 <= cell[1, k] mod 2 <= abs(cell[2, 0] - k) * k\nfor i in 1..2: x[k+i] -> has[pet, i]\n"
)
PIECES = (
    "for in where [ ] [*] [i] [1..2] .. : , ( ) { } sum( any( i j x cell n w 1 0 - + * = <= -> & ! div mod "
    "abs( k pet < \n"
).split(" ") + ["\n  ", " "]


def mutated(rng: random.Random, text: str) -> str:
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(text) + 1)
        to = min(len(text), at + rng.randint(0, 6))
        text = text[:at] + rng.choice(["", rng.choice(PIECES), text[at:to] * 2]) + text[to:]
    return text


def test_ten_thousand_mutated_texts_are_read_or_refused() -> None:
    rng = random.Random(0)
    read = 0
    for _ in range(10_000):
        text = mutated(rng, SEED)
        try:
            parsed = parse(text)
        except RuleError as error:
            assert error.line is None or 1 <= error.line <= text.count("\n") + 1  # noqa: PT017
            assert error.remedy  # noqa: PT017
            assert len(str(error)) < 1000  # noqa: PT017
        else:
            read += 1
            assert parse(text_of(*parsed)) == parsed, text
    assert 500 < read < 9_000
