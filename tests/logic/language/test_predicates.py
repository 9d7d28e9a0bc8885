"""Rules with parameters: what they say of their arguments, how they print, and where their errors point."""

from __future__ import annotations

import pytest

from dssl.errors import RuleError
from dssl.logic.language.expanding.expansion import MAX_INSTANCES
from dssl.logic.language.parser import parse, text_of
from dssl.logic.language.predicates import is_predicate
from dssl.logic.language.tokens import Source, statements
from dssl.logic.space import LabelSpace
from logic.messages import PREDICATES, BadText

HEAD = "x[1..3], y[1..3], a, b\ncell[1..k, 1..2]: 0..3\nkind[1..3]: {cat, dog}\nk = 2\n"


@pytest.mark.parametrize(
    ("rule", "use", "meaning"),
    [
        ("rule both(p, q) = p & q", "both(a, x[2])", "a & x[2]"),
        ("rule both(a, b) = a & !b", "both(b, a)", "b & !a"),
        ("rule next(i) = x[i] -> x[i+1]", "next(2)", "x[2] -> x[3]"),
        ("rule next(i) = x[i] -> x[i+1]", "for i in 1..2: next(i)", "x[1] -> x[2]\nx[2] -> x[3]"),
        ("rule next(i) = x[i] -> x[i+1]", "next(k - 1) | a", "(x[1] -> x[2]) | a"),
        ("rule isa(i, v) = kind[i] = v", "isa(1, cat) -> a", "kind[1] = cat -> a"),
        ("rule isa(i, v) = kind[i] in {v, dog}", "isa(3, cat)", "kind[3] in {cat, dog}"),
        ("rule few(n, s) = at_most(n, s[*])", "few(k, x)", "at_most(2, x[1], x[2], x[3])"),
        ("rule row(s) = sum(s[*]) <= 3", "for i in 1..2: row(cell[i])",
         "cell[1,1] + cell[1,2] <= 3\ncell[2,1] + cell[2,2] <= 3"),
        ("rule some(s) = any(s)", "some(x[1..2])", "x[1] | x[2]"),
        ("rule near(i, j) = i - j <= 1", "for i in 1..3 where i > 1: near(i, 1) -> x[i]",
         "true -> x[2]\nfalse -> x[3]"),
        ("rule p(i) = x[i]\nrule q(i) = p(i) & p(i+1)", "q(1)", "x[1] & x[2]"),
        ("rule p(i) = all(x[j] for j in 1..i)", "for j in 1..2: p(j)", "x[1] = true\nx[1] & x[2]"),
        ("rule p(u, v) = u <= v", "p(cell[1,1], cell[1, k])", "cell[1,1] <= cell[1,2]"),
        ("rule p(u) = u > 2", "count(p(cell[1,1]), a) = 1", "count(cell[1,1] > 2) + a = 1"),
        ("rule p() = a ^ b", "p() -> x[1]", "a ^ b -> x[1]"),
    ],
)  # fmt: skip
def test_a_use_says_what_it_stands_for(rule: str, use: str, meaning: str) -> None:
    variables, rules = parse(HEAD + rule + "\n" + use)
    written = parse(HEAD.replace("k = 2\n", "").replace("1..k", "1..2") + meaning)
    assert (variables, [r.formula for r in rules]) == (written[0], [r.formula for r in written[1]])
    space = LabelSpace.of(variables, rules)
    assert LabelSpace(str(space)) == space
    assert use.partition("(")[0].split()[-1] + "(" in str(space)
    assert "rule " not in text_of(variables, rules, written_out=True)


def test_only_what_is_used_is_printed() -> None:
    text = "m = 2\nrule p(i) = x[i] | x[m]\nrule q(i) = p(i)\nrule unused(i) = x[i]\nx[1..2]\nq(1)"
    assert str(LabelSpace(text)) == "m = 2\nrule p(i) = x[i] | x[m]\nrule q(i) = p(i)\nx[1..2]\nq(1)\n"


def test_soft_rules_remarks_and_rules_from_python_can_use_them() -> None:
    space = LabelSpace('x, y\nrule both(p, q) = p & q\n0.9 :: both(x, y)\n"why": !both(x, y)')
    assert [rule.text for rule in space.rules] == ["0.9 :: x & y", '"why": !(x & y)']
    assert LabelSpace("x, y").where("rule both(p, q) = p & q\nboth(x, y)").count() == 1


def test_rule_is_a_name_like_any_other() -> None:
    assert LabelSpace("rule, law\nrule -> law").count() == 3
    assert LabelSpace("rule: {gold, iron}\nrule in {gold}").count() == 1
    assert is_predicate(statements(Source("rule f(a) = a"))[0])
    assert not is_predicate(statements(Source("rule = true"))[0])


def test_uses_that_multiply_are_refused_with_the_count() -> None:
    doubling = "".join(f"rule g{i}(a) = g{i - 1}(a) & g{i - 1}(a)\n" for i in range(1, 40))
    with pytest.raises(RuleError, match=f"more than {MAX_INSTANCES:,}"):
        parse("x\nrule g0(a) = a\n" + doubling + "g39(x)")


@pytest.mark.parametrize("case", PREDICATES, ids=lambda case: case.reason[:40])
def test_errors_point_and_help(case: BadText) -> None:
    with pytest.raises(RuleError) as caught:
        parse(case.text)
    assert case.reason in caught.value.reason
    assert case.remedy in caught.value.remedy
    assert (caught.value.line, caught.value.column) == case.place
    parse(case.fixed)
