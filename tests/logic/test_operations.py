"""Operations on spaces, each against enumeration: given, forget, equivalent."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
from dssl.errors import ContradictionError, RuleError
from dssl.logic import operations
from dssl.logic.language.structures.patterns import Tuples
from dssl.logic.space import LabelSpace
from logic.messages import BadCall, calls_about, check_call
from logic.stopwatch import within
from logic.strategies import Drawn, drawn_spaces

small = drawn_spaces(most=5, labels=80, rules=3, depth=3)


def without_soft(drawn: Drawn) -> LabelSpace:
    space = drawn.space()
    return LabelSpace.of(space.variables, [rule for rule in space.rules if rule.probability is None])


# ---- forgetting ----


@settings(deadline=None, max_examples=150)
@given(small, st.data())
def test_what_is_left_can_be_completed(drawn: Drawn, data: st.DataObject) -> None:
    assume(drawn.valid and len(drawn.variables) > 1)
    names = [variable.name for variable in drawn.variables]
    left = data.draw(st.lists(st.sampled_from(names), unique=True, max_size=len(names) - 1))
    found = without_soft(drawn).forget(left)
    kept = [name for name in names if name not in left]
    assert [variable.name for variable in found.variables] == kept
    assert {tuple(label[name] for name in kept) for label in found.valid()} == oracle.projections(drawn.valid, kept)
    assert LabelSpace(str(found)) == found


@settings(deadline=None, max_examples=40)
@given(small, st.data())
def test_as_rows_it_is_the_same(drawn: Drawn, data: st.DataObject) -> None:
    """Where rules cannot be rewritten they become a table."""
    assume(drawn.valid and len(drawn.variables) > 1)
    name = data.draw(st.sampled_from([variable.name for variable in drawn.variables]))
    space = without_soft(drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operations, "MAX_ATOMS", -1)
        rows = space.forget([name])
    assert rows.equivalent(space.forget([name]))


def test_implications_go_through_what_is_forgotten() -> None:
    space = LabelSpace("cat, dog, mammal, animal\ncat -> mammal\ndog -> mammal\nmammal -> animal")
    assert space.forget(["mammal"]).equivalent(LabelSpace("cat, dog, animal\ncat -> animal\ndog -> animal"))


@pytest.mark.parametrize(
    ("text", "left", "rows"),
    [
        ('t[1..3]: {a, b}\nregular(t[*], "a* b")', ["t[2]"], 1),
        ("e[a,b], e[b,c], e[a,c]\npath(e[*, *], a, c)", ["e[a,b]"], 2),
    ],
)
def test_structures_become_tables(text: str, left: list[str], rows: int) -> None:
    found = LabelSpace(text).forget(left)
    assert isinstance(found.rules[0].formula, Tuples)
    assert found.count() == rows == LabelSpace(text).count(over=[v.name for v in found.variables])


def test_rules_about_others_stay_as_they_are() -> None:
    space = LabelSpace('a, b, c\n"why": a -> b\n0.9 :: a\nc | b')
    found = space.forget(["c"])
    assert found.rules == space.rules[:2]


@pytest.mark.parametrize(
    ("text", "left", "said"),
    [
        ("a, b\na -> b", ["a", "b"], "forget.* got all variables"),
        ("a, b\n0.9 :: a -> b", ["a"], "the soft rule '0.9 :: a -> b' mentions a variable to forget"),
        ("a, b\na -> b", ["c"], "'c' is not declared"),
    ],
)
def test_what_cannot_be_forgotten(text: str, left: list[str], said: str) -> None:
    with pytest.raises(RuleError, match=said):
        LabelSpace(text).forget(left)


def test_a_rule_that_cannot_be_written_down_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MAX_ROWS", 10)
    monkeypatch.setattr(operations, "MAX_ATOMS", 5)
    with pytest.raises(RuleError, match="about 6 other variables, with more than 10 labels"):
        LabelSpace("x[1..7]\nx[1] ^ x[2] ^ x[3] ^ x[4] ^ x[5] ^ x[6] ^ x[7]").forget(["x[1]"])


def test_weights_of_literals_are_not_lost_silently() -> None:
    space = LabelSpace("a, b\na | b")
    weighed = LabelSpace.of(space.variables, space.rules, [[0.2, 0.8], [1, 1]])  # type: ignore[arg-type]
    with pytest.raises(RuleError, match="literals have weights"):
        weighed.forget(["a"])


# ---- two spaces ----


@settings(deadline=None, max_examples=100)
@given(small, st.data())
def test_spaces_are_equivalent_if_their_labels_are(drawn: Drawn, data: st.DataObject) -> None:
    assume(drawn.valid)
    space = drawn.space()
    kept = data.draw(st.lists(st.sampled_from(range(len(space.rules))), unique=True)) if space.rules else []
    other = LabelSpace.of(space.variables, [space.rules[i] for i in kept])
    every = [tuple(label.items()) for label in other.valid()]
    mine = {tuple(label.items()) for label in drawn.valid}
    found = space.equivalent(other)
    assert bool(found) == (set(every) == mine)
    if not found:
        assert found.label is not None
        assert found.valid_in == "second"  # it has fewer rules
        assert not other.check([found.label])
        assert found.broken
        assert space.check([found.label])
    assert bool(other.equivalent(space)) == bool(found)


def test_the_order_of_variables_and_how_rules_are_written_do_not_matter() -> None:
    assert LabelSpace("a, b, c\na -> b\nb -> c").equivalent(LabelSpace("c, b, a\n!a | b & c\n(b -> c)\n(a -> c)"))


def test_a_witness_names_the_rules_that_it_breaks() -> None:
    found = LabelSpace("a, b\na | b").equivalent(LabelSpace("a, b\na ^ b"))
    assert (found.label, found.valid_in) == ({"a": True, "b": True}, "first")
    assert str(found) == "valid in the first only: a=True, b=True\nwhich breaks\n  line 2: a ^ b"
    assert str(LabelSpace("a").equivalent(LabelSpace("a"))) == "the same labels are valid in both"


@pytest.mark.parametrize("other", ["a, c\na -> c", "a\nb: {x, y}\na -> b = x", "a, b, c\na -> b"])
def test_other_variables_are_no_question_of_labels(other: str) -> None:
    with pytest.raises(RuleError, match="differ in variables"):
        LabelSpace("a, b\na -> b").equivalent(LabelSpace(other))


def test_soft_rules_forbid_nothing() -> None:
    assert LabelSpace("a, b\n0.9 :: a -> b").equivalent(LabelSpace("a, b"))


# ---- what is known ----


@settings(deadline=None, max_examples=60)
@given(small, st.data())
def test_given_values_leave_the_labels_that_have_them(drawn: Drawn, data: st.DataObject) -> None:
    assume(drawn.valid)
    label = data.draw(st.sampled_from(drawn.valid))
    names = data.draw(st.lists(st.sampled_from(sorted(label)), unique=True))
    known = {name: label[name] for name in names}
    found = drawn.space().given(known)
    assert found.count() == len(oracle.completions(drawn.valid, {name: {value} for name, value in known.items()}))
    assert found.variables == drawn.variables


def test_what_no_valid_label_has_is_a_contradiction() -> None:
    space = LabelSpace("legs, fins\nlegs -> !fins")
    with pytest.raises(ContradictionError):
        space.given({"legs": True, "fins": True})
    with pytest.raises(RuleError, match="'tail' is not declared"):
        space.given({"tail": True})


@pytest.mark.parametrize("case", calls_about("operations"), ids=lambda case: case.reason[:40])
def test_errors_of_calls(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)


@pytest.mark.parametrize("name", [5, 2.5, ("a", "b")])
def test_a_name_that_is_no_text_is_not_declared(name: object) -> None:
    space = LabelSpace("a, b")
    for ask in (space.forget, space.count):
        with pytest.raises(RuleError, match="is not declared"):
            ask([name])  # type: ignore[operator]


@pytest.mark.compiled
def test_forgetting_thousands_of_names_is_quick() -> None:
    """Where every step goes through all names and rules, 500 of 1,000 take minutes."""
    chain = LabelSpace("n[1..1000]\nfor i in 1..999: n[i] -> n[i+1]")
    free = LabelSpace("n[1..4000]")
    with within(10):
        left = chain.forget([f"n[{i}]" for i in range(2, 1000, 2)])
        assert len(free.forget([f"n[{i}]" for i in range(1, 2001)]).variables) == 2000
    assert len(left.rules) == 500
    assert left.count() == 502  # how many of 501 in a chain are false
