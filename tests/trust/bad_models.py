"""Model folders and what lies beside them: missing, cut short, edited, made up, or from a later version."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

import dssl
from dssl.models.files import saved
from trust import right
from trust.bad import Bad, Content, Make, both, deep, link, put

FACTS, WEIGHTS = "model/model.json", "model/model.safetensors"


def copied(folder: Path) -> None:
    shutil.copytree(right.model(), folder / "model")


def model(name: str, harm: Make, said: str) -> Bad:
    return Bad(f"model: {name}", both(copied, harm), lambda folder: dssl.load(folder / "model"), said)


def facts(change: Callable[[Any], object]) -> Make:
    """Facts that were changed, with a checksum that fits: whoever edits a file can mend that too."""

    def make(folder: Path) -> None:
        held = json.loads((folder / FACTS).read_text())
        change(held)
        held["checksum"] = saved._checksum(held)
        (folder / FACTS).write_text(json.dumps(held))

    return make


def weights(content: Content | Callable[[dict[str, Any]], object]) -> Make:
    """Other weights, with a checksum that fits."""

    def make(folder: Path) -> None:
        if isinstance(content, bytes):
            data = content
        else:
            tensors = safetensors.torch.load((folder / WEIGHTS).read_bytes())
            content(tensors)  # type: ignore[operator, call-arg]
            data = safetensors.torch.save(tensors)
        (folder / WEIGHTS).write_bytes(data)
        facts(lambda f: f["files"].update({"model.safetensors": hashlib.sha256(data).hexdigest()}))(folder)

    return make


def gone(name: str) -> Make:
    return lambda folder: (folder / name).unlink()


def instead_a_folder(name: str) -> Make:
    return both(gone(name), lambda folder: (folder / name).mkdir())


def header(length: int, text: bytes) -> bytes:
    return struct.pack("<Q", length) + text


MODELS = [
    model("no facts", gone(FACTS), "is not a saved model: it has no model.json … Check the path."),
    model(
        "facts that are a folder",
        instead_a_folder(FACTS),
        "is not a saved model: it has no model.json … Check the path.",
    ),
    model("no weights", gone(WEIGHTS), "is missing … Save the model again, or fetch an intact"),
    model(
        "weights that are a folder", instead_a_folder(WEIGHTS), "is missing … Save the model again, or fetch an intact"
    ),
    model(
        "weights that link to nowhere",
        both(gone(WEIGHTS), link(WEIGHTS, "nowhere")),
        "is missing … Save the model again, or fetch an intact",
    ),
    model(
        "facts: empty",
        put(FACTS, b""),
        "cannot be read: Expecting value: line 1 column 1 (char 0) … Save the model again, or fetch an intact",
    ),
    model(
        "facts: not UTF-8",
        put(FACTS, b'{"format": "\xff"}'),
        "cannot be read: 'utf-8' codec can't decode byte 0xff in … Save the model again, or fetch an intact",
    ),
    model("facts: a number", put(FACTS, "7"), "is not a model saved by dssl … Check the path."),
    model("facts: a list", put(FACTS, "[]"), "is not a model saved by dssl … Check the path."),
    model(
        "facts: nested a hundred thousand deep",
        put(FACTS, deep("[", "]")),
        "cannot be read: maximum recursion depth exceeded while … Save the model again, or fetch an intact",
    ),
    model(
        "facts: a number of a million digits",
        put(FACTS, '{"version": ' + "9" * 1_000_000 + "}"),
        "cannot be read: Exceeds the limit (4300 digits) for integer … Save the model again, or fetch an intact",
    ),
    model(
        "facts: another format",
        put(FACTS, '{"format": "zip of cats"}'),
        "is not a model saved by dssl … Check the path.",
    ),
    model(
        "facts: an edited number",
        lambda f: (f / FACTS).write_text((f / FACTS).read_text().replace('"steps": 2', '"steps": 3')),
        "was changed after it was saved: its checksum does not fit … Save the model again, or fetch an intact",
    ),
    model(
        "facts: no checksum",
        facts(lambda f: f.clear() or f.update(format="dssl model", version=1)),
        "does not describe a model: 'files … Save the model again, or fetch an intact",
    ),
    model(
        "facts: a later version",
        facts(lambda f: f.update(version=99)),
        "has model format 99, and this dssl reads up to 2 … It was written by dssl 0.1.0: upgrade",
    ),
    model(
        "facts: a version that is a text",
        facts(lambda f: f.update(version="1" * 5000)),
        "has model format … It was written by dssl 0.1.0: upgrade",
    ),
    model(
        "facts: a later version by nobody",
        facts(lambda f: f.update(version=99, versions=[])),
        "has model format 99, and this dssl reads up to 2 … It was written by dssl of a later",
    ),
    model(
        "facts: no files",
        facts(lambda f: f.pop("files")),
        "does not describe a model: 'files … Save the model again, or fetch an intact",
    ),
    model(
        "facts: files are a list",
        facts(lambda f: f.update(files=["model.safetensors"])),
        "does not describe a model: list indices must be integers or … Save the model again, or fetch an intact",
    ),
    model(
        "facts: another file's name",
        facts(lambda f: f.update(files={"../../secret": "0"})),
        "does not describe a model: 'model.safetensors … Save the model again, or fetch an intact",
    ),
    model(
        "facts: no targets",
        facts(lambda f: f.pop("targets")),
        "does not describe a model: 'targets … Save the model again, or fetch an intact",
    ),
    model(
        "facts: targets are null",
        facts(lambda f: f.update(targets=None)),
        "does not describe a model: 'NoneType' object is not … Save the model again, or fetch an intact",
    ),
    model(
        "facts: rules that do not parse",
        facts(lambda f: f["targets"].update(space="a -> ->")),
        "does not describe a model: line 1, column 1: 'a' is not … Save the model again, or fetch an intact",
    ),
    model(
        "facts: rules that are a number",
        facts(lambda f: f["targets"].update(space=7)),
        "does not describe a model: rules are text, not int … Save the model again, or fetch an intact",
    ),
    model(
        "facts: rules that contradict",
        facts(lambda f: f["targets"].update(space="a\na = true\na = false")),
        "does not describe a model: these rules contradict each … Save the model again, or fetch an intact",
    ),
    model(
        "facts: rules of another width",
        facts(lambda f: f["targets"].update(space="a, b, c, d")),
        "does not describe a model: Error(s) in loading state_dict … Save the model again, or fetch an intact",
    ),
    model(
        "facts: classes of objects",
        facts(lambda f: f["targets"]["classes"].update(dtype="|O")),
        "2 classes of the type object … Save the model again.",
    ),
    model(
        "facts: classes of four gigabytes",
        facts(lambda f: f["targets"]["classes"].update(dtype="<U1000000000")),
        "does not describe a model: data type '<U1000000000' not … Save the model again, or fetch an intact",
    ),
    model(
        "facts: classes of records",
        facts(lambda f: f["targets"]["classes"].update(dtype="i4,i4")),
        "2 classes of the type [('f0', '<i4'), ('f1', '<i4')] … Save the model again.",
    ),
    model(
        "facts: a type that is none",
        facts(lambda f: f["targets"]["classes"].update(dtype="os.system")),
        "does not describe a model: data type 'os.system' not … Save the model again, or fetch an intact",
    ),
    model(
        "facts: a network that is none",
        facts(lambda f: f["network"].update(name="os.system")),
        "there is no network 'os.system … Use linear, mlp, cnn, wrn-28-2, or give",
    ),
    model(
        "facts: a network with a path",
        facts(lambda f: f["network"].update(name="../../network.py")),
        "there is no network '../../network.py … Use linear, mlp, cnn, wrn-28-2, or give",
    ),
    model(
        "facts: a network that is a list",
        facts(lambda f: f["network"].update(name=["mlp"])),
        "does not describe a model: unhashable type: 'list … Save the model again, or fetch an intact",
    ),
    model(
        "facts: a network of the user's own",
        facts(lambda f: f["network"].update(name=None)),
        "the model's network is your own module (Sequential), and … Build one like it and pass it:",
    ),
    model(
        "facts: a parameter that is none",
        facts(lambda f: f["parameters"].update(__class__="x")),
        "does not describe a model: DSSLClassifier.__init__() got an … Save the model again, or fetch an intact",
    ),
    model(
        "facts: parameters are a list",
        facts(lambda f: f.update(parameters=[1])),
        "does not describe a model: 'list' object has no attribute 'items' … Save the model again, or fetch an intact",
    ),
    model(
        "facts: rules among the parameters",
        facts(lambda f: f["parameters"].update(rules="a")),
        "does not describe a model: … Save the model again, or fetch an intact",
    ),
    model(
        "facts: an input of 10^12 numbers",
        facts(lambda f: f.update(input_shape=[10**12])),
        "inputs of shape (1000000000000,) … Save the model again, or fetch an intact",
    ),
    model(
        "facts: an input of no shape",
        facts(lambda f: f.update(input_shape=[])),
        "does not describe a model: tuple index out of range … Save the model again, or fetch an intact",
    ),
    model(
        "facts: a negative input",
        facts(lambda f: f.update(input_shape=[-2])),
        "inputs of shape (-2,) … Save the model again, or fetch an intact",
    ),
    model(
        "facts: an input of text",
        facts(lambda f: f.update(input_shape=["two"])),
        "inputs of shape ('two',) … Save the model again, or fetch an intact",
    ),
    model(
        "facts: another input",
        facts(lambda f: f.update(input_shape=[5])),
        "does not describe a model: Error(s) in loading state_dict … Save the model again, or fetch an intact",
    ),
    model(
        "facts: no steps",
        facts(lambda f: f.pop("steps")),
        "does not describe a model: 'steps … Save the model again, or fetch an intact",
    ),
    model(
        "facts: a prior that is a list",
        facts(lambda f: f.update(prior=[1])),
        "does not describe a model: 'list' object has no attribute … Save the model again, or fetch an intact",
    ),
    model(
        "facts: a prior of another version",
        facts(lambda f: f["prior"].update(version=99)),
        "the model's prior cannot be read: it has format 99, and … Save the model again, or fetch an intact",
    ),
    model(
        "facts: a prior without a space",
        facts(lambda f: f["prior"].pop("space")),
        "the model's prior cannot be read: the learned prior is … Save the model again, or fetch an intact",
    ),
    model(
        "facts: a prior of another scale",
        facts(lambda f: f["prior"].update(scale="big")),
        "the model's prior cannot be read: the learned prior is … Save the model again, or fetch an intact",
    ),
    model(
        "facts: a prior's power of 0",
        facts(lambda f: f["prior"].update(power=0)),
        "the model's prior cannot be read: the learned prior is … Save the model again, or fetch an intact",
    ),
    model(
        "weights: empty",
        weights(b""),
        "is not a safetensors file: Error while deserializing: header … Save the model again, or fetch an intact",
    ),
    model(
        "weights: a pickle",
        weights(pickle.dumps({"a": 1})),
        "is not a safetensors file: Error while deserializing: header … Save the model again, or fetch an intact",
    ),
    model(
        "weights: a header of 2^63 bytes",
        weights(header(2**63, b"{}")),
        "is not a safetensors file: Error while deserializing: header … Save the model again, or fetch an intact",
    ),
    model(
        "weights: a header that is no JSON",
        weights(header(4, b"oops")),
        "is not a safetensors file: Error while deserializing: invalid … Save the model again, or fetch an intact",
    ),
    model(
        "weights: a tensor beyond the end",
        weights(header(63, b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,1000000000]}}')),
        "is not a safetensors file: Error while deserializing: invalid … Save the model again, or fetch an intact",
    ),
    model(
        "weights: a tensor is missing",
        weights(lambda t: t.pop("mean")),
        "does not describe a model: 'mean … Save the model again, or fetch an intact",
    ),
    model(
        "weights: a tensor of another shape",
        weights(lambda t: t.update({"network.1.weight": torch.zeros(7, 7)})),
        "does not describe a model: Error(s) in loading state_dict … Save the model again, or fetch an intact",
    ),
    model(
        "weights: a tensor too many",
        weights(lambda t: t.update({"network.evil": torch.zeros(1)})),
        "does not describe a model: Error(s) in loading state_dict … Save the model again, or fetch an intact",
    ),
    model(
        "weights: the prior's child after its parent",
        weights(lambda t: t.update({"prior.child": t["prior.child"] + 10**6})),
        "the model's prior cannot be read: the learned prior is … Save the model again, or fetch an intact",
    ),
    model(
        "weights: the prior's nodes of no kind",
        weights(lambda t: t.update({"prior.kind": t["prior.kind"] + 50})),
        "the model's prior cannot be read: the learned prior is … Save the model again, or fetch an intact",
    ),
    model(
        "weights: the prior's branches cut short",
        weights(lambda t: t.update({"prior.branches": t["prior.branches"][:1]})),
        "the model's prior cannot be read: the learned prior is … Save the model again, or fetch an intact",
    ),
    model(
        "weights: one byte changed",
        lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:-1] + b"\xff"),
        "was changed or cut short: its checksum does not fit … Save the model again, or fetch an intact",
    ),
    Bad(
        "model: a file",
        put("model", b"x"),
        lambda f: dssl.load(f / "model"),
        "is not a saved model: it has no model.json … Check the path.",
    ),
    Bad(
        "model: an empty folder",
        lambda f: (f / "model").mkdir(),
        lambda f: dssl.load(f / "model"),
        "is not a saved model: it has no model.json … Check the path.",
    ),
    Bad(
        "model: saved over something else",
        put("model/precious.txt", b"x"),
        lambda f: dssl.save(dssl.load(right.model()), f / "model"),
        "exists and is not a saved model … Choose another path, or remove it first.",
    ),
    Bad(
        "model: saved over a file",
        put("model", b"x"),
        lambda f: dssl.save(dssl.load(right.model()), f / "model"),
        "exists and is not a saved model … Choose another path, or remove it first.",
    ),
    Bad(
        "model: a network for one that has its own",
        copied,
        lambda f: dssl.load(f / "model", network=torch.nn.Linear(2, 2)),
        "the model's network is 'linear', which is built from its … Leave out network=.",
    ),
]
CASES = MODELS
