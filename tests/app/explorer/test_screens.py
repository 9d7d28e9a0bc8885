"""Rows on open pages: two people are given different ones."""

from __future__ import annotations

import pytest

from dssl.app.explorer import screens
from dssl.app.explorer.screens import Screens


def test_a_row_is_taken_for_others_until_its_page_moves_on() -> None:
    here = Screens()
    here.show("a", 5)
    assert (here.taken("a"), here.taken("b")) == ([], [5])
    here.show("b", 7)
    here.show("a", 6)
    assert here.taken("c") == [6, 7]


def test_pages_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Screens()
    here.show("a", 5)
    monkeypatch.setattr(screens, "KEPT_S", 0.0)
    assert here.taken("b") == []
    monkeypatch.setattr(screens, "_MOST", 3)
    monkeypatch.setattr(screens, "KEPT_S", 600.0)
    for i in range(9):
        here.show(f"p{i}", i)
    assert here.taken("") == [6, 7, 8]
