"""Rules that are decided step by step: circuits built directly, other rules beside them, against plain counting."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.circuits.circuit import Circuit
from dssl.circuits.compile import compiler
from dssl.circuits.compile.compiler import compile_constraints
from dssl.circuits.compile.native import chains
from dssl.circuits.compile.problem import build, lay_out
from dssl.circuits.compile.selections import exactly_one_selections
from dssl.errors import BudgetError
from dssl.logic.language.parser import parse
from dssl.logic.reasoning.normalisation import normalise
from dssl.logic.space import LabelSpace
from dssl.priors.predictive import Predictive
from logic.stopwatch import LOADED, best_of_three

PAIRS = [f"e[{u},{v}]" for u, v in itertools.combinations("abcd", 2)]
EDGES = ", ".join(PAIRS) + "\n"
FURTHER = [
    "", "e[a,b] -> e[b,c]", "at_most(3, e[*, *])", "exactly(2, e[a, *], e[b, c])", "e[a,b] ^ e[b,c] ^ e[c,d]",
    "flag <-> e[a,b] & e[c,d]", "toll >= e[a,b] + 2*e[b,d]", "e[a,d] = true", "0.8 :: e[a,c]", "!e[a,b] | toll = 2",
    "if flag then e[a,c] else toll = 1",
]  # fmt: skip
CHAINS = [
    "path(e[*, *], a, d)", "tree(e[*, *])", "connected(e[*, *])", 'regular(e[*, *], "(0 | 1 0)* 1?")',
    "path(e[*, *], a, c)\nconnected(e[*, *])",
]  # fmt: skip


def grid(n: int) -> str:
    across = [(r * n + c, r * n + c + 1) for r in range(n) for c in range(n - 1)]
    down = [(r * n + c, (r + 1) * n + c) for r in range(n - 1) for c in range(n)]
    return ", ".join(f"e[{u},{v}]" for u, v in across + down) + "\n"


def compiled(space: LabelSpace) -> Circuit:
    return compile_constraints(space.constraints, space.columns, cache=False)


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(CHAINS), st.lists(st.sampled_from(FURTHER), max_size=3, unique=True))
def test_circuits_built_directly_count_as_the_oracle_does(chain: str, further: list[str]) -> None:
    text = "flag\ntoll: 0..2\n" + EDGES + "\n".join([chain, *further])
    variables, rules = parse(text)
    hard = [rule for rule in rules if rule.probability is None]
    wanted = len(oracle.obeying(hard, oracle.records(variables)))
    if not wanted:
        return
    space = LabelSpace(text)
    wide = chains.WIDE
    chains.WIDE = 1
    try:
        circuit = compiled(space)
        direct = chains.chained(space.constraints, lambda block, value: 0, _Free()) is not None
    finally:
        chains.WIDE = wide
    assert circuit.count() == wanted
    assert direct
    other = compiled(space)  # by search: the chain is narrow
    pos, neg = torch.randn(2, 3, circuit.width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(circuit.log_wmc(pos, neg), other.log_wmc(pos, neg))
    torch.testing.assert_close(circuit.mpe(pos, neg)[0], other.mpe(pos, neg)[0])


class _Free:
    """A budget that is never used up."""

    def tick(self) -> None:
        pass

    def afford(self, more: int) -> None:
        pass

    def allow(self, nodes: int) -> None:
        pass


@pytest.mark.parametrize(("n", "paths"), [(5, 8512), (6, 1262816)])  # OEIS A007764
def test_grid_paths_of_rule_text_compile_in_a_second(n: int, paths: int) -> None:
    space = LabelSpace(grid(n) + f"path(e[*, *], 0, {n * n - 1})")
    assert compiled(space).count() == paths
    assert best_of_three(lambda: compiled(LabelSpace(str(space)))) < 2 * LOADED


def test_a_grid_with_further_rules_and_evidence() -> None:
    paths = Circuit.paths([(int(u), int(v)) for u, v in _pairs(6)], 0, 35)
    space = LabelSpace(
        grid(6) + "path(e[*, *], 0, 35)\nat_most(12, e[*, *])\ne[0,1] -> !e[14,15]\ntoll\ntoll <-> e[7,8]"
    )
    circuit = compiled(space)
    columns = list(space.columns)
    logits = torch.zeros(1, space.width, dtype=torch.float64)
    known = torch.full((1, space.width), torch.nan, dtype=torch.float64)
    known[0, columns.index("e[0,1]")] = 1
    assert 0 < circuit.count() < paths.count()
    p = Predictive(logits, space, known)
    assert p.marginals[0, columns.index("e[14,15]")] == 0
    assert p.marginals[0, columns.index("e[0,6]")] == 0
    torch.testing.assert_close(p.marginals[0, columns.index("toll")], p.marginals[0, columns.index("e[7,8]")])


def _pairs(n: int) -> list[list[str]]:
    return [name.strip(" e[]\n").split(",") for name in grid(n).split(", ")]


def test_what_gets_too_wide_is_left_to_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "WIDE", 1)
    space = LabelSpace(EDGES + "path(e[*, *], a, d)")
    assert chains.chained(space.constraints, lambda block, value: 0, _Free()) is not None
    monkeypatch.setattr(chains, "MOST_STATES", 3)
    assert chains.chained(space.constraints, lambda block, value: 0, _Free()) is None
    assert compiled(space).count() == 5


def test_a_path_that_another_rule_asks_for_is_left_to_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "WIDE", 1)
    space = LabelSpace("flag\n" + EDGES + "path(e[*, *], a, d)\nflag <-> path(e[*, *], a, d)")
    assert chains.chained(space.constraints, lambda block, value: 0, _Free()) is None
    assert compiled(space).count() == 5


def test_chains_in_different_orders_are_left_to_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "WIDE", 1)
    space = LabelSpace('x[1..3]\nregular(x[*], "0* 1*")\nregular(x[3], x[2], x[1], "1 .*")')
    assert chains.chained(space.constraints, lambda block, value: 0, _Free()) is None
    assert compiled(space).count() == 3


@pytest.mark.parametrize("budget", ["budget_nodes", "budget_bytes", "budget_s"])
def test_budgets_hold_for_chains(budget: str) -> None:
    """A chain is compiled within the same nodes, bytes and seconds as anything else, and says so when it is not."""
    space = LabelSpace(grid(5) + "tree(e[*, *])")
    names, whole = space.columns, compile_constraints(space.constraints, space.columns, cache=False)
    least = {"budget_nodes": whole.nodes - 1, "budget_bytes": 10_000, "budget_s": 0.0}
    with pytest.raises(BudgetError, match="more than the budget of"):
        compile_constraints(space.constraints, names, cache=False, **{budget: least[budget]})  # type: ignore[arg-type]
    assert compile_constraints(space.constraints, names, cache=False, budget_nodes=whole.nodes).nodes == whole.nodes


@pytest.mark.parametrize("budget", [{"budget_nodes": 100}, {"budget_bytes": 10_000}, {"budget_s": 0.0}])
def test_budgets_hold_for_paths(budget: dict[str, float]) -> None:
    edges = [tuple(map(int, e[2:-1].split(","))) for e in grid(7).strip().split(", ")]
    with pytest.raises(BudgetError, match="more than"):
        Circuit.paths(edges, 0, 48, **budget)  # type: ignore[arg-type]
    assert Circuit.paths(edges, 0, 48).count() == 575_780_564


def test_python_lists_count_as_bytes_before_they_are_built() -> None:
    """Rules of many clauses: the lists that a problem is built from would take more than the budget."""
    names = [f"x{i}" for i in range(20_000)]
    text = ", ".join(names) + "\n" + "\n".join(f"{a} -> {b}" for a, b in itertools.pairwise(names))
    constraints = normalise(*parse(text))
    tracemalloc.start()
    with pytest.raises(BudgetError, match=r"budget of 1\.0 MiB"):
        compile_constraints(constraints, tuple(names), cache=False, budget_bytes=1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    held = tracemalloc.get_traced_memory()[0]
    build(constraints, lay_out(constraints, exactly_one_selections(constraints)))
    lists = tracemalloc.get_traced_memory()[1] - held
    tracemalloc.stop()
    assert peak < 8 << 20
    assert lists / 3 < compiler._bytes_of_lists(constraints) < 3 * lists
