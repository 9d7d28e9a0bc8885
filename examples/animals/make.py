"""Makes animals.csv: measured and counted things about made-up animals, most of them not yet labelled.

    python examples/animals/make.py

Animals with legs have no fins (the paper's rule); some have wings, and some of everything have gills. What is measured
depends on what they have, with noise; some cells are missing, as they are in the field.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

ROWS, LABELLED, MISSING, SEED = 600, 150, 0.03, 0
HABITATS = ("forest", "lake", "sea", "meadow")


def main() -> None:
    """Writes the file beside this script."""
    random = np.random.default_rng(SEED)
    rows = [_row(random) for _ in range(ROWS)]
    with (Path(__file__).parent / "animals.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for i, row in enumerate(rows):
            shown = {name: "" if _hidden(random, i, name) else value for name, value in row.items()}
            writer.writerow(shown)


def _row(random: np.random.Generator) -> dict[str, object]:
    legs = random.random() < 0.6
    fins = not legs and random.random() < 0.8
    wings = bool(legs and random.random() < 0.5)
    gills = bool(fins and random.random() < 0.7)
    water = 0.8 if fins else 0.15
    habitat = random.choice(HABITATS, p=[(1 - water) / 2, water / 2, water / 2, (1 - water) / 2])
    noise = random.normal(size=4)
    return {
        "weight": round(float(np.exp(1.5 * legs - 1.2 * wings + 0.8 * fins + 0.8 * noise[0])), 2),
        "speed": round(float(5 + 6 * wings + 3 * fins + 2 * legs + 2.5 * noise[1]), 1),
        "smoothness": round(float(1.5 * fins + 1.5 * gills - 1.2 * legs + 1.1 * noise[2]), 2),
        "noise": round(float(2.0 * wings - 1.0 * fins + 1.1 * noise[3]), 2),
        "habitat": habitat,
        "nocturnal": "yes" if random.random() < 0.3 else "no",
        "legs": int(legs),
        "fins": int(fins),
        "wings": int(wings),
        "gills": int(gills),
    }


def _hidden(random: np.random.Generator, i: int, name: str) -> bool:
    """Labels of all but the first rows, some labels of those too, and a few measurements."""
    if name in ("legs", "fins", "wings", "gills"):
        return i >= LABELLED or bool(random.random() < 0.1)
    return name in ("weight", "habitat") and bool(random.random() < MISSING)


if __name__ == "__main__":
    main()
