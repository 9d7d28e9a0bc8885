"""Lines of text files, and circuits built node by node."""

from __future__ import annotations

import pytest

from dssl.circuits.formats.text import MOST_VARIABLES, Builder, Source
from dssl.circuits.nodes import FALSE, TRUE


def test_lines_that_say_nothing_are_left_out():
    source = Source.of("c a comment\n\n  a 1 \nb -2\n")
    assert list(source.lines()) == [(3, ["a", "1"]), (4, ["b", "-2"])]
    assert source.integers(4, ["-2", "7"]) == [-2, 7]
    with pytest.raises(ValueError, match=r"the text, line 4: expected whole numbers, found '2²'\. Was the file"):
        source.integers(4, ["2²"])


def test_nodes_are_stored_once_and_constants_folded_away():
    builder = Builder()
    a, b = builder.literal(1), builder.literal(-2)
    both = builder.conjunction([a, TRUE, b])
    assert builder.conjunction([a, b]) == both
    assert builder.conjunction([both, FALSE]) == FALSE
    assert builder.disjunction([both, FALSE]) == both
    assert (builder.conjunction([]), builder.disjunction([])) == (TRUE, FALSE)
    circuit = builder.finish(both, 3)
    assert (circuit.nodes, circuit.width, circuit.count()) == (3, 3, 2)


def test_too_many_variables_are_refused_before_they_are_named():
    with pytest.raises(ValueError, match="Number the variables without gaps"):
        Builder().finish(TRUE, MOST_VARIABLES + 1)
