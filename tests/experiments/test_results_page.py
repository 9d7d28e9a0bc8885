"""The page of results is what the stored results say."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import combination
import pytest
import results

ROOT = Path(__file__).parents[2]


def test_page_and_results_agree() -> None:
    assert results.PAGE.read_text() == results.page(), "run python experiments/results.py --write"


def test_every_part_is_run_by_make_reproduce_and_is_a_script() -> None:
    lines = re.findall(r"^\t\S+ reproduce (\w+)(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert list(dict.fromkeys(name for name, _ in lines)) == [*results.PARTS, "results"]
    sets = [word for name, flags in lines if name == "combination" for word in shlex.split(flags)[1:]]
    assert sorted(sets) == sorted(combination.Settings().tasks)  # in parts, but all of it
    for name in results.PARTS:
        assert '__name__ == "__main__"' in (ROOT / "experiments" / f"{name}.py").read_text()


def test_every_picture_of_the_page_is_there() -> None:
    pictures = re.findall(r"\]\((pictures/[^)]+)\)", results.PAGE.read_text())
    assert pictures
    assert [name for name in pictures if not (ROOT / "docs" / name).exists()] == []


def test_new_runs_are_compared_with_those_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, again = tmp_path / "kept", tmp_path / "again"
    for folder, score in ((kept, 0.5), (again, 0.53)):
        folder.mkdir()
        runs = [{"set": "a", "seed": 0, "score": score, "seconds": score * 9}, {"set": "b", "seed": 0, "score": 1.0}]
        (folder / "part.json").write_text(json.dumps({"runs": runs[: 2 - (folder is again)]}))
    monkeypatch.setattr(results, "KEPT", kept)
    assert results.compare("part", again) == "1 of 2 runs, the largest difference of a measure is 0.03"
    assert results.compare("part", tmp_path) == "not run"


def test_a_page_that_differs_is_an_error(tmp_path: Path) -> None:
    code = "import results, pathlib, sys; results.PAGE = pathlib.Path(sys.argv.pop()); results.main()"
    (tmp_path / "page.md").write_text("another page")
    words = [sys.executable, "-c", code, "--check", str(tmp_path / "page.md")]
    done = subprocess.run(words, cwd=ROOT / "experiments", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "page.md is not what the results say: use --write" in done.stderr
