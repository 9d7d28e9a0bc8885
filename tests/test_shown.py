"""Commands in pages are really run: those that fail or print something else are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from shown import fault


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pets.rules").write_text("cat, dog\ncat -> !dog\n")
    (tmp_path / "hello.py").write_text("print('one')\nprint('two')\n")
    return tmp_path


def test_commands_run_in_their_folder(folder: Path) -> None:
    assert fault("$ dssl rules count pets.rules\n3\n$ python hello.py\none\n...", folder) is None
    assert fault("$ python \\\n    hello.py", folder) is None  # nothing is expected of what it prints


def test_what_is_wrong_is_found(folder: Path) -> None:
    assert "but prints:\n3" in (fault("$ dssl rules count pets.rules\n4\n", folder) or "")
    assert "ended with 1" in (fault("$ dssl rules count absent.rules\n", folder) or "")
    assert "absent.py" in (fault("$ python hello.py\none two\n$ python absent.py\n", folder) or "")


def test_a_block_cannot_pretend(folder: Path) -> None:
    with pytest.raises(ValueError, match="cannot be tried"):
        fault("$ rm -rf pets.rules", folder)
