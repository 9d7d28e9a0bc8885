"""A saved model on a Ray cluster of two nodes: the same answers, whoever dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dssl.app.cluster import mapping
from dssl.app.commands.predict import predict
from dssl.app.trained import Question, Trained
from dssl.data.tables import CHUNK
from dssl.errors import DataError
from dssl.models.estimators import DSSLClassifier
from dssl.models.files.saved import save

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own
ROWS = 20 * CHUNK + 7  # more tasks than actors


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = np.random.default_rng(0).normal(size=(200, 3))
    frame = pl.DataFrame(x, schema=["a", "b", "c"])
    fitted = DSSLClassifier(steps=30, random_state=0, calibrate=False).fit(frame, np.where(x[:, 0] > 0, "up", "down"))
    return save(fitted, tmp_path_factory.mktemp("model") / "saved")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    x = np.random.default_rng(1).normal(size=(ROWS, 3)).astype(np.float32)
    frame = pl.DataFrame(x, schema=["a", "b", "c"]).with_columns(key=pl.Series(range(ROWS)))
    for i, start in enumerate(range(0, ROWS, 50_000)):
        frame[start : start + 50_000].write_parquet(folder / f"part-{i}.parquet")
    return folder


def test_the_command_gives_the_same_file(cluster: Any, model: Path, parts: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    predict(model, parts, out=one, proba=True, id="key")
    predict(model, parts, out=two, proba=True, id="key", engine="ray")
    assert one.read_bytes() == two.read_bytes()
    assert cluster.is_initialized()  # it was not started by the command


def test_a_killed_worker_loses_and_doubles_no_row(
    cluster: Any, model: Path, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker, whole = str(tmp_path / "killed"), mapping._Slices

    class Mortal(whole):  # type: ignore[misc, valid-type]
        """Dies in the midst of its work, once."""

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            import os
            import signal

            out: dict[str, Any] = super().__call__(batch)
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return out
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("never reached")

    monkeypatch.setattr(mapping, "_Slices", Mortal)
    found = pl.concat(mapping.frames(Trained.open(model), model, parts, Question(row_id="key")))
    assert Path(marker).exists()
    assert found["key"].to_list() == list(range(ROWS))
    monkeypatch.undo()
    assert found.equals(pl.concat(mapping.frames(Trained.open(model), model, parts, Question(row_id="key"))))


def test_a_dataset_gets_columns_of_labels(cluster: Any, model: Path, parts: Path) -> None:
    found = mapping.predict(cluster.data.read_parquet(str(parts)), model, proba=True)
    rows = pl.concat([pl.DataFrame(pl.from_arrow(b)) for b in found.iter_batches(batch_format="pyarrow")]).sort("key")
    trained = Trained.open(model)
    alone = pl.concat([trained.predict(table, "key", proba=True) for table in trained.chunks(parts)])
    assert rows.select(alone.columns).equals(alone)
    assert rows.columns[:4] == ["a", "b", "c", "key"]


def test_what_is_wrong_with_a_row_is_said_as_without_ray(cluster: Any, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    pl.DataFrame({"a": [1.0, None], "b": [1.0, 2.0], "c": [0.0, 1.0]}).write_parquet(path)
    with pytest.raises(DataError, match="row 2: 'a' is empty\nFill it in"):
        list(mapping.frames(Trained.open(model), model, path, Question()))


def test_only_parquet_is_shared_out(cluster: Any, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c\n1,2,3\n")
    with pytest.raises(DataError, match=r"is not Parquet, .*\nGive Parquet files, or leave out --engine ray"):
        list(mapping.frames(Trained.open(model), model, path, Question()))
    empty = tmp_path / "empty.parquet"
    pl.DataFrame({"a": [], "b": [], "c": []}).write_parquet(empty)
    with pytest.raises(DataError, match="has no rows"):
        list(mapping.frames(Trained.open(model), model, empty, Question()))


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(DataError, match=r"Ray is not installed\nInstall it: pip install 'dssl\[ray\]'"):
        mapping.require_ray()
