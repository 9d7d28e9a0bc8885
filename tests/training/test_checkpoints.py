"""Checkpoints: whole or absent, never half; what was saved is what is loaded."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from dssl.errors import DataError
from dssl.training import checkpoints
from dssl.training.checkpoints import Checkpoint, latest, load, pack, save, unpack
from training.tiny_runs import same_weights, tiny_run


def some(step: int) -> Checkpoint:
    tensors = {
        "a": torch.arange(6.0).view(2, 3) + step,
        "half": torch.ones(2, dtype=torch.bfloat16),
        "flag": torch.tensor(True),
        "none": torch.zeros(0, 3),
    }
    return Checkpoint(step, {**tensors, "tied": tensors["a"]}, {"rows": [{"x": 0.1}], "name": "ü"})


def test_what_was_saved_is_what_is_loaded(tmp_path: Path) -> None:
    save(tmp_path, some(5))
    found = latest(tmp_path)
    assert found is not None
    assert (found.step, found.state) == (5, some(5).state)
    for name, tensor in some(5).tensors.items():
        assert torch.equal(found.tensors[name], tensor)
        assert found.tensors[name].dtype == tensor.dtype


def test_the_last_two_are_kept_and_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    assert latest(tmp_path) is None
    for step in (1, 20, 3000):
        save(tmp_path, some(step))
    (tmp_path / ".step-000004000.safetensors.0123abcd.dssl-partial").write_bytes(b"half a ch")
    found = latest(tmp_path)
    assert found is not None
    assert found.step == 3000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000000020.safetensors", "step-000003000.safetensors"]


def test_an_old_checkpoint_that_cannot_be_removed_is_no_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for step in (1, 2):
        save(tmp_path, some(step))
    monkeypatch.setattr(os, "unlink", refuse)
    save(tmp_path, some(3))
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("damage", ["cut", "empty", "bit", "header", "json"])
def test_damage_anywhere_is_found_and_the_one_before_is_used(tmp_path: Path, damage: str) -> None:
    save(tmp_path, some(1))
    last = save(tmp_path, some(2))
    data = bytearray(last.read_bytes())
    if damage == "bit":
        data[-3] ^= 1
    elif damage == "header":
        data[0] ^= 255
    elif damage == "json":
        at = data.index(b"0.1")
        data[at : at + 3] = b"0.2"
    last.write_bytes(bytes(data)[: {"cut": len(data) // 2, "empty": 0}.get(damage, len(data))])
    with pytest.raises(DataError, match="is damaged"):
        load(last)
    with pytest.warns(UserWarning, match=r"000002.safetensors' is damaged. Going back to the checkpoint before"):
        found = latest(tmp_path)
    assert found is not None
    assert found.step == 1


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_FORMAT", 99)
    last = save(tmp_path, some(2))
    monkeypatch.undo()
    with pytest.raises(DataError, match="format 99, newer than 1: update dssl"):
        load(last)


def test_states_survive_taking_apart() -> None:
    state = {
        "state": {0: {"step": torch.tensor(3.0), "m": torch.ones(2)}},
        "groups": [{"lr": 0.1, "betas": (0.9, 0.99)}],
    }
    tensors: dict[str, torch.Tensor] = {}
    packed = pack("optimizer", state, tensors)
    assert set(tensors) == {"optimizer.state.0.step", "optimizer.state.0.m"}
    back = unpack(packed, tensors)
    assert back["groups"] == [{"lr": 0.1, "betas": [0.9, 0.99]}]
    assert torch.equal(back["state"][0]["m"], torch.ones(2))


# ---- a full disk ----


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB, where one may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system is not allowed here")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_is_an_error_and_the_last_checkpoint_stays(small_disk: Path) -> None:
    tiny_run(small_disk, steps=3)
    before = sorted(small_disk.iterdir())
    (small_disk / "filler").write_bytes(b"x" * (64 - 8 - sum(p.stat().st_size for p in before) // 1024) * 1024)
    big = Checkpoint(9, {"a": torch.zeros(100_000)}, {})
    with pytest.raises(OSError, match=r"No space left.*\n.*untouched. Free some space") as caught:
        save(small_disk, big)
    assert caught.value.errno == errno.ENOSPC
    (small_disk / "filler").unlink()
    assert sorted(small_disk.iterdir()) == before
    assert same_weights(tiny_run(small_disk, steps=3).network, tiny_run(steps=3).network)


def test_a_run_on_a_full_disk_stops_and_goes_on_when_there_is_space(tmp_path: Path) -> None:
    """The same with a limit on the size of files, which needs no rights."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    tiny_run(tmp_path, steps=60, patience=None)  # the first three checkpoints are larger than the limit below
    for file in tmp_path.iterdir():
        file.unlink()
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="Free some space, and try again"):
            tiny_run(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
    assert same_weights(tiny_run(tmp_path).network, tiny_run().network)


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failure_at_any_stage_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    save(tmp_path, some(1))

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(OSError, match="Check the folder"):
        save(tmp_path, some(2))
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == ["step-000000001.safetensors"]
