"""Words of a stream: a slot and flags that do not run into each other."""

from __future__ import annotations

from functools import reduce

from dssl.circuits.evaluate.words import FIRST, HEAD, LAST, SLOT, TAIL, TOUCH


def test_slot_and_flags_fill_a_word_of_32_bits() -> None:
    parts = (SLOT, TOUCH, HEAD, TAIL, FIRST, LAST)
    assert sum(parts) == reduce(int.__or__, parts) == (1 << 32) - 1
    assert all(part.bit_count() == 1 for part in parts[1:])
