"""Nodes: equal ones are one, common factors stand outside, tables grow without loss."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from dssl.circuits.compile.budget import Budget
from dssl.circuits.compile.store import (
    DECISION,
    EITHER,
    FALSE,
    KIND,
    PRODUCT,
    START,
    TRUE,
    Store,
    bytes_needed,
    decision,
    grown,
    new_store,
    product,
    remember,
    solved,
    sort,
)
from dssl.circuits.jit import entry
from dssl.errors import BudgetError


@entry
def make_product(store, item):  # type: ignore[no-untyped-def]
    return product(store, item, len(item))


@entry
def make_decision(store, branch, whole, scratch):  # type: ignore[no-untyped-def]
    return decision(store, branch, np.int64(0), len(branch) // 2, whole, True, scratch)


@entry
def keep(store, one, two, node):  # type: ignore[no-untyped-def]
    remember(store, one, two, node)


@entry
def find(store, one, two):  # type: ignore[no-untyped-def]
    return solved(store, one, two)


@njit
def sorted_copy(item):  # type: ignore[no-untyped-def]
    out = item.copy()
    sort(out, len(out))
    return out


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int32)


def decide(store: Store, *branch: int, whole: bool = True) -> int:
    return int(make_decision(store, ints(*branch), whole, np.zeros((4, 100), dtype=np.int32)))


def children(store: Store, node: int) -> tuple[int, list[int]]:
    first, last = store.node[node : node + 2, START]
    return int(store.node[node, KIND]), store.child[first:last].tolist()


def test_equal_products_are_one_node() -> None:
    store = new_store(6)
    node = make_product(store, ints(5, 2, 3))
    assert children(store, node) == (PRODUCT, [2, 3, 5])
    assert make_product(store, ints(3, 5, 2)) == node
    assert make_product(store, ints(4)) == 4
    assert make_product(store, np.zeros(0, dtype=np.int32)) == TRUE


def test_decisions_merge_equal_branches() -> None:
    store = new_store(6)
    assert decide(store) == FALSE
    assert decide(store, 0, 6, 1, 6) == 6
    assert children(store, decide(store, 0, 6, 1, 6, whole=False))[0] == PRODUCT
    node = decide(store, 0, 6, 1, 6, 2, 7)
    kind, pairs = children(store, node)
    assert kind == DECISION
    assert pairs[:2] == [4, 7]
    assert children(store, pairs[2]) == (EITHER, [2, 3])


def test_a_factor_of_all_branches_stands_outside() -> None:
    store = new_store(6)
    left, right = make_product(store, ints(4, 5)), make_product(store, ints(4, 6))
    kind, factors = children(store, decide(store, 0, left, 1, right))
    assert kind == PRODUCT
    assert factors[0] == 4
    assert children(store, factors[1]) == (DECISION, [2, 5, 3, 6])


def test_components_are_found_again_after_growing() -> None:
    store = new_store(50)
    random = np.random.default_rng(0)
    keys = random.integers(0, 2**64, (400, 2), dtype=np.uint64)
    nodes = []
    for k, (one, two) in enumerate(keys):
        nodes.append(int(make_product(store, random.choice(50, 3, replace=False).astype(np.int32) + 2)))
        keep(store, one, two, np.int32(k))
    larger = grown(store, 5000, Budget())
    larger.sizes[2] = 5000
    larger = grown(larger, 50_000, Budget())
    assert all(find(larger, one, two) == k for k, (one, two) in enumerate(keys))
    assert find(larger, keys[0, 0], keys[1, 1]) == -1
    assert all(make_product(larger, np.array(children(larger, n)[1], dtype=np.int32)) == n for n in nodes)


def test_growing_in_slices_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dssl.circuits.compile.store.SLICE", 7)
    test_components_are_found_again_after_growing()


def test_a_new_store_takes_what_it_is_said_to_take() -> None:
    for values, capacity in ((5, 100), (300, 10_000)):
        assert new_store(values, capacity).nbytes == bytes_needed(values, capacity)


def test_no_store_outgrows_the_numbers_that_point_into_it() -> None:
    with pytest.raises(BudgetError, match="more than 2,147,483,647 nodes or edges"):
        new_store(1, 2**30)
    with pytest.raises(BudgetError, match="more than 2,147,483,647 nodes or edges"):
        grown(new_store(1), 2**31, Budget())


def test_a_store_grows_only_within_the_budget() -> None:
    with pytest.raises(BudgetError, match="budget of"):
        grown(new_store(1), 10**6, Budget(nbytes=10**6))


def test_sort() -> None:
    random = np.random.default_rng(0)
    for n in (0, 1, 2, 5, 40, 333):
        item = random.integers(0, 50, n).astype(np.int32)
        assert sorted_copy(item).tolist() == sorted(item.tolist())
