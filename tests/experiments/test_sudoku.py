"""Reading sudokus: the boards, one small run, and how it is told."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sudoku
import torch
from sudoku import ALL, METHODS, NONE, PRIORS, Settings

SOLVED = np.array([0, 1, 2, 3, 2, 3, 0, 1, 1, 0, 3, 2, 3, 2, 1, 0])


def test_there_are_288_valid_boards() -> None:
    assert len(sudoku.groups()) == 12
    assert all(len(group) == 4 for group in sudoku.groups())
    assert sudoku.squares().shape == (288, 16)
    assert sudoku.is_valid(sudoku.squares()).all()
    assert (sudoku.squares() == SOLVED).all(1).sum() == 1


def test_a_board_is_valid_or_not() -> None:
    rows_only = np.tile([0, 1, 2, 3], 4)
    no_blocks = np.array([0, 1, 2, 3, 1, 2, 3, 0, 2, 3, 0, 1, 3, 0, 1, 2])  # rows and columns are right
    swapped = SOLVED.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    assert sudoku.is_valid(np.array([SOLVED, rows_only, no_blocks, swapped])).tolist() == [True, False, False, False]


def test_boards_are_made_of_different_images() -> None:
    digits = np.random.default_rng(0).integers(0, 10, 2000)
    images, values = sudoku.compose(digits, 20, np.random.default_rng(1))
    assert (digits[images] == values + 1).all()
    assert len(np.unique(images)) == images.size
    assert sudoku.is_valid(values).all()
    with pytest.raises(ValueError):
        sudoku.compose(digits[:100], 20, np.random.default_rng(1))  # too few images


def test_decoding_mends_a_cell() -> None:
    boards = np.array([SOLVED, SOLVED])
    read = boards.copy()
    read[0, 5] = 0  # a 3 is read as 0
    found = sudoku.measure(4 * torch.nn.functional.one_hot(torch.from_numpy(read), 4).float().flatten(1), boards)
    assert found["cells"] == pytest.approx(31 / 32, abs=1e-5)
    assert found["whole"] == found["valid"] == 0.5
    assert found["rules_cells"] == found["rules_whole"] == found["rules_valid"] == 1
    sure = float(np.exp(4) / (np.exp(4) + 3))
    assert found["calibration"] == pytest.approx(abs(31 / 32 - sure), abs=1e-4)


def test_four_cells_are_told() -> None:
    values = np.array([SOLVED, SOLVED[::-1]])
    told = sudoku.known(values, "semantic")
    assert sorted(told[~np.isnan(told)].tolist()) == [1, 2, 3, 4]
    assert np.isnan(told[1]).all()
    assert (sudoku.known(values, ALL)[1] == SOLVED[::-1] + 1).all()


def test_a_run_reads_boards(data_folder: Path) -> None:
    settings = replace(Settings(), boards=(3,), test_boards=4, steps=3, batch=2)
    for method in (NONE, "semantic", "t-norm", "dp2", "pl", ALL):
        found = sudoku.one(0 if method == NONE else 3, method, 0, settings)
        assert set(found) == set(sudoku.MEASURES)
        assert found["rules_valid"] == 1


def test_the_prior_teaches_to_read(data_folder: Path) -> None:
    """Thirty boards and a few steps are enough to be far better than without rules."""
    settings = replace(Settings(), test_boards=20, steps=80, batch=8)
    assert sudoku.one(30, "semantic", 0, settings)["cells"] > sudoku.one(0, NONE, 0, settings)["cells"] + 0.1


def record() -> dict[str, Any]:
    made = replace(Settings(), boards=(5, 300))
    runs = []
    for case in sudoku.cases(made.boards, made, 2):
        score = {NONE: 0.6, ALL: 0.99}.get(case["method"], 0.7 if case["boards"] == 5 else 0.98)
        score += 0.002 * case["seed"] - 0.2 * (case["method"] == "pl" and case["boards"] == 5)
        runs.append(case | dict.fromkeys(sudoku.MEASURES, score) | {"rules_valid": 1.0})
    return {"settings": asdict(made), "runs": runs}


def test_every_prior_has_every_number_of_boards() -> None:
    kinds = {(case["boards"], case["method"]) for case in sudoku.cases((5, 300), Settings(), 1)}
    assert kinds == {(0, NONE), (300, ALL), *((count, method) for count in (5, 300) for method in PRIORS)}
    assert set(METHODS) == {NONE, *PRIORS, ALL}


def test_the_page_tells_of_each_number_of_boards() -> None:
    made = record()
    told = sudoku.page(made)
    assert "| PL, the best board | 50.1 ± 0.1 | 98.1 ± 0.1 |" in told
    assert "* Cells read right without rules 60.1 ± 0.1 %, with 300 boards between 98.1 ± 0.1 %" in told
    assert "With 5 boards they are apart:\n  50.1 ± 0.1 % (*PL, the best board*)" in told
    assert "*DP, T = 10* 2 of 4; *PL, the best board* 2 of 4." in told
    assert "Every board decoded with the rules is valid: met." in told
    made["runs"][0]["rules_valid"] = 0.9
    assert "missed in 1 runs" in sudoku.page(made)


def test_a_figure_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs" / "pictures").mkdir(parents=True)
    monkeypatch.setattr(sudoku, "_HERE", tmp_path / "experiments")
    sudoku.figures(record())
    assert "<svg" in (tmp_path / "docs" / "pictures" / "sudoku.svg").read_text()
