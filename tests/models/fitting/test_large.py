"""Fits on Data: as good as on arrays, in any storage, with the same checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from dssl import DSSLClassifier, LabelSpace
from dssl.data.rows import ArrayData
from dssl.data.stored.images import ImageFolderData
from dssl.data.stored.parquet import ParquetData
from dssl.errors import DataError
from dssl.models.files.saved import load, save

SPACE = LabelSpace("kind: {cat, dog, cod}\npet\npet <-> kind in {cat, dog}")
RANDOM = np.random.default_rng(0)
N = 1200
KIND = RANDOM.integers(0, 3, N)
X = (RANDOM.normal(size=(N, 4)) + 2.5 * np.eye(4)[KIND]).astype(np.float32)
TRUE = SPACE.encode([{"kind": ("cat", "dog", "cod")[k], "pet": int(k < 2)} for k in KIND])
Y = np.where(np.arange(N)[:, None] < 90, TRUE, np.nan).astype(np.float32)


def parts(folder: Path) -> ParquetData:
    names = [("cat", "dog", "cod")[k] if i < 90 else None for i, k in enumerate(KIND)]
    frame = pl.DataFrame(X, schema=list("abcd")).with_columns(kind=pl.Series(names, dtype=pl.String))
    for i in range(4):
        frame[300 * i : 300 * (i + 1)].write_parquet(folder / f"part-{i}.parquet")
    return ParquetData(folder, list("abcd"), ["kind"], SPACE, block=100, window=2)


def model(**more: Any) -> DSSLClassifier:
    return DSSLClassifier(**{"steps": 60, "random_state": 0, **more})


def test_parquet_is_learned_from_as_arrays_are(tmp_path: Path) -> None:
    streamed = model().fit(parts(tmp_path))
    frame = pl.DataFrame(X, schema=list("abcd"))
    assert list(streamed.feature_names_in_) == list("abcd")
    assert streamed.predict(frame).columns == ["kind", "pet"]
    whole = model(rules=SPACE).fit(X, Y)
    assert streamed.score(frame, TRUE) > whole.score(X, TRUE) - 0.03 > 0.85
    assert "1,200; planned and calibrated on a sample of 1,200" in str(streamed.plan_)
    save(streamed, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(frame), streamed.predict_proba(frame))


def test_arrays_as_data_are_the_same_rows(tmp_path: Path) -> None:
    by_file = model(calibrate=False).fit(parts(tmp_path))
    by_array = model(calibrate=False, rules=SPACE).fit(ArrayData(X, Y))
    np.testing.assert_allclose(by_file.standardiser_.mean, by_array.standardiser_.mean, rtol=1e-6)
    assert not hasattr(by_array, "feature_names_in_")
    p, q = by_file.predict_proba(pl.DataFrame(X, schema=list("abcd"))), by_array.predict_proba(X)
    assert float(np.abs(p - q).mean()) < 0.05  # another order of rows, nothing else


def test_one_variable_is_a_vector_and_classes_may_weigh(tmp_path: Path) -> None:
    space = LabelSpace("kind: {cat, dog, cod}")
    y = np.where(np.arange(N)[:, None] < 90, np.eye(3)[KIND], np.nan)
    fitted = model(rules=space, objective={"class_weight": "balanced"}, settings={"patience": 3}).fit(ArrayData(X, y))
    assert fitted.predict(X[:2]).tolist() == [("cat", "dog", "cod")[k] for k in KIND[:2]]
    assert fitted.classes_.tolist() == ["cat", "dog", "cod"]


def test_what_does_not_go_with_data(tmp_path: Path) -> None:
    data = ArrayData(X, Y)
    with pytest.raises(DataError, match="ArrayData has columns of labels, and no names for them"):
        model().fit(data)
    with pytest.raises(DataError, match="the data have labels of another space: 4 columns, and the rules have 1"):
        model(rules="pet").fit(data)
    with pytest.raises(DataError, match="labels of another space"):
        model(rules="kind: {cat, dog, cod}\npet").fit(parts(tmp_path))
    with pytest.raises(DataError, match="a Data object has its own labels and weights"):
        model(rules=SPACE).fit(data, Y)
    wrong = np.where(np.arange(N)[:, None] < 90, 1 - TRUE, np.nan)
    wrong[:, :3] = np.nan_to_num(TRUE[:, :3])
    with pytest.raises(DataError, match="break"):
        model(rules=SPACE).fit(ArrayData(X, wrong))


@pytest.mark.parametrize("workers", [0, 1])
def test_images_are_decoded_when_needed(tmp_path: Path, workers: int) -> None:
    for i in range(30):
        place = tmp_path / ("dark", "light", "unlabelled")[i % 3]
        place.mkdir(exist_ok=True)
        shade = 200 * (i % 2 if i % 3 == 2 else i % 3) + RANDOM.integers(0, 40, size=(8, 8, 3))
        Image.fromarray(shade.astype(np.uint8)).save(place / f"{i:02}.png")
    data = ImageFolderData(tmp_path, LabelSpace.classes(["dark", "light"]), size=(8, 8), workers=workers)
    fitted = model(steps=30, network="cnn", calibrate=False).fit(data)
    data.close()
    x = np.full((2, 3, 8, 8), 0.1)
    x[1] = 0.9
    assert fitted.predict(x).tolist() == ["dark", "light"]
