"""Makes products.csv and test.csv: titles of made-up products, tagged in a taxonomy of two levels.

    python examples/taxonomy/make.py

A product has one department and one or two kinds within it. Its title has words of its kinds, words of its department
and words that say nothing; some words are used in several places ("steel", "light", "garden"). One title in ten of
products.csv has tags, and the rest await them.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

ROWS, TEST, LABELLED, SEED = 1500, 500, 0.1, 0
WORDS = {  # department: its own words; kind: its own words
    "kitchen": ("kitchen home cook chef steel dishwasher", {
        "knives": "knife blade chef sharp carving bread steel",
        "pans": "pan skillet nonstick lid induction wok cast iron",
        "coffee": "coffee espresso grinder filter mug barista beans",
    }),
    "outdoor": ("outdoor hiking trail weatherproof travel garden", {
        "tents": "tent dome person waterproof poles groundsheet light",
        "stoves": "stove gas burner pan windshield fuel light",
        "lamps": "lamp led head torch lumen light battery",
    }),
    "garden": ("garden plant lawn patio outdoor green", {
        "tools": "spade rake shears blade steel handle pruning",
        "seeds": "seeds tomato basil organic herb beans grow",
        "furniture": "bench chair table teak cushion folding patio",
    }),
    "office": ("office desk work home study ergonomic", {
        "chairs": "chair swivel lumbar mesh armrest adjustable cushion",
        "lighting": "lamp led desk light dimmable clamp eye",
        "paper": "paper notebook ream ruled recycled pad sheets",
    }),
}  # fmt: skip
FILLER = "new set premium small large black blue pack quality classic pro value gift edition 2 3 xl".split()


def main() -> None:
    """Writes both files beside this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED, help="another seed makes other products")
    random = np.random.default_rng(parser.parse_args().seed)
    products = [_product(random) for _ in range(ROWS + TEST)]
    known = random.permutation(ROWS) < LABELLED * ROWS
    _write("products.csv", [(text, tags if on else "") for (text, tags), on in zip(products, known)])
    _write("test.csv", products[ROWS:])


def _product(random: np.random.Generator) -> tuple[str, str]:
    department = str(random.choice(list(WORDS)))
    own, kinds = WORDS[department]
    chosen = random.choice(list(kinds), 1 + (random.random() < 0.2), replace=False).tolist()
    words = [w for kind in chosen for w in random.choice(kinds[kind].split(), 2, replace=False)]
    words += random.choice(own.split(), 1).tolist() + random.choice(FILLER, 3).tolist()
    if random.random() < 0.3:  # a word of anything else
        other, more = WORDS[str(random.choice(list(WORDS)))]
        words.append(str(random.choice(" ".join([other, *more.values()]).split())))
    return " ".join(random.permutation(words)), " ".join([department, *chosen])


def _write(name: str, rows: list[tuple[str, str]]) -> None:
    with (Path(__file__).parent / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["text", "tags"])
        writer.writerows(rows)


if __name__ == "__main__":
    main()
