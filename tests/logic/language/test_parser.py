"""The rule language: every construct means what the page says, printing round-trips, errors point and help."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle
from dssl.errors import RuleError
from dssl.logic.language.formula import (
    MAX_DEPTH,
    MAX_DIGITS,
    And,
    Compare,
    Count,
    Formula,
    Iff,
    Implies,
    In,
    Is,
    Not,
    Or,
    Truth,
    Xor,
)
from dssl.logic.language.parser import Rule, parse, parse_rules, require_writable, text_of
from dssl.logic.language.symbols import implies
from dssl.logic.language.variables import Variable
from dssl.logic.space import LabelSpace
from logic.messages import DECLARATIONS, RULES, BadCall, BadText, calls_about, check_call
from logic.stopwatch import LOADED, best_of_three, within
from logic.strategies import Drawn, drawn_spaces

HEAD = "legs, fins, wings, tail\nspecies: {cat, dog, trout}\nage: 0..9\nsize: -3..3\n"
a, b, c, d = (Is(name) for name in ("legs", "fins", "wings", "tail"))


def rule(text: str) -> Rule:
    (found,) = parse(HEAD + text)[1]
    return found


# ---- meaning ----


@settings(deadline=None, max_examples=60)
@given(drawn_spaces())
def test_a_parsed_rule_means_what_was_meant(drawn: Drawn) -> None:
    variables, rules = parse(drawn.text)
    assert variables == drawn.variables
    assert tuple(rule.probability for rule in rules) == drawn.probabilities
    for parsed, statement in zip(rules, drawn.statements, strict=True):
        for record in oracle.records(variables):
            assert oracle.holds(parsed.formula, record) == statement.holds(record)


@settings(deadline=None, max_examples=60)
@given(drawn_spaces())
def test_parsing_what_was_printed_gives_the_same(drawn: Drawn) -> None:
    variables, rules = parse(drawn.text)
    printed = text_of(variables, rules)
    assert parse(printed) == (variables, rules)
    assert text_of(*parse(printed)) == printed


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("legs & fins | wings", Or((And((a, b)), c))),
        ("legs | fins & wings", Or((a, And((b, c))))),
        ("legs | fins ^ wings", Xor((Or((a, b)), c))),
        ("legs ^ fins -> wings", Implies(Xor((a, b)), c)),
        ("legs -> fins -> wings", Implies(a, Implies(b, c))),
        ("legs <-> fins -> wings", Iff(a, Implies(b, c))),
        ("legs <-> fins <-> wings", Iff(Iff(a, b), c)),
        ("!legs & fins", And((Not(a), b))),
        ("not legs -> fins", Implies(Not(a), b)),
        ("!species = cat & legs", And((Not(In("species", ("cat",))), a))),
        ("age + size <= 3 & legs | fins", Or((And((rule("age + size <= 3").formula, a)), b))),
    ],
)
def test_precedence(text: str, formula: object) -> None:
    assert rule(text).formula == formula


@pytest.mark.parametrize(
    "spellings",
    [
        ("!legs", "~legs", "not legs", "legs = false", "legs = 0", "legs != true", "legs != 1", "legs in {0}"),
        ("legs & fins", "legs and fins", "all(legs, fins)", "(legs) & (fins)", "legs \\\n & fins"),
        ("legs | fins", "legs or fins", "any(legs, fins)", "any(legs, fins,)"),
        ("legs ^ fins", "legs xor fins"),
        ("legs -> fins", "legs implies fins"),
        ("legs <-> fins", "legs iff fins"),
        ("!legs & !fins", "none(legs, fins)", "not legs and not fins"),
        ("exactly_one(legs, fins)", "exactly(1, legs, fins)"),
        ("species = cat", "species in {cat}", 'species = "cat"'),
        ("species != cat", "!(species = cat)", "species not in {cat}", "species !in {cat}", "!species = cat"),
        ("legs = true", "(legs)", "legs = 1", '"legs" = true'),
        ("2*age <= size", "age*2 <= size"),
        ("0.5 :: legs", ".5 :: legs", "5e-1 :: legs", "0.50 :: legs"),
    ],
)
def test_equal_spellings_give_equal_rules(spellings: tuple[str, ...]) -> None:
    assert len({rule(text) for text in spellings}) == 1


@pytest.mark.parametrize(
    "spellings",
    [
        ("species in {cat, dog}", "species = cat | species = dog", "species != trout", "species in {dog, cat, dog}"),
        ("age != 3", "age < 3 | age > 3", "!(age = 3)", "age + 0 != 3", "3 != age", "age in {0,1,2,4,5,6,7,8,9}"),
        ("age <= 3", "3 >= age", "!(age > 3)", "age < 4", "-age >= -3", "age in {0, 1, 2, 3}"),
        ("age = size", "age - size = 0", "!(age != size)", "age <= size & age >= size", "size = age"),
        ("age = -size", "age + size = 0", "-age = size", "age = 0 - size", "age = -1*size"),
        ("legs = fins", "legs <-> fins", "legs + 0 = fins", "!(legs ^ fins)", "!legs <-> !fins", "!(legs != fins)"),
        ("exactly_one(legs, fins, wings)", "legs + fins + wings = 1",
         "at_most(1, legs, fins, wings) & (legs | fins | wings)"),
        ("at_least(2, legs, fins, wings)", "legs & fins | legs & wings | fins & wings", "legs + fins + wings >= 2"),
        ("none(legs, fins)", "at_most(0, legs, fins)", "exactly(0, legs, fins)", "!any(legs, fins)"),
        ("legs -> fins", "!legs | fins", "!fins -> !legs", "!(legs & !fins)", "legs <= fins"),
        ("legs ^ fins ^ wings", "legs <-> fins <-> wings", "exactly(1, legs, fins, wings) | all(legs, fins, wings)"),
        ("true", "legs | !legs", "age >= 0", "species in {cat, dog, trout}", "at_least(0, legs)", "species = species"),
        ("false", "legs & !legs", "age > 9", "at_least(2, legs)", "!true", "species != species"),
    ],
)  # fmt: skip
def test_equivalent_spellings_agree(spellings: tuple[str, ...]) -> None:
    variables = parse(HEAD)[0]
    rows = oracle.records(variables)[::7]  # coprime to the sizes: every value meets every other
    truths = [[oracle.holds(rule(text).formula, row) for row in rows] for text in spellings]
    assert all(truth == truths[0] for truth in truths)


# ---- declarations and lines ----


def test_declarations_of_every_kind() -> None:
    variables, rules = parse('a, "b c"\nx, y: {p, "q r", 3}\nn: -2..1\nm: {4, 2}\n1 <= n + m # a rule\n')
    assert variables == (
        Variable("a"), Variable("b c"), Variable.choice("x", ["p", "q r", 3]), Variable.choice("y", ["p", "q r", 3]),
        Variable.choice("n", [-2, -1, 0, 1]), Variable.choice("m", [4, 2]),
    )  # fmt: skip
    assert [(r.line, r.text) for r in rules] == [(5, "1 <= n + m")]


def test_rules_may_come_before_declarations() -> None:
    assert parse("legs -> fins\nlegs, fins")[1] == parse("legs, fins\nlegs -> fins")[1]


def test_lines_are_counted_where_a_rule_begins() -> None:
    _, rules = parse("a, b\n\n# comment\nall(a,\n    b)\na \\\n -> b\n")
    assert [r.line for r in rules] == [4, 6]


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse("\ufefflegs")[0] == (Variable("legs"),)


def test_a_value_wins_over_a_variable_of_the_same_name() -> None:
    _, (found,) = parse("cat: {yes, no}\npet: {cat, dog}\npet = cat")
    assert found.formula == In("pet", ("cat",))


def test_a_constant_alone_is_a_rule() -> None:
    assert parse("a\ntrue\nfalse")[1] == (Rule(Truth(True)), Rule(Truth(False)))
    assert parse('"true"')[0] == (Variable("true"),)


def test_a_rule_prints_with_its_line() -> None:
    assert str(rule("0.9 :: legs")) == "line 5: 0.9 :: legs"
    assert str(Rule(a)) == "legs = true"
    assert rule("(legs)") == Rule(a)  # the line is not part of a rule


def test_a_remark_before_a_loop_belongs_to_each_of_its_rules() -> None:
    text = (
        'x[1..3]\n"up": for i in 1..2: x[i] -> x[i+1]\n"all": for i in 1..2:\n    !x[i]\n    "one": 0.9 :: x[3]\n'
        '"few": at_most(1, x[1..2])\n"sum": sum(i*x[i] for i in 1..3) <= 3\n"n": 0..3\n"m": 1+1..3\n'
    )
    space = LabelSpace(text)
    assert [rule.why for rule in space.rules] == ["up", "up", "all", "all", "one", "one", "few", "sum"]
    assert [variable.name for variable in space.variables] == ["x[1]", "x[2]", "x[3]", "n", "m"]
    assert str(space.rules[0]) == 'line 2, for i = 1: "up": x[1] -> x[2]'
    again = LabelSpace(str(space))
    assert again == space
    assert [rule.why for rule in again.rules] == [rule.why for rule in space.rules]


def test_a_remark_stays_with_its_rule() -> None:
    text = 'a, b, x[1..2]\n"is a: \\"b\\"": a -> b\n"maybe": 0.9 :: a\nfor i in 1..2: "all": x[i] | a\n'
    space = LabelSpace(text)
    assert [rule.why for rule in space.rules] == ['is a: "b"', "maybe", "all", "all"]
    assert space.rules == LabelSpace("a, b\nx[1..2]\na -> b\n0.9 :: a\nfor i in 1..2: x[i] | a").rules
    assert str(space) == text
    assert str(space.rules[2]) == 'line 4, for i = 1: "all": x[1] | a'
    assert space.rename({"a": "c"}).rules[0].why == 'is a: "b"'
    assert LabelSpace("a, b\nx[1..2]").where(*space.rules).rules[1].why == "maybe"
    assert 'line 3: "not both": !a' in str(_contradiction('a\na = true\n"not both": !a'))


def _contradiction(text: str) -> RuleError:
    with pytest.raises(RuleError) as caught:
        LabelSpace(text)
    return caught.value


@pytest.mark.parametrize("text", ['"a b": {p, q}', '"a b": 0..3', 'n = {1, 2}\n"a b": n', '"a b": -3..0', '"a b"'])
def test_a_name_in_quotes_before_values_declares_a_variable(text: str) -> None:
    assert [variable.name for variable in parse(text)[0]] == ["a b"]


def test_rules_about_declared_variables() -> None:
    variables = parse(HEAD)[0]
    assert parse_rules("legs -> fins\n0.9 :: wings", variables) == (Rule(Implies(a, b)), Rule(c, 0.9))
    assert parse_rules("", variables) == ()


def test_nesting_at_the_limit_parses_and_prints() -> None:
    deep = MAX_DEPTH
    for text in ("(" * deep + "!legs" + ")" * deep, "!" * deep + "legs", " -> ".join(["legs"] * (deep + 1))):
        parsed = parse(HEAD + text)
        assert parse(text_of(*parsed)) == parsed


# ---- errors ----


@pytest.mark.parametrize("case", DECLARATIONS + RULES, ids=lambda case: case.reason[:40])
def test_errors_point_and_help(case: BadText) -> None:
    with pytest.raises(RuleError) as caught:
        parse(case.text)
    error = caught.value
    assert case.reason in error.reason
    assert case.remedy in error.remedy
    assert (error.line, error.column) == case.place
    source = case.text.split("\n")[error.line - 1]
    assert error.source == source
    parse(case.fixed)


@pytest.mark.parametrize("case", calls_about("language"), ids=lambda case: case.reason[:40])
def test_errors_of_calls(case: BadCall, tmp_path) -> None:
    check_call(case, tmp_path)


def test_the_whole_message() -> None:
    with pytest.raises(RuleError) as caught:
        parse("legs, fins\nlegs -> fin\n")
    assert str(caught.value) == (
        "line 2, column 9: 'fin' is not declared\n"
        "  legs -> fin\n"
        "          ^\n"
        "Did you mean 'fins'? Declared: legs, fins. A line 'fin' declares it as binary."
    )


# ---- anything at all ----

PIECES = (
    "legs fins species age cat dog 0 1 9 0.9 :: : .. , ( ) { } ! ~ not & and | or ^ xor -> implies <-> iff = != in < "
    '<= > >= + - * all( any( none( exactly_one( exactly( at_most( at_least( true false "has\u00a0tail" " \\ # ; [ => '
    "1e5 999999999999999 \u0000 é"
).split(" ") + ["\n", " ", "\t", "\\\n", "\u2028"]  # fmt: skip
FILE = (
    HEAD
    + """
legs -> !fins                        # a comment
species = trout -> fins & !legs
species in {cat, dog} -> legs
exactly_one(legs, fins, wings)
at_most(2, legs, fins & wings, age >= 3)
age + size <= 2*age - 1
0.9 :: tail <-> fins
"""
)


def reads_or_refuses(text: str) -> None:
    """Either the text parses and prints back, or a RuleError of bearable length says why not."""
    try:
        parsed = parse(text)
    except RuleError as error:
        assert len(str(error)) < 2000  # noqa: PT017
        assert error.line is None or 1 <= error.line <= text.count("\n") + 1  # noqa: PT017
    else:
        assert parse(text_of(*parsed)) == parsed


FUZZ = settings(max_examples=350, deadline=5000, suppress_health_check=[HealthCheck.too_slow])


@FUZZ
@given(st.text(max_size=60))
def test_random_characters(text: str) -> None:
    reads_or_refuses(text)
    reads_or_refuses(HEAD + text)


@FUZZ
@given(st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join))
def test_random_pieces_of_the_language(text: str) -> None:
    reads_or_refuses(HEAD + text)


@FUZZ
@given(st.randoms(use_true_random=False), st.integers(1, 6))
def test_mutated_files(rng: random.Random, mutations: int) -> None:
    text = FILE
    for _ in range(mutations):
        at, to = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        to = min(to, at + 5)
        text = text[:at] + rng.choice(["", rng.choice(PIECES), text[at:to] * 2, chr(rng.randrange(0x3000))]) + text[to:]
    reads_or_refuses(text)
    try:
        LabelSpace(text)
    except RuleError as error:
        assert error.reason  # noqa: PT017


MILLION = 10**6
MANY = 10**5  # where every character or two is a token
EXTREMES = {
    "conjunction": HEAD + "&".join(["legs"] * (MANY // 5)),
    "implications": HEAD + "->".join(["legs"] * (MANY // 6)),
    "brackets": "(" * MILLION,
    "closing": ")" * MILLION,
    "braces": "x: " + "{" * MILLION,
    "negations": HEAD + "!" * MANY + "legs",
    "words of negation": HEAD + "not " * (MANY // 4) + "legs",
    "functions": HEAD + "at_most(1, " * (MILLION // 11),
    "minus": HEAD + "age <= " + "-" * MANY + "1",
    "digits": HEAD + "age <= " + "9" * MILLION,
    "digits and a letter": "9" * MILLION + "a",
    "decimals": "0." + "9" * MILLION + " :: legs",
    "decimals and a letter": "0." + "9" * MILLION + "a",
    "exponents": "1e" * (MILLION // 2),
    "huge exponent": "1e999999999 :: legs",
    "range": "x: -999999999999999..999999999999999",
    "many values": "x: {" + ",".join(map(str, range(MANY // 7))) + "}",
    "too many values": "x: {" + ",".join(map(str, range(100_001))) + "}",
    "name": "x" * MILLION,
    "undeclared name": HEAD + "legs -> " + "x" * MILLION,
    "string": '"' + "x" * MILLION + '"',
    "open string": '"' + "x" * MILLION,
    "escapes": '"' + "\\\\" * (MILLION // 2),
    "spaces": " " * MILLION,
    "lines": "\n" * MANY,
    "continuations": "\\\n" * (MANY // 2),
    "comment": "#" * MILLION,
    "products": HEAD + "age <= " + "2*" * (MANY // 2) + "age",
    "sum": HEAD + "age <= " + "+".join(["size"] * (MANY // 5)),
    "names": ",".join(f"x{i}" for i in range(MANY // 7)),
    "commas": "," * MANY,
    "nulls": "\0" * MILLION,
    "surrogate": "legs \ud800",
    "right to left": "legs \u202e-> fins",
    "emoji": "🐈 -> 🐕",
    "combining": "e" + "\u0301" * MILLION,
    "carriage returns": "legs\r->\rfins",
}


@pytest.mark.parametrize("text", EXTREMES.values(), ids=EXTREMES.keys())
def test_extremes_parse_or_are_refused_in_time(text: str) -> None:
    with within(30):
        reads_or_refuses(text)


def test_a_long_chain_of_equivalences_parses_or_is_refused() -> None:
    with within(10):
        reads_or_refuses(HEAD + "<->".join(["legs"] * 5000))


def test_two_thousand_rules_parse_in_a_second() -> None:
    rng = random.Random(0)
    names = [f"attribute_{i}" for i in range(300)]
    lines = [", ".join(names), "kind: {" + ", ".join(f"kind{i}" for i in range(50)) + "}"]
    for _ in range(2000):
        x, y, z = rng.sample(names, 3)
        lines.append(
            rng.choice([f"{x} -> !{y} | {z}", f"kind in {{kind1, kind2}} -> {x}", f"at_most(1, {x}, {y}, {z})"])
        )
    text = "\n".join(lines)
    assert len(parse(text)[1]) == 2000
    assert best_of_three(lambda: parse(text)) < 1 * LOADED


# ---- limits ----


def test_a_formula_is_writable_up_to_a_depth_and_a_number_of_digits() -> None:
    deep: Formula = a
    for _ in range(MAX_DEPTH):
        deep = Count("<=", 1, (deep, b))
    require_writable(deep)
    most = 10**MAX_DIGITS - 1
    require_writable(Compare(((most, "x"),), "<=", ((-most, None),)))
    require_writable(Count("<=", most, (a,)))
    for bad in (
        ~deep,
        Or((a, implies(deep, b))),
        Compare(((most + 1, "x"),), "<=", ((1, None),)),
        Compare(((1, "x"),), "<=", ((-most - 1, None),)),
        And((a, Count("<=", 10**4000, (a,)))),
    ):
        with pytest.raises(RuleError, match=r"deeper|digits"):
            require_writable(bad)


def test_remarks_before_a_hierarchy_belong_to_all_its_rules() -> None:
    text = '"what biologists say": hierarchy leaf:\n    animal\n        cat\n        dog\n'
    space = LabelSpace(text)
    assert {rule.why for rule in space.rules} == {"what biologists say"}
    assert str(space) == text
    assert 'line 3: "what biologists say": cat -> animal' in str(space.check([{"cat": 1, "animal": 0}]))
    assert {rule.why for rule in LabelSpace('"so": hierarchy: cat < animal').rules} == {"so"}


def test_messages_show_long_rules_as_they_were_written() -> None:
    with pytest.raises(RuleError) as caught:
        LabelSpace('x, y: 0..9\n"no such pair": x * y = 77')
    assert 'line 2: "no such pair": x*y = 77\n' in str(caught.value)
    space = LabelSpace("x[1..9]: 0..9\nsum(x[*]) <= 90\nfor i in 1..1: all_different(x[*])\nn = 2\nx[n] != 3")
    assert [str(rule) for rule in space.rules] == [
        "line 2: sum(x[*]) <= 90",
        "line 3, for i = 1: all_different(x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9])",
        "line 5: x[2] != 3",
    ]
    hierarchy = LabelSpace("hierarchy leaf: aaaaaaaaaaaaaaa, bbbbbbbbbbbbbb, cccccccccccccc, ddddddddddddd < e")
    assert all("hierarchy" not in str(rule) for rule in hierarchy.rules)
