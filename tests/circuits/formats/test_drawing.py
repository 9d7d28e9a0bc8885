"""Pictures are well formed, name every literal, and refuse what nobody could read."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import assume, given, settings

from circuits.strategies import circuit_of, constraint_sets, naive_circuit
from circuits.test_circuit import ladder
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE

NAMES = ["species=cat", "species=<dog>", 'has "tail"', "back\\slash"]
NODES = [(LITERAL, 1, ()), (LITERAL, 2, ()), (LITERAL, -3, ()), (LITERAL, 4, ()), (LITERAL, -5, ())]
NODES += [(AND, 0, (0, 2, 4)), (AND, 0, (1, 3)), (OR, 0, (5, 6))]
CIRCUIT = circuit_of(NODES, [2, 0, 0, 0], names=NAMES, soft=[0.9])
SVG = "{http://www.w3.org/2000/svg}"


def test_svg_is_well_formed_and_names_every_node():
    root = ElementTree.fromstring(CIRCUIT.to_svg())
    texts = [text.text for text in root.iter(f"{SVG}text")]
    expected = ["species=cat", "species=<dog>", '¬has "tail"', "back\\slash", "¬soft rule 1", "∧", "∧", "∨"]
    assert sorted(texts) == sorted(expected)
    assert len(list(root.iter(f"{SVG}path"))) == CIRCUIT.edges
    assert "prefers-color-scheme: dark" in CIRCUIT.to_svg()
    assert "currentColor" in CIRCUIT.to_svg()


@settings(max_examples=40, deadline=None)
@given(constraint_sets())
def test_nodes_of_an_svg_do_not_overlap(constraints):
    circuit = naive_circuit(constraints)
    assume(circuit.nodes <= 200)
    root = ElementTree.fromstring(circuit.to_svg())
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = []
    for shape in root.iter():
        at = {key: float(value) for key, value in shape.attrib.items() if re.fullmatch(r"[-\d.]+", value)}
        if shape.tag == f"{SVG}circle":
            boxes.append((at["cx"] - at["r"], at["cy"] - at["r"], 2 * at["r"], 2 * at["r"]))
        elif shape.tag == f"{SVG}rect":
            boxes.append((at["x"], at["y"], at["width"], at["height"]))
    assert len(boxes) == circuit.nodes
    for i, (x, y, w, h) in enumerate(boxes):
        assert 0 <= x <= x + w <= width + 1
        assert 0 <= y <= y + h <= height + 1
        assert not any(x < X + W and x + w > X and y < Y + H and y + h > Y for X, Y, W, H in boxes[:i])


def test_dot():
    dot = CIRCUIT.to_dot()
    assert dot.startswith("digraph circuit {")
    assert '2 [label="¬has \\"tail\\"", shape=box];' in dot
    assert '3 [label="back\\\\slash", shape=box];' in dot
    assert '7 [label="∨", shape=circle];' in dot
    assert dot.count("->") == CIRCUIT.edges


@pytest.mark.parametrize("kind", [TRUE, FALSE])
def test_constants(kind):
    assert "⊤⊥"[kind == FALSE] in circuit_of([(kind, 0, ())], [0]).to_svg()


def test_large_circuits_are_refused_with_their_size():
    circuit = ladder(40)
    for draw in (circuit.to_svg, circuit.to_dot):
        with pytest.raises(ValueError, match=f"up to 200 nodes, and this circuit has {circuit.nodes}.*to_nnf"):
            draw()
