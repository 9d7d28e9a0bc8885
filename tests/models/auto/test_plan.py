"""What "auto" comes to."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from dssl import LabelSpace
from dssl.models.auto.plan import Plan, are_texts, is_wide, make_plan


def hidden(y: np.ndarray, shown: int) -> np.ndarray:
    out = np.full_like(y, np.nan)
    out[:shown] = y[:shown]
    return out


def rings(n: int = 600, shown: int = 10) -> tuple[LabelSpace, np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    angle, kind = random.uniform(0, 2 * np.pi, n), np.arange(n) % 2
    radius = np.where(kind, 1.0, 2.5)
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1) + 0.05 * random.normal(size=(n, 2))
    return LabelSpace.classes(["in", "out"]), x.astype(np.float32), hidden(np.eye(2, dtype=np.float32)[kind], shown)


def slope(n: int = 600, shown: int = 60, features: int = 40) -> tuple[LabelSpace, np.ndarray, np.ndarray]:
    """Labels that follow two of many directions, in which near rows say nothing."""
    random = np.random.default_rng(4)
    x = random.normal(size=(n, features))
    kind = (x[:, 0] + x[:, 1] > 0).astype(int)
    return LabelSpace.classes(["no", "yes"]), x.astype(np.float32), hidden(np.eye(2, dtype=np.float32)[kind], shown)


def digits() -> tuple[LabelSpace, np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    space = LabelSpace.classes([str(k) for k in range(10)])
    return space, (x[:800] / 16).astype(np.float32), hidden(np.eye(10, dtype=np.float32)[y[:800]], 50)


def decided(plan: Plan, what: str) -> str:
    return next(d.value for d in plan.decisions if d.what == what)


def test_near_rows_are_drawn_together_where_they_agree_and_not_elsewhere() -> None:
    assert make_plan(*digits()).neighbours
    assert not make_plan(*slope()).neighbours


def test_labels_that_nothing_predicts_have_no_prior() -> None:
    space, x, y = slope(shown=120)
    y[:120] = np.eye(2)[np.random.default_rng(0).integers(0, 2, 120)]
    plan = make_plan(space, x, y)
    assert not plan.neighbours
    assert plan.prior_weight == 0


def test_unlabelled_rows_that_are_few_are_not_used() -> None:
    space, x, y = rings(100, 60)
    plan = make_plan(space, x, y)
    assert not plan.uses_unlabelled
    assert plan.reason == "40 unlabelled rows are few beside 60 labelled ones"


def test_what_was_asked_for_is_used_and_what_was_not_is_not() -> None:
    space, x, y = rings(100, 60)
    assert make_plan(space, x, y, asked="it was asked for").uses_unlabelled
    plan = make_plan(*rings(), alone="nothing else was asked for")
    assert not plan.uses_unlabelled
    assert not plan.neighbours
    assert plan.teacher is None


def test_soft_rules_are_counted_once() -> None:
    """`0.9 :: a` is part of p(y | V), so the likelihood is taken given the rules (and θ learns the rest)."""
    space = LabelSpace("a, b\n0.9 :: a")
    y = hidden(np.ones((40, 2), dtype=np.float32), 20)
    assert make_plan(space, np.zeros((40, 2), dtype=np.float32), y).given_rules


def test_hand_picked_labels_leave_room_for_other_frequencies() -> None:
    random = np.random.default_rng(0)
    rare = np.r_[np.ones(10), np.zeros(10), (random.random(1480) < 0.04)].astype(int)
    x = random.normal(size=(1500, 5)) + 2.5 * rare[:, None]
    space = LabelSpace.classes(["usual", "rare"])
    plan = make_plan(space, x.astype(np.float32), hidden(np.eye(2, dtype=np.float32)[rare], 20))
    assert decided(plan, "frequencies") == "between"
    assert plan.shares is not None
    assert plan.shares.share[1] - plan.shares.error[1] < 0.1  # the true share is allowed
    assert plan.shares.share[1] + plan.shares.error[1] > 0.4  # and so is that of the labels
    even = make_plan(*rings())
    assert decided(even, "frequencies") == "of the labels"


def test_wide_hierarchies_have_outputs_given_the_class_above() -> None:
    edges = [(f"c{i}", f"c{(i - 1) // 2}") for i in range(1, 63)]
    space = LabelSpace.hierarchy(edges)
    random = np.random.default_rng(0)
    y = np.zeros((200, space.width), dtype=np.float32)
    names = [v.name for v in space.variables]
    for row in y:
        at = int(random.integers(31, 63))
        while True:
            row[names.index(f"c{at}")] = 1
            if at == 0:
                break
            at = (at - 1) // 2
    plan = make_plan(space, random.normal(size=(200, 4)).astype(np.float32), hidden(y, 50))
    assert plan.above is not None
    assert plan.given_rules
    assert min(plan.dropout) > 0.1


def test_a_plan_prints_as_a_table_with_reasons() -> None:
    text = str(make_plan(*rings()))
    assert text.splitlines()[0].startswith("unlabelled rows  used")
    assert "% of the variance of left-out labels" in text


@pytest.mark.parametrize("shape", [(1, 8, 8)])
def test_images_are_planned_without_judging(shape: tuple[int, ...]) -> None:
    space, _, y = rings()
    plan = make_plan(space, np.zeros((600, *shape), dtype=np.float32), y)
    assert plan.uses_unlabelled
    assert not plan.neighbours


def test_components_are_weighed_given_the_rules_and_compared_by_nothing() -> None:
    space = LabelSpace("a, b, c\na -> b")
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 4))
    y = space.encode([{"a": s > 0.5, "b": s > 0, "c": s < 0} for s in x[:, 0]])
    y[60:] = np.nan
    plan = make_plan(space, x, y, components=3)
    assert (plan.components, plan.neighbours, plan.teacher, plan.given_rules) == (3, False, None, True)
    said = {d.what: (d.value, d.reason) for d in plan.decisions}
    assert said["components"][0] == "3"
    assert "components" not in {d.what for d in make_plan(space, x, y).decisions}
    assert make_plan(space, x, y).components == 1


def news(topics: int, rows: int = 90, rules: str = "") -> tuple[LabelSpace, np.ndarray, np.ndarray]:
    """Rows of a few words each, of which a third have topics."""
    random = np.random.default_rng(5)
    names = [f"t{i}" for i in range(topics)]
    space = LabelSpace.attributes(names, rules and f"any({', '.join(names)})")
    x = random.random((rows, 200)) * (random.random((rows, 200)) < 0.1)
    return space, x, hidden((random.random((rows, topics)) < 0.1).astype(np.float32), rows // 3)


@pytest.mark.parametrize("rules", ["", "never empty"])
@pytest.mark.parametrize("topics", [20, 60])
def test_rare_labels_of_texts_are_learned_from_labels_alone(topics: int, rules: str) -> None:
    space, x, y = news(topics, rules=rules)
    plan = make_plan(space, sp.csr_matrix(x), y)
    assert (plan.uses_unlabelled, plan.teacher, plan.given_rules, plan.ground) == (False, None, False, None)
    assert plan.dropout == (0.3, 0.3)
    assert "words say more" in plan.reason
    assert make_plan(space, sp.csr_matrix(x), y, asked="it was asked for").uses_unlabelled
    assert is_wide(space) == (topics == 60)


def test_rows_that_are_no_texts_are_planned_as_before() -> None:
    space, x, y = news(60)
    dense = make_plan(space, x, y)
    assert dense.uses_unlabelled
    assert dense.dropout == (0.65, 0.65)
    few, x, y = news(19)
    assert not are_texts(few, sp.csr_matrix(x))
    assert not are_texts(LabelSpace.classes([str(i) for i in range(30)]), sp.csr_matrix(x))
    other = LabelSpace.attributes([f"t{i}" for i in range(30)], "t0 | t1")
    assert not are_texts(other, sp.csr_matrix(x))


def test_rows_count_by_their_weight() -> None:
    """Rows of weight 1e-9 change no decision and no reason, whatever their labels say."""
    space, x, y = digits()
    told = np.isnan(y[:, 0])
    y[50:200] = np.eye(10)[np.random.default_rng(0).integers(0, 10, 150)]
    weight = np.where(told & ~np.isnan(y[:, 0]), 1e-9, 1.0)
    kept = np.flatnonzero(weight == 1)
    heavy, found = make_plan(space, x[kept], y[kept]), make_plan(space, x, y, weight)
    assert str(found) == str(heavy)
    assert found.balance == heavy.balance
    assert found.shares is not None
    assert heavy.shares is not None
    np.testing.assert_allclose(found.shares.share, heavy.shares.share, atol=1e-8)
    assert str(make_plan(space, x, y)) != str(heavy)


def test_unlabelled_rows_of_hardly_any_weight_are_none() -> None:
    space, x, y = rings(100, 60)
    plan = make_plan(LabelSpace("inner, outer\ninner ^ outer"), x, y, np.where(np.isnan(y[:, 0]), 1e-9, 1.0))
    assert plan.reason == "every row is labelled"
    assert "beside 60 labelled ones" in make_plan(space, x, y, np.where(np.isnan(y[:, 0]), 0.5, 1.0)).reason
