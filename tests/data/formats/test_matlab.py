"""Matlab files, against SciPy's reader; and files that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.io import loadmat, savemat

from dssl.circuits.formats import packed
from dssl.circuits.formats.packed import Damaged
from dssl.data.formats.matlab import read_matlab

KINDS = st.sampled_from("u1 i1 u2 i2 u4 i4 u8 i8 f4 f8".split())


@settings(max_examples=60, deadline=None)
@given(KINDS.flatmap(lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=2, max_dims=4))), st.booleans())
def test_arrays_are_those_that_scipy_reads(
    tmp_path_factory: pytest.TempPathFactory, x: np.ndarray, small: bool
) -> None:
    path = tmp_path_factory.mktemp("mat") / "a.mat"
    savemat(path, {"X": x, "long_name_of_an_array": x[:1], "text": "words", "y": [[1], [10]]}, do_compression=small)
    ours, theirs = read_matlab(path), loadmat(path)
    assert sorted(ours) == ["X", "long_name_of_an_array", "y"]  # numbers only
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])
        assert ours[name].dtype == theirs[name].dtype


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    path = tmp_path / "a.mat"
    savemat(path, {"X": np.arange(40, dtype=np.uint8).reshape(5, 8)}, do_compression=True)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda b: b"", "no header"),
        (lambda b: b[:100], "no header"),
        (lambda b: b[:124] + b"\x00\x02IM" + b[128:], "no header"),  # version 7.3 is HDF5
        (lambda b: b[:130], "unpack_from requires"),
        (lambda b: b[:-9], "ends within an element"),
        (lambda b: b[:132] + b"\x04\0\0\0" + b[136:140], "compressed part is cut short"),
        (lambda b: b[:140] + bytes(8) + b[148:], "decompressing"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, whole: bytes, harm: object, said: str) -> None:
    path = tmp_path / "b.mat"
    path.write_bytes(harm(whole))  # type: ignore[operator]
    with pytest.raises(Damaged, match=said):
        read_matlab(path)


def test_a_shape_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    savemat(path, {"X": np.arange(40, dtype=np.uint8).reshape(5, 8)})
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\5\0\0\0\x08\0\0\0\x05\0\0\0\x08\0\0\0", b"\5\0\0\0\x08\0\0\0\x05\0\0\0\x09\0\0\0"))
    with pytest.raises(Damaged, match="'X' has 40 numbers for the shape \\(5, 9\\)"):
        read_matlab(path)


def test_what_unpacks_to_far_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.mat"
    savemat(path, {"X": np.zeros((1000, 1000), np.uint8)}, do_compression=True)
    assert read_matlab(path)["X"].shape == (1000, 1000)
    monkeypatch.setattr(packed, "PLENTY", 1000)
    with pytest.raises(Damaged, match="bytes unpack to"):
        read_matlab(path)
