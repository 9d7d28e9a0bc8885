"""Forests answer as the trees they come from, leave out what they must, and are saved with the model."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from sklearn.ensemble import RandomForestRegressor

from dssl import DataError, DSSLClassifier, LabelSpace, load, save
from dssl.models.auto import trees
from dssl.models.auto.beside import Blended
from dssl.models.auto.ground import Ground
from dssl.models.auto.judging import judge
from dssl.models.auto.trees import Forest, Grown, grow
from dssl.models.files import saved
from dssl.models.files.export import OnnxModel, export_onnx

SPACE = LabelSpace("kind: 0..2\nbig, red\nkind = 0 -> big")
Rows = tuple[np.ndarray, np.ndarray]


def rows(n: int = 80, seed: int = 0) -> Rows:
    """Rows in two corners of each of two features, which no sum of them tells apart, and labels that depend on them."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, size=(n, 6)).astype(np.float32)
    kind = (x[:, 0] * x[:, 1] > 0).astype(int) + (x[:, 2] > 0.5)
    big = (kind == 0) | (x[:, 3] > 0)
    return x, np.column_stack([np.eye(3)[kind], big, x[:, 4] > 0]).astype(float)


def machine(grown: Grown, mean: np.ndarray) -> Forest:
    values = grown.arrays["values"] - mean
    return Forest(SPACE, grown.size).told(**grown.arrays | {"values": values}, mean=mean)


def walked(grown: Grown, row: np.ndarray) -> np.ndarray:
    """From the root of each tree to a leaf, one step after the other."""
    a, found = grown.arrays, []
    for at in a["roots"]:
        while a["left"][at] != at:
            at = a["left"][at] if row[a["feature"][at]] <= a["threshold"][at] else a["right"][at]
        found.append(a["values"][a["leaf"][at]])
    return np.mean(found, axis=0)


def test_a_forest_answers_as_its_trees_do_one_by_one_and_as_scikit_learns() -> None:
    x, y = rows()
    grown = grow(x, y, np.ones(len(x)), seed=3)
    fresh = np.vstack([rows(50, seed=1)[0], x])
    found = machine(grown, y.mean(0)).moves(torch.from_numpy(fresh)).numpy() + y.mean(0)
    np.testing.assert_allclose(found, [walked(grown, row) for row in fresh], atol=1e-6)
    same = RandomForestRegressor(len(grown.arrays["roots"]), max_features="sqrt", random_state=3).fit(
        x, y, np.ones(len(x))
    )
    np.testing.assert_allclose(found, same.predict(fresh), atol=1e-6)


def test_features_on_the_threshold_go_where_they_went_in_double_precision() -> None:
    low, high = np.float32(0.1), np.nextafter(np.float32(0.1), np.float32(1))
    for threshold in (float(low), (float(low) + float(high)) / 2, np.nextafter(float(high), 0)):
        single = trees._rounded_down(np.array([threshold]))[0]
        assert single == low
    assert trees._rounded_down(np.array([float(high)]))[0] == high


def test_a_row_is_left_out_by_the_trees_that_did_not_see_it() -> None:
    x, y = rows(60)
    weight = np.random.default_rng(0).uniform(0.5, 2, size=60)
    model = RandomForestRegressor(trees._TREES, max_features="sqrt", random_state=5).fit(x, y, weight)
    for row, said in enumerate(grow(x, y, weight, seed=5).left_out):
        blind = [tree for tree, seen in zip(model.estimators_, model.estimators_samples_) if row not in seen]
        np.testing.assert_allclose(said, np.mean([tree.predict(x[[row]])[0] for tree in blind], axis=0))


def test_one_column_and_rows_of_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows()
    assert grow(x, y[:, 3:4], np.ones(len(x)), seed=0).left_out.shape == (80, 1)
    monkeypatch.setattr(trees, "_NUMBERS", 100 * 5 * 4)  # four leaves for each of 100 trees
    small = grow(x, y, np.ones(len(x)), seed=0)
    assert small.size.leaves <= 400 < grow(x, y[:, 3:4], np.ones(len(x)), seed=0).size.leaves


def test_labels_say_who_answers_beside() -> None:
    """Corners are known to trees, sums of many features to ridge models."""
    x, y = rows(160)
    corners = judge(SPACE, x, y, Ground.of(x, y))
    slopes = judge(SPACE, x, sums := _by_sums(x), Ground.of(x, sums))
    assert corners is not None
    assert slopes is not None
    assert corners.beside is not None
    assert slopes.beside is not None
    assert "forest" in corners.beside(0).name
    assert "ridge" in slopes.beside(0).name
    said = corners.beside(0).left_out(np.arange(len(corners.rows)) % 4)
    right = said[:, :3].argmax(1).numpy() == y[corners.rows, :3].argmax(1)
    assert said.shape == (160, SPACE.width)
    assert right.mean() > 0.65


def _by_sums(x: np.ndarray) -> np.ndarray:
    kind = np.digitize(x.sum(axis=1), [-0.7, 0.7])
    return np.column_stack([np.eye(3)[kind], (kind == 0) | (x[:, 0] > x[:, 1]), x[:, 2] > x[:, 4]]).astype(float)


@pytest.fixture(scope="module")
def fitted() -> tuple[DSSLClassifier, np.ndarray]:
    x, y = rows(160)
    return DSSLClassifier(SPACE, steps=60, random_state=0).fit(x, y), x


def test_a_forest_that_helps_is_planned_and_saved(fitted: Any, tmp_path: Path) -> None:
    model, x = fitted
    assert "forest" in str(model.plan_)
    (blend,) = (part for part in model.network_.modules() if isinstance(part, Blended))
    assert any(isinstance(part, Forest) for part in blend.machine.modules())
    again = load(save(model, tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    assert not SPACE.check(model.predict(rows(300, seed=2)[0]))
    export_onnx(model, tmp_path / "model.onnx", x)
    np.testing.assert_allclose(OnnxModel(tmp_path / "model.onnx").predict_proba(x), model.predict_proba(x), atol=1e-4)


@pytest.mark.parametrize("name", ["roots", "feature", "left", "right", "leaf"])
@pytest.mark.parametrize("number", [-1, 2**31 - 1])
def test_trees_that_point_outside_are_refused(fitted: Any, tmp_path: Path, name: str, number: int) -> None:
    place = save(fitted[0], tmp_path / "model")
    tensors = safetensors.torch.load((place / "model.safetensors").read_bytes())
    (key,) = (key for key in tensors if key.endswith(f".{name}"))
    tensors[key][-1] = number
    content = safetensors.torch.save(tensors)
    facts = json.loads((place / "model.json").read_text())
    facts["files"]["model.safetensors"] = hashlib.sha256(content).hexdigest()
    facts["checksum"] = saved._checksum(facts)
    (place / "model.safetensors").write_bytes(content)
    (place / "model.json").write_text(json.dumps(facts))
    with pytest.raises(DataError, match="trees that point to nodes, leaves or features that are not there"):
        load(place)


@pytest.mark.parametrize(
    "size",
    [
        {"trees": 0, "nodes": 0, "leaves": 0, "depth": 0},
        {"trees": 2, "nodes": 2**40, "leaves": 2, "depth": 1},
        {"trees": 2, "nodes": 6, "leaves": 4, "depth": 2**20},
        {"trees": 2, "nodes": 6.5, "leaves": 4, "depth": 1},
        {"trees": True, "nodes": -6, "leaves": 4, "depth": 1},
    ],
)
def test_forests_of_impossible_size_are_refused(size: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="a forest of"):
        saved._beside(torch.nn.Identity(), {"kernel": None, "forest": size}, SPACE, (6,))
