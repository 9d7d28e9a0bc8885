"""Reasons hold by enumeration: what they name is enough to forbid the raw value, and no less is."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl import LabelSpace, Predictive
from dssl.app.explorer.beliefs import judged
from dssl.app.explorer.reasons import Reason, broken, reasons
from dssl.errors import RuleError

NAMES = "abcde"
eighths = st.integers(-32, 32).filter(bool).map(lambda n: n / 8)
logits = st.lists(eighths, min_size=8, max_size=8, unique=True)


@st.composite
def spaces(draw: st.DrawFn) -> LabelSpace:
    """A few random clauses over five binaries and a choice; those that clash are drawn anew."""
    atom = st.tuples(st.sampled_from(["", "!"]), st.sampled_from([*NAMES, "f = x", "f = y", "f in {y, z}"]))
    clause = st.lists(atom, min_size=1, max_size=3, unique_by=lambda pair: pair[1])
    clauses = draw(st.lists(clause, min_size=1, max_size=7))
    lines = [
        " | ".join(f"{sign}({name} = true)" if name in NAMES else f"{sign}({name})" for sign, name in c)
        for c in clauses
    ]
    try:
        return LabelSpace(f"{', '.join(NAMES)}\nf: {{x, y, z}}\n" + "\n".join(lines))
    except RuleError:
        return LabelSpace(f"{', '.join(NAMES)}\nf: {{x, y, z}}\n{lines[0]}")


def explained(space: LabelSpace, z: list[float]) -> tuple[list[int], list[int], list[Reason]]:
    row = torch.tensor([z], dtype=torch.float64)
    p = Predictive(row, space)
    said = judged(space, p, 1)
    raw, final = said["raw"], said["top"][0]["label"]
    return raw, final, reasons(space, p, raw, final)


def allowed(space: LabelSpace, rules: list[int], fixed: dict[int, int]) -> bool:
    """Whether some label obeys these rules and has these values, by trying all."""
    names = [v.name for v in space.variables]
    wanted = {names[i]: space.variables[i].values[value] for i, value in fixed.items()}
    return any(
        all(record[name] == value for name, value in wanted.items())
        and all(oracle.holds(space.rules[r].formula, record) for r in rules)
        for record in oracle.records(space.variables)
    )


@settings(max_examples=40, deadline=None)
@given(spaces(), logits)
def test_reasons_are_enough_and_no_more(space: LabelSpace, z: list[float]) -> None:
    raw, final, found = explained(space, z)
    assert [r.variable for r in found] == [i for i in range(6) if raw[i] != final[i]]
    for reason in found:
        value = {reason.variable: raw[reason.variable]}
        kept = {i: final[i] for i in reason.kept}
        every = list(range(len(space.rules)))
        same = {i: final[i] for i in range(6) if raw[i] == final[i]}
        assert reason.forced == (not allowed(space, every, {**same, **value}))
        if not reason.forced:
            continue
        assert all(raw[i] == final[i] for i in reason.kept)
        assert not allowed(space, list(reason.rules), {**kept, **value})
        for rule in reason.rules:
            assert allowed(space, [r for r in reason.rules if r != rule], {**same, **value})
        for i in reason.kept:
            assert allowed(space, list(reason.rules), {**{k: v for k, v in kept.items() if k != i}, **value})


@settings(max_examples=40, deadline=None)
@given(spaces(), logits)
def test_the_price_of_keeping_a_value_is_that_of_the_next_best_label(space: LabelSpace, z: list[float]) -> None:
    raw, _, found = explained(space, z)
    log_pos, log_neg = oracle.log_literals(space.variables, z)
    rows = oracle.valid_columns(space.constraints)
    weights = oracle.log_weights(rows, log_pos, log_neg)
    for reason in (r for r in found if not r.forced):
        i = reason.variable
        start = space.spans[i][0]
        column = rows[:, start] == bool(raw[i]) if space.variables[i].binary else rows[:, start + raw[i]]
        assert reason.times == pytest.approx(math.exp(weights.max() - weights[column].max()), rel=1e-4)
        assert not allowed(space, list(reason.rules), dict(enumerate(raw)))


def test_broken_rules_are_those_of_check() -> None:
    space = LabelSpace("a, b, c\na -> b\nb -> c\n0.9 :: !a")
    assert broken(space, [1, 0, 0]) == [0]
    assert broken(space, [1, 0, 0], soft=True) == [2]
    assert broken(space, [0, 1, 0]) == [1]
    assert broken(space, [1, 1, 1]) == []


def test_legs_exclude_fins_because_legs_were_kept() -> None:
    space = LabelSpace("legs, fins, wings\nlegs -> !fins")
    raw, final, found = explained(space, [3.0, 2.0, 1.0])
    assert (raw, final) == ([1, 1, 1], [1, 0, 1])
    assert found == [Reason(1, True, (0,), (0,))]


def test_a_soft_rule_can_change_a_label_at_a_price() -> None:
    """Raw wings with odds e^.5 : 1 against a soft rule with odds 9 : 1."""
    space = LabelSpace("legs, wings\nlegs | !legs\n0.9 :: !wings")
    raw, final, found = explained(space, [3.0, 0.5])
    assert (raw, final) == ([1, 1], [1, 0])
    assert [(r.variable, r.forced, r.rules) for r in found] == [(1, False, (1,))]
    assert found[0].times == pytest.approx(9 / math.exp(0.5), rel=1e-5)
