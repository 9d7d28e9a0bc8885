"""Readers of elements: tokens, small pictures, and elements in their row."""

from __future__ import annotations

import pytest
import torch

from dssl import DataError
from dssl.training.elements.readers import IN_CONTEXT, Tokens, alone, among_others


def test_some_tokens_are_forgotten_in_training_only() -> None:
    torch.manual_seed(0)
    tokens, x = Tokens(3), torch.zeros(1000, dtype=torch.int64)
    changed = (tokens.train()(x) != tokens.features.weight[0]).any(-1).float().mean()
    assert 0.03 < changed < 0.07
    assert (tokens.eval()(x) == tokens.features.weight[0]).all()


@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 8, 8), (1, 28, 28), (2, 5, 40)])
def test_pictures_of_any_size(shape: tuple[int, ...]) -> None:
    assert alone("cnn", torch.zeros(2, *shape), 7, None)(torch.zeros(3, *shape)).shape == (3, 7)


def test_pictures_are_needed_for_convolutions() -> None:
    with pytest.raises(DataError, match=r"'cnn' wants elements that are images.*\(4,\)"):
        alone("cnn", torch.zeros(2, 4), 3, None)


@pytest.mark.parametrize("name", IN_CONTEXT)
@pytest.mark.parametrize("shape", [(5, 3), (5, 2, 4, 4), (5,)])
def test_rows_of_vectors_pictures_and_tokens(name: str, shape: tuple[int, ...]) -> None:
    vocabulary = 9 if len(shape) == 1 else None
    x = torch.zeros(2, *shape, dtype=torch.float32 if vocabulary is None else torch.int64)
    assert among_others(name, x, 4, vocabulary)(x).shape == (2, 5, 4)


def test_convolutions_see_two_on_either_side() -> None:
    torch.manual_seed(0)
    reader = among_others("sequence", torch.zeros(1, 9, 3), 4, None).eval()
    x = torch.randn(1, 9, 3)
    changed = x.clone()
    changed[:, 4] += 1
    moved = (reader(x) != reader(changed)).any(-1)[0]
    assert moved.tolist() == [False, False, True, True, True, True, True, False, False]
