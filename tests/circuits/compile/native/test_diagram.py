"""Diagrams: equal decisions once, and only what the root needs."""

from __future__ import annotations

from dssl.circuits.compile.native.diagram import Diagram
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE


def test_equal_decisions_are_one_node_and_single_arms_none() -> None:
    diagram = Diagram()
    decide = diagram.decisions([-1, 1])
    both = decide(((-1, TRUE), (1, TRUE)))
    assert diagram.kind[both] == OR
    assert decide(((-1, TRUE), (1, TRUE))) == both
    assert diagram.kind[decide(((1, TRUE),))] == LITERAL
    assert diagram.kind[decide(((1, both),))] == AND
    assert decide(((0, both),)) == both  # a value that is not shown
    assert decide(()) == FALSE


def test_arrays_hold_what_lies_below_the_root() -> None:
    diagram = Diagram()
    below = diagram.decisions([-2, 2])(((2, TRUE),))
    diagram.add(OR, 0, below, below)  # nothing leads there
    root = diagram.decisions([-1, 1])(((-1, TRUE), (1, below)))
    kind, literal, ptr, child = diagram.below(root)
    assert kind.tolist() == [LITERAL, LITERAL, LITERAL, AND, OR]
    assert literal.tolist() == [2, -1, 1, 0, 0]
    assert (ptr.tolist(), child.tolist()) == ([0, 0, 0, 0, 2, 4], [2, 0, 1, 3])
    assert [len(x) for x in diagram.below(FALSE)] == [1, 1, 2, 0]
