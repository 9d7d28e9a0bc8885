"""Arrays and bytes out of packed files: what they hold, and what is refused."""

from __future__ import annotations

import gzip
import io
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy

from dssl.circuits.formats import packed
from dssl.circuits.formats.packed import Damaged, arrays, unpacked

HELD = {
    "a": np.arange(6).reshape(2, 3),
    "b": np.array(["x", "yz"]),
    "c": np.asfortranarray(np.eye(3)),
    "d": np.array(1),
}


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_arrays_are_those_that_numpy_reads(tmp_path: Path, write: Callable[..., None]) -> None:
    write(tmp_path / "a.npz", **HELD)
    found = arrays(tmp_path / "a.npz")
    assert list(found) == list(HELD)
    for name, array in HELD.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"abc") + gzip.compress(b"def"))
    assert unpacked(tmp_path / "a") == b"abc"
    assert unpacked(tmp_path / "a.gz") == b"abcdef"


def member(name: str, content: bytes, path: Path, kind: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "a", kind) as archive:
        archive.writestr(name, content)


def header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    held = io.BytesIO()
    npy.write_array_header_1_0(held, {"descr": kind, "fortran_order": False, "shape": shape})
    return held.getvalue()


class Trap:
    """An object whose unpickling would be seen."""

    sprung = False

    def __reduce__(self) -> tuple[Any, ...]:
        return setattr, (Trap, "sprung", True)


def objects() -> bytes:
    held = io.BytesIO()
    npy.write_array_header_1_0(held, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    return held.getvalue() + pickle.dumps(Trap())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "EOF|reading magic"),
        (b"text", "magic"),
        (pickle.dumps(Trap()), "magic"),
        (objects(), "Python objects, which are never read"),
        (header((2, 3)), "expected 48 bytes got 0"),
        (header((10**15,)), "is cut short"),
        (header((-1,)), "."),
        (header((10**15,), "|V0"), "is cut short"),
        (header((2,))[:30], "EOF|reading"),
        (b"\x93NUMPY\x03\x00" + header((2,))[8:], r"version \(3, 0\)"),
        (b"\x93NUMPY\x01\x00\x10\x00{'descr': open('"[:26], "."),
    ],
)
def test_members_that_are_no_arrays(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(3))
    member("X.npy", content, path)
    with pytest.raises(Damaged, match=said):
        arrays(path)
    assert not Trap.sprung


def test_the_trap_would_be_seen() -> None:
    pickle.loads(pickle.dumps(Trap()))
    assert Trap.sprung
    Trap.sprung = False


def test_two_members_of_one_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.arange(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        member("a.npy", b"x", tmp_path / "a.npz")
    with pytest.raises(Damaged, match="two arrays of one name"):
        arrays(tmp_path / "a.npz")


def test_names_lead_nowhere(tmp_path: Path) -> None:
    held = io.BytesIO()
    np.save(held, np.arange(3))
    inner = tmp_path / "in"
    inner.mkdir()
    for name in ("../escaped.npy", "/tmp/escaped.npy", "a/../../b.npy"):
        member(name, held.getvalue(), inner / "a.npz")
    assert len(arrays(inner / "a.npz")) == 3
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.npz", "in"]


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(10**6))
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(10**6)))
    assert len(arrays(tmp_path / "a.npz")["a"]) == len(unpacked(tmp_path / "a.gz")) == 10**6
    monkeypatch.setattr(packed, "PLENTY", 10**5)
    for read, name in ((arrays, "a.npz"), (unpacked, "a.gz")):
        with pytest.raises(Damaged, match="bytes unpack to"):
            read(tmp_path / name)


def test_every_cut_and_every_flip_is_read_or_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", a=np.arange(3))
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"abc"))
    for read, name in ((arrays, "a.npz"), (unpacked, "b.gz")):
        whole = (tmp_path / name).read_bytes()
        cuts = [whole[:i] for i in range(len(whole))]
        flips = [whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :] for i in range(len(whole))]
        for content in cuts + flips:
            (tmp_path / name).write_bytes(content)
            try:
                read(tmp_path / name)
            except Damaged as error:
                assert str(error)  # noqa: PT017


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for read in (arrays, unpacked):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "a.gz")
