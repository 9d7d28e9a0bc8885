"""Learns to read digits from sums: of each pair of pictures only the total is known.

python examples/digit_sums/train.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from dssl import DSSLClassifier, LabelSpace

HERE = Path(__file__).parent
PAIRS, TEST, SEED = 600, 500, 0  # pairs to learn from, digits to test on, seed of the split


def main() -> None:
    """Trains on sums, with and without some digits told, and on those digits alone; compares them on new digits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the sums only, for a moment")
    args = parser.parse_args()
    torch.set_num_threads(1)  # such small matrices gain nothing from more

    space = LabelSpace.read(HERE / "digit_sums.rules")
    pictures, digits = load_digits(return_X_y=True)
    pictures = pictures.reshape(-1, 8, 8)
    rows = np.random.default_rng(SEED).permutation(len(digits))
    pairs, test = rows[: 2 * PAIRS].reshape(-1, 2), rows[-TEST:].reshape(-1, 2)  # no picture is in two
    print(f"{len(pairs)} pairs, {space.count()} valid labels of {10 * 10 * 19:,}\n")
    print(f"{'known':36}{'digits right':>14}{'sums right':>12}{'invalid':>9}")
    for name, told, sums in (
        ("all sums", 0, True),
        ("all sums, digits of 20 pairs", 20, True),
        ("digits of 20 pairs", 20, False),
    )[: 1 if args.quick else 3]:
        model = DSSLClassifier(space, calibrate=False, steps=200 if args.quick else None, random_state=SEED)
        found = model.fit(pictures[pairs], known(digits[pairs], told=told, sums=sums)).predict(pictures[test])
        invalid = len(space.check(found))
        right, sums_right = np.mean(found[:, :2] == digits[test]), np.mean(found[:, 2] == digits[test].sum(axis=1))
        print(f"{name:36}{right:14.1%}{sums_right:12.1%}{invalid:9}")


def known(digits: NDArray[np.int64], *, told: int, sums: bool) -> NDArray[np.float64]:
    """Labels (n, 3) of which only totals are known, but for the first `told` rows; without `sums`, those rows only."""
    out = np.column_stack([digits, digits.sum(axis=1)]).astype(float)
    out[told:, : 2 if sums else 3] = np.nan
    return out


if __name__ == "__main__":
    main()
