"""Exported networks answer alike, and their predictions obey the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from dssl import DataError, LabelSpace
from dssl.models.decoding import Decoder
from dssl.models.estimators import DSSLClassifier
from dssl.models.files import export
from dssl.models.files.export import OnnxModel, export_onnx
from training.rule_sets import RULE_SETS

X = np.random.default_rng(0).normal(size=(40, 4)) * [1, 10, 100, 1000]


def quick(**parameters: Any) -> DSSLClassifier:
    return DSSLClassifier(**{"steps": 15, "random_state": 0, **parameters})


def test_rule_valid_predictions_after_export(tmp_path: Path) -> None:
    space = LabelSpace(RULE_SETS["classes and attributes"])
    labels = space.encode(list(space.valid()))
    model = quick(rules=space).fit(X, labels[np.arange(40) % len(labels)])
    assert export_onnx(model, tmp_path / "digits.onnx", X) < 1e-4
    exported = OnnxModel(tmp_path / "digits.onnx")
    x = np.random.default_rng(1).normal(size=(500, 4)).astype(np.float32) * 1000  # another number of rows
    assert (exported.predict(x) == model.predict(x)).all()
    np.testing.assert_allclose(exported.predict_proba(x), model.predict_proba(x), atol=1e-4)
    assert not space.check(exported.predict(x))
    decoder = Decoder(str(space))  # all that is needed besides logits
    assert decoder.decode(exported.logits(x[:1])) == space.decode(model.predict(x[:1]))


def test_images_and_class_names(tmp_path: Path) -> None:
    images = np.random.default_rng(0).normal(size=(20, 1, 8, 8)).astype(np.float32)
    model = quick(steps=3).fit(images, ["cat", "dog"] * 10)
    export_onnx(model, tmp_path / "pets.onnx")
    assert (OnnxModel(tmp_path / "pets.onnx").predict(images) == model.predict(images)).all()


class _Wrong:
    """A runtime that adds up wrongly."""

    def run(self, outputs: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [np.full((len(inputs["x"]), 2), 9.0, dtype=np.float32)]


def test_an_export_that_answers_differently_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = quick().fit(X, [0, 1] * 20)
    monkeypatch.setattr(export, "_session", lambda path: _Wrong())
    with pytest.raises(DataError, match="logits differ by up to"):
        export_onnx(model, tmp_path / "wrong.onnx")
    assert not list(tmp_path.iterdir())


def test_other_onnx_files_are_refused(tmp_path: Path) -> None:
    model = quick().fit(X, [0, 1] * 20)
    export_onnx(model, tmp_path / "model.onnx")
    proto = onnx.load(tmp_path / "model.onnx")
    del proto.metadata_props[:]
    onnx.save(proto, tmp_path / "bare.onnx")
    with pytest.raises(DataError, match="not exported by dssl"):
        OnnxModel(tmp_path / "bare.onnx")


def test_a_mixture_after_export(tmp_path: Path) -> None:
    space = LabelSpace(RULE_SETS["classes and attributes"])
    labels = space.encode(list(space.valid()))
    model = quick(rules=space, objective={"components": 3}).fit(X, labels[np.arange(40) % len(labels)])
    export_onnx(model, tmp_path / "mixed.onnx", X)
    exported = OnnxModel(tmp_path / "mixed.onnx")
    assert exported.decoder.components == 3
    assert (exported.predict(X) == model.predict(X)).all()
    np.testing.assert_allclose(exported.predict_proba(X), model.predict_proba(X), atol=1e-4)
