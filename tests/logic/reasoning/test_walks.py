"""Automata and graphs in the normal form: the states of a walk in one block or in many say the same."""

from __future__ import annotations

import pytest

import oracle
from dssl.logic.language.parser import parse
from dssl.logic.reasoning import walks
from dssl.logic.space import LabelSpace


@pytest.mark.parametrize("rule", ["path(e[*, *], a, d)", "tree(e[*, *])", "!connected(e[*, *])", "f <-> tree(e[*, *])"])
def test_states_in_a_block_each_say_the_same_as_in_one(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    text = "f\ne[a,b], e[a,c], e[b,c], e[b,d], e[c,d]\n" + rule
    one = LabelSpace(text)
    monkeypatch.setattr(walks, "MAX_GROUPS", 1)
    each = LabelSpace(text)
    assert set(each.constraints.sizes) == {2}
    assert max(one.constraints.sizes) > 2
    assert list(one.valid()) == list(each.valid())
    variables, rules = parse(text)
    assert each.count() == len(oracle.obeying(rules, oracle.records(variables)))
