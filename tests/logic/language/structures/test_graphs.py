"""Chosen edges: paths, trees and connected graphs against their plain meaning."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.circuits.circuit import Circuit
from dssl.errors import RuleError
from dssl.logic.language.parser import parse
from dssl.logic.language.structures import graphs
from dssl.logic.language.structures.graphs import ends_of
from dssl.logic.space import LabelSpace
from logic.messages import CHOSEN, BadCall, BadText, calls_about, check_call

PAIRS = list(itertools.combinations("abcde", 2))
SQUARE = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("b", "c")]


def text_of_edges(edges: list[tuple[str, str]]) -> str:
    return ", ".join(f"e[{u},{v}]" for u, v in edges) + "\n"


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(PAIRS), min_size=1, max_size=7, unique=True),
    st.sampled_from(["path(e[*, *], a, b)", "path(e[*, *], b, d)", "tree(e[*, *])", "connected(e[*, *])"]),
    st.sampled_from(["", "!", "flag <-> "]),
)
def test_spaces_agree_with_the_plain_meaning(edges: list[tuple[str, str]], rule: str, before: str) -> None:
    text = "flag\n" + text_of_edges(edges) + before + rule
    lost = [end for end in ("ab", "bd") if f"{end[0]}, {end[1]})" in rule and not set(end) <= set(sum(edges, ()))]
    if lost:  # a path to a vertex without edges is a slip
        with pytest.raises(RuleError, match="no edge begins or ends in"):
            parse(text)
        return
    variables, rules = parse(text)
    records = oracle.records(variables)
    wanted = [oracle.holds(rules[0].formula, record) for record in records]
    if not any(wanted):
        return
    space = LabelSpace(text)
    assert space.count() == sum(wanted)
    assert list(space.valid()) == [record for record, good in zip(records, wanted) if good]
    assert (~space.check(records).invalid).tolist() == wanted
    assert LabelSpace(str(space)) == space


def test_paths_are_those_of_the_circuit_built_directly() -> None:
    n = 4
    edges = [(r * n + c, r * n + c + 1) for r in range(n) for c in range(n - 1)]
    edges += [(r * n + c, (r + 1) * n + c) for r in range(n - 1) for c in range(n)]
    names = {f"e[{u},{v}]": (u, v) for u, v in edges}
    space = LabelSpace(", ".join(names) + f"\npath(e[*, *], 0, {n * n - 1})")
    direct = Circuit.paths(names, 0, n * n - 1)
    assert space.count() == direct.count() == 184


def test_loops_of_a_whole_array_are_left_out() -> None:
    space = LabelSpace("e[1..3, 1..3]\nfor i, j in 1..3 where i >= j: !e[i, j]\ntree(e[*, *])")
    assert space.count() == 3  # spanning trees of a triangle
    assert ends_of("e[1,1]") is None


def test_partial_labels_are_completed() -> None:
    space = LabelSpace(text_of_edges(SQUARE) + "path(e[*, *], a, d)")
    (found,) = space.decode(space.complete([{"e[a,b]": 1, "e[b,d]": 0}]))
    assert {name for name, value in found.items() if value} == {"e[a,b]", "e[b,c]", "e[c,d]"}
    assert "path(" in str(space.check([{"e[a,b]": 0, "e[a,c]": 0}]))


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.reason[:40])
def test_errors_point_and_help(case: BadText) -> None:
    with pytest.raises(RuleError) as caught:
        parse(case.text)
    assert case.reason in caught.value.reason
    assert case.remedy in caught.value.remedy
    assert (caught.value.line, caught.value.column) == case.place
    parse(case.fixed)


@pytest.mark.parametrize("case", calls_about("graphs"), ids=lambda case: case.reason[:40])
def test_errors_of_calls(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)


@pytest.mark.parametrize(("limit", "over"), [("BUDGET_S", "0 s"), ("MOST_STATES", "0 states")])
def test_a_budget_ends_what_is_too_wide(monkeypatch: pytest.MonkeyPatch, limit: str, over: str) -> None:
    graphs._diagram.cache_clear()
    monkeypatch.setattr(graphs, limit, 0)
    text = "e[1..6, 1..6]\ntree(e[*, *])"
    with pytest.raises(RuleError, match=rf"takes more than {over}: it got to edge \d+, with [\d,]+ states") as caught:
        parse(text)
    assert caught.value.line == 2
    assert "a graph that can be cut at few vertices" in str(caught.value)
    monkeypatch.undo()
    assert len(parse(text)[1]) == 1
