"""`dssl predict` and `dssl evaluate`: labels and scores for files, and what is wrong with them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dssl as library
from dssl.app.cli import main
from dssl.app.commands.predict import _to_parquet
from dssl.data import tables
from dssl.data.preprocessing import Preprocessing


def out_of(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[str, str]:
    assert main([str(word) for word in words]) == 0
    shown = capsys.readouterr()
    return shown.out, shown.err


def test_predict_and_evaluate_through_the_script(dssl: Callable[..., Any], trained: Path, folder: Path) -> None:
    done = dssl("predict", trained, folder / "animals.csv")
    assert done.returncode == 0, done.stderr
    found = pl.read_csv(done.stdout.encode())
    assert found.columns == ["name", "legs", "fins", "wings"]
    table = tables.read(folder / "animals.csv")
    x = Preprocessing.load(trained / "preprocessing.json")(table)
    expected = library.load(trained / "model").predict(x)
    assert found.drop("name").equals(expected)
    assert found["name"].to_list() == table.frame["name"].to_list()
    measured = dssl("evaluate", trained, folder / "animals.csv")
    assert measured.returncode == 0, measured.stderr
    assert "of 40 labelled rows are predicted right" in measured.stdout
    assert "rows would break: legs -> !fins" in measured.stdout
    assert "the final predictions in 0" in measured.stdout


def test_labels_come_with_probabilities_or_as_draws(
    capsys: pytest.CaptureFixture[str], trained: Path, folder: Path
) -> None:
    data = folder / "animals.csv"
    found = pl.read_csv(out_of(capsys, "predict", trained, data, "--proba")[0].encode())
    model = library.load(trained / "model")
    x = Preprocessing.load(trained / "preprocessing.json")(tables.read(data))
    np.testing.assert_allclose(
        found.select("P(legs)", "P(fins)", "P(wings)").to_numpy(), model.predict_proba(x), atol=1e-6
    )
    drawn = pl.read_csv(out_of(capsys, "predict", trained, data, "--sample", 3)[0].encode())
    assert drawn.height == 3 * 90
    assert drawn["sample"].to_list()[:4] == [1, 2, 3, 1]
    assert drawn["name"].to_list()[:4] == ["animal 0"] * 3 + ["animal 1"]
    assert not model.space_.check(drawn.select("legs", "fins", "wings").to_dicts())
    assert out_of(capsys, "predict", trained, data, "--sample", 3)[0] == drawn.write_csv()


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_labels_are_written_to_a_file(
    capsys: pytest.CaptureFixture[str], trained: Path, folder: Path, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"labels{suffix}"
    said, _ = out_of(capsys, "predict", trained, folder / "animals.csv", "--out", out)
    assert said == f"90 rows written to {out}\n"
    read = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".jsonl": pl.read_ndjson}[suffix]
    printed = pl.read_csv(out_of(capsys, "predict", trained, folder / "animals.csv")[0].encode())
    assert read(out).equals(printed)  # type: ignore[operator]
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_rows_without_names_in_a_whole_part(
    capsys: pytest.CaptureFixture[str], trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = tmp_path / "new.csv", tmp_path / "labels.parquet"
    data.write_text("name,weight,speed,home\n,1.0,2.0,sea\n,1.0,2.0,sea\na,1.0,2.0,sea\n")
    monkeypatch.setattr("dssl.app.trained.CHUNK", 1)
    assert out_of(capsys, "predict", trained, data, "--out", out)[0].startswith("3 rows")
    assert pl.read_parquet(out)["name"].to_list() == [None, None, "a"]
    drawn = pl.read_csv(out_of(capsys, "predict", trained, data, "--sample", 2)[0].encode())
    assert drawn["name"].to_list() == [None] * 4 + ["a"] * 2


def test_parquet_comes_from_parts_and_errors_of_the_disk_stay_what_they_are() -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

    frames = [pl.DataFrame({"row": [3 * i, 3 * i + 1, 3 * i + 2]}) for i in range(4)]
    file = io.BytesIO()
    assert _to_parquet(iter(frames), file) == 12
    assert pl.read_parquet(file.getvalue())["row"].to_list() == list(range(12))
    with pytest.raises(OSError, match="No space left") as told:
        _to_parquet(iter(frames), Full())
    assert told.value.errno == 28

    def broken() -> Iterator[pl.DataFrame]:
        yield frames[0]
        raise library.DataError("line 4 is wrong\nMend it.")

    with pytest.raises(library.DataError, match="line 4"):
        _to_parquet(broken(), io.BytesIO())


def test_the_answer_does_not_depend_on_the_parts(
    capsys: pytest.CaptureFixture[str], trained: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("predict", trained, folder / "animals.csv")
    whole, _ = out_of(capsys, *words)
    monkeypatch.setattr("dssl.app.trained.CHUNK", 7)
    assert out_of(capsys, *words)[0] == whole
    measured = json.loads(out_of(capsys, "evaluate", trained, folder / "animals.csv", "--json")[0])
    assert measured["rows"] == 90


def test_json(capsys: pytest.CaptureFixture[str], trained: Path, folder: Path) -> None:
    found = json.loads(out_of(capsys, "predict", trained, folder / "animals.csv", "--json")[0])
    assert found["rows"] == len(found["predictions"]) == 90
    assert set(found["predictions"][0]) == {"name", "legs", "fins", "wings"}
    measured = json.loads(out_of(capsys, "evaluate", trained / "model", folder / "animals.csv", "--json")[0])
    assert measured["labelled"] == 40
    known = found["predictions"][:40]
    truth = pl.read_csv(folder / "animals.csv")[:40].select("name", "legs", "fins", "wings").to_dicts()
    assert measured["accuracy"] == np.mean([a == b for a, b in zip(known, truth)])
    assert measured["violations"] == 0


def test_what_new_files_hold_is_put_right_and_said(
    capsys: pytest.CaptureFixture[str], trained: Path, tmp_path: Path
) -> None:
    data = tmp_path / "new.csv"
    data.write_text("speed,home,weight,more\n1.0,moon,2.0,x\n,sea,,y\n")
    out, err = out_of(capsys, "predict", trained, data)
    assert out.splitlines()[0] == "row,legs,fins,wings"
    assert len(out.splitlines()) == 3
    assert "1 cells of 'home' hold a value that was not in the training data" in err
    assert "1 empty cells of 'speed', which had none in training" in err


def test_a_model_saved_from_python(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 30)
    x = random.normal(size=(30, 2)) + 3 * y[:, None]
    model = library.DSSLClassifier(steps=20, random_state=0).fit(x, y)
    library.save(model, tmp_path / "model")
    np.savez(tmp_path / "d.npz", X=x, y=y)
    found = pl.read_csv(out_of(capsys, "predict", tmp_path / "model", tmp_path / "d.npz")[0].encode())
    assert found["class"].to_list() == model.predict(x).tolist()
    measured = json.loads(out_of(capsys, "evaluate", tmp_path / "model", tmp_path / "d.npz", "--json")[0])
    assert measured["accuracy"] == model.score(x, y)


# ---- wrong uses ----


def test_models_that_are_none(fails: Callable[..., str], folder: Path, trained: Path) -> None:
    data = folder / "animals.csv"
    assert "Did you mean 'run'?" in fails("predict", folder / "rum", data)
    assert "is not a saved model" in fails("predict", folder, data)
    assert "is not a saved model" in fails("evaluate", data, data)


def test_data_that_does_not_fit(fails: Callable[..., str], trained: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "new.csv", tmp_path / "labels.csv"
    data.write_text("speed,home\n1.0,sea\n")
    assert "has no column weight, which the model was trained on" in fails("predict", trained, data, "--out", out)
    data.write_text("weight,speed,home\n1.0,2.0,sea\n1.0,fast,sea\n")
    said = fails("predict", trained, data, "--out", out)
    assert f"'{data}', line 3: column 'speed' held numbers in training, but here 'fast'" in said
    data.write_text("weight,speed,home\n1.0,2.0,sea\n")
    assert "has no column 'ident' (--id)" in fails("predict", trained, data, "--id", "ident", "--out", out)
    assert "No such file" in fails("predict", trained, tmp_path / "none.csv", "--out", out)
    data.write_text("weight,speed,home\n")
    assert "has no rows" in fails("predict", trained, data, "--out", out)
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]  # nothing half-written


def test_labels_that_cannot_be_measured(fails: Callable[..., str], trained: Path, tmp_path: Path) -> None:
    data = tmp_path / "new.csv"
    data.write_text("weight,speed,home\n1.0,2.0,sea\n")
    assert "has no column 'legs' (the label)" in fails("evaluate", trained, data)
    data.write_text("weight,speed,home,legs\n1.0,2.0,sea,\n")
    assert "has no labelled row to measure on" in fails("evaluate", trained, data)
    data.write_text("weight,speed,home,legs\n1.0,2.0,sea,four\n")
    assert f"'{data}', line 2, column 'legs': 'legs' cannot be 'four'" in fails("evaluate", trained, data)


def test_wrong_usage_has_code_2(fails: Callable[..., str], trained: Path, folder: Path) -> None:
    words = ("predict", trained, folder / "animals.csv")
    assert "cannot be combined with --proba" in fails(*words, "--sample", 2, "--proba", code=2)
    assert "needs a number of at least 1" in fails(*words, "--sample", 0, code=2)
    assert "is neither .csv, .parquet nor .jsonl" in fails(*words, "--out", "labels.xlsx", code=2)
    assert "is the input file" in fails(*words, "--out", folder / "." / "animals.csv", code=2)
    assert "requires an argument" in fails("predict", trained, code=2)
    assert "Did you mean --proba?" in fails(*words, "--prob", code=2)
    assert "requires an argument" in fails("evaluate", trained, code=2)
    assert "Unused Tokens" in fails("evaluate", trained, folder, folder, code=2)
