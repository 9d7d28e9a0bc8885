"""Files larger than memory: small ones, with the limits lowered, against the same files read as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from dssl import DSSLClassifier
from dssl.app.options import Options
from dssl.app.preparation import prepare
from dssl.data.stored import larger
from dssl.data.stored.larger import is_larger, sample
from dssl.errors import DataError

SIZE = 6


def pictures(folder: Path, n: int = 90) -> Path:
    """Dark and light images, most of them without a label; the last class has one image alone."""
    random = np.random.default_rng(0)
    for i in range(n):
        name = ("dark", "light")[i % 2] if i < 30 else "unlabelled"
        (folder / name).mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 120, (SIZE, SIZE)) + 120 * (i % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{i:03}.png")
    return folder


def test_a_large_folder_of_images_is_decoded_when_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pictures(tmp_path / "d")
    whole = prepare(data, Options())
    assert whole.stream is None
    monkeypatch.setattr(larger, "_MOST_BYTES", 40 * SIZE * SIZE)
    monkeypatch.setattr(larger, "_WORKERS", 1)
    assert is_larger(data)
    assert not is_larger(data, (3, 3))
    ready = prepare(data, Options(test_share=0.5))
    assert ready.stream is not None
    assert ready.test is not None
    assert len(ready.train) + len(ready.test) == 20  # ten of a kind
    assert ready.facts()["rows"] == {"labelled": 30 - len(ready.test), "unlabelled": 60, "test": len(ready.test)}
    assert "plan and report are based on 20 of 90 rows; all are learned from" in ready.notes
    names = whole.train.names
    np.testing.assert_array_equal(ready.stream.batch([0, 7, 89]).x, whole.train.x[[0, 7, 89]])
    np.testing.assert_array_equal(ready.stream.batch([0, 7, 89]).y, whole.train.known[[0, 7, 89]])
    held = [names.index(name) for name in ready.test.names]
    assert not np.isin(held, ready.stream.labelled).any()
    model = DSSLClassifier(whole.space, steps=60, network="linear", random_state=0).fit(ready.stream)
    assert model.score(whole.train.x, whole.train.y) > 0.9


def test_processes_decode_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pictures(tmp_path / "d")
    whole = prepare(data, Options())
    monkeypatch.setattr(larger, "_MOST_BYTES", 40 * SIZE * SIZE)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    stream = prepare(data, Options()).stream
    assert isinstance(stream, larger.PictureData)
    assert stream._workers == 2
    try:
        np.testing.assert_array_equal(stream.batch(np.arange(90)).x, whole.train.x)
    finally:
        stream.close()


def test_every_class_is_known_though_the_sample_lacks_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pictures(tmp_path / "d")
    (data / "rare").mkdir()
    Image.fromarray(np.full((SIZE, SIZE), 99, np.uint8)).save(data / "rare" / "x.png")
    monkeypatch.setattr(larger, "_MOST_BYTES", 16 * SIZE * SIZE)  # four of a kind
    for seed in range(3):
        ready = prepare(data, Options(seed=seed))
        assert ready.labelling.space.columns == ("class=dark", "class=light", "class=rare")
        assert ready.stream is not None
        assert len(ready.stream.labelled) == 31


def test_what_a_large_folder_cannot_do_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pictures(tmp_path / "d")
    monkeypatch.setattr(larger, "_MOST_BYTES", 100)
    with pytest.raises(DataError, match="too large for --unlabelled"):
        prepare(data, Options(unlabelled=data))


def test_a_sample_of_parquet_has_labelled_rows_and_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({"a": range(100), "y": [("b", "c")[i % 2] if i < 40 else None for i in range(100)]})
    frame.write_parquet(tmp_path / "d.parquet")
    assert not is_larger(tmp_path / "d.parquet")
    monkeypatch.setattr(larger, "_MOST_CELLS", 150)
    monkeypatch.setattr(larger, "_SAMPLE", 10)
    assert is_larger(tmp_path / "d.parquet")
    found = sample(tmp_path / "d.parquet", ["Y "], None, None, 0)
    assert found.frame["y"].is_not_null().sum() == len(found) - 10 == 10
    assert found.rows is not None
    assert found.frame["a"].to_list() == found.rows.tolist()
