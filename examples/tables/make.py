"""Makes four data sets as people have them: a mixed table, tickets with tags, a folder of images, and Parquet.

    python examples/tables/make.py FOLDER

    shop.csv, shop_test.csv, shop.rules   titles, prices with decimal commas, dates, weights with units, colours;
                                          a kind of product and its department
    tickets.csv, tickets_test.csv         messages with several tags in one cell
    shapes/, shapes_test/                 small images in sub-folders that name their class, and many without
    meter.parquet, meter_test.parquet     readings of meters, with times, gaps and identifiers

About one row in ten of what is learned from is labelled, and all rows that are tested.
"""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

ROWS, TEST, LABELLED, SEED = 1500, 600, 0.12, 0
KINDS = {
    "knife": ("kitchen", "blade steel sharp handle chef"),
    "pan": ("kitchen", "nonstick lid induction steel handle"),
    "tent": ("outdoor", "dome waterproof poles light person"),
    "stove": ("outdoor", "gas burner fuel windshield light"),
    "spade": ("garden", "digging steel handle soil ash"),
    "bench": ("garden", "teak seat patio folding cushion"),
}
SAYS_NOTHING = "new our best quality classic very fine gift value for every home and with the a this".split()
TAGS = {
    "login": "password sign account locked reset email",
    "billing": "invoice charged refund card payment twice",
    "crash": "freezes error closes crash restart screen",
    "slow": "slow loading minutes wait lag hangs",
    "export": "export file csv download report column",
}


def main() -> None:
    """Writes all files into a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=SEED, help="another seed makes other data")
    asked = parser.parse_args()
    make(asked.folder, asked.seed)


def make(folder: Path, seed: int = SEED) -> None:
    """The four data sets."""
    folder.mkdir(parents=True, exist_ok=True)
    shop(folder, np.random.default_rng(seed))
    tickets(folder, np.random.default_rng(seed + 1))
    shapes(folder, np.random.default_rng(seed + 2))
    meters(folder, np.random.default_rng(seed + 3))


def _hidden(frame: pl.DataFrame, labels: list[str], random: np.random.Generator) -> pl.DataFrame:
    """The frame with labels in a few rows only."""
    known = pl.Series(random.permutation(len(frame)) < LABELLED * len(frame))
    return frame.with_columns(pl.when(known).then(pl.col(name)).alias(name) for name in labels)


# ---- a mixed table ----


def shop(folder: Path, random: np.random.Generator) -> None:
    """Products with a title, a price, a weight, a date and a colour, to be told by kind and department."""
    frame = pl.DataFrame([_product(random, number) for number in range(ROWS + TEST)])
    labels = ["Department ", "kind"]  # careless, as files are
    _hidden(frame[:ROWS], labels, random).write_csv(folder / "shop.csv", separator=";")
    frame[ROWS:].write_csv(folder / "shop_test.csv", separator=";")
    departments = dict.fromkeys(department for department, _ in KINDS.values())
    rules = [f"department: {{{', '.join(departments)}}}", f"kind: {{{', '.join(KINDS)}}}"]
    rules += [f"kind = {kind} -> department = {department}" for kind, (department, _) in KINDS.items()]
    (folder / "shop.rules").write_text("\n".join(rules) + "\n")


def _product(random: np.random.Generator, number: int) -> dict[str, str]:
    place = int(random.integers(len(KINDS)))
    kind = list(KINDS)[place]
    department, words = KINDS[kind]
    own = random.choice(words.split(), 2, replace=False).tolist()
    if random.random() < 0.25:  # a title that names another kind too
        own[0] = str(random.choice(KINDS[str(random.choice(list(KINDS)))][1].split()))
    title = random.permutation([*own, *random.choice(SAYS_NOTHING, 5)])
    price = float(np.exp(random.normal(3 + 0.4 * place, 0.6)))
    weight = float(np.exp(random.normal(0.3 * (5 - place), 0.5)))
    since = datetime(2019, 1, 1) + timedelta(days=int(random.integers(900)))
    return {
        "No": str(90_000 + (number * 7919) % 99_991),
        "title": " ".join(title),
        "price": "n/a" if random.random() < 0.05 else f"{price:,.2f} €".translate(str.maketrans(",.", ".,")),
        "weight": f"{weight:.1f} kg".replace(".", ","),
        "since": f"{since:%d.%m.%Y}",
        "colour": str(random.choice(["black", "blue", "green", "red"])),
        "Department ": department,
        "kind": kind,
    }


# ---- tickets ----


def tickets(folder: Path, random: np.random.Generator) -> None:
    """Messages to a help desk, tagged with one or two of five tags."""
    frame = pl.DataFrame([_ticket(random) for _ in range(ROWS + TEST)])
    _hidden(frame[:ROWS], ["tags"], random).write_csv(folder / "tickets.csv")
    frame[ROWS:].write_csv(folder / "tickets_test.csv")


def _ticket(random: np.random.Generator) -> dict[str, str]:
    tags = random.choice(list(TAGS), 1 + int(random.random() < 0.35), replace=False).tolist()
    words = [word for tag in tags for word in random.choice(TAGS[tag].split(), 2, replace=False)]
    words += random.choice(SAYS_NOTHING, 8).tolist()
    if random.random() < 0.2:
        words.append(str(random.choice(TAGS[str(random.choice(list(TAGS)))].split())))
    sent = datetime(2023, 1, 1) + timedelta(minutes=int(random.integers(500_000)))
    return {
        "sent": f"{sent:%Y-%m-%d %H:%M}",
        "paying": str(random.choice(["yes", "no"])),
        "message": " ".join(random.permutation(words)),
        "tags": " ".join(sorted(tags)),
    }


# ---- images ----


def shapes(folder: Path, random: np.random.Generator) -> None:
    """Small grey images of discs, squares and crosses, with noise; most of them without a class."""
    from PIL import Image

    names = ("cross", "disc", "square")
    for where, count, labelled in (("shapes", 600, LABELLED), ("shapes_test", 300, 1.0)):
        for number in range(count):
            kind = str(random.choice(names))
            known = kind if number < labelled * count else "unlabelled"
            place = folder / where / known
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(_shape(kind, random)).save(place / f"{number:04}.png")


def _shape(kind: str, random: np.random.Generator, size: int = 14) -> np.ndarray:
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    x, y, radius = x - random.normal(0, 1), y - random.normal(0, 1), random.uniform(3, 5)
    inside = {
        "disc": np.hypot(x, y) < radius,
        "square": np.maximum(abs(x), abs(y)) < 0.85 * radius,
        "cross": (np.minimum(abs(x), abs(y)) < 1.2) & (np.maximum(abs(x), abs(y)) < radius),
    }[kind]
    return np.clip(120 * inside + random.normal(60, 35, (size, size)), 0, 255).astype(np.uint8)


# ---- Parquet ----


def meters(folder: Path, random: np.random.Generator) -> None:
    """Readings of meters, to be told by the kind of building they are in."""
    n = ROWS + TEST
    kinds = np.array(["home", "office", "shop"])
    place = random.integers(0, 3, n)
    hour = np.where(place == 0, random.normal(19, 4, n), random.normal(12 + 2 * (place == 2), 3, n)) % 24
    start = datetime(2022, 1, 1)
    times = [start + timedelta(days=int(d), hours=float(h)) for d, h in zip(random.integers(0, 730, n), hour)]
    frame = pl.DataFrame(
        {
            "meter_id": random.permutation(10**6)[:n],
            "read_at": times,
            "power": np.exp(random.normal(0.7 * place, 0.7, n)),
            "phase": pl.Series(random.choice([None, 0.9, 0.95, 1.0], n).tolist(), dtype=pl.Float64),
            "three_phase": random.random(n) < 0.2 + 0.3 * place,
            "building": kinds[place],
        }
    )
    _hidden(frame[:ROWS], ["building"], random).write_parquet(folder / "meter.parquet")
    frame[ROWS:].write_parquet(folder / "meter_test.parquet")


if __name__ == "__main__":
    main()
