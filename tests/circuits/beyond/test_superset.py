"""A circuit of some rules, and labels that obey all: against the circuit of all rules, and against enumeration."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from dssl.circuits.beyond import superset
from dssl.circuits.beyond.superset import Superset, grow, parts_of
from dssl.errors import BudgetError, DataError
from dssl.logic.space import LabelSpace
from logic.strategies import Drawn, valid_spaces

LATIN = LabelSpace("x[1..4, 1..4]: 1..4\nfor i in 1..4: all_different(x[i, *])\nfor j in 1..4: all_different(x[*, j])")


def partly(space: LabelSpace, kept: tuple[int, ...]) -> Superset:
    parts = parts_of(space.rules)
    circuit = LabelSpace.of(space.variables, [parts[i] for i in kept]).compile()
    return Superset(space, kept, circuit)


def weights(space: LabelSpace, seed: int, rows: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    z = 2 * np.random.default_rng(seed).normal(size=(rows, space.width))
    both = [oracle.log_literals(space.variables, row) for row in z]
    pos, neg = (torch.from_numpy(np.array(part)) for part in zip(*both))
    return pos, neg


@settings(deadline=None)
@given(valid_spaces(labels=48), st.data())
def test_the_heaviest_label_is_that_of_all_rules(drawn: Drawn, data: Any) -> None:
    """Whichever hard rules are compiled, and however few labels are looked at before a solver is asked."""
    rules = [rule for rule in drawn.rules() if rule.probability is None]
    space = LabelSpace.of(drawn.variables, rules)
    kept = tuple(i for i in range(len(parts_of(space.rules))) if data.draw(st.booleans()))
    pos, neg = weights(space, data.draw(st.integers(0, 99)))
    rows = np.unique(oracle.valid_columns(space.constraints), axis=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(superset, "_MOST", data.draw(st.sampled_from([0, 3, 1024])))
        patch.setattr(superset, "_IN_ORDER", data.draw(st.sampled_from([1, 4])))
        label, weight, how = partly(space, kept).search(pos, neg)
    assert not space.check(label.float().numpy())
    for i in range(len(pos)):
        best = oracle.log_weights(rows, pos[i].numpy(), neg[i].numpy()).max()
        assert float(weight[i]) <= best + 1e-9
        if how[i] != superset.UNPROVEN:
            assert float(weight[i]) == pytest.approx(best, abs=1e-9)


def test_numbers_are_those_of_the_rules_compiled() -> None:
    half = partly(LATIN, (0, 1, 2, 3))
    some = LabelSpace.of(LATIN.variables, LATIN.rules[:4]).compile()
    pos, neg = weights(LATIN, 0)
    for query in ("log_wmc", "marginals", "entropy"):
        torch.testing.assert_close(getattr(half, query)(pos, neg), getattr(some, query)(pos, neg))
    assert "4 of 8 rules" in repr(half)


def test_soft_rules_weigh() -> None:
    """The heaviest label with the soft rule's weight, though another rule is left out."""
    space = LabelSpace("a, b, c\n0.99 :: a & b\nexactly(2, a, b, c)")
    pos, neg = torch.tensor([0.3, 0.4, 0.8]).log(), torch.tensor([0.7, 0.6, 0.2]).log()
    soft = next(i for i, part in enumerate(parts_of(space.rules)) if part.probability is not None)
    label, weight = partly(space, (soft,)).mpe(pos, neg)
    best, most = space.compile().mpe(pos, neg)
    assert label.tolist() == best.tolist() == [True, True, False]
    torch.testing.assert_close(weight, most)


def test_several_labels() -> None:
    pos, neg = weights(LATIN, 1)
    labels, heavy = partly(LATIN, (0, 1, 2, 3, 4, 5)).top_k(pos, neg, 3)
    exact, most = LATIN.compile().top_k(pos, neg, 3)
    used = heavy > -math.inf
    assert used[:, 0].all()
    assert not LATIN.check(labels[used].float().numpy())
    torch.testing.assert_close(heavy[used], most[used])
    torch.testing.assert_close(labels[used], exact[used])


def test_samples_are_of_the_valid_labels() -> None:
    space = LabelSpace("a, b, c\na | b\nexactly(1, a, b, c)")
    pos, neg = torch.tensor([[0.5, 0.6, 0.3]]).log(), torch.tensor([[0.5, 0.4, 0.7]]).log()
    rows = oracle.valid_columns(space.constraints)
    drawn = partly(space, (0,)).sample(pos, neg, 20_000, torch.Generator().manual_seed(0))[:, 0].numpy()
    share = [(drawn == row).all(axis=1).mean() for row in rows]
    np.testing.assert_allclose(share, oracle.probabilities(rows, pos[0].numpy(), neg[0].numpy()), atol=0.015)


def test_samples_that_would_take_for_ever_are_refused() -> None:
    space = LabelSpace("a[1..30]\nexactly(0, a[*])")
    ones = torch.zeros(1, 30)
    with pytest.raises(DataError, match="labels drawn for a row, only 0 obey"):
        partly(space, ()).sample(ones, ones)


def test_evidence() -> None:
    half = partly(LATIN, (0, 1))
    pos, neg = weights(LATIN, 2, rows=1)
    clash = pos.clone()
    clash[:, [1, 2, 3, 17, 18, 19]] = -math.inf  # x[1,1] = x[2,1] = 1
    assert half.mpe(clash, neg)[1].item() == -math.inf
    with pytest.raises(DataError, match="no valid label agrees"):
        half.mpe(clash, neg, strict=True)
    assert (half.top_k(clash, neg, 2)[1] == -math.inf).all()


def test_as_many_rules_as_the_budget_holds() -> None:
    assert grow(LATIN, 30.0).parts == len(grow(LATIN, 30.0).kept) == 8
    few = grow(LATIN, 30.0, budget_nodes=400)
    assert 0 < len(few.kept) < 8
    assert few.circuit.nodes <= 400
    assert not grow(LATIN, 0.0).kept
    pos, neg = weights(LATIN, 3)
    label, weight, how = few.search(pos, neg)
    _, most = LATIN.compile().mpe(pos, neg)
    assert (how != superset.UNPROVEN).any()
    torch.testing.assert_close(weight[how != superset.UNPROVEN], most[how != superset.UNPROVEN])
    assert not LATIN.check(label.float().numpy())


def test_a_single_rule_that_is_too_much_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = LabelSpace.compile

    def refusing(self: LabelSpace, **options: Any) -> Any:
        if any("c" in rule.formula.names() for rule in self.rules):
            raise BudgetError("too much")
        return compiled(self, **options)

    monkeypatch.setattr(LabelSpace, "compile", refusing)
    space = LabelSpace("a, b, c, d, e\na | b\nb | c\nd | e\n!a | d")
    assert grow(space, 10.0).kept == (0, 2, 3)


def test_parts_of_a_conjunction() -> None:
    space = LabelSpace("a, b, c\n(a | b) & (b | c)\n0.9 :: a & b")
    assert [part.text for part in parts_of(space.rules)] == ["a | b", "b | c", "0.9 :: a & b"]


def test_a_pickled_one_answers_alike() -> None:
    half = partly(LATIN, (0, 1, 2))
    pos, neg = weights(LATIN, 4)
    for one, other in zip(half.mpe(pos, neg), pickle.loads(pickle.dumps(half)).mpe(pos, neg)):
        torch.testing.assert_close(one, other)
