"""check, complete and valid against enumeration, with unknown and excluded values."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.errors import BudgetError, DataError
from dssl.logic.reasoning.solver import Solver
from dssl.logic.space import LabelSpace
from logic.messages import BadCall, calls_about, check_call
from logic.stopwatch import LOADED, best_of_three
from logic.strategies import Drawn, valid_spaces

Known = dict[str, tuple[Any, ...]]  # the values that are still allowed


@st.composite
def partial_labels(draw: Any) -> tuple[Drawn, list[Known]]:
    """A space and rows in which values are known, unknown or excluded."""
    drawn = draw(valid_spaces(labels=48))
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        row: Known = {}
        for variable in drawn.variables:
            if draw(st.booleans()):
                kept = draw(st.lists(st.sampled_from(variable.values), min_size=1, unique=True))
                row[variable.name] = tuple(kept)
            else:
                row[variable.name] = variable.values
        rows.append(row)
    return drawn, rows


def columns(drawn: Drawn, rows: list[Known]) -> np.ndarray:
    """What is known as a matrix of columns: 1, 0, and NaN for what is open."""
    out = []
    for row in rows:
        cells: list[float] = []
        for variable in drawn.variables:
            kept = row[variable.name]
            if variable.binary:
                cells.append(float(kept[0]) if len(kept) == 1 else np.nan)
            else:
                one = len(kept) == 1
                cells += [(1.0 if one else np.nan) if value in kept else 0.0 for value in variable.values]
        out.append(cells)
    return np.array(out, dtype=float)


def encodable(drawn: Drawn, rows: list[Known]) -> Any:
    """Columns; where they could be mistaken for one index a variable, records (which cannot exclude values)."""
    if sum(len(v.columns) for v in drawn.variables) != len(drawn.variables):
        return columns(drawn, rows)
    return [{name: kept[0] for name, kept in row.items() if len(kept) == 1} for row in rows]


@settings(deadline=None, max_examples=50)
@given(partial_labels())
def test_check_equals_enumeration(case: tuple[Drawn, list[Known]]) -> None:
    drawn, rows = case
    space = drawn.space()
    found = space.check(encodable(drawn, rows))
    everything = oracle.records(drawn.variables)
    assert found.broken.shape == found.jointly.shape == (len(rows), len(space.rules))
    for i, row in enumerate(rows):
        agreeing = oracle.completions(everything, row)
        saved = oracle.obeying(space.rules, agreeing)
        assert found.invalid[i] == (not saved)
        for rule, broken in zip(space.rules, found.broken[i]):
            assert not broken or (rule.probability is None and not oracle.obeying([rule], agreeing))
        together = [rule for rule, used in zip(space.rules, found.jointly[i]) if used]
        if together:  # a smallest set that leaves no completion
            assert not found.broken[i].any()
            assert not oracle.obeying(together, agreeing)
            for less in itertools.combinations(together, len(together) - 1):
                assert oracle.obeying(less, agreeing)
    assert found.rows.tolist() == [row for row, _ in found]
    assert len(found) == len(found.rows)
    assert bool(found) == bool(len(found))


@settings(deadline=None, max_examples=50)
@given(valid_spaces(labels=48))
def test_a_complete_row_breaks_exactly_the_rules_it_breaks(drawn: Drawn) -> None:
    space, rows = drawn.space(), oracle.records(drawn.variables)
    found = space.check(rows)
    for i, rule in enumerate(space.rules):
        expected = [rule.probability is None and not oracle.holds(rule.formula, row) for row in rows]
        assert found.broken[:, i].tolist() == expected
    assert not found.jointly.any()


@settings(deadline=None, max_examples=50)
@given(partial_labels())
def test_complete_fills_exactly_what_is_forced(case: tuple[Drawn, list[Known]]) -> None:
    drawn, rows = case
    space = drawn.space()
    saved = [oracle.completions(drawn.valid, row) for row in rows]
    lost = [i for i, labels in enumerate(saved) if not labels]
    y = encodable(drawn, rows)
    partial = [i for i, row in enumerate(np.isnan(space.encode(y))) if row.any()]
    if set(lost) & set(partial):
        with pytest.raises(DataError, match="cannot be completed"):
            space.complete(y)
        y = [y[i] for i in range(len(rows)) if i not in lost]
        saved = [labels for labels in saved if labels]
    elif lost:
        return  # complete rows are left as they are: check finds them
    if len(y) == 0:
        return
    filled = space.complete(y if isinstance(y[0], dict) else np.array(y))
    for row, labels in zip(filled, saved, strict=True):
        agreeing = space.encode(labels)
        same = (agreeing == agreeing[0]).all(axis=0)
        assert np.array_equal(row, np.where(same, agreeing[0], np.nan), equal_nan=True)


@settings(deadline=None, max_examples=50)
@given(valid_spaces(labels=64))
def test_valid_lists_every_valid_label_in_order(drawn: Drawn) -> None:
    space = drawn.space()
    assert list(space.valid()) == drawn.valid  # the first variable varies slowest, values in declared order
    for limit in (0, 1, 3):
        assert list(space.valid(limit)) == drawn.valid[:limit]


def test_valid_keeps_its_order_while_other_questions_are_asked() -> None:
    space = LabelSpace("a, b, c\nx: {p, q, r}\na -> x = p\nat_most(1, b, c)")
    expected, seen = list(space.valid()), []
    for record in space.valid():
        seen.append(record)
        space.diagnose()
        space.complete([{"a": 1}])
    assert seen == expected


def test_the_first_of_very_many_come_at_once() -> None:
    names = [f"x{i}" for i in range(1000)]
    space = LabelSpace(", ".join(names) + "\n" + "\n".join(f"{a} -> {b}" for a, b in itertools.pairwise(names)))
    first, second = space.valid(2)
    assert not any(first.values())
    assert [name for name in names if second[name]] == ["x999"]


# ---- words ----


def test_violations_in_words() -> None:
    space = LabelSpace("legs, fins, wings\nlegs -> !fins\nwings -> legs\n0.9 :: wings")
    assert str(space.check([[1, 0, 0], [0, 1, 0]])) == "all 2 rows obey the rules"
    found = space.check([[1, 1, 0], [0, 1, 1], [None, 1, 1], [1, 1, 1]])
    assert str(found) == (
        "4 of 4 rows break the rules\n"
        "  line 2: legs -> !fins\n"
        "    2 rows: 0, 3\n"
        "  line 3: wings -> legs\n"
        "    1 row: 1\n"
        "  line 2: legs -> !fins\n"
        "  line 3: wings -> legs\n"
        "    together, 1 row: 2"
    )
    assert [(row, [rule.line for rule in rules]) for row, rules in found] == [(0, [2]), (1, [3]), (2, [2, 3]), (3, [2])]
    assert found.impossible.tolist() == [False, False, True, False]
    assert found.invalid.all()


def test_soft_rules_are_never_broken() -> None:
    assert not LabelSpace("a\n0.99 :: a").check([[0]])


def test_nothing_to_check() -> None:
    space = LabelSpace("a, b\na -> b")
    assert not space.check(np.zeros((0, 2)))
    assert str(space.check(np.zeros((0, 2)))) == "all 0 rows obey the rules"
    assert space.complete(np.zeros((0, 2))).shape == (0, 2)


def test_excluded_values_count() -> None:
    """Not p and not q leaves r, which the rules forbid: every value is open, and yet no completion is valid."""
    space = LabelSpace("x: {p, q, r}\na\nx != r")
    assert space.check([[0, 0, np.nan, 1]]).invalid.tolist() == [True]
    found = space.check([[0, np.nan, np.nan, 1]])
    assert not found
    assert space.decode(space.complete([[0, np.nan, np.nan, 1]])) == [{"x": "q", "a": True}]


@pytest.mark.parametrize("case", calls_about("validity"), ids=lambda case: case.reason[:40])
def test_errors(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)


# ---- speed ----


def test_a_million_rows_and_twenty_rules_in_seconds() -> None:
    names = [f"a{i}" for i in range(10)]
    rules = [f"{a} -> !{b} | {c}" for a, b, c in itertools.permutations(names[:4], 3)][:20]
    space = LabelSpace(", ".join(names) + "\n" + "\n".join(rules))
    rng = np.random.default_rng(0)
    y = (rng.random((1_000_000, 10)) < 0.3).astype(np.float32)
    y[rng.random(y.shape) < 0.01] = np.nan
    assert best_of_three(lambda: space.check(y)) < 3 * LOADED


def test_where_the_solver_gives_up_the_circuit_answers(monkeypatch):
    """Partial labels over rules whose sums are too large to be watched: the same answers, and all rules to blame."""
    text = "a, b, c\nk: {x, y, z}\na -> b\nk = x -> !b\n2*a + 3*b + 4*c <= 6"
    rows = list(itertools.product([0.0, 1.0, np.nan], repeat=6))
    y = np.array([row for row in rows if np.nansum(row[3:]) <= 1 and (row[3:].count(0.0) < 3)], np.float32)
    space = LabelSpace(text)
    expected = space.check(y)
    good = y[~expected.invalid]
    filled = space.complete(good)

    def gives_up(*_):
        raise BudgetError("too many lessons")

    monkeypatch.setattr(Solver, "conflict", gives_up)
    monkeypatch.setattr(Solver, "satisfiable", gives_up)
    again = LabelSpace(text)
    assert again.check(y).invalid.tolist() == expected.invalid.tolist()
    np.testing.assert_array_equal(again.complete(good), filled)
    with pytest.raises(DataError, match="cannot be completed"):
        again.complete(y[expected.invalid & np.isnan(y).any(axis=1)])
