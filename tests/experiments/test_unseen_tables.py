"""Unseen tables: KEEL's files become numbers and classes, half of them report, and the page's table adds up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import unseen_tables as module


def folder(path: Path) -> Path:
    random = np.random.default_rng(0)
    for name in ("alpha", "beta", "gamma", "iris"):
        lines = []
        for row in range(150):
            size, kind = random.normal(), random.choice(["red", "blue"])
            cell = "<null>" if row == 3 else f"{size:.3f}"
            lines.append(f"{cell}, {kind},{'yes' if size > 0 else 'no'}")
        (path / f"{name}.dat").write_text("\n".join(lines) + "\n")
    return path


def test_every_second_name_reports(tmp_path: Path) -> None:
    assert module.names(folder(tmp_path)) == ["beta"]


def test_cells_become_numbers(tmp_path: Path) -> None:
    x, y = module.read(folder(tmp_path) / "beta.dat")
    assert x.shape == (150, 3)
    assert x[3, 0] == pytest.approx(np.delete(x[:, 0], 3).mean())
    assert (x[:, 1] + x[:, 2] == 1).all()
    np.testing.assert_array_equal(np.delete(y, 3), np.delete(x[:, 0] > 0, 3))


def test_test_rows_are_others_than_those_to_learn_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.FOLDER, str(folder(tmp_path)))
    few, every = (module.cut(0, name="beta", labels=labels) for labels in module.LABELS)
    assert (len(few.X_test), few.labelled, few.unlabelled, every.unlabelled) == (50, 40, 60, 0)
    np.testing.assert_array_equal(few.X_test, every.X_test)
    train, test = ({tuple(row) for row in part} for part in (few.X_train, few.X_test))
    assert not train & test
    assert (module.cut(1, name="beta", labels=40).X_test != few.X_test).any()


def test_runs_and_their_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.FOLDER, str(folder(tmp_path)))
    found = {name: module.one("beta, 40", name, 0)["score"] for name in ("constant", "logistic")}
    assert found["logistic"] > 0.8 > found["constant"]
    told = {**dict.fromkeys(module.SYSTEMS, 0.5), "default": 0.75, "forest": 0.77}
    runs = [{"case": "beta, 40", "system": name, "seed": 0, "score": score} for name, score in told.items()]
    text = module.table(runs, 40)
    assert "| beta | 0.750 | +25.0 | +25.0 | +25.0 | -2.0 | +25.0 | +25.0 |" in text
    assert "| not a point behind, of 1 |  | 1 | 1 | 1 | 0 | 1 | 1 |" in text
    assert module.table(runs, 1500) == ""
