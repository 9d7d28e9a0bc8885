"""Files of other tools: what is written reads back with the same models, and bad files say where they are bad."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

import oracle
from circuits.strategies import circuit_of, constraint_sets, naive_circuit
from dssl.circuits.circuit import Circuit
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE

C2D = """c a comment
nnf 7 6 2
L 1
L -2
A 2 0 1
L -1
L 2
A 2 3 4
O 1 2 2 5
"""
D4 = """o 1 0
a 2 0
t 3 0
f 4 0
1 2 1 0
1 3 -1 3 0
2 3 2 0
2 3 0
"""


def models(circuit: Circuit) -> set[tuple[bool, ...]]:
    """The labels a circuit over binary columns holds for, by evaluating its nodes on every row."""
    rows = np.array(list(itertools.product([False, True], repeat=circuit.width))).reshape(-1, circuit.width)
    held: list[np.ndarray] = []
    for node, kind in enumerate(circuit.kind):
        below = [held[x] for x in circuit.child[circuit.ptr[node] : circuit.ptr[node + 1]]]
        column = rows[:, abs(circuit.literal[node]) - 1] if kind == LITERAL else None
        held.append(
            {
                FALSE: lambda: np.zeros(len(rows), bool),
                TRUE: lambda: np.ones(len(rows), bool),
                LITERAL: lambda c=column, n=node: c == (circuit.literal[n] > 0),
                AND: lambda b=below: np.all(b, axis=0),
                OR: lambda b=below: np.any(b, axis=0),
            }[kind]()
        )
    return {tuple(row) for row in rows[held[-1]].tolist()}


@settings(max_examples=80, deadline=None)
@given(constraint_sets(blocks=5, choices=200))
def test_nnf_text_has_the_same_models_over_plain_columns(constraints):
    circuit = naive_circuit(constraints)
    again = Circuit.from_nnf(circuit.to_nnf())
    rows = {tuple(row) for row in oracle.valid_columns(constraints).tolist()}
    assert again.count() == circuit.count() == len(rows)
    assert again.verify()
    assert not again.categorical.any()
    if again.width <= 12:
        assert models(again) == rows


def test_written_text():
    circuit = circuit_of([(LITERAL, 1, ()), (LITERAL, -3, ()), (AND, 0, (0, 1))], [2, 0], names=["k=a", "k=b", "legs"])
    assert circuit.to_nnf() == (
        "c x1 is k=a\nc x2 is k=b\nc x3 is legs\nnnf 5 4 3\nL 1\nL -2\nA 2 0 1\nL -3\nA 2 2 3\n"
    )
    assert "c x2 is soft rule 1, p = 0.9" in circuit_of([(LITERAL, 2, ())], [0, 0], soft=[0.9]).to_nnf()
    for kind, count in ((TRUE, 6), (FALSE, 0)):
        assert Circuit.from_nnf(circuit_of([(kind, 0, ())], [3, 0]).to_nnf()).count() == count


def test_c2d():
    circuit = Circuit.from_nnf(C2D)
    assert circuit.names == ("x1", "x2")
    assert models(circuit) == {(True, False), (False, True)}
    assert Circuit.from_nnf("nnf 1 0 3\nA 0\n").count() == 8
    assert Circuit.from_nnf("nnf 1 0 3\nO 0 0\n").count() == 0
    assert Circuit.from_nnf(C2D, variables=4).count() == 8


def test_d4():
    circuit = Circuit.from_nnf(D4)
    assert circuit.names == ("x1", "x2", "x3")
    assert models(circuit) == {(True, True, False), (True, True, True), (False, False, True), (False, True, True)}
    assert Circuit.from_nnf("t 1 0\n", variables=5).count() == 32
    assert Circuit.from_nnf("o 1 0\nf 2 0\n1 2 0\n").count() == 0
    assert Circuit.from_nnf("o 7 0\nt 2 0\n7 2 1 0\n").count() == 1


def test_from_a_path(tmp_path):
    (tmp_path / "a.nnf").write_text(C2D)
    assert Circuit.from_nnf(tmp_path / "a.nnf").count() == 2
    assert Circuit.from_nnf(str(tmp_path / "a.nnf")).count() == 2
    with pytest.raises(FileNotFoundError):
        Circuit.from_nnf("nowhere.nnf")


def test_deep_files_do_not_recurse():
    n = 5000
    lines = [f"o {i} 0" for i in range(1, n + 1)] + [f"t {n + 1} 0"]
    lines += [f"{i} {i + 1} {i} 0\n{i} {n + 1} {-i} 0" for i in range(1, n + 1)]
    circuit = Circuit.from_nnf("\n".join(lines))
    assert circuit.width == n
    assert circuit.count() == 2**n  # the last OR is x_n or not x_n, and so on up
    assert circuit.verify()


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("c nothing\n", 1, "nothing but comments"),
        ("nnf 2 0\nL 1\n", 1, "nnf nodes edges variables"),
        ("nnf 1 0 2\nL 3\n", 2, "literal 3 is not among the 2 variables"),
        ("nnf 1 0 2\nL 0\n", 2, "literal 0"),
        ("nnf 1 0 2\nL x\n", 2, "whole numbers, found 'x'"),
        ("nnf 2 1 2\nL 1\nA 2 0\n", 3, "with n children"),
        ("nnf 2 1 2\nL 1\nX 2 0\n", 3, "found `X 2 0`"),
        ("nnf 2 1 2\nL 1\nA 1 1\n", 3, "not among the 1 nodes above"),
        ("nnf 3 1 2\nL 1\nA 1 0\n", 3, "announces 3 nodes, and the file has 2"),
        ("o 1 0\n1 2 0\n", 2, "node 2 is not declared"),
        ("o 1 0\nt 2 0\n1 2 4\n", 3, "parent child literals 0"),
        ("o 1 0\no 2 0\n1 2 0\n2 1 0\n", 4, "one root"),
        ("o 1 0\no 2 0\no 3 0\n1 2 0\n2 3 0\n3 2 0\n", 6, "lies below itself"),
        ("o 5 0\no 6 0\n", 2, "2 nodes without a parent"),
    ],
)
def test_bad_nnf_files_say_where(text, line, reason):
    with pytest.raises(ValueError, match=rf"the text, line {line}: .*{reason}.*\. \w+"):
        Circuit.from_nnf(text)


def test_too_few_variables():
    with pytest.raises(ValueError, match="uses variable 2, but variables=1"):
        Circuit.from_nnf(C2D, variables=1)
