"""No query runs on a circuit that is not proved to be what kernels rely on, whatever it came from."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import random
import time
import tracemalloc
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from circuits.strategies import circuit_of, constraint_sets, naive_circuit
from circuits.test_circuit import ladder
from circuits.test_queries import parity
from circuits.test_verification import exclusive_only_together, overlaps
from dssl import LabelSpace
from dssl.circuits import branches, proof, verification
from dssl.circuits.circuit import Circuit
from dssl.circuits.compile import cache, compiler
from dssl.circuits.nodes import AND, LITERAL, OR, TRUE
from dssl.errors import DataError

COPIES = 60
QUERIES = {
    "log_wmc": lambda c, w: c.log_wmc(*w),
    "marginals": lambda c, w: c.marginals(*w),
    "entropy": lambda c, w: c.entropy(*w),
    "top_k": lambda c, w: c.top_k(*w, 3),
    "sample": lambda c, w: c.sample(*w, 50),
    "count": lambda c, w: c.count(),
    "choices": lambda c, w: branches.with_choices(c),
    "mpe": lambda c, w: c.mpe(*w),
}
every_query = pytest.mark.parametrize("query", QUERIES)


def open_pairs(circuit: Circuit) -> list[list[int]]:
    """All of them."""
    return [pair for some, _ in proof.open_pairs(circuit) for pair in some.tolist()]


def copies() -> Circuit:
    """An AND of 60 copies of x₁ ∨ (¬x₁ ∧ x₂): its walk meets far more nodes than there are columns."""
    nodes = [(LITERAL, 1, ()), (LITERAL, -1, ()), (LITERAL, 2, ()), (AND, 0, (1, 2)), (OR, 0, (0, 3))]
    return circuit_of([*nodes, (AND, 0, (4,) * COPIES)], [0, 0])


def saved(circuit: Circuit, path) -> Circuit:
    circuit.save(path / "a.npz")
    return Circuit.load(path / "a.npz")


def from_nnf(circuit: Circuit, path) -> Circuit:
    return Circuit.from_nnf(f"nnf 6 {COPIES + 4} 2\nL 1\nL -1\nL 2\nA 2 1 2\nO 1 2 0 3\nA {COPIES}{' 4' * COPIES}\n")


def from_sdd(circuit: Circuit, path) -> Circuit:
    """A decision whose prime is also its sub."""
    file = path / "a.sdd"
    file.write_text("sdd 5\nL 0 0 1\nL 1 0 -1\nL 2 1 2\nD 3 1 2 0 0 1 2\nD 4 2 1 3 3\n")
    return Circuit.from_sdd(file)


def from_cache(circuit: Circuit, path) -> Circuit:
    """A file in the compile cache with the right name and checksum and another circuit's arrays."""
    space = LabelSpace("a, b\na | b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSSL_CACHE", str(path))
        key = cache.content_key(space.constraints)
        cache.save(key, (circuit.kind, circuit.literal, circuit.ptr, circuit.child))
        return compiler.compile_constraints(space.constraints, ("a", "b"))


@pytest.mark.parametrize("source", [lambda c, path: c, saved, from_nnf, from_sdd, from_cache])
@every_query
def test_no_query_runs_on_a_circuit_that_is_not_decomposable(tmp_path, source, query):
    circuit = source(copies(), tmp_path)
    assert not circuit.verify().decomposable
    for _ in range(2):  # the second question is refused like the first
        with pytest.raises(
            DataError, match=r"not decomposable: two children of node \d+, an AND, mention .*\. Was its"
        ):
            QUERIES[query](circuit, torch.zeros(2, 20, circuit.width))


@every_query
def test_only_the_heaviest_label_can_do_without_determinism(query):
    circuit = circuit_of([(LITERAL, 1, ()), (LITERAL, 2, ()), (OR, 0, (0, 1))], [0, 0])
    weights = torch.zeros(2, 3, 2)
    if query == "mpe":
        assert circuit.mpe(*weights)[0].any(1).all()
        return
    with pytest.raises(DataError, match=r"not deterministic: two children of node 2, an OR, have a label in common"):
        QUERIES[query](circuit, weights)


@settings(max_examples=150, deadline=None)
@given(constraint_sets(soft=0), st.randoms(use_true_random=False), st.integers(1, 3))
def test_random_damage_is_judged_as_sets_and_enumeration_judge_it(constraints, rng: random.Random, times):
    circuit = naive_circuit(constraints)
    edges = range(circuit.edges)
    child = circuit.child.copy()
    for edge in rng.sample(edges, min(times, len(edges))):
        upper = int(np.searchsorted(circuit.ptr, edge, side="right")) - 1
        child[edge] = rng.randrange(upper)
    fields = (circuit.kind, circuit.literal, circuit.ptr, child, circuit.starts, circuit.categorical, circuit.names)
    damaged = Circuit(*fields)
    assert proof.shared_block(damaged) == slow_shared_block(damaged)
    sound = slow_shared_block(damaged) is None and overlaps(damaged) == 0
    if sound:
        proof.require_deterministic(damaged)
    else:
        with pytest.raises(DataError):
            proof.require_deterministic(damaged)


def slow_shared_block(circuit: Circuit) -> tuple[int, int] | None:
    """The first AND with a block that two children mention, by sets; of several such blocks the one found first."""
    scope: list[set[int]] = []
    for n in range(circuit.nodes):
        below = [scope[x] for x in circuit.child[circuit.ptr[n] : circuit.ptr[n + 1]]]
        if circuit.kind[n] == AND and len(set().union(*below)) < sum(map(len, below)):
            shared = {b for b in set().union(*below) if sum(b in s for s in below) > 1}
            found = proof.shared_block(circuit)
            return (n, found[1]) if found is not None and found[1] in shared else (n, -1)
        literal = int(circuit.literal[n])
        own = {int(circuit.block_of_column[abs(literal) - 1])} if literal else set()
        scope.append(own.union(*below))
    return None


@pytest.mark.parametrize("size", [5, 62, 63, 64, 200])
def test_large_blocks_are_told_apart_value_by_value(size):
    """An OR over all pairs of neighbouring values of one block, each pair by a node of its own."""
    nodes = [(LITERAL, v + 1, ()) for v in range(size)] + [(LITERAL, size + 1, ()), (LITERAL, -size - 1, ())]
    for v in range(0, size - 1, 2):
        nodes += [(OR, 0, (v, v + 1)), (AND, 0, (size, len(nodes)))]
    halves = range(size + 3, len(nodes), 2)
    good = circuit_of([*nodes, (OR, 0, tuple(halves))], [size, 0])
    assert not open_pairs(good)
    bad = circuit_of([*nodes, (OR, 0, (*halves, halves[0]))], [size, 0])
    assert open_pairs(bad) == [[len(nodes), halves[0], halves[0]]]


def test_more_than_64_blocks_that_no_order_keeps_apart():
    """ANDs of even and of odd columns, after an AND that makes neighbours of them: ranges overlap, blocks do not."""
    n = 450
    nodes = [(LITERAL, i + 1, ()) for i in range(n)] + [(LITERAL, -1, ())]
    nodes += [(AND, 0, tuple(range(n)))]
    nodes += [(AND, 0, tuple(range(2, n, 2))), (AND, 0, tuple(range(1, n, 2))), (AND, 0, (n, n + 2, n + 3))]
    nodes += [(OR, 0, (n + 1, n + 4))]
    assert proof.shared_block(circuit_of(nodes, [0] * n)) is None
    nodes[n + 3] = (AND, 0, (*range(1, n, 2), 448))
    assert proof.shared_block(circuit_of(nodes, [0] * n)) == (n + 4, 448)


@pytest.mark.parametrize(
    "rules",
    [
        "\n".join(["a: 0..70", "b: 0..70", "a + b <= 80"]),
        ", ".join(f"x{i}" for i in range(200)) + "\nexactly_one(" + ", ".join(f"x{i}" for i in range(200)) + ")",
        ", ".join(f"x{i}" for i in range(30)) + "\nat_most(3, " + ", ".join(f"x{i}" for i in range(30)) + ")",
        "a, b, c, d\nk: {u, v, w}\na -> b\nk = u -> c ^ d\n0.9 :: a <-> d",
    ],
)
def test_what_the_compiler_made_is_proved_again_without_a_solver(tmp_path, monkeypatch, rules):
    circuit = LabelSpace(rules).compile()
    again = saved(circuit, tmp_path)
    monkeypatch.setattr(verification, "overlap", None)
    assert again.count() == circuit.count()


def test_own_circuits_are_not_proved_again(monkeypatch):
    circuit = compiler.compile_constraints(LabelSpace("a, b\na -> b").constraints, ("a", "b"), cache=False)
    monkeypatch.setattr(proof, "shared_block", None)
    assert circuit.count() == 3
    with pytest.raises(TypeError):
        circuit_of([(TRUE, 0, ())]).count()


def test_what_a_short_search_leaves_open_is_said(monkeypatch):
    circuit = exclusive_only_together(overlap=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        proof.require_deterministic(circuit)
    monkeypatch.setattr(verification, "overlap", lambda circuit, pairs, conflicts: (None, len(list(pairs))))
    with pytest.warns(UserWarning, match=r"1 pairs of branches .*verify\(\) searches without a limit"):
        proof.require_deterministic(exclusive_only_together(overlap=False))


@pytest.mark.compiled
@pytest.mark.parametrize("make", [lambda: ladder(20_000), lambda: parity(20_000)])
def test_decision_diagrams_take_one_pass_over_the_edges(make):
    """Quadratic work would be ten thousand times as much."""
    proof.require_deterministic(parity(3))
    circuit = make()
    start = time.perf_counter()
    proof.require_deterministic(circuit)
    assert time.perf_counter() - start < 2


def children(how: str, n: int) -> str:
    """An .nnf whose OR has n children that only pairs tell apart, or do not."""
    if how == "one child, many times":
        return f"nnf 2 {n} 1\nL 1\nO 0 {n}{' 0' * n}\n"
    if how == "one literal, many nodes":
        return f"nnf {n + 1} {n} 1\n" + "L 1\n" * n + f"O 0 {n} {' '.join(map(str, range(n)))}\n"
    ands = "".join(f"A 2 {i % 7} {7 + i % 11}\n" for i in range(n))  # one formula, many nodes
    literals = "".join(f"L {i + 1}\n" for i in range(18))
    return f"nnf {n + 19} {3 * n} 18\n{literals}{ands}O 0 {n} {' '.join(str(18 + i) for i in range(n))}\n"


@pytest.mark.parametrize("n", [20_000, 100_000])
@pytest.mark.parametrize("how", ["one child, many times", "one literal, many nodes", "one formula, many nodes"])
def test_many_children_take_little_memory(how, n):
    """All pairs of 20,000 children would take 5 GB."""
    circuit = Circuit.from_nnf(children(how, n))
    tracemalloc.start()
    began = time.thread_time()
    with pytest.raises(DataError, match="not deterministic"):
        circuit.count()
    assert tracemalloc.get_traced_memory()[1] < 200 << 20
    tracemalloc.stop()
    assert time.thread_time() - began < 20


def test_pairs_come_some_at_a_time_and_each_once(monkeypatch):
    """Whatever the portions: of ORs of 1 to 40 children of which some occur again, against two loops."""
    rng = random.Random(5)
    for _ in range(30):
        monkeypatch.setattr(proof, "_AT_ONCE", rng.choice([1, 2, 7, 50, 1000]))
        ors = {n: [rng.randrange(60) for _ in range(rng.randrange(1, 40))] for n in range(100, 104)}
        parent = np.repeat(np.array(list(ors)), [len(x) for x in ors.values()])
        node = np.concatenate([np.array(x) for x in ors.values()])
        ptr = np.zeros(105, np.int64)
        ptr[101:] = np.cumsum([len(x) for x in ors.values()])
        members = proof._members(np.array(list(ors)), np.zeros(len(parent), bool), np.full(104, -1), ptr, node)
        portions = list(proof._pairs_of(*members))
        found = [tuple(pair) for pairs, _ in portions for pair in pairs.tolist()]
        assert [after for _, after in portions] == [
            len(found) - sum(len(p) for p, _ in portions[: i + 1]) for i in range(len(portions))
        ]
        slow = {(n, min(a, b), max(a, b)) for n, x in ors.items() for i, a in enumerate(x) for b in x[i + 1 :]}
        assert sorted((n, min(a, b), max(a, b)) for n, a, b in found) == sorted(slow)
        assert [n for n, _, _ in found] == sorted(n for n, _, _ in found)


def test_pairs_beyond_the_bound_are_a_warning(monkeypatch):
    circuit = exclusive_only_together(overlap=False)
    monkeypatch.setattr(proof, "_AT_ONCE", 1)
    whole = sum(len(pairs) for pairs, _ in proof.open_pairs(circuit))
    assert whole
    monkeypatch.setattr(proof, "_MOST_TIMES", 0)
    monkeypatch.setattr(proof, "open_pairs", lambda c: iter([(np.empty((0, 3), np.int64), 1234)]))
    with pytest.warns(UserWarning, match="1,234 pairs of branches"):
        proof.require_deterministic(circuit)


@pytest.mark.parametrize("step", ["shared_block", "open_pairs"])
def test_too_little_memory_for_a_proof_is_our_error(monkeypatch, step):
    def refuse(circuit):
        raise MemoryError

    monkeypatch.setattr(proof, step, refuse)
    with pytest.raises(DataError, match=r"not enough memory to prove .* Free memory"):
        circuit_of([(LITERAL, 1, ()), (LITERAL, -1, ()), (OR, 0, (0, 1))], [0]).count()


def made_of_arrays(path) -> Circuit:
    return circuit_of([(LITERAL, 1, ()), (LITERAL, -1, ()), (OR, 0, (0, 1))], [0])


SOURCES = {
    "arrays": made_of_arrays,
    "rules": lambda path: LabelSpace("a, b\na | b").compile(),
    "cache": lambda path: from_cache(LabelSpace("a, b\na | b").compile(), path),
    "file": lambda path: saved(made_of_arrays(path), path),
    "nnf": lambda path: Circuit.from_nnf("nnf 3 2 1\nL 1\nL -1\nO 1 2 0 1\n"),
    "sdd": lambda path: from_sdd(made_of_arrays(path), path),
    "paths": lambda path: Circuit.paths([("a", "b"), ("b", "c"), ("a", "c")], "a", "c"),
    "choices": lambda path: branches.with_choices(LabelSpace("a, b\na | b").compile()).circuit,
    "pickle": lambda path: pickle.loads(pickle.dumps(made_of_arrays(path))),
    "copy": lambda path: copy.copy(made_of_arrays(path)),
    "deep copy": lambda path: copy.deepcopy(made_of_arrays(path)),
    "replaced": lambda path: dataclasses.replace(made_of_arrays(path), names=("z",)),
}


@pytest.mark.parametrize("source", SOURCES)
def test_what_was_proved_cannot_be_changed(tmp_path, source):
    circuit = SOURCES[source](tmp_path)
    held = [circuit.levels, circuit.block_of_column]
    held += [x for x in vars(circuit).values() if isinstance(x, np.ndarray)]
    assert len(held) >= 8
    for array in held:
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


def test_the_arrays_of_a_circuit_are_its_own():
    given = {name: np.array(getattr(made_of_arrays(None), name)) for name in ("kind", "literal", "ptr", "child")}
    blocks = {"starts": np.array([0, 1], np.int32), "categorical": np.array([False])}
    circuit = Circuit(**given, **blocks, names=("a",))
    assert circuit.count() == 2
    for array in (given | blocks).values():
        array[:] = 0
    assert circuit.count() == 2
