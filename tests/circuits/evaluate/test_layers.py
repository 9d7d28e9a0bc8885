"""The index tensors of layers: every edge once, children in earlier layers, one set of tensors a device."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import torch
from hypothesis import given, settings

from circuits.strategies import circuit_of, constraint_sets, naive_circuit
from dssl.circuits.circuit import Circuit
from dssl.circuits.evaluate.layers import Layers, layers_of
from dssl.circuits.nodes import AND, LITERAL, OR

CPU = torch.device("cpu")


def names_below(circuit: Circuit, layers: Layers) -> list[list[str]]:
    """Each node as a sorted text of its sub-DAG, rebuilt layer by layer from the index tensors alone."""
    values = len(layers.block_of_value)
    texts = [[f"v{i}" for i in range(values)] + ["true", "false"]]
    pieces: dict[tuple[int, int], list[str]] = {}
    for i, layer in enumerate(layers.layers):
        if i:
            incoming = [text for source in layer.sources for text in pieces.pop(source)]
            assert len(incoming) == len(layer.parent)
            children: list[list[str]] = [[] for _ in range(layer.size)]
            for parent, text in zip(layer.parent.tolist(), incoming):
                children[parent].append(text)
            texts.append([f"{layer.kind}({','.join(sorted(below))})" for below in children])
        gathered = [texts[i][node] for node in layer.uses.tolist()]
        for piece, size in enumerate(layer.pieces):
            pieces[i, piece], gathered = gathered[:size], gathered[size:]
        assert not gathered
    assert not pieces
    return texts


def names_by_node(circuit: Circuit) -> list[str]:
    """The same texts straight from the circuit's arrays."""
    first = np.concatenate([[0], np.cumsum(np.where(circuit.categorical, np.diff(circuit.starts), 2))])
    out: list[str] = []
    for node, kind in enumerate(circuit.kind.tolist()):
        literal = int(circuit.literal[node])
        if kind == LITERAL:
            block = circuit.block_of_column[abs(literal) - 1]
            inside = abs(literal) - 1 - circuit.starts[block] if circuit.categorical[block] else literal > 0
            out.append(f"v{first[block] + int(inside)}")
        elif kind in (AND, OR):
            below = [out[x] for x in circuit.child[circuit.ptr[node] : circuit.ptr[node + 1]]]
            out.append(f"{kind}({','.join(sorted(below))})")
        else:
            out.append(("false", "true")[kind])
    return out


@settings(max_examples=100, deadline=None)
@given(constraint_sets(blocks=4))
def test_layers_hold_every_node_and_edge(constraints):
    circuit = naive_circuit(constraints)
    layers = layers_of(circuit, CPU)
    texts, expected = names_below(circuit, layers), names_by_node(circuit)
    assert texts[layers.root[0]][layers.root[1]] == expected[-1]
    inner = [text for text, kind in zip(expected, circuit.kind) if kind >= AND]
    assert sorted(text for layer in texts[1:] for text in layer) == sorted(inner)
    assert sum(len(layer.parent) for layer in layers.layers) == layers.edges == circuit.edges


def test_groups_of_blocks():
    circuit = circuit_of([(LITERAL, 1, ())], [3, 0, 2, 0, 3], soft=[])
    layers = layers_of(circuit, CPU)
    assert [(g.categorical, g.columns.tolist(), g.values.tolist()) for g in layers.families] == [
        (False, [[3], [6]], [[3, 4], [7, 8]]),
        (True, [[4, 5]], [[5, 6]]),
        (True, [[0, 1, 2], [7, 8, 9]], [[0, 1, 2], [9, 10, 11]]),
    ]
    assert layers.true_value.tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]
    assert layers.block_of_value.tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
    laid = torch.cat([group.values.flatten() for group in layers.families])
    assert laid[layers.unsort].tolist() == list(range(12))


def test_made_once_a_device_and_let_go_with_the_circuit():
    circuit = circuit_of([(LITERAL, 1, ())], [0])
    assert layers_of(circuit, CPU) is layers_of(circuit, CPU)
    meta = layers_of(circuit, torch.device("meta"))
    assert meta.unsort.device.type == "meta"
    gone = weakref.ref(circuit)
    del circuit
    gc.collect()
    assert gone() is None
