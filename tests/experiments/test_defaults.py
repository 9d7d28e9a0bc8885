"""The comparison of the defaults: paired by seed, counted as asked, and told truly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import defaults
import numpy as np
import pytest
from cases import CASES
from defaults import Runs, goals, keys, wanted
from ledger import KEPT
from systems import CONSTANT, DEFAULT, FREE, LOGISTIC, SUPERVISED

Scores = dict[tuple[str, str], Sequence[float]]


def runs(scores: Scores, **more: Any) -> Runs:
    """Runs with these scores, seed by seed."""
    rest = {"calibration": 0.03, "took": 1.0, "labelled": 10, "unlabelled": 90, "data": 7} | more
    return Runs(
        {"case": case, "system": system, "seed": seed, "score": score} | rest
        for (case, system), found in scores.items()
        for seed, score in enumerate(found)
    )


def told(found: Runs) -> dict[str, defaults.Goal]:
    return {goal.name: goal for goal in goals(found)}


def test_differences_are_paired_by_seed() -> None:
    found = runs({("moons", DEFAULT): (0.9, 0.8, 0.7), ("moons", SUPERVISED): (0.8, 0.6)})
    gap = found.difference("moons", DEFAULT, SUPERVISED)
    assert gap is not None
    assert (gap.mean, gap.error, gap.seeds) == pytest.approx((0.15, 0.05, 2))
    assert (gap.above, gap.below) == (True, False)
    assert str(gap) == "+15.0 ± 5.0"
    assert found.difference("moons", DEFAULT, LOGISTIC) is None


def test_one_seed_tells_nothing() -> None:
    gap = runs({("moons", DEFAULT): (0.2,), ("moons", CONSTANT): (0.9,)}).difference("moons", DEFAULT, CONSTANT)
    assert gap is not None
    assert not gap.below
    assert np.isnan(gap.error)


def test_runs_of_other_rows_are_not_paired() -> None:
    found = runs({("moons", DEFAULT): (0.9, 0.8)})
    found.by |= runs({("moons", SUPERVISED): (0.9, 0.8)}, data=8).by
    with pytest.raises(ValueError, match=r"had other labels on 'moons' with seed 0\n.*--again 'default' 'supervised'"):
        found.difference("moons", DEFAULT, SUPERVISED)


def test_what_hurts_is_named() -> None:
    found = runs(
        {
            ("moons", DEFAULT): (0.9, 0.91),
            ("moons", SUPERVISED): (0.91, 0.919),  # below by .95 points, sure
            ("circles", DEFAULT): (0.9, 0.9),
            ("circles", SUPERVISED): (0.99, 0.86),  # below by 2.5 points, unsure
            ("copies of the class", DEFAULT): (0.5, 0.51),
            ("copies of the class", FREE): (0.6, 0.62),  # below by 10.5 points, sure
            ("blobs", DEFAULT): (0.9, 0.9),
            ("blobs", CONSTANT): (0.1, 0.2),
        }
    )
    hurt = told(found)["below constant, supervised or without rules by more than two standard errors"]
    assert hurt.found == "2 of 4 comparisons; chance explains 0"
    assert not hurt.met
    assert [line.partition(":")[0] for line in hurt.but] == ["copies of the class", "moons"]
    points = told(found)["below one of these by more than a point"]
    assert points.found == "2 of 4 comparisons, 1 of them by more than two standard errors"
    assert not points.met


def test_chance_explains_three_of_120() -> None:
    names = list(CASES)[:40]
    scores: Scores = {(name, system): (0.8, 0.81) for name in names for system in (DEFAULT, CONSTANT, FREE)}
    scores |= {(name, SUPERVISED): (0.8, 0.81) if i > 2 else (0.805, 0.8151) for i, name in enumerate(names)}
    hurt, points, *_ = goals(runs(scores))
    assert hurt.found == "3 of 120 comparisons; chance explains 3"
    assert hurt.met
    assert points.met
    scores[names[3], SUPERVISED] = (0.805, 0.8151)
    assert not goals(runs(scores))[0].met


def test_unlabelled_rows_and_rules_are_counted_where_there_are_some() -> None:
    scores: Scores = {
        ("moons", DEFAULT): (0.9, 0.91),
        ("moons", SUPERVISED): (0.8, 0.82),
        ("tree, 100", DEFAULT): (0.9, 0.91),
        ("tree, 100", SUPERVISED): (0.9, 0.91),
        ("tree, 100", FREE): (0.8, 0.82),
    }
    found = told(runs(scores))
    assert found["above supervised, where unlabelled rows are many"].found == "1 of 2 cases; 60 % are wanted"
    assert not found["above supervised, where unlabelled rows are many"].met
    assert found["above without rules"].found == "1 of 1 cases; 50 % are wanted"
    assert found["above without rules"].met
    few = told(runs(scores, labelled=40, unlabelled=60))
    assert "above supervised, where unlabelled rows are many" not in few


def test_the_best_peer_is_the_one_to_beat() -> None:
    scores: Scores = {
        ("moons", DEFAULT): (0.9, 0.9),
        ("moons", "self-training"): (0.5, 0.6),
        ("moons", "spreading, knn"): (0.8, 0.9),
        ("moons", "SVC"): (0.95, 0.9),
        ("tree, 100", DEFAULT): (0.1, 0.1),
        ("tree, 100", LOGISTIC): (0.9, 0.9),  # peers do not apply, so the case does not count
    }
    found = told(runs(scores))
    assert found["ahead of every semi-supervised peer"].found == "1 of 1 cases; 80 % are wanted"
    assert found["ahead of every peer, supervised ones too"].but == ("moons: -2.5 ± 2.5 of SVC",)
    assert not found["ahead of every peer, supervised ones too"].met
    assert "| -2.5 ± 2.5 (SVC) |" in defaults.table(runs(scores))


def test_calibration_and_funcat_have_goals() -> None:
    good = told(runs({("moons", DEFAULT): (0.9,), ("eisen, 100 %", DEFAULT): (0.31, 0.32)}))
    assert good["calibration error"].met
    assert good["eisen, 100 %"].found == "0.3150; 0.310 is wanted"
    assert good["eisen, 100 %"].met
    bad = told(runs({("moons", DEFAULT): (0.9,), ("derisi, 100 %", DEFAULT): (0.19,)}, calibration=0.2))
    assert bad["calibration error"].but == ("moons: 0.200", "derisi, 100 %: 0.200")
    assert not bad["derisi, 100 %"].met


def test_the_goals_name_cases_that_there_are() -> None:
    assert set(defaults.FUNCAT) <= set(CASES)


def test_which_runs_are_asked_for() -> None:
    assert {case.side for case in wanted([], "report", None)} == {"report"}
    assert [case.name for case in wanted(["zoo", "moons"], "all", None)] == ["moons", "zoo, 14", "zoo, 34"]
    assert [case.name for case in wanted(["zoo", "moons"], "all", "rules")] == ["zoo, 14", "zoo, 34"]
    with pytest.raises(SystemExit, match="no case begins with 'zo0'\nThere are: digits, 20; "):
        wanted(["zo0"], "all", None)
    asked = keys([CASES["moons"], CASES["zoo, 14"]], [SUPERVISED, FREE], range(3, 5))
    assert [tuple(key.values()) for key in asked[:3]] == [
        ("moons", SUPERVISED, 3),
        ("zoo, 14", SUPERVISED, 3),
        ("zoo, 14", FREE, 3),
    ]


def test_runs_are_made_kept_shown_and_made_again(tmp_path: Path) -> None:
    def command(*words: str) -> str:
        script, out = Path(defaults.__file__), tmp_path / "runs.jsonl"
        run = [sys.executable, script, "--cases", "moons", "--jobs", "1", "--seeds", "2", "--out", out, *words]
        done = subprocess.run(
            run, capture_output=True, text=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
        return done.stdout

    kept = {path: path.stat().st_mtime_ns for path in KEPT.iterdir()}
    first = command("--systems", CONSTANT, LOGISTIC)
    assert "4/4" in first
    assert "| constant | 1 |" in first
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    assert {json.loads(line)["seed"] for line in lines} == {0, 1}
    assert "1/" not in command("--systems", CONSTANT, LOGISTIC)
    assert "1/" not in command("--show")
    assert "2/2" in command("--systems", CONSTANT, LOGISTIC, "--again", LOGISTIC)
    assert "2/2" in command("--systems", CONSTANT, "--first-seed", "5")
    assert {path: path.stat().st_mtime_ns for path in KEPT.iterdir()} == kept
