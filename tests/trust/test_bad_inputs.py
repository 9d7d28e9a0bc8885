"""Bad input of every kind: our error with a remedy, in time, from our own code, and nothing left on disk.

The inputs are tables in `bad_*.py`, besides `logic/messages.py` (every error of the rule language) and
`app/commands/test_wrong_uses.py` (five wrong uses of every command).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sklearn
from fuzz.targets import LONGEST, fault_of

from dssl.errors import DataError
from logic.stopwatch import within
from trust import (
    bad_beside,
    bad_circuits,
    bad_columns,
    bad_commands,
    bad_images,
    bad_labels,
    bad_models,
    bad_rules,
    bad_settings,
    bad_streams,
    bad_tables,
    right,
)
from trust.bad import Bad, Typed, nothing, put

TABLES = (
    bad_rules, bad_circuits, bad_labels, bad_settings, bad_tables, bad_columns, bad_images, bad_models, bad_beside,
    bad_streams,
)  # fmt: skip
CASES: list[Bad] = [case for table in TABLES for case in table.CASES]  # type: ignore[attr-defined]
SECONDS = 30  # for any of them: what takes longer counts as hanging
SCIKIT = str(Path(sklearn.__file__).parent)


@pytest.fixture(scope="module", autouse=True)
def _made_first() -> None:
    """Right models and runs are made before anything is timed."""
    right.model()
    right.run()


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Some libraries warn of what they are about to refuse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def listing(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder, with the contents of regular files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in sorted(folder.rglob("*"))
    }


def holds(said: str, text: str) -> None:
    """The pieces of what must be said stand in the text, in this order."""
    at = 0
    for piece in said.split(" … "):
        assert piece
        assert piece in text[at:], f"{piece!r} is not in, or not after the pieces before it: {text[:2000]}"
        at = text.index(piece, at) + len(piece)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_bad_input_is_refused(case: Bad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case.make(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = listing(tmp_path)
    with within(SECONDS), _without_warnings(), pytest.raises(case.kind) as caught:
        case.call(tmp_path)
    assert not fault_of(caught.value, *([SCIKIT] if case.by_scikit else []), remedy=not case.by_scikit)
    holds(case.said, str(caught.value))
    assert listing(tmp_path) == before


@pytest.mark.parametrize("case", bad_commands.CASES, ids=[case.name for case in bad_commands.CASES])
def test_commands_refuse_bad_input(case: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case.make(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = listing(tmp_path)
    with within(SECONDS):
        code, text = bad_commands.typed(case, tmp_path)
    assert code == case.code
    assert text.startswith("error: ")
    assert "Traceback" not in text
    assert len(text) <= LONGEST
    holds(case.said, text)
    assert listing(tmp_path) == before


def test_there_are_hundreds_and_each_is_another() -> None:
    names = Counter(case.name for case in [*CASES, *bad_commands.CASES])
    assert len(names) >= 500
    assert max(names.values()) == 1


# ---- the checks can fail ----


def _fails(case: Bad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test_bad_input_is_refused(case, tmp_path, monkeypatch)


def _refuse(text: str) -> None:
    raise DataError(text)


@pytest.mark.parametrize(
    "case",
    [
        Bad("accepted", nothing, lambda _: None, "x … y"),
        Bad("from inside", nothing, lambda _: int("x"), "invalid … x", ValueError),
        Bad("not ours", nothing, lambda _: _refuse("a fact\nDo this."), "a fact … Do this"),
        Bad("another message", put("m/model.json", "{}"), lambda f: __import__("dssl").load(f / "m"), "no such … Path"),
    ],
    ids=lambda case: case.name,
)
def test_what_is_not_refused_properly_is_found(case: Bad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fails(case, tmp_path, monkeypatch)


def test_a_file_left_behind_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dssl

    def call(folder: Path) -> None:
        (folder / "left").write_text("half")
        dssl.load(folder)

    _fails(Bad("left", nothing, call, "is not a saved model … Check"), tmp_path, monkeypatch)
    fine = tmp_path / "fine"
    fine.mkdir()
    fits = Bad("fine", nothing, lambda folder: dssl.load(folder), "is not a saved model … Check")
    test_bad_input_is_refused(fits, fine, monkeypatch)
