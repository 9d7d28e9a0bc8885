"""Data of every kind give the same rows: arrays, sparse matrices, Parquet files, images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch

from dssl import LabelSpace
from dssl.data.rows import ArrayData
from dssl.errors import DataError

SPACE = LabelSpace("kind: {cat, dog, eel}\nlegs\nkind = eel -> !legs")

# ---- arrays ----


def test_rows_without_any_known_label_are_unlabelled() -> None:
    y = SPACE.encode([{"kind": "cat"}, {}, {"legs": True}])
    data = ArrayData(np.zeros((3, 2)), y)
    assert (len(data), data.labelled.tolist(), data.unlabelled.tolist()) == (3, [0, 2], [1])


@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "uint8", "bool", "sparse", "tensor", "byte tensor"])
def test_x_of_every_kind_becomes_float32(kind: str) -> None:
    x = np.arange(12).reshape(4, 3) % 2
    held = {
        "sparse": lambda: scipy.sparse.coo_matrix(x),
        "tensor": lambda: torch.tensor(x, dtype=torch.float64),
        "byte tensor": lambda: torch.tensor(x, dtype=torch.uint8),
    }.get(kind, lambda: x.astype(kind))()
    batch = ArrayData(held, np.zeros((4, 1)), weight=[1, 2, 3, 4]).batch([2, 0])
    assert batch.x.dtype == batch.y.dtype == batch.weight.dtype == torch.float32
    assert batch.x.tolist() == x[[2, 0]].tolist()
    assert batch.weight.tolist() == [3, 1]


def test_an_array_mapped_from_a_file_stays_there(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(12.0).reshape(4, 3))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    data = ArrayData(x, np.zeros((4, 1)))
    assert np.shares_memory(data._x, x)
    assert data.batch([1]).x.tolist() == [[3, 4, 5]]


def test_integer_tensors_stay_integers_for_embeddings() -> None:
    assert ArrayData(torch.arange(6).view(3, 2), np.zeros((3, 1))).batch([0]).x.dtype == torch.int64


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (np.zeros((3, 2)), np.zeros((4, 1)), "x has 3 rows, y has shape (4, 1)"),
        (np.zeros((3, 2)), np.zeros(3), "columns of the label space"),
        (np.array([["a"]]), np.zeros((1, 1)), "Give numbers"),
        (np.zeros(3), np.zeros((3, 1)), "one row per sample"),
        (np.array([[np.nan]]), np.zeros((1, 1)), "missing or infinite"),
        (torch.tensor([[1.0], [torch.nan]]), np.zeros((2, 1)), "missing or infinite"),
        (torch.tensor([[-torch.inf]], dtype=torch.bfloat16), np.zeros((1, 1)), "missing or infinite"),
        (np.zeros((1, 1)), np.array([[np.inf]]), "not labels or weights"),
        (np.array([[-np.inf]]), np.zeros((1, 1)), "missing or infinite"),
        (scipy.sparse.csr_matrix([[np.nan]]), np.zeros((1, 1)), "missing or infinite"),
    ],
)
def test_arrays_that_cannot_be_learned_from_are_refused(x: object, y: object, says: str) -> None:
    with pytest.raises(DataError) as caught:
        ArrayData(x, y)
    assert says in str(caught.value)
