"""`dssl explore`, `dssl label`, `dssl report`, `dssl reproduce`, `dssl demo`."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dssl.app.cli import main
from dssl.app.commands import tours


def test_experiments_are_listed_and_run(
    dssl: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = dssl("reproduce")
    assert listed.returncode == 0
    assert re.search(r"^defaults +The measurements behind the defaults", listed.stdout, re.MULTILINE)
    script = tmp_path / "small.py"
    script.write_text("import sys\nsys.exit({1: 0, 2: 7, 4: 9}[len(sys.argv)])  # --full\n")
    monkeypatch.setattr(tours, "_experiments", lambda: {"small": script})
    assert main(["reproduce", "small"]) == 0
    assert main(["reproduce", "small", "--full"]) == 7
    assert main(["reproduce", "small", "--sets", "a", "b"]) == 9


def test_an_experiment_that_there_is_not(fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no experiment 'default'\nDid you mean 'defaults'?" in fails("reproduce", "default")
    monkeypatch.setattr("dssl.__file__", "/nowhere/lib/dssl/__init__.py")
    assert "not part of the installed package\nClone the repository" in fails("reproduce", "defaults")


def test_exploring_serves_a_page_on_this_machine(tmp_path: Path) -> None:
    rules = tmp_path / "a.rules"
    rules.write_text("legs, fins\nlegs -> !fins\n")
    script = Path(sys.executable).with_name("dssl")
    words = [script, "explore", rules, "--port", "0", "--no-browser"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            address = next(m.group() for line in process.stdout if (m := re.search(r"http://[^\s'\"]+", line)))
            with urllib.request.urlopen(address, timeout=60) as page:
                assert b"<html" in page.read()
            assert re.match(r"http://(127\.0\.0\.1|localhost|\[::1\])", address)
        finally:
            process.kill()


def test_exploring_what_is_not_there(fails: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text("a")
    assert "Did you mean 'a.rules'?" in fails("explore", tmp_path / "b.rules")
    assert 'unable to convert "high" into int' in fails("explore", "--port", "high", code=2)


def test_the_demonstration_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[bool] = []
    monkeypatch.setattr("dssl.app.demo.main", lambda: ran.append(True))
    assert main(["demo"]) == 0
    assert ran == [True]


def test_a_report_is_written_anew(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "again.html"
    assert main(["report", str(trained), "--out", str(out), "--no-browser"]) == 0
    assert capsys.readouterr().out == f"report   {out}\n"
    assert out.read_text() == (trained / "report.html").read_text()


def test_what_is_no_run_has_neither_a_report_nor_a_page(fails: Callable[..., str], tmp_path: Path) -> None:
    assert "is not a run: there is no summary.json" in fails("report", tmp_path)
    assert "No such file" in fails("report", tmp_path / "gone")
    assert "No such file" in fails("label", tmp_path / "gone")
    assert "neither a run nor a saved model" in fails("label", tmp_path, "--no-browser")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    assert "is a file\nGive the folder of a run" in fails("label", tmp_path / "a.csv")
    assert "is data, and the explorer opens rules or a run" in fails("explore", tmp_path / "a.csv", "--no-browser")
