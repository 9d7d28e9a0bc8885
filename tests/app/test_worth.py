"""Rows worth labelling: by what their label tells, and not the same kind over and over."""

from __future__ import annotations

import numpy as np

from dssl.app.worth import worth_labelling


def slow(information: np.ndarray, kinds: np.ndarray, asked: list[int], most: int) -> list[int]:
    """The same in loops: each row against each."""
    mean = kinds.mean(axis=0)
    chosen: list[int] = []
    for _ in range(most):
        best, at = -1.0, -1
        for i in range(len(kinds)):
            if i in asked or i in chosen:
                continue
            a = kinds[i] - mean
            near = [
                float(a @ (kinds[j] - mean) / (np.linalg.norm(a) * np.linalg.norm(kinds[j] - mean)))
                for j in (*asked, *chosen)
            ]
            score = information[i] * min(1.0, max(0.02, 1 - max(near, default=0.0)))
            if score > best + 1e-12:
                best, at = score, i
        chosen.append(at)
    return chosen


def test_the_order_is_that_of_the_slow_way() -> None:
    random = np.random.default_rng(0)
    for asked in ([], [3], [0, 7, 20]):
        information, kinds = random.random(30), random.random((30, 4))
        assert worth_labelling(information, kinds, asked, 8) == slow(information, kinds, asked, 8)


def test_the_same_kind_does_not_come_ten_times_in_a_row() -> None:
    """Twenty rows of one kind tell most, and yet the other kinds have their turn."""
    kinds = np.repeat(np.eye(4), [20, 5, 5, 5], axis=0) + 0.01 * np.random.default_rng(0).random((35, 4))
    information = np.repeat([1.0, 0.6, 0.5, 0.4], [20, 5, 5, 5])
    first = worth_labelling(information, kinds, most=4)
    assert {int(kinds[row].argmax()) for row in first} == {0, 1, 2, 3}
    assert worth_labelling(information, np.ones((35, 4)), most=3) == [0, 1, 2]  # nothing tells them apart


def test_rows_that_were_asked_are_left_out_until_none_is_left() -> None:
    information, kinds = np.array([3.0, 2.0, 1.0]), np.eye(3)
    assert worth_labelling(information, kinds, [0], 9) == [1, 2]
    assert worth_labelling(information, kinds, [0, 1, 2]) == []
