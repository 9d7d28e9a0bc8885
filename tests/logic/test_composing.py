"""Spaces put together: shared variables agree, weights of both are kept, rules come in any form."""

from __future__ import annotations

import numpy as np
import pytest

from dssl.errors import RuleError
from dssl.logic import composing
from dssl.logic.language.parser import Rule
from dssl.logic.language.symbols import symbols
from dssl.logic.language.variables import Variable
from dssl.logic.space import LabelSpace


def test_rules_in_any_form_say_the_same() -> None:
    space = LabelSpace("a, b")
    a, b = symbols("a, b")
    forms = ["a -> b", a >> b, Rule(a >> b)]
    found = composing.further(space.variables, forms)
    assert len({rule.formula for rule in found}) == 1
    with pytest.raises(RuleError, match="a rule is True"):
        composing.further(space.variables, [True])


def test_shared_variables_must_agree() -> None:
    a, b = LabelSpace("x: 1..3\ny"), LabelSpace("z\nx: 1..3")
    assert [variable.name for variable in composing.together(a, b)] == ["x", "y", "z"]
    with pytest.raises(RuleError, match="'x' is declared differently"):
        composing.together(a, LabelSpace("x: 1..4"))


def test_weights_of_both_are_kept_and_must_agree() -> None:
    a = LabelSpace.of([Variable("x")], (), np.array([[0.2, 0.8]]))
    b = LabelSpace.of([Variable("y")], (), np.array([[0.5, 0.5]]))
    assert composing.weights_of_both(a, b).tolist() == [[0.2, 0.8], [0.5, 0.5]]  # type: ignore[union-attr]
    assert composing.weights_of_both(LabelSpace("x"), LabelSpace("y")) is None
    with pytest.raises(RuleError, match="weighed differently"):
        composing.weights_of_both(a, LabelSpace.of([Variable("x")], (), np.array([[0.3, 0.7]])))


def test_weights_are_checked_and_cannot_be_written_to() -> None:
    found = composing.checked_weights(np.array([[1, 0]]), 1)
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 2.0
    for bad in ([[1.0, -1.0]], [[1.0, np.nan]], [[1.0]]):
        with pytest.raises(RuleError, match="literal weights of shape"):
            composing.checked_weights(np.array(bad), 1)


def test_names_are_distinct_and_so_are_columns() -> None:
    with pytest.raises(RuleError, match="two variables have the name 'a'"):
        composing.require_distinct([Variable("a"), Variable("a")])
    with pytest.raises(RuleError, match="two columns have the name 'a=1'"):
        composing.require_distinct([Variable("a=1"), Variable.choice("a", [1, 2])])


def test_a_union_cannot_keep_soft_rules() -> None:
    with pytest.raises(RuleError, match="a union cannot keep the soft rule"):
        composing.either(LabelSpace("a\n0.9 :: a"), LabelSpace("a"))
