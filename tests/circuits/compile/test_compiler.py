"""The compiler against enumeration, against a second counter, and at its limits."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle
from dssl.circuits import jit
from dssl.circuits.circuit import Circuit
from dssl.circuits.compile import budget, turns
from dssl.circuits.compile.compiler import BudgetError, Progress, compile_constraints
from dssl.circuits.evaluate.program import build_program
from dssl.circuits.jit import PLAIN, Entry
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE
from dssl.logic.reasoning.constraints import Constraints, Sum

# ---- random constraints ----


@st.composite
def constraints_of_all_kinds(draw: st.DrawFn) -> Constraints:
    """Binaries, categoricals, clauses, sums, soft blocks and hidden blocks with what defines them."""
    categorical = draw(st.lists(st.booleans(), min_size=1, max_size=6))
    sizes = [draw(st.integers(1, 4)) if c else 2 for c in categorical]
    visible = len(sizes)
    clauses: list[tuple[int, ...]] = []
    sums: list[Sum] = []
    clause_owners: list[int] = []
    sum_owners: list[int] = []

    def values(blocks: int) -> list[int]:
        return list(range(sum(sizes[:blocks])))

    def some(blocks: int, most: int) -> list[int]:
        return draw(st.lists(st.sampled_from(values(blocks)), min_size=1, max_size=most, unique=True))

    def define_as_any() -> None:
        """A binary block that is true exactly when one of some values is chosen."""
        chosen = some(len(sizes), 4)
        block, first = len(sizes), sum(sizes)
        starts = np.cumsum([0, *sizes])
        sizes.append(2)
        categorical.append(False)
        clauses.append((first, *chosen))
        for v in chosen:
            b = int(np.searchsorted(starts, v, side="right")) - 1
            clauses.append((first + 1, *(w for w in range(starts[b], starts[b + 1]) if w != v)))
        clause_owners.extend([block] * (len(chosen) + 1))

    def define_as_total() -> None:
        """A block whose value is the number of some values that are chosen."""
        chosen = some(len(sizes), 3)
        block, first = len(sizes), sum(sizes)
        sizes.append(len(chosen) + 1)
        categorical.append(True)
        count = tuple(first + k for k in range(1, len(chosen) + 1))
        minus = tuple(-k for k in range(1, len(chosen) + 1))
        sums.append(Sum((*chosen, *count), (1,) * len(chosen) + minus, ((0, 0),)))
        sum_owners.append(block)

    soft = draw(st.integers(0, 1))
    for _ in range(soft):
        define_as_any()
    for _ in range(draw(st.integers(0, 3))):
        draw(st.sampled_from([define_as_any, define_as_total]))()
    for _ in range(draw(st.integers(0, 5))):
        clauses.append(tuple(some(len(sizes), 4)))
        clause_owners.append(-1)
    for _ in range(draw(st.integers(0, 3))):
        chosen = some(len(sizes), 8)
        exactly_one = draw(st.booleans())
        coefficients = [1 if exactly_one else draw(st.integers(-3, 3)) for _ in chosen]
        ends = sorted(draw(st.lists(st.integers(-6, 8), min_size=2, max_size=6, unique=True)))
        intervals = ((1, 1),) if exactly_one else tuple(zip(ends[::2], ends[1::2]))
        sums.append(Sum(tuple(chosen), tuple(coefficients), intervals))
        sum_owners.append(-1)
    return Constraints(
        tuple(sizes),
        tuple(categorical),
        tuple(clauses),
        tuple(sums),
        visible,
        (0.9,) * soft,
        clause_owners=tuple(clause_owners),
        sum_owners=tuple(sum_owners),
    )


def names_of(constraints: Constraints) -> tuple[str, ...]:
    width = sum(s if c else 1 for s, c in zip(constraints.sizes[: constraints.visible], constraints.categorical))
    return tuple(f"c{k}" for k in range(width))


def compiled(constraints: Constraints, **options: object) -> Circuit:
    return compile_constraints(constraints, names_of(constraints), cache=False, **options)  # type: ignore[arg-type]


# ---- without numba's compiler ----


@pytest.mark.compiled
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(constraints_of_all_kinds())
def test_python_makes_the_same_circuit_and_the_same_program(constraints: Constraints) -> None:
    """What a new machine answers before it has compiled anything is what it answers later, bit for bit."""

    def run(self: Entry, *args: object) -> object:
        with np.errstate(all="ignore"):
            return jit._unboxed(self._python(*args))

    ours, program = compiled(constraints), None
    if ours.nodes > 1:
        program = build_program(ours)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Entry, "__call__", run)
        theirs = compiled(constraints)
        for name in ("kind", "literal", "ptr", "child"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name))
            assert getattr(ours, name).dtype == getattr(theirs, name).dtype
        if program is not None:
            other = build_program(theirs)
            assert np.array_equal(program.stream, other.stream)
            assert program.stream.dtype == other.stream.dtype
            assert (program.slots, program.biases, program.nodes, program.root) == (
                other.slots, other.biases, other.nodes, other.root,
            )  # fmt: skip
            assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(program.walk, other.walk))


# ---- what a circuit says, slowly ----


def count_models(circuit: Circuit) -> int:
    """Models over the columns, in integers: a literal of a block of n values holds in 1/n of all choices."""
    sizes = [
        int(b - a) if c else 2 for a, b, c in zip(circuit.starts, circuit.starts[1:], circuit.categorical.tolist())
    ]
    share = {int(a) + k: n for a, c, n in zip(circuit.starts, circuit.categorical, sizes) for k in range(n if c else 1)}
    total = 1
    for n in sizes:
        total *= n
    value: list[int] = []
    for node in range(circuit.nodes):
        below = [value[k] for k in circuit.child[circuit.ptr[node] : circuit.ptr[node + 1]].tolist()]
        match circuit.kind[node]:
            case 0:
                value.append(0)
            case 1:
                value.append(total)
            case 2:
                value.append(total // share[abs(int(circuit.literal[node])) - 1])
            case 3:
                product = below[0]
                for factor in below[1:]:
                    product = product * factor // total
                value.append(product)
            case _:
                value.append(sum(below))
    return value[-1]


def all_rows(circuit: Circuit) -> Iterator[tuple[bool, ...]]:
    """Every row of columns with one true column in each categorical block."""
    options = []
    for a, b, categorical in zip(circuit.starts, circuit.starts[1:], circuit.categorical):
        if categorical:
            options.append([tuple(k == j for k in range(b - a)) for j in range(b - a)])
        else:
            options.append([(False,), (True,)])
    for picked in itertools.product(*options):
        yield tuple(itertools.chain(*picked))


def truth(circuit: Circuit, rows: np.ndarray) -> list[np.ndarray]:
    """Of each node, in which rows it holds; every OR must hold through one child only."""
    held: list[np.ndarray] = []
    for node in range(circuit.nodes):
        below = [held[k] for k in circuit.child[circuit.ptr[node] : circuit.ptr[node + 1]]]
        kind, literal = circuit.kind[node], int(circuit.literal[node])
        if kind == LITERAL:
            held.append(rows[:, abs(literal) - 1] == (literal > 0))
        elif kind == AND:
            held.append(np.logical_and.reduce(below))
        elif kind == OR:
            assert np.sum(below, axis=0).max() <= 1, "two children of an OR hold at once"
            held.append(np.logical_or.reduce(below))
        else:
            held.append(np.full(len(rows), kind == TRUE))
    return held


def check_form(circuit: Circuit) -> None:
    """Topological order, decomposable ANDs, no negative literal of a categorical column, nothing unused."""
    block_of = np.repeat(np.arange(len(circuit.categorical)), np.diff(circuit.starts))
    mentions: list[set[int]] = []
    used = np.zeros(circuit.nodes, dtype=bool)
    used[-1] = True
    for node in range(circuit.nodes):
        children = circuit.child[circuit.ptr[node] : circuit.ptr[node + 1]].tolist()
        assert all(c < node for c in children)
        used[children] = True
        if circuit.kind[node] == LITERAL:
            block = int(block_of[abs(circuit.literal[node]) - 1])
            assert circuit.literal[node] > 0 or not circuit.categorical[block]
            mentions.append({block})
        else:
            assert (len(children) > 1) == (circuit.kind[node] in (AND, OR))
            mentions.append(set().union(*(mentions[c] for c in children)))
        if circuit.kind[node] == AND:
            assert sum(len(mentions[c]) for c in children) == len(mentions[node]), "an AND shares a variable"
    assert used.all()


def check_against_enumeration(constraints: Constraints) -> None:
    circuit = compiled(constraints)
    expected = {tuple(row) for row in oracle.valid_columns(constraints).tolist()}
    check_form(circuit)
    rows = np.array(list(all_rows(circuit)), dtype=bool)
    held = truth(circuit, rows)[-1]
    assert {tuple(row) for row in rows[held].tolist()} == expected
    assert count_models(circuit) == len(expected)
    if not expected:
        assert circuit.kind.tolist() == [FALSE]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(constraints_of_all_kinds())
def test_circuit_has_the_models_that_enumeration_finds(constraints: Constraints) -> None:
    check_against_enumeration(constraints)


@st.composite
def overlapping_groups(draw: st.DrawFn) -> Constraints:
    """Exactly-one rules over literals of both signs that share variables, and a few clauses."""
    n = draw(st.integers(3, 10))
    sums = []
    for _ in range(draw(st.integers(1, 4))):
        blocks = draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=n, unique=True))
        values = tuple(2 * b + draw(st.integers(0, 1)) for b in blocks)
        one = draw(st.sampled_from([1, len(blocks) - 1]))
        sums.append(Sum(values, (1,) * len(values), ((one, one),)))
    clauses = draw(st.lists(st.lists(st.integers(0, 2 * n - 1), min_size=1, max_size=3, unique=True), max_size=4))
    return Constraints((2,) * n, (False,) * n, tuple(map(tuple, clauses)), tuple(sums), visible=n)


@settings(max_examples=150, deadline=None)
@given(overlapping_groups())
def test_exactly_one_groups_keep_the_models(constraints: Constraints) -> None:
    check_against_enumeration(constraints)


def test_an_or_that_is_not_deterministic_is_noticed() -> None:
    """The twin that proves the guard above can fail: (a or b) as a plain OR."""
    kind = np.array([LITERAL, LITERAL, OR], dtype=np.int8)
    wrong = Circuit(
        kind, np.array([1, 2, 0]), np.array([0, 0, 0, 2]), np.array([0, 1]), np.arange(3), np.zeros(2, bool), ("a", "b")
    )
    with pytest.raises(AssertionError, match="hold at once"):
        truth(wrong, np.array(list(all_rows(wrong))))


# ---- a second route to counts ----


def cnf(variables: int, clauses: list[list[int]]) -> Constraints:
    values = tuple(tuple(2 * (abs(l) - 1) + (l > 0) for l in clause) for clause in clauses)
    return Constraints((2,) * variables, (False,) * variables, values, (), visible=variables)


def random_cnf(seed: int) -> tuple[int, list[list[int]]]:
    random = np.random.default_rng(seed)
    n = int(random.integers(10, 35))
    clauses = []
    for _ in range(int(n * random.uniform(1.0, 3.0))):
        chosen = random.choice(n, size=random.integers(2, 5), replace=False) + 1
        clauses.append([int(v) if random.random() < 0.5 else -int(v) for v in chosen])
    return n, clauses


@pytest.mark.parametrize("seed", range(30))
def test_counts_equal_those_of_a_second_counter(seed: int) -> None:
    import pyganak

    n, clauses = random_cnf(seed)
    counter = pyganak.Counter()
    counter.new_vars(n)
    counter.add_clauses(clauses)
    assert count_models(compiled(cnf(n, clauses))) == counter.count()


def test_random_clauses_are_not_all_contradictions() -> None:
    """Or the comparison above, and those below, would be of nothing with nothing."""
    circuits = [compiled(cnf(*random_cnf(seed))) for seed in range(30)]
    assert sum(circuit.edges > 50 for circuit in circuits) >= 20
    assert all(circuits[seed].edges > 50 for seed in (3, 5))


def read_dimacs(path: Path) -> tuple[int, list[list[int]]]:
    numbers: list[int] = []
    variables = 0
    for line in path.read_text().splitlines():
        if line.startswith("p"):
            variables = int(line.split()[2])
        elif not line.startswith("c"):
            numbers += map(int, line.split())
    clauses: list[list[int]] = [[]]
    for number in numbers:
        if number:
            clauses[-1].append(number)
        else:
            clauses.append([])
    return variables, clauses[:-1]


def published() -> list[tuple[str, int]]:
    table = Path(os.environ.get("DSSL_DATA", "")) / "cnf" / "COUNTS.tsv"
    if not table.exists():
        return []
    rows = [line.split("\t") for line in table.read_text().splitlines()[1:]]
    return [(row[0], int(row[3])) for row in rows]


SLOW_IN_PYTHON = {  # minutes each where kernels are not compiled, a second at most where they are
    "2bitcomp_5.cnf",
    "fm-busybox-1.18.0.dimacs",
    "fm-ecos-am31_sim.dimacs",
    "fm-embtoolkit.dimacs",
    "grid-50-10-1-q.weighted.cnf",
}


@pytest.mark.skipif(not published(), reason="set DSSL_DATA to the folder of data sets to count its cnf files")
@pytest.mark.parametrize(("name", "count"), published())
def test_counts_of_published_files(name: str, count: int) -> None:
    if PLAIN and name in SLOW_IN_PYTHON:
        pytest.skip("kernels are not compiled (NUMBA_DISABLE_JIT is set): this file takes minutes, the others remain")
    constraints = cnf(*read_dimacs(Path(os.environ["DSSL_DATA"]) / "cnf" / name))
    if name in ("php13_13.cnf", "queens16.cnf"):  # too hard for clauses alone
        with pytest.raises(BudgetError):
            compiled(constraints, budget_s=1.0)
    else:
        assert count_models(compiled(constraints)) == count


# ---- sizes that others rely on ----


def exactly_one(values: list[int]) -> Sum:
    return Sum(tuple(values), (1,) * len(values), ((1, 1),))


def binaries(n: int, sums: list[Sum]) -> Constraints:
    return Constraints((2,) * n, (False,) * n, (), tuple(sums), visible=n)


def test_exactly_one_of_a_thousand_is_linear() -> None:
    circuit = compiled(binaries(1000, [exactly_one([2 * b + 1 for b in range(1000)])]))
    assert count_models(circuit) == 1000
    assert circuit.edges <= 8100


def test_at_most_five_of_fifty_is_small() -> None:
    circuit = compiled(binaries(50, [Sum(tuple(range(1, 100, 2)), (1,) * 50, ((0, 5),))]))
    assert count_models(circuit) == 2369936
    assert circuit.edges <= 2100


def test_permutations_are_small() -> None:
    cell = np.arange(36).reshape(6, 6) * 2 + 1
    circuit = compiled(binaries(36, [exactly_one(line.tolist()) for line in [*cell, *cell.T]]))
    assert count_models(circuit) == 720
    assert circuit.edges <= 1650


# ---- budget, progress, interruption ----


def hard() -> Constraints:
    random = np.random.default_rng(1)
    clauses = [
        [int(v) if random.random() < 0.5 else -int(v) for v in random.choice(150, 3, False) + 1] for _ in range(300)
    ]
    return cnf(150, clauses)


def test_over_budget_says_how_far_it_came_and_what_to_do() -> None:
    with pytest.raises(BudgetError, match=r"budget of 0\.2 s.* decisions.* nodes.* components.*budget_s.*relaxation"):
        compiled(hard(), budget_s=0.2)
    with pytest.raises(BudgetError, match="budget of 5,000 nodes"):
        compiled(hard(), budget_nodes=5000)


def test_progress_is_told_and_may_interrupt() -> None:
    heard: list[Progress] = []

    def stop(progress: Progress) -> None:
        heard.append(progress)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compiled(hard(), progress=stop)
    assert heard[0].decisions > 0
    assert 0 <= heard[0].share <= 1


def test_progress_prints_to_stderr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(turns, "FIRST_SLICE", 1000)  # short even where kernels are not compiled
    monkeypatch.setattr(budget, "_REPORT_S", 0.0)
    with pytest.raises(BudgetError):
        compiled(hard(), progress=True, budget_nodes=5000)
    assert "decisions" in capsys.readouterr().err


@pytest.mark.parametrize(("progress", "wait_s", "lines"), [(False, 0.0, 0), (True, 0.0, 1), (True, 1e9, 0)])
def test_progress_is_told_if_asked_for_and_now_and_then(
    progress: bool, wait_s: float, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(budget, "_REPORT_S", wait_s)
    with pytest.raises(BudgetError):
        compiled(hard(), budget_nodes=5000, **({"progress": True} if progress else {}))
    assert bool(capsys.readouterr().err) == bool(lines)
    heard: list[Progress] = []
    with pytest.raises(BudgetError):
        compiled(hard(), progress=heard.append, budget_nodes=5000)
    assert bool(heard) == (wait_s == 0)
    for first, second in itertools.pairwise(heard):
        assert first.seconds <= second.seconds
        assert first.decisions <= second.decisions
        assert first.nodes <= second.nodes  # those of a search that was given up count on


def test_what_cannot_be_is_a_single_false_node() -> None:
    for constraints in (cnf(1, [[1], [-1]]), cnf(1, [[]]), binaries(1, [Sum((1,), (1,), ((2, 3),))])):
        circuit = compiled(constraints)
        assert circuit.kind.tolist() == [FALSE]


def test_no_constraints_is_a_single_true_node() -> None:
    assert compiled(cnf(3, [])).kind.tolist() == [TRUE]


def test_the_cache_gives_the_same_circuit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path))
    monkeypatch.setattr("dssl.circuits.compile.compiler.WORTH_KEEPING_S", 0.0)
    constraints = cnf(*random_cnf(3))
    first = compile_constraints(constraints, names_of(constraints))
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr("dssl.circuits.compile.compiler._compile", None)
    second = compile_constraints(constraints, names_of(constraints))
    for field in ("kind", "literal", "ptr", "child", "starts", "categorical"):
        assert np.array_equal(getattr(first, field), getattr(second, field))


def test_what_is_quick_or_not_to_be_cached_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path))
    constraints = cnf(*random_cnf(3))
    monkeypatch.setattr("dssl.circuits.compile.compiler.WORTH_KEEPING_S", 1e9)
    compile_constraints(constraints, names_of(constraints))
    monkeypatch.setattr("dssl.circuits.compile.compiler.WORTH_KEEPING_S", 0.0)
    compile_constraints(constraints, names_of(constraints), cache=False)
    assert not list(tmp_path.iterdir())


def test_the_same_constraints_give_the_same_circuit() -> None:
    constraints = cnf(*random_cnf(5))
    first, second = compiled(constraints), compiled(constraints)
    assert np.array_equal(first.child, second.child)
    assert np.array_equal(first.literal, second.literal)
