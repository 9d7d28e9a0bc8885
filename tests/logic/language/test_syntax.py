"""The tree: loops are joined, and every node knows its token."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from dssl.logic.language import syntax
from dssl.logic.language.syntax import Loops, Node, Number
from dssl.logic.language.tokens import Token

I, J = Token("name", "i", 4), Token("name", "j", 9)


def test_loops_are_joined() -> None:
    one, two = Number(I, 1), Number(J, 2)
    joined = Loops((I,), (one,)) + Loops((J,), (two,), (one,))
    assert joined == Loops((I, J), (one, two), (one,))


def test_every_node_has_its_token_first_and_cannot_be_changed() -> None:
    kinds = [kind for kind in vars(syntax).values() if isinstance(kind, type) and issubclass(kind, Node)]
    assert len(kinds) > 10
    assert all(fields(kind)[0].name == "token" for kind in kinds)
    with pytest.raises(FrozenInstanceError):
        Number(I, 1).value = 2  # type: ignore[misc]
