"""What commands say, and where."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from dssl.app.terminal import Terminal, error_text
from dssl.errors import RuleError, in_file


def test_people_are_told_on_stdout_and_warned_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    terminal.say("a [bold] word " + "x" * 300)
    terminal.table("name", "rows", rows=[("legs", 3), ("[red]", 4)])
    terminal.warn("odd")
    terminal.result({"rows": 7})
    shown = capsys.readouterr()
    assert shown.out.startswith("a [bold] word " + "x" * 300 + "\n")  # neither marked up nor wrapped
    assert "[red]" in shown.out
    assert "7" not in shown.out
    assert shown.err == "warning: odd\n"


def test_machines_get_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(as_json=True)
    terminal.say("words")
    terminal.table("name", rows=[("legs",)])
    terminal.warn("odd")
    terminal.result({"path": Path("run"), "label": "é"})
    assert json.loads(capsys.readouterr().out) == {"path": "run", "label": "é", "warnings": ["odd"]}


def test_rows_are_counted_at_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    parts = [[1] * 8192, [1] * 10]
    for screen, shown in ((Screen(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", screen)
        assert list(Terminal().counted(parts)) == parts
        assert ("8,202 rows" in screen.getvalue()) == shown
        assert list(Terminal(quiet=True).counted(parts)) == parts
    monkeypatch.undo()


def test_errors_of_files_name_them_and_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "animals.csv").write_text("")
    error = FileNotFoundError(2, "No such file or directory", str(tmp_path / "animal.csv"))
    assert error_text(error) == (
        f"'{tmp_path / 'animal.csv'}': No such file or directory\n"
        "Did you mean 'animals.csv'? Check the path and its permissions."
    )
    assert error_text(OSError("odd")) == "odd"
    assert error_text(OSError(28, "No space left on device")) == (
        "the output cannot be written: No space left on device\nFree some space, and try again."
    )


def test_errors_of_rules_name_their_file() -> None:
    placed = in_file(RuleError("why", line=2, column=1, source="a"), Path("a.rules"))
    assert str(placed) == "'a.rules', line 2, column 1: why\n  a\n  ^"
    assert str(in_file(RuleError("why"), Path("a.rules"))) == "'a.rules': why"
