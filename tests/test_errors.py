"""The two errors, how their messages look, and that every one of the logic room's is in the tables."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import dssl.logic
from dssl.errors import DataError, RuleError
from logic.messages import CALLS, TEXTS


def test_a_message_has_place_line_caret_and_remedy() -> None:
    error = RuleError("no such thing", remedy="Try another.", line=3, column=6, source="a -> b")
    assert str(error) == "line 3, column 6: no such thing\n  a -> b\n       ^\nTry another."
    assert (error.reason, error.remedy, error.line, error.column, error.source) == (
        "no such thing", "Try another.", 3, 6, "a -> b",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuleError("why"), "why"),
        (RuleError("why", remedy="Do."), "why\nDo."),
        (RuleError("why", source="a -> b"), "why\n  a -> b"),
        (RuleError("why", line=1, column=1, source="\ta"), "line 1, column 1: why\n   a\n  ^"),
        (RuleError("why", line=1, column=1, source=""), "line 1, column 1: why\n  \n  ^"),
    ],
)
def test_what_is_not_known_is_left_out(error: RuleError, message: str) -> None:
    assert str(error) == message


@pytest.mark.parametrize("column", [1, 40, 51, 52, 500, 951, 1000, 1001])
def test_the_caret_stands_below_its_character_in_long_lines(column: int) -> None:
    source = "".join(chr(0x4E00 + i) for i in range(1000))
    _, text, caret = str(RuleError("why", line=1, column=column, source=source)).splitlines()
    assert len(text) <= 104
    place = caret.index("^")
    if column <= 1000:
        assert text[place] == source[column - 1]
    else:  # just past the end
        assert place == len(text)


def test_both_are_value_errors() -> None:
    assert issubclass(RuleError, ValueError)
    assert issubclass(DataError, ValueError)


# ---- nothing missing from the tables ----


def reasons(source: str) -> Iterator[str]:
    """A pattern for every reason that a module gives to fail, RuleError or DataError."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name not in ("fail", "RuleError", "DataError"):
            continue
        texts = [arg for arg in node.args if isinstance(arg, ast.JoinedStr) or _is_text(arg)]
        if texts:  # a reason handed on from elsewhere is found there
            yield _pattern(texts[0])


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _pattern(node: ast.expr) -> str:
    """The first line of a message, with anything where a value is filled in."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    text = "".join(re.escape(part.value) if _is_text(part) else ".*" for part in parts)
    return text.partition("\\\n")[0]


def missing(source: str, known: list[str]) -> list[str]:
    return [pattern for pattern in reasons(source) if not any(re.search(pattern, reason) for reason in known)]


def test_every_error_of_the_logic_room_is_tested() -> None:
    known = [case.reason for case in TEXTS] + [case.reason for case in CALLS]
    room = Path(dssl.logic.__file__).parent
    modules = sorted(room.rglob("*.py"))
    assert {"parser.py", "solver.py", "learning.py", "space.py"} <= {path.name for path in modules}
    assert {path.name: found for path in modules if (found := missing(path.read_text(), known))} == {}


def test_an_error_without_a_test_is_found() -> None:
    assert missing('raise RuleError(f"the {x} is new")', ["the old is old"]) == [r"the\ .*\ is\ new"]
    assert missing('self.fail(at, "new", "Remedy.")', ["old"]) == ["new"]
    assert missing('raise DataError(f"the {x} is new")', ["the 3 is new"]) == []


def test_every_extra_that_a_message_names_exists() -> None:
    root = Path(__file__).parents[1]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        (file.name, extra)
        for file in (root / "src").rglob("*.py")
        for extra in re.findall(r"dssl\[(\w+)\]", file.read_text())
    }
    assert ("export.py", "export") in named
    assert not [pair for pair in named if pair[1] not in extras]
