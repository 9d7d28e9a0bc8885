"""Rule sets of different kinds, on which predictions must never be invalid."""

from __future__ import annotations

RULE_SETS = {
    "implications": "legs, fins, wings, gills\nlegs -> !fins\ngills -> fins\nwings | fins | legs",
    "classes and attributes": """
digit: 0..9
even, prime, loop
even <-> digit in {0, 2, 4, 6, 8}
prime <-> digit in {2, 3, 5, 7}
loop <-> digit in {0, 4, 6, 8, 9}
""",
    "counts": "a, b, c, d, e, f\nexactly(2, a, b, c)\nat_most(1, d, e, f)\na -> d | e",
    "sums": "x: 0..5\ny: 0..5\nz: 0..10\nx + y = z\nx <= y",
    "hierarchy": "animal, mammal, cat, dog, bird\nmammal -> animal\nbird -> animal\ncat -> mammal\ndog -> mammal\n"
    "!(mammal & bird)\nat_most(1, cat, dog)",
    "one valid label": "a, b, c\na = true\nb = false\nc <-> a",
    "soft rules": "rain, wet, dry\n0.9 :: rain -> wet\nwet ^ dry",
    "no rules": "colour: {red, green, blue}\nround, heavy",
}
