"""Models that released versions saved load for ever, and answer as they did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dssl import load
from dssl.app.trained import Trained

KEPT = Path(__file__).parent / "kept"
VERSIONS = ("0.1.0",)
KINDS = ("classes", "blended", "rules", "learned", "mixture", "hierarchy", "image")
CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # other processors and libraries round differently


def test_every_kept_folder_is_checked() -> None:
    assert sorted(path.name for path in KEPT.iterdir() if path.is_dir() and path.name[0].isdigit()) == sorted(VERSIONS)
    for version in VERSIONS:
        assert {path.name for path in (KEPT / version).iterdir()} == {*KINDS, "table"}


def alike(found: Any, said: Any) -> None:
    """The same probabilities; models of several variables answer with a list."""
    if isinstance(found, list):
        assert len(found) == len(said)
        for ours, theirs in zip(found, said):
            alike(ours, theirs)
    else:
        np.testing.assert_allclose(found, said, **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_saved_model_answers_as_it_did(version: str, kind: str) -> None:
    folder = KEPT / version / kind
    model, rows = load(folder / "model"), np.load(folder / "rows.npy")
    answers = json.loads((folder / "answers.json").read_text())
    assert np.asarray(model.predict(rows)).tolist() == answers["labels"]
    alike(model.predict_proba(rows), answers["probabilities"])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_run_of_a_command_answers_as_it_did(version: str, tmp_path: Path) -> None:
    """Numbers, categories and a text, read as they were read then."""
    folder = KEPT / version / "table"
    from dssl.app.cli import main

    assert main(["predict", str(folder / "run"), str(folder / "rows.csv"), "--out", str(tmp_path / "answers.csv")]) == 0
    ours, theirs = (pl.read_csv(place) for place in (tmp_path / "answers.csv", folder / "answers.csv"))
    assert ours.columns == theirs.columns
    for name in theirs.columns:
        if theirs[name].dtype.is_float():
            np.testing.assert_allclose(ours[name], theirs[name], **CLOSE)
        else:
            assert ours[name].to_list() == theirs[name].to_list()
    assert tuple(Trained.open(folder / "run").model.space_.columns) == ("warm", "hot")


def test_other_answers_would_be_seen() -> None:
    with pytest.raises(AssertionError):
        alike([np.array([0.5, 0.2])], [[0.5, 0.2002]])
