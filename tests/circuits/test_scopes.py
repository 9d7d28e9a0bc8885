"""What nodes mention and allow, against sets of blocks and of labels."""

from __future__ import annotations

import itertools

import numpy as np

from dssl.circuits.nodes import AND, LITERAL, OR
from dssl.circuits.scopes import allowed, exclusive, overlapping, ranks, shared_of_64, undecided

# nodes 0 to 3: literals a, ¬a, b, c; 4: a ∧ b, 5: ¬a ∧ c, 6: their OR, 7: that AND b again
KIND = np.array([LITERAL] * 4 + [AND, AND, OR, AND], np.int8)
BLOCK = np.array([0, 0, 1, 2, -1, -1, -1, -1], np.int32)
VALUE = np.array([1, 0, 3, 5, -1, -1, -1, -1], np.int64)
PTR = np.array([0, 0, 0, 0, 0, 2, 4, 6, 8], np.int64)
CHILD = np.array([0, 2, 1, 3, 4, 5, 6, 2], np.int32)
FIRST = np.array([0, 2, 4, 6], np.int64)


def test_blocks_are_numbered_as_a_walk_from_the_root_meets_them() -> None:
    assert ranks(BLOCK, PTR, CHILD, 3).tolist() == [0, 1, 2]
    assert sorted(ranks(BLOCK, PTR, CHILD, 5).tolist()) == [0, 1, 2, 3, 4]  # those that nothing mentions come last


def test_an_and_that_mentions_a_block_twice_is_found() -> None:
    rank = np.arange(3)
    left, low, high = overlapping(KIND, BLOCK, rank, PTR, CHILD)
    assert np.flatnonzero(left).tolist() == [7]
    assert (low, high) == (0, 2)
    assert shared_of_64(KIND, BLOCK, rank, PTR, CHILD, left, 0) == (7, 1)  # b
    assert shared_of_64(KIND, BLOCK, rank, PTR[:8], CHILD, left, 0) == (-1, 0)


def test_a_block_with_a_literal_in_every_child_decides_an_or() -> None:
    assert not undecided(KIND, BLOCK, VALUE, PTR, CHILD, 3, 6).any()
    alike = np.array([1, 1, 3, 5, -1, -1, -1, -1], np.int64)  # both children have a
    assert np.flatnonzero(undecided(KIND, BLOCK, alike, PTR, CHILD, 3, 6)).tolist() == [6]


def test_values_allowed_are_those_of_the_labels_and_exclude_children() -> None:
    sets, everything, spare = allowed(KIND, BLOCK, VALUE, PTR, CHILD, FIRST, 0, 3, 0, 6)
    bit = {v: v + v // 2 for v in range(6)}  # each block has a spare bit above its values

    def labels(n: int) -> set[tuple[int, ...]]:
        if KIND[n] == LITERAL:
            return {y for y in itertools.product((0, 1), (2, 3), (4, 5)) if VALUE[n] in y}
        parts = [labels(x) for x in CHILD[PTR[n] : PTR[n + 1]]]
        return set.intersection(*parts) if KIND[n] == AND else set.union(*parts)

    for n in range(len(KIND)):
        assert int(sets[n]) == sum(1 << bit[v] for v in {v for y in labels(n) for v in y})
    assert exclusive(np.array([[6, 4, 5]]), sets, everything, spare).tolist() == [True]
    assert exclusive(np.array([[6, 4, 2]]), sets, everything, spare).tolist() == [False]
