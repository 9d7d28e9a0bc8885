"""LabelSpace: contradictions explained, spaces composed and renamed, identity, copies."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import oracle
from dssl.circuits.compile import compiler
from dssl.errors import ContradictionError, RuleError
from dssl.logic.language.formula import And, Compare, Count, Formula, Iff, Implies, In, Is, Not, Or, Xor
from dssl.logic.language.parser import Rule, parse, text_of
from dssl.logic.language.symbols import symbols
from dssl.logic.language.variables import Scope, Variable
from dssl.logic.space import LabelSpace
from logic.messages import BadCall, calls_about, check_call
from logic.stopwatch import within
from logic.strategies import Drawn, Statement, drawn_spaces, statements, valid_spaces, variable_lists

EXAMPLE = """
# animals.rules
species: {cat, dog, trout, eagle}
legs, fins, wings, gills
age: 0..9

legs -> !fins
species = trout -> fins & !legs
species in {cat, dog} -> legs
at_most(2, legs, fins, wings)
age >= 2 -> !gills
0.9 :: gills <-> fins
"""


@settings(deadline=None, max_examples=60)
@given(drawn_spaces(labels=48))
def test_a_space_has_the_labels_its_rules_mean(drawn: Drawn) -> None:
    if drawn.valid:
        assert list(drawn.space().valid()) == drawn.valid
    else:
        with pytest.raises(RuleError, match="these rules contradict each other"):
            drawn.space()


# ---- contradictions ----


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(drawn_spaces(most=3, labels=16, rules=7, depth=1).filter(lambda drawn: not drawn.valid))
def test_a_contradiction_lists_a_smallest_set_by_line(drawn: Drawn) -> None:
    with pytest.raises(RuleError) as caught:
        drawn.space()
    listed = caught.value.reason.splitlines()[1:]
    rules = [rule for rule in drawn.rules() if f"  {rule}" in listed]
    assert [f"  {rule}" for rule in rules] == listed
    everything = oracle.records(drawn.variables)
    assert not oracle.obeying(rules, everything)
    for less in itertools.combinations(rules, len(rules) - 1):
        assert oracle.obeying(less, everything)


def test_a_contradiction_among_many_rules() -> None:
    """Of many rules exactly the links of a chain and its two ends conflict; the others are left out."""
    names = [f"x{i}" for i in range(100)]
    links = [f"{a} -> {b}" for a, b in itertools.pairwise(names[:5])]
    noise = [f"{a} | {b}" for a, b in itertools.pairwise(names[10:])]
    with pytest.raises(RuleError) as caught:
        LabelSpace("\n".join([", ".join(names), *noise[:40], *links, *noise[40:], "x0 = true", "!x4"]))
    assert [line.partition(": ")[2] for line in caught.value.reason.splitlines()[1:]] == [*links, "x0 = true", "!x4"]


def test_soft_rules_never_contradict() -> None:
    assert len(list(LabelSpace("a\n0.9 :: a\n0.9 :: !a").valid())) == 2


# ---- shape ----


def test_columns_and_spans() -> None:
    space = LabelSpace(EXAMPLE)
    assert space.columns[:6] == ("species=cat", "species=dog", "species=trout", "species=eagle", "legs", "fins")
    assert space.spans == ((0, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 18))
    assert space.width == len(space.columns) == 18
    assert repr(space) == "LabelSpace(6 variables: species, legs, fins, wings, gills, age; 6 rules)"


@settings(deadline=None, max_examples=40)
@given(valid_spaces())
def test_printing_a_space_gives_text_of_the_same_space(drawn: Drawn) -> None:
    space = drawn.space()
    assert LabelSpace(str(space)) == space
    assert [v.columns for v in space.variables] == [space.columns[a:b] for a, b in space.spans]


def test_a_symbol_of_a_space() -> None:
    space = LabelSpace('"has tail", legs')
    assert str(space["has tail"] >> space["legs"]) == '"has tail" -> legs'


# ---- composing ----


@st.composite
def pairs(draw: Any) -> tuple[Any, ...]:
    """Two spaces that share some variables, as (variables, statements) each."""
    variables = draw(variable_lists(most=4, labels=32))
    parts = (
        variables[: draw(st.integers(1, len(variables)))],
        variables[draw(st.integers(0, len(variables) - 1)) :],
    )
    return tuple((part, draw(st.lists(statements(part, depth=2), max_size=2))) for part in parts)


def built(variables: tuple[Variable, ...], drawn: list[Statement]) -> LabelSpace | None:
    try:
        return LabelSpace.of(variables).where(*(s.python for s in drawn))
    except RuleError:
        return None


@settings(deadline=None, max_examples=60)
@given(pairs())
def test_intersection_and_union_are_those_of_sets(pair: tuple[Any, ...]) -> None:
    (left, first), (right, second) = pair
    a, b = built(left, first), built(right, second)
    if a is None or b is None:
        return
    together = list({v.name: v for v in (*left, *right)}.values())
    truths = [
        (record, all(s.holds(record) for s in first), all(s.holds(record) for s in second))
        for record in oracle.records(together)
    ]
    assert list((a | b).valid()) == [record for record, x, y in truths if x or y]
    both = [record for record, x, y in truths if x and y]
    if both:
        assert list((a & b).valid()) == both
    else:
        with pytest.raises(RuleError, match="contradict"):
            a & b


def test_composing_in_words() -> None:
    a, b = LabelSpace("x, y\nx -> y"), LabelSpace("y, z\ny -> z")
    assert str(a & b) == "x, y, z\nx -> y\ny -> z\n"
    assert str(a | b) == "x, y, z\n(x -> y) | (y -> z)\n"
    assert str(a.where("!x", symbols("y")[0] | True)) == "x, y\nx -> y\n!x\ny | true\n"
    assert (a | LabelSpace("z")).rules[0].text == "(x -> y) | true"
    with pytest.raises(TypeError):
        a & "x"
    with pytest.raises(TypeError):
        a | 3


def test_a_rule_of_another_space_keeps_its_probability() -> None:
    space = LabelSpace("a, b\n0.9 :: a -> b")
    assert LabelSpace("a, b").where(*space.rules) == space


# ---- renaming ----


@settings(deadline=None, max_examples=50)
@given(valid_spaces(labels=32))
def test_renaming_commutes_with_everything(drawn: Drawn) -> None:
    space = drawn.space()
    names = {v.name: f"other {i}" for i, v in enumerate(space.variables)}
    renamed = space.rename(names)
    assert renamed.rename({new: old for old, new in names.items()}) == space
    assert renamed.constraints == space.constraints
    assert LabelSpace(str(renamed)) == renamed
    records = oracle.records(space.variables)
    others = [{names[name]: value for name, value in record.items()} for record in records]
    assert list(renamed.valid()) == [{names[k]: v for k, v in record.items()} for record in space.valid()]
    assert np.array_equal(renamed.encode(others), space.encode(records))
    assert np.array_equal(renamed.check(others).broken, space.check(records).broken)
    assert [f.kind for f in renamed.diagnose().findings] == [f.kind for f in space.diagnose().findings]


def test_names_can_be_swapped() -> None:
    assert str(LabelSpace("a, b\na -> b").rename({"a": "b", "b": "a"})) == "b, a\nb -> a\n"


@pytest.mark.parametrize(
    "make",
    [
        lambda: LabelSpace("a: {x}\nb: {y}").rename({"b": "a"}),
        lambda: LabelSpace.class_attributes([[1], [0]], attributes=["class"]),
    ],
)
def test_two_variables_of_one_name_are_refused(make: Any) -> None:
    with pytest.raises(RuleError, match=r"twice|two"):
        make()


# ---- identity ----


def test_equality_and_hash() -> None:
    a, b = LabelSpace("x, y\nx -> y"), LabelSpace("# comment\nx\ny\n\nx implies y")
    assert a == b
    assert hash(a) == hash(b)
    assert a != LabelSpace("x, y\ny -> x")
    assert a != LabelSpace("y, x\nx -> y")
    assert a != LabelSpace("x, y\n0.9 :: x -> y")
    assert a != "x, y"
    assert len({a, b}) == 1


@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        lambda s: pickle.loads(pickle.dumps(s)),
        lambda s: pickle.loads(cloudpickle.dumps(s)),  # how processes of a run get theirs
    ],
)
def test_copies(copied: Any) -> None:
    space = LabelSpace(EXAMPLE)
    space.literal_weights = np.ones((space.width, 2))
    list(space.valid(1))  # the solver is at work and is not copied
    twin = copied(space)
    assert twin == space
    assert [rule.line for rule in twin.rules] == [rule.line for rule in space.rules]
    assert np.array_equal(twin.literal_weights, space.literal_weights)
    assert list(twin.valid(5)) == list(space.valid(5))


def test_rules_in_every_form() -> None:
    (x, y) = symbols("x, y")
    expected = LabelSpace("x, y\nx -> y\ny = true")
    assert LabelSpace("x, y", "x -> y\ny = true") == expected
    assert LabelSpace("x, y", x >> y, y) == expected
    assert LabelSpace("x, y", Rule(x >> y), "y = true") == expected
    assert LabelSpace("x, y\nx -> y", y == True) == expected  # noqa: E712


@pytest.mark.parametrize("case", calls_about("space"), ids=lambda case: case.reason[:40])
def test_errors(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)


def test_an_error_in_a_python_rule_shows_the_rule() -> None:
    (x, z) = symbols("x, z")
    with pytest.raises(RuleError) as caught:
        LabelSpace("x, y", x >> z)
    assert str(caught.value).splitlines()[:2] == ["'z' is not declared", "  x -> z"]


@pytest.mark.parametrize(
    "text",
    [
        ", ".join(f"a{i}" for i in range(40))
        + "\n"
        + " + ".join(f"{3**i % 100003}*a{i}" for i in range(40))
        + " = 500000",
        "a, b: 0..9999\na + b = 9999",
    ],
)
def test_hard_sums_are_settled_or_refused(text: str) -> None:
    with within(3):
        try:
            LabelSpace(text)
        except RuleError as error:
            assert error.remedy  # noqa: PT017


def test_of_threads_that_compile_at_the_same_time_one_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    real = compiler.compile_constraints

    def slow(*args: Any, **options: Any) -> Any:
        calls.append(1)
        time.sleep(0.05)
        return real(*args, **options)

    monkeypatch.setattr(compiler, "compile_constraints", slow)
    space = LabelSpace("a, b, c\na -> b\nb -> c")
    with ThreadPoolExecutor(4) as pool:
        circuits = list(pool.map(lambda _: space.compile(), range(4)))
    assert len(calls) == 1
    assert all(circuit is circuits[0] for circuit in circuits)


# ---- what can be built can be saved and loaded ----


def deep_formulas() -> st.SearchStrategy[Formula]:
    """Formulas nested up to a little beyond the limit, every connective at every level, on either side."""
    atoms: list[Formula] = [
        Is("a"), In("k", ("x", "z")), Not(In("k", ("x", "z"))), Compare(((1, "n"), (1, "m")), "<", ((2, None),)),
    ]  # fmt: skip
    ways: list[Any] = [
        lambda f, g: Not(f),
        lambda f, g: And.of(f, g),
        lambda f, g: Or.of(g, f),
        lambda f, g: Xor.of(f, g),
        lambda f, g: Implies(f, g),
        lambda f, g: Implies(g, f),
        lambda f, g: Iff(f, g),
        lambda f, g: Iff(g, f),
        lambda f, g: Count("<=", 1, (g, f)),
    ]
    steps = st.lists(st.tuples(st.sampled_from(ways), st.sampled_from(atoms)), max_size=8)

    def build(pattern: list[Any], times: int, start: Formula) -> Formula:
        out = start
        for _ in range(times):
            for way, atom in pattern:
                out = way(out, atom)
        return out

    return st.builds(build, steps, st.integers(1, 60), st.sampled_from(atoms))


@settings(deadline=None, max_examples=200)
@given(deep_formulas())
def test_a_formula_that_is_accepted_is_read_again_from_its_text(formula: Formula) -> None:
    try:
        rule = Rule(formula, 0.5)  # soft: it may well contradict itself
    except RuleError:
        event("refused")
        return
    variables = (
        Variable("a"),
        Variable.choice("k", "xyz"),
        Variable.choice("n", range(3)),
        Variable.choice("m", (0, 5)),
    )
    text = text_of(variables, [rule])
    assert parse(text) == (variables, (rule,))
    event("accepted")


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.text(max_size=4), min_size=1, max_size=3),
    st.lists(st.one_of(st.text(max_size=3), st.integers(-(10**17), 10**17)), min_size=1, max_size=4),
    st.integers(-(10**17), 10**17),
)
def test_names_values_and_numbers_that_are_accepted_are_read_again(
    names: list[str], values: list[Any], number: int
) -> None:
    n = symbols("n")[0]
    for build in (
        lambda: LabelSpace.attributes(names),
        lambda: LabelSpace.classes(values, name=names[0]),
        lambda: LabelSpace.table(["n", *names], [(i, *(1 for _ in names)) for i in values]),
        lambda: LabelSpace("n: 0..3\nm: 0..3", n + symbols("m")[0] <= number),
        lambda: LabelSpace("n: 0..3\nm: 0..3", number * n >= symbols("m")[0]),
        lambda: LabelSpace.hierarchy([(name, "root") for name in names]),
    ):
        try:
            space = build()
        except RuleError:
            continue
        assert LabelSpace(str(space)) == space


def test_names_that_look_the_same_are_the_same() -> None:
    """Composed or not: in text, in Python, in labels and in files."""
    nfd, nfc = "cafe\u0301", "caf\u00e9"
    for text in (f"{nfd}, b\n{nfc} -> b", f"{nfc}, b\n{nfd} -> b"):
        space = LabelSpace(text)
        assert space == LabelSpace(f"{nfc}, b\n{nfc} -> b")
        assert space[nfd].formula() == space[nfc].formula()
        assert space.where(symbols(nfd)[0] >> ~space["b"]).count() == 2
        assert space.rename({nfd: "c", "b": nfd}) == LabelSpace(f"c, {nfc}\nc -> {nfc}")
        assert space.complete([{nfd: 1}]).tolist() == [[1, 1]] == space.complete({nfd: [1]}).tolist()
    pets = LabelSpace(f"pet: {{{nfd}, dog}}")
    assert pets.encode([nfd, nfc]).tolist() == [[1, 0], [1, 0]]
    assert pets.where(pets["pet"] == nfd).count() == pets.where(pets["pet"].isin([nfc])).count() == 1
    assert LabelSpace.attributes([nfd]) == LabelSpace.attributes([nfc])


def test_names_are_looked_up_without_building_the_scope_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    init = Scope.__init__

    def counted(self: Scope, variables: Any) -> None:
        built.append(1)
        init(self, variables)

    names = [f"v{i}" for i in range(200)]
    space = LabelSpace.attributes(names)
    monkeypatch.setattr(Scope, "__init__", counted)
    assert [space[name].formula() for name in names] == [Is(name) for name in names]
    space.rename({name: f"{name}x" for name in names})
    assert len(built) <= 3


# ---- what is too large for the check at the beginning ----


def test_a_cardinality_too_large_for_the_solver_is_compiled() -> None:
    """The check must not refuse what the compiler does in seconds."""
    names = [f"x{i}" for i in range(2000)]
    space = LabelSpace.attributes(names, f"at_most(30, {', '.join(names)})")
    with space.solvers.borrowed() as solver:
        assert solver._watched  # or nothing is shown
    assert space.count() == sum(math.comb(2000, k) for k in range(31))
    given = [{name: True if i < known else None for i, name in enumerate(names)} for known in (30, 31)]
    assert space.check(given).invalid.tolist() == [False, True]


def test_a_contradiction_too_large_for_the_solver_is_found_by_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dssl.logic.reasoning.solver._MAX_PLACES", 0)
    monkeypatch.setattr("dssl.logic.reasoning.solver._MAX_LESSONS", 1)
    space = LabelSpace("a, b, c, d\nat_most(1, a, b, c, d)\n0.9 :: a\nat_least(2, a, b, c, d)")
    for _ in range(2):
        with pytest.raises(ContradictionError, match=r"no label obeys them all\n  line 2: .*\n  line 4: ") as caught:
            space.compile()
        assert [rule.line for rule in caught.value.rules] == [2, 4]
    with pytest.raises(ContradictionError, match="no label obeys them all"):  # by the circuit too, not a BudgetError
        space.complete([{"a": True}])
