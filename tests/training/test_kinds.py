"""What the labels of a batch say of its rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dssl import DataError, LabelSpace, Predictive
from dssl.priors.blocks import Blocks
from dssl.training.kinds import ByKind, as_columns, given
from priors.cases import SPACES, logits_of

NAN = math.nan
CLASSES = LabelSpace.classes(["cat", "dog", "trout"])


def test_rows_by_kind() -> None:
    y = torch.tensor([[1.0, 0.0, 0.0], [NAN] * 3, [0.0, NAN, NAN], [0.0, 0.0, NAN]])
    rows = ByKind.of(Blocks(CLASSES), torch.zeros(4, 3), y, None)
    assert rows.labelled.tolist() == [0, 2, 3]
    assert rows.complete.tolist() == [0, 3]  # the last can only be a trout
    assert rows.open.tolist() == [1, 2]
    assert rows.partial
    assert rows.weight.tolist() == [1] * 4
    assert not ByKind.of(Blocks(CLASSES), torch.zeros(2, 3), y[:2], torch.ones(2)).partial
    with pytest.raises(DataError, match=r"the labels of rows \[1\] leave no value for a variable"):
        ByKind.of(Blocks(CLASSES), torch.zeros(2, 3), torch.tensor([[NAN] * 3, [0.0] * 3]), None)


def test_theta_given_what_labels_say_of_each_variable() -> None:
    """Known variables are certain; candidates share what is left as they did."""
    space = SPACES["mix"]
    z = logits_of(space, 1)
    y = torch.from_numpy(space.encode([{"legs": 1, "a": None, "fins": None, "b": "u", "c": None}]))
    excluded = next(span[0] for variable, span in zip(space.variables, space.spans) if variable.name == "a")
    y[0, excluded] = 0
    before, after = Predictive(z, space).theta[0], Predictive(given(Blocks(space), z, y), space).theta[0]
    for variable, (start, stop) in zip(space.variables, space.spans):
        was, now, known = before[start:stop], after[start:stop], y[0, start:stop]
        if variable.name in ("legs", "b"):
            torch.testing.assert_close(now, known.to(now))
        elif variable.name == "a":
            assert now[0] < 1e-12
            torch.testing.assert_close(now[1:], was[1:] / was[1:].sum())
        else:
            torch.testing.assert_close(now, was)


def test_labels_as_classes_indices_and_columns() -> None:
    z = torch.zeros(3, 3)
    columns = torch.tensor([[1.0, 0.0, 0.0], [NAN] * 3, [0.0, 0.0, 1.0]])
    for y in ([0, -1, 2], np.array([0, -1, 2]), torch.tensor([0.0, NAN, 2.0]), [[0], [-1], [2]], columns):
        torch.testing.assert_close(as_columns(CLASSES, y, z), columns, equal_nan=True)
    space = SPACES["mix"]
    records = [{"legs": 1, "a": "z", "fins": None, "b": "u", "c": None}]
    encoded = torch.from_numpy(space.encode(records))
    found = as_columns(space, [[1, 2, -1, 0, -1]], torch.zeros(1, space.width))
    torch.testing.assert_close(found, encoded, equal_nan=True)
    sequences = torch.tensor([[0, -1], [2, 1], [1, 1]])  # of two rows each
    found = as_columns(CLASSES, sequences, torch.zeros(3, 2, 3))
    torch.testing.assert_close(found[:, 0], as_columns(CLASSES, sequences[:, 0], z), equal_nan=True)
    torch.testing.assert_close(found[:, 1], as_columns(CLASSES, sequences[:, 1], z), equal_nan=True)
    found = as_columns(space, [[[1, 2, -1, 0, -1]] * 2] * 3, torch.zeros(3, 2, space.width))
    torch.testing.assert_close(found, encoded.expand(3, 2, -1), equal_nan=True)
    for y, message in (([0, 1], "do not fit"), ([0, 3, 4], "3 values, and an index is 3"), ([0, 1, -2], "index is -2")):
        with pytest.raises(DataError, match=message):
            as_columns(CLASSES, y, z)
