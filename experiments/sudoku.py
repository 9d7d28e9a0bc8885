"""Learning to read digits from one image of each and squares known to be valid sudokus, 4×4.

    DSSL_DATA=… python experiments/sudoku.py                  # everything; what is done is not done again
    DSSL_DATA=… python experiments/sudoku.py --boards 5 30    # some numbers of boards

A board is 16 images of the digits 1 to 4 from MNIST, arranged as one of the 288 valid squares. A small convolutional
network reads each cell alone (`DSSLClassifier(…, elements="cell")`). It is told four cells of one board, one of each
digit, and has boards of which nothing is known but that they are valid: the prior over all 16 cells at once says so.
Training boards are of MNIST's training images and test boards of its test images, no image twice; which images and
squares depends on the seed, the test boards do not. Nothing is tuned: λ is 1, and all methods have the same network,
steps and batches.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ledger import Case, Ledger, calibration_error, markdown, percent, summary
from torch import Tensor, nn

from dssl import DSSLClassifier
from dssl.data.published import Split, load_mnist
from dssl.logic.space import LabelSpace
from dssl.models.decoding import Decoder
from dssl.priors import DeterministicPrior, ExclusivityPrior, Prior, PseudoLabelPrior, TNormPrior

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Settings:
    seeds: int = 5
    boards: tuple[int, ...] = (5, 30, 300)
    test_boards: int = 200
    steps: int = 300
    batch: int = 16  # boards per step
    lr: float = 3e-3
    weight: float = 1.0  # λ
    ramp: float = 0.3  # share of the steps in which it rises
    channels: tuple[int, ...] = (8, 16, 32)


NONE, ALL = "none", "all"
METHODS = {
    NONE: "no rules",
    "t-norm": "t-norm, product",
    "semantic": "semantic loss, T = 1",
    "dp2": "DP, T = 2",
    "dp10": "DP, T = 10",
    "pl": "PL, the best board",
    ALL: "all cells labelled",
}
ASTRAY = 0.9  # share of cells right, decoded with the rules, below which a run went astray
PRIORS = tuple(method for method in METHODS if method not in (NONE, ALL))


# ---- boards ----

CELLS = tuple(product(range(4), repeat=2))


def groups() -> list[list[int]]:
    """The cells of each row, column and block."""
    of: tuple[Callable[[int, int], Any], ...] = (lambda r, c: r, lambda r, c: c, lambda r, c: (r // 2, c // 2))
    return [[i for i, cell in enumerate(CELLS) if key(*cell) == k] for key in of for k in {key(*c): 0 for c in CELLS}]


@cache
def space() -> LabelSpace:
    """Sixteen cells of four values, different within each row, column and block."""
    names = [f"cell[{row}, {column}]" for row, column in CELLS]
    pairs = dict.fromkeys(pair for group in groups() for pair in combinations(group, 2))
    return LabelSpace("\n".join(["cell[0..3, 0..3]: 1..4", *(f"{names[a]} != {names[b]}" for a, b in pairs)]))


@cache
def decoder() -> Decoder:
    return Decoder(space())


@cache
def squares() -> np.ndarray:
    """All valid boards (288, 16), of values from 0."""
    return np.array([list(board.values()) for board in space().valid()]) - 1


def is_valid(boards: np.ndarray) -> np.ndarray:
    """Which boards (n, 16) have each value once in each row, column and block."""
    return np.array([all(len(set(board[group])) == 4 for group in groups()) for board in boards])


def compose(digits: np.ndarray, count: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Boards at random: which image is in each cell (count, 16), no image twice, and the values from 0."""
    values = squares()[rng.integers(len(squares()), size=count)]
    images = np.empty_like(values)
    for value in range(4):
        here = values == value
        images[here] = rng.choice(np.flatnonzero(digits == value + 1), here.sum(), replace=False)
    return images, values


def pixels(part: Split, images: np.ndarray) -> np.ndarray:
    """Boards (n, 16, 28, 28) of bytes."""
    return np.asarray(part.x[images, 0])


mnist = cache(load_mnist)


@cache
def test_boards(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The images (count, 16, 28, 28) and values (count, 16) of the boards to read."""
    part = mnist().test
    images, values = compose(part.y, count, np.random.default_rng(0))
    return pixels(part, images), values


# ---- one run ----


def make_network(channels: Sequence[int]) -> nn.Module:
    """Strided convolutions, and a linear layer to the four digits."""
    stages: list[nn.Module] = []
    before = 1
    for after in channels:
        size = 5 if before == 1 else 3
        stages += [nn.Conv2d(before, after, size, 2, padding=size // 2), nn.GroupNorm(4, after), nn.ReLU()]
        before = after
    return nn.Sequential(*stages, nn.Flatten(), nn.Linear(before * 16, 4))


def prior_of(method: str) -> Prior | None:
    makers: dict[str, Callable[[LabelSpace], Prior]] = {
        "t-norm": TNormPrior,
        "semantic": ExclusivityPrior,
        "pl": PseudoLabelPrior,
    }
    if method.startswith("dp"):
        return DeterministicPrior(space(), float(method[2:]))
    return makers[method](space()) if method in makers else None


def known(values: np.ndarray, method: str) -> np.ndarray:
    """Labels (n, 16) of boards: of the first, one cell of each value; of others none, or all."""
    y = np.full(values.shape, np.nan)
    for value in range(4):
        y[0, np.flatnonzero(values[0] == value)[0]] = value + 1
    return np.vstack([y[:1], values[1:] + 1]) if method == ALL else y


def one(boards: int, method: str, seed: int, settings: Settings) -> dict[str, Any]:
    """What a network reads on the test boards."""
    train = mnist().train
    torch.manual_seed(seed)
    images, values = compose(train.y, boards + 1, np.random.default_rng(seed))
    model = DSSLClassifier(
        space(),
        prior_of(method),
        make_network(settings.channels),
        elements="cell",
        prior_weight=settings.weight,
        consistency=None,
        objective={"constrained": False, "balance": 0, "ramp": settings.ramp, "rising": False},
        steps=settings.steps,
        learning_rate=settings.lr,
        batch_size=settings.batch,
        settings={"unlabelled_batch": settings.batch},
        random_state=seed,
    ).fit(pixels(train, images), known(values, method))
    pictures, truth = test_boards(settings.test_boards)
    return measure(model._logits(pictures), truth)


def measure(logits: Tensor, values: np.ndarray) -> dict[str, float]:
    """Shares of cells and of whole boards read right, of valid ones, and calibration errors of cells; (boards, 64).

    Each cell by itself (no prefix), and the most probable valid board ("rules_").
    """
    ways = {"": (decoder().raw, decoder().theta), "rules_": (decoder().best, decoder().marginals)}
    out = {}
    for name, (decide, believe) in ways.items():
        read = decide(logits).reshape(-1, 16, 4).argmax(-1)
        belief = believe(logits).reshape(-1, 16, 4)
        hits = read == values
        confidence = np.take_along_axis(belief, read[..., None], -1)
        out[f"{name}cells"] = float(hits.mean())
        out[f"{name}whole"] = float(hits.all(1).mean())
        out[f"{name}valid"] = float(is_valid(read).mean())
        out[f"{name}calibration"] = calibration_error(confidence.ravel(), hits.ravel())
    return {name: round(value, 5) for name, value in out.items()}


# ---- records ----


def cases(boards: Sequence[int], settings: Settings, seeds: int) -> list[Case]:
    """Every prior with each number of boards; no rules with none, and all labels with the most."""
    kinds = [(0, NONE), *((count, method) for count in boards for method in PRIORS), (max(settings.boards), ALL)]
    return [{"boards": count, "method": method, "seed": seed} for count, method in kinds for seed in range(seeds)]


MEASURES = [f"{way}{what}" for way in ("", "rules_") for what in ("cells", "whole", "valid", "calibration")]
TABLES = {
    "cells": "Cells read right, each by itself",
    "whole": "Whole boards read right, each cell by itself",
    "rules_whole": "Whole boards read right, decoded with the rules",
}


def page(record: dict[str, Any]) -> str:
    """The part of docs/results.md."""
    settings = record["settings"]
    found = {(r["boards"], r["method"]): r for r in summary(record["runs"], by=("boards", "method"), of=MEASURES)}
    counts = [count for count in settings["boards"] if any(of == count for of, _ in found)]
    most, least = max(counts), min(counts)
    without = found[0, NONE]
    tables = []
    for measure, title in TABLES.items():
        lines = [[METHODS[m], *(_cell(found, count, m, measure) for count in counts)] for m in PRIORS]
        tables.append(f"{title}, by number of boards:\n\n{markdown(['', *map(str, counts)], lines)}\n")
    rows = [without, *(found[most, m] for m in (*PRIORS, ALL) if (most, m) in found)]
    head = ("cells", "whole boards", "valid", "calibration")
    whole = markdown(
        ["", *head, *(f"{column}, with rules" for column in head)],
        [[METHODS[row["method"]], *(percent(row, measure) for measure in MEASURES)] for row in rows],
    )
    worst, best = _extremes(found, most)
    last, first = _extremes(found, least)
    invalid = sum(run["rules_valid"] < 1 for run in record["runs"])
    return f"""## Sudoku, 4×4

`dssl reproduce sudoku`. Boards of 16 MNIST digits from 1 to 4. A small convolutional network reads each cell alone; it
gets the labels of four cells of one board, one of each digit, and boards of which it is known only that they are valid
sudokus: {len(squares())} of the 4¹⁶ possible squares are. The prior is over the 16 cells of a board at once. λ
is {settings["weight"]:g}, nothing is tuned, {settings["seeds"]} seeds; {settings["test_boards"]} test boards of other
images. *No rules* learns from the four cells alone, *all cells labelled* also from the cells of {most} boards.

{chr(10).join(tables)}
With {most} boards; "valid" are boards that obey the rules, and calibration is the expected error of the probability of
the value read in a cell, by itself and given the rules:

{whole}

![Cells and boards read right by number of boards](pictures/sudoku.svg)

* Cells read right without rules {percent(without, "cells")} %, with {most} boards between {percent(worst, "cells")} %
  (*{METHODS[worst["method"]]}*) and {percent(best, "cells")} % (*{METHODS[best["method"]]}*).
* With {least} boards they are {"close to each other" if first["cells"] - last["cells"] < 0.03 else "apart"}:
  {percent(last, "cells")} % (*{METHODS[last["method"]]}*) to
  {percent(first, "cells")} % (*{METHODS[first["method"]]}*).
* Runs that go astray, with less than {100 * ASTRAY:.0f} % of cells right even when decoded (digits are exchanged, and
  the boards are valid but wrong), of all with boards: {_astray(record["runs"])}.
* Every board decoded with the rules is valid: {"met" if not invalid else f"missed in {invalid} runs"}. Decoding alone
  takes a network that learned without rules from {percent(without, "whole")} % to
  {percent(without, "rules_whole")} % of whole boards.
"""


def _astray(runs: Sequence[Case]) -> str:
    """How many runs of each prior ended at a wrong reading that the rules cannot mend."""
    parts = []
    for method in PRIORS:
        cells = [run["rules_cells"] for run in runs if run["method"] == method]
        parts.append(f"*{METHODS[method]}* {sum(share < ASTRAY for share in cells)} of {len(cells)}")
    return "; ".join(parts)


def _extremes(found: dict[tuple[int, str], Case], boards: int) -> tuple[Case, Case]:
    """The priors that read the fewest and the most cells right with so many boards."""
    rows = sorted((found[boards, m] for m in PRIORS if (boards, m) in found), key=lambda row: row["cells"])
    return rows[0], rows[-1]


def _cell(found: dict[tuple[int, str], Case], boards: int, method: str, measure: str) -> str:
    return percent(found[boards, method], measure) if (boards, method) in found else "–"


def figures(record: dict[str, Any]) -> None:
    """Cells and boards read right by number of boards, one line per method."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "dssl"
    rows = summary(record["runs"], by=("boards", "method"), of=MEASURES)
    figure = Figure(figsize=(11, 4), layout="constrained")
    for place, (measure, title) in enumerate(TABLES.items(), 1):
        axes = figure.add_subplot(1, 3, place)
        for method in PRIORS:
            line = [row for row in rows if row["method"] == method]
            values, errors = ([100 * row[f"{measure}{end}"] for row in line] for end in ("", "_error"))
            axes.errorbar([row["boards"] for row in line], values, yerr=errors, marker=".", label=METHODS[method])
        for method, style in ((NONE, ":"), (ALL, "--")):
            for row in (row for row in rows if row["method"] == method):
                axes.axhline(100 * row[measure], linestyle=style, color="grey", label=METHODS[method])
        axes.set_xscale("log")
        axes.set_xticks(record["settings"]["boards"], map(str, record["settings"]["boards"]))
        axes.minorticks_off()
        axes.set_ylim(-3, 103)
        axes.set_xlabel("boards known to be valid")
        axes.set_ylabel("%")
        axes.set_title(title.replace(", ", ",\n"), fontsize="medium")
    figure.legend(*axes.get_legend_handles_labels(), fontsize="small", loc="outside lower center", ncols=7)
    figure.savefig(_HERE.parent / "docs" / "pictures" / "sudoku.svg", metadata={"Date": None})


def main() -> None:
    settings = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", nargs="+", type=int, choices=settings.boards, default=list(settings.boards))
    parser.add_argument("--seeds", type=int, default=settings.seeds, help="how many of the seeds to do")
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time; 0: one a processor")
    chosen = parser.parse_args()
    if "DSSL_DATA" not in os.environ:
        parser.error("set DSSL_DATA to the data folder")
    ledger = Ledger("sudoku", settings)
    ledger.complete(partial(one, settings=settings), cases(chosen.boards, settings, chosen.seeds), jobs=chosen.jobs)
    ledger.keep(cases(settings.boards, settings, settings.seeds))
    for row in summary(ledger.runs, by=("boards", "method"), of=MEASURES):
        print(f"{row['boards']:>4} {METHODS[row['method']]:22}", *(percent(row, measure) for measure in MEASURES))


if __name__ == "__main__":
    main()
