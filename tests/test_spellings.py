"""Former parameters are answered with their new homes."""

from __future__ import annotations

import inspect
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
