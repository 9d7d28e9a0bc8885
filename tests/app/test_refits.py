"""A run that learns further: answers in, held-out rows kept out, weights gone on from, changes written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dssl import DataError
from dssl.app.answers import LABEL, AnswerFile
from dssl.app.cli import main
from dssl.app.refits import changes, learns_further, recorded, with_labels, write_changes
from dssl.app.runs import next_folder
from dssl.app.trained import Trained

RULES = "legs, fins\nlegs -> !fins\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run with held-out rows, and answers about two unlabelled rows and one that is held out."""
    folder = tmp_path_factory.mktemp("refits")
    random = np.random.default_rng(0)
    legs = random.random(60) < 0.5
    frame = pl.DataFrame({"weight": np.round(3.0 * legs + random.normal(size=60), 3), "legs": legs.astype(int)})
    frame = frame.with_columns(fins=1 - pl.col("legs"))
    known = [pl.when(pl.int_range(60) < 40).then(pl.col(name)).alias(name) for name in ("legs", "fins")]
    frame.with_columns(*known).write_csv(folder / "pets.csv")
    (folder / "pets.rules").write_text(RULES)
    words = f"fit {folder}/pets.csv --rules {folder}/pets.rules --out {folder}/run --steps 30 --test-share .2 --quiet"
    assert main(words.split()) == 0
    space = Trained.open(folder / "run").model.space_
    file = AnswerFile(folder / "pets.answers.csv", space)
    for row, cells in ((50, ["1", "0"]), (55, ["", "0"]), (2, ["1", "0"]), (3, ["0", "1"])):
        file.add(f"answer-{row}", row, LABEL, cells)
    return folder / "run"


def test_answers_become_labels_of_the_rows_they_are_about(run: Path) -> None:
    prepared = learns_further(run)
    at = {int(number): i for i, number in enumerate(prepared.train.numbers)}
    np.testing.assert_array_equal(prepared.train.known[at[50]], [1, 0])
    np.testing.assert_array_equal(prepared.train.known[at[55]], [np.nan, 0])
    assert prepared.test is not None
    held = set(prepared.test.numbers.tolist())
    assert prepared.beside["refit"]["answers"] == 4 - len(held & {2, 3})
    assert not held & set(at)
    assert prepared.train.y.columns == ["legs", "fins"]


def test_it_goes_on_from_the_last_weights(run: Path) -> None:
    before = Trained.open(run).model.network_.state_dict()
    start = learns_further(run).model()
    assert start.warm_start
    for name, tensor in start.network_.state_dict().items():
        assert (tensor == before[name]).all()


def test_the_command_writes_a_new_run_beside_the_old(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = (run / "run.json").read_bytes()
    assert main(["refit", str(run), "--steps", "20"]) == 0
    said = capsys.readouterr().out
    new = run.with_name("run-2")
    assert "answers beside the data are used" in said
    assert "rows are predicted differently" in said
    assert (run / "run.json").read_bytes() == old
    record = recorded(new)
    assert record["refit"]["of"] == str(run.resolve())
    assert record["rows"]["labelled"] == recorded(run)["rows"]["labelled"] + 2
    facts = json.loads((new / "changes.json").read_text())
    rows, every = changes(run, new)
    assert (facts["rows"], facts["changed"]) == (rows, len(every)) == (60, facts["changed"])
    assert main(["refit", str(new), "--out", str(run)]) == 1  # never over another run
    assert "holds a finished run" in capsys.readouterr().err


def test_changes_are_those_of_two_predictions(run: Path, tmp_path: Path) -> None:
    (tmp_path / "b.rules").write_text("legs, fins\nfins\n!legs\n")  # everything has fins
    words = f"refit {run} --rules {tmp_path}/b.rules --out {tmp_path}/b"
    assert main(words.split()) == 1  # labels break these rules
    assert write_changes(run, run)["changed"] == 0


def test_other_rules_begin_anew(run: Path, tmp_path: Path) -> None:
    (tmp_path / "b.rules").write_text(RULES + "legs | fins\n")
    prepared = learns_further(run, tmp_path / "b.rules")
    assert prepared.start is None
    assert prepared.options.steps == 30


@pytest.mark.parametrize("record", [{}, {"settings": [], "data": "a"}, {"settings": {}}])
def test_a_folder_that_does_not_say_how_it_was_fitted(tmp_path: Path, record: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="does not say how it was fitted"):
        recorded(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match="does not say how it was fitted"):
        recorded(tmp_path)


def test_answers_of_no_row_are_left_out(run: Path) -> None:
    prepared = learns_further(run)
    train, used = with_labels(prepared.train, prepared.space, [999, 0], np.ones((2, 2), np.float32))
    assert used == 0
    np.testing.assert_array_equal(train.known, prepared.train.known)


def test_names_count_up(tmp_path: Path) -> None:
    (tmp_path / "pets-2").mkdir()
    assert next_folder(tmp_path / "pets").name == "pets-3"
