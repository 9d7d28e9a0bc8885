"""Former parameters are answered with their new homes, and turns of phrase at which readers stumbled do not return."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from dssl.spellings import refuse_gone, says_where


class Lamp:
    @says_where({"watt": "lumen=…"})
    def __init__(self, lumen: int = 400) -> None:
        self.lumen = lumen


def test_a_former_parameter_names_its_new_home() -> None:
    former: dict[str, Any] = {"watt": 40}
    with pytest.raises(TypeError, match="Lamp has no parameter 'watt' any more\nWrite lumen=…"):
        Lamp(**former)


def test_others_are_as_before() -> None:
    assert (Lamp().lumen, Lamp(3).lumen, Lamp(lumen=5).lumen) == (400, 3, 5)
    assert list(inspect.signature(Lamp).parameters) == ["lumen"]
    unknown: dict[str, Any] = {"colour": 1}
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        Lamp(**unknown)
    refuse_gone("Lamp", {"lumen": 1}, {"watt": "lumen=…"}, ValueError)


# Turns of phrase at which readers stumbled, and how a page, a message or a docstring says the same.
STUMBLING = {
    r"\b(nats?|dots?|seconds?|bytes|pixels|one column|a column) an? (edge|fit|row|seed|side)\b": "one column per edge",
    r"\blearnt\b": "learned",
    r"\bsays? of (a row|rows|labels|this row|the rows)\b": "says about",
    r"\bhears? Ctrl-C\b": "reacts to Ctrl-C",
    r"\bthis is no (answer|error|mistake)\b": "is not an answer",
    r"\bhave more to say\b": "say more",
    r"\bthough chance would\b": "although by chance it would",
    r"\bas unsure as among\b": "as unsure as between that many labels",
    r"\bhalf as long again\b": "adds about half of the time",
    r"\b(says|said|written|saved|made|built) anew\b": "again",
}
ROOT = Path(__file__).parent.parent
PROSE = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md")),
    *(path for folder in ("docs", "examples", "src") for path in sorted((ROOT / folder).rglob("*"))),
]


def stumbles(text: str) -> list[str]:
    """What in a text readers would stumble at, line breaks aside."""
    joined = re.sub(r"\s+", " ", text)
    return [found.group() for pattern in STUMBLING for found in re.finditer(pattern, joined)]


def test_readers_do_not_stumble() -> None:
    read = [path for path in PROSE if path.suffix in (".md", ".py", ".js", ".html")]
    assert len(read) > 200
    assert {path.name: found for path in read if (found := stumbles(path.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize(
    "text", ["log loss in nats a row", "this is no answer", "what it\nsays of rows", "a column an edge", "was learnt"]
)
def test_a_stumbling_block_is_found(text: str) -> None:
    assert len(stumbles(text)) == 1
    assert stumbles("log loss in nats per row; this is not an answer; what it says about rows; learned") == []
