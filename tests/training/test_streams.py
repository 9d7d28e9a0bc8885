"""Which rows a step sees: every row once an epoch, a function of the step alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dssl.data.rows import ArrayData
from dssl.errors import DataError
from dssl.training.processes import Ranks
from dssl.training.streams import (
    Stream,
    Streams,
    batches,
    own_randomness,
    randomness,
    seed_torch,
    set_randomness,
)
from training.tiny_runs import tiny_data


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 5))
def test_every_epoch_visits_every_row_once(n: int, batch: int, seed: int) -> None:
    data = ArrayData(np.zeros((n, 1)), np.zeros((n, 1)))
    stream = Stream(data, data.labelled, batch, (seed, 0))
    rows = np.concatenate([stream.at(step) for step in range(3 * n)])
    for epoch in range(len(rows) // n):
        assert sorted(rows[epoch * n : (epoch + 1) * n]) == list(range(n))


@given(st.integers(1, 30), st.integers(1, 40), st.lists(st.integers(0, 200), min_size=1, max_size=5))
def test_a_step_asked_for_out_of_order_sees_the_same_rows(n: int, batch: int, steps: list[int]) -> None:
    data = ArrayData(np.zeros((n, 1)), np.zeros((n, 1)))
    one = Stream(data, data.labelled, batch, (0, 0))
    for step in steps:
        assert one.at(step).tolist() == Stream(data, data.labelled, batch, (0, 0)).at(step).tolist()


def test_epochs_seeds_and_streams_differ() -> None:
    data = ArrayData(np.zeros((50, 1)), np.zeros((50, 1)))
    orders = [
        Stream(data, data.labelled, 25, seed).at(step).tolist() for seed in ((0, 0), (0, 1), (1, 0)) for step in (0, 2)
    ]
    assert len({tuple(order) for order in orders}) == 6


def test_labelled_rows_come_first() -> None:
    data = tiny_data(30, 10)
    rows = Streams(data, 4, 6, 0).at(3)
    assert (rows[:4] < 10).all()
    assert (rows[4:] >= 10).all()
    assert Streams(data, 100, 100, 0).size == 30  # no more than there are


def test_nothing_to_train_on_is_an_error() -> None:
    with pytest.raises(DataError, match="nothing to train on: 0 labelled rows in batches of 4, 30 unlabelled"):
        Streams(tiny_data(30, 0), 4, 0, 0)


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_batches_come_in_order_however_far_ahead_they_are_fetched(ahead: int) -> None:
    data = tiny_data(30, 10)
    data.ahead = ahead
    streams = Streams(data, 4, 6, 0)
    got = list(batches(data, streams, 2, 5, slice(2, 7)))
    assert [b.x.tolist() for b in got] == [data.batch(streams.at(s)[2:7]).x.tolist() for s in (2, 3, 4)]
    assert [b.rows.tolist() for b in got if b.rows is not None] == [streams.at(s)[2:7].tolist() for s in (2, 3, 4)]
    assert list(batches(data, streams, 5, 5, slice(0, 1))) == []


# ---- random numbers ----


def test_draws_depend_on_seed_step_and_rank_alone() -> None:
    drawn = {}
    with torch.random.fork_rng(devices=[]):
        for seed, step, rank in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)):
            torch.rand(3)
            seed_torch(seed, step, Ranks(rank, 2))
            found = drawn.setdefault((seed, step, rank), torch.rand(4))
            seed_torch(seed, step, Ranks(rank, 2))
            assert torch.equal(found, torch.rand(4))
    assert len({tuple(found.tolist()) for found in drawn.values()}) == 4


def test_the_caller_s_generators_are_as_before() -> None:
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[union-attr] # noqa: NPY002
    with own_randomness(3, 0):
        torch.rand(3), random.random(), np.random.rand()  # noqa: NPY002
        state = randomness()
        one = random.random(), np.random.rand()  # noqa: NPY002
        set_randomness(state)
        assert (random.random(), np.random.rand()) == one  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]  # type: ignore[union-attr] # noqa: NPY002
