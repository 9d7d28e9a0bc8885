"""The projects in examples/: each runs from its folder's files alone, and does what its README says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def table(name: str) -> dict[str, list[float]]:
    """What an example's script prints in its table: numbers by the name of the row."""
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:dssl", EXAMPLES / name / "train.py", "--quick"],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    rows = (re.fullmatch(r"(\S.*?)((?:\s+[\d.]+%?)+)", line) for line in done.stdout.splitlines())
    return {row[1]: [float(value.rstrip("%")) for value in row[2].split()] for row in rows if row}


def test_animals() -> None:
    found = table("animals")
    assert len(found) == 3
    for name, (right, raw, invalid) in found.items():
        assert right > 50, name  # of 16 labels
        assert 0 <= raw < 10
        assert invalid == 0 or "rules" not in name, "a prediction breaks a rule"


def test_taxonomy() -> None:
    found = table("taxonomy")
    alone, rules, unlabelled = (found[name] for name in found)
    assert alone[1] > 10, "without rules some sets of tags are invalid"
    assert rules[1] == unlabelled[1] == 0
    assert rules[0] > alone[0] + 10


def test_digit_sums() -> None:
    ((digits, sums, invalid),) = table("digit_sums").values()
    assert digits > 80, "chance is 10"
    assert sums > 65, "chance is about 7"
    assert invalid == 0


def test_tables() -> None:
    found = table("tables")
    assert list(found) == ["shop", "tickets", "shapes", "meters"]
    for name, (ours, theirs) in found.items():
        assert ours > theirs - 6, name  # of 600 rows, or 300: three standard errors of the difference


@pytest.mark.parametrize(("name", "files"), [("animals", ["animals.csv"]), ("taxonomy", ["products.csv", "test.csv"])])
def test_data_are_as_their_script_makes_them(name: str, files: list[str], tmp_path: Path) -> None:
    (tmp_path / "make.py").write_bytes((EXAMPLES / name / "make.py").read_bytes())
    subprocess.run([sys.executable, tmp_path / "make.py"], check=True)
    for file in files:
        assert (tmp_path / file).read_bytes() == (EXAMPLES / name / file).read_bytes()
