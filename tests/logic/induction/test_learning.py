"""Rules out of labels: planted rules come back, figures are what counting by hand gives, and nothing is said twice."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from scipy import stats
from scipy.sparse import csr_matrix

import dssl
import oracle
from dssl.errors import RuleError
from dssl.logic.induction.learning import LearnedRules, chance, learn_rules, log_shapes
from dssl.logic.language.formula import Not
from dssl.logic.language.parser import Rule
from dssl.logic.space import LabelSpace
from logic.messages import BadCall, calls_about, check_call

PLANTED = """
a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15
exactly_one(a0, a1, a2)
at_most(1, a3, a4, a5)
a6 <-> a7
a8 -> a9
a9 -> !a10
a11 | a12
a13 & a14 -> a15
"""


def sample(space: LabelSpace, rows: int, seed: int = 0) -> np.ndarray:
    """Valid labels of binary variables, evenly, by rejection."""
    rng = np.random.default_rng(seed)
    out = np.zeros((0, space.width), dtype=bool)
    while len(out) < rows:
        y = rng.random((200_000, space.width)) < 0.5
        records = dict(zip(space.columns, y.T))
        good = np.ones(len(y), dtype=bool)
        for rule in space.rules:
            good &= rule.formula.kleene(_table(records))[0]
        out = np.concatenate([out, y[good]])
    return out[:rows].astype(float)


def _table(records: dict[str, np.ndarray]) -> Any:
    from dssl.logic.language.formula import Assignments

    indices = {name: column.astype(np.int8) for name, column in records.items()}
    return Assignments(indices, dict.fromkeys(records, (False, True)), len(next(iter(records.values()))))


def implied(space: LabelSpace, rule: Rule) -> bool:
    try:
        space.where(Rule(Not(rule.formula)))
    except RuleError:
        return True
    return False


def texts(learned: LearnedRules) -> list[str]:
    return [rule.text for rule in learned.rules]


@pytest.fixture(scope="module")
def truth() -> LabelSpace:
    return LabelSpace(PLANTED)


@pytest.fixture(scope="module")
def labels(truth: LabelSpace) -> np.ndarray:
    return sample(truth, 3000)


@pytest.fixture(scope="module")
def learned(truth: LabelSpace, labels: np.ndarray) -> LearnedRules:
    return learn_rules(labels, truth.columns)


def test_planted_rules_come_back_as_they_were_planted(learned: LearnedRules, truth: LabelSpace) -> None:
    assert sorted(texts(learned)) == sorted(
        [
            "exactly_one(a0, a1, a2)",
            "at_most(1, a3, a4, a5)",
            "a6 <-> a7",
            "a8 -> a9",
            "a10 -> !a9",
            "a11 | a12",
            "a13 & a14 -> a15",
        ]
    )
    assert all(implied(learned.space, rule) for rule in truth.rules)
    assert all(implied(truth, rule.rule) for rule in learned)


def test_few_labels_give_fewer_rules_but_no_wrong_ones(truth: LabelSpace, labels: np.ndarray) -> None:
    few = learn_rules(labels[:60], truth.columns)
    assert 0 < len(few) < 7
    assert all(implied(truth, rule.rule) for rule in few)


def test_independent_columns_give_no_rules() -> None:
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        found += bool(learn_rules((rng.random((150, 8)) < rng.uniform(0.05, 0.95, 8)).astype(float)).rules)
    assert found / 40 <= 0.05


def test_no_rule_follows_from_the_rest(learned: LearnedRules) -> None:
    for i, rule in enumerate(learned.rules):
        rest = LabelSpace.of(learned.space.variables, [r.rule for j, r in enumerate(learned.rules) if j != i])
        assert not implied(rest, rule.rule)


# ---- figures ----


def test_figures_are_what_counting_gives(learned: LearnedRules, labels: np.ndarray) -> None:
    rule = next(r for r in learned if r.text == "a8 -> a9")
    premise, conclusion = labels[:, 8] == 1, labels[:, 9] == 1
    assert rule.kind == "implication"
    assert (rule.chances, rule.failures, rule.support) == (premise.sum(), 0, premise.sum())
    assert rule.expected == pytest.approx(3000 * premise.mean() * (1 - conclusion.mean()))
    raw = stats.hypergeom.logpmf(0, 3000, premise.sum(), (~conclusion).sum())
    assert math.log(rule.p_value) == pytest.approx(raw + math.log(learned.tried["pairs"] * 6))
    level = 0.05 / (8 * 2 * 3 * 3 * math.comb(16, 2) * 4)
    assert rule.bound == pytest.approx(1 - level ** (1 / premise.sum()))
    assert rule.examples == tuple(np.flatnonzero(premise)[:5])
    assert rule.exceptions == ()
    group = next(r for r in learned if r.text == "at_most(1, a3, a4, a5)")
    rates = labels[:, 3:6].mean(axis=0)
    more = sum(
        math.prod(p if bit else 1 - p for p, bit in zip(rates, bits))
        for bits in itertools.product((0, 1), repeat=3)
        if sum(bits) > 1
    )
    assert group.expected == pytest.approx(3000 * more)
    assert group.chances == labels[:, 3:6].any(axis=1).sum()


def test_the_shares_of_all_rules_add_up_to_at_most_one() -> None:
    """Σ over kinds, columns, signs and thresholds of 1 / exp(log_shapes): the union bound behind `bound`."""
    for width in (2, 5, 30):
        total = 0.0
        for c in range(1, width + 1):
            total += 8 * math.comb(width, c) * 2**c * (c + 1) * math.exp(-log_shapes(c, width))
        assert total <= 1 + 1e-9


@pytest.mark.parametrize(
    "text",
    [
        "a -> b", "!a | b", "a & b -> s = x", "s in {x, z} -> !a", "a <-> s != y", "n >= 2 -> a", "n <= 1",
        "at_most(1, a, b, c)", "at_least(2, a, b, c)", "exactly_one(a, b, c)", "exactly(2, a, b, !c)", "a -> b | c",
    ],
)  # fmt: skip
def test_chance_is_the_weight_of_the_records_that_obey(text: str) -> None:
    space = LabelSpace("a, b, c\ns: {x, y, z}\nn: 0..3", text)
    rng = np.random.default_rng(0)
    rates = {v.name: rng.dirichlet(np.ones(len(v.values))) for v in space.variables}
    total = 0.0
    for record in oracle.records(space.variables):
        weight = math.prod(rates[v.name][v.positions[record[v.name]]] for v in space.variables)
        total += weight * oracle.holds(space.rules[0].formula, record)
    values = {v.name: v.values for v in space.variables}
    assert chance(space.rules[0].formula, rates, values) == pytest.approx(total)


def test_bounds_hold_on_new_labels() -> None:
    """Rules that are nearly true: none fails in few labels, some fail in many, at rates within their bounds."""
    rng = np.random.default_rng(0)
    failed = 0
    for _ in range(5):
        a = rng.random((20_000, 1)) < 0.5
        y = np.column_stack([a, np.where(a, rng.random((20_000, 5)) < 0.995, rng.random((20_000, 5)) < 0.3)])
        found = learn_rules(y[:150], max_clause=2)
        for rule, (chances, failures) in zip(found, found.tested(y[150:])):
            failed += bool(failures)
            assert failures / chances <= rule.bound
    assert failed > 3


def test_rules_are_tested_on_other_labels(learned: LearnedRules) -> None:
    at = [rule.text for rule in learned].index("a8 -> a9")
    rows = np.zeros((6, 16))
    rows[:3, 8] = 1
    rows[0, 9] = 1
    rows[2, 9] = np.nan
    assert learned.tested(rows)[at] == (2, 1)
    assert learned.tested(rows[3:])[at] == (0, 0)


# ---- noise and unknown entries ----


def test_noise_makes_soft_rules(truth: LabelSpace, labels: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    noisy = np.where(rng.random(labels.shape) < 0.02, 1 - labels, labels)
    assert not {"a8 -> a9", "a6 <-> a7"} & set(texts(learn_rules(noisy, truth.columns)))
    soft = learn_rules(noisy, truth.columns, tolerance=0.1)
    formulas = {str(rule.rule.formula) for rule in soft}
    assert formulas >= {"exactly_one(a0, a1, a2)", "at_most(1, a3, a4, a5)", "a6 <-> a7", "a8 -> a9", "a11 | a12"}
    rule = next(r for r in soft if str(r.rule.formula) == "a8 -> a9")
    failed = np.flatnonzero((noisy[:, 8] == 1) & (noisy[:, 9] == 0))
    assert rule.failures == len(failed)
    assert rule.exceptions == tuple(failed[:5])
    assert rule.rule.probability == pytest.approx((rule.support + 1) / (rule.chances + 2), abs=1e-4)
    assert rule.bound > rule.failures / rule.chances
    assert LabelSpace(soft.text) == soft.space


def test_rules_without_failures_stay_hard_where_failures_are_tolerated(labels: np.ndarray, truth: LabelSpace) -> None:
    some = learn_rules(labels, truth.columns, tolerance=0.02)
    assert "a8 -> a9" in texts(some)


def test_unknown_entries_count_for_nothing(truth: LabelSpace, labels: np.ndarray) -> None:
    rng = np.random.default_rng(2)
    holes = np.where(rng.random(labels.shape) < 0.3, np.nan, labels)
    found = learn_rules(holes, truth.columns)
    assert {"a8 -> a9", "a6 <-> a7", "a11 | a12", "exactly_one(a0, a1, a2)"} <= set(texts(found))
    rule = next(r for r in found if r.text == "a8 -> a9")
    assert rule.chances == ((holes[:, 8] == 1) & ~np.isnan(holes[:, 9])).sum()
    assert all(implied(truth, rule.rule) for rule in found)


def test_a_rule_that_never_had_a_chance_is_not_reported() -> None:
    y = np.column_stack([np.tile([0, 1], 200), np.full(400, np.nan), np.zeros(400)])
    assert texts(learn_rules(y)) == ["!label2"]  # y1 is never known; y2 was known 400 times
    assert texts(learn_rules(y[:40])) == []


# ---- other kinds of variables, and spaces ----


def animals(rows: int = 400) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    kind = rng.choice(["ant", "bird", "cat", "dog"], rows)
    legs = np.select([kind == "ant", kind == "bird"], [6, 2], 4)
    return {"kind": kind, "legs": legs, "wings": kind == "bird", "tame": rng.random(rows) < 0.5, "pet": kind >= "cat"}


def test_categorical_and_integer_columns() -> None:
    found = learn_rules(animals())
    assert texts(found) == [
        "kind = ant <-> legs = 6",
        "kind = bird <-> legs = 2",
        "kind = bird <-> wings",
        "legs = 4 <-> pet",
    ]
    assert len(list(found.space.valid())) == 8  # four kinds, tame or not
    assert LabelSpace(found.text) == found.space


def test_rules_of_a_given_space_are_kept_and_not_learned_again(labels: np.ndarray, truth: LabelSpace) -> None:
    given = LabelSpace.attributes(truth.columns, "a8 -> a9\na9 -> !a10\n0.9 :: a15 -> a14")
    found = learn_rules(labels, space=given)
    assert found.space.rules[:3] == given.rules
    assert not {"a8 -> a9", "a10 -> !a9", "a9 -> !a10"} & set(texts(found))
    assert "a6 <-> a7" in texts(found)
    assert LabelSpace(found.text) == found.space


def test_a_given_soft_rule_does_not_stand_for_a_hard_one(labels: np.ndarray, truth: LabelSpace) -> None:
    found = learn_rules(labels, space=LabelSpace.attributes(truth.columns, "0.9 :: a8 -> a9"))
    assert "a8 -> a9" in texts(found)


def test_rules_that_contradict_the_given_ones_are_an_error() -> None:
    with pytest.raises(RuleError, match="contradict"):
        learn_rules(np.zeros((300, 2)), space=LabelSpace("a, b\na = true"))


@pytest.mark.parametrize("form", ["pandas", "polars", "records", "csr"])
def test_forms_of_labels_give_the_same_rules(form: str, labels: np.ndarray, truth: LabelSpace) -> None:
    part = labels[:500].astype(int)
    columns = {name: part[:, i].tolist() for i, name in enumerate(truth.columns)}
    y, names = {
        "pandas": (pandas.DataFrame(columns), None),
        "polars": (polars.DataFrame(columns), None),
        "records": ([dict(zip(columns, row)) for row in part.tolist()], None),
        "csr": (csr_matrix(part), list(columns)),
    }[form]
    assert learn_rules(y, names).rules == learn_rules(part, list(columns)).rules


# ---- settings, text and files ----


def test_rules_with_weak_bounds_can_be_left_out(labels: np.ndarray, truth: LabelSpace) -> None:
    strict = learn_rules(labels, truth.columns, max_bound=0.01)
    assert 0 < len(strict) < 7
    assert all(rule.bound <= 0.01 for rule in strict)


def test_the_text_is_a_rule_file(learned: LearnedRules, tmp_path: Path) -> None:
    assert LabelSpace(learned.text) == learned.space
    assert learned.text.count("# held in all") == len(learned)
    path = tmp_path / "learned.rules"
    path.write_text("something else")
    learned.save(path)
    assert LabelSpace.read(path) == learned.space
    assert os.listdir(tmp_path) == ["learned.rules"]


def test_a_file_that_cannot_be_written_leaves_nothing(learned: LearnedRules, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        learned.save(tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]


def test_the_table_lists_every_rule(learned: LearnedRules) -> None:
    lines = str(learned).splitlines()
    assert lines[0] == "7 rules from 3,000 rows"
    assert lines[1].split() == ["rule", "chances", "failures", "expected", "p-value", "bound"]
    assert len(lines) == 2 + len(learned) + len(learned.limits)
    assert str(learn_rules([[0, 1]])) == "no rule stands out in 1 rows"
    assert "held in all" in str(learned.rules[0])
    many = learn_rules(np.tile(np.eye(30), (60, 1)), [f"a_long_name_{i}" for i in range(30)])
    assert texts(many) == [f"exactly_one({', '.join(f'a_long_name_{i}' for i in range(30))})"]
    assert max(map(len, str(many).splitlines())) < 120


def test_strange_names_are_quoted() -> None:
    rng = np.random.default_rng(0)
    a = rng.random(300) < 0.5
    y = np.column_stack([a, a | (rng.random(300) < 0.3), rng.random(300) < 0.5])
    found = learn_rules(y, ["has tail", "not", "#"])
    assert texts(found) == ['"has tail" -> "not"']
    assert LabelSpace(found.text) == found.space


def test_many_columns_stay_within_the_budget() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random((2000, 120)) < 0.1).astype(np.int8)
    y[:, 1::2] |= y[:, 0::2]
    found = learn_rules(y, budget=50_000)
    assert texts(found) == [f"label{i} -> label{i + 1}" for i in range(0, 120, 2)]
    assert len(found.limits) == 1
    assert "clauses of three were sought among" in found.limits[0]


def test_it_is_a_public_name() -> None:
    assert dssl.learn_rules is learn_rules


@pytest.mark.parametrize("case", calls_about("induction"), ids=lambda case: case.reason)
def test_errors(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)
