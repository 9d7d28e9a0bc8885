"""Spellings that are gone: a former parameter is answered with its new home, not with a bare TypeError."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

_Init = TypeVar("_Init", bound=Callable[..., None])


def says_where(gone: Mapping[str, str]) -> Callable[[_Init], _Init]:
    """Decorates an `__init__`, so that it answers a former parameter with what to write now.

    >>> class Lamp:
    ...     @says_where({"watt": "lumen=…"})
    ...     def __init__(self, lumen=400): ...
    >>> Lamp(watt=40)
    Traceback (most recent call last):
        ...
    TypeError: Lamp has no parameter 'watt' any more
    Write lumen=….
    """

    def decorated(init: _Init) -> _Init:
        @functools.wraps(init)
        def checked(self: Any, *args: Any, **given: Any) -> None:
            refuse_gone(type(self).__name__, given, gone, TypeError)
            init(self, *args, **given)

        return checked  # type: ignore[return-value]

    return decorated


def refuse_gone(name: str, given: Mapping[str, Any], gone: Mapping[str, str], error: type[Exception]) -> None:
    """An error for the first parameter that has a new home."""
    found = next((key for key in given if key in gone), None)
    if found is not None:
        raise error(f"{name} has no parameter {found!r} any more\nWrite {gone[found]}.")
