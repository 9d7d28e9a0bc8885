"""Files beside a model: preprocessing, summary, checkpoints, priors."""

from __future__ import annotations

import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

import dssl
from dssl.app.summary import Summary
from dssl.data.preprocessing import Preprocessing
from dssl.errors import DataError
from dssl.priors.learned import LearnedPrior
from dssl.training import checkpoints
from trust import right
from trust.bad import Bad, Content, deep, put


def header(length: int, text: bytes) -> bytes:
    return struct.pack("<Q", length) + text


def file(
    kind: str, name: str, content: Content, read: Callable[[Path], Any], said: str, error: type[Exception] = DataError
) -> Bad:
    return Bad(f"{kind}: {name}", put("file", content), lambda folder: read(folder / "file"), said, error)


def preprocessing(name: str, change: Callable[[Any], object], said: str) -> Bad:
    def content() -> bytes:
        held = json.loads((right.run() / "preprocessing.json").read_text())
        out = change(held)
        return json.dumps(held if out is None else out).encode()

    return file("preprocessing", name, content, Preprocessing.load, said)


def step(tensors: dict[str, torch.Tensor], meta: dict[str, str]) -> bytes:
    return safetensors.torch.save(tensors, meta)


def prior() -> bytes:
    path = right.model().parent / f"prior-{os.getpid()}"
    dssl.learn_prior(["a", "b"]).save(path)
    return path.read_bytes()


BESIDE = [
    file(
        "preprocessing",
        "empty",
        b"",
        Preprocessing.load,
        "is damaged: Expecting value: line 1 column 1 (char 0) … Fetch an intact copy of the run, or fit",
    ),
    file(
        "preprocessing",
        "not UTF-8",
        b'{"format": "\xff"}',
        Preprocessing.load,
        "is damaged: 'utf-8' codec can't decode byte 0xff in … Fetch an intact copy of the run, or fit",
    ),
    file(
        "preprocessing",
        "nested deep",
        deep("[", "]"),
        Preprocessing.load,
        "is damaged: maximum recursion depth exceeded while decoding … Fetch an intact copy of the run, or fit",
    ),
    file(
        "preprocessing",
        "a list",
        "[]",
        Preprocessing.load,
        "is damaged: list indices must be integers or slices, not str … Fetch an intact copy of the run, or fit",
    ),
    preprocessing(
        "a later version",
        lambda s: s.update(version=99),
        "was written by another program or a newer dssl … Upgrade dssl, or fit again.",
    ),
    preprocessing(
        "a version that is a text",
        lambda s: s.update(version="x"),
        "is damaged: '>' not supported between instances of 'str' … Fetch an intact copy of the run, or fit",
    ),
    preprocessing(
        "no columns",
        lambda s: s.pop("columns"),
        "is damaged: list indices must be integers or slices, not str … Fetch an intact copy of the run, or fit",
    ),
    preprocessing(
        "a column that is a number",
        lambda s: s.update(columns=[7]),
        "is damaged: a column, or its vocabulary, is 7 … Fetch an intact copy of the run, or fit",
    ),
    preprocessing(
        "a column of a strange kind",
        lambda s: s["columns"][0].update(kind="code"),
        "is damaged: the column 'weight' has entries that do not fit … Fetch an intact copy of the run, or fit",
    ),
    preprocessing(
        "a column filled with a list",
        lambda s: s["columns"][0].update(fill=[1]),
        "is damaged: the column 'weight' has entries that do not fit … Fetch an intact copy of the run, or fit",
    ),
    preprocessing(
        "a column whose name is a number",
        lambda s: s["columns"][0].update(name=7),
        "is damaged: the column 7 has entries that do not fit … Fetch an intact copy of the run, or fit",
    ),
    preprocessing(
        "categories that are numbers",
        lambda s: s["columns"][1].update(values=[1, 2]),
        "is damaged: the column 'home' has entries that do not fit … Fetch an intact copy of the run, or fit",
    ),
    preprocessing(
        "an entry too many",
        lambda s: s["columns"][0].update(evil=1),
        "is damaged: Column.__init__() got an unexpected keyword … Fetch an intact copy of the run, or fit",
    ),
    preprocessing(
        "images of five sizes",
        lambda s: s.update(image=[1, 2, 3, 4, 5]),
        "is damaged: images cannot have the shape (1, 2, 3, 4, 5) … Fetch an intact copy of the run, or fit",
    ),
    preprocessing(
        "images of negative size",
        lambda s: s.update(image=[3, -2, 2]),
        "is damaged: images cannot have the shape (3, -2, 2) … Fetch an intact copy of the run, or fit",
    ),
    preprocessing(
        "labels that are numbers",
        lambda s: s.update(labels=[1]),
        "is damaged: names of labels, or of rows, are not text … Fetch an intact copy of the run, or fit",
    ),
    preprocessing(
        "a name of rows that is a list",
        lambda s: s.update(id=["x"]),
        "is damaged: names of labels, or of rows, are not text … Fetch an intact copy of the run, or fit",
    ),
    file("summary", "not JSON", b"\xff", Summary.load, "is not JSON … Give the summary.json of a run."),
    file("summary", "nested deep", deep("[", "]"), Summary.load, "is not JSON … Give the summary.json of a run."),
    file(
        "summary",
        "a long version",
        json.dumps({"format": "dssl summary", "version": "9" * 5000}),
        Summary.load,
        "has version … Update dssl, or write the summary again.",
    ),
    file(
        "summary",
        "no fields",
        '{"format": "dssl summary", "version": 3}',
        Summary.load,
        "is damaged: the file has no 'title … Write the summary again.",
    ),
    file("checkpoint", "empty", b"", checkpoints.load, "the checkpoint … Remove it: the run goes on from the one"),
    file(
        "checkpoint",
        "a pickle",
        pickle.dumps({"step": 1}),
        checkpoints.load,
        "the checkpoint … Remove it: the run goes on from the one",
    ),
    file(
        "checkpoint",
        "a header of 2^63 bytes",
        header(2**63, b"{}"),
        checkpoints.load,
        "the checkpoint … Remove it: the run goes on from the one",
    ),
    file(
        "checkpoint",
        "no state",
        lambda: step({"w": torch.ones(2)}, {"sha256": "0"}),
        checkpoints.load,
        "the checkpoint … Remove it: the run goes on from the one",
    ),
    file(
        "checkpoint",
        "a state that is a list",
        lambda: step({"w": torch.ones(2)}, {"state": "[1]", "sha256": "0"}),
        checkpoints.load,
        "the checkpoint … Remove it: the run goes on from the one",
    ),
    file(
        "checkpoint",
        "a state nested deep",
        lambda: step({"w": torch.ones(2)}, {"state": deep("[", "]"), "sha256": "0"}),
        checkpoints.load,
        "the checkpoint … Remove it: the run goes on from the one",
    ),
    file(
        "prior",
        "empty",
        b"",
        LearnedPrior.load,
        "is not a prior saved by dssl, or was cut short … Learn the prior again with this version",
        ValueError,
    ),
    file(
        "prior",
        "a pickle",
        pickle.dumps([1]),
        LearnedPrior.load,
        "is not a prior saved by dssl, or was cut short … Learn the prior again with this version",
        ValueError,
    ),
    file(
        "prior",
        "cut short",
        lambda: prior()[:-10],
        LearnedPrior.load,
        "is not a prior saved by dssl, or was cut short … Learn the prior again with this version",
        ValueError,
    ),
    file(
        "prior",
        "no facts",
        lambda: step({"w": torch.ones(2)}, {"a": "b"}),
        LearnedPrior.load,
        "is not a prior saved by dssl, or was cut short … Learn the prior again with this version",
        ValueError,
    ),
    file(
        "prior",
        "facts that are a list",
        lambda: step({"w": torch.ones(2)}, {"facts": "[1]"}),
        LearnedPrior.load,
        "is not a prior saved by dssl, or was cut short … Learn the prior again with this version",
        ValueError,
    ),
    file(
        "prior",
        "facts nested deep",
        lambda: step({"w": torch.ones(2)}, {"facts": deep("[", "]")}),
        LearnedPrior.load,
        "is not a prior saved by dssl, or was cut short … Learn the prior again with this version",
        ValueError,
    ),
    file(
        "prior",
        "one byte changed",
        lambda: prior()[:-1] + b"\xff",
        LearnedPrior.load,
        "was changed after it was saved: its checksum does not fit … Learn the prior again with this version",
        ValueError,
    ),
]
CASES = BESIDE
