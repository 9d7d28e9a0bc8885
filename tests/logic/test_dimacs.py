"""DIMACS files: every dialect is read, and a space that is written has as many models as labels."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle
from dssl.errors import BudgetError, DataError, RuleError
from dssl.logic import dimacs as dimacs_module
from dssl.logic.language.formula import Is, Not, Or
from dssl.logic.language.parser import Rule
from dssl.logic.language.variables import Variable
from dssl.logic.space import LabelSpace
from logic.messages import BadCall, calls_about, check_call
from logic.strategies import Drawn, drawn_spaces


@pytest.mark.parametrize("case", calls_about("dimacs"), ids=lambda case: case.reason[:40])
def test_errors(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)


# ---- reading ----


def dimacs(folder: Path, text: str, **options: Any) -> LabelSpace:
    path = folder / "a.cnf"
    path.write_text(text)
    return LabelSpace.dimacs(path, **options)


def test_clauses_become_rules(tmp_path: Path) -> None:
    space = dimacs(tmp_path, "c hello\np cnf 4 3\n1 -2 0\n2\n 3 0 -1 0\n")
    assert [v.name for v in space.variables] == ["x1", "x2", "x3", "x4"]
    assert [str(rule) for rule in space.rules] == ["line 3: x1 | !x2", "line 4: x2 | x3", "line 5: !x1"]
    assert space.literal_weights is None


def test_a_percent_sign_ends_the_file(tmp_path: Path) -> None:
    assert len(dimacs(tmp_path, "p cnf 2 1\n1 2 0\n%\n0\n\n").rules) == 1


def test_an_empty_clause_is_a_contradiction(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 2: false"):
        dimacs(tmp_path, "p cnf 1 1\n0\n")


def test_weights_are_read(tmp_path: Path) -> None:
    text = "p cnf 4 1\nc p weight 1 0.25 0\nc p weight -2 0.4 0\nc p weight 3 5 0\nc p weight -3 2 0\n1 2 0\n"
    space = dimacs(tmp_path, text)
    assert np.allclose(space.literal_weights, [[0.25, 0.75], [0.6, 0.4], [5, 2], [1, 1]])
    assert np.allclose(space.where("x1 -> x2").literal_weights, space.literal_weights)
    assert np.allclose(space.rename({"x1": "a"}).literal_weights, space.literal_weights)


WEIGHED = "p cnf 3 2\n1 2 0\n-2 3 0\n"
DIALECTS = {
    "competition": "c p weight 1 0.25 0\nc p weight -1 0.75 0\nc p weight 2 1/2 0\nc p weight -2 3 0\n" + WEIGHED,
    "no closing 0": "c p weight 1 0.25\nc p weight 2 0.5\nc p weight -2 3e0\n" + WEIGHED,
    "after the clauses": WEIGHED + "c p weight 1 0.25 0\nc p weight -2 3 0\nc p weight 2 0.5 0\n",
    "2020": WEIGHED.replace("cnf", "wcnf") + "w 1 0.25 0\nw -1 0.75 0\nw 2 .5 0\nw -2 3 0\n",
    "Cachet": WEIGHED + "w 1 0.25\nw 2 0.5\nw -2 3\nw 3 -1\n",
    "c2d": "c weights 0.25 0.75 0.5 3 1 1\n" + WEIGHED,
}


@pytest.mark.parametrize("text", DIALECTS.values(), ids=list(DIALECTS))
def test_every_dialect_of_weights_is_counted(tmp_path: Path, text: str) -> None:
    space = dimacs(tmp_path, text)
    assert space.literal_weights is not None
    assert space.literal_weights.tolist() == [[0.25, 0.75], [0.5, 3], [1, 1]]
    assert space.log_weight() == pytest.approx(math.log(oracle.weighted_count(space)), abs=1e-12)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.lists(st.sampled_from([1, -1, 2, -2, 3, -3, 4, -4]), min_size=1, max_size=3), max_size=5),
    st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, 7.0, 1e-30, 1e20]), min_size=8, max_size=8),
)
def test_weighted_counts_equal_enumeration(clauses: list[list[int]], weights: list[float]) -> None:
    variables = [Variable(f"x{i}") for i in range(1, 5)]
    literals = {i: Is(f"x{i}") for i in range(1, 5)}
    rules = [Rule(Or.of(*(literals[x] if x > 0 else Not(literals[-x]) for x in clause))) for clause in clauses]
    try:
        space = LabelSpace.of(variables, [*rules, Rule(Is("x1"), 0.7)], np.array(weights).reshape(4, 2))
    except RuleError:  # no label obeys them all
        return
    expected = oracle.weighted_count(space)
    assert math.exp(space.log_weight()) == pytest.approx(expected, rel=1e-9)


def test_weights_are_part_of_what_a_space_is(tmp_path: Path) -> None:
    """They survive composing, copies and renaming, and tell spaces from each other."""
    space, plain = dimacs(tmp_path, DIALECTS["Cachet"]), dimacs(tmp_path, WEIGHED)
    other = LabelSpace("x3, y\nx3 -> y")
    assert space != plain
    assert len({space, plain, dimacs(tmp_path, DIALECTS["c2d"])}) == 2
    assert hash(space) == hash(dimacs(tmp_path, DIALECTS["c2d"]))
    for joined in (space & other, other & space, space | other, space & space, space & plain, plain | space):
        assert joined.literal_weights is not None
        assert math.exp(joined.log_weight()) == pytest.approx(oracle.weighted_count(joined))
        place = {name: i for i, name in enumerate(joined.columns)}
        assert joined.literal_weights[place["x2"]].tolist() == [0.5, 3]
    for same in (copy.deepcopy(space), pickle.loads(pickle.dumps(space)), space.where(), space & LabelSpace("x1")):
        assert same == space
    assert (plain & other).literal_weights is None
    with pytest.raises(ValueError, match="read-only"):
        space.literal_weights[0, 0] = 2.0  # type: ignore[index]


def test_without_weights_it_is_the_log_of_the_count() -> None:
    assert LabelSpace("k: {x, y, z}\na\nk = x -> a").log_weight() == pytest.approx(math.log(5))


@pytest.mark.parametrize("line", ["c p show 1 2 0", "c ind 1 2 0", "vp 1 2 0"])
def test_projections_are_refused_or_ignored(tmp_path: Path, line: str) -> None:
    with pytest.raises(ValueError, match="projected count"):
        dimacs(tmp_path, f"{line}\np cnf 2 1\n1 2 0\n")
    assert len(dimacs(tmp_path, f"{line}\np cnf 2 1\n1 2 0\n", projection="ignore").rules) == 1


@settings(deadline=None, max_examples=150)
@given(st.text(alphabet="pcnf wind %0123-\n\tx.", max_size=60), st.booleans())
def test_fuzzed_files_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str, headed: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.cnf"
    path.write_text(("p cnf 9 9\n" if headed else "") + text)
    try:
        LabelSpace.dimacs(path)
    except ValueError as error:
        assert type(error).__name__ in ("RuleError", "DataError")  # noqa: PT017


def test_a_file_cut_off_between_clauses_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="clauses"):
        dimacs(tmp_path, "p cnf 2 3\n1 2 0\n")


def test_a_header_that_cannot_be_true_is_refused(tmp_path: Path) -> None:
    from dssl.errors import DataError

    with pytest.raises(DataError):
        dimacs(tmp_path, f"p cnf {'9' * 5000} 1\n1 2 0\n")


def test_published_files_parse(data_folder: Path) -> None:
    """Variables and clauses as COUNTS.tsv says."""
    lines = [line.split("\t") for line in (data_folder / "cnf" / "COUNTS.tsv").read_text().splitlines()[1:]]
    assert len(lines) == 19
    for name, variables, clauses, _ in lines:
        space = LabelSpace.dimacs(data_folder / "cnf" / name, projection="ignore")
        assert (len(space.variables), len(space.rules)) == (int(variables), int(clauses)), name
        assert (space.literal_weights is not None) == (name in ("grid-50-10-1-q.weighted.cnf", "s27_3_2.cnf"))


@pytest.mark.parametrize("line", ["c p show 3 1 0", "c ind 1 3 0", "vp 1 3 0"])
@pytest.mark.parametrize("first", [False, True])
def test_variables_to_project_on_are_kept_where_they_are_asked_for(line: str, first: bool, tmp_path: Path) -> None:
    header = "p cnf 3 2\n"
    path = tmp_path / "small.cnf"
    path.write_text((f"{line}\n{header}" if first else f"{header}{line}\n") + "1 2 0\n-2 3 0\n")
    space = LabelSpace.dimacs(path, projection="show")
    assert space.shown == ("x1", "x3")
    assert space.count() == 4
    assert space.count(over=space.shown) == 3
    assert LabelSpace.dimacs(path, projection="ignore").shown is None


@pytest.mark.parametrize("line", ["c p show 1 four 0", "c p show 9 0", "c p show -1 0"])
def test_what_cannot_be_projected_on_is_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "small.cnf"
    path.write_text(f"p cnf 3 1\n{line}\n1 2 0\n")
    with pytest.raises(DataError, match="to project on"):
        LabelSpace.dimacs(path, projection="show")


# ---- writing ----


def written(space: LabelSpace, folder: Path) -> LabelSpace:
    """The space that is read back."""
    space.to_dimacs(folder / "written.cnf")
    return LabelSpace.dimacs(folder / "written.cnf")


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn_spaces(most=5, labels=60, rules=3, depth=2))
def test_a_written_space_has_as_many_models_as_labels(tmp_path: Path, drawn: Drawn) -> None:
    if not drawn.valid:
        return
    space = drawn.space()
    back = written(space, tmp_path)
    assert back.count() == len(drawn.valid)
    assert back.log_weight() == pytest.approx(space.log_weight(), abs=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "x: 0..9\ny: {a}\nx != 3",
        "x[1..4]: 1..8\nall_different(x[*])",
        "w = [30, 10, 20, 7]\nx[1..4]\nsum(w[i] * x[i] for i in 1..4) <= 37",
        "x[1..9]\nexactly(4, x[*])\nx[1] ^ x[2] ^ x[3] ^ x[4]",
        'tag[1..6]: {O, B, I}\nregular(tag[*], "(O | B I*)*")',
        "e[a,b], e[b,c], e[a,c], e[c,d]\ntree(e[*, *])",
        "x: 1..3\ny: {p, q}\ntable(x, y) in {(1, p), (2, p), (3, q), (3, p)}",
    ],
)
def test_every_kind_of_rule_is_written(text: str, tmp_path: Path) -> None:
    space = LabelSpace(text)
    assert written(space, tmp_path).count() == space.count()


def test_comments_say_what_variables_stand_for(tmp_path: Path) -> None:
    LabelSpace("legs\nage: 0..2\nlegs -> age = 1").to_dimacs(tmp_path / "a.cnf")
    lines = (tmp_path / "a.cnf").read_text().splitlines()
    assert lines[:4] == ["c 1 is legs", "c 2 is age=0", "c 3 is age=1", "c 4 is age=2"]
    assert lines[4].startswith("p cnf 4 ")


def test_weights_are_written(tmp_path: Path) -> None:
    (tmp_path / "weighed.cnf").write_text(WEIGHED + "c p weight 1 0.25 0\nc p weight -3 0.125 0\n")
    space = LabelSpace.dimacs(tmp_path / "weighed.cnf")
    assert written(space, tmp_path).log_weight() == pytest.approx(space.log_weight())


def test_sums_with_too_many_totals_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dimacs_module, "MOST_PLACES", 50)
    space = LabelSpace("w = [100, 201, 402, 803, 1604]\nx[1..5]\nsum(w[i] * x[i] for i in 1..5) <= 1700")
    with pytest.raises(BudgetError, match="totals, each a variable"):
        space.to_dimacs(tmp_path / "large.cnf")
