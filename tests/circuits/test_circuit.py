"""The Circuit object: its arrays are checked, counts are exact, files come back as they were written."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings

import oracle
from circuits.strategies import circuit_of, constraint_sets, naive_circuit
from dssl.circuits.circuit import Circuit
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE
from logic.stopwatch import within

XOR = [(LITERAL, 1, ()), (LITERAL, -1, ()), (LITERAL, 2, ()), (LITERAL, -2, ())]
XOR += [(AND, 0, (0, 3)), (AND, 0, (1, 2)), (OR, 0, (4, 5))]
FIELDS = ("kind", "literal", "ptr", "child", "starts", "categorical")


def test_size():
    circuit = circuit_of(XOR, [0, 0])
    assert (circuit.nodes, circuit.edges, circuit.width, circuit.depth) == (7, 6, 2, 2)
    assert repr(circuit) == "Circuit(7 nodes, 6 edges, 2 columns)"
    assert circuit_of([(TRUE, 0, ())]).depth == 0


@settings(max_examples=100, deadline=None)
@given(constraint_sets())
def test_count_is_the_number_of_valid_rows(constraints):
    circuit = naive_circuit(constraints)
    assert circuit.count() == len(oracle.valid_columns(constraints))
    assert type(circuit.count()) is int


def test_count_multiplies_by_what_nothing_mentions():
    assert circuit_of(XOR, [0, 0]).count() == 2
    assert circuit_of(XOR, [0, 0, 0, 5]).count() == 2 * 2 * 5
    assert circuit_of(XOR, [0, 0], soft=[0.9]).count() == 2  # column 2 is the soft rule: one value for each label
    assert circuit_of([(TRUE, 0, ())], [0] * 200).count() == 2**200
    assert circuit_of([(FALSE, 0, ())], [3]).count() == 0


def test_a_million_columns_are_counted_at_once() -> None:
    """Factor by factor the product of a million twos takes about ten seconds; a number of as many bits for each literal
    would take 62 GB."""
    wide, half = 1_000_000, 500_000
    literals = [(LITERAL, i + 1, ()) for i in range(half)]
    free, conjunction = (
        circuit_of([(TRUE, 0, ())], [0] * wide),
        circuit_of([*literals, (AND, 0, tuple(range(half)))], [0] * wide),
    )
    circuit_of(XOR, [0, 0]).count()  # compiles what proves circuits sound
    with within(8):
        assert free.count() == 2**wide
        assert conjunction.count() == 2**half


def ladder(rungs: int) -> Circuit:
    """Exactly k ≡ 0 (mod 3) of the columns: a wide diagram with large counts."""
    nodes = [(LITERAL, sign * (i + 1), ()) for i in range(rungs) for sign in (1, -1)] + [(TRUE, 0, ()), (FALSE, 0, ())]
    state = [2 * rungs, 2 * rungs + 1, 2 * rungs + 1]
    for i in range(rungs):
        fresh = []
        for r in range(3):
            nodes += [(AND, 0, (2 * i, state[r - 1])), (AND, 0, (2 * i + 1, state[r]))]
            nodes.append((OR, 0, (len(nodes) - 2, len(nodes) - 1)))
            fresh.append(len(nodes) - 1)
        state = fresh
    return circuit_of([*nodes, (AND, 0, (state[0],))], [0] * rungs)


def test_count_is_exact_and_quick_beyond_64_bits():
    circuit = ladder(1500)
    start = time.perf_counter()
    assert circuit.count() == sum(math.comb(1500, k) for k in range(0, 1501, 3))
    assert time.perf_counter() - start < 5
    assert circuit.depth == 2 * 1500 + 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": [2, 2, 2, 2, 3, 3, 7]}, "unknown kinds"),
        ({"kind": [2, 2, 2, 2, 3, 3, 1]}, "AND and OR need children"),
        ({"literal": [1, -1, 2, -2, 0, 0, 5]}, "only they, have a column"),
        ({"literal": [1, -1, 3, -2, 0, 0, 0]}, "column 3 of 2"),
        ({"literal": [1, -1, 2, -2, 0, 0]}, "the same nodes"),
        ({"child": [0, 3, 1, 2, 4, 6]}, "before their parents"),
        ({"child": [0, 3, 1, 2, 4, -1]}, "before their parents"),
        ({"ptr": [0, 0, 0, 0, 0, 2, 4, 5]}, "number of edges"),
        ({"starts": [0, 1, 1]}, "must rise"),
        ({"starts": [0, 1, 3]}, "2 names"),
        ({"categorical": [False, True]}, "negative literal"),
        ({"categorical": [True]}, "must rise"),
        ({"soft": (0.5, 0.5, 0.5), "names": ()}, "soft rules"),
        ({"soft": (1.5,), "names": ("a",)}, "between 0 and 1"),
        ({"names": ("a",)}, "1 names"),
    ],
)
def test_arrays_that_are_no_circuit(change, reason):
    good = circuit_of(XOR, [0, 0])
    fields = {name: getattr(good, name) for name in (*FIELDS, "names", "soft")}
    with pytest.raises(ValueError, match=reason):
        Circuit(**{**fields, **{k: np.array(v) if isinstance(v, list) else v for k, v in change.items()}})
    assert Circuit(**fields).count() == 2


@settings(max_examples=30, deadline=None)
@given(constraint_sets())
def test_save_and_load(tmp_path_factory, constraints):
    circuit = naive_circuit(constraints)
    path = tmp_path_factory.mktemp("circuits") / "a.circuit"
    circuit.save(path)
    again = Circuit.load(path)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(circuit, name), getattr(again, name))
        assert getattr(circuit, name).dtype == getattr(again, name).dtype
    assert (again.names, again.soft) == (circuit.names, circuit.soft)


def test_names_of_any_letters_survive(tmp_path):
    circuit = circuit_of(XOR, [0, 0], names=["ünï \N{SNOWMAN}\0", "a\nb"])
    circuit.save(tmp_path / "x")
    assert Circuit.load(tmp_path / "x").names == circuit.names


def test_saving_replaces_the_whole_file_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    circuit_of(XOR, [0, 0]).save(path)
    before = path.read_bytes()
    monkeypatch.setattr(np, "savez", lambda file, **_: file.write(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        circuit_of(XOR, [0, 0]).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.npz"]


def test_files_that_are_not_circuits(tmp_path):
    path = tmp_path / "x.npz"
    circuit_of(XOR, [0, 0]).save(path)
    whole = path.read_bytes()
    for content in (b"", b"text", whole[:100], whole[: len(whole) // 2], whole[:-10]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.npz is not a circuit saved by dssl, or was cut short\. Compile"):
            Circuit.load(path)
    np.savez(path, a=np.arange(3))
    with pytest.raises(ValueError, match="not a circuit"):
        Circuit.load(path)
    np.save(tmp_path / "x.npy", np.arange(3))
    with pytest.raises(ValueError, match="not a circuit"):
        Circuit.load(tmp_path / "x.npy")
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="not a circuit"):
        Circuit.load(tmp_path / "o.npy")
    with pytest.raises(FileNotFoundError):
        Circuit.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "has circuit format 2, and this dssl reads 1"),
        ({"format": "zip of cats"}, "is not a circuit"),
        ({"names": ["a"]}, "is damaged"),
        ({"soft": ["x"]}, "is damaged"),
    ],
)
def test_newer_foreign_and_damaged_files(tmp_path, change, reason):
    circuit = circuit_of(XOR, [0, 0])
    circuit.save(tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as file:
        arrays = dict(file)
    meta = {**json.loads(bytes(arrays["meta"])), **change}
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez(tmp_path / "y.npz", **arrays)
    with pytest.raises(ValueError, match=reason):
        Circuit.load(tmp_path / "y.npz")


def test_the_module_does_not_load_torch():
    code = "import sys, dssl.circuits.circuit as c; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.compiled
def test_sizes_of_a_million_edges_are_quick():
    n = 250_000
    kind = np.array([LITERAL, LITERAL] + [AND, OR] * n)
    child = np.array(list(itertools.chain.from_iterable((i, i + 1, i, i + 2) for i in range(0, 2 * n, 2))))
    ptr = np.concatenate([[0, 0], np.arange(0, 4 * n + 1, 2)])
    literal = np.array([1, -1] + [0] * (2 * n))
    start = time.perf_counter()
    circuit = Circuit(kind, literal, ptr, child, np.array([0, 1]), np.array([False]), ("a",))
    assert circuit.edges == 4 * n
    assert circuit.depth == 2 * n
    assert time.perf_counter() - start < 3


@pytest.mark.parametrize(
    ("name", "extra", "strict"),
    [
        ("log_wmc", (), True),
        ("marginals", (), True),
        ("mpe", (), True),
        ("top_k", (3,), True),
        ("entropy", (), True),
        ("sample", (5, "generator"), False),
    ],
)
def test_questions_go_to_the_module_of_that_name(monkeypatch, name, extra, strict):
    from dssl.circuits import queries

    asked = []
    monkeypatch.setattr(queries, name, lambda *a, **k: asked.append((a, k)) or "answer")
    circuit = circuit_of(XOR, [0, 0])
    options = {"strict": True} if strict else {}
    assert getattr(circuit, name)("pos", "neg", *extra, **options) == "answer"
    assert asked == [((circuit, "pos", "neg", *extra), options)]
