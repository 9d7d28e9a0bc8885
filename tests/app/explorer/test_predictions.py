"""Single predictions of a run: the model's own numbers, the row that was asked for, and the rules that changed it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dssl import DSSLClassifier, load, save
from dssl.app.explorer.predictions import Run
from dssl.app.explorer.spaces import Malformed
from dssl.data.preprocessing import Preprocessing
from dssl.data.tables import read
from dssl.errors import DataError


@pytest.fixture(scope="module")
def run(run_folder: Path) -> Run:
    return Run.open(run_folder)


def test_rows_are_predicted_as_the_model_does(run: Run, run_folder: Path) -> None:
    model = load(run_folder / "model")
    table = read(run_folder.parent / "animals.csv")
    x = Preprocessing.load(run_folder / "preprocessing.json")(table)
    for row in (0, 17, 79):
        said = run.prediction({"row": row + 2})  # line 1 is the header
        assert said["place"] == f"line {row + 2}"
        assert said["theta"] == pytest.approx(model.predict_theta(x[row : row + 1])[0].tolist(), abs=1e-5)
        assert said["marginals"] == pytest.approx(model.predict_proba(x[row : row + 1])[0].tolist(), abs=1e-5)
        best = model.decoder_.best(model._logits(x[row : row + 1]))[0]
        assert said["final"] == best.astype(int).tolist()
        assert said["cells"]["weight"] == table.frame["weight"][row]


def test_every_changed_label_has_a_reason(run: Run) -> None:
    changed = 0
    for row in range(2, 82):
        said = run.prediction({"row": row})
        different = [i for i, (a, b) in enumerate(zip(said["raw"], said["final"])) if a != b]
        assert [reason["variable"] for reason in said["reasons"]] == different
        assert bool(said["broken"]) == bool(different)
        changed += bool(different)
    assert changed, "the tiny model should break a rule somewhere, or this test shows nothing"


def test_typed_values_equal_the_row_they_came_from(run: Run) -> None:
    from_file = run.prediction({"row": 9})
    names = [column["name"] for column in run.described({})["inputs"]]
    typed = run.prediction({"values": {name: from_file["cells"][name] for name in names}})
    assert typed["theta"] == from_file["theta"]
    assert typed["final"] == from_file["final"]


def test_empty_and_unknown_values_are_noted(run: Run) -> None:
    said = run.prediction({"values": {"home": "moon"}})
    assert any("'weight'" in note for note in said["notes"])
    assert any("not in the training data" in note for note in said["notes"])


def test_a_description_names_inputs_rules_and_rows(run: Run) -> None:
    said = run.described({})
    assert said["title"] == "animals.csv"
    assert said["report"]
    assert said["rows"]
    assert [column["kind"] for column in said["inputs"]] == ["numeric", "numeric", "categorical"]
    assert said["inputs"][2]["values"] == ["land", "sea"]
    assert [rule["text"] for rule in said["rules"]] == ["legs -> !fins", "legs | fins | wings"]
    assert said["unsure"]
    assert all(2 <= row["row"] <= 81 for row in said["unsure"])
    json.dumps(said, allow_nan=False)


@pytest.mark.parametrize("row", [-1, 1.5, "2", True, None, 10**9])
def test_a_row_must_be_a_whole_number(run: Run, row: object) -> None:
    with pytest.raises(Malformed, match="'row' must be a whole number"):
        run.prediction({"row": row})


@pytest.mark.parametrize("row", [0, 1, 82, 5000])
def test_a_row_outside_the_file_is_told_its_bounds(run: Run, row: int) -> None:
    with pytest.raises(DataError, match=r"has no row \d+\nIts rows have the numbers 2 to 81"):
        run.prediction({"row": row})


@pytest.mark.parametrize(
    "request_", [{}, {"values": []}, {"values": {"weight": 3}}, {"values": {"weight": "1" * 20_001}}]
)
def test_values_must_be_texts_by_column(run: Run, request_: dict[str, object]) -> None:
    with pytest.raises(Malformed, match="values"):
        run.prediction(request_)


def test_a_wrong_number_is_told_so(run: Run) -> None:
    with pytest.raises(DataError, match="column 'weight' held numbers in training, but here 'heavy'"):
        run.prediction({"values": {"weight": "heavy"}})


# ---- other folders ----


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model saved from Python, without a run around it."""
    x = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
    model = DSSLClassifier(steps=5, random_state=0).fit(x, np.where(x[:, 0] > 0, "near", "far"))
    return save(model, tmp_path_factory.mktemp("bare") / "pets")


def test_a_model_without_a_run_is_opened(bare: Path) -> None:
    run = Run.open(bare)
    said = run.described({})
    assert (said["title"], said["report"], said["rows"]) == ("pets", False, False)
    assert [column["name"] for column in said["inputs"]] == ["x0", "x1"]
    answer = run.prediction({"values": {"x0": "0.5", "x1": "-1"}})
    expected = load(bare).predict_theta(np.array([[0.5, -1.0]], dtype=np.float32))[0]
    assert answer["theta"] == pytest.approx(expected.tolist(), abs=1e-6)
    with pytest.raises(DataError, match="the data of this run was not found"):
        run.prediction({"row": 2})


def test_data_beside_the_run_is_found(bare: Path, tmp_path: Path) -> None:
    folder = tmp_path / "moved"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"data": "elsewhere/gone.csv"}))
    run = Run.open(bare)
    assert run.data is None
    pl.DataFrame({"x0": [1.0], "x1": [2.0]}).write_csv(tmp_path / "gone.csv")
    from dssl.app.explorer.predictions import _data

    assert _data(folder) == (tmp_path / "gone.csv").resolve()


@pytest.mark.parametrize("content", ["", "[]", '{"data": 3}', '{"other": 1}', "\x00"])
def test_a_damaged_record_means_no_data(tmp_path: Path, content: str) -> None:
    from dssl.app.explorer.predictions import _data

    (tmp_path / "run.json").write_text(content)
    assert _data(tmp_path) is None


def test_a_damaged_summary_is_done_without(run_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run_folder, tmp_path / "copy")
    (tmp_path / "copy" / "summary.json").write_text("{")
    run = Run.open(tmp_path / "copy")
    assert run.described({})["title"] == "copy"
    assert run.prediction({"row": 2})["final"] == Run.open(run_folder).prediction({"row": 2})["final"]


def test_very_wide_labels_show_what_changed_and_what_holds() -> None:
    from dssl.app.explorer.predictions import MOST_SHOWN, _shown

    raw, final = [0] * 2000, [0] * 2000
    raw[1500], final[3] = 1, 1
    assert _shown(2000, raw, final) == [3, 1500]
    assert len(_shown(2000, [1] * 2000, [1] * 2000)) == MOST_SHOWN
    assert _shown(5, [0, 1], [0, 0]) == [0, 1]
