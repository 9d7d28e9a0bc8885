"""Checkpoints: one file each, complete or absent, never half-written.

A file is written as `dssl.files` does, so a process killed at any instant leaves either the old state or the new one.
It holds tensors as safetensors and everything else as JSON in its header, with a checksum over both: nothing in it is
executed. The last two are kept; if the latest is damaged, the other is used.
"""

from __future__ import annotations

import hashlib
import json
import struct
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from dssl import files
from dssl.errors import DataError

_FORMAT = 1
_KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """A run at a step: tensors by name, and the rest as JSON."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Writes a checkpoint and forgets all but the last two."""
    written = path(folder, checkpoint.step)
    files.write_whole(written, _packed(checkpoint), parents=True)
    for old in _found(folder)[:-_KEPT]:
        with suppress(OSError):
            old.unlink()
    return written


def path(folder: Path, step: int) -> Path:
    """The file of a step's checkpoint."""
    return folder / f"step-{step:09d}.safetensors"


def latest(folder: Path) -> Checkpoint | None:
    """The last intact checkpoint of a folder; None if there is none. What a killed writer left is removed."""
    files.clear(folder)
    for file in reversed(_found(folder)):
        try:
            return load(file)
        except DataError as error:
            warnings.warn(f"{str(error).splitlines()[0]} Going back to the checkpoint before it.", stacklevel=2)
    return None


def load(file: Path) -> Checkpoint:
    """Reads a checkpoint; damage is an error."""
    data = files.present(file).read_bytes()
    try:
        (length,) = struct.unpack("<Q", data[:8])
        meta = json.loads(data[8 : 8 + length])["__metadata__"]
        tensors = load_tensors(data)
        state = json.loads(meta["state"])
        version, step, held = int(state["format"]), int(state["step"]), dict(state["state"])
        whole = meta["sha256"] == _checksum(meta["state"], tensors)
    except (SafetensorError, struct.error, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        whole = False
    if not whole:
        raise DataError(f"the checkpoint '{file}' is damaged.\nRemove it: the run goes on from the one before.")
    if version > _FORMAT:
        raise DataError(
            f"the checkpoint '{file}' has format {version}, newer than {_FORMAT}: update dssl.\n"
            "Or remove it: the run begins again."
        )
    return Checkpoint(step, tensors, held)


def _packed(checkpoint: Checkpoint) -> bytes:
    # cloned: safetensors refuses tensors that share memory, as tied weights do
    tensors = {
        name: t.detach().cpu().clone(memory_format=torch.contiguous_format) for name, t in checkpoint.tensors.items()
    }
    state = json.dumps({"format": _FORMAT, "step": checkpoint.step, "state": checkpoint.state})
    return save_tensors(tensors, {"state": state, "sha256": _checksum(state, tensors)})


def _checksum(state: str, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(state.encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _found(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.safetensors"))


# ---- what goes in ----


def pack(prefix: str, value: Any, tensors: dict[str, Tensor]) -> Any:
    """A nested state in JSON's types: tensors move to `tensors`, under names beginning with `prefix`.

    Dictionaries become lists of pairs, for their keys may be numbers.
    """
    if isinstance(value, Tensor):
        tensors[prefix] = value
        return {"tensor": prefix}
    if isinstance(value, dict):
        return {"items": [[key, pack(f"{prefix}.{key}", item, tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [pack(f"{prefix}.{i}", item, tensors) for i, item in enumerate(value)]
    return value


def unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The state that `pack` took apart."""
    if isinstance(value, dict):
        if "tensor" in value:
            return tensors[value["tensor"]]
        return {key: unpack(item, tensors) for key, item in value["items"]}
    if isinstance(value, list):
        return [unpack(item, tensors) for item in value]
    return value
